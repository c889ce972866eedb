//! What a plan may hold, what a wrong one is told, and that writing is the inverse of reading.

use super::*;
use proptest::prelude::*;
use test_case::test_case;

fn read(text: &str) -> Result<Plan, String> {
    let document = Document::new("plan.toml", text.to_owned());
    Plan::from_document(&document).map_err(|error| error.to_string())
}

#[test]
fn a_whole_plan_is_read() {
    let plan = read(
        r#"
[batch]
max_parallel = 3
retry_delay = "1s"
wait_for_blockers = true

[[task]]
key = "a"
title = "First"
run = "true"
verify = "test -e x"
priority = 2
timeout = "10m"
env = { A = "1", "B.C" = "two" }
issue = "o/r#1"
pr = ["o/r#2", "https://ghe.example/o/r/pull/3"]

[[task]]
title = "Second"
engine = "codex"
model = "m"
description = """
several
lines"""
depends_on = ["a", "1234"]
"#,
    )
    .unwrap();
    assert_eq!(plan.batch.max_parallel.as_ref().unwrap().value.0, 3);
    assert_eq!(
        plan.batch.retry_delay.as_ref().unwrap().origin.to_string(),
        "plan.toml:4"
    );
    let [first, second] = plan.tasks.as_slice() else {
        panic!("two tasks")
    };
    assert_eq!(first.line, 7);
    assert_eq!(first.spec.env["B.C"], "two");
    assert_eq!(first.links.len(), 3);
    assert_eq!(second.spec.description, "several\nlines");
    assert_eq!(second.depends_on, [TaskRef::new("a"), TaskRef::new("1234")]);
}

#[test_case("[[task]]\ntitel = \"x\"\nkey = \"a\"" => "plan.toml:2: unknown key `titel` in [[task]]; did you mean `title`?"; "a typing error")]
#[test_case("[task]\ntitle = \"x\"" => "plan.toml:1: tasks are written as `[[task]]`, with two brackets"; "one bracket")]
#[test_case("tasks = 1" => "plan.toml:1: unknown key `tasks` in a plan; did you mean `task`?"; "an unknown table")]
#[test_case("[[task]]\nrun = \"x\"" => "plan.toml:1: a task needs a `title`"; "no title")]
#[test_case("[[task]]\ntitle = \" \"" => "plan.toml:2: `title`: a title cannot be empty"; "an empty title")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"A\"" => "plan.toml:3: `key`: \"A\" is not a task key: it must begin with a lower-case letter or a digit"; "a wrong key")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\n[[task]]\ntitle = \"t\"\nkey = \"a\"" => "plan.toml:4: the key `a` stands already at the task in line 1"; "a duplicate key")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\nkey = \"b\"" => "plan.toml:4: duplicate key"; "a duplicate TOML key")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\nrun = \"x\"\nengine = \"codex\"" => "plan.toml:1: a task with a `run` script is run by the shell engine, not by codex; give either `run` or `engine`"; "a script and another engine")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\ndepends_on = [\"a\"]" => "plan.toml:1: task `a` depends on itself"; "itself")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\ndepends_on = [\"b\"]\n[[task]]\ntitle = \"t\"\nkey = \"b\"\ndepends_on = [\"c\"]\n[[task]]\ntitle = \"t\"\nkey = \"c\"\ndepends_on = [\"a\"]" => "plan.toml:1: dependencies form a cycle: a -> b -> c -> a"; "a cycle")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\npriority = -1" => "plan.toml:4: `priority`: -1 is not allowed: expected a whole number from 0 (most urgent) to 1000000"; "a negative priority")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\ntimeout = 0" => "plan.toml:4: `timeout`: a limit of 0 would end everything at once; leave it out for no limit"; "no time at all")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\nenv = { CF_TASK_ID = \"x\" }" => "plan.toml:4: `env`: CF_TASK_ID is not allowed: variables that begin with CF_ belong to cf"; "a variable of ours")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\nissue = 12" => "plan.toml:4: `issue`: expected a string, found an integer"; "a bare number")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\nissue = \"https://github.com/o/r/pull/1\"" => "plan.toml:4: `issue`: \"https://github.com/o/r/pull/1\" is a pull request"; "a pull request as an issue")]
#[test_case("[[task]]\ntitle = \"t\"\nkey = \"a\"\nrun = \"a\\u0000b\"" => "plan.toml:4: `run`: a NUL character is not allowed"; "a NUL")]
#[test_case("[batch]\nforce = true" => "plan.toml:2: unknown key `force` in [batch]; known here: engine, strategy, max_parallel, on_failure, retry, retry_delay, timeout, stall_timeout, kill_grace, isolation, reconcile_interval, wait_for_blockers"; "not a setting of the run")]
#[test_case("[batch]\nmax_parallel = 0" => "plan.toml:2: `max_parallel`: 0 is not allowed: expected a whole number from 1 to 10000"; "no agents")]
fn a_wrong_plan_is_told(text: &str) -> String {
    read(text).unwrap_err()
}

#[test]
fn the_example_is_a_plan() {
    let plan = read(include_str!("../../../../examples/plan.toml")).unwrap();
    assert!(plan.tasks.len() > 3);
}

fn link_strategy() -> impl proptest::strategy::Strategy<Value = Link> {
    (any::<bool>(), 1u64..1000, "[a-z]{1,8}").prop_map(|(issue, number, name)| Link {
        host: "github.com".to_owned(),
        repo: format!("o/{name}").parse().unwrap(),
        number,
        kind: if issue { LinkKind::Issue } else { LinkKind::Pr },
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        title in "[^\\x00]{0,20}[a-z][^\\x00]{0,20}",
        description in "[^\\x00]{0,60}",
        run in proptest::option::of("[^\\x00]{0,20}[a-z]\n[^\\x00]{0,20}"),
        env in proptest::collection::btree_map("[a-zA-Z. \"]{1,8}", "[^\\x00]{0,10}", 0..3),
        priority in 0..=LAST_PRIORITY,
        timeout in proptest::option::of(1u64..1_000_000),
        links in proptest::collection::vec(link_strategy(), 0..4),
    ) {
        let spec = TaskSpec {
            key: Some("k".parse().unwrap()),
            title,
            description,
            run,
            env,
            priority,
            timeout: timeout.map(std::time::Duration::from_millis),
            ..TaskSpec::default()
        };
        let mut text = Vec::new();
        let task = Exported { key: "k".to_owned(), spec: &spec, depends_on: vec!["x\"y".to_owned()], links: &links };
        write(&mut text, &task).unwrap();
        let plan = read(&String::from_utf8(text).unwrap()).unwrap();
        prop_assert_eq!(&plan.tasks[0].spec, &spec);
        prop_assert_eq!(&plan.tasks[0].depends_on, &[TaskRef::new("x\"y")]);
        let mut expected = links;
        expected.sort_by_key(|link| link.kind);
        prop_assert_eq!(&plan.tasks[0].links, &expected);
    }

    #[test]
    fn no_text_makes_it_panic(text in "([a-z\\[\\]=\"'{}\n .#0-9_-]|task|title|key){0,60}") {
        let _ = read(&text);
    }
}
