//! What CodeFRAME's rows mean here: values in, values out, and a note for whatever does not fit.

use std::collections::{HashMap, HashSet};

use cf_core::{Asker, BlockerId, BlockerStatus, Link, LinkKind, TaskId, TaskStatus, Timestamp};

use super::read::{BlockerRow, Found, TaskRow};
use super::{Note, NoteKind};
use crate::store::blocker::ForeignBlocker;
use crate::store::task::TaskSpec;

/// The largest priority that is kept; 0 is most urgent here as there.
const LAST_PRIORITY: i64 = 1_000_000;

/// The host of issues that are known by their number alone.
const HOST: &str = "github.com";

/// What is to be stored.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) tasks: Vec<WantedTask>,
    /// `(task, depends on)`, between wanted tasks; may have cycles.
    pub(super) edges: Vec<(TaskId, TaskId)>,
    pub(super) blockers: Vec<ForeignBlocker>,
}

#[derive(Debug)]
pub(super) struct WantedTask {
    pub(super) id: TaskId,
    pub(super) spec: TaskSpec,
    pub(super) status: TaskStatus,
    pub(super) links: Vec<Link>,
}

/// Translates everything; what is left out or changed is noted.
pub(super) fn translate(found: &Found, notes: &mut Vec<Note>) -> Wanted {
    let tree = Tree::of(&found.tasks);
    let mut note = |kind, subject: &str, what: String| {
        notes.push(Note {
            kind,
            subject: subject.to_owned(),
            what,
        });
    };
    let mut going_on = HashSet::new();
    for batch in &found.running {
        note(
            NoteKind::RunningBatch,
            &batch.id,
            format!(
                "it is {} there and is not taken; end it before its tasks run here",
                batch.status
            ),
        );
        going_on.extend(names(batch.task_ids.as_deref()).unwrap_or_default());
    }
    let mut wanted = Wanted::default();
    let mut ids: HashMap<&str, TaskId> = HashMap::new();
    for row in &found.tasks {
        if tree.is_composite(row) {
            let parts = tree.leaves(&row.id).len();
            note(
                NoteKind::Composite,
                &row.id,
                format!(
                    "it only holds {parts} others together and is not taken: what depended on it depends on them"
                ),
            );
            continue;
        }
        match task(
            row,
            found.repo.as_deref(),
            going_on.contains(&row.id),
            &mut note,
        ) {
            Ok(task) => {
                ids.insert(&row.id, task.id);
                wanted.tasks.push(task);
            }
            Err(why) => note(NoteKind::Task, &row.id, why),
        }
    }
    for row in found
        .tasks
        .iter()
        .filter(|row| ids.contains_key(row.id.as_str()))
    {
        let mut seen = HashSet::new();
        for on in tree.dependencies(row, &mut note) {
            let leaves = tree.leaves(&on);
            if leaves.is_empty() {
                note(
                    NoteKind::DanglingDependency,
                    &row.id,
                    format!("it depended on {on}, which is not there"),
                );
            }
            for leaf in leaves.into_iter().filter(|leaf| seen.insert(leaf.clone())) {
                match ids.get(leaf.as_str()) {
                    Some(id) => wanted.edges.push((ids[row.id.as_str()], *id)),
                    None => note(
                        NoteKind::DanglingDependency,
                        &row.id,
                        format!("it depended on {leaf}, which is not taken"),
                    ),
                }
            }
        }
    }
    for row in &found.blockers {
        match blocker(row, &ids) {
            Ok(blocker) => wanted.blockers.push(blocker),
            Err(why) => note(NoteKind::Blocker, &row.id, why),
        }
    }
    wanted
}

fn task(
    row: &TaskRow,
    repo: Option<&str>,
    is_going_on: bool,
    note: &mut impl FnMut(NoteKind, &str, String),
) -> Result<WantedTask, String> {
    let id: TaskId = row
        .id
        .parse()
        .map_err(|error: cf_core::IdError| format!("it is not taken: {error}"))?;
    if row.title.trim().is_empty() {
        return Err("it is not taken: it has no title".to_owned());
    }
    let status = match row.status.as_str() {
        "IN_PROGRESS" if is_going_on => {
            let what = "it was IN_PROGRESS in a batch that is going on, and is BACKLOG here until somebody says READY";
            note(NoteKind::InProgress, &row.id, what.to_owned());
            TaskStatus::Backlog
        }
        "IN_PROGRESS" => {
            note(
                NoteKind::InProgress,
                &row.id,
                "it was IN_PROGRESS and is READY here".to_owned(),
            );
            TaskStatus::Ready
        }
        word => word
            .parse()
            .map_err(|error: cf_core::UnknownWord| format!("it is not taken: {error}"))?,
    };
    let priority = row.priority.clamp(0, LAST_PRIORITY);
    if priority != row.priority {
        note(
            NoteKind::Task,
            &row.id,
            format!("its priority {} is {priority} here", row.priority),
        );
    }
    let links = link(row, repo).unwrap_or_else(|why| {
        note(NoteKind::Link, &row.id, why);
        None
    });
    Ok(WantedTask {
        id,
        spec: TaskSpec {
            title: row.title.clone(),
            description: row.description.clone(),
            priority,
            ..TaskSpec::default()
        },
        status,
        links: links.into_iter().collect(),
    })
}

