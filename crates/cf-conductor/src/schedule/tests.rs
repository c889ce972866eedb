//! The schedule by itself: what may start, what waits, what is skipped; and that every number it keeps in passing is
//! the number that a recount gives.

mod joins;
mod order;
mod recount;
mod skips;

use cf_core::{Outcome, Phase, TaskId, TaskStatus, Timestamp};
use cf_reconcile::{LiveClaim, Reason, Stored};
use uuid::Uuid;

use super::{Gate, Member, Outsider, Schedule};
use crate::store::batch::BatchTask;

/// The task with this number; its label is the same in words.
pub(super) fn id(nth: usize) -> TaskId {
    TaskId(Uuid::from_u128(nth as u128 + 1))
}

/// How the task with this number is called.
pub(super) fn name(nth: usize) -> String {
    format!("t{nth}")
}

pub(super) fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

fn label(nth: usize) -> cf_core::TaskLabel {
    cf_core::TaskLabel::new(id(nth), Some(&name(nth).parse().unwrap()))
}

fn member(nth: usize, priority: i64) -> Member {
    Member {
        row: BatchTask {
            position: u32::try_from(nth).unwrap(),
            ..super::blank_row(id(nth))
        },
        label: label(nth),
        priority,
        stored: Stored::Status(TaskStatus::Ready),
        claim: LiveClaim::None,
        gate: Gate::Open,
    }
}

fn outsider(nth: usize, status: TaskStatus, claim: LiveClaim) -> Outsider {
    Outsider {
        task: id(nth),
        label: label(nth),
        stored: Stored::Status(status),
        claim,
    }
}

/// So many members of priority 0 and edges `(task, depends on)`, settled.
fn schedule(slots: usize, members: usize, edges: &[(usize, usize)]) -> Schedule {
    with_priorities(slots, &vec![0; members], edges)
}

fn with_priorities(slots: usize, priorities: &[i64], edges: &[(usize, usize)]) -> Schedule {
    let members = priorities
        .iter()
        .enumerate()
        .map(|(nth, priority)| member(nth, *priority))
        .collect();
    let edges = edges.iter().map(|(task, on)| (id(*task), id(*on)));
    let mut schedule = Schedule::new(slots, members, Vec::new(), edges);
    schedule.settle_all(at(0));
    schedule
}

/// Starts whatever may start, and says what that was.
fn start_all(schedule: &mut Schedule, now: Timestamp) -> Vec<usize> {
    let mut started = Vec::new();
    while let Some(task) = schedule.next(now) {
        schedule.started(task, now);
        started.push(usize::try_from(task.0.as_u128() - 1).unwrap());
    }
    started
}

fn complete(schedule: &mut Schedule, nth: usize, now: Timestamp) {
    schedule.saw(id(nth), Stored::Status(TaskStatus::Done), LiveClaim::None);
    schedule.finish(id(nth), Outcome::Completed, &Reason::Succeeded, now, None);
    schedule.settle(now);
}

fn fail(schedule: &mut Schedule, nth: usize, now: Timestamp) {
    schedule.saw(id(nth), Stored::Status(TaskStatus::Failed), LiveClaim::None);
    schedule.finish(
        id(nth),
        Outcome::Failed,
        &Reason::from("exit code 1"),
        now,
        None,
    );
    schedule.settle(now);
}

fn phase(schedule: &Schedule, nth: usize) -> Phase {
    schedule.row(id(nth)).unwrap().phase
}

/// The outcome and its reason, in words.
fn ended(schedule: &Schedule, nth: usize) -> String {
    let row = schedule.row(id(nth)).unwrap();
    match row.outcome {
        Some(outcome) => format!("{outcome} {}", row.reason.clone().unwrap_or_default()),
        None => row.phase.to_string(),
    }
}
