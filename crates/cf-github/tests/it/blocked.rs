//! What goes wrong with one item keeps no other from being read.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use cf_github::{Answer, CommentAsk, Comments, GitHub, LinkAsk, Settings};
use cf_testkit::github::{Fault, Place, ScriptedGithub};

use crate::{NOW, ask, client, client_with, known, look_one, quick, why, with_comments};

const SINCE_EVER: CommentAsk = CommentAsk {
    since: Some(jiff::Timestamp::UNIX_EPOCH),
    seen: None,
    last: 20,
};

fn talk(repo: &str, number: u64) -> LinkAsk {
    with_comments(ask(repo, number, NOW), SINCE_EVER)
}

#[track_caller]
fn told(answer: &Answer) -> usize {
    match &known(answer).comments {
        Comments::Read(read) => read.list.len(),
        other => panic!("not read: {other:?}"),
    }
}

#[track_caller]
fn untold(answer: &Answer) -> String {
    match &known(answer).comments {
        Comments::Unknown(why) => why.to_string(),
        other => panic!("not unknown: {other:?}"),
    }
}

#[tokio::test]
async fn a_look_that_fails_keeps_nobody_from_being_looked_for() {
    for fault in [
        Fault::status(502, "Bad Gateway", &[]),
        Fault::Huge(9_000_000),
        Fault::Reset,
    ] {
        let server = ScriptedGithub::start();
        for number in [1, 2, 9] {
            server.issue("o/r", number);
        }
        server.issue("o/new", 99);
        for number in [1, 2] {
            server.change("o/r", number, |item| item.place = Place::Hidden);
            server.fault(&format!("/issues/{number}"), fault.clone(), usize::MAX);
        }
        server.change("o/r", 9, |item| {
            item.place = Place::Moved("o/new".to_owned(), 99);
        });
        let client = client(&server);
        let asks = [1, 2, 9].map(|number| ask("o/r", number, NOW));
        for pass in 1..=3 {
            let answers = client.look(&asks).await;
            assert!(
                matches!(answers[2], Answer::Moved { .. }),
                "pass {pass}: {:?}",
                answers[2]
            );
            assert!(!why(&answers[0]).contains("not asked"), "{:?}", answers[0]);
        }
        let looks = server
            .received()
            .iter()
            .filter(|request| request.method == "GET")
            .count();
        assert_eq!(looks, 2 + 2, "each once, and where the last one went");
    }
}

/// One issue with many comments and one with one.
fn two_talks() -> ScriptedGithub {
    let server = crate::issues(2);
    for n in 0..50 {
        server.comment("o/r", 1, &format!("{n}"));
    }
    server.comment("o/r", 2, "here");
    server
}

#[tokio::test]
async fn older_comments_that_may_not_be_read_keep_nobody_elses_from_being_read() {
    for (fault, words) in [
        (Fault::status(403, "not accessible", &[]), "may not be read"),
        (
            Fault::body(
                r#"{"data":null,"errors":[{"message":"Field 'x' doesn't exist on type 'Issue'","extensions":{"code":"undefinedField"}}]}"#,
            ),
            "Field 'x'",
        ),
    ] {
        let server = two_talks();
        server.fault(
            "/graphql",
            Fault::Holding("$b:String!".to_owned(), Box::new(fault)),
            usize::MAX,
        );
        let client = client(&server);
        for _ in 0..2 {
            let answers = client.look(&[talk("o/r", 1), talk("o/r", 2)]).await;
            let why = untold(&answers[0]);
            assert!(why.contains(words), "{why}");
            assert!(!why.contains("UnknownField"), "{why}");
            assert_eq!(told(&answers[1]), 1);
        }
        server.heal();
        assert_eq!(told(&look_one(&client, talk("o/r", 1)).await), 50);
    }
}

/// Lets whatever asks for the comments of this issue go wrong.
async fn spoil(server: &ScriptedGithub, client: &GitHub, repo: &str, fault: Fault) {
    let id = known(&look_one(client, ask(repo, 1, NOW)).await)
        .item
        .node_id
        .clone();
    server.fault(
        "/graphql",
        Fault::Holding(format!("\"{id}\""), Box::new(fault)),
        usize::MAX,
    );
}

#[tokio::test]
async fn comments_that_are_too_much_by_themselves_keep_nobody_elses_from_being_read() {
    let server = ScriptedGithub::start();
    for number in 1..=6 {
        server.issue("o/r", number);
        server.comment("o/r", number, "here");
    }
    let client = client(&server);
    let too_much = Fault::body(
        r#"{"data":null,"errors":[{"type":"RESOURCE_LIMITS_EXCEEDED","message":"too much"}]}"#,
    );
    spoil(&server, &client, "o/r", too_much).await;
    for _ in 0..2 {
        let asks: Vec<LinkAsk> = (1..=6).map(|number| talk("o/r", number)).collect();
        let answers = client.look(&asks).await;
        let why = untold(&answers[0]);
        assert!(why.contains("too much"), "{why}");
        for answer in &answers[1..] {
            assert_eq!(told(answer), 1);
        }
    }
    assert_eq!(client.take_notices(), []);
}

