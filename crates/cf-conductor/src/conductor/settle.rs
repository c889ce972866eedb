//! What the end of an attempt means for its task.
//!
//! The verdict comes from the supervisor's record, the engine's rule for success, the questions that the attempt asked
//! and the status that it reported. The outside world wins: a result is applied only to the task as the claim left it;
//! otherwise it is kept as stale and the task is decided as if it were queued.

use std::time::Duration;

use cf_core::{
    Actor, AttemptEnd, AttemptId, BlockerStatus, Ending, EventType, Outcome, Phase, TaskId,
    TaskStatus, Timestamp,
};
use cf_reconcile::{
    AfterEnd, FailureCause, LiveClaim, Reason, Stored, WrittenSince, may_retry, retry_delay,
};
use serde_json::json;

use super::apply::answered;
use super::launch::Launch;
use super::trees::Kept;
use super::turn::{AtGate, Core, JOBS_IN_A_ROW, Running, Why};
use crate::fault;
use crate::process::Process;
use crate::schedule::Mode;
use crate::store::attempt::AttemptResult;
use crate::store::event::Event;
use crate::store::task::StatusWrite;
use crate::store::{Result, Tx};
use crate::supervise::Stage;

/// How long a task whose agent never came to its start waits for the next try: what kept it (a full disk, a supervisor
/// that was killed) is seldom gone in an instant.
const NEVER_STARTED_PAUSE: Duration = Duration::from_secs(1);

/// The end of one process of an attempt, judged outside the transaction.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    /// The attempt.
    pub attempt: AttemptId,
    /// Which process of it ended.
    pub stage: Stage,
    /// What is to be stored.
    pub result: AttemptResult,
    /// What a failure is counted as.
    pub cause: FailureCause,
    /// What could not be ended.
    pub survivors: Vec<Process>,
    /// Whether its program does not know the session that it was to go on with, so that nothing was done.
    pub session_is_unknown: bool,
    /// Whether its supervisor waits at its gate again.
    pub free: bool,
    /// What became of its work, where it has a worktree of its own.
    pub kept: Option<Kept>,
    /// What a person has to decide before it can start.
    pub question: Option<String>,
}

