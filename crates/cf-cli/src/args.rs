//! The command line: every command and option, with its help.
//!
//! What stands here are words and simple values; names of tasks and batches are looked up later, where the store is.
//!
//! The parser of a command is made when its name has been read (`defer`): to make those of all commands took most of
//! the memory that `cf status` touched before it opened the store. What a variant says in `///` is the command's help,
//! so what it holds has `//`: its documentation would be read later and replace that.

pub(crate) mod blocker;
pub(crate) mod github;
#[cfg(test)]
mod reference;
pub(crate) mod run;
pub(crate) mod tasks;
mod values;
pub(crate) mod work;

use std::path::PathBuf;
use std::time::Duration;

use cf_core::TaskRef;
use clap::{ArgAction, Args, CommandFactory as _, Parser, Subcommand, ValueEnum};

/// Conducts batches of coding-agent tasks.
///
/// Tasks depend on each other; cf starts an agent for each, several at a time, in the order of dependencies, and while
/// they run it keeps comparing what it believes with what has become true elsewhere: a task finished by hand, a
/// question answered, an issue closed, a pull request merged.
#[derive(Debug, Parser)]
#[command(
    name = "cf",
    version,
    propagate_version = false,
    max_term_width = 100,
    after_help = "Start with `cf init`, then `cf tasks add`, then `cf run --all-ready`. \
                  Short forms: run, stop, resume, follow (work batch …), logs (work logs).",
    after_long_help = "\
Examples:
  cf init
  cf tasks add \"Write the parser\" --key parser --run ./parser.sh
  cf tasks add \"Write the docs\" --depends-on parser --engine claude-code
  cf run --all-ready --max-parallel 2
  cf run --file plan.toml

Exit codes:
  0  done
  1  cf itself failed, or refused because of what it found
  2  the command line, a plan file or the configuration is wrong
  3  a batch ended with tasks that are bad or were cut
  4  a batch ended with tasks that wait for a person
  5  a batch was stopped
  130  interrupted"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    /// Without a command: the status of the workspace, or how to make one.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The command line with every parser made: for pages and scripts that are about all of it.
pub(crate) fn whole() -> clap::Command {
    let mut cf = Cli::command();
    cf.build();
    with_whole_help(cf)
}

/// The command that clap gives to every group.
const HELP: &str = "help";

/// Tells the `help` of a command what is in its groups: clap has copied their names into it before they were read.
fn with_whole_help(command: clap::Command) -> clap::Command {
    let command = command.mut_subcommands(with_whole_help);
    let groups: Vec<clap::Command> = command
        .get_subcommands()
        .filter(|group| group.get_name() != HELP && group.has_subcommands())
        .cloned()
        .collect();
    if groups.is_empty() {
        return command;
    }
    command.mut_subcommand(HELP, |help| {
        help.mut_subcommands(|copy| {
            let group = groups
                .iter()
                .find(|group| group.get_name() == copy.get_name());
            match group {
                Some(group) => with_names_of(copy, group),
                None => copy,
            }
        })
    })
}

/// A command below `help`, with the names and the summaries of a group.
fn with_names_of(copy: clap::Command, group: &clap::Command) -> clap::Command {
    let above = copy.get_bin_name().unwrap_or_default().to_owned();
    let page = copy.get_display_name().unwrap_or_default().to_owned();
    let names = group
        .get_subcommands()
        .filter(|command| command.get_name() != HELP)
        .map(|command| {
            // clap has names that live as long as the program, which is about to end.
            let name: &'static str = command.get_name().to_owned().leak();
            let below = clap::Command::new(name)
                .bin_name(format!("{above} {name}"))
                .display_name(format!("{page}-{name}"))
                .disable_help_flag(true)
                .disable_help_subcommand(true)
                .about(command.get_about().cloned().unwrap_or_default());
            with_names_of(below, command)
        });
    copy.subcommands(names)
}

// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Work as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true, display_order = 900)]
    pub(crate) directory: Option<PathBuf>,
    /// Print JSON: stable shapes, ids in full, times in UTC; errors as an object on standard error
    #[arg(long, global = true, display_order = 901)]
    pub(crate) json: bool,
    /// When to use colours; NO_COLOR is honoured
    #[arg(
        long,
        value_name = "WHEN",
        global = true,
        default_value = "auto",
        display_order = 902
    )]
    pub(crate) color: Color,
    /// Print only what was asked for and errors
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        display_order = 903
    )]
    pub(crate) quiet: bool,
    /// Say more; twice says most
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 904)]
    pub(crate) verbose: u8,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    // The words explain themselves; documentation would put a line of its own into every help text.
    Auto,
    Always,
    Never,
}

impl From<Color> for clap::ColorChoice {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

// The commands.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Make a workspace: a `.cf` folder for tasks, batches and logs
    #[command(
        after_help = "A workspace is found upward from the current directory, not past the repository's root, \
                            and from any git worktree of the repository."
    )]
    Init(InitArgs),
    /// Show the workspace and its newest batch
    Status(StatusArgs),
    /// Add, show and change tasks
    Tasks(Group<tasks::TasksCommand>),
    /// Ask and answer the questions that hold tasks
    Blocker(Group<blocker::BlockerCommand>),
    /// Run tasks, alone or in a batch
    Work(Group<work::WorkCommand>),
    /// Compare the workspace with what is true elsewhere, and act on it
    #[command(
        after_help = "On a batch that is running it only shows the findings and wakes the batch, which acts \
                            on them itself."
    )]
    Reconcile(ReconcileArgs),
    /// Say why a task is where it is, and what would happen to it next
    Explain(ExplainArgs),
    /// Show the log of what happened
    Events(EventsArgs),
    /// Take over tasks from another program
    Import(Group<ImportCommand>),
    /// Make tasks from issues, and show what is known about GitHub
    Github(Group<github::GithubCommand>),
    /// Tie tasks to pull requests
    Pr(Group<github::PrCommand>),
    /// Show and check settings
    Config(Group<ConfigCommand>),
    /// Look for what is wrong with the workspace and with what it needs
    #[command(
        after_help = "Ends with 0 when nothing is wrong, else with 1. Nothing is changed without --fix, which removes \
                            only what nobody can miss and says what that was. Asks GitHub, for at most 2 s, what the \
                            token may do, and the agents on the PATH for their versions."
    )]
    Doctor(DoctorArgs),
    /// Print a script that completes commands in a shell
    #[command(
        after_help = "Example: cf completions bash > ~/.local/share/bash-completion/completions/cf"
    )]
    Completions(CompletionsArgs),
    /// Print the manual page of a command, or write all of them
    #[command(
        after_help = "Examples: cf man tasks add | man -l -\n          cf man --dir ~/.local/share/man/man1"
    )]
    Man(ManArgs),
    /// Short for `work batch run`
    #[command(after_long_help = run::RUN_EXAMPLES)]
    Run(run::RunArgs),
    /// Short for `work batch stop`
    #[command(after_help = work::STOP_HELP)]
    Stop(work::StopArgs),
    /// Short for `work batch resume`
    #[command(after_help = work::RESUME_HELP)]
    Resume(run::ResumeArgs),
    /// Short for `work batch follow`
    Follow(work::FollowArgs),
    /// Short for `work logs`
    Logs(work::LogsArgs),
}

// A group of commands, such as `cf tasks …`, whose names are not looked at before one of them is called.
#[derive(Debug, Args)]
pub(crate) struct Group<C: Subcommand> {
    #[command(subcommand)]
    pub(crate) command: C,
}

// `cf init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to make it; made when missing [default: the repository's root, else the current directory]
    pub(crate) path: Option<PathBuf>,
}

// `cf status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show it anew whenever it changes, until no batch runs
    #[arg(short, long)]
    pub(crate) watch: bool,
}

// `cf reconcile`.
#[derive(Debug, Args)]
pub(crate) struct ReconcileArgs {
    /// Only these tasks (key, id, or the first 4 or more characters of an id)
    #[arg(value_name = "TASK")]
    pub(crate) tasks: Vec<TaskRef>,
    /// Show what would be done and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

// `cf explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The task
    pub(crate) task: TaskRef,
}

