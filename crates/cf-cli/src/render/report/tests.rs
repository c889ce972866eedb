//! Pieces of the page under snapshot, and what must hold whatever the data says.

use cf_conductor::process::Identity;
use cf_conductor::settings::Settings;
use cf_conductor::store::batch::{BatchTask, BatchTaskView};
use cf_conductor::supervise::Stage;
use cf_core::{Asker, BatchStatus, BlockerStatus, EventType, TaskStatus};
use proptest::prelude::*;
use serde_json::json;
use snapbox::{assert_data_eq, str};

use super::*;

const BATCH: &str = "00000000-0000-0000-0000-0000000000ba";

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(1_800_000_000_000 + ms).unwrap()
}

fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(n: usize) -> T {
    format!("00000000-0000-0000-0000-{n:012x}").parse().unwrap()
}

fn view(n: usize, title: &str, outcome: Option<Outcome>, reason: &str) -> BatchTaskView {
    BatchTaskView {
        row: BatchTask {
            task: id(n),
            position: u32::try_from(n).unwrap(),
            phase: outcome.map_or(Phase::Running, |_| Phase::Finished),
            outcome,
            reason: Some(reason.to_owned()),
            attempts: 0,
            failures: 0,
            not_before: None,
            since_seq: 0,
            take_up_seq: 0,
            started_at: None,
            ended_at: None,
        },
        key: Some(format!("t{n}").parse().unwrap()),
        title: title.to_owned(),
        status: TaskStatus::Ready,
    }
}

fn attempt(n: usize, task: usize, from: i64, to: Option<i64>, success: Option<bool>) -> Attempt {
    Attempt {
        id: id(0x100 + n),
        task: id(task),
        batch: BATCH.parse().unwrap(),
        generation: 1,
        engine: "shell".to_owned(),
        stage: Stage::Agent,
        supervisor: Identity {
            supervisor: id(1),
            pid: 1,
            start_ticks: 0,
            boot_id: String::new(),
            pid_ns: 0,
        },
        open: to.is_none(),
        end: to.map(|_| AttemptEnd::Exited),
        ending: None,
        success,
        reason: success.map(|well| if well { "exit code 0" } else { "exit code 3" }.to_owned()),
        report: None,
        last_said: None,
        session: None,
        resumes: None,
        format: None,
        tokens: None,
        cached_tokens: None,
        output_tokens: None,
        cost_micro_usd: None,
        left_behind: 0,
        output_lost: 0,
        record: None,
        started_at: at(from),
        ended_at: to.map(at),
    }
}

/// Three tasks: one retried, one that depends on it and was skipped by GitHub, one that runs. `said` stands wherever
/// text from outside may stand.
fn history(said: &str) -> BatchHistory {
    let skipped = Event {
        seq: 9,
        at: at(6_000),
        ..Event::new(EventType::BatchTaskSkipped)
    };
    BatchHistory {
        batch: Batch {
            id: BATCH.parse().unwrap(),
            status: BatchStatus::Running,
            settings: Settings {
                engine: Some(said.to_owned()),
                ..Settings::default()
            },
            stop: None,
            exit_code: None,
            started_at: at(0),
            ended_at: None,
        },
        closing: None,
        tasks: vec![
            view(0, said, Some(Outcome::Completed), "succeeded"),
            view(1, "second", Some(Outcome::Skipped), said),
            view(2, "third", None, ""),
        ],
        edges: vec![(id(1), id(0)), (id(1), id(77))],
        worktrees: Vec::new(),
        attempts: vec![
            attempt(0, 0, 0, Some(2_000), Some(false)),
            Attempt {
                reason: Some(said.to_owned()),
                generation: 2,
                ..attempt(1, 0, 3_000, Some(5_000), Some(true))
            },
            Attempt {
                engine: said.to_owned(),
                ..attempt(2, 2, 1_000, None, None)
            },
        ],
        questions: vec![Blocker {
            id: id(5),
            task: Some(id(2)),
            question: said.to_owned(),
            answer: Some(said.to_owned()),
            status: BlockerStatus::Answered,
            asked_by: Asker::Agent,
            asked_attempt: None,
            asked_at: at(1_500),
            answered_at: Some(at(1_800)),
            asked_seq: 1,
            closed_seq: Some(2),
        }],
        actions: vec![
            skipped
                .task(id(1))
                .with("action", "SKIP")
                .with("reason", "issue closed")
                .with("source", "github")
                .with("phase_before", "waiting")
                .with("phase", "finished")
                .with(
                    "evidence",
                    json!({
                        "kind": "link", "url": "https://github.com/o/r/issues/1", "state": said, "merged_at": null,
                        said: said,
                    }),
                ),
        ],
        events: vec![Event {
            at: at(7_000),
            ..Event::new(EventType::SourceNotice).with("text", said)
        }],
    }
}

