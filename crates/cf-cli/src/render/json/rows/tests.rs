use std::collections::BTreeMap;
use std::ops::ControlFlow;

use cf_conductor::store::Store;
use cf_conductor::store::event::{Event, EventFilter};
use cf_conductor::store::task::{TaskFilter, TaskSpec};
use cf_core::{Actor, AttemptId, BatchId, EventType, Link, LinkKind, TaskStatus};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{EventJson, TaskJson};
use super::*;

/// Text with whatever is escaped, hidden or special somewhere.
const STRANGE: &[&str] = &[
    "",
    "plain",
    "\"quoted\" \\ and / and \u{7f}",
    "line\nfeed\r\ttab \u{8}\u{c}\u{0}\u{1f}",
    "\u{1b}[31mred\u{9b}2J\u{2028}\u{202e}\u{a0}\u{2014}\u{61b}\u{61c}",
    "ünïcode 🎉 and a text that is longer than sixteen bytes, then a \" and more of the same",
];

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn events_are_written_as_their_shape_says() {
    let mut store = Store::in_memory().unwrap();
    let ids = |n: u128| format!("00000000-0000-4000-8000-{n:012}");
    for (nth, text) in STRANGE.iter().enumerate() {
        for by in [
            Actor::Cli,
            Actor::Github("github.com".to_owned()),
            Actor::System,
        ] {
            store
                .write(&by, |tx| {
                    let mut event = Event::new(EventType::BatchTaskFailed)
                        .with("reason", *text)
                        .with(*text, nth)
                        .with(
                            "nested",
                            json!({"z": [1, -2, 2.5, null, true], "a": {"é": text}}),
                        );
                    if nth % 2 == 0 {
                        event.task = Some(ids(1).parse().unwrap());
                        event.batch = Some(ids(2).parse::<BatchId>().unwrap());
                        event.attempt = Some(ids(3).parse::<AttemptId>().unwrap());
                    }
                    tx.append(event)
                })
                .unwrap();
        }
    }
    let mut count = 0;
    store
        .read(|reader| {
            reader.event_rows(&EventFilter::default(), |row| {
                let mut out = Vec::new();
                push_event(&mut out, row)?;
                let shape = escape::text(&EventJson::new(&row.event()?));
                assert_eq!(String::from_utf8(out).unwrap(), shape);
                count += 1;
                Ok::<_, StoreError>(())
            })
        })
        .unwrap();
    assert_eq!(count, STRANGE.len() * 3);
}

#[test]
fn details_that_somebody_else_stored_are_one_line_of_json_or_an_error() {
    let row = |data| EventRow {
        seq: 1,
        at: cf_core::Timestamp::UNIX_EPOCH,
        kind: "SOMETHING_NEW",
        task: None,
        batch: None,
        attempt: None,
        actor: "cli",
        data,
    };
    let details = |data| {
        let mut out = Vec::new();
        push_event(&mut out, &row(data)).ok()?;
        let text = String::from_utf8(out).unwrap();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        Some(text.split_once("\"data\":").unwrap().1.to_owned())
    };
    assert_eq!(
        details("{ \"b\" : \" \\\" \",\n\"a\":1}").as_deref(),
        Some("{\"a\":1,\"b\":\" \\\" \"}}")
    );
    assert_eq!(
        details("{\"a\":\"b c\"}").as_deref(),
        Some("{\"a\":\"b c\"}}")
    );
    for broken in ["", "{", "{\"a\":}", "[1]", "1", "{}{}", "{\"a\":\"\u{1}\"}"] {
        assert_eq!(details(broken), None, "{broken}");
    }
}

#[test]
fn tasks_are_written_as_their_shape_says() {
    let mut store = Store::in_memory().unwrap();
    store
        .write(&Actor::Cli, |tx| {
            let mut before = Vec::new();
            // More than are asked for their own one by one.
            for nth in 0..300_usize {
                // No task can hold a NUL.
                let text = &STRANGE[nth % STRANGE.len()].replace('\0', "\u{1}");
                let some = (nth % 2 == 0).then(|| text.to_owned());
                let spec = TaskSpec {
                    key: (nth % 3 == 0).then(|| format!("t{nth}").parse().unwrap()),
                    title: format!("task {text}"),
                    description: text.to_owned(),
                    run: some.clone(),
                    verify: some.clone(),
                    engine: None,
                    model: some.clone(),
                    timeout: some.map(|_| std::time::Duration::from_millis(1_500)),
                    env: BTreeMap::from_iter(
                        (nth % 5 == 0).then(|| ("NAME".to_owned(), text.to_owned())),
                    ),
                    priority: nth as i64 - 2,
                };
                let status = TaskStatus::ALL[nth % TaskStatus::ALL.len()];
                let id = tx.add_task_as(&spec, status)?;
                for on in before.iter().rev().take(nth % 4) {
                    tx.add_dependency(id, *on)?;
                }
                if nth % 7 == 0 {
                    for (kind, repo) in [(LinkKind::Issue, "o/r"), (LinkKind::Pr, "a/b")] {
                        let link = Link {
                            kind,
                            host: "github.com".to_owned(),
                            repo: repo.parse().unwrap(),
                            number: nth as u64,
                        };
                        tx.link(id, &link)?;
                    }
                    tx.ask(Some(id), "why?")?;
                }
                before.push(id);
            }
            Ok(())
        })
        .unwrap();
    let filters = [
        TaskFilter::default(),
        TaskFilter::with_status(TaskStatus::Done),
        TaskFilter {
            statuses: TaskStatus::ALL.to_vec(),
            limit: Some(290),
        },
    ];
    for filter in filters {
        let mut shapes = Vec::new();
        let mut rows = Vec::new();
        store
            .read(|reader| {
                reader.tasks(&filter, |view| {
                    let links = reader.links(view.task.id)?;
                    let shape =
                        TaskJson::new(&view.task, &view.depends_on, &links, view.open_blockers);
                    shapes.push(escape::text(&shape));
                    Ok(())
                })?;
                reader.task_rows(&filter, |row| {
                    rows.push(written(|out| push_task(out, row)));
                    ControlFlow::Continue(())
                })
            })
            .unwrap();
        assert!(!rows.is_empty());
        assert_eq!(rows, shapes);
    }
}

proptest! {
    #[test]
    fn strings_are_escaped_as_their_shape_is(text in any::<String>()) {
        prop_assert_eq!(written(|out| push_text(out, &text)), escape::text(&text));
    }

    #[test]
    fn controls_are_escaped_as_their_shape_is(text in "[\u{0}-\u{a1}\u{61c}\u{200d}-\u{2070}]{0,60}") {
        prop_assert_eq!(written(|out| push_text(out, &text)), escape::text(&text));
    }
}
