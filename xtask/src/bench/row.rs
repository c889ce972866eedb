//! What a row of the table is, and what measuring it gave.

use crate::bench::figures::{self, Figures, Part, Ratio, RowFigures, Verdict};
use crate::bench::stage::Stage;
use crate::problem::Problem;

/// One line of the table: a question, those who answer it, and what `cf` has to reach.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) statistic: Statistic,
    /// How often each contender takes its turn in a full run.
    pub(crate) rounds: usize,
    pub(crate) contenders: &'static [Contender],
    pub(crate) targets: &'static [Target],
}

/// Which figure of all samples stands for a contender.
#[derive(Clone, Copy)]
pub(crate) enum Statistic {
    Median,
    /// The 99th percentile.
    P99,
}

/// Somebody who is measured.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// Takes one turn and returns its samples, in the row's unit.
    pub(crate) measure: fn(&Stage) -> Result<Vec<f64>, Problem>,
}

/// Why somebody is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Floor,
    Ours,
    /// Another program, left out where it is not installed.
    Peer(&'static str),
}

/// What one of our contenders has to reach.
pub(crate) enum Target {
    /// At most so many times the figure of another contender.
    TimesAtMost {
        ours: &'static str,
        other: &'static str,
        times: f64,
    },
    /// At least so many times the figure of another contender, for rates.
    TimesAtLeast {
        ours: &'static str,
        other: &'static str,
        times: f64,
    },
    /// At most so much, in the row's unit.
    Limit { ours: &'static str, limit: f64 },
}

/// A row with its samples.
pub(crate) struct Measured {
    pub(crate) row: &'static Row,
    pub(crate) contenders: Vec<Samples>,
}

/// What one contender's turns gave.
pub(crate) struct Samples {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// A turn each. Ratios are taken between the turns of one round.
    pub(crate) turns: Vec<Vec<f64>>,
    pub(crate) failure: Option<String>,
    pub(crate) absent: bool,
}

/// What a contender's figure is divided by.
enum Reference {
    Contender(&'static str),
    Limit(f64),
}

impl Row {
    /// Its own floor where a target names one, else the first floor, else whatever the targets speak of.
    fn reference(&self, name: &str) -> Option<Reference> {
        let is_floor = |name: &str| {
            self.contenders
                .iter()
                .any(|contender| contender.name == name && contender.role == Role::Floor)
        };
        let others = || {
            self.targets.iter().filter_map(|target| match target {
                Target::TimesAtMost { ours, other, .. }
                | Target::TimesAtLeast { ours, other, .. } => Some((*ours, *other)),
                Target::Limit { .. } => None,
            })
        };
        let limit = || {
            self.targets.iter().find_map(|target| match target {
                Target::Limit { limit, .. } => Some(Reference::Limit(*limit)),
                Target::TimesAtMost { .. } | Target::TimesAtLeast { .. } => None,
            })
        };
        others()
            .find(|(ours, other)| *ours == name && is_floor(other))
            .map(|(_, other)| other)
            .or_else(|| {
                let floor = self.contenders.iter().find(|found| is_floor(found.name));
                floor.map(|floor| floor.name)
            })
            .or_else(|| others().next().map(|(_, other)| other))
            .map(Reference::Contender)
            .or_else(limit)
    }
}

impl Measured {
    pub(crate) fn of(row: &'static Row) -> Self {
        Self {
            row,
            contenders: row
                .contenders
                .iter()
                .map(|contender| Samples {
                    name: contender.name,
                    role: contender.role,
                    turns: Vec::new(),
                    failure: None,
                    absent: false,
                })
                .collect(),
        }
    }

    /// What the samples come to: of everybody who was measured, in the order of the table.
    pub(crate) fn figures(&self, date: &str, machine: &str) -> RowFigures {
        RowFigures {
            id: self.row.id.to_owned(),
            what: self.row.what.to_owned(),
            unit: self.row.unit.to_owned(),
            more_is_better: self
                .row
                .targets
                .iter()
                .any(|target| matches!(target, Target::TimesAtLeast { .. })),
            date: date.to_owned(),
            machine: machine.to_owned(),
            contenders: self
                .contenders
                .iter()
                .filter_map(|contender| self.figures_of(contender))
                .collect(),
            targets: self.verdicts(),
        }
    }

