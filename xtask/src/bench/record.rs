//! The committed figures: what was measured last, on which day and machine.
//!
//! A row that is measured again takes the place of the old one; the others stay. Quick runs are kept apart from full
//! ones, because their batches are smaller and what a start costs once weighs more in them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::bench::figures::{Figures, RowFigures};
use crate::problem::Problem;
use crate::repo::output;

/// Where they are, relative to the root of the repository.
pub(crate) const FIGURES: &str = "docs/performance.json";
/// Where the picture of them is, relative to the root of the repository.
pub(crate) const PICTURE: &str = "docs/performance.svg";

/// How thoroughly was measured.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Full,
    Quick,
}

/// All of them, in the order of the table.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) full: Vec<RowFigures>,
    pub(crate) quick: Vec<RowFigures>,
}

impl Record {
    /// Reads the committed figures; where there are none, there are none.
    ///
    /// # Errors
    ///
    /// The file is there and cannot be understood.
    pub(crate) fn read(root: &Path) -> Result<Self, Problem> {
        match fs::read_to_string(root.join(FIGURES)) {
            Ok(text) => serde_json::from_str(&text)
                .map_err(|error| Problem::new(format!("{FIGURES} cannot be understood: {error}"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) const fn of(&self, kind: Kind) -> &Vec<RowFigures> {
        match kind {
            Kind::Full => &self.full,
            Kind::Quick => &self.quick,
        }
    }

    /// What is drawn: each row as a full run measured it, or where none has, as a quick one did.
    pub(crate) fn drawn(&self) -> Vec<RowFigures> {
        let measured = |row: &&RowFigures| self.full.iter().all(|full| full.id != row.id);
        let quick = self.quick.iter().filter(measured);
        self.full.iter().chain(quick).cloned().collect()
    }

    /// Takes new figures, rounded to what they are good for, and sorts by the order of the table. Rows that the table
    /// no longer has go.
    pub(crate) fn take(&mut self, kind: Kind, rows: &[RowFigures], table: &[&str]) {
        let kept = match kind {
            Kind::Full => &mut self.full,
            Kind::Quick => &mut self.quick,
        };
        kept.retain(|old| rows.iter().all(|row| row.id != old.id));
        kept.extend(rows.iter().map(rounded));
        let place = |row: &RowFigures| table.iter().position(|id| *id == row.id);
        kept.retain(|row| place(row).is_some());
        kept.sort_by_key(place);
    }

    /// Writes them where they are committed.
    pub(crate) fn write(&self, root: &Path) -> Result<(), Problem> {
        let text = serde_json::to_string_pretty(self).expect("figures are JSON");
        Ok(fs::write(root.join(FIGURES), text + "\n")?)
    }
}

fn rounded(row: &RowFigures) -> RowFigures {
    let contender = |old: &Figures| {
        let mut new = old.clone();
        new.figure = significant(old.figure);
        new.quartiles = old.quartiles.map(significant);
        if let Some(ratio) = &mut new.ratio {
            ratio.times = significant(ratio.times);
            ratio.spread = significant(ratio.spread);
        }
        new
    };
    let mut row = row.clone();
    row.contenders = row.contenders.iter().map(contender).collect();
    for target in &mut row.targets {
        target.at = target.at.map(significant);
    }
    row
}

/// Four digits: more would say nothing and change every time.
fn significant(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

/// The day, as year-month-day.
pub(crate) fn today() -> Result<String, Problem> {
    let date = output(Command::new("date").args(["-u", "+%F"]))?;
    Ok(date.trim().to_owned())
}

/// The machine and the compiler, in words that name nobody's machine.
pub(crate) fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<f64>().ok()
        })
        .map_or_else(String::new, |kib| {
            format!(", {:.0} GiB", kib / 1024.0 / 1024.0)
        });
    let compiler = output(Command::new("rustc").arg("--version")).unwrap_or_default();
    let compiler: Vec<&str> = compiler.split_whitespace().take(2).collect();
    format!(
        "{} {}, {cores} cores{memory}, {}",
        std::env::consts::ARCH,
        std::env::consts::OS,
        compiler.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn row(id: &str, date: &str) -> RowFigures {
        RowFigures {
            id: id.to_owned(),
            what: String::new(),
            unit: "ms".to_owned(),
            more_is_better: false,
            date: date.to_owned(),
            machine: String::new(),
            contenders: Vec::new(),
            targets: Vec::new(),
        }
    }

    #[test]
    fn a_row_that_is_measured_again_takes_the_place_of_the_old_one() {
        let mut record = Record::default();
        record.take(Kind::Full, &[row("b", "1"), row("a", "1")], &["a", "b"]);
        record.take(Kind::Full, &[row("b", "2")], &["a", "b"]);
        record.take(Kind::Quick, &[row("b", "3")], &["a", "b"]);
        let dates = |rows: &[RowFigures]| -> Vec<String> {
            rows.iter()
                .map(|row| format!("{}{}", row.id, row.date))
                .collect()
        };
        assert_eq!(dates(&record.full), ["a1", "b2"]);
        assert_eq!(dates(&record.quick), ["b3"]);
        record.take(Kind::Full, &[], &["b"]);
        assert_eq!(dates(&record.full), ["b2"]);
    }

    #[test_case(1.234_567, "1.235")]
    #[test_case(123_456.0, "123500")]
    #[test_case(0.0, "0")]
    fn four_digits_are_kept(value: f64, kept: &str) {
        assert_eq!(significant(value).to_string(), kept);
    }

    #[test]
    fn what_is_committed_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        Record::read(&root).unwrap();
    }
}
