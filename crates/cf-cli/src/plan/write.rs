//! Writes tasks as a plan file that reads back to the same tasks.

use std::io::{self, Write};

use cf_conductor::store::task::TaskSpec;
use cf_core::{Link, LinkKind, format_duration};

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
}

/// Writes one `[[task]]`. Fields that are not set are left out.
///
/// # Errors
///
/// The writer refuses.
pub(crate) fn write(out: &mut impl Write, task: &Exported<'_>) -> io::Result<()> {
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
        let urls: Vec<String> = task
            .links
            .iter()
            .filter(|link| link.kind == kind)
            .map(Link::url)
            .collect();
        match urls.as_slice() {
            [] => {}
            [one] => writeln!(out, "{name} = {}", string(one))?,
            several => writeln!(out, "{name} = {}", list(several.iter().map(String::as_str)))?,
        }
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
            // Carriage returns would be read back as part of a line end, and other controls are not allowed bare.
            c if c.is_control() => {
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
