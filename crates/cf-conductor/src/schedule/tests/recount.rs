//! Every number and set that the schedule keeps in passing, against one computed from nothing.

use std::collections::BTreeSet;

use cf_core::{Outcome, Phase, TaskStatus};
use cf_reconcile::{DependencyState, LiveClaim, Reason, Stored};
use proptest::prelude::*;

use super::*;
use crate::schedule::{is_held_under_a_claim, waits_for_others};

impl Schedule {
    /// Fails unless everything that is kept in passing is what a recount gives.
    pub(crate) fn recount(&self) {
        let mut phases = [0; Phase::ALL.len()];
        let mut waiting_for_others = 0;
        let mut held_under_a_claim = 0;
        let mut placed = 0;
        for (at, node) in self.nodes.iter().enumerate() {
            let who = node.label.as_str();
            assert_eq!(
                self.index.get(&node.row.task),
                Some(&at),
                "{who} is found by its id"
            );
            for on in &node.depends_on {
                let back = self.nodes[*on]
                    .dependents
                    .iter()
                    .filter(|dependent| **dependent == at)
                    .count();
                assert_eq!(back, 1, "{who} is known to what it depends on");
            }
            for dependent in &node.dependents {
                assert!(
                    self.nodes[*dependent].depends_on.contains(&at),
                    "{who} is depended on"
                );
            }
            let told = |wanted: fn(&DependencyState) -> bool| {
                node.depends_on
                    .iter()
                    .filter(|on| wanted(&self.nodes[**on].told))
                    .count()
            };
            let pending = told(|state| *state == DependencyState::Pending);
            let dead = told(|state| matches!(state, DependencyState::Dead { .. }));
            assert_eq!(
                (node.pending as usize, node.dead as usize),
                (pending, dead),
                "{who} counts its dependencies"
            );
            if !self.touched.contains(&at) && !self.winding_up {
                assert_eq!(
                    node.told,
                    self.meaning(at),
                    "{who} told its dependents what it means"
                );
            }
            if !node.member {
                continue;
            }
            phases[node.row.phase as usize] += 1;
            waiting_for_others += usize::from(waits_for_others(node));
            held_under_a_claim += usize::from(is_held_under_a_claim(node));
            assert_eq!(
                node.row.phase == Phase::Finished,
                node.row.outcome.is_some(),
                "{who} has an outcome when it ended"
            );
            assert_eq!(
                node.dirty,
                self.dirty.contains(&at),
                "{who} is to be stored when it changed"
            );
            let ready = self.ready.contains(&(node.priority, at));
            let delayed = node
                .row
                .not_before
                .is_some_and(|due| self.delayed.contains(&(due.as_millisecond(), at)));
            let startable = node.row.phase == Phase::Queued && node.gate == Gate::Open;
            assert_eq!(
                usize::from(ready) + usize::from(delayed),
                usize::from(startable),
                "{who} has its place in the queue"
            );
            placed += usize::from(startable);
        }
        for (at, node) in self.nodes.iter().enumerate() {
            let elsewhere = (!node.member || node.row.phase == Phase::Finished)
                && node.told == DependencyState::Pending;
            if !self.touched.contains(&at) {
                assert_eq!(
                    self.elsewhere.contains(&at),
                    elsewhere,
                    "{} is for others to finish",
                    node.label.as_str()
                );
            }
        }
        assert_eq!(phases, self.phases, "phases");
        assert_eq!(
            waiting_for_others, self.waiting_for_others,
            "tasks that wait for others"
        );
        assert_eq!(
            held_under_a_claim, self.held_under_a_claim,
            "held tasks that others have claimed"
        );
        assert_eq!(
            placed,
            self.ready.len() + self.delayed.len(),
            "nothing else is in the queue"
        );
        let once: BTreeSet<_> = self.dirty.iter().collect();
        assert_eq!(
            once.len(),
            self.dirty.len(),
            "nothing is to be stored twice"
        );
    }

