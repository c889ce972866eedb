//! Tasks from the issues of a repository.
//!
//! Everything is read first and stored in one transaction. A second import updates what the first one made, by key, and
//! leaves statuses alone. What somebody wrote who is not trusted arrives as BACKLOG, marked.

use std::collections::HashMap;

use cf_core::{Actor, Link, LinkKind, Repo, TaskId, TaskKey, TaskStatus};
use cf_github::{
    Blocking, CloseReason, Comment, FIRST_COMMENTS, ImportedIssue, ItemState, Why,
    blockers_named_in,
};
pub use cf_github::{IssueFilter, IssueStates};

use super::GithubSource;
use super::cache::keep;
use crate::conductor::ConductorError;
use crate::conductor::event_loop;
use crate::store::follow::NewComment;
use crate::store::task::{Task, TaskEdit, TaskSpec};
use crate::store::{Reader, Result, Store, StoreError, Tx};

/// What is to be imported.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The host.
    pub host: String,
    /// The repository.
    pub repo: Repo,
    /// Which issues.
    pub filter: IssueFilter,
}

/// How far the reading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportProgress {
    /// How many issues were read.
    pub read: u64,
    /// How many there are, as far as GitHub says.
    pub total: Option<u64>,
}

/// A task that an import made or met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedTask {
    /// The task.
    pub id: TaskId,
    /// Its key.
    pub key: Option<TaskKey>,
    /// The issue's number.
    pub number: u64,
    /// Whether this import made it.
    pub added: bool,
    /// Whether its author is an owner, member or collaborator of the repository.
    pub trusted: bool,
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The tasks, in the order of the issues.
    pub tasks: Vec<ImportedTask>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// Makes tasks from issues, or brings those up to date that an earlier import made. Waits for GitHub.
///
/// # Errors
///
/// GitHub cannot be asked or does not answer, or the store refuses; nothing is stored then.
pub fn import(
    source: &GithubSource,
    store: &mut Store,
    actor: &Actor,
    request: &ImportRequest,
    progress: &mut dyn FnMut(ImportProgress),
) -> std::result::Result<Imported, ConductorError> {
    if let Actor::Attempt(_) = actor {
        return Err(StoreError::NotForAgents {
            deed: "import issues".to_owned(),
        }
        .into());
    }
    store.read(|reader| source.load(reader))?;
    let read = event_loop()?.block_on(read(source, request, progress));
    let saved = source.client().take_changed();
    source.take_notices();
    let (result, issues, unreadable) = match read {
        Ok((issues, unreadable)) => (None, issues, unreadable),
        Err(error) => (Some(error), Vec::new(), 0),
    };
    let imported = store.write(actor, |tx| {
        keep(tx, &saved)?;
        if result.is_some() {
            return Ok(Imported::default());
        }
        let mut made = Making {
            request,
            by_number: HashMap::new(),
            imported: Imported::default(),
        };
        for issue in &issues {
            made.task(tx, issue)?;
        }
        for issue in &issues {
            made.dependencies(tx, issue)?;
        }
        made.imported.notes.extend(match unreadable {
            0 => None,
            1 => Some("1 of the issues cannot be read, and is left out".to_owned()),
            n => Some(format!(
                "{n} of the issues cannot be read, and are left out"
            )),
        });
        Ok(made.imported)
    })?;
    match result {
        Some(error) => Err(error),
        None => Ok(imported),
    }
}

async fn read(
    source: &GithubSource,
    request: &ImportRequest,
    progress: &mut dyn FnMut(ImportProgress),
) -> std::result::Result<(Vec<ImportedIssue>, usize), ConductorError> {
    let refused = |error: cf_github::ImportError| {
        ConductorError::Refused {
        what: error.to_string(),
        hint: match error {
            cf_github::ImportError::Host(_) => {
                Some("`cf github status` shows which tokens are found".to_owned())
            }
            cf_github::ImportError::Failed {
                why: Why::TokenRejected,
                ..
            } => Some("nothing was imported; make a new token, or sign in again".to_owned()),
            cf_github::ImportError::Failed { .. } => {
                Some("nothing was imported; try again later".to_owned())
            }
            cf_github::ImportError::TooMany { .. } => Some(
                "nothing was imported; choose some with --label, --milestone, --assignee or --limit"
                    .to_owned(),
            ),
            cf_github::ImportError::NoRepository { .. }
            | cf_github::ImportError::NoMilestone { .. } => None,
        },
    }
    };
    let filter = IssueFilter {
        comments: FIRST_COMMENTS,
        ..request.filter.clone()
    };
    let mut listing = source
        .client()
        .list_issues(&request.host, request.repo.clone(), filter)
        .map_err(refused)?;
    let mut issues: Vec<ImportedIssue> = Vec::new();
    let mut unreadable = 0;
    while let Some(page) = listing.next().await.map_err(refused)? {
        issues.extend(page.issues);
        unreadable += page.unreadable;
        progress(ImportProgress {
            read: issues.len() as u64,
            total: page.total,
        });
    }
    Ok((issues, unreadable))
}

