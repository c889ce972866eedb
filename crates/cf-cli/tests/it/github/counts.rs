//! How many requests a batch costs. The counts are the server's.

use std::fmt::Write as _;
use std::time::Duration;

use cf_testkit::Workspace;
use cf_testkit::github::ScriptedGithub;

use super::following;
use crate::waiter;

/// A thousand tasks in five repositories, behind one that waits.
fn thousand(github: &ScriptedGithub, ws: &Workspace) {
    let mut plan = format!(
        "[[task]]\nkey = 'first'\ntitle = 'first'\nrun = '''{}'''\n",
        waiter("first")
    );
    for repo in 0..5 {
        for number in 1..=200 {
            github.issue(&format!("o/r{repo}"), number);
            write!(
                plan,
                "[[task]]\nkey = 't{repo}-{number}'\ntitle = 't'\nrun = 'true'\nissue = 'o/r{repo}#{number}'\n"
            )
            .expect("writing to a string cannot fail");
        }
    }
    ws.write("plan.toml", plan);
    ws.cf(["tasks", "import", "plan.toml"]).ok();
}

#[test]
fn a_thousand_links_cost_ten_requests_then_one_a_pass_then_none_within_the_interval() {
    let github = ScriptedGithub::start();
    let ws = following(&github);
    thousand(&github, &ws);
    ws.add("spare", "true");
    github.take_received();
    let batch = ws.start(["--all-ready", "--reconcile-interval", "4s"]);
    ws.wait_for_pid("first.pid");
    ws.wait_until("everything was looked at", || {
        let requests = github.received();
        requests.len() >= 4
            && requests
                .last()
                .is_some_and(|last| last.at.elapsed() > Duration::from_millis(1500))
    });
    let cold = github.take_received();
    assert!(cold.len() <= 10, "{} requests cold", cold.len());
    let gaps = cold.windows(2).map(|pair| pair[1].at - pair[0].at);
    assert!(gaps.min().unwrap() >= Duration::from_millis(100));
    let last = cold.last().expect("some are there").at;
    ws.wait_until("two passes went by", || github.received().len() >= 2);
    // A second request of the pass would follow the first at once.
    std::thread::sleep(Duration::from_millis(1500));
    let later = github.take_received();
    // One for each interval that was begun, whenever a machine at its limit lets them arrive.
    let intervals = last.elapsed().as_secs() / 4 + 1;
    let count = later.len() as u64;
    assert!(count <= intervals, "{count} requests in {intervals} passes");
    assert_eq!(github.most_in_flight(), 1);
    batch.kill9();
    // Whoever goes on within the interval asks nothing again.
    github.take_received();
    let batch = ws.spawn(["resume", "--reconcile-interval", "1h"]);
    ws.wait_for_events("ATTEMPT_ADOPTED", "first", 1);
    // It begins its looks with the first turn, and is some turns further when it has seen this.
    ws.set("spare", "DONE");
    ws.wait_for_event("BATCH_TASK_SKIPPED", "spare");
    assert_eq!(github.received().len(), 0);
    batch.kill9();
}

#[test]
fn a_second_batch_shares_what_the_first_has_learned() {
    let github = ScriptedGithub::start();
    github.issue("o/r", 12);
    let ws = following(&github);
    ws.add("a", "true");
    ws.add("b", "true");
    ws.cf(["tasks", "link", "a", "o/r#12"]).ok();
    ws.cf(["tasks", "link", "b", "o/r#12"]).ok();
    ws.run(["a", "--reconcile-interval", "1h"]).ok();
    assert!(github.take_received().len() <= 2);
    ws.run(["b", "--reconcile-interval", "1h"]).ok();
    // The state is known; comments are not kept in the shared cache, and the second task has none yet.
    assert!(github.received().len() <= 1, "{:?}", github.received());
}

#[test]
fn a_batch_without_links_asks_nothing() {
    let github = ScriptedGithub::start();
    let ws = following(&github);
    ws.add("a", "true");
    ws.run(["a"])
        .ok()
        .says("GitHub: off, no task has a link, and the repository has no GitHub remote");
    assert_eq!(github.received().len(), 0);
}
