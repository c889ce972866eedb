//! `cf tasks import` and `export`: plan files in and out of the store.

use std::collections::HashMap;
use std::io::Write;

use cf_conductor::store::task::{Task, TaskEdit, TaskSpec};
use cf_conductor::store::{Reader, StoreError, Tx};
use cf_core::{TaskId, TaskRef};
use serde_json::json;

use super::super::{Ended, find_task};
use crate::args::tasks::{ExportArgs, ImportArgs};
use crate::console::{self, Console};
use crate::error::CliError;
use crate::plan::{Exported, Plan, PlanTask, write};
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
    let plan = Plan::read(&args.file)?;
    let (_, mut store, actor) = workspace::open_to_write()?;
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
            tx.add_task(&task.spec)?
        };
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
                    "{}:{}: task \"{}\": `depends_on`: {:?} is neither in the plan nor in the workspace",
                    plan.name,
                    task.line,
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
    let (_, store) = workspace::open_to_read()?;
    let actor = cf_conductor::caller::actor(&store)?;
    let mut text = Vec::new();
    let count = store.read(|reader| {
        let mut chosen = Vec::new();
        for given in &args.tasks {
            chosen.push(find_task(reader, &actor, given)?);
        }
        let mut views = Vec::new();
        reader.tasks(&[], |view| {
            if chosen.is_empty() || chosen.contains(&view.task.id) {
                views.push(view);
            }
            Ok(())
        })?;
        let links = reader.links_by_task()?;
        let written: HashMap<TaskId, String> = views
            .iter()
            .map(|view| (view.task.id, written_key(&view.task)))
            .collect();
        for (at, view) in views.iter().enumerate() {
            if at > 0 {
                text.push(b'\n');
            }
            let mut depends_on = Vec::new();
            for on in &view.depends_on {
                depends_on.push(match written.get(on) {
                    Some(key) => key.clone(),
                    None => written_key(&reader.task(*on)?),
                });
            }
            let task = Exported {
                key: written[&view.task.id].clone(),
                spec: &spec(&view.task),
                depends_on,
                links: links.get(&view.task.id).map_or(&[], Vec::as_slice),
            };
            write(&mut text, &task).expect("memory takes every byte");
        }
        Ok(views.len())
    })?;
    if let Some(path) = &args.output {
        std::fs::write(path, &text).map_err(|source| CliError::File {
            what: "write",
            path: path.clone(),
            source,
        })?;
        console.say(format_args!("wrote {count} tasks to {}", path.display()))?;
    } else {
        let mut out = console::out();
        out.write_all(&text)?;
        out.flush()?;
    }
    Ok(0)
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
