//! JSON on a terminal is as harmless as words are, and what it says is what is stored.

use cf_testkit::Value;

use crate::workspace;

/// What a terminal acts upon, or shows in another order, and what it does not.
const ODD: &str = "a\u{7f}b\u{80}\u{9b}2Jc\u{9f}\u{a0}d\u{61c}\u{200d}\u{200e}\u{200f}\u{202a}\u{202e}e\u{2066}\u{2069}ä";

#[track_caller]
fn is_harmless(what: &str, text: &str) {
    let acts = |c: &char| {
        (c.is_control() && *c != '\n')
            || matches!(c, '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let found: Vec<char> = text.chars().filter(acts).collect();
    assert!(found.is_empty(), "{what}: {found:?} in {text}");
}

/// Whether some text in a value holds what was written.
fn says(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(ODD),
        Value::Array(list) => list.iter().any(says),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains(ODD) || says(value)),
        _ => false,
    }
}

#[test]
fn no_json_holds_what_a_terminal_acts_upon() {
    let ws = workspace();
    let script = format!("printf %s '{ODD}' >&2; exit 3");
    let variable = format!("ODD={ODD}");
    let asked = format!("what of {ODD}?");
    let commands: &[(&[&str], u8)] = &[
        (
            &[
                "tasks",
                "add",
                ODD,
                "--key",
                "a",
                "--description",
                ODD,
                "--env",
                &variable,
                "--run",
                &script,
            ],
            0,
        ),
        (&["tasks", "add", ODD, "--key", "b", "--depends-on", "a"], 0),
        (&["tasks", "edit", "b", "--title", ODD, "--run", &script], 0),
        (&["tasks", "list"], 0),
        (&["tasks", "graph"], 0),
        (&["tasks", "export"], 0),
        (&["tasks", "show", "a"], 0),
        (&["work", "batch", "run", "a", "b", "--dry-run"], 0),
        (&["blocker", "ask", &asked], 0),
        (&["blocker", "answer", ODD], 0),
        (&["blocker", "list"], 0),
        (&["work", "batch", "run", "a", "b"], 3),
        (&["work", "start", "a"], 3),
        (&["work", "batch", "status"], 0),
        (&["work", "batch", "report"], 0),
        (&["work", "batch", "follow"], 3),
        (&["tasks", "show", "a"], 0),
        (&["explain", "a"], 0),
        (&["events"], 0),
        (&["events", "--task", "a"], 0),
    ];
    for (args, code) in commands {
        let output = ws
            .cf(args.iter().copied().chain(["--json"]))
            .code((*code).into());
        let what = args.join(" ");
        is_harmless(&what, &output.stdout());
        is_harmless(&what, &output.stderr());
        let values = match args {
            ["work", "start", ..] | ["work", "batch", "run" | "follow", ..] => output.json_lines(),
            _ => vec![output.json()],
        };
        let said = values.iter().any(says);
        assert!(said, "{what} says what was written: {}", output.stdout());
    }
}

#[test]
fn an_error_as_json_holds_none_of_it_either() {
    let ws = workspace();
    for args in [
        ["github", "import", ODD],
        ["tasks", ODD, "x"],
        ["tasks", "import", ODD],
    ] {
        let output = ws.cf(args.into_iter().chain(["--json"])).refused();
        is_harmless(&args.join(" "), &output.stderr());
        assert!(output.stderr().contains("\\u009b2J"), "{}", output.stderr());
    }
}

#[test]
fn a_plan_is_exported_without_what_reorders_it_and_read_back_as_it_was() {
    let ws = workspace();
    ws.cf(["tasks", "add", ODD, "--key", "a", "--run", "true"])
        .ok();
    for format in ["toml", "json"] {
        let plan = ws.cf(["tasks", "export", "--format", format]).ok();
        is_harmless(format, &plan.stdout());
        let file = format!("plan.{format}");
        ws.write(&file, plan.stdout());
        ws.cf(["tasks", "edit", "a", "--title", "plain"]).ok();
        ws.cf(["tasks", "import", &file]).ok();
        assert_eq!(ws.cf(["tasks", "show", "a", "--json"]).json()["title"], ODD);
    }
}
