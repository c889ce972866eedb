//! As much of a terminal as the tests need: one that the program writes to, and what it shows then.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use unicode_width::UnicodeWidthChar as _;

/// What a terminal does with rows that are longer than it has become wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnResize {
    /// They go on in the next row, as in most.
    Wrap,
    /// Their ends are gone, as in xterm.
    Cut,
}

/// One column of a row.
#[derive(Clone, Debug)]
struct Cell {
    /// A character and what is written upon it; nothing in the second column of a wide one.
    text: String,
    is_styled: bool,
}

#[derive(Clone, Debug, Default)]
struct Row {
    cells: Vec<Cell>,
    /// Whether the next one goes on with it.
    is_wrapped: bool,
}

impl Row {
    fn text(&self) -> String {
        self.cells.iter().map(|cell| cell.text.as_str()).collect()
    }
}

/// What a terminal shows.
#[derive(Clone, Debug)]
pub struct Terminal {
    columns: usize,
    height: usize,
    on_resize: OnResize,
    /// Also those that have scrolled away: the last `height` are on the screen.
    rows: Vec<Row>,
    row: usize,
    column: usize,
    /// The last column is written: the next character wraps first.
    is_at_the_end: bool,
    is_styled: bool,
}

impl Terminal {
    /// An empty one, with the cursor in the first row.
    pub fn new(columns: usize, height: usize, on_resize: OnResize) -> Self {
        Self {
            columns,
            height,
            on_resize,
            rows: vec![Row::default(); height],
            row: 0,
            column: 0,
            is_at_the_end: false,
            is_styled: false,
        }
    }

    /// Its width.
    pub const fn columns(&self) -> usize {
        self.columns
    }

    /// How many rows it has.
    pub const fn height(&self) -> usize {
        self.height
    }

    /// The row, counted with those that have scrolled away, and the column.
    pub const fn cursor(&self) -> (usize, usize) {
        (self.row, self.column)
    }

    /// The rows, without what is empty at the end.
    pub fn text(&self) -> Vec<String> {
        trimmed(self.rows.iter().map(Row::text))
    }

    /// The rows, each with those that go on with it.
    pub fn joined(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut line = String::new();
        for row in &self.rows {
            line += &row.text();
            if !row.is_wrapped {
                lines.push(std::mem::take(&mut line));
            }
        }
        trimmed(lines.into_iter())
    }

    /// What stands there in a style.
    pub fn styled(&self) -> Vec<String> {
        let of = |row: &Row| {
            let cells = row.cells.iter().filter(|cell| cell.is_styled);
            cells.map(|cell| cell.text.as_str()).collect::<String>()
        };
        let rows = self.rows.iter().map(of);
        rows.filter(|text| !text.is_empty()).collect()
    }

    /// Does what it is told. A sequence that no test knows fails the test.
    pub fn take(&mut self, written: &str) {
        let mut rest = written.chars();
        while let Some(c) = rest.next() {
            match c {
                '\r' => {
                    self.column = 0;
                    self.is_at_the_end = false;
                }
                // The terminal driver makes a new line of it (ONLCR).
                '\n' => {
                    self.column = 0;
                    self.line_feed();
                }
                '\x1b' => {
                    assert_eq!(rest.next(), Some('['), "a sequence that no test knows");
                    let mut parameters = String::new();
                    let last = loop {
                        match rest.next().expect("a whole sequence") {
                            c @ ('0'..='9' | ';') => parameters.push(c),
                            c => break c,
                        }
                    };
                    self.sequence(last, &parameters);
                }
                c => self.put(c),
            }
        }
    }

    fn sequence(&mut self, last: char, parameters: &str) {
        match last {
            'A' => {
                let up: usize = parameters.parse().expect("a number of rows");
                assert!(up > 0, "a terminal goes up one for 0");
                let top = self.rows.len() - self.height;
                self.row = self.row.saturating_sub(up).max(top);
                self.is_at_the_end = false;
            }
            'J' => {
                assert_eq!(parameters, "");
                self.keep_what_is_cleared();
                // Where a whole row is written, this takes its last character away.
                self.rows[self.row].cells.truncate(self.column);
                self.rows[self.row].is_wrapped = false;
                for row in &mut self.rows[self.row + 1..] {
                    *row = Row::default();
                }
            }
            'K' => {
                assert_eq!(parameters, "");
                self.rows[self.row].cells.truncate(self.column);
                self.rows[self.row].is_wrapped = false;
            }
            'm' => self.is_styled = parameters != "0",
            other => panic!("no test knows {other}"),
        }
    }

