//! The tasks of a round, and the agents that keep their own books.
//!
//! The books lie outside the workspace and are written by the agents themselves, so that nothing that `cf` believes
//! goes into them: a file an attempt says that its agent was started, a lock a task is held by everything that an
//! attempt of the task left alive, and a line in one file says when an agent began and how it ended. The shell makes
//! the file itself, because the adversary kills what an agent calls as well: `mkdir` was killed when it had made a
//! folder.

use std::fmt::Write as _;
use std::path::Path;

use crate::rng::Rng;

/// The functions that every agent begins with. `@` stands for the folder of the books.
const BOOKS: &str = r#"
set -C
{ true > "@/began.$CF_ATTEMPT_ID"; } 2>/dev/null || {
    [ ! -f "@/began.$CF_ATTEMPT_ID" ] || echo "attempt $CF_ATTEMPT_ID of $CF_TASK_KEY began twice" >> "@/faults"
}
set +C
hold() {
    exec 9>> "@/lock.$CF_TASK_KEY"
    flock -n -E 75 9
    [ $? != 75 ] || echo "$1 of $CF_TASK_KEY ($CF_ATTEMPT_ID) runs beside another one" >> "@/faults"
}
hold agent
echo "began $CF_ATTEMPT_ID $CF_TASK_KEY $$" >> "@/book"
ended() { echo "ended $CF_ATTEMPT_ID $CF_TASK_KEY $1" >> "@/book"; exit "$1"; }
in_tree() { [ "$(pwd -P)" != "$(cd "$CF_WORKSPACE" && pwd -P)" ]; }
in_tree && echo "$CF_ATTEMPT_ID" > "made.$CF_ATTEMPT_ID" && echo "worked $CF_ATTEMPT_ID" >> "@/book"
nth() { mkdir "@/nth.$CF_TASK_KEY.$1" 2>/dev/null; }
"#;

/// What the command of a verification begins with.
const VERIFY: &str = r#"
exec 9>> "@/lock.$CF_TASK_KEY"
flock -n -E 75 9
[ $? != 75 ] || echo "verification of $CF_TASK_KEY ($CF_ATTEMPT_ID) runs beside another one" >> "@/faults"
"#;

/// Writes the functions, and returns how an agent's script begins.
pub(crate) fn write_books(books: &Path) -> std::io::Result<()> {
    let folder = books.to_string_lossy();
    std::fs::write(books.join("agent.sh"), BOOKS.replace('@', &folder))?;
    std::fs::write(books.join("verify.sh"), VERIFY.replace('@', &folder))
}

/// One task of a plan file.
pub(crate) struct Task {
    pub(crate) key: String,
    pub(crate) run: String,
    pub(crate) verify: Option<String>,
    pub(crate) after: Vec<String>,
    pub(crate) priority: u64,
    pub(crate) issue: Option<u64>,
}

impl Task {
    pub(crate) fn new(books: &Path, key: &str, body: &str) -> Self {
        Self {
            key: key.to_owned(),
            run: format!(". {}/agent.sh\n{body}", books.display()),
            verify: None,
            after: Vec::new(),
            priority: 0,
            issue: None,
        }
    }

    pub(crate) fn verified(mut self, books: &Path, body: &str) -> Self {
        self.verify = Some(format!(". {}/verify.sh\n{body}", books.display()));
        self
    }

    pub(crate) const fn with_issue(mut self, issue: u64) -> Self {
        self.issue = Some(issue);
        self
    }

    pub(crate) fn after(mut self, key: &str) -> Self {
        self.after.push(key.to_owned());
        self
    }
}

/// The repository whose issues the tasks of a round are linked to.
pub(crate) const REPO: &str = "acme/torture";

/// The plan file of these tasks.
pub(crate) fn plan(tasks: &[Task]) -> String {
    let mut text = String::new();
    for task in tasks {
        let after: Vec<String> = task.after.iter().map(|key| format!("'{key}'")).collect();
        let _ = write!(
            text,
            "[[task]]\nkey = '{}'\ntitle = 'torture {}'\npriority = {}\ndepends_on = [{}]\nrun = '''{}'''\n",
            task.key,
            task.key,
            task.priority,
            after.join(", "),
            task.run
        );
        if let Some(verify) = &task.verify {
            let _ = writeln!(text, "verify = '''{verify}'''");
        }
        if let Some(issue) = task.issue {
            let _ = writeln!(text, "issue = 'https://github.com/{REPO}/issues/{issue}'");
        }
    }
    text
}

/// What an agent does that sleeps for a part of a second and then goes on.
fn nap(rng: &mut Rng) -> String {
    format!("sleep 0.{:02}", rng.within(0, 40))
}

/// The tasks of a round.
pub(crate) fn tasks(rng: &mut Rng, books: &Path, linked: bool) -> Vec<Task> {
    let most = if rng.once_in(6) { 70 } else { 22 };
    let count = rng.within(6, most);
    let mut tasks: Vec<Task> = Vec::new();
    for n in 0..count {
        let folder = books.display();
        let nap = nap(rng);
        let body = match rng.within(0, 18) {
            0 => format!("nth 1 && ended 3\n{nap}\nended 0"),
            1 => format!("{nap}\nnth 1 && {{ cf blocker ask 'which way?'; ended 0; }}\nended 0"),
            2 => format!("trap '' TERM\n{nap}\n{nap}\n{nap}\nended 0"),
            3 => format!("(setsid sleep 60 &)\n(sleep 60 &)\n{nap}\nended 0"),
            4 => format!("until [ -e {folder}/calm ]; do sleep 0.1; done\nended 0"),
            5 => format!("{nap}\ncf tasks set status self DONE\nended 0"),
            6 => format!("{nap}\ncf tasks add 'found on the way' >/dev/null\nended 0"),
            7 => format!("{nap}\nended {}", rng.within(0, 3)),
            8 => format!("{nap}\nhead -c 300000 /dev/zero | tr '\\0' x\nended 0"),
            9 => format!("nth 1 && kill -9 $PPID\n{nap}\nended 0"),
            10 => format!(
                "for n in 1 2 3 4 5 6; do (sleep 0.1; setsid sleep 60) & done\n{nap}\nended 0"
            ),
            11 => format!("setsid sh -c 'exec 9>&-; sleep 60' >/dev/null 2>&1 &\n{nap}\nended 0"),
            12 => format!(
                "{nap}\nin_tree && git add --all && git commit --quiet -m 'by the agent'\n{nap}\nended 0"
            ),
            13 => format!(
                "in_tree && git checkout --quiet --detach\n{nap}\nin_tree && git add --all\n{nap}\nended 0"
            ),
            _ => format!("{nap}\nended 0"),
        };
        let mut task = Task::new(books, &format!("t{n}"), &body);
        if rng.once_in(4) {
            let verify = if rng.once_in(3) {
                "[ $(( $$ % 2 )) = 0 ]"
            } else {
                "sleep 0.05"
            };
            task = task.verified(books, verify);
        }
        for _ in 0..rng.within(0, 3) {
            if n > 0 && rng.once_in(2) {
                let on = format!("t{}", rng.within(0, n));
                if !task.after.contains(&on) {
                    task.after.push(on);
                }
            }
        }
        task.priority = rng.within(0, 3);
        if linked && rng.once_in(2) {
            task.issue = Some(n + 1);
        }
        tasks.push(task);
    }
    tasks
}
