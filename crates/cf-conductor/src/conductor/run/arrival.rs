//! The transaction of a look that arrived: answers, comments, links that moved, closings that were overruled, and what
//! a person should hear. It may be run again when the store refused; it decides nothing about a task.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};

use cf_core::{Actor, BatchId, BlockerStatus, EventType, TaskId};
use cf_github::{Answer, Comments, Notice, NoticeKind};
use cf_reconcile::GONE_PASSES;

use super::looks::{Arrival, Follower};
use crate::github::{keep, store_comments};
use crate::source::github::{closing, observe};
use crate::store::event::Event;
use crate::store::follow::LinkRow;
use crate::store::{Result as StoreResult, Tx};

/// How often one link is followed to where it has moved, before that is taken for a circle.
const MOVES: u8 = 5;

/// The transaction of an arrival, and what it finds.
pub(super) struct Arriving<'f> {
    pub(super) follower: &'f Follower,
    pub(super) batch: BatchId,
    /// Members that are held.
    pub(super) held: HashSet<TaskId>,
    /// Tasks to be looked at.
    pub(super) concerned: BTreeSet<TaskId>,
    /// Links that moved, and the host that they moved to.
    pub(super) moved: Vec<(i64, String)>,
    pub(super) gone: Vec<i64>,
    /// Tasks whose links were written.
    pub(super) touched: BTreeSet<TaskId>,
}

impl Arriving<'_> {
    /// Stores the arrival.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub(super) fn store(&mut self, tx: &mut Tx<'_>, arrival: &Arrival) -> StoreResult<()> {
        self.concerned.clear();
        self.moved.clear();
        self.gone.clear();
        self.touched.clear();
        keep(tx, &self.follower.unsaved)?;
        for (row, answer) in &arrival.answers {
            let changed = self.follower.marks.get(&row.pk) != Some(&observe::fingerprint(answer));
            if changed {
                self.concerned.insert(row.task);
            }
            let starts = arrival.starts.contains(&row.task);
            if changed || starts || !matches!(answer, Answer::Known(_)) || has_comments(answer) {
                self.one(tx, row, answer, changed || starts)?;
            }
        }
        let from = self.follower.source.comments_from();
        for (task, _) in tx.reader().tasks_with_untold_comments(from)? {
            self.concerned.insert(task);
        }
        for notice in &self.follower.notices {
            tx.append(told(notice).batch(self.batch))?;
        }
        Ok(())
    }

    fn one(
        &mut self,
        tx: &mut Tx<'_>,
        row: &LinkRow,
        answer: &Answer,
        pins: bool,
    ) -> StoreResult<()> {
        // It may have been removed, or moved by another process, since it was asked about.
        let Some(row) = tx
            .reader()
            .link_row(row.pk)?
            .filter(|now| now.link == row.link)
        else {
            return Ok(());
        };
        match answer {
            Answer::Known(known) => {
                if let Comments::Read(read) = &known.comments {
                    store_comments(tx, &row, read)?;
                    self.touched.insert(row.task);
                }
            }
            Answer::Moved { to, .. } => {
                let times = self.follower.moves.get(&row.pk).copied().unwrap_or(0);
                if times < MOVES && *to != row.link {
                    tx.move_link(&row, to)?;
                    self.touched.insert(row.task);
                    self.moved.push((row.pk, to.host.clone()));
                }
                return Ok(());
            }
            Answer::Gone(gone) => {
                if gone.looks >= GONE_PASSES && !self.follower.gone_said.contains(&row.pk) {
                    self.gone.push(row.pk);
                    tx.append(
                        Event::new(EventType::SourceNotice)
                            .task(row.task)
                            .batch(self.batch)
                            .with("source", "github")
                            .with("reason", "linked issue is gone")
                            .with("url", row.link.url())
                            .with(
                                "text",
                                format!(
                                    "{} {}; the task goes on without it",
                                    row.link.shown_on("github.com"),
                                    gone.how
                                ),
                            ),
                    )?;
                }
                return Ok(());
            }
            Answer::Unknown { .. } => return Ok(()),
        }
        if observe::is_open(answer)
            && let Some(question) = row.question
        {
            self.settle_question(tx, &row, question)?;
        }
        if pins && observe::is_closed(answer) {
            let by_hand = tx.reader().set_ready_by_hand(row.task)?;
            let overruled = closing::overruled(&tx.reader(), &row, by_hand)?;
            let closings = observe::closings_of(&row, answer);
            if let Some(spent) = closing::to_pin(&row, &closings, overruled) {
                tx.spend(row.pk, &spent)?;
            }
        }
        Ok(())
    }

    /// The pull request is open again, so that nobody need say what is to be done about its closing.
    fn settle_question(
        &mut self,
        tx: &mut Tx<'_>,
        row: &LinkRow,
        question: cf_core::BlockerId,
    ) -> StoreResult<()> {
        if tx.reader().blocker(question)?.status == BlockerStatus::Open {
            let by = Actor::Github(row.link.host.clone());
            if self.held.contains(&row.task) {
                tx.resolve_for(&by, question, row.task)?;
            } else {
                let own = std::mem::replace(&mut tx.actor, by);
                let resolved = tx.resolve(question);
                tx.actor = own;
                resolved?;
            }
            self.concerned.insert(row.task);
        }
        tx.set_link_question(row.pk, None)
    }
}

const fn has_comments(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Known(cf_github::Known {
            comments: Comments::Read(_),
            ..
        })
    )
}

/// The event of something that a person should hear.
fn told(notice: &Notice) -> Event {
    let kind = match notice.what {
        NoticeKind::Opened { .. } | NoticeKind::Off { .. } => EventType::SourceUnavailable,
        NoticeKind::Closed => EventType::SourceAvailable,
        NoticeKind::Unread { .. } => EventType::SourceNotice,
    };
    Event::new(kind)
        .with("source", "github")
        .with("host", notice.host.as_str())
        .with("text", notice.to_string())
}
