//! A layered drawing of a dependency graph: what nothing has to wait for at the left, what waits longest at the right.
//!
//! The usual four steps (Sugiyama, Tagawa and Toda, 1981): a layer for each node by its longest path; places in between
//! for edges that pass a layer; an order within each layer that crosses few edges, by medians; and places that keep an
//! edge's ends near each other. Nothing here knows what a node is.

use std::collections::HashMap;

/// The distance between the middles of two nodes of a layer, in pixels.
pub(super) const NODE_STEP: f64 = 56.0;
/// The same beside an edge that only passes.
const PASS_STEP: f64 = 22.0;
/// How often orders and places are improved, once in each direction. More changes nothing that is visible.
const SWEEPS: usize = 8;

/// The layer of each node, from 0: one more than the highest among those that it depends on.
///
/// Nodes on a cycle, which no batch has, count as if they depended on nothing.
pub(super) fn levels(depends_on: &[Vec<usize>]) -> Vec<usize> {
    let mut unmet: Vec<usize> = depends_on.iter().map(Vec::len).collect();
    let dependents = reversed(depends_on);
    let mut levels = vec![0; depends_on.len()];
    let mut ready: Vec<usize> = (0..unmet.len()).filter(|at| unmet[*at] == 0).collect();
    while let Some(at) = ready.pop() {
        for next in &dependents[at] {
            levels[*next] = levels[*next].max(levels[at] + 1);
            unmet[*next] -= 1;
            if unmet[*next] == 0 {
                ready.push(*next);
            }
        }
    }
    for (at, unmet) in unmet.iter().enumerate() {
        if *unmet > 0 {
            levels[at] = 0;
        }
    }
    levels
}

/// For each node those that depend on it.
fn reversed(depends_on: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut dependents = vec![Vec::new(); depends_on.len()];
    for (at, list) in depends_on.iter().enumerate() {
        for on in list {
            dependents[*on].push(at);
        }
    }
    dependents
}

/// Where everything stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Layout {
    /// For each node its layer, and how far down its middle is, in pixels.
    pub(super) nodes: Vec<(usize, f64)>,
    /// For each edge the node that it comes from, the one that it leads to, and how far down it passes each layer from
    /// the one to the other.
    pub(super) edges: Vec<(usize, usize, Vec<f64>)>,
    /// How many layers there are.
    pub(super) layers: usize,
    /// How far down the lowest middle is, in pixels.
    pub(super) height: f64,
}

/// Lays a graph out.
pub(super) fn layout(depends_on: &[Vec<usize>]) -> Layout {
    let mut drawing = Drawing::new(depends_on);
    drawing.order();
    drawing.place();
    drawing.finished(depends_on)
}

/// Items are the nodes, and after them the places where edges pass a layer.
struct Drawing {
    nodes: usize,
    level: Vec<usize>,
    /// For each layer its items from top to bottom.
    layers: Vec<Vec<usize>>,
    /// For each item its neighbours one layer to the left, and one to the right.
    left: Vec<Vec<usize>>,
    right: Vec<Vec<usize>>,
    /// Where edges from a node pass a layer: all of them at one place.
    passes: HashMap<(usize, usize), usize>,
    y: Vec<f64>,
}

impl Drawing {
    fn new(depends_on: &[Vec<usize>]) -> Self {
        let level = levels(depends_on);
        let nodes = level.len();
        let mut layers = vec![Vec::new(); level.iter().max().map_or(0, |top| top + 1)];
        for (at, level) in level.iter().enumerate() {
            layers[*level].push(at);
        }
        let mut drawing = Self {
            nodes,
            left: vec![Vec::new(); nodes],
            right: vec![Vec::new(); nodes],
            level,
            layers,
            passes: HashMap::new(),
            y: Vec::new(),
        };
        for (to, list) in depends_on.iter().enumerate() {
            for from in list {
                drawing.connect(*from, to);
            }
        }
        drawing
    }

