//! Where output goes: colours or none, a terminal's width or a pipe, words or JSON.
//!
//! Nothing prints with `println!`: a reader that closes the pipe early must end the program quietly, so every write
//! returns its error.

pub(crate) mod lines;
pub(crate) mod outlet;
pub(crate) mod screen;

use std::fmt;
use std::io::{self, BufWriter, IsTerminal as _, StderrLock, StdoutLock, Write};
use std::os::fd::AsFd;

use anstream::{AutoStream, ColorChoice};
use cf_conductor::store::wait::{Wait, tell_a_long_wait};
use clap::builder::styling::{AnsiColor, Style};
use rustix::event::{PollFd, PollFlags, poll};

use crate::args::{Color, Global};
use crate::render::json::escape;

/// The width of tables on a terminal that does not say how wide it is.
const USUAL_WIDTH: usize = 80;

/// How this run prints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    /// JSON instead of words.
    pub(crate) json: bool,
    /// Only what was asked for.
    pub(crate) quiet: bool,
    /// The width of the terminal that output goes to; none for a pipe or a file.
    pub(crate) width: Option<usize>,
    styled_out: bool,
    styled_err: bool,
}

/// The few styles that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// As everything else.
    Plain,
    /// Headings and names.
    Strong,
    /// What matters less.
    Dim,
    /// Done.
    Good,
    /// Failed.
    Bad,
    /// Waits for somebody, or was left out.
    Warn,
    /// At work.
    Busy,
}

impl Look {
    const fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Dim => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default(),
            Self::Warn => AnsiColor::Yellow.on_default(),
            Self::Busy => AnsiColor::Cyan.on_default(),
        }
    }
}

/// A text in a style, or bare when the output takes no styles.
#[derive(Debug)]
pub(crate) struct Painted<T> {
    text: T,
    style: Option<Style>,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            None => self.text.fmt(f),
            Some(style) => {
                write!(f, "{style}")?;
                self.text.fmt(f)?;
                write!(f, "{style:#}")
            }
        }
    }
}

impl Console {
    /// Looks at the options, the environment and the terminal.
    pub(crate) fn new(global: &Global) -> Self {
        let chosen = |auto: bool| match global.color {
            Color::Auto => auto,
            Color::Always => true,
            Color::Never => false,
        };
        let stdout = io::stdout();
        Self {
            json: global.json,
            quiet: global.quiet,
            width: stdout.is_terminal().then(|| terminal_width(&stdout)),
            styled_out: chosen(AutoStream::choice(&stdout) != ColorChoice::Never),
            styled_err: chosen(AutoStream::choice(&io::stderr()) != ColorChoice::Never),
        }
    }

    /// For what is said before the options are known.
    pub(crate) fn before_options(json: bool, color: Color) -> Self {
        Self::new(&Global {
            directory: None,
            json,
            color,
            quiet: false,
            verbose: 0,
        })
    }

    /// Words without styles for a terminal of this width, or a pipe. For tests.
    #[cfg(test)]
    pub(crate) const fn plain(width: Option<usize>) -> Self {
        Self {
            json: false,
            quiet: false,
            width,
            styled_out: false,
            styled_err: false,
        }
    }

    /// `text` for standard output.
    pub(crate) const fn paint<T>(&self, look: Look, text: T) -> Painted<T> {
        Painted {
            text,
            style: if self.styled_out && !matches!(look, Look::Plain) {
                Some(look.style())
            } else {
                None
            },
        }
    }

    /// `text` for standard error.
    pub(crate) const fn paint_err<T>(&self, look: Look, text: T) -> Painted<T> {
        Painted {
            text,
            style: if self.styled_err && !matches!(look, Look::Plain) {
                Some(look.style())
            } else {
                None
            },
        }
    }

    /// Whether standard output takes styles.
    pub(crate) const fn is_styled(&self) -> bool {
        self.styled_out
    }