    /// How many members wait although nothing that they depend on is still to be done. For a schedule that is settled.
    pub(crate) fn forgotten(&self) -> Vec<String> {
        let forgotten = |node: &&crate::schedule::Node| {
            node.member && node.row.phase == Phase::Waiting && (node.pending == 0 || node.dead > 0)
        };
        self.nodes
            .iter()
            .filter(forgotten)
            .map(|node| node.label.to_string())
            .collect()
    }

    /// What another schedule of the same tasks, built from the store just now, says differently; `None` when nothing.
    pub(crate) fn differs_from(&self, fresh: &Self) -> Option<String> {
        for node in &self.nodes {
            let who = node.label.as_str();
            let Some(&at) = fresh.index.get(&node.row.task) else {
                // A dependency that ended leaves its target behind, which nobody asks about any more.
                let kept = node.stored == Stored::Deleted
                    || node
                        .dependents
                        .iter()
                        .all(|at| self.nodes[*at].stored == Stored::Deleted);
                if node.member || !kept {
                    return Some(format!("{who} is not known"));
                }
                continue;
            };
            if node.stored == Stored::Deleted && fresh.nodes[at].stored == Stored::Deleted {
                // What it depended on went with it.
                continue;
            }
            let other = &fresh.nodes[at];
            let names = |of: &Self, nodes: &[usize]| -> BTreeSet<TaskId> {
                nodes.iter().map(|at| of.nodes[*at].row.task).collect()
            };
            if names(self, &node.depends_on) != names(fresh, &other.depends_on) {
                let (had, has) = (
                    names(self, &node.depends_on),
                    names(fresh, &other.depends_on),
                );
                return Some(format!("{who} depends on {has:?}, and not {had:?}"));
            }
            if node.stored != other.stored {
                return Some(format!(
                    "{who} is {:?}, and not {:?}",
                    other.stored, node.stored
                ));
            }
            if node.told != other.told && (node.member || !node.dependents.is_empty()) {
                return Some(format!(
                    "{who} means {:?}, and not {:?}",
                    other.told, node.told
                ));
            }
            if node.member && node.priority != other.priority {
                return Some(format!(
                    "{who} has priority {}, and not {}",
                    other.priority, node.priority
                ));
            }
            // A claim that came while it waited is met when it is about to start.
            if node.row.phase == Phase::Queued && node.gate != other.gate && node.gate != Gate::Open
            {
                return Some(format!(
                    "{who} has gate {:?}, and not {:?}",
                    other.gate, node.gate
                ));
            }
        }
        None
    }
}

const TASKS: usize = 7;

/// Something that the conductor may tell the schedule at any time.
#[derive(Clone, Debug)]
enum Told {
    Start,
    Stop(usize),
    Finish(usize, Outcome),
    Hold(usize),
    Enqueue(usize),
    Retry(usize, i64),
    Saw(usize, Stored, bool),
    Gate(usize, Gate),
    Priority(usize, i64),
    Edges(usize, Vec<usize>),
    Settle,
    Store,
    Wait(i64),
}

fn told() -> impl Strategy<Value = Told> {
    let task = 0..TASKS;
    let gates = vec![
        Gate::Open,
        Gate::ClaimedElsewhere,
        Gate::InProgressByHand,
        Gate::AwaitingLook,
    ];
    let stored = proptest::sample::select(Stored::ALL);
    prop_oneof![
        4 => Just(Told::Start),
        1 => task.clone().prop_map(Told::Stop),
        4 => (task.clone(), proptest::sample::select(Outcome::ALL)).prop_map(|(task, outcome)| Told::Finish(task, outcome)),
        1 => task.clone().prop_map(Told::Hold),
        2 => task.clone().prop_map(Told::Enqueue),
        1 => (task.clone(), 0i64..50).prop_map(|(task, ms)| Told::Retry(task, ms)),
        3 => (0..TASKS + 2, stored, any::<bool>()).prop_map(|(task, stored, claim)| Told::Saw(task, stored, claim)),
        1 => (task.clone(), proptest::sample::select(gates)).prop_map(|(task, gate)| Told::Gate(task, gate)),
        1 => (task.clone(), 0i64..3).prop_map(|(task, priority)| Told::Priority(task, priority)),
        1 => (task, proptest::collection::btree_set(0..TASKS + 2, 0..3))
            .prop_map(|(task, on)| Told::Edges(task, on.into_iter().filter(|on| *on < task || *on >= TASKS).collect())),
        2 => Just(Told::Settle),
        1 => Just(Told::Store),
        1 => (0i64..40).prop_map(Told::Wait),
    ]
}

