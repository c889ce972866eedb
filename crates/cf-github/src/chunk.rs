//! How many items one request asks about: as many as went well lately. Pure.
//!
//! GitHub ends a request after ten seconds and charges extra for it, so a size that was too large is not tried again
//! soon, by any process.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::time::between;

/// The size with which a new workspace begins: what the tools that do the same are known to get through.
const FIRST: u32 = 100;
/// The largest size.
const LARGEST: u32 = 250;
/// The smallest size; whatever fails with so few does not fail for its size.
pub(crate) const SMALLEST: u32 = 10;
/// How long a size that failed is avoided.
const AVOID: Duration = Duration::from_hours(24);
/// How many successes in a row end that sooner.
const CLEAN: u32 = 20;

/// The adaptive size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// Items for one request.
    size: u32,
    /// When a larger one last failed.
    shrunk_at: Option<Timestamp>,
    /// Full requests in a row that went well since.
    clean: u32,
}

impl Default for Chunk {
    fn default() -> Self {
        Self {
            size: FIRST,
            shrunk_at: None,
            clean: 0,
        }
    }
}

impl Chunk {
    /// Items for one request, 10 to 250.
    pub const fn size(&self) -> usize {
        // A stored value may come from anywhere.
        if self.size < SMALLEST {
            SMALLEST as usize
        } else if self.size > LARGEST {
            LARGEST as usize
        } else {
            self.size as usize
        }
    }

    /// A request about `asked` items went well.
    pub fn went_well(&mut self, asked: usize, now: Timestamp) {
        if asked < self.size() {
            return;
        }
        self.clean = self.clean.saturating_add(1);
        let avoided = self
            .shrunk_at
            .is_some_and(|at| at <= now && between(at, now) < AVOID && self.clean < CLEAN);
        if !avoided {
            self.size = (self.size() as u32 * 2).min(LARGEST);
            self.clean = 0;
        }
    }

    /// Takes in what another process learned: the later failure, else the larger size.
    pub fn merge(&mut self, other: Self) {
        if other.shrunk_at > self.shrunk_at
            || (other.shrunk_at == self.shrunk_at && other.size() > self.size())
        {
            *self = other;
        }
    }

    /// A request about `asked` items was too large.
    pub fn was_too_large(&mut self, asked: usize, now: Timestamp) {
        let half = (asked as u32 / 2).clamp(SMALLEST, LARGEST);
        self.size = half.min(self.size() as u32);
        self.shrunk_at = Some(now);
        self.clean = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn it_grows_while_all_goes_well() {
        let mut chunk = Chunk::default();
        let mut sizes = Vec::new();
        for second in 0..4 {
            sizes.push(chunk.size());
            chunk.went_well(chunk.size(), at(second));
        }
        assert_eq!(sizes, [100, 200, 250, 250]);
    }

    #[test]
    fn a_small_request_proves_nothing() {
        let mut chunk = Chunk::default();
        chunk.went_well(99, at(0));
        assert_eq!(chunk.size(), 100);
    }

    #[test]
    fn a_size_that_failed_is_avoided_for_a_day_or_twenty_successes() {
        let mut chunk = Chunk::default();
        chunk.was_too_large(100, at(0));
        assert_eq!(chunk.size(), 50);
        for second in 1..20 {
            chunk.went_well(50, at(second));
            assert_eq!(chunk.size(), 50);
        }
        chunk.went_well(50, at(20));
        assert_eq!(chunk.size(), 100);

        chunk.was_too_large(100, at(0));
        chunk.went_well(50, at(24 * 3600));
        assert_eq!(chunk.size(), 100);
    }

    #[test]
    fn what_another_process_learned_is_taken_in() {
        let mut mine = Chunk::default();
        let mut theirs = Chunk::default();
        theirs.went_well(100, at(0));
        mine.merge(theirs);
        assert_eq!(mine.size(), 200);
        mine.merge(Chunk::default());
        assert_eq!(mine.size(), 200, "a beginner knows nothing");
        theirs.was_too_large(200, at(1));
        theirs.was_too_large(100, at(2));
        mine.merge(theirs);
        assert_eq!(mine.size(), 50);
    }

    #[test]
    fn it_never_goes_below_ten_and_never_up_by_failing() {
        let mut chunk = Chunk::default();
        for _ in 0..9 {
            chunk.was_too_large(chunk.size(), at(0));
        }
        assert_eq!(chunk.size(), 10);
        chunk.was_too_large(200, at(0));
        assert_eq!(chunk.size(), 10);
    }
}
