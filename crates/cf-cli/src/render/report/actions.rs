//! What reconciliation did, with its evidence; what was asked; and the settings.

use cf_conductor::store::blocker::Blocker;
use cf_conductor::store::event::Event;
use cf_core::{BlockerStatus, format_duration};
use serde_json::Value;

use super::super::batch::interval;
use super::super::time;
use super::Report;
use super::markup::{Hole, Markup, web_address};

/// The events by which a source acted.
pub(super) fn actions(report: &Report) -> Markup {
    let mut page = Markup::new();
    if report.actions.is_empty() {
        page.raw("<p class=\"note\">Nothing from outside changed this batch.</p>");
        return page;
    }
    page.raw(
        "<div class=\"wide\"><table><thead><tr><th>Time</th><th>Action</th><th>Task</th><th>Reason</th>\
         <th>Source</th><th>Phase</th><th>Evidence</th></tr></thead><tbody>",
    );
    for (at, event) in report.actions.iter().enumerate() {
        row(report, at, event, &mut page);
    }
    page.raw("</tbody></table></div>");
    page
}

fn row(report: &Report, at: usize, event: &Event, page: &mut Markup) {
    let word = |name| event.text(name).unwrap_or_default();
    page.put(
        "<tr id=\"a-{}\"><td class=\"time\">{}</td><td><b>{}</b></td>",
        &[
            Hole::Int(at),
            Hole::Text(&time::short(event.at)),
            Hole::Text(word("action")),
        ],
    );
    match report.task_of(event.task) {
        Some((at, task)) => page.put(
            "<td><a href=\"#t-{}\" data-t=\"{}\">{}</a></td>",
            &[
                Hole::Int(at),
                Hole::Int(at),
                Hole::Text(task.label.as_str()),
            ],
        ),
        None => page.raw("<td></td>"),
    };
    let (before, after) = (word("phase_before"), word("phase"));
    let arrow = if before.is_empty() || after.is_empty() {
        ""
    } else {
        " → "
    };
    page.put(
        "<td>{}</td><td>{}</td><td>{}{}{}</td><td class=\"evidence\">",
        &[
            Hole::Text(word("reason")),
            Hole::Text(event.text("source").unwrap_or("local")),
            Hole::Text(before),
            Hole::Word(arrow),
            Hole::Text(after),
        ],
    );
    if let Some(Value::Object(evidence)) = event.data.get("evidence") {
        for (name, value) in evidence
            .iter()
            .filter(|(name, value)| *name != "kind" && !value.is_null())
        {
            fact(name, value, page);
        }
    }
    page.raw("</td></tr>");
}

/// A detail of the evidence; an address as a link.
fn fact(name: &str, value: &Value, page: &mut Markup) {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    page.put("<span><i>{}</i> ", &[Hole::Text(&name.replace('_', " "))]);
    match web_address(&text) {
        Some(address) => page.put(
            "<a href=\"{}\" rel=\"noreferrer noopener\">{}</a>",
            &[Hole::Text(&address), Hole::Text(&address)],
        ),
        None => page.put("{}", &[Hole::Text(&text)]),
    };
    page.raw("</span> ");
}

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

/// What the batch ran with.
pub(super) fn settings(report: &Report) -> Markup {
    let settings = &report.batch.settings;
    let limit = |limit: Option<std::time::Duration>| {
        limit.map_or_else(|| "none".to_owned(), format_duration)
    };
    let facts = [
        ("batch", report.batch.id.to_string()),
        ("started", time::short(report.batch.started_at)),
        (
            "ended",
            report
                .batch
                .ended_at
                .map_or_else(|| "not yet".to_owned(), time::short),
        ),
        (
            "exit code",
            report
                .batch
                .exit_code
                .map_or_else(|| "none yet".to_owned(), |code| code.to_string()),
        ),
        ("strategy", settings.strategy.to_string()),
        ("at a time", settings.slots().to_string()),
        (
            "engine",
            settings
                .engine
                .clone()
                .unwrap_or_else(|| "each task's own".to_owned()),
        ),
        ("isolation", settings.isolation.to_string()),
        ("on failure", settings.on_failure.to_string()),
        ("retry", settings.retry.to_string()),
        ("timeout", limit(settings.timeout)),
        ("stall timeout", limit(settings.stall_timeout)),
        ("reconcile", interval(settings.reconcile_interval)),
        ("report made", time::short(report.made_at)),
    ];
    let mut page = Markup::new();
    page.raw("<dl class=\"settings\">");
    for (name, value) in facts {
        page.put(
            "<div><dt>{}</dt><dd>{}</dd></div>",
            &[Hole::Word(name), Hole::Text(&value)],
        );
    }
    page.raw("</dl>");
    page
}
