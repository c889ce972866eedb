//! What depends on what, with what became of it: a drawing, and for a batch that no drawing would make legible, its
//! levels.

use super::super::text;
use super::layers::{self, NODE_STEP};
use super::markup::{Hole, Markup};
use super::summary::{bar, count, in_words};
use super::{Report, Standing};

/// Beyond these a drawing is a tangle or a wall, and the levels say more: tasks that depend on something or that
/// something depends on, levels, and tasks of a level.
const MOST_NODES: usize = 200;
const MOST_LEVELS: usize = 24;
const MOST_ABREAST: usize = 40;

/// The size of a node and the distance between two layers, in pixels.
const NODE_WIDTH: usize = 176;
const NODE_HEIGHT: usize = 40;
const LAYER_STEP: usize = 232;

/// How many tasks a group of levels has at least, so that a chain of a thousand is no list of a thousand groups.
const SMALL_GROUP: usize = 25;

/// The whole section.
pub(super) fn graph(report: &Report) -> Markup {
    let mut page = Markup::new();
    let mut tied = vec![false; report.tasks.len()];
    for (at, task) in report.tasks.iter().enumerate() {
        for on in &task.depends_on {
            tied[at] = true;
            tied[*on] = true;
        }
    }
    let nodes: Vec<usize> = (0..tied.len()).filter(|at| tied[*at]).collect();
    if nodes.is_empty() {
        page.raw("<p class=\"note\">No task of this batch depends on another one of it.</p>");
        return page;
    }
    let depends_on = among(report, &nodes);
    let levels = layers::levels(&depends_on);
    let mut abreast = vec![0; levels.iter().max().map_or(0, |top| top + 1)];
    for level in &levels {
        abreast[*level] += 1;
    }
    let widest = abreast.iter().max().copied().unwrap_or(0);
    if nodes.len() <= MOST_NODES && abreast.len() <= MOST_LEVELS && widest <= MOST_ABREAST {
        draw(report, &nodes, &depends_on, &mut page);
    } else {
        list_levels(report, &nodes, &levels, &mut page);
    }
    let alone: Vec<usize> = (0..tied.len()).filter(|at| !tied[*at]).collect();
    if !alone.is_empty() {
        group(report, &alone, "no dependencies", &mut page);
    }
    page
}

/// What each of some tasks depends on, all by their place among these.
fn among(report: &Report, nodes: &[usize]) -> Vec<Vec<usize>> {
    let mut place = vec![None; report.tasks.len()];
    for (at, task) in nodes.iter().enumerate() {
        place[*task] = Some(at);
    }
    let of = |task: &usize| report.tasks[*task].depends_on.iter();
    nodes
        .iter()
        .map(|task| of(task).filter_map(|on| place[*on]).collect())
        .collect()
}

fn draw(report: &Report, nodes: &[usize], depends_on: &[Vec<usize>], page: &mut Markup) {
    let layout = layers::layout(depends_on);
    let width = (layout.layers - 1) * LAYER_STEP + NODE_WIDTH + 4;
    // Rounded up, with half a node above and below.
    let height = pixels(layout.height) + NODE_HEIGHT + 4;
    page.put(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Dependencies. The table of tasks says the \
         same.\"><svg class=\"graph\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\">",
        &[Hole::Int(width), Hole::Int(height), Hole::Int(width), Hole::Int(height)],
    );
    let middle = |y: f64| pixels(y) + NODE_HEIGHT / 2 + 2;
    for (from, to, passes) in &layout.edges {
        let mut x = layout.nodes[*from].0 * LAYER_STEP + NODE_WIDTH + 2;
        let mut y = middle(passes[0]);
        page.put(
            "<path class=\"edge\" data-a=\"{}\" data-b=\"{}\" d=\"M{} {}",
            &[
                Hole::Int(nodes[*from]),
                Hole::Int(nodes[*to]),
                Hole::Int(x),
                Hole::Int(y),
            ],
        );
        for (step, pass) in passes.iter().enumerate().skip(1) {
            let last = step + 1 == passes.len();
            // From the right side of one layer to the left side of the next, then straight through it.
            let next = (layout.nodes[*from].0 + step) * LAYER_STEP + 2;
            let bend = usize::midpoint(next, x);
            let below = middle(*pass);
            page.put(
                "C{} {} {} {} {} {}",
                &[
                    Hole::Int(bend),
                    Hole::Int(y),
                    Hole::Int(bend),
                    Hole::Int(below),
                    Hole::Int(if last { next - 5 } else { next }),
                    Hole::Int(below),
                ],
            );
            if !last {
                page.put("H{}", &[Hole::Int(next + NODE_WIDTH)]);
            }
            (x, y) = (next + NODE_WIDTH, below);
        }
        page.raw("\" marker-end=\"url(#arrow)\"/>");
    }
    for (at, (layer, y)) in layout.nodes.iter().enumerate() {
        node(
            report,
            nodes[at],
            layer * LAYER_STEP + 2,
            pixels(*y) + 2,
            page,
        );
    }
    page.raw("</svg></div>");
}

