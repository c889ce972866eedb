//! GitHub as a source: what the issues and pull requests that tasks are linked to mean for them.
//!
//! It answers at once from what is known and fresh, and never waits: looks at GitHub belong to whoever conducts, and
//! their answers are asked about when they have arrived. An answer that is too old is unknown, and not knowing never
//! acts. What is found here changes nothing by itself.

pub(crate) mod closing;
pub(crate) mod observe;

#[cfg(test)]
mod tests;

use cf_core::{Actor, BlockerStatus, Phase, TaskId, TaskStatus, Timestamp};
use cf_github::{FoundAsk, LinkAsk, Proof};
use cf_reconcile::{
    Believed, Caused, Decision, Effect, Evidence, LinkObservation, LinkState, PullRequestState,
    Reason, ReconcileAction, ReconciliationResult, SourceName, decide_links, new_context, plan,
};

use super::{Asked, Observation, Reconciler};
use crate::github::{GithubSource, comments_of};
use crate::store::follow::LinkRow;
use crate::store::task::TaskStanding;
use crate::store::{Reader, Result, Store};
use observe::{Seen, Surroundings};

/// Above so many tasks, all links are read in one go rather than task by task.
const ONE_BY_ONE: usize = 200;

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
        let found = store.read(|reader| {
            let mut found = Vec::new();
            if !reader.has_links()? {
                return Ok(found);
            }
            let mut all = if asked.len() > ONE_BY_ONE {
                Some(reader.all_link_rows()?)
            } else {
                None
            };
            for asked in asked {
                let rows = match &mut all {
                    Some(all) => all.remove(&asked.task).unwrap_or_default(),
                    None => reader.link_rows(asked.task)?,
                };
                if !rows.is_empty() {
                    found.extend(self.check(reader, asked, &rows)?);
                }
            }
            Ok(found)
        });
        // A store that cannot be read is the local source's to tell.
        found
            .unwrap_or_default()
            .into_iter()
            .map(|finding| (finding.task_id, Observation::Known(finding)))
            .collect()
    }
}

impl GitHubReconciler {
    fn check(
        &self,
        reader: &Reader<'_>,
        asked: &Asked,
        rows: &[LinkRow],
    ) -> Result<Vec<ReconciliationResult>> {
        let Some(standing) = reader.standing(asked.task)? else {
            return Ok(Vec::new());
        };
        if standing.deleted || standing.status == TaskStatus::Merged {
            return Ok(Vec::new());
        }
        let seen = self.see(reader, asked, rows, &standing)?;
        let links: Vec<LinkObservation> = seen.iter().map(|seen| seen.observation).collect();
        let decision = decide_links(&links, self.source.closed_unmerged());
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
        Ok(std::iter::once(decision)
            .chain(comments)
            // What does nothing where the task stands is not worth telling again and again.
            .filter(|decision| {
                decision.action == ReconcileAction::None
                    || plan(decision.action, phase) != Effect::Nothing
            })
            .map(|decision| finding(asked, &standing, phase, &seen, decision))
            .collect())
    }

    fn see(
        &self,
        reader: &Reader<'_>,
        asked: &Asked,
        rows: &[LinkRow],
        standing: &TaskStanding,
    ) -> Result<Vec<Seen>> {
        let asks: Vec<LinkAsk> = rows
            .iter()
            .map(|row| LinkAsk {
                link: row.link.clone(),
                fresh_within: self.source.fresh_within(&row.link.host),
                proof: Proof::Listed,
                comments: Some(comments_of(row)),
                found: FoundAsk::WhenMoved,
            })
            .collect();
        let answers = self.source.client().peek(&asks);
        let by_hand = if answers.iter().any(observe::is_closed) {
            reader.set_ready_by_hand(asked.task)?
        } else {
            None
        };
        let around = Surroundings {
            caused: caused(reader, asked, standing)?,
            attempt_began: match asked.attempt {
                Some(attempt) if asked.believed == Believed::Running => {
                    Some(reader.attempt(attempt)?.started_at)
                }
                _ => None,
            },
            settle: self.source.settle(),
            now: Timestamp::now(),
        };
        let mut all = Vec::with_capacity(rows.len());
        let mut new_comments =
            u32::try_from(reader.untold_comments(asked.task)?.len()).unwrap_or(u32::MAX);
        for (row, answer) in rows.iter().zip(&answers) {
            let question_open = match row.question {
                Some(id) => reader.blocker(id)?.status == BlockerStatus::Open,
                None => false,
            };
            let overruled = closing::overruled(reader, row, by_hand)?;
            all.extend(observe::observe(
                &around,
                row,
                answer,
                question_open,
                overruled,
            ));
            for comment in observe::comments(answer) {
                let unseen =
                    observe::is_news(row, comment) && !reader.has_comment(row, &comment.id)?;
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
}

/// What links did to a task that has an outcome in this batch, as long as nobody else has had a word since.
fn caused(reader: &Reader<'_>, asked: &Asked, standing: &TaskStanding) -> Result<Caused> {
    let by_tracker = matches!(standing.status_by, Actor::Github(_));
    if asked.believed.phase() != Phase::Finished || !by_tracker {
        return Ok(Caused::Nothing);
    }
    let row = reader.batch_task(asked.batch, asked.task)?;
    let reason = row.and_then(|row| row.reason).unwrap_or_default();
    Ok(Caused::of(asked.believed, &Reason::from(reason)))
}

fn finding(
    asked: &Asked,
    standing: &TaskStanding,
    phase: Phase,
    seen: &[Seen],
    decision: Decision,
) -> ReconciliationResult {
    let evidence = deciding(seen, &decision).map_or(Evidence::None, Seen::evidence);
    ReconciliationResult::new(
        asked.task,
        Some(standing.status),
        phase,
        decision,
        SourceName::Github,
        evidence,
    )
}

/// The link that a decision rests on: of several that closed, the one that closed last.
fn deciding<'s>(seen: &'s [Seen], decision: &Decision) -> Option<&'s Seen> {
    let is_new = |seen: &&Seen| seen.observation.closure == cf_reconcile::Closure::New;
    let state = |seen: &Seen| seen.observation.state;
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
        Reason::IssueReopened => seen
            .iter()
            .find(|seen| state(seen) == LinkState::Issue(I::Open)),
        Reason::PullRequestReopened => seen.iter().find(|seen| {
            matches!(
                state(seen),
                LinkState::PullRequest(PullRequestState::Open | PullRequestState::Draft)
            )
        }),
        Reason::NewComments(_) => seen.iter().find(|seen| seen.observation.new_comments > 0),
        _ => seen.first(),
    }
}
