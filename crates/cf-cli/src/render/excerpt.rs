//! A batch on a terminal that is too small for it: what is going on first, and how much is left out.

use std::collections::HashMap;
use std::io::{self, Write as _};

use cf_conductor::store::batch::BatchTaskView;
use cf_core::{Outcome, Phase, TaskId, Timestamp};

use super::batch::{Listed, table_of};
use super::reconciliation::Line;
use crate::console::screen::rows;
use crate::console::{Console, Look};

/// How many of the newest reconciliation events are shown.
const NEWEST: usize = 3;

/// Draws the batch so that it fits `(columns, rows)`, with one row to spare.
///
/// # Errors
///
/// Never: memory takes everything.
pub(crate) fn excerpt(
    console: &Console,
    listed: &Listed,
    tasks: &[BatchTaskView],
    doing: &HashMap<TaskId, String>,
    lines: &[Line],
    (width, height): (usize, usize),
    now: Timestamp,
) -> io::Result<Vec<u8>> {
    let mut order: Vec<&BatchTaskView> = tasks.iter().collect();
    order.sort_by_key(|view| interest(view));
    let mut count = order.len().min(height);
    loop {
        let picture = draw(
            console,
            listed,
            &order[..count],
            order.len() - count,
            doing,
            lines,
            now,
        )?;
        if count == 0 || rows(&String::from_utf8_lossy(&picture), width) < height {
            return Ok(picture);
        }
        count -= count.div_ceil(8);
    }
}

fn draw(
    console: &Console,
    listed: &Listed,
    tasks: &[&BatchTaskView],
    left_out: usize,
    doing: &HashMap<TaskId, String>,
    lines: &[Line],
    now: Timestamp,
) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    writeln!(out, "{}", listed.summary(console))?;
    if let Some(notice) = listed.conductor_notice() {
        writeln!(out, "{}", console.paint(Look::Warn, notice))?;
    }
    if !tasks.is_empty() {
        table_of(tasks.iter().copied(), doing, now).write(console, &mut out)?;
    }
    if left_out > 0 {
        let more = format!(
            "… and {left_out} more; `cf work batch status {}` shows all",
            listed.batch.id.short()
        );
        writeln!(out, "{}", console.paint(Look::Dim, more))?;
    }
    for line in &lines[lines.len().saturating_sub(NEWEST)..] {
        writeln!(out, "{line}")?;
    }
    Ok(out)
}

/// What somebody who watches wants to see first.
fn interest(view: &BatchTaskView) -> u8 {
    match (view.row.phase, view.row.outcome) {
        (Phase::Running | Phase::Stopping, _) => 0,
        (Phase::Held, _) | (_, Some(Outcome::Blocked)) => 1,
        (_, Some(Outcome::Failed)) => 2,
        (Phase::Queued, _) => 3,
        (Phase::Waiting, _) => 4,
        (_, Some(Outcome::Skipped | Outcome::Cancelled)) => 5,
        (Phase::Finished, Some(Outcome::Completed) | None) => 6,
    }
}

#[cfg(test)]
mod tests {
    use cf_conductor::settings::Settings;
    use cf_conductor::store::batch::{Batch, BatchTask};
    use cf_core::{BatchStatus, TaskStatus};

    use super::super::batch::Counts;
    use super::*;

    fn view(n: u32, phase: Phase, outcome: Option<Outcome>) -> BatchTaskView {
        BatchTaskView {
            row: BatchTask {
                task: format!("00000000-0000-0000-0000-{n:012x}").parse().unwrap(),
                position: n,
                phase,
                outcome,
                reason: None,
                attempts: 1,
                failures: 0,
                not_before: None,
                since_seq: 0,
                take_up_seq: 0,
                started_at: Some(Timestamp::UNIX_EPOCH),
                ended_at: None,
            },
            key: Some(format!("t{n}").parse().unwrap()),
            title: "a title".to_owned(),
            status: TaskStatus::InProgress,
        }
    }

    #[test]
    fn a_small_terminal_shows_what_runs_and_says_how_much_it_leaves_out() {
        let listed = Listed {
            used: (None, None),
            batch: Batch {
                id: "00000000-0000-0000-0000-0000000000ba".parse().unwrap(),
                status: BatchStatus::Running,
                settings: Settings::default(),
                stop: None,
                exit_code: None,
                started_at: Timestamp::UNIX_EPOCH,
                ended_at: None,
            },
            counts: Counts::default(),
            conductor: Some(1),
            closing: None,
        };
        let mut tasks: Vec<_> = (0..50)
            .map(|n| view(n, Phase::Finished, Some(Outcome::Completed)))
            .collect();
        tasks.push(view(50, Phase::Running, None));
        for height in [4, 8, 24] {
            let console = Console::plain(Some(60));
            let now = Timestamp::from_second(3).unwrap();
            let picture = excerpt(
                &console,
                &listed,
                &tasks,
                &HashMap::new(),
                &[],
                (60, height),
                now,
            )
            .unwrap();
            let picture = String::from_utf8(picture).unwrap();
            assert!(rows(&picture, 60) < height, "{height}: {picture}");
            assert!(picture.contains("more; `cf work batch status 00000000` shows all"));
            for shown in ["t50", "running", "3.0s"] {
                assert_eq!(picture.contains(shown), height > 4, "{shown}: {picture}");
            }
        }
    }
}
