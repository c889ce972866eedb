//! Worktrees as the batch decides about them: which attempt gets one, what it is made of, and when its work is kept.
//!
//! Nothing here calls git but [`check`], which is asked before a batch begins. What is to be done is stored, or put
//! down in the core, and done after the commit and off the loop: `run/trees`.

use std::collections::HashSet;

use cf_core::{Actor, AttemptEnd, AttemptId, Isolation, TaskId, TaskLabel, TaskStatus};

use super::plan::is_relative;
use super::settle::Judged;
use super::turn::{Core, Running, Why};
use super::{ConductorError, Setup};
use crate::engine::Engine;
use crate::settings::Settings;
use crate::store::task::Task;
use crate::store::worktree::Worktree;
use crate::store::{Reader, Result, Store, Tx};
use crate::supervise::Stage;
use crate::workspace::Workspace;
use crate::worktree::{
    self, Base, Cancel, Git, GitError, Leaving, Older, Order, Part, Repository, branch_of, subject,
};

/// The worktree of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// Its folder's name.
    pub name: String,
    /// The task's branch, by its short name.
    pub branch: String,
}

impl Tree {
    /// The worktree of a new attempt, if it is to have one. The task's name comes first in that of the folder, for
    /// those who look at it; the attempt's makes it unique.
    pub(super) fn of(settings: &Settings, task: &Task, attempt: AttemptId) -> Option<Self> {
        (settings.isolation == Isolation::Worktree).then(|| Self {
            name: format!("{}-{}", task.label(), attempt.short()),
            branch: branch_of(&task.label()),
        })
    }
}

impl From<Worktree> for Tree {
    fn from(row: Worktree) -> Self {
        Self {
            name: row.name,
            branch: row.branch,
        }
    }
}

/// An ended attempt whose work is to be kept before it is settled.
#[derive(Clone, Debug)]
pub(super) struct Keep {
    /// Its end.
    pub judged: Judged,
    /// Whether its work is finished, and goes on the branch; else it is kept beside it.
    pub is_finished: bool,
}

/// A worktree that may be removed.
#[derive(Clone, Debug)]
pub(super) struct Tidy {
    /// Its attempt.
    pub attempt: AttemptId,
    /// Its folder's name.
    pub name: String,
    /// The commit that its agent was to start from; none when it never came to that, so that nobody was ever in it.
    /// Else it is removed only when nothing would be lost.
    pub base: Option<String>,
}

/// What became of an attempt's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is where it belongs.
    Done(worktree::Kept),
    /// It could not be committed, or not be kept; it is still in the worktree.
    Failed {
        /// Why.
        why: String,
        /// The ref that has it all the same.
        reference: Option<String>,
    },
}

impl Core {
    /// Whether the work of an attempt is to be kept before its end is settled. It is put down then, and the end comes
    /// again when that is done.
    pub(super) fn keeps_first(
        &mut self,
        tx: &mut Tx<'_>,
        running: &Running,
        judged: &Judged,
    ) -> Result<bool> {
        let Some(tree) = &running.tree else {
            return Ok(false);
        };
        let never_started =
            judged.result.end == AttemptEnd::NeverStarted && running.agent_result.is_none();
        if never_started || judged.kept.is_some() {
            if judged.result.end != AttemptEnd::Unclean {
                let row = tx.reader().worktree(running.attempt)?;
                self.tidies.push(Tidy {
                    attempt: running.attempt,
                    name: tree.name.clone(),
                    base: row.and_then(|row| row.base),
                });
            }
            return Ok(false);
        }
        let is_finished = is_finished(tx, running, judged)?;
        self.keeps.push(Keep {
            judged: judged.clone(),
            is_finished,
        });
        Ok(true)
    }

    /// Stores under which ref is what an attempt left, if it is kept so.
    pub(super) fn store_kept(tx: &mut Tx<'_>, judged: &Judged) -> Result<()> {
        match &judged.kept {
            Some(
                Kept::Done(worktree::Kept::Rescued { reference })
                | Kept::Failed {
                    reference: Some(reference),
                    ..
                },
            ) => tx.work_rescued(judged.attempt, reference),
            _ => Ok(()),
        }
    }

