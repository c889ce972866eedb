//! The dependency graph: cycles found and named, and the order in which tasks would run one at a time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::Hash;

/// Tasks and what each depends on.
///
/// Nodes keep the position in which they were added; edges to nodes that are not in the graph are kept apart, because
/// what they mean depends on who asks.
#[derive(Clone, Debug)]
pub struct Graph<Id> {
    ids: Vec<Id>,
    priorities: Vec<i64>,
    index: HashMap<Id, usize>,
    depends_on: Vec<Vec<usize>>,
    outside: Vec<(Id, Id)>,
}

/// A graph that cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError<Id> {
    /// A node depends on itself, directly or through others. The first node stands again at the end.
    #[error("dependencies form a cycle")]
    Cycle(Vec<Id>),
}

/// How many nodes of a long cycle are named at either end of it. What is longer than four times as many is long.
const NAMED: usize = 5;

/// A cycle as `a -> b -> a`. Of a long one the first and the last nodes are named, and how many stand between them.
///
/// # Errors
///
/// A name cannot be told.
pub fn cycle_in_words<Id, E>(
    cycle: &[Id],
    mut name: impl FnMut(&Id) -> Result<String, E>,
) -> Result<String, E> {
    let mut words = Vec::new();
    let is_long = cycle.len() > 4 * NAMED;
    for (at, id) in cycle.iter().enumerate() {
        if !is_long || at < NAMED || at >= cycle.len() - NAMED {
            words.push(name(id)?);
        } else if at == NAMED {
            words.push(format!("… {} more …", cycle.len() - 2 * NAMED));
        }
    }
    Ok(words.join(" -> "))
}

impl<Id: Copy + Eq + Hash> Graph<Id> {
    /// Builds the graph from nodes with their priority (0 is most urgent) and from edges `(task, depends on)`.
    ///
    /// A node given twice counts once; so does an edge.
    pub fn new(
        nodes: impl IntoIterator<Item = (Id, i64)>,
        edges: impl IntoIterator<Item = (Id, Id)>,
    ) -> Self {
        let mut graph = Self {
            ids: Vec::new(),
            priorities: Vec::new(),
            index: HashMap::new(),
            depends_on: Vec::new(),
            outside: Vec::new(),
        };
        for (id, priority) in nodes {
            graph.index.entry(id).or_insert_with(|| {
                graph.ids.push(id);
                graph.priorities.push(priority);
                graph.depends_on.push(Vec::new());
                graph.ids.len() - 1
            });
        }
        for (from, on) in edges {
            let Some(&from_at) = graph.index.get(&from) else {
                continue;
            };
            match graph.index.get(&on) {
                Some(&on_at) => graph.depends_on[from_at].push(on_at),
                None => graph.outside.push((from, on)),
            }
        }
        for list in &mut graph.depends_on {
            list.sort_unstable();
            list.dedup();
        }
        graph
    }

    /// The edges `(task, depends on)` whose target is not a node.
    pub fn outside(&self) -> &[(Id, Id)] {
        &self.outside
    }

    /// The order in which the nodes run one at a time: dependencies first, then priority, then position.
    ///
    /// Takes time and memory in proportion to nodes and edges (times the logarithm of the nodes).
    ///
    /// # Errors
    ///
    /// [`GraphError::Cycle`] with one cycle, when there is any.
    pub fn order(&self) -> Result<Vec<Id>, GraphError<Id>> {
        let mut unmet: Vec<usize> = self.depends_on.iter().map(Vec::len).collect();
        let mut dependents = vec![Vec::new(); self.ids.len()];
        for (at, on) in self.depends_on.iter().enumerate() {
            for &on_at in on {
                dependents[on_at].push(at);
            }
        }
        let mut free: BinaryHeap<_> = (0..self.ids.len())
            .filter(|&at| unmet[at] == 0)
            .map(|at| Reverse((self.priorities[at], at)))
            .collect();
        let mut order = Vec::with_capacity(self.ids.len());
        while let Some(Reverse((_, at))) = free.pop() {
            order.push(self.ids[at]);
            for &next in &dependents[at] {
                unmet[next] -= 1;
                if unmet[next] == 0 {
                    free.push(Reverse((self.priorities[next], next)));
                }
            }
        }
        if order.len() == self.ids.len() {
            Ok(order)
        } else {
            Err(GraphError::Cycle(self.cycle(&unmet)))
        }
    }

