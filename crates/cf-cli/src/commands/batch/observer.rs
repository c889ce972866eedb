//! What a process shows of a batch that it conducts itself.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use cf_conductor::conductor::{Notice, Observer};
use cf_conductor::store::Store;
use cf_conductor::store::batch::BatchTask;
use cf_conductor::store::event::Event;
use cf_conductor::workspace::Workspace;
use cf_core::{TaskId, TaskLabel};

use crate::console::Console;
use crate::progress::Progress;

/// How often clocks and logs are looked at on a terminal. An idle conductor should hardly wake up.
const TICK: Duration = Duration::from_millis(500);

/// What this process shows of the batch that it conducts.
pub(super) struct Watched {
    progress: Progress,
    workspace: Workspace,
    /// Of the tasks with which it began, and of others of which it has been told.
    labels: HashMap<TaskId, TaskLabel>,
    /// Why the output takes nothing any more: the batch goes on, unseen.
    refused: Option<io::Error>,
}

impl Watched {
    pub(super) fn new(
        console: &Console,
        total: u64,
        workspace: &Workspace,
        labels: HashMap<TaskId, TaskLabel>,
    ) -> Self {
        Self {
            progress: Progress::new(console, total, workspace),
            workspace: workspace.clone(),
            labels,
            refused: None,
        }
    }

    /// Takes in how the tasks stand before anything is done.
    pub(super) fn stand(&mut self, places: &[BatchTask]) {
        self.progress.stand(places);
    }

    fn show(&mut self, work: impl FnOnce(&mut Progress) -> io::Result<()>) {
        if self.refused.is_none() {
            self.refused = work(&mut self.progress).err();
        }
    }

    /// Ends the showing, and returns why not everything could be shown.
    pub(super) fn finish(mut self) -> Option<io::Error> {
        self.show(Progress::finish);
        self.refused
    }

    /// The label of the task of an event. One that joined the batch later is named by the event that says so; that of
    /// another batch, whose agent this one took over, is read.
    fn label(&mut self, task: TaskId, event: &Event) -> TaskLabel {
        if let Some(known) = self.labels.get(&task) {
            return known.clone();
        }
        // What is no key is the short id that stands for it.
        let label = match event.text("label") {
            Some(label) => TaskLabel::new(task, label.parse().ok().as_ref()),
            None => match Store::open_to_read(&self.workspace)
                .and_then(|store| store.read(|reader| reader.label(task)))
            {
                Ok(label) => label,
                // A later event asks again.
                Err(_) => return TaskLabel::new(task, None),
            },
        };
        self.labels.insert(task, label.clone());
        label
    }
}

impl Observer for Watched {
    fn events(&mut self, events: &[Event]) {
        for event in events {
            let label = event.task.map(|task| self.label(task, event));
            self.show(|progress| progress.event(event, label.as_ref()));
        }
    }

    fn notice(&mut self, notice: &Notice) {
        let text = match notice {
            Notice::Unavailable { what, why } => format!("{what} fails for now: {why}"),
            Notice::Available { what } => format!("{what} answers again"),
            Notice::NotKept { worktree, why } => format!(
                "what an attempt left is still in {}, and could not be kept: {why}",
                worktree.display()
            ),
            Notice::Stopping => "stopping; once more to kill at once".to_owned(),
        };
        self.show(|progress| progress.notice(&text));
    }

    fn tick_every(&self) -> Option<Duration> {
        self.progress.is_live().then_some(TICK)
    }

    fn tick(&mut self) {
        self.show(|progress| {
            progress.tick();
            Ok(())
        });
    }
}

/// Listens to nothing.
pub(super) struct Deaf;

impl Observer for Deaf {
    fn events(&mut self, _: &[Event]) {}

    fn notice(&mut self, _: &Notice) {}
}