    fn connect(&mut self, from: usize, to: usize) {
        let mut last = from;
        for level in self.level[from] + 1..self.level[to] {
            last = match self.passes.get(&(from, level)) {
                Some(pass) => *pass,
                None => self.pass(from, last, level),
            };
        }
        if self.level[to] > self.level[from] {
            self.join(last, to);
        }
    }

    fn pass(&mut self, from: usize, last: usize, level: usize) -> usize {
        let pass = self.level.len();
        self.level.push(level);
        self.left.push(Vec::new());
        self.right.push(Vec::new());
        self.layers[level].push(pass);
        self.passes.insert((from, level), pass);
        self.join(last, pass);
        pass
    }

    fn join(&mut self, left: usize, right: usize) {
        self.right[left].push(right);
        self.left[right].push(left);
    }

    /// Orders each layer by the medians of its neighbours, and keeps the order that crosses the fewest edges.
    fn order(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for sweep in 0..2 * SWEEPS {
            let rightward = sweep % 2 == 0;
            let count = self.layers.len();
            for step in 1..count {
                let layer = if rightward { step } else { count - 1 - step };
                let beside = if rightward { layer - 1 } else { layer + 1 };
                let place = self.places(beside);
                let neighbours = if rightward { &self.left } else { &self.right };
                let mut keyed: Vec<(f64, usize)> = self.layers[layer]
                    .iter()
                    .enumerate()
                    .map(|(at, item)| {
                        (
                            median(&neighbours[*item], &place).unwrap_or(at as f64),
                            *item,
                        )
                    })
                    .collect();
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.layers[layer] = keyed.into_iter().map(|(_, item)| item).collect();
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    /// The place of each item of a layer, from the top.
    fn places(&self, layer: usize) -> HashMap<usize, usize> {
        let items = self.layers[layer].iter().enumerate();
        items.map(|(at, item)| (*item, at)).collect()
    }

    /// How often edges cross between neighbouring layers.
    fn crossings(&self) -> usize {
        let mut count = 0;
        for layer in 1..self.layers.len() {
            let place = self.places(layer - 1);
            let mut ends: Vec<usize> = Vec::new();
            for item in &self.layers[layer] {
                let mut from: Vec<usize> =
                    self.left[*item].iter().map(|left| place[left]).collect();
                from.sort_unstable();
                let above = ends.len();
                for at in &from {
                    count += ends[..above].iter().filter(|end| *end > at).count();
                }
                ends.extend(from);
            }
        }
        count
    }

    /// Moves every item towards its neighbours, as far as the order and the distances allow.
    fn place(&mut self) {
        self.y = vec![0.0; self.level.len()];
        for layer in 0..self.layers.len() {
            self.settle(layer, |_, at| at as f64);
        }
        for sweep in 0..2 * SWEEPS {
            let count = self.layers.len();
            for step in 0..count {
                let rightward = sweep % 2 == 0;
                let layer = if rightward { step } else { count - 1 - step };
                self.settle(layer, |drawing, item| {
                    let beside = if rightward {
                        &drawing.left[item]
                    } else {
                        &drawing.right[item]
                    };
                    let sum: f64 = beside.iter().map(|item| drawing.y[*item]).sum();
                    if beside.is_empty() {
                        drawing.y[item]
                    } else {
                        sum / beside.len() as f64
                    }
                });
            }
        }
        let top = self.y.iter().copied().fold(f64::INFINITY, f64::min);
        for y in &mut self.y {
            *y -= top;
        }
    }

    /// Puts the items of a layer as near to where they want to be as the distances allow: halfway between the
    /// arrangement that only moves down and the one that only moves up, both of which keep the distances.
    fn settle(&mut self, layer: usize, wanted: impl Fn(&Self, usize) -> f64) {
        let items = self.layers[layer].clone();
        let mut down: Vec<f64> = items.iter().map(|item| wanted(self, *item)).collect();
        let mut up = down.clone();
        for at in 1..items.len() {
            down[at] = down[at].max(down[at - 1] + self.step(items[at - 1], items[at]));
        }
        for at in (1..items.len()).rev() {
            up[at - 1] = up[at - 1].min(up[at] - self.step(items[at - 1], items[at]));
        }
        for (at, item) in items.iter().enumerate() {
            self.y[*item] = f64::midpoint(down[at], up[at]);
        }
    }

    fn step(&self, above: usize, below: usize) -> f64 {
        match (above < self.nodes, below < self.nodes) {
            (true, true) => NODE_STEP,
            (false, false) => PASS_STEP,
            _ => f64::midpoint(NODE_STEP, PASS_STEP),
        }
    }

    fn finished(&self, depends_on: &[Vec<usize>]) -> Layout {
        let mut edges = Vec::new();
        for (to, list) in depends_on.iter().enumerate() {
            for from in list
                .iter()
                .filter(|from| self.level[**from] < self.level[to])
            {
                let passes = (self.level[*from] + 1..self.level[to])
                    .map(|level| self.passes[&(*from, level)]);
                let items = std::iter::once(*from).chain(passes).chain([to]);
                edges.push((*from, to, items.map(|item| self.y[item]).collect()));
            }
        }
        Layout {
            nodes: (0..self.nodes)
                .map(|at| (self.level[at], self.y[at]))
                .collect(),
            edges,
            layers: self.layers.len(),
            height: self.y.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// The median of the places of some items; the mean of the middle two when their number is even.
fn median(items: &[usize], place: &HashMap<usize, usize>) -> Option<f64> {
    let mut places: Vec<usize> = items.iter().map(|item| place[item]).collect();
    places.sort_unstable();
    let middle = places.len() / 2;
    match places.len() {
        0 => None,
        n if n % 2 == 1 => Some(places[middle] as f64),
        _ => Some(f64::midpoint(
            places[middle - 1] as f64,
            places[middle] as f64,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_layer_is_the_longest_path() {
        assert_eq!(
            levels(&[vec![], vec![0], vec![0], vec![1, 2], vec![0]]),
            [0, 1, 1, 2, 1]
        );
        assert_eq!(levels(&[vec![1], vec![0], vec![]]), [0, 0, 0], "a cycle");
        assert!(levels(&[]).is_empty());
    }

    #[test]
    fn edges_that_need_not_cross_do_not() {
        // Two chains, given crosswise.
        let drawing = layout(&[vec![], vec![], vec![1], vec![0]]);
        let y = |at: usize| drawing.nodes[at].1;
        assert_eq!(y(0) < y(1), y(3) < y(2));
        assert!((y(0) - y(3)).abs() < 1e-6, "a chain is straight");
    }

    #[test]
    fn an_edge_passes_beside_the_nodes_between() {
        let drawing = layout(&[vec![], vec![0], vec![1, 0]]);
        let (_, _, long) = drawing
            .edges
            .iter()
            .find(|(from, to, _)| (*from, *to) == (0, 2))
            .unwrap();
        assert_eq!(long.len(), 3);
        assert!((long[1] - drawing.nodes[1].1).abs() >= 30.0, "{drawing:?}");
    }

    proptest! {
        #[test]
        fn nothing_overlaps_and_edges_lead_to_the_right(
            given in prop::collection::vec(prop::collection::btree_set(0..30usize, 0..4), 0..30)
        ) {
            let depends_on: Vec<Vec<usize>> = given
                .iter()
                .enumerate()
                .map(|(at, list)| list.iter().copied().filter(|on| *on < at).collect())
                .collect();
            let drawing = layout(&depends_on);
            for (a, (level_a, y_a)) in drawing.nodes.iter().enumerate() {
                prop_assert!((0.0..=drawing.height).contains(y_a));
                for (level_b, y_b) in &drawing.nodes[a + 1..] {
                    prop_assert!(level_a != level_b || (y_a - y_b).abs() >= NODE_STEP - 1e-6);
                }
            }
            prop_assert_eq!(drawing.edges.len(), depends_on.iter().map(Vec::len).sum::<usize>());
            for (from, to, passes) in &drawing.edges {
                prop_assert_eq!(passes.len(), drawing.nodes[*to].0 - drawing.nodes[*from].0 + 1);
            }
        }
    }
}
