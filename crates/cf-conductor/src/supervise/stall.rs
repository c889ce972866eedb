//! When a process and everything below it shows no sign of life.

use std::collections::VecDeque;
use std::time::Duration;

/// The unit of processor time in `/proc`: 1/100 s on every architecture that Rust's Linux targets have but Alpha.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// Watches for a time without output in which the whole tree used less than 1 % of one processor.
#[derive(Debug)]
pub(super) struct StallWatch {
    limit: Duration,
    /// The time between two samples of processor time, which cost a walk through the tree.
    step: Duration,
    last_output: Duration,
    /// Active time and processor time (clock ticks) of the samples since the last output, oldest first.
    samples: VecDeque<(Duration, u64)>,
}

impl StallWatch {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit,
            step: (limit / 8).clamp(Duration::from_millis(20), Duration::from_secs(30)),
            last_output: Duration::ZERO,
            samples: VecDeque::new(),
        }
    }

    /// Output came: a sign of life.
    pub(super) fn output(&mut self, active: Duration) {
        self.last_output = active;
        self.samples.clear();
    }

    /// How long nothing has to be looked at.
    pub(super) fn rest(&self, active: Duration) -> Duration {
        let last = self
            .samples
            .back()
            .map_or(self.last_output, |sample| sample.0);
        (last + self.step).saturating_sub(active)
    }

    /// Whether the limit is reached; `cpu_ticks` gives the processor time that the tree has used so far, and is asked
    /// only when a sample is due.
    pub(super) fn stalled(&mut self, active: Duration, cpu_ticks: impl FnOnce() -> u64) -> bool {
        if !self.rest(active).is_zero() {
            return false;
        }
        let now = cpu_ticks();
        self.samples.push_back((active, now));
        // The newest sample that is at least a whole limit old is the beginning of the time that is judged.
        while self
            .samples
            .get(1)
            .is_some_and(|sample| sample.0 + self.limit <= active)
        {
            self.samples.pop_front();
        }
        let Some((begun, before)) = self.samples.front().copied() else {
            return false;
        };
        let window = active.saturating_sub(begun);
        // Less than before: something has ended without being waited for, and that is life too.
        let Some(ticks) = now.checked_sub(before) else {
            return false;
        };
        let used = CLOCK_TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX));
        window >= self.limit && used < window / 100
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a watch of `limit_ms` over `end_ms`, with the processor time that `cpu` gives for a time in ms.
    fn run(limit_ms: u64, end_ms: u64, output_at: &[u64], cpu: impl Fn(u64) -> u64) -> Option<u64> {
        let mut watch = StallWatch::new(Duration::from_millis(limit_ms));
        (0..end_ms).find(|ms| {
            let now = Duration::from_millis(*ms);
            if output_at.contains(ms) {
                watch.output(now);
            }
            watch.stalled(now, || cpu(*ms))
        })
    }

    #[test]
    fn quiet_and_idle_is_stalled_soon_after_the_limit() {
        let at = run(8_000, 20_000, &[], |_| 5).unwrap();
        assert!((8_000..=9_100).contains(&at), "{at}");
    }

    #[test]
    fn output_is_life() {
        let at = run(8_000, 40_000, &[5_000, 12_000], |_| 0).unwrap();
        assert!((20_000..=21_100).contains(&at), "{at}");
    }

    #[test]
    fn one_percent_of_a_processor_is_life_and_half_a_percent_is_not() {
        assert_eq!(run(8_000, 60_000, &[], |ms| ms / 900), None);
        assert!(run(8_000, 60_000, &[], |ms| ms / 2_000).is_some());
    }

    #[test]
    fn few_samples_are_taken() {
        let taken = std::cell::Cell::new(0);
        run(8_000, 60_000, &[], |ms| {
            taken.set(taken.get() + 1);
            ms
        });
        assert!(taken.get() <= 61, "{}", taken.get());
    }
}
