//! What is told about links.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cf_core::LinkKind;
use cf_github::{
    Answer, CloseReason, Environment, FoundAsk, GitHub, GoneHow, HostAccess, ItemState, LinkAsk,
    NamedHosts,
};
use cf_testkit::github::{Fault, Place, ScriptedGithub};

use crate::{FRESH, NOW, ask, client, exact, known, look_one, quick, why};

#[tokio::test]
async fn every_state_is_told() {
    let server = crate::issues(6);
    for number in 7..=10 {
        server.pull_request("o/r", number);
    }
    server.close("o/r", 2, Some("COMPLETED"));
    server.close("o/r", 3, Some("NOT_PLANNED"));
    server.close("o/r", 4, Some("DUPLICATE"));
    server.close("o/r", 5, None);
    server.close("o/r", 6, Some("COMPLETED"));
    server.reopen("o/r", 6);
    server.change("o/r", 7, |item| item.draft = true);
    server.merge("o/r", 8);
    server.close("o/r", 9, None);
    let client = client(&server);
    let asks: Vec<LinkAsk> = (1..=10).map(|number| ask("o/r", number, FRESH)).collect();
    let answers = client.look(&asks).await;
    let states: Vec<ItemState> = answers.iter().map(|a| known(a).item.state).collect();
    let at = |n: usize| states[n - 1].ended_at().unwrap();
    let closed = |n: usize, reason| ItemState::Closed { reason, at: at(n) };
    assert_eq!(
        states,
        [
            ItemState::Open,
            closed(2, CloseReason::Completed),
            closed(3, CloseReason::NotPlanned),
            closed(4, CloseReason::Duplicate),
            closed(5, CloseReason::Unstated),
            ItemState::Open,
            ItemState::Open,
            ItemState::Merged { at: at(8) },
            ItemState::ClosedUnmerged { at: at(9) },
            ItemState::Open,
        ]
    );
    assert!(known(&answers[6]).item.draft);
    // A pull request's number given as an issue's: GitHub says what it is.
    assert_eq!(known(&answers[7]).item.kind, LinkKind::Pr);
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_missing_item_does_not_hide_its_neighbours() {
    let server = crate::issues(4);
    server.change("o/r", 2, |item| item.place = Place::Deleted);
    server.change("o/r", 3, |item| item.place = Place::Hidden);
    server.change("o/r", 4, |item| item.place = Place::Protected);
    let client = client(&server);
    let asks: Vec<LinkAsk> = [
        ("o/r", 1),
        ("o/r", 2),
        ("o/r", 3),
        ("o/r", 4),
        ("o/r", 99),
        ("no/where", 1),
    ]
    .into_iter()
    .map(|(repo, number)| ask(repo, number, FRESH))
    .collect();
    let answers = client.look(&asks).await;
    known(&answers[0]);
    let how: Vec<GoneHow> = answers[1..]
        .iter()
        .map(|answer| match answer {
            Answer::Gone(gone) => gone.how,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(
        how,
        [
            GoneHow::Deleted,
            GoneHow::Invisible,
            GoneHow::Forbidden,
            GoneHow::Invisible,
            GoneHow::Invisible
        ]
    );
    // One document, and one REST look for each of the three numbers that GraphQL does not find.
    assert_eq!(server.take_received().len(), 4);
    // What is gone is not looked for again at once.
    client.look(&asks).await;
    assert_eq!(server.received().len(), 0);
}

#[tokio::test]
async fn a_transferred_issue_is_followed_to_its_new_place() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    server.issue("other/home", 7);
    server.close("other/home", 7, Some("COMPLETED"));
    server.change("o/r", 1, |item| {
        item.place = Place::Moved("other/home".to_owned(), 7);
    });
    let client = client(&server);
    let Answer::Moved { to, .. } = look_one(&client, ask("o/r", 1, FRESH)).await else {
        panic!("not moved");
    };
    assert_eq!(to.to_string(), "other/home#7");
    server.take_received();
    let answer = look_one(&client, LinkAsk::state(to, FRESH)).await;
    assert!(matches!(
        known(&answer).item.state,
        ItemState::Closed { .. }
    ));
    assert_eq!(server.received().len(), 0, "its new place was read already");
}

#[tokio::test]
async fn a_renamed_repository_is_found_under_its_old_name() {
    let server = ScriptedGithub::start();
    server.issue("o/old", 1);
    server.rename("o/old", "o/new");
    let client = client(&server);
    let answer = look_one(&client, ask("o/old", 1, FRESH)).await;
    assert_eq!(known(&answer).item.repo.to_string(), "o/new");
}

#[tokio::test]
async fn an_unknown_word_makes_one_item_unknown() {
    let server = crate::issues(3);
    server.change("o/r", 1, |item| "FROZEN".clone_into(&mut item.state));
    server.close("o/r", 2, Some("LOST_INTEREST"));
    let client = client(&server);
    let asks: Vec<LinkAsk> = (1..=3).map(|number| ask("o/r", number, FRESH)).collect();
    let answers = client.look(&asks).await;
    assert!(why(&answers[0]).contains("FROZEN"), "{answers:?}");
    assert!(why(&answers[1]).contains("LOST_INTEREST"));
    known(&answers[2]);
}

#[tokio::test]
async fn pull_requests_found_through_an_issue_are_followed() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    server.pull_request("o/fork", 5);
    server.change("o/r", 1, |item| item.closing.push(("o/fork".to_owned(), 5)));
    let client = client(&server);
    let answer = look_one(&client, exact("o/r", 1)).await;
    assert_eq!(known(&answer).found[0].state, ItemState::Open);
    server.take_received();

    // Its merging moves nothing about the issue, and is seen with the next look all the same.
    server.merge("o/fork", 5);
    let pass = LinkAsk {
        found: FoundAsk::WhenMoved,
        ..ask("o/r", 1, NOW)
    };
    let answer = look_one(&client, pass).await;
    assert!(matches!(
        known(&answer).found[0].state,
        ItemState::Merged { .. }
    ));
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_pass_does_not_look_for_pull_requests_until_an_issue_moves() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    server.pull_request("o/r", 2);
    let client = client(&server);
    let pass = || LinkAsk {
        found: FoundAsk::WhenMoved,
        ..ask("o/r", 1, NOW)
    };
    look_one(&client, pass()).await;
    assert_eq!(server.take_received().len(), 1);
    server.change("o/r", 1, |item| item.closing.push(("o/r".to_owned(), 2)));
    let answer = look_one(&client, pass()).await;
    assert_eq!(known(&answer).found.len(), 1);
    assert_eq!(server.take_received().len(), 2);
}

#[tokio::test]
async fn closed_reopened_closed_between_two_looks_is_the_last_state() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    let client = client(&server);
    look_one(&client, ask("o/r", 1, NOW)).await;
    server.close("o/r", 1, Some("COMPLETED"));
    server.reopen("o/r", 1);
    server.close("o/r", 1, Some("NOT_PLANNED"));
    let answer = look_one(&client, ask("o/r", 1, NOW)).await;
    assert!(matches!(
        known(&answer).item.state,
        ItemState::Closed {
            reason: CloseReason::NotPlanned,
            ..
        }
    ));
}

