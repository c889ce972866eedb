//! `cf events`: the log of what happened, and what goes on happening.

mod prune;

use std::io::Write;
use std::time::Duration;

use cf_conductor::store::event::{Event, EventFilter};
use cf_conductor::store::rows::EventRow;
use cf_conductor::store::{Reader, Store, StoreError};
use cf_conductor::wake::Listener;

use super::{Ended, Labels};
use crate::args::{EventsArgs, EventsCommand};
use crate::console::{self, Console};
use crate::error::CliError;
use crate::render::event::push_line;
use crate::render::json::rows::push_event;
use crate::workspace;

/// How often is looked, at the latest, while something is followed: what is committed wakes whoever follows, but the
/// logs of agents, the death of a conductor and a system without inotify do not. A look at an unchanged store costs
/// microseconds.
pub(super) const LOOK: Duration = Duration::from_millis(100);

/// Wants events of every type and with any details.
const ALL: fn(&str, &str) -> bool = |_, _| true;

/// How many events are read at once, so that a long log is never held in memory.
pub(super) const CHUNK: usize = 1_000;

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
    let mut lines = Vec::new();
    loop {
        lines.clear();
        let count = tail.read(&store, ALL, |reader, row| {
            if console.json {
                push_event(&mut lines, row)?;
            } else {
                let label = row.task_id()?.map(|id| labels.known(reader, id));
                push_line(&mut lines, row, label.transpose()?)?;
            }
            lines.push(b'\n');
            Ok(())
        })?;
        out.write_all(&lines)?;
        if count > 0 {
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
    let mut lines = Vec::new();
    loop {
        lines.clear();
        let count = tail.read(store, ALL, |_, row| {
            lines.extend_from_slice(lead.as_bytes());
            lead = ",\n";
            push_event(&mut lines, row)
        })?;
        if count == 0 {
            break;
        }
        out.write_all(&lines)?;
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

    /// The same as rows, each handed to `each` with what else can be read of that moment. Returns how many there were,
    /// also of those whose type and details are not wanted.
    ///
    /// What is made of them is written afterwards: a reader that waits for a slow terminal would keep the write-ahead
    /// log from being used again.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or `each` refuses.
    pub(super) fn read(
        &mut self,
        store: &Store,
        is_wanted: fn(&str, &str) -> bool,
        mut each: impl FnMut(&Reader<'_>, &EventRow<'_>) -> Result<(), StoreError>,
    ) -> Result<usize, CliError> {
        Ok(store.read(|reader| self.read_in(reader, is_wanted, |row| each(reader, row)))?)
    }

    /// The same within a reading that looks at more.
    ///
    /// # Errors
    ///
    /// The store cannot be read, or `each` refuses.
    pub(super) fn read_in(
        &mut self,
        reader: &Reader<'_>,
        is_wanted: fn(&str, &str) -> bool,
        each: impl FnMut(&EventRow<'_>) -> Result<(), StoreError>,
    ) -> Result<usize, StoreError> {
        let (count, last) = reader.wanted_event_rows(&self.filter, is_wanted, each)?;
        self.filter.after = last.unwrap_or(self.filter.after);
        Ok(count)
    }
}
