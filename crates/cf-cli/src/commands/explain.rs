//! `cf explain`: why a task is where it is, and what would let it run.

use std::io::{self, Write};

use cf_conductor::explain::{Explanation, explain};
use cf_conductor::github::{LinkView, links_of};
use cf_conductor::heard;
use cf_core::{BlockerStatus, Outcome, Timestamp};
use serde_json::json;

use super::batch::{resolve, setup};
use super::reconcile::{finding_json, finding_line};
use super::{Ended, find_task};
use crate::args::ExplainArgs;
use crate::config::Layer;
use crate::console::{self, Console, Look};
use crate::render::event::event_line;
use crate::render::json::{AttemptJson, BlockerJson, CommentJson, EventJson, TaskJson};
use crate::render::{link, task, text, time};
use crate::workspace;

pub(super) fn run(args: &ExplainArgs, console: &Console) -> Ended {
    let (workspace, store) = workspace::open_to_read()?;
    let actor = cf_conductor::caller::actor(&store)?;
    let (id, links) = store.read(|reader| {
        let id = find_task(reader, &actor, &args.task)?;
        Ok((id, reader.links(id)?))
    })?;
    let worktrees = store.read(|reader| reader.worktrees_of(id))?;
    let layer = resolve(Some(&workspace), Layer::default(), Layer::default())?;
    let mut setup = setup(&layer, workspace.clone())?;
    let source = setup.github.as_ref().ok_or(super::github::OFF);
    let views = store.read(|reader| links_of(source, reader, id))?;
    let engine = layer.engine.as_ref();
    let configured = engine.map(|setting| setting.value.0.as_str());
    let mut seen = explain(&store, &mut setup, id, configured)?;
    for attempt in &mut seen.attempts {
        heard::catch_up(attempt, &workspace.log_of(attempt.id));
    }
    if console.json {
        let label = seen.view.task.label();
        let shape = json!({
            "task": TaskJson::new(&seen.view.task, &seen.view.depends_on, &links, seen.view.open_blockers)
                .with_trackers(&views),
            "dependencies": seen.dependencies.iter().map(|d| json!({
                "task": d.task, "label": d.label.as_str(), "status": d.status, "met": d.met,
            })).collect::<Vec<_>>(),
            "blockers": seen.blockers.iter().map(|b| BlockerJson::new(b, Some(&label))).collect::<Vec<_>>(),
            "claim": seen.claim.as_ref().map(|claim| json!({
                "batch": claim.batch, "alive": claim.conductor.is_some(),
            })),
            "attempts": seen.attempts.iter().map(|a| {
                let worktree = worktrees.iter().find(|row| row.attempt == a.id);
                AttemptJson::new(a, &label, &workspace, worktree)
            }).collect::<Vec<_>>(),
            "places": seen.places.iter().map(|place| json!({
                "batch": place.batch.id, "batch_status": place.batch.status, "phase": place.row.phase,
                "outcome": place.row.outcome, "reason": place.row.reason, "attempts": place.row.attempts,
            })).collect::<Vec<_>>(),
            "comments": seen.comments.iter().map(CommentJson::new).collect::<Vec<_>>(),
            "history": seen.history.iter().map(EventJson::new).collect::<Vec<_>>(),
            "earlier": seen.earlier,
            "findings": seen.findings.iter().map(finding_json).collect::<Vec<_>>(),
            "next_retry_at": seen.next_retry.map(time::full),
            "unblock": seen.unblock,
        });
        console::print_json(&shape)?;
        return Ok(0);
    }
    let mut out = console::out();
    write(console, &mut out, &seen, &views)?;
    out.flush()?;
    Ok(0)
}

fn write(
    console: &Console,
    out: &mut impl Write,
    seen: &Explanation,
    links: &[LinkView],
) -> io::Result<()> {
    let task = &seen.view.task;
    let label = task.label();
    writeln!(
        out,
        "{}  {}  {}",
        console.paint(Look::Strong, text::line(label.as_str())),
        console.paint(task::look(task.status), task.status),
        text::line(&task.title)
    )?;
    let by = task::by(&task.status_by);
    if task.has_first_status() {
        writeln!(out, "  the status is the one with which {by} added it")?;
    } else {
        writeln!(out, "  the status was set by {by}")?;
    }
    for dependency in &seen.dependencies {
        let met = if dependency.met { "met" } else { "not met" };
        writeln!(
            out,
            "  depends on {} ({}): {met}",
            dependency.label, dependency.status
        )?;
    }
    for view in links {
        let words = link::words(view, Timestamp::now());
        writeln!(out, "  linked to {}", text::line(&words))?;
    }
    for blocker in seen
        .blockers
        .iter()
        .filter(|blocker| blocker.status == BlockerStatus::Open)
    {
        writeln!(
            out,
            "  waits for an answer to {}: {}",
            blocker.id.short(),
            text::line(&blocker.question)
        )?;
    }
    if let Some(claim) = &seen.claim {
        let alive = if claim.conductor.is_some() {
            "which is being conducted"
        } else {
            "whose conductor is gone"
        };
        writeln!(out, "  claimed by batch {}, {alive}", claim.batch.short())?;
    }
    if let Some(attempt) = seen.attempts.last() {
        match (attempt.open, attempt.ended_at) {
            (true, _) => writeln!(
                out,
                "  attempt {} runs with {} since {}",
                attempt.generation,
                attempt.engine,
                time::short(attempt.started_at)
            )?,
            (false, ended) => writeln!(
                out,
                "  attempt {} ended {}: {}",
                attempt.generation,
                ended.map_or_else(String::new, time::short),
                text::line(attempt.reason.as_deref().unwrap_or_default())
            )?,
        }
    }
    for place in &seen.places {
        let state = place
            .row
            .outcome
            .map_or(place.row.phase.as_str(), Outcome::as_str);
        let reason = place
            .row
            .reason
            .as_deref()
            .map_or_else(String::new, |r| format!(": {}", text::line(r)));
        writeln!(
            out,
            "  in batch {} ({}): {state}{reason}",
            place.batch.id.short(),
            place.batch.status
        )?;
    }
    task::write_comments(console, out, &seen.comments)?;
    if !seen.findings.is_empty() {
        writeln!(
            out,
            "\n{}",
            console.paint(Look::Strong, "The next pass would:")
        )?;
        for found in &seen.findings {
            writeln!(out, "  {}", finding_line(found, label.as_str()))?;
        }
    }
    if !seen.history.is_empty() {
        writeln!(
            out,
            "\n{}",
            console.paint(Look::Strong, "What reconciliation did:")
        )?;
        if seen.earlier > 0 {
            writeln!(
                out,
                "  … {} earlier; `cf events --task {label}` shows all",
                seen.earlier
            )?;
        }
        for event in &seen.history {
            writeln!(out, "  {}", event_line(event, None))?;
        }
    }
    writeln!(
        out,
        "\n{}",
        console.paint(Look::Strong, "What would let it run:")
    )?;
    if seen.unblock.is_empty() {
        return writeln!(
            out,
            "  nothing keeps it; its batch starts it when a slot is free"
        );
    }
    for step in &seen.unblock {
        writeln!(out, "  {}", text::line(step))?;
    }
    Ok(())
}