    /// When all of the screen is cleared, some terminals (tmux) have it scroll away.
    fn keep_what_is_cleared(&mut self) {
        let top = self.rows.len() - self.height;
        if (self.row, self.column) == (top, 0) {
            let screen = &self.rows[top..];
            let used = screen.iter().rposition(|row| !row.cells.is_empty());
            let used = used.map_or(0, |last| last + 1);
            self.row += used;
            self.rows.resize(self.rows.len() + used, Row::default());
        }
    }

    fn line_feed(&mut self) {
        self.is_at_the_end = false;
        self.row += 1;
        if self.row == self.rows.len() {
            self.rows.push(Row::default());
        }
    }

    fn put(&mut self, c: char) {
        let width = c.width().expect("a control that no test knows");
        let width = if c == '\u{fe0f}' {
            self.widen();
            return;
        } else {
            width
        };
        if width == 0 {
            self.last_cell().text.push(c);
            return;
        }
        if self.is_at_the_end || self.column + width > self.columns {
            self.rows[self.row].is_wrapped = true;
            self.line_feed();
            self.column = 0;
        }
        let row = &mut self.rows[self.row].cells;
        let empty = Cell {
            text: " ".to_owned(),
            is_styled: false,
        };
        row.resize(row.len().max(self.column + width), empty);
        row[self.column] = Cell {
            text: c.to_string(),
            is_styled: self.is_styled,
        };
        for second in &mut row[self.column + 1..self.column + width] {
            second.text.clear();
        }
        self.advance(width);
    }

    /// The character before the cursor becomes a wide one.
    fn widen(&mut self) {
        self.last_cell().text.push('\u{fe0f}');
        let cell = Cell {
            text: String::new(),
            is_styled: self.is_styled,
        };
        self.rows[self.row].cells.truncate(self.column);
        self.rows[self.row].cells.push(cell);
        self.advance(1);
    }

    fn advance(&mut self, width: usize) {
        self.column += width;
        self.is_at_the_end = self.column >= self.columns;
        if self.is_at_the_end {
            self.column = self.columns - 1;
        }
    }

    fn last_cell(&mut self) -> &mut Cell {
        let cells = &mut self.rows[self.row].cells;
        cells
            .iter_mut()
            .rfind(|cell| !cell.text.is_empty())
            .expect("a character before")
    }

    /// Gives it another size. The cursor must be at the start of a row.
    pub fn resize(&mut self, columns: usize, height: usize) {
        assert_eq!(self.column, 0, "the cursor rests at the start of a row");
        let old = std::mem::take(&mut self.rows);
        let cursor = self.row;
        let cut = self.on_resize == OnResize::Cut;
        (self.columns, self.height) = (columns, height);
        (self.row, self.is_at_the_end) = (0, false);
        self.rows = vec![Row::default()];
        let last = old.iter().rposition(|row| !row.cells.is_empty());
        let last = last.map_or(cursor, |last| last.max(cursor));
        let mut cursor_now = 0;
        for (at, row) in old.into_iter().enumerate().take(last + 1) {
            if at == cursor {
                cursor_now = self.row;
            }
            if cut {
                let mut row = row;
                row.cells.truncate(columns);
                self.rows[self.row] = row;
                self.line_feed();
                continue;
            }
            let is_wrapped = row.is_wrapped;
            for cell in row.cells {
                self.is_styled = cell.is_styled;
                for c in cell.text.chars() {
                    self.put(c);
                }
            }
            if !is_wrapped {
                self.line_feed();
                self.column = 0;
            }
        }
        (self.row, self.column, self.is_styled) = (cursor_now, 0, false);
        let at_least = self.height.max(self.row + 1);
        self.rows.truncate(at_least.max(self.rows.len() - 1));
        let missing = self.height.saturating_sub(self.rows.len());
        self.rows
            .extend(std::iter::repeat_n(Row::default(), missing));
    }
}

fn trimmed(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// A terminal of this size: the side on which what is written can be read, and the one for a program.
pub(crate) fn pair(columns: u16, rows: u16) -> io::Result<(File, OwnedFd)> {
    let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&screen)?;
    unlockpt(&screen)?;
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&screen, size)?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let program = open(ptsname(&screen, Vec::new())?, flags, Mode::empty())?;
    Ok((screen.into(), program))
}
