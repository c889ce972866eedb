//! One job, from its `started` record to the record of its end.
//!
//! The order is what crash safety rests on: `started` is written before the process exists; the record of its end is
//! written when nothing is left below (or, when that takes a while, a first record at once and the full one then); the
//! conductor hears of it last.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cf_core::Ending;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process};

use super::clock::{ActiveClock, TICK};
use super::gate;
use super::job::{Frame, Job, Leftovers, Stage};
use super::logfile::LogWriter;
use super::program::NotStarted;
use super::record::{Ended, How, Limit, Record};
use super::stall::StallWatch;
use super::tree::{self, Part};
use super::{Signals, Supervisor, program, say};
use crate::fault::{is_broken, point};
use crate::process::{Process, Stat};

/// How long to go on after the first SIGKILL before what is left counts as a survivor.
const KILL_BOUND: Duration = Duration::from_secs(5);

/// How long what is still there when the agent ends may take to end by itself before it counts as left behind: children
/// that were just told to end, the other members of a pipeline.
const DYING: Duration = Duration::from_millis(25);

impl Supervisor {
    /// Runs a job to its end.
    pub(super) fn attempt(&mut self, job: &Job) {
        let started = Record::Started {
            attempt: job.attempt,
            stage: job.stage,
            at_ms: now_ms(),
        };
        let process = match self.file.append(&started.to_bytes()) {
            Ok(()) => {
                point(of_stage(job, ["agent.recorded", "verify.recorded"]));
                program::start(job, &self.null)
            }
            // Whatever is wrong with that file, the task has no part in it.
            Err(error) => Err(NotStarted {
                error: format!(
                    "cannot write to the supervisor's own file, so nothing was started: {error}"
                ),
                passing: true,
            }),
        };
        let record = match process {
            Ok(process) => {
                point(of_stage(job, ["agent.started", "verify.started"]));
                Record::Ended(Run::new(self, job, process).finish())
            }
            Err(NotStarted { error, passing }) => Record::SpawnFailed {
                attempt: job.attempt,
                stage: job.stage,
                at_ms: now_ms(),
                error,
                passing,
            },
        };
        let bytes = record.to_bytes();
        self.write(&bytes);
        point("end.recorded");
        say(&bytes);
        point("end.told");
    }
}

