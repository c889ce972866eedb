//! `cf work logs`: what an agent has written, as it is or as it grows; and `cf work stop`.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use cf_conductor::store::Store;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::store::task::Expect;
use cf_conductor::supervise::logfile::LogReader;
use cf_conductor::workspace::Workspace;
use cf_core::TaskStatus;
use serde_json::json;

use super::events::LOOK;
use super::{Ended, find_task};
use crate::args::work::{LogsArgs, StopTaskArgs};
use crate::console::{self, Console};
use crate::error::CliError;
use crate::render::text;
use crate::workspace;

/// How long, beyond the grace, `cf work stop` waits for the end of an agent.
const PATIENCE: Duration = Duration::from_secs(10);

/// `cf work stop`.
pub(super) fn stop(args: &StopTaskArgs, console: &Console) -> Ended {
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    let id = store.read(|reader| find_task(reader, &actor, &args.task))?;
    let running = store.read(|reader| Ok(reader.open_attempts_of(id)?.pop()))?;
    if let Some(attempt) = &running
        && workspace.conductor_of(attempt.batch).is_none()
    {
        let batch = attempt.batch.short();
        return Err(CliError::refused(
            format!("the conductor of batch {batch}, which runs it, is gone"),
            format!(
                "stop what it left with `cf stop {batch} --force`, or go on with `cf resume {batch}`"
            ),
        ));
    }
    let attempt = store.write(&actor, |tx| match running {
        // To the batch this is a task that somebody blocked: it stops the agent and holds the task.
        Some(attempt) if args.hold => {
            tx.set_status(id, TaskStatus::Blocked, Expect::Anything)?;
            Ok(attempt)
        }
        _ => tx.request_task_stop(id),
    })?;
    let grace = store.read(|reader| Ok(reader.batch(attempt.batch)?.settings.kill_grace))?;
    let begun = Instant::now();
    let ended = loop {
        if !store.read(|reader| Ok(reader.attempt(attempt.id)?.open))? {
            break true;
        }
        if begun.elapsed() > grace + PATIENCE {
            break false;
        }
        std::thread::sleep(LOOK);
    };
    let task = store.read(|reader| reader.task(id))?;
    if console.json {
        let shape =
            json!({ "task": id, "attempt": attempt.id, "ended": ended, "status": task.status });
        console::print_json(&shape)?;
    } else if ended {
        console.say(format_args!(
            "stopped {}; it is {}",
            task.label(),
            task.status
        ))?;
    } else {
        console.warn(format_args!("{} is still being stopped", task.label()));
    }
    Ok(0)
}

/// How much of a log is read at once, in bytes.
const CHUNK: usize = 64 * 1024;

pub(super) fn logs(args: &LogsArgs, console: &Console) -> Ended {
    let (workspace, store) = workspace::open_to_read()?;
    let actor = cf_conductor::caller::actor(&store)?;
    let (label, attempts) = store.read(|reader| {
        let id = find_task(reader, &actor, &args.task)?;
        Ok((reader.label(id)?, reader.attempts(id)?))
    })?;
    let attempt = choose(&attempts, args.attempt).ok_or_else(|| match args.attempt {
        Some(n) => CliError::refused(
            format!("task {label} has no attempt {n}"),
            format!(
                "it has {}; `cf tasks show {label}` lists them",
                attempts.len()
            ),
        ),
        None => CliError::refused(
            format!("task {label} has not been started yet"),
            format!("start it with `cf work start {label}`"),
        ),
    })?;
    print(&workspace, &store, attempt, args, console)
}

fn choose(attempts: &[Attempt], generation: Option<u32>) -> Option<&Attempt> {
    match generation {
        None => attempts.last(),
        Some(n) => attempts.iter().find(|attempt| attempt.generation == n),
    }
}

fn print(
    workspace: &Workspace,
    store: &Store,
    attempt: &Attempt,
    args: &LogsArgs,
    console: &Console,
) -> Ended {
    let path = workspace.log_of(attempt.id);
    let failed = |source| CliError::File {
        what: "read",
        path: path.clone(),
        source,
    };
    let mut reader = LogReader::new(&path);
    let mut out = console::out();
    let mut log = Log::default();
    let mut offset = 0;
    loop {
        // Asked before reading: what an ended attempt wrote last is then read for certain.
        let goes_on = args.follow && store.read(|reader| Ok(reader.attempt(attempt.id)?.open))?;
        loop {
            let chunk = reader.read_from(offset, CHUNK).map_err(failed)?;
            if chunk.skipped > 0 {
                log.cut(chunk.skipped, &mut out)?;
            }
            if chunk.bytes.is_empty() {
                break;
            }
            log.write(&chunk.bytes, &mut out)?;
            offset = chunk.next;
        }
        if !goes_on {
            log.finish(&mut out)?;
            out.flush()?;
            if offset == 0 {
                console.warn(format_args!(
                    "attempt {} has written nothing",
                    attempt.generation
                ));
            }
            return Ok(0);
        }
        out.flush()?;
        std::thread::sleep(LOOK);
    }
}

/// Passes a log on, cleaned and line by line. Its bytes, as they came, stand in the file that `tasks show --json` names.
#[derive(Default)]
struct Log {
    /// The beginning of a line whose end was not read yet.
    open_line: Vec<u8>,
}

impl Log {
    fn write(&mut self, bytes: &[u8], out: &mut impl io::Write) -> io::Result<()> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.open_line.extend_from_slice(piece);
            // A line that is longer is shown in pieces, so that memory stays bounded.
            if piece.ends_with(b"\n") || self.open_line.len() > CHUNK {
                self.finish(out)?;
            }
        }
        Ok(())
    }

    /// Says how much of the log was cut between its head and its tail.
    fn cut(&mut self, bytes: u64, out: &mut impl io::Write) -> io::Result<()> {
        self.finish(out)?;
        writeln!(out, "\n[cf: {bytes} bytes of output were not kept]")
    }

    fn finish(&mut self, out: &mut impl io::Write) -> io::Result<()> {
        let line = String::from_utf8_lossy(&self.open_line);
        out.write_all(text::clean(&line).as_bytes())?;
        self.open_line.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_printed_without_sequences() {
        let mut log = Log::default();
        let mut out = Vec::new();
        log.write(b"a\x1b[3", &mut out).unwrap();
        log.write(b"1mb\xff\nc", &mut out).unwrap();
        log.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "ab\u{fffd}\nc");
    }
}