#[tokio::test]
async fn comments_of_a_repository_that_may_not_be_read_keep_nobody_elses_from_being_read() {
    let server = ScriptedGithub::start();
    for repo in ["o/a", "o/b", "o/c"] {
        server.issue(repo, 1);
        server.comment(repo, 1, "here");
    }
    let client = client(&server);
    spoil(&server, &client, "o/b", Fault::status(403, "SSO", &[])).await;
    let answers = client
        .look(&[talk("o/a", 1), talk("o/b", 1), talk("o/c", 1)])
        .await;
    assert_eq!(told(&answers[0]), 1);
    let why = untold(&answers[1]);
    assert!(why.contains("may not be read"), "{why}");
    assert_eq!(told(&answers[2]), 1);
}

/// A pass of a second, with requests that take a third of one.
fn slow(server: &ScriptedGithub) -> GitHub {
    let late = Fault::Late(Duration::from_millis(300));
    server.fault("/graphql", late, usize::MAX);
    let settings = Settings {
        pass_limit: Duration::from_secs(1),
        ..quick()
    };
    client_with(server, settings)
}

#[tokio::test]
async fn a_pass_ends_in_time_and_the_next_one_begins_with_what_it_left() {
    let server = crate::issues(1200);
    let client = slow(&server);
    let asks: Vec<LinkAsk> = (1..=1200).map(|number| ask("o/r", number, NOW)).collect();
    let mut left: HashSet<usize> = (0..1200).collect();
    for pass in 1..=4 {
        let began = Instant::now();
        let answers = client.look(&asks).await;
        assert!(began.elapsed() < Duration::from_secs(2), "{pass}");
        let unknown: Vec<&Answer> = answers
            .iter()
            .filter(|answer| !matches!(answer, Answer::Known(_)))
            .collect();
        assert!(!unknown.is_empty(), "there is no time for all");
        assert_eq!(why(unknown[0]), "not asked yet");
        left.retain(|n| !matches!(answers[*n], Answer::Known(_)));
    }
    assert_eq!(left.len(), 0, "each had its turn");
}

#[tokio::test]
async fn comments_that_one_pass_has_no_time_for_are_read_on_by_the_next() {
    let server = crate::issues(2);
    for n in 0..300 {
        server.comment("o/r", 1, &format!("{n}"));
    }
    server.comment("o/r", 2, "here");
    let client = slow(&server);
    let asks = [talk("o/r", 1), talk("o/r", 2)];
    let mut passes = 0;
    loop {
        passes += 1;
        let began = Instant::now();
        let answers = client.look(&asks).await;
        assert!(began.elapsed() < Duration::from_secs(2), "{passes}");
        if let Comments::Read(read) = &known(&answers[0]).comments {
            let bodies: Vec<String> = read.list.iter().map(|one| one.body.clone()).collect();
            let all: Vec<String> = (0..300).map(|n| n.to_string()).collect();
            assert_eq!(bodies, all);
            assert_eq!(told(&answers[1]), 1);
            break;
        }
        assert!(passes < 9, "it gets nowhere: {:?}", answers[0]);
    }
    assert!(passes > 1);
}

/// Two items with more comments than a pass has time for.
fn with_two_long_talks() -> ScriptedGithub {
    let server = ScriptedGithub::start();
    for number in 1..=2 {
        server.issue("o/r", number);
        for n in 0..300 {
            server.comment("o/r", number, &format!("{n}"));
        }
    }
    server
}

#[tokio::test]
async fn of_two_whose_comments_a_pass_has_no_time_for_each_is_read_to_its_end() {
    let server = with_two_long_talks();
    let client = slow(&server);
    read_to_the_end(&client, &[talk("o/r", 1), talk("o/r", 2)]).await;
}

#[tokio::test]
async fn comments_that_were_begun_and_that_nobody_wants_any_more_are_in_nobodys_way() {
    let server = with_two_long_talks();
    let client = slow(&server);
    client.look(&[talk("o/r", 1)]).await;
    read_to_the_end(&client, &[talk("o/r", 2)]).await;
}

async fn read_to_the_end(client: &GitHub, asks: &[LinkAsk]) {
    let mut read = HashSet::new();
    for _ in 0..12 {
        let answers = client.look(asks).await;
        read.extend((0..asks.len()).filter(|n| has_300(&answers[*n])));
        if read.len() == asks.len() {
            return;
        }
    }
    panic!("read to the end: {read:?}");
}

fn has_300(answer: &Answer) -> bool {
    let Answer::Known(known) = answer else {
        return false;
    };
    matches!(&known.comments, Comments::Read(read) if read.list.len() == 300)
}
