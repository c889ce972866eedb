//! `cf events prune`: shortens the log, and says what stays and why.

use std::io::{self, Write};

use cf_conductor::store::prune::{Kept, Pruned, Pruning, Room};
use cf_core::format_duration;
use serde::Serialize;
use serde_json::{Map, Value};

use super::super::Ended;
use crate::args::PruneArgs;
use crate::console::{self, Console};
use crate::workspace;

#[derive(Serialize)]
struct PrunedJson {
    dry_run: bool,
    before: u64,
    removed: u64,
    newer: u64,
    kept: Map<String, Value>,
    database_bytes: u64,
    free_bytes: u64,
    freed_bytes: u64,
}

pub(super) fn run(args: &PruneArgs, console: &Console) -> Ended {
    let pruning = Pruning {
        older_than: args.older_than,
        keep_last: args.keep_last.unwrap_or(1) as u64,
    };
    if args.dry_run {
        let (_, store) = workspace::open_to_read()?;
        let (pruned, room) = (store.prune_preview(pruning)?, store.room()?);
        return show(args, &pruned, room, room, console);
    }
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    if args.shrink {
        store.refuse_to_shrink(&workspace)?;
    }
    let before = store.room()?;
    let pruned = store.prune(&actor, pruning)?;
    if args.shrink {
        store.shrink(&workspace, &actor)?;
    }
    show(args, &pruned, before, store.room()?, console)
}

fn show(args: &PruneArgs, pruned: &Pruned, before: Room, after: Room, console: &Console) -> Ended {
    let freed_bytes = before.used_bytes().saturating_sub(after.used_bytes());
    let mut out = console::out();
    if console.json {
        let kept = Kept::ALL.iter().zip(pruned.kept);
        console::print_json(&PrunedJson {
            dry_run: args.dry_run,
            before: pruned.before,
            removed: pruned.removed,
            newer: pruned.newer,
            kept: kept
                .map(|(why, count)| (why.as_str().to_owned(), count.into()))
                .collect(),
            database_bytes: after.total_bytes,
            free_bytes: after.free_bytes,
            freed_bytes,
        })?;
        return Ok(0);
    }
    write(args, pruned, freed_bytes, after, &mut out)?;
    out.flush()?;
    Ok(0)
}

fn write(
    args: &PruneArgs,
    pruned: &Pruned,
    freed_bytes: u64,
    room: Room,
    out: &mut impl Write,
) -> io::Result<()> {
    let removed = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    writeln!(
        out,
        "{removed} {} events older than {}",
        pruned.removed,
        format_duration(args.older_than)
    )?;
    writeln!(out, "kept {} newer ones", pruned.newer)?;
    writeln!(out, "kept {} older ones:", pruned.needed())?;
    for (why, count) in Kept::ALL.iter().zip(pruned.kept) {
        if count > 0 {
            writeln!(out, "  {count:>9}  {}", why.meaning())?;
        }
    }
    if !args.dry_run {
        writeln!(out, "freed {}", mib(freed_bytes))?;
    }
    write!(out, "the database has {}", mib(room.total_bytes))?;
    if args.shrink {
        return writeln!(out);
    }
    writeln!(
        out,
        ", {} of them free, which are used before it grows; --shrink gives them back",
        mib(room.free_bytes)
    )
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}
