//! Dispatch: what it costs to have an agent started and its end known, per task.

use crate::bench::peers::{self, Order, pueue};
use crate::bench::row::{Row, Statistic};
use crate::bench::rows::{at_most_times, floor, ours, peer};
use crate::bench::stage::Agent;
use crate::bench::turns::{dispatch, spawn_commit, spawn_program, spawn_script};

/// Programs, one after another.
pub(crate) const SERIAL: Row = Row {
    id: "dispatch-serial",
    what: "dispatch, serial, a program as agent, per task",
    unit: "ms",
    statistic: Statistic::Median,
    rounds: 7,
    contenders: &[
        floor("spawn + wait", |stage| spawn_program(stage, "1")),
        floor("with one joint FULL commit", |stage| {
            spawn_commit(stage, "1", "full", "joint")
        }),
        floor("with two FULL commits", |stage| {
            spawn_commit(stage, "1", "full", "two")
        }),
        floor("with two NORMAL commits", |stage| {
            spawn_commit(stage, "1", "normal", "two")
        }),
        ours("cf", |stage| dispatch(stage, 1, Agent::Program)),
        peer("xargs -P1 (no shell)", "xargs", |stage| {
            peers::xargs_program(stage, 1)
        }),
        peer("make -j1 (no shell)", "make", |stage| {
            peers::make_program(stage, 1)
        }),
    ],
    targets: &[at_most_times("cf", "spawn + wait", 1.8)],
};

/// Scripts, one after another.
pub(crate) const SERIAL_SCRIPT: Row = Row {
    id: "dispatch-serial-script",
    what: "dispatch, serial, a script as agent, per task",
    unit: "ms",
    statistic: Statistic::Median,
    rounds: 7,
    contenders: &[
        floor("spawn + wait of /bin/sh -c", |stage| {
            spawn_script(stage, "1")
        }),
        ours("cf", |stage| dispatch(stage, 1, Agent::Script)),
        peer("xargs -P1", "xargs", |stage| peers::xargs_script(stage, 1)),
        peer("make -j1", "make", |stage| {
            peers::make_script(stage, 1, Order::Any)
        }),
        peer("make -j1, a chain", "make", |stage| {
            peers::make_script(stage, 1, Order::Chain)
        }),
        peer("GNU parallel -j1", "parallel", |stage| {
            peers::parallel(stage, 1)
        }),
        peer("pueue, 1 slot", "pueued", |stage| pueue::dispatch(stage, 1)),
    ],
    targets: &[
        at_most_times("cf", "spawn + wait of /bin/sh -c", 1.8),
        at_most_times("cf", "make -j1", 0.75),
    ],
};

/// Programs in four slots.
pub(crate) const FOUR: Row = Row {
    id: "dispatch-4",
    what: "dispatch, 4 slots, a program as agent, per task",
    unit: "ms",
    statistic: Statistic::Median,
    rounds: 7,
    contenders: &[
        floor("spawn + wait", |stage| spawn_program(stage, "4")),
        floor("with one joint FULL commit", |stage| {
            spawn_commit(stage, "4", "full", "joint")
        }),
        ours("cf", |stage| dispatch(stage, 4, Agent::Program)),
        peer("xargs -P4 (no shell)", "xargs", |stage| {
            peers::xargs_program(stage, 4)
        }),
        peer("make -j4 (no shell)", "make", |stage| {
            peers::make_program(stage, 4)
        }),
    ],
    targets: &[at_most_times("cf", "spawn + wait", 1.5)],
};

/// Scripts in four slots.
pub(crate) const FOUR_SCRIPT: Row = Row {
    id: "dispatch-4-script",
    what: "dispatch, 4 slots, a script as agent, per task",
    unit: "ms",
    statistic: Statistic::Median,
    rounds: 7,
    contenders: &[
        floor("spawn + wait of /bin/sh -c", |stage| {
            spawn_script(stage, "4")
        }),
        ours("cf", |stage| dispatch(stage, 4, Agent::Script)),
        peer("xargs -P4", "xargs", |stage| peers::xargs_script(stage, 4)),
        peer("make -j4", "make", |stage| {
            peers::make_script(stage, 4, Order::Any)
        }),
        peer("GNU parallel -j4", "parallel", |stage| {
            peers::parallel(stage, 4)
        }),
        peer("pueue, 4 slots", "pueued", |stage| {
            pueue::dispatch(stage, 4)
        }),
    ],
    targets: &[at_most_times("cf", "spawn + wait of /bin/sh -c", 1.5)],
};
