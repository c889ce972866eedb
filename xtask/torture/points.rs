//! The walk: `cf` is made to die once at every named point, is started again, and must come to the same end.

mod beside;

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use cf_conductor::fault::{POINTS, Place};
use cf_testkit::github::ScriptedGithub;
use cf_testkit::process;

use crate::agents::{REPO, Task};
use crate::check;
use crate::ground::{Ground, Kind, PATIENCE, Started};

/// How many batches run at once. They wait most of their time.
const AT_ONCE: usize = 4;

/// How long a batch may take in all, with what dies in it.
const LONGEST: Duration = Duration::from_secs(90);

/// What happens around the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tale {
    /// A batch with everything in it that an agent can do, from its start to its end.
    Work,
    /// The same, whose conductor was killed once before.
    Resumed,
    /// A batch that is stopped, after one of its tasks was.
    Stopped,
    /// The work of agents in worktrees of a repository.
    Trees,
    /// A batch whose tasks have issues, of which one is closed and one is commented on.
    Followed,
    /// A command that meets an old database.
    Migrated,
    /// An import of a plan.
    Imported,
    /// A merge of finished work.
    Merged,
}

impl Tale {
    fn of(point: &str) -> Self {
        let about = |words: &[&str]| words.iter().any(|word| point.ends_with(word));
        if point.starts_with("migrate.") {
            Self::Migrated
        } else if about(&["TASK_CREATED"]) {
            Self::Imported
        } else if about(&["TASK_STATUS_CHANGED", "merge.merged"]) {
            Self::Merged
        } else if point.starts_with("tree.") {
            Self::Trees
        } else if about(&["BATCH_TASK_CONTEXT", "context.told"]) || point.starts_with("look.") {
            Self::Followed
        } else if about(&["BATCH_RESUMED", "ATTEMPT_ADOPTED", "adopted"]) {
            Self::Resumed
        } else if about(&["BATCH_STOP_REQUESTED", "CANCELLED"]) {
            Self::Stopped
        } else {
            Self::Work
        }
    }
}

/// Walks every point whose name contains the text, and prints how each came out. Returns how many came out wrong.
pub(crate) fn walk(cf: &Path, folder: &Path, only: Option<&str>) -> u64 {
    let mut steps: VecDeque<(&str, &str)> = VecDeque::new();
    for point in POINTS {
        if only.is_some_and(|only| !point.name.contains(only)) {
            continue;
        }
        match point.place {
            Place::Conductor => steps.push_back((point.name, "kill")),
            Place::Supervisor => {
                steps.extend(["kill", "parent", "both"].map(|action| (point.name, action)));
            }
        }
    }
    let count = steps.len();
    let steps = Mutex::new(steps);
    let bad = Mutex::new(0);
    scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let step = steps
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .pop_front();
                    let Some((point, action)) = step else { return };
                    let base = folder.join(format!("{point}-{action}"));
                    let begun = Instant::now();
                    match one(cf, &base, point, action) {
                        Ok(()) => println!(
                            "ok    {point} ({action}, {:.1} s)",
                            begun.elapsed().as_secs_f32()
                        ),
                        Err(faults) => {
                            *bad.lock().unwrap_or_else(PoisonError::into_inner) += 1;
                            println!(
                                "FAIL  {point} ({action}), kept in {}\n      {}\n      \
                                 again: cargo xtask torture --points {point}",
                                base.display(),
                                faults.join("\n").replace('\n', "\n      ")
                            );
                        }
                    }
                }
            });
        }
    });
    let bad = bad.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!(
        "torture: {count} deaths at {} points, {bad} with faults",
        POINTS.len()
    );
    bad
}

