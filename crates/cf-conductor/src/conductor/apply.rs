//! Applies what the sources found: each action's effect on where a task stands, with its intent stored first.

use cf_core::{Actor, EventType, Outcome, Phase, TaskId, TaskStatus};
use cf_reconcile::{
    AfterStop, Effect, Evidence, LiveClaim, Merged, Reason, ReconcileAction, ReconciliationResult,
    SourceName, Stored, plan,
};

use super::context::note_closing;
use super::take_up;
use super::turn::{Core, News, Why};
use crate::schedule::Gate;
use crate::source::as_if_queued;
use crate::store::event::Event;
use crate::store::task::{StatusWrite, TaskStanding};
use crate::store::{Durability, Result, StoreError, Tx};

/// Whether applying a finding stores no result: nothing, or the intent to stop an agent for what the store says
/// already, whose result is stored with the verified end.
fn rests_on_its_end(found: &Merged) -> bool {
    let rests = |finding: &ReconciliationResult| {
        finding.action == ReconcileAction::None
            || finding.source == SourceName::Local
                && matches!(plan(finding.action, finding.believed), Effect::StopThen(_))
    };
    std::iter::once(&found.winner).chain(&found.also).all(rests)
}

impl Core {
    /// How a turn is to be committed, which has to be known before it begins. A claim or a result rests on a commit
    /// that survives a power cut; a look does not, nor does the intent to stop an agent, which the same cut ends.
    pub(super) fn durability(
        &self,
        nothing_ends: bool,
        news: &News,
        merged: &[Merged],
    ) -> Durability {
        let nothing_starts = self.at_gate.is_empty() || self.holds_off();
        let nothing_results =
            merged.iter().all(rests_on_its_end) && self.decides_nothing(news, merged);
        if nothing_ends && nothing_starts && nothing_results {
            Durability::Normal
        } else {
            Durability::Full
        }
    }

    /// Whether what others wrote gives no task of the batch an outcome, but for what the sources make of it.
    fn decides_nothing(&self, news: &News, merged: &[Merged]) -> bool {
        let row = |task: &TaskId| self.schedule.row(*task);
        // Of a member without an outcome nothing but its own end tells those that wait for it what it is.
        let tells_nobody = |task: &TaskId| row(task).is_some_and(|row| row.outcome.is_none());
        let is_stopped_first = |task: &TaskId| {
            row(task).is_some_and(|row| matches!(row.phase, Phase::Running | Phase::Stopping))
        };
        // After a reload, stops that were stored are news again.
        !self.recalled
            && self.schedule.is_settled()
            && news.stop.is_none()
            && news.edges.is_empty()
            && news.joined.is_empty()
            && news.changed.iter().all(tells_nobody)
            && merged
                .iter()
                .all(|found| tells_nobody(&found.winner.task_id))
            && news
                .stopped_by_hand
                .iter()
                .all(|(task, _)| is_stopped_first(task))
    }

    /// Applies one merged finding, if the task is still as it was when the source looked; else it is looked at again.
    pub(super) fn apply(&mut self, tx: &mut Tx<'_>, found: Merged) -> Result<()> {
        let task = found.winner.task_id;
        let Some(row) = self.schedule.row(task) else {
            return Ok(());
        };
        let phase = row.phase;
        let standing = tx.reader().standing(task)?;
        let outdated = std::iter::once(&found.winner)
            .chain(&found.also)
            .any(|finding| is_outdated(finding, standing.as_ref()));
        if phase != found.winner.believed || outdated {
            self.relook.insert(task);
            return Ok(());
        }
        self.keep_other_reasons(tx, &found)?;
        for context in found.contexts() {
            self.tell_comments(tx, context, phase)?;
        }
        let finding = found.winner;
        self.saw(tx, task, standing.as_ref())?;
        let effect = plan(finding.action, phase);
        if effect != Effect::Nothing {
            self.disturbed_at = Some(self.clock);
        }
        if finding.source == SourceName::Github {
            note_closing(tx, &finding, effect)?;
        }
        match effect {
            Effect::Nothing => self.nothing_to_do(tx, &finding, standing.as_ref()),
            Effect::DropFromQueue | Effect::FinishSkipped => {
                self.write_asked(tx, &finding)?;
                let reason = finding.reason.clone();
                self.schedule
                    .finish(task, Outcome::Skipped, &reason, tx.now(), Some(finding));
                Ok(())
            }
            Effect::FinishFailed => {
                self.write_asked(tx, &finding)?;
                let reason = finding.reason.clone();
                self.schedule
                    .finish(task, Outcome::Failed, &reason, tx.now(), Some(finding));
                Ok(())
            }
            Effect::StopThen(after) => self.stop_for(tx, finding, after),
            Effect::Hold => {
                self.ask_or_write(tx, &finding)?;
                let standing = tx.reader().standing(task)?;
                self.hold(tx, task, Some(finding), standing.as_ref());
                Ok(())
            }
            Effect::BackToQueue => self.requeue(tx, finding, standing.as_ref()),
            Effect::StoreContext | Effect::StoreContextLive => {
                self.tell_comments(tx, &finding, phase)?;
                self.nothing_to_do(tx, &finding, standing.as_ref())
            }
        }
    }

