//! Numbers that are too large for what they count are usage errors, which say what is allowed.

use test_case::test_case;

use crate::workspace;

#[test_case(&["events", "--after"], "0 to 9223372036854775807", Some("9223372036854775807"); "the number of an event")]
#[test_case(&["events", "--last"], "0 to 1000000000", Some("1000000000"); "the newest events")]
#[test_case(&["events", "prune", "--older-than", "1d", "--keep-last"], "1 to 1000000000", Some("1000000000"); "kept events")]
#[test_case(&["tasks", "list", "--limit"], "1 to 1000000000", Some("1000000000"); "listed tasks")]
#[test_case(&["work", "batch", "list", "--limit"], "1 to 1000000000", Some("1000000000"); "listed batches")]
#[test_case(&["work", "logs", "a", "--attempt"], "1 to 4294967295", None; "an attempt")]
#[test_case(&["github", "import", "o/r", "--limit"], "1 to 1000000", None; "imported issues")]
#[test_case(&["tasks", "edit", "a", "--priority"], "0 to 1000000", Some("1000000"); "a priority")]
fn a_number_that_is_too_large_is_a_usage_error(
    args: &[&str],
    allowed: &str,
    largest: Option<&str>,
) {
    let ws = workspace();
    ws.add("a", "true");
    ws.run(["a"]).ok();
    let with = |number| ws.cf(args.iter().copied().chain([number]));
    for number in [
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        with(number)
            .code(2)
            .says(&format!("expected a whole number from {allowed}"));
    }
    if let Some(largest) = largest {
        with(largest).ok();
    }
}
