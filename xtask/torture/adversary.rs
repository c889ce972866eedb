//! What is done to a batch while it runs: kills, pauses, shortages, and everything that people may do meanwhile.
//!
//! One thread decides, and its decisions come from the seed; when they hit is up to the machine.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cf_conductor::fault::{POINTS, Place};
use cf_testkit::github::{Fault, ScriptedGithub};
use cf_testkit::{Signal, process};

use crate::agents::REPO;
use crate::check::Said;
use crate::ground::{Ground, Started};
use crate::rng::Rng;

const STATUSES: [&str; 5] = ["DONE", "FAILED", "READY", "BLOCKED", "BACKLOG"];

/// A command of which only the end is looked at, later.
struct Aside {
    started: Started,
    /// What it says to be so when it succeeds.
    said: Option<Said>,
    /// Whether it was killed on purpose.
    killed: bool,
}

/// Somebody who means no good.
pub(crate) struct Adversary<'a> {
    rng: &'a mut Rng,
    ground: &'a mut Ground,
    github: Option<&'a ScriptedGithub>,
    keys: Vec<String>,
    conductors: Vec<Started>,
    asides: Vec<Aside>,
    /// Processes that were stopped, and when each is let go on.
    stopped: Vec<(Instant, u32)>,
    disk_full_until: Option<Instant>,
    pub(crate) said: Vec<Said>,
    pub(crate) did: Vec<String>,
    pub(crate) faults: Vec<String>,
}

impl<'a> Adversary<'a> {
    pub(crate) fn new(
        rng: &'a mut Rng,
        ground: &'a mut Ground,
        github: Option<&'a ScriptedGithub>,
        keys: Vec<String>,
    ) -> Self {
        Self {
            rng,
            ground,
            github,
            keys,
            conductors: Vec::new(),
            asides: Vec::new(),
            stopped: Vec::new(),
            disk_full_until: None,
            said: Vec::new(),
            did: Vec::new(),
            faults: Vec::new(),
        }
    }

    /// Starts a batch and does it no good for so long; then lets everything come to rest.
    pub(crate) fn torment(&mut self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        // Longest time between two deeds, in milliseconds.
        let tempo = self.rng.within(20, 220);
        self.run_batch()?;
        while Instant::now() < end {
            sleep(Duration::from_millis(self.rng.within(2, tempo)));
            self.let_go(false);
            if self.rng.once_in(12) {
                self.wake_everybody();
            }
            self.one_deed()?;
        }
        self.let_go(true);
        if let Some(github) = self.github {
            github.heal();
        }
        Ok(())
    }

    fn say(&mut self, what: String) {
        self.did.push(what);
    }

    /// Lets what is due, or everything, go on.
    fn let_go(&mut self, all: bool) {
        let now = Instant::now();
        self.stopped.retain(|(until, pid)| {
            let due = all || *until <= now;
            if due {
                process::signal(*pid, Signal::CONT);
            }
            !due
        });
        if self
            .disk_full_until
            .is_some_and(|until| all || until <= now)
        {
            self.disk_full_until = None;
            self.ground.free_disk();
        }
    }

    /// The flags of a batch, as it is started.
    fn flags(&mut self) -> Vec<String> {
        let rng = &mut *self.rng;
        let mut flags = vec![
            format!(
                "--max-parallel={}",
                if rng.once_in(5) { 16 } else { rng.within(1, 7) }
            ),
            format!("--retry={}", rng.within(0, 3)),
            format!("--retry-delay={}ms", rng.within(10, 500)),
            format!("--kill-grace={}ms", rng.within(50, 900)),
            format!("--reconcile-interval={}ms", rng.within(100, 3_000)),
        ];
        if rng.once_in(2) {
            flags.push("--wait-for-blockers=2s".to_owned());
        }
        if rng.once_in(4) {
            flags.push(format!("--timeout={}ms", rng.within(300, 3_000)));
        }
        if rng.once_in(6) {
            flags.push("--on-failure=stop".to_owned());
        }
        flags
    }

