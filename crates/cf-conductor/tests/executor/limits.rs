//! Limits: the longest time, the longest silence, and gaps that count for nobody.

use std::time::{Duration, Instant};

use cf_conductor::process;
use cf_conductor::supervise::{How, Limit};
use cf_core::Ending;
use rustix::process::Signal;

use crate::lab::{ended, with_lab};

crate::tests![
    a_timeout_stops_the_agent_with_the_grace,
    a_limit_is_a_failure_and_not_a_stop,
    silence_without_work_is_a_stall,
    output_is_a_sign_of_life,
    work_is_a_sign_of_life,
    the_work_of_children_is_a_sign_of_life,
    the_end_is_not_held_up_by_a_long_limit,
    a_gap_is_not_counted,
];

fn a_timeout_stops_the_agent_with_the_grace() {
    with_lab(async |mut lab| {
        let mut job = lab.job("trap '' TERM; setsid sleep TOKEN & while :; do sleep 0.05; done");
        job.timeout_ms = Some(200);
        job.grace_ms = 200;
        let begun = Instant::now();
        let end = ended(lab.run(&job).await);
        assert!(begun.elapsed() >= Duration::from_millis(400));
        assert_eq!(
            (end.how, end.limit, end.ending),
            (How::Exited, Some(Limit::Timeout), Some(Ending::Signal(9)))
        );
        assert!(end.clean && end.active_ms >= 400, "{end:?}");
        assert_eq!(lab.sleepers(), 0);
    });
}

fn a_limit_is_a_failure_and_not_a_stop() {
    with_lab(async |mut lab| {
        let mut job = lab.job("trap 'exit 0' TERM; while :; do sleep 0.02; done");
        job.timeout_ms = Some(100);
        job.grace_ms = 10_000;
        let end = ended(lab.run(&job).await);
        assert_eq!(
            (end.how, end.limit, end.ending),
            (How::Exited, Some(Limit::Timeout), Some(Ending::Code(0)))
        );
    });
}

fn silence_without_work_is_a_stall() {
    with_lab(async |mut lab| {
        let mut job = lab.job("echo begun; sleep TOKEN");
        job.stall_timeout_ms = Some(400);
        let begun = Instant::now();
        let end = ended(lab.run(&job).await);
        assert!(begun.elapsed() >= Duration::from_millis(400));
        assert_eq!((end.how, end.limit), (How::Exited, Some(Limit::Stall)));
        assert_eq!(lab.sleepers(), 0);
    });
}

fn output_is_a_sign_of_life() {
    with_lab(async |mut lab| {
        let mut job = lab.job("for n in 1 2 3 4 5 6 7 8; do sleep 0.15; echo $n; done; exit 5");
        job.stall_timeout_ms = Some(600);
        assert_eq!(ended(lab.run(&job).await).ending, Some(Ending::Code(5)));
    });
}

fn work_is_a_sign_of_life() {
    with_lab(async |mut lab| {
        let mut job = lab.job("end=$(($(date +%s%N)+1500000000)); while [ $(date +%s%N) -lt $end ]; do :; done; exit 5");
        job.stall_timeout_ms = Some(400);
        assert_eq!(ended(lab.run(&job).await).ending, Some(Ending::Code(5)));
    });
}

fn the_work_of_children_is_a_sign_of_life() {
    with_lab(async |mut lab| {
        let script = "timeout 1.5 setsid /bin/sh -c 'while :; do :; done'; exit 5";
        let mut job = lab.job(script);
        job.stall_timeout_ms = Some(400);
        assert_eq!(ended(lab.run(&job).await).ending, Some(Ending::Code(5)));
    });
}

fn the_end_is_not_held_up_by_a_long_limit() {
    with_lab(async |mut lab| {
        let mut job = lab.job("exit 0");
        job.stall_timeout_ms = Some(3_600_000);
        job.timeout_ms = Some(3_600_000);
        let begun = Instant::now();
        assert_eq!(ended(lab.run(&job).await).limit, None);
        assert!(begun.elapsed() < Duration::from_secs(2));
    });
}

fn a_gap_is_not_counted() {
    with_lab(async |mut lab| {
        let mut job = lab.job("touch f; sleep 0.9; exit 5");
        job.timeout_ms = Some(2_000);
        job.stall_timeout_ms = Some(2_000);
        let identity = lab.start(&job).await;
        lab.until_file("f").await;
        // Everything stands still for longer than both limits, as on a laptop that sleeps.
        let mut all = process::descendants(identity.pid);
        all.insert(0, process::stat(identity.pid).unwrap());
        let send = |signal| {
            for stat in &all {
                let pid = rustix::process::Pid::from_raw(stat.pid).unwrap();
                let _ = rustix::process::kill_process(pid, signal);
            }
        };
        send(Signal::STOP);
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        send(Signal::CONT);
        let end = ended(lab.note().await);
        assert_eq!((end.limit, end.ending), (None, Some(Ending::Code(5))));
        assert!(end.active_ms < 2_000, "{end:?}");
    });
}
