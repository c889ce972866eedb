//! Tasks in and out of a workspace as TOML, JSON and CSV, and drawn as a graph.

use std::fs;

use serde_json::json;

use crate::workspace;

#[test]
fn tasks_come_from_json_and_csv_as_from_toml() {
    let ws = workspace();
    ws.write(
        "a.json",
        r#"[{"key": "a", "title": "From JSON", "run": "true", "priority": 3}]"#,
    );
    ws.write(
        "b.csv",
        "key,title,run,depends_on,env.COLOUR\nb,\"From, CSV\",true,a,green\n",
    );
    ws.cf(["tasks", "import", "a.json"]).ok().says("1 added");
    ws.cf(["tasks", "import", "b.csv"]).ok().says("1 added");
    assert_eq!(ws.show("a")["priority"], 3);
    assert_eq!(ws.show("b")["title"], "From, CSV");
    assert_eq!(ws.show("b")["env"], json!({ "COLOUR": "green" }));
    assert_eq!(ws.show("b")["depends_on"], json!([ws.id("a")]));
    // A plan that is run may be written in any of them.
    ws.run(["--file", "b.csv", "--dry-run"])
        .code(1)
        .says("depends on a");
    ws.run(["--file", "a.json"]).ok();
    assert_eq!(ws.status("a"), "DONE");
}

#[test]
fn the_format_can_be_named() {
    let ws = workspace();
    ws.write("tasks.txt", "title,key\nOne,one\n");
    ws.cf(["tasks", "import", "tasks.txt"])
        .code(2)
        .says("tasks.txt:1: ");
    ws.cf(["tasks", "import", "tasks.txt", "--format", "csv"])
        .ok();
    ws.command(["tasks", "import", "-", "--format", "json"])
        .stdin(r#"[{"title": "Two", "key": "two"}]"#)
        .run()
        .ok();
    assert_eq!(
        (ws.status("one"), ws.status("two")),
        ("READY".into(), "READY".into())
    );
}

#[test]
fn nothing_of_a_file_with_a_bad_row_is_imported() {
    let ws = workspace();
    ws.write("t.csv", "key,title,priority\ngood,Good,1\nbad,Bad,soon\n");
    ws.cf(["tasks", "import", "t.csv"])
        .code(2)
        .says("t.csv:3:9: `priority`: expected a whole number");
    ws.write(
        "t.json",
        r#"[{"title": "Good"}, {"title": "Bad", "depends_on": ["nobody"]}]"#,
    );
    ws.cf(["tasks", "import", "t.json"])
        .code(2)
        .says("t.json:1:21: task \"Bad\": `depends_on`: \"nobody\" is neither in the plan nor in the workspace");
    assert_eq!(ws.cf(["tasks", "list", "--json"]).json(), json!([]));
}

#[test]
fn an_engine_that_nobody_knows_is_refused_at_the_import() {
    let ws = workspace();
    ws.write("t.csv", "title,engine\nGood,codex\nBad,codx\n");
    ws.cf(["tasks", "import", "t.csv"])
        .code(2)
        .says("t.csv:3:1: task \"Bad\": `engine`: there is no engine \"codx\"")
        .says("did you mean codex?");
    assert_eq!(ws.cf(["tasks", "list", "--json"]).json(), json!([]));
    ws.config("[engines.mine]\ncommand = ['true']\n");
    ws.cf([
        "tasks",
        "import",
        ws.plan("[[task]]\ntitle = 't'\nengine = 'mine'\n"),
    ])
    .ok();
}

#[test]
fn what_a_stranger_wrote_is_not_run_with_the_plan_that_brings_it() {
    let ws = workspace();
    let theirs = "[[task]]\nkey = 'theirs'\ntitle = 'Do as I say'\nrun = 'touch theirs'\norigin = 'github.com o/r#1'\n";
    let plan = ws.plan(&format!(
        "[[task]]\nkey = 'after'\ntitle = 'After'\nrun = 'touch after'\ndepends_on = ['theirs']\n{theirs}\
         [[task]]\nkey = 'mine'\ntitle = 'Mine'\nrun = 'touch mine'\n"
    ));
    for flags in [&["--dry-run"][..], &[]] {
        let said = ws
            .cf(["run", "--file", plan].iter().chain(flags))
            .ok()
            .stdout();
        assert!(
            said.contains("left out: theirs, written at github.com o/r#1")
                && said.contains("left out: after, depends on theirs"),
            "{said}"
        );
    }
    assert_eq!(
        (ws.status("theirs"), ws.status("after"), ws.status("mine")),
        ("BACKLOG".into(), "READY".into(), "DONE".into())
    );
    // Nor is it when it is there already, alone, and in JSON.
    let alone = ws.plan(theirs);
    ws.cf(["run", "--file", alone])
        .ok()
        .says("every task is left out");
    let said = ws.cf(["run", "--json", "--file", alone]).ok().stdout();
    assert!(said.contains("null"), "{said}");
    assert_eq!(ws.status("theirs"), "BACKLOG");
    // Whoever names it has it run.
    ws.run(["theirs", "after"]).ok();
    assert_eq!(ws.status("after"), "DONE");
}

#[test]
fn what_a_stranger_wrote_stays_theirs_through_an_export() {
    let ws = workspace();
    let place = "github.com octocat/hello-world#12";
    ws.cf([
        "tasks",
        "import",
        ws.plan(&format!(
            "[[task]]\nkey = 'theirs'\ntitle = 'Do as I say'\norigin = '{place}'\n[[task]]\nkey = 'mine'\ntitle = 'Mine'\n"
        )),
    ])
    .ok();
    assert_eq!(
        (ws.status("theirs"), ws.status("mine")),
        ("BACKLOG".into(), "READY".into())
    );
    for format in ["toml", "json"] {
        let text = ws.cf(["tasks", "export", "--format", format]).ok().stdout();
        let other = workspace();
        let file = format!("e.{format}");
        other.write(&file, &text);
        other.cf(["tasks", "import", &file]).ok();
        assert_eq!(other.status("theirs"), "BACKLOG");
        other.program("agent", "#!/bin/sh\ncat \"$CF_PROMPT_FILE\" > prompt\n");
        other.config("engine = 'own'\n[engines.own]\ncommand = ['agent']\n");
        other.run(["theirs"]).ok();
        let prompt = other.read("prompt");
        assert!(
            prompt.contains(&format!("It was written at {place}, not by")),
            "{prompt}"
        );
        // A plan of one's own that says nothing of it changes the text, and not whose it was.
        other
            .cf([
                "tasks",
                "import",
                other.plan("[[task]]\nkey = 'theirs'\ntitle = 'Do it'\n"),
            ])
            .ok();
        assert!(other.cf(["tasks", "export"]).ok().stdout().contains(place));
    }
    ws.cf([
        "tasks",
        "import",
        ws.plan("[[task]]\ntitle = 't'\norigin = \"a\\nb\"\n"),
    ])
    .code(2)
    .says("`origin`: expected a place in one line");
}

#[test]
fn an_export_replaces_a_file_as_a_whole_and_nothing_else() {
    let ws = workspace();
    ws.add("a", "true");
    ws.write("e.toml", "older");
    std::os::unix::fs::symlink("e.toml", ws.root().join("link.toml")).expect("the folder is ours");
    ws.cf(["tasks", "export", "-o", "link.toml"])
        .code(1)
        .says("is not an ordinary file");
    assert_eq!(ws.read("e.toml"), "older");
    ws.cf(["tasks", "export", "-o", "e.toml"]).ok();
    assert_eq!(
        ws.cf(["tasks", "export", "-o", "-"]).ok().stdout(),
        ws.read("e.toml")
    );
}

#[test]
fn an_export_is_the_same_after_its_import() {
    let ws = workspace();
    ws.write(
        "t.json",
        r#"[{"key": "z", "title": "Last letter\nfirst", "issue": ["o/r#1", "o/r#2"]},
            {"title": "Nameless \"quoted\" 🦀", "engine": "codex", "timeout": "90s"},
            {"key": "a", "title": "Both", "depends_on": ["z"], "env": {"A B": "'\""}}]"#,
    );
    ws.cf(["tasks", "import", "t.json"]).ok();
    let nameless = ws.cf(["tasks", "list", "--json"]).json()[1]["id"]
        .as_str()
        .map(str::to_owned)
        .expect("an id");
    ws.cf(["tasks", "depend", "a", &nameless]).ok();
    for (format, file) in [("toml", "e.toml"), ("json", "e.json")] {
        let text = ws.cf(["tasks", "export", "--format", format]).ok().stdout();
        ws.cf(["tasks", "export", "-o", file])
            .ok()
            .says("wrote 3 tasks");
        assert_eq!(ws.read(file), text, "the ending decides as the format does");
        let other = workspace();
        other.write(file, &text);
        other.cf(["tasks", "import", file]).ok().says("3 added");
        assert_eq!(
            other
                .cf(["tasks", "export", "--format", format])
                .ok()
                .stdout(),
            text
        );
    }
    let text = ws.cf(["tasks", "export", "--json"]).ok().stdout();
    assert_eq!(text, ws.read("e.json"));
    ws.cf(["tasks", "export", "--json", "--format", "toml"])
        .code(2)
        .says("contradict");
    let told = ws.cf(["tasks", "export", "--json", "-o", "f.json"]).json();
    assert_eq!(told, json!({ "file": "f.json", "tasks": 3 }));
    assert_eq!(
        fs::read(ws.root().join("f.json")).expect("it was written"),
        text.into_bytes()
    );
}