// `cf events`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EventsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<EventsCommand>,
    /// Keep printing events as they happen
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only events about this task
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<TaskRef>,
    /// Only events of this batch
    #[arg(long, value_name = "ID")]
    pub(crate) batch: Option<TaskRef>,
    /// Only events after this number
    #[arg(
        long,
        value_name = "SEQ",
        default_value = "0",
        hide_default_value = true,
        value_parser = values::sequence
    )]
    pub(crate) after: u64,
    /// Only the newest so many of them; 0 for none, and with --follow only what happens from now on
    #[arg(long, value_name = "N", value_parser = values::count_or_none)]
    pub(crate) last: Option<usize>,
}

// `cf events …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum EventsCommand {
    /// Remove old events that nothing rests on any more
    #[command(
        after_help = "Nothing is ever removed by itself. What stays, however old it is: the events of batches that have \
                            not ended, and the changed dependencies and links of their tasks; what people said, set, \
                            created and deleted; the actions of sources; the outcome of each task in each batch; the newest \
                            status and the newest attempt of each task. So status, report and explain tell what they told \
                            before. It may be done while a batch runs, and be cut short: what is gone is gone, and the next \
                            call goes on."
    )]
    Prune(PruneArgs),
}

// `cf events prune`.
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Only events that are older than this, such as 90d
    #[arg(long, value_name = "D", value_parser = values::value::<Duration>, allow_negative_numbers = true)]
    pub(crate) older_than: Duration,
    /// Keep the newest N events, however old they are
    #[arg(long, value_name = "N", value_parser = values::count)]
    pub(crate) keep_last: Option<usize>,
    /// Say what would be removed, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Then write the database anew, so that the file becomes smaller: not while a batch runs, and the disk needs room
    /// for it twice more
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) shrink: bool,
}

// `cf import …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ImportCommand {
    /// Take over the tasks of a CodeFRAME workspace, with dependencies, questions and issues
    #[command(
        after_help = "Its database is only read. Tasks keep their ids, so importing again adds what is new, brings \
                            titles, descriptions and priorities up to date, and leaves statuses alone. What could not \
                            be taken is listed. For tasks from files: `cf tasks import`; from issues: `cf github import`."
    )]
    Codeframe(CodeframeArgs),
}

// `cf import codeframe`.
#[derive(Debug, Args)]
pub(crate) struct CodeframeArgs {
    /// The folder with a `.codeframe` in it [default: that of the workspace]
    pub(crate) path: Option<PathBuf>,
}

// `cf config …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum ConfigCommand {
    /// Show every setting, its value, and where that comes from
    Show,
    /// Check the settings of the workspace, of the user and of the environment
    Check,
}

// `cf doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Remove leftovers that nobody needs: files of dead supervisors, locks of ended batches
    #[arg(long)]
    pub(crate) fix: bool,
}

// `cf man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command, such as `tasks add` [default: cf itself]
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    pub(crate) command: Vec<String>,
    /// Write a page for every command into this folder, made when missing
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

// `cf completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::{HELP, whole};

    #[test]
    fn the_help_of_every_group_knows_all_that_is_in_it() {
        check(&whole());
    }

    fn check(command: &clap::Command) {
        let Some(help) = command.find_subcommand(HELP) else {
            return;
        };
        same(command, help);
        for group in command.get_subcommands() {
            if group.get_name() != HELP {
                check(group);
            }
        }
    }

    fn same(group: &clap::Command, copy: &clap::Command) {
        let names = |of: &clap::Command| -> Vec<String> {
            let names = of.get_subcommands().map(clap::Command::get_name);
            names
                .filter(|name| *name != HELP)
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(names(copy), names(group), "{copy}");
        for command in group.get_subcommands() {
            if command.get_name() == HELP {
                continue;
            }
            let below = copy.find_subcommand(command.get_name());
            let below = below.unwrap_or_else(|| panic!("{copy} lacks {command}"));
            assert_eq!(below.get_about(), command.get_about(), "{copy} {command}");
            let called = below.get_bin_name().unwrap_or_default();
            assert!(called.starts_with("cf "), "{copy} {command}: {called}");
            // Its page is called so.
            let page = below.get_display_name().unwrap_or_default();
            assert_eq!(page, called.replace(' ', "-"));
            same(command, below);
        }
    }
}