impl Core {
    pub(super) fn settle(&mut self, tx: &mut Tx<'_>, judged: &Judged) -> Result<()> {
        let Some(task) = self.by_attempt.get(&judged.attempt).copied() else {
            return Ok(());
        };
        let Some(mut running) = self
            .running
            .get(&task)
            .filter(|r| r.attempt == judged.attempt)
            .cloned()
        else {
            return Ok(());
        };
        if judged.result.end == AttemptEnd::NeverStarted
            && judged.question.is_none()
            && running.stop.is_none()
        {
            self.hold_off = Some(self.clock + NEVER_STARTED_PAUSE);
        }
        let of_the_agent;
        let mut judged = judged;
        if judged.result.end == AttemptEnd::NeverStarted
            && let Some(result) = running.agent_result.take()
        {
            // Its agent has done its work; only the verification never began.
            of_the_agent = Judged {
                stage: Stage::Agent,
                result,
                free: false,
                ..judged.clone()
            };
            if running.stop.is_none() {
                // So only that is begun again.
                self.released.push(running.identity.supervisor);
                if let Some(running) = self.running.get_mut(&task) {
                    running.stage = Stage::Agent;
                    running.jobs = None;
                }
                self.unverified.push(of_the_agent);
                return Ok(());
            }
            running.stage = Stage::Agent;
            if let Some(running) = self.running.get_mut(&task) {
                // Its end may come again, when its work is kept.
                running.stage = Stage::Agent;
                running.agent_result = None;
            }
            judged = &of_the_agent;
        }
        let ours = self
            .schedule
            .row(task)
            .is_some_and(|row| matches!(row.phase, Phase::Running | Phase::Stopping));
        if judged.result.end == AttemptEnd::Exited
            && ours
            && self.goes_on_to_verification(tx, &running, judged)?
        {
            return Ok(());
        }
        if self.keeps_first(tx, &running, judged)? {
            return Ok(());
        }
        let mut result = judged.result.clone();
        let mut cause = judged.cause;
        if let Some(Kept::Failed { why, .. }) = &judged.kept
            && result.success
        {
            result.success = false;
            result.reason.clone_from(why);
            cause = FailureCause::Exit;
        }
        if let Some(agent) = &running.agent_result {
            result.last_said.clone_from(&agent.last_said);
            result.session.clone_from(&agent.session);
            result.tokens = agent.tokens;
            result.cost_micro_usd = agent.cost_micro_usd;
            result.left_behind += agent.left_behind;
            result.ending = agent.ending;
            result.output_lost += agent.output_lost;
        }
        if !fault::is_broken("outcome.apart") {
            tx.end_attempt(judged.attempt, &result)?;
        }
        Self::store_kept(tx, judged)?;
        self.running.remove(&task);
        self.by_attempt.remove(&judged.attempt);
        if let Some(jobs) = running
            .jobs
            .filter(|jobs| judged.free && *jobs < JOBS_IN_A_ROW)
        {
            self.at_gate.push(AtGate {
                identity: running.identity.clone(),
                jobs,
            });
        } else {
            self.released.push(running.identity.supervisor);
        }
        let by_source = matches!(
            running.stop.as_ref().map(|stop| &stop.why),
            Some(Why::Finding { .. })
        );
        if result.end == AttemptEnd::Killed
            && by_source
            && matches!(result.ending, Some(Ending::Code(_)))
        {
            // It ended by itself while it was being stopped, with a result of its own.
            self.keep_stale(tx, &running, &result)?;
        }
        if !ours {
            if result.end == AttemptEnd::Unclean {
                ask_about_survivors(tx, &running, judged)?;
            }
            self.settle_for_others(tx, &running, judged, &result)?;
            return self.store_committed(tx, &running, judged);
        }
        match result.end {
            AttemptEnd::Unclean => self.settle_unclean(tx, &running, judged),
            AttemptEnd::Killed => self.settle_killed(tx, &running),
            AttemptEnd::NeverStarted if running.stop.is_some() => {
                self.settle_killed(tx, &running)?;
                self.schedule.never_started(task, self.time());
                Ok(())
            }
            AttemptEnd::NeverStarted => match &judged.question {
                Some(question) => self.settle_question(tx, &running, question),
                None => self.settle_never_started(tx, &running, None, NEVER_STARTED_PAUSE),
            },
            AttemptEnd::Exited if judged.session_is_unknown && running.stop.is_none() => {
                // The next one is given no session: an attempt that never came into its own leaves none.
                let why = Reason::Other(result.reason.clone());
                self.settle_never_started(tx, &running, Some(why), Duration::ZERO)
            }
            AttemptEnd::Exited | AttemptEnd::Lost => {
                self.settle_ended(tx, &running, &result, cause)?;
                self.store_committed(tx, &running, judged)
            }
        }
    }

    /// The attempt of a batch that is gone, of a task that this batch only waits for: it makes the task what it is, and
    /// changes nothing here.
    fn settle_for_others(
        &mut self,
        tx: &mut Tx<'_>,
        running: &Running,
        judged: &Judged,
        result: &AttemptResult,
    ) -> Result<()> {
        let asked = !tx.reader().blockers_of_attempt(running.attempt)?.is_empty();
        let reported = tx.reader().report_of(running.attempt)?;
        let to = match result.end {
            AttemptEnd::Killed | AttemptEnd::NeverStarted | AttemptEnd::Unclean => {
                TaskStatus::Ready
            }
            AttemptEnd::Exited | AttemptEnd::Lost if asked || judged.session_is_unknown => {
                TaskStatus::Ready
            }
            AttemptEnd::Exited if result.success && reported != Some(TaskStatus::Failed) => {
                // Who takes it up next verifies; nobody does here.
                if running.stage == Stage::Agent && running.verify.is_some() {
                    TaskStatus::Ready
                } else {
                    TaskStatus::Done
                }
            }
            AttemptEnd::Exited | AttemptEnd::Lost => TaskStatus::Failed,
        };
        let own = tx.actor.clone();
        if to == TaskStatus::Ready {
            // It goes back to whoever wants it, and that may be this batch, if the task was reopened since it ended
            // here.
            tx.actor = Actor::System;
            self.relook.insert(running.task);
        }
        let written = tx.settle_status(running.task, running.attempt, running.version, to);
        tx.actor = own;
        // A success that nobody verifies is none yet.
        let is_open = result.success && to == TaskStatus::Ready;
        if written? == StatusWrite::Lost || is_open {
            self.keep_stale(tx, running, result)?;
        }
        self.saw_now(tx, running)
    }

