//! How many requests things cost. The counts are the server's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cf_github::{Answer, GitHub, ItemState, LinkAsk, Saved};
use cf_testkit::github::{Fault, Place, ScriptedGithub};

use crate::{FRESH, NOW, ask, client, known, look_one};

/// A thousand links in five repositories.
fn thousand(server: &ScriptedGithub) {
    for repo in 0..5 {
        for number in 1..=200 {
            if number % 4 == 0 {
                server.pull_request(&format!("o/r{repo}"), number);
            } else {
                server.issue(&format!("o/r{repo}"), number);
            }
        }
    }
}

fn asks(fresh_within: Duration) -> Vec<LinkAsk> {
    (0..5)
        .flat_map(|repo| (1..=200).map(move |n| ask(&format!("o/r{repo}"), n, fresh_within)))
        .collect()
}

#[tokio::test]
async fn a_thousand_links_cost_ten_requests_then_one_then_none() {
    let server = ScriptedGithub::start();
    thousand(&server);
    let client = client(&server);
    let answers = client.look(&asks(FRESH)).await;
    assert!(answers.iter().all(|a| matches!(a, Answer::Known(_))));
    let cold = server.take_received();
    assert!(cold.len() <= 10, "{}", cold.len());
    let gaps = cold.windows(2).map(|pair| pair[1].at - pair[0].at);
    assert!(gaps.min().unwrap() >= Duration::from_millis(100));
    assert_eq!(server.most_in_flight(), 1);

    client.look(&asks(FRESH)).await;
    assert_eq!(server.take_received().len(), 0, "within the interval");

    for pass in 1..=3 {
        server.close("o/r1", 2 * pass + 1, Some("COMPLETED"));
        server.merge("o/r4", 4 * pass);
        let answers = client.look(&asks(NOW)).await;
        let received = server.take_received();
        assert_eq!(received.len(), 1, "pass {pass}");
        let at = |repo: u64, number: u64| &answers[(repo * 200 + number - 1) as usize];
        assert!(matches!(
            known(at(1, 2 * pass + 1)).item.state,
            ItemState::Closed { .. }
        ));
        assert!(matches!(
            known(at(4, 4 * pass)).item.state,
            ItemState::Merged { .. }
        ));
        assert!(answers.iter().all(|a| matches!(a, Answer::Known(_))));
    }
}

#[tokio::test]
async fn what_no_list_names_is_found_by_the_rotating_look() {
    let server = ScriptedGithub::start();
    thousand(&server);
    let client = client(&server);
    client.look(&asks(FRESH)).await;
    // A transfer removes the item from every list.
    server.change("o/r2", 77, |item| item.place = Place::Hidden);
    let mut found = None;
    for pass in 1..=11 {
        let answers = client.look(&asks(NOW)).await;
        if matches!(answers[2 * 200 + 76], Answer::Gone(_)) {
            found = Some(pass);
            break;
        }
    }
    assert!(found.is_some(), "not found in eleven passes");
}

#[tokio::test]
async fn a_busy_repository_falls_back_to_exact_looks() {
    let server = ScriptedGithub::start();
    thousand(&server);
    for number in 1000..1150 {
        server.issue("o/r0", number);
    }
    let client = client(&server);
    client.look(&asks(FRESH)).await;
    server.take_received();
    for number in 1000..1150 {
        server.change("o/r0", number, |item| "busy".clone_into(&mut item.title));
    }
    server.close("o/r0", 199, Some("COMPLETED"));
    let answers = client.look(&asks(NOW)).await;
    assert!(matches!(
        known(&answers[198]).item.state,
        ItemState::Closed { .. }
    ));
    assert!(answers.iter().all(|a| matches!(a, Answer::Known(_))));
    assert!(server.take_received().len() <= 3);
}

#[tokio::test]
async fn nothing_is_lost_where_a_chunk_ends() {
    for count in [51, 101, 1001] {
        let server = crate::issues(count);
        let client = client(&server);
        let asks: Vec<LinkAsk> = (1..=count).map(|n| ask("o/r", n, FRESH)).collect();
        let answers = client.look(&asks).await;
        assert_eq!(answers.len() as u64, count);
        for (answer, n) in answers.iter().zip(1..) {
            assert_eq!(known(answer).item.number, n);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_cost_as_much_as_one() {
    let server = crate::issues(100);
    let client = Arc::new(client(&server));
    let looks: Vec<_> = (0..200u64)
        .map(|n| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { look_one(&client, ask("o/r", n % 100 + 1, FRESH)).await })
        })
        .collect();
    for look in looks {
        known(&look.await.unwrap());
    }
    assert!(server.received().len() <= 5, "{}", server.received().len());
    assert_eq!(server.most_in_flight(), 1);
}

#[tokio::test]
async fn another_process_asks_nothing_again() {
    let server = ScriptedGithub::start();
    thousand(&server);
    let first = client(&server);
    first.look(&asks(FRESH)).await;
    let saved = first.take_changed();
    assert_eq!(saved.snapshots.len(), 1000);
    assert_eq!(saved.marks.len(), 5);
    assert!(first.take_changed().is_empty());
    // As a store keeps it.
    let text = serde_json::to_string(&saved).unwrap();
    assert!(!text.contains("scripted-token"));
    let saved: Saved = serde_json::from_str(&text).unwrap();
    server.take_received();

    let second: GitHub = client(&server);
    second.load(saved);
    let answers = second.look(&asks(FRESH)).await;
    assert!(answers.iter().all(|a| matches!(a, Answer::Known(_))));
    assert_eq!(server.take_received().len(), 0);
    second.look(&asks(NOW)).await;
    assert_eq!(server.take_received().len(), 1);
    // A quiet pass leaves little to save: the items that were looked at in turn, and how far the lists were read.
    assert!(second.take_changed().snapshots.len() <= 100);
}

#[tokio::test]
async fn a_merged_pull_request_is_not_asked_about_again() {
    let server = ScriptedGithub::start();
    server.pull_request("o/r", 1);
    server.merge("o/r", 1);
    let client = client(&server);
    for _ in 0..3 {
        known(&look_one(&client, ask("o/r", 1, NOW)).await);
    }
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn fresh_answers_cost_next_to_nothing() {
    let server = ScriptedGithub::start();
    thousand(&server);
    let client = client(&server);
    let asks = asks(FRESH);
    client.look(&asks).await;
    let began = Instant::now();
    client.look(&asks).await;
    let took = began.elapsed();
    // Two milliseconds when optimized; this build is not, and the machine is shared.
    assert!(took < Duration::from_millis(250), "{took:?}");
}

#[tokio::test]
async fn a_pause_is_shared_with_other_processes() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    let fault = Fault::status(403, "You have exceeded a secondary rate limit.", &[]);
    server.fault("/graphql", fault, 1);
    let first = client(&server);
    look_one(&first, ask("o/r", 1, FRESH)).await;
    let saved = first.take_changed();
    let second = client(&server);
    second.load(saved.clone());
    let answer = look_one(&second, ask("o/r", 1, FRESH)).await;
    assert!(matches!(answer, Answer::Unknown { .. }));
    assert_eq!(second.take_notices().len(), 1, "its user hears of it too");
    second.load(saved);
    look_one(&second, ask("o/r", 1, FRESH)).await;
    assert_eq!(second.take_notices().len(), 0, "once");
    assert_eq!(server.received().len(), 1);
}
