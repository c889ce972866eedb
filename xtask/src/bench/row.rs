//! What a row of the table is, and what measuring it gave.

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
    pub(crate) taken: Vec<f64>,
    pub(crate) failure: Option<String>,
    pub(crate) absent: bool,
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
                    taken: Vec::new(),
                    failure: None,
                    absent: false,
                })
                .collect(),
        }
    }

    /// The figure of a contender, or none when it was not measured.
    pub(crate) fn figure(&self, name: &str) -> Option<f64> {
        let found = self
            .contenders
            .iter()
            .find(|contender| contender.name == name)?;
        found.figure(self.row.statistic)
    }

    /// Says of each target whether it was met; none when it could not be told.
    pub(crate) fn verdicts(&self) -> Vec<(String, Option<bool>)> {
        self.row
            .targets
            .iter()
            .map(|target| match *target {
                Target::TimesAtMost { ours, other, times } => {
                    let ratio = self.ratio(ours, other);
                    (
                        format!("{ours} at most {times} × {other}{}", said(ratio, "×")),
                        ratio.map(|ratio| ratio <= times),
                    )
                }
                Target::TimesAtLeast { ours, other, times } => {
                    let ratio = self.ratio(ours, other);
                    (
                        format!("{ours} at least {times} × {other}{}", said(ratio, "×")),
                        ratio.map(|ratio| ratio >= times),
                    )
                }
                Target::Limit { ours, limit } => {
                    let figure = self.figure(ours);
                    (
                        format!(
                            "{ours} at most {limit} {}{}",
                            self.row.unit,
                            said(figure, self.row.unit)
                        ),
                        figure.map(|figure| figure <= limit),
                    )
                }
            })
            .collect()
    }

    fn ratio(&self, ours: &str, other: &str) -> Option<f64> {
        Some(self.figure(ours)? / self.figure(other)?)
    }
}

fn said(figure: Option<f64>, unit: &str) -> String {
    figure.map_or_else(
        || ": not measured".to_owned(),
        |figure| format!(": {figure:.3} {unit}"),
    )
}

impl Samples {
    /// The contender's figure, or none when there is no sample or its measuring failed.
    pub(crate) fn figure(&self, statistic: Statistic) -> Option<f64> {
        if self.failure.is_some() {
            return None;
        }
        match statistic {
            Statistic::Median => quantile(&self.taken, 0.5),
            Statistic::P99 => quantile(&self.taken, 0.99),
        }
    }
}

/// The quantile of unsorted samples: the smallest that at least that share of them does not exceed.
pub(crate) fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(&[], 0.5 => None)]
    #[test_case(&[3.0, 1.0, 2.0], 0.5 => Some(2.0))]
    #[test_case(&[1.0, 2.0, 3.0, 4.0], 0.99 => Some(4.0))]
    fn a_quantile_is_one_of_the_samples(samples: &[f64], share: f64) -> Option<f64> {
        quantile(samples, share)
    }
}