#[tokio::test]
async fn a_look_that_is_dropped_leaves_others_their_answers() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    server.issue("o/r", 2);
    server.fault("/graphql", Fault::Late(Duration::from_millis(200)), 1);
    let client = Arc::new(client(&server));
    let first = tokio::spawn({
        let client = Arc::clone(&client);
        async move { look_one(&client, ask("o/r", 1, FRESH)).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let others: Vec<_> = [1, 2]
        .into_iter()
        .map(|number| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { look_one(&client, ask("o/r", number, FRESH)).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    first.abort();
    for other in others {
        known(&other.await.unwrap());
    }
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn two_hosts_are_asked_at_the_same_time() {
    let [one, two] = [ScriptedGithub::start(), ScriptedGithub::start()];
    for server in [&one, &two] {
        server.issue("o/r", 1);
        server.fault("/graphql", Fault::Late(Duration::from_secs(1)), 1);
    }
    let enterprise = two.url().trim_start_matches("http://").to_owned();
    let environment: Environment = one
        .environment()
        .into_iter()
        .chain([("GH_ENTERPRISE_TOKEN", "e".to_owned())])
        .collect();
    let named: NamedHosts = [(enterprise.clone(), Some(two.enterprise_url()))].into();
    let client = GitHub::new(quick(), move |host| {
        HostAccess::resolve(host, &environment, &named, |_| None)
    });
    let mut other = ask("o/r", 1, FRESH);
    other.link.host = enterprise;
    let began = Instant::now();
    for answer in client.look(&[ask("o/r", 1, FRESH), other]).await {
        known(&answer);
    }
    assert!(began.elapsed() < Duration::from_millis(1800));
}

#[tokio::test]
async fn what_only_rest_finds_is_asked_for_with_its_validator() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    server.change("o/r", 1, |item| item.place = Place::RestOnly);
    let client = client(&server);
    known(&look_one(&client, ask("o/r", 1, NOW)).await);
    let answer = look_one(&client, ask("o/r", 1, NOW)).await;
    assert_eq!(known(&answer).item.state, ItemState::Open);
    let requests = server.received();
    assert!(!requests[1].headers.contains_key("if-none-match"));
    assert!(requests[3].headers.contains_key("if-none-match"));
}
