//! Lines at the bottom of a terminal that change in place, below finished ones that stay.
//!
//! What is shown must fit, because what has scrolled away cannot be taken back. The cursor rests at the start of the
//! row below the lines, and no mode of the terminal is changed: nothing has to be put right when the program is killed
//! in the middle. Nothing is drawn by itself: the owner says what is to be seen, again whenever time has passed.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::iter;
use std::time::{Duration, Instant};

use unicode_width::UnicodeWidthChar as _;

use super::screen::USUAL_HEIGHT;

/// The least time between two changes: nobody sees more than eight a second.
const PACE: Duration = Duration::from_millis(125);

/// How many characters of a bar say how much is done.
const BAR_WIDTH: u64 = 24;

/// No style (ECMA-48: SGR).
const RESET: &str = "\x1b[0m";

/// Asks for the emoji form of the character before it, which is wide.
const EMOJI_FORM: char = '\u{fe0f}';

/// Lines that change in place on standard error.
///
/// Text in them has no controls; styles are [`Look`](super::Look)s. A line is cut to the width of the terminal, and
/// where there is no room for all, those above the last are left out. A terminal that cannot move its cursor shows
/// none of them, but what is printed.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    block: Block,
}

impl Lines {
    /// Shows lines in the place of the last ones. Those that come right after a change are for the next call.
    pub(crate) fn show(&mut self, lines: &[String]) {
        let change = self.block.change(lines, Room::here(), Instant::now());
        // What cannot be shown is shown next time, or nobody looks.
        let _ = write(change.as_deref().unwrap_or_default());
    }

    /// Prints a finished line, which stays, above those that change.
    ///
    /// # Errors
    ///
    /// Standard error refuses.
    pub(crate) fn print(&mut self, finished: &str, lines: &[String]) -> io::Result<()> {
        write(
            &self
                .block
                .print(finished, lines, Room::here(), Instant::now()),
        )
    }

    /// Takes the lines away. The cursor is at the start of an empty row then.
    ///
    /// # Errors
    ///
    /// Standard error refuses.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        write(&self.block.clear(Room::here().columns))
    }
}

impl Drop for Lines {
    /// Whoever goes in the middle leaves an error to be told, on a clean row.
    fn drop(&mut self) {
        // The words of a panic are below the lines already, and stay.
        if !std::thread::panicking() {
            let _ = self.clear();
        }
    }
}

/// How much is done, as a bar and in numbers.
pub(crate) fn bar(done: u64, total: u64) -> String {
    let filled = done
        .min(total)
        .saturating_mul(BAR_WIDTH)
        .checked_div(total)
        .unwrap_or(BAR_WIDTH);
    let head = if done > 0 && filled < BAR_WIDTH {
        ">"
    } else {
        ""
    };
    let filled = format!("{}{head}", "=".repeat(filled as usize));
    format!(
        "[{filled:width$}] {done}/{total}",
        width = BAR_WIDTH as usize
    )
}

/// All at once, so that no terminal shows half of it.
fn write(change: &str) -> io::Result<()> {
    if change.is_empty() {
        return Ok(());
    }
    super::err().write_all(change.as_bytes())
}

/// What a terminal has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    /// At least one.
    columns: usize,
    /// One less than its rows, as the cursor has one too.
    lines: usize,
}

impl Room {
    /// Asks standard error. It may have another size each time.
    fn here() -> Self {
        let rows = rustix::termios::tcgetwinsize(io::stderr())
            .ok()
            .map(|size| usize::from(size.ws_row))
            .filter(|rows| *rows > 0)
            .unwrap_or(USUAL_HEIGHT);
        let moves = std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb");
        Self {
            columns: super::terminal_width(io::stderr()).max(1),
            lines: if moves { rows - 1 } else { 0 },
        }
    }
}

/// What stands on the terminal, and what has to be written to change it.
#[derive(Debug, Default)]
struct Block {
    drawn: Vec<String>,
    changed_at: Option<Instant>,
}

impl Block {
    /// What shows these lines; nothing when they stand there, or others since just now.
    fn change(&mut self, lines: &[String], room: Room, now: Instant) -> Option<String> {
        if self
            .changed_at
            .is_some_and(|at| now.saturating_duration_since(at) < PACE)
        {
            return None;
        }
        let lines = fitting(lines, room);
        if lines == self.drawn {
            return None;
        }
        let mut change = self.clear(room.columns);
        self.draw(lines, now, &mut change);
        Some(change)
    }

