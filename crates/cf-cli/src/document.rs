//! TOML files that people write: read within a limit, and every complaint with its line.
//!
//! Knows nothing of plans or settings; [`crate::plan`] and [`crate::config`] say what a file may hold.

use std::cell::OnceCell;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The largest file that is read, in bytes. The largest sensible plan is a few megabytes; beyond this it is a mistake,
/// and reading it would only cost memory.
pub(crate) const LARGEST_BYTES: u64 = 16 * 1024 * 1024;

/// How many complaints about one file are shown.
const MOST_PROBLEMS: usize = 20;

/// A file's text, and the name under which complaints call it.
#[derive(Debug)]
pub(crate) struct Document {
    name: String,
    text: String,
    precision: Precision,
    /// Where each line break is, found when a line is first asked for: asking for many costs no more than reading once.
    breaks: OnceCell<Vec<usize>>,
}

/// How closely complaints say where something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Precision {
    /// In a file that people write line by line the line is enough.
    Line,
    /// Other programs write everything into one line.
    Column,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocumentError {
    #[error("cannot read {name}")]
    Read {
        name: String,
        source: std::io::Error,
    },
    #[error("{name} is larger than {} MiB and was not read", LARGEST_BYTES / 1024 / 1024)]
    TooLarge { name: String },
    #[error("{name}:{line}: not valid UTF-8")]
    NotUtf8 { name: String, line: usize },
    #[error("{0}")]
    Wrong(Problems),
}

/// One thing that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// The line, or the line and the column with a colon between them.
    pub(crate) place: String,
    pub(crate) message: String,
}

/// Everything that is wrong in a file, by line. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problems {
    name: String,
    list: Vec<Problem>,
}

impl Problems {
    /// Every complaint as `file:line: what`.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> + '_ {
        let shown = self
            .list
            .iter()
            .take(MOST_PROBLEMS)
            .map(|p| format!("{}:{}: {}", self.name, p.place, p.message));
        let hidden = self.list.len().saturating_sub(MOST_PROBLEMS);
        shown.chain((hidden > 0).then(|| format!("{}: and {hidden} more", self.name)))
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, line) in self.lines().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&line)?;
        }
        Ok(())
    }
}

/// Opens a file that somebody wrote, to read it. It never waits for a writer.
///
/// # Errors
///
/// It cannot be opened, or is a folder or a named pipe. One that the caller opened (`/dev/stdin`, `<(…)`) is read.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    // Opening a named pipe would wait until somebody writes to it, which nobody may ever do.
    let wait = OFlags::NONBLOCK;
    let file = File::options()
        .read(true)
        .custom_flags(i32::try_from(wait.bits()).unwrap_or_default())
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let is_open_already = ["/dev/stdin", "/dev/fd", "/proc/self/fd"]
        .iter()
        .any(|place| path.starts_with(place));
    if kind.is_fifo() && !is_open_already {
        return Err(io::Error::other(
            "it is a named pipe, and nobody may ever write to it",
        ));
    }
    fcntl_setfl(&file, fcntl_getfl(&file)? - wait)?;
    Ok(file)
}

impl Document {
    /// Reads a file, or standard input for `-`.
    ///
    /// # Errors
    ///
    /// It cannot be read, is larger than [`LARGEST_BYTES`], or is not UTF-8.
    pub(crate) fn read(path: &Path) -> Result<Self, DocumentError> {
        if path.as_os_str() == "-" {
            return Self::from_reader("standard input", std::io::stdin().lock());
        }
        let name = path.display().to_string();
        let failed = |source| DocumentError::Read {
            name: name.clone(),
            source,
        };
        let file = open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() > LARGEST_BYTES {
            return Err(DocumentError::TooLarge { name });
        }
        Self::from_reader(&name, file)
    }

    fn from_reader(name: &str, reader: impl Read) -> Result<Self, DocumentError> {
        let mut bytes = Vec::new();
        // A device or a pipe has no length to ask for, so the limit holds while reading too.
        reader
            .take(LARGEST_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|source| DocumentError::Read {
                name: name.to_owned(),
                source,
            })?;
        if bytes.len() as u64 > LARGEST_BYTES {
            return Err(DocumentError::TooLarge {
                name: name.to_owned(),
            });
        }
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            DocumentError::NotUtf8 {
                name: name.to_owned(),
                line: line_at(&error.as_bytes()[..valid]),
            }
        })?;
        Ok(Self::new(name, text))
    }

    /// Takes a text that was read elsewhere.
    pub(crate) fn new(name: &str, text: String) -> Self {
        Self {
            name: name.to_owned(),
            text,
            precision: Precision::Line,
            breaks: OnceCell::new(),
        }
    }

    /// The same, and complaints name the column as well as the line.
    pub(crate) fn with_columns(self) -> Self {
        Self {
            precision: Precision::Column,
            ..self
        }
    }

    /// What complaints call it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn breaks(&self) -> &[usize] {
        self.breaks.get_or_init(|| {
            let bytes = self.text.bytes().enumerate();
            bytes
                .filter(|(_, byte)| *byte == b'\n')
                .map(|(at, _)| at)
                .collect()
        })
    }

    /// The line, counted from 1, of a byte offset.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.breaks().partition_point(|newline| *newline < at) + 1
    }

    /// The byte offset of the first byte of a line.
    fn start_of(&self, line: usize) -> usize {
        let before = line.checked_sub(2).and_then(|at| self.breaks().get(at));
        before.map_or(0, |newline| newline + 1)
    }

    /// The byte offset of a line and a byte in it, both counted from 1.
    pub(crate) fn offset(&self, line: usize, byte: usize) -> usize {
        (self.start_of(line) + byte.saturating_sub(1)).min(self.text.len())
    }

    /// Where a byte offset is, as complaints say it: the line, or the line and the column in characters.
    pub(crate) fn place(&self, at: usize) -> String {
        let line = self.line(at);
        match self.precision {
            Precision::Line => line.to_string(),
            Precision::Column => {
                let before = self.text.get(self.start_of(line)..at).unwrap_or_default();
                format!(
                    "{line}:{}",
                    before.trim_start_matches('\u{feff}').chars().count() + 1
                )
            }
        }
    }

    /// Reads the text as TOML.
    ///
    /// # Errors
    ///
    /// Everything that is not TOML in it.
    pub(crate) fn table(&self) -> Result<DeTable<'_>, DocumentError> {
        let (table, errors) = DeTable::parse_recoverable(&self.text);
        if errors.is_empty() {
            return Ok(table.into_inner());
        }
        let mut complaints = Complaints::new(self);
        for error in errors {
            complaints.at(&error.span().unwrap_or(0..0), error.message().to_owned());
        }
        complaints.finish()?;
        Ok(table.into_inner())
    }
}