/// The issue of a task: by its address, else by its number in the repository that the workspace was connected to.
fn link(row: &TaskRow, repo: Option<&str>) -> Result<Option<Link>, String> {
    let (text, told) = match (&row.external_url, row.issue_number, repo) {
        (Some(url), _, _) => (url.clone(), url.clone()),
        (None, None, _) => return Ok(None),
        (None, Some(number), Some(repo)) => (format!("{repo}#{number}"), format!("issue {number}")),
        (None, Some(number), None) => {
            return Err(format!(
                "its issue {number} is not taken: the workspace was connected to no repository"
            ));
        }
    };
    match Link::parse(&text, LinkKind::Issue, HOST) {
        Ok(link) => Ok(Some(link)),
        Err(error) => Err(format!("its link to {told} is not taken: {error}")),
    }
}

fn blocker(row: &BlockerRow, ids: &HashMap<&str, TaskId>) -> Result<ForeignBlocker, String> {
    let id: BlockerId = row
        .id
        .parse()
        .map_err(|error: cf_core::IdError| format!("it is not taken: {error}"))?;
    if row.question.trim().is_empty() {
        return Err("it is not taken: it asks nothing".to_owned());
    }
    let task = match &row.task {
        None => None,
        Some(task) => match ids.get(task.as_str()) {
            Some(id) => Some(*id),
            None => return Err(format!("it is not taken: its task {task} is not")),
        },
    };
    let status: BlockerStatus = row
        .status
        .parse()
        .map_err(|error: cf_core::UnknownWord| format!("it is not taken: {error}"))?;
    let asked_by = match row.created_by.as_deref() {
        Some(word) => word.parse().unwrap_or(Asker::Human),
        None => Asker::Human,
    };
    Ok(ForeignBlocker {
        id,
        task,
        question: row.question.clone(),
        answer: row.answer.clone(),
        status,
        asked_by,
        asked_at: row.created_at.parse::<Timestamp>().ok(),
        answered_at: row
            .answered_at
            .as_ref()
            .and_then(|at| at.parse::<Timestamp>().ok()),
    })
}

/// The ids in a JSON list; nothing when it is none.
fn names(json: Option<&str>) -> Option<Vec<String>> {
    match json {
        None | Some("") => Some(Vec::new()),
        Some(text) => serde_json::from_str(text).ok(),
    }
}

/// Which task is a part of which.
struct Tree<'f> {
    rows: HashMap<&'f str, &'f TaskRow>,
    parts: HashMap<&'f str, Vec<&'f str>>,
}

impl<'f> Tree<'f> {
    fn of(tasks: &'f [TaskRow]) -> Self {
        let rows: HashMap<&str, &TaskRow> =
            tasks.iter().map(|row| (row.id.as_str(), row)).collect();
        let mut parts: HashMap<&str, Vec<&str>> = HashMap::new();
        for row in tasks {
            if let Some(parent) = row.parent.as_deref().filter(|parent| *parent != row.id) {
                parts.entry(parent).or_default().push(&row.id);
            }
        }
        Self { rows, parts }
    }

    fn is_composite(&self, row: &TaskRow) -> bool {
        !row.is_leaf || self.parts.contains_key(row.id.as_str())
    }

    /// The task itself, or the tasks that a composite one comes down to; empty when there is no such task.
    fn leaves(&self, id: &str) -> Vec<String> {
        let mut leaves = Vec::new();
        let mut seen = HashSet::new();
        let mut to_visit: Vec<&str> = vec![id];
        while let Some(at) = to_visit.pop() {
            let Some(row) = self.rows.get(at).filter(|_| seen.insert(at.to_owned())) else {
                continue;
            };
            if self.is_composite(row) {
                to_visit.extend(self.parts.get(at).into_iter().flatten().rev());
            } else {
                leaves.push(row.id.clone());
            }
        }
        leaves
    }

    /// What a task depends on: what it names itself, and what the composites above it do.
    fn dependencies(
        &self,
        row: &TaskRow,
        note: &mut impl FnMut(NoteKind, &str, String),
    ) -> Vec<String> {
        let mut list = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(row);
        while let Some(at) = next.filter(|at| seen.insert(at.id.as_str())) {
            match names(at.depends_on.as_deref()) {
                Some(names) => list.extend(names),
                None => note(
                    NoteKind::DanglingDependency,
                    &at.id,
                    "what it depends on is no list of ids, and is left out".to_owned(),
                ),
            }
            next = at
                .parent
                .as_deref()
                .and_then(|parent| self.rows.get(parent).copied());
        }
        list
    }
}