fn one(cf: &Path, base: &Path, point: &str, action: &str) -> Result<(), Vec<String>> {
    let alone = |fault: String| vec![fault];
    let tale = Tale::of(point);
    let kind = Kind {
        repository: matches!(tale, Tale::Trees | Tale::Merged),
        ..Kind::default()
    };
    let github = (tale == Tale::Followed).then(ScriptedGithub::start);
    let surroundings = match &github {
        Some(github) => {
            (1..=2).for_each(|issue| github.issue(REPO, issue));
            let named = |(name, value): (&str, String)| (name.to_owned(), value);
            github.environment().map(named).to_vec()
        }
        None => vec![("CF_RECONCILE_GITHUB".to_owned(), "false".to_owned())],
    };
    let mut ground = Ground::new(base, cf, kind, surroundings).map_err(alone)?;
    let mut walk = Walk {
        fault: format!("{point}:{action}"),
        tale,
        github: github.as_ref(),
        ground: &mut ground,
        conductor: None,
        done: Vec::new(),
    };
    let mut faults: Vec<String> = match walk.tale {
        Tale::Migrated => walk.migrate(),
        Tale::Imported => walk.import(),
        Tale::Merged => walk.merge(),
        _ => walk.batch(),
    }
    .err()
    .into_iter()
    .collect();
    if !ground.books.join("mark").exists() {
        faults.push("nobody came to the point".to_owned());
    }
    faults.extend(ground.one_more_batch().err());
    faults.extend(check::faults(&mut ground, &[]));
    if faults.is_empty() {
        ground.remove();
        return Ok(());
    }
    ground.keep();
    Err(faults)
}

/// One walk to one point, and on from there.
struct Walk<'a> {
    fault: String,
    tale: Tale,
    github: Option<&'a ScriptedGithub>,
    ground: &'a mut Ground,
    conductor: Option<Started>,
    /// What people have done already.
    done: Vec<&'static str>,
}

