//! The executor of this machine: a supervisor a slot, used again for the next attempt.
//!
//! Supervisors are children of this process with a pipe in each direction. What happens to them comes in as small
//! tasks that each wait for one thing (a note, an end, a sweep) and are joined by [`LocalExecutor::note`]. Whatever a
//! task says, the state of a supervisor that is gone is read from its file.

mod life;
mod orphans;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use cf_core::{AttemptId, SupervisorId};
use rustix::process::{Rlimit, Signal};
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinSet;

use self::life::Happened;
use self::orphans::Tolerated;
use super::slot::{self, Slot, State, Who};
use super::{Adopted, Executor, ExecutorError, Note, Running};
use crate::process::{Identity, SessionTrust, Stat, adopted, is_same, lock_held, reap};
use crate::supervise::logfile::{Chunk, LogReader};
use crate::supervise::{Frame, Inherited, Job, Record, Stage, record_path};

/// How long to wait for a hello before those that are starting are looked at: somebody may have stopped them.
const LOOK: Duration = Duration::from_secs(1);

/// After how many looks a supervisor that still has not said hello is given up. Looks are counted, and not the time,
/// so that the time for which this process itself is stopped counts against nobody.
const LOOKS: u32 = 20;

/// How long idle supervisors may take to end when all are retired.
const RETIRE: Duration = Duration::from_secs(5);

/// What a local executor needs to know.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Where the supervisors' own files are: `<id>.sup`. It exists, and belongs to this user.
    pub dir: PathBuf,
    /// The program that becomes a supervisor when it is called as one.
    pub exe: PathBuf,
    /// SIGTERM to SIGKILL for what a dead supervisor left behind.
    pub lost_grace: Duration,
    /// How long after the grace of a stop the note may take to come; a supervisor that is later is killed. It needs up
    /// to 5 s by itself before it names survivors.
    pub stop_bound: Duration,
    /// After how many jobs a supervisor is replaced, which bounds the size of its file.
    pub jobs_per_supervisor: u32,
    /// Whether this process is a child subreaper, so that orphans of its supervisors come to it.
    pub subreaper: bool,
    /// How many files supervisors and agents may have open, where this process has raised its own limit.
    pub files: Option<Rlimit>,
}

impl LocalOptions {
    /// The usual settings: this program itself, 10 s of grace, 1,000 jobs, not a subreaper.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            exe: "/proc/self/exe".into(),
            lost_grace: Duration::from_secs(10),
            stop_bound: Duration::from_secs(7),
            jobs_per_supervisor: 1_000,
            subreaper: false,
            files: None,
        }
    }
}

/// Runs attempts on this machine. It is to be used inside a tokio runtime with I/O and time; one thread is enough.
pub struct LocalExecutor {
    options: LocalOptions,
    slots: HashMap<SupervisorId, Slot>,
    idle: Vec<SupervisorId>,
    /// Those that have not said hello yet, the oldest first.
    starting: VecDeque<Starting>,
    tasks: JoinSet<Happened>,
    /// Notes that came while something else was waited for.
    notes: VecDeque<Note>,
    /// Dead supervisors of which what they left behind is being stopped.
    sweeping: HashSet<SupervisorId>,
    tolerated: Tolerated,
}

/// A supervisor that has not said hello yet.
struct Starting {
    id: SupervisorId,
    /// Where its hello will come.
    receiver: Receiver,
    /// How many times it was looked at.
    looks: u32,
}

impl LocalExecutor {
    /// An executor without any supervisor. Orphans that are at this process already are left alone for good.
    ///
    /// # Errors
    ///
    /// The directory is relative and the current directory is not to be found.
    pub fn new(options: LocalOptions) -> io::Result<Self> {
        let mut executor = Self {
            options: LocalOptions {
                dir: std::path::absolute(&options.dir)?,
                ..options
            },
            slots: HashMap::new(),
            idle: Vec::new(),
            starting: VecDeque::new(),
            tasks: JoinSet::new(),
            notes: VecDeque::new(),
            sweeping: HashSet::new(),
            tolerated: Tolerated::default(),
        };
        executor.look_at_orphans(&adopted(&[]));
        Ok(executor)
    }

