//! The page of `cf work batch report` in a real browser. Needs Chromium, so `cargo xtask ci --full` runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use cf_testkit::{Value, Workspace};
use tempfile::TempDir;

use crate::workspace;

/// What a page must not do, tried in every place that takes text: with a load of its own, for the log of requests.
const HOSTILE: &str =
    "</title></script><img src=http://127.0.0.1:9/x><script>document.title='taken over'</script>";

/// A browser with an empty profile, and what it did.
struct Browsed {
    /// The document, after its script has run.
    dom: String,
    /// The addresses that were asked for.
    requests: Vec<String>,
}

fn browse(page: &Path, fragment: &str) -> Browsed {
    let profile = TempDir::new().expect("a folder can be made");
    let log = profile.path().join("net-log.json");
    let address = format!("file://{}{fragment}", page.display());
    let output = Command::new("timeout")
        .args(["--kill-after=5", "90", "chromium"])
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            // No name leads anywhere: the browser itself has nobody to talk to either.
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--virtual-time-budget=2000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--log-net-log={}", log.display()))
        .arg(address)
        .env("HOME", profile.path())
        .output()
        .expect("chromium can be started");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Browsed {
        dom: String::from_utf8(output.stdout).expect("a document is UTF-8"),
        requests: requests(&log),
    }
}

/// What the page asked the network for, from the browser's own log. What the browser asks on its own behalf has no
/// origin as its initiator.
fn requests(log: &PathBuf) -> Vec<String> {
    let log = std::fs::read(log).expect("the browser wrote a log");
    let log: Value = serde_json::from_slice(&log).expect("the log is JSON");
    let events = log["events"].as_array().expect("the log has events");
    assert!(!events.is_empty(), "something happened");
    events
        .iter()
        .map(|event| &event["params"])
        .filter(|params| {
            let initiator = params["initiator"].as_str();
            initiator.is_some_and(|initiator| initiator != "not an origin")
        })
        .filter_map(|params| params["url"].as_str())
        .filter(|url| !url.starts_with("file:"))
        .map(str::to_owned)
        .collect()
}

/// A batch with text from outside wherever it goes, and its page.
fn reported() -> (Workspace, PathBuf) {
    let ws = workspace();
    ws.cf(["tasks", "add", HOSTILE, "--key", "good", "--run", "true"])
        .ok();
    let script = format!("echo \"{HOSTILE}\" >&2; exit 1");
    ws.task("bad").run(&script).after("good").add();
    ws.task("never").run("true").after("bad").add();
    ws.run(["--all-ready"]).code(3);
    ws.cf(["work", "batch", "report", "--html", "report.html"])
        .ok();
    let page = ws.root().join("report.html");
    (ws, page)
}

/// The opening tag of a task's row.
fn row(dom: &str, at: usize) -> &str {
    let from = dom
        .find(&format!("<tr id=\"t-{at}\""))
        .expect("the row is there");
    let to = dom[from..].find('>').expect("the tag ends");
    &dom[from..=from + to]
}

#[test]
#[ignore = "needs chromium"]
fn a_report_filters_by_its_address_and_asks_nobody_for_anything() {
    let (_ws, page) = reported();
    let all = browse(&page, "");
    assert!(all.dom.contains("3 of 3 tasks"), "the script has run");
    let failed = browse(&page, "#show=failed&find=BAD");
    assert!(failed.dom.contains("1 of 3 tasks"));
    for (at, hidden) in [(0, true), (1, false), (2, true)] {
        assert_eq!(row(&failed.dom, at).contains("hidden"), hidden, "{at}");
    }
    for browsed in [&all, &failed] {
        assert!(
            !browsed.dom.contains("<title>taken over"),
            "text ran as a script"
        );
        assert!(!browsed.dom.contains("<img"), "text became an element");
        assert_eq!(browsed.requests, [""; 0]);
    }
}

#[test]
#[ignore = "needs chromium"]
fn a_browser_runs_no_other_script_in_a_report() {
    let (ws, page) = reported();
    let altered = ws
        .read("report.html")
        .replace(
            "\"use strict\";",
            "\"use strict\"; document.title = 'taken over';",
        )
        .replace(
            "<main>",
            "<main><img src=http://127.0.0.1:9/y><script>document.title='taken over'</script>",
        );
    let other = page.with_file_name("altered.html");
    std::fs::write(&other, altered).unwrap();
    let browsed = browse(&other, "");
    assert!(!browsed.dom.contains("<title>taken over"));
    assert!(
        !browsed.dom.contains("3 of 3 tasks"),
        "the altered script did not run"
    );
    assert_eq!(browsed.requests, [""; 0]);
}

#[test]
#[ignore = "needs chromium"]
fn a_report_is_used_with_the_keyboard() {
    // Without the policy, so that keys can be pressed by a script of the test's own.
    let keys = "<script>
        const press = (key, at) => at.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        const said = [];
        const region = document.querySelector('.chart .scroll');
        press('ArrowRight', region);
        said.push(document.activeElement.getAttribute('href'));
        press('ArrowRight', document.activeElement);
        said.push(document.activeElement.getAttribute('href'));
        said.push(document.getElementById('told').textContent.slice(0, 14));
        press('/', document.activeElement);
        said.push(document.activeElement.name);
        document.querySelectorAll('#tasks th button')[0].click();
        said.push([...document.querySelectorAll('#tasks tbody b')].map((one) => one.textContent).join());
        document.activeElement.value = 'never';
        document.activeElement.dispatchEvent(new Event('input', { bubbles: true }));
        said.push(location.hash, document.getElementById('count').textContent);
        press('Escape', document.activeElement);
        said.push(document.getElementById('count').textContent);
        document.title = said.join(' | ');
        </script></body>";
    let (ws, page) = reported();
    let unguarded = ws
        .read("report.html")
        .replace("Content-Security-Policy", "nothing")
        .replace("</body>", keys);
    let other = page.with_file_name("keys.html");
    std::fs::write(&other, unguarded).unwrap();
    let dom = browse(&other, "").dom;
    let title = dom
        .split("<title>")
        .nth(1)
        .and_then(|rest| rest.split("</title>").next());
    assert_eq!(
        title,
        Some(
            "#t-0 | #t-1 | bad, attempt 1 | find | bad,good,never | #find=never | 1 of 3 tasks | 3 of 3 tasks"
        )
    );
}
