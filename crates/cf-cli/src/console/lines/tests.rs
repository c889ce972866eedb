use super::*;
use cf_testkit::terminal::{OnResize, Terminal};
use proptest::prelude::*;
use test_case::test_case;

use crate::console::Look;

/// A terminal, what stands on it, and a clock.
struct Seen {
    terminal: Terminal,
    block: Block,
    now: Instant,
}

impl Seen {
    fn new(columns: usize, rows: usize) -> Self {
        let mut terminal = Terminal::new(columns, rows, OnResize::Wrap);
        terminal.take("$ cf run\n");
        Self {
            terminal,
            block: Block::default(),
            now: Instant::now(),
        }
    }

    fn room(&self) -> Room {
        Room {
            columns: self.terminal.columns(),
            lines: self.terminal.height() - 1,
        }
    }

    fn later(&mut self) -> &mut Self {
        self.now += PACE;
        self
    }

    /// Whether anything was written.
    fn show(&mut self, lines: &[&str]) -> bool {
        let change = self.block.change(&owned(lines), self.room(), self.now);
        self.terminal.take(change.as_deref().unwrap_or_default());
        change.is_some()
    }

    fn print(&mut self, finished: &str, lines: &[&str]) {
        let change = self
            .block
            .print(finished, &owned(lines), self.room(), self.now);
        self.terminal.take(&change);
    }

    fn clear(&mut self) {
        let change = self.block.clear(self.terminal.columns());
        self.terminal.take(&change);
    }

    /// Everything that was written and is still there, with what has scrolled away.
    fn text(&self) -> Vec<String> {
        self.terminal.text()
    }
}

