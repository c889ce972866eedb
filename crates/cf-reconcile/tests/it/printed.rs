//! The complete decision tables as a page for people, compared with the one in the documentation.

mod consequences;
mod observations;

use std::fmt::{Debug, Write as _};
use std::path::Path;

use cf_reconcile::Stored;

use consequences::{
    after_stop, dependencies, dependency, effects, final_statuses, merges, retried, retries,
    standings,
};
use observations::{local, one_link, two_links};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/decision-table.md");

#[test]
fn the_printed_tables_are_those_of_the_code() {
    let printed = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PAGE, &printed).unwrap();
    }
    let stored = std::fs::read_to_string(Path::new(PAGE)).unwrap_or_default();
    let difference = stored.lines().zip(printed.lines()).find(|(a, b)| a != b);
    assert!(
        stored == printed,
        "docs/decision-table.md is not what the code says; first difference: {difference:?}. \
         Run the tests with UPDATE_GOLDEN=1, and read the difference before you commit it."
    );
}

fn page() -> String {
    let mut page = String::from(
        "# Decision tables\n\n\
         This page is printed from the code of `cf-reconcile` by its tests, over the complete space of what can be seen. \
         It is not edited by hand: after a change of the code, `UPDATE_GOLDEN=1 cargo test -p cf-reconcile` prints it \
         again, and the difference is what the change does.\n\n\
         Each line covers all combinations of the values it names, `any` is every value, and every combination is covered \
         by exactly one line. Combinations that cannot happen are decided as well.\n",
    );
    let mut section = |title: &str, words: &str, table: String| {
        let _ = write!(page, "\n## {title}\n\n{words}\n\n{table}");
    };
    section(
        "The store",
        "What the store says about a task, against what the batch believes. *own*: this batch, or before it took the task \
         up; *agent*: the task's current attempt, or the answer to a question that it asked; *claim*: another batch's or \
         attempt's claim; *other*: anybody else. `#` is the row of the contract. *asks for*: the status that is written \
         with the action, unless it is stored already.",
        local(),
    );
    section(
        "One link",
        "What one issue or pull request means. *old*: an answer older than the interval. *spent*: a person overruled this \
         closure. *did*: what its closing did to the task in this batch. *settle*: the time an agent, who may have changed \
         the link itself, has to end. `closed_unmerged` is the setting of that name.",
        one_link(),
    );
    section(
        "Two links",
        "What two links mean together; all are fresh, new, linked by hand, and `closed_unmerged` is `fail`.",
        two_links(),
    );
    section(
        "Merge",
        "Which of two findings about a task wins. An action that does nothing in the task's phase stands behind one that \
         does something.",
        merges(),
    );
    section(
        "Effects",
        "What an action does to a task, by its phase.",
        effects(),
    );
    section(
        "After a stop",
        "How a stopped task goes on when the end of its agent is verified.",
        after_stop(),
    );
    section(
        "One dependency",
        "What a task means for those that depend on it. *live*: an agent of anybody works on it. The reason is that of its \
         outcome; FIRST is the task at which a chain began.",
        dependency(),
    );
    section(
        "Two dependencies",
        "What becomes of a task that waits for two others. Which of two dead ones names the reason is shown by its number.",
        dependencies(),
    );
    section(
        "Standing",
        "Where a task stands when its batch is counted.",
        standings(),
    );
    section(
        "Final status",
        "How a batch ends, and with which exit code.",
        final_statuses(),
    );
    section(
        "Retry",
        "How long after the n-th failure the next attempt starts, with a delay of 5 s; at the least, in the middle, and at \
         the most.",
        retries(),
    );
    section(
        "What is retried",
        "How an attempt ended, and whether it may be followed by another.",
        retried(),
    );
    page
}

/// `CamelCase` as lower-case words.
fn words(value: impl Debug) -> String {
    let mut text = String::new();
    for c in format!("{value:?}").chars() {
        if c.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.extend(c.to_lowercase());
    }
    text
}

fn stored_word(stored: Stored) -> String {
    stored
        .status()
        .map_or_else(|| "deleted".to_owned(), |status| status.to_string())
}