    /// Starts supervisors ahead of time until `count` are idle or starting; [`Executor::acquire`] then only has to wait
    /// for their hello.
    ///
    /// # Errors
    ///
    /// One could not be started. Those before it are; but one of them is let go again, because its conductor needs a
    /// part of what the system is short of itself.
    pub fn warm(&mut self, count: usize) -> Result<(), ExecutorError> {
        while self.at_hand() < count {
            if let Err(error) = self.start() {
                if self.at_hand() > 1 {
                    self.let_one_go();
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// How many supervisors are idle or starting.
    pub fn at_hand(&self) -> usize {
        self.idle.len() + self.starting.len()
    }

    /// Lets a supervisor that is starting end as soon as it is there.
    fn let_one_go(&mut self) {
        if let Some(Starting { id, receiver, .. }) = self.starting.pop_back()
            && let Some(slot) = self.slots.get_mut(&id)
        {
            slot.state = State::Idle;
            slot.close_gate();
            self.listen(id, receiver);
        }
    }

    /// Waits like [`Executor::acquire`], but for a second at most: `None` when no supervisor has come by then, and the
    /// next call goes on waiting for the same ones. Cancelling loses nothing.
    ///
    /// # Errors
    ///
    /// One could not be started, or has ended, or has not said hello for too long. Others may still come.
    pub async fn acquire_soon(&mut self) -> Result<Option<Identity>, ExecutorError> {
        while let Some(id) = self.idle.pop() {
            if let Some(Slot {
                who:
                    Who::Own {
                        identity: Some(identity),
                        ..
                    },
                state,
                retired: false,
                ..
            }) = self.slots.get_mut(&id)
            {
                *state = State::Acquired;
                return Ok(Some(identity.clone()));
            }
        }
        if self.starting.is_empty() {
            self.start()?;
        }
        match tokio::time::timeout(LOOK, first_word(&mut self.starting)).await {
            Ok((at, said)) => self.greet(at, said).await.map(Some),
            Err(_) => self.look_at_the_starting().map(|()| None),
        }
    }

    /// Waits for orphans that came to this process and have ended. To be called now and then by a subreaper.
    pub fn reap(&mut self) -> usize {
        let adopted = adopted(&self.own_children());
        let (ended, live): (Vec<Stat>, Vec<Stat>) = adopted.into_iter().partition(reap);
        self.look_at_orphans(&live);
        ended.len()
    }

    /// Lets supervisors go on that somebody stopped (SIGSTOP) and that are stopped at two calls in a row. To be called
    /// now and then: a stopped supervisor neither hears that its agent has ended nor keeps the agent's limits.
    pub fn wake_the_stopped(&mut self) {
        for slot in self.slots.values_mut() {
            if matches!(slot.state, State::Busy { .. }) {
                slot.wake_if_still_stopped();
            }
        }
    }

    /// The process numbers of the supervisors that are children of this process.
    pub fn own_children(&self) -> Vec<i32> {
        self.slots.values().filter_map(Slot::own_pid).collect()
    }

    fn file(&self, id: SupervisorId) -> PathBuf {
        record_path(&self.options.dir, id)
    }
}

impl Executor for LocalExecutor {
    async fn acquire(&mut self) -> Result<Identity, ExecutorError> {
        loop {
            if let Some(identity) = self.acquire_soon().await? {
                return Ok(identity);
            }
        }
    }

    fn submit(&mut self, supervisor: SupervisorId, job: &Job) -> Result<(), ExecutorError> {
        let gone = ExecutorError::Gone(supervisor);
        let slot = self
            .slots
            .get_mut(&supervisor)
            .filter(|slot| !slot.retired)
            .ok_or(gone)?;
        if !matches!(slot.state, State::Acquired | State::Reported) {
            return Err(ExecutorError::Job(io::Error::other(
                "the supervisor is busy or was not acquired",
            )));
        }
        slot.wake_if_stopped();
        slot.send(supervisor, Frame::of_job(job, &slot.inherited))?;
        slot.inherited = job.inherited.clone();
        slot.overdue_at = None;
        slot.state = State::Busy {
            attempt: job.attempt,
            stage: job.stage,
        };
        slot.jobs += 1;
        slot.released = false;
        Ok(())
    }

    fn release(&mut self, supervisor: SupervisorId) {
        let most = self.options.jobs_per_supervisor;
        let Some(slot) = self.slots.get_mut(&supervisor) else {
            return;
        };
        if !matches!(slot.state, State::Acquired | State::Reported) {
            return;
        }
        slot.state = State::Idle;
        slot.released = true;
        if slot.retired || slot.jobs >= most {
            slot.close_gate();
            self.forget_released(supervisor);
        } else {
            self.idle.push(supervisor);
        }
    }

    fn stop(&mut self, supervisor: SupervisorId, grace: Duration) -> Result<(), ExecutorError> {
        let file = self.file(supervisor);
        let Some(slot) = self.slots.get_mut(&supervisor) else {
            return Ok(());
        };
        let State::Busy { attempt, stage } = slot.state else {
            return Ok(());
        };
        if slot.has_gate() {
            let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
            let stop = Frame::Stop {
                attempt,
                stage,
                grace_ms,
            };
            match slot.send(supervisor, stop.to_bytes()) {
                // Its death is on the way, and with it a note.
                Ok(()) | Err(ExecutorError::Gone(_)) => {}
                Err(error) => return Err(error),
            }
        } else {
            // One that is dead cannot be reached either, and needs not.
            if slot.identity().is_some_and(|who| !who.is_local()) && lock_held(&file) {
                return Err(ExecutorError::Unreachable(supervisor));
            }
            // Without a gate the grace is the job's; a shorter one is kept by a second signal.
            let first = if grace.is_zero() {
                Signal::INT
            } else {
                Signal::TERM
            };
            slot.signal(first)
                .map_err(|source| ExecutorError::Signal { supervisor, source })?;
            if !grace.is_zero() {
                self.tasks.spawn(async move {
                    tokio::time::sleep(grace).await;
                    Happened::GraceOver(supervisor)
                });
            }
        }
        slot.wake();
        self.watch_stop(supervisor, (attempt, stage), grace);
        Ok(())
    }

    fn adopt(
        &mut self,
        identity: &Identity,
        attempt: AttemptId,
        stage: Stage,
    ) -> Result<Adopted, ExecutorError> {
        let id = identity.supervisor;
        if let Some(slot) = self.slots.get_mut(&id) {
            // One of this executor's own, of which it is uncertain whether it took the job.
            if !matches!(slot.state, State::Busy { .. }) {
                slot.state = State::Busy { attempt, stage };
                slot.close_gate();
                slot.released = false;
                if matches!(slot.who, Who::Dead) {
                    return Ok(self.settled_or_sweeping(id, SessionTrust::IfMarked));
                }
            }
            return Ok(Adopted::Running);
        }
        let file = self.file(id);
        let slot = Slot {
            who: Who::Adopted(identity.clone()),
            state: State::Busy { attempt, stage },
            inherited: Inherited::default(),
            jobs: 1,
            retired: true,
            released: false,
            leaves_unlisted: false,
            overdue_at: None,
            found_stopped: false,
        };
        // A file that somebody removed says nothing about its supervisor.
        let missing = !std::fs::exists(&file).unwrap_or(true);
        if lock_held(&file) || (missing && is_same(identity)) {
            let pidfd = slot::pidfd_of(identity);
            self.slots.insert(id, slot);
            self.tasks.spawn(async move {
                match pidfd {
                    Some(pidfd) => slot::ended(pidfd).await,
                    None => slot::unlocked(file).await,
                }
                Happened::Ended(id)
            });
            return Ok(Adopted::Running);
        }
        self.slots.insert(id, slot);
        Ok(self.settled_or_sweeping(id, SessionTrust::IfMarked))
    }

    async fn note(&mut self) -> Note {
        loop {
            if let Some(note) = self.notes.pop_front() {
                return note;
            }
            match self.next().await {
                Some(Some(note)) => return note,
                Some(None) => {}
                None => std::future::pending().await,
            }
        }
    }

    fn running(&self) -> Vec<Running> {
        let busy = self.slots.iter().filter_map(|(id, slot)| match slot.state {
            State::Busy { attempt, stage } => Some(Running {
                supervisor: *id,
                attempt,
                stage,
            }),
            _ => None,
        });
        busy.collect()
    }

    fn read_log(&self, log: &Path, offset: u64, most: usize) -> io::Result<Chunk> {
        LogReader::new(log).read_from(offset, most)
    }

    async fn retire_all(&mut self) {
        self.idle.clear();
        for Starting { id, receiver, .. } in std::mem::take(&mut self.starting) {
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.state = State::Idle;
                self.listen(id, receiver);
            }
        }
        let leaving =
            |slot: &Slot| slot.own_pid().is_some() && !matches!(slot.state, State::Busy { .. });
        for slot in self.slots.values_mut().filter(|slot| leaving(slot)) {
            slot.close_gate();
            slot.wake();
        }
        let all_gone = async {
            while self.slots.values().any(leaving) {
                match self.next().await {
                    Some(note) => self.notes.extend(note),
                    None => break,
                }
            }
        };
        if tokio::time::timeout(RETIRE, all_gone).await.is_err() {
            let late: Vec<_> = self
                .slots
                .iter()
                .filter(|(_, slot)| leaving(slot))
                .map(|(id, _)| *id)
                .collect();
            for id in late {
                tracing::warn!(supervisor = %id, "a supervisor did not end when its gate was closed");
                self.bury(id);
            }
        }
    }
}

/// Waits for the first word (`None`: the end) of any supervisor that is starting, and returns whose it is; of several
/// that have spoken, the oldest's. Cancelling loses nothing.
async fn first_word(starting: &mut VecDeque<Starting>) -> (usize, Option<Record>) {
    std::future::poll_fn(|context| {
        for (at, one) in starting.iter_mut().enumerate() {
            let word = pin!(slot::read_record(&mut one.receiver));
            if let Poll::Ready(said) = word.poll(context) {
                return Poll::Ready((at, said));
            }
        }
        Poll::Pending
    })
    .await
}
