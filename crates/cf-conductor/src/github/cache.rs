//! The client's answers in the store: taken in before a look, put back after it, and a look for commands, which wait.

use std::collections::HashMap;

use cf_core::{Actor, Link, Repo, TaskId, Timestamp};
use cf_github::{Answer, CommentAsk, Comments, FoundAsk, Known, LinkAsk, Proof, Read, Saved};

use super::{GithubSource, locked};
use crate::conductor::event_loop;
use crate::source::github::observe;
use crate::store::follow::{LinkRow, NewComment};
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
        let place = place(&snapshot.host, &snapshot.repo, snapshot.number);
        let key = format!("item {place} {:x}", snapshot.token);
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
    for trouble in &saved.troubles {
        let place = place(&trouble.host, &trouble.repo, trouble.number);
        let key = format!("trouble {place} {:x}", trouble.token);
        match &trouble.why {
            Some(_) => tx.cache_answer(&key, &json(serde_json::to_string(trouble)))?,
            None => tx.forget_answer(&key)?,
        }
    }
    for host in &saved.hosts {
        let key = format!("host {} {:x}", host.host, host.token);
        tx.cache_answer(&key, &json(serde_json::to_string(host)))?;
    }
    Ok(())
}

/// An item in the keys of the cache.
fn place(host: &str, repo: &Repo, number: u64) -> String {
    format!("{host}/{}#{number}", repo.to_string().to_ascii_lowercase())
}

/// What is cached about one item, with whatever token it was read.
pub(super) fn cached_about(reader: &Reader<'_>, link: &Link) -> Result<Saved> {
    let place = place(&link.host, &link.repo, link.number);
    let (repo, _) = place.split_once('#').expect("it has a number");
    let mut saved = Saved::default();
    for text in reader.cached_under(&format!("item {place} "))? {
        saved.snapshots.extend(serde_json::from_str(&text).ok());
    }
    for text in reader.cached_under(&format!("list {repo} "))? {
        saved.marks.extend(serde_json::from_str(&text).ok());
    }
    for text in reader.cached_under(&format!("trouble {place} "))? {
        saved.troubles.extend(serde_json::from_str(&text).ok());
    }
    for text in reader.cached_under(&format!("host {} ", link.host))? {
        saved.hosts.extend(serde_json::from_str(&text).ok());
    }
    Ok(saved)
}

/// Asks GitHub now about everything that these tasks are linked to, waiting for it, and caches the answers. What is
/// fresh costs nothing. With `takes_comments`, the comments that came are stored with them, to be told by the next
/// pass. Returns what a person should hear, a line each.
///
/// # Errors
///
/// The store refuses, or there is no event loop to be had. What GitHub does not answer is no error.
pub fn look_up(
    source: &GithubSource,
    store: &mut Store,
    tasks: Option<&[TaskId]>,
    takes_comments: bool,
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
    let rows: Vec<LinkRow> = rows.into_values().flatten().collect();
    let asks: Vec<LinkAsk> = rows
        .iter()
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
    let answers = event_loop()?.block_on(source.client().look(&asks));
    source.taking_in(Some(asked_at));
    let saved = source.client().take_changed();
    let talks: Vec<(&LinkRow, &Read)> = rows
        .iter()
        .zip(&answers)
        .filter(|_| takes_comments)
        .filter_map(|(row, answer)| match answer {
            Answer::Known(Known {
                comments: Comments::Read(read),
                ..
            }) => Some((row, read)),
            _ => None,
        })
        .collect();
    if !(saved.is_empty() && talks.is_empty()) {
        store.write_as(&Actor::System, Durability::Normal, |tx| {
            keep(tx, &saved)?;
            for (row, read) in &talks {
                // It may have been removed, or moved by another process, since it was asked about.
                let now = tx.reader().link_row(row.pk)?;
                if let Some(now) = now.filter(|now| now.link == row.link) {
                    store_comments(tx, &now, read)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(source
        .take_notices()
        .iter()
        .map(ToString::to_string)
        .collect())
}

/// Stores comments with the watermark: what is newer than the link is news; of what is older, the last ones by
/// people who are trusted are context. While there are some that could not be read the watermark stays, so that they
/// are asked for again.
pub(crate) fn store_comments(tx: &mut Tx<'_>, row: &LinkRow, read: &Read) -> Result<()> {
    let kept: Vec<NewComment<'_>> = read
        .list
        .iter()
        .filter(|comment| observe::is_kept(comment))
        .filter_map(|comment| {
            let news = observe::is_news(row, comment);
            let trusted = comment.association.is_trusted();
            (news || trusted).then(|| NewComment {
                remote_id: &comment.id,
                author: comment.author.as_deref().unwrap_or("ghost"),
                trusted,
                body: &comment.body,
                at: comment.created_at,
                news,
            })
        })
        .collect();
    let first = read.list.first();
    if row.comments_since.is_none()
        && read.more
        && first.is_some_and(|first| observe::is_newer(row, first))
    {
        // More is news than the last ones: all from the link on are read next.
        tx.store_comments(
            row,
            &kept,
            Some(Timestamp::UNIX_EPOCH),
            Some(row.created_at),
        )?;
        return Ok(());
    }
    if read.unread > 0 {
        tx.store_comments(row, &kept, None, None)?;
        return Ok(());
    }
    let newest = read.list.iter().map(|comment| comment.created_at).max();
    // Where there is none yet, whatever comes is written after what was read.
    let since = newest.or_else(|| row.comments_since.is_none().then_some(read.up_to));
    let is_same = row.comments_seen == Some(read.up_to) && row.comments_since >= since;
    if !(is_same && kept.is_empty()) {
        tx.store_comments(row, &kept, Some(read.up_to), since)?;
    }
    Ok(())
}

/// How the comments of a link are asked for: from where the store has them.
pub(crate) const fn comments_of(row: &LinkRow) -> CommentAsk {
    CommentAsk {
        since: row.comments_since,
        seen: row.comments_seen,
        last: cf_github::FIRST_COMMENTS,
    }
}
