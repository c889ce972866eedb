//! What follows: merges, effects, dependencies, and the ends of tasks and batches.

use std::time::Duration;

use cf_core::{Outcome, Phase};
use cf_reconcile::{
    AfterEnd, AfterStop, Counts, Dependency, DependencyCause, DependencyState, Effect, Evidence,
    FailureCause, LiveClaim, Reason, ReconcileAction, ReconciliationResult, SourceName, Standing,
    StopCause, Stored, WaitingDecision, WrittenSince, decide_waiting, final_status, may_retry,
    merge, plan, retry_delay, standing,
};

use super::{stored_word, words};
use crate::grid::{Axis, row, table};

pub(super) fn merges() -> String {
    let axes = [
        Axis::new("phase", Phase::ALL),
        Axis::new("earlier source", ReconcileAction::ALL),
        Axis::new("later source", ReconcileAction::ALL),
    ];
    table(&axes, &["winner"], |at| {
        let finding = |action: ReconcileAction, source: SourceName| ReconciliationResult {
            task_id: "00000000-0000-0000-0000-000000000000"
                .parse()
                .expect("a UUID"),
            current_status: None,
            external_status: None,
            believed: Phase::ALL[at[0]],
            action,
            reason: Reason::NothingNew,
            source,
            evidence: Evidence::None,
        };
        let (earlier, later) = (ReconcileAction::ALL[at[1]], ReconcileAction::ALL[at[2]]);
        let merged = merge([
            finding(earlier, SourceName::Local),
            finding(later, SourceName::Github),
        ]);
        let winner = merged.expect("there are findings").winner.source;
        vec![if winner == SourceName::Local {
            "the earlier".to_owned()
        } else {
            "the later".to_owned()
        }]
    })
}

fn effect_word(effect: Effect) -> &'static str {
    match effect {
        Effect::Nothing => "–",
        Effect::DropFromQueue => "out of the queue, SKIPPED",
        Effect::StopThen(AfterStop::Skip) => "stop, then SKIPPED",
        Effect::StopThen(AfterStop::Fail) => "stop, then FAILED",
        Effect::StopThen(AfterStop::DecideAgain) => "stop, then decide again",
        Effect::Hold => "hold",
        Effect::FinishSkipped => "SKIPPED",
        Effect::FinishFailed => "FAILED",
        Effect::BackToQueue => "READY, back into the queue",
        Effect::StoreContext => "store comments",
        Effect::StoreContextLive => "store comments, hand them to the agent",
    }
}

pub(super) fn effects() -> String {
    let mut head = vec!["action".to_owned()];
    head.extend(Phase::ALL.iter().map(ToString::to_string));
    let mut text = row(&head);
    text.push_str(&row(&vec!["---".to_owned(); head.len()]));
    for action in ReconcileAction::ALL {
        let mut cells = vec![action.to_string()];
        let effect = |phase: &Phase| effect_word(plan(*action, *phase)).to_owned();
        cells.extend(Phase::ALL.iter().map(effect));
        text.push_str(&row(&cells));
    }
    text
}

pub(super) fn after_stop() -> String {
    let after = [AfterStop::Skip, AfterStop::Fail, AfterStop::DecideAgain];
    let written = [WrittenSince::Nobody, WrittenSince::Somebody];
    let axes = [
        Axis::new("stopped to", after.iter().map(words)),
        Axis::new("who wrote the status since", written.iter().map(words)),
    ];
    table(&axes, &["then"], |at| {
        vec![match after[at[0]].then(written[at[1]]) {
            AfterEnd::Finish(outcome) => outcome.to_string(),
            AfterEnd::DecideAgain => "decided again, as if queued".to_owned(),
        }]
    })
}

fn every_reason() -> Vec<Reason> {
    let mut reasons = Reason::PLAIN.to_vec();
    reasons.push(Reason::NewComments(2));
    let dependency = |cause: &DependencyCause| Reason::Dependency {
        key: "FIRST".to_owned(),
        cause: *cause,
    };
    reasons.extend(DependencyCause::ALL.iter().map(dependency));
    reasons.push(Reason::StoppedAfter {
        key: "KEY".to_owned(),
    });
    reasons.push(Reason::Other("*free text*".to_owned()));
    reasons
}

