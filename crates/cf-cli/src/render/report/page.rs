//! The page: one file that needs nothing else, and asks nobody for anything.
//!
//! Its policy lets a browser load nothing, and run and apply only the style and the script below, which are named by
//! their hashes; nothing that was read at run time stands in either.

use super::super::text;
use super::markup::{Hole, Markup};
use super::summary::{counted, summary};
use super::{Report, actions, graph, questions, settings, tasks, timeline};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// SHA-256 of each, as the policy writes it; a test ties them to the files.
const STYLE_HASH: &str = "sha256-wMtcnDFoDCkoQxULWMrpXIQQeOsc+e+LjZtgoReRS1g=";
const SCRIPT_HASH: &str = "sha256-EZcE+HCSIcQB7/nvP+TiL5i88ZrFOjmN5AcocFBNbLs=";

/// The report as a page.
pub(crate) fn page(report: &Report) -> String {
    let batch = &report.batch;
    let short = batch.id.short();
    let mut page = Markup::new();
    page.put(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}'; script-src '{}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta name=\"generator\" content=\"cf\">\n<title>batch {} {} in {}</title>\n<style>",
        &[
            Hole::Word(STYLE_HASH),
            Hole::Word(SCRIPT_HASH),
            Hole::Text(&short),
            Hole::Word(batch.status.as_str()),
            Hole::Text(&report.place),
        ],
    );
    page.raw(STYLE);
    page.raw("</style></head>\n<body>");
    page.raw(PATTERNS);
    page.put(
        "<header><p class=\"place\">{}</p><h1>Batch {} <span class=\"chip big {}\">{}</span></h1>",
        &[
            Hole::Text(&text::shortened(&text::line(&report.place), 80)),
            Hole::Text(&short),
            Hole::Word(look(report)),
            Hole::Word(batch.status.as_str()),
        ],
    );
    page.add(&summary(report));
    page.raw("</header>\n");
    filter(report, &mut page);
    page.raw("<main>");
    section(
        "timeline",
        "Timeline",
        &timeline::timeline(report),
        &mut page,
    );
    section(
        "dependencies",
        "Dependencies",
        &graph::graph(report),
        &mut page,
    );
    section(
        "reconciliation",
        "Reconciliation",
        &actions::actions(report),
        &mut page,
    );
    if let Some(questions) = questions::questions(report) {
        section("questions", "Questions", &questions, &mut page);
    }
    section("all-tasks", "Tasks", &tasks::tasks(report), &mut page);
    section(
        "settings",
        "Settings",
        &settings::settings(report),
        &mut page,
    );
    page.raw("</main>\n<script>");
    page.raw(SCRIPT);
    page.raw("</script></body></html>\n");
    page.into_string()
}

fn section(id: &'static str, name: &'static str, content: &Markup, page: &mut Markup) {
    page.put(
        "<section id=\"{}\" aria-labelledby=\"{}-h\"><h2 id=\"{}-h\">{}</h2>",
        &[
            Hole::Word(id),
            Hole::Word(id),
            Hole::Word(id),
            Hole::Word(name),
        ],
    );
    page.add(content);
    page.raw("</section>\n");
}

/// The class of the batch's status.
const fn look(report: &Report) -> &'static str {
    use cf_core::BatchStatus;
    match report.batch.status {
        BatchStatus::Completed => "completed",
        BatchStatus::Failed => "failed",
        BatchStatus::Partial => "blocked",
        BatchStatus::Cancelled => "cancelled",
        BatchStatus::Pending | BatchStatus::Running => "running",
    }
}

/// What narrows the page down. Without its script the page is whole, and this is not there.
fn filter(report: &Report, page: &mut Markup) {
    page.raw(
        "<form id=\"filter\" hidden><nav aria-label=\"Sections\"><a href=\"#timeline\">Timeline</a> \
         <a href=\"#dependencies\">Dependencies</a> <a href=\"#reconciliation\">Reconciliation</a> \
         <a href=\"#all-tasks\">Tasks</a></nav><fieldset><legend>Show only</legend>",
    );
    for (standing, n) in counted(report) {
        page.put(
            "<label class=\"chip {}\"><input type=\"checkbox\" name=\"show\" value=\"{}\"> {} {} {}</label> ",
            &[
                Hole::Word(standing.class()),
                Hole::Word(standing.class()),
                Hole::Word(standing.sign()),
                Hole::Int(n),
                Hole::Word(standing.class()),
            ],
        );
    }
    page.raw(
        "</fieldset><label class=\"find\">Find <input type=\"search\" name=\"find\" autocomplete=\"off\" \
         placeholder=\"text, or /\"></label><output id=\"count\" aria-live=\"polite\"></output></form>\n",
    );
}

/// The patterns by which attempts and outcomes differ without colour, and the tip of an arrow.
const PATTERNS: &str = "<svg class=\"patterns\" aria-hidden=\"true\"><defs>\
    <pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
    <rect class=\"ground failed\" width=\"7\" height=\"7\"/>\
    <rect class=\"stroke failed\" width=\"2\" height=\"7\"/></pattern>\
    <pattern id=\"dots\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\">\
    <rect class=\"ground blocked\" width=\"7\" height=\"7\"/>\
    <circle class=\"stroke blocked\" cx=\"2\" cy=\"2\" r=\"1.3\"/></pattern>\
    <pattern id=\"stripes\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
    <rect class=\"ground cancelled\" width=\"5\" height=\"5\"/>\
    <rect class=\"stroke cancelled\" width=\"1\" height=\"5\"/></pattern>\
    <pattern id=\"rules\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\">\
    <rect class=\"ground skipped\" width=\"5\" height=\"5\"/>\
    <rect class=\"stroke skipped\" width=\"5\" height=\"1\"/></pattern>\
    <marker id=\"arrow\" viewBox=\"0 0 6 6\" refX=\"1\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">\
    <path d=\"M0 0 6 3 0 6z\"/></marker></defs></svg>";

#[cfg(test)]
mod tests {
    use super::*;

    /// SHA-256 from the library that the tests speak TLS with.
    fn sha256(text: &str) -> String {
        let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
        let hash = suite
            .tls13()
            .expect("a suite of TLS 1.3")
            .common
            .hash_provider
            .hash(text.as_bytes());
        format!("sha256-{}", base64(hash.as_ref()))
    }

    fn base64(bytes: &[u8]) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::new();
        for three in bytes.chunks(3) {
            let word = (0..3).fold(0u32, |word, at| {
                word << 8 | u32::from(three.get(at).copied().unwrap_or(0))
            });
            for at in 0..4 {
                let letter = LETTERS[(word >> (18 - 6 * at) & 63) as usize];
                text.push(if at <= three.len() {
                    letter as char
                } else {
                    '='
                });
            }
        }
        text
    }

    #[test]
    fn the_policy_names_the_style_and_the_script() {
        assert_eq!(STYLE_HASH, sha256(STYLE), "the style sheet has changed");
        assert_eq!(SCRIPT_HASH, sha256(SCRIPT), "the script has changed");
    }

    #[test]
    fn neither_can_end_its_element_or_load_anything() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("</") && !text.contains("<!--"));
            assert!(!text.contains("//") && !text.contains("@import") && !text.contains("fetch"));
        }
    }
}
