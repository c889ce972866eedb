//! Which session of its agent program a new attempt goes on with.
//!
//! | the attempt before                                  | the new one                    |
//! |-----------------------------------------------------|--------------------------------|
//! | asked, or was asked about, and all of it is settled | goes on, and is told what came |
//! | succeeded, and its verification failed              | goes on, and is told why       |
//! | failed by itself, timed out, was stopped or lost    | starts afresh                  |
//!
//! In the first two cases the agent's own picture of its work is right as far as it goes, and only something new is to
//! be said. In the others that picture may be what went wrong, so that a fresh start is the better try. An engine that
//! has no words for it, or another engine than before, starts afresh as well; and so does who gets a worktree of its
//! own, since programs tie a session to the folder in which it began.

use cf_core::{Asker, AttemptEnd, AttemptId, BlockerStatus, TaskId};

use crate::engine::Tokens;
use crate::store::attempt::Attempt;
use crate::store::{Reader, Result};
use crate::supervise::Stage;

/// A session that an attempt goes on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// As the program calls it.
    pub id: String,
    /// The attempt that began it, in whose home it is kept where each attempt has one of its own.
    pub begun_by: AttemptId,
    /// What its earlier attempts used.
    pub used: Tokens,
}

/// The session that the next attempt of a task should go on with, when `engine` starts it.
pub(super) fn of_next(reader: &Reader<'_>, task: TaskId, engine: &str) -> Result<Option<Session>> {
    let attempts = reader.attempts(task)?;
    let started = |a: &&Attempt| a.end != Some(AttemptEnd::NeverStarted);
    let Some(last) = attempts.iter().rev().find(started) else {
        return Ok(None);
    };
    // One whose program did not know its session has none, so that it is not tried twice.
    let Some(id) = last.session.as_deref().filter(|_| last.engine == engine) else {
        return Ok(None);
    };
    if !verification_failed(last) && !was_asked_since(reader, last)? {
        return Ok(None);
    }
    Ok(of(id, &attempts))
}

/// The session that an attempt was started to go on with.
pub(super) fn of_attempt(reader: &Reader<'_>, attempt: &Attempt) -> Result<Option<Session>> {
    let Some(id) = &attempt.resumes else {
        return Ok(None);
    };
    let mut attempts = reader.attempts(attempt.task)?;
    attempts.retain(|other| other.generation < attempt.generation);
    Ok(of(id, &attempts))
}

/// Whether an attempt came to do anything.
pub(super) fn began(attempt: &Attempt) -> bool {
    // Without a session of its own, one that was to go on with an earlier one never came into it.
    attempt.end != Some(AttemptEnd::NeverStarted)
        && (attempt.resumes.is_none() || attempt.session.is_some() || attempt.open)
}

fn of(id: &str, attempts: &[Attempt]) -> Option<Session> {
    let own = || {
        let of_session = |attempt: &&Attempt| attempt.session.as_deref() == Some(id);
        attempts.iter().filter(of_session)
    };
    Some(Session {
        id: id.to_owned(),
        begun_by: own().next()?.id,
        used: own().filter_map(Attempt::used).sum(),
    })
}

fn verification_failed(attempt: &Attempt) -> bool {
    attempt.stage == Stage::Verify
        && attempt.end == Some(AttemptEnd::Exited)
        && attempt.success == Some(false)
}

/// Whether people or the agent asked something about the task since the attempt began, and all of it is settled.
fn was_asked_since(reader: &Reader<'_>, attempt: &Attempt) -> Result<bool> {
    let since = reader.began_seq(attempt.task, attempt.id)?;
    let mut asked = reader.blockers(Some(attempt.task), None)?;
    // What `cf` asks is about processes or links, and nothing that the agent was waiting for.
    asked.retain(|blocker| blocker.asked_seq > since && blocker.asked_by != Asker::System);
    Ok(!asked.is_empty() && asked.iter().all(|b| b.status != BlockerStatus::Open))
}
