//! How a round comes to rest: everything that was started is waited for, every question answered, every batch resumed
//! until it has ended.

use std::mem;
use std::thread::sleep;
use std::time::{Duration, Instant};

use cf_testkit::process;

use super::Adversary;
use crate::ground::{Ended, Started};
use crate::said::{Said, now_ms};

impl Adversary<'_> {
    /// Waits for everything that was started beside, and looks how it ended.
    pub(crate) fn collect(&mut self, patience: Duration) {
        for mut aside in mem::take(&mut self.asides) {
            let shown = aside.started.shown.clone();
            let Some(ended) = self.wait_for(&mut aside.started, patience) else {
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
                && let Some((word, begun)) = aside.said
            {
                self.said.push(Said {
                    word,
                    during: (begun, aside.ended_ms.unwrap_or_else(now_ms)),
                    was_so: ended.text.contains(" already"),
                });
            }
        }
    }

    /// Waits for the end of a command, and lets go on meanwhile whoever stopped at a named point: it may stand in the
    /// middle of a transaction, and nobody else can write before its end.
    fn wait_for(&self, started: &mut Started, patience: Duration) -> Option<Ended> {
        let deadline = Instant::now() + patience;
        loop {
            let ended = started.wait(Duration::from_millis(50));
            if ended.is_some() || Instant::now() >= deadline {
                return ended;
            }
            self.wake_everybody();
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
            let answer = ["blocker", "answer", &id, "straight on"];
            let mut started = self.ground.start(&mut self.ground.cf(&answer, None))?;
            if self
                .wait_for(&mut started, Duration::from_secs(30))
                .is_none()
            {
                process::kill9(started.child.id());
                return Err(format!("cf {} has not ended", started.shown));
            }
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
