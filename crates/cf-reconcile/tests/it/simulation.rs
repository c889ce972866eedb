//! One task, played through against an outside world that stands still: decide, merge, plan, apply, again and again.
//!
//! The model applies effects as the contract says the conductor does: the status that a source asks for is written with
//! the intent, the end of a stop is verified by the next pass, and no agent is started.

use cf_core::{Outcome, TaskStatus};
use cf_reconcile::{
    AfterEnd, AfterStop, AskGrace, Believed, Blockers, Caused, ClosedUnmerged, Closure, Effect,
    Evidence, IssueState, LinkObservation, LinkState, LocalObservation, Merged, OpenBlockers,
    PullRequestState, Reason, ReconcileAction, ReconciliationResult, SinceHold, SourceName, Stored,
    Writer, Written, WrittenSince, decide, decide_links, merge, new_context, plan, settles,
};
use proptest::prelude::*;

/// More passes than any task may need before it stands still.
const PATIENCE: usize = 8;

/// How many passes may change something.
const MOST_CHANGES: usize = 3;

#[derive(Clone, Debug)]
struct World {
    seen: LocalObservation,
    /// Why the task has its outcome, is held, or is being stopped.
    reason: Reason,
    links: Vec<LinkObservation>,
    policy: ClosedUnmerged,
    after: AfterStop,
    /// Whether the question about a closed pull request is open.
    asked: bool,
}

impl World {
    fn new(
        seen: LocalObservation,
        reason: Reason,
        links: Vec<LinkObservation>,
        policy: ClosedUnmerged,
    ) -> Self {
        Self {
            seen,
            reason,
            links,
            policy,
            after: AfterStop::DecideAgain,
            asked: false,
        }
    }

    /// One pass; returns what it did, for a task and its comments.
    fn pass(&mut self) -> Vec<Effect> {
        let mut done = Vec::new();
        if self.seen.believed == Believed::Stopping {
            done.push(Effect::StopThen(self.after));
            match self.after.then(WrittenSince::Nobody) {
                AfterEnd::Finish(outcome) => {
                    self.finish(outcome);
                    return done;
                }
                AfterEnd::DecideAgain => self.seen.believed = Believed::Queued,
            }
        }
        let Some(merged) = self.findings() else {
            return done;
        };
        let effect = plan(merged.winner.action, self.seen.believed.phase());
        let contexts = merged.contexts().count();
        if effect != Effect::Nothing {
            done.push(effect);
            self.apply(effect, &merged.winner);
        }
        if contexts > 0 {
            done.push(Effect::StoreContext);
            self.read_comments();
        }
        done
    }

    fn findings(&mut self) -> Option<Merged> {
        let believed = self.seen.believed.phase();
        let finding = |decision, source| {
            ReconciliationResult::new(
                "00000000-0000-0000-0000-000000000000"
                    .parse()
                    .expect("a UUID"),
                self.seen.stored.status(),
                believed,
                decision,
                source,
                Evidence::None,
            )
        };
        let local = decide(&self.seen);
        let mut findings = vec![finding(local.clone(), SourceName::Local)];
        if !settles(local.action) {
            for link in &mut self.links {
                link.caused = if self.asked {
                    Caused::Block
                } else {
                    Caused::of(self.seen.believed, &self.reason)
                };
                let by_hand = matches!(local.reason, Reason::Reopened | Reason::UnblockedByHand);
                let answered =
                    local.reason == Reason::BlockersResolved && link.caused == Caused::Block;
                if by_hand || answered {
                    *link = link.overruled();
                }
            }
            let decision = decide_links(&self.links, self.policy);
            let context =
                new_context(&self.links).filter(|_| decision.action != ReconcileAction::LogContext);
            findings.push(finding(decision, SourceName::Github));
            findings.extend(context.map(|context| finding(context, SourceName::Github)));
        }
        merge(findings)
    }