    fn run_batch(&mut self) -> Result<(), String> {
        let mut args: Vec<String> = vec!["work".into(), "batch".into(), "run".into()];
        if self.conductors.is_empty() || self.rng.once_in(2) {
            args.extend(self.keys.iter().cloned());
        } else {
            for _ in 0..self.rng.within(1, 5) {
                args.extend(self.rng.pick(&self.keys).cloned());
            }
        }
        args.extend(self.flags());
        self.conduct(&args)
    }

    /// Starts a conductor, perhaps a short-lived one.
    fn conduct(&mut self, args: &[String]) -> Result<(), String> {
        let limits = match self.rng.within(0, 10) {
            0 => Some(format!("-n {}", self.rng.within(14, 60))),
            1 => Some(format!("-u {}", self.rng.within(3, 40))),
            2 => Some(format!("-f {}", self.rng.within(1, 400))),
            _ => None,
        };
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = self.ground.cf(&words, limits.as_deref());
        let mut fault = String::new();
        if self.rng.once_in(3)
            && let Some(point) = self.rng.pick(POINTS)
        {
            let action = match (point.place, self.rng.within(0, 4)) {
                (Place::Supervisor, 0) => "parent",
                (Place::Supervisor, 1) => "both",
                (_, 2) => "stop",
                _ => "kill",
            };
            fault = format!("{}:{}:{action}", point.name, self.rng.within(1, 4));
            let mark = self.ground.books.join(format!("mark.{}", self.did.len()));
            command.env("CF_FAULT", &fault).env("CF_FAULT_MARK", mark);
        }
        let started = self.ground.start(&mut command)?;
        self.say(format!(
            "conductor {}: {} {limits:?} {fault}",
            started.child.id(),
            args.join(" ")
        ));
        self.conductors.push(started);
        Ok(())
    }

    /// Starts a command beside, whose end is looked at later.
    fn aside(&mut self, args: &[&str], said: Option<Said>) -> Result<(), String> {
        self.say(args.join(" "));
        let mut command = self.ground.cf(args, None);
        let started = self.ground.start(&mut command)?;
        self.asides.push(Aside {
            started,
            said,
            killed: false,
        });
        Ok(())
    }

    fn conductor(&mut self) -> Option<u32> {
        self.conductors.retain_mut(Started::running);
        let pids: Vec<u32> = self.conductors.iter().map(|c| c.child.id()).collect();
        self.rng.pick(&pids).copied()
    }

    fn one_deed(&mut self) -> Result<(), String> {
        let conductor = self.conductor();
        if conductor.is_none() && self.rng.once_in(2) {
            return self.go_on();
        }
        match self.rng.within(0, 34) {
            0 | 1 => {
                if let Some(pid) = conductor {
                    self.say(format!("kill -9 conductor {pid}"));
                    process::kill9(pid);
                }
            }
            2 | 3 => self.kill_one_of("supervisor"),
            4 | 5 => self.kill_one_of("agent"),
            6 => {
                let below = conductor.map(process::descendants).unwrap_or_default();
                self.say(format!("kill -9 everything below {conductor:?}: {below:?}"));
                conductor.into_iter().for_each(process::kill9);
                below.into_iter().for_each(process::kill9);
            }
            7 | 8 => self.pause(conductor),
            9 | 10 => self.burst()?,
            11..=14 => self.set_status()?,
            15 => self.of_one_task(&["tasks", "delete", "?", "--force"])?,
            16 => {
                let priority = format!("--priority={}", self.rng.within(0, 5));
                self.of_one_task(&["tasks", "edit", "?", &priority])?;
            }
            17 => self.of_one_task(&["blocker", "ask", "and now?", "--task", "?"])?,
            18 | 19 => self.answer()?,
            20 => self.of_one_task(&["work", "stop", "?"])?,
            21 => self.of_one_task(&["work", "stop", "?", "--hold"])?,
            22 if self.rng.once_in(2) => self.aside(&["reconcile"], None)?,
            22 => self.of_one_task(&["reconcile", "?"])?,
            23 => self.signal_or_stop(conductor)?,
            24 => self.shortage_of_disk(),
            25 => self.github_deed(),
            26 => self.go_on()?,
            27 => {
                self.set_status()?;
                sleep(Duration::from_millis(self.rng.within(0, 30)));
                self.kill_the_last_command();
            }
            28 => self.freeze_and_kill(conductor),
            29 => {
                let task = self.rng.pick(&self.keys).cloned().unwrap_or_default();
                self.conduct(&["work".to_owned(), "start".to_owned(), task])?;
            }
            30 => self.stop_by_name()?,
            31 => self.lose_a_file(),
            _ => self.of_one_task(&["tasks", "depend", "?", "??"])?,
        }
        Ok(())
    }

