//! The table, as data: every row with its contenders and targets, and the turn that each of them takes.

mod counts;
mod dispatch;

use std::process::Command;

use crate::bench::peers::pueue;
use crate::bench::row::{Contender, Role, Row, Statistic, Target};
use crate::bench::stage::{Agent, Stage};
use crate::bench::turns::{
    append, append_cf, dispatch_of, fsyncs, idle, idle_pueued, pass_cf, pass_floor, reaction,
    reaction_floor, reaction_from_start, read_cf, read_floor, sqlite3, starts, version_of,
};
use crate::bench::{live, peers};
use crate::problem::Problem;

type Turn = fn(&Stage) -> Result<Vec<f64>, Problem>;

pub(crate) const fn floor(name: &'static str, measure: Turn) -> Contender {
    Contender {
        name,
        role: Role::Floor,
        measure,
    }
}

pub(crate) const fn ours(name: &'static str, measure: Turn) -> Contender {
    Contender {
        name,
        role: Role::Ours,
        measure,
    }
}

pub(crate) const fn peer(name: &'static str, program: &'static str, measure: Turn) -> Contender {
    Contender {
        name,
        role: Role::Peer(program),
        measure,
    }
}

pub(crate) const fn at_most_times(ours: &'static str, other: &'static str, times: f64) -> Target {
    Target::TimesAtMost { ours, other, times }
}

pub(crate) const fn at_most(ours: &'static str, limit: f64) -> Target {
    Target::Limit { ours, limit }
}

/// Every row, in the order in which they are measured and printed.
pub(crate) const ROWS: &[Row] = &[
    Row {
        id: "start",
        what: "start: --version",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 40,
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
            peer("pueue", "pueue", |stage| version_of(stage, "pueue")),
            peer("GNU parallel", "parallel", |stage| {
                version_of(stage, "parallel")
            }),
        ],
        targets: &[at_most_times("cf", "a Rust program that exits", 1.3)],
    },
    counts::START,
    Row {
        id: "status",
        what: "status, 10,000 tasks",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 40,
        contenders: &[
            floor("open, count by status", |stage| read_floor(stage, "count")),
            ours("cf", |stage| read_cf(stage, &["status"])),
        ],
        targets: &[at_most_times("cf", "open, count by status", 1.5)],
    },
    counts::STATUS,
    Row {
        id: "list",
        what: "tasks list, 10,000 tasks, not on a terminal",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 12,
        contenders: &[
            floor("open, print all", |stage| read_floor(stage, "list")),
            ours("cf", |stage| read_cf(stage, &["tasks", "list"])),
            ours("cf --json", |stage| {
                read_cf(stage, &["tasks", "list", "--json"])
            }),
            peer("sqlite3 shell", "sqlite3", sqlite3),
            peer("pueue status", "pueued", pueue::list),
        ],
        targets: &[at_most_times("cf", "open, print all", 1.5)],
    },
    counts::LIST,
    dispatch::SERIAL,
    dispatch::SERIAL_SCRIPT,
    dispatch::FOUR,
    dispatch::FOUR_SCRIPT,
    counts::DISPATCH,
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
        id: "crates",
        what: "crates that cf is built from, itself included",
        unit: "crates",
        statistic: Statistic::Median,
        rounds: 1,
        contenders: &[ours("cf", |stage| Ok(vec![stage.crates as f64]))],
        targets: &[],
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
            peer("xargs -P4", "xargs", peers::xargs_memory),
            peer("GNU parallel -j4", "parallel", peers::parallel_memory),
            peer("pueued", "pueued", |stage| pueue::memory(stage, 4)),
            peer("pueued, 10,000 tasks", "pueued", |stage| {
                pueue::memory(stage, stage.sizes.store)
            }),
        ],
        targets: &[at_most("cf", 16.0), at_most("cf, 10,000 tasks", 40.0)],
    },
    Row {
        id: "idle-cpu",
        what: "idle conductor with one long agent, share of a core",
        unit: "%",
        statistic: Statistic::Median,
        rounds: 2,
        contenders: &[
            ours("cf", |stage| Ok(vec![idle(stage)?.0])),
            peer("pueued", "pueued", |stage| Ok(vec![idle_pueued(stage)?.0])),
        ],
        targets: &[at_most("cf", 0.05)],
    },
    Row {
        id: "idle-wakeups",
        what: "idle conductor with one long agent, wake-ups",
        unit: "1/s",
        statistic: Statistic::Median,
        rounds: 2,
        contenders: &[
            ours("cf", |stage| Ok(vec![idle(stage)?.1])),
            peer("pueued", "pueued", |stage| Ok(vec![idle_pueued(stage)?.1])),
        ],
        targets: &[at_most("cf", 4.0)],
    },
    Row {
        id: "reaction",
        what: "commit elsewhere to SIGTERM at the agent, median",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[
            floor("a watcher that looks and signals", reaction_floor),
            ours("cf", reaction),
            ours("cf, with the command", reaction_from_start),
            peer("pueue kill, with the command", "pueued", pueue::reaction),
        ],
        targets: &[at_most("cf", 1.0)],
    },
    Row {
        id: "reaction-p99",
        what: "commit elsewhere to SIGTERM at the agent, 99th percentile",
        unit: "ms",
        statistic: Statistic::P99,
        rounds: 5,
        contenders: &[
            floor("a watcher that looks and signals", reaction_floor),
            ours("cf", reaction),
        ],
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
        rounds: 5,
        contenders: &[
            floor("two queries into a map", |stage| {
                pass_floor(stage, "all_changed_ms")
            }),
            ours("cf", |stage| pass_cf(stage, "all_changed_ms")),
        ],
        targets: &[at_most_times("cf", "two queries into a map", 1.5)],
    },
    counts::PASS_CHANGED,
    Row {
        id: "pass-unchanged",
        what: "pass over an unchanged store",
        unit: "µs",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[
            floor("PRAGMA data_version", |stage| {
                pass_floor(stage, "unchanged_us")
            }),
            ours("cf", |stage| pass_cf(stage, "unchanged_us")),
        ],
        targets: &[at_most("cf", 10.0)],
    },
    counts::PASS_UNCHANGED,
    Row {
        id: "pass-one",
        what: "pass over a store with one changed task",
        unit: "µs",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[
            floor("the newest row of the event log", |stage| {
                pass_floor(stage, "one_changed_us")
            }),
            ours("cf", |stage| pass_cf(stage, "one_changed_us")),
        ],
        targets: &[at_most("cf", 50.0)],
    },
    counts::PASS_ONE,
    Row {
        id: "pass-links",
        what: "pass over 1,000 tasks with fresh links in 5 repositories",
        unit: "ms",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[ours("cf", |stage| pass_cf(stage, "links_fresh_ms"))],
        targets: &[at_most("cf", 2.0)],
    },
    counts::PASS_LINKS,
    Row {
        id: "events",
        what: "event appends, one writer",
        unit: "1/s",
        statistic: Statistic::Median,
        rounds: 5,
        contenders: &[
            floor("bare commits NORMAL", |stage| append(stage, "normal")),
            floor("bare commits FULL", |stage| append(stage, "full")),
            ours("cf NORMAL", |stage| {
                append_cf(stage, "events_normal_per_second")
            }),
            ours("cf FULL", |stage| {
                append_cf(stage, "events_full_per_second")
            }),
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