fn tell(schedule: &mut Schedule, now: &mut i64, told: Told) {
    let time = at(*now);
    let reason = Reason::from("exit code 1");
    match told {
        Told::Start => {
            if let Some(task) = schedule.next(time) {
                schedule.started(task, time);
            }
        }
        Told::Stop(task) => schedule.stopping(id(task), &Reason::Stopped, None),
        Told::Finish(task, outcome) => schedule.finish(id(task), outcome, &reason, time, None),
        Told::Hold(task) => schedule.hold(id(task), &Reason::AnswerAwaited, None),
        Told::Enqueue(task) => schedule.enqueue(id(task), None, None, time),
        Told::Retry(task, ms) => schedule.retry(id(task), at(*now + ms), reason),
        Told::Saw(task, stored, claim) => {
            schedule.saw(
                id(task),
                stored,
                if claim {
                    LiveClaim::Some
                } else {
                    LiveClaim::None
                },
            );
        }
        Told::Gate(task, gate) => schedule.set_gate(id(task), gate),
        Told::Priority(task, priority) => schedule.set_priority(id(task), priority),
        Told::Edges(task, on) => {
            let on: Vec<_> = on.into_iter().map(id).collect();
            schedule.set_dependencies(id(task), &on, time);
        }
        Told::Settle => schedule.settle(time),
        Told::Store => drop(schedule.take_changed()),
        Told::Wait(ms) => *now += ms,
    }
}

proptest! {
    /// Whatever it is told, in whatever order, also what cannot happen.
    #[test]
    fn what_is_kept_in_passing_is_what_a_recount_gives(tale in proptest::collection::vec(told(), 1..80)) {
        let members = (0..TASKS).map(|nth| member(nth, 0)).collect();
        let outside = vec![
            outsider(TASKS, TaskStatus::Done, LiveClaim::None),
            outsider(TASKS + 1, TaskStatus::InProgress, LiveClaim::Some),
        ];
        let edges = [(2, 0), (3, 0), (4, 2), (4, 3), (5, TASKS), (6, TASKS + 1)].map(|(a, b)| (id(a), id(b)));
        let mut schedule = Schedule::new(2, members, outside, edges);
        schedule.settle_all(at(0));
        schedule.recount();
        let mut now = 0;
        for told in tale {
            tell(&mut schedule, &mut now, told);
            schedule.recount();
        }
        schedule.settle(at(now));
        schedule.recount();
        prop_assert_eq!(schedule.forgotten(), Vec::<String>::new());
        schedule.wind_up(&Reason::Stopped, at(now));
        schedule.recount();
    }
}

/// Looks at nodes for a fan of so many tasks between one at each end, all of which succeed (or the first fails).
fn looks_for_a_fan(width: usize, good: bool) -> usize {
    let edges: Vec<_> = (1..=width)
        .flat_map(|nth| [(nth, 0), (width + 1, nth)])
        .collect();
    let mut schedule = schedule(4, width + 2, &edges);
    let mut stored = 0;
    loop {
        let started = start_all(&mut schedule, at(0));
        if started.is_empty() {
            break;
        }
        for nth in started {
            if good {
                complete(&mut schedule, nth, at(0));
            } else {
                fail(&mut schedule, nth, at(0));
            }
            stored += schedule.take_changed().len();
        }
    }
    assert_eq!(schedule.count(Phase::Finished), width + 2);
    assert!(stored <= 3 * (width + 2), "each change is stored once");
    schedule.looks
}

#[test]
fn a_completion_costs_what_it_touches() {
    for good in [true, false] {
        let (small, large) = (looks_for_a_fan(1_000, good), looks_for_a_fan(10_000, good));
        assert!(
            large <= 11 * small,
            "{small} looks for 1,000, {large} for 10,000"
        );
        assert!(large < 100_000);
    }
}
