//! `cf completions`.

use std::io::Write as _;

use super::Ended;
use crate::args::{self, CompletionsArgs};
use crate::console;

pub(super) fn run(args: &CompletionsArgs) -> Ended {
    // The generator panics when its writer refuses, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::whole(), "cf", &mut script);
    let mut out = console::out();
    out.write_all(&script)?;
    out.flush()?;
    Ok(0)
}
