use proptest::prelude::*;
use test_case::test_case;

use super::*;
use crate::item::{CloseReason, ItemState};

fn reply(body: &str) -> Reply {
    read(body.as_bytes()).unwrap()
}

fn part(numbers: &[u64], since: Option<i64>) -> RepoPart {
    RepoPart {
        repo: "o/r".parse().unwrap(),
        changed_since: since.map(|second| Timestamp::from_second(second).unwrap()),
        numbers: numbers.to_vec(),
    }
}

fn too_much(how: &str, named: bool) -> Whole {
    let how = how.to_owned();
    Whole::TooMuch { how, named }
}

#[test_case(r#"{"data":{"r0":null},"errors":[{"type":"NOT_FOUND"}]}"# => Whole::Data; "partial data")]
#[test_case(r#"{"data":{},"errors":[{"type":"RATE_LIMITED"}]}"# => Whole::Data; "the last good answer")]
#[test_case(r#"{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded"}]}"# => Whole::RateLimited; "used up")]
#[test_case(r#"{"errors":[{"message":"API rate limit already exceeded for user ID 1."}]}"# => Whole::RateLimited; "used up, without a type")]
#[test_case(r#"{"data":null,"errors":[{"message":"You have exceeded a secondary rate limit."}]}"# => Whole::SecondaryLimit; "secondary")]
#[test_case(r#"{"data":{"r0":{}},"errors":[{"type":"RESOURCE_LIMITS_EXCEEDED","message":"m"}]}"# => too_much("m", true); "resource limits with data")]
#[test_case(r#"{"data":null,"errors":[{"message":"timeout"}]}"# => too_much("timeout", false); "timeout")]
#[test_case(r#"{"data":null,"errors":[{"message":"Something went wrong while executing your query."}]}"# => too_much("Something went wrong while executing your query.", false); "went wrong")]
#[test_case(r#"{"data":null,"errors":[{"type":"FORBIDDEN","extensions":{"saml_failure":true}}]}"# => Whole::Forbidden; "single sign on")]
#[test_case(r#"{"errors":[{"extensions":{"code":"undefinedField"},"message":"Field 'x' doesn't exist"}]}"# => Whole::UnknownField("Field 'x' doesn't exist".into()); "an older server")]
#[test_case(r#"{"errors":[{"message":"Cannot query field \"x\" on type \"Issue\"."}]}"# => Whole::UnknownField("Cannot query field \"x\" on type \"Issue\".".into()); "another implementation")]
#[test_case(r#"{"data":"null","errors":[]}"# => Whole::Failed("a reply without data".into()); "null as a text")]
#[test_case(r#"{"message":"Server Error"}"# => Whole::Failed("Server Error".into()); "as REST says it")]
#[test_case(r#"{"errors":[5,null,{"path":5}]}"# => Whole::Failed("a reply without data".into()); "errors that are none")]
fn a_reply_as_a_whole(body: &str) -> Whole {
    reply(body).whole()
}

#[test_case("<html>")]
#[test_case("")]
#[test_case("null")]
#[test_case("[]")]
#[test_case(r#"{"data":{"r0""#; "truncated")]
fn no_reply(body: &str) {
    assert!(read(body.as_bytes()).is_err());
}

#[test]
fn each_item_is_told_by_itself() {
    let mut reply = reply(
        r#"{"data":{"r0":{"id":"R","nameWithOwner":"o/new",
            "i1":{"__typename":"Issue","id":"I1","number":1,"title":null,"state":"CLOSED","stateReason":null,"closedAt":"1970-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"},
            "i2":null,"i3":null,"i4":null,
            "i5":{"__typename":"Discussion"},
            "i6":{"__typename":"Issue","id":"I7","number":7,"state":"OPEN","updatedAt":"2026-01-01T00:00:00Z"},
            "i8":{"__typename":"PullRequest","id":"P8","number":8,"prState":"CLOSED","closedAt":"1970-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"},
            "i9":{"__typename":"Issue","id":"I9","number":9,"state":"OPEN","updatedAt":"yesterday"},
            "i10":"closed","i11":[]}},
          "errors":[{"type":"NOT_FOUND","path":["r0","i2"]},{"type":"FORBIDDEN","path":["r0","i3"]},
            {"message":"deep","path":["r0","i1","author"]}]}"#,
    );
    let told = items(&mut reply, &[part(&[1, 2, 3, 4, 5, 6, 8, 9, 10, 11], None)])
        .remove(0)
        .numbered;
    let Told::Is(first) = &told[&1] else {
        panic!("{:?}", told[&1])
    };
    assert_eq!(first.repo.to_string(), "o/new");
    assert_eq!(
        first.state,
        ItemState::Closed {
            reason: CloseReason::Unstated,
            at: Timestamp::UNIX_EPOCH
        }
    );
    assert_eq!(told[&2], Told::Missing);
    assert_eq!(told[&3], Told::Forbidden);
    assert!(!told.contains_key(&4), "null without an error says nothing");
    for number in [5, 6, 9, 10, 11] {
        assert!(matches!(told[&number], Told::Unreadable(_)), "{number}");
    }
    assert!(matches!(
        &told[&8],
        Told::Is(item) if item.state == ItemState::ClosedUnmerged { at: Timestamp::UNIX_EPOCH }
    ));
}

