//! What has changed since figures were recorded, and whether it is more than noise.
//!
//! Ratios are compared, because the machine may be another one. Where a row has no floor, its figure is compared if it
//! does not depend on how fast the machine is: memory, calls and crates. Instructions are counted, not timed, so their
//! noise is smaller. Times of rows without a floor are not compared at all.

use crate::bench::figures::{Figures, Part, RowFigures};

/// A change of a count of instructions that means something. Hashing with random keys moves them by less.
const COUNTED: f64 = 0.03;
/// A change of anything else that means something, on a machine without noise.
const TIMED: f64 = 0.10;
/// How many times the spread of both sides together a change has to be.
const SPREADS: f64 = 3.0;

/// A figure of ours that was recorded and measured again.
#[derive(Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) row: String,
    pub(crate) contender: String,
    /// `×` or the row's unit.
    pub(crate) unit: String,
    pub(crate) then: f64,
    pub(crate) now: f64,
    /// How far they may be apart for nothing.
    pub(crate) noise: f64,
    pub(crate) way: Way,
}

/// In which way a figure has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Worse,
    Better,
    /// No more than the noise.
    Steady,
}

/// One side of a comparison.
struct Side {
    unit: String,
    /// Whose figure a ratio is taken to.
    to: Option<String>,
    value: f64,
    spread: f64,
}

/// Compares what there is on both sides, in the order of the new figures.
pub(crate) fn compare(then: &[RowFigures], now: &[RowFigures]) -> Vec<Change> {
    let mut changes = Vec::new();
    for row in now {
        let Some(old) = then.iter().find(|old| old.id == row.id) else {
            continue;
        };
        for ours in row.contenders.iter().filter(|it| it.part == Part::Cf) {
            let before = old.contenders.iter().find(|it| it.name == ours.name);
            if let (Some(before), Some(after)) =
                (before.and_then(|it| side(old, it)), side(row, ours))
                && (&before.unit, &before.to) == (&after.unit, &after.to)
            {
                changes.push(change(row, &ours.name, &before, &after));
            }
        }
    }
    changes
}

fn side(row: &RowFigures, contender: &Figures) -> Option<Side> {
    let ratio = contender
        .ratio
        .as_ref()
        .filter(|ratio| ratio.to.is_some() && row.unit != "instructions");
    if let Some(ratio) = ratio {
        return Some(Side {
            unit: "×".to_owned(),
            to: ratio.to.clone(),
            value: ratio.times,
            spread: ratio.spread,
        });
    }
    matches!(
        row.unit.as_str(),
        "instructions" | "MiB" | "calls" | "crates"
    )
    .then(|| Side {
        unit: row.unit.clone(),
        to: None,
        value: contender.figure,
        spread: (contender.quartiles[1] - contender.quartiles[0]) / 2.0,
    })
}

fn change(row: &RowFigures, contender: &str, then: &Side, now: &Side) -> Change {
    let noise = if row.unit == "instructions" {
        COUNTED * then.value
    } else {
        (TIMED * then.value).max(SPREADS * then.spread.hypot(now.spread))
    };
    let grown = now.value - then.value;
    let way = if grown.abs() <= noise {
        Way::Steady
    } else if (grown > 0.0) == row.more_is_better {
        Way::Better
    } else {
        Way::Worse
    };
    Change {
        row: row.id.clone(),
        contender: contender.to_owned(),
        unit: then.unit.clone(),
        then: then.value,
        now: now.value,
        noise,
        way,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::Ratio;
    use test_case::test_case;

    fn row(unit: &str, figure: f64, ratio: Option<(f64, f64)>) -> RowFigures {
        RowFigures {
            id: "a".to_owned(),
            what: "a row".to_owned(),
            unit: unit.to_owned(),
            more_is_better: unit == "1/s",
            date: "2026-01-01".to_owned(),
            machine: "a machine".to_owned(),
            contenders: vec![Figures {
                name: "cf".to_owned(),
                part: Part::Cf,
                figure,
                quartiles: [figure, figure],
                n: 1,
                ratio: ratio.map(|(times, spread)| Ratio {
                    to: Some("the floor".to_owned()),
                    times,
                    spread,
                }),
            }],
            targets: Vec::new(),
        }
    }

    #[test_case((1.0, 0.0), (1.09, 0.0) => Way::Steady; "less than a tenth")]
    #[test_case((1.0, 0.0), (1.11, 0.0) => Way::Worse; "more than a tenth")]
    #[test_case((1.0, 0.0), (0.89, 0.0) => Way::Better; "a tenth less")]
    #[test_case((1.0, 0.05), (1.14, 0.0) => Way::Steady; "within the spread of then")]
    #[test_case((1.0, 0.0), (1.14, 0.05) => Way::Steady; "within the spread of now")]
    #[test_case((1.0, 0.03), (1.14, 0.04) => Way::Steady; "within the spread of both")]
    #[test_case((1.0, 0.03), (1.16, 0.04) => Way::Worse; "beyond the spread of both")]
    fn a_ratio_may_move_within_its_noise(then: (f64, f64), now: (f64, f64)) -> Way {
        // The milliseconds are those of another machine, and mean nothing.
        compare(&[row("ms", 1.0, Some(then))], &[row("ms", 50.0, Some(now))])[0].way
    }

    #[test]
    fn of_a_rate_more_is_better() {
        let then = [row("1/s", 1.0, Some((1.0, 0.0)))];
        let less = compare(&then, &[row("1/s", 1.0, Some((0.8, 0.0)))]);
        let more = compare(&then, &[row("1/s", 1.0, Some((1.2, 0.0)))]);
        assert_eq!((less[0].way, more[0].way), (Way::Worse, Way::Better));
    }

    #[test_case(1.02 => Way::Steady)]
    #[test_case(1.04 => Way::Worse)]
    #[test_case(0.96 => Way::Better)]
    fn instructions_are_compared_as_counts(factor: f64) -> Way {
        // The floor moved with them; that is no excuse.
        compare(
            &[row("instructions", 1e6, Some((2.0, 0.0)))],
            &[row("instructions", 1e6 * factor, Some((2.0, 0.0)))],
        )[0]
        .way
    }

    #[test]
    fn a_time_without_a_floor_is_not_compared_and_memory_is() {
        assert_eq!(
            compare(&[row("ms", 1.0, None)], &[row("ms", 9.0, None)]),
            []
        );
        let memory = compare(&[row("MiB", 10.0, None)], &[row("MiB", 12.0, None)]);
        assert_eq!(memory[0].way, Way::Worse);
        assert_eq!(memory[0].unit, "MiB");
    }

    #[test]
    fn a_ratio_to_another_floor_is_not_compared() {
        let then = row("ms", 1.0, Some((1.0, 0.0)));
        let mut now = row("ms", 1.0, Some((9.0, 0.0)));
        if let Some(ratio) = &mut now.contenders[0].ratio {
            ratio.to = Some("another floor".to_owned());
        }
        assert_eq!(compare(&[then], &[now]), []);
    }

    #[test]
    fn what_was_not_recorded_is_not_compared() {
        assert_eq!(compare(&[], &[row("MiB", 1.0, None)]), []);
    }
}
