//! `cf tasks …`: what is to be done.

use std::path::PathBuf;

use cf_core::{TaskKey, TaskRef, TaskStatus};
use clap::{Args, Subcommand, ValueEnum};

use super::Group;
use super::values::{any_status, count, key, value, variable, whole_number};
use crate::config::{EngineName, Limit};
use crate::plan::{LAST_PRIORITY, PlanFormat};

// `cf tasks …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum TasksCommand {
    /// Add a task
    #[command(after_long_help = "\
Examples:
  cf tasks add \"Write the parser\" --key parser --run ./parser.sh
  cf tasks add \"Write the docs\" --depends-on parser --file docs.md
  cf tasks add \"Fix the crash\" --issue octocat/hello-world#12")]
    Add(AddArgs),
    /// List the tasks
    List(ListArgs),
    /// Show one task with its questions, attempts and history
    Show(ShowArgs),
    /// Set something of several tasks at once
    Set(Group<SetCommand>),
    /// Change a task
    Edit(EditArgs),
    /// Delete tasks; their history stays
    #[command(
        after_help = "Refused for a task that others depend on or that runs, unless --force is given."
    )]
    Delete(DeleteArgs),
    /// Make a task depend on others, or no longer
    #[command(after_help = "Example: cf tasks depend docs parser    docs waits for parser")]
    Depend(DependArgs),
    /// Tie a task to GitHub issues or pull requests
    #[command(
        after_help = "When a linked issue is closed or a pull request merged, the task is skipped or its agent \
                            stopped.\n\nExamples:\n  cf tasks link parser octocat/hello-world#12\n  \
                            cf tasks link parser --pr octocat/hello-world#13\n  \
                            cf tasks link parser https://github.com/octocat/hello-world/pull/13"
    )]
    Link(LinkArgs),
    /// Untie a task from GitHub issues or pull requests
    Unlink(UnlinkArgs),
    /// Add the tasks of a plan file, or update those with the same key
    #[command(
        after_help = "Statuses are left alone. Everything of a plan is imported, or nothing. In CSV the first line \
                            names the columns, which are the fields of [[task]] and env.NAME."
    )]
    Import(ImportArgs),
    /// Write tasks as a plan file, which imports to the same
    Export(ExportArgs),
    /// Draw what depends on what
    Graph(GraphArgs),
}

// `cf tasks add`.
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// What it is called
    pub(crate) title: String,
    /// A short unique name: lower-case letters, digits, `.`, `_`, `-`
    #[arg(long, value_parser = key, value_name = "K")]
    pub(crate) key: Option<TaskKey>,
    /// What is to be done, in full
    #[arg(long, value_name = "D")]
    pub(crate) description: Option<String>,
    /// Read the description from a file; `-` reads standard input
    #[arg(long, value_name = "F", conflicts_with = "description")]
    pub(crate) file: Option<PathBuf>,
    /// A script that does it, run by /bin/sh, instead of an agent
    #[arg(long, value_name = "SCRIPT")]
    pub(crate) run: Option<String>,
    /// A command that decides whether the result is good
    #[arg(long, value_name = "CMD")]
    pub(crate) verify: Option<String>,
    /// A task that must be done first; may be given several times
    #[arg(long, value_name = "TASK")]
    pub(crate) depends_on: Vec<TaskRef>,
    /// How urgent it is; 0 is most urgent [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = priority)]
    pub(crate) priority: Option<i64>,
    #[command(flatten)]
    pub(crate) agent: AgentFlags,
    /// A GitHub issue to tie it to: OWNER/REPO#N or its address; may be given several times
    #[arg(long, value_name = "LINK")]
    pub(crate) issue: Vec<String>,
    /// A pull request to tie it to; may be given several times
    #[arg(long, value_name = "LINK")]
    pub(crate) pr: Vec<String>,
    /// Add it to this batch, which has not ended; a running one takes it up at once
    #[arg(long, value_name = "ID")]
    pub(crate) batch: Option<TaskRef>,
}

// How a task's agent is started.
#[derive(Debug, Args)]
pub(crate) struct AgentFlags {
    /// What runs it, instead of the engine of the batch
    #[arg(long, value_parser = value::<EngineName>, value_name = "E")]
    pub(crate) engine: Option<EngineName>,
    /// The model that the engine is told to use
    #[arg(long, value_name = "M")]
    pub(crate) model: Option<String>,
    /// The limit of one attempt, instead of the batch's
    #[arg(long, value_parser = value::<Limit>, value_name = "D", allow_negative_numbers = true)]
    pub(crate) timeout: Option<Limit>,
    /// A variable for its agent's environment; may be given several times
    #[arg(long, value_parser = variable, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<(String, String)>,
}

// `cf tasks list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only tasks with this status; may be given several times
    #[arg(long, value_parser = any_status(), hide_possible_values = true, value_name = "S", value_delimiter = ',')]
    pub(crate) status: Vec<TaskStatus>,
    /// At most so many, those that were added first
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) limit: Option<usize>,
}

