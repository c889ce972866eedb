//! The event log, replayed: what it says that the store must hold.

mod holdings;

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;
use serde_json::Value;

use holdings::Holdings;

/// A task as the log tells it.
#[derive(Debug, Default)]
pub(crate) struct Task {
    pub(crate) key: Option<String>,
    pub(crate) status: String,
    version: i64,
    deleted: bool,
    by: String,
    /// Every status that it had, and since when.
    times: Vec<(i64, String)>,
    /// The event that gave it its status.
    seq: i64,
    /// The last event that answered or resolved a question about it.
    answered: i64,
    /// An attempt whose success nobody has disputed: what its batch writes next is DONE.
    succeeded: Option<String>,
    /// Whether what is open is being stopped.
    stopping: bool,
    /// The attempt that is open.
    open: Option<String>,
    /// The attempt that ended last.
    last: Option<String>,
    /// Whether its work was done by an attempt, and nobody asked for more since.
    done: bool,
}

/// What the log says.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    pub(crate) tasks: BTreeMap<String, Task>,
    /// Batch and task, and the last word about the task's outcome there.
    outcomes: BTreeMap<(String, String), String>,
    /// Attempts whose result was applied or kept as stale, or had nothing to be applied to.
    pub(crate) settled: BTreeSet<String>,
    /// What cannot have happened.
    pub(crate) faults: Vec<String>,
    /// Below this number the log was pruned: what is left there tells where things stood, and not how they came to it.
    horizon: i64,
    /// Attempts of whose end the log tells, where it is whole.
    ended: BTreeSet<String>,
    /// The log itself, in its order.
    pub(crate) events: Vec<Event>,
    /// Batches, and when each was begun or resumed last.
    taken_up: BTreeMap<String, i64>,
    /// Attempts that asked, reported FAILED, or were told to end: they have no success.
    disputed: BTreeSet<String>,
    /// Attempts whose verification was begun.
    verified: BTreeSet<String>,
    /// Tasks with a verification, without which there is no success.
    to_verify: BTreeSet<String>,
    /// What batches hold, where the log is whole.
    holdings: Holdings,
}

/// One line of the log.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) seq: i64,
    pub(crate) at_ms: i64,
    pub(crate) kind: String,
    pub(crate) task: Option<String>,
    batch: Option<String>,
    attempt: Option<String>,
    pub(crate) actor: String,
    data: Value,
}

impl Event {
    pub(crate) fn text(&self, name: &str) -> &str {
        self.data[name].as_str().unwrap_or_default()
    }
}

impl Replay {
    /// Reads the whole log.
    pub(crate) fn of(store: &Connection) -> rusqlite::Result<Self> {
        let mut replay = Self {
            horizon: store.query_row(
                "SELECT coalesce(max(seq), 0) FROM event_horizon",
                [],
                |row| row.get(0),
            )?,
            ..Self::default()
        };
        let mut statement = store.prepare("SELECT id FROM task WHERE verify IS NOT NULL")?;
        let tasks = statement.query_map([], |row| row.get(0))?;
        replay.to_verify = tasks.collect::<rusqlite::Result<_>>()?;
        let mut statement = store.prepare(
            "SELECT seq, at_ms, type, task, batch, attempt, actor, data FROM event ORDER BY seq",
        )?;
        let events = statement.query_map([], |row| {
            Ok(Event {
                seq: row.get(0)?,
                at_ms: row.get(1)?,
                kind: row.get(2)?,
                task: row.get(3)?,
                batch: row.get(4)?,
                attempt: row.get(5)?,
                actor: row.get(6)?,
                data: serde_json::from_str(&row.get::<_, String>(7)?).unwrap_or_default(),
            })
        })?;
        let events: Vec<Event> = events.collect::<rusqlite::Result<_>>()?;
        for event in &events {
            replay.take(event);
        }
        replay.events = events;
        Ok(replay)
    }

    /// Whether the log tells of an attempt's end, with everything that came of it.
    pub(crate) fn ended(&self, attempt: &str) -> bool {
        self.horizon == 0 || self.ended.contains(attempt)
    }

    /// Whether a task of this key had this status at some time in between, or may have had it where the log was pruned.
    pub(crate) fn had(&self, key: &str, status: &str, (from, to): (i64, i64)) -> bool {
        let whole = |event: &&Event| event.seq >= self.horizon;
        if self.horizon > 0
            && self
                .events
                .iter()
                .find(whole)
                .is_none_or(|event| from < event.at_ms)
        {
            return true;
        }
        let of_key = |task: &&Task| task.key.as_deref() == Some(key);
        self.tasks.values().filter(of_key).any(|task| {
            let ends = task.times.iter().skip(1).map(|(at, _)| *at);
            let mut spans = task.times.iter().zip(ends.chain([i64::MAX]));
            spans.any(|((since, was), until)| was == status && *since <= to && until >= from)
        })
    }

