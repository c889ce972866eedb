//! `cf tasks add`, `edit`, `delete`, `depend`, `link`, `unlink` and `set status`.

use std::collections::BTreeMap;

use cf_conductor::store::task::{Expect, StatusWrite, TaskEdit, TaskSpec};
use cf_conductor::store::{Store, StoreError};
use cf_conductor::workspace::Workspace;
use cf_core::{Link, LinkKind, TaskId, TaskRef};
use serde_json::json;

use super::super::batch::{known_engine, resolve};
use super::super::{Ended, find_task, kept_when_stale, read_text};
use crate::args::github::PrLinkArgs;
use crate::args::tasks::{
    AddArgs, AgentFlags, DeleteArgs, DependArgs, EditArgs, Field, LinkArgs, SetStatusArgs,
    UnlinkArgs,
};
use crate::config::{ConfigError, Layer};
use crate::console::{self, Console, Look};
use crate::error::CliError;
use crate::plan;
use crate::render::json::TaskJson;
use crate::render::task;
use crate::workspace;

/// `cf tasks add`.
pub(super) fn add(args: AddArgs, console: &Console) -> Ended {
    let description = match (args.description, &args.file) {
        (Some(text), _) => text,
        (None, Some(path)) => read_text(path)?,
        (None, None) => String::new(),
    };
    let links = links(&[], &args.issue, &args.pr)?;
    let spec = TaskSpec {
        key: args.key,
        title: args.title,
        description,
        run: args.run,
        verify: args.verify,
        engine: args.agent.engine.map(|engine| engine.0),
        model: args.agent.model,
        timeout: args.agent.timeout.map(|limit| limit.0),
        env: args.agent.env.into_iter().collect(),
        priority: args.priority.unwrap_or(0),
    };
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    refuse_unknown_engine(&workspace, spec.engine.as_deref())?;
    let id = store.write(&actor, |tx| {
        let mut on = Vec::new();
        for given in &args.depends_on {
            on.push(find_task(&tx.reader(), &actor, given)?);
        }
        let id = tx.add_task(&spec)?;
        for on in on {
            tx.add_dependency(id, on)?;
        }
        for link in &links {
            tx.link(id, link)?;
        }
        if let Some(given) = &args.batch {
            let batch = tx.reader().find_batch(given)?;
            tx.join_batch(batch, id)?;
        }
        Ok(id)
    })?;
    show(&store, id, console, "added")
}

/// A task with an engine that nobody knows would only fail later.
fn refuse_unknown_engine(workspace: &Workspace, engine: Option<&str>) -> Result<(), CliError> {
    let Some(name) = engine else { return Ok(()) };
    let layer = resolve(Some(workspace), Layer::default(), Layer::default())?;
    let engines = layer.engines().map_err(ConfigError::from)?;
    known_engine("--engine", name, &engines)
}

/// `cf tasks edit`.
pub(super) fn edit(args: EditArgs, console: &Console) -> Ended {
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    let given = args.agent.engine.as_ref().map(|engine| engine.0.as_str());
    refuse_unknown_engine(&workspace, given)?;
    let description = match (&args.description, &args.file) {
        (Some(text), _) => Some(text.clone()),
        (None, Some(path)) => Some(read_text(path)?),
        (None, None) => None,
    };
    let AgentFlags {
        engine,
        model,
        timeout,
        env,
    } = args.agent;
    let clears = |field| args.clear.contains(&field);
    let mut edit = TaskEdit {
        key: args.key.map(Some),
        title: args.title,
        description,
        run: args.run.map(Some),
        verify: args.verify.map(Some),
        engine: engine.map(|engine| Some(engine.0)),
        model: model.map(Some),
        timeout: timeout.map(|limit| Some(limit.0)),
        env: None,
        priority: args.priority,
    };
    for (field, is_given) in [
        (Field::Key, edit.key.is_some()),
        (Field::Description, edit.description.is_some()),
        (Field::Run, edit.run.is_some()),
        (Field::Verify, edit.verify.is_some()),
        (Field::Engine, edit.engine.is_some()),
        (Field::Model, edit.model.is_some()),
        (Field::Timeout, edit.timeout.is_some()),
    ] {
        if is_given && clears(field) {
            return Err(CliError::usage(
                format!("a field is both set and cleared: {field:?}").to_lowercase(),
                "give one of the two",
            ));
        }
    }
    for field in &args.clear {
        match field {
            Field::Key => edit.key = Some(None),
            Field::Description => edit.description = Some(String::new()),
            Field::Run => edit.run = Some(None),
            Field::Verify => edit.verify = Some(None),
            Field::Engine => edit.engine = Some(None),
            Field::Model => edit.model = Some(None),
            Field::Timeout => edit.timeout = Some(None),
            Field::Env => edit.env = Some(BTreeMap::new()),
        }
    }
    if edit == TaskEdit::default() && env.is_empty() {
        return Err(CliError::usage(
            "there is nothing to change",
            "give a field, such as --title, or --clear FIELD; `cf tasks edit --help` lists them",
        ));
    }
    let id = store.write(&actor, |tx| {
        let id = find_task(&tx.reader(), &actor, &args.task)?;
        if !env.is_empty() {
            let mut variables = match edit.env.take() {
                Some(cleared) => cleared,
                None => tx.reader().task(id)?.env,
            };
            variables.extend(env);
            edit.env = Some(variables);
        }
        tx.edit_task(id, &edit)?;
        Ok(id)
    })?;
    show(&store, id, console, "changed")
}

