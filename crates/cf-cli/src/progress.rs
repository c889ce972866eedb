//! A batch as it happens: on a terminal a line for each agent and a bar for the whole, else a line for each event, and
//! with `--json` the events themselves.
//!
//! It is told of stored events, whether this process conducts the batch or only follows it. Where it does not see a
//! batch from the beginning, it is told how that stands at some moment, and goes on from there.

mod details;
mod live;
pub(crate) mod preview;
mod told;

use std::io::{self, Write as _};

use cf_conductor::store::StoreError;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::store::batch::BatchTask;
use cf_conductor::store::event::Event;
use cf_conductor::store::rows::EventRow;
use cf_conductor::workspace::Workspace;
use cf_core::{BatchId, TaskId, TaskLabel};

use crate::console::{self, Console, Look};
use crate::render::json::EventJson;
use crate::render::json::rows::push_event;
use live::Live;
use told::{Teller, is_told};

/// Shows a batch as it goes on.
#[derive(Debug)]
pub(crate) struct Progress {
    console: Console,
    teller: Teller,
    view: View,
}

#[derive(Debug)]
enum View {
    /// Nothing until the end.
    Quiet,
    /// The events, one JSON object a line.
    Json,
    /// A line for each event that matters.
    Lines,
    /// Lines that change in place.
    Live(Box<Live>),
}

impl Progress {
    /// Chooses the view. `total` is the number of tasks in the batch; the workspace is where its logs are.
    pub(crate) fn new(console: &Console, total: u64, workspace: &Workspace) -> Self {
        let view = if console.json {
            View::Json
        } else if console.quiet {
            View::Quiet
        } else if console.is_live() {
            View::Live(Box::new(Live::new(*console, total, workspace)))
        } else {
            View::Lines
        };
        Self {
            console: *console,
            teller: Teller::default(),
            view,
        }
    }

    /// Takes in how the tasks of the batch stand. Events after that change it.
    pub(crate) fn stand(&mut self, places: &[BatchTask]) {
        if let View::Live(live) = &mut self.view {
            live.stand(places);
        }
    }

    /// Takes in an agent that runs already.
    pub(crate) fn is_running(&mut self, attempt: &Attempt, label: &TaskLabel) {
        self.teller.is_running(attempt);
        if let View::Live(live) = &mut self.view {
            live.is_running(attempt, label);
        }
    }

    /// Shows an event. `label` is that of its task.
    ///
    /// # Errors
    ///
    /// The output refuses.
    pub(crate) fn event(&mut self, event: &Event, label: Option<&TaskLabel>) -> io::Result<()> {
        if let View::Json = self.view {
            return console::print_json(&EventJson::new(event));
        }
        let told = self.teller.tell(event, label);
        match &mut self.view {
            View::Quiet | View::Json => Ok(()),
            View::Lines => match told {
                Some(told) => {
                    let mut out = console::out();
                    writeln!(out, "{}", self.console.paint(told.look, told.text))?;
                    out.flush()
                }
                None => Ok(()),
            },
            View::Live(live) => live.event(event, label, told),
        }
    }

    /// Decides by the type and the details of a stored event whether [`Self::row`] has to do with it.
    pub(crate) fn wants(&self) -> fn(&str, &str) -> bool {
        match &self.view {
            View::Json => |_, _| true,
            View::Lines | View::Live(_) => is_told,
            View::Quiet => |_, _| false,
        }
    }

    /// Tells of an event as it is stored: what is to be printed is added to `out`, for [`Self::print`]. What changes in
    /// place stays as it is. `label` returns that of its task.
    ///
    /// # Errors
    ///
    /// The event cannot be read, or `label` refuses.
    pub(crate) fn row<'l>(
        &mut self,
        row: &EventRow<'_>,
        out: &mut Vec<u8>,
        label: impl FnOnce(TaskId) -> Result<&'l TaskLabel, StoreError>,
    ) -> Result<(), StoreError> {
        match &self.view {
            View::Json => {
                push_event(out, row)?;
                out.push(b'\n');
            }
            View::Lines | View::Live(_) => {
                if let Some(told) = self.teller.tell_row(row, label)? {
                    // A vector takes whatever is written to it.
                    let _ = writeln!(out, "{}", self.console.paint(told.look, told.text));
                }
            }
            View::Quiet => {}
        }
        Ok(())
    }

    /// Says that events of this batch before the first that is told are not.
    ///
    /// # Errors
    ///
    /// The output refuses.
    pub(crate) fn earlier(&mut self, batch: BatchId) -> io::Result<()> {
        if !self.tells() {
            return Ok(());
        }
        let text = format!("(earlier events: cf events --batch {})", batch.short());
        self.print(format!("{}\n", self.console.paint(Look::Dim, text)).as_bytes())
    }

    /// Prints what [`Self::row`] told.
    ///
    /// # Errors
    ///
    /// The output refuses.
    pub(crate) fn print(&mut self, told: &[u8]) -> io::Result<()> {
        if told.is_empty() {
            return Ok(());
        }
        if let View::Live(live) = &mut self.view {
            return live.print(String::from_utf8_lossy(told).trim_end_matches('\n'));
        }
        let mut out = console::out();
        out.write_all(told)?;
        out.flush()
    }

    /// Says something that is no event.
    ///
    /// # Errors
    ///
    /// The output refuses.
    pub(crate) fn notice(&mut self, text: &str) -> io::Result<()> {
        match &mut self.view {
            View::Live(live) => live.say(text),
            View::Quiet | View::Json | View::Lines => {
                self.console.warn(format_args!("{text}"));
                Ok(())
            }
        }
    }

    /// Whether it tells of events in words.
    pub(crate) const fn tells(&self) -> bool {
        matches!(self.view, View::Lines | View::Live(_))
    }

    /// Whether it wants to be told that time has passed.
    pub(crate) const fn is_live(&self) -> bool {
        matches!(self.view, View::Live(_))
    }

    /// Time has passed: clocks move on, and logs may have grown.
    pub(crate) fn tick(&mut self) {
        if let View::Live(live) = &mut self.view {
            live.tick();
        }
    }

    /// Takes away what changes in place, so that the summary can follow.
    ///
    /// # Errors
    ///
    /// The output refuses.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let View::Live(live) = &mut self.view {
            return live.finish();
        }
        Ok(())
    }
}
