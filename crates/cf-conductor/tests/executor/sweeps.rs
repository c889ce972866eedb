//! What is below a supervisor that was killed, and who is never touched.

use std::process::{Child, Command};
use std::time::Duration;

use cf_conductor::executor::{Executor, Fate};
use cf_conductor::process::{self, Lost, SessionTrust, is_same, remains, signal, sweep};
use cf_core::{AttemptEnd, AttemptId};
use rustix::process::Signal;

use crate::lab::{Lab, on_one_thread, until, with_argument, with_lab, zombies};

crate::tests![
    a_killed_supervisor_is_told_and_swept,
    orphans_without_any_mark_are_swept_by_a_subreaper,
    a_killed_supervisor_that_ran_nothing_leaves_no_zombie,
    a_supervisor_killed_while_it_tidies_up_keeps_its_verdict,
    a_stranger_with_the_number_is_not_touched,
    a_marked_process_is_found_and_told,
    the_session_counts_only_with_a_mark_in_it,
    children_of_the_program_itself_are_not_reaped,
];

fn a_killed_supervisor_is_told_and_swept() {
    with_lab(async |mut lab| {
        let script = "setsid sleep TOKEN & env -i sleep TOKEN & (trap '' TERM; touch f; while :; do sleep TOKEN; done)";
        let job = lab.job(script);
        let identity = lab.start(&job).await;
        lab.until_file("f").await;
        until(|| lab.sleepers() >= 3).await;
        assert!(signal(&identity, Signal::KILL).unwrap());
        let note = lab.note().await;
        assert_eq!(note.fate.attempt_end(), AttemptEnd::Lost);
        let Fate::Lost(swept) = note.fate else {
            panic!("{:?}", note.fate)
        };
        assert!(swept.survivors.is_empty() && swept.killed >= 4, "{swept:?}");
        assert_eq!(lab.sleepers(), 0);
        lab.executor.release(identity.supervisor);
        assert_eq!(zombies(), 0);
        assert!(lab.executor.own_children().is_empty());
    });
}

fn orphans_without_any_mark_are_swept_by_a_subreaper() {
    on_one_thread(async {
        process::become_subreaper().unwrap();
        let mut lab = Lab::new(|options| options.subreaper = true);
        // What was left alone deliberately stays.
        let mut stray = lab.job("setsid env -i sleep 1TOKEN & sleep 0.1");
        stray.leftovers = cf_conductor::supervise::Leftovers::Report;
        lab.run(&stray).await;
        let stays = format!("1{}", lab.token);
        until(|| with_argument(&stays).len() == 1).await;
        let job = lab.job("setsid env -i sleep TOKEN & sleep 0.1; touch f; sleep TOKEN");
        let identity = lab.start(&job).await;
        lab.until_file("f").await;
        // The retired supervisor's end is noticed at the latest while the next note is waited for.
        let _ = tokio::time::timeout(Duration::from_millis(50), lab.executor.note()).await;
        signal(&identity, Signal::KILL).unwrap();
        let note = lab.note().await;
        assert!(matches!(note.fate, Fate::Lost(_)), "{note:?}");
        assert_eq!((lab.sleepers(), zombies()), (0, 0));
        let [stays] = with_argument(&stays)[..] else {
            panic!("it was not left alone")
        };
        rustix::process::kill_process(rustix::process::Pid::from_raw(stays).unwrap(), Signal::KILL)
            .unwrap();
        until(|| lab.executor.reap() == 1).await;
    });
}

fn a_killed_supervisor_that_ran_nothing_leaves_no_zombie() {
    with_lab(async |mut lab| {
        let identity = lab.executor.acquire().await.unwrap();
        lab.executor.release(identity.supervisor);
        signal(&identity, Signal::KILL).unwrap();
        let nothing = tokio::time::timeout(Duration::from_millis(200), lab.executor.note()).await;
        assert!(nothing.is_err(), "{nothing:?}");
        assert_eq!((zombies(), lab.executor.own_children().len()), (0, 0));
    });
}

