//! Output: bounded, kept as it came, and never in the way of the agent.

use std::time::Duration;

use cf_conductor::executor::Executor;
use cf_conductor::supervise::logfile::tail_path;
use cf_core::Ending;

use crate::lab::{ended, kept, with_lab};

crate::tests![
    much_output_takes_little_room,
    one_endless_line_takes_little_memory,
    bytes_that_are_not_text_are_kept,
    a_log_that_cannot_be_written_does_not_harm_the_agent,
    a_log_is_never_written_through_a_link,
    a_log_is_followed_while_it_is_written,
    a_log_is_for_its_owner_only,
    silence_makes_no_file,
];

fn much_output_takes_little_room() {
    with_lab(async |mut lab| {
        let job = lab.job("echo first; head -c 200000000 /dev/zero; echo; echo last");
        let identity = lab.start(&job).await;
        let end = ended(lab.note().await);
        assert_eq!(end.ending, Some(Ending::Code(0)));
        assert_eq!(end.log.bytes, 200_000_012);
        assert_eq!(end.log.cut, 200_000_012 - 2 * 64 * 1024);
        let view = kept(&job);
        assert!(view.head.starts_with(b"first\n\0") && view.tail.ends_with(b"\0\nlast\n"));
        assert_eq!(
            view.head.len() as u64 + view.cut_bytes + view.tail.len() as u64,
            end.log.bytes
        );
        let size = |path| std::fs::metadata(path).unwrap().len();
        let log = job.log.path.path();
        assert!(size(log.clone()) + size(tail_path(&log)) < 3 * 64 * 1024 + 4096);
        assert!(memory_kib(identity.pid) < 8 * 1024);
    });
}

fn one_endless_line_takes_little_memory() {
    with_lab(async |mut lab| {
        let job = lab.job("head -c 100000000 /dev/zero | tr '\\0' x");
        let identity = lab.start(&job).await;
        assert_eq!(ended(lab.note().await).log.bytes, 100_000_000);
        assert!(memory_kib(identity.pid) < 8 * 1024);
        assert!(kept(&job).tail.iter().all(|b| *b == b'x'));
    });
}

/// The largest resident size that a process has had.
fn memory_kib(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn bytes_that_are_not_text_are_kept() {
    with_lab(async |mut lab| {
        let job = lab.job("printf 'a\\377\\000\\033[31mb'");
        lab.run(&job).await;
        assert_eq!(kept(&job).head, b"a\xff\0\x1b[31mb");
    });
}

fn a_log_that_cannot_be_written_does_not_harm_the_agent() {
    with_lab(async |mut lab| {
        let mut job = lab.job("head -c 300000 /dev/zero; exit 3");
        job.log.path = lab.path("no/such/dir/log").into();
        let end = ended(lab.run(&job).await);
        assert_eq!(end.ending, Some(Ending::Code(3)));
        assert_eq!((end.log.bytes, end.log.dropped), (0, 300_000));
    });
}

fn a_log_is_never_written_through_a_link() {
    with_lab(async |mut lab| {
        let job = lab.job("echo text");
        std::os::unix::fs::symlink(lab.path("victim"), job.log.path.path()).unwrap();
        assert_eq!(ended(lab.run(&job).await).log.dropped, 5);
        assert!(!lab.path("victim").exists());
    });
}

fn a_log_is_followed_while_it_is_written() {
    with_lab(async |mut lab| {
        let job =
            lab.job("n=0; while [ $n -lt 20 ]; do echo line $n; n=$((n+1)); sleep 0.01; done");
        lab.start(&job).await;
        let log = job.log.path.path();
        let mut seen = Vec::new();
        while !seen.ends_with(b"line 19\n") {
            let chunk = lab
                .executor
                .read_log(&log, seen.len() as u64, 1000)
                .unwrap();
            assert_eq!(chunk.skipped, 0);
            seen.extend(chunk.bytes);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        lab.note().await;
        assert_eq!(seen, kept(&job).head);
    });
}

fn a_log_is_for_its_owner_only() {
    with_lab(async |mut lab| {
        use std::os::unix::fs::PermissionsExt;
        let job = lab.job("head -c 100000 /dev/zero");
        let identity = lab.start(&job).await;
        lab.note().await;
        let log = job.log.path.path();
        let own = cf_conductor::supervise::record_path(lab.dir.path(), identity.supervisor);
        for file in [log.clone(), tail_path(&log), own] {
            let mode = std::fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    });
}

fn silence_makes_no_file() {
    with_lab(async |mut lab| {
        let job = lab.job("exit 0");
        lab.run(&job).await;
        assert!(!job.log.path.path().exists());
        assert_eq!(kept(&job).head, b"");
    });
}
