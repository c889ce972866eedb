//! The timeline: a row for each slot with its attempts, and rows above for what acted on the batch.
//!
//! Places are shares of the width, so that the browser stretches it to any window and any magnification; what would
//! only fit when magnified carries a class that says so.

use std::fmt::Write as _;

use cf_conductor::store::event::Event;
use cf_core::{EventType, Timestamp};

use super::super::time;
use super::markup::{Hole, Markup};
use super::scale::Scale;
use super::{AttemptEntry, Became, Report};

/// The height of a row, the space below it, and the height of the marks, in pixels.
const ROW: usize = 24;
const GAP: usize = 6;
const AXIS: usize = 22;

/// The width of the timeline in a usual window, in pixels: what decides which labels fit.
const USUAL_WIDTH: f64 = 1_000.0;

/// How wide a letter of a label is, and the room for its sign; of a long label so many letters are enough.
const LETTER_WIDTH: f64 = 6.5;
const SIGN_WIDTH: f64 = 22.0;
const LETTERS_ENOUGH: usize = 10;

/// Beyond this, in per cent, a mark has no room for its time.
const LAST_TIME: f64 = 93.0;

/// Events nearer to each other than this, in per cent, are one sign with a number.
const NEAR: f64 = 1.2;

/// How many events of one sign its title names.
const MOST_NAMED: usize = 8;

/// The actions in the order in which their rows stand, and what their rows are called.
const ACTIONS: [(&str, &str); 5] = [
    ("FAIL", "failed"),
    ("SKIP", "skipped"),
    ("KILL", "killed"),
    ("REQUEUE", "requeued"),
    ("LOG_CONTEXT", "new context"),
];

/// A row of events.
struct Row<'r> {
    name: &'static str,
    events: Vec<Told<'r>>,
}

/// An event, with its place among all of its kind where there is a table of them to link to.
type Told<'r> = (Option<usize>, &'r Event);

/// The whole section.
pub(super) fn timeline(report: &Report) -> Markup {
    let mut page = Markup::new();
    if report.attempts.is_empty() && report.actions.is_empty() {
        page.raw("<p class=\"note\">No agent was started, and nothing acted on the batch.</p>");
        return page;
    }
    let scale = scale(report);
    let rows = rows(report);
    let height = (rows.len() + report.slots) * (ROW + GAP) + AXIS;
    page.raw(
        "<div class=\"zoom\"><span>Width</span>\
         <input type=\"radio\" name=\"zoom\" id=\"z1\" checked><label for=\"z1\">1×</label>\
         <input type=\"radio\" name=\"zoom\" id=\"z4\"><label for=\"z4\">4×</label>\
         <input type=\"radio\" name=\"zoom\" id=\"z16\"><label for=\"z16\">16×</label>",
    );
    legend(report, &mut page);
    page.raw("<div class=\"chart\">");
    names(report, &rows, height, &mut page);
    page.put(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Timeline. Arrow keys go from attempt to \
         attempt, Enter to its task.\"><svg class=\"timeline\" height=\"{}\">",
        &[Hole::Int(height)],
    );
    axis(&scale, height, &mut page);
    for (at, row) in rows.iter().enumerate() {
        signs(report, &scale, row, at * (ROW + GAP), &mut page);
    }
    let mut lanes: Vec<Vec<&AttemptEntry>> = vec![Vec::new(); report.slots];
    for attempt in &report.attempts {
        lanes[attempt.slot].push(attempt);
    }
    for (slot, lane) in lanes.into_iter().enumerate() {
        page.raw("<g class=\"lane\">");
        let y = (rows.len() + slot) * (ROW + GAP);
        for attempt in lane {
            bar(report, &scale, attempt, y, &mut page);
        }
        page.raw("</g>");
    }
    page.raw("</svg></div></div><p id=\"told\" class=\"note\" aria-live=\"polite\">Times are UTC.</p></div>");
    page
}

fn scale(report: &Report) -> Scale {
    let attempts = report
        .attempts
        .iter()
        .map(|attempt| (attempt.stored.started_at, report.end_of(attempt)));
    let events = report.actions.iter().chain(&report.events);
    let moments = events.map(|event| (event.at, event.at));
    let ends = [Some(report.batch.started_at), report.batch.ended_at];
    let ends = ends.into_iter().flatten().map(|at| (at, at));
    Scale::new(attempts.chain(moments).chain(ends))
}

