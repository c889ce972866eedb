//! Folders for attempts that are still to come, made while agents run.
//!
//! Each belongs to an id that the next attempt gets. What is left when the batch ends goes; a conductor that is killed
//! leaves at most [`MOST`] folders, empty but for two empty files, which `cf doctor --fix` removes.

use std::collections::HashMap;

use cf_core::AttemptId;

use super::super::launch::Files;
use super::Conductor;
use crate::schedule::Mode;

/// For how many attempts at most. Agents that end within the time that a folder takes are few.
const MOST: usize = 4;

impl Conductor<'_> {
    /// Makes what the next attempts need of files, as far as there are tasks for them.
    pub(super) fn make_ahead(&mut self) {
        if self.core.schedule.mode() == Mode::Closing || self.only_pass {
            return;
        }
        let most = MOST.min(self.core.schedule.slots());
        let wanted = self.core.schedule.upcoming(most).count();
        while self.core.fresh.len() < wanted {
            let attempt = AttemptId(crate::ambient::fresh_id());
            // Whatever is wrong, the start of the attempt will tell.
            let Ok(files) = Files::make(self.setup.workspace.folder_of(attempt)) else {
                return;
            };
            self.ahead.insert(attempt, files);
            self.core.fresh.push(attempt);
            crate::fault::point("folder.made");
        }
    }

    /// Gives up the ids that a turn took which did not happen: nobody can be sure that none of them was stored.
    pub(super) fn forget_ahead(&mut self, before: Vec<AttemptId>) {
        for attempt in before {
            if !self.core.fresh.contains(&attempt)
                && let Some(files) = self.ahead.remove(&attempt)
            {
                files.remove();
            }
        }
    }

    /// Removes what no attempt came to need.
    pub(super) fn remove_ahead(&mut self) {
        self.core.fresh.clear();
        for (_, files) in self.ahead.drain() {
            files.remove();
        }
    }
}

/// Folders by the attempts that they are for.
pub(super) type Ahead = HashMap<AttemptId, Files>;
