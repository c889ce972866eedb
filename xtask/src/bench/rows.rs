//! The table, as data: every row with its contenders and targets, and the turn that each of them takes.

use std::process::Command;

use crate::bench::row::{Contender, Role, Row, Statistic, Target};
use crate::bench::stage::{Agent, Stage};
use crate::bench::turns::{
    append, dispatch, dispatch_of, fsyncs, idle, pass_cf, pass_floor, reaction, read_cf,
    read_floor, spawn_commit, spawn_program, spawn_script, sqlite3, starts,
};
use crate::bench::{live, peers};
use crate::problem::Problem;

type Turn = fn(&Stage) -> Result<Vec<f64>, Problem>;

const fn floor(name: &'static str, measure: Turn) -> Contender {
    Contender {
        name,
        role: Role::Floor,
        measure,
    }
}

const fn ours(name: &'static str, measure: Turn) -> Contender {
    Contender {
        name,
        role: Role::Ours,
        measure,
    }
}

const fn peer(name: &'static str, program: &'static str, measure: Turn) -> Contender {
    Contender {
        name,
        role: Role::Peer(program),
        measure,
    }
}

const fn at_most_times(ours: &'static str, other: &'static str, times: f64) -> Target {
    Target::TimesAtMost { ours, other, times }
}

const fn at_most(ours: &'static str, limit: f64) -> Target {
    Target::Limit { ours, limit }
}

