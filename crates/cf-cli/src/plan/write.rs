//! Writes tasks as a plan file that reads back to the same tasks.

use std::collections::BTreeMap;
use std::io::{self, Write};

use cf_conductor::store::task::TaskSpec;
use cf_core::{Link, LinkKind, format_duration};
use serde::Serialize;

use crate::render::json::escape;

/// One task to be written.
#[derive(Debug)]
pub(crate) struct Exported<'t> {
    /// The key under which it is written: its own, or its full id, so that others can depend on it.
    pub(crate) key: String,
    /// Its own fields.
    pub(crate) spec: &'t TaskSpec,
    /// The written keys of what it depends on.
    pub(crate) depends_on: Vec<String>,
    /// What it is linked to.
    pub(crate) links: &'t [Link],
    /// Where somebody wrote it who is not trusted.
    pub(crate) origin: Option<&'t str>,
}

impl Exported<'_> {
    /// The addresses of its links of one kind.
    fn urls(&self, kind: LinkKind) -> Vec<String> {
        let links = self.links.iter().filter(|link| link.kind == kind);
        links.map(Link::url).collect()
    }
}

/// Writes tasks as `[[task]]` tables. Fields that are not set are left out.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_toml(out: &mut impl Write, tasks: &[Exported<'_>]) -> io::Result<()> {
    for (at, task) in tasks.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        write_table(out, task)?;
    }
    Ok(())
}

/// Writes tasks as a list of objects. Fields that are not set are left out.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write_json(out: &mut impl Write, tasks: &[Exported<'_>]) -> io::Result<()> {
    let tasks: Vec<Object<'_>> = tasks.iter().map(Object::new).collect();
    escape::pass(out, &serde_json::to_string_pretty(&tasks)?)?;
    writeln!(out)
}

/// A task as an object; its fields have the names and the order of a `[[task]]`.
#[derive(Serialize)]
struct Object<'t> {
    key: &'t str,
    title: &'t str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'t str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'t str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<&'t str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    engine: Option<&'t str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'t str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    depends_on: &'t [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: &'t BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    issue: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pr: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<&'t str>,
}

impl<'t> Object<'t> {
    fn new(task: &'t Exported<'t>) -> Self {
        let spec = task.spec;
        Self {
            key: &task.key,
            title: &spec.title,
            description: &spec.description,
            run: spec.run.as_deref(),
            verify: spec.verify.as_deref(),
            engine: spec.engine.as_deref(),
            model: spec.model.as_deref(),
            depends_on: &task.depends_on,
            priority: (spec.priority != 0).then_some(spec.priority),
            timeout: spec.timeout.map(format_duration),
            env: &spec.env,
            issue: task.urls(LinkKind::Issue),
            pr: task.urls(LinkKind::Pr),
            origin: task.origin,
        }
    }
}

fn write_table(out: &mut impl Write, task: &Exported<'_>) -> io::Result<()> {
    let spec = task.spec;
    writeln!(out, "[[task]]")?;
    writeln!(out, "key = {}", string(&task.key))?;
    writeln!(out, "title = {}", string(&spec.title))?;
    if !spec.description.is_empty() {
        writeln!(out, "description = {}", string(&spec.description))?;
    }
    for (name, value) in [
        ("run", &spec.run),
        ("verify", &spec.verify),
        ("engine", &spec.engine),
        ("model", &spec.model),
    ] {
        if let Some(value) = value {
            writeln!(out, "{name} = {}", string(value))?;
        }
    }
    if !task.depends_on.is_empty() {
        writeln!(
            out,
            "depends_on = {}",
            list(task.depends_on.iter().map(String::as_str))
        )?;
    }
    if spec.priority != 0 {
        writeln!(out, "priority = {}", spec.priority)?;
    }
    if let Some(timeout) = spec.timeout {
        writeln!(out, "timeout = {}", string(&format_duration(timeout)))?;
    }
    if !spec.env.is_empty() {
        let pairs: Vec<String> = spec
            .env
            .iter()
            .map(|(name, value)| format!("{} = {}", bare_or_quoted(name), string(value)))
            .collect();
        writeln!(out, "env = {{ {} }}", pairs.join(", "))?;
    }
    for (name, kind) in [("issue", LinkKind::Issue), ("pr", LinkKind::Pr)] {
        match task.urls(kind).as_slice() {
            [] => {}
            [one] => writeln!(out, "{name} = {}", string(one))?,
            several => writeln!(out, "{name} = {}", list(several.iter().map(String::as_str)))?,
        }
    }
    if let Some(origin) = task.origin {
        writeln!(out, "origin = {}", string(origin))?;
    }
    Ok(())
}

/// A TOML string: basic, or multi-line when the text has line feeds.
fn string(text: &str) -> String {
    use std::fmt::Write as _;
    let several_lines = text.contains('\n');
    let mut written = String::with_capacity(text.len() + 8);
    written.push_str(if several_lines { "\"\"\"\n" } else { "\"" });
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            // Within several lines a lone quotation mark ends nothing.
            '"' if several_lines
                && !written.ends_with('"')
                && rest.peek().is_some_and(|c| *c != '"') =>
            {
                written.push('"');
            }
            '"' => written.push_str("\\\""),
            '\\' => written.push_str("\\\\"),
            '\n' => written.push('\n'),
            '\t' => written.push('\t'),
            // Carriage returns would be read back as part of a line end, other controls are not allowed bare, and
            // what reorders text would show another plan than is read.
            c if c.is_control() || escape::acts(c) => {
                let _ = write!(written, "\\u{:04X}", u32::from(c));
            }
            c => written.push(c),
        }
    }
    written.push_str(if several_lines { "\"\"\"" } else { "\"" });
    written
}

/// A TOML key: bare where that is allowed.
fn bare_or_quoted(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        string(name)
    }
}

fn list<'s>(words: impl Iterator<Item = &'s str>) -> String {
    format!("[{}]", words.map(string).collect::<Vec<_>>().join(", "))
}