fn report(said: &str) -> Report {
    let place = said.to_owned();
    Report::new(history(said), place, at(10_000))
}

#[test]
fn what_follows_from_the_times_is_counted() {
    let report = report("x");
    assert_eq!(report.took(), Duration::from_secs(10));
    assert_eq!(report.worked(), Duration::from_secs(2 + 2 + 9));
    assert_eq!((report.retries(), report.slots), (1, 2));
    assert!((report.at_once() - 1.3).abs() < 1e-9);
    assert_eq!(report.tasks[1].depends_on, [0]);
    assert_eq!(report.tasks[1].depends_outside, 1);
}

#[test]
fn what_agents_used_is_added_up_and_shown_only_where_it_is_known() {
    let silent = page(&report("x"));
    assert!(!silent.contains("<th>Used</th>"));
    let mut history = history("x");
    history.attempts[0].tokens = Some(12_000);
    history.attempts[0].cost_micro_usd = Some(250_000);
    history.attempts[1].tokens = Some(500);
    let report = Report::new(history, "x".to_owned(), at(10_000));
    let used = report.listed(None).used;
    assert_eq!(used, (Some(12_500), Some(250_000)));
    let page = page(&report);
    assert!(page.contains("<dt>used</dt><dd>12.5k tokens, $0.25</dd>"));
    assert!(page.contains("<th>Used</th>"));
}

#[test]
fn an_attempt_is_what_became_of_it() {
    let ended = |end, success| Attempt {
        end: Some(end),
        success,
        ..attempt(0, 0, 0, Some(1), None)
    };
    for (end, success, asked, became) in [
        (AttemptEnd::Exited, Some(true), false, Became::Succeeded),
        (AttemptEnd::Exited, Some(true), true, Became::Asked),
        (AttemptEnd::Exited, Some(false), false, Became::Failed),
        (AttemptEnd::Lost, Some(false), false, Became::Failed),
        (AttemptEnd::Killed, Some(false), false, Became::Stopped),
        (AttemptEnd::NeverStarted, None, false, Became::Stopped),
    ] {
        assert_eq!(Became::of(&ended(end, success), asked), became, "{end}");
    }
    assert_eq!(
        Became::of(&attempt(0, 0, 0, None, None), true),
        Became::Running
    );
}

