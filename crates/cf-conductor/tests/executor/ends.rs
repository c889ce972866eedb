//! How processes end by themselves, and what they leave behind.

use std::time::{Duration, Instant};

use cf_conductor::executor::{Executor, ExecutorError, Fate};
use cf_conductor::supervise::{How, Inherited, Leftovers, OsText, Record, Stage};
use cf_core::Ending;

use crate::lab::{Lab, ended, kept, on_one_thread, until, with_lab, zombies};

crate::tests![
    an_exit_code_is_told,
    a_signal_by_somebody_else_is_named,
    standard_input_is_at_its_end_at_once,
    a_prompt_of_a_megabyte_arrives,
    only_the_given_environment_is_passed_on,
    what_jobs_inherit_stays_until_another_is_sent,
    a_process_starts_in_its_directory_and_a_group_of_its_own,
    a_program_is_found_on_the_path_of_the_job,
    what_cannot_be_started_is_told_with_the_reason,
    a_shortage_of_the_system_is_not_the_tasks,
    nothing_that_the_caller_had_open_reaches_an_agent,
    a_supervisor_hands_no_open_file_on,
    a_hundred_attempts_leave_no_zombie,
    both_stages_run_below_one_supervisor,
    a_supervisor_is_replaced_after_so_many_jobs,
    a_stray_session_is_found_and_stopped,
    children_of_a_wrapper_are_stopped_with_it,
    a_held_pipe_does_not_hold_up_the_end,
    the_dying_are_not_left_behind,
    a_kept_program_is_left_alone_and_the_supervisor_retires,
    leftovers_can_be_left_alone,
    a_job_of_half_a_megabyte_goes_through_the_gate,
    many_slots_run_at_once,
    idle_supervisors_end_when_they_are_retired,
    retired_supervisors_leave_no_file,
    a_dead_idle_supervisor_takes_no_job,
    a_conductor_that_cannot_be_looked_into_still_starts_supervisors,
    a_cancelled_wait_loses_nothing,
];

fn an_exit_code_is_told() {
    with_lab(async |mut lab| {
        let job = lab.job("echo out; echo err >&2; exit 7");
        let identity = lab.start(&job).await;
        let end = ended(lab.note().await);
        assert_eq!(
            (end.how, end.ending, end.clean),
            (How::Exited, Some(Ending::Code(7)), true)
        );
        assert_eq!(
            (end.left_behind, end.retires, end.unfinished),
            (0, false, false)
        );
        assert_eq!(kept(&job).head, b"out\nerr\n");
        assert_eq!(end.log.bytes, 8);
        let records = lab.records(&identity);
        assert!(matches!(records[0], Record::Started { attempt, .. } if attempt == job.attempt));
        assert_eq!(records[1..], [Record::Ended(end)]);
        lab.executor.release(identity.supervisor);
        assert_eq!(lab.executor.acquire().await.unwrap(), identity);
    });
}

fn a_signal_by_somebody_else_is_named() {
    with_lab(async |mut lab| {
        let end = lab.ended("kill -KILL $$").await;
        assert_eq!(
            (end.how, end.ending),
            (How::Exited, Some(Ending::Signal(9)))
        );
    });
}

fn standard_input_is_at_its_end_at_once() {
    with_lab(async |mut lab| {
        let end = lab.ended("cat; read line && exit 1; exit 0").await;
        assert_eq!(end.ending, Some(Ending::Code(0)));
        assert_eq!(end.log.bytes, 0);
    });
}

fn a_prompt_of_a_megabyte_arrives() {
    with_lab(async |mut lab| {
        std::fs::write(lab.path("prompt"), vec![b'p'; 1_000_000]).unwrap();
        let mut job = lab.job("wc -c");
        job.stdin = Some(lab.path("prompt").into());
        assert_eq!(ended(lab.run(&job).await).ending, Some(Ending::Code(0)));
        assert_eq!(kept(&job).head.trim_ascii(), b"1000000");
    });
}

fn only_the_given_environment_is_passed_on() {
    with_lab(async |mut lab| {
        let mut job = lab.job("env");
        job.env.push((
            "ODD".into(),
            OsText(std::os::unix::ffi::OsStringExt::from_vec(vec![b'x', 0xff])),
        ));
        job.argv = vec!["env".into()];
        lab.run(&job).await;
        let log = kept(&job).head;
        let mut names: Vec<&[u8]> = log
            .split(|b| *b == b'\n')
            .filter_map(|line| line.split(|b| *b == b'=').next())
            .filter(|name| !name.is_empty())
            .collect();
        names.sort_unstable();
        assert_eq!(names, [b"CF_ATTEMPT_ID".as_slice(), b"ODD", b"PATH"]);
        assert!(log.windows(7).any(|window| window == b"ODD=x\xff\n"));
    });
}