    /// One cycle among the nodes that never became free. Every such node has an unmet dependency among them, so
    /// following those must come back.
    fn cycle(&self, unmet: &[usize]) -> Vec<Id> {
        let stuck = |at: usize| unmet[at] > 0;
        let mut seen_at = vec![usize::MAX; self.ids.len()];
        let mut path = Vec::new();
        let mut at = (0..self.ids.len())
            .find(|&at| stuck(at))
            .expect("called only when a node is stuck");
        while seen_at[at] == usize::MAX {
            seen_at[at] = path.len();
            path.push(at);
            at = self.depends_on[at]
                .iter()
                .copied()
                .find(|&on| stuck(on))
                .expect("a stuck node depends on a stuck node");
        }
        let mut cycle: Vec<Id> = path[seen_at[at]..].iter().map(|&at| self.ids[at]).collect();
        cycle.push(self.ids[at]);
        cycle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(nodes: &[(u32, i64)], edges: &[(u32, u32)]) -> Result<Vec<u32>, GraphError<u32>> {
        Graph::new(nodes.iter().copied(), edges.iter().copied()).order()
    }

    #[test]
    fn dependencies_then_priority_then_position() {
        assert_eq!(
            order(&[(1, 0), (2, 5), (3, 0), (4, 1)], &[(1, 3)]),
            Ok(vec![3, 1, 4, 2])
        );
    }

    #[test]
    fn a_cycle_is_named() {
        assert_eq!(
            order(&[(1, 0)], &[(1, 1)]),
            Err(GraphError::Cycle(vec![1, 1]))
        );
        let three = order(
            &[(0, 0), (1, 0), (2, 0), (3, 0)],
            &[(1, 2), (2, 3), (3, 1), (0, 1)],
        );
        assert_eq!(three, Err(GraphError::Cycle(vec![1, 2, 3, 1])));
    }

    #[test]
    fn a_long_cycle_is_named_at_both_ends() {
        let words = |len: u32| {
            let mut asked = 0;
            let cycle: Vec<u32> = (0..len).chain([0]).collect();
            let words = cycle_in_words(&cycle, |n| {
                asked += 1;
                Ok::<_, std::convert::Infallible>(n.to_string())
            });
            (words.unwrap(), asked)
        };
        assert_eq!(words(2), ("0 -> 1 -> 0".to_owned(), 3));
        assert_eq!(words(19).0.split(" -> ").count(), 20);
        assert_eq!(
            words(100_000),
            (
                "0 -> 1 -> 2 -> 3 -> 4 -> … 99991 more … -> 99996 -> 99997 -> 99998 -> 99999 -> 0"
                    .to_owned(),
                10
            )
        );
    }

    #[test]
    fn an_edge_to_a_stranger_is_kept_apart() {
        let graph = Graph::new([(1, 0)], [(1, 9)]);
        assert_eq!(graph.outside(), [(1, 9)]);
        assert_eq!(graph.order(), Ok(vec![1]));
    }

    proptest! {
        #[test]
        fn every_dependency_comes_first(edges in proptest::collection::vec((0u32..40, 0u32..40), 0..120)) {
            let nodes: Vec<(u32, i64)> = (0..40).map(|n| (n, i64::from(n % 3))).collect();
            match order(&nodes, &edges) {
                Ok(found) => {
                    prop_assert_eq!(found.len(), 40);
                    let at = |id| found.iter().position(|x| *x == id).unwrap();
                    for (from, on) in edges {
                        prop_assert!(at(on) < at(from));
                    }
                }
                Err(GraphError::Cycle(cycle)) => {
                    prop_assert_eq!(cycle.first(), cycle.last());
                    prop_assert!(cycle.len() > 1);
                    for pair in cycle.windows(2) {
                        prop_assert!(edges.contains(&(pair[0], pair[1])));
                    }
                }
            }
        }
    }
}
