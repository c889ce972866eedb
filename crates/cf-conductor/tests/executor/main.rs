//! The local executor with real supervisors and real processes.
//!
//! This program is its own supervisor, and its own conductor where one is to be killed; that is why it has a `main` of
//! its own instead of the usual harness. Every test runs in a process of its own, so that orphans and children of one
//! are nobody else's. It understands what `cargo test` passes: a filter, `--exact`, `--list`.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests; clippy takes only functions marked as such for tests"
)]

mod crashes;
mod ends;
mod lab;
mod limits;
mod output;
mod stops;
mod sweeps;

use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cf_conductor::supervise;

/// The longest time that one test may take.
const TOO_LONG: Duration = Duration::from_mins(1);

type Test = (&'static str, fn());

fn main() -> ExitCode {
    if supervise::is_supervisor_call(std::env::args_os()) {
        return supervise::supervise();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [name, rest @ ..] = arguments.as_slice()
        && name == crashes::CONDUCTOR
    {
        return crashes::conductor(rest);
    }
    let tests: Vec<Test> = [
        ends::TESTS,
        stops::TESTS,
        output::TESTS,
        limits::TESTS,
        crashes::TESTS,
        sweeps::TESTS,
    ]
    .concat();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let valued = ["--format", "--color", "--test-threads", "--skip"];
    let filters: Vec<&String> = arguments
        .iter()
        .enumerate()
        .filter(|(at, argument)| {
            let is_value = *at > 0 && valued.contains(&arguments[at - 1].as_str());
            !is_value && !argument.starts_with('-')
        })
        .map(|(_, argument)| argument)
        .collect();
    let chosen: Vec<Test> = tests
        .into_iter()
        .filter(|(name, _)| {
            filters.is_empty()
                || filters.iter().any(|filter| {
                    if has("--exact") {
                        name == filter
                    } else {
                        name.contains(filter.as_str())
                    }
                })
        })
        .collect();
    if has("--list") {
        if !has("--ignored") {
            for (name, _) in &chosen {
                println!("{name}: test");
            }
        }
        return ExitCode::SUCCESS;
    }
    if has("--exact") {
        // A panic ends the process with an error, which is the answer.
        for (_, test) in &chosen {
            test();
        }
        return ExitCode::SUCCESS;
    }
    run_all(&chosen)
}

/// Runs every test in a process of its own, several at a time.
fn run_all(tests: &[Test]) -> ExitCode {
    let begun = Instant::now();
    let queue = Mutex::new(tests.iter());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no thread panics").next();
                    let Some((name, _)) = next else { break };
                    match run_one(name) {
                        Ok(()) => println!("test {name} ... ok"),
                        Err(output) => {
                            println!("test {name} ... FAILED\n{output}");
                            failed.lock().expect("no thread panics").push(*name);
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no thread panics");
    println!(
        "\n{} passed, {} failed in {:.1} s {failed:?}",
        tests.len() - failed.len(),
        failed.len(),
        begun.elapsed().as_secs_f32()
    );
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_one(name: &str) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let file = || {
        output
            .reopen()
            .map(Stdio::from)
            .map_err(|error| error.to_string())
    };
    let mut child = Command::new(program)
        .args(["--exact", name])
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(file()?)
        .stderr(file()?)
        .spawn()
        .map_err(|error| error.to_string())?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            let said = std::fs::read(output.path()).unwrap_or_default();
            return if status.success() {
                Ok(())
            } else {
                Err(format!("{status}\n{}", String::from_utf8_lossy(&said)))
            };
        }
        if begun.elapsed() > TOO_LONG {
            let _ = child.kill();
            let _ = child.wait();
            return Err("took too long".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The tests of a module by name, so that each is listed where it is written.
macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[crate::Test] =
            &[$((concat!(module_path!(), "::", stringify!($name)), $name)),+];
    };
}
pub(crate) use tests;
