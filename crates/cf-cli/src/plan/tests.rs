//! What a plan may hold, what a wrong one is told, and that writing is the inverse of reading.

use super::*;
use proptest::prelude::*;
use test_case::test_case;

fn read(text: &str) -> Result<Plan, String> {
    read_as(text, PlanFormat::Toml)
}

fn read_as(text: &str, format: PlanFormat) -> Result<Plan, String> {
    let name = match format {
        PlanFormat::Toml => "plan.toml",
        PlanFormat::Json => "plan.json",
        PlanFormat::Csv => "plan.csv",
    };
    Plan::parse(name, text, format).map_err(|error| error.to_string())
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
#[test_case("[task]\ntitle = \"x\"" => "plan.toml:1: tasks are a list, in TOML written as `[[task]]`, with two brackets"; "one bracket")]
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
fn a_plan_in_json_or_csv_is_the_plan_in_toml() {
    let toml = r#"
[[task]]
key = "a"
title = "First, \"quoted\""
description = "several\nlines"
run = "true"
priority = 2
timeout = "10m"
env = { A = "1" }
issue = "o/r#1"

[[task]]
key = "b"
title = "Second"
engine = "codex"
depends_on = ["a", "1234"]
pr = ["o/r#2", "o/r#3"]
"#;
    let json = r#"{"task": [
        {"key": "a", "title": "First, \"quoted\"", "description": "several\nlines", "run": "true", "priority": 2,
         "timeout": "10m", "env": {"A": "1"}, "issue": "o/r#1", "model": null},
        {"key": "b", "title": "Second", "engine": "codex", "depends_on": ["a", "1234"], "pr": ["o/r#2", "o/r#3"]}
    ]}"#;
    let csv = "\u{feff}key,title,description,run,priority,timeout,env.A,issue,pr,engine,depends_on\r\n\
               a,\"First, \"\"quoted\"\"\",\"several\nlines\",true,2,10m,1,o/r#1,,,\r\n\r\n\
               b,Second,,,,,,,o/r#2 o/r#3,codex,\"a, 1234\"";
    let told = |plan: Plan| {
        let tasks = plan.tasks.into_iter();
        tasks
            .map(|task| (task.spec, task.depends_on, task.links))
            .collect::<Vec<_>>()
    };
    let expected = told(read(toml).unwrap());
    assert_eq!(told(read_as(json, PlanFormat::Json).unwrap()), expected);
    assert_eq!(told(read_as(csv, PlanFormat::Csv).unwrap()), expected);
    let list = json.trim_start_matches("{\"task\": ").trim_end_matches('}');
    assert_eq!(told(read_as(list, PlanFormat::Json).unwrap()), expected);
}

#[test]
fn a_plan_in_json_may_hold_settings_of_the_run() {
    let plan = read_as(
        r#"{"batch": {"max_parallel": 3}, "task": []}"#,
        PlanFormat::Json,
    )
    .unwrap();
    assert_eq!(plan.batch.max_parallel.unwrap().value.0, 3);
}

#[test_case("[{\"title\": \"t\", \"titel\": 1}]" => "plan.json:1:17: unknown key `titel` in [[task]]; did you mean `title`?"; "a typing error")]
#[test_case("[\n {\"title\": \"ü\", \"priority\": -1}]" => "plan.json:2:29: `priority`: -1 is not allowed: expected a whole number from 0 (most urgent) to 1000000"; "a negative priority")]
#[test_case("[{\"title\": \"t\"" => "plan.json:1:14: EOF while parsing an object"; "cut off")]
#[test_case("[{\"title\": \"t\"},\n 5]" => "plan.json:2:2: `task` must be a table, not an integer"; "a number for a task")]
#[test_case("[{\"title\": \"t\", \"title\": \"u\"}]" => "plan.json:1:17: duplicate key `title`"; "a duplicate field")]
#[test_case("[{\"title\": \"t\", \"depends_on\": [null]}]" => "plan.json:1:32: `null` cannot stand in a list"; "nothing in a list")]
#[test_case("[{\"title\": null}]" => "plan.json:1:2: a task needs a `title`"; "no title")]
#[test_case("\"plan\"" => "plan.json:1:1: expected a list of tasks, or an object with `task`, found a string"; "a text")]
#[test_case("[[[[[[[[[[1]]]]]]]]]]" => "plan.json:1:2: `task` must be a table, not an array\nplan.json:1:10: a plan does not nest so deep"; "nested")]
fn a_wrong_plan_in_json_is_told(text: &str) -> String {
    read_as(text, PlanFormat::Json).unwrap_err()
}

