//! What `cf` promises, tried from outside: real processes, real files, no network.
//!
//! One module a subject. A test starts the finished program in a temporary workspace with a home of its own; agents are
//! short shell scripts, which wait for files rather than for time wherever the order of things matters.

mod agent;
mod agent_commands;
mod agent_output;
mod agent_programs;
mod bad_input;
mod batch;
mod blockers;
mod browser;
mod commands;
mod death;
mod doctor;
mod explain;
mod failures;
mod github;
mod guide;
mod help;
mod hooks;
mod import_codeframe;
mod join;
mod json;
mod json_text;
mod left_behind;
mod long_log;
mod man;
mod next_steps;
mod nul;
mod numbers;
mod plan_and_config;
mod plan_formats;
mod plan_shown;
mod process;
mod real_agents;
mod reconcile;
mod reconcile_chain;
mod reconcile_moments;
mod report;
mod resume;
mod sessions;
mod stop;
mod stopped;
mod store_and_ids;
mod storms;
mod surroundings;
mod take_up;
mod taken_over;
mod terminal;
mod trouble;
mod watching;
mod worktree;
mod worktree_bad_input;
mod worktree_crashes;
mod worktree_merge;

use cf_testkit::Workspace;

/// A temporary workspace.
#[track_caller]
fn workspace() -> Workspace {
    empty_folder().init()
}

/// A temporary folder that is not a workspace yet.
fn empty_folder() -> Workspace {
    Workspace::new(env!("CARGO_BIN_EXE_cf"))
}

/// A line of shell that waits until a file exists.
fn until(file: &str) -> String {
    format!("while [ ! -e {file} ]; do sleep 0.05; done")
}

/// An agent that says on `<key>.pid` that it runs, and then sleeps until it is stopped.
fn sleeper(key: &str) -> String {
    format!("echo $$ >> {key}.pid; sleep 60")
}

/// An agent that says on `<key>.pid` that it runs, and ends well as soon as the file `<key>.go` exists.
fn waiter(key: &str) -> String {
    format!("echo $$ >> {key}.pid; {}", until(&format!("{key}.go")))
}

/// An agent that says on `<key>.pid` that it runs, and ignores SIGTERM.
fn stubborn(key: &str) -> String {
    format!("trap '' TERM; echo $$ >> {key}.pid; while :; do sleep 0.1; done")
}

/// A plan of `count` tasks `t0`, `t1`, … with the same script.
fn plan_of(count: usize, script: &str) -> String {
    let task = |n| format!("[[task]]\nkey = 't{n}'\ntitle = 'title {n}'\nrun = '{script}'\n");
    let tasks: Vec<String> = (0..count).map(task).collect();
    tasks.concat()
}
