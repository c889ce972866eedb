//! Plans written as CSV: a header that names fields, and a row for each task.
//!
//! RFC 4180 with both line ends. The rows become the table that TOML would have made of them, with the place of every
//! cell, so that one reader judges all formats. `depends_on`, `issue` and `pr` hold several names with spaces, commas
//! or semicolons between them; `env.NAME` is a variable; an empty cell leaves its field out.

use std::borrow::Cow;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::TASK_KEYS;
use crate::document::{Complaints, Document, nearest};

/// A cell: where it stands, quotation marks included, and what it says.
type Cell<'d> = Spanned<Cow<'d, str>>;

/// Reads the text as a plan's table. What is not CSV in it is complained about.
pub(super) fn table<'d>(document: &'d Document, complaints: &mut Complaints<'_>) -> DeTable<'d> {
    let rows = match rows(document.text()) {
        Ok(rows) => rows,
        Err((at, problem)) => {
            complaints.at(&(at..at), problem.to_owned());
            return DeTable::new();
        }
    };
    let mut rows = rows.into_iter();
    let Some(header) = rows.next() else {
        complaints.at(
            &(0..0),
            "the first line must name the columns; `title` is needed".to_owned(),
        );
        return DeTable::new();
    };
    let columns = columns(&header, complaints);
    let mut tasks = DeArray::new();
    for row in rows {
        let place = row[0].span().start..row[row.len() - 1].span().end;
        if row.len() == columns.len() {
            tasks.push(Spanned::new(place, DeValue::Table(task(&columns, row))));
        } else {
            let at = row.get(columns.len()).map_or(place, Spanned::span);
            let told = format!(
                "this row has {} cells, and there are {} columns",
                row.len(),
                columns.len()
            );
            complaints.at(&at, told);
        }
    }
    let whole = 0..document.text().len();
    let key = Spanned::new(whole.clone(), Cow::Borrowed("task"));
    DeTable::from_iter([(key, Spanned::new(whole, DeValue::Array(tasks)))])
}

/// What each column holds; one that means nothing is complained about once, and its cells are not read.
fn columns<'d>(header: &[Cell<'d>], complaints: &mut Complaints<'_>) -> Vec<Option<Cell<'d>>> {
    let mut columns: Vec<Option<Cell<'d>>> = Vec::with_capacity(header.len());
    for cell in header {
        let name = cell.get_ref().trim();
        let is_known = name.starts_with("env.") || (name != "env" && TASK_KEYS.contains(&name));
        let stands_already = columns
            .iter()
            .flatten()
            .any(|known| known.get_ref() == name);
        if !is_known {
            let tail = match nearest(name, TASK_KEYS) {
                Some("env") => "; a variable is a column `env.NAME`".to_owned(),
                Some(near) => format!("; did you mean `{near}`?"),
                None => format!("; known here: {}", TASK_KEYS.join(", ")),
            };
            complaints.at(&cell.span(), format!("unknown column `{name}`{tail}"));
        } else if stands_already {
            complaints.at(&cell.span(), format!("the column `{name}` stands twice"));
        } else {
            columns.push(Some(Spanned::new(cell.span(), Cow::Owned(name.to_owned()))));
            continue;
        }
        columns.push(None);
    }
    columns
}

