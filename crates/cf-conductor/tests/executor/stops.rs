//! Stopping: everything below is asked, then ended, and it is verified that nothing is left.

use std::time::{Duration, Instant};

use cf_conductor::executor::{Executor, Fate, Note};
use cf_conductor::process;
use cf_conductor::supervise::How;
use cf_core::{AttemptEnd, Ending};

use crate::lab::{Lab, ended, kept, on_one_thread, until, with_argument, with_lab, zombies};

crate::tests![
    a_loop_in_the_background_is_gone_too,
    what_hangs_below_an_agent_that_ends_at_once_is_asked_too,
    who_ignores_the_request_is_killed_after_the_grace,
    who_ends_in_time_is_not_killed,
    a_kill_does_not_wait,
    a_second_request_shortens_the_grace,
    a_hundred_children_in_sessions_of_their_own,
    a_chain_of_fifty_sessions,
    processes_that_keep_hopping_are_caught,
    a_stopped_process_ends_too,
    what_ended_by_itself_was_not_stopped,
    a_stop_for_an_earlier_attempt_does_not_hit_the_next,
    a_stop_cuts_the_tidying_short,
    a_supervisor_is_used_again_after_a_stop,
    a_supervisor_that_was_stopped_is_woken_for_a_stop,
    a_supervisor_that_is_stopped_again_and_again_is_killed,
    an_idle_supervisor_that_was_stopped_still_takes_jobs,
    a_stopped_supervisor_takes_a_job_of_megabytes,
    stopped_supervisors_end_when_they_are_retired,
    a_supervisor_that_was_stopped_before_its_hello_is_woken,
    one_that_stops_twice_before_its_hello_is_woken_twice_and_holds_up_no_other,
];

async fn stop_after(lab: &mut Lab, script: &str, ready: &str, grace: Duration) -> Note {
    let job = lab.job(script);
    let identity = lab.start(&job).await;
    lab.until_file(ready).await;
    lab.executor.stop(identity.supervisor, grace).unwrap();
    let note = lab.note().await;
    lab.executor.release(identity.supervisor);
    note
}

fn a_loop_in_the_background_is_gone_too() {
    with_lab(async |mut lab| {
        let script = "while :; do date >>f; sleep 0.05; done & wait";
        let end = ended(stop_after(&mut lab, script, "f", Duration::from_secs(2)).await);
        assert_eq!(
            (end.how, end.ending, end.clean),
            (How::Killed, Some(Ending::Signal(15)), true)
        );
        let size = || std::fs::metadata(lab.path("f")).unwrap().len();
        let before = size();
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(size(), before);
    });
}

fn what_hangs_below_an_agent_that_ends_at_once_is_asked_too() {
    with_lab(async |mut lab| {
        // Many others below the supervisor, so that it is still looking at them when the agent has ended.
        let others = "for i in $(seq 100); do (sleep TOKEN &); done";
        // The last one says itself that it is there: what is started during the stop may get no request.
        let script = format!("{others}; sh -c 'touch f; exec sleep TOKEN'; :");
        let grace = Duration::from_secs(5);
        let end = ended(stop_after(&mut lab, &script, "f", grace).await);
        assert_eq!((end.how, end.kill_at_ms), (How::Killed, None), "{end:?}");
        assert_eq!(lab.sleepers(), 0);
    });
}

fn who_ignores_the_request_is_killed_after_the_grace() {
    with_lab(async |mut lab| {
        let begun = Instant::now();
        let script = "trap '' TERM; touch f; while :; do sleep 0.05; done";
        let note = stop_after(&mut lab, script, "f", Duration::from_millis(400)).await;
        assert!(begun.elapsed() >= Duration::from_millis(400));
        assert_eq!(note.fate.attempt_end(), AttemptEnd::Killed);
        let end = ended(note);
        assert_eq!(
            (end.how, end.ending, end.clean),
            (How::Killed, Some(Ending::Signal(9)), true)
        );
        assert!(
            end.kill_at_ms.unwrap() - end.term_at_ms.unwrap() >= 399,
            "{end:?}"
        );
    });
}

