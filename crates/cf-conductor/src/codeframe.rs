//! Tasks from a CodeFRAME workspace.
//!
//! Its database is read from a private copy, so that nothing is ever written, locked or created beside it. What was
//! read is translated by itself, and stored in one transaction. Ids are UUIDs there as they are here, so a task keeps
//! its own: a second import meets what the first one made, and people go on using the ids that they know.
//!
//! Statuses of tasks that are here already are left alone, as every import does; fields that CodeFRAME does not have
//! (`run`, `verify`, engines, limits) are never touched, and dependencies are only added.

mod read;
mod translate;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use cf_core::{Actor, Graph, TaskId};
use serde::Serialize;

use crate::store::task::TaskEdit;
use crate::store::{Result, Store, StoreError, Tx};
use crate::workspace::Workspace;
use translate::Wanted;

/// The newest version of CodeFRAME's database that this reads knowingly.
const KNOWN_VERSION: i64 = 5;

/// Something that was left out, or taken over other than it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What sort of thing.
    pub kind: NoteKind,
    /// The id, in CodeFRAME, of what it is about; empty when it is about the whole.
    pub subject: String,
    /// What was done and why, as a sentence without a full stop.
    pub what: String,
}

/// What a note is about. The words of its JSON are in snake case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NoteKind {
    /// A batch that CodeFRAME says is going on; batches are not taken.
    RunningBatch,
    /// A task that was in progress.
    InProgress,
    /// A task that only holds others together; such are not taken.
    Composite,
    /// A dependency on a task that is not there.
    DanglingDependency,
    /// A dependency that would close a cycle.
    CyclicDependency,
    /// A task that cannot be taken, or not as it was.
    Task,
    /// A question that cannot be taken.
    Blocker,
    /// A tie to an issue that cannot be taken.
    Link,
    /// The database as a whole.
    Database,
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The database that was read.
    pub database: PathBuf,
    /// Its version; 0 for those from before CodeFRAME stamped them.
    pub version: i64,
    /// The tasks, in the order in which CodeFRAME lists them.
    pub tasks: Vec<TaskId>,
    /// How many of them are new.
    pub added: usize,
    /// How many were here, and have another title, description or priority now.
    pub changed: usize,
    /// How many dependencies, questions and links are new.
    pub dependencies: usize,
    /// See above.
    pub blockers: usize,
    /// See above.
    pub links: usize,
    /// What was left out, or taken over other than it was.
    pub notes: Vec<Note>,
}

/// Imports the CodeFRAME workspace at `path`: a folder with a `.codeframe`, that folder itself, or its `state.db`.
///
/// # Errors
///
/// There is none, it cannot be read or is none, the caller is an agent, or the store refuses; nothing is stored then.
pub fn import(
    workspace: &Workspace,
    store: &mut Store,
    actor: &Actor,
    path: &Path,
) -> Result<Imported> {
    if let Actor::Attempt(_) = actor {
        return Err(StoreError::NotForAgents {
            deed: "import tasks".to_owned(),
        });
    }
    let found = read::read(path, &workspace.folder())?;
    let mut imported = Imported {
        database: found.database.clone(),
        version: found.version,
        ..Imported::default()
    };
    if found.version > KNOWN_VERSION {
        imported.notes.push(Note {
            kind: NoteKind::Database,
            subject: String::new(),
            what: format!(
                "it was made by a newer CodeFRAME (version {}; {KNOWN_VERSION} is known): what is new in it is not read",
                found.version
            ),
        });
    }
    let wanted = translate::translate(&found, &mut imported.notes);
    store.write(actor, |tx| keep(tx, &wanted, imported.clone()))
}

