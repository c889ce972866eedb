//! Lists: a table that fits a terminal, or one line a row with a tab between the columns.

use std::borrow::Cow;
use std::io::{self, Write};

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Row, Table as Layout, Width};

use super::text;
use crate::console::{Console, Look};

/// A cell: its text, from outside or not, and how it looks on a terminal.
#[derive(Debug)]
pub(crate) struct Field<'t> {
    text: Cow<'t, str>,
    look: Look,
}

impl<'t> Field<'t> {
    /// A cell in a look of its own.
    pub(crate) fn new(text: impl Into<Cow<'t, str>>, look: Look) -> Self {
        Self {
            text: text.into(),
            look,
        }
    }
}

impl<'t> From<&'t str> for Field<'t> {
    fn from(text: &'t str) -> Self {
        Self::new(text, Look::Plain)
    }
}

impl From<String> for Field<'_> {
    fn from(text: String) -> Self {
        Self::new(text, Look::Plain)
    }
}

impl<'t> From<Cow<'t, str>> for Field<'t> {
    fn from(text: Cow<'t, str>) -> Self {
        Self::new(text, Look::Plain)
    }
}

/// Rows with the same columns.
#[derive(Debug)]
pub(crate) struct Table {
    headings: &'static [&'static str],
    /// The texts of all cells, one after the other: a piece of memory for each would cost more than all else.
    texts: String,
    /// Where each cell ends in them, and how it looks; row after row.
    cells: Vec<(usize, Look)>,
}

/// A cell as it is shown.
#[derive(Clone, Copy, Debug)]
struct Shown<'t> {
    text: &'t str,
    look: Look,
}