fn who_ends_in_time_is_not_killed() {
    with_lab(async |mut lab| {
        let script =
            "trap 'sleep 0.1; echo tidy; exit 4' TERM; touch f; while :; do sleep 0.02; done";
        let job = lab.job(script);
        let identity = lab.start(&job).await;
        lab.until_file("f").await;
        lab.executor
            .stop(identity.supervisor, Duration::from_secs(10))
            .unwrap();
        let end = ended(lab.note().await);
        assert_eq!((end.how, end.kill_at_ms), (How::Killed, None));
        assert_eq!(end.ending, Some(Ending::Code(4)));
        assert!(kept(&job).head.ends_with(b"tidy\n"));
    });
}

fn a_kill_does_not_wait() {
    with_lab(async |mut lab| {
        let job = lab.job("trap '' TERM; touch f; sleep TOKEN");
        let identity = lab.start(&job).await;
        lab.until_file("f").await;
        lab.executor.kill(identity.supervisor).unwrap();
        let end = ended(lab.note().await);
        assert_eq!(
            (end.how, end.ending, end.term_at_ms),
            (How::Killed, Some(Ending::Signal(9)), None)
        );
        assert_eq!(lab.sleepers(), 0);
    });
}

fn a_second_request_shortens_the_grace() {
    with_lab(async |mut lab| {
        let begun = Instant::now();
        let job = lab.job("trap '' TERM; touch f; while :; do sleep 0.05; done");
        let identity = lab.start(&job).await;
        lab.until_file("f").await;
        lab.executor
            .stop(identity.supervisor, Duration::from_mins(1))
            .unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        lab.executor
            .stop(identity.supervisor, Duration::ZERO)
            .unwrap();
        let end = ended(lab.note().await);
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert_eq!((end.how, end.clean), (How::Killed, true));
        assert!(end.term_at_ms.is_some() && end.kill_at_ms.is_some());
    });
}

fn a_hundred_children_in_sessions_of_their_own() {
    with_lab(async |mut lab| {
        let script = "trap '' TERM; n=0; while [ $n -lt 100 ]; do setsid sleep TOKEN & n=$((n+1)); done; touch f; wait";
        let end = ended(stop_after(&mut lab, script, "f", Duration::from_millis(100)).await);
        assert_eq!((end.how, end.clean), (How::Killed, true));
        assert_eq!(lab.sleepers(), 0);
    });
}

fn a_chain_of_fifty_sessions() {
    with_lab(async |mut lab| {
        let script = "trap '' TERM\nif [ $1 -gt 0 ]; then setsid /bin/sh chain.sh $(($1-1)) TOKEN; else touch f; sleep TOKEN; fi\n";
        std::fs::write(lab.path("chain.sh"), script.replace("TOKEN", &lab.token)).unwrap();
        let end = ended(
            stop_after(
                &mut lab,
                "/bin/sh chain.sh 50 TOKEN; :",
                "f",
                Duration::from_millis(50),
            )
            .await,
        );
        assert_eq!((end.how, end.clean), (How::Killed, true));
        assert_eq!(lab.sleepers(), 0);
    });
}

fn processes_that_keep_hopping_are_caught() {
    with_lab(async |mut lab| {
        std::fs::write(
            lab.path("hop.sh"),
            "trap '' TERM\nsetsid /bin/sh hop.sh $1 &\nexit 0\n",
        )
        .unwrap();
        let script =
            "for n in 1 2 3; do /bin/sh hop.sh TOKEN & done; sleep 0.1; touch f; sleep TOKEN";
        let end = ended(stop_after(&mut lab, script, "f", Duration::from_millis(50)).await);
        assert_eq!((end.how, end.clean), (How::Killed, true));
        assert_eq!(lab.sleepers(), 0);
        // The same when they are what an agent leaves behind.
        let end = lab.ended("/bin/sh hop.sh TOKEN & exit 0").await;
        assert_eq!((end.how, end.clean), (How::Exited, true));
        assert_eq!(lab.sleepers(), 0);
    });
}

