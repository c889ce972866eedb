//! The client's answers in the store: taken in before a look, put back after it, and a look for commands, which wait.

use std::collections::HashMap;

use cf_core::{Actor, TaskId, Timestamp};
use cf_github::{CommentAsk, FoundAsk, LinkAsk, Proof, Saved};

use super::{GithubSource, locked};
use crate::store::follow::LinkRow;
use crate::store::{Durability, Reader, Result, Store, Tx, now};

/// What a row was stored under may be older than its commit by so much, so that it is read once more.
const OVERLAP_MS: i64 = 5_000;

impl GithubSource {
    /// Takes in what this and other processes have cached since the last call.
    pub(crate) fn load(&self, reader: &Reader<'_>) -> Result<()> {
        let after = locked(&self.0.loaded_ms).map_or(i64::MIN, |ms| ms - OVERLAP_MS);
        let at = now().as_millisecond();
        let mut saved = Saved::default();
        for (key, text) in reader.github_cache(after)? {
            // What another version wrote is asked for again.
            match key.split(' ').next() {
                Some("item") => saved.snapshots.extend(serde_json::from_str(&text).ok()),
                Some("list") => saved.marks.extend(serde_json::from_str(&text).ok()),
                Some("host") => saved.hosts.extend(serde_json::from_str(&text).ok()),
                _ => {}
            }
        }
        *locked(&self.0.loaded_ms) = Some(at);
        self.0.client.load(saved);
        Ok(())
    }
}

/// Puts what a look has learned into the store.
pub(crate) fn keep(tx: &mut Tx<'_>, saved: &Saved) -> Result<()> {
    let json = |value: serde_json::Result<String>| value.expect("answers are JSON");
    for snapshot in &saved.snapshots {
        let key = format!(
            "item {}/{}#{} {:x}",
            snapshot.host,
            snapshot.repo.to_string().to_ascii_lowercase(),
            snapshot.number,
            snapshot.token
        );
        tx.cache_answer(&key, &json(serde_json::to_string(snapshot)))?;
    }
    for mark in &saved.marks {
        let key = format!(
            "list {}/{} {:x}",
            mark.host,
            mark.repo.to_string().to_ascii_lowercase(),
            mark.token
        );
        tx.cache_answer(&key, &json(serde_json::to_string(mark)))?;
    }
    for host in &saved.hosts {
        let key = format!("host {} {:x}", host.host, host.token);
        tx.cache_answer(&key, &json(serde_json::to_string(host)))?;
    }
    Ok(())
}

/// Asks GitHub now about everything that these tasks are linked to, waiting for it, and caches the answers. What is
/// fresh costs nothing. Returns what a person should hear, a line each.
///
/// # Errors
///
/// The store refuses, or there is no event loop to be had. What GitHub does not answer is no error.
pub fn look_up(
    source: &GithubSource,
    store: &mut Store,
    tasks: Option<&[TaskId]>,
) -> std::result::Result<Vec<String>, crate::conductor::ConductorError> {
    if !source.is_on() {
        return Ok(Vec::new());
    }
    let rows = store.read(|reader| {
        let mut rows: HashMap<TaskId, Vec<LinkRow>> = HashMap::new();
        if !reader.has_links()? {
            return Ok(rows);
        }
        match tasks {
            None => rows = reader.all_link_rows()?,
            Some(tasks) => {
                for task in tasks {
                    rows.insert(*task, reader.link_rows(*task)?);
                }
            }
        }
        source.load(reader)?;
        Ok(rows)
    })?;
    let asks: Vec<LinkAsk> = rows
        .values()
        .flatten()
        .map(|row| LinkAsk {
            proof: Proof::Listed,
            comments: Some(comments_of(row)),
            found: FoundAsk::WhenMoved,
            ..LinkAsk::state(row.link.clone(), source.interval(&row.link.host))
        })
        .collect();
    if asks.is_empty() {
        return Ok(Vec::new());
    }
    let asked_at = Timestamp::now();
    runtime()?.block_on(source.client().look(&asks));
    source.taking_in(Some(asked_at));
    let saved = source.client().take_changed();
    if !saved.is_empty() {
        store.write_as(&Actor::System, Durability::Normal, |tx| keep(tx, &saved))?;
    }
    Ok(source
        .take_notices()
        .iter()
        .map(ToString::to_string)
        .collect())
}

/// How the comments of a link are asked for: from where the store has them.
pub(crate) const fn comments_of(row: &LinkRow) -> CommentAsk {
    CommentAsk {
        since: row.comments_since,
        seen: row.comments_seen,
        last: cf_github::FIRST_COMMENTS,
    }
}

/// An event loop for a command that waits for GitHub.
pub(super) fn runtime()
-> std::result::Result<tokio::runtime::Runtime, crate::conductor::ConductorError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| crate::conductor::ConductorError::System {
            what: "start the event loop",
            source,
        })
}