// `cf tasks show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The task (key, id, or the first 4 or more characters of an id)
    pub(crate) task: TaskRef,
}

// `cf tasks set …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum SetCommand {
    /// Say where tasks stand
    #[command(
        after_help = "Statuses: BACKLOG, READY, IN_PROGRESS, BLOCKED, FAILED, DONE, MERGED, in any case. A running \
                            batch sees the change at once.\n\nExample: cf tasks set status parser docs done"
    )]
    Status(SetStatusArgs),
}

// `cf tasks set status`.
#[derive(Debug, Args)]
pub(crate) struct SetStatusArgs {
    /// The tasks; `self` for an agent's own
    #[arg(value_name = "TASK", required = true, num_args = 1..)]
    pub(crate) tasks: Vec<TaskRef>,
    /// The status
    #[arg(value_name = "STATUS", required = true, value_parser = any_status(), hide_possible_values = true)]
    pub(crate) status: TaskStatus,
}

/// A field of a task that can be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Field {
    /// The key.
    Key,
    /// The description.
    Description,
    /// The script.
    Run,
    /// The verification.
    Verify,
    /// The engine.
    Engine,
    /// The model.
    Model,
    /// The limit.
    Timeout,
    /// The variables.
    Env,
}

// `cf tasks edit`.
#[derive(Debug, Args)]
pub(crate) struct EditArgs {
    /// The task
    pub(crate) task: TaskRef,
    /// A new title
    #[arg(long, value_name = "T")]
    pub(crate) title: Option<String>,
    /// A new key
    #[arg(long, value_parser = key, value_name = "K")]
    pub(crate) key: Option<TaskKey>,
    /// A new description
    #[arg(long, value_name = "D")]
    pub(crate) description: Option<String>,
    /// Read the new description from a file; `-` reads standard input
    #[arg(long, value_name = "F", conflicts_with = "description")]
    pub(crate) file: Option<PathBuf>,
    /// A new script
    #[arg(long, value_name = "SCRIPT")]
    pub(crate) run: Option<String>,
    /// A new verification
    #[arg(long, value_name = "CMD")]
    pub(crate) verify: Option<String>,
    /// A new priority
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = priority)]
    pub(crate) priority: Option<i64>,
    #[command(flatten)]
    pub(crate) agent: AgentFlags,
    /// Empty a field; may be given several times
    #[arg(long, value_name = "FIELD", value_delimiter = ',')]
    pub(crate) clear: Vec<Field>,
}

// `cf tasks delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    /// The tasks
    #[arg(value_name = "TASK", required = true)]
    pub(crate) tasks: Vec<TaskRef>,
    /// Delete them although others depend on them, or they run
    #[arg(long)]
    pub(crate) force: bool,
}

// `cf tasks depend`.
#[derive(Debug, Args)]
pub(crate) struct DependArgs {
    /// The task that waits
    pub(crate) task: TaskRef,
    /// The tasks that must be done first
    #[arg(value_name = "ON", required = true)]
    pub(crate) on: Vec<TaskRef>,
    /// End the dependency instead
    #[arg(long)]
    pub(crate) remove: bool,
}

// `cf tasks link`.
#[derive(Debug, Args)]
pub(crate) struct LinkArgs {
    /// The task
    pub(crate) task: TaskRef,
    /// Issues or pull requests: an address, or OWNER/REPO#N for an issue
    #[arg(value_name = "LINK", required_unless_present_any = ["issue", "pr"])]
    pub(crate) links: Vec<String>,
    /// An issue; may be given several times
    #[arg(long, value_name = "LINK")]
    pub(crate) issue: Vec<String>,
    /// A pull request; may be given several times
    #[arg(long, value_name = "LINK")]
    pub(crate) pr: Vec<String>,
}

// `cf tasks unlink`.
#[derive(Debug, Args)]
pub(crate) struct UnlinkArgs {
    /// The task
    pub(crate) task: TaskRef,
    /// The issues or pull requests: OWNER/REPO#N or their addresses
    #[arg(value_name = "LINK", required = true)]
    pub(crate) links: Vec<String>,
}

// `cf tasks import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// The plan file; `-` reads standard input
    #[arg(value_name = "PLAN")]
    pub(crate) file: PathBuf,
    /// How it is written [default: by the name's ending, else toml]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<PlanFormat>,
}

/// How exported tasks are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    // The words explain themselves.
    Toml,
    Json,
}

// `cf tasks export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only these tasks, and none of what they depend on otherwise [default: all]
    #[arg(value_name = "TASK")]
    pub(crate) tasks: Vec<TaskRef>,
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "F")]
    pub(crate) output: Option<PathBuf>,
    /// How to write them [default: json with --json or for a file.json, else toml]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<ExportFormat>,
}

/// How a graph is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// Indented lines.
    Text,
    /// A Mermaid flowchart.
    Mermaid,
    /// Graphviz.
    Dot,
}

// `cf tasks graph`.
#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// How to draw it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: GraphFormat,
}

fn priority(text: &str) -> Result<i64, String> {
    whole_number(text, 0, LAST_PRIORITY)
}
