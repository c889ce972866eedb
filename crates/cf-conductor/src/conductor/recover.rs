//! What is found of attempts whose conductor is gone.
//!
//! | stored                        | supervisor | record  | what is done                                        |
//! |-------------------------------|------------|---------|-----------------------------------------------------|
//! | attempt open                  | alive      | any     | adopted: it is watched, and never started again     |
//! | attempt open                  | dead       | ended   | settled by the record, as if the note came just now |
//! | attempt open                  | dead       | started | what it left is stopped, then it is `lost`          |
//! | attempt open                  | dead       | none    | never started: READY, no attempt used               |
//! | attempt open, unclean receipt | –          | –       | closed once its survivors are gone                  |
//!
//! A conductor that lost its transaction takes the same way: it forgets what it believed and reads the store again.

pub(super) mod files;
pub(super) mod stopped;

use std::collections::{BTreeSet, HashMap};

use cf_core::{AttemptEnd, AttemptId, BatchId, Ending, TaskId, TaskStatus};
use cf_reconcile::FailureCause;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Setup;
use super::launch::log_path;
use super::rows;
use super::session;
use super::settle::Judged;
use super::turn::{Core, Running};
use crate::engine::{SuccessRule, Verdict, last_lines};
use crate::executor::{Fate, Note};
use crate::heard;
use crate::process::{Lost, Process, SessionTrust, lock_held, remains};
use crate::store::attempt::{Attempt, AttemptResult};
use crate::store::event::Event;
use crate::store::{Durability, Reader, Result, Store, Tx};
use crate::supervise::{Ended, How, Limit, Stage, record_path};
use crate::workspace::Workspace;

/// How much of a failed agent's output becomes the reason of the failure.
const REASON_LINES: usize = 5;
const REASON_BYTES: usize = 1_000;

/// Whether the supervisor of an attempt lives.
pub(super) fn is_alive(workspace: &Workspace, attempt: &Attempt) -> bool {
    attempt.end.is_none()
        && lock_held(&record_path(
            &workspace.supervisors(),
            attempt.supervisor.supervisor,
        ))
}

/// What a conductor knows of an attempt that it did not start itself, or whose start it forgot.
pub(super) fn running(
    reader: &Reader<'_>,
    attempt: &Attempt,
    batch: BatchId,
    rules: &HashMap<String, SuccessRule>,
    jobs: Option<u32>,
) -> Result<Running> {
    let task = reader.task(attempt.task)?;
    let as_claimed = task.status == TaskStatus::InProgress
        && task.claim == Some(batch)
        && task.attempt == Some(attempt.id);
    Ok(Running {
        attempt: attempt.id,
        generation: attempt.generation,
        task: attempt.task,
        stage: attempt.stage,
        identity: attempt.supervisor.clone(),
        // No task ever has version 0, so a result of an attempt whose task was written since is stale.
        version: if as_claimed { task.version } else { 0 },
        rule: attempt
            .format
            .or_else(|| rules.get(&attempt.engine).copied())
            .unwrap_or(SuccessRule::ExitZero),
        session: session::of_attempt(reader, attempt)?,
        verify: task.verify,
        stop: None,
        asked_at: None,
        agent_result: (attempt.stage == Stage::Verify).then(|| agent_result(attempt)),
        jobs,
        tree: reader.worktree(attempt.id)?.map(Into::into),
    })
}

/// What was stored of an attempt's agent before its verification began.
fn agent_result(attempt: &Attempt) -> AttemptResult {
    AttemptResult {
        end: AttemptEnd::Exited,
        ending: attempt.ending,
        success: true,
        reason: String::new(),
        last_said: attempt.last_said.clone(),
        session: attempt.session.clone(),
        tokens: attempt.used(),
        cost_micro_usd: attempt.cost_micro_usd,
        left_behind: attempt.left_behind,
        output_lost: attempt.output_lost,
        record: Value::Null,
    }
}

impl Core {
    /// Takes the attempts of the batch that may be alive from the store, in place of what was believed.
    pub(super) fn recall(
        &mut self,
        reader: &Reader<'_>,
        own: &dyn Fn(AttemptId) -> Option<u32>,
    ) -> Result<Vec<Attempt>> {
        let (mut running, mut unclean) = (HashMap::new(), BTreeSet::new());
        let mut open = Vec::new();
        for attempt in reader
            .open_attempts()?
            .into_iter()
            .filter(|attempt| attempt.batch == self.batch)
        {
            if attempt.end.is_some() {
                unclean.insert(attempt.id);
                continue;
            }
            let jobs = own(attempt.id);
            let entry = self::running(reader, &attempt, self.batch, &self.rules, jobs)?;
            running.insert(attempt.task, entry);
            open.push(attempt);
        }
        // Only now: what is heard of an attempt while the store cannot be read must find the attempt.
        self.by_attempt = open
            .iter()
            .map(|attempt| (attempt.id, attempt.task))
            .collect();
        (self.running, self.unclean) = (running, unclean);
        self.recalled = true;
        Ok(open)
    }