/// The rows of events that are not empty.
fn rows(report: &Report) -> Vec<Row<'_>> {
    let told = |event: &&Event| !matches!(told_of(event), None | Some(""));
    let batch: Vec<_> = report
        .events
        .iter()
        .filter(told)
        .map(|event| (None, event))
        .collect();
    let mut rows = vec![Row {
        name: "batch",
        events: batch,
    }];
    for (action, name) in ACTIONS {
        let of = report.actions.iter().enumerate();
        let of = of.filter(|(_, event)| event.text("action") == Some(action));
        rows.push(Row {
            name,
            events: of.map(|(at, event)| (Some(at), event)).collect(),
        });
    }
    rows.retain(|row| !row.events.is_empty());
    rows
}

/// What an event about the whole batch means to somebody who looks at the timeline, if anything.
fn told_of(event: &Event) -> Option<&'static str> {
    Some(match event.kind.known()? {
        EventType::BatchResumed => "the batch was resumed",
        EventType::BatchStopRequested => "a stop was asked for",
        EventType::SourceUnavailable => "a source could not be read",
        EventType::SourceAvailable => "a source answers again",
        EventType::SourceNotice => "a source says",
        _ => return None,
    })
}

/// What the patterns mean: those that occur.
fn legend(report: &Report, page: &mut Markup) {
    page.raw("<ul class=\"legend\">");
    for became in Became::ALL {
        if report
            .attempts
            .iter()
            .any(|attempt| attempt.became == became)
        {
            page.put(
                "<li><svg width=\"26\" height=\"14\"><rect class=\"{}\" x=\"1\" y=\"1\" width=\"24\" height=\"12\" \
                 rx=\"2\"/></svg> {} {}</li>",
                &[
                    Hole::Word(became.class()),
                    Hole::Word(became.sign()),
                    Hole::Word(became.word()),
                ],
            );
        }
    }
    page.raw("</ul>");
}

/// The names of the rows, which stay where they are when the timeline is scrolled.
fn names(report: &Report, rows: &[Row<'_>], height: usize, page: &mut Markup) {
    page.put(
        "<svg class=\"names\" width=\"96\" height=\"{}\" aria-hidden=\"true\">",
        &[Hole::Int(height)],
    );
    for (at, row) in rows.iter().enumerate() {
        page.put(
            "<text x=\"88\" y=\"{}\">{}</text>",
            &[Hole::Int(at * (ROW + GAP) + 16), Hole::Word(row.name)],
        );
    }
    for slot in 0..report.slots {
        page.put(
            "<text x=\"88\" y=\"{}\">slot {}</text>",
            &[
                Hole::Int((rows.len() + slot) * (ROW + GAP) + 16),
                Hole::Int(slot + 1),
            ],
        );
    }
    page.raw("</svg>");
}

fn axis(scale: &Scale, height: usize, page: &mut Markup) {
    let bottom = height - AXIS;
    for mark in scale.marks() {
        page.put(
            "<g class=\"mark {}\"><line x1=\"{}%\" x2=\"{}%\" y2=\"{}\"/>",
            &[
                Hole::Word(zoom_class(mark.zoom)),
                Hole::Share(mark.at),
                Hole::Share(mark.at),
                Hole::Int(bottom),
            ],
        );
        if mark.at < LAST_TIME {
            page.put(
                "<text x=\"{}%\" y=\"{}\">{}</text>",
                &[
                    Hole::Share(mark.at),
                    Hole::Int(bottom + 15),
                    Hole::Text(&mark.text),
                ],
            );
        }
        page.raw("</g>");
    }
    for (from, to, long) in scale.breaks() {
        page.put(
            "<rect class=\"break\" x=\"{}%\" width=\"{}%\" height=\"{}\"><title>nothing happened for {}</title></rect>",
            &[
                Hole::Share(from),
                Hole::Share(to - from),
                Hole::Int(bottom),
                Hole::Text(&time::elapsed(long)),
            ],
        );
    }
}

const fn zoom_class(zoom: u8) -> &'static str {
    match zoom {
        1 => "z1",
        4 => "z4",
        _ => "z16",
    }
}