fn what_jobs_inherit_stays_until_another_is_sent() {
    with_lab(async |mut lab| {
        let script = "echo $ONE $TWO";
        let one = Inherited::new([("ONE".into(), "1".into()), ("TWO".into(), "2".into())]);
        let other = Inherited::new([("TWO".into(), "4".into())]);
        let mut said = Vec::new();
        for (inherited, own) in [
            (&one, None),
            (&one, Some("3")),
            (&one, None),
            (&other, None),
            (&Inherited::default(), None),
        ] {
            let mut job = lab.job(script);
            job.inherited = inherited.clone();
            job.env
                .extend(own.map(|value| ("TWO".into(), value.into())));
            lab.run(&job).await;
            said.push(String::from_utf8(kept(&job).head).unwrap());
        }
        assert_eq!(said, ["1 2\n", "1 3\n", "1 2\n", "4\n", "\n"]);
    });
}

fn a_process_starts_in_its_directory_and_a_group_of_its_own() {
    with_lab(async |mut lab| {
        std::fs::create_dir(lab.path("work")).unwrap();
        let mut job = lab.job("pwd -P; read -r _ _ _ ppid pgrp session tty _ </proc/$$/stat; echo $$ $ppid $pgrp $session $tty");
        job.cwd = lab.path("work").into();
        let identity = lab.start(&job).await;
        lab.note().await;
        let said = String::from_utf8(kept(&job).head).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines[0],
            lab.path("work").canonicalize().unwrap().to_str().unwrap()
        );
        let numbers: Vec<i32> = lines[1].split(' ').map(|n| n.parse().unwrap()).collect();
        let [own, ppid, group, session, tty] = numbers[..] else {
            panic!("{lines:?}")
        };
        assert_eq!((ppid, session, tty), (identity.pid, identity.pid, 0));
        assert_eq!(group, own);
    });
}

fn a_program_is_found_on_the_path_of_the_job() {
    with_lab(async |mut lab| {
        std::fs::create_dir(lab.path("bin")).unwrap();
        let program = lab.path("bin/only-here");
        std::fs::write(&program, "#!/bin/sh\necho found; exit 3\n").unwrap();
        std::fs::set_permissions(
            &program,
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )
        .unwrap();
        let mut job = lab.job("");
        job.argv = vec!["only-here".into()];
        job.env = vec![(
            "PATH".into(),
            format!("/nowhere:{}:/bin", lab.path("bin").display()).into(),
        )];
        assert_eq!(ended(lab.run(&job).await).ending, Some(Ending::Code(3)));
        job.attempt.0 = uuid::Uuid::new_v4();
        job.argv = vec!["bin/only-here".into()];
        assert_eq!(ended(lab.run(&job).await).ending, Some(Ending::Code(3)));
    });
}

fn what_cannot_be_started_is_told_with_the_reason() {
    with_lab(async |mut lab| {
        let good = lab.job("exit 0");
        let mut cases = Vec::new();
        let mut missing = good.clone();
        missing.argv = vec!["no-such-program".into()];
        cases.push((
            missing,
            "cannot start no-such-program: it is not on the PATH",
        ));
        let mut absent = good.clone();
        absent.argv = vec!["/no/such".into()];
        cases.push((absent, "cannot start /no/such: No such file"));
        let mut nowhere = good.clone();
        nowhere.cwd = "/no/such/dir".into();
        cases.push((nowhere, "in /no/such/dir: there is no such directory"));
        let mut large = good.clone();
        large
            .env
            .push(("LARGE".into(), "x".repeat(3_000_000).into()));
        cases.push((large, "Argument list too long"));
        let mut unread = good.clone();
        unread.stdin = Some("/no/prompt".into());
        cases.push((unread, "cannot open its input /no/prompt"));
        let mut empty = good.clone();
        empty.argv = vec![];
        cases.push((empty, "the command is empty"));
        for (mut job, says) in cases {
            job.attempt.0 = uuid::Uuid::new_v4();
            match lab.run(&job).await.fate {
                Fate::SpawnFailed { error, passing } => {
                    assert!(error.contains(says) && !passing, "{error}");
                }
                other => panic!("{says}: {other:?}"),
            }
        }
        // The supervisor is still good.
        assert_eq!(ended(lab.run(&good).await).ending, Some(Ending::Code(0)));
        assert_eq!(lab.executor.own_children().len(), 1);
    });
}

