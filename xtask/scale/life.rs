//! What happened in a workspace over a year: tasks are added, tied to each other, and run in batch after batch.

mod batches;

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::Answer;
use crate::ids::id;
use crate::make::Size;
use crate::rng::Rng;

/// The end of the year, in milliseconds since 1970: nothing here happens later.
const END_MS: i64 = 1_790_000_000_000;

/// How long the year is.
const YEAR_MS: i64 = 365 * 86_400_000;

const QUESTION: &str =
    "The old format has no time zone: is it UTC, or that of the machine that wrote it?";

const DESCRIPTION: &str = "`parse_date` in src/dates.rs refuses `03-14`. Take the current year when none is given, and \
                           add tests for 29 February, for the turn of the year and for a time zone east of UTC.";

fn title(number: usize) -> String {
    format!("Accept dates without a year in parser number {number}")
}

/// A task as it stands.
struct Task {
    id: String,
    status: &'static str,
    version: u32,
    by: String,
    status_seq: u64,
    claim: Option<String>,
    attempt: Option<String>,
    generation: u32,
}

pub(crate) struct Life<'db> {
    store: &'db Connection,
    size: Size,
    rng: Rng,
    tasks: Vec<Task>,
    /// How many events there are.
    seq: u64,
}

impl<'db> Life<'db> {
    pub(crate) fn new(store: &'db Connection, size: &Size) -> Self {
        Self {
            store,
            size: *size,
            rng: Rng::of_round(size.seed, 0),
            tasks: Vec::new(),
            // `cf init` has written the first.
            seq: 1,
        }
    }

    /// Leads it from the first task to the newest batch.
    pub(crate) fn lead(mut self) -> Answer<()> {
        for _ in 0..self.size.tasks {
            self.add()?;
        }
        self.tie()?;
        let mut first = 0;
        // The newest batch and the questions that are open tell a little more than three events a task.
        let before = self.size.events.saturating_sub(self.size.batch as u64 * 4);
        while self.seq < before {
            self.batch(first, true)?;
            first = (first + self.size.batch) % self.size.tasks;
        }
        self.ask_some()?;
        self.batch(first, false)?;
        self.store_tasks()
    }

    fn now(&self) -> i64 {
        let passed = self.seq.min(self.size.events) as f64 / self.size.events.max(1) as f64;
        END_MS - YEAR_MS + (passed * YEAR_MS as f64) as i64
    }

    fn tell(
        &mut self,
        kind: &str,
        [task, batch, attempt]: [Option<&str>; 3],
        actor: &str,
        data: &Value,
    ) -> Answer<u64> {
        self.seq += 1;
        self.store
            .prepare_cached("INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
            .execute(params![
                self.seq,
                self.now(),
                kind,
                task,
                batch,
                attempt,
                actor,
                data.to_string()
            ])?;
        Ok(self.seq)
    }

    fn add(&mut self) -> Answer<()> {
        let id = id(&mut self.rng);
        let number = self.tasks.len();
        let status = if number % 20 == 19 {
            "BACKLOG"
        } else {
            "READY"
        };
        let data = json!({"key": format!("t{number}"), "status": status, "title": title(number)});
        let status_seq = self.tell("TASK_CREATED", [Some(&id), None, None], "cli", &data)?;
        self.tasks.push(Task {
            id,
            status,
            version: 1,
            by: "cli".to_owned(),
            status_seq,
            claim: None,
            attempt: None,
            generation: 0,
        });
        Ok(())
    }

    /// The first tenth is one chain; of the others each depends on up to two of the thousand before it.
    fn tie(&mut self) -> Answer<()> {
        let chain = self.size.tasks / 10;
        let mut ties = Vec::new();
        for task in 1..self.tasks.len() {
            if task < chain {
                ties.push((task, task - 1));
                continue;
            }
            let first = chain.max(task.saturating_sub(1_000));
            let mut on: Vec<u64> = (0..self.rng.within(0, 3))
                .filter(|_| first < task)
                .map(|_| self.rng.within(first as u64, task as u64))
                .collect();
            on.sort_unstable();
            on.dedup();
            ties.extend(on.into_iter().map(|on| (task, on as usize)));
        }
        for (task, on) in ties {
            let (task, on) = (self.tasks[task].id.clone(), self.tasks[on].id.clone());
            let data = json!({"on": on, "added": true});
            self.tell(
                "TASK_DEPENDENCY_CHANGED",
                [Some(&task), None, None],
                "cli",
                &data,
            )?;
            self.store
                .prepare_cached("INSERT INTO dependency VALUES (?1, ?2)")?
                .execute([task, on])?;
        }
        Ok(())
    }

    /// One in a hundred tasks waits for an answer.
    fn ask_some(&mut self) -> Answer<()> {
        for number in (7..self.tasks.len()).step_by(100) {
            self.ask(number)?;
            self.status(number, "BLOCKED", "cli", None)?;
        }
        Ok(())
    }

    fn ask(&mut self, number: usize) -> Answer<()> {
        let question = id(&mut self.rng);
        let task = self.tasks[number].id.clone();
        let data = json!({"blocker": question, "question": QUESTION, "asked_by": "human"});
        let seq = self.tell("BLOCKER_ASKED", [Some(&task), None, None], "cli", &data)?;
        self.store
            .prepare_cached(
                "INSERT INTO blocker (id, task, question, status, asked_by, asked_at_ms, asked_seq) \
                 VALUES (?1, ?2, ?3, 'OPEN', 'human', ?4, ?5)",
            )?
            .execute(params![question, task, QUESTION, self.now(), seq])?;
        Ok(())
    }

    fn store_tasks(&self) -> Answer<()> {
        let mut statement = self.store.prepare(
            "INSERT INTO task (id, key, title, description, run, env, priority, status, version, status_by, \
             status_seq, claim, attempt, generation, created_at_ms, updated_at_ms) \
             VALUES (?1, ?2, ?3, ?4, 'true', '{}', ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?13)",
        )?;
        for (number, task) in self.tasks.iter().enumerate() {
            statement.execute(params![
                task.id,
                format!("t{number}"),
                title(number),
                DESCRIPTION,
                number % 3,
                task.status,
                task.version,
                task.by,
                task.status_seq,
                task.claim,
                task.attempt,
                task.generation,
                END_MS - YEAR_MS,
            ])?;
            if number % 20 == 3 {
                self.store
                    .prepare_cached(
                        "INSERT INTO link (task, kind, host, repo, number, created_at_ms) \
                         VALUES (?1, 'issue', 'github.com', 'octocat/hello-world', ?2, ?3)",
                    )?
                    .execute(params![task.id, number, END_MS - YEAR_MS])?;
            }
        }
        Ok(())
    }

    fn status(
        &mut self,
        number: usize,
        to: &'static str,
        by: &str,
        batch: Option<&str>,
    ) -> Answer<()> {
        let task = &mut self.tasks[number];
        if task.status == to {
            return Ok(());
        }
        let from = std::mem::replace(&mut task.status, to);
        task.version += 1;
        by.clone_into(&mut task.by);
        task.claim = batch.filter(|_| to == "IN_PROGRESS").map(str::to_owned);
        let data = json!({"from": from, "to": to, "version": task.version});
        let id = task.id.clone();
        let seq = self.tell("TASK_STATUS_CHANGED", [Some(&id), batch, None], by, &data)?;
        self.tasks[number].status_seq = seq;
        Ok(())
    }
}
