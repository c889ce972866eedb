//! GitHub as a source: what the issues and pull requests that tasks are linked to mean for them.
//!
//! It answers at once from what is known and fresh, and never waits: looks at GitHub belong to whoever conducts, and
//! their answers are asked about when they have arrived. An answer that is too old is unknown, and not knowing never
//! acts. What is found here changes nothing by itself.

pub(crate) mod closing;
pub(crate) mod observe;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use cf_core::{Actor, BlockerStatus, Link, Phase, TaskId, TaskStatus, Timestamp};
use cf_github::{Answer, FoundAsk, LinkAsk};
use cf_reconcile::{
    Believed, Caused, ClosedUnmerged, Decision, Effect, Evidence, LinkObservation, LinkState,
    PullRequestState, Reason, ReconcileAction, ReconciliationResult, SourceName, decide_links,
    new_context, plan,
};

use super::{Asked, Observation, Reconciler};
use crate::github::{GithubSource, comments_of};
use crate::settings::CommentsFrom;
use crate::store::follow::{LinkRow, LinkedTask};
use crate::store::{Reader, Result, Store};
use observe::{Seen, Surroundings};

/// Above so many tasks, all links are read in one go rather than task by task.
const ONE_BY_ONE: usize = 200;

/// What holds for all of a pass.
struct Pass<'r> {
    reader: &'r Reader<'r>,
    closed_unmerged: ClosedUnmerged,
    settle: Duration,
    comments_from: CommentsFrom,
    now: Timestamp,
}

/// Asks what is known about the links of tasks.
#[derive(Clone, Debug)]
pub struct GitHubReconciler {
    source: GithubSource,
}

impl GitHubReconciler {
    /// The source of this process, as one of a registry's.
    pub const fn new(source: GithubSource) -> Self {
        Self { source }
    }
}

impl Reconciler for GitHubReconciler {
    fn name(&self) -> SourceName {
        SourceName::Github
    }

    fn is_polled(&self) -> bool {
        false
    }

    fn check_tasks(
        &mut self,
        store: &Store,
        asked: &[Asked],
    ) -> Vec<(TaskId, Observation<ReconciliationResult>)> {
        if !self.source.is_on() {
            return Vec::new();
        }
        let found = store.read(|reader| self.check_all(reader, asked));
        // A store that cannot be read is the local source's to tell.
        found
            .unwrap_or_default()
            .into_iter()
            .map(|finding| (finding.task_id, Observation::Known(finding)))
            .collect()
    }
}

impl GitHubReconciler {
    fn check_all(&self, reader: &Reader<'_>, asked: &[Asked]) -> Result<Vec<ReconciliationResult>> {
        if !reader.has_links()? {
            return Ok(Vec::new());
        }
        let mut linked = if asked.len() > ONE_BY_ONE {
            reader.linked_tasks(None)?
        } else {
            let tasks: Vec<TaskId> = asked.iter().map(|asked| asked.task).collect();
            reader.linked_tasks(Some(&tasks))?
        };
        let untold: HashMap<TaskId, u32> = reader
            .tasks_with_untold_comments(self.source.comments_from())?
            .into_iter()
            .collect();
        let tasks: Vec<(&Asked, LinkedTask)> = asked
            .iter()
            .filter_map(|asked| Some((asked, linked.remove(&asked.task)?)))
            .collect();
        let mut ask = self.asking();
        let links = tasks.iter().flat_map(|(_, task)| &task.links);
        let mut answers = self.source.client().peek(links.map(&mut ask));
        let pass = Pass {
            reader,
            closed_unmerged: self.source.closed_unmerged(),
            settle: self.source.settle(),
            comments_from: self.source.comments_from(),
            now: Timestamp::now(),
        };
        let mut own = Vec::new();
        let mut found = Vec::with_capacity(tasks.len());
        for (asked, task) in &tasks {
            own.clear();
            own.extend(answers.by_ref().take(task.links.len()));
            let untold = untold.get(&asked.task).copied().unwrap_or(0);
            self.check(&pass, asked, task, &own, untold, &mut found)?;
        }
        Ok(found)
    }

    /// What is asked about a link. How old its answer may be is the same for all of a host, and found out once.
    fn asking<'r>(&self) -> impl FnMut(&'r LinkRow) -> LinkAsk<&'r Link> {
        let mut hosts: Vec<(&str, Duration)> = Vec::new();
        move |row| {
            let host = row.link.host.as_str();
            let known = hosts.iter().find(|(known, _)| *known == host);
            let fresh_within = if let Some((_, fresh_within)) = known {
                *fresh_within
            } else {
                let fresh_within = self.source.fresh_within(host);
                hosts.push((host, fresh_within));
                fresh_within
            };
            LinkAsk {
                comments: Some(comments_of(row)),
                found: FoundAsk::WhenMoved,
                ..LinkAsk::state(&row.link, fresh_within)
            }
        }
    }

    /// Adds what is found about a task.
    fn check(
        &self,
        pass: &Pass<'_>,
        asked: &Asked,
        task: &LinkedTask,
        answers: &[Answer],
        untold: u32,
        found: &mut Vec<ReconciliationResult>,
    ) -> Result<()> {
        let seen = see(pass, asked, task, answers, untold)?;
        let links: Vec<LinkObservation> = seen.iter().map(|seen| seen.observation).collect();
        let decision = decide_links(&links, pass.closed_unmerged);
        let waits = seen
            .iter()
            .filter(|_| {
                decision.reason == Reason::LinkSettling
                    || decision.action == ReconcileAction::LogContext
            })
            .filter_map(|seen| seen.settles_at)
            .max();
        self.source.note_settling(asked.task, waits);
        let comments =
            new_context(&links).filter(|_| decision.action != ReconcileAction::LogContext);
        let phase = asked.believed.phase();
        let findings = std::iter::once(decision)
            .chain(comments)
            // What does nothing where the task stands is not worth telling again and again.
            .filter(|decision| {
                decision.action == ReconcileAction::None
                    || plan(decision.action, phase) != Effect::Nothing
            })
            .map(|decision| finding(asked, task.status, phase, &seen, decision));
        found.extend(findings);
        Ok(())
    }
}

