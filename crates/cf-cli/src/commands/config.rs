//! `cf config show` and `check`.

use std::io::Write as _;

use cf_conductor::workspace::Workspace;
use serde_json::json;

use super::Ended;
use crate::args::ConfigCommand;
use crate::config::{Layer, Origin, Places, user_file};
use crate::console::{self, Console, Look};
use crate::render::table::{Field, Table};
use crate::render::text;
use crate::workspace;

pub(super) fn run(command: &ConfigCommand, console: &Console) -> Ended {
    let workspace = workspace::find()?;
    let places = Places::of_process(workspace.as_ref().map(Workspace::config_file));
    // What is wrong with an engine is said here, and not only by the first batch that wants one.
    let (layer, wrong) = places.resolve_what_is_right();
    let wrong = wrong.into_iter().next();
    match (command, wrong) {
        (ConfigCommand::Show, wrong) => {
            show(&layer, console)?;
            // The values are those without the place that is wrong.
            wrong.map_or(Ok(0), |error| Err(error.into()))
        }
        (ConfigCommand::Check, Some(error)) => Err(error.into()),
        (ConfigCommand::Check, None) => check(&places, console),
    }
}

fn show(layer: &Layer, console: &Console) -> Ended {
    let rows = layer.rows();
    if console.json {
        let settings: Vec<_> = rows
            .iter()
            .map(|(key, value)| {
                json!({
                    "key": key.name,
                    "value": value.as_ref().map(|(text, _)| text),
                    "origin": value.as_ref().map(|(_, origin)| origin.to_string()),
                    "meaning": key.meaning,
                    "expected": key.expected,
                    "variable": key.variable(),
                })
            })
            .chain(layer.engines.iter().map(|(name, setting)| {
                json!({
                    "key": format!("engines.{name}"),
                    "value": setting.value.to_string(),
                    "origin": setting.origin.to_string(),
                    "meaning": "an engine",
                    "expected": "a table",
                    "variable": null,
                })
            }))
            .collect();
        console::print_json(&settings)?;
        return Ok(0);
    }
    let mut table = Table::new(&["Setting", "Value", "From", "Meaning"]);
    for (key, value) in &rows {
        let (text, origin) = match value {
            Some((text, origin)) => (text.as_str(), origin.to_string()),
            None => ("", Origin::Default.to_string()),
        };
        let is_set = value
            .as_ref()
            .is_some_and(|(_, origin)| **origin != Origin::Default);
        let look = if is_set { Look::Strong } else { Look::Plain };
        table.row([
            Field::new(key.name, look),
            Field::new(text, look),
            Field::new(origin, Look::Dim),
            key.meaning.into(),
        ]);
    }
    for (name, setting) in &layer.engines {
        table.row([
            Field::new(format!("engines.{name}"), Look::Strong),
            Field::new(setting.value.to_string(), Look::Plain),
            Field::new(setting.origin.to_string(), Look::Dim),
            "an engine".into(),
        ]);
    }
    let mut out = console::out();
    table.write(console, &mut out)?;
    out.flush()?;
    Ok(0)
}

fn check(places: &Places, console: &Console) -> Ended {
    let files = [
        ("workspace", places.workspace.clone()),
        ("user", user_file()),
    ];
    if console.json {
        let files: Vec<_> = files
            .iter()
            .filter_map(|(owner, path)| {
                let path = path.as_ref()?;
                Some(json!({ "owner": owner, "path": path.to_string_lossy(), "exists": path.exists() }))
            })
            .collect();
        console::print_json(&json!({ "ok": true, "files": files }))?;
        return Ok(0);
    }
    for (owner, path) in files {
        match path {
            Some(path) if path.exists() => {
                console.say(format_args!("{owner:<10} {}: ok", text::path(&path)))?;
            }
            // A file that cannot be read has been an error before this.
            Some(path) => {
                console.say(format_args!("{owner:<10} {}: not there", text::path(&path)))?;
            }
            None => console.say(format_args!("{owner:<10} none"))?,
        }
    }
    Ok(0)
}
