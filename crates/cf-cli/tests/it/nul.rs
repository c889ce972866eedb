//! NUL in a text: no argument and no variable of a process can hold it, so nobody may store it.

use cf_testkit::json;

use crate::workspace;
use crate::worktree::{repository, tree};

#[test]
fn a_text_with_a_nul_is_refused_by_every_door() {
    let ws = workspace();
    ws.add("a", "true");
    let asked = ws.ask("a", "why?");
    ws.write("odd", "a\0b");
    let before = ws.events().len();
    let has = |what: &str| format!("the {what} has a NUL character in it");
    for from in ["odd", "-"] {
        for (args, what) in [
            (vec!["tasks", "add", "t", "--file", from], "description"),
            (vec!["tasks", "edit", "a", "--file", from], "description"),
            (vec!["blocker", "answer", &asked, "--file", from], "answer"),
        ] {
            let output = ws.command(args).stdin("a\0b").run();
            output.code(1).says(&has(what));
        }
    }
    ws.command(["blocker", "answer", &asked, "-"])
        .stdin("a\0b")
        .run()
        .code(1)
        .says(&has("answer"));
    ws.cf([
        "tasks",
        "import",
        ws.plan("[[task]]\ntitle = \"a\\u0000b\"\n"),
    ])
    .refused()
    .says("NUL character");
    assert_eq!(ws.events().len(), before);
    assert_eq!(
        ws.cf(["tasks", "list", "--json"]).json()[0]["description"],
        json!("")
    );
}

#[test]
fn the_work_of_a_task_whose_title_has_a_nul_from_before_is_committed_and_merged() {
    let ws = repository();
    ws.add("a", "echo a > a");
    ws.sql_do("UPDATE task SET title = 'one' || char(0) || 'two' || char(27)");
    ws.run(["a"]).ok();
    let commit = tree(&ws, "a")["commit"].as_str().unwrap().to_owned();
    assert_eq!(
        ws.git_do(["show", "-s", "--format=%s", &commit]).trim(),
        "one two"
    );
    ws.cf(["work", "merge", "a"]).ok();
    assert_eq!(ws.read("a"), "a\n");
    ws.cf(["tasks", "edit", "a", "--priority", "1"]).ok();
}