struct Making<'r> {
    request: &'r ImportRequest,
    by_number: HashMap<u64, TaskId>,
    imported: Imported,
}

impl Making<'_> {
    fn link(&self, repo: &Repo, number: u64) -> Link {
        Link {
            host: self.request.host.clone(),
            repo: repo.clone(),
            number,
            kind: LinkKind::Issue,
        }
    }

    fn task(&mut self, tx: &mut Tx<'_>, issue: &ImportedIssue) -> Result<()> {
        let link = self.link(&self.request.repo, issue.number);
        let trusted = issue.association.is_trusted();
        let (key, stored) = name(&tx.reader(), &link)?;
        let title = match issue.title.trim() {
            "" => format!("issue {}", issue.number),
            title => title.to_owned(),
        };
        let (id, key, added) = if let Some(task) = stored {
            tx.edit_task(
                task.id,
                &TaskEdit {
                    title: Some(title),
                    description: Some(issue.body.clone()),
                    priority: priority(&issue.labels),
                    ..TaskEdit::default()
                },
            )?;
            (task.id, task.key, false)
        } else {
            let spec = TaskSpec {
                key: Some(key.clone()),
                title,
                description: issue.body.clone(),
                priority: priority(&issue.labels).unwrap_or_default(),
                ..TaskSpec::default()
            };
            let id = tx.add_task_as(&spec, first_status(issue, trusted))?;
            (id, Some(key), true)
        };
        tx.set_origin(
            id,
            (!trusted)
                .then(|| format!("{} {}#{}", link.host, link.repo, link.number))
                .as_deref(),
        )?;
        if tx.link(id, &link)? {
            keep_comments(tx, id, &link, issue)?;
        }
        self.by_number.insert(issue.number, id);
        self.imported.tasks.push(ImportedTask {
            id,
            key,
            number: issue.number,
            added,
            trusted,
        });
        Ok(())
    }

    /// What blocks an issue, by the tracker's word and by its own text, as far as there are tasks for it.
    fn dependencies(&mut self, tx: &mut Tx<'_>, issue: &ImportedIssue) -> Result<()> {
        let Some(&task) = self.by_number.get(&issue.number) else {
            return Ok(());
        };
        let named = blockers_named_in(&issue.body)
            .into_iter()
            .map(|number| Blocking {
                repo: self.request.repo.clone(),
                number,
                open: true,
            });
        for blocking in issue.blocked_by.iter().cloned().chain(named) {
            let ours = blocking.repo == self.request.repo;
            if !blocking.open || (ours && blocking.number == issue.number) {
                continue;
            }
            let on = match self.by_number.get(&blocking.number).filter(|_| ours) {
                Some(&id) => Some(id),
                None => linked(&tx.reader(), &self.link(&blocking.repo, blocking.number))?
                    .map(|task| task.id),
            };
            let (from, to) = (issue.number, blocking.number);
            match on {
                None => self.imported.notes.push(format!(
                    "#{from} waits for {}#{to}, for which there is no task",
                    if ours {
                        String::new()
                    } else {
                        blocking.repo.to_string()
                    }
                )),
                Some(on) => match tx.add_dependency(task, on) {
                    Ok(_) => {}
                    Err(StoreError::DependsOnItself(_)) => self
                        .imported
                        .notes
                        .push(format!("#{from} is not made to wait for itself")),
                    Err(StoreError::Cycle(_)) => self.imported.notes.push(format!(
                        "#{from} is not made to wait for #{to}: they would wait for each other"
                    )),
                    Err(other) => return Err(other),
                },
            }
        }
        Ok(())
    }
}

/// The key of an issue's task, and that task when there is one already. A key that belongs to something else is left
/// to it, and the owner goes into the key as well.
fn name(reader: &Reader<'_>, link: &Link) -> Result<(TaskKey, Option<Task>)> {
    let short = key_of(link.repo.name(), link.number);
    let long = key_of(
        &format!("{}-{}", link.repo.owner(), link.repo.name()),
        link.number,
    );
    for key in [&short, &long] {
        match reader.task_with_key(key)? {
            None => return Ok((key.clone(), None)),
            Some(task) if is_linked(reader, task.id, link)? => {
                return Ok((key.clone(), Some(task)));
            }
            Some(_) => {}
        }
    }
    Err(StoreError::Refused {
        what: format!("both keys for {link} are taken by other tasks: {short} and {long}"),
        hint: Some(format!(
            "give one of them another key with `cf tasks edit {short} --key KEY`"
        )),
    })
}

fn is_linked(reader: &Reader<'_>, task: TaskId, link: &Link) -> Result<bool> {
    Ok(reader.links(task)?.iter().any(|known| is_same(known, link)))
}

