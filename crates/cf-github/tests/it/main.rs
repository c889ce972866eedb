//! The client against the scripted GitHub, on loopback.

mod answers;
mod blocked;
mod comments;
mod counts;
mod faults;
mod import;
mod kept;
mod lies;
mod real_rest;
mod real_schema;
mod tls;
mod tokens;

use std::time::Duration;

use cf_core::{Link, LinkKind};
use cf_github::{
    Answer, CommentAsk, Environment, FoundAsk, GitHub, HostAccess, Known, LinkAsk, NamedHosts,
    Patience, Proof, Settings,
};
use cf_testkit::github::ScriptedGithub;

/// Longer than any test.
const FRESH: Duration = Duration::from_mins(10);
/// Nothing is fresh enough.
const NOW: Duration = Duration::ZERO;

/// Settings with short waits; the floor stays as it is.
fn quick() -> Settings {
    Settings {
        patience: Patience {
            first_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(1),
            ..Patience::default()
        },
        limits: cf_github::Limits {
            timeout: Duration::from_secs(5),
            ..cf_github::Limits::default()
        },
        retry_delay: Duration::from_millis(50),
        ..Settings::default()
    }
}

/// A client that takes the server for github.com.
fn client(server: &ScriptedGithub) -> GitHub {
    client_with(server, quick())
}

fn client_with(server: &ScriptedGithub, settings: Settings) -> GitHub {
    let environment: Environment = server.environment().into_iter().collect();
    GitHub::new(settings, move |host| {
        HostAccess::resolve(host, &environment, &NamedHosts::new(), |_| None)
    })
}

fn link(repo: &str, number: u64) -> Link {
    Link::parse(&format!("{repo}#{number}"), LinkKind::Issue, "github.com")
        .expect("the test names a link")
}

fn ask(repo: &str, number: u64, fresh_within: Duration) -> LinkAsk {
    LinkAsk::state(link(repo, number), fresh_within)
}

/// Asks as a task that is about to start does.
fn exact(repo: &str, number: u64) -> LinkAsk {
    LinkAsk {
        proof: Proof::Exact,
        found: FoundAsk::Now,
        ..ask(repo, number, NOW)
    }
}

fn with_comments(ask: LinkAsk, comments: CommentAsk) -> LinkAsk {
    LinkAsk {
        comments: Some(comments),
        ..ask
    }
}

/// A server with so many open issues in `o/r`.
fn issues(count: u64) -> ScriptedGithub {
    let server = ScriptedGithub::start();
    for number in 1..=count {
        server.issue("o/r", number);
    }
    server
}

/// Asks about all of them anew.
fn asks(count: u64) -> Vec<LinkAsk> {
    (1..=count).map(|number| ask("o/r", number, NOW)).collect()
}

async fn look_one(client: &GitHub, ask: LinkAsk) -> Answer {
    client
        .look(&[ask])
        .await
        .pop()
        .expect("one answer for one ask")
}

#[track_caller]
fn known(answer: &Answer) -> &Known {
    match answer {
        Answer::Known(known) => known,
        other => panic!("not known: {other:?}"),
    }
}

#[track_caller]
fn why(answer: &Answer) -> String {
    match answer {
        Answer::Unknown { why, .. } => why.to_string(),
        other => panic!("not unknown: {other:?}"),
    }
}
