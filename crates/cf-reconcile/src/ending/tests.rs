use test_case::test_case;

use super::*;
use crate::DependencyCause;

use Standing::{Bad, Cut, Done, Dropped, Held};

#[test_case("already done" => Done)]
#[test_case("externally completed" => Done)]
#[test_case("issue closed" => Done)]
#[test_case("pull request merged" => Done)]
#[test_case("issue closed as not planned" => Dropped)]
#[test_case("issue closed as duplicate" => Dropped)]
#[test_case("withdrawn to backlog" => Dropped)]
#[test_case("task deleted" => Dropped)]
#[test_case("externally failed" => Bad)]
#[test_case("externally failed (while blocked)" => Bad)]
#[test_case("dependency a failed" => Bad)]
#[test_case("dependency a withdrawn" => Bad)]
#[test_case("dependency a deleted" => Bad)]
#[test_case("dependency a not needed" => Bad)]
#[test_case("dependency a not done" => Held)]
#[test_case("dependency a blocked" => Held)]
#[test_case("in progress by hand" => Held)]
#[test_case("something else" => Bad)]
fn a_skipped_task(reason: &str) -> Standing {
    standing(Outcome::Skipped, &reason.into())
}

#[test]
fn other_outcomes_stand_where_they_stand_whatever_the_reason() {
    for reason in Reason::PLAIN {
        assert_eq!(standing(Outcome::Completed, reason), Done);
        assert_eq!(standing(Outcome::Failed, reason), Bad);
        assert_eq!(standing(Outcome::Blocked, reason), Held);
        assert_eq!(standing(Outcome::Cancelled, reason), Cut);
    }
}

#[test]
fn a_task_skipped_for_a_dependency_is_never_done() {
    for cause in DependencyCause::ALL {
        let reason = Reason::Dependency {
            key: "a".to_owned(),
            cause: *cause,
        };
        assert!(matches!(standing(Outcome::Skipped, &reason), Bad | Held));
    }
}

#[test_case(&[], StopCause::None => "COMPLETED 0"; "an empty batch")]
#[test_case(&[Done, Dropped], StopCause::None => "COMPLETED 0"; "done and dropped")]
#[test_case(&[Dropped], StopCause::None => "COMPLETED 0"; "only dropped")]
#[test_case(&[Bad, Done], StopCause::None => "PARTIAL 3"; "some bad and some done")]
#[test_case(&[Bad, Done, Held, Cut], StopCause::None => "PARTIAL 3"; "some of everything")]
#[test_case(&[Bad, Dropped, Held], StopCause::None => "FAILED 3"; "some bad and none done")]
#[test_case(&[Bad, Cut], StopCause::None => "FAILED 3"; "bad and cut and none done")]
#[test_case(&[Cut, Done, Held], StopCause::None => "PARTIAL 3"; "some cut and no bad")]
#[test_case(&[Cut], StopCause::None => "PARTIAL 3"; "only cut")]
#[test_case(&[Held, Done, Dropped], StopCause::None => "PARTIAL 4"; "held beside done and dropped")]
#[test_case(&[Held], StopCause::None => "PARTIAL 4"; "only held")]
#[test_case(&[Done], StopCause::Signal => "CANCELLED 130"; "a signal though all is done")]
#[test_case(&[Bad, Cut], StopCause::Signal => "CANCELLED 130"; "b15 a signal")]
#[test_case(&[Done], StopCause::Stored => "CANCELLED 5"; "r9 a stop though all is done")]
#[test_case(&[Bad, Held, Cut], StopCause::Stored => "CANCELLED 5"; "a stop")]
fn a_batch(standings: &[Standing], stop: StopCause) -> String {
    let (status, exit) = final_status(&standings.iter().copied().collect(), stop);
    format!("{status} {}", exit.code())
}

#[test]
fn exit_codes_are_the_contracts() {
    let codes: Vec<u8> = ExitCode::ALL.iter().map(|exit| exit.code()).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 130]);
}

#[test]
fn a_batch_always_ends_in_a_final_status() {
    for stop in StopCause::ALL {
        for cell in 0..32u8 {
            let present = |at: usize| cell & (1 << at) != 0;
            let counts: Counts = (0..5)
                .filter(|at| present(*at))
                .map(|at| Standing::ALL[at])
                .collect();
            let (status, exit) = final_status(&counts, *stop);
            assert!(status.is_final());
            let clean = counts.bad + counts.held + counts.cut == 0;
            assert_eq!(exit == ExitCode::Success, clean && *stop == StopCause::None);
        }
    }
}
