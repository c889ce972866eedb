use test_case::test_case;

use super::*;

const NONE: Blockers = Blockers::NONE;
const OPEN: Blockers = Blockers::new(OpenBlockers::Some, SinceHold::Nothing);
const ONE_OF_TWO_ANSWERED: Blockers = Blockers::new(OpenBlockers::Some, SinceHold::Answered);
const ANSWERED: Blockers = Blockers::new(OpenBlockers::None, SinceHold::Answered);
const RESOLVED: Blockers = Blockers::new(OpenBlockers::None, SinceHold::Resolved);

const SKIPPED: Believed = Finished(Outcome::Skipped);
const FAILED_HERE: Believed = Finished(Outcome::Failed);
const COMPLETED: Believed = Finished(Outcome::Completed);

/// `row ACTION reason -> status`, the way the tests below are read.
fn shown(decision: &Decision) -> String {
    let asks = decision
        .external_status
        .map(|status| format!(" -> {status}"))
        .unwrap_or_default();
    format!(
        "{} {} {}{asks}",
        decision.row, decision.action, decision.reason
    )
}

#[test_case(Waiting, Ready, Own => "12 NONE nothing new"; "own writes are no news while waiting")]
#[test_case(Queued, Ready, Own => "12 NONE nothing new"; "own writes are no news while queued")]
#[test_case(Queued, Done, Own => "12 NONE nothing new"; "what was so before take up is no news")]
#[test_case(Running, InProgress, Own => "12 NONE nothing new"; "the own claim is no news")]
#[test_case(Running, InProgress, Agent => "14 NONE its exit is awaited"; "the agent sets its task in progress")]
#[test_case(Running, Done, Agent => "14 NONE its exit is awaited"; "r5 the agent says done by itself")]
#[test_case(Running, Failed, Agent => "14 NONE its exit is awaited"; "the agent says failed by itself")]
#[test_case(Running, Blocked, Agent => "13 NONE the agent asked"; "r6 the agent asks")]
#[test_case(Running, Ready, Agent => "13 NONE the agent asked"; "r15 the agent asks and is answered at once")]
#[test_case(Running, InProgress, Claim => "15 KILL claimed elsewhere -> IN_PROGRESS"; "another batch claimed it")]
#[test_case(Running, InProgress, Other => "16 NONE nothing new"; "somebody set a running task in progress")]
#[test_case(Running, Done, Other => "17 SKIP externally completed -> DONE"; "r2 r12 somebody completed a running task")]
#[test_case(Running, Merged, Claim => "17 SKIP externally completed -> MERGED"; "another batch merged a running task")]
#[test_case(Running, Failed, Other => "17 SKIP externally failed -> FAILED"; "r1 somebody failed a running task")]
#[test_case(Running, Blocked, Other => "18 KILL externally blocked -> BLOCKED"; "somebody blocked a running task")]
#[test_case(Running, Ready, Other => "18 KILL put back in the queue -> READY"; "somebody put a running task back")]
#[test_case(Running, Backlog, Other => "18 KILL withdrawn to backlog -> BACKLOG"; "somebody withdrew a running task")]
#[test_case(Queued, Ready, Other => "19 NONE nothing new"; "somebody set a queued task ready")]
#[test_case(Queued, InProgress, Claim => "20 NONE claimed elsewhere"; "another batch has a queued task")]
#[test_case(Waiting, InProgress, Other => "20 NONE in progress by hand"; "a person works on a waiting task")]
#[test_case(Waiting, Blocked, Other => "21 KILL externally blocked -> BLOCKED"; "somebody blocked a waiting task")]
#[test_case(Queued, Blocked, Agent => "21 KILL externally blocked -> BLOCKED"; "a killed agent had asked")]
#[test_case(Queued, Done, Other => "22 SKIP externally completed -> DONE"; "somebody completed a queued task")]
#[test_case(Waiting, Merged, Other => "22 SKIP externally completed -> MERGED"; "somebody merged a waiting task")]
#[test_case(Queued, Failed, Other => "22 SKIP externally failed -> FAILED"; "somebody failed a queued task")]
#[test_case(Queued, Backlog, Other => "22 SKIP withdrawn to backlog -> BACKLOG"; "somebody withdrew a queued task")]
#[test_case(Stopping, Done, Other => "3 NONE looked at again, as if queued, when the end is verified"; "while stopping nothing acts")]
#[test_case(Held, Done, Other => "6 SKIP externally completed -> DONE"; "somebody completed a held task")]
#[test_case(Held, Failed, Other => "6 SKIP externally failed (while blocked) -> FAILED"; "somebody failed a held task")]
#[test_case(Held, Backlog, Other => "7 SKIP withdrawn to backlog -> BACKLOG"; "somebody withdrew a held task")]
#[test_case(Held, InProgress, Claim => "8 NONE claimed elsewhere"; "another batch has a held task")]
#[test_case(COMPLETED, Ready, Other => "2 NONE nothing new"; "a completed task stays")]
fn a_row(believed: Believed, stored: TaskStatus, writer: Writer) -> String {
    shown(&decide(&LocalObservation::new(
        believed,
        Status(stored),
        writer,
    )))
}

