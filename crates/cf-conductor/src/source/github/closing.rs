//! A closing, and whether it may still act: a link's state acts once after a person overruled it, or it was undone.
//!
//! Overruling is a person's READY (other than by an answer), a forced run, and an answer to the question that asks
//! about the closing. What is closed at that moment is pinned word for word (state, reason, time of closing or
//! merging); until then, and for what was pinned for an earlier overruling, times decide.

use cf_core::{BlockerStatus, Link, Timestamp};
use cf_github::{CloseReason, ItemState};

use crate::store::follow::{LinkRow, Overruled, Spent};
use crate::store::{Reader, Result};

/// A closing or merging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    /// The item, state, reason and time as one text.
    pub text: String,
    /// When; the beginning of time where GitHub does not say.
    pub at: Timestamp,
}

impl Closing {
    /// The closing of an item, if it is closed.
    pub(crate) fn of(link: &Link, state: &ItemState) -> Option<Self> {
        let word = match state {
            ItemState::Open => return None,
            ItemState::Closed { reason, .. } => reason_word(*reason).unwrap_or("closed"),
            ItemState::ClosedUnmerged { .. } => "unmerged",
            ItemState::Merged { .. } => "merged",
        };
        let at = state.ended_at().unwrap_or(Timestamp::UNIX_EPOCH);
        // Never as it is shown here, which is another text where `GH_HOST` is: what is stored is compared with it.
        let place = link.shown_on("github.com").to_ascii_lowercase();
        Some(Self {
            text: format!("{place} {word} {at}"),
            at,
        })
    }

    /// Whether it does not act any more.
    pub(crate) fn is_spent(&self, row: &LinkRow, overruled: Option<Overruled>) -> bool {
        if let Some(spent) = &row.spent
            && spent.closures.contains(&self.text)
        {
            return true;
        }
        let Some((seq, at)) = overruled else {
            return false;
        };
        if row.spent.as_ref().is_some_and(|spent| spent.seq >= seq) {
            return false;
        }
        // Clocks differ. What acted before it was overruled is older by the order of the log, too.
        let acted_before = row
            .acted
            .is_some_and(|(acted_at, acted_seq)| seq > acted_seq && self.at <= acted_at);
        self.at <= at || acted_before
    }
}

/// GitHub's word for a reason.
pub(crate) const fn reason_word(reason: CloseReason) -> Option<&'static str> {
    match reason {
        CloseReason::Completed => Some("completed"),
        CloseReason::NotPlanned => Some("not_planned"),
        CloseReason::Duplicate => Some("duplicate"),
        CloseReason::Unstated => None,
    }
}

/// The newest overruling of a link's closing, or its undoing. `by_hand` is when a person set the task READY last.
pub(crate) fn overruled(
    reader: &Reader<'_>,
    row: &LinkRow,
    by_hand: Option<Overruled>,
) -> Result<Option<Overruled>> {
    let answered = match row.question {
        None => None,
        Some(id) => {
            let blocker = reader.blocker(id)?;
            if blocker.status == BlockerStatus::Open {
                None
            } else {
                blocker.closed_seq.zip(blocker.answered_at)
            }
        }
    };
    let forced = row.forced.map(|(at, seq)| (seq, at));
    // What acted and was undone by a reopening is over. Should it be told again all the same, then by a machine of the
    // tracker's that does not know yet; a new closing has a time of its own, and acts. What closed the task's other
    // links was not undone by it.
    let undone = match row.acted {
        None => None,
        Some(_) => reader.requeued_by_tracker(row)?,
    };
    let undone = undone.map(|seq| (seq, Timestamp::MIN));
    Ok([by_hand, answered, forced, undone]
        .into_iter()
        .flatten()
        .max_by_key(|(seq, _)| *seq))
}

/// What is to be pinned for a link now, if anything is that is not.
pub(crate) fn to_pin(
    row: &LinkRow,
    closings: &[Closing],
    overruled: Option<Overruled>,
) -> Option<Spent> {
    let (seq, _) = overruled?;
    if row.spent.as_ref().is_some_and(|spent| spent.seq >= seq) {
        return None;
    }
    let closures: Vec<String> = closings
        .iter()
        .filter(|closing| closing.is_spent(row, overruled))
        .map(|closing| closing.text.clone())
        .collect();
    (!closures.is_empty()).then_some(Spent { seq, closures })
}
