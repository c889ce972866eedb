//! Plan files: tasks to import or run, and settings of the run, as TOML, JSON or CSV.
//!
//! Reading is strict and complains about everything at once, with lines. What a plan says about tasks that are not in
//! it (its dependencies on stored tasks) is left to whoever has the store. What [`write_toml`] and [`write_json`] write
//! reads back to the same tasks.

mod csv;
mod json;
mod write;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use cf_conductor::store::task::TaskSpec;
use cf_core::{Graph, GraphError, Link, LinkKind, TaskKey, TaskRef, cycle_in_words};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::{self, EngineName, Layer, Limit, Value as _, integer};
use crate::document::{Complaints, Document, DocumentError, article, nearest};
pub(crate) use write::{Exported, write_json, write_toml};

/// The largest priority; 0 is most urgent.
pub(crate) const LAST_PRIORITY: i64 = 1_000_000;

/// How a plan is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PlanFormat {
    // The words explain themselves; documentation would put a line of its own into the help text.
    Toml,
    Json,
    Csv,
}

impl PlanFormat {
    /// The format that the name of a file asks for; TOML unless it ends in `.json` or `.csv`.
    pub(crate) fn of(path: &Path) -> Self {
        let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
        match ending.as_deref().and_then(|ending| ending.to_str()) {
            Some("json") => Self::Json,
            Some("csv") => Self::Csv,
            _ => Self::Toml,
        }
    }
}

/// A plan as read: every task is possible in itself, no key stands twice, and the dependencies among them have no
/// cycle.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What the file is called in messages.
    pub(crate) name: String,
    /// The tasks, in the order of the file.
    pub(crate) tasks: Vec<PlanTask>,
    /// `[batch]`.
    pub(crate) batch: Layer,
}

/// One `[[task]]`.
#[derive(Debug)]
pub(crate) struct PlanTask {
    /// The line where it begins.
    pub(crate) line: usize,
    /// Where it begins, as messages say it: the file and the line, or more.
    pub(crate) place: String,
    /// Its own fields.
    pub(crate) spec: TaskSpec,
    /// What it depends on: keys of this plan, or names of stored tasks.
    pub(crate) depends_on: Vec<TaskRef>,
    /// `issue` and `pr`.
    pub(crate) links: Vec<Link>,
    /// Where somebody wrote it who is not trusted.
    pub(crate) origin: Option<String>,
}

impl Plan {
    /// Reads a plan from a file, or from standard input for `-`.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or everything that is wrong in it.
    pub(crate) fn read(path: &Path, format: PlanFormat) -> Result<Self, DocumentError> {
        Self::from_document(Document::read(path)?, format)
    }

    /// Reads a plan from a text.
    #[cfg(test)]
    pub(crate) fn parse(name: &str, text: &str, format: PlanFormat) -> Result<Self, DocumentError> {
        Self::from_document(Document::new(name, text.to_owned()), format)
    }

    fn from_document(document: Document, format: PlanFormat) -> Result<Self, DocumentError> {
        match format {
            PlanFormat::Toml => {
                let table = document.table()?;
                Self::from_table(&table, &document, Complaints::new(&document))
            }
            PlanFormat::Json | PlanFormat::Csv => {
                let document = document.with_columns();
                let mut complaints = Complaints::new(&document);
                let table = match format {
                    PlanFormat::Csv => csv::table(&document, &mut complaints),
                    _ => json::table(&document, &mut complaints),
                };
                Self::from_table(&table, &document, complaints)
            }
        }
    }

