//! `cf work batch run` and `resume`, and the settings that both take as flags.

use std::path::PathBuf;
use std::time::Duration;

use cf_conductor::settings::WaitForBlockers;
use cf_core::{Isolation, OnFailure, Strategy, TaskRef};
use clap::{Arg, Args};

use super::values::{Offered, value};
use crate::config::{EngineName, Layer, Limit, Origin, Retries, Setting, Slots};

/// Examples of `cf run`.
pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  cf run parser docs               run two tasks; what else they depend on must be done
  cf run --all-ready               run every task that is READY
  cf run --file plan.toml          import a plan and run it
  cf run --all-ready --dry-run     show what would happen, and change nothing
  cf run --all-ready --max-parallel 4 --isolation worktree
  cf run --all-ready --engine claude-code";

// `cf work batch run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The tasks (key, id, or the first 4 or more characters of an id)
    #[arg(value_name = "TASK")]
    pub(crate) tasks: Vec<TaskRef>,
    /// Run every task that is READY
    #[arg(long, conflicts_with_all = ["tasks", "file"])]
    pub(crate) all_ready: bool,
    /// Import the tasks of a plan file and run them; `-` reads standard input
    #[arg(long, value_name = "PLAN", conflicts_with = "tasks")]
    pub(crate) file: Option<PathBuf>,
    /// Also run tasks that are DONE
    #[arg(long)]
    pub(crate) force: bool,
    /// Show what would happen, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Let each task go on from what its last attempt left in its worktree
    #[arg(long)]
    pub(crate) from_rescue: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

// `cf work batch resume`. The settings have the same flags as those of a run, but a batch has its own stored.
#[derive(Debug, Args)]
#[command(mut_args = else_of_the_batch)]
pub(crate) struct ResumeArgs {
    /// The batch [default: the newest unfinished one]
    #[arg(value_name = "ID")]
    pub(crate) batch: Option<TaskRef>,
    /// Take up every task of it that is not MERGED
    #[arg(long)]
    pub(crate) force: bool,
    /// Let each task go on from what its last attempt left in its worktree
    #[arg(long)]
    pub(crate) from_rescue: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// The heading of the settings in the help.
const SETTINGS: &str = "Settings of the run";

/// Says in the help of a setting that a batch which is resumed keeps what it has.
fn else_of_the_batch(arg: Arg) -> Arg {
    if arg.get_help_heading() != Some(SETTINGS) {
        return arg;
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let what = help.split(" [default: ").next().unwrap_or_default();
    let help = format!("{what} [default: the batch's]");
    arg.help(help)
}

// The settings of a run as flags. The help of a command has its headings in the order in which it got their options,
// and a parser that is made late has had the global ones already: each is put behind the others again.
#[derive(Clone, Debug, Default, Args)]
#[command(
    next_help_heading = SETTINGS,
    mut_arg("directory", |arg| arg),
    mut_arg("json", |arg| arg),
    mut_arg("color", |arg| arg),
    mut_arg("quiet", |arg| arg),
    mut_arg("verbose", |arg| arg)
)]
pub(crate) struct SettingFlags {
    /// One task at a time, or several: serial, parallel [default: serial; parallel with --max-parallel above 1]
    #[arg(
        long,
        value_parser = Offered::new(value::<Strategy>, Strategy::ALL.iter().map(|word| word.as_str())),
        hide_possible_values = true,
        value_name = "STRATEGY"
    )]
    strategy: Option<Strategy>,
    /// How many agents run at once, 1 to 10000 [default: 4 when parallel]
    #[arg(long, value_parser = value::<Slots>, value_name = "N", allow_negative_numbers = true)]
    max_parallel: Option<Slots>,
    /// What a bad task does to the rest: continue, stop [default: continue]
    #[arg(
        long,
        value_parser = Offered::new(value::<OnFailure>, OnFailure::ALL.iter().map(|word| word.as_str())),
        hide_possible_values = true,
        value_name = "WHAT"
    )]
    on_failure: Option<OnFailure>,
    /// How often a failed task is tried again [default: 0]
    #[arg(long, value_parser = value::<Retries>, value_name = "N", allow_negative_numbers = true)]
    retry: Option<Retries>,
    /// The wait before the first retry; doubles, at most 5m, each ±25 % at random [default: 5s]
    #[arg(long, value_parser = value::<Duration>, value_name = "D", allow_negative_numbers = true)]
    retry_delay: Option<Duration>,
    /// The limit of one attempt [default: none for scripts, 2h for agents]
    #[arg(long, value_parser = value::<Limit>, value_name = "D", allow_negative_numbers = true)]
    timeout: Option<Limit>,
    /// Stop an agent that shows neither output nor CPU use for so long [default: never]
    #[arg(long, value_parser = value::<Limit>, value_name = "D", allow_negative_numbers = true)]
    stall_timeout: Option<Limit>,
    /// The time between SIGTERM and SIGKILL [default: 10s]
    #[arg(long, value_parser = value::<Duration>, value_name = "D", allow_negative_numbers = true)]
    kill_grace: Option<Duration>,
    /// What runs tasks without a script: claude-code, codex, opencode, gemini, or one from the configuration
    #[arg(long, value_parser = value::<EngineName>, value_name = "ENGINE")]
    engine: Option<EngineName>,
    /// Where agents work: none (all in the workspace), worktree (each in a git worktree) [default: none]
    #[arg(
        long,
        value_parser = Offered::new(value::<Isolation>, Isolation::ALL.iter().map(|word| word.as_str())),
        hide_possible_values = true,
        value_name = "WHERE"
    )]
    isolation: Option<Isolation>,
    /// The longest time between two passes; 0 for none [default: 30s]
    #[arg(long, value_parser = value::<Duration>, value_name = "D", allow_negative_numbers = true)]
    reconcile_interval: Option<Duration>,
    /// Keep the batch open for tasks that wait for an answer, at most D
    #[arg(
        long,
        value_parser = value::<WaitForBlockers>,
        value_name = "D",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    wait_for_blockers: Option<WaitForBlockers>,
}

impl SettingFlags {
    /// The engine that the flag names.
    pub(crate) fn engine(&self) -> Option<&str> {
        self.engine.as_ref().map(|engine| engine.0.as_str())
    }

    /// The flags as the highest layer of settings.
    pub(crate) fn layer(&self) -> Layer {
        fn flag<T: Clone>(value: Option<&T>, name: &'static str) -> Option<Setting<T>> {
            value.map(|value| Setting {
                value: value.clone(),
                origin: Origin::Flag(name),
            })
        }
        Layer {
            strategy: flag(self.strategy.as_ref(), "--strategy"),
            max_parallel: flag(self.max_parallel.as_ref(), "--max-parallel"),
            on_failure: flag(self.on_failure.as_ref(), "--on-failure"),
            retry: flag(self.retry.as_ref(), "--retry"),
            retry_delay: flag(self.retry_delay.as_ref(), "--retry-delay"),
            timeout: flag(self.timeout.as_ref(), "--timeout"),
            stall_timeout: flag(self.stall_timeout.as_ref(), "--stall-timeout"),
            kill_grace: flag(self.kill_grace.as_ref(), "--kill-grace"),
            engine: flag(self.engine.as_ref(), "--engine"),
            isolation: flag(self.isolation.as_ref(), "--isolation"),
            reconcile_interval: flag(self.reconcile_interval.as_ref(), "--reconcile-interval"),
            wait_for_blockers: flag(self.wait_for_blockers.as_ref(), "--wait-for-blockers"),
            ..Layer::default()
        }
    }
}
