//! Which slot an attempt had, and when any had one. The store does not say, so it follows from the times: an attempt
//! gets the first slot that is free when it starts.

use std::time::Duration;

use cf_core::Timestamp;

use super::super::time;

/// The slot of each interval, counted from 0, in the order given; an interval without an end lasts for ever.
///
/// No two intervals of a slot overlap, and there are as many slots as there are ever intervals at once. One that ends
/// in the millisecond in which another starts makes room for it.
pub(super) fn pack(intervals: &[(Timestamp, Option<Timestamp>)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..intervals.len()).collect();
    order.sort_by_key(|at| intervals[*at].0);
    // When each slot is free again.
    let mut free: Vec<Timestamp> = Vec::new();
    let mut slots = vec![0; intervals.len()];
    for at in order {
        let (from, to) = intervals[at];
        let to = to.unwrap_or(Timestamp::MAX).max(from);
        let slot = free.iter().position(|end| *end <= from).unwrap_or_else(|| {
            free.push(to);
            free.len() - 1
        });
        free[slot] = to;
        slots[at] = slot;
    }
    slots
}

/// For how long at least one of the intervals lasted. Each is `(from, to)`.
pub(super) fn covered(intervals: impl IntoIterator<Item = (Timestamp, Timestamp)>) -> Duration {
    let mut sorted: Vec<(Timestamp, Timestamp)> = intervals.into_iter().collect();
    sorted.sort_unstable();
    let mut sum = Duration::ZERO;
    let mut until = Timestamp::MIN;
    for (from, to) in sorted {
        sum += time::between(from.max(until), to);
        until = until.max(to);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u32) -> Timestamp {
        Timestamp::from_millisecond(ms.into()).unwrap()
    }

    #[test]
    fn the_first_free_slot_is_taken() {
        let intervals = [
            (at(0), Some(at(10))),
            (at(0), Some(at(4))),
            (at(4), Some(at(6))),
            (at(7), None),
            (at(20), Some(at(30))),
        ];
        assert_eq!(pack(&intervals), [0, 1, 1, 1, 0]);
    }

    #[test]
    fn what_overlaps_counts_once_and_a_gap_not_at_all() {
        let intervals = [(20, 30), (0, 10), (5, 7), (8, 12)].map(|(from, to)| (at(from), at(to)));
        assert_eq!(covered(intervals), Duration::from_millis(22));
        assert_eq!(covered([]), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn no_two_of_a_slot_overlap_and_no_slot_is_spare(
            given in prop::collection::vec((0..60u32, 0..20u32), 0..40)
        ) {
            let intervals: Vec<_> = given.iter().map(|(from, long)| (at(*from), Some(at(from + long)))).collect();
            let slots = pack(&intervals);
            for (a, (from_a, to_a)) in intervals.iter().enumerate() {
                for (b, (from_b, to_b)) in intervals.iter().enumerate().skip(a + 1) {
                    let apart = to_a.unwrap() <= *from_b || to_b.unwrap() <= *from_a;
                    prop_assert!(apart || slots[a] != slots[b]);
                }
            }
            let most = (0..80).map(|now| {
                let now = at(now);
                intervals.iter().filter(|(from, to)| *from <= now && (now < to.unwrap() || *from == now)).count()
            });
            prop_assert!(slots.iter().max().map_or(0, |slot| slot + 1) <= most.max().unwrap_or(0));
        }
    }
}