    /// Tells the schedule what the store holds of a task.
    pub(super) fn saw(
        &mut self,
        tx: &Tx<'_>,
        task: TaskId,
        standing: Option<&TaskStanding>,
    ) -> Result<()> {
        let stored = standing.map_or(Stored::Deleted, take_up::stored);
        // Whether an agent of ours runs is the phase's to say; what counts here is any other one's.
        let claim = match standing {
            Some(standing) if !self.runs(task) => take_up::claim(&tx.reader(), standing)?,
            _ => LiveClaim::None,
        };
        self.schedule.saw(task, stored, claim);
        if let Some(standing) = standing {
            self.schedule.set_priority(task, standing.priority);
        }
        Ok(())
    }

    /// The table says that nothing is to be done. What keeps a queued task from starting may have changed all the same,
    /// and an agent that asked has a limited time to end.
    fn nothing_to_do(
        &mut self,
        tx: &mut Tx<'_>,
        finding: &ReconciliationResult,
        standing: Option<&TaskStanding>,
    ) -> Result<()> {
        let task = finding.task_id;
        match finding.believed {
            Phase::Queued | Phase::Waiting => {
                if let Some(standing) = standing {
                    let gate = take_up::gate(&tx.reader(), self.batch, standing)?;
                    self.schedule.set_gate(task, gate);
                }
            }
            Phase::Running => {
                let asked = finding.reason == Reason::TheAgentAsked;
                let clock = self.clock;
                if let Some(running) = self.running.get_mut(&task) {
                    running.asked_at = if asked {
                        running.asked_at.or(Some(clock))
                    } else {
                        None
                    };
                }
            }
            Phase::Stopping | Phase::Held | Phase::Finished => {}
        }
        Ok(())
    }