#[test]
fn a_graph_shows_statuses_and_survives_any_title() {
    let ws = workspace();
    ws.cf([
        "tasks",
        "add",
        "a\"]; n9[\"x <script> %%{init: {}}%%\n#quot; \\",
        "--key",
        "a",
    ])
    .ok();
    ws.cf(["tasks", "add", "end", "--key", "b", "--depends-on", "a"])
        .ok();
    ws.set("a", "DONE");
    let mermaid = ws
        .cf(["tasks", "graph", "--format", "mermaid"])
        .ok()
        .stdout();
    assert_eq!(
        mermaid,
        "flowchart TD\n    n0[\"a (DONE)<br/>a#quot;]; n9[#quot;x #lt;script#gt; #37;#37;{init#58; {}}#37;#37; \
         #35;quot; #92;\"]\n    n1[\"b (READY)<br/>end\"]\n    n0 --> n1\n"
    );
    let dot = ws.cf(["tasks", "graph", "--format", "dot"]).ok().stdout();
    assert_eq!(
        dot,
        "digraph tasks {\n    n0 [label=\"a (DONE)\\na\\\"]; n9[\\\"x <script> %%{init: {}}%% #quot; \\\\\"];\n    \
         n1 [label=\"b (READY)\\nend\"];\n    n0 -> n1;\n}\n"
    );
    let text = ws.cf(["tasks", "graph"]).ok().stdout();
    assert!(
        text.starts_with("a  DONE  a\"]; n9[") && text.ends_with("\n  b  READY  end\n"),
        "{text}"
    );
    assert_eq!(
        text,
        ws.cf(["tasks", "graph"]).ok().stdout(),
        "the order is always the same"
    );
}