    fn fault(&mut self, event: &Event, what: &str) {
        if event.seq < self.horizon {
            return;
        }
        self.faults.push(format!(
            "event {} {} of task {}: {what}",
            event.seq,
            event.kind,
            event.task.as_deref().unwrap_or("-")
        ));
    }

    fn take(&mut self, event: &Event) {
        if event.seq >= self.horizon {
            self.faults.extend(self.holdings.take(event));
        }
        if let ("BATCH_STARTED" | "BATCH_RESUMED", Some(batch)) =
            (event.kind.as_str(), &event.batch)
        {
            self.taken_up.insert(batch.clone(), event.seq);
        }
        let Some(id) = &event.task else { return };
        if let Some(batch) = &event.batch
            && let Some(outcome) = outcome(event)
        {
            self.outcomes
                .insert((batch.clone(), id.clone()), outcome.to_owned());
        }
        let mut wrong = None;
        let mut applied = None;
        let disputed = event
            .attempt
            .as_ref()
            .filter(|_| match event.kind.as_str() {
                "BLOCKER_ASKED" | "TASK_STOP_REQUESTED" | "BATCH_TASK_STOPPING" => true,
                "ATTEMPT_REPORTED" => event.text("status") == "FAILED",
                _ => false,
            });
        self.disputed.extend(disputed.cloned());
        if event.kind == "ATTEMPT_VERIFYING" {
            self.verified.extend(event.attempt.clone());
        }
        let is_success = event.data["success"] == true
            && event.text("end") == "exited"
            && event.attempt.as_ref().is_some_and(|attempt| {
                !self.disputed.contains(attempt)
                    && (self.verified.contains(attempt) || !self.to_verify.contains(id))
            });
        let is_to_verify = self.to_verify.contains(id);
        let task = self.tasks.entry(id.clone()).or_default();
        match event.kind.as_str() {
            "TASK_CREATED" => {
                event.text("status").clone_into(&mut task.status);
                task.times.push((event.at_ms, task.status.clone()));
                task.seq = event.seq;
                task.version = 1;
                task.key = event.data["key"].as_str().map(str::to_owned);
                task.by.clone_from(&event.actor);
            }
            "TASK_STATUS_CHANGED" => {
                let version = event.data["version"].as_i64().unwrap_or_default();
                if event.text("from") != task.status || version != task.version + 1 {
                    wrong = Some(format!(
                        "from {} to version {version}, but it was {} in version {}",
                        event.text("from"),
                        task.status,
                        task.version
                    ));
                }
                if task.status == "DONE" && event.actor.starts_with("batch:") {
                    wrong = Some("a batch took up again what was done".to_owned());
                }
                if let Some(batch) = event.actor.strip_prefix("batch:") {
                    applied = task.last.take();
                    let taken_up = self.taken_up.get(batch).copied().unwrap_or_default();
                    // What came before its status, and gave a reason, may be gone from the log.
                    if task.seq >= self.horizon {
                        let refused = task.refuses(event.text("to"), &event.actor, taken_up);
                        wrong = wrong.or(refused);
                    }
                } else if !event.actor.starts_with("attempt:") {
                    task.done = false;
                }
                event.text("to").clone_into(&mut task.status);
                task.times.push((event.at_ms, task.status.clone()));
                (task.seq, task.succeeded) = (event.seq, None);
                task.version = version;
                task.by.clone_from(&event.actor);
                // What asked for more may be gone from the log, but not the status that came of it.
                task.done &= event.seq >= self.horizon || task.status == "DONE";
            }
            "TASK_DELETED" => {
                task.deleted = true;
                task.version += 1;
                task.succeeded = None;
                task.by.clone_from(&event.actor);
            }
            "BATCH_TASK_STARTED" => {
                if let Some(open) = &task.open
                    && event.attempt.as_ref() != Some(open)
                {
                    wrong = Some(format!("attempt {open} had not ended"));
                }
                if task.done {
                    wrong = Some("it was done, and nobody asked for more".to_owned());
                }
                task.open.clone_from(&event.attempt);
                task.stopping = false;
            }
            "BATCH_TASK_STOPPING" => task.stopping = true,
            // Its agent had succeeded, and its verification, which was to begin, was stopped before it did: a conductor
            // that was killed has stored the one and not done the other.
            "ATTEMPT_STALE_RESULT" if task.stopping && is_to_verify => task.succeeded = None,
            "ATTEMPT_ENDED" => {
                if task.open != event.attempt {
                    wrong = Some(format!("{:?} was the one that ran", task.open));
                }
                task.last.clone_from(&event.attempt);
                if event.seq >= self.horizon {
                    self.ended.extend(event.attempt.clone());
                }
                if is_success
                    && task.seq >= self.horizon
                    && task.status == "IN_PROGRESS"
                    && task.by.starts_with("batch:")
                {
                    task.succeeded.clone_from(&event.attempt);
                }
                if event.text("end") != "unclean" {
                    task.open = None;
                }
            }
            "ATTEMPT_CLEANED" => task.open = None,
            "BLOCKER_ANSWERED" | "BLOCKER_RESOLVED" => task.answered = event.seq,
            "BATCH_TASK_COMPLETED" => task.done = true,
            _ => {}
        }
        if let Some(wrong) = wrong {
            self.fault(event, &wrong);
        }
        self.settled.extend(applied);
        if matches!(
            event.kind.as_str(),
            "ATTEMPT_STALE_RESULT" | "BLOCKER_ASKED"
        ) {
            self.settled.extend(event.attempt.clone());
        }
    }