fn a_stopped_process_ends_too() {
    with_lab(async |mut lab| {
        let script = "trap 'exit 3' TERM; touch f; kill -STOP $$; sleep TOKEN";
        let job = lab.job(script);
        let identity = lab.start(&job).await;
        let agent_stopped = || {
            let below = process::children(identity.pid);
            below
                .iter()
                .any(|pid| process::stat(*pid).is_ok_and(|stat| stat.state == b'T'))
        };
        until(agent_stopped).await;
        lab.executor
            .stop(identity.supervisor, Duration::from_secs(10))
            .unwrap();
        let end = ended(lab.note().await);
        assert_eq!(
            (end.how, end.ending, end.kill_at_ms),
            (How::Killed, Some(Ending::Code(3)), None)
        );
    });
}

fn what_ended_by_itself_was_not_stopped() {
    with_lab(async |mut lab| {
        let job = lab.job("exit 6");
        let identity = lab.start(&job).await;
        until(|| lab.records(&identity).len() == 2).await;
        // Its note is on the way; nobody has read it yet.
        lab.executor
            .stop(identity.supervisor, Duration::ZERO)
            .unwrap();
        let end = ended(lab.note().await);
        assert_eq!((end.how, end.ending), (How::Exited, Some(Ending::Code(6))));
    });
}

fn a_stop_for_an_earlier_attempt_does_not_hit_the_next() {
    with_lab(async |mut lab| {
        let job = lab.job("exit 0");
        let identity = lab.start(&job).await;
        until(|| lab.records(&identity).len() == 2).await;
        lab.executor
            .stop(identity.supervisor, Duration::ZERO)
            .unwrap();
        lab.note().await;
        let mut next = lab.job("sleep 0.2; exit 8");
        next.stage = cf_conductor::supervise::Stage::Verify;
        lab.executor.submit(identity.supervisor, &next).unwrap();
        assert_eq!(ended(lab.note().await).ending, Some(Ending::Code(8)));
    });
}

fn a_stop_cuts_the_tidying_short() {
    with_lab(async |mut lab| {
        let mut job = lab.job("(trap '' TERM; touch f; while :; do sleep TOKEN; done) & while ! [ -e f ]; do :; done; exit 2");
        job.grace_ms = 60_000;
        let identity = lab.start(&job).await;
        until(|| lab.records(&identity).len() == 2).await;
        lab.executor
            .stop(identity.supervisor, Duration::from_millis(10))
            .unwrap();
        let end = ended(lab.note().await);
        assert_eq!(
            (end.how, end.ending, end.clean),
            (How::Exited, Some(Ending::Code(2)), true)
        );
        assert!(end.left_behind > 0 && end.kill_at_ms.is_some());
        assert_eq!(lab.sleepers(), 0);
        assert_eq!(lab.records(&identity).len(), 3);
    });
}

fn a_supervisor_is_used_again_after_a_stop() {
    with_lab(async |mut lab| {
        for _ in 0..3 {
            let note = stop_after(
                &mut lab,
                "touch f; setsid sleep TOKEN & sleep TOKEN",
                "f",
                Duration::from_secs(2),
            )
            .await;
            assert!(ended(note).clean);
            std::fs::remove_file(lab.path("f")).unwrap();
        }
        assert_eq!(lab.executor.own_children().len(), 1);
        assert!(with_argument(&lab.token).is_empty());
    });
}