    /// The same console for a part of a command whose JSON was printed already.
    pub(crate) const fn without_json(self) -> Self {
        Self {
            json: false,
            quiet: self.quiet || self.json,
            ..self
        }
    }

    /// Whether both what is shown live and what the person types go to a terminal.
    pub(crate) fn is_live(&self) -> bool {
        self.width.is_some() && !self.json && io::stderr().is_terminal()
    }

    /// Has whoever sits before a terminal told what a command waits for while others have locked the store.
    pub(crate) fn tell_a_long_wait(self) {
        if !self.json && io::stderr().is_terminal() {
            tell_a_long_wait(move |wait| self.warn(format_args!("{}", waiting(wait))));
        }
    }

    /// A line for a person who waits for a confirmation; nothing with `--quiet` or `--json`.
    ///
    /// # Errors
    ///
    /// Standard output refuses.
    pub(crate) fn say(&self, line: fmt::Arguments<'_>) -> io::Result<()> {
        if self.quiet || self.json {
            return Ok(());
        }
        let mut out = out();
        writeln!(out, "{line}")?;
        out.flush()
    }

    /// Says, also with `--quiet`, that the output is not whole. A reader that has gone wants none of it.
    pub(crate) fn tell_of_lost_output(mut self, error: &io::Error) {
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.quiet = false;
            self.warn(format_args!(
                "cannot write to standard output, and what is there is not whole: {error}"
            ));
        }
    }

    /// A line on standard error that does not belong to the result; nothing with `--quiet`, an object with
    /// `--json`.
    pub(crate) fn warn(&self, line: fmt::Arguments<'_>) {
        if self.quiet {
            return;
        }
        // Nobody is left to be told when standard error is closed.
        if self.json {
            let shape = serde_json::json!({ "warning": { "message": line.to_string() } });
            let _ = writeln!(err(), "{}", escape::text(&shape));
        } else {
            let _ = writeln!(err(), "{} {line}", self.paint_err(Look::Warn, "warning:"));
        }
    }
}

/// Why nothing happens at this moment.
fn waiting(wait: &Wait) -> String {
    let holder = match &wait.holder {
        Some(holder) => holder.to_string(),
        None => "somebody else".to_owned(),
    };
    let patience = cf_core::format_duration(wait.patience);
    format!(
        "{holder} has locked the workspace database; waiting for that to end, {patience} at most"
    )
}

/// One JSON value on a line of its own.
///
/// # Errors
///
/// Standard output refuses.
pub(crate) fn print_json(value: &impl serde::Serialize) -> io::Result<()> {
    let mut out = out();
    escape::write(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Standard output, buffered. What is written must be flushed by the caller.
pub(crate) fn out() -> BufWriter<Patient<StdoutLock<'static>>> {
    BufWriter::with_capacity(64 * 1024, Patient(io::stdout().lock()))
}

/// Standard error.
pub(crate) fn err() -> Patient<StderrLock<'static>> {
    Patient(io::stderr().lock())
}

/// A stream that waits for its reader also where whoever opened it wants nobody to wait (`O_NONBLOCK`): what the reader
/// is slow to take is not lost.
#[derive(Debug)]
pub(crate) struct Patient<W>(W);

impl<W: Write + AsFd> Patient<W> {
    fn patiently<T>(&mut self, mut work: impl FnMut(&mut W) -> io::Result<T>) -> io::Result<T> {
        loop {
            match work(&mut self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match poll(&mut [PollFd::new(&self.0, PollFlags::OUT)], None) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                done => return done,
            }
        }
    }
}

impl<W: Write + AsFd> Write for Patient<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.patiently(|stream| stream.write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.patiently(W::flush)
    }
}

/// How many columns the terminal has that a stream goes to.
fn terminal_width(stream: impl AsFd) -> usize {
    rustix::termios::tcgetwinsize(stream)
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .or_else(|| std::env::var("COLUMNS").ok()?.parse().ok())
        .unwrap_or(USUAL_WIDTH)
}