    /// Where the store says something else than the log.
    pub(crate) fn differences(&self, store: &Connection) -> rusqlite::Result<Vec<String>> {
        let mut differences = Vec::new();
        let mut statement = store.prepare(
            "SELECT id, status, version, deleted_at_ms IS NOT NULL, status_by FROM task",
        )?;
        let stored = statement.query_map([], |row| {
            Ok((
                row.get::<_, String>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, i64>(2)?,
                row.get::<_, bool>(3)?,
                row.get::<_, String>(4)?,
            ))
        })?;
        let mut count = 0;
        for row in stored {
            let (id, status, version, deleted, by) = row?;
            count += 1;
            let told = self.tasks.get(&id);
            if !told.is_some_and(|told| {
                (&told.status, told.version, told.deleted, &told.by)
                    == (&status, version, deleted, &by)
            }) {
                differences.push(format!(
                    "task {id} is {status} in version {version} by {by}, and the log tells {told:?}"
                ));
            }
        }
        if count != self.tasks.len() {
            differences.push(format!(
                "there are {count} tasks, and the log tells of {}",
                self.tasks.len()
            ));
        }
        let mut statement = store
            .prepare("SELECT batch, task, outcome FROM batch_task WHERE outcome IS NOT NULL")?;
        let rows = statement.query_map([], |row| {
            Ok((
                (row.get::<_, String>(0)?, row.get::<_, String>(1)?),
                row.get::<_, String>(2)?,
            ))
        })?;
        for row in rows {
            let (which, outcome) = row?;
            let told = self.outcomes.get(&which);
            if told != Some(&outcome) {
                differences.push(format!(
                    "{which:?} ended {outcome}, and the log tells {told:?}"
                ));
            }
        }
        Ok(differences)
    }
}

impl Task {
    /// Why a batch, which was begun or resumed at an event, may not write a status over what the task is: somebody has
    /// said so since, and the outside world wins.
    fn refuses(&self, to: &str, by: &str, taken_up: i64) -> Option<String> {
        let of_a_batch = ["batch:", "attempt:", "system"];
        let is_theirs = of_a_batch.iter().any(|by| self.by.starts_with(by));
        if let Some(attempt) = &self.succeeded
            && to != "DONE"
        {
            return Some(format!("the success of attempt {attempt} was made {to}"));
        }
        let seen = match (self.status.as_str(), to) {
            ("READY", "IN_PROGRESS") => true,
            // What a batch claimed ends with what became of it.
            ("IN_PROGRESS", _) => is_theirs,
            ("BLOCKED", "READY") => self.seq < taken_up || self.answered > self.seq || is_theirs,
            // Its own word about an attempt that it took over keeps no task from its turn.
            ("FAILED", "READY") => self.seq < taken_up || self.by == by,
            ("BACKLOG", "READY") => self.seq < taken_up,
            _ => false,
        };
        (!seen).then(|| {
            format!(
                "{} made it {}, and a batch made that {to} without having been told to",
                self.by, self.status
            )
        })
    }
}

