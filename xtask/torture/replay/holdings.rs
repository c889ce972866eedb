//! What every batch holds, as the log tells it: claims on tasks, and attempts that are open. A batch that ends holds
//! nothing, not even for the moment until somebody else looks.

use std::collections::BTreeMap;

use super::Event;

/// Who holds what.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    /// Tasks in progress, and the batch whose claim is on each.
    claims: BTreeMap<String, String>,
    /// Open attempts, and the batch that looks after each. What could not be ended is nobody's.
    open: BTreeMap<String, String>,
}

impl Holdings {
    /// Takes in the next event. Returns what the batch that ends with it, if one does, holds still.
    pub(super) fn take(&mut self, event: &Event) -> Vec<String> {
        let (task, batch) = (event.task.clone(), event.batch.clone());
        match event.kind.as_str() {
            "TASK_STATUS_CHANGED" => {
                let by = event.actor.strip_prefix("batch:");
                match (task, by.filter(|_| event.text("to") == "IN_PROGRESS")) {
                    (Some(task), Some(by)) => {
                        self.claims.insert(task, by.to_owned());
                    }
                    (Some(task), None) => {
                        self.claims.remove(&task);
                    }
                    (None, _) => {}
                }
            }
            "TASK_DELETED" => {
                task.and_then(|task| self.claims.remove(&task));
            }
            "BATCH_TASK_STARTED" => self.open.extend(event.attempt.clone().zip(batch)),
            "ATTEMPT_ADOPTED" => {
                if let (Some(task), Some(batch)) = (task, &batch)
                    && let Some(claim) = self.claims.get_mut(&task)
                    && *claim == event.text("from")
                {
                    claim.clone_from(batch);
                }
                self.open.extend(event.attempt.clone().zip(batch));
            }
            "ATTEMPT_ENDED" => {
                let ended = event.attempt.as_ref();
                ended.and_then(|attempt| self.open.remove(attempt));
            }
            "BATCH_COMPLETED" | "BATCH_PARTIAL" | "BATCH_FAILED" | "BATCH_CANCELLED" => {
                return batch.map_or_else(Vec::new, |batch| self.held_by(&batch));
            }
            _ => {}
        }
        Vec::new()
    }

    fn held_by(&self, batch: &str) -> Vec<String> {
        let of = |held: &BTreeMap<String, String>, what: &str| -> Vec<String> {
            let own = held.iter().filter(|(_, by)| *by == batch);
            own.map(|(id, _)| format!("batch {batch} has ended and {what} {id}"))
                .collect()
        };
        let mut held = of(&self.claims, "still claims task");
        held.extend(of(&self.open, "left open attempt"));
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes in events about the task `t` and the attempt `a`, each with its batch and its data, and returns what is
    /// said of the last one.
    fn last(events: &[(&str, &str, &str)]) -> Vec<String> {
        let mut holdings = Holdings::default();
        let mut said = Vec::new();
        for (kind, batch, data) in events {
            assert!(said.is_empty(), "{said:?}");
            said = holdings.take(&Event {
                seq: 1,
                at_ms: 0,
                kind: (*kind).to_owned(),
                task: Some("t".to_owned()),
                batch: Some((*batch).to_owned()),
                attempt: Some("a".to_owned()),
                actor: format!("batch:{batch}"),
                data: serde_json::from_str(data).unwrap(),
            });
        }
        said
    }

    const CLAIMED: (&str, &str, &str) = ("TASK_STATUS_CHANGED", "b", r#"{"to":"IN_PROGRESS"}"#);
    const STARTED: (&str, &str, &str) = ("BATCH_TASK_STARTED", "b", "{}");
    const ADOPTED: (&str, &str, &str) = ("ATTEMPT_ADOPTED", "c", r#"{"from":"b"}"#);
    const ENDED: (&str, &str, &str) = ("ATTEMPT_ENDED", "c", "{}");
    const SETTLED: (&str, &str, &str) = ("TASK_STATUS_CHANGED", "c", r#"{"to":"FAILED"}"#);
    const OVER: (&str, &str, &str) = ("BATCH_PARTIAL", "c", "{}");

    #[test]
    fn a_batch_that_settled_what_it_took_over_holds_nothing() {
        assert!(last(&[CLAIMED, STARTED, ADOPTED, ENDED, SETTLED, OVER]).is_empty());
    }

    #[test]
    fn what_a_batch_took_over_and_left_is_found() {
        assert_eq!(last(&[CLAIMED, STARTED, ADOPTED, OVER]).len(), 2);
        assert_eq!(last(&[CLAIMED, STARTED, ADOPTED, SETTLED, OVER]).len(), 1);
        assert_eq!(last(&[CLAIMED, STARTED, ADOPTED, ENDED, OVER]).len(), 1);
    }

    #[test]
    fn what_another_batch_holds_is_not_said_of_the_one_that_ends() {
        assert!(last(&[CLAIMED, STARTED, OVER]).is_empty());
        assert!(last(&[CLAIMED, STARTED, ADOPTED, ("BATCH_FAILED", "b", "{}")]).is_empty());
    }
}
