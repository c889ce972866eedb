//! The time that counts: a monotonic clock that leaves out gaps in its own ticks.

use std::time::{Duration, Instant};

/// The longest time between two ticks of a clock that somebody measures a limit with.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// How much later than planned a tick may come before it is taken for a gap (a suspended machine, SIGSTOP) rather than
/// for a busy machine.
const SLACK: Duration = Duration::from_secs(1);

/// Active time since the clock was made.
#[derive(Debug)]
pub(super) struct ActiveClock {
    last: Instant,
    active: Duration,
}

impl ActiveClock {
    pub(super) fn start() -> Self {
        Self {
            last: Instant::now(),
            active: Duration::ZERO,
        }
    }

    /// The active time as of the last tick.
    pub(super) const fn active(&self) -> Duration {
        self.active
    }

    /// Goes on to now, after a wait that was meant to last at most `planned`.
    pub(super) fn tick(&mut self, planned: Option<Duration>) {
        let now = Instant::now();
        self.active += counted(now - self.last, planned);
        self.last = now;
    }
}

/// What of the time between two ticks counts. A gap counts as half of what was planned: not against anybody, and yet a
/// supervisor that is always late comes to its limit.
fn counted(passed: Duration, planned: Option<Duration>) -> Duration {
    match planned {
        Some(planned) if passed > planned + SLACK => planned / 2,
        _ => passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_as_half_a_tick() {
        let s = Duration::from_secs;
        assert_eq!(counted(s(1), Some(s(1))), s(1));
        assert_eq!(counted(s(2), Some(s(1))), s(2));
        assert_eq!(counted(s(60), Some(s(1))), s(1) / 2);
        assert_eq!(counted(s(60), None), s(60));
    }
}