    fn apply(&mut self, effect: Effect, winner: &ReconciliationResult) {
        let by_link = winner.source == SourceName::Github;
        if let (Some(asked), Stored::Status(stored)) = (winner.external_status, self.seen.stored)
            && asked != stored
            && stored != TaskStatus::Merged
        {
            self.seen.stored = Stored::Status(asked);
            // What a tracker says is written in its name, and is news like anybody else's.
            self.seen.writer = if by_link { Writer::Other } else { Writer::Own };
        }
        if effect != Effect::StoreContext && effect != Effect::StoreContextLive {
            self.reason = winner.reason.clone();
        }
        if by_link && winner.action == ReconcileAction::Kill {
            self.seen.blockers.open = OpenBlockers::Some;
            self.asked = true;
        }
        match effect {
            Effect::Nothing => {}
            Effect::DropFromQueue | Effect::FinishSkipped => self.finish(Outcome::Skipped),
            Effect::FinishFailed => self.finish(Outcome::Failed),
            Effect::StopThen(after) => {
                self.seen.believed = Believed::Stopping;
                self.after = after;
            }
            Effect::Hold => {
                self.seen.believed = Believed::Held;
                self.seen.blockers.since_hold = SinceHold::Nothing;
            }
            Effect::BackToQueue => {
                self.seen.believed = Believed::Queued;
                self.seen.blockers = Blockers::NONE;
                self.asked = false;
            }
            Effect::StoreContext | Effect::StoreContextLive => self.read_comments(),
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        self.seen.believed = Believed::Finished(outcome);
        self.seen.written = Written::BeforeOutcome;
    }

    fn read_comments(&mut self) {
        for link in &mut self.links {
            link.new_comments = 0;
        }
    }

    /// How many passes changed something before one changed nothing.
    fn passes_until_it_stands_still(mut self) -> Option<usize> {
        (0..PATIENCE).find(|_| self.pass().is_empty())
    }
}

/// The cells of the local table without those that differ only in what no row of their phase asks.
fn cells() -> impl Iterator<Item = LocalObservation> {
    LocalObservation::all().filter(|seen| {
        let finished = matches!(seen.believed, Believed::Finished(_));
        (finished || seen.written == Written::BeforeOutcome)
            && (seen.believed == Believed::Running || seen.ask_grace == AskGrace::Running)
            && (seen.believed == Believed::Held || seen.blockers.since_hold == SinceHold::Nothing)
    })
}

/// No link, and one link in every state, new and spent, with and without comments.
fn link_sets() -> Vec<Vec<LinkObservation>> {
    let mut sets = vec![Vec::new()];
    for state in LinkState::ALL {
        for closure in Closure::ALL {
            for new_comments in [0, 2] {
                sets.push(vec![LinkObservation {
                    closure: *closure,
                    new_comments,
                    ..LinkObservation::new(*state)
                }]);
            }
        }
    }
    sets
}

/// Why a task may stand where it stands, as far as a source asks: a link's closure, or anything else.
const REASONS: [Reason; 3] = [
    Reason::NothingNew,
    Reason::IssueClosed,
    Reason::PullRequestClosed,
];

/// Every world with at most one link.
fn worlds() -> impl Iterator<Item = World> {
    link_sets().into_iter().flat_map(|links| {
        ClosedUnmerged::ALL.iter().flat_map(move |policy| {
            let links = links.clone();
            REASONS.iter().flat_map(move |reason| {
                let links = links.clone();
                cells().map(move |seen| World::new(seen, reason.clone(), links.clone(), *policy))
            })
        })
    })
}

fn believing(believed: Believed) -> impl Iterator<Item = World> {
    worlds().filter(move |world| world.seen.believed == believed)
}

#[test]
fn every_task_settles_in_three_passes() {
    for world in worlds() {
        let passes = world.clone().passes_until_it_stands_still();
        assert!(
            passes.is_some_and(|passes| passes <= MOST_CHANGES),
            "{passes:?} passes: {world:?}"
        );
    }
}

#[test]
fn while_stopping_nothing_is_applied() {
    for mut world in believing(Believed::Stopping) {
        let merged = world.findings().unwrap();
        assert_eq!(
            plan(merged.winner.action, world.seen.believed.phase()),
            Effect::Nothing
        );
    }
}

#[test]
fn a_running_agent_is_stopped_by_skip_fail_and_kill_only() {
    for mut world in believing(Believed::Running) {
        let action = world.findings().unwrap().winner.action;
        let stopped = world.pass().iter().any(|effect| effect.stops_agent());
        assert_eq!(stopped, action >= ReconcileAction::Kill, "{world:?}");
    }
}

#[test]
fn a_skipped_task_goes_back_only_if_it_was_reopened() {
    for mut world in believing(Believed::Finished(Outcome::Skipped)) {
        let before = world.clone();
        world.pass();
        if world.seen.believed != before.seen.believed {
            let reasons = [
                Reason::Reopened,
                Reason::IssueReopened,
                Reason::PullRequestReopened,
            ];
            assert!(reasons.contains(&world.reason), "{before:?}");
        }
    }
}

#[test]
fn a_person_who_sets_a_skipped_task_ready_gets_it_run() {
    let closed = LinkObservation::new(LinkState::Issue(IssueState::Completed));
    let seen = LocalObservation {
        written: Written::AfterOutcome,
        ..LocalObservation::new(
            Believed::Finished(Outcome::Skipped),
            Stored::Status(TaskStatus::Ready),
            Writer::Other,
        )
    };
    let mut world = World::new(
        seen,
        Reason::IssueClosed,
        vec![closed],
        ClosedUnmerged::Fail,
    );
    assert_eq!(world.pass(), [Effect::BackToQueue]);
    assert_eq!(world.pass(), []);
    assert_eq!(world.seen.believed, Believed::Queued);
}

#[test]
fn a_pull_request_that_blocks_holds_the_task_until_its_question_is_settled() {
    let closed = LinkObservation::new(LinkState::PullRequest(PullRequestState::Closed));
    let seen = LocalObservation::new(
        Believed::Running,
        Stored::Status(TaskStatus::InProgress),
        Writer::Own,
    );
    let mut world = World::new(
        seen,
        Reason::NothingNew,
        vec![closed],
        ClosedUnmerged::Block,
    );
    assert_eq!(world.pass(), [Effect::StopThen(AfterStop::DecideAgain)]);
    assert_eq!(
        world.pass(),
        [Effect::StopThen(AfterStop::DecideAgain), Effect::Hold]
    );
    assert_eq!(world.pass(), []);
    assert_eq!(world.seen.stored, Stored::Status(TaskStatus::Blocked));

    // A person answers; the same closure does not hold the task again.
    world.seen.stored = Stored::Status(TaskStatus::Ready);
    world.seen.blockers = Blockers::new(OpenBlockers::None, SinceHold::Answered);
    assert_eq!(world.pass(), [Effect::BackToQueue]);
    assert_eq!(world.pass(), []);
    assert_eq!(world.seen.believed, Believed::Queued);
}

#[test]
fn closed_reopened_and_closed_again_acts_on_the_last_state_once() {
    let link = |state| LinkObservation::new(LinkState::Issue(state));
    let seen = LocalObservation::new(
        Believed::Queued,
        Stored::Status(TaskStatus::Ready),
        Writer::Own,
    );
    let mut world = World::new(
        seen,
        Reason::NothingNew,
        vec![link(IssueState::NotPlanned)],
        ClosedUnmerged::Fail,
    );
    assert_eq!(world.pass(), [Effect::DropFromQueue]);
    world.links[0].state = LinkState::Issue(IssueState::Open);
    assert_eq!(world.pass(), [Effect::BackToQueue]);
    world.links = vec![link(IssueState::Completed)];
    assert_eq!(world.pass(), [Effect::DropFromQueue]);
    assert_eq!(world.pass(), []);
    assert_eq!(world.seen.stored, Stored::Status(TaskStatus::Done));
}

proptest! {
    #[test]
    fn several_links_cannot_make_a_task_swing(
        seen in proptest::sample::select(cells().collect::<Vec<_>>()),
        reason in proptest::sample::select(REASONS.to_vec()),
        links in proptest::collection::vec(proptest::sample::select(LinkObservation::all().collect::<Vec<_>>()), 0..4),
        policy in proptest::sample::select(ClosedUnmerged::ALL),
    ) {
        let world = World::new(seen, reason, links, policy);
        let passes = world.clone().passes_until_it_stands_still();
        prop_assert!(passes.is_some_and(|passes| passes <= MOST_CHANGES), "{:?} passes: {:?}", passes, world);
    }

    #[test]
    fn a_second_pass_over_what_stands_still_does_nothing(
        seen in proptest::sample::select(cells().collect::<Vec<_>>()),
    ) {
        let mut world = World::new(seen, Reason::NothingNew, Vec::new(), ClosedUnmerged::Fail);
        for _ in 0..MOST_CHANGES {
            world.pass();
        }
        let still = world.seen;
        prop_assert!(world.pass().is_empty());
        prop_assert_eq!(world.seen, still);
    }
}
