//! What the batch ran with.

use cf_core::format_duration;

use super::super::batch::interval;
use super::super::time;
use super::Report;
use super::markup::{Hole, Markup};

/// The whole section.
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
