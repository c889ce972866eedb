//! What the adversary does, one deed after another: to processes, to the disk, to GitHub, and as people do.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cf_testkit::github::Fault;
use cf_testkit::{Signal, process};

use super::Adversary;
use crate::agents::REPO;
use crate::said::Word;

const STATUSES: [&str; 5] = ["DONE", "FAILED", "READY", "BLOCKED", "BACKLOG"];

impl Adversary<'_> {
    /// Stops a process of the batch for a while.
    pub(super) fn pause(&mut self, conductor: Option<u32>) {
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
    pub(super) fn kill_the_last_command(&mut self) {
        if let Some(aside) = self.asides.last_mut() {
            aside.killed = true;
            process::kill9(aside.started.child.id());
            self.say("… and was killed".to_owned());
        }
    }

    /// Everything stands still while the conductor dies; it goes on when another may be there already.
    pub(super) fn freeze_and_kill(&mut self, conductor: Option<u32>) {
        let below = conductor.map(process::descendants).unwrap_or_default();
        self.say(format!("freeze {below:?}, kill -9 conductor {conductor:?}"));
        let time = Duration::from_millis(self.rng.within(50, 1_500));
        for pid in below {
            process::signal(pid, Signal::STOP);
            self.stopped.push((Instant::now() + time, pid));
        }
        conductor.into_iter().for_each(process::kill9);
    }

    /// Shortens the log as far as it can be, and perhaps dies of it.
    pub(super) fn prune(&mut self) -> Result<(), String> {
        self.aside(&["events", "prune", "--older-than", "0"], None)?;
        if self.rng.once_in(3) {
            sleep(Duration::from_millis(self.rng.within(0, 60)));
            self.kill_the_last_command();
        }
        Ok(())
    }

    /// The file of a supervisor is gone, as after an agent's careless `rm`.
    pub(super) fn lose_a_file(&mut self) {
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
    pub(super) fn wake_everybody(&self) {
        let conductors = self.conductors.iter().map(|conductor| conductor.child.id());
        for pid in conductors.chain(self.ground.supervisors()) {
            process::signal(pid, Signal::CONT);
        }
    }

    /// Stops a batch by its name, whether or not anybody conducts it.
    pub(super) fn stop_by_name(&mut self) -> Result<(), String> {
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

    pub(super) fn shortage_of_disk(&mut self) {
        if self.disk_full_until.is_none() && self.ground.fill_disk() {
            let time = Duration::from_millis(self.rng.within(50, 1_500));
            self.say(format!("disk full for {time:?}"));
            self.disk_full_until = Some(Instant::now() + time);
        }
    }

    /// With a conductor gone: goes on with its batch, or begins another.
    pub(super) fn go_on(&mut self) -> Result<(), String> {
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

    pub(super) fn kill_one_of(&mut self, what: &str) {
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

    pub(super) fn burst(&mut self) -> Result<(), String> {
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

    pub(super) fn set_status(&mut self) -> Result<(), String> {
        let task = self.rng.pick(&self.keys).cloned().unwrap_or_default();
        let status = self.rng.pick(&STATUSES).copied().unwrap_or("DONE");
        let word = Word::Status(task.clone(), status.to_owned());
        self.aside(&["tasks", "set", "status", &task, status], Some(word))
    }

    /// A command about one task, which stands where the `?` is; another where `??` is.
    pub(super) fn of_one_task(&mut self, args: &[&str]) -> Result<(), String> {
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

    /// The same, and what it makes true of that task.
    pub(super) fn say_of_one_task(
        &mut self,
        args: &[&str],
        word: impl FnOnce(String) -> Word,
    ) -> Result<(), String> {
        let task = self.rng.pick(&self.keys).cloned().unwrap_or_default();
        let args: Vec<&str> = args
            .iter()
            .map(|arg| if *arg == "?" { task.as_str() } else { arg })
            .collect();
        self.aside(&args, Some(word(task.clone())))
    }

    pub(super) fn answer(&mut self) -> Result<(), String> {
        let open = self.ground.texts(
            "SELECT id FROM blocker WHERE status = 'OPEN' AND asked_by <> 'system' ORDER BY pk",
        );
        if let Some(id) = self.rng.pick(&open).cloned() {
            if self.rng.once_in(4) {
                let word = Word::Resolved(id.clone());
                return self.aside(&["blocker", "resolve", &id], Some(word));
            }
            let word = Word::Answered(id.clone());
            return self.aside(&["blocker", "answer", &id, "to the left"], Some(word));
        }
        Ok(())
    }

    pub(super) fn signal_or_stop(&mut self, conductor: Option<u32>) -> Result<(), String> {
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

    pub(super) fn github_deed(&mut self) {
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
}