fn owned(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

fn styled(look: Look, text: &str) -> String {
    let style = look.style();
    format!("{style}{text}{style:#}")
}

#[test]
fn lines_come_change_and_go() {
    let mut seen = Seen::new(20, 10);
    seen.show(&["one", "bar"]);
    assert_eq!(seen.text(), ["$ cf run", "one", "bar"]);
    seen.later().show(&["one is long", "two", "bar"]);
    assert_eq!(seen.text(), ["$ cf run", "one is long", "two", "bar"]);
    seen.later().show(&["two", "bar"]);
    assert_eq!(seen.text(), ["$ cf run", "two", "bar"]);
    seen.later().show(&[]);
    assert_eq!(seen.text(), ["$ cf run"]);
}

#[test]
fn what_is_printed_stays_above() {
    let mut seen = Seen::new(20, 10);
    seen.print("started one", &["one", "bar"]);
    seen.print("started two", &["one", "two", "bar"]);
    seen.print("completed one", &["two", "bar"]);
    assert_eq!(
        seen.text(),
        [
            "$ cf run",
            "started one",
            "started two",
            "completed one",
            "two",
            "bar"
        ]
    );
    seen.clear();
    seen.terminal.take("done");
    assert_eq!(seen.text()[3..], ["completed one", "done"]);
}

#[test]
fn what_is_printed_wraps_and_scrolls_away_once() {
    let mut seen = Seen::new(10, 4);
    for at in 0..6 {
        seen.print(
            &format!("line {at} which is longer"),
            &["one", "two", "bar"],
        );
    }
    seen.clear();
    let expected: Vec<String> = iter::once("$ cf run".to_owned())
        .chain((0..6).map(|at| format!("line {at} which is longer")))
        .collect();
    assert_eq!(seen.terminal.joined(), expected);
}

#[test]
fn a_line_that_fills_its_row_leaves_none_empty() {
    let mut seen = Seen::new(10, 10);
    seen.print("0123456789", &["abcdefghij", "bar"]);
    seen.print("0123456789", &["abcdefghijk", "bar"]);
    assert_eq!(
        seen.text(),
        ["$ cf run", "0123456789", "0123456789", "abcdefghij", "bar"]
    );
}

#[test]
fn the_cursor_rests_on_a_clean_row() {
    let mut seen = Seen::new(20, 10);
    seen.show(&["one", "bar"]);
    // A key that is echoed, and what a shell writes when the program is killed.
    seen.terminal.take("^C");
    assert_eq!(seen.text(), ["$ cf run", "one", "bar", "^C"]);
    seen.later().show(&["two", "bar"]);
    assert_eq!(seen.text(), ["$ cf run", "two", "bar"]);
}

#[test]
fn after_the_end_nothing_is_left_and_nothing_is_taken_twice() {
    let mut seen = Seen::new(20, 10);
    assert_eq!(seen.block.clear(20), "");
    seen.show(&["one", "bar"]);
    seen.clear();
    assert_eq!(seen.terminal.cursor(), (1, 0));
    assert_eq!(seen.text(), ["$ cf run"]);
    assert_eq!(seen.block.clear(20), "");
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let mut seen = Seen::new(20, 10);
    assert!(seen.show(&["one", "bar"]));
    assert!(!seen.later().show(&["one", "bar"]));
    assert!(!seen.later().show(&["one", "bar"]));
    assert!(seen.later().show(&["one", "bar 2"]));
}

#[test]
fn changes_keep_their_pace_and_the_last_is_seen() {
    let mut seen = Seen::new(20, 10);
    let start = seen.now;
    let mut changes = 0;
    for ms in 0..1_000 {
        seen.now = start + Duration::from_millis(ms);
        changes += u32::from(seen.show(&[&ms.to_string()]));
    }
    assert_eq!(changes, 8);
    seen.later().show(&["999"]);
    assert_eq!(seen.text(), ["$ cf run", "999"]);
}

#[test]
fn what_is_printed_does_not_wait_and_shows_the_newest() {
    let mut seen = Seen::new(20, 10);
    seen.show(&["one", "bar"]);
    assert!(!seen.show(&["two", "bar"]));
    seen.print("finished", &["two", "bar"]);
    assert_eq!(seen.text(), ["$ cf run", "finished", "two", "bar"]);
}

#[test]
fn without_room_the_last_line_and_the_first_are_seen() {
    let mut seen = Seen::new(20, 3);
    seen.print("started", &["one", "two", "three", "bar"]);
    assert_eq!(seen.text(), ["$ cf run", "started", "one", "bar"]);
    seen.later().show(&["two", "three", "bar"]);
    assert_eq!(seen.text(), ["$ cf run", "started", "two", "bar"]);
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_gets_what_is_printed_alone() {
    let mut block = Block::default();
    let (lines, now) = (owned(&["one", "bar"]), Instant::now());
    let room = Room {
        columns: 20,
        lines: 0,
    };
    assert_eq!(block.change(&lines, room, now), None);
    assert_eq!(block.print("started", &lines, room, now), "started\n");
    assert_eq!(block.clear(20), "");
}

#[test_case(10, "0123456789abcdef" => "0123456789"; "letters")]
#[test_case(9, "國國國國國國" => "國國國國"; "a wide character is not cut in two")]
#[test_case(4, "🚀🚀🚀" => "🚀🚀"; "emoji")]
#[test_case(3, "e\u{301}e\u{301}e\u{301}e\u{301}" => "e\u{301}e\u{301}e\u{301}"; "accents take no room")]
#[test_case(4, "❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}" => "❤\u{fe0f}❤\u{fe0f}"; "what becomes an emoji is wide")]
#[test_case(5, "👩\u{200d}💻👩\u{200d}💻" => "👩\u{200d}💻"; "emoji that some terminals join")]
#[test_case(1, "國" => ""; "no room for it at all")]
#[test_case(5, "a\tb\r\u{1b}[2Jc" => "ab[2J"; "controls do nothing")]
fn a_line_is_cut_to_the_width(columns: usize, line: &str) -> String {
    let mut seen = Seen::new(columns, 10);
    // Twice, as a row too many would stay behind.
    seen.print("-", &[line, "."]);
    seen.print("-", &[line, "."]);
    let text = seen.terminal.joined();
    assert_eq!(text[..3], ["$ cf run", "-", "-"]);
    assert_eq!(text[4..], ["."]);
    text[3].clone()
}

#[test_case(5, &styled(Look::Strong, "parser") => "\x1b[1mparse\x1b[0m"; "in the middle of a style")]
#[test_case(6, &styled(Look::Strong, "parser") => "\x1b[1mparser\x1b[0m"; "just fits")]
#[test_case(6, &format!("{} says", styled(Look::Bad, "parser")) => "\x1b[31mparser\x1b[0m"; "after a style")]
#[test_case(3, "\x1b[1m\x1b[32mgreen" => "\x1b[1m\x1b[32mgre\x1b[0m"; "two styles")]
#[test_case(9, "\x1b[2mopen" => "\x1b[2mopen\x1b[0m"; "a style that nobody ended")]
#[test_case(9, "a\x1b[" => "a["; "no whole code")]
#[test_case(9, "a\x1b[31" => "a[31"; "no end of a code")]
#[test_case(9, "\x1b" => ""; "an escape alone")]
fn a_style_takes_no_room_and_ends_with_its_line(columns: usize, line: &str) -> String {
    cut(line, columns)
}

#[test]
fn a_style_does_not_leak_into_the_next_line() {
    let mut seen = Seen::new(8, 10);
    seen.show(&[&styled(Look::Bad, "0123456789"), "bar"]);
    assert_eq!(seen.text(), ["$ cf run", "01234567", "bar"]);
    assert_eq!(seen.terminal.styled(), ["01234567"]);
}

/// A terminal that wraps what no longer fits.
#[test]
fn a_narrower_terminal_is_left_clean() {
    let mut seen = Seen::new(30, 20);
    seen.print(
        "started",
        &["0123456789012345678901234567", "國國國國國國", "bar"],
    );
    seen.terminal.resize(9, 20);
    assert_eq!(seen.text().len(), 2 + 4 + 2 + 1);
    seen.later()
        .show(&["0123456789012345678901234567", "國國國國國國", "bar"]);
    assert_eq!(
        seen.text(),
        ["$ cf run", "started", "012345678", "國國國國", "bar"]
    );
    seen.clear();
    assert_eq!(seen.text(), ["$ cf run", "started"]);
}

#[test]
fn a_wider_terminal_shows_more_at_once() {
    let mut seen = Seen::new(8, 10);
    seen.show(&["0123456789", "bar"]);
    seen.terminal.resize(20, 10);
    assert!(seen.later().show(&["0123456789", "bar"]));
    assert_eq!(seen.text(), ["$ cf run", "0123456789", "bar"]);
}

#[test]
fn the_end_after_a_resize_leaves_nothing() {
    let mut seen = Seen::new(30, 10);
    seen.print("started", &["0123456789012345678901234567", "bar"]);
    seen.terminal.resize(10, 10);
    seen.clear();
    assert_eq!(seen.text(), ["$ cf run", "started"]);
    assert_eq!(seen.terminal.cursor(), (2, 0));
}

/// A terminal that cuts what no longer fits, with lines that fit in both widths.
#[test]
fn a_resize_of_a_terminal_that_cuts_leaves_what_is_above() {
    let mut seen = Seen::new(30, 10);
    seen.terminal = Terminal::new(30, 10, OnResize::Cut);
    seen.print("started", &["one", "bar"]);
    seen.terminal.resize(10, 10);
    seen.later().show(&["one", "bar"]);
    assert_eq!(seen.text(), ["started", "one", "bar"]);
}

#[test_case(0, 10 => "[                        ] 0/10"; "nothing")]
#[test_case(1, 1000 => "[>                       ] 1/1000"; "hardly anything")]
#[test_case(3, 10 => "[=======>                ] 3/10"; "some")]
#[test_case(999, 1000 => "[=======================>] 999/1000"; "nearly all")]
#[test_case(10, 10 => "[========================] 10/10"; "all")]
#[test_case(12, 10 => "[========================] 12/10"; "more than there were")]
#[test_case(0, 0 => "[========================] 0/0"; "of none")]
#[test_case(u64::MAX, u64::MAX => "[=>                      ] 18446744073709551615/18446744073709551615"; "more than can be multiplied")]
fn a_bar_says_how_much(done: u64, total: u64) -> String {
    bar(done, total)
}

proptest! {
    /// Whatever is shown in whatever order, what is printed is there once, and the newest lines below it.
    #[test]
    fn the_screen_is_what_was_printed_and_the_newest_lines(
        columns in 2_usize..30,
        rows in 2_usize..8,
        steps in prop::collection::vec(
            (prop::option::of("[a-c國🚀]{1,40}"), prop::collection::vec("([ -~é國🚀]\u{301}?){0,40}", 1..9)),
            1..12,
        ),
    ) {
        let mut seen = Seen::new(columns, rows);
        let mut expected = vec!["$ cf run".to_owned()];
        let mut newest = Vec::new();
        for (printed, lines) in steps {
            let shown: Vec<&str> = lines.iter().map(String::as_str).collect();
            seen.later();
            match printed {
                Some(printed) => {
                    seen.print(&printed, &shown);
                    expected.push(printed);
                }
                None => {
                    seen.show(&shown);
                }
            }
            newest = fitting(&lines, seen.room());
        }
        prop_assert!(newest.len() < rows);
        expected.extend(newest.iter().map(|line| line.trim_end().to_owned()));
        while expected.last().is_some_and(String::is_empty) {
            expected.pop();
        }
        prop_assert_eq!(seen.terminal.joined(), expected);
    }

    #[test]
    fn no_line_is_wider_than_the_terminal(line in any::<String>(), columns in 1_usize..200) {
        let line = cut(&line, columns);
        prop_assert_eq!(rows(&line, columns), 1);
        prop_assert!(pieces(&line).map(|piece| piece.columns).sum::<usize>() <= columns);
        prop_assert_eq!(cut(&line, columns), line);
    }
}
