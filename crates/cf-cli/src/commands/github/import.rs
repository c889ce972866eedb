//! `cf github import`: tasks from issues.

use cf_conductor::github::{
    ImportProgress, ImportRequest, Imported, IssueFilter, IssueStates, import,
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::super::Ended;
use super::super::batch::resolve;
use crate::args::github::{ImportArgs, State};
use crate::config::Layer;
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
    let bar = console.is_live().then(bar);
    let imported = import(&source, &mut store, &actor, &request, &mut |progress| {
        if let Some(bar) = &bar {
            advance(bar, progress, args.limit);
        }
    });
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    tell(&imported?, args, console)
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style =
        ProgressStyle::with_template("{spinner} {pos} issues read").expect("the template is right");
    bar.set_style(style);
    bar
}

fn advance(bar: &ProgressBar, progress: ImportProgress, limit: Option<usize>) {
    let total = match (progress.total, limit) {
        (Some(total), Some(limit)) => Some(total.min(limit as u64)),
        (total, _) => total,
    };
    if let Some(total) = total
        && bar.length().is_none()
    {
        let style = ProgressStyle::with_template("[{bar:24}] {pos}/{len} issues read")
            .expect("the template is right")
            .progress_chars("=> ");
        bar.set_style(style);
        bar.set_length(total);
    }
    bar.set_position(progress.read);
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