    /// A successful agent of a task that is to be verified, that asked nothing and did not report a failure, goes on
    /// under the same supervisor. Nothing else does.
    fn goes_on_to_verification(
        &mut self,
        tx: &mut Tx<'_>,
        running: &Running,
        judged: &Judged,
    ) -> Result<bool> {
        if judged.stage != Stage::Agent || !judged.result.success || running.stop.is_some() {
            return Ok(false);
        }
        let Some(command) = running.verify.clone() else {
            return Ok(false);
        };
        let standing = tx.reader().standing(running.task)?;
        let attempt = tx.reader().attempt(running.attempt)?;
        let asked = !tx.reader().blockers_of_attempt(running.attempt)?.is_empty();
        let as_claimed = standing
            .is_some_and(|standing| !standing.deleted && standing.version == running.version);
        if asked
            || !as_claimed
            || attempt.report == Some(TaskStatus::Failed)
            || self.stop == Some(crate::store::batch::Stop::Force)
        {
            return Ok(false);
        }
        let own = running.jobs.filter(|_| judged.free).map(|jobs| AtGate {
            identity: running.identity.clone(),
            jobs,
        });
        let Some(AtGate { identity, jobs }) = own.or_else(|| self.at_gate.pop()) else {
            // The supervisor is gone; the next turn has another one at its gate.
            self.unverified.push(judged.clone());
            return Ok(true);
        };
        tx.begin_verification(&attempt, &identity, &judged.result)?;
        let row = tx.reader().task(running.task)?;
        if let Some(running) = self.running.get_mut(&running.task) {
            running.stage = Stage::Verify;
            if running.identity != identity {
                self.released.push(running.identity.supervisor);
            }
            running.identity = identity.clone();
            running.jobs = Some(jobs + 1);
            running.agent_result = Some(judged.result.clone());
        }
        self.launches.push(Launch::verification(
            row,
            running.attempt,
            attempt.generation,
            identity,
            running.tree.clone(),
            command,
        ));
        Ok(true)
    }

    fn settle_ended(
        &mut self,
        tx: &mut Tx<'_>,
        running: &Running,
        result: &AttemptResult,
        cause: FailureCause,
    ) -> Result<()> {
        let task = running.task;
        if matches!(
            running.stop.as_ref().map(|stop| &stop.why),
            Some(Why::ByHand)
        ) {
            self.keep_stale(tx, running, result)?;
            return self.stopped_by_hand(tx, task);
        }
        let asked = tx.reader().blockers_of_attempt(running.attempt)?;
        if !asked.is_empty() {
            return self.settle_asked(
                tx,
                running,
                asked.iter().any(|b| b.status == BlockerStatus::Open),
            );
        }
        let reported = tx.reader().report_of(running.attempt)?;
        let success = result.success && reported != Some(TaskStatus::Failed);
        if success && running.stage == Stage::Agent && running.verify.is_some() {
            // It did not come to the verification, so it is no success yet; nor is it a failure.
            self.keep_stale(tx, running, result)?;
            return self.settle_stopped(tx, running);
        }
        let cause = if reported == Some(TaskStatus::Failed) {
            FailureCause::Reported
        } else {
            cause
        };
        let failures = self.schedule.row(task).map_or(0, |row| row.failures);
        if !success
            && may_retry(cause)
            && failures < self.settings.retry
            && self.schedule.mode() == Mode::Open
        {
            let as_claimed = tx
                .reader()
                .standing(task)?
                .is_some_and(|standing| !standing.deleted && standing.version == running.version);
            if as_claimed {
                let delay = retry_delay(failures + 1, self.settings.retry_delay, self.draw());
                let due = self.time().checked_add(delay).unwrap_or(Timestamp::MAX);
                self.schedule
                    .retry(task, due, Reason::Other(result.reason.clone()));
                return Ok(());
            }
        }
        let to = if success {
            TaskStatus::Done
        } else {
            TaskStatus::Failed
        };
        match tx.settle_status(task, running.attempt, running.version, to)? {
            StatusWrite::Changed { .. } | StatusWrite::Same => {
                self.schedule.saw(task, Stored::Status(to), LiveClaim::None);
                let (outcome, reason) = if success {
                    (Outcome::Completed, Reason::Succeeded)
                } else if reported == Some(TaskStatus::Failed) {
                    (
                        Outcome::Failed,
                        Reason::Other("the agent reported FAILED".to_owned()),
                    )
                } else {
                    (Outcome::Failed, Reason::Other(result.reason.clone()))
                };
                let ended = result.ended_at(tx.now());
                self.schedule.finish(task, outcome, &reason, ended, None);
                Ok(())
            }
            StatusWrite::Lost | StatusWrite::Reported => {
                self.keep_stale(tx, running, result)?;
                self.decide_as_if_queued(tx, task, Some(running.attempt))
            }
        }
    }