/// The name of a point for an agent, or for a verification.
const fn of_stage(job: &Job, [agent, verify]: [&'static str; 2]) -> &'static str {
    match job.stage {
        Stage::Agent => agent,
        Stage::Verify => verify,
    }
}

/// Why a process did not come to its end by itself.
enum Cut {
    Asked(Duration),
    Limit(Limit),
}

/// When signals were sent, in milliseconds since 1970.
#[derive(Clone, Copy, Default)]
struct Sent {
    term_at_ms: Option<i64>,
    kill_at_ms: Option<i64>,
}

/// A process that runs, and everything below this supervisor with it.
struct Run<'a> {
    supervisor: &'a mut Supervisor,
    job: &'a Job,
    agent: Pid,
    ending: Option<Ending>,
    /// Whether the last look said that this supervisor has no children at all.
    empty: bool,
    output: Option<OwnedFd>,
    log: LogWriter<'a>,
    clock: ActiveClock,
    /// Active time when the process itself had ended.
    active: Option<Duration>,
    stall: Option<StallWatch>,
    /// The shortest grace that anybody asked for.
    asked: Option<Duration>,
}

impl<'a> Run<'a> {
    fn new(supervisor: &'a mut Supervisor, job: &'a Job, process: program::Started) -> Self {
        Self {
            supervisor,
            job,
            agent: process.pid,
            ending: None,
            empty: false,
            output: Some(process.output),
            log: LogWriter::new(&job.log),
            clock: ActiveClock::start(),
            active: None,
            stall: job
                .stall_timeout_ms
                .map(|ms| StallWatch::new(Duration::from_millis(ms))),
            asked: None,
        }
    }

    /// Waits for the end, or brings it about, and returns the record of it.
    fn finish(mut self) -> Ended {
        let cut = self.until_cut();
        let mut sent = Sent::default();
        let mut left_behind = 0;
        let mut survivors = Vec::new();
        let clean;
        point(if cut.is_none() {
            of_stage(self.job, ["agent.ended", "verify.ended"])
        } else {
            "stop.asked"
        });
        match &cut {
            None => (clean, left_behind) = self.leftovers(&mut sent, &mut survivors),
            Some(cut) => {
                let grace = match cut {
                    Cut::Asked(grace) => *grace,
                    Cut::Limit(_) => self.job.grace(),
                };
                let left = self.stop(Part::All, grace, &mut sent);
                point("stop.ended");
                clean = left.is_empty();
                survivors = tree::processes(&left);
            }
        }
        self.drain();
        // Only ECHILD proves that the next job begins with nothing below.
        if !self.empty {
            self.reap();
        }
        self.supervisor.retiring |= !self.empty;
        let (how, limit) = match cut {
            None => (How::Exited, None),
            Some(Cut::Limit(limit)) => (How::Exited, Some(limit)),
            Some(Cut::Asked(_)) => (How::Killed, None),
        };
        let limit_ms = limit.and_then(|limit| match limit {
            Limit::Timeout => self.job.timeout_ms,
            Limit::Stall => self.job.stall_timeout_ms,
        });
        Ended {
            limit,
            limit_ms,
            left_behind,
            ..self.ended(how, clean, sent, survivors)
        }
    }

    fn ended(&self, how: How, clean: bool, sent: Sent, survivors: Vec<Process>) -> Ended {
        Ended {
            attempt: self.job.attempt,
            stage: self.job.stage,
            how,
            ending: self.ending,
            limit: None,
            limit_ms: None,
            at_ms: now_ms(),
            active_ms: u64::try_from(self.active.unwrap_or(self.clock.active()).as_millis())
                .unwrap_or(u64::MAX),
            term_at_ms: sent.term_at_ms,
            kill_at_ms: sent.kill_at_ms,
            left_behind: 0,
            clean,
            unfinished: false,
            retires: self.supervisor.retiring,
            log: self.log.tally(),
            survivors,
            unlisted: 0,
        }
    }

    /// Waits until the process has ended by itself (`None`), somebody asks for its end, or a limit is reached.
    fn until_cut(&mut self) -> Option<Cut> {
        loop {
            if self.ending.is_some() {
                return None;
            }
            if let Some(grace) = self.asked {
                return Some(Cut::Asked(grace));
            }
            let active = self.clock.active();
            let timeout = self.job.timeout_ms.map(Duration::from_millis);
            if timeout.is_some_and(|timeout| active >= timeout) {
                return Some(Cut::Limit(Limit::Timeout));
            }
            if self
                .stall
                .as_mut()
                .is_some_and(|stall| stall.stalled(active, tree::cpu_ticks))
            {
                return Some(Cut::Limit(Limit::Stall));
            }
            let until_timeout = timeout.map(|timeout| timeout.saturating_sub(active));
            let until_sample = self.stall.as_ref().map(|stall| stall.rest(active));
            // Without a limit there is nothing to measure, and so no tick.
            let planned = [until_timeout, until_sample].into_iter().flatten().min();
            self.wait(planned.map(|time| time.min(TICK)));
        }
    }

    /// Waits once, and takes in whatever has happened: output, ends, requests.
    fn wait(&mut self, planned: Option<Duration>) {
        let ready = gate::wait(
            &self.supervisor.gate,
            Some(self.supervisor.signals.wake.as_fd()),
            self.output.as_ref().map(AsFd::as_fd),
            planned,
        );
        self.clock.tick(planned);
        let Ok(ready) = ready else {
            // Without memory to wait with, at least do not spin.
            std::thread::sleep(Duration::from_millis(10));
            self.reap();
            return;
        };
        if ready.output {
            self.pump();
        }
        // Ends come before requests: what has ended by itself was not stopped. A process that ends closes its output
        // first, so its signal often comes between the two.
        if ready.signals || self.supervisor.signals.came() {
            self.supervisor.signals.drain();
            if Signals::take(&self.supervisor.signals.child) {
                self.reap();
            }
            if Signals::take(&self.supervisor.signals.term) {
                self.ask(self.job.grace());
            }
            if Signals::take(&self.supervisor.signals.kill) {
                self.ask(Duration::ZERO);
            }
        }
        if ready.gate {
            self.supervisor.gate.fill();
        }
        while let Some(Frame::Stop {
            attempt,
            stage,
            grace_ms,
        }) = self.supervisor.gate.pop_stop()
        {
            if (attempt, stage) == (self.job.attempt, self.job.stage) {
                self.ask(Duration::from_millis(grace_ms));
            }
        }
    }

    fn ask(&mut self, grace: Duration) {
        self.asked = Some(self.asked.map_or(grace, |asked| asked.min(grace)));
    }

    /// Waits for everything that has ended, adopted orphans too, so that nothing stays a zombie.
    fn reap(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.agent && self.ending.is_none() => {
                    self.ending = ending(status);
                    self.active = Some(self.clock.active());
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => {
                    self.empty = false;
                    return;
                }
                Err(_) => {
                    self.empty = true;
                    return;
                }
            }
        }
    }

    /// Takes one piece of output. Returns how long it was.
    fn pump(&mut self) -> usize {
        let Some(output) = &self.output else { return 0 };
        match rustix::io::read(output, &mut self.supervisor.buffer[..]) {
            Err(Errno::AGAIN | Errno::INTR) => 0,
            // Nobody has it open for writing any more.
            Ok(0) | Err(_) => {
                self.output = None;
                0
            }
            Ok(length) => {
                self.log.write(&self.supervisor.buffer[..length]);
                if let Some(stall) = &mut self.stall {
                    stall.output(self.clock.active());
                }
                length
            }
        }
    }

    /// Takes the output that is there now. What the process wrote before its end is at the front of the pipe, so a
    /// leftover that goes on writing cannot hold this up.
    fn drain(&mut self) {
        let size = self.output.as_ref().map(rustix::pipe::fcntl_getpipe_size);
        let mut left = size.map_or(0, |size| size.unwrap_or(1024 * 1024));
        while left > 0 {
            match self.pump() {
                0 => return,
                length => left = left.saturating_sub(length),
            }
        }
    }

    /// Deals with what the process left behind when it ended by itself. Returns whether the end is clean, and how many
    /// were left.
    fn leftovers(&mut self, sent: &mut Sent, survivors: &mut Vec<Process>) -> (bool, u32) {
        self.drain();
        let begun = self.clock.active();
        while !self.empty {
            let waited = self.clock.active().saturating_sub(begun);
            if waited >= DYING {
                break;
            }
            self.wait(Some(DYING.saturating_sub(waited)));
        }
        if self.empty {
            return (true, 0);
        }
        let left = tree::running(Part::All);
        let count = u32::try_from(left.len()).unwrap_or(u32::MAX);
        // The verdict must not be lost should this supervisor die while it tidies up.
        let first = Ended {
            left_behind: count,
            unfinished: true,
            ..self.ended(How::Exited, false, Sent::default(), tree::processes(&left))
        };
        self.supervisor.write(&Record::Ended(first).to_bytes());
        point("leftovers.recorded");
        let part = match self.job.leftovers {
            Leftovers::Report => {
                *survivors = tree::processes(&left);
                return (true, count);
            }
            Leftovers::Stop if self.job.keep.is_empty() => Part::All,
            Leftovers::Stop => Part::Except(&self.job.keep),
        };
        let unwilling = self.stop(part, self.job.grace(), sent);
        let clean = unwilling.is_empty();
        let rest = if clean {
            tree::running(Part::All)
        } else {
            unwilling
        };
        *survivors = tree::processes(&rest);
        (clean, count)
    }

    /// Stops a part of what is below: SIGTERM, the grace, SIGKILL, until nothing of it is left. Returns what survived.
    fn stop(&mut self, part: Part<'_>, grace: Duration, sent: &mut Sent) -> Vec<Stat> {
        let mut grace = grace.min(self.asked.unwrap_or(grace));
        let begun = self.clock.active();
        if !grace.is_zero() {
            sent.term_at_ms = Some(now_ms());
            let look = || {
                if is_broken("stop.agent-alone") {
                    Vec::new()
                } else {
                    tree::running(part)
                }
            };
            // What hangs below an agent that ends at once gets another parent, and may be in neither list of children
            // when it is looked for only then. For what is started between this look and the signal there is another;
            // what that misses is killed after the grace.
            let mut below = look();
            // The agent is this process's own child, so its number is nobody else's and it need not be looked for.
            let told = (matches!(part, Part::All) && self.ending.is_none()).then_some(self.agent);
            if let Some(agent) = told {
                let _ = kill_process(agent, Signal::TERM);
            }
            let who = |process: &Stat| (process.pid, process.start_ticks);
            let known: HashSet<_> = below.iter().map(who).collect();
            let new = look().into_iter().filter(|now| !known.contains(&who(now)));
            below.extend(new);
            for process in below {
                if told.is_none_or(|agent| agent.as_raw_pid() != process.pid) {
                    tree::send(&process, Signal::TERM);
                }
                tree::wake(&process);
            }
            point("stop.signalled");
            loop {
                self.reap();
                if self.gone(part) {
                    return Vec::new();
                }
                if let Some(asked) = self.asked {
                    grace = grace.min(asked);
                }
                let waited = self.clock.active().saturating_sub(begun);
                if waited >= grace {
                    break;
                }
                self.wait(Some(grace.saturating_sub(waited).min(look_again(part))));
            }
        }
        sent.kill_at_ms = Some(now_ms());
        let begun = self.clock.active();
        let mut met = HashSet::new();
        loop {
            let mut found = tree::running(part);
            if is_broken("stop.agent-alone") {
                found.retain(|process| process.pid == self.agent.as_raw_pid());
            }
            let mut new = false;
            for process in &found {
                new |= met.insert((process.pid, process.start_ticks));
                tree::send(process, Signal::KILL);
            }
            // Who forks faster than it is killed is not given the time to.
            self.wait(Some(Duration::from_millis(if new { 0 } else { 5 })));
            self.reap();
            if self.gone(part) {
                return Vec::new();
            }
            if self.clock.active().saturating_sub(begun) >= KILL_BOUND {
                return tree::running(part);
            }
        }
    }

    /// Whether nothing of a part is left. For everything, only ECHILD says so; for less, two looks.
    fn gone(&self, part: Part<'_>) -> bool {
        match part {
            _ if is_broken("stop.agent-alone") => self.ending.is_some(),
            Part::All => self.empty,
            Part::Except(_) => {
                self.empty || (tree::running(part).is_empty() && tree::running(part).is_empty())
            }
        }
    }
}

/// How soon to look again although no signal came: the end of what hangs below a kept process is not told.
const fn look_again(part: Part<'_>) -> Duration {
    match part {
        Part::All => TICK,
        Part::Except(_) => Duration::from_millis(20),
    }
}

fn ending(status: WaitStatus) -> Option<Ending> {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Some(Ending::Code(code)),
        (_, Some(signal)) => Some(Ending::Signal(signal)),
        (None, None) => None,
    }
}

/// Milliseconds since 1970; 0 for a clock that is set before that.
fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| {
            i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
        })
}
