//! From times to places on the timeline, and back to the marks below it.
//!
//! A batch that was stopped and resumed the next day has hours in which nothing happened. Such a gap is drawn as a
//! narrow break, so that what did happen stays legible.

use std::time::Duration;

use cf_core::Timestamp;

/// The width of a break, in per cent of the timeline.
const BREAK: f64 = 2.0;

/// A gap is a break when it is longer than this, in milliseconds, and than half of the time in which something
/// happened.
const LONG_GAP_MS: i64 = 10 * 60 * 1_000;

/// How many marks an unmagnified timeline has at most; a magnified one has as many more as it is longer.
const MARKS: i64 = 8;

/// Distances between marks, in milliseconds.
const STEPS_MS: &[i64] = &[
    1,
    10,
    100,
    500,
    1_000,
    5_000,
    10_000,
    30_000,
    60_000,
    5 * 60_000,
    10 * 60_000,
    30 * 60_000,
    3_600_000,
    3 * 3_600_000,
    6 * 3_600_000,
    12 * 3_600_000,
    86_400_000,
    7 * 86_400_000,
    28 * 86_400_000,
    364 * 86_400_000,
];

/// A stretch of time without a break, in milliseconds since the epoch, and where it begins, in per cent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    from: i64,
    to: i64,
    at: f64,
}

/// Where times stand on the timeline.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    stretches: Vec<Stretch>,
    /// Per cent a millisecond.
    per_ms: f64,
}

/// A mark below the timeline.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    /// Where, in per cent.
    pub(super) at: f64,
    /// The time of day, UTC.
    pub(super) text: String,
    /// From which magnification on it is shown: 1, 4 or 16.
    pub(super) zoom: u8,
}

impl Scale {
    /// Lays out the times in which something happened. Without any, or with a single moment, it is one second long.
    pub(super) fn new(busy: impl IntoIterator<Item = (Timestamp, Timestamp)>) -> Self {
        let mut busy: Vec<(i64, i64)> = busy
            .into_iter()
            .map(|(from, to)| (from.as_millisecond(), to.as_millisecond()))
            .map(|(from, to)| (from, to.max(from)))
            .collect();
        busy.sort_unstable();
        let mut runs: Vec<(i64, i64)> = Vec::new();
        for (from, to) in busy {
            match runs.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => runs.push((from, to)),
            }
        }
        let worked: i64 = runs.iter().map(|(from, to)| to - from).sum();
        let long = LONG_GAP_MS.max(worked / 2);
        let mut joined: Vec<(i64, i64)> = Vec::new();
        for (from, to) in runs {
            match joined.last_mut() {
                Some(last) if from - last.1 <= long => last.1 = to,
                _ => joined.push((from, to)),
            }
        }
        if joined.is_empty() {
            joined.push((0, 0));
        }
        let total: i64 = joined.iter().map(|(from, to)| to - from).sum();
        if total == 0 {
            let last = joined.len() - 1;
            joined[last].1 += 1_000;
        }
        let total = total.max(1_000) as f64;
        let breaks = (joined.len() - 1) as f64;
        // Very many breaks would leave no room for what is between them.
        let wide = BREAK.min(50.0 / breaks.max(1.0));
        let per_ms = breaks.mul_add(-wide, 100.0) / total;
        let mut at = 0.0;
        let stretches = joined
            .into_iter()
            .map(|(from, to)| {
                let stretch = Stretch { from, to, at };
                at += ((to - from) as f64).mul_add(per_ms, wide);
                stretch
            })
            .collect();
        Self { stretches, per_ms }
    }

    /// Where a time stands, from 0 to 100. A time within a break stands at its beginning.
    pub(super) fn at(&self, time: Timestamp) -> f64 {
        self.at_ms(time.as_millisecond()).clamp(0.0, 100.0)
    }

    fn at_ms(&self, ms: i64) -> f64 {
        let after = self.stretches.partition_point(|s| s.from <= ms);
        let Some(stretch) = after.checked_sub(1).map(|at| self.stretches[at]) else {
            return 0.0;
        };
        ((ms.min(stretch.to) - stretch.from) as f64).mul_add(self.per_ms, stretch.at)
    }

    /// The breaks: where each begins and ends, in per cent, and how long it is.
    pub(super) fn breaks(&self) -> impl Iterator<Item = (f64, f64, Duration)> + '_ {
        self.stretches.windows(2).map(|pair| {
            let long = u64::try_from(pair[1].from - pair[0].to).unwrap_or(0);
            (
                self.at_ms(pair[0].to),
                pair[1].at,
                Duration::from_millis(long),
            )
        })
    }

    /// The marks below it, for every magnification, from left to right.
    pub(super) fn marks(&self) -> Vec<Mark> {
        let length: i64 = self.stretches.iter().map(|s| s.to - s.from).sum();
        let mut coarser = 0;
        let steps = [1, 4, 16].map(|zoom| {
            let few = |step: i64| length / step <= MARKS * i64::from(zoom);
            let fits = STEPS_MS
                .iter()
                .find(|step| few(**step) && coarser % **step == 0);
            coarser = fits.copied().unwrap_or(STEPS_MS[STEPS_MS.len() - 1]);
            (zoom, coarser)
        });
        let mut marks = Vec::new();
        for stretch in &self.stretches {
            let finest = steps[2].1;
            let first = stretch.from.div_euclid(finest) + i64::from(stretch.from % finest != 0);
            let last = stretch.to.div_euclid(finest);
            for ms in (first..=last).map(|n| n * finest) {
                let zoom = steps.iter().find(|(_, step)| ms % step == 0);
                marks.extend(zoom.map(|(zoom, step)| Mark {
                    at: self.at_ms(ms),
                    text: of_day(ms, *step),
                    zoom: *zoom,
                }));
            }
        }
        marks
    }
}

