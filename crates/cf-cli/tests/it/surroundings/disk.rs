//! A disk that is full, at each write in turn.

use std::fs;
use std::time::Duration;

use super::unshare;
use crate::{empty_folder, workspace};

/// How many KiB are left, round by round.
const LEFT: &str = "0 4 8 12 16 20 24 28 32 36 40 44 48 56 64 72 80 96 112 128 160 192";

/// A batch in a small file system that is ever less full: whatever is refused is said, and with room again everything
/// ends as if nothing had been.
#[test]
fn whichever_write_finds_the_disk_full_nothing_is_lost() {
    let ws = empty_folder();
    let Some(mut call) = unshare(&ws, &["--mount"]) else {
        return;
    };
    let script = format!(
        r#"
        mkdir disk && mount -t tmpfs -o size=2m,mode=700 none disk && cd disk || exit 99
        "$CF" init > /dev/null || exit 98
        for left in {LEFT}; do
            key="t$left"
            "$CF" tasks add "$key" --key "$key" --run "echo $key >> \"\$HOME/ran\"; head -c 20000 /dev/zero | tr '\\0' x" \
                --verify "echo $key >> \"\$HOME/verified\"" > /dev/null || exit 97
            dd if=/dev/zero of=fill bs=1k 2> /dev/null
            truncate -s "-${{left}}k" fill
            said="$HOME/said.$left"; code="$HOME/code.$left"
            ( "$CF" run "$key" > "$said" 2>&1; echo $? > "$code" ) &
            # It refuses, gets through, or waits for room and says so.
            while [ ! -s "$code" ] && ! grep -q "for now" "$said"; do sleep 0.05; done
            "$CF" tasks list > /dev/null 2>> "$HOME/reading" || echo "reading fails at $left" >> "$HOME/reading"
            rm fill
            wait
            echo "$left $(cat "$code") $(grep -c "for now" "$said")" >> "$HOME/codes"
            "$CF" resume > "$HOME/resumed.$left" 2>&1 || "$CF" run "$key" >> "$HOME/resumed.$left" 2>&1
        done
        cp -r .cf ..
    "#
    );
    call.extend(["sh", "-c", &script].map(str::to_owned));
    ws.program_call("/usr/bin/env", call)
        .deadline(Duration::from_mins(4))
        .run()
        .ok();
    let read = |name: &str| fs::read_to_string(ws.home().join(name)).unwrap_or_default();
    println!("{}", read("codes"));
    assert_eq!(read("reading"), "");
    assert_eq!(ws.sql("PRAGMA integrity_check"), "ok");
    let times = |file: &str, key: &str| read(file).lines().filter(|line| *line == key).count();
    for left in LEFT.split(' ') {
        let key = format!("t{left}");
        let (said, resumed) = (
            read(&format!("said.{left}")),
            read(&format!("resumed.{left}")),
        );
        let story = format!("{left} KiB:\n{said}\n---\n{resumed}");
        assert!(!story.contains("panicked"), "{story}");
        assert_eq!(ws.status(&key), "DONE", "{story}");
        let attempts = ws.attempts(&key).len();
        assert!(
            (1..=attempts).contains(&times("ran", &key)),
            "{attempts} attempts; {story}"
        );
        assert!(times("verified", &key) >= 1, "{story}");
    }
}

/// The limit on the size of files meets another write each time, the one that ends the batch among them. Nothing this
/// process does later can be stored, so it says so once, looks after its agent to its end, and leaves.
#[test]
fn a_limit_on_the_size_of_files_is_said_once_and_never_waited_for() {
    let mut limited = 0;
    for blocks in (96..=272).step_by(16) {
        let ws = workspace();
        ws.add("a", "echo a >> ran");
        let ended = ws
            .command(["run", "a"])
            .under_limits(&format!("-f {blocks}"))
            .deadline(Duration::from_secs(30))
            .run();
        let story = format!("{blocks} blocks:\n{}", ended.text());
        if ended.exit_code() != Some(0) {
            limited += 1;
            ended.code(1).says("`ulimit -f`");
            ws.cf(["resume"]).ok();
        }
        assert!(story.matches("for now").count() <= 1, "{story}");
        assert!(!story.contains("answers again"), "{story}");
        assert_eq!(ws.status("a"), "DONE", "{story}");
        assert_eq!(ws.read("ran"), "a\n", "{story}");
    }
    assert!(limited > 3, "the limits are to be narrower");
}

/// Output that has no room does not hold the agent up, and is not missed in silence.
#[test]
fn output_that_could_not_be_written_is_told() {
    let ws = workspace();
    // Some is lost of the agent's, and all of what its verification says after it.
    ws.task("a")
        .run("head -c 1000000 /dev/zero | tr '\\0' x")
        .verify("echo looked")
        .add();
    // Enough for the write-ahead log of the whole batch.
    ws.command(["run", "a"]).under_limits("-f 340").run().ok();
    let lost = ws.attempts("a")[0]["output_lost"].as_u64();
    let least = 1_000_000 - 340 * 512;
    assert!(lost.is_some_and(|lost| (least..1_000_000).contains(&lost)));
    assert_eq!(
        ws.events_of("ATTEMPT_ENDED", "a")[0]["data"]["output_lost"].as_u64(),
        lost
    );
    ws.cf(["tasks", "show", "a"])
        .ok()
        .says("bytes of its output could not be written");
}

/// It is told too when the conductor that heard of it is gone before the attempt's end.
#[test]
fn lost_output_of_an_agent_is_known_after_a_crash_during_its_verification() {
    let ws = workspace();
    ws.task("a")
        .run("head -c 1000000 /dev/zero | tr '\\0' x")
        .verify("test -e done || sleep 60")
        .add();
    let conductor = ws.command(["run", "a"]).under_limits("-f 300").spawn();
    ws.wait_for_event("ATTEMPT_VERIFYING", "a");
    conductor.kill9();
    ws.write("done", "");
    let supervisor = ws.supervisor("a");
    cf_testkit::process::descendants(supervisor)
        .into_iter()
        .for_each(cf_testkit::process::kill9);
    ws.cf(["resume"]);
    let lost = ws.attempts("a")[0]["output_lost"].as_u64();
    assert!(
        lost.is_some_and(|lost| lost >= 1_000_000 - 300 * 512),
        "{lost:?}"
    );
}
