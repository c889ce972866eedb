//! When a failed task is tried again.

use std::time::Duration;

/// The longest time between two attempts.
pub const LONGEST_DELAY: Duration = Duration::from_mins(5);

/// Returns how long to wait after the `failures`-th failed attempt (from 1; 0 counts as 1).
///
/// `base` doubles with every further failure, is capped at [`LONGEST_DELAY`], and is then spread by `jitter`: 0 gives
/// 75 % of it, 1 gives 125 %, and the cap holds again. So many tasks that failed together do not start together, also
/// at the cap. The caller draws `jitter` evenly from 0 to 1; anything outside is taken as the nearer end, and what is
/// not a number as the middle. The result is in whole milliseconds, at most [`LONGEST_DELAY`], for any input.
pub fn retry_delay(failures: u32, base: Duration, jitter: f64) -> Duration {
    let doublings = failures.saturating_sub(1);
    let factor = 1u32.checked_shl(doublings).unwrap_or(u32::MAX);
    let delay = base.saturating_mul(factor).min(LONGEST_DELAY);
    let jitter = if jitter.is_nan() {
        0.5
    } else {
        jitter.clamp(0.0, 1.0)
    };
    let spread_ms = delay.as_millis() as f64 * (0.75 + 0.5 * jitter);
    Duration::from_millis(spread_ms.round() as u64).min(LONGEST_DELAY)
}

/// How an attempt ended without success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureCause {
    /// Its agent ended with a code or a signal, or its closing words, that are no success.
    Exit,
    /// Its agent succeeded and its verification did not.
    Verify,
    /// It took longer than its timeout.
    Timeout,
    /// It gave no sign of life for the stall timeout.
    Stall,
    /// It was started, nobody is alive, and there is no record.
    Lost,
    /// Its agent reported the task FAILED.
    Reported,
    /// Its agent asked a question.
    Asked,
    /// It was stopped: by a source, by a person, or with its batch.
    Stopped,
    /// It was never started.
    NeverStarted,
}

impl FailureCause {
    /// Every value.
    pub const ALL: &'static [Self] = &[
        Self::Exit,
        Self::Verify,
        Self::Timeout,
        Self::Stall,
        Self::Lost,
        Self::Reported,
        Self::Asked,
        Self::Stopped,
        Self::NeverStarted,
    ];
}

/// Whether such an end uses up an attempt and may be followed by another: only an attempt's own failure does.
///
/// A stop is nobody's failure, a question waits for its answer, what was never started was never tried, and an agent
/// that reports FAILED has given its verdict on the task.
pub const fn may_retry(cause: FailureCause) -> bool {
    match cause {
        FailureCause::Exit
        | FailureCause::Verify
        | FailureCause::Timeout
        | FailureCause::Stall
        | FailureCause::Lost => true,
        FailureCause::Reported
        | FailureCause::Asked
        | FailureCause::Stopped
        | FailureCause::NeverStarted => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use test_case::test_case;

    #[test_case(0, 5 => 5_000; "no failure counts as one")]
    #[test_case(1, 5 => 5_000; "the first")]
    #[test_case(2, 5 => 10_000; "the second")]
    #[test_case(6, 5 => 160_000; "the sixth")]
    #[test_case(7, 5 => 300_000; "the cap")]
    #[test_case(32, 5 => 300_000; "the last that a shift can hold")]
    #[test_case(33, 5 => 300_000; "one more")]
    #[test_case(u32::MAX, 5 => 300_000; "the most")]
    #[test_case(u32::MAX, 0 => 0; "no delay stays none")]
    #[test_case(1, u64::MAX => 300_000; "an absurd base")]
    fn delay_ms(failures: u32, base_secs: u64) -> u128 {
        retry_delay(failures, Duration::from_secs(base_secs), 0.5).as_millis()
    }

    #[test]
    fn jitter_spreads_by_a_quarter_and_keeps_the_cap() {
        let base = Duration::from_secs(100);
        assert_eq!(retry_delay(1, base, 0.0), Duration::from_secs(75));
        assert_eq!(retry_delay(1, base, 1.0), Duration::from_secs(125));
        assert_eq!(retry_delay(9, base, 0.0), Duration::from_secs(225));
        assert_eq!(retry_delay(9, base, 1.0), LONGEST_DELAY);
    }

    proptest! {
        #[test]
        fn a_delay_stays_within_its_bounds(failures: u32, base_ms: u64, jitter: f64) {
            let base = Duration::from_millis(base_ms);
            let delay = retry_delay(failures, base, jitter);
            let capped = base.saturating_mul(1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX)).min(LONGEST_DELAY);
            prop_assert!(delay <= LONGEST_DELAY);
            prop_assert!(delay.as_millis() + 1 >= capped.as_millis() * 3 / 4);
            prop_assert!(delay.as_millis() <= capped.as_millis() * 5 / 4 + 1);
        }

        #[test]
        fn a_further_failure_never_waits_less(failures in 1u32..100, base_ms in 0u64..1_000_000, jitter in 0.0f64..1.0) {
            let base = Duration::from_millis(base_ms);
            prop_assert!(retry_delay(failures, base, jitter) <= retry_delay(failures + 1, base, jitter));
        }
    }

    #[test]
    fn only_an_attempts_own_failure_is_retried() {
        let retried: Vec<_> = FailureCause::ALL
            .iter()
            .filter(|c| may_retry(**c))
            .collect();
        assert_eq!(
            retried,
            [
                &FailureCause::Exit,
                &FailureCause::Verify,
                &FailureCause::Timeout,
                &FailureCause::Stall,
                &FailureCause::Lost
            ]
        );
    }
}