/// Every row, in the order in which they are measured and printed.
pub(crate) const ROWS: &[Row] = &[
    Row {
        id: "start",
        what: "start: --version",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[
            floor("a Rust program that exits", |stage| {
                starts(stage, || Command::new(&stage.noop))
            }),
            ours("cf", |stage| {
                starts(stage, || {
                    let mut cf = stage.cf();
                    cf.arg("--version");
                    cf
                })
            }),
        ],
        targets: &[at_most_times("cf", "a Rust program that exits", 1.3)],
    },
    Row {
        id: "status",
        what: "status, 10,000 tasks",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[
            floor("open, count by status", |stage| read_floor(stage, "count")),
            ours("cf", |stage| read_cf(stage, &["status"])),
        ],
        targets: &[at_most_times("cf", "open, count by status", 1.5)],
    },
    Row {
        id: "list",
        what: "tasks list, 10,000 tasks, not on a terminal",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[
            floor("open, print all", |stage| read_floor(stage, "list")),
            ours("cf", |stage| read_cf(stage, &["tasks", "list"])),
            ours("cf --json", |stage| {
                read_cf(stage, &["tasks", "list", "--json"])
            }),
            peer("sqlite3 shell", "sqlite3", sqlite3),
        ],
        targets: &[at_most_times("cf", "open, print all", 1.5)],
    },
    Row {
        id: "dispatch-serial",
        what: "dispatch, serial, a program as agent, per task",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 5,
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
    },
    Row {
        id: "dispatch-serial-script",
        what: "dispatch, serial, a script as agent, per task",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[
            floor("spawn + wait of /bin/sh -c", |stage| {
                spawn_script(stage, "1")
            }),
            ours("cf", |stage| dispatch(stage, 1, Agent::Script)),
            peer("xargs -P1", "xargs", |stage| peers::xargs_script(stage, 1)),
            peer("make -j1", "make", |stage| peers::make_script(stage, 1)),
            peer("GNU parallel -j1", "parallel", |stage| {
                peers::parallel(stage, 1)
            }),
            peer("pueue, 1 slot", "pueue", |stage| peers::pueue(stage, 1)),
        ],
        targets: &[
            at_most_times("cf", "spawn + wait of /bin/sh -c", 1.8),
            at_most_times("cf", "make -j1", 0.75),
        ],
    },
    Row {
        id: "dispatch-4",
        what: "dispatch, 4 slots, a program as agent, per task",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 5,
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
    },
    Row {
        id: "dispatch-4-script",
        what: "dispatch, 4 slots, a script as agent, per task",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[
            floor("spawn + wait of /bin/sh -c", |stage| {
                spawn_script(stage, "4")
            }),
            ours("cf", |stage| dispatch(stage, 4, Agent::Script)),
            peer("xargs -P4", "xargs", |stage| peers::xargs_script(stage, 4)),
            peer("make -j4", "make", |stage| peers::make_script(stage, 4)),
            peer("GNU parallel -j4", "parallel", |stage| {
                peers::parallel(stage, 4)
            }),
            peer("pueue, 4 slots", "pueue", |stage| peers::pueue(stage, 4)),
        ],
        targets: &[at_most_times("cf", "spawn + wait of /bin/sh -c", 1.5)],
    },
    Row {
        id: "fsyncs",
        what: "fsyncs per task, serial",
        unit: "calls",
        statistic: Statistic::Median,
        rounds: 1,
        contenders: &[ours("cf", fsyncs)],
        targets: &[at_most("cf", 2.0)],
    },
    Row {
        id: "growth",
        what: "growth: a large batch against one a tenth of it, 4 slots, per task",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 1,
        contenders: &[
            ours("a tenth", |stage| {
                dispatch_of(stage, stage.sizes.growth.0, 4, Agent::Program)
            }),
            ours("large", |stage| {
                dispatch_of(stage, stage.sizes.growth.1, 4, Agent::Program)
            }),
        ],
        targets: &[at_most_times("large", "a tenth", 1.15)],
    },
    Row {
        id: "memory",
        what: "memory, four agents running (agents excluded), sum of PSS",
        unit: "MiB",
        statistic: Statistic::Median,
        rounds: 2,
        contenders: &[
            ours("cf", |stage| live::memory(stage, 4)),
            ours("cf, 10,000 tasks", |stage| {
                live::memory(stage, stage.sizes.store)
            }),
        ],
        targets: &[at_most("cf", 16.0), at_most("cf, 10,000 tasks", 40.0)],
    },
    Row {
        id: "idle-cpu",
        what: "idle conductor with one long agent, share of a core",
        unit: "%",
        statistic: Statistic::Median,
        rounds: 1,
        contenders: &[ours("cf", |stage| Ok(vec![idle(stage)?.0]))],
        targets: &[at_most("cf", 0.05)],
    },
    Row {
        id: "idle-wakeups",
        what: "idle conductor with one long agent, wake-ups",
        unit: "1/s",
        statistic: Statistic::Median,
        rounds: 1,
        contenders: &[ours("cf", |stage| Ok(vec![idle(stage)?.1]))],
        targets: &[at_most("cf", 4.0)],
    },
    Row {
        id: "reaction",
        what: "commit elsewhere to SIGTERM at the agent, median",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 1,
        contenders: &[ours("cf", reaction)],
        targets: &[at_most("cf", 1.0)],
    },
    Row {
        id: "reaction-p99",
        what: "commit elsewhere to SIGTERM at the agent, 99th percentile",
        unit: "ms",
        statistic: Statistic::P99,
        rounds: 1,
        contenders: &[ours("cf", reaction)],
        targets: &[at_most("cf", 10.0)],
    },
    Row {
        id: "recovery",
        what: "resume of 10,000 tasks until 64 live agents are adopted",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 3,
        contenders: &[ours("cf", |stage| {
            live::recovery(stage, stage.sizes.store, 64)
        })],
        targets: &[at_most("cf", 1_000.0)],
    },
    Row {
        id: "pass-changed",
        what: "pass over 10,000 changed tasks, 1,000 of them blocked",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 3,
        contenders: &[
            floor("two queries into a map", |stage| {
                pass_floor(stage, "all_changed_ms")
            }),
            ours("cf", |stage| pass_cf(stage, "all_changed_ms")),
        ],
        targets: &[at_most_times("cf", "two queries into a map", 1.5)],
    },
    Row {
        id: "pass-unchanged",
        what: "pass over an unchanged store",
        unit: "µs",
        statistic: Statistic::Median,
        rounds: 3,
        contenders: &[
            floor("PRAGMA data_version", |stage| {
                pass_floor(stage, "unchanged_us")
            }),
            ours("cf", |stage| pass_cf(stage, "unchanged_us")),
        ],
        targets: &[at_most("cf", 10.0)],
    },
    Row {
        id: "pass-one",
        what: "pass over a store with one changed task",
        unit: "µs",
        statistic: Statistic::Median,
        rounds: 3,
        contenders: &[
            floor("the newest row of the event log", |stage| {
                pass_floor(stage, "one_changed_us")
            }),
            ours("cf", |stage| pass_cf(stage, "one_changed_us")),
        ],
        targets: &[at_most("cf", 50.0)],
    },
    Row {
        id: "pass-links",
        what: "pass over 1,000 tasks with fresh links in 5 repositories",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 3,
        contenders: &[ours("cf", |stage| pass_cf(stage, "links_fresh_ms"))],
        targets: &[at_most("cf", 2.0)],
    },
    Row {
        id: "events",
        what: "event appends, one writer",
        unit: "1/s",
        statistic: Statistic::Median,
        rounds: 3,
        contenders: &[
            floor("bare commits NORMAL", |stage| append(stage, "normal")),
            floor("bare commits FULL", |stage| append(stage, "full")),
            ours("cf NORMAL", |stage| {
                pass_cf(stage, "events_normal_per_second")
            }),
            ours("cf FULL", |stage| pass_cf(stage, "events_full_per_second")),
        ],
        targets: &[
            Target::TimesAtLeast {
                ours: "cf NORMAL",
                other: "bare commits NORMAL",
                times: 0.5,
            },
            Target::TimesAtLeast {
                ours: "cf FULL",
                other: "bare commits FULL",
                times: 0.5,
            },
        ],
    },
];
