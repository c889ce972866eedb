//! What samples come to: medians, their spread, and ratios. They are printed, written down, compared and drawn.

use serde::{Deserialize, Serialize};

/// A row, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowFigures {
    pub(crate) id: String,
    pub(crate) what: String,
    pub(crate) unit: String,
    /// A larger figure is the better one, as with rates.
    pub(crate) more_is_better: bool,
    /// When it was measured, as year-month-day.
    pub(crate) date: String,
    /// What it was measured on, in general words.
    pub(crate) machine: String,
    pub(crate) contenders: Vec<Figures>,
    pub(crate) targets: Vec<Verdict>,
}

/// One contender of a row, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) name: String,
    pub(crate) part: Part,
    /// In the row's unit.
    pub(crate) figure: f64,
    /// The quartiles of all samples, in the row's unit.
    pub(crate) quartiles: [f64; 2],
    /// How many samples there are.
    pub(crate) n: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<Ratio>,
}

/// Which part a contender has in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    Floor,
    Cf,
    Peer,
}

/// A figure as a multiple of another one of the same run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ratio {
    /// The contender whose figure is 1; none where the row has nobody but a limit, which then is.
    pub(crate) to: Option<String>,
    pub(crate) times: f64,
    /// Half the distance between the quartiles of the ratios of single rounds.
    pub(crate) spread: f64,
}

/// A target, and whether it was met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// The contender of ours that has to meet it.
    pub(crate) ours: String,
    pub(crate) target: String,
    /// The target as a ratio to what the contender's own ratio is taken to.
    pub(crate) at: Option<f64>,
    /// None when it could not be told.
    pub(crate) met: Option<bool>,
}

/// The middle of unsorted samples; of an even number of them the mean of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(sorted[middle - 1], upper))
}

/// The quantile of unsorted samples: the smallest that at least that share of them does not exceed.
pub(crate) fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(samples);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The lower and the upper quartile of unsorted samples.
pub(crate) fn quartiles(samples: &[f64]) -> Option<[f64; 2]> {
    Some([quantile(samples, 0.25)?, quantile(samples, 0.75)?])
}

/// The ratio of two contenders, and its spread.
///
/// It is the median of the ratios of single rounds: the turns of a round follow each other closely, so that what is
/// slow for one is slow for the other. Where one has had more turns than the other, the medians of all samples are
/// divided.
pub(crate) fn ratio(ours: &[Vec<f64>], other: &[Vec<f64>]) -> Option<(f64, f64)> {
    if ours.len() != other.len() {
        let all = |turns: &[Vec<f64>]| median(&turns.concat());
        return Some((divided(all(ours)?, all(other)?)?, 0.0));
    }
    let rounds: Vec<f64> = ours
        .iter()
        .zip(other)
        .filter_map(|(ours, other)| divided(median(ours)?, median(other)?))
        .collect();
    let [low, high] = quartiles(&rounds)?;
    Some((median(&rounds)?, (high - low) / 2.0))
}

/// A quotient, or none by what is not above 0: infinity can be neither compared nor written down.
pub(crate) fn divided(figure: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| figure / by)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
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

    #[test_case(&[] => None)]
    #[test_case(&[7.0] => Some(7.0))]
    #[test_case(&[4.0, 1.0, 2.0, 3.0] => Some(2.5))]
    #[test_case(&[9.0, 1.0, 2.0] => Some(2.0))]
    fn a_median_is_in_the_middle(samples: &[f64]) -> Option<f64> {
        median(samples)
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        // The machine was ten times slower in the second round, for both alike.
        let ours = [vec![2.0], vec![30.0], vec![4.0]];
        let other = [vec![1.0], vec![10.0], vec![1.0]];
        assert_eq!(ratio(&ours, &other), Some((3.0, 1.0)));
    }

    #[test]
    fn nothing_is_a_multiple_of_nothing() {
        assert_eq!(ratio(&[vec![2.0]], &[vec![0.0]]), None);
        let rounds = [vec![0.0], vec![1.0]];
        assert_eq!(ratio(&[vec![2.0], vec![3.0]], &rounds), Some((3.0, 0.0)));
    }

    #[test]
    fn turns_that_have_no_partner_are_compared_as_a_whole() {
        assert_eq!(
            ratio(&[vec![6.0]], &[vec![1.0], vec![3.0]]),
            Some((3.0, 0.0))
        );
        assert_eq!(ratio(&[], &[vec![1.0]]), None);
    }
}
