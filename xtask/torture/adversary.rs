//! What is done to a batch while it runs: kills, pauses, shortages, and everything that people may do meanwhile.
//!
//! One thread decides, and its decisions come from the seed; when they hit is up to the machine.

mod deeds;
mod rest;

use std::thread::sleep;
use std::time::{Duration, Instant};

use cf_conductor::fault::{POINTS, Place};
use cf_testkit::github::ScriptedGithub;
use cf_testkit::{Signal, process};

use crate::ground::{Ground, Started};
use crate::rng::Rng;
use crate::said::{Said, Word, now_ms};

/// A command of which only the end is looked at, later.
struct Aside {
    started: Started,
    /// What it says to be so when it succeeds, and when it began.
    said: Option<(Word, i64)>,
    /// When it was seen to have ended.
    ended_ms: Option<i64>,
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
    /// Whether the log is pruned in this round: in most it stays whole, so that all of it can be judged.
    prunes: bool,
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
        let prunes = rng.once_in(3);
        Self {
            prunes,
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
            self.note_ends();
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
        if self.ground.has_trees() && !rng.once_in(5) {
            flags.push("--isolation=worktree".to_owned());
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
    fn aside(&mut self, args: &[&str], word: Option<Word>) -> Result<(), String> {
        self.say(args.join(" "));
        let mut command = self.ground.cf(args, None);
        let begun = now_ms();
        let started = self.ground.start(&mut command)?;
        self.asides.push(Aside {
            started,
            said: word.map(|word| (word, begun)),
            ended_ms: None,
            killed: false,
        });
        Ok(())
    }

    /// Writes down which commands have ended by now.
    fn note_ends(&mut self) {
        for aside in &mut self.asides {
            if aside.ended_ms.is_none() && !aside.started.running() {
                aside.ended_ms = Some(now_ms());
            }
        }
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
        match self.rng.within(0, 35) {
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
            15 => self.say_of_one_task(&["tasks", "delete", "?", "--force"], Word::Deleted)?,
            16 => {
                let priority = format!("--priority={}", self.rng.within(0, 5));
                self.of_one_task(&["tasks", "edit", "?", &priority])?;
            }
            17 => {
                self.say_of_one_task(&["blocker", "ask", "and now?", "--task", "?"], Word::Asked)?;
            }
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
            32 if self.prunes => self.prune()?,
            _ => self.of_one_task(&["tasks", "depend", "?", "??"])?,
        }
        Ok(())
    }
}
