//! The conductor of `cf`: it composes the store, the sources, the batch loop and the executor.
//!
//! This crate is the only owner of SQLite, of asynchronous tasks, and of the clock. It prints nothing: what happens is
//! stored as events and handed to whoever listens. It decides nothing about what an observation means: that is
//! `cf-reconcile`.

mod alarm;
mod ambient;
pub mod caller;
pub mod closing;
pub mod codeframe;
pub mod conductor;
pub mod doctor;
pub mod engine;
pub mod executor;
pub mod explain;
pub mod fault;
pub mod github;
pub mod heard;
pub mod hooks;
pub mod process;
pub mod prompt;
pub mod schedule;
pub mod settings;
pub mod source;
pub mod store;
mod stray;
pub mod supervise;
pub mod wake;
pub mod workspace;
pub mod worktree;

/// An error with everything that caused it, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