    /// Writes the status that a source asks for, when it is not the stored one. The local source asks only for what is
    /// stored, except for a requeue.
    pub(super) fn write_asked(
        &mut self,
        tx: &mut Tx<'_>,
        finding: &ReconciliationResult,
    ) -> Result<()> {
        let Some(to) = finding.external_status else {
            return Ok(());
        };
        let task = tx.reader().task(finding.task_id)?;
        if task.deleted || task.status == to {
            return Ok(());
        }
        let by = match &finding.source {
            SourceName::Github => Actor::Github(host(&finding.evidence)),
            SourceName::Local => self.actor(),
            // It describes the world, as a tracker does, and is not bound to what a batch may do.
            SourceName::Other(_) => Actor::System,
        };
        match tx.write_status(&task, to, &by, None) {
            Ok(StatusWrite::Changed { .. }) => {
                let standing = tx.reader().standing(finding.task_id)?;
                self.saw(tx, finding.task_id, standing.as_ref())
            }
            Ok(_) => Ok(()),
            // What a source asks for may be impossible (nothing leaves MERGED); that is noted, and no error of the
            // batch.
            Err(StoreError::Transition { source, .. }) => {
                tx.append(
                    Event::new(EventType::SourceNotice)
                        .task(finding.task_id)
                        .batch(self.batch)
                        .with("source", finding.source.as_str())
                        .with("refused", source.to_string()),
                )?;
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    /// Keeps the reasons of the findings that lost to another source's.
    fn keep_other_reasons(&self, tx: &mut Tx<'_>, found: &Merged) -> Result<()> {
        let others: Vec<serde_json::Value> = found
            .also
            .iter()
            // New comments are told by an event of their own.
            .filter(|finding| {
                !matches!(
                    finding.action,
                    ReconcileAction::None | ReconcileAction::LogContext
                )
            })
            .map(|finding| {
                serde_json::json!({
                    "action": finding.action.as_str(),
                    "reason": finding.reason.to_string(),
                    "source": finding.source.as_str(),
                })
            })
            .collect();
        if !others.is_empty() {
            tx.append(
                Event::new(EventType::SourceNotice)
                    .task(found.winner.task_id)
                    .batch(self.batch)
                    .with("also", others),
            )?;
        }
        Ok(())
    }

    fn stop_for(
        &mut self,
        tx: &mut Tx<'_>,
        finding: ReconciliationResult,
        after: AfterStop,
    ) -> Result<()> {
        self.ask_or_write(tx, &finding)?;
        let reason = finding.reason.clone();
        let why = Why::Finding {
            after,
            finding: Box::new(finding.clone()),
        };
        self.begin_stop(tx, finding.task_id, why, &reason, Some(finding))
    }

    /// Holds a task until somebody answers or unblocks it. What is newer than the status that holds it is news.
    pub(super) fn hold(
        &mut self,
        tx: &Tx<'_>,
        task: TaskId,
        finding: Option<ReconciliationResult>,
        standing: Option<&TaskStanding>,
    ) {
        let open = tx.reader().open_blockers(task).unwrap_or(0);
        let reason = match &finding {
            Some(finding) if open == 0 => finding.reason.clone(),
            _ => Reason::AnswerAwaited,
        };
        // After a kill the finding has been told with the verified end.
        let told = self
            .schedule
            .row(task)
            .is_some_and(|row| row.phase == Phase::Stopping);
        self.schedule.hold(task, &reason, finding.filter(|_| !told));
        self.schedule
            .stored_under(task, standing.map_or(0, |standing| standing.status_seq));
    }

    fn requeue(
        &mut self,
        tx: &mut Tx<'_>,
        finding: ReconciliationResult,
        standing: Option<&TaskStanding>,
    ) -> Result<()> {
        let task = finding.task_id;
        if standing.is_some_and(|standing| standing.status != TaskStatus::Ready) {
            self.write_asked(tx, &finding)?;
        }
        let reopened = finding.believed == Phase::Finished;
        let reason = finding.reason.clone();
        self.schedule
            .enqueue(task, Some(reason), Some(finding), tx.now());
        if reopened {
            self.schedule.forget_failures(task);
        }
        if let Some(standing) = tx.reader().standing(task)? {
            let gate = take_up::gate(&tx.reader(), self.batch, &standing)?;
            self.schedule.set_gate(task, gate);
        }
        Ok(())
    }

    /// Decides a task by the local table as if it were queued: after a lost race, and when the end of a stopped agent
    /// is verified. `finding` is what led here, when that was a source.
    pub(super) fn decide_as_if_queued(
        &mut self,
        tx: &mut Tx<'_>,
        task: TaskId,
        attempt: Option<cf_core::AttemptId>,
    ) -> Result<()> {
        let take_up_seq = self.schedule.row(task).map_or(0, |row| row.take_up_seq);
        let standing = tx.reader().standing(task)?;
        self.saw(tx, task, standing.as_ref())?;
        let finding = as_if_queued(task, self.batch, take_up_seq, attempt, standing.as_ref());
        match plan(finding.action, Phase::Queued) {
            Effect::DropFromQueue => {
                let reason = finding.reason.clone();
                self.schedule
                    .finish(task, Outcome::Skipped, &reason, tx.now(), Some(finding));
                Ok(())
            }
            Effect::Hold => {
                self.hold(tx, task, Some(finding), standing.as_ref());
                Ok(())
            }
            _ => self.back_into_the_queue(tx, task, standing.as_ref()),
        }
    }

    fn back_into_the_queue(
        &mut self,
        tx: &mut Tx<'_>,
        task: TaskId,
        standing: Option<&TaskStanding>,
    ) -> Result<()> {
        let Some(standing) = standing else {
            return Ok(());
        };
        let since = self.schedule.row(task).map_or(0, |row| row.take_up_seq);
        let untouched = standing.status_seq <= since;
        let again = match standing.status {
            TaskStatus::InProgress => {
                standing.claim == Some(self.batch) && !tx.reader().has_open_attempt(task)?
            }
            // Somebody else's claim kept it from being taken up with the others; now that has ended.
            TaskStatus::Backlog | TaskStatus::Failed => true,
            TaskStatus::Blocked if untouched && tx.reader().open_blockers(task)? == 0 => true,
            // Our own question: the table has no more to say about it.
            TaskStatus::Blocked => {
                self.hold(tx, task, None, Some(standing));
                return Ok(());
            }
            TaskStatus::Done | TaskStatus::Merged => {
                self.schedule
                    .finish(task, Outcome::Skipped, &Reason::AlreadyDone, tx.now(), None);
                return Ok(());
            }
            TaskStatus::Ready => false,
        };
        if again {
            let row = tx.reader().task(task)?;
            let by = self.actor();
            tx.write_status(&row, TaskStatus::Ready, &by, None)?;
            self.schedule
                .saw(task, Stored::Status(TaskStatus::Ready), LiveClaim::None);
        }
        self.schedule.enqueue(task, None, None, tx.now());
        let Some(standing) = tx.reader().standing(task)? else {
            return Ok(());
        };
        let gate = take_up::gate(&tx.reader(), self.batch, &standing)?;
        if gate != Gate::Open {
            self.schedule.set_gate(task, gate);
        }
        Ok(())
    }
}

/// A finding that says that a task goes back into the queue because its questions are settled.
pub(super) fn answered(task: TaskId, phase: Phase, status: TaskStatus) -> ReconciliationResult {
    ReconciliationResult {
        task_id: task,
        current_status: Some(status),
        external_status: Some(TaskStatus::Ready),
        believed: phase,
        action: ReconcileAction::Requeue,
        reason: Reason::BlockersResolved,
        source: SourceName::Local,
        evidence: Evidence::None,
    }
}

/// Whether the task was written since the source looked.
fn is_outdated(finding: &ReconciliationResult, standing: Option<&TaskStanding>) -> bool {
    match (&finding.evidence, standing) {
        (Evidence::Local { version, .. }, Some(standing)) => {
            *version != i64::try_from(standing.version).ok()
        }
        _ => false,
    }
}

fn host(evidence: &Evidence) -> String {
    let url = match evidence {
        Evidence::Link(link) => link.url.as_str(),
        Evidence::Local { .. } | Evidence::None => "",
    };
    url.split('/').nth(2).unwrap_or("github.com").to_owned()
}
