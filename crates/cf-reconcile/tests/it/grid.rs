//! Prints a function over a small finite space as a table in which equal parts stand together.

use std::fmt::Write as _;

/// One input of the function: its name and all its values in words.
pub(crate) struct Axis {
    name: &'static str,
    values: Vec<String>,
}

impl Axis {
    pub(crate) fn new<T: ToString>(
        name: &'static str,
        values: impl IntoIterator<Item = T>,
    ) -> Self {
        Self {
            name,
            values: values.into_iter().map(|v| v.to_string()).collect(),
        }
    }
}

/// A line of the table: the values of each axis that it covers, and what the function says there.
#[derive(Clone, PartialEq, Eq)]
struct Line {
    inputs: Vec<String>,
    results: Vec<String>,
    cells: usize,
}

/// The table of `function`, which is given one index per axis, as Markdown with one column per axis and result.
///
/// Values of an axis for which the rest of the table is the same share their lines; all of them together are `any`. The
/// last column says how many cells of the space a line covers, and the lines cover each cell exactly once.
pub(crate) fn table(
    axes: &[Axis],
    results: &[&str],
    function: impl Fn(&[usize]) -> Vec<String>,
) -> String {
    let lines = split(axes, &mut Vec::new(), &function);
    let space: usize = axes.iter().map(|axis| axis.values.len()).product();
    assert_eq!(lines.iter().map(|line| line.cells).sum::<usize>(), space);
    let names = axes.iter().map(|axis| axis.name);
    let head: Vec<String> = names
        .chain(results.iter().copied())
        .chain(["cells"])
        .map(str::to_owned)
        .collect();
    let mut text = row(&head);
    text.push_str(&row(&vec!["---".to_owned(); head.len()]));
    for line in &lines {
        let mut cells = line.inputs.clone();
        cells.extend(line.results.iter().cloned());
        cells.push(line.cells.to_string());
        text.push_str(&row(&cells));
    }
    let _ = writeln!(text, "\n{} lines for {space} cells.", lines.len());
    text
}

/// One line of a Markdown table.
pub(crate) fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn split(
    axes: &[Axis],
    at: &mut Vec<usize>,
    function: &impl Fn(&[usize]) -> Vec<String>,
) -> Vec<Line> {
    let Some(axis) = axes.get(at.len()) else {
        return vec![Line {
            inputs: Vec::new(),
            results: function(at),
            cells: 1,
        }];
    };
    let mut groups: Vec<(Vec<usize>, Vec<Line>)> = Vec::new();
    for value in 0..axis.values.len() {
        at.push(value);
        let rest = split(axes, at, function);
        at.pop();
        match groups.iter_mut().find(|(_, same)| *same == rest) {
            Some((values, _)) => values.push(value),
            None => groups.push((vec![value], rest)),
        }
    }
    groups
        .into_iter()
        .flat_map(|(values, rest)| {
            let label = if values.len() == axis.values.len() {
                "any".to_owned()
            } else {
                let words: Vec<&str> = values.iter().map(|v| axis.values[*v].as_str()).collect();
                words.join(", ")
            };
            let times = values.len();
            rest.into_iter().map(move |mut line| {
                line.inputs.insert(0, label.clone());
                line.cells *= times;
                line
            })
        })
        .collect()
}
