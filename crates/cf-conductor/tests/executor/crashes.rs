//! Conductors that die, and those that come after them.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use cf_conductor::executor::{Adopted, Executor, ExecutorError, Fate, LocalExecutor, LocalOptions};
use cf_conductor::process::{Identity, is_same, lock_held, signal};
use cf_conductor::supervise::{Frame, How, Job, Record, record_path, supervisor_args};
use cf_core::Ending;
use rustix::process::Signal;

use crate::lab::{Lab, ended, kept, on_one_thread, until, with_lab};

crate::tests![
    an_agent_of_a_dead_conductor_is_adopted,
    an_agent_that_ended_meanwhile_is_read_from_the_file,
    an_adopted_agent_is_stopped_by_signals,
    an_adopted_agent_is_killed_at_once,
    a_short_grace_holds_for_an_adopted_agent_too,
    a_stop_is_finished_when_the_conductor_dies_in_the_middle,
    a_conductor_that_dies_before_it_submits_starts_nothing,
    half_a_job_starts_nothing,
    a_whole_job_runs_although_its_conductor_is_gone,
    an_adopted_supervisor_that_is_killed_is_told_and_swept,
    a_supervisor_without_its_file_is_not_taken_for_dead,
    a_lock_is_held_exactly_as_long_as_its_supervisor_lives,
    a_supervisor_that_cannot_be_started_is_an_error,
    a_supervisor_that_dies_before_its_hello_says_how,
    an_adopted_supervisor_that_was_stopped_stops_what_it_runs,
];

/// The argument that makes this program a conductor: of one job (JSON), in a directory; it tells the identity and
/// waits.
pub(crate) const CONDUCTOR: &str = "__conductor";

pub(crate) fn conductor(arguments: &[String]) -> ExitCode {
    let [dir, job, submit] = arguments else {
        return ExitCode::FAILURE;
    };
    on_one_thread(async {
        let mut executor = LocalExecutor::new(LocalOptions::new(dir)).unwrap();
        let job: Job = serde_json::from_str(job).unwrap();
        let identity = executor.acquire().await.unwrap();
        if submit == "submit" {
            executor.submit(identity.supervisor, &job).unwrap();
        }
        println!("{}", serde_json::to_string(&identity).unwrap());
        let mut line = String::new();
        // Each line asks for a stop with so much grace.
        while BufReader::new(std::io::stdin())
            .read_line(&mut line)
            .is_ok_and(|n| n > 0)
        {
            let grace = Duration::from_millis(line.trim().parse().unwrap());
            executor.stop(identity.supervisor, grace).unwrap();
            println!("stopping");
            line.clear();
        }
    });
    ExitCode::SUCCESS
}

struct OtherConductor {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
    identity: Identity,
}

impl OtherConductor {
    fn start(lab: &Lab, job: &Job, submit: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                CONDUCTOR,
                lab.dir.path().to_str().unwrap(),
                &serde_json::to_string(job).unwrap(),
                submit,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let identity = serde_json::from_str(&line).unwrap();
        Self {
            child,
            said,
            identity,
        }
    }

    fn stop(&mut self, grace_ms: u64) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{grace_ms}").unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
    }

    fn die(mut self) -> Identity {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.identity
    }
}

async fn orphaned(lab: &Lab, job: &Job) -> Identity {
    let other = OtherConductor::start(lab, job, "submit");
    lab.until_file("f").await;
    other.die()
}

fn an_agent_of_a_dead_conductor_is_adopted() {
    with_lab(async |mut lab| {
        let job = lab.job("touch f; while ! [ -e g ]; do sleep 0.02; done; echo done; exit 4");
        let identity = orphaned(&lab, &job).await;
        assert_eq!(
            lab.executor
                .adopt(&identity, job.attempt, job.stage)
                .unwrap(),
            Adopted::Running
        );
        assert_eq!(lab.executor.running().len(), 1);
        std::fs::write(lab.path("g"), "").unwrap();
        let note = lab.note().await;
        assert_eq!(note.supervisor, identity.supervisor);
        let end = ended(note);
        assert_eq!((end.how, end.ending), (How::Exited, Some(Ending::Code(4))));
        assert_eq!(kept(&job).head, b"done\n");
        // It took no further job: the gate is closed.
        until(|| !is_same(&identity)).await;
        let file = record_path(lab.dir.path(), identity.supervisor);
        assert!(file.exists());
        lab.executor.release(identity.supervisor);
        assert!(!file.exists());
    });
}

