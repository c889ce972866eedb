//! The table and the JSON.

use serde_json::{Value, json};

use crate::bench::row::{Measured, Role, quantile};

/// Prints one row: a line a contender, then a line a target.
pub(crate) fn print_row(measured: &Measured) {
    let row = measured.row;
    println!("\n{}  ({}, {})", row.what, row.id, row.unit);
    let floor = measured
        .contenders
        .iter()
        .find(|contender| contender.role == Role::Floor)
        .and_then(|contender| contender.figure(row.statistic));
    for contender in &measured.contenders {
        let name = contender.name;
        if let Some(failure) = &contender.failure {
            println!("  {name:<34} FAILED: {}", failure.replace('\n', "\n      "));
            continue;
        }
        let Some(figure) = contender.figure(row.statistic) else {
            println!("  {name:<34} not installed here");
            continue;
        };
        let ratio = floor.map_or_else(String::new, |floor| {
            format!("{:6.2} × floor", figure / floor)
        });
        println!(
            "  {name:<34} {figure:>10.3}  [{:.3} – {:.3}, n {}]  {ratio}",
            quantile(&contender.taken, 0.0).unwrap_or(figure),
            quantile(&contender.taken, 1.0).unwrap_or(figure),
            contender.taken.len(),
        );
    }
    for (target, met) in measured.verdicts() {
        println!("  {} {target}", word(met));
    }
}

/// Prints how many targets were met, and every one that was not.
pub(crate) fn print_summary(rows: &[Measured]) {
    let verdicts: Vec<(&str, String, Option<bool>)> = rows
        .iter()
        .flat_map(|row| {
            row.verdicts()
                .into_iter()
                .map(|(target, met)| (row.row.id, target, met))
        })
        .collect();
    let met = verdicts.iter().filter(|verdict| verdict.2 == Some(true));
    println!("\n{} of {} targets met", met.count(), verdicts.len());
    for (id, target, met) in verdicts {
        if met != Some(true) {
            println!("  {} {id}: {target}", word(met));
        }
    }
}

fn word(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met   ",
        Some(false) => "MISSED",
        None => "UNKNOWN",
    }
}

/// Everything that was measured: `{"quick", "rows": [{"id", "what", "unit", "contenders": […], "targets": […]}]}`.
pub(crate) fn json(rows: &[Measured], quick: bool) -> String {
    let rows: Vec<Value> = rows
        .iter()
        .map(|measured| {
            let row = measured.row;
            let contenders: Vec<Value> = measured
                .contenders
                .iter()
                .map(|contender| {
                    json!({
                        "name": contender.name,
                        "figure": contender.figure(row.statistic),
                        "samples": contender.taken,
                        "failure": contender.failure,
                        "absent": contender.absent,
                    })
                })
                .collect();
            let targets: Vec<Value> = measured
                .verdicts()
                .into_iter()
                .map(|(target, met)| json!({"target": target, "met": met}))
                .collect();
            json!({
                "id": row.id,
                "what": row.what,
                "unit": row.unit,
                "contenders": contenders,
                "targets": targets,
            })
        })
        .collect();
    format!("{:#}\n", json!({"quick": quick, "rows": rows}))
}
