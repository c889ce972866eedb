//! What happens to the supervisors of a local executor, from their start to the removal of their files.

use std::io;
use std::time::{Duration, Instant};

use cf_core::{AttemptId, SupervisorId};
use rustix::process::{Pid, PidfdFlags, Resource, Signal, pidfd_open, prlimit};
use tokio::net::unix::pipe::Receiver;
use uuid::Uuid;

use super::{LOOKS, LocalExecutor, Starting};
use crate::executor::fate::{Written, after_sweep, written};
use crate::executor::slot::{self, Slot, State, Who};
use crate::executor::{Adopted, ExecutorError, Fate, Note};
use crate::process::{Identity, Lost, Process, SessionTrust, Swept, end_for_certain, sweep};
use crate::supervise::{Ended, Record, Stage};

/// What a task has waited for.
pub(super) enum Happened {
    /// A record came, or (`None`) the supervisor is dead.
    Said(SupervisorId, Receiver, Option<Record>),
    /// The supervisor has ended.
    Ended(SupervisorId),
    /// What a dead supervisor left has been stopped.
    Swept(SupervisorId, Option<Box<Ended>>, Swept),
    /// The grace of a stop is over.
    GraceOver(SupervisorId),
    /// What was to be stopped should have ended by now.
    StopOverdue(SupervisorId, Stage, AttemptId),
}

impl LocalExecutor {
    pub(super) fn start(&mut self) -> Result<(), ExecutorError> {
        let id = SupervisorId(Uuid::new_v4());
        let exe = &self.options.exe;
        let started = Slot::start(exe, &self.file(id));
        let (slot, receiver) = started.map_err(|source| ExecutorError::Start {
            what: exe.display().to_string(),
            source,
        })?;
        if let (Some(files), Some(pid)) = (self.options.files, slot.own_pid()) {
            // It has no agent before it is given a job. Where this fails it has ended already.
            let _ = prlimit(Pid::from_raw(pid), Resource::Nofile, files);
        }
        self.slots.insert(id, slot);
        self.starting.push_back(Starting {
            id,
            receiver,
            looks: 0,
        });
        crate::fault::point("supervisor.started");
        Ok(())
    }

    /// Takes in the first word of one that is starting (`None`: it has ended), and acquires it.
    pub(super) async fn greet(
        &mut self,
        at: usize,
        said: Option<Record>,
    ) -> Result<Identity, ExecutorError> {
        let id = self.starting[at].id;
        let slot = self.slots.get_mut(&id);
        let slot = slot.expect("a starting supervisor has a slot");
        let failed = match said {
            Some(Record::Hello(said))
                if said.supervisor == id && Some(said.pid) == slot.own_pid() =>
            {
                slot.state = State::Acquired;
                if let Who::Own { identity, .. } = &mut slot.who {
                    *identity = Some(said.clone());
                }
                if let Some(started) = self.starting.remove(at) {
                    self.listen(id, started.receiver);
                }
                return Ok(said);
            }
            Some(_) => "it is another program".to_owned(),
            // When this is cancelled its end is read again.
            None => {
                let how = slot.how_it_ended().await;
                format!("it ended before it said hello ({how})")
            }
        };
        Err(self.give_up(at, failed))
    }

    /// Lets those go on that are starting and that somebody stopped, however often, and gives up one that has been
    /// looked at too often.
    pub(super) fn look_at_the_starting(&mut self) -> Result<(), ExecutorError> {
        for starting in &mut self.starting {
            starting.looks += 1;
            if let Some(slot) = self.slots.get(&starting.id) {
                slot.wake();
            }
        }
        let late = self.starting.iter().position(|one| one.looks > LOOKS);
        late.map_or(Ok(()), |at| {
            Err(self.give_up(at, "it did not say hello in time".to_owned()))
        })
    }

    /// Ends one that is starting, and says why.
    fn give_up(&mut self, at: usize, why: String) -> ExecutorError {
        if let Some(starting) = self.starting.remove(at) {
            self.bury(starting.id);
        }
        ExecutorError::Start {
            what: self.options.exe.display().to_string(),
            source: io::Error::other(why),
        }
    }

    /// Has the next note of a supervisor waited for. There is always exactly one such task for each that said hello.
    pub(super) fn listen(&mut self, id: SupervisorId, mut receiver: Receiver) {
        self.tasks.spawn(async move {
            let record = slot::read_record(&mut receiver).await;
            Happened::Said(id, receiver, record)
        });
    }

