//! What was asked about the batch's tasks, and what was answered.

use cf_conductor::store::blocker::Blocker;
use cf_core::BlockerStatus;

use super::super::time;
use super::Report;
use super::markup::{Hole, Markup};

/// The questions about the batch's tasks; nothing when there are none.
pub(super) fn questions(report: &Report) -> Option<Markup> {
    if report.questions.is_empty() {
        return None;
    }
    let mut page = Markup::new();
    page.raw("<ul class=\"questions\">");
    for question in &report.questions {
        one_question(report, question, &mut page);
    }
    page.raw("</ul>");
    Some(page)
}

fn one_question(report: &Report, question: &Blocker, page: &mut Markup) {
    let (sign, class) = match question.status {
        BlockerStatus::Open => ("?", "blocked"),
        BlockerStatus::Answered | BlockerStatus::Resolved => ("✓", "completed"),
    };
    page.put(
        "<li><span class=\"chip {}\">{} {}</span> ",
        &[
            Hole::Word(class),
            Hole::Word(sign),
            Hole::Word(question.status.as_str()),
        ],
    );
    if let Some((at, task)) = report.task_of(question.task) {
        page.put(
            "<a href=\"#t-{}\">{}</a> ",
            &[Hole::Int(at), Hole::Text(task.label.as_str())],
        );
    }
    page.put(
        "<span class=\"note\">asked by {} at {}</span><p class=\"said\">{}</p>",
        &[
            Hole::Word(question.asked_by.as_str()),
            Hole::Text(&time::short(question.asked_at)),
            Hole::Lines(&question.question),
        ],
    );
    if let Some(answer) = &question.answer {
        page.put("<p class=\"said answer\">{}</p>", &[Hole::Lines(answer)]);
    }
    page.raw("</li>");
}
