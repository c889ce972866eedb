//! The head of the page: how the batch ended, in numbers and as one bar.

use super::super::{time, usage};
use super::markup::{Hole, Markup};
use super::{Report, Standing};

/// The numbers, and the bar.
pub(super) fn summary(report: &Report) -> Markup {
    let mut page = Markup::new();
    page.raw("<dl class=\"numbers\">");
    let mut number = |name: &'static str, value: &str| {
        page.put(
            "<div><dt>{}</dt><dd>{}</dd></div>",
            &[Hole::Word(name), Hole::Text(value)],
        );
    };
    number("tasks", &report.tasks.len().to_string());
    number("took", &time::elapsed(report.took()));
    number("work of agents", &time::elapsed(report.worked()));
    number("at once, on average", &format!("{:.1}", report.at_once()));
    number("attempts", &report.attempts.len().to_string());
    number("retries", &report.retries().to_string());
    let (tokens, cost) = report.used(0..report.attempts.len());
    if let Some(used) = usage::words(tokens, cost) {
        number("used", &used);
    }
    number("reconciled", &report.actions.len().to_string());
    page.raw("</dl>");
    page.add(&bar(&counted(report), "outcomes"));
    page
}

/// How many tasks stand where; what nobody stands at is left out.
pub(super) fn counted(report: &Report) -> Vec<(Standing, usize)> {
    let all: Vec<usize> = (0..report.tasks.len()).collect();
    count(report, &all)
}

/// The same of some tasks, given by place.
pub(super) fn count(report: &Report, tasks: &[usize]) -> Vec<(Standing, usize)> {
    let count = |standing: Standing| {
        let there = |at: &&usize| report.tasks[**at].standing() == standing;
        (standing, tasks.iter().filter(there).count())
    };
    let counts = Standing::ALL.into_iter().map(count);
    counts.filter(|(_, n)| *n > 0).collect()
}

/// `3 completed, 1 failed`.
pub(super) fn in_words(counts: &[(Standing, usize)]) -> String {
    let words: Vec<String> = counts
        .iter()
        .map(|(standing, n)| format!("{n} {}", standing.class()))
        .collect();
    if words.is_empty() {
        "no tasks".to_owned()
    } else {
        words.join(", ")
    }
}

/// Parts of a whole as one bar, each with its pattern.
pub(super) fn bar(counts: &[(Standing, usize)], class: &'static str) -> Markup {
    let mut bar = Markup::new();
    let total: usize = counts.iter().map(|(_, n)| n).sum();
    bar.put(
        "<svg class=\"{}\" role=\"img\" aria-label=\"{}\">",
        &[Hole::Word(class), Hole::Text(&in_words(counts))],
    );
    let mut before = 0;
    for (standing, n) in counts {
        let share = |n: usize| 100.0 * n as f64 / total.max(1) as f64;
        bar.put(
            "<rect class=\"{}\" x=\"{}%\" width=\"{}%\" height=\"100%\"><title>{} {}</title></rect>",
            &[
                Hole::Word(standing.class()),
                Hole::Share(share(before)),
                Hole::Share(share(*n)),
                Hole::Int(*n),
                Hole::Word(standing.class()),
            ],
        );
        before += n;
    }
    bar.raw("</svg>");
    bar
}