/// The number of the line that begins or goes on behind these bytes, from 1.
fn line_at(before: &[u8]) -> usize {
    before.split(|byte| *byte == b'\n').count()
}

/// Complaints about one document, collected so that a person sees all of them at once.
#[derive(Debug)]
pub(crate) struct Complaints<'d> {
    document: &'d Document,
    list: Vec<(usize, String)>,
}

impl<'d> Complaints<'d> {
    pub(crate) fn new(document: &'d Document) -> Self {
        Self {
            document,
            list: Vec::new(),
        }
    }

    /// Adds a complaint about the text at `span`.
    pub(crate) fn at(&mut self, span: &Range<usize>, message: String) {
        self.list.push((span.start, message));
    }

    /// Adds a complaint about a key that means nothing where it stands, with the nearest that does.
    pub(crate) fn unknown(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        place: &str,
        known: &[&str],
    ) {
        let name = key.get_ref();
        let tail = match nearest(name, known) {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; known here: {}", known.join(", ")),
        };
        self.at(
            &key.span(),
            format!("unknown key `{name}` in {place}{tail}"),
        );
    }

    /// Complains unless `value` is a table.
    pub(crate) fn table<'t, 'i>(
        &mut self,
        key: &str,
        value: &'t Spanned<DeValue<'i>>,
    ) -> Option<&'t DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let found = value.get_ref().type_str();
            self.at(
                &value.span(),
                format!("`{key}` must be a table, not {}", article(found)),
            );
        }
        table
    }

    /// Ends the collection.
    ///
    /// # Errors
    ///
    /// Whatever was complained about, by line.
    pub(crate) fn finish(mut self) -> Result<(), DocumentError> {
        if self.list.is_empty() {
            return Ok(());
        }
        self.list.sort();
        Err(DocumentError::Wrong(Problems {
            name: self.document.name.clone(),
            list: self
                .list
                .into_iter()
                .map(|(at, message)| Problem {
                    place: self.document.place(at),
                    message,
                })
                .collect(),
        }))
    }
}

/// The known word that `word` most likely means.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let folded = word.to_lowercase().replace('-', "_");
    known
        .iter()
        .filter_map(|k| Some((distance(&folded, &k.to_lowercase().replace('-', "_"))?, *k)))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// How far apart two words are, unless they are too far apart for one to be meant by the other: more than two edits,
/// and fewer than three letters in common at the beginning.
fn distance(word: &str, known: &str) -> Option<usize> {
    let edits = strsim::damerau_levenshtein(word, known);
    let shorter = word.chars().count().min(known.chars().count());
    let common = word
        .chars()
        .zip(known.chars())
        .take_while(|(a, b)| a == b)
        .count();
    (common >= 3 || edits <= 2 && edits < shorter).then_some(edits)
}

/// A TOML type with its article: `a string`, `an integer`.
pub(crate) fn article(type_name: &str) -> String {
    let vowel = type_name.starts_with(['a', 'e', 'i', 'o', 'u']);
    format!("{} {type_name}", if vowel { "an" } else { "a" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_a_hundred_megabytes_is_refused_unread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.toml");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(100 * 1024 * 1024).unwrap();
        let error = Document::read(&path).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("larger than 16 MiB and was not read"),
            "{error}"
        );
    }

    #[test]
    fn an_endless_reader_is_refused() {
        let error = Document::from_reader("zero", std::io::repeat(b'a')).unwrap_err();
        assert!(matches!(error, DocumentError::TooLarge { .. }));
    }

    #[test]
    fn invalid_utf8_is_named_with_its_line() {
        let error = Document::from_reader("p", &b"a = 1\nb = '\xff'\n"[..]).unwrap_err();
        assert_eq!(error.to_string(), "p:2: not valid UTF-8");
    }

    #[test]
    fn what_is_not_toml_is_named_with_its_line() {
        let document = Document::new("p", "a = 1\n\nb = = 2\na = 3\n".to_owned());
        let text = document.table().unwrap_err().to_string();
        assert!(text.starts_with("p:3: "), "{text}");
        assert!(text.contains("\np:4: "), "{text}");
    }

    #[test]
    fn the_nearest_word_is_suggested() {
        let known = ["title", "depends_on", "max_parallel"];
        assert_eq!(nearest("titel", &known), Some("title"));
        assert_eq!(nearest("max-parallel", &known), Some("max_parallel"));
        assert_eq!(nearest("depend", &known), Some("depends_on"));
        assert_eq!(nearest("zzz", &known), None);
        assert_eq!(nearest("x", &["a", "b"]), None);
        assert_eq!(
            nearest("claud", &["claude-code", "codex"]),
            Some("claude-code")
        );
    }
}