    /// Takes over the attempt of a batch whose conductor is gone, of a task that this batch waits for: from now on it
    /// is this batch's own. Returns what was stored, or nothing when somebody has settled it meanwhile.
    ///
    /// A task of this batch that has no outcome runs by it from now on. Of a task outside the batch, or finished in it,
    /// only the claim is taken over; its attempt's end makes it what it is, and this batch does not end before.
    pub(super) fn take_over(
        &mut self,
        store: &mut Store,
        attempt: &Attempt,
    ) -> Result<Option<Vec<Event>>> {
        let (taken, events) = self.write(store, Durability::Full, |core, tx| {
            let again = tx.reader().attempt(attempt.id)?;
            // Whoever was quicker may have settled it, which leaves it open when something of it is alive; or begun
            // its verification under a supervisor that lives.
            let is_as_seen = again.open
                && again.end.is_none()
                && (again.batch, &again.supervisor, again.stage)
                    == (attempt.batch, &attempt.supervisor, attempt.stage);
            if !is_as_seen {
                return Ok(false);
            }
            core.take_in_hand(tx, attempt)?;
            rows::store(core, tx)?;
            Ok(true)
        })?;
        Ok(taken.then_some(events))
    }

    fn take_in_hand(&mut self, tx: &mut Tx<'_>, attempt: &Attempt) -> Result<()> {
        tx.move_attempt(attempt, self.batch)?;
        let entry = running(&tx.reader(), attempt, self.batch, &self.rules, None)?;
        self.by_attempt.insert(attempt.id, attempt.task);
        self.running.insert(attempt.task, entry);
        self.run_what_is_in_hand(tx)
    }

    /// Closes unclean attempts whose survivors are gone, and resolves the questions about them. Returns their tasks.
    pub(super) fn clean_up(&mut self, store: &mut Store) -> Result<Vec<Event>> {
        let gone = store.read(|reader| {
            let mut unclean = self.unclean.clone();
            if self.schedule.waits_for_claims() {
                // What another batch left behind is nobody else's to look after when that batch has ended.
                for task in self.schedule.waited_for() {
                    let open = reader.open_attempts_of(task)?;
                    unclean.extend(
                        open.iter()
                            .filter(|attempt| attempt.end.is_some())
                            .map(|attempt| attempt.id),
                    );
                }
            }
            gone(reader, unclean.into_iter())
        })?;
        if gone.is_empty() {
            return Ok(Vec::new());
        }
        let (tasks, events) = self.write(store, Durability::Full, |core, tx| {
            let tasks = close(tx, &gone)?;
            for attempt in &gone {
                core.unclean.remove(&attempt.id);
            }
            for &task in &tasks {
                core.claim_ended(&tx.reader(), task)?;
            }
            Ok(tasks)
        })?;
        self.relook.extend(tasks);
        Ok(events)
    }
}

/// Closes every unclean attempt of the workspace whose survivors are gone.
pub(super) fn clean_up_all(store: &mut Store, by: &cf_core::Actor) -> Result<()> {
    let gone = store.read(|reader| {
        let unclean: Vec<AttemptId> = reader
            .open_attempts()?
            .iter()
            .filter(|attempt| attempt.end.is_some())
            .map(|attempt| attempt.id)
            .collect();
        gone(reader, unclean.into_iter())
    })?;
    if !gone.is_empty() {
        store.write(by, |tx| close(tx, &gone))?;
    }
    Ok(())
}

/// What could not be ended, as both a kill receipt and a sweep record it.
#[derive(Deserialize)]
struct Survivors {
    #[serde(default)]
    survivors: Vec<Process>,
    #[serde(default)]
    unlisted: u32,
}