    /// Stops a process of the batch for a while.
    fn pause(&mut self, conductor: Option<u32>) {
        let from: Vec<u32> = match self.rng.within(0, 3) {
            0 => conductor.into_iter().collect(),
            1 => self.ground.supervisors(),
            _ => self.ground.agents().iter().map(|agent| agent.1).collect(),
        };
        if let Some(pid) = self.rng.pick(&from).copied() {
            let time = Duration::from_millis(self.rng.within(20, 2_500));
            self.say(format!("stop {pid} for {time:?}"));
            process::signal(pid, Signal::STOP);
            self.stopped.push((Instant::now() + time, pid));
        }
    }

    /// The command that was started last dies in the middle of what it does.
    fn kill_the_last_command(&mut self) {
        if let Some(aside) = self.asides.last_mut() {
            aside.killed = true;
            process::kill9(aside.started.child.id());
            self.say("… and was killed".to_owned());
        }
    }

    /// Everything stands still while the conductor dies; it goes on when another may be there already.
    fn freeze_and_kill(&mut self, conductor: Option<u32>) {
        let below = conductor.map(process::descendants).unwrap_or_default();
        self.say(format!("freeze {below:?}, kill -9 conductor {conductor:?}"));
        let time = Duration::from_millis(self.rng.within(50, 1_500));
        for pid in below {
            process::signal(pid, Signal::STOP);
            self.stopped.push((Instant::now() + time, pid));
        }
        conductor.into_iter().for_each(process::kill9);
    }

    /// The file of a supervisor is gone, as after an agent's careless `rm`.
    fn lose_a_file(&mut self) {
        let files: Vec<_> = fs::read_dir(self.ground.root.join(".cf/supervisors"))
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        if let Some(file) = self.rng.pick(&files) {
            self.did.push(format!("rm {}", file.display()));
            let _ = fs::remove_file(file);
        }
    }

    /// Processes that stopped at a named point go on at last.
    fn wake_everybody(&self) {
        let conductors = self.conductors.iter().map(|conductor| conductor.child.id());
        for pid in conductors.chain(self.ground.supervisors()) {
            process::signal(pid, Signal::CONT);
        }
    }

    /// Stops a batch by its name, whether or not anybody conducts it.
    fn stop_by_name(&mut self) -> Result<(), String> {
        let batches = self
            .ground
            .texts("SELECT id FROM batch WHERE status = 'RUNNING' ORDER BY pk");
        match self.rng.pick(&batches).cloned() {
            Some(id) if self.rng.once_in(2) => {
                self.aside(&["work", "batch", "stop", &id, "--force"], None)
            }
            Some(id) => self.aside(&["work", "batch", "stop", &id], None),
            None => Ok(()),
        }
    }

    fn shortage_of_disk(&mut self) {
        if self.disk_full_until.is_none() && self.ground.fill_disk() {
            let time = Duration::from_millis(self.rng.within(50, 1_500));
            self.say(format!("disk full for {time:?}"));
            self.disk_full_until = Some(Instant::now() + time);
        }
    }