    /// Has the end of an own supervisor waited for, so that it can be reaped.
    pub(super) fn watch_end(&mut self, id: SupervisorId) {
        let pid = self
            .slots
            .get(&id)
            .and_then(Slot::own_pid)
            .and_then(Pid::from_raw);
        let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        self.tasks.spawn(async move {
            if let Some(pidfd) = pidfd {
                slot::ended(pidfd).await;
            }
            Happened::Ended(id)
        });
    }

    /// Has a supervisor killed that does not come to the end of what it is to stop: somebody may keep it from that.
    pub(super) fn watch_stop(
        &mut self,
        id: SupervisorId,
        (attempt, stage): (AttemptId, Stage),
        grace: Duration,
    ) {
        let patience = grace.saturating_add(self.options.stop_bound);
        let (Some(slot), Some(at)) = (
            self.slots.get_mut(&id),
            Instant::now().checked_add(patience),
        ) else {
            return;
        };
        if slot.overdue_at.is_some_and(|earlier| earlier <= at) {
            return;
        }
        slot.overdue_at = Some(at);
        self.tasks.spawn(async move {
            tokio::time::sleep_until(at.into()).await;
            Happened::StopOverdue(id, stage, attempt)
        });
    }

    /// Takes in what a task has waited for.
    pub(super) fn take(&mut self, happened: Happened) -> Option<Note> {
        match happened {
            Happened::Said(id, receiver, Some(record)) => {
                self.listen(id, receiver);
                self.said(id, record)
            }
            Happened::Said(id, _, None) => self.died(id),
            Happened::Ended(id) => self.ended(id),
            Happened::Swept(id, first, swept) => {
                self.sweeping.remove(&id);
                self.bury(id);
                self.report(id, after_sweep(first, swept))
            }
            Happened::GraceOver(id) => {
                if let Some(slot) = self.slots.get(&id)
                    && matches!(slot.state, State::Busy { .. })
                    && let Err(error) = slot.signal(Signal::INT)
                {
                    tracing::warn!(supervisor = %id, %error, "cannot signal a supervisor");
                }
                None
            }
            Happened::StopOverdue(id, stage, attempt) => {
                if let Some(slot) = self.slots.get(&id)
                    && matches!(slot.state, State::Busy { attempt: a, stage: s } if (a, s) == (attempt, stage))
                {
                    // Its death brings the note; what it wrote down before still counts.
                    tracing::warn!(supervisor = %id, "a supervisor did not stop what it runs, and is killed");
                    if let Err(error) = slot.signal(Signal::KILL) {
                        tracing::warn!(supervisor = %id, %error, "cannot kill a supervisor");
                    }
                }
                None
            }
        }
    }

    /// A record came from a supervisor that lives.
    pub(super) fn said(&mut self, id: SupervisorId, record: Record) -> Option<Note> {
        let slot = self.slots.get_mut(&id)?;
        let State::Busy { attempt, stage } = slot.state else {
            return None;
        };
        if record.subject() != Some((attempt, stage)) {
            return None;
        }
        let fate = match record {
            Record::Ended(ended) => {
                if ended.retires {
                    slot.close_gate();
                }
                Fate::Ended(ended)
            }
            Record::SpawnFailed { error, passing, .. } => Fate::SpawnFailed { error, passing },
            Record::Hello(_) | Record::Started { .. } => return None,
        };
        self.report(id, fate)
    }

    /// An own supervisor has closed its notes, which only its death does.
    pub(super) fn died(&mut self, id: SupervisorId) -> Option<Note> {
        let slot = self.slots.get_mut(&id)?;
        slot.close_gate();
        self.idle.retain(|idle| *idle != id);
        if matches!(slot.state, State::Busy { .. }) {
            // It stays a zombie until that is done, so that nobody else can have its number (and session) meanwhile.
            return self.settle(id, SessionTrust::Certain);
        }
        self.watch_end(id);
        None
    }

    /// A supervisor has ended: one that is to be reaped, or one whose file has to be asked first.
    pub(super) fn ended(&mut self, id: SupervisorId) -> Option<Note> {
        let slot = self.slots.get(&id)?;
        // An own one is busy here when it was adopted after its death was noticed.
        if matches!(slot.state, State::Busy { .. }) {
            return self.settle(id, SessionTrust::Certain);
        }
        self.bury(id);
        None
    }

