//! Prompt files for attempts that are still to come, made while agents run.
//!
//! Each belongs to an id that the next attempt gets. What is left when the batch ends goes; a conductor that is killed
//! leaves at most [`MOST`] empty files, which `cf doctor --fix` removes.

use std::collections::HashMap;

use cf_core::AttemptId;

use super::super::begin::TICK;
use super::super::launch::PromptFile;
use super::Conductor;
use crate::schedule::Mode;

/// For how many attempts at most. Agents that end within the time that a file takes are few.
const MOST: usize = 4;

impl Conductor<'_> {
    /// Makes what the next attempts need of files, as far as there are tasks for them.
    pub(super) fn make_ahead(&mut self) {
        self.drop_ahead();
        if self.core.schedule.mode() == Mode::Closing
            || self.only_pass
            || self.core.clock < self.ahead_from
        {
            return;
        }
        let most = MOST.min(self.core.schedule.slots());
        let wanted = self.core.schedule.upcoming(most).count();
        while self.core.fresh.len() < wanted {
            let attempt = AttemptId(crate::ambient::fresh_id());
            let Ok(file) = PromptFile::make(self.setup.workspace.prompt_of(attempt)) else {
                // Whatever is wrong, the start of the attempt will tell; until then it is hardly better.
                self.ahead_from = self.core.clock + TICK;
                return;
            };
            self.ahead.insert(attempt, file);
            self.core.fresh.push(attempt);
            crate::fault::point("prompt.made");
        }
    }

    /// Removes what was made for attempts that ended before their agents could start: without a worktree, or since a
    /// person has to decide something first.
    fn drop_ahead(&mut self) {
        let core = &self.core;
        let is_over = |attempt: &AttemptId, _: &mut PromptFile| {
            !core.fresh.contains(attempt) && !core.by_attempt.contains_key(attempt)
        };
        for (_, file) in self.ahead.extract_if(is_over) {
            file.remove();
        }
    }

    /// Gives up the ids that a turn took which did not happen: nobody can be sure that none of them was stored.
    pub(super) fn forget_ahead(&mut self, before: Vec<AttemptId>) {
        for attempt in before {
            if !self.core.fresh.contains(&attempt)
                && let Some(file) = self.ahead.remove(&attempt)
            {
                file.remove();
            }
        }
    }

    /// Removes what no attempt came to need.
    pub(super) fn remove_ahead(&mut self) {
        self.core.fresh.clear();
        for (_, file) in self.ahead.drain() {
            file.remove();
        }
    }
}

/// Files by the attempts that they are for.
pub(super) type Ahead = HashMap<AttemptId, PromptFile>;