    fn figures_of(&self, contender: &Samples) -> Option<Figures> {
        let all = contender.all();
        let figure = contender.figure(self.row.statistic)?;
        Some(Figures {
            name: contender.name.to_owned(),
            part: match contender.role {
                Role::Floor => Part::Floor,
                Role::Ours => Part::Cf,
                Role::Peer(_) => Part::Peer,
            },
            figure,
            quartiles: figures::quartiles(&all)?,
            n: all.len(),
            ratio: match self.row.reference(contender.name) {
                Some(Reference::Contender(to)) => self.ratio(contender.name, to),
                Some(Reference::Limit(limit)) => Some(Ratio {
                    to: None,
                    times: figure / limit,
                    spread: 0.0,
                }),
                None => None,
            },
        })
    }

    /// Says of each target whether it was met; none when it could not be told.
    fn verdicts(&self) -> Vec<Verdict> {
        let times = |ours: &'static str, other: &'static str, word: &str, times: f64| {
            let ratio = self.ratio(ours, other).map(|ratio| ratio.times);
            let at = match self.row.reference(ours) {
                Some(Reference::Contender(to)) => self
                    .ratio(other, to)
                    .map(|reference| times * reference.times),
                Some(Reference::Limit(_)) | None => None,
            };
            (ours, format!("{ours} {word} {times} × {other}"), at, ratio)
        };
        self.row
            .targets
            .iter()
            .map(|target| {
                let (ours, text, at, met) = match *target {
                    Target::TimesAtMost {
                        ours,
                        other,
                        times: most,
                    } => {
                        let (ours, text, at, ratio) = times(ours, other, "at most", most);
                        (ours, text, at, ratio.map(|ratio| ratio <= most))
                    }
                    Target::TimesAtLeast {
                        ours,
                        other,
                        times: least,
                    } => {
                        let (ours, text, at, ratio) = times(ours, other, "at least", least);
                        (ours, text, at, ratio.map(|ratio| ratio >= least))
                    }
                    Target::Limit { ours, limit } => {
                        let at = match self.row.reference(ours) {
                            Some(Reference::Contender(to)) => {
                                self.figure(to).and_then(|to| figures::divided(limit, to))
                            }
                            Some(Reference::Limit(first)) => Some(limit / first),
                            None => None,
                        };
                        let text = format!("{ours} at most {limit} {}", self.row.unit);
                        (ours, text, at, self.figure(ours).map(|now| now <= limit))
                    }
                };
                Verdict {
                    ours: ours.to_owned(),
                    target: text,
                    at,
                    met,
                }
            })
            .collect()
    }

    fn samples(&self, name: &str) -> Option<&Samples> {
        self.contenders
            .iter()
            .find(|contender| contender.name == name)
    }

    /// The figure of a contender, or none when it was not measured.
    fn figure(&self, name: &str) -> Option<f64> {
        self.samples(name)?.figure(self.row.statistic)
    }

    fn ratio(&self, name: &str, to: &str) -> Option<Ratio> {
        let (ours, other) = (self.samples(name)?, self.samples(to)?);
        let (figure, reference) = (self.figure(name)?, self.figure(to)?);
        let (times, spread) = match self.row.statistic {
            Statistic::Median => figures::ratio(&ours.turns, &other.turns)?,
            // A turn is too short for a percentile of its own.
            Statistic::P99 => (figures::divided(figure, reference)?, 0.0),
        };
        Some(Ratio {
            to: Some(to.to_owned()),
            times,
            spread,
        })
    }
}

impl Samples {
    pub(crate) fn all(&self) -> Vec<f64> {
        self.turns.iter().flatten().copied().collect()
    }

    /// The contender's figure, or none when there is no sample or its measuring failed.
    fn figure(&self, statistic: Statistic) -> Option<f64> {
        if self.failure.is_some() {
            return None;
        }
        match statistic {
            Statistic::Median => figures::median(&self.all()),
            Statistic::P99 => figures::quantile(&self.all(), 0.99),
        }
    }
}

#[cfg(test)]
mod tests;