fn see<'t>(
    pass: &Pass<'_>,
    asked: &Asked,
    task: &'t LinkedTask,
    answers: &[Answer],
    untold: u32,
) -> Result<Vec<Seen<'t>>> {
    let reader = pass.reader;
    let by_hand = if answers.iter().any(observe::is_closed) {
        reader.set_ready_by_hand(asked.task)?
    } else {
        None
    };
    let around = Surroundings {
        caused: caused(reader, asked)?,
        attempt_began: match asked.attempt {
            Some(attempt) if asked.believed == Believed::Running => {
                Some(reader.attempt(attempt)?.started_at)
            }
            _ => None,
        },
        settle: pass.settle,
        now: pass.now,
    };
    let mut all = Vec::with_capacity(answers.len());
    let mut new_comments = untold;
    for (row, answer) in task.links.iter().zip(answers) {
        let question_open = match row.question {
            Some(id) => reader.blocker(id)?.status == BlockerStatus::Open,
            None => false,
        };
        let overruled = closing::overruled(reader, row, by_hand)?;
        observe::observe(&around, row, answer, question_open, overruled, &mut all);
        for comment in observe::comments(answer) {
            let unseen = observe::is_news(row, comment)
                && (comment.association.is_trusted() || pass.comments_from == CommentsFrom::Anyone)
                && !reader.has_comment(row, &comment.id)?;
            new_comments += u32::from(unseen);
        }
    }
    if let Some(first) = all
        .iter_mut()
        .find(|seen| !matches!(seen.observation.state, LinkState::Gone | LinkState::Unknown))
    {
        first.observation.new_comments = new_comments;
    }
    Ok(all)
}

/// What links did to a task that has an outcome in this batch, as long as nobody else has had a word since.
fn caused(reader: &Reader<'_>, asked: &Asked) -> Result<Caused> {
    if asked.believed.phase() != Phase::Finished
        || !matches!(reader.task(asked.task)?.status_by, Actor::Github(_))
    {
        return Ok(Caused::Nothing);
    }
    let row = reader.batch_task(asked.batch, asked.task)?;
    let reason = row.and_then(|row| row.reason).unwrap_or_default();
    Ok(Caused::of(asked.believed, &Reason::from(reason)))
}

fn finding(
    asked: &Asked,
    status: TaskStatus,
    phase: Phase,
    seen: &[Seen<'_>],
    decision: Decision,
) -> ReconciliationResult {
    let evidence = deciding(seen, &decision).map_or(Evidence::None, Seen::evidence);
    ReconciliationResult::new(
        asked.task,
        Some(status),
        phase,
        decision,
        SourceName::Github,
        evidence,
    )
}

/// The link that a decision rests on: of several that closed, the one that closed last.
fn deciding<'s, 'r>(seen: &'s [Seen<'r>], decision: &Decision) -> Option<&'s Seen<'r>> {
    let is_new = |seen: &&Seen<'_>| seen.observation.closure == cf_reconcile::Closure::New;
    let state = |seen: &Seen<'_>| seen.observation.state;
    let last = |fits: &dyn Fn(LinkState) -> bool| {
        seen.iter()
            .filter(is_new)
            .filter(|seen| fits(state(seen)))
            .max_by_key(|seen| seen.ended_at)
    };
    use cf_reconcile::IssueState as I;
    match decision.reason {
        Reason::PullRequestMerged => {
            last(&|state| state == LinkState::PullRequest(PullRequestState::Merged))
        }
        Reason::PullRequestClosed => {
            last(&|state| state == LinkState::PullRequest(PullRequestState::Closed))
        }
        Reason::IssueClosed => last(&|state| {
            matches!(
                state,
                LinkState::Issue(I::Completed | I::ClosedWithoutReason)
            )
        }),
        Reason::IssueClosedAsNotPlanned => last(&|state| state == LinkState::Issue(I::NotPlanned)),
        Reason::IssueClosedAsDuplicate => last(&|state| state == LinkState::Issue(I::Duplicate)),
        Reason::IssueReopened => reopened(seen, &|state| state == LinkState::Issue(I::Open)),
        Reason::PullRequestReopened => reopened(seen, &|state| {
            matches!(
                state,
                LinkState::PullRequest(PullRequestState::Open | PullRequestState::Draft)
            )
        }),
        Reason::NewComments(_) => seen.iter().find(|seen| seen.observation.new_comments > 0),
        _ => seen.first(),
    }
}

/// The link that was reopened: of several that are open, the one that changed last.
fn reopened<'s, 'r>(
    seen: &'s [Seen<'r>],
    is_open: &dyn Fn(LinkState) -> bool,
) -> Option<&'s Seen<'r>> {
    seen.iter()
        .rev()
        .filter(|seen| is_open(seen.observation.state))
        .max_by_key(|seen| seen.updated_at)
}
