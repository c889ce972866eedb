//! `cf tasks list`, `show` and `graph`.

use std::io::Write;
use std::ops::ControlFlow;

use cf_conductor::github::{LinkView, links_of};
use cf_conductor::heard;
use cf_conductor::store::event::EventFilter;
use cf_conductor::store::ids::ById;
use cf_conductor::store::read_cli::TaskLine;
use cf_conductor::store::task::TaskFilter;
use cf_conductor::store::{Reader, Store, StoreError};
use cf_conductor::workspace::Workspace;
use cf_core::{Link, TaskId};

use super::super::batch::resolve;
use super::super::{Ended, Labels, find_task, github};
use crate::args::tasks::{GraphArgs, GraphFormat, ListArgs, ShowArgs};
use crate::config::Layer;
use crate::console::outlet::Outlet;
use crate::console::{self, Console};
use crate::error::CliError;
use crate::render::graph::{self, Diagram, Language, Node};
use crate::render::json::rows::push_task;
use crate::render::json::{
    AttemptJson, BlockerJson, CommentJson, EventJson, FullTaskJson, TaskJson,
};
use crate::render::task::{self, FullTask};
use crate::render::text;
use crate::workspace;

/// `cf tasks list`.
pub(super) fn list(args: &ListArgs, console: &Console) -> Ended {
    let (_, store) = workspace::open_to_read()?;
    store.expect_a_scan()?;
    let mut out = console::out();
    if console.json {
        list_json(args, &store, &mut out)?;
    } else if console.width.is_some() || console.is_styled() {
        let mut table = task::table();
        store.read(|reader| {
            reader.task_lines(&filter(args), |line| {
                task::add_row(&mut table, &line);
                ControlFlow::Continue(())
            })
        })?;
        table.write(console, &mut out)?;
    } else {
        list_lines(args, &store, &mut out)?;
    }
    out.flush()?;
    Ok(0)
}

fn filter(args: &ListArgs) -> TaskFilter {
    TaskFilter {
        statuses: args.status.clone(),
        limit: args.limit,
    }
}

/// The same lines as those of the table without styles, made as the rows are read: a list of ten thousand is read by
/// other programs again and again.
fn list_lines(args: &ListArgs, store: &Store, out: &mut impl Write) -> Result<(), CliError> {
    let mut lines = Outlet::new();
    lines
        .end()
        .extend_from_slice(task::HEADINGS.join("\t").as_bytes());
    lines.end().push(b'\n');
    store.read(|reader| {
        reader.task_lines(&filter(args), |line| {
            push_line(lines.end(), &line);
            lines.offer()
        })
    })?;
    Ok(lines.finish(out)?)
}

fn push_line(lines: &mut Vec<u8>, line: &TaskLine<'_>) {
    let mut column = |text: &str| {
        lines.extend_from_slice(text.as_bytes());
        lines.push(b'\t');
    };
    column(line.id.get(..8).unwrap_or(line.id));
    column(line.key.unwrap_or_default());
    column(line.status);
    if line.priority == 0 {
        column("0");
    } else {
        column(&line.priority.to_string());
    }
    if line.open_blockers == 0 {
        column("");
    } else {
        column(&line.open_blockers.to_string());
    }
    lines.extend_from_slice(text::line(line.title).as_bytes());
    lines.push(b'\n');
}

fn list_json(args: &ListArgs, store: &Store, out: &mut impl Write) -> Result<(), CliError> {
    let mut lines = Outlet::new();
    let mut lead = "[";
    store.read(|reader| {
        reader.task_rows(&filter(args), |row| {
            lines.end().extend_from_slice(lead.as_bytes());
            lead = ",\n";
            push_task(lines.end(), row);
            lines.offer()
        })
    })?;
    let end: &[u8] = if lead == "[" { b"[]\n" } else { b"]\n" };
    lines.end().extend_from_slice(end);
    Ok(lines.finish(out)?)
}