/// The events of a row. Those that would cover each other are one sign, which says how many.
fn signs(report: &Report, scale: &Scale, row: &Row<'_>, y: usize, page: &mut Markup) {
    let mut groups: Vec<(f64, Vec<Told<'_>>)> = Vec::new();
    for (at, event) in &row.events {
        let place = scale.at(event.at);
        match groups.last_mut() {
            Some((first, list)) if place - *first < NEAR => list.push((*at, event)),
            _ => groups.push((place, vec![(*at, *event)])),
        }
    }
    page.raw("<g class=\"lane\">");
    for (place, group) in &groups {
        let mut title = String::new();
        for (_, event) in group.iter().take(MOST_NAMED) {
            title.push_str(&sentence(report, event));
            title.push('\n');
        }
        if group.len() > MOST_NAMED {
            let _ = write!(title, "and {} more", group.len() - MOST_NAMED);
        }
        match group[0].0 {
            Some(first) => page.put(
                "<a class=\"sign\" href=\"#a-{}\" tabindex=\"-1\">",
                &[Hole::Int(first)],
            ),
            None => page.raw("<a class=\"sign\" tabindex=\"-1\">"),
        };
        page.put(
            "<title>{}</title><svg x=\"{}%\" y=\"{}\" overflow=\"visible\"><path d=\"M0 1 7 11 0 21-7 11z\"/>",
            &[Hole::Lines(title.trim_end()), Hole::Share(*place), Hole::Int(y + 1)],
        );
        if group.len() > 1 {
            page.put(
                "<text x=\"10\" y=\"15\">{}</text>",
                &[Hole::Int(group.len())],
            );
        }
        page.raw("</svg></a>");
    }
    page.raw("</g>");
}

/// `12:03:04Z parser: issue closed (github)`.
fn sentence(report: &Report, event: &Event) -> String {
    let about = match (report.task_of(event.task), told_of(event)) {
        (Some((_, task)), _) => task.label.to_string(),
        (None, Some(told)) => told.to_owned(),
        (None, None) => String::new(),
    };
    let said = event
        .text("reason")
        .or_else(|| event.text("text"))
        .unwrap_or_default();
    let mut sentence = format!("{} {about}", clock(event.at));
    if !said.is_empty() {
        sentence.push_str(": ");
        sentence.push_str(said);
    }
    if let Some(source) = event.text("source") {
        let _ = write!(sentence, " ({source})");
    }
    sentence
}

fn clock(at: Timestamp) -> String {
    at.strftime("%H:%M:%SZ").to_string()
}

/// An attempt: a box in the pattern of what became of it, and its task's label where that fits.
fn bar(report: &Report, scale: &Scale, attempt: &AttemptEntry, y: usize, page: &mut Markup) {
    let (from, to) = (
        scale.at(attempt.stored.started_at),
        scale.at(report.end_of(attempt)),
    );
    let task = &report.tasks[attempt.task];
    let said = attempt.stored.reason.as_deref().unwrap_or_default();
    let title = format!(
        "{}, attempt {}: {}, {}, from {}{}{said}",
        task.label,
        attempt.stored.generation,
        attempt.became.word(),
        time::elapsed(report.long(attempt)),
        clock(attempt.stored.started_at),
        if said.is_empty() { "" } else { "; " },
    );
    page.put(
        "<a class=\"bar\" href=\"#t-{}\" data-t=\"{}\" tabindex=\"-1\"><title>{}</title>\
         <rect class=\"{}\" x=\"{}%\" y=\"{}\" width=\"{}%\" height=\"{}\" rx=\"3\"/>",
        &[
            Hole::Int(attempt.task),
            Hole::Int(attempt.task),
            Hole::Text(&title),
            Hole::Word(attempt.became.class()),
            Hole::Share(from),
            Hole::Int(y),
            Hole::Share(to - from),
            Hole::Int(ROW),
        ],
    );
    let wide = (to - from) / 100.0 * USUAL_WIDTH;
    let letters = task.label.as_str().chars().count().min(LETTERS_ENOUGH);
    let needed = LETTER_WIDTH.mul_add(letters as f64, SIGN_WIDTH);
    if let Some(zoom) = [1u8, 4, 16]
        .into_iter()
        .find(|zoom| wide * f64::from(*zoom) >= needed)
    {
        page.put(
            "<svg class=\"{}\" x=\"{}%\" y=\"{}\" width=\"{}%\" height=\"{}\"><text x=\"5\" y=\"16\">{} {}</text></svg>",
            &[
                Hole::Word(zoom_class(zoom)),
                Hole::Share(from),
                Hole::Int(y),
                Hole::Share(to - from),
                Hole::Int(ROW),
                Hole::Word(attempt.became.sign()),
                Hole::Text(task.label.as_str()),
            ],
        );
    }
    page.raw("</a>");
}