fn an_agent_that_ended_meanwhile_is_read_from_the_file() {
    with_lab(async |mut lab| {
        let job = lab.job("touch f; sleep 0.1; exit 4");
        let identity = orphaned(&lab, &job).await;
        until(|| !is_same(&identity)).await;
        let Adopted::Settled(Fate::Ended(end)) = lab
            .executor
            .adopt(&identity, job.attempt, job.stage)
            .unwrap()
        else {
            panic!("it was over");
        };
        assert_eq!(end.ending, Some(Ending::Code(4)));
        // Never the verdict of another attempt, or of another stage.
        lab.executor.release(identity.supervisor);
        assert!(lab.executor.running().is_empty());
    });
}

fn an_adopted_agent_is_stopped_by_signals() {
    with_lab(async |mut lab| {
        let job = lab
            .job("trap 'exit 9' TERM; setsid sleep TOKEN & touch f; while :; do sleep 0.02; done");
        let identity = orphaned(&lab, &job).await;
        lab.executor
            .adopt(&identity, job.attempt, job.stage)
            .unwrap();
        lab.executor
            .stop(identity.supervisor, Duration::from_secs(10))
            .unwrap();
        let end = ended(lab.note().await);
        assert_eq!(
            (end.how, end.ending, end.clean),
            (How::Killed, Some(Ending::Code(9)), true)
        );
        assert_eq!(lab.sleepers(), 0);
    });
}

const STUBBORN: &str = "trap '' TERM; touch f; while :; do sleep 0.02; done";

fn an_adopted_agent_is_killed_at_once() {
    with_lab(async |mut lab| {
        let mut job = lab.job(STUBBORN);
        job.grace_ms = 60_000;
        let identity = orphaned(&lab, &job).await;
        lab.executor
            .adopt(&identity, job.attempt, job.stage)
            .unwrap();
        lab.executor.kill(identity.supervisor).unwrap();
        let end = ended(lab.note().await);
        assert_eq!(
            (end.how, end.ending),
            (How::Killed, Some(Ending::Signal(9)))
        );
    });
}

fn a_short_grace_holds_for_an_adopted_agent_too() {
    with_lab(async |mut lab| {
        let mut job = lab.job(STUBBORN);
        job.grace_ms = 60_000;
        let identity = orphaned(&lab, &job).await;
        lab.executor
            .adopt(&identity, job.attempt, job.stage)
            .unwrap();
        lab.executor
            .stop(identity.supervisor, Duration::from_millis(200))
            .unwrap();
        let end = ended(lab.note().await);
        assert!(
            end.term_at_ms.is_some() && end.kill_at_ms.is_some(),
            "{end:?}"
        );
    });
}

fn a_stop_is_finished_when_the_conductor_dies_in_the_middle() {
    with_lab(async |mut lab| {
        let job = lab.job(STUBBORN);
        let mut other = OtherConductor::start(&lab, &job, "submit");
        lab.until_file("f").await;
        other.stop(500);
        let identity = other.die();
        lab.executor
            .adopt(&identity, job.attempt, job.stage)
            .unwrap();
        let end = ended(lab.note().await);
        assert_eq!(
            (end.how, end.ending, end.clean),
            (How::Killed, Some(Ending::Signal(9)), true)
        );
    });
}

fn a_conductor_that_dies_before_it_submits_starts_nothing() {
    with_lab(async |mut lab| {
        let job = lab.job("touch ran");
        let identity = OtherConductor::start(&lab, &job, "only-acquire").die();
        until(|| !is_same(&identity)).await;
        let adopted = lab
            .executor
            .adopt(&identity, job.attempt, job.stage)
            .unwrap();
        assert_eq!(adopted, Adopted::Settled(Fate::NeverStarted));
        assert!(!lab.path("ran").exists());
    });
}

