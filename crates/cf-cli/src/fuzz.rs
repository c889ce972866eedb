//! What people and agents write in one word, and what agents say, made worse step by step.

use cf_conductor::engine::SuccessRule;
use cf_conductor::supervise::Record;
use cf_core::{Link, LinkKind, TaskId, TaskKey, TaskRef, format_duration, parse_duration};
use cf_testkit::fuzz;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn kind<T, E: std::fmt::Display>(read: &Result<T, E>) -> String {
    match read {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn fuzz_durations() {
    fuzz(
        "durations",
        &["30s", "1h 30m", "500ms", "2d", "0"],
        &["ms", "s", "m", "h", "d", " ", "99999999999"],
        |bytes| {
            let read = parse_duration(&text(bytes));
            if let Ok(duration) = read {
                assert_eq!(
                    parse_duration(&format_duration(duration)),
                    Ok(duration),
                    "written and read again"
                );
            }
            kind(&read)
        },
    );
}

#[test]
fn fuzz_names() {
    let corpus = [
        "parser",
        "a.b-c_d",
        "self",
        "638bdc15-7139-4ccd-abc8-64dc78026d28",
        "638bdc15",
        "DONE",
        "%",
        "_",
    ];
    fuzz(
        "names",
        &corpus,
        &["..", ".lock", "-", "self", "READY", "ab12"],
        |bytes| {
            let word = text(bytes);
            let key = word.parse::<TaskKey>();
            if let Ok(key) = &key {
                assert_eq!(key.as_str(), word);
                assert!(word.len() <= 64 && word.is_ascii());
            }
            if let Ok(id) = word.parse::<TaskId>() {
                assert_eq!(id.to_string().parse::<TaskId>().ok(), Some(id));
            }
            let reference = TaskRef::new(word.clone());
            if let Some(prefix) = reference.as_prefix() {
                assert!(
                    prefix
                        .bytes()
                        .all(|byte| byte.is_ascii_hexdigit() || byte == b'-'),
                    "{prefix:?}"
                );
                assert!(prefix.len() >= 4);
            }
            kind(&key)
        },
    );
}

#[test]
fn fuzz_links() {
    let corpus = [
        "octocat/hello-world#12",
        "https://github.com/o/r/pull/3",
        "#7",
        "o/r/issues/4",
        "https://ghe.example/o/r/issues/1",
    ];
    fuzz(
        "links",
        &corpus,
        &[
            "https://",
            "#",
            "/",
            "/pull/",
            "/issues/",
            "..",
            "@",
            ":443",
            "?x",
            "18446744073709551615",
        ],
        |bytes| {
            let [read, _] = ["github.com", "ghe.corp:8443"].map(|default| {
                let read = Link::parse(&text(bytes), LinkKind::Issue, default);
                if let Ok(link) = &read {
                    let again = Link::parse(&link.url(), link.kind, default);
                    assert_eq!(again.as_ref().ok(), Some(link), "its address leads to it");
                    let again = Link::parse(&link.shown_on(default), link.kind, default);
                    assert_eq!(again.as_ref().ok(), Some(link), "what is shown leads to it");
                    assert!(!link.url().contains(char::is_control));
                }
                read
            });
            kind(&read)
        },
    );
}

#[test]
fn fuzz_what_agents_say() {
    let corpus = [
        r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"x"}"#,
        r#"{"type":"turn.failed","error":{"message":"m"}}"#,
        r#"{"type":"item.completed","item":{"type":"agent_message","text":"hi"}}"#,
        "plain words",
    ];
    let words = [
        "\"type\"",
        "\"error\"",
        "\"result\"",
        "{",
        "}",
        "null",
        "\n",
        "\"text\":",
        "\"usage\":{\"input_tokens\":1e99}",
    ];
    fuzz("what agents say", &corpus, &words, |bytes| {
        let mut all = String::new();
        let rules = [
            SuccessRule::ExitZero,
            SuccessRule::Claude,
            SuccessRule::Codex,
            SuccessRule::Opencode,
            SuccessRule::Gemini,
        ];
        for rule in rules {
            let verdict = rule.judge(cf_core::Ending::Code(0), bytes);
            all.push(if verdict.success { '+' } else { '-' });
            let _ = rule.said(bytes);
        }
        all
    });
}

#[test]
fn fuzz_records() {
    let hello = r#"{"Hello":{"supervisor":"638bdc15-7139-4ccd-abc8-64dc78026d28","pid":1,"start_ticks":2,"boot_id":"b","pid_ns":3}}"#;
    fuzz(
        "records",
        &[hello, "{}"],
        &["{", "}", "\0", "\n", "\"attempt\":", "null"],
        |bytes| kind(&Record::from_bytes(bytes)),
    );
}
