use proptest::prelude::*;
use test_case::test_case;

use super::*;

use ReconcileAction::{Fail, LogContext, None as Nothing, Requeue, Skip};

const ISSUE: LinkObservation = LinkObservation::new(LinkState::Issue(IssueState::Open));
const COMPLETED: LinkObservation = LinkObservation::new(LinkState::Issue(IssueState::Completed));
const UNREASONED: LinkObservation =
    LinkObservation::new(LinkState::Issue(IssueState::ClosedWithoutReason));
const NOT_PLANNED: LinkObservation = LinkObservation::new(LinkState::Issue(IssueState::NotPlanned));
const DUPLICATE: LinkObservation = LinkObservation::new(LinkState::Issue(IssueState::Duplicate));
const PR: LinkObservation = LinkObservation::new(LinkState::PullRequest(PullRequestState::Open));
const DRAFT: LinkObservation =
    LinkObservation::new(LinkState::PullRequest(PullRequestState::Draft));
const MERGED: LinkObservation =
    LinkObservation::new(LinkState::PullRequest(PullRequestState::Merged));
const CLOSED: LinkObservation =
    LinkObservation::new(LinkState::PullRequest(PullRequestState::Closed));
const GONE: LinkObservation = LinkObservation::new(LinkState::Gone);
const UNKNOWN: LinkObservation = LinkObservation::new(LinkState::Unknown);

const fn through_issue(link: LinkObservation) -> LinkObservation {
    LinkObservation {
        origin: Origin::ThroughIssue,
        ..link
    }
}

const fn stale(link: LinkObservation) -> LinkObservation {
    LinkObservation {
        freshness: Freshness::Stale,
        ..link
    }
}

const fn spent(link: LinkObservation) -> LinkObservation {
    link.overruled()
}

const fn after(caused: Caused, link: LinkObservation) -> LinkObservation {
    LinkObservation { caused, ..link }
}

const fn settling(settle: Settle, link: LinkObservation) -> LinkObservation {
    LinkObservation { settle, ..link }
}

const fn saying(new_comments: u32, link: LinkObservation) -> LinkObservation {
    LinkObservation {
        new_comments,
        ..link
    }
}

fn shown(decision: &Decision) -> String {
    let asks = decision
        .external_status
        .map(|status| format!(" -> {status}"))
        .unwrap_or_default();
    format!(
        "{} {} {}{asks}",
        decision.row, decision.action, decision.reason
    )
}

#[test_case(&[] => "1 NONE nothing new"; "no link")]
#[test_case(&[ISSUE] => "1 NONE nothing new"; "an open issue")]
#[test_case(&[saying(3, ISSUE)] => "2 LOG_CONTEXT 3 new comments"; "new comments")]
#[test_case(&[COMPLETED] => "3 SKIP issue closed -> DONE"; "g2 completed")]
#[test_case(&[UNREASONED] => "3 SKIP issue closed -> DONE"; "g2 without a reason")]
#[test_case(&[NOT_PLANNED] => "4 SKIP issue closed as not planned -> BACKLOG"; "g2 not planned")]
#[test_case(&[DUPLICATE] => "4 SKIP issue closed as duplicate -> BACKLOG"; "g2 duplicate")]
#[test_case(&[after(Caused::Skip, ISSUE)] => "5 REQUEUE issue reopened -> READY"; "reopened issue")]
#[test_case(&[PR] => "6 NONE nothing new"; "an open pull request")]
#[test_case(&[DRAFT] => "6 NONE nothing new"; "a draft")]
#[test_case(&[MERGED] => "7 SKIP pull request merged -> DONE"; "merged")]
#[test_case(&[CLOSED] => "8 FAIL pull request closed without merge -> FAILED"; "g1 closed unmerged")]
#[test_case(&[after(Caused::Fail, DRAFT)] => "9 REQUEUE pull request reopened -> READY"; "reopened pull request")]
#[test_case(&[GONE] => "10 NONE linked issue is gone"; "gone")]
#[test_case(&[UNKNOWN] => "12 NONE link could not be read"; "g5 g16 unknown")]
fn one_link(links: &[LinkObservation]) -> String {
    shown(&decide_links(links, ClosedUnmerged::Fail))
}

