//! The same questions asked in instructions. They have no targets: they are compared with what was recorded.

use crate::bench::counts;
use crate::bench::row::{Contender, Row, Statistic};
use crate::bench::rows::{floor, ours};

const fn counted(id: &'static str, what: &'static str, contenders: &'static [Contender]) -> Row {
    Row {
        id,
        what,
        unit: "instructions",
        statistic: Statistic::Median,
        rounds: 1,
        contenders,
        targets: &[],
    }
}

pub(crate) const START: Row = counted(
    "start-instructions",
    "start: --version, instructions",
    &[
        floor("a Rust program that exits", counts::start_floor),
        ours("cf", counts::start_cf),
    ],
);

pub(crate) const STATUS: Row = counted(
    "status-instructions",
    "status, 10,000 tasks, instructions",
    &[
        floor("open, count by status", |stage| {
            counts::read_floor(stage, "count")
        }),
        ours("cf", |stage| counts::read_cf(stage, &["status"])),
    ],
);

pub(crate) const LIST: Row = counted(
    "list-instructions",
    "tasks list, 10,000 tasks, instructions",
    &[
        floor("open, print all", |stage| counts::read_floor(stage, "list")),
        ours("cf", |stage| counts::read_cf(stage, &["tasks", "list"])),
    ],
);

pub(crate) const DISPATCH: Row = counted(
    "dispatch-serial-instructions",
    "dispatch, serial, per task, in the conductor alone, instructions",
    &[
        floor("spawn + wait", counts::spawn_floor),
        ours("cf", counts::dispatch),
    ],
);

pub(crate) const PASS_CHANGED: Row = counted(
    "pass-changed-instructions",
    "pass over changed tasks, per task, instructions",
    &[
        floor("two queries into a map", |stage| {
            counts::pass_floor(stage, "all")
        }),
        ours("cf", |stage| counts::pass_cf(stage, "all")),
    ],
);

pub(crate) const PASS_UNCHANGED: Row = counted(
    "pass-unchanged-instructions",
    "pass over an unchanged store, instructions",
    &[
        floor("PRAGMA data_version", |stage| {
            counts::pass_floor(stage, "unchanged")
        }),
        ours("cf", |stage| counts::pass_cf(stage, "unchanged")),
    ],
);

pub(crate) const PASS_ONE: Row = counted(
    "pass-one-instructions",
    "pass over a store with one changed task, instructions",
    &[
        floor("the newest row of the event log", |stage| {
            counts::pass_floor(stage, "one")
        }),
        ours("cf", |stage| counts::pass_cf(stage, "one")),
    ],
);

pub(crate) const PASS_LINKS: Row = counted(
    "pass-links-instructions",
    "pass over tasks with fresh links, per link, instructions",
    &[ours("cf", |stage| counts::pass_cf(stage, "links"))],
);
