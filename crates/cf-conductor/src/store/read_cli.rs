//! Readings for lists of many rows, without making a value of each.

use std::collections::HashMap;
use std::ops::ControlFlow;

use cf_core::{Link, LinkKind, TaskId, TaskStatus};

use rusqlite::backup::Backup;

use super::ids::ById;
use super::rows::word;
use super::sql::parsed;
use super::task::TaskFilter;
use super::{Doing as _, Reader, Result, Store};

/// What a list shows of a task, as it stands in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLine<'row> {
    /// Its id.
    pub id: &'row str,
    /// Its key.
    pub key: Option<&'row str>,
    /// The word of its status.
    pub status: &'row str,
    /// 0 is most urgent.
    pub priority: i64,
    /// How many of its blockers are open.
    pub open_blockers: u64,
    /// What it is called.
    pub title: &'row str,
}

impl TaskLine<'_> {
    /// Its id as a value.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn task_id(&self) -> Result<TaskId> {
        word(0, self.id).doing("read the tasks")
    }

    /// Its status as a value.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn task_status(&self) -> Result<TaskStatus> {
        word(2, self.status).doing("read the tasks")
    }

    /// How it is called in messages.
    pub fn label(&self) -> &str {
        self.key
            .unwrap_or_else(|| self.id.get(..8).unwrap_or(self.id))
    }
}

impl Store {
    /// A copy in memory, on which something can be tried that is not to be kept.
    ///
    /// # Errors
    ///
    /// The database cannot be read, or there is no memory for it.
    pub fn copy_in_memory(&self) -> Result<Self> {
        let mut copy = Self::in_memory()?;
        Backup::new(&self.conn, &mut copy.conn)
            .and_then(|backup| backup.step(-1).map(drop))
            .doing("copy the workspace")?;
        Ok(copy)
    }
}

impl Reader<'_> {
    /// The tasks that the filter lets through, in the order in which they were added, each handed to `each` as it is
    /// read, until that breaks.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn task_lines(
        &self,
        filter: &TaskFilter,
        mut each: impl FnMut(TaskLine<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        const DOING: &str = "read the tasks";
        let open = self.open_blockers_by_text()?;
        let sql = format!(
            "SELECT id, key, status, priority, title FROM task{}",
            filter.clause()
        );
        let mut statement = self.conn.prepare(&sql).doing(DOING)?;
        let mut rows = statement.query([]).doing(DOING)?;
        while let Some(row) = rows.next().doing(DOING)? {
            let text = |at: usize| {
                row.get_ref(at)
                    .and_then(|value| Ok(value.as_str()?))
                    .doing(DOING)
            };
            let id = text(0)?;
            let line = TaskLine {
                id,
                key: row
                    .get_ref(1)
                    .and_then(|value| Ok(value.as_str_or_null()?))
                    .doing(DOING)?,
                status: text(2)?,
                priority: row.get(3).doing(DOING)?,
                open_blockers: if open.is_empty() {
                    0
                } else {
                    open.get(id).copied().unwrap_or(0)
                },
                title: text(4)?,
            };
            if each(line).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn open_blockers_by_text(&self) -> Result<HashMap<String, u64>> {
        let mut statement = self
            .conn
            .prepare("SELECT task, count(*) FROM blocker WHERE status = 'OPEN' AND task IS NOT NULL GROUP BY task")
            .doing("count blockers")?;
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
            .doing("count blockers")?;
        rows.collect::<rusqlite::Result<_>>()
            .doing("count blockers")
    }

    /// What every task is tied to, each task's in the order in which the ties were made.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn links_by_task(&self) -> Result<ById<Vec<Link>>> {
        let mut statement = self
            .conn
            .prepare("SELECT task, kind, host, repo, number FROM link ORDER BY pk")
            .doing("read links")?;
        let mut rows = statement.query([]).doing("read links")?;
        let mut links: ById<Vec<Link>> = ById::default();
        while let Some(row) = rows.next().doing("read links")? {
            let link = Link {
                kind: parsed::<LinkKind>(row, 1).doing("read links")?,
                host: row.get(2).doing("read links")?,
                repo: parsed(row, 3).doing("read links")?,
                number: row.get(4).doing("read links")?,
            };
            links
                .entry(parsed(row, 0).doing("read links")?)
                .or_default()
                .push(link);
        }
        Ok(links)
    }
}
