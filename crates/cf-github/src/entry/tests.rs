use test_case::test_case;

use super::*;
use crate::item::{Association, FoundPr, Item};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn entry(state: ItemState, read_at: i64) -> Entry {
    Entry {
        read_at: at(read_at),
        what: What::Is(Box::new(Seen {
            item: Arc::new(Item {
                node_id: "I_1".to_owned(),
                kind: LinkKind::Issue,
                repo: "o/r".parse().unwrap(),
                number: 1,
                title: String::new(),
                state,
                draft: false,
                updated_at: at(-1000),
            }),
            moved: false,
            found_at: None,
            found: Vec::new(),
            etag: None,
        })),
        talk: None,
        holes: None,
    }
}

fn gone(how: GoneHow, looks: u32) -> Entry {
    Entry {
        read_at: at(0),
        what: What::Gone { how, looks },
        talk: None,
        holes: None,
    }
}

fn want(now: i64, within: u64, proof: Proof) -> Want {
    Want {
        fresh_after: earlier(at(now), Duration::from_secs(within)),
        proof,
        comments: None,
        found: FoundAsk::Never,
    }
}

fn comment(id: &str, second: i64) -> Comment {
    Comment {
        id: id.to_owned(),
        author: None,
        by_bot: false,
        by_token_account: false,
        association: Association::Other,
        created_at: at(second),
        edited_at: None,
        minimized: false,
        body: String::new(),
        cut: false,
    }
}

const CLOSED: ItemState = ItemState::Closed {
    reason: CloseReason::Completed,
    at: Timestamp::UNIX_EPOCH,
};
const MERGED: ItemState = ItemState::Merged {
    at: Timestamp::UNIX_EPOCH,
};

#[test_case(ItemState::Open, 30 => false; "as old as the interval")]
#[test_case(ItemState::Open, 31 => true; "older")]
#[test_case(CLOSED, 31 => true; "an issue may be reopened")]
#[test_case(ItemState::ClosedUnmerged { at: Timestamp::UNIX_EPOCH }, 31 => true; "so may a pull request")]
#[test_case(MERGED, 80_000 => false; "merged is final")]
#[test_case(MERGED, 90_000 => true; "and looked at once a day")]
#[test_case(ItemState::Open, -30 => false; "a clock that is a little off")]
#[test_case(ItemState::Open, -90 => true; "an answer from the future")]
fn an_answer_is_due(state: ItemState, age: i64) -> bool {
    entry(state, 0).is_due(None, &want(age, 30, Proof::Listed), at(age))
}

#[test_case(Proof::Listed, 0, 90 => false; "a list has covered it")]
#[test_case(Proof::Exact, 0, 90 => true; "an exact look is asked for")]
#[test_case(Proof::Listed, 1, 90 => true; "read before the lists began")]
#[test_case(Proof::Listed, 0, 60 => true; "the list is too old as well")]
fn a_list_of_changes_renews_it(proof: Proof, base: i64, checked: i64) -> bool {
    let span = Span {
        base: at(base),
        checked_at: at(checked),
    };
    entry(ItemState::Open, 0).is_due(Some(&span), &want(100, 30, proof), at(100))
}

#[test_case(GoneHow::Invisible, 1 => 2; "the first looks follow by the interval")]
#[test_case(GoneHow::Forbidden, 2 => 2)]
#[test_case(GoneHow::Invisible, 3 => 600)]
#[test_case(GoneHow::Deleted, 4 => 1200)]
#[test_case(GoneHow::Deleted, 99 => 21_600; "six hours at most")]
#[test_case(GoneHow::Forbidden, 3 => 30; "a permission may be given")]
#[test_case(GoneHow::Forbidden, 99 => 1800)]
fn what_is_gone_is_looked_for_again(how: GoneHow, looks: u32) -> i64 {
    let entry = gone(how, looks);
    (1..30_000)
        .find(|second| entry.is_due(None, &want(*second, 1, Proof::Exact), at(*second)))
        .unwrap()
}

#[test]
fn comments_are_due_while_the_item_is_newer_than_what_is_stored() {
    let entry = entry(ItemState::Open, 0);
    for (seen, due) in [(None, true), (Some(-1001), true), (Some(-1000), false)] {
        let want = Want {
            comments: Some(CommentWant {
                since: None,
                last: 20,
                seen: seen.map(at),
            }),
            ..want(0, 30, Proof::Listed)
        };
        assert_eq!(entry.comments_due(&want), due, "{seen:?}");
    }
    assert!(!entry.comments_due(&want(0, 30, Proof::Listed)));
}

