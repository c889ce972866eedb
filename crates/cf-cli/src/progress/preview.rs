//! What a batch is going to do, shown before it does anything.

use std::io::{self, Write};

use cf_conductor::conductor::{Plan, PlannedStanding, PlannedTask};
use cf_conductor::engine::{EngineName, Permissions};
use cf_conductor::settings::{Settings, WaitForBlockers};
use cf_core::{Isolation, OnFailure, Strategy, format_duration};
use serde_json::json;

use crate::console::{Console, Look};
use crate::render::table::{Field, Table};
use crate::render::text;

/// Whether GitHub is asked, and why or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitHub {
    pub(crate) is_on: bool,
    pub(crate) why: String,
}

/// Writes the plan as words.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write(
    console: &Console,
    out: &mut impl Write,
    plan: &Plan,
    github: &GitHub,
) -> io::Result<()> {
    let settings = &plan.settings;
    writeln!(
        out,
        "{}",
        console.paint(
            Look::Strong,
            format_args!("Plan: {}", tasks(plan.order.len()))
        )
    )?;
    let mut table = Table::new(&["#", "Task", "Engine", "Note", "Title"]);
    for (at, task) in plan.order.iter().enumerate() {
        table.row([
            (at + 1).to_string().into(),
            Field::new(task.label.as_str(), Look::Strong),
            task.engine.as_ref().map_or("", |name| name.as_str()).into(),
            Field::new(note(task), Look::Dim),
            task.title.as_str().into(),
        ]);
    }
    table.write(console, out)?;
    for (label, why) in &plan.left_out {
        writeln!(
            out,
            "left out: {}, {}",
            text::line(label.as_str()),
            text::line(why)
        )?;
    }
    let done = |task: &&PlannedTask| task.standing == PlannedStanding::AlreadyDone;
    match plan.order.iter().filter(done).count() {
        0 => {}
        1 => writeln!(out, "1 task is done already; --force runs it again")?,
        n => writeln!(out, "{n} tasks are done already; --force runs them again")?,
    }
    writeln!(out)?;
    write_settings(out, settings)?;
    if let Some(base) = &plan.base {
        writeln!(
            out,
            "Base: {:.8}, {}",
            base.commit,
            match &base.branch {
                Some(branch) => format!("the newest commit of {}", text::line(branch)),
                None => "where HEAD is detached".to_owned(),
            }
        )?;
    }
    for (engine, program) in &plan.engines {
        let permissions = if engine.runs_scripts() {
            String::new()
        } else {
            let means = match engine.permissions {
                Permissions::All => "agents may run any command without asking",
                Permissions::Edit => {
                    "agents may change files; commands as far as the program confines them"
                }
                Permissions::Read => "agents may only look",
            };
            format!(", permissions: {} ({means})", engine.permissions)
        };
        writeln!(
            out,
            "Engine {}: {}{permissions}",
            engine.name,
            text::line(program)
        )?;
    }
    write_github(out, github)
}

/// Writes whether GitHub is asked.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_github(out: &mut impl Write, github: &GitHub) -> io::Result<()> {
    writeln!(
        out,
        "GitHub: {}, {}",
        if github.is_on { "on" } else { "off" },
        text::line(&github.why)
    )
}

/// Writes the settings of a run, a line each.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_settings(out: &mut impl Write, settings: &Settings) -> io::Result<()> {
    for line in facts(settings) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The plan as JSON.
pub(crate) fn json(plan: &Plan, github: &GitHub) -> serde_json::Value {
    let order: Vec<_> = plan
        .order
        .iter()
        .map(|task| {
            json!({
                "task": task.id, "label": task.label.as_str(), "title": task.title,
                "engine": task.engine.as_ref().map(EngineName::as_str),
                "standing": standing(task.standing), "depends_on": task.depends_on,
            })
        })
        .collect();
    let left_out: Vec<_> = plan
        .left_out
        .iter()
        .map(|(label, why)| json!({ "label": label.as_str(), "reason": why }))
        .collect();
    let engines: Vec<_> = plan
        .engines
        .iter()
        .map(|(engine, program)| {
            json!({
                "name": engine.name.as_str(), "program": program,
                "permissions": (!engine.runs_scripts()).then(|| engine.permissions.to_string()),
            })
        })
        .collect();
    json!({
        "order": order, "left_out": left_out, "engines": engines, "settings": plan.settings,
        "github": { "on": github.is_on, "why": github.why },
        "base": plan.base.as_ref().map(|base| json!({
            "commit": base.commit, "branch": base.branch, "changed": base.changed,
            "submodules": base.has_submodules,
        })),
    })
}

