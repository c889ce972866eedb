//! What is below a supervisor that was killed, and who is never touched.

use std::process::{Child, Command};
use std::time::Duration;

use cf_conductor::executor::{Executor, Fate};
use cf_conductor::process::{self, Identity, Lost, SessionTrust, is_same, remains, signal, sweep};
use cf_conductor::supervise::{Job, Leftovers};
use cf_core::{AttemptEnd, AttemptId};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::lab::{Lab, ended, on_one_thread, until, with_argument, with_lab, zombies};

crate::tests![
    a_killed_supervisor_is_told_and_swept,
    orphans_without_any_mark_are_swept_by_a_subreaper,
    children_from_before_are_not_swept,
    what_began_before_a_supervisor_is_not_swept_for_it,
    what_loses_its_parent_in_a_sweep_is_not_lost,
    what_a_retired_supervisor_left_alone_is_not_swept_for_another,
    what_was_left_in_the_same_moment_is_not_swept_for_another,
    a_killed_supervisor_that_ran_nothing_leaves_no_zombie,
    a_supervisor_killed_while_it_tidies_up_keeps_its_verdict,
    a_stranger_with_the_number_is_not_touched,
    a_marked_process_is_found_and_told,
    a_sweep_that_cannot_look_does_not_say_that_nothing_is_left,
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
        not_before: 0,
        roots: Vec::new(),
    }
}

fn a_marked_process_is_found_and_told() {
    with_lab(async |lab| {
        let attempt = lab.job("").attempt;
        let mut ours = stranger(&lab.token, Some(attempt));
        let mut other = stranger(&lab.token, Some(lab.job("").attempt));
        let found = remains(&lost(attempt, -1)).unwrap();
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

fn a_sweep_that_cannot_look_does_not_say_that_nothing_is_left() {
    with_lab(async |lab| {
        let attempt = lab.job("").attempt;
        let mut ours = stranger(&lab.token, Some(attempt));
        until(|| remains(&lost(attempt, -1)).unwrap().len() == 1).await;
        let limit = Rlimit {
            current: Some(64),
            ..getrlimit(Resource::Nofile)
        };
        setrlimit(Resource::Nofile, limit).unwrap();
        let mut taken = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            taken.push(file);
        }
        assert!(remains(&lost(attempt, -1)).is_err());
        let blind = sweep(&lost(attempt, -1), Duration::ZERO);
        assert!(blind.is_blind && !blind.is_clean(), "{blind:?}");

        // Descriptors that come free while it goes on are enough.
        let frees = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(taken);
        });
        let swept = sweep(&lost(attempt, -1), Duration::ZERO);
        frees.join().unwrap();
        assert!(swept.is_clean() && swept.killed == 1, "{swept:?}");
        let _ = ours.wait();
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
        until(|| remains(&lost(attempt, -1)).unwrap().len() == 1 && lab.sleepers() == 1).await;
        let session = process::stat(with_argument(&marked)[0]).unwrap().session;
        let another = lab.job("").attempt;
        assert_eq!(remains(&lost(another, session)).unwrap(), []);
        assert_eq!(remains(&lost(attempt, session)).unwrap().len(), 3);
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
        until(|| process::adopted(&[]).iter().any(process::reap)).await;
        assert!(own.wait().unwrap().success());
    });
}