#[test]
fn the_bar_of_outcomes_says_its_numbers() {
    assert_data_eq!(
        summary::bar(&summary::counted(&report("x")), "outcomes")
            .into_string()
            .replace("><", ">\n<"),
        str![[r#"
<svg class="outcomes" role="img" aria-label="1 completed, 1 skipped, 1 running">
<rect class="completed" x="0.00%" width="33.33%" height="100%">
<title>1 completed</title>
</rect>
<rect class="skipped" x="33.33%" width="33.33%" height="100%">
<title>1 skipped</title>
</rect>
<rect class="running" x="66.67%" width="33.33%" height="100%">
<title>1 running</title>
</rect>
</svg>
"#]]
    );
}

#[test]
fn the_timeline_has_a_box_for_each_attempt_and_a_sign_for_each_event() {
    let timeline = timeline::timeline(&report("x")).into_string();
    let from = timeline.find("<g class=\"lane\">").unwrap();
    assert_data_eq!(
        timeline[from..].replace("><", ">\n<"),
        str![[r##"
<g class="lane">
<a class="sign" tabindex="-1">
<title>08:00:07Z a source says: x</title>
<svg x="70.00%" y="1" overflow="visible">
<path d="M0 1 7 11 0 21-7 11z"/>
</svg>
</a>
</g>
<g class="lane">
<a class="sign" href="#a-0" tabindex="-1">
<title>08:00:06Z t1: issue closed (github)</title>
<svg x="60.00%" y="31" overflow="visible">
<path d="M0 1 7 11 0 21-7 11z"/>
</svg>
</a>
</g>
<g class="lane">
<a class="bar" href="#t-0" data-t="0" tabindex="-1">
<title>t0, attempt 1: failed, 2.0s, from 08:00:00Z; exit code 3</title>
<rect class="failed" x="0.00%" y="60" width="20.00%" height="24" rx="3"/>
<svg class="z1" x="0.00%" y="60" width="20.00%" height="24">
<text x="5" y="16">✗ t0</text>
</svg>
</a>
<a class="bar" href="#t-0" data-t="0" tabindex="-1">
<title>t0, attempt 2: succeeded, 2.0s, from 08:00:03Z; x</title>
<rect class="completed" x="30.00%" y="60" width="20.00%" height="24" rx="3"/>
<svg class="z1" x="30.00%" y="60" width="20.00%" height="24">
<text x="5" y="16">✓ t0</text>
</svg>
</a>
</g>
<g class="lane">
<a class="bar" href="#t-2" data-t="2" tabindex="-1">
<title>t2, attempt 1: running, 9.0s, from 08:00:01Z</title>
<rect class="running" x="10.00%" y="90" width="90.00%" height="24" rx="3"/>
<svg class="z1" x="10.00%" y="90" width="90.00%" height="24">
<text x="5" y="16">▸ t2</text>
</svg>
</a>
</g>
</svg>
</div>
</div>
<p id="told" class="note" aria-live="polite">Times are UTC.</p>
</div>
"##]]
    );
}

#[test]
fn an_action_stands_with_its_evidence() {
    let actions = actions::actions(&report("x")).into_string();
    let from = actions.find("<tr id").unwrap();
    assert_data_eq!(
        actions[from..].replace("><", ">\n<"),
        str![[r##"
<tr id="a-0">
<td class="time">2027-01-15T08:00:06Z</td>
<td>
<b>SKIP</b>
</td>
<td>
<a href="#t-1" data-t="1">t1</a>
</td>
<td>issue closed</td>
<td>github</td>
<td>waiting → finished</td>
<td class="evidence">
<span>
<i>state</i> x</span> <span>
<i>url</i> <a href="https://github.com/o/r/issues/1" rel="noreferrer noopener">https://github.com/o/r/issues/1</a>
</span> <span>
<i>x</i> x</span> </td>
</tr>
</tbody>
</table>
</div>
"##]]
    );
}

#[test]
fn a_row_says_everything_about_its_task() {
    let tasks = tasks::tasks(&report("x")).into_string();
    let from = tasks.find("<tr id").unwrap();
    assert_data_eq!(
        tasks[from..].replace("><", ">\n<"),
        str![[r##"
<tr id="t-0" data-t="0" data-s="completed">
<td>
<b>t0</b>
<span class="title">x</span>
</td>
<td data-v="COMPLETED">
<span class="chip completed">✓ COMPLETED</span>
</td>
<td class="reason">succeeded</td>
<td data-v="2">
<details class="print">
<summary>✗✓ 2</summary>
<ul>
<li>✗ 1: failed, shell, slot 1, 2.0s from +0.0s<br>exit code 3</li>
<li>✓ 2: succeeded, shell, slot 1, 2.0s from +3.0s<br>x</li>
</ul>
</details>
</td>
<td class="number" data-v="4000">4.0s</td>
<td class="number" data-v="0">+0.0s</td>
<td>
</td>
</tr>
<tr id="t-1" data-t="1" data-s="skipped">
<td>
<b>t1</b>
<span class="title">second</span>
</td>
<td data-v="SKIPPED">
<span class="chip skipped">» SKIPPED</span>
</td>
<td class="reason">x</td>
<td data-v="0">–</td>
<td class="number" data-v="-1">
</td>
<td class="number" data-v="-1">
</td>
<td>
<a href="#t-0">t0</a> <span class="note">1 outside the batch</span>
</td>
</tr>
<tr id="t-2" data-t="2" data-s="running">
<td>
<b>t2</b>
<span class="title">third</span>
</td>
<td data-v="running">
<span class="chip running">▸ running</span>
</td>
<td class="reason">
</td>
<td data-v="1">
<details class="">
<summary>▸ 1</summary>
<ul>
<li>▸ 1: running, x, slot 2, 9.0s from +1.0s</li>
</ul>
</details>
</td>
<td class="number" data-v="9000">9.0s</td>
<td class="number" data-v="1000">+1.0s</td>
<td>
</td>
</tr>
</tbody>
</table>
</div>
"##]]
    );
}

#[test]
fn a_large_batch_has_levels_instead_of_a_drawing() {
    let mut history = history("x");
    for n in 3..300 {
        history
            .tasks
            .push(view(n, "more", Some(Outcome::Completed), ""));
        history
            .edges
            .push((id(n), id(if n < 200 { 0 } else { n - 1 })));
    }
    let large = Report::new(history, String::new(), at(10_000));
    let graph = graph::graph(&large).into_string();
    assert!(!graph.contains("class=\"graph\""));
    for name in [
        "level 0",
        "level 1",
        "levels 2 to 25",
        "level 101",
        "no dependencies",
    ] {
        assert!(graph.contains(&format!("<b>{name}</b>")), "{name}");
    }
    assert!(
        graph::graph(&report("x"))
            .into_string()
            .contains("class=\"graph\"")
    );
}

#[test]
fn words_say_what_is_not_done_and_what_took_long() {
    let mut out = Vec::new();
    let console = crate::console::Console::plain(None);
    write_words(&report("x"), None, &console, &mut out).unwrap();
    assert_data_eq!(
        String::from_utf8(out).unwrap(),
        str![[r"
batch 00000000  RUNNING  1 completed, 1 skipped, 1 running
its conductor is gone; go on with `cf resume 00000000`, or end it with `cf stop 00000000 --force`
  started     2027-01-15T08:00:00Z, has taken 10.0s
  attempts    3, 1 of them retries; 13.0s of work, 1.3 at a time on average

Not completed:
Task	State	Attempts	Work	Title	Reason
t1	SKIPPED	0	0.0s	second	x
t2	running	1	9.0s	third	

Longest:
Task	State	Attempts	Work	Title	Reason
t2	running	1	9.0s	third	
t0	COMPLETED	2	4.0s	x	succeeded

Reconciliation:
  1 task skipped (issue closed)

"]]
    );
}

/// What a hostile text must not become: an element, the end of one, an attribute, a script.
fn assert_harmless(said: &str) {
    let (page, plain) = (page(&report(said)), page(&report("plain")));
    for mark in ["<", ">", "\"", "</script", "</style", "<!--"] {
        assert_eq!(
            page.matches(mark).count(),
            plain.matches(mark).count(),
            "{mark} of {said:?}"
        );
    }
    assert!(
        !page
            .chars()
            .any(|c| c.is_control() && c != '\n' && c != '\t'),
        "{said:?}"
    );
}

#[test]
fn hostile_text_stays_text() {
    for said in [
        "</script><script>alert(1)</script>",
        "</title><img src=x onerror=alert(1)>",
        "\" autofocus onfocus=\"alert(1)",
        "' onload='x",
        "<!--",
        "]]>",
        "\u{0}\u{1b}]0;x\u{7}\u{202e}",
        "{} {}",
        "&lt;b&gt;",
    ] {
        assert_harmless(said);
    }
}

#[test]
fn a_hostile_address_is_no_link() {
    let mut history = history("x");
    history.actions[0]
        .data
        .insert("evidence", json!({ "url": "javascript:alert(1)" }));
    let page = page(&Report::new(history, String::new(), at(10_000)));
    assert!(page.contains("javascript:alert(1)") && !page.contains("href=\"javascript"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_stays_text(said in "\\PC{1,30}|[<>&\"'/!a-z=\u{0}\u{1b}-]{1,30}") {
        assert_harmless(&said);
    }
}