/// A supervisor at whose gate the test itself stands.
fn by_hand(lab: &Lab) -> (Child, std::path::PathBuf) {
    let file = record_path(lab.dir.path(), cf_core::SupervisorId(uuid::Uuid::new_v4()));
    let [name, arguments @ ..] = supervisor_args(&file);
    let child = Command::new(std::env::current_exe().unwrap())
        .arg0(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    (child, file)
}

fn half_a_job_starts_nothing() {
    with_lab(async |lab| {
        let frame = Frame::Job(Box::new(lab.job("touch ran")))
            .to_bytes()
            .unwrap();
        for cut in [0, 3, 4, frame.len() / 2, frame.len() - 1] {
            let (mut child, file) = by_hand(&lab);
            child
                .stdin
                .take()
                .unwrap()
                .write_all(&frame[..cut])
                .unwrap();
            assert!(child.wait().unwrap().success());
            let records = cf_conductor::supervise::read_records(&file).unwrap();
            assert!(matches!(records[..], [Record::Hello(_)]), "{records:?}");
        }
        assert!(!lab.path("ran").exists());
    });
}

fn a_whole_job_runs_although_its_conductor_is_gone() {
    with_lab(async |lab| {
        let job = lab.job("exit 3");
        let (mut child, file) = by_hand(&lab);
        let frame = Frame::Job(Box::new(job)).to_bytes().unwrap();
        child.stdin.take().unwrap().write_all(&frame).unwrap();
        drop(child.stdout.take());
        assert!(child.wait().unwrap().success());
        let records = cf_conductor::supervise::read_records(&file).unwrap();
        assert!(
            matches!(&records[2], Record::Ended(end) if end.ending == Some(Ending::Code(3))),
            "{records:?}"
        );
    });
}

fn an_adopted_supervisor_that_is_killed_is_told_and_swept() {
    with_lab(async |mut lab| {
        let job = lab.job("setsid sleep TOKEN & touch f; sleep TOKEN");
        let identity = orphaned(&lab, &job).await;
        lab.executor
            .adopt(&identity, job.attempt, job.stage)
            .unwrap();
        signal(&identity, Signal::KILL).unwrap();
        let note = lab.note().await;
        let Fate::Lost(swept) = note.fate else {
            panic!("{:?}", note.fate)
        };
        assert!(swept.survivors.is_empty());
        assert_eq!(lab.sleepers(), 0);
    });
}

fn a_supervisor_without_its_file_is_not_taken_for_dead() {
    with_lab(async |mut lab| {
        let job = lab.job("touch f; sleep 0.3; exit 0");
        let identity = orphaned(&lab, &job).await;
        std::fs::remove_file(record_path(lab.dir.path(), identity.supervisor)).unwrap();
        assert_eq!(
            lab.executor
                .adopt(&identity, job.attempt, job.stage)
                .unwrap(),
            Adopted::Running
        );
        // How it ended, nobody knows any more; that it did is certain.
        assert!(matches!(lab.note().await.fate, Fate::Lost(_)));
        assert!(!is_same(&identity));
    });
}

fn a_lock_is_held_exactly_as_long_as_its_supervisor_lives() {
    with_lab(async |mut lab| {
        let identity = lab.executor.acquire().await.unwrap();
        let file = record_path(lab.dir.path(), identity.supervisor);
        assert!(lock_held(&file));
        // What runs below it does not hold the lock in its place.
        let job = lab.job("touch f; sleep TOKEN");
        lab.executor.submit(identity.supervisor, &job).unwrap();
        lab.until_file("f").await;
        signal(&identity, Signal::KILL).unwrap();
        until(|| !lock_held(&file)).await;
        lab.note().await;
        assert!(!lock_held(Path::new("/no/such/file")));
    });
}

fn a_supervisor_that_cannot_be_started_is_an_error() {
    on_one_thread(async {
        for program in ["/no/such/program", "/bin/false"] {
            let mut lab = Lab::new(|options| options.exe = program.into());
            let refused = lab.executor.acquire().await;
            assert!(
                matches!(refused, Err(ExecutorError::Start { .. })),
                "{refused:?}"
            );
            assert_eq!(crate::lab::zombies(), 0);
        }
    });
}

fn a_supervisor_that_dies_before_its_hello_says_how() {
    use std::os::unix::fs::PermissionsExt;
    on_one_thread(async {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let script = format!(
            "#!/bin/sh\n[ -e {0}/once ] || {{ >{0}/once; exit 7; }}\nkill -KILL $$\n",
            dir.path().display(),
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let mut lab = Lab::new(|options| options.exe = program);
        for says in ["exit status: 7", "signal: 9"] {
            let refused = lab.executor.acquire().await;
            let Err(ExecutorError::Start { source, .. }) = refused else {
                panic!("{refused:?}")
            };
            assert!(source.to_string().contains(says), "{source}");
            assert_eq!(crate::lab::zombies(), 0);
            assert!(lab.executor.own_children().is_empty());
        }
    });
    with_lab(async |mut lab| {
        lab.executor.warm(1).unwrap();
        let pid = lab.executor.own_children()[0];
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL)
            .unwrap();
        // It may have said hello before.
        if lab.executor.acquire().await.is_err() {
            assert_eq!(crate::lab::zombies(), 0);
        }
        let job = lab.job("exit 0");
        assert_eq!(ended(lab.run(&job).await).ending, Some(Ending::Code(0)));
    });
}

fn an_adopted_supervisor_that_was_stopped_stops_what_it_runs() {
    with_lab(async |mut lab| {
        let job = lab.job("kill -STOP $PPID; touch f; sleep TOKEN");
        let identity = orphaned(&lab, &job).await;
        lab.executor
            .adopt(&identity, job.attempt, job.stage)
            .unwrap();
        lab.executor.kill(identity.supervisor).unwrap();
        let end = ended(lab.note().await);
        assert_eq!((end.how, end.clean), (How::Killed, true));
        assert_eq!(lab.sleepers(), 0);
    });
}