/// `cf tasks show`.
pub(super) fn one(args: &ShowArgs, console: &Console) -> Ended {
    let (workspace, store) = workspace::open_to_read()?;
    let actor = cf_conductor::caller::actor(&store)?;
    let mut out = console::out();
    // Everything is read in one transaction, so that what is shown was true together.
    let mut labels = Labels::default();
    let (view, links, blockers, attempts, worktrees, comments, events, depends_on, dependents) =
        store.read(|reader| {
            let id = find_task(reader, &actor, &args.task)?;
            let view = reader.task_view(id)?;
            let mut depends_on = Vec::new();
            for on in &view.depends_on {
                depends_on.push((labels.of(reader, *on)?, reader.task(*on)?.status));
            }
            let mut dependents = Vec::new();
            for id in reader.dependents(id)? {
                dependents.push(labels.of(reader, id)?);
            }
            Ok((
                view,
                reader.links(id)?,
                reader.blockers(Some(id), None)?,
                reader.attempts(id)?,
                reader.worktrees_of(id)?,
                reader.comments(id)?,
                reader.event_list(&EventFilter {
                    task: Some(id),
                    ..EventFilter::default()
                })?,
                depends_on,
                dependents,
            ))
        })?;
    let views = links_known(&workspace, &store, view.task.id, &links)?;
    let mut attempts = attempts;
    for attempt in &mut attempts {
        heard::catch_up(attempt, &workspace.log_of(attempt.id));
    }
    let label = view.task.label();
    if console.json {
        let shape = FullTaskJson {
            task: TaskJson::new(&view.task, &view.depends_on, &links, view.open_blockers)
                .with_trackers(&views),
            blockers: blockers
                .iter()
                .map(|b| BlockerJson::new(b, Some(&label)))
                .collect(),
            attempts: attempts
                .iter()
                .map(|a| {
                    let worktree = worktrees.iter().find(|row| row.attempt == a.id);
                    AttemptJson::new(a, &label, &workspace, worktree)
                })
                .collect(),
            comments: comments.iter().map(CommentJson::new).collect(),
            events: events.iter().map(EventJson::new).collect(),
        };
        console::print_json(&shape)?;
        return Ok(0);
    }
    FullTask {
        task: &view.task,
        depends_on: &depends_on,
        dependents: &dependents,
        links: &views,
        blockers: &blockers,
        attempts: &attempts,
        worktrees: &worktrees,
        trees: &workspace.worktrees(),
        comments: &comments,
        events: &events,
    }
    .write(console, &mut out)?;
    out.flush()?;
    Ok(0)
}

/// What is known about the links of a task. A configuration that cannot be read is no reason not to show it.
fn links_known(
    workspace: &Workspace,
    store: &Store,
    task: TaskId,
    links: &[Link],
) -> Result<Vec<LinkView>, CliError> {
    if links.is_empty() {
        return Ok(Vec::new());
    }
    let layer = resolve(Some(workspace), Layer::default(), Layer::default());
    let source = match &layer {
        Ok(layer) => github::source(layer).ok_or(github::OFF),
        Err(_) => Err("the configuration cannot be read, see `cf config check`"),
    };
    Ok(store.read(|reader| links_of(source.as_ref().map_err(|why| *why), reader, task))?)
}

/// `cf tasks graph`.
pub(super) fn graph(args: &GraphArgs, console: &Console) -> Ended {
    let (_, store) = workspace::open_to_read()?;
    store.expect_a_scan()?;
    if console.json {
        console::print_json(&store.read(read_nodes)?)?;
        return Ok(0);
    }
    let mut out = console::out();
    match args.format {
        GraphFormat::Text => graph::write_text(console, &mut out, &store.read(read_nodes)?)?,
        GraphFormat::Mermaid => write_diagram(&store, Language::Mermaid, &mut out)?,
        GraphFormat::Dot => write_diagram(&store, Language::Dot, &mut out)?,
    }
    out.flush()?;
    Ok(0)
}

/// Every task is drawn as it is read; no more is kept of it than where it stands.
fn write_diagram(store: &Store, language: Language, out: &mut impl Write) -> Result<(), CliError> {
    let mut lines = Outlet::new();
    let mut diagram = Diagram::begin(lines.end(), language);
    let mut edges = Vec::new();
    store.read(|reader| {
        let mut places: ById<u32> = ById::default();
        each_task(reader, |line| {
            let place = diagram.task(lines.end(), line.label(), line.status, line.title);
            places.insert(line.task_id()?, place);
            Ok(lines.offer())
        })?;
        reader.each_edge(|task, on| {
            if let (Some(task), Some(on)) = (places.get(&task), places.get(&on)) {
                edges.push((*on, *task));
            }
        })
    })?;
    diagram.end(lines.end(), &mut edges);
    Ok(lines.finish(out)?)
}

/// Every task with what it depends on.
fn read_nodes(reader: &Reader<'_>) -> Result<Vec<Node>, StoreError> {
    let mut nodes: Vec<Node> = Vec::new();
    each_task(reader, |line| {
        nodes.push(Node {
            depends_on: Vec::new(),
            id: line.task_id()?,
            label: line.label().to_owned(),
            status: line.task_status()?,
            title: line.title.to_owned(),
        });
        Ok(ControlFlow::Continue(()))
    })?;
    let places: ById<usize> = nodes.iter().enumerate().map(|(at, n)| (n.id, at)).collect();
    reader.each_edge(|task, on| {
        if let Some(at) = places.get(&task) {
            nodes[*at].depends_on.push(on);
        }
    })?;
    Ok(nodes)
}

/// Every task in turn, until `each` breaks or cannot read one.
fn each_task(
    reader: &Reader<'_>,
    mut each: impl FnMut(&TaskLine<'_>) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut read = Ok(());
    reader.task_lines(&TaskFilter::default(), |line| {
        each(&line).unwrap_or_else(|error| {
            read = Err(error);
            ControlFlow::Break(())
        })
    })?;
    read
}
