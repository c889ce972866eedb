//! Times and durations as they are shown.

use std::time::Duration;

use cf_core::Timestamp;
use serde::Serializer;

/// RFC 3339 in UTC with milliseconds: `2026-01-31T09:05:07.123Z`.
pub(crate) fn full(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

/// The same to the second, for people.
pub(crate) fn short(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The same to the minute, for lists.
pub(crate) fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%MZ").to_string()
}

/// From one time to another; nothing when the second comes first.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    let ms = to.as_millisecond().saturating_sub(from.as_millisecond());
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// A measured duration, as exact as people want it: `0.3s`, `42.0s`, `3m07s`, `2h05m`, `1d03h`.
pub(crate) fn elapsed(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds}.{}s", duration.subsec_millis() / 100),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Whole milliseconds, for JSON.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Serializes a time as [`full`].
pub(crate) fn as_full<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&full(*at))
}

/// Serializes a time as [`full`], or null.
#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
pub(crate) fn as_full_opt<S: Serializer>(
    at: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.serialize_str(&full(*at)),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(0 => "0.0s")]
    #[test_case(1_250 => "1.2s")]
    #[test_case(59_999 => "59.9s")]
    #[test_case(187_000 => "3m07s")]
    #[test_case(7_500_000 => "2h05m")]
    #[test_case(97_200_000 => "1d03h")]
    fn durations_are_short(ms: u64) -> String {
        elapsed(Duration::from_millis(ms))
    }

    #[test]
    fn times_always_have_milliseconds() {
        assert_eq!(full(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        assert_eq!(short(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }
}
