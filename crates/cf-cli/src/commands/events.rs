//! `cf events`: the log of what happened, and what goes on happening.

mod prune;

use std::io::Write;
use std::time::Duration;

use cf_conductor::store::Store;
use cf_conductor::store::event::{Event, EventFilter};
use cf_conductor::wake::Listener;

use super::{Ended, Labels};
use crate::args::{EventsArgs, EventsCommand};
use crate::console::{self, Console};
use crate::error::CliError;
use crate::render::json::EventJson;
use crate::render::task::event_line;
use crate::workspace;

/// How often is looked, at the latest, while something is followed: what is committed wakes whoever follows, but the
/// logs of agents, the death of a conductor and a system without inotify do not. A look at an unchanged store costs
/// microseconds.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// How many events are read at once, so that a long log is never held in memory.
const CHUNK: usize = 1_000;

pub(super) fn run(args: &EventsArgs, console: &Console) -> Ended {
    if let Some(EventsCommand::Prune(args)) = &args.command {
        return prune::run(args, console);
    }
    let (workspace, store) = workspace::open_to_read()?;
    // From here on, so that nothing is missed between a look and the waiting.
    let mut listener = Listener::new(&workspace.wake_file());
    let (task, batch) = store.read(|reader| {
        Ok((
            args.task
                .as_ref()
                .map(|task| reader.find_task(task))
                .transpose()?,
            args.batch
                .as_ref()
                .map(|batch| reader.find_batch(batch))
                .transpose()?,
        ))
    })?;
    let mut filter = EventFilter {
        after: args.after,
        batch,
        task,
        limit: Some(CHUNK),
    };
    if let Some(last) = args.last {
        filter.after = store.read(|reader| reader.seq_before_last(&filter, last))?;
    }
    let mut tail = Tail::new(filter);
    let mut labels = Labels::default();
    let mut out = console::out();
    if console.json && !args.follow {
        return list_json(&store, tail, &mut out);
    }
    loop {
        let events = tail.next(&store)?;
        let more = !events.is_empty();
        for event in &events {
            if console.json {
                serde_json::to_writer(&mut out, &EventJson::new(event))
                    .map_err(std::io::Error::from)?;
                out.write_all(b"\n")?;
            } else {
                let label = event
                    .task
                    .map(|id| store.read(|reader| labels.of(reader, id)))
                    .transpose()?;
                writeln!(out, "{}", event_line(event, label.as_ref()))?;
            }
        }
        if more {
            continue;
        }
        out.flush()?;
        if !args.follow {
            return Ok(0);
        }
        listener.wait(LOOK);
    }
}

/// All events as one array, written as they are read.
fn list_json(store: &Store, mut tail: Tail, out: &mut impl Write) -> Ended {
    let mut lead = "[";
    loop {
        let events = tail.next(store)?;
        if events.is_empty() {
            break;
        }
        for event in &events {
            out.write_all(lead.as_bytes())?;
            serde_json::to_writer(&mut *out, &EventJson::new(event))
                .map_err(std::io::Error::from)?;
            lead = ",\n";
        }
    }
    writeln!(out, "{}", if lead == "[" { "[]" } else { "]" })?;
    out.flush()?;
    Ok(0)
}

/// A place in the log that moves on as it is read: every event once, in order.
#[derive(Debug)]
pub(super) struct Tail {
    filter: EventFilter,
}

impl Tail {
    /// Begins after the filter's number.
    pub(super) const fn new(filter: EventFilter) -> Self {
        Self { filter }
    }

    /// The next events; none when there are none yet.
    ///
    /// # Errors
    ///
    /// The store cannot be read.
    pub(super) fn next(&mut self, store: &Store) -> Result<Vec<Event>, CliError> {
        let events = store.read(|reader| reader.event_list(&self.filter))?;
        if let Some(last) = events.last() {
            self.filter.after = last.seq;
        }
        Ok(events)
    }
}