impl Table {
    /// An empty table. The last column takes what room is left and wraps.
    pub(crate) const fn new(headings: &'static [&'static str]) -> Self {
        Self {
            headings,
            texts: String::new(),
            cells: Vec::new(),
        }
    }

    /// Adds a row, with as many cells as there are headings.
    pub(crate) fn row<const N: usize>(&mut self, fields: [Field<'_>; N]) {
        debug_assert_eq!(N, self.headings.len(), "a row has a cell for each heading");
        for field in fields {
            self.texts.push_str(&text::line(&field.text));
            self.cells.push((self.texts.len(), field.look));
        }
    }

    fn cell(&self, at: usize) -> Shown<'_> {
        let (end, look) = self.cells[at];
        let from = at.checked_sub(1).map_or(0, |before| self.cells[before].0);
        Shown {
            text: &self.texts[from..end],
            look,
        }
    }

    fn rows(&self) -> impl Iterator<Item = impl Iterator<Item = Shown<'_>> + Clone> {
        let columns = self.headings.len();
        let starts = (0..self.cells.len()).step_by(columns.max(1));
        starts.map(move |start| (start..start + columns).map(|at| self.cell(at)))
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
        for row in self.rows() {
            for (at, shown) in row.enumerate() {
                if at > 0 {
                    out.write_all(b"\t")?;
                }
                if console.is_styled() {
                    write!(out, "{}", console.paint(shown.look, shown.text))?;
                } else {
                    out.write_all(shown.text.as_bytes())?;
                }
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
        let columns: Vec<Room> = (0..self.headings.len())
            .map(|at| self.room(at, width))
            .collect();
        let Some(fit) = Fit::of(&columns, width) else {
            return self.write_records(console, &columns, out);
        };
        let mut layout = Layout::new();
        layout
            .load_style(NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_truncation_indicator("…")
            .set_width(u16::try_from(width).unwrap_or(u16::MAX));
        layout.set_header(self.headings.iter().map(Cell::new));
        for row in self.rows() {
            let mut cells = Row::from(row.map(|shown| Cell::new(cut(shown.text, width))));
            cells.max_height(MOST_LINES);
            layout.add_row(cells);
        }
        let last = columns.len().saturating_sub(1);
        for (at, (column, room)) in layout.column_iter_mut().zip(&columns).enumerate() {
            let gap = if at == last { 0 } else { fit.gap() };
            column.set_padding((0, gap));
            let least = Width::Fixed(u16::try_from(room.word).unwrap_or(u16::MAX) + gap);
            column.set_constraint(match fit {
                _ if room.is_flexible || at == last => ColumnConstraint::LowerBoundary(least),
                Fit::Tight if room.breaks => ColumnConstraint::LowerBoundary(least),
                Fit::Wide | Fit::Tight => ColumnConstraint::ContentWidth,
            });
            if room.is_flexible && at != last && fit == Fit::Wide {
                column.set_constraint(ColumnConstraint::Boundaries {
                    lower: least,
                    upper: Width::Percentage(40),
                });
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
        let mut rows = self.rows().peekable();
        for line in shown {
            let is_of = |first: Shown<'_>| line.starts_with(first.text);
            let painted = rows.next_if(|row| row.clone().next().is_some_and(is_of));
            match painted {
                Some(row) => writeln!(out, "{}", paint_line(console, line, row))?,
                None => writeln!(out, "{line}")?,
            }
        }
        Ok(())
    }

    /// How much room a column wants, in a terminal of this width.
    fn room(&self, at: usize, width: usize) -> Room {
        let places = || (at..self.cells.len()).step_by(self.headings.len().max(1));
        let texts = || places().map(|place| self.cell(place).text);
        let heading = self.headings[at].len();
        let widest = |text: &str| text.chars().count();
        let content = texts().map(widest).max().unwrap_or(0);
        let word = texts()
            .flat_map(str::split_whitespace)
            .map(widest)
            .max()
            .unwrap_or(0);
        // Words such as a status are read at a glance only when they are in one piece.
        let is_flexible = content > width / 3;
        Room {
            whole: content.max(heading),
            word: heading.max(if is_flexible { READABLE } else { word }),
            is_flexible,
            breaks: word < content,
        }
    }

    /// A row after the other, where the terminal is too narrow for columns: what is short on one line, and every long
    /// text on lines of its own.
    fn write_records(
        &self,
        console: &Console,
        columns: &[Room],
        out: &mut impl Write,
    ) -> io::Result<()> {
        for row in self.rows() {
            let is_long = |at: usize| columns[at].is_flexible;
            let short = row.clone().enumerate().filter(|(at, _)| !is_long(*at));
            let short = short.filter(|(_, field)| !field.text.is_empty());
            for (nth, (at, field)) in short.enumerate() {
                let gap = if nth == 0 { "" } else { "  " };
                // A number says nothing without its heading.
                let heading = if field.text.bytes().all(|byte| byte.is_ascii_digit()) {
                    format!("{} ", self.headings[at].to_lowercase())
                } else {
                    String::new()
                };
                write!(
                    out,
                    "{gap}{heading}{}",
                    console.paint(field.look, field.text)
                )?;
            }
            writeln!(out)?;
            for (_, field) in row.enumerate().filter(|(at, _)| is_long(*at)) {
                if !field.text.is_empty() {
                    writeln!(out, "  {}", console.paint(field.look, field.text))?;
                }
            }
        }
        Ok(())
    }
}

/// How many lines a row may have. Whoever wants to read a long text asks for the one thing that it belongs to.
const MOST_LINES: usize = 6;

/// The narrowest column, in characters, in which a long text can still be read.
const READABLE: usize = 12;

/// How wide a column is, in characters.
#[derive(Clone, Copy, Debug)]
struct Room {
    /// With every text in one piece.
    whole: usize,
    /// As narrow as can still be read: with every word of a short text in one piece.
    word: usize,
    /// Whether its texts are so long that they are broken into lines.
    is_flexible: bool,
    /// Whether they can be broken between words, if they must.
    breaks: bool,
}

/// How the columns find room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// Short texts in one piece, with two spaces between the columns.
    Wide,
    /// Short texts too are broken between words, with one space between the columns.
    Tight,
}

impl Fit {
    /// The most comfortable fit; none when there is none.
    fn of(columns: &[Room], width: usize) -> Option<Self> {
        let gaps = columns.len().saturating_sub(1);
        let wide: usize = columns
            .iter()
            .map(|room| {
                if room.is_flexible {
                    room.word
                } else {
                    room.whole
                }
            })
            .sum();
        let tight: usize = columns.iter().map(|room| room.word).sum();
        if wide + 2 * gaps <= width {
            Some(Self::Wide)
        } else if tight + gaps <= width {
            Some(Self::Tight)
        } else {
            None
        }
    }

    const fn gap(self) -> u16 {
        match self {
            Self::Wide => 2,
            Self::Tight => 1,
        }
    }
}

/// Paints the first appearance of each field of a row that has a look of its own.
fn paint_line<'t>(console: &Console, line: &str, row: impl Iterator<Item = Shown<'t>>) -> String {
    let mut painted = String::with_capacity(line.len() + 16);
    let mut rest = line;
    for field in row.filter(|f| f.look != Look::Plain && !f.text.is_empty()) {
        if let Some(at) = rest.find(field.text) {
            painted.push_str(&rest[..at]);
            painted.push_str(&console.paint(field.look, field.text).to_string());
            rest = &rest[at + field.text.len()..];
        }
    }
    painted.push_str(rest);
    painted
}

/// What the layout is given of a text: to break a long word into lines costs the square of its length, and most of
/// these would not be shown. A line more than is shown has it cut the text where there is no room for more.
fn cut(text: &str, width: usize) -> Cow<'_, str> {
    text::shortened(text, (MOST_LINES + 1).saturating_mul(width + 1))
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

    #[test]
    fn no_heading_and_no_short_word_is_ever_broken() {
        let mut table = Table::new(&["Id", "Status", "Started", "Completed", "Skipped"]);
        table.row([
            "9feabbe7".into(),
            "RUNNING (no conductor)".into(),
            "2026-11-30 06:47Z".into(),
            "12".into(),
            "3".into(),
        ]);
        for width in [20, 30, 40, 44, 50, 55, 60, 70, 80, 200] {
            let mut out = Vec::new();
            table.write(&Console::plain(Some(width)), &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            for word in ["9feabbe7", "RUNNING", "conductor)", "2026-11-30", "06:47Z"] {
                assert!(text.contains(word), "{width}: {text}");
            }
            if width >= 55 {
                assert!(
                    text.lines().next().unwrap().ends_with("Skipped"),
                    "{width}: {text}"
                );
                let longest = text.lines().map(|line| line.chars().count()).max();
                assert!(longest <= Some(width), "{width}: {text}");
            }
        }
    }

    #[test]
    fn a_terminal_too_narrow_for_columns_gets_lines_that_can_be_read() {
        let mut table = Table::new(&["Task", "State", "Attempts", "Title", "Reason"]);
        table.row([
            "task-3".into(),
            "FAILED".into(),
            "2".into(),
            "A title that is quite long for so narrow a terminal".into(),
            "exit code 1: and what else was said".into(),
        ]);
        let mut out = Vec::new();
        table.write(&Console::plain(Some(40)), &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "task-3  FAILED  attempts 2\n  A title that is quite long for so narrow a terminal\n  exit code 1: and what else was said\n"
        );
    }

    #[test]
    fn a_word_without_end_costs_no_more_than_what_is_shown_of_it() {
        for word in ["y", "\u{6f22}", "\u{301}"] {
            let title = word.repeat(40_000);
            assert!(cut(&title, 80).chars().count() < 1_000, "{word}");
            let mut table = Table::new(&["Task", "State", "Title"]);
            table.row(["a".into(), "READY".into(), title.into()]);
            let mut out = Vec::new();
            table.write(&Console::plain(Some(80)), &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().count() <= 1 + MOST_LINES, "{text}");
            assert!(text.trim_end().ends_with('…'), "{text}");
        }
    }

    #[test]
    fn a_text_without_end_takes_a_few_lines() {
        let mut table = Table::new(&["Task", "Reason"]);
        table.row(["a".into(), "said and said again ".repeat(100).into()]);
        let mut out = Vec::new();
        table.write(&Console::plain(Some(80)), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 1 + MOST_LINES, "{text}");
        assert!(text.contains('…'), "{text}");
    }
}