/// The outcome that an event gives, if it is about one.
fn outcome(event: &Event) -> Option<&'static str> {
    Some(match event.kind.as_str() {
        "BATCH_TASK_COMPLETED" => "COMPLETED",
        "BATCH_TASK_FAILED" => "FAILED",
        "BATCH_TASK_BLOCKED" => "BLOCKED",
        "BATCH_TASK_SKIPPED" => "SKIPPED",
        "BATCH_TASK_CANCELLED" => "CANCELLED",
        "BATCH_TASK_QUEUED"
        | "BATCH_TASK_REQUEUED"
        | "BATCH_TASK_WAITING"
        | "BATCH_TASK_STARTED" => "none",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that has just what is read here.
    fn store(events: &[(&str, &str, &str)]) -> Connection {
        let store = Connection::open_in_memory().unwrap();
        store
            .execute_batch(
                "CREATE TABLE event (seq INTEGER PRIMARY KEY, at_ms DEFAULT 0, type, task, batch, attempt, actor, data);
                 CREATE TABLE task (id, status, version, deleted_at_ms, status_by, verify);
                 CREATE TABLE batch_task (batch, task, outcome);
                  CREATE TABLE event_horizon (seq);
                 INSERT INTO task VALUES ('t', 'DONE', 3, NULL, 'batch:b', NULL);",
            )
            .unwrap();
        for (kind, actor, data) in events {
            store
                .execute(
                    "INSERT INTO event (type, task, batch, attempt, actor, data) VALUES (?1, 't', 'b', 'a', ?2, ?3)",
                    [kind, actor, data],
                )
                .unwrap();
        }
        store
    }

    const LIFE: [(&str, &str, &str); 6] = [
        ("TASK_CREATED", "cli", r#"{"key":"k","status":"READY"}"#),
        (
            "TASK_STATUS_CHANGED",
            "batch:b",
            r#"{"from":"READY","to":"IN_PROGRESS","version":2}"#,
        ),
        ("BATCH_TASK_STARTED", "batch:b", "{}"),
        (
            "ATTEMPT_ENDED",
            "batch:b",
            r#"{"end":"exited","success":true}"#,
        ),
        (
            "TASK_STATUS_CHANGED",
            "batch:b",
            r#"{"from":"IN_PROGRESS","to":"DONE","version":3}"#,
        ),
        ("BATCH_TASK_COMPLETED", "batch:b", "{}"),
    ];

    #[test]
    fn a_life_as_it_should_be_has_no_fault() {
        let store = store(&LIFE);
        let replay = Replay::of(&store).unwrap();
        assert!(replay.faults.is_empty(), "{:?}", replay.faults);
        assert!(replay.differences(&store).unwrap().is_empty());
        assert!(replay.settled.contains("a"));
    }

    #[test]
    fn a_write_that_the_log_lacks_is_found() {
        let mut life = LIFE.to_vec();
        life.remove(1);
        let replay = Replay::of(&store(&life)).unwrap();
        assert_eq!(replay.faults.len(), 1, "{:?}", replay.faults);
        let shorter = store(&LIFE[..4]);
        let replay = Replay::of(&shorter).unwrap();
        assert_eq!(replay.differences(&shorter).unwrap().len(), 1);
    }

    #[test]
    fn a_version_that_is_left_out_is_found_whatever_else_is_right() {
        let mut life = LIFE.to_vec();
        life[4].2 = r#"{"from":"IN_PROGRESS","to":"DONE","version":4}"#;
        let replay = Replay::of(&store(&life)).unwrap();
        assert_eq!(replay.faults.len(), 1, "{:?}", replay.faults);
    }

    #[test]
    fn where_the_log_was_pruned_only_what_it_still_says_must_be_so() {
        // The claim, the start and the end of the attempt are gone.
        let store = store(&[LIFE[0], LIFE[4], LIFE[5]]);
        assert_eq!(Replay::of(&store).unwrap().faults.len(), 1);
        store
            .execute("INSERT INTO event_horizon VALUES (4)", [])
            .unwrap();
        let replay = Replay::of(&store).unwrap();
        assert!(replay.faults.is_empty(), "{:?}", replay.faults);
        assert!(replay.differences(&store).unwrap().is_empty());
        assert!(!replay.ended("a"));
        store
            .execute("DELETE FROM event WHERE seq = 2", [])
            .unwrap();
        let replay = Replay::of(&store).unwrap();
        assert_eq!(
            replay.differences(&store).unwrap().len(),
            1,
            "the newest status must stay"
        );
    }

    #[test]
    fn a_word_from_outside_that_a_batch_writes_over_is_found() {
        let mut life = LIFE.to_vec();
        let word = r#"{"from":"IN_PROGRESS","to":"FAILED","version":3}"#;
        life[3] = ("TASK_STATUS_CHANGED", "cli", word);
        life[4].2 = r#"{"from":"FAILED","to":"READY","version":4}"#;
        let replay = Replay::of(&store(&life)).unwrap();
        assert_eq!(replay.faults.len(), 1, "{:?}", replay.faults);
    }

    #[test]
    fn a_success_that_is_not_stored_is_found() {
        let mut life = LIFE.to_vec();
        life[4].2 = r#"{"from":"IN_PROGRESS","to":"READY","version":3}"#;
        let replay = Replay::of(&store(&life)).unwrap();
        assert_eq!(replay.faults.len(), 1, "{:?}", replay.faults);
    }

    #[test]
    fn work_that_was_done_and_begins_again_is_found() {
        let mut life = LIFE.to_vec();
        life.push(("BATCH_TASK_STARTED", "batch:b", "{}"));
        let replay = Replay::of(&store(&life)).unwrap();
        assert_eq!(replay.faults.len(), 1, "{:?}", replay.faults);
    }
}