    /// An attempt that asked is no success, whatever its exit code: the task is held while a question is open, and runs
    /// again with the answers otherwise. Somebody else's word about the task goes before.
    fn settle_asked(&mut self, tx: &mut Tx<'_>, running: &Running, open: bool) -> Result<()> {
        let task = running.task;
        let Some(standing) = tx.reader().standing(task)? else {
            return Ok(());
        };
        let by_attempt = standing.status_by == Tx::actor_of(running.attempt);
        let by_answer = standing.status_via == Some(running.attempt);
        match standing.status {
            TaskStatus::Blocked if by_attempt && open => {
                self.saw(tx, task, Some(&standing))?;
                self.schedule.hold(task, &Reason::AnswerAwaited, None);
                self.schedule.stored_under(task, standing.status_seq);
                Ok(())
            }
            TaskStatus::Ready if by_answer && !standing.deleted => {
                self.saw(tx, task, Some(&standing))?;
                let finding = answered(task, Phase::Running, TaskStatus::Ready);
                self.schedule.enqueue(
                    task,
                    Some(Reason::BlockersResolved),
                    Some(finding),
                    tx.now(),
                );
                Ok(())
            }
            _ => self.decide_as_if_queued(tx, task, Some(running.attempt)),
        }
    }

    /// A person stopped the task alone, and its agent has ended: it is held when they hold it, and does not start again
    /// in this batch otherwise. What they have said of it since goes before.
    pub(super) fn stopped_by_hand(&mut self, tx: &mut Tx<'_>, task: TaskId) -> Result<()> {
        let standing = tx.reader().standing(task)?;
        self.saw(tx, task, standing.as_ref())?;
        match &standing {
            Some(now) if !now.deleted && now.status == TaskStatus::Blocked => {
                self.schedule.hold(task, &Reason::StoppedByHand, None);
                self.schedule.stored_under(task, now.status_seq);
                Ok(())
            }
            Some(now)
                if now.status_by == self.actor()
                    || matches!(now.status, TaskStatus::Ready | TaskStatus::InProgress) =>
            {
                if now.status == TaskStatus::InProgress && now.claim == Some(self.batch) {
                    let row = tx.reader().task(task)?;
                    let by = self.actor();
                    tx.write_status(&row, TaskStatus::Ready, &by, None)?;
                    self.schedule
                        .saw(task, Stored::Status(TaskStatus::Ready), LiveClaim::None);
                }
                self.schedule.finish(
                    task,
                    Outcome::Cancelled,
                    &Reason::StoppedByHand,
                    tx.now(),
                    None,
                );
                Ok(())
            }
            _ => self.decide_as_if_queued(tx, task, None),
        }
    }

    /// The end of a stopped agent is verified.
    fn settle_killed(&mut self, tx: &mut Tx<'_>, running: &Running) -> Result<()> {
        let task = running.task;
        let Some(stop) = &running.stop else {
            // Somebody stopped the supervisor from outside: nobody's failure.
            return self.decide_as_if_queued(tx, task, Some(running.attempt));
        };
        match &stop.why {
            Why::ByHand => self.stopped_by_hand(tx, task),
            Why::Batch => self.settle_stopped(tx, running),
            Why::Finding { after, finding } => {
                let written = match tx.reader().standing(task)? {
                    Some(standing) if standing.version == stop.version => WrittenSince::Nobody,
                    _ => WrittenSince::Somebody,
                };
                match after.then(written) {
                    AfterEnd::Finish(outcome) => {
                        self.saw_now(tx, running)?;
                        let finding = (**finding).clone();
                        let reason = finding.reason.clone();
                        self.schedule
                            .finish(task, outcome, &reason, tx.now(), Some(finding));
                        Ok(())
                    }
                    AfterEnd::DecideAgain => {
                        tx.append(super::rows::killed(self.batch, finding, running.attempt))?;
                        self.decide_as_if_queued(tx, task, Some(running.attempt))
                    }
                }
            }
        }
    }

