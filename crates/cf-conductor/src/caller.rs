//! Who calls: a person, or something below an agent.

use cf_core::{Actor, AttemptId};

use crate::process;
use crate::store::attempt::Attempt;
use crate::store::{Result, Store, StoreError};
use crate::supervise::is_supervisor_call;

/// Finds out on whose behalf this process runs.
///
/// Parentage decides: a caller below the live supervisor of an attempt is that attempt, whatever its environment says.
/// Else `CF_ATTEMPT_ID` does, which catches what outlived its supervisor. Else it is a person.
///
/// # Errors
///
/// The store cannot be read; or the caller is below the supervisor of another workspace and hides its attempt.
pub fn actor(store: &Store) -> Result<Actor> {
    let open = store.read(|reader| reader.open_attempts())?;
    if !open.is_empty()
        && let Some(above) = supervisor_above(&open)
    {
        return Ok(Actor::Attempt(above.id));
    }
    if let Some(attempt) = named() {
        return Ok(Actor::Attempt(attempt));
    }
    if is_below_a_supervisor() {
        return Err(StoreError::NotForAgents {
            deed: "change a workspace other than its own".to_owned(),
        });
    }
    Ok(Actor::Cli)
}

/// Refuses an agent where no store can say whose agent it is: outside of every workspace.
///
/// # Errors
///
/// The caller is an agent, or something below one.
pub fn refuse_agent(deed: &str) -> Result<()> {
    if named().is_none() && !is_below_a_supervisor() {
        return Ok(());
    }
    Err(StoreError::NotForAgents {
        deed: deed.to_owned(),
    })
}

/// The attempt that the environment names.
fn named() -> Option<AttemptId> {
    std::env::var("CF_ATTEMPT_ID").ok()?.parse().ok()
}

/// Whether an ancestor of this process is a supervisor of any workspace, by its command line.
fn is_below_a_supervisor() -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    process::ancestors(process::own_pid())
        .into_iter()
        .any(|(pid, _)| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = line.strip_suffix(b"\0").unwrap_or(&line).split(|b| *b == 0);
            is_supervisor_call(words.map(std::ffi::OsStr::from_bytes))
        })
}

/// The newest open attempt whose supervisor is an ancestor of this process.
fn supervisor_above(open: &[Attempt]) -> Option<&Attempt> {
    let boot = process::boot_id().ok()?;
    let ancestors = process::ancestors(process::own_pid());
    open.iter().rev().find(|attempt| {
        let identity = &attempt.supervisor;
        identity.boot_id == boot && ancestors.contains(&(identity.pid, identity.start_ticks))
    })
}
