//! `cf work logs`: what an agent and its verification have written, as it is or as it grows; and `cf work stop`.

mod attempts;

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cf_conductor::conductor::ConductorError;
use cf_conductor::store::Store;
use cf_conductor::store::attempt::Attempt;
use cf_conductor::supervise::Stage;
use cf_conductor::supervise::logfile::LogReader;
use cf_conductor::workspace::Workspace;
use cf_core::{TaskLabel, TaskStatus};
use serde_json::json;

use super::batch::{finish_pass, setup_of};
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
    let attempt = store.write(&actor, |tx| {
        let id = find_task(&tx.reader(), &actor, &args.task)?;
        tx.request_task_stop(id, args.hold)
    })?;
    let ended = wait_for_end(&workspace, &store, &attempt, console)?;
    let task = store.read(|reader| reader.task(attempt.task))?;
    if console.json {
        let shape = json!({ "task": task.id, "attempt": attempt.id, "ended": ended, "status": task.status });
        console::print_json(&shape)?;
    } else if ended {
        console.say(format_args!(
            "stopped {}; it is {}",
            task.label(),
            task.status
        ))?;
    } else {
        console.warn(format_args!(
            "{} is still being stopped; it is {}",
            task.label(),
            task.status
        ));
    }
    Ok(0)
}

/// Waits until the end of an attempt is verified, and where nobody conducts its batch, brings that end about. Returns
/// whether it came in time.
fn wait_for_end(
    workspace: &Workspace,
    store: &Store,
    attempt: &Attempt,
    console: &Console,
) -> Result<bool, CliError> {
    let begun = Instant::now();
    loop {
        // Its batch may have been taken over by another one since.
        let (now, grace) = store.read(|reader| {
            let now = reader.attempt(attempt.id)?;
            let grace = reader.batch(now.batch)?.settings.kill_grace;
            Ok((now, grace))
        })?;
        if now.end.is_some() {
            return Ok(!now.open);
        }
        if begun.elapsed() > grace + PATIENCE {
            return Ok(false);
        }
        if workspace.conductor_of(now.batch).is_none() {
            let mut setup = setup_of(workspace)?;
            match finish_pass(&mut setup, now.batch, Some(vec![now.task]), console) {
                // Somebody was faster, and acts on the request.
                Ok(()) | Err(CliError::Conductor(ConductorError::Conducted { .. })) => {}
                Err(error) => return Err(error),
            }
            continue;
        }
        std::thread::sleep(LOOK);
    }
}

/// How much of a log is read at once, in bytes.
const CHUNK: usize = 64 * 1024;

/// `cf work logs`.
pub(super) fn logs(args: &LogsArgs, console: &Console) -> Ended {
    let (workspace, store) = workspace::open_to_read()?;
    let actor = cf_conductor::caller::actor(&store)?;
    let (label, status, task) = store.read(|reader| {
        let task = reader.task(find_task(reader, &actor, &args.task)?)?;
        Ok((task.label(), task.status, task.id))
    })?;
    if args.follow && args.attempt.is_none() {
        return attempts::follow(&workspace, &store, task, &label, console);
    }
    let attempts = store.read(|reader| reader.attempts(task))?;
    let attempt = choose(&attempts, args.attempt).ok_or_else(|| match args.attempt {
        Some(n) => CliError::refused(
            format!("task {label} has no attempt {n}"),
            format!(
                "it has {}; `cf tasks show {label}` lists them",
                attempts.len()
            ),
        ),
        None => not_started(&label, status),
    })?;
    print(&workspace, &store, attempt, args.follow, console)
}

fn not_started(label: &TaskLabel, status: TaskStatus) -> CliError {
    if status.is_done() {
        let word = if status == TaskStatus::Merged {
            "merged"
        } else {
            "done"
        };
        return CliError::refused(
            format!("task {label} is {word}, and no agent worked on it"),
            format!("`cf explain {label}` says more"),
        );
    }
    CliError::refused(
        format!("task {label} has not been started yet"),
        format!("start it with `cf work start {label}`"),
    )
}

fn choose(attempts: &[Attempt], generation: Option<u32>) -> Option<&Attempt> {
    match generation {
        None => attempts.last(),
        Some(n) => attempts.iter().find(|attempt| attempt.generation == n),
    }
}

/// Prints what the agent wrote, and below a heading what its verification wrote, if there was one.
fn print(
    workspace: &Workspace,
    store: &Store,
    attempt: &Attempt,
    goes_on: bool,
    console: &Console,
) -> Ended {
    let mut out = console::out();
    let mut agent = Log::new(workspace.log_of(attempt.id));
    follow(&mut agent, goes_on, &mut out, || {
        let now = store.read(|reader| reader.attempt(attempt.id))?;
        Ok(now.open && now.stage == Stage::Agent)
    })?;
    let mut verify = Log::new(workspace.verify_log_of(attempt.id));
    verify.heading = Some("[cf: the verification]");
    follow(&mut verify, goes_on, &mut out, || {
        let now = store.read(|reader| reader.attempt(attempt.id))?;
        Ok(now.open && now.stage == Stage::Verify)
    })?;
    if agent.offset == 0 && verify.offset == 0 {
        console.warn(format_args!(
            "attempt {} has written nothing",
            attempt.generation
        ));
    }
    Ok(0)
}