fn gone(reader: &Reader<'_>, attempts: impl Iterator<Item = AttemptId>) -> Result<Vec<Attempt>> {
    let mut gone = Vec::new();
    for id in attempts {
        let attempt = reader.attempt(id)?;
        let mut asked = reader.blockers_of_attempt(attempt.id)?;
        asked.retain(|blocker| blocker.asked_by == cf_core::Asker::System);
        let vouched_for = !asked.is_empty()
            && asked
                .iter()
                .all(|blocker| blocker.status != cf_core::BlockerStatus::Open);
        let survives = !vouched_for
            && match attempt
                .record
                .clone()
                .map(serde_json::from_value::<Survivors>)
            {
                Some(Ok(left)) => {
                    !attempt.supervisor.is_local()
                        || left.survivors.iter().any(Process::alive)
                        || (left.unlisted > 0 && may_remain(&attempt))
                }
                // Of survivors that no record lists nothing is known: a person has to say that they are gone.
                Some(Err(_)) | None => true,
            };
        let rebooted =
            crate::process::boot_id().is_ok_and(|boot| boot != attempt.supervisor.boot_id);
        if rebooted || !survives {
            gone.push(attempt);
        }
    }
    Ok(gone)
}

/// Whether something of an attempt is left, or nobody can say.
fn may_remain(attempt: &Attempt) -> bool {
    remains(&lost(attempt)).map_or(true, |left| !left.is_empty())
}

/// What is left of an attempt whose record could not list all of it is looked for as after a dead supervisor.
fn lost(attempt: &Attempt) -> Lost {
    Lost {
        attempt: attempt.id,
        session: attempt.supervisor.pid,
        trust: SessionTrust::IfMarked,
        not_before: if attempt.supervisor.is_local() {
            attempt.supervisor.start_ticks
        } else {
            0
        },
        roots: Vec::new(),
    }
}

fn close(tx: &mut Tx<'_>, gone: &[Attempt]) -> Result<Vec<TaskId>> {
    let mut tasks = Vec::new();
    for attempt in gone {
        tx.close_unclean(attempt)?;
        for blocker in tx.reader().blockers_of_attempt(attempt.id)? {
            if blocker.asked_by == cf_core::Asker::System
                && blocker.status == cf_core::BlockerStatus::Open
            {
                tx.resolve(blocker.id)?;
            }
        }
        tasks.push(attempt.task);
    }
    Ok(tasks)
}

/// Judges the end of a process: by its record, and by its engine's rule where it ended by itself.
pub(super) fn judge(setup: &Setup, running: &Running, note: &Note) -> Judged {
    let log = log_path(setup, note.attempt, note.stage);
    match &note.fate {
        Fate::Ended(ended) => judge_ended(running, note, ended, &log),
        // The system's shortage is not the task's fault: it is tried again in a moment.
        Fate::SpawnFailed {
            error,
            passing: true,
        } => {
            let result = failed(
                AttemptEnd::NeverStarted,
                None,
                format!("could not be started for the moment: {error}"),
                Value::Null,
            );
            judged(note, result, FailureCause::NeverStarted, true)
        }
        Fate::SpawnFailed { error, .. } => {
            let result = failed(
                AttemptEnd::Exited,
                None,
                format!("could not be started: {error}"),
                Value::Null,
            );
            judged(note, result, FailureCause::Exit, true)
        }
        Fate::NeverStarted => {
            let result = failed(
                AttemptEnd::NeverStarted,
                None,
                "never started".to_owned(),
                Value::Null,
            );
            judged(note, result, FailureCause::NeverStarted, false)
        }
        Fate::Lost(swept) => {
            let end = if swept.is_clean() {
                AttemptEnd::Lost
            } else {
                AttemptEnd::Unclean
            };
            let mut result = failed(
                end,
                None,
                "lost: its supervisor died without a record".to_owned(),
                json!({ "survivors": swept.survivors, "unlisted": u32::from(swept.is_blind) }),
            );
            add_words(&mut result, running, note, Ending::Signal(9), &log);
            result.left_behind = u32::try_from(swept.killed).unwrap_or(u32::MAX);
            let mut judged = judged(note, result, FailureCause::Lost, false);
            judged.survivors.clone_from(&swept.survivors);
            judged
        }
    }
}

