//! Lists: a table that fits a terminal, or one line a row with a tab between the columns.

use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table as Layout, Width};

use super::text;
use crate::console::{Console, Look};

/// A cell: its text, from outside or not, and how it looks on a terminal.
#[derive(Debug)]
pub(crate) struct Field {
    text: String,
    look: Look,
}

impl Field {
    /// A cell in a look of its own.
    pub(crate) fn new(text: impl AsRef<str>, look: Look) -> Self {
        Self {
            text: text::line(text.as_ref()).into_owned(),
            look,
        }
    }
}

impl<T: AsRef<str>> From<T> for Field {
    fn from(text: T) -> Self {
        Self::new(text, Look::Plain)
    }
}

/// Rows with the same columns.
#[derive(Debug)]
pub(crate) struct Table {
    headings: &'static [&'static str],
    rows: Vec<Vec<Field>>,
}

impl Table {
    /// An empty table. The last column takes what room is left and wraps.
    pub(crate) const fn new(headings: &'static [&'static str]) -> Self {
        Self {
            headings,
            rows: Vec::new(),
        }
    }

    /// Adds a row, with as many cells as there are headings.
    pub(crate) fn row<const N: usize>(&mut self, fields: [Field; N]) {
        debug_assert_eq!(N, self.headings.len(), "a row has a cell for each heading");
        self.rows.push(fields.into());
    }

    /// Writes the table as the console wants it.
    ///
    /// # Errors
    ///
    /// The writer refuses.
    pub(crate) fn write(&self, console: &Console, out: &mut impl Write) -> io::Result<()> {
        match console.width {
            Some(width) => self.write_layout(console, width, out),
            None => self.write_lines(console, out),
        }
    }

    fn write_lines(&self, console: &Console, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{}",
            console.paint(Look::Dim, self.headings.join("\t"))
        )?;
        for row in &self.rows {
            for (at, field) in row.iter().enumerate() {
                if at > 0 {
                    out.write_all(b"\t")?;
                }
                write!(out, "{}", console.paint(field.look, &field.text))?;
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn write_layout(
        &self,
        console: &Console,
        width: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let mut layout = Layout::new();
        layout
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(u16::try_from(width).unwrap_or(u16::MAX));
        layout.set_header(self.headings.iter().map(Cell::new));
        for row in &self.rows {
            layout.add_row(row.iter().map(|field| Cell::new(&field.text)));
        }
        let last = self.headings.len().saturating_sub(1);
        for (at, column) in layout.column_iter_mut().enumerate() {
            column.set_padding((0, if at == last { 0 } else { 2 }));
            // Words such as a status are read at a glance only when they are in one piece.
            let longest = self
                .rows
                .iter()
                .map(|row| row[at].text.chars().count())
                .max();
            if at != last && longest.is_some_and(|longest| longest <= width / 3) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            } else if at != last {
                column.set_constraint(ColumnConstraint::UpperBoundary(Width::Percentage(40)));
            }
        }
        // Colours go on afterwards, line by line: the layout counts characters, and sequences are not characters.
        let mut lines = Vec::new();
        for line in layout.lines() {
            lines.push(line.trim_end().to_owned());
        }
        let mut shown = lines.iter();
        if let Some(headings) = shown.next() {
            writeln!(out, "{}", console.paint(Look::Dim, headings))?;
        }
        let mut rows = self.rows.iter().peekable();
        for line in shown {
            let painted = rows.next_if(|row| line.starts_with(row[0].text.as_str()));
            match painted {
                Some(row) => writeln!(out, "{}", paint_line(console, line, row))?,
                None => writeln!(out, "{line}")?,
            }
        }
        Ok(())
    }
}

/// Paints the first appearance of each field of a row that has a look of its own.
fn paint_line(console: &Console, line: &str, row: &[Field]) -> String {
    let mut painted = String::with_capacity(line.len() + 16);
    let mut rest = line;
    for field in row
        .iter()
        .filter(|f| f.look != Look::Plain && !f.text.is_empty())
    {
        if let Some(at) = rest.find(&field.text) {
            painted.push_str(&rest[..at]);
            painted.push_str(&console.paint(field.look, &field.text).to_string());
            rest = &rest[at + field.text.len()..];
        }
    }
    painted.push_str(rest);
    painted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["Id", "Status", "Title"]);
        table.row(["a1".into(), "READY".into(), "short".into()]);
        table.row([
            "b2".into(),
            "IN_PROGRESS".into(),
            "a title that is much too long\nfor \u{1b}[31mthe\u{1b}[0m terminal".into(),
        ]);
        table
    }

    fn shown(width: Option<usize>) -> String {
        let console = Console::plain(width);
        let mut out = Vec::new();
        table().write(&console, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_pipe_gets_a_line_a_row_with_tabs() {
        assert_eq!(
            shown(None),
            "Id\tStatus\tTitle\na1\tREADY\tshort\nb2\tIN_PROGRESS\ta title that is much too long for the terminal\n"
        );
    }

    #[test]
    fn a_terminal_gets_no_line_that_is_too_long() {
        let text = shown(Some(40));
        assert!(
            text.lines().all(|line| line.chars().count() <= 40),
            "{text}"
        );
        assert!(text.starts_with("Id  Status       Title\n"), "{text}");
        assert!(text.contains("b2  IN_PROGRESS  a title"), "{text}");
    }
}