/// Whether both are about the same item; issues and pull requests share one sequence of numbers.
fn is_same(one: &Link, other: &Link) -> bool {
    one.host == other.host && one.repo == other.repo && one.number == other.number
}

/// The task that an import made for an issue, by its key.
fn linked(reader: &Reader<'_>, link: &Link) -> Result<Option<Task>> {
    match name(reader, link) {
        Ok((_, task)) => Ok(task),
        // Both names belong to something else, so no import made a task for it.
        Err(StoreError::Refused { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

/// A key from a repository's name and a number, as near to them as keys allow.
fn key_of(name: &str, number: u64) -> TaskKey {
    let number = number.to_string();
    let mut text: String = name
        .to_ascii_lowercase()
        .trim_start_matches(|c: char| !c.is_ascii_alphanumeric())
        .to_owned();
    while text.contains("..") {
        text = text.replace("..", ".");
    }
    text.truncate(63 - number.len());
    if text.is_empty() {
        text.push_str("issue");
    }
    format!("{text}-{number}")
        .parse()
        .expect("lower-case letters and digits, points and hyphens, at most 64, ending in a digit")
}

fn first_status(issue: &ImportedIssue, trusted: bool) -> TaskStatus {
    match issue.state {
        ItemState::Closed {
            reason: CloseReason::Completed | CloseReason::Unstated,
            ..
        } => TaskStatus::Done,
        ItemState::Closed { .. } => TaskStatus::Backlog,
        _ if trusted => TaskStatus::Ready,
        _ => TaskStatus::Backlog,
    }
}

/// The priority that labels name, as people write them: `P1`, `priority: 1`, `priority/high`.
fn priority(labels: &[String]) -> Option<i64> {
    labels
        .iter()
        .filter_map(|label| {
            let label = label.to_ascii_lowercase();
            let (word, named) = match label.strip_prefix("priority") {
                Some(rest) => (rest.trim_start_matches([':', '/', '-', '_', ' ']), true),
                None => (label.as_str(), false),
            };
            let digit = |text: &str| match text.as_bytes() {
                [digit @ b'0'..=b'9'] => Some(i64::from(digit - b'0')),
                _ => None,
            };
            match word {
                "critical" | "urgent" | "highest" if named => Some(0),
                "high" if named => Some(1),
                "medium" | "normal" if named => Some(2),
                "low" if named => Some(3),
                "lowest" if named => Some(4),
                _ => word
                    .strip_prefix('p')
                    .and_then(digit)
                    .or_else(|| digit(word).filter(|_| named)),
            }
        })
        .min()
}

/// The comments that were there when the link was made: context, and no news. Where they could not be read, nothing is
/// noted either: the look before the task's first start reads them.
fn keep_comments(tx: &mut Tx<'_>, task: TaskId, link: &Link, issue: &ImportedIssue) -> Result<()> {
    let Some(read) = &issue.comments else {
        return Ok(());
    };
    let rows = tx.reader().link_rows(task)?;
    let Some(row) = rows.iter().find(|row| is_same(&row.link, link)) else {
        return Ok(());
    };
    let wanted: Vec<&Comment> = read
        .iter()
        .filter(|comment| comment.association.is_trusted() && !comment.by_bot && !comment.minimized)
        .collect();
    let comments: Vec<NewComment<'_>> = wanted
        .iter()
        .map(|comment| NewComment {
            remote_id: &comment.id,
            author: comment.author.as_deref().unwrap_or("ghost"),
            trusted: true,
            body: &comment.body,
            at: comment.created_at,
            news: false,
        })
        .collect();
    // Times are whole seconds: within the one of the last change more may follow.
    let seen = issue
        .updated_at
        .checked_sub(std::time::Duration::from_secs(1))
        .unwrap_or(issue.updated_at);
    let newest = read.iter().map(|comment| comment.created_at).max();
    let since = newest.or(Some(seen));
    tx.store_comments(row, &comments, Some(seen), since)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("hello-world", 12 => "hello-world-12"; "plain")]
    #[test_case(".GitHub", 1 => "github-1"; "a leading point")]
    #[test_case("a..b", 1 => "a.b-1"; "two points")]
    #[test_case("___", 7 => "issue-7"; "nothing is left")]
    #[test_case(&"x".repeat(100), 12345 => format!("{}-12345", "x".repeat(58)); "a long name")]
    fn keys(name: &str, number: u64) -> String {
        key_of(name, number).to_string()
    }

    #[test_case(&["P1"] => Some(1); "short")]
    #[test_case(&["bug", "priority: high"] => Some(1); "in words")]
    #[test_case(&["priority/2", "p3"] => Some(2); "the most urgent one")]
    #[test_case(&["high", "p10", "2", "prio"] => None; "no priorities")]
    fn priorities(labels: &[&str]) -> Option<i64> {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        priority(&labels)
    }
}
