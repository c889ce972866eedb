//! The floors: bare programs that do only the unavoidable part of what `cf` does.
//!
//! `cargo xtask bench` runs them beside `cf` and prints the ratio. They record nothing, check nothing and recover from
//! nothing; whatever `cf` costs above them is the price of that.

mod react;
mod spawn;
mod store;

use std::process::ExitCode;

type Answer = Result<(), Box<dyn std::error::Error>>;

const USAGE: &str = "\
usage: cf-floor spawn SLOTS TASKS COMMAND…
       cf-floor spawn-commit DB full|normal joint|two SLOTS TASKS COMMAND…
       cf-floor count DB
       cf-floor list DB
       cf-floor append DB full|normal EVENTS
       cf-floor passes DB
       cf-floor pass DB all|unchanged|one TIMES
       cf-floor react DB PID KEY COMMAND…
       cf-floor kill PID COMMAND…
       cf-floor obey DB WAKE KEY PID";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["spawn", slots, tasks, command @ ..] if !command.is_empty() => {
            spawn::bare(slots, tasks, command)
        }
        [
            "spawn-commit",
            db,
            sync,
            commits,
            slots,
            tasks,
            command @ ..,
        ] if !command.is_empty() => spawn::committing(db, sync, commits, slots, tasks, command),
        ["count", db] => store::count(db),
        ["list", db] => store::list(db),
        ["append", db, sync, events] => store::append(db, sync, events),
        ["passes", db] => store::passes(db),
        ["pass", db, what, times] => store::pass(db, what, times),
        ["obey", db, wake, key, pid] => react::obey(db, wake, key, pid),
        ["kill", pid, command @ ..] if !command.is_empty() => react::kill(pid, command),
        ["react", db, pid, key, command @ ..] if !command.is_empty() => {
            react::measure(db, pid, key, command)
        }
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cf-floor: {error}");
            ExitCode::FAILURE
        }
    }
}