/// Kills what has this argument, and waits for what of it came to this process.
async fn clear_away(lab: &mut Lab, argument: &str) {
    for pid in with_argument(argument) {
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    until(|| with_argument(argument).is_empty()).await;
    until(|| {
        lab.executor.reap();
        zombies() == 0
    })
    .await;
}

/// A job that leaves `count` processes alone that bear no mark, each with the lab's token and a 1 before it.
fn leaves(lab: &Lab, count: usize) -> Job {
    let one = "setsid env -i sleep 1TOKEN >/dev/null 2>&1 & ";
    let script = format!(
        "{} while ! [ -e go ]; do sleep 0.01; done; exit 0",
        one.repeat(count)
    );
    let mut job = lab.job(&script);
    job.leftovers = Leftovers::Report;
    job
}

/// A job that runs until it is ended, with an orphan without mark.
fn goes_on(lab: &Lab) -> Job {
    lab.job("setsid env -i sleep TOKEN >/dev/null 2>&1 & exec sleep 2TOKEN")
}

/// Waits until so many processes are `sleep` with this argument, and nothing that only becomes it.
async fn until_sleeping(argument: &str, count: usize) {
    let sleeps = |pid: &&i32| process::stat(**pid).is_ok_and(|stat| stat.name == "sleep");
    until(|| with_argument(argument).iter().filter(sleeps).count() == count).await;
}

fn subreaper_lab() -> Lab {
    process::become_subreaper().unwrap();
    Lab::new(|options| options.subreaper = true)
}

/// An orphan at this process, in a session of its own, of which it knows nothing.
async fn orphan(argument: &str) {
    let script = format!("setsid sleep {argument} & exit 0");
    let mut wrapper = Command::new("/bin/sh")
        .args(["-c", &script])
        .spawn()
        .unwrap();
    wrapper.wait().unwrap();
    until_sleeping(argument, 1).await;
}

fn children_from_before_are_not_swept() {
    on_one_thread(async {
        process::become_subreaper().unwrap();
        let token = format!("8{:08}", std::process::id());
        orphan(&token).await;
        let mut lab = subreaper_lab();
        let job = goes_on(&lab);
        let identity = lab.start(&job).await;
        until_sleeping(&lab.token, 1).await;
        signal(&identity, Signal::KILL).unwrap();
        assert!(matches!(lab.note().await.fate, Fate::Lost(_)));
        assert_eq!((lab.sleepers(), with_argument(&token).len()), (0, 1));
        clear_away(&mut lab, &token).await;
    });
}

fn what_began_before_a_supervisor_is_not_swept_for_it() {
    with_lab(async |lab| {
        let attempt = lab.job("").attempt;
        let mut older = stranger(&lab.token, Some(attempt));
        let begun = process::stat(older.id() as i32).unwrap();
        let later = Lost {
            not_before: begun.start_ticks + 1,
            roots: vec![begun.process()],
            ..lost(attempt, begun.session)
        };
        assert_eq!(remains(&later).unwrap(), []);
        assert_eq!(sweep(&later, Duration::ZERO).killed, 0);
        assert!(older.try_wait().unwrap().is_none());
        older.kill().unwrap();
        older.wait().unwrap();
    });
}

fn what_loses_its_parent_in_a_sweep_is_not_lost() {
    with_lab(async |mut lab| {
        // Only the parent bears the mark, and it ends at the first request.
        let script =
            "setsid env -i /bin/sh -c 'trap \"\" TERM; >f; while :; do sleep TOKEN; done' & wait";
        let job = lab.job(script);
        let identity = lab.start(&job).await;
        lab.until_file("f").await;
        signal(&identity, Signal::KILL).unwrap();
        assert!(matches!(lab.note().await.fate, Fate::Lost(_)));
        assert_eq!(lab.sleepers(), 0);
    });
}

fn what_a_retired_supervisor_left_alone_is_not_swept_for_another() {
    on_one_thread(async {
        let mut lab = subreaper_lab();
        // B is swept for as long as its agent bears the request.
        let b = lab.job("trap '' TERM; touch b; while :; do sleep 0.02; done");
        let b = lab.start(&b).await;
        let c = goes_on(&lab);
        let c = lab.start(&c).await;
        let a = leaves(&lab, 20);
        let a = lab.start(&a).await;
        let left = format!("1{}", lab.token);
        lab.until_file("b").await;
        until_sleeping(&lab.token, 1).await;
        until_sleeping(&left, 20).await;
        signal(&b, Signal::KILL).unwrap();
        std::fs::write(lab.path("go"), "").unwrap();
        let note = lab.note().await;
        assert_eq!(note.supervisor, a.supervisor);
        let end = ended(note);
        assert!(end.unlisted > 0 && end.retires, "{end:?}");
        lab.executor.release(a.supervisor);
        until(|| !is_same(&a)).await;
        // Its end is noticed while the next note is waited for.
        let _ = tokio::time::timeout(Duration::from_millis(50), lab.executor.note()).await;
        signal(&c, Signal::KILL).unwrap();
        let mut lost = Vec::new();
        for _ in 0..2 {
            let note = lab.note().await;
            assert!(matches!(note.fate, Fate::Lost(_)), "{note:?}");
            lost.push(note.supervisor);
        }
        lost.sort();
        let mut expected = [b.supervisor, c.supervisor];
        expected.sort();
        assert_eq!(lost, expected);
        assert_eq!((lab.sleepers(), with_argument(&left).len()), (0, 20));
        clear_away(&mut lab, &left).await;
    });
}

/// Waits, without letting the executor notice, until a supervisor is dead.
fn dead(identity: &Identity) {
    while is_same(identity) {
        std::thread::yield_now();
    }
}

fn what_was_left_in_the_same_moment_is_not_swept_for_another() {
    for count in [1, 20] {
        on_one_thread(async {
            let mut lab = subreaper_lab();
            let c = goes_on(&lab);
            let c = lab.start(&c).await;
            let a = leaves(&lab, count);
            let a = lab.start(&a).await;
            let left = format!("1{}", lab.token);
            until_sleeping(&lab.token, 1).await;
            until_sleeping(&left, count).await;
            std::fs::write(lab.path("go"), "").unwrap();
            dead(&a);
            signal(&c, Signal::KILL).unwrap();
            dead(&c);
            for _ in 0..2 {
                let note = lab.note().await;
                if note.supervisor == a.supervisor {
                    assert_eq!(ended(note).unlisted > 0, count > 1);
                } else {
                    assert!(matches!(note.fate, Fate::Lost(_)), "{note:?}");
                }
            }
            assert_eq!(with_argument(&left).len(), count);
            if count == 1 {
                // What is listed leaves no doubt about the rest.
                assert_eq!(lab.sleepers(), 0);
            }
            clear_away(&mut lab, &left).await;
            let own = lab.token.clone();
            clear_away(&mut lab, &own).await;
        });
    }
}