    fn from_table(
        table: &DeTable<'_>,
        document: &Document,
        mut complaints: Complaints<'_>,
    ) -> Result<Self, DocumentError> {
        let mut plan = Self {
            name: document.name().to_owned(),
            tasks: Vec::new(),
            batch: Layer::default(),
        };
        let mut spans = Vec::new();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "task" => match value.get_ref().as_array() {
                    Some(list) => {
                        for item in list {
                            let Some(task) = complaints.table("task", item) else {
                                continue;
                            };
                            plan.tasks.push(read_task(
                                task,
                                item.span().start,
                                document,
                                &mut complaints,
                            ));
                            spans.push(item.span());
                        }
                    }
                    None => complaints.at(
                        &key.span(),
                        "tasks are a list, in TOML written as `[[task]]`, with two brackets"
                            .to_owned(),
                    ),
                },
                "batch" => {
                    if let Some(batch) = complaints.table("batch", value) {
                        plan.batch = config::from_batch_table(batch, document, &mut complaints);
                    }
                }
                _ => complaints.unknown(key, "a plan", &["task", "batch"]),
            }
        }
        plan.check_keys(&spans, &mut complaints);
        complaints.finish()?;
        let mut complaints = Complaints::new(document);
        plan.check_cycles(&spans, &mut complaints);
        complaints.finish()?;
        Ok(plan)
    }

    fn check_keys(&self, spans: &[std::ops::Range<usize>], complaints: &mut Complaints<'_>) {
        let mut first: HashMap<&TaskKey, usize> = HashMap::new();
        for (task, span) in self.tasks.iter().zip(spans) {
            let Some(key) = &task.spec.key else { continue };
            if let Some(line) = first.get(key) {
                complaints.at(
                    span,
                    format!("the key `{key}` stands already at the task in line {line}"),
                );
            } else {
                first.insert(key, task.line);
            }
        }
    }

    fn check_cycles(&self, spans: &[std::ops::Range<usize>], complaints: &mut Complaints<'_>) {
        let index: HashMap<&str, usize> = self
            .tasks
            .iter()
            .enumerate()
            .filter_map(|(at, task)| Some((task.spec.key.as_ref()?.as_str(), at)))
            .collect();
        let edges = self.tasks.iter().enumerate().flat_map(|(at, task)| {
            let inside = task
                .depends_on
                .iter()
                .filter_map(|on| index.get(on.as_str()).copied());
            inside.map(move |on| (at, on))
        });
        let nodes = (0..self.tasks.len()).map(|at| (at, 0));
        let Err(GraphError::Cycle(cycle)) = Graph::new(nodes, edges.collect::<Vec<_>>()).order()
        else {
            return;
        };
        let name = |at: &usize| {
            let key = self.tasks[*at].spec.key.as_ref();
            key.map_or("?", TaskKey::as_str)
        };
        let message = if let [one, _] = cycle.as_slice() {
            format!("task `{}` depends on itself", name(one))
        } else {
            let Ok(words) = cycle_in_words(&cycle, |at| {
                Ok::<_, std::convert::Infallible>(name(at).to_owned())
            });
            format!("dependencies form a cycle: {words}")
        };
        complaints.at(&spans[cycle[0]], message);
    }
}

const TASK_KEYS: &[&str] = &[
    "key",
    "title",
    "description",
    "run",
    "verify",
    "depends_on",
    "priority",
    "engine",
    "model",
    "timeout",
    "env",
    "issue",
    "pr",
    "origin",
];

fn read_task(
    table: &DeTable<'_>,
    at: usize,
    document: &Document,
    complaints: &mut Complaints<'_>,
) -> PlanTask {
    let mut task = PlanTask {
        line: document.line(at),
        place: format!("{}:{}", document.name(), document.place(at)),
        spec: TaskSpec::default(),
        depends_on: Vec::new(),
        links: Vec::new(),
        origin: None,
    };
    let mut has_title = false;
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        let result = match name {
            "key" => text(value)
                .and_then(|text| text.parse().map_err(|e: cf_core::KeyError| e.to_string()))
                .map(|key| task.spec.key = Some(key)),
            "title" => {
                has_title = true;
                text(value).and_then(|text| {
                    task.spec.title = text;
                    if task.spec.title.trim().is_empty() {
                        return Err("a title cannot be empty".to_owned());
                    }
                    Ok(())
                })
            }
            "description" => text(value).map(|text| task.spec.description = text),
            "run" => filled(value).map(|text| task.spec.run = Some(text)),
            "verify" => filled(value).map(|text| task.spec.verify = Some(text)),
            "depends_on" => texts(value).map(|names| {
                task.depends_on = names.into_iter().map(TaskRef::new).collect();
            }),
            "priority" => priority(value.get_ref()).map(|number| task.spec.priority = number),
            "engine" => {
                EngineName::from_toml(value.get_ref()).map(|e| task.spec.engine = Some(e.0))
            }
            "model" => filled(value).map(|text| task.spec.model = Some(text)),
            "timeout" => Limit::from_toml(value.get_ref()).map(|l| task.spec.timeout = Some(l.0)),
            "env" => environment(value).map(|env| task.spec.env = env),
            "issue" => links(value, LinkKind::Issue).map(|mut found| task.links.append(&mut found)),
            "pr" => links(value, LinkKind::Pr).map(|mut found| task.links.append(&mut found)),
            "origin" => origin(value).map(|place| task.origin = Some(place)),
            _ => {
                complaints.unknown(key, "[[task]]", TASK_KEYS);
                // A mistyped title is one mistake, not two.
                has_title |= nearest(name, TASK_KEYS) == Some("title");
                continue;
            }
        };
        if let Err(problem) = result {
            complaints.at(&value.span(), format!("`{name}`: {problem}"));
        }
    }
    if !has_title {
        complaints.at(&(at..at), "a task needs a `title`".to_owned());
    }
    if let (Some(_), Some(engine)) = (&task.spec.run, &task.spec.engine)
        && engine != "shell"
    {
        complaints.at(
            &(at..at),
            format!("a task with a `run` script is run by the shell engine, not by {engine}; give either `run` or `engine`"),
        );
    }
    task
}