#[test_case(&[MERGED, PR] => "7 SKIP pull request merged -> DONE"; "g8 merged beside open")]
#[test_case(&[CLOSED, MERGED] => "7 SKIP pull request merged -> DONE"; "g8 merged beside closed")]
#[test_case(&[MERGED, UNKNOWN] => "7 SKIP pull request merged -> DONE"; "merged beside unknown")]
#[test_case(&[CLOSED, PR] => "6 NONE nothing new"; "closed beside open")]
#[test_case(&[CLOSED, UNKNOWN] => "12 NONE link could not be read"; "g4 closed beside unknown")]
#[test_case(&[CLOSED, GONE] => "8 FAIL pull request closed without merge -> FAILED"; "closed beside gone")]
#[test_case(&[COMPLETED, ISSUE, ISSUE] => "1 NONE nothing new"; "g18 one of three closed")]
#[test_case(&[NOT_PLANNED, COMPLETED] => "3 SKIP issue closed -> DONE"; "any completed is done")]
#[test_case(&[DUPLICATE, NOT_PLANNED] => "4 SKIP issue closed as duplicate -> BACKLOG"; "none completed")]
#[test_case(&[COMPLETED, UNKNOWN] => "12 NONE link could not be read"; "closed issue beside unknown")]
#[test_case(&[COMPLETED, GONE] => "3 SKIP issue closed -> DONE"; "closed issue beside gone")]
#[test_case(&[COMPLETED, PR] => "3 SKIP issue closed -> DONE"; "closed issue beside open pull request")]
#[test_case(&[ISSUE, CLOSED] => "8 FAIL pull request closed without merge -> FAILED"; "open issue beside closed pull request")]
#[test_case(&[COMPLETED, CLOSED] => "3 SKIP issue closed -> DONE"; "closed issue before closed pull request")]
#[test_case(&[ISSUE, through_issue(CLOSED)] => "6 NONE nothing new"; "g17 a strangers pull request")]
#[test_case(&[ISSUE, through_issue(MERGED)] => "7 SKIP pull request merged -> DONE"; "merged by a stranger")]
#[test_case(&[CLOSED, through_issue(PR)] => "8 FAIL pull request closed without merge -> FAILED"; "a stranger cannot keep it open")]
#[test_case(&[saying(1, COMPLETED), ISSUE] => "2 LOG_CONTEXT 1 new comment"; "a comment on a closed issue that does not act")]
#[test_case(&[saying(2, ISSUE), saying(3, PR)] => "2 LOG_CONTEXT 5 new comments"; "comments in two places")]
fn several_links(links: &[LinkObservation]) -> String {
    shown(&decide_links(links, ClosedUnmerged::Fail))
}

#[test_case(&[stale(COMPLETED)] => "12 NONE link could not be read"; "an old answer skips nothing")]
#[test_case(&[stale(MERGED)] => "12 NONE link could not be read"; "an old merge skips nothing")]
#[test_case(&[stale(CLOSED)] => "12 NONE link could not be read"; "an old answer fails nothing")]
#[test_case(&[COMPLETED, stale(COMPLETED)] => "12 NONE link could not be read"; "one old answer of two")]
#[test_case(&[stale(after(Caused::Skip, ISSUE))] => "12 NONE link could not be read"; "an old answer reopens nothing")]
#[test_case(&[stale(saying(2, ISSUE))] => "2 LOG_CONTEXT 2 new comments"; "comments are news however old")]
fn freshness(links: &[LinkObservation]) -> String {
    shown(&decide_links(links, ClosedUnmerged::Fail))
}

#[test_case(&[spent(COMPLETED)] => "1 NONE closed, but overruled"; "g19 the same closure")]
#[test_case(&[spent(MERGED)] => "6 NONE closed, but overruled"; "the same merge")]
#[test_case(&[spent(CLOSED)] => "6 NONE closed, but overruled"; "the same closed pull request")]
#[test_case(&[spent(MERGED), MERGED] => "7 SKIP pull request merged -> DONE"; "another merge")]
#[test_case(&[spent(NOT_PLANNED), COMPLETED] => "3 SKIP issue closed -> DONE"; "another closed issue")]
#[test_case(&[spent(COMPLETED), NOT_PLANNED] => "4 SKIP issue closed as not planned -> BACKLOG"; "an overruled completion says nothing")]
#[test_case(&[spent(CLOSED), CLOSED] => "8 FAIL pull request closed without merge -> FAILED"; "another closed pull request")]
#[test_case(&[saying(1, spent(COMPLETED))] => "2 LOG_CONTEXT 1 new comment"; "comments on what was overruled")]
fn a_closure_acts_once(links: &[LinkObservation]) -> String {
    shown(&decide_links(links, ClosedUnmerged::Fail))
}

#[test_case(&[settling(Settle::Waiting, COMPLETED)] => "1 NONE the agent may have changed the link"; "r5 the agent closed its issue")]
#[test_case(&[settling(Settle::Over, COMPLETED)] => "3 SKIP issue closed -> DONE"; "its time is over")]
#[test_case(&[settling(Settle::Waiting, CLOSED)] => "6 NONE the agent may have changed the link"; "the agent closed its pull request")]
#[test_case(&[settling(Settle::Waiting, MERGED)] => "6 NONE the agent may have changed the link"; "the agent merged")]
#[test_case(&[settling(Settle::Waiting, MERGED), CLOSED] => "6 NONE the agent may have changed the link"; "a merge that waits fails nothing")]
#[test_case(&[settling(Settle::Waiting, MERGED), MERGED] => "7 SKIP pull request merged -> DONE"; "a merge by somebody else")]
#[test_case(&[settling(Settle::Waiting, saying(1, COMPLETED))] => "2 LOG_CONTEXT 1 new comment"; "comments do not wait")]
#[test_case(&[settling(Settle::Waiting, ISSUE), COMPLETED] => "1 NONE nothing new"; "an open issue has nothing to settle")]
fn the_agent_has_time(links: &[LinkObservation]) -> String {
    shown(&decide_links(links, ClosedUnmerged::Fail))
}

