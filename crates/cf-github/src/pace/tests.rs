use std::time::Duration;

use proptest::prelude::*;
use test_case::test_case;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn patience() -> Patience {
    Patience::default()
}

/// Headers as a server sends them at `second` by its own clock.
fn headers(second: i64, lines: &[(&'static str, &str)]) -> Headers {
    let date = at(second).strftime_http();
    let mut lines: Vec<(&str, String)> = lines
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    lines.push(("date", date));
    Headers::read(at(0), |name| {
        lines
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
    })
}

trait HttpDate {
    fn strftime_http(self) -> String;
}

impl HttpDate for Timestamp {
    fn strftime_http(self) -> String {
        jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&self)
            .unwrap()
    }
}

fn budget(remaining: u32, resets_in: i64) -> Headers {
    Headers {
        date: Some(at(0)),
        limit: Some(5000),
        remaining: Some(remaining),
        reset: Some(at(resets_in).as_second()),
        resource: Some(Resource::Graphql),
        ..Headers::default()
    }
}

fn after(pace: &mut Pace, signal: &Signal, headers: &Headers, second: i64) -> Option<NoticeKind> {
    pace.after(
        Resource::Graphql,
        signal,
        headers,
        &patience(),
        at(second),
        0.0,
    )
}

fn wait(pace: &Pace, second: i64) -> Option<i64> {
    match pace.gate(Resource::Graphql, &patience(), at(second)) {
        Gate::Go => None,
        Gate::Wait { until, .. } => Some(until.as_second() - at(second).as_second()),
        Gate::Off => Some(-1),
    }
}

fn failed() -> Signal {
    Signal::Failed("no".to_owned())
}

#[test_case(200, &[], "" => Signal::Answered)]
#[test_case(304, &[], "" => Signal::Answered; "not modified")]
#[test_case(401, &[], "Bad credentials" => Signal::Rejected)]
#[test_case(403, &[("x-ratelimit-remaining", "0")], "API rate limit exceeded" => Signal::RateLimited; "no budget left")]
#[test_case(429, &[("x-ratelimit-remaining", "0")], "" => Signal::RateLimited; "no budget left, 429")]
#[test_case(403, &[("x-ratelimit-remaining", "0")], "You have exceeded a secondary rate limit" => Signal::SecondaryLimit; "secondary by its words")]
#[test_case(403, &[], "You have triggered an abuse detection mechanism" => Signal::SecondaryLimit; "its older words")]
#[test_case(403, &[("retry-after", "30")], "" => Signal::SecondaryLimit; "named a time")]
#[test_case(429, &[], "" => Signal::SecondaryLimit; "429 alone")]
#[test_case(403, &[], "API rate limit exceeded for user" => Signal::RateLimited; "a server without headers")]
#[test_case(403, &[("x-ratelimit-remaining", "42")], "Resource not accessible" => Signal::Forbidden; "a permission")]
#[test_case(403, &[("x-github-sso", "required; url=https://x")], "" => Signal::Forbidden; "single sign on")]
#[test_case(500, &[], "" => Signal::Failed("GitHub answered 500".into()))]
fn a_reply_means(status: u16, lines: &[(&'static str, &str)], message: &str) -> Signal {
    classify(status, &headers(0, lines), message)
}

#[test_case("30" => Some(30); "seconds")]
#[test_case(" 30 " => Some(30); "spaces")]
#[test_case("0" => Some(1); "at least a second")]
#[test_case("86400" => Some(3600); "at most an hour")]
#[test_case("-5" => None; "negative")]
#[test_case("soon" => None; "a word")]
#[test_case("99999999999999999999999" => None; "absurd")]
fn retry_after(text: &str) -> Option<u64> {
    headers(0, &[("retry-after", text)])
        .retry_after
        .map(|wait| wait.as_secs())
}

#[test_case(0; "clocks agree")]
#[test_case(7200; "the server is ahead")]
#[test_case(-7200; "the server is behind")]
fn a_date_is_compared_with_the_servers_own(skew: i64) {
    let later = at(skew + 90).strftime_http();
    let headers = headers(skew, &[("retry-after", &later)]);
    assert_eq!(headers.retry_after, Some(Duration::from_secs(90)));
}

#[test_case("1800000300" => Some(300); "in five minutes")]
#[test_case("1799999999" => Some(0); "past")]
#[test_case("4102444800" => Some(3600); "far away")]
#[test_case("never" => None; "unreadable")]
fn the_budget_resets_in(reset: &str) -> Option<i64> {
    let lines = [
        ("x-ratelimit-limit", "5000"),
        ("x-ratelimit-remaining", "10"),
        ("x-ratelimit-reset", reset),
    ];
    let budget = headers(0, &lines).budget(at(0))?;
    Some(budget.resets_at.as_second() - at(0).as_second())
}

#[test]
fn a_new_host_may_be_asked() {
    assert_eq!(wait(&Pace::default(), 0), None);
}

#[test]
fn the_reserve_is_left_and_the_reset_ends_the_wait() {
    let mut pace = Pace::default();
    assert_eq!(
        after(&mut pace, &Signal::Answered, &budget(1001, 600), 0),
        None
    );
    assert_eq!(wait(&pace, 0), None);
    let notice = after(&mut pace, &Signal::Answered, &budget(1000, 600), 0);
    assert!(matches!(
        notice,
        Some(NoticeKind::Opened {
            why: Trouble::Reserve,
            ..
        })
    ));
    assert_eq!(wait(&pace, 0), Some(601));
    assert_eq!(wait(&pace, 602), None);
    assert_eq!(
        after(&mut pace, &Signal::Answered, &budget(4999, 4200), 602),
        Some(NoticeKind::Closed)
    );
}

#[test]
fn the_last_good_answer_is_a_good_answer() {
    let mut pace = Pace::default();
    after(&mut pace, &Signal::Answered, &budget(0, 300), 0);
    assert_eq!(wait(&pace, 0), Some(301));
}

#[test]
fn a_used_up_limit_waits_for_the_reset_with_jitter() {
    for (jitter, seconds) in [(0.0, 1801), (1.0, 1806)] {
        let mut pace = Pace::default();
        pace.after(
            Resource::Graphql,
            &Signal::RateLimited,
            &budget(0, 1800),
            &patience(),
            at(0),
            jitter,
        );
        assert_eq!(wait(&pace, 0), Some(seconds));
    }
}

#[test]
fn rest_used_up_leaves_graphql_alone() {
    let mut pace = Pace::default();
    let headers = Headers {
        resource: Some(Resource::Core),
        ..budget(0, 900)
    };
    let notice = pace.after(
        Resource::Core,
        &Signal::RateLimited,
        &headers,
        &patience(),
        at(0),
        0.0,
    );
    assert_eq!(notice, None);
    assert_eq!(wait(&pace, 0), None);
    assert!(matches!(
        pace.gate(Resource::Core, &patience(), at(0)),
        Gate::Wait { .. }
    ));
}

#[test]
fn secondary_limits_grow_and_three_in_a_row_are_an_hour() {
    let mut pace = Pace::default();
    let mut waits = Vec::new();
    let mut notices = 0;
    let mut now = 0;
    for _ in 0..4 {
        notices += usize::from(
            after(&mut pace, &Signal::SecondaryLimit, &Headers::default(), now).is_some(),
        );
        let seconds = wait(&pace, now).unwrap();
        waits.push(seconds);
        now += seconds;
    }
    assert_eq!(waits, [61, 121, 3600, 3600]);
    assert_eq!(notices, 1);
}

#[test]
fn failures_back_off_to_a_limit_and_are_told_once() {
    let mut pace = Pace::default();
    let mut waits = Vec::new();
    let mut notices = 0;
    let mut now = 0;
    for _ in 0..10 {
        notices += usize::from(after(&mut pace, &failed(), &Headers::default(), now).is_some());
        let seconds = wait(&pace, now).unwrap();
        waits.push(seconds);
        now += seconds;
        assert_eq!(wait(&pace, now), None, "it half-opens by itself");
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(notices, 1);
    assert_eq!(
        after(&mut pace, &Signal::Answered, &Headers::default(), now),
        Some(NoticeKind::Closed)
    );
    assert_eq!(
        after(&mut pace, &Signal::Answered, &Headers::default(), now),
        None
    );
}

#[test]
fn a_rejected_token_is_off_and_told_once() {
    let mut pace = Pace::default();
    assert!(after(&mut pace, &Signal::Rejected, &Headers::default(), 0).is_some());
    assert_eq!(
        after(&mut pace, &Signal::Rejected, &Headers::default(), 0),
        None
    );
    assert_eq!(
        pace.gate(Resource::Graphql, &patience(), at(99_999)),
        Gate::Off
    );
    let saved = serde_json::to_string(&pace).unwrap();
    let next: Pace = serde_json::from_str(&saved).unwrap();
    assert_eq!(
        wait(&next, 1),
        None,
        "the next process may have a better one"
    );
}

#[test]
fn a_clock_that_was_set_back_does_not_wait_for_days() {
    let mut pace = Pace::default();
    after(&mut pace, &Signal::SecondaryLimit, &Headers::default(), 0);
    assert_eq!(wait(&pace, -86_400), None);
}

#[test]
fn what_another_process_learned_later_is_believed() {
    let mut mine = Pace::default();
    let mut theirs = Pace::default();
    after(&mut theirs, &failed(), &budget(4000, 600), 5);
    assert!(matches!(
        mine.merge(&theirs),
        Some(NoticeKind::Opened { .. })
    ));
    assert!(wait(&mine, 5).is_some());
    assert_eq!(mine.budget(Resource::Graphql).unwrap().remaining, 4000);
    assert_eq!(mine.merge(&theirs), None);

    let old = mine.clone();
    after(&mut theirs, &Signal::Answered, &budget(3999, 600), 9);
    assert_eq!(mine.merge(&theirs), Some(NoticeKind::Closed));
    assert_eq!(wait(&mine, 9), None);
    assert_eq!(mine.merge(&old), None);
    assert_eq!(wait(&mine, 9), None, "what is older changes nothing");
}

#[test_case(4000, 1, 3600 => 30; "plenty")]
#[test_case(1060, 1, 3600 => 60; "sixty passes for an hour")]
#[test_case(1060, 10, 3600 => 600; "six passes for an hour")]
#[test_case(1000, 1, 1200 => 1200; "nothing but the reserve")]
#[test_case(1060, 10, -5 => 30; "it has been reset")]
fn the_interval_is_stretched(remaining: u32, cost: u32, resets_in: i64) -> u64 {
    let mut pace = Pace::default();
    after(
        &mut pace,
        &Signal::Answered,
        &budget(remaining, resets_in),
        0,
    );
    pace.interval(Duration::from_secs(30), cost, &patience(), at(0))
        .as_secs()
}

proptest! {
    /// Whatever headers say, a wait is between a second and an hour (and the jitter), and ends.
    #[test]
    fn every_wait_ends(
        status in prop::sample::select(vec![200_u16, 401, 403, 404, 429, 500, 502, 503]),
        retry in prop::option::of("[0-9]{1,22}|[A-Za-z, 0-9:]{0,30}"),
        remaining in prop::option::of(any::<u32>()),
        limit in prop::option::of(any::<u32>()),
        reset in prop::option::of(any::<i64>()),
        jitter in any::<f64>(),
        times in 1_usize..6,
    ) {
        let [remaining, limit, reset] = [
            remaining.map(|n| n.to_string()),
            limit.map(|n| n.to_string()),
            reset.map(|n| n.to_string()),
        ];
        let headers = Headers::read(at(0), |name| match name {
            "retry-after" => retry.as_deref(),
            "x-ratelimit-remaining" => remaining.as_deref(),
            "x-ratelimit-limit" => limit.as_deref(),
            "x-ratelimit-reset" => reset.as_deref(),
            _ => None,
        });
        let mut pace = Pace::default();
        let signal = classify(status, &headers, "");
        for _ in 0..times {
            pace.after(Resource::Graphql, &signal, &headers, &patience(), at(0), jitter);
        }
        match pace.gate(Resource::Graphql, &patience(), at(0)) {
            Gate::Go => {}
            Gate::Off => prop_assert_eq!(status, 401),
            Gate::Wait { until, .. } => {
                let wait = until.as_second() - at(0).as_second();
                prop_assert!((0..=3600).contains(&wait), "{}", wait);
                prop_assert_eq!(pace.gate(Resource::Graphql, &patience(), at(3700)), Gate::Go);
            }
        }
    }
}