fn tasks(count: usize) -> String {
    match count {
        0 => "nothing to do".to_owned(),
        1 => "1 task".to_owned(),
        n => format!("{n} tasks"),
    }
}

const fn standing(standing: PlannedStanding) -> &'static str {
    match standing {
        PlannedStanding::Runs => "runs",
        PlannedStanding::AlreadyDone | PlannedStanding::AlreadyMerged => "already done",
        PlannedStanding::Held => "held",
        PlannedStanding::ClaimedElsewhere => "claimed elsewhere",
        PlannedStanding::InProgressByHand => "in progress by hand",
    }
}

fn note(task: &PlannedTask) -> String {
    let after = match task.depends_on.as_slice() {
        [] => String::new(),
        names => format!("after {}", names.join(", ")),
    };
    match task.standing {
        PlannedStanding::Runs => after,
        PlannedStanding::AlreadyDone => "already done, skipped".to_owned(),
        PlannedStanding::AlreadyMerged => "already merged, skipped".to_owned(),
        PlannedStanding::Held => "waits for an answer".to_owned(),
        PlannedStanding::ClaimedElsewhere => "claimed elsewhere, waited for".to_owned(),
        PlannedStanding::InProgressByHand => "in progress by hand".to_owned(),
    }
}

/// The settings of the run, a line each.
fn facts(settings: &Settings) -> Vec<String> {
    let mut lines = vec![
        match settings.strategy {
            Strategy::Serial => "Strategy: serial, one at a time".to_owned(),
            Strategy::Parallel => {
                format!("Strategy: parallel, up to {} at a time", settings.slots())
            }
        },
        match settings.on_failure {
            OnFailure::Continue => "On failure: continue".to_owned(),
            OnFailure::Stop => "On failure: stop".to_owned(),
        },
    ];
    if settings.retry > 0 {
        lines.push(format!(
            "Retry: {}, first after {}",
            settings.retry,
            format_duration(settings.retry_delay)
        ));
    }
    lines.push(match settings.timeout {
        Some(limit) => format!("Timeout: {} per attempt", format_duration(limit)),
        None => "Timeout: the engine's own".to_owned(),
    });
    if let Some(limit) = settings.stall_timeout {
        lines.push(format!("Stall timeout: {}", format_duration(limit)));
    }
    lines.push(format!(
        "Kill grace: {}",
        format_duration(settings.kill_grace)
    ));
    if settings.isolation == Isolation::Worktree {
        lines.push(format!(
            "Isolation: worktree, with a branch cf/<key> for each task{}",
            if settings.from_rescue {
                "; from what the last attempt left"
            } else {
                ""
            }
        ));
    }
    lines.push(if settings.reconcile_interval.is_zero() {
        "Reconcile interval: disabled; no agent is stopped and nothing is requeued or skipped by a pass".to_owned()
    } else {
        format!("Reconcile interval: {}", format_duration(settings.reconcile_interval))
    });
    match settings.wait_for_blockers {
        WaitForBlockers::Off => {}
        WaitForBlockers::Always => {
            lines.push("Waits for blockers: until they are answered".to_owned());
        }
        WaitForBlockers::For(limit) => lines.push(format!(
            "Waits for blockers: at most {}",
            format_duration(limit)
        )),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_interval_of_passes_is_always_said() {
        let mut settings = Settings::default();
        assert!(facts(&settings).contains(&"Reconcile interval: 30s".to_owned()));
        settings.reconcile_interval = Duration::ZERO;
        assert!(
            facts(&settings)
                .iter()
                .any(|line| line.starts_with("Reconcile interval: disabled"))
        );
    }
}
