//! What the tests share: an executor in a temporary directory, jobs that are short shell scripts, looks at `/proc`.

use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use cf_conductor::executor::{Executor, Fate, LocalExecutor, LocalOptions, Note};
use cf_conductor::process::{self, Identity};
use cf_conductor::supervise::logfile::{LogReader, LogView};
use cf_conductor::supervise::{
    Ended, Inherited, Job, Leftovers, LogLimits, OsText, Record, Stage, read_records, record_path,
};
use cf_core::AttemptId;
use tempfile::TempDir;

pub(crate) struct Lab {
    pub(crate) dir: TempDir,
    pub(crate) executor: LocalExecutor,
    /// A number that only this test has in its command lines: `sleep <token>`.
    pub(crate) token: String,
}

/// Runs a test on one thread with a lab.
pub(crate) fn with_lab(test: impl AsyncFnOnce(Lab)) {
    on_one_thread(test(Lab::new(|_| {})));
}

pub(crate) fn on_one_thread(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

impl Lab {
    pub(crate) fn new(change: impl FnOnce(&mut LocalOptions)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut options = LocalOptions::new(dir.path());
        options.lost_grace = Duration::from_millis(300);
        change(&mut options);
        Self {
            executor: LocalExecutor::new(options).unwrap(),
            dir,
            token: format!("9{:08}", std::process::id()),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A job that runs a script; `TOKEN` in it stands for the lab's token.
    pub(crate) fn job(&self, script: &str) -> Job {
        job(self.dir.path(), &script.replace("TOKEN", &self.token))
    }

    /// Starts a job on an acquired supervisor.
    pub(crate) async fn start(&mut self, job: &Job) -> Identity {
        let identity = self.executor.acquire().await.unwrap();
        self.executor.submit(identity.supervisor, job).unwrap();
        identity
    }

    /// Runs a job to its end.
    pub(crate) async fn run(&mut self, job: &Job) -> Note {
        let identity = self.start(job).await;
        let note = self.note().await;
        assert_eq!(
            (note.supervisor, note.attempt, note.stage),
            (identity.supervisor, job.attempt, job.stage)
        );
        self.executor.release(identity.supervisor);
        note
    }

    pub(crate) async fn note(&mut self) -> Note {
        tokio::time::timeout(Duration::from_secs(30), self.executor.note())
            .await
            .expect("a note comes")
    }

    /// Runs a script and returns the record of its end.
    pub(crate) async fn ended(&mut self, script: &str) -> Ended {
        let job = self.job(script);
        ended(self.run(&job).await)
    }

    /// What a supervisor wrote down about its jobs, after its hello.
    pub(crate) fn records(&self, identity: &Identity) -> Vec<Record> {
        let mut records = read_records(&record_path(self.dir.path(), identity.supervisor)).unwrap();
        assert_eq!(records.remove(0), Record::Hello(identity.clone()));
        records
    }

    /// How many processes have the token in their command line.
    pub(crate) fn sleepers(&self) -> usize {
        with_argument(&self.token).len()
    }

    /// Waits until a file is there.
    pub(crate) async fn until_file(&self, name: &str) {
        until(|| self.path(name).exists()).await;
    }
}

pub(crate) fn kept(job: &Job) -> LogView {
    LogReader::new(job.log.path.path()).view().unwrap()
}

pub(crate) fn job(dir: &std::path::Path, script: &str) -> Job {
    let attempt = AttemptId(uuid::Uuid::new_v4());
    Job {
        attempt,
        stage: Stage::Agent,
        argv: ["/bin/sh", "-c", script].map(OsText::from).to_vec(),
        inherited: Inherited::default(),
        env: vec![(
            "PATH".into(),
            std::env::var_os("PATH")
                .unwrap_or("/usr/bin:/bin".into())
                .into(),
        )],
        cwd: dir.into(),
        stdin: None,
        log: LogLimits {
            path: dir.join(format!("{attempt}.log")).into(),
            head_bytes: 64 * 1024,
            tail_bytes: 64 * 1024,
        },
        timeout_ms: None,
        stall_timeout_ms: None,
        grace_ms: 300,
        leftovers: Leftovers::Stop,
        keep: Vec::new(),
    }
}

pub(crate) fn ended(note: Note) -> Ended {
    match note.fate {
        Fate::Ended(ended) => ended,
        other => panic!("another fate: {other:?}"),
    }
}

/// The processes with an argument that is exactly this.
pub(crate) fn with_argument(argument: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        line.split(|b| *b == 0)
            .any(|part| part == argument.as_bytes())
            .then_some(pid)
    })
    .collect()
}

/// The children of this process that have ended and that nobody has waited for.
pub(crate) fn zombies() -> usize {
    let children = process::children(std::process::id() as i32);
    children
        .iter()
        .filter(|pid| process::stat(**pid).is_ok_and(|stat| !stat.runs()))
        .count()
}

/// Waits until something is so.
pub(crate) async fn until(mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it never became so"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