    /// Finds out how it came out with what a dead supervisor ran, and has the rest of it stopped if that is needed.
    pub(super) fn settle(&mut self, id: SupervisorId, trust: SessionTrust) -> Option<Note> {
        let State::Busy { attempt, stage } = self.slots.get(&id)?.state else {
            return None;
        };
        let file = self.file(id);
        let open = written(&file, attempt, stage).unwrap_or_else(|error| {
            // What cannot be read shows nothing; the careful assumption is that it was started.
            tracing::warn!(supervisor = %id, %error, "cannot read the file of a dead supervisor");
            Written::Open(None)
        });
        match open {
            Written::Final(fate) => {
                self.watch_end(id);
                self.report(id, fate)
            }
            Written::Open(first) => {
                self.sweep(id, attempt, trust, first);
                None
            }
        }
    }

    pub(super) fn settled_or_sweeping(&mut self, id: SupervisorId, trust: SessionTrust) -> Adopted {
        match self.settle(id, trust) {
            Some(note) => Adopted::Settled(note.fate),
            None => Adopted::Sweeping,
        }
    }

    /// Has what a dead supervisor left behind stopped, on a thread of its own: that takes up to the grace and 5 s.
    pub(super) fn sweep(
        &mut self,
        id: SupervisorId,
        attempt: AttemptId,
        trust: SessionTrust,
        first: Option<Box<Ended>>,
    ) {
        let Some(slot) = self.slots.get(&id) else {
            return;
        };
        let supervisor = slot.identity().cloned().filter(Identity::is_local);
        let mut roots: Vec<Process> = self.roots(id, attempt);
        roots.extend(first.iter().flat_map(|first| first.survivors.clone()));
        let lost = Lost {
            attempt,
            session: supervisor.as_ref().map_or(-1, |identity| identity.pid),
            trust,
            not_before: supervisor
                .as_ref()
                .map_or(0, |identity| identity.start_ticks),
            roots,
        };
        let grace = self.options.lost_grace;
        self.sweeping.insert(id);
        self.tasks.spawn_blocking(move || {
            // While it lives it alone may touch what is below it.
            if let Some(supervisor) = supervisor {
                end_for_certain(&supervisor, Duration::from_secs(1));
            }
            Happened::Swept(id, first, sweep(&lost, grace))
        });
    }

    /// Waits for an own supervisor that has ended, which takes no time, and forgets it if it was released.
    pub(super) fn bury(&mut self, id: SupervisorId) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        if let Who::Own { child, .. } = &mut slot.who {
            // Normally it has ended, and then nobody but it can have been hit.
            if matches!(child.try_wait(), Ok(None)) {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        // What it left comes here with its end.
        if slot.leaves_unlisted && slot.own_pid().is_some() {
            self.tolerated.unlisted_came();
        }
        slot.who = Who::Dead;
        slot.retired = true;
        // A supervisor that retires hands over what it deliberately left alone.
        self.reap();
        self.forget_released(id);
    }

    pub(super) fn forget_released(&mut self, id: SupervisorId) {
        if self
            .slots
            .get(&id)
            .is_some_and(|slot| slot.released && matches!(slot.who, Who::Dead))
        {
            self.slots.remove(&id);
            let file = self.file(id);
            if let Err(error) = std::fs::remove_file(&file)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(file = %file.display(), %error, "cannot remove the file of a supervisor");
            }
            crate::fault::point("supervisor.forgotten");
        }
    }

    pub(super) fn report(&mut self, supervisor: SupervisorId, fate: Fate) -> Option<Note> {
        let slot = self.slots.get_mut(&supervisor)?;
        let State::Busy { attempt, stage } = slot.state else {
            return None;
        };
        slot.state = State::Reported;
        slot.overdue_at = None;
        if let Fate::Ended(ended) = &fate {
            self.tolerated.add_listed(&ended.survivors);
            slot.leaves_unlisted = ended.unlisted > 0;
        }
        if matches!(slot.who, Who::Adopted(_)) {
            slot.who = Who::Dead;
        }
        Some(Note {
            supervisor,
            attempt,
            stage,
            fate,
        })
    }

    /// Waits for one task and takes in what it says; `None` when there is none to wait for.
    pub(super) async fn next(&mut self) -> Option<Option<Note>> {
        match self.tasks.join_next().await? {
            Ok(happened) => Some(self.take(happened)),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Some(None),
            },
        }
    }
}