#[test_case(r#"[{"type":"NOT_FOUND","path":["r0"]}]"# => Some(Told::RepoMissing))]
#[test_case(r#"[{"type":"FORBIDDEN","path":["r0"]}]"# => Some(Told::Forbidden))]
#[test_case("[]" => None; "without a word")]
fn a_repository_that_is_null(errors: &str) -> Option<Told> {
    let mut reply = reply(&format!(r#"{{"data":{{"r0":null}},"errors":{errors}}}"#));
    items(&mut reply, &[part(&[1], None)])
        .remove(0)
        .numbered
        .remove(&1)
}

const OLD_PR: &str = r#"{"id":"P","number":2,"prState":"OPEN","updatedAt":"1970-01-01T00:01:00Z"}"#;

#[test_case("false", "false", "" => true; "both lists end")]
#[test_case("true", "false", "" => false; "more issues than a page")]
#[test_case("false", "true", OLD_PR => true; "pull requests go back far enough")]
#[test_case("false", "true", "" => false; "nothing to tell how far")]
#[test_case("null", "false", "" => false; "no word on it")]
fn a_list_is_complete(issues_more: &str, prs_more: &str, pr: &str) -> bool {
    let mut reply = reply(&format!(
        r#"{{"data":{{"r0":{{"issues":{{"pageInfo":{{"hasNextPage":{issues_more}}},"nodes":[]}},"pullRequests":{{"pageInfo":{{"hasNextPage":{prs_more}}},"nodes":[{pr}]}}}}}}}}"#
    ));
    let told = items(&mut reply, &[part(&[], Some(100))]).remove(0);
    told.changed.unwrap().complete
}

#[test]
fn an_error_within_a_list_makes_it_incomplete() {
    let mut reply = reply(
        r#"{"data":{"r0":{"issues":{"pageInfo":{"hasNextPage":false},"nodes":[]},"pullRequests":{"pageInfo":{"hasNextPage":false},"nodes":[]}}},
            "errors":[{"type":"FORBIDDEN","path":["r0","issues","nodes",3]}]}"#,
    );
    let told = items(&mut reply, &[part(&[], Some(100))]).remove(0);
    assert!(!told.changed.unwrap().complete);
}

const AT: Option<Timestamp> = Some(Timestamp::UNIX_EPOCH);
const MERGED: ItemState = ItemState::Merged {
    at: Timestamp::UNIX_EPOCH,
};

#[test_case("CLOSED", AT, AT => Some(MERGED); "closed with a time of merging")]
#[test_case("CLOSED", None, AT => Some(ItemState::ClosedUnmerged { at: Timestamp::UNIX_EPOCH }); "closed alone is never merged")]
#[test_case("CLOSED", None, None => None; "closed at no time")]
#[test_case("MERGED", AT, AT => Some(MERGED); "merged")]
#[test_case("MERGED", None, AT => None; "the state alone never says merged")]
#[test_case("OPEN", None, None => Some(ItemState::Open); "open")]
#[test_case("OPEN", AT, None => None; "open and merged")]
fn a_pull_request(
    state: &str,
    merged_at: Option<Timestamp>,
    closed_at: Option<Timestamp>,
) -> Option<ItemState> {
    pr_state(Some(state), merged_at, closed_at).ok()
}

#[test]
fn an_issue_that_was_closed_at_no_time_makes_no_sense() {
    assert!(issue_state(Some("CLOSED"), Some("COMPLETED"), None).is_err());
}

const CLOSED_ONE: &str = r#"{"__typename":"Issue","id":"I1","number":1,"title":"t","state":"CLOSED","stateReason":null,"closedAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}"#;

#[test_case(r#"["r0","i1"]"# => false; "the item")]
#[test_case(r#"["r0"]"# => false; "its repository")]
#[test_case(r#"["r0","i1","stateReason"]"# => false; "a field that decides")]
#[test_case(r#"["r0","i1","title"]"# => true; "another field")]
#[test_case(r#"["r0","i2"]"# => true; "another item")]
#[test_case("null" => true; "nothing")]
fn data_beside_an_error_about(path: &str) -> bool {
    let mut reply = reply(&format!(
        r#"{{"data":{{"r0":{{"nameWithOwner":"o/r","i1":{CLOSED_ONE}}}}},"errors":[{{"type":"INTERNAL","path":{path},"message":"something"}}]}}"#
    ));
    let told = items(&mut reply, &[part(&[1], None)])
        .remove(0)
        .numbered
        .remove(&1);
    match told {
        Some(Told::Is(_)) => true,
        Some(Told::Unreadable(_)) => false,
        other => panic!("{other:?}"),
    }
}

#[test_case("2999-01-01T00:00:00Z" => false; "after the latest time")]
#[test_case("2026-01-01T00:00:00Z" => true; "before it")]
fn a_closing_is_believed(at: &str) -> bool {
    let item = CLOSED_ONE.replace(
        r#""closedAt":"2026-01-01T00:00:00Z""#,
        &format!("\"closedAt\":\"{at}\""),
    );
    let mut reply = reply(&format!(
        r#"{{"data":{{"r0":{{"nameWithOwner":"o/r","i1":{item}}}}}}}"#
    ));
    reply.latest = "2026-06-01T00:00:00Z".parse().unwrap();
    let told = items(&mut reply, &[part(&[1], None)]);
    matches!(told[0].numbered[&1], Told::Is(_))
}

proptest! {
    #[test]
    fn no_body_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(mut reply) = read(&body) {
            let _ = reply.whole();
            let _ = items(&mut reply, &[part(&[1], Some(0))]);
        }
    }

    #[test]
    fn no_shape_makes_it_panic(body in json(), errors in json()) {
        let body = format!(r#"{{"data":{{"r0":{body},"c":{body},"f":{body},"node":{body}}},"errors":[{errors}]}}"#);
        let _ = items(&mut reply(&body), &[part(&[1], Some(0))]);
        let _ = details(&mut reply(&body));
        let _ = node(&mut reply(&body));
        let _ = reply(&body).whole();
    }
}

/// JSON with the names that matter in places where they may not belong.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null",
        "true",
        "5",
        "\"x\"",
        "\"Issue\"",
        "\"2026-01-01T00:00:00Z\"",
        "[]",
        "{}",
    ])
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 32, 6, |inner| {
        let name = prop::sample::select(vec![
            "i1",
            "issues",
            "pullRequests",
            "nodes",
            "pageInfo",
            "hasNextPage",
            "__typename",
            "id",
            "number",
            "state",
            "updatedAt",
            "comments",
            "author",
            "closedByPullRequestsReferences",
            "path",
            "type",
            "message",
            "extensions",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|list| format!("[{}]", list.join(","))),
            prop::collection::btree_map(name, inner, 0..6).prop_map(|map| {
                let fields: Vec<String> = map
                    .into_iter()
                    .map(|(name, value)| format!("\"{name}\":{value}"))
                    .collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

#[test]
fn fuzz_replies() {
    let corpus = [
        r#"{"data":{"r0":{"id":"R","nameWithOwner":"o/r","i1":{"__typename":"Issue","id":"I1","number":1,"title":"t","state":"CLOSED","stateReason":"COMPLETED","closedAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z","comments":{"nodes":[{"id":"C","body":"b","createdAt":"2026-01-01T00:00:00Z","author":{"login":"a"},"authorAssociation":"OWNER"}]}}},"rateLimit":{"cost":1,"remaining":2}}}"#,
        r#"{"errors":[{"type":"RATE_LIMITED","path":["r0","i1"],"message":"m"}],"data":null}"#,
        r#"{"message":"Not Found","number":5,"state":"closed","state_reason":"completed","pull_request":{"merged_at":null}}"#,
        "retry-after: 5",
    ];
    let words = [
        "null",
        "\"r0\":",
        "\"i1\":",
        "\"state\":\"OPEN\"",
        "[]",
        "{}",
        "\"nodes\":[",
        "\"closedAt\":",
        "-62135596801",
        "+292277022657-01-27T08:29:52Z",
    ];
    cf_testkit::fuzz("replies", &corpus, &words, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let headers = crate::pace::Headers::read(Timestamp::UNIX_EPOCH, |_| Some(&text));
        let _ = headers.budget(Timestamp::UNIX_EPOCH);
        let _ = crate::pace::classify(403, &headers, &text);
        let _ = crate::rest::read(200, &headers, bytes, Timestamp::UNIX_EPOCH);
        let _ = crate::rest::read(404, &headers, bytes, Timestamp::UNIX_EPOCH);
        let cleaned = crate::redact::redact(&text);
        assert_eq!(crate::redact::redact(&cleaned), cleaned, "once is enough");
        let parse = || read(bytes);
        match parse() {
            Ok(mut reply) => {
                let whole = format!("{:?}", reply.whole());
                let _ = items(&mut reply, &[part(&[1, 2], Some(0))]);
                if let Ok(mut again) = parse() {
                    let _ = details(&mut again);
                }
                if let Ok(mut again) = parse() {
                    let _ = node(&mut again);
                }
                whole
            }
            Err(error) => error,
        }
    });
}