/// Prints the task that was made or changed.
fn show(store: &Store, id: TaskId, console: &Console, what: &str) -> Ended {
    let (view, links) = store.read(|reader| Ok((reader.task_view(id)?, reader.links(id)?)))?;
    if console.json {
        console::print_json(&TaskJson::new(
            &view.task,
            &view.depends_on,
            &links,
            view.open_blockers,
        ))?;
    } else {
        console.say(format_args!(
            "{what} {} ({}), {}",
            console.paint(Look::Strong, view.task.label()),
            view.task.id,
            console.paint(task::look(view.task.status), view.task.status)
        ))?;
    }
    Ok(0)
}

/// `cf tasks delete`.
pub(super) fn delete(args: &DeleteArgs, console: &Console) -> Ended {
    let (_, mut store, actor) = workspace::open_to_write()?;
    let deleted = store.write(&actor, |tx| {
        let mut ids = Vec::new();
        for given in &args.tasks {
            let id = find_task(&tx.reader(), &actor, given)?;
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let mut deleted = Vec::new();
        for id in dependents_first(&tx.reader(), &ids)? {
            let label = tx.reader().label(id)?;
            tx.delete_task(id, args.force)?;
            deleted.push((id, label));
        }
        Ok(deleted)
    })?;
    if console.json {
        let ids: Vec<TaskId> = deleted.iter().map(|(id, _)| *id).collect();
        console::print_json(&json!({ "deleted": ids }))?;
    }
    for (_, label) in deleted {
        console.say(format_args!("deleted {label}"))?;
    }
    Ok(0)
}

/// The tasks in an order in which none is deleted while another of them still depends on it.
fn dependents_first(
    reader: &cf_conductor::store::Reader<'_>,
    ids: &[TaskId],
) -> Result<Vec<TaskId>, StoreError> {
    let mut edges = Vec::new();
    for id in ids {
        for on in reader.depends_on(*id)? {
            edges.push((*id, on));
        }
    }
    let graph = cf_core::Graph::new(ids.iter().map(|id| (*id, 0)), edges);
    // Stored dependencies have no cycle; if they had, any order would do.
    let mut order = graph.order().unwrap_or_else(|_| ids.to_vec());
    order.reverse();
    Ok(order)
}

/// `cf tasks depend`.
pub(super) fn depend(args: &DependArgs, console: &Console) -> Ended {
    let (_, mut store, actor) = workspace::open_to_write()?;
    let (id, changed) = store.write(&actor, |tx| {
        let id = find_task(&tx.reader(), &actor, &args.task)?;
        let mut changed = Vec::new();
        for given in &args.on {
            let on = find_task(&tx.reader(), &actor, given)?;
            let moved = if args.remove {
                tx.remove_dependency(id, on)?
            } else {
                tx.add_dependency(id, on)?
            };
            changed.push((tx.reader().label(on)?, moved));
        }
        Ok((id, changed))
    })?;
    if console.json {
        return show(&store, id, console, "changed");
    }
    let label = store.read(|reader| reader.label(id))?;
    for (on, moved) in changed {
        let what = match (args.remove, moved) {
            (false, true) => "now depends on",
            (false, false) => "depended already on",
            (true, true) => "no longer depends on",
            (true, false) => "did not depend on",
        };
        console.say(format_args!("{label} {what} {on}"))?;
    }
    Ok(0)
}

/// `cf tasks link`.
pub(super) fn link(args: &LinkArgs, console: &Console) -> Ended {
    make_links(
        &args.task,
        &links(&args.links, &args.issue, &args.pr)?,
        console,
    )
}

/// `cf pr link`.
pub(in crate::commands) fn link_prs(args: &PrLinkArgs, console: &Console) -> Ended {
    make_links(&args.task, &links(&[], &[], &args.prs)?, console)
}

fn make_links(task: &TaskRef, links: &[Link], console: &Console) -> Ended {
    let (_, mut store, actor) = workspace::open_to_write()?;
    let (id, made) = store.write(&actor, |tx| {
        let id = find_task(&tx.reader(), &actor, task)?;
        let mut made = Vec::new();
        for link in links {
            made.push(tx.link(id, link)?);
        }
        Ok((id, made))
    })?;
    if console.json {
        return show(&store, id, console, "changed");
    }
    let label = store.read(|reader| reader.label(id))?;
    for (link, new) in links.iter().zip(made) {
        let what = if new {
            "is linked to"
        } else {
            "was linked already to"
        };
        console.say(format_args!("{label} {what} {} {link}", link.kind))?;
    }
    Ok(0)
}

/// `cf tasks unlink`.
pub(super) fn unlink(args: &UnlinkArgs, console: &Console) -> Ended {
    let links = links(&args.links, &[], &[])?;
    let (_, mut store, actor) = workspace::open_to_write()?;
    let id = store.write(&actor, |tx| {
        let id = find_task(&tx.reader(), &actor, &args.task)?;
        for link in &links {
            tx.unlink(id, link)?;
        }
        Ok(id)
    })?;
    if console.json {
        return show(&store, id, console, "changed");
    }
    let label = store.read(|reader| reader.label(id))?;
    for link in links {
        console.say(format_args!("{label} is no longer linked to {link}"))?;
    }
    Ok(0)
}

/// Reads links: those that stand alone are issues unless their address says otherwise.
fn links(plain: &[String], issues: &[String], prs: &[String]) -> Result<Vec<Link>, CliError> {
    let wrong = |problem: String| CliError::Usage {
        message: problem,
        hint: None,
    };
    let mut links = Vec::new();
    for text in plain {
        let link = Link::parse(text, LinkKind::Issue, crate::config::default_host());
        links.push(link.map_err(|error| wrong(error.to_string()))?);
    }
    for (texts, kind) in [(issues, LinkKind::Issue), (prs, LinkKind::Pr)] {
        for text in texts {
            links.push(plan::link(text, kind).map_err(wrong)?);
        }
    }
    Ok(links)
}

/// `cf tasks set status`.
pub(super) fn set_status(args: &SetStatusArgs, console: &Console) -> Ended {
    let (_, mut store, actor) = workspace::open_to_write()?;
    let written = store.write(&actor, |tx| {
        let mut written = Vec::new();
        for given in &args.tasks {
            let id = find_task(&tx.reader(), &actor, given)?;
            let before = tx.reader().task(id)?;
            written.push((before, tx.set_status(id, args.status, Expect::Anything)?));
        }
        Ok(written)
    });
    let said = json!({ "status": args.status });
    let written = kept_when_stale(&mut store, &actor, written, said)?;
    if console.json {
        let list: Vec<_> = written
            .iter()
            .map(|(before, write)| {
                let (status, version) = match write {
                    StatusWrite::Changed { version, .. } => (args.status, *version),
                    StatusWrite::Same | StatusWrite::Lost | StatusWrite::Reported => (before.status, before.version),
                };
                json!({
                    "id": before.id, "key": before.key, "from": before.status, "status": status, "version": version,
                    "changed": matches!(write, StatusWrite::Changed { .. }),
                    "reported": matches!(write, StatusWrite::Reported),
                })
            })
            .collect();
        console::print_json(&list)?;
        return Ok(0);
    }
    for (before, write) in &written {
        let label = before.label();
        let to = console.paint(task::look(args.status), args.status);
        match write {
            StatusWrite::Changed { .. } => {
                console.say(format_args!("{label}: {} -> {to}", before.status))?;
            }
            StatusWrite::Same => console.say(format_args!("{label}: {to} already"))?,
            StatusWrite::Reported => {
                console.say(format_args!(
                    "{label}: reported {to}; the status follows when the agent ends"
                ))?;
            }
            StatusWrite::Lost => console.say(format_args!(
                "{label}: not written, it was changed meanwhile"
            ))?,
        }
    }
    Ok(0)
}
