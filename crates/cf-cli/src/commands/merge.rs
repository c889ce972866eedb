//! `cf work merge`: finished work goes from the branches of tasks to the branch that is checked out.

use std::collections::HashMap;

use cf_conductor::conductor;
use cf_conductor::store::task::{Expect, StatusWrite, Task, TaskFilter};
use cf_conductor::store::{Reader, Store, StoreError};
use cf_conductor::worktree::{MergeRefused, Merged, Part, Repository, some, subject};
use cf_core::{Actor, Graph, TaskId, TaskStatus};
use serde_json::json;

use super::batch::resolve;
use super::{Ended, find_task};
use crate::args::work::MergeArgs;
use crate::config::Layer;
use crate::console::{self, Console};
use crate::error::CliError;
use crate::workspace;

/// Work that is to be merged.
struct Work {
    task: TaskId,
    title: String,
    /// The task's label, its branch, and the commit with which it was done.
    part: Part,
    is_merged: bool,
    version: u64,
}

/// `cf work merge`.
pub(super) fn run(args: &MergeArgs, console: &Console) -> Ended {
    let (workspace, mut store, actor) = workspace::open_to_write()?;
    if matches!(actor, Actor::Attempt(_)) {
        return Err(StoreError::NotForAgents {
            deed: "merge work".to_owned(),
        }
        .into());
    }
    let settings = resolve(Some(&workspace), Layer::default(), Layer::default())?.settings();
    let works = store.read(|reader| Ok(works(reader, &actor, args)))??;
    let mut done = Vec::new();
    let mut branch = None;
    let mut stopped = None;
    if works.iter().any(|work| !work.is_merged) {
        let repository =
            conductor::repository(&workspace, &settings)?.seen_from(&workspace::current_dir()?)?;
        let into = repository.ready_to_merge()?;
        if store.read(|reader| reader.is_our_branch(&into))? {
            return Err(CliError::refused(
                format!("the current branch, {into}, is itself the branch of a task"),
                "check out the branch that the work is to be merged into",
            ));
        }
        for work in &works {
            match merge(&repository, &mut store, &actor, work) {
                Ok(shape) => done.push((work, shape)),
                Err(error) => {
                    stopped = Some(refusal(error, work, &into));
                    break;
                }
            }
        }
        branch = Some(into);
    } else {
        done.extend(works.iter().map(|work| (work, Merged::Already)));
    }
    if stopped.is_none() || !done.is_empty() {
        tell(&done, branch.as_deref(), console)?;
    }
    match stopped {
        Some(error) => Err(error),
        None => Ok(0),
    }
}

/// The work that is meant, in the order of dependencies.
fn works(reader: &Reader<'_>, actor: &Actor, args: &MergeArgs) -> Result<Vec<Work>, CliError> {
    let mut meant: Vec<TaskId> = Vec::new();
    for given in &args.tasks {
        meant.push(find_task(reader, actor, given)?);
    }
    let mut listed = Vec::new();
    if args.tasks.is_empty() {
        reader.tasks(&TaskFilter::with_status(TaskStatus::Done), |view| {
            listed.push(view.task);
            Ok(())
        })?;
    } else {
        for id in meant {
            listed.push(reader.task(id)?);
        }
    }
    let tasks: HashMap<TaskId, &Task> = listed.iter().map(|task| (task.id, task)).collect();
    let graph = Graph::new(
        listed.iter().map(|task| (task.id, task.priority)),
        reader
            .edges()?
            .into_iter()
            .filter(|(task, on)| tasks.contains_key(task) && tasks.contains_key(on)),
    );
    let order = graph
        .order()
        .unwrap_or_else(|_| listed.iter().map(|task| task.id).collect());
    let mut finished = reader.all_finished_work()?;
    let mut works = Vec::new();
    for id in order {
        let Some(task) = tasks.get(&id) else {
            continue;
        };
        let label = task.label();
        if !task.status.is_done() {
            return Err(CliError::refused(
                format!(
                    "task {label} is {}, and only finished work is merged",
                    task.status
                ),
                format!(
                    "see `cf tasks show {label}`; with `cf tasks set status {label} DONE` its last finished work counts"
                ),
            ));
        }
        match finished.remove(&id) {
            Some(row) => works.push(Work {
                task: id,
                title: task.title.clone(),
                is_merged: task.status == TaskStatus::Merged,
                version: task.version,
                part: Part {
                    label: label.to_string(),
                    branch: row.branch,
                    head: row.head.unwrap_or_default(),
                },
            }),
            None if args.tasks.is_empty() => {}
            None => {
                return Err(CliError::refused(
                    format!("task {label} has no work on a branch"),
                    "only attempts in worktrees (`--isolation worktree`) leave some",
                ));
            }
        }
    }
    Ok(works)
}

