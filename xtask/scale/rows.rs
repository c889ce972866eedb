//! The commands that are measured, and how each may grow.

/// What a command's cost may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grows {
    /// Nothing: it looks at a task, or at the newest of something.
    Flat,
    /// What it prints or counts: ten times as much costs at most ten times as much.
    Along,
}

/// What the commands are asked about.
pub(crate) struct Subject {
    /// The key of a task that has run in many batches.
    pub(crate) task: String,
    /// The key of a task whose agent is at work in the newest batch.
    pub(crate) running: String,
    /// The last task of the longest chain.
    pub(crate) chained: String,
    /// A batch that has ended.
    pub(crate) ended: String,
    /// The number of an event that a hundred others followed.
    pub(crate) recent: String,
}

/// A command that is measured.
pub(crate) struct Row {
    /// Its words; `{task}` and the like stand for fields of [`Subject`].
    pub(crate) words: &'static str,
    pub(crate) grows: Grows,
    /// The most that it may cost, in milliseconds; none for what prints all there is.
    pub(crate) most_ms: Option<f64>,
}

impl Row {
    /// The words for this subject.
    pub(crate) fn args(&self, about: &Subject) -> Vec<String> {
        let word = |word: &str| match word {
            "{task}" => about.task.clone(),
            "{running}" => about.running.clone(),
            "{chained}" => about.chained.clone(),
            "{ended}" => about.ended.clone(),
            "{recent}" => about.recent.clone(),
            other => other.to_owned(),
        };
        self.words.split(' ').map(word).collect()
    }
}

const fn row(words: &'static str, grows: Grows) -> Row {
    Row {
        words,
        grows,
        most_ms: Some(100.0),
    }
}

const fn whole(words: &'static str) -> Row {
    Row {
        words,
        grows: Grows::Along,
        most_ms: None,
    }
}

use Grows::{Along, Flat};

/// Every row, in the order of the table.
pub(crate) const ROWS: &[Row] = &[
    row("status", Along),
    row("status --json", Along),
    row("tasks list --status BLOCKED", Along),
    row("tasks list --limit 100", Flat),
    row("tasks list --limit 100 --json", Along),
    whole("tasks list"),
    whole("tasks list --json"),
    whole("tasks graph --format dot"),
    row("tasks show {task}", Flat),
    row("tasks show {task} --json", Flat),
    row("explain {task}", Flat),
    row("explain {running}", Flat),
    row("events --task {task}", Flat),
    row("events --last 100", Flat),
    row("events --after {recent} --json", Flat),
    whole("events --batch {ended}"),
    row("work batch status", Along),
    row("work batch status --json", Along),
    row("work batch status {ended}", Along),
    row("work batch list --limit 10", Along),
    row("work batch list", Along),
    whole("work batch report {ended}"),
    whole("work batch report {ended} --html -"),
    whole("follow {ended}"),
    row("blocker list", Along),
    whole("reconcile --dry-run"),
    row("reconcile {running} --dry-run", Flat),
    row("tasks add Another --depends-on {chained}", Flat),
    row("tasks edit {task} --title Another", Flat),
    whole("tasks depend t0 {chained}"),
    whole("run --all-ready --dry-run"),
];