/// Whole pixels. Places are small and not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a drawing of at most 200 nodes is a few thousand pixels high, and begins at 0"
)]
const fn pixels(y: f64) -> usize {
    y.round() as usize
}

const _: () = assert!(
    NODE_STEP as usize > NODE_HEIGHT,
    "nodes of a layer do not touch"
);

fn node(report: &Report, at: usize, x: usize, y: usize, page: &mut Markup) {
    let task = &report.tasks[at];
    let standing = task.standing();
    page.put(
        "<a class=\"node\" href=\"#t-{}\" data-t=\"{}\"><title>{}: {}. {}</title><svg x=\"{}\" y=\"{}\" width=\"{}\" \
         height=\"{}\"><rect class=\"ground {}\" x=\"1\" y=\"1\" width=\"{}\" height=\"{}\" rx=\"6\"/>\
         <rect class=\"{}\" x=\"1\" y=\"6\" width=\"9\" height=\"{}\"/>\
         <text class=\"name\" x=\"16\" y=\"17\">{} {}</text><text x=\"16\" y=\"32\">{}</text></svg></a>",
        &[
            Hole::Int(at),
            Hole::Int(at),
            Hole::Text(task.label.as_str()),
            Hole::Word(task.word()),
            Hole::Text(&task.title),
            Hole::Int(x),
            Hole::Int(y),
            Hole::Int(NODE_WIDTH),
            Hole::Int(NODE_HEIGHT),
            Hole::Word(standing.class()),
            Hole::Int(NODE_WIDTH - 2),
            Hole::Int(NODE_HEIGHT - 2),
            Hole::Word(standing.class()),
            Hole::Int(NODE_HEIGHT - 12),
            Hole::Word(standing.sign()),
            Hole::Text(&text::shortened(&text::line(task.label.as_str()), 19)),
            Hole::Text(&text::shortened(&text::line(&task.title), 23)),
        ],
    );
}

/// The levels, several small ones together, each folded.
fn list_levels(report: &Report, nodes: &[usize], levels: &[usize], page: &mut Markup) {
    page.raw(
        "<p class=\"note\">This batch is too large for a drawing. A level holds the tasks whose longest chain of \
         dependencies is equally long; the table says what each depends on.</p>",
    );
    let mut by_level = vec![Vec::new(); levels.iter().max().map_or(0, |top| top + 1)];
    for (at, level) in levels.iter().enumerate() {
        by_level[*level].push(nodes[at]);
    }
    // Small levels that follow each other are one group.
    let mut first = 0;
    let mut together = Vec::new();
    for (level, tasks) in by_level.iter().enumerate() {
        together.extend_from_slice(tasks);
        let next = by_level.get(level + 1).map(Vec::len);
        if together.len() < SMALL_GROUP && next.is_some_and(|next| next < SMALL_GROUP) {
            continue;
        }
        let name = if first == level {
            format!("level {level}")
        } else {
            format!("levels {first} to {level}")
        };
        group(report, &together, &name, page);
        together.clear();
        first = level + 1;
    }
}

/// Some tasks, folded: how many stand where, and their labels, what is not done first.
fn group(report: &Report, tasks: &[usize], name: &str, page: &mut Markup) {
    let counts = count(report, tasks);
    page.put(
        "<details class=\"group\"><summary><b>{}</b> <span>{}</span>",
        &[Hole::Text(name), Hole::Text(&in_words(&counts))],
    );
    page.add(&bar(&counts, "bar"));
    page.raw("</summary><p class=\"chips\">");
    let mut sorted = tasks.to_vec();
    sorted.sort_by_key(|at| report.tasks[*at].standing() == Standing::Completed);
    for at in sorted {
        let task = &report.tasks[at];
        page.put(
            "<a class=\"chip {}\" href=\"#t-{}\" data-t=\"{}\" title=\"{}: {}\">{} {}</a> ",
            &[
                Hole::Word(task.standing().class()),
                Hole::Int(at),
                Hole::Int(at),
                Hole::Word(task.word()),
                Hole::Text(&task.title),
                Hole::Word(task.standing().sign()),
                Hole::Text(&text::shortened(&text::line(task.label.as_str()), 40)),
            ],
        );
    }
    page.raw("</p></details>");
}