/// Stores what is wanted and not here yet.
fn keep(tx: &mut Tx<'_>, wanted: &Wanted, mut imported: Imported) -> Result<Imported> {
    for task in &wanted.tasks {
        match tx.reader().task_opt(task.id)? {
            Some(stored) if stored.deleted => {
                imported.notes.push(Note {
                    kind: NoteKind::Task,
                    subject: task.id.to_string(),
                    what: "it was deleted here and is not brought back".to_owned(),
                });
                continue;
            }
            Some(stored) => {
                let edit = TaskEdit {
                    title: Some(task.spec.title.clone()),
                    description: Some(task.spec.description.clone()),
                    priority: Some(task.spec.priority),
                    ..TaskEdit::default()
                };
                imported.changed += usize::from(tx.edit_task(task.id, &edit)? != stored);
            }
            None => {
                tx.insert_task(task.id, &task.spec, task.status)?;
                imported.added += 1;
            }
        }
        for link in &task.links {
            imported.links += usize::from(tx.link(task.id, link)?);
        }
        imported.tasks.push(task.id);
    }
    let here: HashSet<TaskId> = imported.tasks.iter().copied().collect();
    dependencies(tx, wanted, &here, &mut imported)?;
    for blocker in &wanted.blockers {
        let is_about_one = blocker.task.is_none_or(|task| here.contains(&task));
        if is_about_one && tx.insert_blocker(blocker)? {
            imported.blockers += 1;
        }
    }
    Ok(imported)
}

/// Adds the dependencies that are not here, but for those that would close a cycle.
fn dependencies(
    tx: &mut Tx<'_>,
    wanted: &Wanted,
    here: &HashSet<TaskId>,
    imported: &mut Imported,
) -> Result<()> {
    let stored = tx.reader().edges()?;
    let known: HashSet<Edge> = stored.iter().copied().collect();
    let new: Vec<_> = wanted
        .edges
        .iter()
        .filter(|(task, on)| here.contains(task) && here.contains(on))
        .filter(|edge| !known.contains(edge))
        .copied()
        .collect();
    let (kept, dropped) = without_cycles(&stored, new);
    for (task, on) in kept {
        tx.insert_dependency(task, on)?;
        imported.dependencies += 1;
    }
    for (task, on) in dropped {
        imported.notes.push(Note {
            kind: NoteKind::CyclicDependency,
            subject: task.to_string(),
            what: format!(
                "its dependency on {} is left out: it would close a cycle",
                on.short()
            ),
        });
    }
    Ok(())
}

type Edge = (TaskId, TaskId);

/// Divides the new edges into those that can be added one after the other, and those that would close a cycle.
fn without_cycles(stored: &[Edge], new: Vec<Edge>) -> (Vec<Edge>, Vec<Edge>) {
    let all: Vec<Edge> = stored.iter().chain(&new).copied().collect();
    let nodes: Vec<(TaskId, i64)> = all.iter().flat_map(|(a, b)| [(*a, 0), (*b, 0)]).collect();
    if Graph::new(nodes, all).order().is_ok() {
        return (new, Vec::new());
    }
    let mut leads_to: HashMap<TaskId, Vec<TaskId>> = HashMap::new();
    for (task, on) in stored {
        leads_to.entry(*task).or_default().push(*on);
    }
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    for (task, on) in new {
        let mut to_visit = vec![on];
        let mut seen = HashSet::new();
        while let Some(at) = to_visit.pop() {
            if at != task && seen.insert(at) {
                to_visit.extend(leads_to.get(&at).into_iter().flatten());
            } else if at == task {
                seen.insert(at);
                break;
            }
        }
        if seen.contains(&task) {
            dropped.push((task, on));
        } else {
            leads_to.entry(task).or_default().push(on);
            kept.push((task, on));
        }
    }
    (kept, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> TaskId {
        TaskId(uuid::Uuid::from_u128(u128::from(n)))
    }

    fn edges(pairs: &[(u8, u8)]) -> Vec<Edge> {
        pairs.iter().map(|(a, b)| (id(*a), id(*b))).collect()
    }

    #[test]
    fn only_the_edges_that_close_a_cycle_are_dropped() {
        let stored = edges(&[(1, 2)]);
        let new = edges(&[(2, 3), (3, 1), (4, 4), (4, 1), (3, 5)]);
        let (kept, dropped) = without_cycles(&stored, new);
        assert_eq!(kept, edges(&[(2, 3), (4, 1), (3, 5)]));
        assert_eq!(dropped, edges(&[(3, 1), (4, 4)]));
    }

    #[test]
    fn without_a_cycle_nothing_is_dropped() {
        let new = edges(&[(2, 1), (3, 2), (3, 1)]);
        assert_eq!(without_cycles(&[], new.clone()), (new, Vec::new()));
    }
}
