//! `cf import codeframe`.

use cf_conductor::codeframe::{self, Imported, Note};
use serde_json::json;

use super::Ended;
use crate::args::{CodeframeArgs, ImportCommand};
use crate::console::{self, Console};
use crate::render::text;
use crate::workspace;

pub(super) fn run(command: &ImportCommand, console: &Console) -> Ended {
    match command {
        ImportCommand::Codeframe(args) => codeframe(args, console),
    }
}

fn codeframe(args: &CodeframeArgs, console: &Console) -> Ended {
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    let path = args.path.as_deref().unwrap_or_else(|| workspace.root());
    let imported = codeframe::import(&workspace, &mut store, &actor, path)?;
    if console.json {
        console::print_json(&json!({
            "database": imported.database.to_string_lossy(),
            "version": imported.version,
            "tasks": imported.tasks,
            "added": imported.added,
            "changed": imported.changed,
            "dependencies": imported.dependencies,
            "blockers": imported.blockers,
            "links": imported.links,
            "notes": imported.notes,
        }))?;
        return Ok(0);
    }
    tell(&imported, console)
}

fn tell(imported: &Imported, console: &Console) -> Ended {
    let there_already = imported.tasks.len() - imported.added;
    console.say(format_args!(
        "{}: {} tasks added, {there_already} there already ({} of them changed)",
        text::line(&imported.database.display().to_string()),
        imported.added,
        imported.changed
    ))?;
    console.say(format_args!(
        "new: {} dependencies, {} questions, {} links",
        imported.dependencies, imported.blockers, imported.links
    ))?;
    if !imported.notes.is_empty() {
        console.say(format_args!("not taken as it was:"))?;
    }
    for Note { subject, what, .. } in &imported.notes {
        let subject: String = subject.chars().take(8).collect();
        console.say(format_args!(
            "  {:<8}  {}",
            text::line(&subject),
            text::line(what)
        ))?;
    }
    Ok(0)
}
