//! The table of tasks, which says everything that the drawings say.

use super::super::{time, usage};
use super::markup::{Hole, Markup};
use super::{Report, TaskEntry};

/// How many dependencies stand in a row; the others are folded.
const MOST_SHOWN: usize = 6;

/// The whole section.
pub(super) fn tasks(report: &Report) -> Markup {
    let mut page = Markup::new();
    let has_usage = report.used(0..report.attempts.len()) != (None, None);
    page.put(
        "<div class=\"wide\"><table id=\"tasks\"><thead><tr><th>Task</th><th>State</th><th>Reason</th>\
         <th>Attempts</th>{}<th>Work</th><th>Started</th><th>Depends on</th></tr></thead><tbody>",
        &[Hole::Word(if has_usage { "<th>Used</th>" } else { "" })],
    );
    for (at, task) in report.tasks.iter().enumerate() {
        row(report, at, task, has_usage, &mut page);
    }
    page.raw("</tbody></table></div>");
    page
}

fn row(report: &Report, at: usize, task: &TaskEntry, has_usage: bool, page: &mut Markup) {
    let standing = task.standing();
    page.put(
        "<tr id=\"t-{}\" data-t=\"{}\" data-s=\"{}\"><td><b>{}</b><span class=\"title\">{}</span></td>\
         <td data-v=\"{}\"><span class=\"chip {}\">{} {}</span></td><td class=\"reason\">{}</td>",
        &[
            Hole::Int(at),
            Hole::Int(at),
            Hole::Word(standing.class()),
            Hole::Text(task.label.as_str()),
            Hole::Text(&task.title),
            Hole::Word(task.word()),
            Hole::Word(standing.class()),
            Hole::Word(standing.sign()),
            Hole::Word(task.word()),
            Hole::Text(&task.reason),
        ],
    );
    page.put("<td data-v=\"{}\">", &[Hole::Int(task.attempts.len())]);
    attempts(report, task, page);
    page.raw("</td>");
    if has_usage {
        let (tokens, cost) = report.used(task.attempts.iter().copied());
        page.put(
            "<td class=\"number\" data-v=\"{}\">{}</td>",
            &[
                Hole::Text(&tokens.unwrap_or_default().to_string()),
                Hole::Text(&usage::words(tokens, cost).unwrap_or_default()),
            ],
        );
    }
    if let Some(first) = task.attempts.first() {
        let after = time::between(
            report.batch.started_at,
            report.attempts[*first].stored.started_at,
        );
        let worked = report.worked_on(task);
        page.put(
            "<td class=\"number\" data-v=\"{}\">{}</td><td class=\"number\" data-v=\"{}\">+{}</td><td>",
            &[
                Hole::Text(&time::millis(worked).to_string()),
                Hole::Text(&time::elapsed(worked)),
                Hole::Text(&time::millis(after).to_string()),
                Hole::Text(&time::elapsed(after)),
            ],
        );
    } else {
        page.raw(
            "<td class=\"number\" data-v=\"-1\"></td><td class=\"number\" data-v=\"-1\"></td><td>",
        );
    }
    dependencies(report, task, page);
    page.raw("</td></tr>");
}

/// How many attempts there were, which unfolds to what became of each.
fn attempts(report: &Report, task: &TaskEntry, page: &mut Markup) {
    if task.attempts.is_empty() {
        page.raw("–");
        return;
    }
    let class = if task.attempts.len() > 1 { "print" } else { "" };
    page.put("<details class=\"{}\"><summary>", &[Hole::Word(class)]);
    for at in &task.attempts {
        page.raw(report.attempts[*at].became.sign());
    }
    page.put(" {}</summary><ul>", &[Hole::Int(task.attempts.len())]);
    for at in &task.attempts {
        let attempt = &report.attempts[*at];
        page.put(
            "<li>{} {}: {}, {}, slot {}, {} from +{}",
            &[
                Hole::Word(attempt.became.sign()),
                Hole::Text(&attempt.stored.generation.to_string()),
                Hole::Word(attempt.became.word()),
                Hole::Text(&attempt.stored.engine),
                Hole::Int(attempt.slot + 1),
                Hole::Text(&time::elapsed(report.long(attempt))),
                Hole::Text(&time::elapsed(time::between(
                    report.batch.started_at,
                    attempt.stored.started_at,
                ))),
            ],
        );
        if let Some(reason) = &attempt.stored.reason {
            page.put("<br>{}", &[Hole::Text(reason)]);
        }
        page.raw("</li>");
    }
    page.raw("</ul></details>");
}

fn dependencies(report: &Report, task: &TaskEntry, page: &mut Markup) {
    let link = |at: &usize, page: &mut Markup| {
        let label = report.tasks[*at].label.as_str();
        page.put(
            "<a href=\"#t-{}\">{}</a> ",
            &[Hole::Int(*at), Hole::Text(label)],
        );
    };
    let (shown, folded) = task
        .depends_on
        .split_at(task.depends_on.len().min(MOST_SHOWN));
    for at in shown {
        link(at, page);
    }
    if !folded.is_empty() {
        page.put(
            "<details><summary>{} more</summary>",
            &[Hole::Int(folded.len())],
        );
        for at in folded {
            link(at, page);
        }
        page.raw("</details>");
    }
    if task.depends_outside > 0 {
        page.put(
            "<span class=\"note\">{} outside the batch</span>",
            &[Hole::Int(task.depends_outside)],
        );
    }
}