/// Prints a log; with `follow`, what is added to it too, while `goes_on` says so.
fn follow(
    log: &mut Log,
    follow: bool,
    out: &mut impl io::Write,
    goes_on: impl Fn() -> Result<bool, CliError>,
) -> Result<(), CliError> {
    loop {
        // Asked before reading: what an ended attempt wrote last is then read for certain.
        let goes_on = follow && goes_on()?;
        log.print_new(out)?;
        if !goes_on {
            log.finish(out)?;
            return Ok(out.flush()?);
        }
        out.flush()?;
        std::thread::sleep(LOOK);
    }
}

/// Passes a log on, cleaned and line by line. Its bytes, as they came, stand in the file that `tasks show --json`
/// names.
struct Log {
    path: PathBuf,
    reader: LogReader,
    /// How much of it was read, in bytes.
    offset: u64,
    /// What is printed before its first byte.
    heading: Option<&'static str>,
    /// The beginning of a line whose end was not read yet.
    open_line: Vec<u8>,
}

impl Log {
    fn new(path: PathBuf) -> Self {
        Self {
            reader: LogReader::new(&path),
            path,
            offset: 0,
            heading: None,
            open_line: Vec::new(),
        }
    }

    /// Prints what was added since the last look.
    fn print_new(&mut self, out: &mut impl io::Write) -> Result<(), CliError> {
        loop {
            let read = self.reader.read_from(self.offset, CHUNK);
            let chunk = read.map_err(|source| CliError::File {
                what: "read",
                path: self.path.clone(),
                source,
            })?;
            if !chunk.bytes.is_empty()
                && let Some(heading) = self.heading.take()
            {
                writeln!(out, "{heading}")?;
            }
            if chunk.skipped > 0 {
                self.cut(chunk.skipped, out)?;
            }
            if chunk.bytes.is_empty() {
                return Ok(());
            }
            self.write(&chunk.bytes, out)?;
            self.offset = chunk.next;
        }
    }

    fn write(&mut self, bytes: &[u8], out: &mut impl io::Write) -> io::Result<()> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // A line that is longer is shown in pieces, so that memory stays bounded, and always in the same ones.
            let mut rest = piece;
            while self.open_line.len() + rest.len() > CHUNK {
                let (fits, more) = rest.split_at(CHUNK - self.open_line.len());
                self.open_line.extend_from_slice(fits);
                self.finish(out)?;
                rest = more;
            }
            self.open_line.extend_from_slice(rest);
            if piece.ends_with(b"\n") {
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
        let mut log = Log::new(PathBuf::from("/nowhere"));
        let mut out = Vec::new();
        log.write(b"a\x1b[3", &mut out).unwrap();
        log.write(b"1mb\xff\nc", &mut out).unwrap();
        log.finish(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "ab\u{fffd}\nc");
    }

    #[test]
    fn fuzz_logs() {
        let corpus = [
            "one\ntwo\n",
            "a\u{1b}[31mred\u{1b}[0m\n",
            "\u{1b}]0;title\u{7}x\n",
        ];
        cf_testkit::fuzz(
            "logs",
            &corpus,
            &["\u{1b}", "\u{1b}[", "\n", "\u{9b}"],
            |bytes| {
                let mut shown = Vec::new();
                for step in [1, 7, usize::MAX] {
                    let mut log = Log::new(PathBuf::from("/nowhere"));
                    let mut out = Vec::new();
                    for piece in bytes.chunks(step.min(bytes.len().max(1))) {
                        log.write(piece, &mut out).unwrap();
                    }
                    log.finish(&mut out).unwrap();
                    shown.push(String::from_utf8(out).expect("what is shown is text"));
                }
                // However it came, it is shown in the same way.
                assert!(shown.iter().all(|text| *text == shown[0]));
                let bad = |c: char| c.is_control() && c != '\n' && c != '\t';
                assert!(!shown[0].contains(bad), "{:?}", shown[0]);
                assert_eq!(text::clean(&shown[0]), shown[0], "once is enough");
                let line = text::line(&shown[0]);
                assert!(!line.contains(['\n', '\t']));
                assert_eq!(text::line(&line), line);
                assert!(text::shortened(&line, 10).chars().count() <= 10);
                format!(
                    "{} of {}",
                    shown[0].len().min(9),
                    shown[0].contains('\u{fffd}')
                )
            },
        );
    }
}