/// One row as a task's table.
fn task<'d>(columns: &[Option<Cell<'d>>], row: Vec<Cell<'d>>) -> DeTable<'d> {
    let mut table = DeTable::new();
    let mut env: Option<(Range<usize>, DeTable<'d>)> = None;
    for (column, cell) in columns.iter().zip(row) {
        let Some(column) = column else { continue };
        if cell.get_ref().is_empty() {
            continue;
        }
        let span = cell.span();
        let name = column.get_ref().as_ref();
        if let Some(variable) = name.strip_prefix("env.") {
            let (_, variables) = env.get_or_insert_with(|| (span.clone(), DeTable::new()));
            let key = Spanned::new(column.span(), Cow::Owned(variable.to_owned()));
            variables.insert(key, Spanned::new(span, DeValue::String(cell.into_inner())));
            continue;
        }
        let value = match name {
            "priority" => number(cell.into_inner()),
            "depends_on" | "issue" | "pr" => DeValue::Array(names(&cell)),
            _ => DeValue::String(cell.into_inner()),
        };
        table.insert(column.clone(), Spanned::new(span, value));
    }
    if let Some((span, variables)) = env {
        let key = Spanned::new(span.clone(), Cow::Borrowed("env"));
        table.insert(key, Spanned::new(span, DeValue::Table(variables)));
    }
    table
}

/// A cell that should hold a whole number; anything else stays a text, and is complained about as such.
fn number(text: Cow<'_, str>) -> DeValue<'_> {
    let Cow::Borrowed(digits) = text else {
        return DeValue::String(text);
    };
    match DeValue::parse(digits.trim()) {
        Ok(value) if value.get_ref().is_integer() => value.into_inner(),
        _ => DeValue::String(text),
    }
}

fn names<'d>(cell: &Cell<'_>) -> DeArray<'d> {
    let mut list = DeArray::new();
    let separates = |c: char| c.is_whitespace() || c == ',' || c == ';';
    for name in cell
        .get_ref()
        .split(separates)
        .filter(|name| !name.is_empty())
    {
        list.push(Spanned::new(
            cell.span(),
            DeValue::String(Cow::Owned(name.to_owned())),
        ));
    }
    list
}

/// Splits the text into rows of cells. Empty lines are no rows.
///
/// # Errors
///
/// Where it is not CSV, and why.
fn rows(text: &str) -> Result<Vec<Vec<Cell<'_>>>, (usize, &'static str)> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut at = if text.starts_with('\u{feff}') {
        '\u{feff}'.len_utf8()
    } else {
        0
    };
    while at < text.len() {
        let cell = if text[at..].starts_with('"') {
            quoted(text, at)?
        } else {
            bare(text, at)?
        };
        at = cell.span().end;
        row.push(cell);
        let rest = &text[at..];
        if rest.starts_with(',') {
            at += 1;
            if at == text.len() {
                row.push(Spanned::new(at..at, Cow::Borrowed("")));
            } else {
                continue;
            }
        } else if rest.starts_with("\r\n") {
            at += 2;
        } else if rest.starts_with('\n') {
            at += 1;
        } else if !rest.is_empty() {
            return Err((
                at,
                "after a closing quotation mark there must be a comma or the end of the line",
            ));
        }
        let finished = std::mem::take(&mut row);
        if finished.len() > 1 || !finished[0].get_ref().is_empty() {
            rows.push(finished);
        }
    }
    Ok(rows)
}

/// A cell without quotation marks around it.
fn bare(text: &str, at: usize) -> Result<Cell<'_>, (usize, &'static str)> {
    let rest = &text[at..];
    let mut end = rest.find([',', '\n']).unwrap_or(rest.len());
    if rest[end..].starts_with('\n') && rest[..end].ends_with('\r') {
        end -= 1;
    }
    match rest[..end].find('"') {
        Some(inside) => Err((
            at + inside,
            "a cell with a quotation mark must stand in quotation marks, and the mark be doubled",
        )),
        None => Ok(Spanned::new(at..at + end, Cow::Borrowed(&rest[..end]))),
    }
}

/// A cell in quotation marks; a doubled one stands for itself.
fn quoted(text: &str, at: usize) -> Result<Cell<'_>, (usize, &'static str)> {
    let mut end = at + 1;
    loop {
        let Some(mark) = text[end..].find('"') else {
            return Err((at, "this quotation mark is never closed"));
        };
        end += mark + 1;
        if !text[end..].starts_with('"') {
            break;
        }
        end += 1;
    }
    let inside = &text[at + 1..end - 1];
    let says = if inside.contains('"') {
        Cow::Owned(inside.replace("\"\"", "\""))
    } else {
        Cow::Borrowed(inside)
    };
    Ok(Spanned::new(at..end, says))
}