#[test_case(Running => "4 KILL task deleted"; "running")]
#[test_case(Waiting => "5 SKIP task deleted"; "waiting")]
#[test_case(Queued => "5 SKIP task deleted"; "queued")]
#[test_case(Held => "5 SKIP task deleted"; "held")]
#[test_case(Stopping => "3 NONE looked at again, as if queued, when the end is verified"; "stopping")]
#[test_case(SKIPPED => "2 NONE nothing new"; "finished")]
fn a_deleted_task(believed: Believed) -> String {
    shown(&decide(&LocalObservation::new(believed, Deleted, Other)))
}

#[test_case(Ready, ANSWERED => "9 REQUEUE blockers resolved -> READY"; "r6 r13 answered")]
#[test_case(Ready, NONE => "9 REQUEUE unblocked by hand -> READY"; "set ready by hand")]
#[test_case(Ready, RESOLVED => "9 REQUEUE unblocked by hand -> READY"; "resolved and then set ready by hand")]
#[test_case(Ready, OPEN => "9 REQUEUE unblocked by hand -> READY"; "set ready in spite of an open question")]
#[test_case(Blocked, ANSWERED => "10 REQUEUE blockers resolved -> READY"; "answered and still blocked")]
#[test_case(Blocked, RESOLVED => "10 REQUEUE blockers resolved -> READY"; "the last question was resolved")]
#[test_case(Blocked, OPEN => "11 NONE waiting for an answer"; "nobody has answered")]
#[test_case(Blocked, ONE_OF_TWO_ANSWERED => "11 NONE waiting for an answer"; "r7 one of two answered")]
#[test_case(Blocked, NONE => "11 NONE waiting for an answer"; "r14 blocked by hand with an old answer")]
fn a_held_task(stored: TaskStatus, blockers: Blockers) -> String {
    shown(&decide(&LocalObservation {
        blockers,
        ..LocalObservation::new(Held, Status(stored), Other)
    }))
}

#[test_case(SKIPPED, Other, Written::AfterOutcome => "1 REQUEUE reopened -> READY"; "r18 skipped and set ready")]
#[test_case(FAILED_HERE, Other, Written::AfterOutcome => "1 REQUEUE reopened -> READY"; "failed and set ready")]
#[test_case(FAILED_HERE, Other, Written::BeforeOutcome => "2 NONE nothing new"; "ready since before the outcome")]
#[test_case(FAILED_HERE, Own, Written::AfterOutcome => "2 NONE nothing new"; "written by the batch itself")]
#[test_case(COMPLETED, Other, Written::AfterOutcome => "2 NONE nothing new"; "b14 completed")]
#[test_case(Finished(Outcome::Cancelled), Other, Written::AfterOutcome => "2 NONE nothing new"; "stopped by hand")]
#[test_case(Finished(Outcome::Blocked), Other, Written::AfterOutcome => "2 NONE nothing new"; "ended blocked")]
fn a_finished_task_set_ready(believed: Believed, writer: Writer, written: Written) -> String {
    shown(&decide(&LocalObservation {
        written,
        ..LocalObservation::new(believed, Status(Ready), writer)
    }))
}

#[test_case(Blocked => "13 KILL the agent asked -> BLOCKED"; "unanswered")]
#[test_case(Ready => "13 KILL the agent asked -> READY"; "answered meanwhile")]
#[test_case(Done => "14 NONE its exit is awaited"; "it has no question open")]
fn an_agent_that_asked_and_stays(stored: TaskStatus) -> String {
    shown(&decide(&LocalObservation {
        ask_grace: AskGrace::Over,
        ..LocalObservation::new(Running, Status(stored), Agent)
    }))
}