/// The time of day, as exact as the distance between marks needs it; the date when they are days apart.
fn of_day(ms: i64, step: i64) -> String {
    let format = match step {
        ..1_000 => "%H:%M:%S.%3f",
        1_000..60_000 => "%H:%M:%S",
        60_000..86_400_000 => "%H:%M",
        _ => "%Y-%m-%d",
    };
    Timestamp::from_millisecond(ms)
        .map_or_else(|_| String::new(), |at| at.strftime(format).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    fn scale(busy: &[(i64, i64)]) -> Scale {
        Scale::new(busy.iter().map(|(from, to)| (at(*from), at(*to))))
    }

    #[test]
    fn times_are_spread_evenly() {
        let scale = scale(&[(1_000, 3_000), (2_000, 5_000)]);
        for (ms, share) in [
            (0, 0.0),
            (1_000, 0.0),
            (2_000, 25.0),
            (5_000, 100.0),
            (9_000, 100.0),
        ] {
            assert!((scale.at(at(ms)) - share).abs() < 1e-9, "{ms}");
        }
        assert_eq!(scale.breaks().count(), 0);
    }

    #[test]
    fn a_short_pause_stays_and_a_night_becomes_a_break() {
        let hour = 3_600_000;
        assert_eq!(
            scale(&[(0, hour), (hour + 60_000, 2 * hour)])
                .breaks()
                .count(),
            0
        );
        let night = scale(&[(0, hour), (9 * hour, 10 * hour)]);
        let breaks: Vec<_> = night.breaks().collect();
        assert_eq!(breaks.len(), 1);
        assert!((breaks[0].0 - 49.0).abs() < 1e-9 && (breaks[0].1 - 51.0).abs() < 1e-9);
        assert_eq!(breaks[0].2, Duration::from_hours(8));
        assert!((night.at(at(5 * hour)) - 49.0).abs() < 1e-9, "within it");
        assert!((night.at(at(10 * hour)) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_and_a_moment_have_a_place_too() {
        assert!((scale(&[]).at(at(5)) - 0.5).abs() < 1e-9);
        assert!(scale(&[(70, 70)]).at(at(70)).abs() < 1e-9);
        assert!(!scale(&[(70, 70)]).marks().is_empty());
    }

    #[test]
    fn marks_are_few_and_finer_ones_come_with_magnification() {
        let marks = scale(&[(0, 62_000)]).marks();
        let shown = |zoom| -> Vec<&str> {
            let of = marks.iter().filter(|mark| mark.zoom == zoom);
            of.map(|mark| mark.text.as_str()).collect()
        };
        assert_eq!(
            shown(1),
            [
                "00:00:00", "00:00:10", "00:00:20", "00:00:30", "00:00:40", "00:00:50", "00:01:00"
            ]
        );
        assert_eq!(shown(4).len(), 6, "every five seconds, less those");
        assert_eq!(shown(16).len(), 112, "every half second, less those");
        assert!(marks.is_sorted_by(|a, b| a.at <= b.at));
    }
}
