//! What cf's tests share: temporary workspaces, the `cf` program under a deadline, and a look at real processes.
//!
//! Everything here drives the finished program from outside, as a person in a shell would: nothing reaches into the
//! crates that it tests. Agents are short `/bin/sh` scripts. A [`Workspace`] kills whatever its test left running when
//! it is dropped, so that a failing test leaves no process behind.

mod command;
mod fuzz;
pub mod github;
pub mod model;
pub mod process;
mod task;
pub mod terminal;
mod workspace;

pub use command::{Cf, Output, Running, Shown};
pub use fuzz::fuzz;
pub use rustix::process::Signal;
pub use serde_json::{Value, json};
pub use task::NewTask;
pub use workspace::{DatabaseLock, OtherDatabase, Workspace};