#[test_case("title,prio\na,1" => "plan.csv:1:7: unknown column `prio`; did you mean `priority`?"; "an unknown column")]
#[test_case("title,title\na,b" => "plan.csv:1:7: the column `title` stands twice"; "a column twice")]
#[test_case("title,env\na,b" => "plan.csv:1:7: unknown column `env`; a variable is a column `env.NAME`"; "variables in one cell")]
#[test_case("key\na\nb" => "plan.csv:2:1: a task needs a `title`\nplan.csv:3:1: a task needs a `title`"; "no titles")]
#[test_case("title,priority\nä,1\nb,high" => "plan.csv:3:3: `priority`: expected a whole number from 0 (most urgent) to 1000000, found a string"; "a priority in words")]
#[test_case("title,key\na,x\n\nb,x" => "plan.csv:4:1: the key `x` stands already at the task in line 2"; "a key twice")]
#[test_case("title,key\na,x,y\nb" => "plan.csv:2:5: this row has 3 cells, and there are 2 columns\nplan.csv:3:1: this row has 1 cells, and there are 2 columns"; "rows of other lengths")]
#[test_case("title\n\"a" => "plan.csv:2:1: this quotation mark is never closed"; "an open quotation")]
#[test_case("title\na \"b\"" => "plan.csv:2:3: a cell with a quotation mark must stand in quotation marks, and the mark be doubled"; "a bare quotation mark")]
#[test_case("title\n\"a\"b" => "plan.csv:2:4: after a closing quotation mark there must be a comma or the end of the line"; "text behind a quotation")]
#[test_case("" => "plan.csv:1:1: the first line must name the columns; `title` is needed"; "nothing")]
fn a_wrong_plan_in_csv_is_told(text: &str) -> String {
    read_as(text, PlanFormat::Csv).unwrap_err()
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
        let tasks =
            [Exported { key: "k".to_owned(), spec: &spec, depends_on: vec!["x\"y".to_owned()], links: &links, origin: None }];
        let (mut toml, mut json) = (Vec::new(), Vec::new());
        write_toml(&mut toml, &tasks).unwrap();
        write_json(&mut json, &tasks).unwrap();
        let mut expected = links.clone();
        expected.sort_by_key(|link| link.kind);
        for (text, format) in [(toml, PlanFormat::Toml), (json, PlanFormat::Json)] {
            let plan = read_as(&String::from_utf8(text).unwrap(), format).unwrap();
            prop_assert_eq!(&plan.tasks[0].spec, &spec);
            prop_assert_eq!(&plan.tasks[0].depends_on, &[TaskRef::new("x\"y")]);
            prop_assert_eq!(&plan.tasks[0].links, &expected);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in "([a-z\\[\\]=\"'{}\n .#0-9_-]|task|title|key){0,60}") {
        for format in [PlanFormat::Toml, PlanFormat::Json, PlanFormat::Csv] {
            let _ = read_as(&text, format);
        }
    }
}

#[test]
fn fuzz_plans() {
    let words = [
        "[[task]]\n",
        "[batch]\n",
        "key = 'a'\n",
        "title = 't'\n",
        "run = 'true'\n",
        "depends_on = ['a']\n",
        "verify = 'x'\n",
        "priority = 1\n",
        "engine = 'codex'\n",
        "timeout = '5m'\n",
        "env = { A = 'b' }\n",
        "issue = 'o/r#1'\n",
        "pr = 2\n",
        "max_parallel = 4\n",
        "retry = 2\n",
        "strategy = 'parallel'\n",
        "reconcile_interval = '30s'\n",
    ];
    let corpus = [
        include_str!("../../../../examples/plan.toml"),
        include_str!("../../../../examples/quickstart.toml"),
        "[[task]]\nkey = 'a'\ntitle = 't'\nrun = 'true'\n",
        "{\"task\":[{\"key\":\"a\",\"title\":\"t\",\"depends_on\":[\"b\"],\"env\":{\"A\":\"b\"}}]}",
        "key,title,run,depends_on\na,t,\"x \"\"y\"\"\",\nb,u,true,a\n",
    ];
    cf_testkit::fuzz("plans", &corpus, &words, |bytes| {
        let Ok(text) = String::from_utf8(bytes.to_vec()) else {
            return "no text".to_owned();
        };
        let formats = [PlanFormat::Toml, PlanFormat::Json, PlanFormat::Csv];
        formats
            .map(
                |format| match Plan::from_document(Document::new("plan", text.clone()), format) {
                    Ok(plan) => format!("{} tasks", plan.tasks.len()),
                    Err(error) => error.to_string(),
                },
            )
            .concat()
    });
}
