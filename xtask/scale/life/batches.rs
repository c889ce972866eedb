//! The batches of the year: every one runs its tasks to the end but the newest.

use rusqlite::params;
use serde_json::{Value, json};

use super::Life;
use crate::Answer;
use crate::ids::id;

/// How many agents are at work in the newest batch.
const AT_WORK: usize = 500;

/// What a batch runs with, as `cf` stores it.
const SETTINGS: &str = r#"{"strategy":"parallel","max_parallel":500,"on_failure":"continue","retry":1,"retry_delay_ms":5000,"timeout_ms":null,"stall_timeout_ms":null,"kill_grace_ms":10000,"ask_grace_ms":120000,"reconcile_interval_ms":30000,"wait_for_blockers":"off","engine":null,"isolation":"none","leftovers":"stop","keep":[],"log_head_bytes":8388608,"log_tail_bytes":25165824,"github":{"closed_unmerged":"fail","settle_ms":60000,"wait_ms":10000,"comments_from":"members"},"git":{"author":null,"timeout_ms":600000},"from_rescue":false}"#;

/// A task's place in a batch.
struct Place {
    phase: &'static str,
    outcome: Option<&'static str>,
    reason: Option<&'static str>,
    attempts: u32,
    since: u64,
}

impl Place {
    const fn finished(
        outcome: &'static str,
        reason: &'static str,
        attempts: u32,
        since: u64,
    ) -> Self {
        Self {
            phase: "finished",
            outcome: Some(outcome),
            reason: Some(reason),
            attempts,
            since,
        }
    }
}