    /// The batch was stopped before the task came to its end: it is READY again.
    fn settle_stopped(&mut self, tx: &mut Tx<'_>, running: &Running) -> Result<()> {
        let task = running.task;
        match tx.settle_status(task, running.attempt, running.version, TaskStatus::Ready)? {
            StatusWrite::Changed { .. } | StatusWrite::Same => {
                self.schedule
                    .saw(task, Stored::Status(TaskStatus::Ready), LiveClaim::None);
                self.schedule
                    .finish(task, Outcome::Cancelled, &Reason::Stopped, tx.now(), None);
                Ok(())
            }
            StatusWrite::Lost | StatusWrite::Reported => {
                self.decide_as_if_queued(tx, task, Some(running.attempt))
            }
        }
    }

    /// Something of the attempt is still alive. The task is held by a question that names it, until it is gone.
    fn settle_unclean(
        &mut self,
        tx: &mut Tx<'_>,
        running: &Running,
        judged: &Judged,
    ) -> Result<()> {
        self.unclean.insert(running.attempt);
        ask_about_survivors(tx, running, judged)?;
        let standing = tx.reader().standing(running.task)?;
        let live = standing.as_ref().filter(|standing| !standing.deleted);
        match live.map(|standing| standing.status) {
            Some(TaskStatus::Blocked) => {
                self.saw(tx, running.task, standing.as_ref())?;
                self.schedule
                    .hold(running.task, &Reason::AnswerAwaited, None);
                self.schedule.stored_under(
                    running.task,
                    standing.map_or(0, |standing| standing.status_seq),
                );
                Ok(())
            }
            _ => self.decide_as_if_queued(tx, running.task, Some(running.attempt)),
        }
    }

    /// The agent never came to its work: the task is READY again, and no attempt is used up.
    fn settle_never_started(
        &mut self,
        tx: &mut Tx<'_>,
        running: &Running,
        why: Option<Reason>,
        pause: Duration,
    ) -> Result<()> {
        match tx.settle_status(
            running.task,
            running.attempt,
            running.version,
            TaskStatus::Ready,
        )? {
            StatusWrite::Changed { .. } | StatusWrite::Same => {
                self.schedule.saw(
                    running.task,
                    Stored::Status(TaskStatus::Ready),
                    LiveClaim::None,
                );
                self.schedule.enqueue(running.task, why, None, tx.now());
                let due = self.time().checked_add(pause);
                self.schedule
                    .never_started(running.task, due.unwrap_or(Timestamp::MAX));
                Ok(())
            }
            StatusWrite::Lost | StatusWrite::Reported => {
                self.decide_as_if_queued(tx, running.task, Some(running.attempt))
            }
        }
    }

    fn saw_now(&mut self, tx: &Tx<'_>, running: &Running) -> Result<()> {
        let standing = tx.reader().standing(running.task)?;
        self.saw(tx, running.task, standing.as_ref())
    }

    fn keep_stale(
        &mut self,
        tx: &mut Tx<'_>,
        running: &Running,
        result: &AttemptResult,
    ) -> Result<()> {
        tx.append(
            Event::new(EventType::AttemptStaleResult)
                .task(running.task)
                .batch(self.batch)
                .attempt(running.attempt)
                .with(
                    "result",
                    json!({ "success": result.success, "reason": result.reason }),
                ),
        )?;
        Ok(())
    }

    /// The next random fraction, at least 0 and below 1. Good enough to spread retries, and for nothing else.
    fn draw(&mut self) -> f64 {
        // Xorshift (Marsaglia 2003, the triple 13, 7, 17).
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        (self.jitter >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Asks, as the system, about processes that could not be ended: the task is held until they are gone.
fn ask_about_survivors(tx: &mut Tx<'_>, running: &Running, judged: &Judged) -> Result<()> {
    let names: Vec<String> = judged
        .survivors
        .iter()
        .map(|process| format!("{} ({})", process.pid, process.name))
        .collect();
    let question = format!(
        "These processes of attempt {} could not be ended: {}. End them, or resolve this question once they are gone.",
        running.attempt.short(),
        if names.is_empty() {
            "unknown".to_owned()
        } else {
            names.join(", ")
        }
    );
    // A task that was deleted meanwhile holds no question; this one is asked all the same.
    let about = tx
        .reader()
        .standing(running.task)?
        .filter(|standing| !standing.deleted)
        .map(|standing| standing.id);
    tx.ask_as(
        about,
        &question,
        cf_core::Asker::System,
        Some(running.attempt),
    )?;
    Ok(())
}