fn a_supervisor_killed_while_it_tidies_up_keeps_its_verdict() {
    with_lab(async |mut lab| {
        let mut job = lab.job("(trap '' TERM; touch f; while :; do sleep TOKEN; done) & while ! [ -e f ]; do :; done; exit 3");
        job.grace_ms = 60_000;
        let identity = lab.start(&job).await;
        until(|| lab.records(&identity).len() == 2).await;
        signal(&identity, Signal::KILL).unwrap();
        let end = crate::lab::ended(lab.note().await);
        assert_eq!(
            (end.ending, end.clean, end.unfinished),
            (Some(cf_core::Ending::Code(3)), true, false)
        );
        assert_eq!(lab.sleepers(), 0);
    });
}

fn stranger(argument: &str, mark: Option<AttemptId>) -> Child {
    let mut command = Command::new("sleep");
    command.arg(argument).env_remove("CF_ATTEMPT_ID");
    if let Some(mark) = mark {
        command.env("CF_ATTEMPT_ID", mark.to_string());
    }
    command.spawn().unwrap()
}

fn a_stranger_with_the_number_is_not_touched() {
    with_lab(async |mut lab| {
        let mut child = stranger(&lab.token, None);
        let pid = child.id() as i32;
        let real = process::stat(pid).unwrap();
        let mut identity = lab.executor.acquire().await.unwrap();
        identity.supervisor.0 = uuid::Uuid::new_v4();
        identity.pid = pid;
        identity.start_ticks = real.start_ticks - 1;
        assert!(!is_same(&identity));
        assert!(!signal(&identity, Signal::KILL).unwrap());
        // An attempt whose supervisor is long gone, and whose number this is now.
        let job = lab.job("");
        let adopted = lab
            .executor
            .adopt(&identity, job.attempt, job.stage)
            .unwrap();
        assert_eq!(adopted, cf_conductor::executor::Adopted::Sweeping);
        let note = lab.note().await;
        assert_eq!(note.fate, Fate::Lost(process::Swept::default()));
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

fn lost(attempt: AttemptId, session: i32) -> Lost {
    Lost {
        attempt,
        session,
        trust: SessionTrust::IfMarked,
        roots: Vec::new(),
    }
}

fn a_marked_process_is_found_and_told() {
    with_lab(async |lab| {
        let attempt = lab.job("").attempt;
        let mut ours = stranger(&lab.token, Some(attempt));
        let mut other = stranger(&lab.token, Some(lab.job("").attempt));
        let found = remains(&lost(attempt, -1));
        assert_eq!(
            found.iter().map(|process| process.pid).collect::<Vec<_>>(),
            [ours.id() as i32]
        );
        assert!(found[0].alive());
        let swept = sweep(&lost(attempt, -1), Duration::from_secs(1));
        assert_eq!((swept.killed, swept.survivors.len()), (1, 0));
        assert!(!found[0].alive());
        // The sweep may have waited for it already.
        let _ = ours.wait();
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    });
}

fn the_session_counts_only_with_a_mark_in_it() {
    with_lab(async |lab| {
        let attempt = lab.job("").attempt;
        let script = format!(
            "sleep {0} & env CF_ATTEMPT_ID={attempt} sleep 1{0} & wait",
            lab.token
        );
        let mut leader = Command::new("setsid")
            .args(["/bin/sh", "-c", &script])
            .spawn()
            .unwrap();
        let marked = format!("1{}", lab.token);
        // `env` has that argument too, before it becomes what bears the mark.
        until(|| remains(&lost(attempt, -1)).len() == 1 && lab.sleepers() == 1).await;
        let session = process::stat(with_argument(&marked)[0]).unwrap().session;
        let another = lab.job("").attempt;
        assert_eq!(remains(&lost(another, session)), []);
        assert_eq!(remains(&lost(attempt, session)).len(), 3);
        sweep(&lost(attempt, session), Duration::from_secs(1));
        // The sweep may have waited for it already.
        let _ = leader.wait();
        assert_eq!(lab.sleepers(), 0);
    });
}

fn children_of_the_program_itself_are_not_reaped() {
    on_one_thread(async {
        process::become_subreaper().unwrap();
        let mut own = Command::new("true").spawn().unwrap();
        let mut wrapper = Command::new("/bin/sh")
            .args(["-c", "setsid sleep 0.05 & exit 0"])
            .spawn()
            .unwrap();
        assert!(wrapper.wait().unwrap().success());
        until(|| process::reap_adopted(&[]) == 1).await;
        assert!(own.wait().unwrap().success());
    });
}
