//! Several findings about one task become one. The most severe wins, and nothing that was said is lost.
//!
//! Findings about different tasks never meet here; sorting them by task is the caller's.

use crate::{Effect, Reason, ReconcileAction, ReconciliationResult, plan};

/// The finding that wins, and all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The most severe finding that does something; of several, that of the earliest source.
    pub winner: ReconciliationResult,
    /// Every other finding, in the order of the sources.
    pub also: Vec<ReconciliationResult>,
}

impl Merged {
    /// The LOG_CONTEXTs that lost. Their comments are stored all the same, beside the winner's effect.
    pub fn contexts(&self) -> impl Iterator<Item = &ReconciliationResult> {
        self.also
            .iter()
            .filter(|finding| finding.action == ReconcileAction::LogContext)
    }

    /// Every reason for doing something, the winner's first.
    pub fn reasons(&self) -> impl Iterator<Item = &Reason> {
        std::iter::once(&self.winner)
            .chain(&self.also)
            .filter(|finding| finding.action != ReconcileAction::None)
            .map(|finding| &finding.reason)
    }
}

/// Merges the findings about one task, given in the order of their sources. `None` when there are none.
///
/// The most severe action wins, and of equal ones the earlier source's. An action that does nothing in the task's phase
/// ([`plan`]) stands behind every action that does something: a closed issue cannot keep a finished task from going
/// back into the queue, where it is looked at again. All findings must be about the same task, and believe it in the
/// same phase.
pub fn merge(findings: impl IntoIterator<Item = ReconciliationResult>) -> Option<Merged> {
    let mut findings = findings.into_iter();
    let mut winner = findings.next()?;
    let mut also = Vec::new();
    // Where the winner would stand among the others.
    let mut at = 0;
    for finding in findings {
        if rank(&finding) > rank(&winner) {
            also.insert(at, std::mem::replace(&mut winner, finding));
            at = also.len();
        } else {
            also.push(finding);
        }
    }
    Some(Merged { winner, also })
}

fn rank(finding: &ReconciliationResult) -> (bool, ReconcileAction) {
    let acts = plan(finding.action, finding.believed) != Effect::Nothing;
    (acts, finding.action)
}

/// Whether a finding with this action settles the task, so that later sources are not asked about it.
pub const fn settles(action: ReconcileAction) -> bool {
    match action {
        ReconcileAction::Skip | ReconcileAction::Fail => true,
        ReconcileAction::None
        | ReconcileAction::LogContext
        | ReconcileAction::Requeue
        | ReconcileAction::Kill => false,
    }
}

#[cfg(test)]
mod tests;
