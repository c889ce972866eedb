//! A terminal on which something is shown anew in the same place.
//!
//! What is shown must fit, because what has scrolled away cannot be taken back. Nothing above it is touched, and
//! nothing has to be put right when the program is stopped in the middle.

use std::io::{self, Write};

use super::lines;

/// The height of a terminal that does not say how high it is.
pub(super) const USUAL_HEIGHT: usize = 24;

/// Where the last picture stands.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    /// How many rows of the terminal it has.
    rows: usize,
}

impl Screen {
    /// Shows a picture in the place of the last one, on a terminal of this width.
    ///
    /// # Errors
    ///
    /// The writer refuses.
    pub(crate) fn show(
        &mut self,
        picture: &[u8],
        width: usize,
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.clear(out)?;
        out.write_all(picture)?;
        self.rows = rows(&String::from_utf8_lossy(picture), width);
        out.flush()
    }

    /// Takes the last picture away.
    ///
    /// # Errors
    ///
    /// The writer refuses.
    pub(crate) fn clear(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.rows > 0 {
            // Up to its first row, and clear from there (ECMA-48: CUU, ED).
            write!(out, "\x1b[{}A\r\x1b[J", self.rows)?;
            self.rows = 0;
        }
        Ok(())
    }
}

/// How many rows a text has on a terminal of this width: its lines, and those onto which long ones wrap.
pub(crate) fn rows(picture: &str, width: usize) -> usize {
    let of = |line| lines::rows(line, width.max(1));
    picture.lines().map(of).sum()
}

/// How many rows the terminal has that output goes to.
pub(crate) fn height() -> usize {
    rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_row))
        .filter(|rows| *rows > 0)
        .unwrap_or(USUAL_HEIGHT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_have_more_rows_and_styles_none() {
        assert_eq!(rows("one\n\ntwo\n", 80), 3);
        assert_eq!(rows("0123456789\n", 10), 1);
        assert_eq!(rows("0123456789x\n", 10), 2);
        assert_eq!(rows("\x1b[31m0123456789\x1b[0m\n", 10), 1);
    }

    #[test]
    fn a_picture_takes_the_place_of_the_last_one() {
        let mut screen = Screen::default();
        let mut out = Vec::new();
        screen.show(b"one\ntwo\n", 80, &mut out).unwrap();
        screen.show(b"three\n", 80, &mut out).unwrap();
        screen.clear(&mut out).unwrap();
        screen.clear(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "one\ntwo\n\x1b[2A\r\x1b[Jthree\n\x1b[1A\r\x1b[J"
        );
    }
}
