//! `cf work …`: single tasks and batches.

use std::path::PathBuf;

use cf_core::TaskRef;
use clap::{Args, Subcommand};

use super::Group;
use super::run::{RUN_EXAMPLES, ResumeArgs, RunArgs, SettingFlags};
use super::values::{count, count_or_none, whole_number};

/// What `cf work batch stop` and its short form say below their options.
pub(crate) const STOP_HELP: &str = "\
Running agents may end; nothing new starts. With --force they are stopped. The batch ends as CANCELLED, and stopped \
tasks go back to READY.";

/// What `cf work batch resume` and its short form say below their options.
pub(crate) const RESUME_HELP: &str = "\
Takes up every task that is not done, with the settings of the batch; a flag given replaces the stored one. Agents \
that are still alive are taken over, not started again.";

// `cf work …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum WorkCommand {
    /// Run one task now
    Start(StartArgs),
    /// Stop the agent of a task, whichever batch runs it
    #[command(
        after_help = "The task becomes READY and is not started again in that batch; with --hold it becomes \
                            BLOCKED."
    )]
    Stop(StopTaskArgs),
    /// Print what the agent of a task has written
    Logs(LogsArgs),
    /// Merge finished work from the branches of tasks into the current branch
    #[command(
        after_help = "Merges in the order of dependencies and sets the tasks MERGED. It stops at a conflict and leaves \
                            nothing half-done; what was merged before stays. The checkout must have no changes that are \
                            not committed. Hooks are not run."
    )]
    Merge(MergeArgs),
    /// Run, watch and stop batches
    Batch(Group<BatchCommand>),
}

// `cf work batch …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum BatchCommand {
    /// Run tasks in the order of their dependencies
    #[command(after_long_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Show a batch: its tasks, and what reconciliation did
    Status(BatchStatusArgs),
    /// List the batches, newest first
    List(BatchListArgs),
    /// Stop a batch
    #[command(after_help = STOP_HELP)]
    Stop(StopArgs),
    /// Go on with a batch that has not finished
    #[command(after_help = RESUME_HELP)]
    Resume(ResumeArgs),
    /// Show a batch as it runs, until it ends
    Follow(FollowArgs),
    /// Say what became of a batch: as words, or as a page with timeline, graph and evidence
    #[command(
        after_help = "Example: cf work batch report --html report.html\n\nThe page needs no network and nothing \
                            beside it. FILE is made for you alone (mode 0600), whole or not at all, and takes the \
                            place of an older file; `-` is standard output."
    )]
    Report(ReportArgs),
}

// `cf work start`.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The task
    pub(crate) task: TaskRef,
    /// Run it although it is DONE
    #[arg(long)]
    pub(crate) force: bool,
    /// Go on from what its last attempt left in its worktree
    #[arg(long)]
    pub(crate) from_rescue: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

// `cf work stop`.
#[derive(Debug, Args)]
pub(crate) struct StopTaskArgs {
    /// The task
    pub(crate) task: TaskRef,
    /// Leave it BLOCKED instead of READY
    #[arg(long)]
    pub(crate) hold: bool,
}

// `cf work merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// The tasks [default: every DONE task whose work is on a branch]
    #[arg(value_name = "TASK")]
    pub(crate) tasks: Vec<TaskRef>,
}

// `cf work logs`.
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The task
    pub(crate) task: TaskRef,
    /// Keep printing, also what later attempts write, until no batch is at work on the task; with --attempt, until
    /// that attempt ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Which attempt, counted from 1 [default: the newest]
    #[arg(long, value_name = "N", value_parser = attempt)]
    pub(crate) attempt: Option<u32>,
}

fn attempt(text: &str) -> Result<u32, String> {
    whole_number(text, 1, u32::MAX)
}

// `cf work batch follow`.
#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// The batch [default: the newest]
    #[arg(value_name = "ID")]
    pub(crate) batch: Option<TaskRef>,
    /// Begin with its newest N events [default: 5000; with --json, all]
    #[arg(long, value_name = "N", value_parser = count_or_none)]
    pub(crate) last: Option<usize>,
}

// `cf work batch status`.
#[derive(Debug, Args)]
pub(crate) struct BatchStatusArgs {
    /// The batch [default: the newest]
    #[arg(value_name = "ID")]
    pub(crate) batch: Option<TaskRef>,
    /// Show it anew whenever it changes, until it ends
    #[arg(short, long)]
    pub(crate) watch: bool,
}

// `cf work batch list`.
#[derive(Debug, Args)]
pub(crate) struct BatchListArgs {
    /// At most so many, the newest
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) limit: Option<usize>,
}

// `cf work batch report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The batch [default: the newest]
    #[arg(value_name = "ID")]
    pub(crate) batch: Option<TaskRef>,
    /// Write a page for a browser into FILE instead; `-` writes it to standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

// `cf work batch stop`.
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The batch [default: the running one, when exactly one runs]
    #[arg(value_name = "ID")]
    pub(crate) batch: Option<TaskRef>,
    /// Stop its agents too
    #[arg(long)]
    pub(crate) force: bool,
}
