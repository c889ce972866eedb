//! Links between tasks and GitHub, and the comments that were read through them.

use cf_core::{EventType, Link, LinkKind, TaskId};
use rusqlite::Row;

use super::event::Event;
use super::sql::parsed;
use super::{Doing as _, Reader, Result, StoreError, Tx};

impl Reader<'_> {
    /// The links of a task, oldest first.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn links(&self, task: TaskId) -> Result<Vec<Link>> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT kind, host, repo, number FROM link WHERE task = ?1 ORDER BY pk")
            .doing("read links")?;
        let rows = statement
            .query_map([task.to_string()], from_row)
            .doing("read links")?;
        rows.collect::<rusqlite::Result<_>>().doing("read links")
    }

    /// How many links there are in the workspace.
    ///
    /// # Errors
    ///
    /// SQLite refuses.
    pub fn count_links(&self) -> Result<u64> {
        self.conn
            .query_row("SELECT count(*) FROM link", [], |row| row.get(0))
            .doing("count links")
    }
}

impl Tx<'_> {
    /// Ties a task to an issue or pull request. Returns whether that is new.
    ///
    /// # Errors
    ///
    /// The caller is an agent, the task is deleted, or SQLite refuses.
    pub fn link(&mut self, task: TaskId, link: &Link) -> Result<bool> {
        self.refuse_agent("link a task")?;
        self.live_task(task)?;
        let changed = self
            .conn
            .execute(
                "INSERT INTO link (task, kind, host, repo, number, created_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                 ON CONFLICT DO NOTHING",
                (
                    task.to_string(),
                    link.kind.as_str(),
                    &link.host,
                    link.repo.to_string(),
                    link.number,
                    self.now.as_millisecond(),
                ),
            )
            .doing("store a link")?;
        if changed > 0 {
            self.append(
                Event::new(EventType::TaskLinked)
                    .task(task)
                    .with("url", link.url()),
            )?;
        }
        Ok(changed > 0)
    }

    /// Unties a task from an issue or pull request.
    ///
    /// # Errors
    ///
    /// The caller is an agent, there is no such link, or SQLite refuses.
    pub fn unlink(&mut self, task: TaskId, link: &Link) -> Result<()> {
        self.refuse_agent("unlink a task")?;
        self.live_task(task)?;
        let changed = self
            .conn
            .execute(
                "DELETE FROM link WHERE task = ?1 AND host = ?2 AND repo = ?3 AND number = ?4",
                (
                    task.to_string(),
                    &link.host,
                    link.repo.to_string(),
                    link.number,
                ),
            )
            .doing("remove a link")?;
        if changed == 0 {
            let known = self
                .reader()
                .links(task)?
                .iter()
                .map(ToString::to_string)
                .collect();
            return Err(StoreError::Unknown {
                what: "link",
                given: link.to_string(),
                similar: known,
            });
        }
        self.append(
            Event::new(EventType::TaskUnlinked)
                .task(task)
                .with("url", link.url()),
        )?;
        Ok(())
    }
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Link> {
    Ok(Link {
        kind: parsed::<LinkKind>(row, "kind")?,
        host: row.get("host")?,
        repo: parsed(row, "repo")?,
        number: row.get("number")?,
    })
}
