//! `cf blocker …`: questions that hold tasks until a person answers.

use std::path::PathBuf;

use cf_core::{BlockerStatus, TaskRef};
use clap::{Args, Subcommand};

use super::values::Offered;

// `cf blocker …`.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum BlockerCommand {
    /// Ask a question; with --task the task waits for the answer
    Ask(AskArgs),
    /// List questions, open ones first
    List(ListArgs),
    /// Show one question
    Show(OneArgs),
    /// Say that a question needs no answer any more
    Resolve(ResolveArgs),
    /// Answer a question
    #[command(
        after_help = "The answer goes into the next prompt of the task, which becomes READY with its last open \
                            question answered.\n\nExamples:\n  cf blocker answer 1a2b \"Use the second schema\"\n  \
                            cf blocker answer \"Yes\"              the only open question\n  \
                            cf blocker answer parser \"Yes\"       the only open question of a task\n  \
                            cf blocker answer 1a2b --file answer.md\n  git diff | cf blocker answer 1a2b -"
    )]
    Answer(AnswerArgs),
}

// `cf blocker ask`.
#[derive(Debug, Args)]
pub(crate) struct AskArgs {
    /// The question
    pub(crate) question: String,
    /// The task that waits for the answer; `self` for an agent's own
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<TaskRef>,
}

// `cf blocker list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only questions with this status: open, answered, resolved
    #[arg(
        long,
        value_name = "STATUS",
        value_parser = Offered::new(blocker_status, BlockerStatus::ALL.iter().map(|word| word.as_str())),
        hide_possible_values = true
    )]
    pub(crate) status: Option<cf_core::BlockerStatus>,
    /// Only questions about this task
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<TaskRef>,
}

// A command about one blocker.
#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// The question's id, or its first 4 or more characters
    #[arg(value_name = "ID")]
    pub(crate) blocker: TaskRef,
}

// `cf blocker resolve`.
#[derive(Debug, Args)]
pub(crate) struct ResolveArgs {
    /// The question's id, or its first 4 or more characters; or the task, if exactly one question about it is open
    #[arg(value_name = "ID|TASK")]
    pub(crate) blocker: TaskRef,
}

// `cf blocker answer`.
#[derive(Debug, Args)]
#[command(override_usage = "cf blocker answer [OPTIONS] [ID|TASK] <TEXT|-|--file <F>>")]
pub(crate) struct AnswerArgs {
    /// The question's id, or the task, if exactly one question about it is open; may be left out when only one is open
    /// at all. Then the answer; `-` reads standard input
    #[arg(value_name = "ID|TASK|TEXT", num_args = 0..=2)]
    pub(crate) words: Vec<String>,
    /// Read the answer from a file
    #[arg(long, value_name = "F")]
    pub(crate) file: Option<PathBuf>,
}

fn blocker_status(text: &str) -> Result<cf_core::BlockerStatus, String> {
    text.to_ascii_uppercase()
        .parse()
        .map_err(|error: cf_core::UnknownWord| error.to_string())
}