#[test_case(ClosedUnmerged::Fail => "8 FAIL pull request closed without merge -> FAILED"; "fail")]
#[test_case(ClosedUnmerged::Block => "8 KILL pull request closed without merge -> BLOCKED"; "block")]
#[test_case(ClosedUnmerged::Ignore => "6 NONE nothing new"; "ignore")]
fn a_closed_pull_request_by_policy(policy: ClosedUnmerged) -> String {
    shown(&decide_links(&[CLOSED], policy))
}

#[test]
fn a_policy_reads_back_as_written() {
    for policy in ClosedUnmerged::ALL {
        assert_eq!(policy.to_string().parse(), Ok(*policy));
        let json = serde_json::to_string(policy).unwrap();
        assert_eq!(json, format!("\"{policy}\""));
    }
    assert!("FAIL".parse::<ClosedUnmerged>().is_err());
    assert_eq!(ClosedUnmerged::default(), ClosedUnmerged::Fail);
}

#[test]
fn reopening_resolves_the_question_and_lets_the_local_table_decide() {
    let reopened = after(Caused::Block, PR);
    assert!(reopened.resolves_question());
    assert!(!after(Caused::Block, CLOSED).resolves_question());
    assert!(!stale(reopened).resolves_question());
    assert_eq!(
        decide_links(&[reopened], ClosedUnmerged::Block).action,
        Nothing
    );
}

#[test]
fn comments_beside_a_skip_are_reported_too() {
    let links = [saying(2, COMPLETED)];
    assert_eq!(decide_links(&links, ClosedUnmerged::Fail).action, Skip);
    let context = new_context(&links).unwrap();
    assert_eq!(context.action, LogContext);
    assert_eq!(context.reason, Reason::NewComments(2));
    assert_eq!(
        new_context(&[COMPLETED, saying(2, UNKNOWN), saying(1, GONE)]),
        None
    );
}

fn some_links() -> impl Strategy<Value = Vec<LinkObservation>> {
    let all: Vec<LinkObservation> = LinkObservation::all().collect();
    proptest::collection::vec(proptest::sample::select(all), 0..5)
}

proptest! {
    #[test]
    fn not_knowing_never_acts(links in some_links(), policy in proptest::sample::select(ClosedUnmerged::ALL)) {
        let unread: Vec<_> = links.into_iter().map(|link| match link.state {
            LinkState::Gone | LinkState::Unknown => link,
            LinkState::Issue(_) | LinkState::PullRequest(_) => stale(link),
        }).collect();
        prop_assert!(decide_links(&unread, policy).action <= LogContext);
    }

    #[test]
    fn one_unknown_link_leaves_only_a_merge_to_skip_by(links in some_links()) {
        let mut links = links;
        links.push(UNKNOWN);
        let decision = decide_links(&links, ClosedUnmerged::Fail);
        prop_assert_ne!(decision.action, Fail);
        prop_assert!(decision.action != Skip || decision.reason == Reason::PullRequestMerged);
    }

    #[test]
    fn gone_links_do_not_count(links in some_links(), policy in proptest::sample::select(ClosedUnmerged::ALL)) {
        let there: Vec<_> = links.iter().copied().filter(|l| l.state != LinkState::Gone).collect();
        let (with, without) = (decide_links(&links, policy), decide_links(&there, policy));
        prop_assert_eq!((with.action, with.external_status), (without.action, without.external_status));
    }

    #[test]
    fn the_order_of_links_decides_nothing(
        (links, shuffled) in some_links().prop_flat_map(|l| (Just(l.clone()), Just(l).prop_shuffle())),
        policy in proptest::sample::select(ClosedUnmerged::ALL),
    ) {
        let (one, other) = (decide_links(&links, policy), decide_links(&shuffled, policy));
        prop_assert_eq!((one.action, one.external_status), (other.action, other.external_status));
    }

    #[test]
    fn strangers_never_fail_a_task(links in some_links(), policy in proptest::sample::select(ClosedUnmerged::ALL)) {
        let theirs: Vec<_> = links.into_iter().map(through_issue).collect();
        let decision = decide_links(&theirs, policy);
        prop_assert!(decision.reason != Reason::PullRequestClosed);
        prop_assert_ne!(decision.action, Fail);
    }

    #[test]
    fn what_was_overruled_never_acts_again(links in some_links(), policy in proptest::sample::select(ClosedUnmerged::ALL)) {
        let overruled: Vec<_> = links.into_iter().map(LinkObservation::overruled).collect();
        prop_assert!(decide_links(&overruled, policy).action <= LogContext);
    }

    #[test]
    fn requeue_needs_something_that_it_takes_back(links in some_links()) {
        let decision = decide_links(&links, ClosedUnmerged::Fail);
        if decision.action == Requeue {
            prop_assert!(links.iter().any(|l| l.caused != Caused::Nothing));
        }
    }
}
