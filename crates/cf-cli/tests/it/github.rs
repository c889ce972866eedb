//! Tasks that are linked to issues and pull requests: whole batches with real processes against a scripted GitHub.

mod comments;
mod counts;
mod faults;
mod import;
mod issues;
mod known;
mod pulls;
mod real_schema;
mod tokens;

use cf_testkit::Workspace;
use cf_testkit::github::ScriptedGithub;

/// A workspace whose `cf` takes `server` for GitHub, with a short settling time and interval.
#[track_caller]
fn following(server: &ScriptedGithub) -> Workspace {
    configured(server, "settle = \"0s\"")
}

/// The same with these settings of `[github]`.
#[track_caller]
fn configured(server: &ScriptedGithub, settings: &str) -> Workspace {
    let ws = crate::empty_folder().with(server.environment()).init();
    let text =
        format!("reconcile_interval = \"300ms\"\nkill_grace = \"1s\"\n[github]\n{settings}\n");
    ws.write(".cf/config.toml", text);
    ws
}