    /// Stores the commit that has the work of an attempt, if that attempt made its task DONE.
    pub(super) fn store_committed(
        &self,
        tx: &mut Tx<'_>,
        running: &Running,
        judged: &Judged,
    ) -> Result<()> {
        let Some(Kept::Done(worktree::Kept::Committed { head })) = &judged.kept else {
            return Ok(());
        };
        let made_done = tx.reader().standing(running.task)?.is_some_and(|now| {
            now.status == TaskStatus::Done
                && now.attempt == Some(running.attempt)
                && now.status_by == Actor::Batch(self.batch)
        });
        if made_done {
            tx.work_committed(running.attempt, head)?;
        }
        Ok(())
    }

    /// Before the task can start, a person has to decide something: it is held by that question, and no attempt is used
    /// up.
    pub(super) fn settle_question(
        &mut self,
        tx: &mut Tx<'_>,
        running: &Running,
        question: &str,
    ) -> Result<()> {
        let task = running.task;
        let standing = tx.reader().standing(task)?;
        let as_claimed = standing.is_some_and(|now| !now.deleted && now.version == running.version);
        if !as_claimed {
            return self.decide_as_if_queued(tx, task, Some(running.attempt));
        }
        tx.ask_as(Some(task), question, cf_core::Asker::System, None)?;
        let standing = tx.reader().standing(task)?;
        self.saw(tx, task, standing.as_ref())?;
        self.schedule
            .hold(task, &cf_reconcile::Reason::AnswerAwaited, None);
        self.schedule
            .stored_under(task, standing.map_or(0, |now| now.status_seq));
        self.schedule.never_started(task, self.time());
        Ok(())
    }
}

/// Whether the work of an attempt is finished, as far as is known now.
fn is_finished(tx: &Tx<'_>, running: &Running, judged: &Judged) -> Result<bool> {
    let reader = tx.reader();
    let verified = running.stage == Stage::Verify || running.verify.is_none();
    let by_hand = matches!(
        running.stop.as_ref().map(|stop| &stop.why),
        Some(Why::ByHand)
    );
    if judged.result.end != AttemptEnd::Exited || !judged.result.success || !verified || by_hand {
        return Ok(false);
    }
    let asked = reader.blockers_of_attempt(running.attempt)?;
    let reported = reader.attempt(running.attempt)?.report;
    let as_claimed = reader
        .standing(running.task)?
        .is_some_and(|now| !now.deleted && now.version == running.version);
    Ok(asked.is_empty() && reported != Some(TaskStatus::Failed) && as_claimed)
}

/// How git is called for a batch.
pub(super) fn git(settings: &Settings) -> Git {
    Git::new(
        settings.git.timeout,
        settings.git.author_parts(),
        Cancel::default(),
    )
}

/// The repository of a workspace, with git called as these settings say.
///
/// # Errors
///
/// There is none, or git is not there.
pub fn repository(
    workspace: &Workspace,
    settings: &Settings,
) -> std::result::Result<Repository, GitError> {
    Repository::of(workspace, git(settings))
}

/// What is refused before a batch with worktrees begins, and what they will start from. Nothing without isolation.
pub(super) fn check<'e>(
    store: &Store,
    setup: &Setup,
    settings: &Settings,
    tasks: impl IntoIterator<Item = TaskLabel>,
    engines: impl IntoIterator<Item = &'e Engine>,
) -> std::result::Result<Option<Base>, ConductorError> {
    if settings.isolation == Isolation::None {
        return Ok(None);
    }
    let repository = repository(&setup.workspace, settings)?;
    let base = repository.base()?;
    repository.check_identity()?;
    for engine in engines {
        let program = engine.program();
        if is_relative(program) && !repository.may_start(&base.commit, program)? {
            return Err(ConductorError::Refused {
                what: format!(
                    "engine {} needs the program {program:?}, which is no executable file of the commit {:.8}, from \
                     which worktrees start",
                    engine.name, base.commit
                ),
                hint: Some(
                    "commit it, or give an absolute path, or use `--isolation none`".to_owned(),
                ),
            });
        }
    }
    let there: HashSet<String> = repository.branches()?.into_iter().collect();
    if there.contains("cf") {
        return Err(ConductorError::Refused {
            what: "a branch named `cf` leaves no room for the branches of tasks, `cf/<key>`"
                .to_owned(),
            hint: Some("rename it: `git branch -m cf NEW`".to_owned()),
        });
    }
    let mut wanted = tasks.into_iter().map(|label| branch_of(&label));
    let taken = store.read(|reader| {
        for branch in wanted.by_ref().filter(|branch| there.contains(branch)) {
            if !reader.is_our_branch(&branch)? {
                return Ok(Some(branch));
            }
        }
        Ok(None)
    })?;
    match taken {
        Some(branch) => Err(worktree::taken(&branch).into()),
        None => Ok(Some(base)),
    }
}

