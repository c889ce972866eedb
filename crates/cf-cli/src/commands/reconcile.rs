//! `cf reconcile`: what the sources find about batches that have not ended, and acting on it where nobody else does.

use std::io::Write as _;

use cf_conductor::conductor::{LookOver, look_over, settle_receipts, stopped, wake_the_stopped};
use cf_conductor::github::look_up;
use cf_conductor::source::{Merged, ReconcileAction};
use cf_conductor::store::Store;
use cf_conductor::wake::WakeFile;
use cf_conductor::workspace::Workspace;
use cf_core::{Actor, TaskId};
use serde_json::{Value, json};

use super::batch::{finish_pass, setup_of};
use super::{Ended, Labels, find_task};
use crate::args::ReconcileArgs;
use crate::console::{self, Console, Look};
use crate::error::CliError;
use crate::render::text;
use crate::workspace;

pub(super) fn run(args: &ReconcileArgs, console: &Console) -> Ended {
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    if let (Actor::Attempt(_), false) = (&actor, args.dry_run) {
        return Err(cf_conductor::store::StoreError::NotForAgents {
            deed: "reconcile".to_owned(),
        }
        .into());
    }
    let only: Vec<TaskId> = store.read(|reader| {
        args.tasks
            .iter()
            .map(|given| find_task(reader, &actor, given))
            .collect()
    })?;
    if !args.dry_run {
        // Also of batches that have ended: nobody else looks after what they left.
        settle_receipts(&mut store)?;
    }
    tell_of_stopped(
        &store,
        &workspace,
        (!only.is_empty()).then_some(only.as_slice()),
        args,
        console,
    )?;
    let mut setup = setup_of(&workspace)?;
    if let Some(source) = &setup.github {
        let wanted = (!only.is_empty()).then_some(only.as_slice());
        for line in look_up(source, &mut store, wanted, !args.dry_run)? {
            console.warn(format_args!("{}", text::line(&line)));
        }
    }
    let mut looks = look_over(
        &store,
        &mut setup,
        (!only.is_empty()).then_some(only.as_slice()),
    )?;
    for look in &mut looks {
        look.findings
            .retain(|found| found.winner.action != ReconcileAction::None);
    }
    show(&looks, &store, args, console)?;
    if args.dry_run {
        return Ok(0);
    }
    for look in &looks {
        if look.conductor.is_some() {
            wake(&workspace);
        } else {
            // Also without a finding: what has ended is settled.
            let only = (!only.is_empty()).then(|| only.clone());
            finish_pass(&mut setup, look.batch, only, console)?;
        }
    }
    Ok(0)
}

/// Supervisors of dead conductors that somebody stopped are let go on: their attempts would have no end.
fn tell_of_stopped(
    store: &Store,
    workspace: &Workspace,
    only: Option<&[TaskId]>,
    args: &ReconcileArgs,
    console: &Console,
) -> Result<(), CliError> {
    let found = stopped(store, workspace, only)?;
    if !args.dry_run {
        wake_the_stopped(&found);
    }
    let what = if args.dry_run {
        "without --dry-run it is let go on"
    } else {
        "it is let go on"
    };
    for one in found {
        console.warn(format_args!(
            "the supervisor of attempt {} of {} (process {}) is stopped, and its conductor is gone: {what}",
            one.generation,
            text::line(one.task.as_str()),
            one.supervisor.pid,
        ));
    }
    Ok(())
}

/// Whoever conducts a batch is made to look at once; without the file it looks within a second.
fn wake(workspace: &Workspace) {
    if let Some(file) = WakeFile::if_possible(&workspace.wake_file()) {
        file.poke();
    }
}

fn show(
    looks: &[LookOver],
    store: &Store,
    args: &ReconcileArgs,
    console: &Console,
) -> Result<(), CliError> {
    if console.json {
        console::print_json(&looks.iter().map(shape).collect::<Vec<_>>())?;
        return Ok(());
    }
    let mut out = console::out();
    if looks.is_empty() {
        writeln!(out, "no batch is running, so there is nothing to compare")?;
    }
    let mut labels = Labels::default();
    for look in looks {
        let owner = match (look.conductor, args.dry_run) {
            (Some(_), true) => "its conductor acts on this itself",
            (Some(_), false) => "its conductor acts on this itself, and was told to look",
            (None, true) => "its conductor is gone",
            (None, false) => "its conductor is gone, so this command acts",
        };
        writeln!(
            out,
            "{}: {owner}",
            console.paint(Look::Strong, format_args!("batch {}", look.batch.short()))
        )?;
        if look.findings.is_empty() {
            writeln!(out, "  nothing to do")?;
        }
        for found in &look.findings {
            let label = store.read(|reader| labels.of(reader, found.winner.task_id))?;
            writeln!(out, "  {}", finding_line(found, label.as_str()))?;
        }
        for (source, why) in &look.unknown {
            writeln!(out, "  {source} could not be read: {}", text::line(why))?;
        }
    }
    out.flush()?;
    Ok(())
}

/// A finding on one line: action, task, every reason, source.
pub(super) fn finding_line(found: &Merged, label: &str) -> String {
    let reasons: Vec<String> = found.reasons().map(ToString::to_string).collect();
    format!(
        "{:<11}  {}  {} ({})",
        found.winner.action.as_str(),
        text::line(label),
        text::line(&reasons.join("; ")),
        text::line(found.winner.source.as_str())
    )
}

fn shape(look: &LookOver) -> Value {
    let findings: Vec<Value> = look.findings.iter().map(finding_json).collect();
    let unknown: Vec<Value> = look
        .unknown
        .iter()
        .map(|(source, why)| json!({ "source": source, "why": why }))
        .collect();
    json!({
        "batch": look.batch,
        "conductor": { "alive": look.conductor.is_some(), "pid": look.conductor.filter(|pid| *pid != 0) },
        "findings": findings,
        "unknown": unknown,
    })
}

/// A finding with those that it outweighs.
pub(super) fn finding_json(found: &Merged) -> Value {
    let mut shape = serde_json::to_value(&found.winner).expect("a finding is JSON");
    shape["also"] = serde_json::to_value(&found.also).expect("findings are JSON");
    shape
}
