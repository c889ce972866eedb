//! What the agent of an attempt is told: its task, and what the store knows around it.

use std::path::Path;

use cf_core::{BatchId, BlockerStatus, Outcome, TaskId};

use super::{Launch, LaunchError, log_path};
use crate::conductor::session;
use crate::conductor::turn::Core;
use crate::conductor::{Setup, context};
use crate::engine::{Engine, SuccessRule, last_lines};
use crate::heard;
use crate::prompt::{
    Answer, Channel, Comment, Dependency, Failure, Opening, Origin, Prompt, Reply,
};
use crate::store::attempt::Attempt;
use crate::store::{Reader, Store};
use crate::supervise::Stage;

/// How many lines of a failed attempt's output go into the next prompt, and how many bytes at most.
const FAILURE_LINES: usize = 40;
const FAILURE_BYTES: usize = 8 << 10;

/// What an agent is told beside its task.
struct Background {
    opening: Opening,
    dependencies: Vec<Dependency>,
    answers: Vec<Answer>,
    comments: Vec<Comment>,
    before: Option<Attempt>,
    /// Whether it goes on with the session of an earlier attempt, and knows what that one said.
    goes_on: bool,
    rescue: Option<String>,
}

impl Background {
    /// That of a task of which nothing else is known.
    const NONE: Self = Self {
        opening: Opening::Afresh,
        dependencies: Vec::new(),
        answers: Vec::new(),
        comments: Vec::new(),
        before: None,
        goes_on: false,
        rescue: None,
    };

    fn read(reader: &Reader<'_>, core: &Core, launch: &Launch) -> Result<Self, LaunchError> {
        let task = launch.task.id;
        let before = before(reader, launch)?;
        // Who goes on with a session knows what was said before it went on: only later things are new.
        let since = match (&launch.session, &before) {
            (Some(_), Some(before)) => Some(reader.began_seq(task, before.id)?),
            _ => None,
        };
        let is_new = |seq: u64| since.is_none_or(|since| seq >= since);
        let opening = match since {
            None => Opening::Afresh,
            Some(since) if reader.was_edited_after(task, since)? => Opening::GoesOnWithChangedTask,
            Some(_) => Opening::GoesOn,
        };
        let answers = reader
            .blockers(Some(task), None)?
            .into_iter()
            .filter(|blocker| is_new(blocker.closed_seq.unwrap_or_default()))
            .filter_map(|blocker| {
                let reply = match (blocker.status, blocker.answer) {
                    (BlockerStatus::Open, _) => return None,
                    (_, Some(answer)) => Reply::Answered(answer),
                    (_, None) => Reply::Resolved,
                };
                Some(Answer {
                    question: blocker.question,
                    reply,
                })
            })
            .collect();
        let mut comments = reader.comments(task)?;
        comments.retain(|comment| is_new(comment.stored_seq));
        Ok(Self {
            opening,
            dependencies: if since.is_none() {
                dependencies(reader, task, core.batch)?
            } else {
                Vec::new()
            },
            answers,
            comments: context::for_agents(&comments),
            before,
            goes_on: since.is_some(),
            rescue: if launch.tree.is_some() && !core.settings.from_rescue {
                reader.newest_rescue(task)?
            } else {
                None
            },
        })
    }
}

/// What the agent of an attempt is told.
pub(super) fn prompt(
    setup: &Setup,
    store: &Store,
    core: &Core,
    launch: &Launch,
    engine: &Engine,
    context_file: &Path,
) -> Result<Prompt, LaunchError> {
    let task = &launch.task;
    // Of most tasks that start for the first time there is nothing to read, which one question tells.
    let is_first = launch.generation <= 1 && launch.session.is_none() && launch.tree.is_none();
    let background = if is_first && !store.has_background(task.id)? {
        Background::NONE
    } else {
        store.read(|reader| Ok(Background::read(reader, core, launch)))??
    };
    let goes_on = background.goes_on;
    Ok(Prompt {
        label: task.label().to_string(),
        title: task.title.clone(),
        description: task.description.clone(),
        origin: match &task.origin {
            None => Origin::Owner,
            Some(place) => Origin::Outside {
                place: place.clone(),
            },
        },
        generation: launch.generation,
        opening: background.opening,
        dependencies: background.dependencies,
        answers: background.answers,
        comments: background.comments,
        comments_from: core.settings.github.comments_from,
        previous: background.before.and_then(|before| {
            let mut failure = failure(setup, &before, engine.success)?;
            if goes_on {
                // It is the agent's own.
                failure.log.clear();
            }
            Some(failure)
        }),
        rescue: background.rescue,
        branch: launch.tree.as_ref().map(|tree| tree.branch.clone()),
        verify: task.verify.clone(),
        channel: if engine.reaches_cf() {
            Channel::Cf {
                program: shell_word(&setup.workspace.bin().join("cf"), "cf"),
                context_file: shell_word(context_file, "$CF_CONTEXT_FILE"),
            }
        } else {
            Channel::LastWords
        },
    })
}

/// A path as an agent can copy it into a shell, or another word where it cannot.
fn shell_word(path: &Path, otherwise: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+,@%:=".contains(c);
    match path.to_str() {
        Some(text) if text.chars().all(plain) => text.to_owned(),
        _ => otherwise.to_owned(),
    }
}

fn dependencies(
    reader: &Reader<'_>,
    task: TaskId,
    batch: BatchId,
) -> Result<Vec<Dependency>, LaunchError> {
    let mut list = Vec::new();
    for on in reader.depends_on(task)? {
        let other = reader.task(on)?;
        let row = reader.batch_task(batch, on)?;
        list.push(Dependency {
            label: other.label().to_string(),
            title: other.title,
            outcome: row.as_ref().and_then(|row| row.outcome).or(None::<Outcome>),
            reason: row.and_then(|row| row.reason).unwrap_or_default(),
        });
    }
    Ok(list)
}

/// The newest attempt before this one that came to do anything.
fn before(reader: &Reader<'_>, launch: &Launch) -> Result<Option<Attempt>, LaunchError> {
    if launch.generation <= 1 {
        return Ok(None);
    }
    let mut attempts = reader.attempts(launch.task.id)?;
    attempts.retain(|attempt| attempt.id != launch.attempt && session::began(attempt));
    Ok(attempts.pop())
}

/// How an attempt failed, if it did.
fn failure(setup: &Setup, attempt: &Attempt, rule: SuccessRule) -> Option<Failure> {
    if attempt.success != Some(false) {
        return None;
    }
    let lines = |stage, rule| {
        let tail = heard::tail(&log_path(setup, attempt.id, stage));
        last_lines(rule, &tail, FAILURE_LINES, FAILURE_BYTES)
    };
    Some(Failure {
        reason: attempt.reason.clone().unwrap_or_default(),
        log: lines(Stage::Agent, rule),
        verify_log: if attempt.stage == Stage::Verify {
            lines(Stage::Verify, SuccessRule::ExitZero)
        } else {
            Vec::new()
        },
    })
}
