//! `cf github import`: tasks from issues.

use cf_conductor::github::{
    ImportProgress, ImportRequest, Imported, IssueFilter, IssueStates, import,
};
use serde_json::json;

use super::super::Ended;
use super::super::batch::resolve;
use crate::args::github::{ImportArgs, State};
use crate::config::Layer;
use crate::console::lines::{Lines, bar};
use crate::console::{self, Console};
use crate::render::text;
use crate::workspace;

pub(super) fn run(args: &ImportArgs, console: &Console) -> Ended {
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    let layer = resolve(Some(&workspace), Layer::default(), Layer::default())?;
    let source = layer.github();
    let request = ImportRequest {
        host: source.default_host().to_owned(),
        repo: args.repo.clone(),
        filter: IssueFilter {
            labels: args.label.clone(),
            milestone: args.milestone.clone(),
            assignee: args.assignee.clone(),
            states: match args.state {
                State::Open => IssueStates::Open,
                State::Closed => IssueStates::Closed,
                State::All => IssueStates::All,
            },
            limit: args.limit,
            comments: 0,
        },
    };
    let mut reading = console.is_live().then(Reading::default);
    let imported = import(&source, &mut store, &actor, &request, &mut |progress| {
        if let Some(reading) = &mut reading {
            reading.advance(progress, args.limit);
        }
    });
    drop(reading);
    tell(&imported?, args, console)
}

/// The line on a terminal that says how far it is.
#[derive(Debug, Default)]
struct Reading {
    lines: Lines,
    /// How many issues there are to read, once that is known.
    total: Option<u64>,
    turns: usize,
}

/// What turns while nobody knows how many there are.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

impl Reading {
    fn advance(&mut self, progress: ImportProgress, limit: Option<usize>) {
        let line = self.line(progress, limit);
        self.lines.show(&[line]);
    }

    fn line(&mut self, progress: ImportProgress, limit: Option<usize>) -> String {
        let total = match (progress.total, limit) {
            (Some(total), Some(limit)) => Some(total.min(limit as u64)),
            (total, _) => total,
        };
        self.total = self.total.or(total);
        let read = progress.read;
        if let Some(total) = self.total {
            return format!("{} issues read", bar(read, total));
        }
        self.turns += 1;
        let spinner = SPINNER[self.turns % SPINNER.len()];
        format!("{spinner} {read} issues read")
    }
}

fn tell(imported: &Imported, args: &ImportArgs, console: &Console) -> Ended {
    let added = imported.tasks.iter().filter(|task| task.added).count();
    let updated = imported.tasks.len() - added;
    let strangers = imported
        .tasks
        .iter()
        .filter(|task| task.added && !task.trusted)
        .count();
    if console.json {
        let tasks: Vec<_> = imported
            .tasks
            .iter()
            .map(|task| {
                json!({
                    "id": task.id, "key": task.key, "number": task.number, "added": task.added, "trusted": task.trusted,
                })
            })
            .collect();
        console::print_json(
            &json!({ "tasks": tasks, "added": added, "updated": updated, "notes": imported.notes }),
        )?;
        return Ok(0);
    }
    console.say(format_args!(
        "{}: {added} added, {updated} updated",
        args.repo
    ))?;
    if strangers > 0 {
        console.say(format_args!(
            "{strangers} by authors who are not owner, member or collaborator: BACKLOG until somebody sets them READY"
        ))?;
    }
    for note in &imported.notes {
        console.warn(format_args!("{}", text::line(note)));
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_takes_the_place_of_what_turns_once_the_total_is_known() {
        let mut reading = Reading::default();
        let mut line = |read, total, limit| reading.line(ImportProgress { read, total }, limit);
        assert_eq!(line(0, None, Some(50)), "⠙ 0 issues read");
        assert_eq!(line(10, None, Some(50)), "⠹ 10 issues read");
        assert_eq!(
            line(20, Some(80), Some(50)),
            "[=========>              ] 20/50 issues read"
        );
        assert_eq!(
            line(50, None, Some(50)),
            "[========================] 50/50 issues read"
        );
    }
}
