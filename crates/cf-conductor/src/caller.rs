//! Who calls: a person, or something below an agent.

use cf_core::Actor;

use crate::process;
use crate::store::attempt::Attempt;
use crate::store::{Result, Store};

/// Finds out on whose behalf this process runs.
///
/// Parentage decides: a caller below the live supervisor of an attempt is that attempt, whatever its environment says.
/// Else `CF_ATTEMPT_ID` does, which catches what outlived its supervisor. Else it is a person.
///
/// # Errors
///
/// The store cannot be read.
pub fn actor(store: &Store) -> Result<Actor> {
    let open = store.read(|reader| reader.open_attempts())?;
    if !open.is_empty()
        && let Some(above) = supervisor_above(&open)
    {
        return Ok(Actor::Attempt(above.id));
    }
    let named = std::env::var("CF_ATTEMPT_ID")
        .ok()
        .and_then(|text| text.parse().ok());
    Ok(named.map_or(Actor::Cli, Actor::Attempt))
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
