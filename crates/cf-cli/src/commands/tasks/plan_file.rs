//! `cf tasks import` and `export`: plan files in and out of the store.

use std::collections::HashMap;
use std::io::Write;

use cf_conductor::store::task::{Task, TaskEdit, TaskFilter, TaskSpec};
use cf_conductor::store::{Reader, StoreError, Tx};
use cf_conductor::workspace::Workspace;
use cf_core::{TaskId, TaskRef, TaskStatus};
use serde_json::json;

use super::super::batch::{known_engine, resolve};
use super::super::{Ended, find_task};
use crate::args::tasks::{ExportArgs, ExportFormat, ImportArgs};
use crate::config::{ConfigError, Layer};
use crate::console::{self, Console};
use crate::error::CliError;
use crate::made_file;
use crate::plan::{Exported, Plan, PlanFormat, PlanTask, write_json, write_toml};
use crate::render::text;
use crate::workspace;

/// What an import did, in the order of the plan.
#[derive(Debug)]
pub(in crate::commands) struct Imported {
    /// The tasks.
    pub(in crate::commands) ids: Vec<TaskId>,
    added: usize,
}

/// `cf tasks import`.
pub(super) fn import(args: &ImportArgs, console: &Console) -> Ended {
    let format = args.format.unwrap_or_else(|| PlanFormat::of(&args.file));
    let plan = Plan::read(&args.file, format)?;
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    refuse_unknown_engines(&plan, &workspace)?;
    let imported = store
        .write(&actor, |tx| import_plan(tx, &plan))
        .map_err(CliError::of_plan)?;
    let added = imported.added;
    let updated = imported.ids.len() - added;
    if console.json {
        console::print_json(&json!({ "tasks": imported.ids, "added": added, "updated": updated }))?;
    } else {
        console.say(format_args!(
            "{}: {added} added, {updated} updated",
            plan.name
        ))?;
    }
    Ok(0)
}

/// A task with an engine that nobody knows would only fail later.
fn refuse_unknown_engines(plan: &Plan, workspace: &Workspace) -> Result<(), CliError> {
    if plan.tasks.iter().all(|task| task.spec.engine.is_none()) {
        return Ok(());
    }
    let layer = resolve(Some(workspace), Layer::default(), Layer::default())?;
    let engines = layer.engines().map_err(ConfigError::from)?;
    for task in &plan.tasks {
        if let Some(engine) = &task.spec.engine {
            let place = format!("{}: task \"{}\": `engine`", task.place, task.spec.title);
            known_engine(&place, engine, &engines)?;
        }
    }
    Ok(())
}

/// Adds the tasks of a plan, or updates those that have the same key, within one transaction. Statuses are left alone.
///
/// # Errors
///
/// A dependency that is neither in the plan nor in the store, a cycle through stored tasks, a caller that may not do
/// it, or the store refuses.
pub(in crate::commands) fn import_plan(
    tx: &mut Tx<'_>,
    plan: &Plan,
) -> Result<Imported, StoreError> {
    let mut ids = Vec::with_capacity(plan.tasks.len());
    let mut by_key: HashMap<&str, TaskId> = HashMap::with_capacity(plan.tasks.len());
    let mut added = 0;
    for task in &plan.tasks {
        let id = if let Some(stored) = existing(&tx.reader(), task)? {
            tx.edit_task(stored.id, &whole(&task.spec, &stored))?;
            stored.id
        } else {
            added += 1;
            match task.origin {
                // A person reads it before it runs.
                Some(_) => tx.add_task_as(&task.spec, TaskStatus::Backlog)?,
                None => tx.add_task(&task.spec)?,
            }
        };
        if let Some(place) = &task.origin {
            tx.set_origin(id, Some(place))?;
        }
        if let Some(key) = &task.spec.key {
            by_key.insert(key.as_str(), id);
        }
        ids.push(id);
    }
    for (task, id) in plan.tasks.iter().zip(&ids) {
        let mut on = Vec::with_capacity(task.depends_on.len());
        for given in &task.depends_on {
            on.push(match by_key.get(given.as_str()) {
                Some(id) => *id,
                None => outside(&tx.reader(), plan, task, given)?,
            });
        }
        tx.set_dependencies_unchecked(*id, &on)?;
        for link in &task.links {
            tx.link(*id, link)?;
        }
    }
    tx.refuse_cycles()?;
    Ok(Imported { ids, added })
}

/// The stored task that a plan's task updates: the one with its key, or the one whose id an export wrote as its key.
fn existing(reader: &Reader<'_>, task: &PlanTask) -> Result<Option<Task>, StoreError> {
    let Some(key) = &task.spec.key else {
        return Ok(None);
    };
    if let Some(found) = reader.task_with_key(key)? {
        return Ok(Some(found));
    }
    match key.as_str().parse::<TaskId>() {
        Ok(id) => Ok(reader.task_opt(id)?.filter(|task| !task.deleted)),
        Err(_) => Ok(None),
    }
}