fn a_supervisor_that_was_stopped_is_woken_for_a_stop() {
    with_lab(async |mut lab| {
        let begun = Instant::now();
        for grace in [Duration::ZERO, Duration::from_millis(100)] {
            let script = "kill -STOP $PPID; touch f; exec sleep TOKEN";
            let note = stop_after(&mut lab, script, "f", grace).await;
            assert!(ended(note).clean);
            std::fs::remove_file(lab.path("f")).unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(lab.sleepers(), 0);
    });
}

fn a_supervisor_that_is_stopped_again_and_again_is_killed() {
    on_one_thread(async {
        let mut lab = Lab::new(|options| options.stop_bound = Duration::from_millis(200));
        let script = "again() { trap '' TERM; while :; do kill -STOP $1; done; }; again $PPID & again $PPID & again $PPID & touch f; sleep TOKEN";
        let job = lab.job(script);
        let identity = lab.start(&job).await;
        lab.until_file("f").await;
        lab.executor
            .stop(identity.supervisor, Duration::from_millis(100))
            .unwrap();
        let note = lab.note().await;
        match note.fate {
            Fate::Lost(swept) => assert!(swept.survivors.is_empty()),
            other => panic!("{other:?}"),
        }
        assert_eq!((lab.sleepers(), zombies()), (0, 0));
        lab.executor.release(identity.supervisor);
        let next = lab.job("exit 0");
        assert_eq!(ended(lab.run(&next).await).ending, Some(Ending::Code(0)));
    });
}

/// Stops a process for good, from outside.
async fn halt(pid: i32) {
    let stopped = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(stopped, rustix::process::Signal::STOP).unwrap();
    until(|| process::stat(pid).unwrap().state == b'T').await;
}

fn an_idle_supervisor_that_was_stopped_still_takes_jobs() {
    with_lab(async |mut lab| {
        let identity = lab.executor.acquire().await.unwrap();
        lab.executor.release(identity.supervisor);
        halt(identity.pid).await;
        let job = lab.job("exit 3");
        assert_eq!(ended(lab.run(&job).await).ending, Some(Ending::Code(3)));
        assert_eq!(lab.executor.own_children(), [identity.pid]);
    });
}

fn a_stopped_supervisor_takes_a_job_of_megabytes() {
    with_lab(async |mut lab| {
        let mut job = lab.job("exit 5");
        for n in 0..12 {
            job.env
                .push((format!("LARGE{n}").into(), "x".repeat(100_000).into()));
        }
        let identity = lab.executor.acquire().await.unwrap();
        halt(identity.pid).await;
        lab.executor.submit(identity.supervisor, &job).unwrap();
        assert_eq!(ended(lab.note().await).ending, Some(Ending::Code(5)));
    });
}

fn stopped_supervisors_end_when_they_are_retired() {
    with_lab(async |mut lab| {
        let begun = Instant::now();
        let acquired = lab.executor.acquire().await.unwrap();
        let idle = lab.executor.acquire().await.unwrap();
        lab.executor.release(idle.supervisor);
        halt(acquired.pid).await;
        halt(idle.pid).await;
        lab.executor.retire_all().await;
        assert!(begun.elapsed() < Duration::from_secs(4));
        assert!(lab.executor.own_children().is_empty());
        assert_eq!(zombies(), 0);
    });
}

fn a_supervisor_that_was_stopped_before_its_hello_is_woken() {
    with_lab(async |mut lab| {
        lab.executor.warm(1).unwrap();
        let pid = lab.executor.own_children()[0];
        halt(pid).await;
        assert_eq!(lab.executor.acquire().await.unwrap().pid, pid);
    });
}

fn one_that_stops_twice_before_its_hello_is_woken_twice_and_holds_up_no_other() {
    use std::os::unix::fs::PermissionsExt;
    on_one_thread(async {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let script = format!(
            "#!/bin/sh\n[ -e {0}/once ] || {{ >{0}/once; kill -STOP $$; kill -STOP $$; }}\n\
             PATH={0} exec cf-supervise \"$@\"\n",
            dir.path().display(),
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let itself = std::env::current_exe().unwrap();
        std::os::unix::fs::symlink(itself, dir.path().join("cf-supervise")).unwrap();
        let mut lab = Lab::new(|options| options.exe = program);
        lab.executor.warm(1).unwrap();
        let slow = lab.executor.own_children()[0];
        until(|| process::stat(slow).unwrap().state == b'T').await;
        lab.executor.warm(2).unwrap();
        assert_ne!(lab.executor.acquire().await.unwrap().pid, slow);
        assert_eq!(lab.executor.acquire().await.unwrap().pid, slow);
    });
}
