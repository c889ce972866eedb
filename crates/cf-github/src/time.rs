//! Arithmetic on instants that never overflows: waits are clamped long before the calendar ends.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// `at` and `by` later.
pub(crate) fn later(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_add(by).ok())
        .unwrap_or(Timestamp::MAX)
}

/// `at` and `by` earlier.
pub(crate) fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| at.checked_sub(by).ok())
        .unwrap_or(Timestamp::MIN)
}

/// How long after `from` `to` is; zero when it is not.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

/// Whole seconds with a `Z`, the only form that GitHub accepts everywhere.
pub(crate) fn whole_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).map_or_else(|_| at.to_string(), |at| at.to_string())
}

/// Reads an HTTP date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn http_date(text: &str) -> Option<Timestamp> {
    jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(text.trim())
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_calendar_do_not_overflow() {
        let long = Duration::from_secs(u64::MAX);
        assert_eq!(later(Timestamp::MAX, long), Timestamp::MAX);
        assert_eq!(earlier(Timestamp::MIN, long), Timestamp::MIN);
        assert_eq!(between(Timestamp::MAX, Timestamp::MIN), Duration::ZERO);
    }

    #[test]
    fn an_http_date_is_read_and_nonsense_is_not() {
        let at = http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        assert_eq!(whole_seconds(at), "1994-11-06T08:49:37Z");
        for text in ["", "soon", "1994-11-06", "Sun, 99 Nov 1994 08:49:37 GMT"] {
            assert_eq!(http_date(text), None, "{text}");
        }
    }
}