/// Merges one, and stores that it is merged. What was merged before, and not stored, is found to be there already.
fn merge(
    repository: &Repository,
    store: &mut Store,
    actor: &Actor,
    work: &Work,
) -> Result<Merged, MergeError> {
    if work.is_merged {
        return Ok(Merged::Already);
    }
    let commit = repository.newest(&work.part).map_err(MergeRefused::Git)?;
    let title = subject(&work.title);
    let message = format!("Merge {}: {title}", work.part.branch);
    let merged = repository.merge(&commit, &message)?;
    let expect = Expect::Version(work.version);
    let written = store.write(actor, |tx| {
        tx.set_status(work.task, TaskStatus::Merged, expect)
    })?;
    if written == StatusWrite::Lost {
        return Err(MergeError::Store(StoreError::Refused {
            what: format!(
                "the status of task {} was changed meanwhile, so it was not set MERGED; its work is merged",
                work.part.label
            ),
            hint: Some(format!("see `cf tasks show {}`", work.part.label)),
        }));
    }
    Ok(merged)
}

#[derive(Debug, thiserror::Error)]
enum MergeError {
    #[error(transparent)]
    Refused(#[from] MergeRefused),
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn refusal(error: MergeError, work: &Work, into: &str) -> CliError {
    match error {
        MergeError::Refused(MergeRefused::Conflict(files)) => CliError::refused(
            format!(
                "merging {} into {into} conflicts in {}; the checkout is as it was before it",
                work.part.branch,
                files.join(", ")
            ),
            format!(
                "merge it by hand (`git merge {}`), and then run `cf work merge` again",
                work.part.branch
            ),
        ),
        MergeError::Refused(MergeRefused::InTheWay(files)) => CliError::refused(
            format!(
                "merging {} into {into} would write over {}, which is in no commit; the checkout is as it was before it",
                work.part.branch,
                some(&files)
            ),
            "move away what you need of it, and then run `cf work merge` again",
        ),
        MergeError::Refused(MergeRefused::Git(error)) => CliError::Merge {
            branch: work.part.branch.clone(),
            into: into.to_owned(),
            source: error,
        },
        MergeError::Store(error) => error.into(),
    }
}

fn tell(done: &[(&Work, Merged)], branch: Option<&str>, console: &Console) -> Result<(), CliError> {
    if console.json {
        let merged: Vec<_> = done
            .iter()
            .map(|(work, merged)| {
                json!({
                    "task": work.task, "label": work.part.label, "branch": work.part.branch,
                    "commit": match merged {
                        Merged::Already => None,
                        Merged::Brought(commit) => Some(commit),
                    },
                })
            })
            .collect();
        return Ok(console::print_json(
            &json!({ "into": branch, "merged": merged }),
        )?);
    }
    if done.is_empty() {
        console.say(format_args!("nothing to merge"))?;
    }
    for (work, merged) in done {
        match (merged, branch) {
            (Merged::Brought(commit), Some(into)) => console.say(format_args!(
                "merged {} into {into} ({commit:.8})",
                work.part.branch
            ))?,
            _ => console.say(format_args!("{} is merged already", work.part.label))?,
        }
    }
    Ok(())
}
