//! The table and the JSON.

use serde_json::{Value, json};

use crate::bench::compare::{Change, Way};
use crate::bench::figures::RowFigures;
use crate::bench::row::Measured;

/// Prints one row: a line a contender, then a line a target.
pub(crate) fn print_row(measured: &Measured, figures: &RowFigures) {
    println!("\n{}  ({}, {})", figures.what, figures.id, figures.unit);
    for contender in &measured.contenders {
        let name = contender.name;
        if let Some(failure) = &contender.failure {
            println!("  {name:<34} FAILED: {}", failure.replace('\n', "\n      "));
            continue;
        }
        let Some(found) = figures.contenders.iter().find(|found| found.name == name) else {
            continue;
        };
        let ratio = found
            .ratio
            .as_ref()
            .filter(|ratio| ratio.to.as_deref().is_some_and(|to| to != name));
        let ratio = ratio.map_or_else(String::new, |ratio| {
            format!(
                "{:8.2} ± {:.2} × {}",
                ratio.times,
                ratio.spread,
                ratio.to.as_deref().unwrap_or_default()
            )
        });
        // Of a count nobody wants to see fractions.
        let digits = if found.figure < 1_000.0 { 3 } else { 0 };
        println!(
            "  {name:<34} {:>12.digits$}  [{:.digits$} – {:.digits$}, n {}]  {ratio}",
            found.figure, found.quartiles[0], found.quartiles[1], found.n,
        );
    }
    for verdict in &figures.targets {
        println!("  {} {}", word(verdict.met), verdict.target);
    }
}

/// Prints how many targets were met, and every one that was not.
pub(crate) fn print_summary(rows: &[RowFigures]) {
    let verdicts = || {
        rows.iter()
            .flat_map(|row| row.targets.iter().map(move |verdict| (row, verdict)))
    };
    let met = verdicts().filter(|(_, verdict)| verdict.met == Some(true));
    println!("\n{} of {} targets met", met.count(), verdicts().count());
    for (row, verdict) in verdicts().filter(|(_, verdict)| verdict.met != Some(true)) {
        println!("  {} {}: {}", word(verdict.met), row.id, verdict.target);
    }
}

fn word(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met   ",
        Some(false) => "MISSED",
        None => "UNKNOWN",
    }
}

/// Prints what has changed by more than the noise, and how much has not.
pub(crate) fn print_changes(changes: &[Change]) {
    let steady = changes.iter().filter(|it| it.way == Way::Steady).count();
    println!(
        "\nbeside the committed figures: {steady} of {} within the noise",
        changes.len()
    );
    for change in changes.iter().filter(|it| it.way != Way::Steady) {
        let word = if change.way == Way::Worse {
            "WORSE "
        } else {
            "better"
        };
        println!(
            "  {word} {}, {}: {:.3} → {:.3} {} ({:+.1} %; up to {:.1} % may be noise)",
            change.row,
            change.contender,
            change.then,
            change.now,
            change.unit,
            (change.now / change.then - 1.0) * 100.0,
            change.noise / change.then * 100.0
        );
    }
}

/// Everything that was measured: `{"quick", "rows": [{…, "samples": {"NAME": [[…], …]}, "failures": {"NAME": …},
/// "absent": […]}], "changes": […]}`. A row has the fields of the committed figures besides; samples are in turns.
pub(crate) fn json(rows: &[(Measured, RowFigures)], changes: &[Change], quick: bool) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .map(|(measured, figures)| {
            let mut row = serde_json::to_value(figures).expect("figures are JSON");
            let contenders = || measured.contenders.iter();
            let samples = contenders().map(|it| (it.name.to_owned(), json!(it.turns)));
            let failures = contenders()
                .filter_map(|it| Some((it.name.to_owned(), json!(it.failure.as_ref()?))));
            let absent = contenders().filter(|it| it.absent).map(|it| it.name);
            row["samples"] = samples.collect();
            row["failures"] = failures.collect();
            row["absent"] = absent.collect();
            row
        })
        .collect();
    let changes: Vec<Value> = changes
        .iter()
        .map(|change| {
            json!({
                "row": change.row,
                "contender": change.contender,
                "unit": change.unit,
                "then": change.then,
                "now": change.now,
                "noise": change.noise,
                "way": match change.way {
                    Way::Worse => "worse",
                    Way::Better => "better",
                    Way::Steady => "steady",
                },
            })
        })
        .collect();
    format!(
        "{:#}\n",
        json!({"quick": quick, "rows": rows, "changes": changes})
    )
}
