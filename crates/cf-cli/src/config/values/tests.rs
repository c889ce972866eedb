//! What each kind of value accepts, and that what is shown reads back.

use super::*;
use test_case::test_case;

fn round<T: Value>(text: &str) -> String {
    T::from_text(text).unwrap().shown()
}

#[test]
fn what_is_shown_reads_back() {
    assert_eq!(round::<Bytes>("67108864"), "64MiB");
    assert_eq!(round::<Bytes>("5KiB"), "5KiB");
    assert_eq!(round::<WaitForBlockers>("true"), "true");
    assert_eq!(round::<WaitForBlockers>("90"), "1m30s");
    assert_eq!(round::<Limit>("2h"), "2h");
    assert_eq!(round::<Slots>("10000"), "10000");
    assert_eq!(round::<Strategy>("Parallel"), "parallel");
    assert_eq!(
        round::<Address>("http://127.0.0.1:80/"),
        "http://127.0.0.1:80"
    );
}

#[test_case("0"; "zero")]
#[test_case("-1"; "negative")]
#[test_case("10001"; "above the most")]
#[test_case("999999999999"; "absurd")]
#[test_case("99999999999999999999"; "more absurd")]
#[test_case("4.5"; "a fraction")]
#[test_case("many"; "a word")]
fn slots_are_refused(text: &str) {
    assert!(Slots::from_text(text).is_err());
}

#[test_case("http://example.org"; "plain http elsewhere")]
#[test_case("https://user:pw@example.org"; "credentials")]
#[test_case("ftp://example.org"; "another protocol")]
#[test_case("https://"; "nothing")]
fn addresses_are_refused(text: &str) {
    assert!(Address::from_text(text).is_err());
}