/// Every field as the plan has it; what it leaves out is emptied, so that a plan says all that there is to a task.
fn whole(spec: &TaskSpec, stored: &Task) -> TaskEdit {
    let is_own_id = spec
        .key
        .as_ref()
        .is_some_and(|key| key.as_str() == stored.id.to_string());
    TaskEdit {
        key: (!is_own_id).then(|| spec.key.clone()),
        title: Some(spec.title.clone()),
        description: Some(spec.description.clone()),
        run: Some(spec.run.clone()),
        verify: Some(spec.verify.clone()),
        engine: Some(spec.engine.clone()),
        model: Some(spec.model.clone()),
        timeout: Some(spec.timeout),
        env: Some(spec.env.clone()),
        priority: Some(spec.priority),
    }
}

/// A dependency on a stored task.
fn outside(
    reader: &Reader<'_>,
    plan: &Plan,
    task: &PlanTask,
    given: &TaskRef,
) -> Result<TaskId, StoreError> {
    match reader.find_task(given) {
        Err(StoreError::Unknown { similar, .. }) => {
            let near: Vec<&str> = plan
                .tasks
                .iter()
                .filter_map(|task| Some(task.spec.key.as_ref()?.as_str()))
                .collect();
            let near = crate::document::nearest(given.as_str(), &near).map(str::to_owned);
            let likely = near.or_else(|| similar.first().cloned());
            Err(StoreError::Refused {
                what: format!(
                    "{}: task \"{}\": `depends_on`: {:?} is neither in the plan nor in the workspace",
                    task.place,
                    task.spec.title,
                    given.as_str()
                ),
                hint: likely.map(|name| format!("did you mean {name}?")),
            })
        }
        other => other,
    }
}

/// `cf tasks export`.
pub(super) fn export(args: &ExportArgs, console: &Console) -> Ended {
    let format = export_format(args, console)?;
    let (_, store) = workspace::open_to_read()?;
    let actor = cf_conductor::caller::actor(&store)?;
    let (text, count) = store.read(|reader| {
        let mut chosen = Vec::new();
        for given in &args.tasks {
            chosen.push(find_task(reader, &actor, given)?);
        }
        exported(reader, &chosen, format)
    })?;
    if let Some(path) = args.output.as_ref().filter(|path| path.as_os_str() != "-") {
        made_file::write(path, &text)?;
        if console.json {
            console::print_json(&json!({ "file": path.to_string_lossy(), "tasks": count }))?;
        } else {
            console.say(format_args!("wrote {count} tasks to {}", text::path(path)))?;
        }
    } else {
        let mut out = console::out();
        out.write_all(&text)?;
        out.flush()?;
    }
    Ok(0)
}

fn export_format(args: &ExportArgs, console: &Console) -> Result<ExportFormat, CliError> {
    let on_screen = args.output.is_none() && console.json;
    match (args.format, &args.output) {
        (Some(ExportFormat::Toml), None) if on_screen => Err(CliError::usage(
            "`--json` and `--format toml` contradict each other",
            "give one of the two",
        )),
        (Some(format), _) => Ok(format),
        (None, None) if on_screen => Ok(ExportFormat::Json),
        (None, Some(path)) if PlanFormat::of(path) == PlanFormat::Json => Ok(ExportFormat::Json),
        (None, _) => Ok(ExportFormat::Toml),
    }
}

/// The plan of some tasks, or of all when none is chosen, and how many there are in it.
fn exported(
    reader: &Reader<'_>,
    chosen: &[TaskId],
    format: ExportFormat,
) -> Result<(Vec<u8>, usize), StoreError> {
    let mut views = Vec::new();
    reader.tasks(&TaskFilter::default(), |view| {
        if chosen.is_empty() || chosen.contains(&view.task.id) {
            views.push((spec(&view.task), view));
        }
        Ok(())
    })?;
    let links = reader.links_by_task()?;
    let position: HashMap<TaskId, usize> = views
        .iter()
        .enumerate()
        .map(|(at, (_, view))| (view.task.id, at))
        .collect();
    let mut tasks = Vec::with_capacity(views.len());
    for (spec, view) in &views {
        // By place in the plan: ids are others in every workspace, and an import has to write the same again.
        let mut depends_on = Vec::new();
        for on in &view.depends_on {
            depends_on.push(match position.get(on) {
                Some(at) => (*at, written_key(&views[*at].1.task)),
                None => (usize::MAX, written_key(&reader.task(*on)?)),
            });
        }
        depends_on.sort();
        tasks.push(Exported {
            key: written_key(&view.task),
            spec,
            depends_on: depends_on.into_iter().map(|(_, key)| key).collect(),
            links: links.get(&view.task.id).map_or(&[], Vec::as_slice),
            origin: view.task.origin.as_deref(),
        });
    }
    let mut text = Vec::new();
    match format {
        ExportFormat::Toml => write_toml(&mut text, &tasks),
        ExportFormat::Json => write_json(&mut text, &tasks),
    }
    .expect("memory takes every byte");
    Ok((text, tasks.len()))
}

/// The key under which a task is written; without one, its id serves.
fn written_key(task: &Task) -> String {
    task.key
        .as_ref()
        .map_or_else(|| task.id.to_string(), ToString::to_string)
}

fn spec(task: &Task) -> TaskSpec {
    TaskSpec {
        key: task.key.clone(),
        title: task.title.clone(),
        description: task.description.clone(),
        run: task.run.clone(),
        verify: task.verify.clone(),
        engine: task.engine.clone(),
        model: task.model.clone(),
        timeout: task.timeout,
        env: task.env.clone(),
        priority: task.priority,
    }
}

#[cfg(test)]
mod tests;