fn a_shortage_of_the_system_is_not_the_tasks() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    with_lab(async |mut lab| {
        let identity = lab.executor.acquire().await.unwrap();
        let of = Pid::from_raw(identity.pid);
        // Its limits are those of this process.
        let usual = getrlimit(Resource::Nofile);
        let few = Rlimit {
            current: Some(4),
            ..usual
        };
        prlimit(of, Resource::Nofile, few).unwrap();
        let mut job = lab.job("exit 0");
        lab.executor.submit(identity.supervisor, &job).unwrap();
        let Fate::SpawnFailed { error, passing } = lab.note().await.fate else {
            panic!("it was started")
        };
        assert!(passing && error.contains("Too many open files"), "{error}");
        assert!(matches!(
            lab.records(&identity)[..],
            [
                Record::Started { .. },
                Record::SpawnFailed { passing: true, .. }
            ]
        ));
        prlimit(of, Resource::Nofile, usual).unwrap();
        job.attempt.0 = uuid::Uuid::new_v4();
        lab.executor.submit(identity.supervisor, &job).unwrap();
        assert_eq!(ended(lab.note().await).ending, Some(Ending::Code(0)));
    });
}

/// A file that every program started from here gets, as if the caller of this one had left it open.
fn inherited(lab: &Lab) -> std::fs::File {
    let file = std::fs::File::create(lab.path("secret")).unwrap();
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
    file
}

fn nothing_that_the_caller_had_open_reaches_an_agent() {
    with_lab(async |mut lab| {
        let secret = inherited(&lab);
        cf_conductor::process::close_on_exec_all();
        assert_eq!(
            rustix::io::fcntl_getfd(&secret).unwrap(),
            rustix::io::FdFlags::CLOEXEC
        );
        let job = lab.job("ls -l /proc/$PPID/fd /proc/$$/fd");
        lab.run(&job).await;
        let said = String::from_utf8(kept(&job).head).unwrap();
        assert!(
            said.contains(" 0 -> ") && !said.contains("secret"),
            "{said}"
        );
    });
}

fn a_supervisor_hands_no_open_file_on() {
    with_lab(async |mut lab| {
        let _secret = inherited(&lab);
        let job = lab.job("ls -l /proc/$$/fd");
        lab.run(&job).await;
        let said = String::from_utf8(kept(&job).head).unwrap();
        assert!(
            said.contains(" 0 -> ") && !said.contains("secret"),
            "{said}"
        );
    });
}

fn a_hundred_attempts_leave_no_zombie() {
    with_lab(async |mut lab| {
        for _ in 0..100 {
            let job = lab.job("true & exit 0");
            let identity = lab.start(&job).await;
            assert_eq!(ended(lab.note().await).ending, Some(Ending::Code(0)));
            let below = cf_conductor::process::children(identity.pid);
            assert!(below.is_empty(), "something is left below the supervisor");
            lab.executor.release(identity.supervisor);
            assert_eq!(zombies(), 0);
        }
        assert_eq!(lab.executor.own_children().len(), 1);
        lab.executor.retire_all().await;
        assert!(cf_conductor::process::children(std::process::id() as i32).is_empty());
    });
}

fn both_stages_run_below_one_supervisor() {
    with_lab(async |mut lab| {
        let mut job = lab.job("echo $CF_ATTEMPT_ID");
        let identity = lab.start(&job).await;
        assert_eq!(lab.note().await.stage, Stage::Agent);
        job.stage = Stage::Verify;
        lab.executor.submit(identity.supervisor, &job).unwrap();
        let note = lab.note().await;
        assert_eq!(
            (note.stage, note.supervisor),
            (Stage::Verify, identity.supervisor)
        );
        let line = format!("{}\n", job.attempt);
        assert_eq!(kept(&job).head, line.repeat(2).as_bytes());
        assert_eq!(lab.records(&identity).len(), 4);
    });
}