/// What the worktree of an attempt is to be made of. `base` is the commit that the batch starts from.
pub(super) fn order(
    reader: &Reader<'_>,
    settings: &Settings,
    tree: &Tree,
    task: TaskId,
    attempt: AttemptId,
    base: &str,
) -> Result<Order> {
    let mut parts = Vec::new();
    let (mut ahead, mut seen) = (reader.depends_on(task)?, HashSet::from([task]));
    while let Some(on) = ahead.pop() {
        if !seen.insert(on) {
            continue;
        }
        match reader.finished_work(on)? {
            Some(Worktree {
                attempt,
                branch,
                head: Some(head),
                ..
            }) => {
                let label = reader.label(on)?.to_string();
                parts.push((
                    attempt,
                    Part {
                        label,
                        branch,
                        head,
                    },
                ));
            }
            // A person may have made it DONE without work on a branch; what it builds on is built on all the same.
            _ => ahead.extend(reader.depends_on(on)?),
        }
    }
    // In the order in which they were finished, as far as attempts tell: the same each time.
    let mut finished = Vec::new();
    for (attempt, part) in parts {
        finished.push((reader.attempt(attempt)?.ended_at, part));
    }
    finished.sort_by(|(a, one), (b, other)| (a, &one.label).cmp(&(b, &other.label)));
    let mut older = Vec::new();
    for row in reader.worktrees_before(task, &tree.branch)? {
        if row.attempt == attempt {
            continue;
        }
        older.push(Older {
            is_live: row.is_live,
            has_run: row.has_run,
            is_removed: row.is_removed,
            left: leaving(reader, &row)?,
        });
    }
    Ok(Order {
        attempt,
        task,
        name: tree.name.clone(),
        is_ours: reader.is_our_branch(&tree.branch)?,
        branch: tree.branch.clone(),
        base: base.to_owned(),
        parts: finished.into_iter().map(|(_, part)| part).collect(),
        from: if settings.from_rescue {
            reader.left_last(task)?
        } else {
            None
        },
        older,
    })
}

/// What is known of a worktree whose attempt is over.
pub(super) fn leaving(reader: &Reader<'_>, row: &Worktree) -> Result<Leaving> {
    let task = reader.task(row.task)?;
    Ok(Leaving {
        attempt: row.attempt,
        task: row.task,
        name: row.name.clone(),
        branch: row.branch.clone(),
        base: row.base.clone().unwrap_or_default(),
        message: message(&task, row),
    })
}

/// The message of the commit that has the work of a task: its title, and where it comes from. Nothing else of a task is
/// in it: a description may come from anybody, and what trackers make of words in commits is not theirs to say.
fn message(task: &Task, row: &Worktree) -> String {
    let title = subject(&task.title);
    format!(
        "{title}\n\nCf-Task: {}\nCf-Attempt: {}\n",
        match &task.key {
            Some(key) => format!("{key} ({})", task.id),
            None => task.id.to_string(),
        },
        row.attempt
    )
}

/// The question about dependencies whose work cannot be brought together.
pub(super) fn question(what: &str, files: &[String]) -> String {
    format!(
        "The work that this task builds on cannot be put together: {what} conflicts in {}. Bring one of these branches \
         in line with the others (for example, merge one into the other by hand), then answer this question.",
        files.join(", ")
    )
}

#[cfg(test)]
mod tests;