    /// With a conductor gone: goes on with its batch, or begins another.
    fn go_on(&mut self) -> Result<(), String> {
        let resume: Vec<String> = ["work", "batch", "resume"].map(str::to_owned).to_vec();
        match self.rng.within(0, 6) {
            0 | 1 => self.run_batch(),
            2 => {
                self.conduct(&resume)?;
                self.conduct(&resume)
            }
            _ => self.conduct(&resume),
        }
    }

    fn kill_one_of(&mut self, what: &str) {
        let from: Vec<u32> = if what == "agent" {
            self.ground.agents().iter().map(|agent| agent.1).collect()
        } else {
            self.ground.supervisors()
        };
        if let Some(pid) = self.rng.pick(&from).copied() {
            self.say(format!("kill -9 {what} {pid}"));
            process::kill9(pid);
        }
    }

    fn burst(&mut self) -> Result<(), String> {
        for _ in 0..self.rng.within(6, 30) {
            match self.rng.within(0, 8) {
                0 => self.aside(&["status"], None)?,
                1 => self.aside(&["tasks", "list", "--json"], None)?,
                2 => self.aside(&["work", "batch", "status", "--json"], None)?,
                3 => self.aside(&["events", "--json"], None)?,
                4 => self.aside(&["tasks", "add", "one more"], None)?,
                5 => self.of_one_task(&["explain", "?"])?,
                6 => self.of_one_task(&["tasks", "show", "?", "--json"])?,
                _ => self.set_status()?,
            }
        }
        Ok(())
    }

    fn set_status(&mut self) -> Result<(), String> {
        let task = self.rng.pick(&self.keys).cloned().unwrap_or_default();
        let status = self.rng.pick(&STATUSES).copied().unwrap_or("DONE");
        let said = Said {
            task: task.clone(),
            status: status.to_owned(),
        };
        self.aside(&["tasks", "set", "status", &task, status], Some(said))
    }

    /// A command about one task, which stands where the `?` is; another where `??` is.
    fn of_one_task(&mut self, args: &[&str]) -> Result<(), String> {
        let task = self.rng.pick(&self.keys).cloned().unwrap_or_default();
        let other = self.rng.pick(&self.keys).cloned().unwrap_or_default();
        let args: Vec<&str> = args
            .iter()
            .map(|arg| match *arg {
                "?" => task.as_str(),
                "??" => other.as_str(),
                other => other,
            })
            .collect();
        self.aside(&args, None)
    }

    fn answer(&mut self) -> Result<(), String> {
        let open = self.ground.texts(
            "SELECT id FROM blocker WHERE status = 'OPEN' AND asked_by <> 'system' ORDER BY pk",
        );
        if let Some(id) = self.rng.pick(&open).cloned() {
            let verb = if self.rng.once_in(4) {
                "resolve"
            } else {
                "answer"
            };
            let mut args = vec!["blocker", verb, &id];
            if verb == "answer" {
                args.push("to the left");
            }
            return self.aside(&args, None);
        }
        Ok(())
    }

    fn signal_or_stop(&mut self, conductor: Option<u32>) -> Result<(), String> {
        match self.rng.within(0, 5) {
            0 => self.aside(&["work", "batch", "stop"], None),
            1 => self.aside(&["work", "batch", "stop", "--force"], None),
            kind => {
                if let Some(pid) = conductor {
                    let signal = [Signal::INT, Signal::TERM, Signal::HUP][kind as usize - 2];
                    self.say(format!("{signal:?} to conductor {pid}"));
                    process::signal(pid, signal);
                    if self.rng.once_in(3) {
                        sleep(Duration::from_millis(self.rng.within(0, 100)));
                        process::signal(pid, signal);
                    }
                }
                Ok(())
            }
        }
    }