fn judge_ended(running: &Running, note: &Note, ended: &Ended, log: &std::path::Path) -> Judged {
    let record = serde_json::to_value(ended).unwrap_or(Value::Null);
    let rule = rule_of(running, note.stage);
    let ending = ended.ending.unwrap_or(Ending::Signal(9));
    let mut session_is_unknown = false;
    let (mut result, cause) = if ended.how == How::Killed {
        (
            failed(
                ended.attempt_end(),
                ended.ending,
                "stopped".to_owned(),
                record,
            ),
            FailureCause::Stopped,
        )
    } else if let Some(limit) = ended.limit {
        // How long it ran says something else: an agent that ignores SIGTERM runs on for the grace.
        let after = ended.limit_ms.unwrap_or(ended.active_ms / 100 * 100);
        let (what, cause) = match limit {
            Limit::Timeout => ("timed out after", FailureCause::Timeout),
            Limit::Stall => ("stalled for", FailureCause::Stall),
        };
        let after = std::time::Duration::from_millis(after);
        let text = format!("{what} {}", cf_core::format_duration(after));
        (
            failed(
                AttemptEnd::Exited,
                ended.ending,
                with_stage(note.stage, text),
                record,
            ),
            cause,
        )
    } else if rule == SuccessRule::ExitZero && ending.is_zero() {
        let mut result = failed(AttemptEnd::Exited, ended.ending, ending.to_string(), record);
        result.success = true;
        (result, FailureCause::Exit)
    } else {
        let (result, cause, unknown) = by_rule(running, note.stage, ending, log, record);
        session_is_unknown = unknown;
        (result, cause)
    };
    if ended.how == How::Killed || ended.limit.is_some() {
        add_words(&mut result, running, note, ending, log);
    }
    if !ended.clean {
        // Whatever the verdict: something of the attempt is alive, and until it is gone nothing else may start.
        result.end = AttemptEnd::Unclean;
    }
    result.left_behind = ended.left_behind;
    result.output_lost = ended.log.dropped;
    let mut judged = judged(note, result, cause, !ended.retires);
    judged.survivors.clone_from(&ended.survivors);
    judged.session_is_unknown = session_is_unknown;
    judged
}

/// Adds what an agent that did not end by itself had said of itself until then, where its output tells.
fn add_words(
    result: &mut AttemptResult,
    running: &Running,
    note: &Note,
    ending: Ending,
    log: &std::path::Path,
) {
    if note.stage == Stage::Agent && running.rule != SuccessRule::ExitZero {
        take_words(
            result,
            running,
            heard::so_far(running.rule, ending, log).verdict,
        );
    }
}

fn take_words(result: &mut AttemptResult, running: &Running, verdict: Verdict) {
    result.last_said = verdict.last_said;
    result.session = verdict.session;
    let earlier = running
        .session
        .as_ref()
        .filter(|_| running.rule.counts_sessions());
    result.tokens = match earlier {
        Some(earlier) => verdict.tokens.map(|used| used.without(earlier.used)),
        None => verdict.tokens,
    };
    result.cost_micro_usd = verdict.cost_usd.map(heard::micro_usd);
}

fn by_rule(
    running: &Running,
    stage: Stage,
    ending: Ending,
    log: &std::path::Path,
    record: Value,
) -> (AttemptResult, FailureCause, bool) {
    let rule = rule_of(running, stage);
    let heard = heard::so_far(rule, ending, log);
    let success = heard.verdict.success;
    let mut reason = heard.verdict.reason.clone();
    if !success && rule == SuccessRule::ExitZero {
        let last = last_lines(rule, &heard.tail, REASON_LINES, REASON_BYTES);
        reason = ending.to_string();
        if !last.is_empty() {
            reason = format!("{reason}: {}", last.join("\n"));
        }
    }
    let mut result = failed(
        AttemptEnd::Exited,
        Some(ending),
        with_stage(stage, reason),
        record,
    );
    result.success = success;
    // A program that was given no session cannot miss one, whatever it says.
    let session_is_unknown = heard.verdict.session_is_unknown && running.session.is_some();
    take_words(&mut result, running, heard.verdict);
    let cause = if stage == Stage::Verify {
        FailureCause::Verify
    } else {
        FailureCause::Exit
    };
    (result, cause, session_is_unknown)
}

const fn rule_of(running: &Running, stage: Stage) -> SuccessRule {
    match stage {
        Stage::Agent => running.rule,
        Stage::Verify => SuccessRule::ExitZero,
    }
}

fn with_stage(stage: Stage, text: String) -> String {
    match stage {
        Stage::Agent => text,
        Stage::Verify => format!("verify failed: {text}"),
    }
}

pub(super) fn failed(
    end: AttemptEnd,
    ending: Option<Ending>,
    reason: String,
    record: Value,
) -> AttemptResult {
    AttemptResult {
        end,
        ending,
        success: false,
        reason,
        last_said: None,
        session: None,
        tokens: None,
        cost_micro_usd: None,
        left_behind: 0,
        output_lost: 0,
        record,
    }
}

pub(super) fn judged(
    note: &Note,
    result: AttemptResult,
    cause: FailureCause,
    free: bool,
) -> Judged {
    Judged {
        attempt: note.attempt,
        stage: note.stage,
        result,
        cause,
        survivors: Vec::new(),
        session_is_unknown: false,
        free,
        kept: None,
        question: None,
    }
}