pub(super) fn dependency() -> String {
    let reasons = every_reason();
    let place = ["outside the batch", "in the batch without outcome"];
    let outcomes = Outcome::ALL.iter().map(ToString::to_string);
    let axes = [
        Axis::new("claim", ["none", "live"]),
        Axis::new(
            "stands",
            place.iter().map(ToString::to_string).chain(outcomes),
        ),
        Axis::new("stored", Stored::ALL.iter().copied().map(stored_word)),
        Axis::new("reason", &reasons),
    ];
    table(&axes, &["means"], |at| {
        let claim = [LiveClaim::None, LiveClaim::Some][at[0]];
        let stored = Stored::ALL[at[2]];
        let seen = match at[1] {
            0 => Dependency::Outside { stored, claim },
            1 => Dependency::Unfinished,
            outcome => Dependency::Finished {
                outcome: Outcome::ALL[outcome - 2],
                reason: &reasons[at[3]],
                stored,
                claim,
            },
        };
        vec![state_word(&seen.state("KEY"))]
    })
}

fn state_word(state: &DependencyState) -> String {
    match state {
        DependencyState::Met => "met".to_owned(),
        DependencyState::Pending => "waited for".to_owned(),
        DependencyState::Dead { key, cause } => format!("dependency {key} {cause}"),
    }
}

pub(super) fn dependencies() -> String {
    let states = |number: &str| {
        let dead = |cause: &DependencyCause| DependencyState::Dead {
            key: number.to_owned(),
            cause: *cause,
        };
        [DependencyState::Met, DependencyState::Pending]
            .into_iter()
            .chain(DependencyCause::ALL.iter().map(dead))
            .collect::<Vec<_>>()
    };
    let (first, second) = (states("1"), states("2"));
    let state = |state: &DependencyState| match state {
        DependencyState::Dead { cause, .. } => cause.to_string(),
        other => state_word(other),
    };
    let axes = [
        Axis::new("1", first.iter().map(state)),
        Axis::new("2", second.iter().map(state)),
    ];
    table(&axes, &["the task"], |at| {
        vec![match decide_waiting([&first[at[0]], &second[at[1]]]) {
            WaitingDecision::Wait => "waits".to_owned(),
            WaitingDecision::Queue => "may start".to_owned(),
            WaitingDecision::Skip(Reason::Dependency { key, .. }) => format!("SKIPPED for {key}"),
            WaitingDecision::Skip(reason) => reason.to_string(),
        }]
    })
}

pub(super) fn standings() -> String {
    let reasons = every_reason();
    let axes = [
        Axis::new("outcome", Outcome::ALL),
        Axis::new("reason", &reasons),
    ];
    table(&axes, &["stands"], |at| {
        vec![words(standing(Outcome::ALL[at[0]], &reasons[at[1]]))]
    })
}

pub(super) fn final_statuses() -> String {
    let some = ["none", "some"];
    let order = [
        Standing::Bad,
        Standing::Cut,
        Standing::Held,
        Standing::Done,
        Standing::Dropped,
    ];
    let axes = [
        Axis::new("stopped by", StopCause::ALL.iter().map(words)),
        Axis::new("bad", some),
        Axis::new("cut", some),
        Axis::new("held", some),
        Axis::new("done", some),
        Axis::new("dropped", some),
    ];
    table(&axes, &["batch", "exit code"], |at| {
        let present = order.iter().zip(&at[1..]).filter(|(_, some)| **some == 1);
        let counts: Counts = present.map(|(standing, _)| *standing).collect();
        let (status, exit) = final_status(&counts, StopCause::ALL[at[0]]);
        vec![status.to_string(), exit.code().to_string()]
    })
}

pub(super) fn retries() -> String {
    let head = ["failure", "least", "middle", "most"].map(str::to_owned);
    let mut text = row(&head);
    text.push_str(&row(&vec!["---".to_owned(); head.len()]));
    for failures in 1..=8 {
        let delay = |jitter: f64| {
            let delay = retry_delay(failures, Duration::from_secs(5), jitter);
            cf_core::format_duration(delay)
        };
        text.push_str(&row(&[
            failures.to_string(),
            delay(0.0),
            delay(0.5),
            delay(1.0),
        ]));
    }
    text
}

pub(super) fn retried() -> String {
    let axes = [Axis::new("ended by", FailureCause::ALL.iter().map(words))];
    table(&axes, &["retried"], |at| {
        vec![if may_retry(FailureCause::ALL[at[0]]) {
            "yes".to_owned()
        } else {
            "no".to_owned()
        }]
    })
}