#[test]
fn rows_read_back_into_what_is_believed() {
    for believed in Believed::ALL {
        let outcome = match believed {
            Finished(outcome) => Some(*outcome),
            Waiting | Queued | Running | Stopping | Held => None,
        };
        assert_eq!(
            Believed::from_row(believed.phase(), outcome),
            Some(*believed)
        );
    }
    assert_eq!(Believed::from_row(Phase::Finished, None), None);
    assert_eq!(
        Believed::from_row(Phase::Queued, Some(Outcome::Failed)),
        None
    );
}

type Fits = fn(LocalObservation) -> bool;

fn is(seen: LocalObservation, phases: &[Phase], statuses: &[TaskStatus]) -> bool {
    phases.contains(&seen.believed.phase())
        && seen.stored.status().is_some_and(|s| statuses.contains(&s))
}

fn by(seen: LocalObservation, writers: &[Writer]) -> bool {
    writers.contains(&seen.writer)
}

fn no_news(seen: LocalObservation) -> bool {
    seen.blockers.since_hold == SinceHold::Nothing
}

/// The contract's rows, each as a condition of its own, written from the page and not from the code.
const ROWS: [Fits; 22] = [
    |s| {
        matches!(s.believed, Finished(Outcome::Skipped | Outcome::Failed))
            && s.stored == Status(Ready)
            && s.written == Written::AfterOutcome
            && by(s, &[Other])
    },
    |s| s.believed.phase() == Phase::Finished,
    |s| s.believed.phase() == Phase::Stopping,
    |s| s.believed == Running && s.stored == Deleted,
    |s| matches!(s.believed, Waiting | Queued | Held) && s.stored == Deleted,
    |s| is(s, &[Phase::Held], &[Done, Merged, Failed]),
    |s| is(s, &[Phase::Held], &[Backlog]),
    |s| is(s, &[Phase::Held], &[InProgress]),
    |s| is(s, &[Phase::Held], &[Ready]),
    |s| is(s, &[Phase::Held], &[Blocked]) && s.blockers.open == OpenBlockers::None && !no_news(s),
    |s| is(s, &[Phase::Held], &[Blocked]),
    |s| matches!(s.believed, Waiting | Queued | Running) && by(s, &[Own]),
    |s| is(s, &[Phase::Running], &[Blocked, Ready]) && by(s, &[Agent]),
    |s| s.believed == Running && by(s, &[Agent]),
    |s| is(s, &[Phase::Running], &[InProgress]) && by(s, &[Claim]),
    |s| is(s, &[Phase::Running], &[InProgress]) && by(s, &[Other]),
    |s| is(s, &[Phase::Running], &[Done, Merged, Failed]) && by(s, &[Other, Claim]),
    |s| is(s, &[Phase::Running], &[Blocked, Ready, Backlog]) && by(s, &[Other, Claim]),
    |s| is(s, &[Phase::Waiting, Phase::Queued], &[Ready]),
    |s| is(s, &[Phase::Waiting, Phase::Queued], &[InProgress]),
    |s| is(s, &[Phase::Waiting, Phase::Queued], &[Blocked]),
    |s| {
        is(
            s,
            &[Phase::Waiting, Phase::Queued],
            &[Done, Merged, Failed, Backlog],
        )
    },
];

#[test]
fn the_first_row_that_fits_decides_every_cell_and_every_row_has_one() {
    let mut seen_rows = [0usize; 22];
    for seen in LocalObservation::all() {
        let first = ROWS.iter().position(|fits| fits(seen));
        let row = first.unwrap_or_else(|| panic!("no row fits {seen:?}"));
        assert_eq!(usize::from(decide(&seen).row), row + 1, "{seen:?}");
        seen_rows[row] += 1;
    }
    assert!(seen_rows.iter().all(|cells| *cells > 0), "{seen_rows:?}");
}

#[test]
fn every_cell_is_listed_once() {
    let all: std::collections::HashSet<LocalObservation> = LocalObservation::all().collect();
    assert_eq!(all.len(), LocalObservation::all().count());
    assert_eq!(all.len(), 10 * 8 * 4 * 2 * 6 * 2);
}

#[test]
fn what_acts_says_why_and_asks_for_what_is_stored_or_ready() {
    for seen in LocalObservation::all() {
        let decision = decide(&seen);
        match decision.action {
            ReconcileAction::None => assert_eq!(decision.external_status, None),
            ReconcileAction::Requeue => assert_eq!(decision.external_status, Some(Ready)),
            ReconcileAction::Kill | ReconcileAction::Skip => {
                assert_eq!(decision.external_status, seen.stored.status());
                assert_ne!(decision.reason, Reason::NothingNew);
            }
            ReconcileAction::LogContext | ReconcileAction::Fail => {
                panic!("the store never says {}", decision.action)
            }
        }
    }
}
