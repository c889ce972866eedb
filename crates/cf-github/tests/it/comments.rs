//! New comments are told, each of them, and nothing is asked while nothing moves.

use std::collections::HashSet;

use cf_github::{Answer, CommentAsk, Comments, Read};
use cf_testkit::github::ScriptedGithub;

use crate::{FRESH, NOW, ask, client, known, look_one, with_comments};

const BASELINE: CommentAsk = CommentAsk {
    since: None,
    seen: None,
    last: 20,
};

#[track_caller]
fn read(answer: &Answer) -> &Read {
    match &known(answer).comments {
        Comments::Read(read) => read,
        other => panic!("not read: {other:?}"),
    }
}

#[tokio::test]
async fn the_first_look_brings_the_last_ones() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    for n in 1..=30 {
        server.comment("o/r", 1, &format!("comment {n}"));
    }
    let client = client(&server);
    let answer = look_one(&client, with_comments(ask("o/r", 1, FRESH), BASELINE)).await;
    let read = read(&answer);
    assert_eq!(read.list.len(), 20);
    assert_eq!(read.list[0].body, "comment 11");
    assert_eq!(read.list[19].body, "comment 30");
    assert!(read.more);
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn every_new_comment_is_told_whoever_wrote_it() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    server.comment("o/r", 1, "old");
    let client = client(&server);
    let answer = look_one(&client, with_comments(ask("o/r", 1, NOW), BASELINE)).await;
    let first = read(&answer).clone();
    let since = first.list.last().map(|comment| comment.created_at);
    let mut seen_ids: HashSet<String> = first.list.iter().map(|c| c.id.clone()).collect();

    // A hundred and one, two of them in the same second, one by a program, one by the token's own account, one edited.
    for n in 0..98 {
        server.comment("o/r", 1, &format!("new {n}"));
    }
    let twin = server.comment("o/r", 1, "twin");
    let mut at = 0;
    server.comment_by("o/r", 1, |comment| {
        at = comment.created_at - 1;
        comment.created_at = at;
    });
    let bot = server.comment_by("o/r", 1, |comment| {
        "Bot".clone_into(&mut comment.kind);
        comment.author = Some("ci[bot]".to_owned());
    });
    let own = server.comment_by("o/r", 1, |comment| comment.own = true);
    server.edit_comment("o/r", 1, &twin, "twin, better");

    let next = CommentAsk {
        since,
        seen: Some(first.up_to),
        last: 20,
    };
    let answer = look_one(&client, with_comments(ask("o/r", 1, NOW), next)).await;
    let told = read(&answer);
    assert!(!told.more);
    let fresh: Vec<_> = told
        .list
        .iter()
        .filter(|c| seen_ids.insert(c.id.clone()))
        .collect();
    assert_eq!(fresh.len(), 102);
    let by = |id: &str| fresh.iter().find(|comment| comment.id == id).unwrap();
    assert!(by(&bot).by_bot);
    assert!(by(&own).by_token_account && !by(&own).by_bot);
    assert!(by(&twin).edited_at.is_some());
}

#[tokio::test]
async fn until_the_caller_stored_them_they_are_told_again() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    let client = client(&server);
    server.comment("o/r", 1, "hello");
    let asked = || with_comments(ask("o/r", 1, FRESH), BASELINE);
    let answer = look_one(&client, asked()).await;
    let up_to = read(&answer).up_to;
    assert_eq!(server.take_received().len(), 2);
    // The caller died before its commit, or another caller asks.
    assert_eq!(read(&look_one(&client, asked()).await).list.len(), 1);
    assert_eq!(server.take_received().len(), 0, "they are in the cache");
    // It stored them.
    let stored = CommentAsk {
        seen: Some(up_to),
        ..BASELINE
    };
    // Within the same second more may come, so it may be told once more, from the cache.
    let answer = look_one(&client, with_comments(ask("o/r", 1, FRESH), stored)).await;
    match &known(&answer).comments {
        Comments::Unchanged => {}
        Comments::Read(read) => assert_eq!(read.list.len(), 1),
        other => panic!("{other:?}"),
    }
    assert_eq!(server.take_received().len(), 0);
}

#[tokio::test]
async fn a_comment_in_the_same_second_as_the_last_look_is_not_lost() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    let client = client(&server);
    let mut at = 0;
    server.comment_by("o/r", 1, |comment| at = comment.created_at);
    let answer = look_one(&client, with_comments(ask("o/r", 1, NOW), BASELINE)).await;
    let first = read(&answer).clone();
    // Written within the second in which the look read the item: `updatedAt` stays.
    let late = server.comment_by("o/r", 1, |comment| comment.created_at = at);
    server.back_to("o/r", 1, at);
    let next = CommentAsk {
        since: first.list.last().map(|comment| comment.created_at),
        seen: Some(first.up_to),
        last: 20,
    };
    let answer = look_one(&client, with_comments(ask("o/r", 1, NOW), next)).await;
    assert!(read(&answer).list.iter().any(|comment| comment.id == late));
}

#[tokio::test]
async fn nothing_is_asked_about_comments_while_nothing_moves() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    let client = client(&server);
    let answer = look_one(&client, with_comments(ask("o/r", 1, NOW), BASELINE)).await;
    let stored = CommentAsk {
        since: None,
        seen: Some(read(&answer).up_to),
        last: 20,
    };
    server.take_received();
    for _ in 0..3 {
        let answer = look_one(&client, with_comments(ask("o/r", 1, NOW), stored)).await;
        assert!(matches!(known(&answer).comments, Comments::Unchanged));
    }
    assert_eq!(server.take_received().len(), 3);
}

#[tokio::test]
async fn a_long_text_is_cut_and_a_ghost_has_no_name() {
    let server = ScriptedGithub::start();
    server.issue("o/r", 1);
    server.comment_by("o/r", 1, |comment| {
        comment.author = None;
        comment.body = "ä".repeat(60_000);
    });
    let client = client(&server);
    let answer = look_one(&client, with_comments(ask("o/r", 1, FRESH), BASELINE)).await;
    let comment = &read(&answer).list[0];
    assert_eq!(comment.author, None);
    assert!(comment.cut);
    assert_eq!(comment.body.len(), 4096);
}
