//! What is exported imports to the same, into an empty workspace, in every format.

use std::time::Duration;

use cf_conductor::store::Store;
use cf_core::{Actor, Link, LinkKind};
use proptest::prelude::*;

use super::*;

/// Tasks as somebody may have written them: what they are, and which of the earlier ones they depend on.
fn tasks() -> impl Strategy<Value = Vec<(TaskSpec, Vec<prop::sample::Index>, Vec<Link>)>> {
    let text = "[^\\x00]{0,12}[a-z][^\\x00]{0,12}";
    let link = (any::<bool>(), 1u64..9).prop_map(|(issue, number)| Link {
        host: "github.com".to_owned(),
        repo: "o/r".parse().unwrap(),
        number,
        kind: if issue { LinkKind::Issue } else { LinkKind::Pr },
    });
    let spec = (
        (any::<bool>(), text, "[^\\x00]{0,20}"),
        (
            prop::option::of(text),
            prop::option::of(text),
            prop::option::of(text),
        ),
        (prop::option::of(1u64..9_999_999), 0..=9i64),
        prop::collection::btree_map("[a-zA-BD-Z. \"é]{1,6}", "[^\\x00]{0,8}", 0..3),
    )
        .prop_map(
            |((keyed, title, description), (run, verify, model), (timeout, priority), env)| {
                TaskSpec {
                    key: keyed.then(|| "k".parse().unwrap()),
                    title,
                    description,
                    engine: run.is_none().then(|| "codex".to_owned()),
                    run,
                    verify,
                    model,
                    timeout: timeout.map(Duration::from_millis),
                    env,
                    priority,
                }
            },
        );
    let task = (
        spec,
        prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        prop::collection::vec(link, 0..3),
    );
    prop::collection::vec(task, 0..6)
}

fn written(store: &Store, format: ExportFormat) -> String {
    let text = store
        .read(|reader| Ok(exported(reader, &[], format)?.0))
        .unwrap();
    String::from_utf8(text).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_export_imports_to_the_same(tasks in tasks()) {
        let mut store = Store::in_memory().unwrap();
        store.write(&Actor::Cli, |tx| {
            let mut ids: Vec<TaskId> = Vec::new();
            for (at, (spec, on, links)) in tasks.into_iter().enumerate() {
                // Not every key sorts as its task stands.
                let key = spec.key.is_some().then(|| format!("k{}", 9 - at).parse().unwrap());
                let id = tx.add_task(&TaskSpec { key, ..spec })?;
                for on in on.into_iter().filter(|_| at > 0) {
                    tx.add_dependency(id, ids[on.index(at)])?;
                }
                for link in &links {
                    tx.link(id, link)?;
                }
                ids.push(id);
            }
            Ok(())
        }).unwrap();
        for (format, reading) in [(ExportFormat::Toml, PlanFormat::Toml), (ExportFormat::Json, PlanFormat::Json)] {
            let first = written(&store, format);
            let plan = Plan::parse("plan", &first, reading).unwrap();
            let mut other = Store::in_memory().unwrap();
            other.write(&Actor::Cli, |tx| import_plan(tx, &plan)).unwrap();
            prop_assert_eq!(written(&other, format), first);
        }
    }
}
