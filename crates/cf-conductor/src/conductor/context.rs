//! What a tracker's findings do beside an action: comments are told, closings are noted, and a closing is asked about.

use std::io::Write as _;
use std::path::Path;

use cf_core::{Asker, AttemptId, Phase, TaskStatus};
use cf_reconcile::{Effect, Evidence, Reason, ReconciliationResult, SourceName};
use rustix::fs::{Mode, OFlags};

use super::rows;
use super::turn::Core;
use crate::prompt::{self, Comment, CommentsFrom, Trust};
use crate::store::follow::StoredComment;
use crate::store::{Result, Tx};
use crate::workspace::{Workspace, inside};

impl Core {
    /// Tells what comments were stored and not told: an event, and for an agent that runs, its context file when the
    /// transaction has committed.
    pub(super) fn tell_comments(
        &mut self,
        tx: &mut Tx<'_>,
        finding: &ReconciliationResult,
        phase: Phase,
    ) -> Result<()> {
        let task = finding.task_id;
        let from = self.settings.github.comments_from;
        let comments = tx.reader().untold_comments(task, from)?;
        if comments.is_empty() || phase == Phase::Stopping {
            return Ok(());
        }
        let seq = tx.append(rows::context(self.batch, finding, comments.len()))?;
        tx.told_comments(task, from, seq)?;
        if let Some(running) = self.running.get(&task).filter(|r| r.stop.is_none()) {
            self.contexts.push((running.attempt, comments));
        }
        Ok(())
    }

    /// Writes what a source asks for. A task that a closed pull request blocks is blocked by a question about it.
    pub(super) fn ask_or_write(
        &mut self,
        tx: &mut Tx<'_>,
        finding: &ReconciliationResult,
    ) -> Result<()> {
        let asks = finding.source == SourceName::Github
            && finding.reason == Reason::PullRequestClosed
            && finding.external_status == Some(TaskStatus::Blocked);
        let Evidence::Link(link) = &finding.evidence else {
            return self.write_asked(tx, finding);
        };
        if !asks {
            return self.write_asked(tx, finding);
        }
        let url = &link.url;
        let task = finding.task_id;
        let rows = tx.reader().link_rows(task)?;
        let row = rows.iter().find(|row| is_at(&row.link, url));
        let question = format!(
            "The pull request {url} was closed without being merged. What is to be done about this task? (Its reopening \
             resolves this question.)"
        );
        let id = tx.ask_as(Some(task), &question, Asker::System, None)?;
        if let Some(row) = row {
            tx.set_link_question(row.pk, Some(id))?;
        }
        let standing = tx.reader().standing(task)?;
        self.saw(tx, task, standing.as_ref())
    }
}

/// Notes that a closing acts, so that a person's READY after it is known to be one.
pub(super) fn note_closing(
    tx: &mut Tx<'_>,
    finding: &ReconciliationResult,
    effect: Effect,
) -> Result<()> {
    let acts = match effect {
        Effect::DropFromQueue
        | Effect::FinishSkipped
        | Effect::FinishFailed
        | Effect::StopThen(_)
        | Effect::Hold => true,
        Effect::Nothing | Effect::BackToQueue | Effect::StoreContext | Effect::StoreContextLive => {
            false
        }
    };
    if let Evidence::Link(link) = &finding.evidence
        && acts
        && let Some(at) = link.merged_at.or(link.closed_at)
    {
        tx.acted(finding.task_id, at)?;
    }
    Ok(())
}

/// Whether a link points at what stands at an address, whichever kind of item the link was made for.
fn is_at(link: &cf_core::Link, url: &str) -> bool {
    [cf_core::LinkKind::Issue, cf_core::LinkKind::Pr]
        .into_iter()
        .any(|kind| {
            cf_core::Link {
                kind,
                ..link.clone()
            }
            .url()
                == url
        })
}

/// Comments as a prompt has them.
pub(super) fn for_agents(comments: &[StoredComment]) -> Vec<Comment> {
    comments
        .iter()
        .map(|comment| Comment {
            author: comment.author.clone(),
            at: comment.at,
            body: comment.body.clone(),
            trust: if comment.trusted {
                Trust::Member
            } else {
                Trust::Stranger
            },
        })
        .collect()
}

/// Appends comments to the context file of an agent that runs, and makes it for the first ones. A link in its place is
/// not followed.
pub(super) fn append(
    workspace: &Workspace,
    attempt: AttemptId,
    comments: &[StoredComment],
    from: CommentsFrom,
) -> std::io::Result<()> {
    let fences = std::iter::repeat_with(|| uuid::Uuid::new_v4().simple().to_string());
    let text = prompt::render_context(&for_agents(comments), from, fences)
        .map_err(std::io::Error::other)?;
    if text.is_empty() {
        return Ok(());
    }
    append_to(&workspace.context_of(attempt), &text)
}

fn append_to(path: &Path, text: &str) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
    let file = inside::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    std::fs::File::from(file).write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_place_of_the_context_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::fs::write(&target, "untouched").unwrap();
        let file = folder.path().join("context.md");
        std::os::unix::fs::symlink(&target, &file).unwrap();
        assert!(append_to(&file, "news").is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "untouched");
        std::fs::remove_file(&file).unwrap();
        append_to(&file, "one\n").unwrap();
        append_to(&file, "two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n");
    }
}