    fn github_deed(&mut self) {
        let Some(github) = self.github else { return };
        let issue = self.rng.within(1, self.keys.len() as u64 + 1);
        let deed = match self.rng.within(0, 7) {
            0 => {
                github.close(REPO, issue, Some("COMPLETED"));
                "closed"
            }
            1 => {
                github.close(REPO, issue, Some("NOT_PLANNED"));
                "not planned"
            }
            2 => {
                github.reopen(REPO, issue);
                "reopened"
            }
            3 => {
                github.comment(REPO, issue, "have a look");
                "commented on"
            }
            4 => {
                github.fault("", Fault::status(502, "bad gateway", &[]), 3);
                "broken (502)"
            }
            5 => {
                github.fault("", Fault::Reset, 2);
                "broken (reset)"
            }
            _ => {
                github.heal();
                "healed"
            }
        };
        self.say(format!("GitHub, issue {issue}: {deed}"));
    }

    /// Waits for everything that was started beside, and looks how it ended.
    pub(crate) fn collect(&mut self, patience: Duration) {
        for mut aside in std::mem::take(&mut self.asides) {
            let shown = aside.started.shown.clone();
            let Some(ended) = aside.started.wait(patience) else {
                self.faults.push(format!(
                    "cf {shown} ({}) has not ended:\n{}",
                    aside.started.child.id(),
                    aside.started.text()
                ));
                continue;
            };
            if let Some(signal) = ended.signal.filter(|_| !aside.killed) {
                self.faults.push(format!(
                    "cf {shown} died of signal {signal}:\n{}",
                    ended.text
                ));
            }
            self.look_at(&shown, &ended.text);
            if ended.code == Some(0)
                && let Some(said) = aside.said
            {
                self.said.push(said);
            }
        }
    }

    fn look_at(&mut self, shown: &str, text: &str) {
        for word in ["panicked", "database is locked"] {
            if text.contains(word) {
                self.faults
                    .push(format!("cf {shown} says {word:?}:\n{text}"));
            }
        }
    }

    /// Waits until no conductor runs any more, answering what agents ask.
    pub(crate) fn come_to_rest(&mut self, patience: Duration) -> Result<(), String> {
        let deadline = Instant::now() + patience;
        loop {
            for text in self
                .conductors
                .iter()
                .map(Started::text)
                .collect::<Vec<_>>()
            {
                self.look_at("(a conductor)", &text);
            }
            self.conductors.retain_mut(Started::running);
            if self.conductors.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let late: Vec<String> = self
                    .conductors
                    .iter()
                    .map(|c| format!("{} {}\n{}", c.child.id(), c.shown, c.text()))
                    .collect();
                return Err(format!("does not come to an end: {}", late.join("\n")));
            }
            self.wake_everybody();
            self.answer_everything()?;
            sleep(Duration::from_millis(50));
        }
    }

    fn answer_everything(&mut self) -> Result<(), String> {
        let open = self.ground.texts(
            "SELECT id FROM blocker WHERE status = 'OPEN' AND asked_by <> 'system' ORDER BY pk",
        );
        for id in open {
            self.ground.run(
                &["blocker", "answer", &id, "straight on"],
                Duration::from_secs(30),
            )?;
        }
        Ok(())
    }

    /// Has every batch that has not ended resumed until it has.
    pub(crate) fn resume_everything(&mut self, patience: Duration) -> Result<(), String> {
        for time in 0..7 {
            let open = self
                .ground
                .texts("SELECT id FROM batch WHERE status IN ('PENDING', 'RUNNING') ORDER BY pk");
            if open.is_empty() {
                return Ok(());
            }
            for batch in open {
                let mut command = self.ground.cf(&["work", "batch", "resume", &batch], None);
                let started = self.ground.start(&mut command)?;
                let pid = started.child.id();
                self.say(format!("at last: resume {batch} ({pid})"));
                self.conductors.push(started);
                if time < 3 && self.rng.once_in(2) {
                    sleep(Duration::from_millis(self.rng.within(5, 300)));
                    self.say(format!("kill -9 conductor {pid}"));
                    process::kill9(pid);
                }
                self.come_to_rest(patience)?;
            }
        }
        Err("seven times resumed, and a batch has not ended".to_owned())
    }
}