#[test_case(Some(5), 0, false => true; "all of them were read")]
#[test_case(Some(15), 0, true => true; "older than asked for is there")]
#[test_case(Some(10), 0, true => false; "the oldest may have a twin before it")]
#[test_case(None, 2, true => true; "as many as asked for")]
#[test_case(None, 3, true => false; "fewer")]
fn a_want_is_met(since: Option<i64>, last: u32, more: bool) -> bool {
    let want = CommentWant {
        since: since.map(at),
        last,
        seen: None,
    };
    want.is_met_by(&[comment("a", 10), comment("b", 20)], more)
}

#[test]
fn what_may_still_get_a_twin_is_read_again() {
    assert!(!Talk::settles(at(0), at(4)));
    assert!(Talk::settles(at(0), at(5)));
    assert!(!Talk::settles(at(0), at(-3)), "clocks differ");
    let talk = |settled| Talk {
        unread: 0,
        holes: None,
        updated_at: at(0),
        read_at: at(0),
        list: Vec::new().into(),
        more: false,
        cut: false,
        settled,
    };
    assert_eq!(talk(true).up_to(), at(0));
    assert_eq!(talk(false).up_to(), at(-1));
}

#[test_case(FoundAsk::Never, true, None => false)]
#[test_case(FoundAsk::WhenMoved, false, None => false)]
#[test_case(FoundAsk::WhenMoved, true, Some(0) => true)]
#[test_case(FoundAsk::Now, false, None => true)]
#[test_case(FoundAsk::Now, false, Some(0) => false)]
fn pull_requests_are_looked_for(found: FoundAsk, moved: bool, found_at: Option<i64>) -> bool {
    let mut entry = entry(ItemState::Open, 0);
    let What::Is(seen) = &mut entry.what else {
        unreachable!()
    };
    seen.moved = moved;
    seen.found_at = found_at.map(at);
    entry.found_due(&Want {
        found,
        ..want(0, 30, Proof::Listed)
    })
}

#[test]
fn an_issue_that_is_done_needs_no_pull_request() {
    let now = Want {
        found: FoundAsk::Now,
        ..want(0, 30, Proof::Listed)
    };
    assert!(!entry(CLOSED, 0).found_due(&now));
    let dropped = ItemState::Closed {
        reason: CloseReason::NotPlanned,
        at: Timestamp::UNIX_EPOCH,
    };
    assert!(entry(dropped, 0).found_due(&now));
    let pass = Want {
        found: FoundAsk::WhenMoved,
        ..want(0, 30, Proof::Listed)
    };
    assert!(entry(dropped, 0).found_due(&pass));
    assert!(!entry(ItemState::Open, 0).found_due(&pass));
}

#[test]
fn only_open_pull_requests_are_followed() {
    let mut entry = entry(ItemState::Open, 0);
    let What::Is(seen) = &mut entry.what else {
        unreachable!()
    };
    for (number, state) in [(2, ItemState::Open), (3, MERGED)] {
        seen.found.push(FoundPr {
            repo: "o/r".parse().unwrap(),
            number,
            state,
        });
    }
    let mut want = want(0, 30, Proof::Listed);
    assert_eq!(entry.followed(&want).count(), 0);
    want.found = FoundAsk::WhenMoved;
    let numbers: Vec<u64> = entry.followed(&want).map(|key| key.number).collect();
    assert_eq!(numbers, [2]);
}

#[test]
fn two_who_ask_for_comments_both_get_theirs() {
    let of = |since: Option<i64>, seen: Option<i64>, last| Want {
        comments: Some(CommentWant {
            since: since.map(at),
            last,
            seen: seen.map(at),
        }),
        ..want(0, 30, Proof::Listed)
    };
    let mut both = of(Some(50), Some(60), 0);
    both.merge(&of(Some(20), Some(30), 0));
    assert_eq!(both.comments, of(Some(20), Some(30), 0).comments);
    both.merge(&of(None, None, 20));
    assert_eq!(both.comments, of(Some(20), None, 20).comments);
}

#[test]
fn an_item_is_looked_up_whatever_the_case_of_its_repository() {
    use std::hash::{BuildHasher as _, RandomState};

    let hasher = RandomState::new();
    let key = |repo: &str, number| Key {
        repo: repo.parse().unwrap(),
        number,
    };
    let of = |key: &Key| hasher.hash_one(KeyRef::from(key));
    let kept = key("Some-Owner/a-long.Name_of-it", 7);
    for (repo, number, is_it) in [
        ("some-owner/A-LONG.name_of-it", 7, true),
        ("some-owner/a-long.name_of-it", 8, false),
        ("some-owner/a-long.name_of-is", 7, false),
    ] {
        let other = key(repo, number);
        assert_eq!(
            moka::Equivalent::equivalent(&KeyRef::from(&other), &kept),
            is_it,
            "{repo}"
        );
        assert_eq!(of(&other) == hasher.hash_one(&kept), is_it, "{repo}");
    }
}
