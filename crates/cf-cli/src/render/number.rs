//! Numbers as lists of many rows show them, without the machinery of `format!`.

/// The digits of the largest number there is.
const MOST_DIGITS: usize = 20;

/// Writes a number in decimal digits.
pub(crate) fn push(out: &mut Vec<u8>, number: u64) {
    push_right(out, number, 1);
}

/// Writes a number with spaces before it, so that it is at least so wide; at most 20.
pub(crate) fn push_right(out: &mut Vec<u8>, number: u64, width: usize) {
    let mut digits = [b' '; MOST_DIGITS];
    let mut from = MOST_DIGITS;
    let mut rest = number;
    while rest > 0 || from == MOST_DIGITS {
        from -= 1;
        digits[from] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let from = from.min(MOST_DIGITS.saturating_sub(width));
    out.extend_from_slice(&digits[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(0, 1 => "0")]
    #[test_case(7, 0 => "7"; "no width")]
    #[test_case(10, 1 => "10")]
    #[test_case(1_234, 6 => "  1234"; "spaces before it")]
    #[test_case(1_234_567, 6 => "1234567"; "wider than asked for")]
    #[test_case(u64::MAX, 20 => "18446744073709551615"; "the largest")]
    fn a_number_is_written_as_the_standard_library_does_it(number: u64, width: usize) -> String {
        let mut out = Vec::new();
        push_right(&mut out, number, width);
        let written = String::from_utf8(out).unwrap();
        assert_eq!(written, format!("{number:>width$}"));
        written
    }
}