    fn print(&mut self, finished: &str, lines: &[String], room: Room, now: Instant) -> String {
        let mut change = self.clear(room.columns);
        change.push_str(finished);
        change.push('\n');
        self.draw(fitting(lines, room), now, &mut change);
        change
    }

    fn draw(&mut self, lines: Vec<String>, now: Instant, change: &mut String) {
        for line in &lines {
            change.push_str(line);
            change.push('\n');
        }
        self.drawn = lines;
        self.changed_at = Some(now);
    }

    /// What takes the lines away from a terminal that has this width now. One that became narrower has wrapped them
    /// (most do; of those that cut them instead, a few rows above are taken away too).
    fn clear(&mut self, columns: usize) -> String {
        let mut change = String::new();
        let rows: usize = self.drawn.iter().map(|line| rows(line, columns)).sum();
        if rows > 0 {
            // Up to the first row, and away with it, then with all below, where also stands what was typed meanwhile
            // (ECMA-48: CUU, EL, ED). Not with all at once: tmux keeps a whole screen that is cleared as history.
            write!(change, "\r\x1b[{rows}A\x1b[K\n\x1b[J\x1b[1A")
                .expect("a string takes whatever is written to it");
        }
        self.drawn.clear();
        change
    }
}

/// The lines for which there is room: the last, and of the others the first.
fn fitting(lines: &[String], room: Room) -> Vec<String> {
    let Some((last, others)) = lines.split_last().filter(|_| room.lines > 0) else {
        return Vec::new();
    };
    others
        .iter()
        .take(room.lines - 1)
        .chain([last])
        .map(|line| cut(line, room.columns))
        .collect()
}

/// A line, or as much of it as this many columns hold. It ends without a style.
fn cut(line: &str, columns: usize) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut left = columns;
    let mut is_styled = false;
    for piece in pieces(line) {
        if piece.is_style() {
            is_styled = piece.text != RESET;
        }
        let Some(after) = left.checked_sub(piece.columns) else {
            break;
        };
        left = after;
        kept.push_str(piece.text);
    }
    if is_styled {
        kept.push_str(RESET);
    }
    kept
}

/// How many rows a line has that wraps at this width. What is wide does not stand half in one row, half in the next.
pub(super) fn rows(line: &str, columns: usize) -> usize {
    let mut rows = 1;
    let mut used = 0;
    for piece in pieces(line) {
        used += piece.columns;
        if used > columns {
            rows += 1;
            used = piece.columns;
        }
    }
    rows
}

/// A part of a line that is not cut.
struct Piece<'l> {
    /// A character and what is written upon it, or the code of a style.
    text: &'l str,
    columns: usize,
}

impl Piece<'_> {
    fn is_style(&self) -> bool {
        self.text.starts_with('\x1b')
    }
}

/// The pieces of a line. Controls are none.
///
/// Terminals differ on emoji that are made of several characters: they have the columns of all, as in most, so that a
/// line is cut early rather than late.
fn pieces(line: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = line;
    iter::from_fn(move || {
        loop {
            let mut chars = rest.chars();
            let first = chars.next()?;
            if let Some(end) = style_end(rest) {
                let (text, after) = rest.split_at(end);
                rest = after;
                return Some(Piece { text, columns: 0 });
            }
            let Some(mut columns) = first.width() else {
                rest = chars.as_str();
                continue;
            };
            let mut after = chars.as_str();
            while let Some(upon) = chars.next().filter(|upon| upon.width() == Some(0)) {
                if upon == EMOJI_FORM {
                    columns = columns.max(2);
                }
                after = chars.as_str();
            }
            let (text, _) = rest.split_at(rest.len() - after.len());
            rest = after;
            return Some(Piece { text, columns });
        }
    })
}

/// Where the code of a style ends with which a text begins.
fn style_end(text: &str) -> Option<usize> {
    let parameters = text.strip_prefix("\x1b[")?;
    let end = parameters.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    parameters[end..]
        .starts_with('m')
        .then_some("\x1b[".len() + end + 1)
}

#[cfg(test)]
mod tests;
