//! Runs every row in both workspaces and prints what it costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use rusqlite::Connection;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::Answer;
use crate::make::{Size, workspace};
use crate::rows::{Grows, ROWS, Row, Subject};

/// How much more than ten times a command may cost in a workspace of ten times the size. Start-up and noise are within
/// it; what is quadratic costs a hundred times as much.
const MOST_GROWTH: f64 = 14.0;

/// How much more a command may cost that looks at one thing: a search goes a little deeper in a larger index.
const MOST_FLAT: f64 = 1.5;

/// Below this, in milliseconds, a growth says nothing.
const NOISE_MS: f64 = 10.0;

/// One of the two workspaces.
struct Place {
    folder: PathBuf,
    about: Subject,
}

/// What a command costs in a workspace: medians, but for the memory.
#[derive(Clone, Copy)]
struct Cost {
    ms: f64,
    /// Time on a core, which says more than the clock where the machine has other things to do.
    busy_ms: f64,
    peak_mib: f64,
    failed: bool,
}

/// Makes both workspaces, measures every row, and prints the table.
pub(crate) fn growth(cf: &Path, folder: &Path, size: &Size, rounds: usize) -> Answer<()> {
    let small = place(cf, &folder.join("tenth"), &size.tenth())?;
    let large = place(cf, &folder.join("whole"), size)?;
    println!(
        "\n{:<42} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9}",
        "command", "tenth ms", "on a core", "whole ms", "on a core", "growth", "peak MiB"
    );
    let mut bad = Vec::new();
    for row in ROWS {
        let [before, after] = [&small, &large].map(|place| cost(cf, place, row, rounds));
        let (before, after) = (before?, after?);
        let growth = after.busy_ms / before.busy_ms;
        println!(
            "{:<42} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>6.1}× {:>9.1}",
            row.words, before.ms, before.busy_ms, after.ms, after.busy_ms, growth, after.peak_mib
        );
        if before.failed || after.failed {
            bad.push(format!("{}: it fails", row.words));
        }
        if row.most_ms.is_some_and(|most| after.busy_ms > most) {
            bad.push(format!("{}: over 100 ms", row.words));
        }
        let most = match row.grows {
            Grows::Flat => MOST_FLAT,
            Grows::Along => MOST_GROWTH,
        };
        if growth > most && after.busy_ms > NOISE_MS {
            bad.push(format!("{}: grows {growth:.1} ×", row.words));
        }
    }
    println!();
    for line in &bad {
        println!("OVER  {line}");
    }
    println!("{} rows, {} findings", ROWS.len(), bad.len());
    Ok(())
}

fn place(cf: &Path, folder: &Path, size: &Size) -> Answer<Place> {
    let start = Instant::now();
    if !folder.join(".cf/state.db").is_file() {
        workspace(cf, folder, size)?;
    }
    let db = folder.join(".cf/state.db");
    let store = Connection::open(&db)?;
    let count = |table: &str| {
        store.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
            row.get::<_, u64>(0)
        })
    };
    let (tasks, events, attempts) = (count("task")?, count("event")?, count("attempt")?);
    let bytes = fs::metadata(&db)?.len();
    println!(
        "{tasks} tasks, {attempts} attempts, {} batches, {events} events in {:.0} s: {:.0} MiB, {:.0} bytes an event",
        count("batch")?,
        start.elapsed().as_secs_f64(),
        bytes as f64 / f64::from(1 << 20),
        bytes as f64 / events as f64,
    );
    for (name, share) in shares(&store)? {
        println!(
            "  {name:<24} {:>8.1} MiB",
            share as f64 / f64::from(1 << 20)
        );
    }
    let ended = store.query_row(
        "SELECT id FROM batch WHERE ended_at_ms IS NOT NULL ORDER BY pk DESC LIMIT 1",
        [],
        |row| row.get(0),
    )?;
    let running = store.query_row(
        "SELECT t.key FROM attempt a JOIN task t ON t.id = a.task WHERE a.open = 1 ORDER BY a.pk LIMIT 1",
        [],
        |row| row.get(0),
    )?;
    let newest: u64 = store.query_row("SELECT max(seq) FROM event", [], |row| row.get(0))?;
    Ok(Place {
        folder: folder.to_owned(),
        about: Subject {
            task: format!("t{}", size.batch / 2 + 1),
            running,
            chained: format!("t{}", size.tasks / 10 - 1),
            ended,
            recent: newest.saturating_sub(100).to_string(),
        },
    })
}

/// How many bytes each table and each index takes; none where SQLite was built without its table of pages.
fn shares(store: &Connection) -> Answer<Vec<(String, u64)>> {
    let Ok(mut statement) = store.prepare(
        "SELECT name, sum(pgsize) FROM dbstat WHERE aggregate = TRUE GROUP BY name ORDER BY 2 DESC LIMIT 8",
    ) else {
        return Ok(Vec::new());
    };
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn cost(cf: &Path, place: &Place, row: &Row, rounds: usize) -> Answer<Cost> {
    let mut failed = false;
    let mut peak_mib = 0.0;
    let (mut times, mut busy) = (Vec::new(), Vec::new());
    // The first run warms the cache and tells the memory.
    for round in 0..=rounds {
        let start = Instant::now();
        let mut child = Command::new(cf)
            .arg("-C")
            .arg(&place.folder)
            .args(row.args(&place.about))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        if round == 0 {
            peak_mib = peak(child.id());
        }
        // Looked at, and left for the figures of the kernel.
        let pid = Pid::from_child(&child);
        waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )?;
        let elapsed = start.elapsed().as_secs_f64() * 1000.0;
        if round > 0 {
            times.push(elapsed);
            busy.push(busy_ms(child.id())?);
        }
        // What a batch ended with, and a cycle that is refused, are answers.
        failed |= !matches!(child.wait()?.code(), Some(0 | 1 | 3));
    }
    times.sort_by(f64::total_cmp);
    busy.sort_by(f64::total_cmp);
    Ok(Cost {
        ms: times[times.len() / 2],
        busy_ms: busy[busy.len() / 2],
        peak_mib,
        failed,
    })
}

/// How long a process that has ended, and has not been waited for, was on a core.
fn busy_ms(pid: u32) -> Answer<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let nanoseconds: f64 = text.split_whitespace().next().unwrap_or("0").parse()?;
    Ok(nanoseconds / 1e6)
}

/// The most memory that a process has had resident, looked at until it ends.
fn peak(pid: u32) -> f64 {
    let path = format!("/proc/{pid}/status");
    let mut most = 0;
    while let Ok(text) = fs::read_to_string(&path) {
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let Some(kib) = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        else {
            break;
        };
        most = most.max(kib);
    }
    most as f64 / 1024.0
}
