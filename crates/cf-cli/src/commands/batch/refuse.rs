//! What a run is refused for before anything is started, and what is said when there is nothing to start.

use cf_conductor::engine::Engines;
use cf_conductor::settings::Settings;
use cf_conductor::store::StoreError;
use cf_core::{Actor, TaskLabel, TaskStatus};

use super::super::Ended;
use crate::console::{self, Console};
use crate::document::nearest;
use crate::error::CliError;
use crate::render::text;

/// Says that there is nothing to run, and what there is instead.
pub(super) fn nothing_ready(counts: &[(TaskStatus, u64)], console: &Console) -> Ended {
    if console.json {
        console::print_json(&serde_json::json!({ "batch": null }))?;
        return Ok(0);
    }
    let others: Vec<String> = counts
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(status, n)| format!("{n} {status}"))
        .collect();
    let others = if others.is_empty() {
        "there are no tasks".to_owned()
    } else {
        others.join(", ")
    };
    console.say(format_args!("nothing to do: nothing is READY: {others}"))?;
    Ok(0)
}

/// Says that a plan has nothing to run.
pub(super) fn nothing_planned(plan: &str, console: &Console) -> Ended {
    if console.json {
        console::print_json(&serde_json::json!({ "batch": null }))?;
        return Ok(0);
    }
    console.say(format_args!(
        "nothing to do: there are no tasks in {}",
        text::line(plan)
    ))?;
    Ok(0)
}

/// Every task of a plan was left out.
pub(super) fn nothing_read(left_out: &[(TaskLabel, String)], console: &Console) -> Ended {
    if console.json {
        console::print_json(&serde_json::json!({ "batch": null }))?;
        return Ok(0);
    }
    let labels: Vec<&str> = left_out.iter().map(|(label, _)| label.as_str()).collect();
    console.say(format_args!(
        "nothing to do: every task is left out; read them with `cf tasks show TASK`, and name those that are to run: {}",
        text::line(&labels.join(" "))
    ))?;
    Ok(0)
}

/// Refuses an engine that is not there, with the place that names it.
///
/// # Errors
///
/// It is not known; the hint has the name that was most likely meant.
pub(in crate::commands) fn known_engine(
    place: &str,
    name: &str,
    engines: &Engines,
) -> Result<(), CliError> {
    let known: Vec<&str> = engines.iter().map(|engine| engine.name.as_str()).collect();
    if known.contains(&name) {
        return Ok(());
    }
    let likely =
        nearest(name, &known).map_or_else(String::new, |likely| format!("did you mean {likely}? "));
    let hint = format!(
        "{likely}known engines: {}; [engines.NAME] in the configuration makes one",
        known.join(", ")
    );
    Err(CliError::usage(
        format!("{place}: there is no engine {name:?}"),
        hint,
    ))
}

/// Below an agent no batch is run: agents would start agents.
pub(super) fn refuse_agent(actor: &Actor) -> Result<(), StoreError> {
    match actor {
        Actor::Attempt(_) => Err(StoreError::NotForAgents {
            deed: "run a batch".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// Refuses a batch that would wait for answers which it would never see.
pub(super) fn refuse_contradiction(settings: &Settings) -> Result<(), CliError> {
    use cf_conductor::settings::WaitForBlockers;
    if settings.reconcile_interval.is_zero() && settings.wait_for_blockers != WaitForBlockers::Off {
        return Err(CliError::usage(
            "the batch waits for blockers, which needs passes, and the reconcile interval is 0",
            "give a --reconcile-interval above 0, or --wait-for-blockers=false",
        ));
    }
    Ok(())
}

/// Refuses to go on from what was kept of worktrees where there are none.
pub(super) fn refuse_no_rescue(settings: &Settings) -> Result<(), CliError> {
    if settings.from_rescue && settings.isolation != cf_core::Isolation::Worktree {
        return Err(CliError::usage(
            "--from-rescue goes on from what an attempt left in its worktree, and this batch has none",
            "add --isolation worktree",
        ));
    }
    Ok(())
}