fn a_supervisor_is_replaced_after_so_many_jobs() {
    on_one_thread(async {
        let mut lab = Lab::new(|options| options.jobs_per_supervisor = 2);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..6 {
            let job = lab.job("exit 0");
            seen.insert(lab.run(&job).await.supervisor);
        }
        assert_eq!(seen.len(), 3);
        lab.executor.retire_all().await;
        let left: Vec<_> = std::fs::read_dir(lab.dir.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    });
}

fn a_stray_session_is_found_and_stopped() {
    with_lab(async |mut lab| {
        let end = lab.ended("setsid sleep TOKEN & sleep 0.1; exit 0").await;
        assert_eq!(
            (end.ending, end.left_behind, end.clean),
            (Some(Ending::Code(0)), 1, true)
        );
        assert!(!end.retires);
        assert_eq!(lab.sleepers(), 0);
    });
}

fn children_of_a_wrapper_are_stopped_with_it() {
    with_lab(async |mut lab| {
        let end = lab.ended("/bin/sh -c 'setsid /bin/sh -c \"trap : TERM; sleep TOKEN & while :; do wait; done\" & sleep 0.1' ; exit 1").await;
        assert_eq!((end.ending, end.clean), (Some(Ending::Code(1)), true));
        assert!(end.left_behind >= 2 && end.kill_at_ms.is_some(), "{end:?}");
        assert_eq!(lab.sleepers(), 0);
    });
}

fn a_held_pipe_does_not_hold_up_the_end() {
    with_lab(async |mut lab| {
        let begun = Instant::now();
        let job = lab.job("sleep TOKEN & echo said; exit 0");
        let end = ended(lab.run(&job).await);
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(
            (end.ending, end.left_behind, end.clean),
            (Some(Ending::Code(0)), 1, true)
        );
        assert_eq!(kept(&job).head, b"said\n");
        assert_eq!(lab.sleepers(), 0);
        // Nor does one that goes on writing.
        let end = lab.ended("yes & exit 0").await;
        assert_eq!((end.left_behind, end.clean), (1, true));
    });
}

fn the_dying_are_not_left_behind() {
    with_lab(async |mut lab| {
        for _ in 0..20 {
            let end = lab.ended("sleep TOKEN & kill $!; exit 0").await;
            assert_eq!(end.left_behind, 0);
        }
    });
}

fn a_kept_program_is_left_alone_and_the_supervisor_retires() {
    with_lab(async |mut lab| {
        std::os::unix::fs::symlink("/bin/sleep", lab.path("cf-build-daemon-with-a-long-name"))
            .unwrap();
        let mut job = lab.job("setsid ./cf-build-daemon-with-a-long-name TOKEN >/dev/null 2>&1 & setsid sleep TOKEN & sleep 0.1; exit 0");
        job.keep = vec!["cf-build-daemon-with-a-long-name".into()];
        let identity = lab.start(&job).await;
        let end = ended(lab.note().await);
        assert_eq!((end.left_behind, end.clean, end.retires), (2, true, true));
        assert_eq!(end.survivors.len(), 1);
        assert_eq!(lab.sleepers(), 1);
        assert!(end.survivors[0].alive());
        assert!(matches!(
            lab.executor.submit(identity.supervisor, &job),
            Err(ExecutorError::Gone(_))
        ));
        lab.executor.release(identity.supervisor);
        assert_ne!(
            lab.executor.acquire().await.unwrap().supervisor,
            identity.supervisor
        );
        let pid = rustix::process::Pid::from_raw(end.survivors[0].pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
}

fn leftovers_can_be_left_alone() {
    with_lab(async |mut lab| {
        let mut job = lab.job("setsid sleep TOKEN & sleep 0.1; exit 0");
        job.leftovers = Leftovers::Report;
        let end = ended(lab.run(&job).await);
        assert_eq!((end.left_behind, end.clean, end.retires), (1, true, true));
        assert_eq!(lab.sleepers(), 1);
        let pid = rustix::process::Pid::from_raw(end.survivors[0].pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
}

fn a_job_of_half_a_megabyte_goes_through_the_gate() {
    with_lab(async |mut lab| {
        let mut job = lab.job("exit 5");
        for n in 0..5 {
            job.env
                .push((format!("LARGE{n}").into(), "x".repeat(100_000).into()));
        }
        assert_eq!(ended(lab.run(&job).await).ending, Some(Ending::Code(5)));
    });
}

fn many_slots_run_at_once() {
    with_lab(async |mut lab| {
        lab.executor.warm(8).unwrap();
        let mut codes = std::collections::HashMap::new();
        for code in 0..8 {
            let job = lab.job(&format!("sleep 0.2; exit {code}"));
            lab.start(&job).await;
            codes.insert(job.attempt, code);
        }
        assert_eq!(lab.executor.running().len(), 8);
        for _ in 0..8 {
            let note = lab.note().await;
            let code = codes.remove(&note.attempt).unwrap();
            lab.executor.release(note.supervisor);
            assert_eq!(ended(note).ending, Some(Ending::Code(code)));
        }
        assert_eq!(lab.executor.running(), []);
        assert_eq!(lab.executor.own_children().len(), 8);
    });
}

fn idle_supervisors_end_when_they_are_retired() {
    with_lab(async |mut lab| {
        lab.executor.warm(3).unwrap();
        let job = lab.job("sleep 0.4; exit 9");
        lab.start(&job).await;
        lab.executor.retire_all().await;
        // What runs is left alone, and still tells.
        assert_eq!(lab.executor.own_children().len(), 1);
        assert_eq!(ended(lab.note().await).ending, Some(Ending::Code(9)));
    });
}

fn retired_supervisors_leave_no_file() {
    with_lab(async |mut lab| {
        let files = |lab: &Lab| {
            let entries = std::fs::read_dir(lab.dir.path()).unwrap().flatten();
            entries
                .filter(|entry| entry.path().extension().is_some_and(|ext| ext == "sup"))
                .count()
        };
        // One that is idle, one that was acquired, one that has not said hello, and one whose report is not stored.
        let job = lab.job("exit 0");
        let reported = lab.start(&job).await;
        lab.note().await;
        let idle = lab.executor.acquire().await.unwrap();
        lab.executor.acquire().await.unwrap();
        lab.executor.release(idle.supervisor);
        lab.executor.warm(2).unwrap();
        lab.executor.retire_all().await;
        assert!(lab.executor.own_children().is_empty());
        assert_eq!((zombies(), files(&lab)), (0, 1));
        lab.executor.release(reported.supervisor);
        assert_eq!(files(&lab), 0);
    });
}

fn a_dead_idle_supervisor_takes_no_job() {
    with_lab(async |mut lab| {
        let job = lab.job("touch ran");
        let identity = lab.executor.acquire().await.unwrap();
        cf_conductor::process::signal(&identity, rustix::process::Signal::KILL).unwrap();
        until(|| !cf_conductor::process::is_same(&identity)).await;
        let refused = lab.executor.submit(identity.supervisor, &job);
        assert!(
            matches!(refused, Err(ExecutorError::Gone(_))),
            "{refused:?}"
        );
        lab.executor.release(identity.supervisor);
        let next = lab.start(&job).await;
        assert_ne!(next.supervisor, identity.supervisor);
        assert_eq!(ended(lab.note().await).ending, Some(Ending::Code(0)));
        lab.executor.release(next.supervisor);
        lab.executor.retire_all().await;
        assert_eq!(zombies(), 0);
    });
}

fn a_conductor_that_cannot_be_looked_into_still_starts_supervisors() {
    with_lab(async |mut lab| {
        cf_conductor::process::make_undumpable().unwrap();
        assert!(cf_conductor::process::proc_available());
        // It does not go on to the agent, which belongs to itself.
        let end = lab
            .ended("cat /proc/self/environ >/dev/null && exit 4")
            .await;
        assert_eq!(end.ending, Some(Ending::Code(4)));
    });
}

fn a_cancelled_wait_loses_nothing() {
    with_lab(async |mut lab| {
        let nothing = Duration::ZERO;
        for code in 0..20 {
            // Dropped before the supervisor can have said hello; it is the next one that is given out.
            let cancelled = tokio::time::timeout(nothing, lab.executor.acquire()).await;
            if let Ok(identity) = cancelled {
                lab.executor.release(identity.unwrap().supervisor);
            }
            let job = lab.job(&format!("exit {code}"));
            let identity = lab.start(&job).await;
            let note = loop {
                if let Ok(note) = tokio::time::timeout(nothing, lab.executor.note()).await {
                    break note;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            };
            assert_eq!(ended(note).ending, Some(Ending::Code(code)));
            lab.executor.release(identity.supervisor);
        }
        assert_eq!(lab.executor.own_children().len(), 1);
    });
}
