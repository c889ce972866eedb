//! Tasks that join while others run: the schedule is afterwards as if they had been there from the beginning.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Some are there, some join after so many ends, in their order; each depends on earlier ones. Every one runs once,
    /// after all that it depends on, and every number is that of a recount throughout.
    #[test]
    fn what_joins_runs_as_if_it_had_been_there(
        slots in 1usize..4,
        priorities in prop::collection::vec(0i64..3, 2..12),
        first in 1usize..6,
        on in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..20),
        pause in 0usize..3,
    ) {
        let count = priorities.len();
        let first = first.min(count);
        let mut edges: Vec<(usize, usize)> = Vec::new();
        for (task, on) in on {
            let task = 1 + task.index(count - 1);
            let edge = (task, on.index(task));
            if !edges.contains(&edge) {
                edges.push(edge);
            }
        }
        let inside: Vec<(usize, usize)> = edges.iter().copied().filter(|(task, _)| *task < first).collect();
        let mut schedule = with_priorities(slots, &priorities[..first], &inside);
        let (mut running, mut done, mut next, mut waited) = (Vec::new(), Vec::new(), first, 0);
        let mut now = 0;
        while done.len() < count {
            now += 1;
            for started in start_all(&mut schedule, at(now)) {
                for (_, on) in edges.iter().filter(|(task, _)| *task == started) {
                    prop_assert!(done.contains(on), "{started} started before {on} was done");
                }
                running.push(started);
            }
            prop_assert!(running.len() <= slots);
            if next < count && (waited == pause || running.is_empty()) {
                schedule.add_member(member(next, priorities[next]));
                let on: Vec<_> = edges.iter().filter(|(task, _)| *task == next).map(|(_, on)| id(*on)).collect();
                schedule.set_dependencies(id(next), &on, at(now));
                schedule.settle(at(now));
                schedule.recount();
                (next, waited) = (next + 1, 0);
                continue;
            }
            prop_assert!(!running.is_empty(), "something can always start");
            let ended = running.remove(0);
            complete(&mut schedule, ended, at(now));
            schedule.recount();
            done.push(ended);
            waited += 1;
        }
        done.sort_unstable();
        prop_assert_eq!(done, (0..count).collect::<Vec<_>>());
        prop_assert!(schedule.is_idle());
    }
}

#[test]
fn what_joins_and_is_more_urgent_comes_first() {
    let mut schedule = with_priorities(1, &[5, 5], &[]);
    assert_eq!(start_all(&mut schedule, at(0)), [0]);
    schedule.add_member(member(2, 1));
    schedule.set_dependencies(id(2), &[], at(0));
    schedule.settle(at(0));
    complete(&mut schedule, 0, at(1));
    assert_eq!(start_all(&mut schedule, at(1)), [2]);
}