impl Walk<'_> {
    /// Starts a command that dies at the point, unless somebody has died there before.
    fn start(&mut self, args: &[&str]) -> Result<Started, String> {
        let mut command = self.ground.cf(args, None);
        command
            .env("CF_FAULT", &self.fault)
            .env("CF_FAULT_MARK", self.ground.books.join("mark"));
        self.ground.start(&mut command)
    }

    fn tasks(&self) -> Vec<Task> {
        let books = &self.ground.books;
        let task = |key: &str, body: &str| Task::new(books, key, body);
        let for_ever = "until [ -e /nowhere ]; do sleep 0.05; done";
        if self.tale == Tale::Stopped {
            return vec![
                task("byhand", for_ever),
                task("long", for_ever),
                task("never", "ended 0").after("long"),
            ];
        }
        let mut tasks = vec![
            task("verified", "ended 0").verified(books, "exit 0"),
            task("flaky", "nth 1 && ended 3\nended 0").after("verified"),
            task(
                "asks",
                "nth 1 && { cf blocker ask 'which way?' || ended 9; ended 0; }\nended 0",
            ),
            task("skipped", for_ever),
            task("back", &format!("nth 1 && {for_ever}\nended 0")),
            task("leaves", "(setsid sleep 60 &)\nended 0"),
            task("last", "ended 0").after("asks"),
        ];
        if self.tale == Tale::Followed {
            let talked = task("talked", "until [ -e go ]; do sleep 0.05; done\nended 0");
            tasks.push(talked.with_issue(2));
            for skipped in tasks.iter_mut().filter(|task| task.key == "skipped") {
                skipped.issue = Some(1);
            }
        }
        if self.tale == Tale::Resumed {
            tasks.push(task(
                "long",
                "until [ -e go ]; do sleep 0.05; done\nended 0",
            ));
        }
        tasks
    }

    fn batch(&mut self) -> Result<(), String> {
        let tasks = self.tasks();
        self.ground.import(&tasks)?;
        let deadline = Instant::now() + LONGEST;
        let mut starts = 0;
        loop {
            if Instant::now() >= deadline {
                let text = self
                    .conductor
                    .as_ref()
                    .map(Started::text)
                    .unwrap_or_default();
                return Err(format!("the batch does not come to an end:\n{text}"));
            }
            let ended = self
                .conductor
                .as_mut()
                .is_none_or(|conductor| !conductor.running());
            if ended {
                let batch = self.ground.texts("SELECT status FROM batch").join(" ");
                if !batch.is_empty() && batch != "RUNNING" && batch != "PENDING" {
                    return self.look_at_the_end(&batch);
                }
                starts += 1;
                if starts > 6 {
                    let text = self
                        .conductor
                        .as_ref()
                        .map(Started::text)
                        .unwrap_or_default();
                    return Err(format!("six starts, and the batch has not ended:\n{text}"));
                }
                self.conductor = Some(self.conduct(&batch, &tasks)?);
            }
            self.people()?;
            sleep(Duration::from_millis(20));
        }
    }

    /// Starts the batch, or goes on with it.
    fn conduct(&mut self, batch: &str, tasks: &[Task]) -> Result<Started, String> {
        if batch.is_empty() {
            let mut args = vec!["work", "batch", "run"];
            args.extend(tasks.iter().map(|task| task.key.as_str()));
            args.extend([
                "--max-parallel=4",
                "--retry=2",
                "--retry-delay=50ms",
                "--kill-grace=300ms",
                "--wait-for-blockers=60s",
                "--reconcile-interval=1s",
            ]);
            if self.tale == Tale::Trees {
                args.push("--isolation=worktree");
            }
            return self.start(&args);
        }
        let id = self.ground.texts("SELECT id FROM batch").join("");
        if self.tale == Tale::Stopped {
            return self.start(&["work", "batch", "stop", &id, "--force"]);
        }
        self.start(&["work", "batch", "resume", &id])
    }

    /// What people do while the batch runs, each once.
    fn people(&mut self) -> Result<(), String> {
        for id in self
            .ground
            .texts("SELECT id FROM blocker WHERE status = 'OPEN' AND asked_by = 'agent'")
        {
            self.ground
                .run(&["blocker", "answer", &id, "this way"], PATIENCE)?;
        }
        if self.tale == Tale::Stopped {
            if self.due("byhand", "byhand") {
                let mut stop = self.start(&["work", "stop", "byhand"])?;
                if stop
                    .wait(PATIENCE)
                    .is_some_and(|ended| ended.code == Some(0))
                {
                    self.done.push("byhand");
                }
            }
            if self.done.contains(&"byhand") && self.due("long", "stop") {
                let mut stop = self.start(&["work", "batch", "stop", "--force"])?;
                if stop
                    .wait(PATIENCE)
                    .is_some_and(|ended| ended.code == Some(0))
                {
                    self.done.push("stop");
                }
            }
            return Ok(());
        }
        if let Some(github) = self.github {
            self.readers(github)?;
        }
        for (task, status) in [("skipped", "DONE"), ("back", "READY")] {
            if self.due(task, task) {
                self.ground
                    .must(&["tasks", "set", "status", task, status])?;
                self.done.push(task);
            }
        }
        if self.tale == Tale::Resumed && self.due("long", "kill") {
            self.done.push("kill");
            if let Some(conductor) = &self.conductor {
                process::kill9(conductor.child.id());
            }
            fs::write(self.ground.root.join("go"), "").map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// What people do on GitHub: one issue is closed, and another is commented on, whose agent goes on when that is
    /// known here.
    fn readers(&mut self, github: &ScriptedGithub) -> Result<(), String> {
        if self.due("skipped", "skipped") {
            github.close(REPO, 1, Some("COMPLETED"));
            self.done.push("skipped");
        }
        if self.due("talked", "talked") {
            github.comment(REPO, 2, "have a look");
            self.done.push("talked");
        }
        let known = self.ground.texts("SELECT body FROM comment").len();
        if known > 1 {
            return Err(format!("one comment was stored {known} times"));
        }
        if known == 1 {
            fs::write(self.ground.root.join("go"), "").map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Whether the agent of a task runs, and this was not done yet.
    fn due(&self, task: &str, what: &str) -> bool {
        let began = self.ground.book("book");
        let mut began = began.lines().filter(|line| line.starts_with("began "));
        !self.done.contains(&what) && began.any(|line| line.split(' ').nth(2) == Some(task))
    }

    fn look_at_the_end(&mut self, batch: &str) -> Result<(), String> {
        let statuses = self
            .ground
            .texts("SELECT key || ' ' || status FROM task WHERE key IS NOT NULL ORDER BY pk");
        let expected = if self.tale == Tale::Stopped {
            ("CANCELLED", "READY")
        } else {
            ("COMPLETED", "DONE")
        };
        let wrong: Vec<_> = statuses
            .iter()
            .filter(|status| !status.ends_with(expected.1))
            .collect();
        if batch != expected.0 || !wrong.is_empty() {
            let text = self
                .conductor
                .as_ref()
                .map(Started::text)
                .unwrap_or_default();
            return Err(format!("the batch ended {batch}; {wrong:?}\n{text}"));
        }
        Ok(())
    }
}
