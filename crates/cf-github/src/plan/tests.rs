use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn repo(n: usize) -> Repo {
    format!("o/r{n}").parse().unwrap()
}

fn due(repo_number: usize, number: u64, listable: Option<i64>) -> Due {
    Due {
        key: Key {
            repo: repo(repo_number),
            number,
        },
        listable: listable.map(at),
    }
}

fn spans(count: usize, checked: i64) -> HashMap<Repo, Span> {
    (0..count)
        .map(|n| {
            (
                repo(n),
                Span {
                    base: at(-500),
                    checked_at: at(checked),
                },
            )
        })
        .collect()
}

fn thousand() -> Vec<Due> {
    (0..5)
        .flat_map(|r| (0..200).map(move |n| due(r, n, Some(-400 + n.cast_signed()))))
        .collect()
}

fn planned(due: Vec<Due>, spans: &HashMap<Repo, Span>, chunk: usize) -> VecDeque<Batch> {
    plan(due, spans, chunk, SignedDuration::ZERO, at(0))
}

#[test]
fn few_items_are_read_one_by_one() {
    let due: Vec<Due> = (0..200).map(|n| due(0, n, Some(-10))).collect();
    let batches = planned(due, &spans(1, -30), 100);
    assert_eq!(batches.len(), 2);
    assert!(
        batches
            .iter()
            .all(|batch| batch.lists.is_empty() && batch.exact.len() == 100)
    );
}

#[test]
fn many_items_are_covered_by_lists_and_the_oldest_are_read() {
    let batches = planned(thousand(), &spans(5, -30), 250);
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].lists.len(), 5);
    assert_eq!(batches[0].exact.len(), 100);
    // Those that were read the longest ago: the first twenty of each repository.
    assert!(batches[0].exact.iter().all(|key| key.number < 20));
}

#[test]
fn a_list_reaches_back_beyond_the_last_one_by_the_servers_clock() {
    let skew = SignedDuration::from_secs(3600);
    let batches = plan(thousand(), &spans(5, -30), 250, skew, at(0));
    assert_eq!(batches[0].lists[0].1, at(-30 - 120 + 3600));
}

#[test]
fn without_a_recent_list_everything_is_read() {
    for spans in [HashMap::new(), spans(5, -4000), spans(5, 60)] {
        let batches = planned(thousand(), &spans, 250);
        assert_eq!(batches.len(), 4);
        assert!(batches.iter().all(|batch| batch.lists.is_empty()));
    }
}

#[test]
fn what_must_be_read_exactly_is_read_beside_the_lists() {
    let mut all = thousand();
    all.extend((1000..1120).map(|n| due(0, n, None)));
    let batches = planned(all, &spans(5, -30), 250);
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].exact.len(), 120, "no room for others");
}

#[test]
fn a_repository_with_few_items_is_not_listed() {
    let mut all = thousand();
    all.extend((0..25).map(|n| due(7, n, Some(-10))));
    let mut spans = spans(5, -30);
    spans.extend(self::spans(8, -30));
    let batches = planned(all, &spans, 250);
    assert!(
        batches[0]
            .lists
            .iter()
            .all(|(listed, _)| *listed != repo(7))
    );
    assert!((0..25).all(|n| batches[0].exact.contains(&due(7, n, None).key)));
}

#[test]
fn a_refusal_is_narrowed_down_to_one_repository() {
    let batch = Batch {
        lists: vec![(repo(0), at(0))],
        exact: (0..6).map(|n| due(n, 1, None).key).collect(),
        alone: false,
    };
    let mut queue = vec![batch];
    let mut single = BTreeSet::new();
    while let Some(batch) = queue.pop() {
        let repos = batch.parts().len();
        if let Some(halves) = batch.clone().split_repos() {
            queue.extend(halves);
        } else {
            assert_eq!(repos, 1);
            single.insert(batch.parts()[0].repo.clone());
        }
    }
    assert_eq!(single.len(), 6);
}

proptest! {
    /// Every due item is either read or covered by its repository's list, none twice, no request above the chunk.
    #[test]
    fn nothing_due_is_forgotten(
        items in prop::collection::btree_map((0_usize..30, 0_u64..80), prop::option::of(-400_i64..0), 0..900),
        listed in 0_usize..30,
        chunk in 10_usize..=250,
    ) {
        let all: Vec<Due> = items.iter().map(|((r, n), listable)| due(*r, *n, *listable)).collect();
        let batches = planned(all.clone(), &spans(listed, -30), chunk);
        let lists: Vec<&Repo> = batches.iter().flat_map(|batch| &batch.lists).map(|(repo, _)| repo).collect();
        let exact: Vec<&Key> = batches.iter().flat_map(|batch| &batch.exact).collect();
        let distinct: BTreeSet<&&Key> = exact.iter().collect();
        prop_assert_eq!(distinct.len(), exact.len());
        for due in &all {
            let covered = due.listable.is_some() && lists.contains(&&due.key.repo);
            prop_assert!(covered || exact.contains(&&due.key));
        }
        for batch in &batches {
            prop_assert!(batch.exact.len() <= chunk);
            prop_assert!(batch.size() > 0);
        }
    }

    /// Halving ends, and loses nothing.
    #[test]
    fn halving_keeps_everything(lists in 0_usize..6, items in 0_u64..60) {
        let batch = Batch {
            lists: (0..lists).map(|n| (repo(n), at(0))).collect(),
            exact: (0..items).map(|n| due(0, n, None).key).collect(),
            alone: false,
        };
        let mut queue = vec![batch.clone()];
        let mut kept = Batch::default();
        while let Some(batch) = queue.pop() {
            if let Some(halves) = batch.clone().split() {
                    prop_assert!(halves.iter().all(|half| half.size() > 0));
                    queue.extend(halves);
                } else {
                    kept.lists.extend(batch.lists);
                    kept.exact.extend(batch.exact);
            }
        }
        kept.lists.sort();
        kept.exact.sort();
        prop_assert_eq!(kept, batch);
    }
}
