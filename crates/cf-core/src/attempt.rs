//! One start of an agent for a task.

use serde::{Deserialize, Serialize};

use crate::words;

words! {
    /// How much is known about the end of an attempt.
    pub enum AttemptEnd ("attempt end") {
        /// The supervisor wrote an exit record: the agent ended by itself, or a limit ended it.
        Exited = "exited",
        /// The supervisor was told to stop it and verified that nothing is left.
        Killed = "killed",
        /// The supervisor was told to stop it and something survived. It counts as live until that is gone.
        Unclean = "unclean",
        /// It was started, nobody is alive, and there is no record.
        Lost = "lost",
        /// It was never started.
        NeverStarted = "never_started",
    }
}

/// How a process ended, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Ending {
    /// Whether it exited with 0.
    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Code(0))
    }
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "killed by signal {signal} ({name})"),
                None => write!(f, "killed by signal {signal}"),
            },
        }
    }
}

/// Names of the signals that end agents in practice, by their number on Linux (signal(7), all architectures that Rust
/// builds for except MIPS, SPARC and PA-RISC for some).
const fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}
