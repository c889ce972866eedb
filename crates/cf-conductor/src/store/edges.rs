//! Every dependency of the workspace, read in one pass.

use std::ops::Range;

use cf_core::TaskId;

use super::ids::ById;
use super::sql::parsed;
use super::{Doing as _, Reader, Result};

/// Every dependency there is, those of a task together.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    on: Vec<TaskId>,
    of: ById<Range<usize>>,
}

impl Edges {
    /// What a task depends on, in the order of the ids.
    pub(crate) fn of(&self, task: TaskId) -> &[TaskId] {
        self.of
            .get(&task)
            .map_or(&[], |range| &self.on[range.clone()])
    }

    /// All of them, as `(task, depends on)`.
    pub(crate) fn all(&self) -> impl Iterator<Item = (TaskId, TaskId)> {
        let of = self.of.iter();
        of.flat_map(|(task, range)| self.on[range.clone()].iter().map(|on| (*task, *on)))
    }
}

impl Reader<'_> {
    /// Every edge `(task, depends on)` of the workspace.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn edges(&self) -> Result<Vec<(TaskId, TaskId)>> {
        let mut edges = Vec::new();
        self.each_edge(|task, on| edges.push((task, on)))?;
        Ok(edges)
    }

    /// Every dependency there is.
    pub(crate) fn all_edges(&self) -> Result<Edges> {
        let mut edges = Edges::default();
        let mut begun: Option<(TaskId, usize)> = None;
        self.each_edge(|task, on| {
            if begun.is_none_or(|(same, _)| same != task) {
                let end = edges.on.len();
                edges.of.extend(begun.map(|(task, from)| (task, from..end)));
                begun = Some((task, end));
            }
            edges.on.push(on);
        })?;
        let end = edges.on.len();
        edges.of.extend(begun.map(|(task, from)| (task, from..end)));
        Ok(edges)
    }

    /// Every dependency `(task, depends on)` of the workspace, in the order of the ids.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn each_edge(&self, mut each: impl FnMut(TaskId, TaskId)) -> Result<()> {
        const DOING: &str = "read dependencies";
        let mut statement = self
            .conn
            .prepare_cached("SELECT task, depends_on FROM dependency ORDER BY task, depends_on")
            .doing(DOING)?;
        let mut rows = statement.query([]).doing(DOING)?;
        while let Some(row) = rows.next().doing(DOING)? {
            each(parsed(row, 0).doing(DOING)?, parsed(row, 1).doing(DOING)?);
        }
        Ok(())
    }
}