/// Where a task was written by somebody who is not trusted, such as `github.com owner/repo#12`. It stands outside the
/// fences of a prompt.
fn origin(value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    const LONGEST: usize = 200;
    let place = filled(value)?;
    if place.len() > LONGEST || place.contains(|c: char| c.is_control() || c == '`') {
        return Err(format!(
            "expected a place in one line of at most {LONGEST} bytes, such as `github.com owner/repo#12`"
        ));
    }
    Ok(place)
}

fn text(value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    let value = value.get_ref();
    let text = value
        .as_str()
        .ok_or_else(|| format!("expected a string, found {}", article(value.type_str())))?;
    // Such text would be cut where it becomes an argument or a variable of a process.
    if text.contains('\0') {
        return Err("a NUL character is not allowed".to_owned());
    }
    Ok(text.to_owned())
}

fn filled(value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    match text(value)? {
        empty if empty.trim().is_empty() => Err("it is empty; leave it out instead".to_owned()),
        text => Ok(text),
    }
}

fn texts(value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
    match value.get_ref().as_array() {
        Some(list) => list.iter().map(text).collect(),
        None => Err(format!(
            "expected a list of strings, found {}",
            article(value.get_ref().type_str())
        )),
    }
}

fn priority(value: &DeValue<'_>) -> Result<i64, String> {
    let expected = format!("expected a whole number from 0 (most urgent) to {LAST_PRIORITY}");
    match integer(value) {
        Some(number) if (0..=LAST_PRIORITY).contains(&number) => Ok(number),
        Some(number) => Err(format!("{number} is not allowed: {expected}")),
        None => Err(format!("{expected}, found {}", article(value.type_str()))),
    }
}

fn environment(value: &Spanned<DeValue<'_>>) -> Result<BTreeMap<String, String>, String> {
    let Some(table) = value.get_ref().as_table() else {
        return Err(format!(
            "expected a table of strings, found {}",
            article(value.get_ref().type_str())
        ));
    };
    let mut variables = BTreeMap::new();
    for (name, value) in table {
        let name = name.get_ref().as_ref();
        check_variable(name)?;
        let value = text(value).map_err(|problem| format!("{name}: {problem}"))?;
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

/// Checks the name of an environment variable that a task sets.
///
/// # Errors
///
/// It is empty, holds `=` or a control character, or is one that `cf` sets itself.
pub(crate) fn check_variable(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains('=') || name.chars().any(char::is_control) {
        return Err(format!(
            "{name:?} is not the name of an environment variable"
        ));
    }
    if name.starts_with("CF_") {
        return Err(format!(
            "{name} is not allowed: variables that begin with CF_ belong to cf"
        ));
    }
    Ok(())
}

fn links(value: &Spanned<DeValue<'_>>, kind: LinkKind) -> Result<Vec<Link>, String> {
    let names = match value.get_ref() {
        DeValue::Array(_) => texts(value)?,
        _ => vec![text(value)?],
    };
    names.iter().map(|name| link(name, kind)).collect()
}

/// Reads a link whose kind is given by where it stands.
///
/// # Errors
///
/// It names no issue or pull request, or its address says that it is the other.
pub(crate) fn link(text: &str, kind: LinkKind) -> Result<Link, String> {
    let link = Link::parse(text, kind, crate::config::default_host())
        .map_err(|error| error.to_string())?;
    if link.kind != kind {
        let found = match link.kind {
            LinkKind::Issue => "an issue",
            LinkKind::Pr => "a pull request",
        };
        return Err(format!("{text:?} is {found}"));
    }
    Ok(link)
}

#[cfg(test)]
mod tests;
