//! What reconciliation did, with its evidence.

use cf_conductor::store::event::Event;
use serde_json::Value;

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
