//! Durations as people write them: `500ms`, `30s`, `2m`, `1h30m`, or plain seconds.

use std::time::Duration;

/// The longest duration that is accepted: 366 days. Anything longer is a typing error.
const LONGEST: Duration = Duration::from_hours(366 * 24);

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a duration: {why}; write for example `500ms`, `30s`, `2m`, `1h30m`, or plain seconds"
)]
pub struct DurationError {
    /// The text that was given, cut to 80 characters.
    pub text: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// Reads a duration: a number of seconds, or numbers with the units `ms`, `s`, `m`, `h`, `d`, largest first.
///
/// Fractions are allowed (`1.5s`); the result is in whole milliseconds and at most 366 days.
///
/// # Errors
///
/// Negative, empty, unknown unit, or too long.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let refuse = |why| DurationError {
        text: text.chars().take(80).collect(),
        why,
    };
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Err(refuse("it is empty"));
    }
    if trimmed.starts_with('-') {
        return Err(refuse("it is negative"));
    }
    let mut total_ms = 0u128;
    let mut rest = trimmed;
    let mut last_unit = u64::MAX;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "" if rest.len() == trimmed.len() && tail.is_empty() => 1_000,
            "" => return Err(refuse("a number stands without its unit")),
            _ => return Err(refuse("its unit is none of ms, s, m, h, d")),
        };
        if unit_ms >= last_unit {
            return Err(refuse("its units are not in order, largest first"));
        }
        last_unit = unit_ms;
        total_ms += millis(number, unit_ms).ok_or_else(|| refuse("its number cannot be read"))?;
        if total_ms > LONGEST.as_millis() {
            return Err(refuse("it is longer than 366 days"));
        }
        rest = tail;
    }
    Ok(Duration::from_millis(
        u64::try_from(total_ms).map_err(|_| refuse("it is longer than 366 days"))?,
    ))
}

/// `number` (digits with at most one point, at most nine digits behind it) times `unit_ms`, in whole milliseconds.
fn millis(number: &str, unit_ms: u64) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || (number.contains('.') && fraction.is_empty()) || fraction.len() > 9 {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let fraction: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    Some(u128::from(whole) * u128::from(unit_ms) + fraction * u128::from(unit_ms) / scale)
}

/// Writes a duration the way [`parse_duration`] reads it, without loss of whole milliseconds: `500ms`, `30s`, `1h30m`.
pub fn format_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    if ms == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    let mut left = ms;
    for (unit, unit_ms) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
        ("ms", 1),
    ] {
        let count = left / unit_ms;
        left %= unit_ms;
        if count > 0 {
            text.push_str(&count.to_string());
            text.push_str(unit);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use test_case::test_case;

    #[test_case("0" => 0)]
    #[test_case("30" => 30_000; "plain seconds")]
    #[test_case("0.25" => 250; "a fraction of a second")]
    #[test_case("500ms" => 500)]
    #[test_case("30s" => 30_000; "seconds")]
    #[test_case("1.5m" => 90_000)]
    #[test_case("1h30m" => 5_400_000)]
    #[test_case(" 2m " => 120_000; "spaces around")]
    #[test_case("366d" => 366 * 86_400_000; "the longest")]
    fn reads(text: &str) -> u128 {
        parse_duration(text).unwrap().as_millis()
    }

    #[test_case(""; "empty")]
    #[test_case("-5"; "negative")]
    #[test_case("5x"; "unknown unit")]
    #[test_case("1m2h"; "order")]
    #[test_case("1m2"; "no unit at the end")]
    #[test_case("1 m"; "space inside")]
    #[test_case("1..5s"; "two points")]
    #[test_case(".5s"; "no digit before the point")]
    #[test_case("5.s"; "no digit after the point")]
    #[test_case("367d"; "too long")]
    #[test_case("99999999999999999999"; "absurd")]
    #[test_case("1e3"; "exponent")]
    #[test_case("infinity"; "a word")]
    fn refuses(text: &str) {
        assert!(parse_duration(text).is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(ms in 0u64..366 * 86_400_000) {
            let duration = Duration::from_millis(ms);
            prop_assert_eq!(parse_duration(&format_duration(duration)).unwrap(), duration);
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*") {
            let _ = parse_duration(&text);
        }
    }
}