impl Life<'_> {
    /// Runs a batch over the tasks from `first` on, to its end or to its middle.
    pub(super) fn batch(&mut self, first: usize, ends: bool) -> Answer<()> {
        let batch = id(&mut self.rng);
        let by = format!("batch:{batch}");
        let of_batch = [None, Some(batch.as_str()), None];
        let settings: Value = serde_json::from_str(SETTINGS)?;
        let data = json!({"tasks": self.size.batch, "settings": settings});
        let began = self.tell("BATCH_STARTED", of_batch, "cli", &data)?;
        let started_at = self.now();
        for position in 0..self.size.batch {
            let number = (first + position) % self.size.tasks;
            let place = if !ends && position >= self.size.batch / 2 {
                self.half(number, &batch, &by, position - self.size.batch / 2)?
            } else {
                self.whole(number, &batch, &by)?
            };
            self.store
                .prepare_cached(
                    "INSERT INTO batch_task (batch, position, task, phase, outcome, reason, attempts, since_seq, \
                     take_up_seq, started_at_ms, ended_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                )?
                .execute(params![
                    batch,
                    position,
                    self.tasks[number].id,
                    place.phase,
                    place.outcome,
                    place.reason,
                    place.attempts,
                    place.since,
                    began,
                    (place.attempts > 0).then(|| self.now()),
                    place.outcome.map(|_| self.now() + 1_000),
                ])?;
        }
        let (status, code, ended_at) = if ends {
            self.tell("BATCH_PARTIAL", of_batch, &by, &json!({"exit_code": 3}))?;
            ("PARTIAL", Some(3), Some(self.now()))
        } else {
            ("RUNNING", None, None)
        };
        self.store.execute(
            "INSERT INTO batch (id, status, settings, exit_code, started_at_ms, ended_at_ms) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![batch, status, SETTINGS, code, started_at, ended_at],
        )?;
        if ends {
            self.store.execute(
                "INSERT INTO batch_total (batch, completed, failed, blocked, skipped, cancelled) \
                 SELECT batch, count(*) FILTER (WHERE outcome = 'COMPLETED'), \
                 count(*) FILTER (WHERE outcome = 'FAILED'), count(*) FILTER (WHERE outcome = 'BLOCKED'), \
                 count(*) FILTER (WHERE outcome = 'SKIPPED'), count(*) FILTER (WHERE outcome = 'CANCELLED') \
                 FROM batch_task WHERE batch = ?1 GROUP BY batch",
                [&batch],
            )?;
        }
        Ok(())
    }

    /// A task that has not come to its end: an agent is at work on the first of them, the others are queued.
    fn half(&mut self, number: usize, batch: &str, by: &str, place: usize) -> Answer<Place> {
        self.take_up(number, batch, by)?;
        let (phase, attempts) = if place < AT_WORK {
            self.status(number, "IN_PROGRESS", by, Some(batch))?;
            self.attempt(number, batch, by, None)?;
            ("running", 1)
        } else {
            ("queued", 0)
        };
        Ok(Place {
            phase,
            outcome: None,
            reason: None,
            attempts,
            since: 0,
        })
    }

    /// A task that was done: by one attempt in most cases, by two in some, in a few by somebody else.
    fn whole(&mut self, number: usize, batch: &str, by: &str) -> Answer<Place> {
        self.take_up(number, batch, by)?;
        let task = self.tasks[number].id.clone();
        let label = format!("t{number}");
        let ids = [Some(task.as_str()), Some(batch), None];
        if self.rng.once_in(50) {
            let data = json!({"action": "SKIP", "evidence": {"status": "DONE", "version": 2}, "label": label,
                "phase": "finished", "phase_before": "queued", "reason": "externally completed", "source": "local"});
            self.status(number, "DONE", "cli", None)?;
            let since = self.tell("BATCH_TASK_SKIPPED", ids, by, &data)?;
            return Ok(Place::finished("SKIPPED", "externally completed", 0, since));
        }
        self.status(number, "IN_PROGRESS", by, Some(batch))?;
        let mut attempts = 1;
        if self.rng.once_in(20) {
            attempts = 2;
            self.attempt(number, batch, by, Some(false))?;
            let data = json!({"due": "2026-01-01T00:00:00Z", "failures": 1, "label": label, "phase": "queued",
                "phase_before": "running", "reason": "exit code 1"});
            self.tell("BATCH_TASK_RETRYING", ids, by, &data)?;
        }
        let failed = self.rng.once_in(20);
        self.attempt(number, batch, by, Some(!failed))?;
        let (status, kind, outcome, reason) = if failed {
            ("FAILED", "BATCH_TASK_FAILED", "FAILED", "exit code 1")
        } else {
            ("DONE", "BATCH_TASK_COMPLETED", "COMPLETED", "succeeded")
        };
        self.status(number, status, by, Some(batch))?;
        let data = json!({"attempts": attempts, "label": label, "phase": "finished", "phase_before": "running",
            "reason": reason});
        let since = self.tell(kind, ids, by, &data)?;
        Ok(Place::finished(outcome, reason, attempts, since))
    }

    fn take_up(&mut self, number: usize, batch: &str, by: &str) -> Answer<()> {
        self.status(number, "READY", by, Some(batch))?;
        let task = self.tasks[number].id.clone();
        let data = json!({"label": format!("t{number}"), "phase": "waiting"});
        self.tell(
            "BATCH_TASK_QUEUED",
            [Some(&task), Some(batch), None],
            by,
            &data,
        )?;
        Ok(())
    }

    /// One attempt, and its end where it has come to one.
    fn attempt(
        &mut self,
        number: usize,
        batch: &str,
        by: &str,
        success: Option<bool>,
    ) -> Answer<()> {
        let attempt = id(&mut self.rng);
        let task = &mut self.tasks[number];
        task.generation += 1;
        task.attempt = Some(attempt.clone());
        let (task, generation) = (task.id.clone(), task.generation);
        let ids = [Some(task.as_str()), Some(batch), Some(attempt.as_str())];
        let data = json!({"format": "exit-zero", "generation": generation, "label": format!("t{number}"),
            "phase": "running", "phase_before": "queued"});
        self.tell("BATCH_TASK_STARTED", ids, by, &data)?;
        let started_at = self.now();
        let code = success.map(|success| i32::from(!success));
        let reason = code.map(|code| format!("exit code {code}"));
        if let Some(success) = success {
            let data = json!({"end": "exited", "reason": reason, "success": success});
            self.tell("ATTEMPT_ENDED", ids, by, &data)?;
        }
        let record = code.map(|code| {
            json!({"active_ms": 1_000, "at_ms": started_at + 1_000, "attempt": attempt, "clean": true,
                "ending": {"code": code}, "how": "exited", "log_bytes": 1_000, "stage": "agent"})
            .to_string()
        });
        self.store
            .prepare_cached(
                "INSERT INTO attempt (id, task, batch, generation, engine, stage, supervisor, supervisor_pid, \
                 start_ticks, boot_id, pid_ns, open, ending, agent_ending, success, reason, record, started_at_ms, \
                 ended_at_ms, format) VALUES (?1, ?2, ?3, ?4, 'shell', 'agent', ?5, 4194000, 1, ?6, 1, ?7, ?8, ?9, \
                 ?10, ?11, ?12, ?13, ?14, 'exit-zero')",
            )?
            .execute(params![
                attempt,
                task,
                batch,
                generation,
                id(&mut self.rng),
                "00000000-0000-4000-8000-000000000000",
                success.is_none(),
                success.map(|_| "exited"),
                code.map(|code| json!({ "code": code }).to_string()),
                success,
                reason,
                record,
                started_at,
                success.map(|_| started_at + 1_000),
            ])?;
        Ok(())
    }
}
