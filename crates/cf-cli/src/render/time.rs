//! Times and durations as they are shown.

use std::time::Duration;

use cf_core::Timestamp;
use serde::Serializer;

/// The length of a time as [`full`] shows it.
const FULL: usize = 24;

/// RFC 3339 in UTC with milliseconds: `2026-01-31T09:05:07.123Z`.
pub(crate) fn full(at: Timestamp) -> String {
    match stamp(at) {
        Some(stamp) => String::from_utf8_lossy(&stamp).into_owned(),
        None => at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string(),
    }
}

/// Writes the same.
pub(crate) fn push_full(out: &mut Vec<u8>, at: Timestamp) {
    match stamp(at) {
        Some(stamp) => out.extend_from_slice(&stamp),
        None => out.extend_from_slice(full(at).as_bytes()),
    }
}

/// Writes [`short`].
pub(crate) fn push_short(out: &mut Vec<u8>, at: Timestamp) {
    match stamp(at) {
        Some(stamp) => {
            out.extend_from_slice(&stamp[..FULL - ".000Z".len()]);
            out.push(b'Z');
        }
        None => out.extend_from_slice(short(at).as_bytes()),
    }
}

/// The same to the second, for people.
pub(crate) fn short(at: Timestamp) -> String {
    let mut text = full(at);
    text.replace_range(text.len() - 5.., "Z");
    text
}

/// The same to the minute, for lists.
pub(crate) fn minute(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%MZ").to_string()
}

/// The bytes of [`full`] for a time from 1970 to 9999: lists show hundreds of thousands of them.
///
/// The date is counted from 1 March of the year 0, so that a leap day is the last of its year: 400 years have 146,097
/// days, and the months from March on have 153 days in five.
fn stamp(at: Timestamp) -> Option<[u8; FULL]> {
    const DAY_MS: u64 = 86_400_000;
    let ms = u64::try_from(at.as_millisecond()).ok()?;
    let days = ms / DAY_MS + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    if year > 9_999 {
        return None;
    }
    let in_day = (ms % DAY_MS) as u32;
    let [y0, y1] = two(year as u32 / 100);
    let [y2, y3] = two(year as u32 % 100);
    let [mo0, mo1] = two(month as u32);
    let [d0, d1] = two(day as u32);
    let [h0, h1] = two(in_day / 3_600_000);
    let [mi0, mi1] = two(in_day / 60_000 % 60);
    let [s0, s1] = two(in_day / 1_000 % 60);
    let [ms0, ms1] = two(in_day % 1_000 / 10);
    let ms2 = digit(in_day % 10);
    Some([
        y0, y1, y2, y3, b'-', mo0, mo1, b'-', d0, d1, b'T', h0, h1, b':', mi0, mi1, b':', s0, s1,
        b'.', ms0, ms1, ms2, b'Z',
    ])
}

/// The digits of a number below a hundred.
const fn two(number: u32) -> [u8; 2] {
    [digit(number / 10), digit(number % 10)]
}

const fn digit(number: u32) -> u8 {
    b'0' + number as u8
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
    let stamp = stamp(*at);
    match stamp.as_ref().map(|stamp| std::str::from_utf8(stamp)) {
        Some(Ok(stamp)) => serializer.serialize_str(stamp),
        _ => serializer.serialize_str(&full(*at)),
    }
}

/// Serializes a time as [`full`], or null.
#[expect(clippy::ref_option, reason = "serde passes fields by reference")]
pub(crate) fn as_full_opt<S: Serializer>(
    at: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => as_full(at, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
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

    proptest! {
        #[test]
        fn a_time_is_shown_as_the_calendar_has_it(
            ms in prop_oneof![-62_000_000_000_000_i64..253_402_300_800_000, 0_i64..4_102_444_800_000],
        ) {
            let at = Timestamp::from_millisecond(ms).unwrap();
            prop_assert_eq!(full(at), at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string());
            prop_assert_eq!(short(at), at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
            let mut pushed = Vec::new();
            push_short(&mut pushed, at);
            prop_assert_eq!(String::from_utf8(pushed).unwrap(), short(at));
        }
    }

    #[test_case("2000-02-29T23:59:59.999Z"; "a leap day of a century that has one")]
    #[test_case("2100-02-28T23:59:59.999Z"; "the last of February of one that has none")]
    #[test_case("2100-03-01T00:00:00.000Z"; "and the day after")]
    #[test_case("2023-12-31T23:59:59.999Z"; "the end of a year")]
    #[test_case("9999-12-30T22:00:00.000Z"; "the last day that a time can have")]
    fn turns_of_the_calendar_are_shown_as_they_are(text: &str) {
        assert_eq!(full(text.parse().unwrap()), text);
    }

    #[test]
    fn times_always_have_milliseconds() {
        assert_eq!(full(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        assert_eq!(short(Timestamp::UNIX_EPOCH), "1970-01-01T00:00:00Z");
    }
}
