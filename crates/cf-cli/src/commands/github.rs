//! `cf github` and `cf pr`; and whether a batch follows GitHub, and why.

mod import;
mod status;

use std::collections::BTreeMap;

use cf_conductor::conductor::Setup;
use cf_conductor::github::{GithubSource, remote_of};
use cf_conductor::settings::Settings;
use cf_conductor::store::Store;
use cf_core::TaskId;

use super::Ended;
use crate::args::github::GithubCommand;
use crate::config::{Layer, Setting};
use crate::console::Console;
use crate::error::CliError;
use crate::progress::preview::GitHub;

/// `cf github …`.
pub(super) fn run(command: &GithubCommand, console: &Console) -> Ended {
    match command {
        GithubCommand::Import(args) => import::run(args, console),
        GithubCommand::Status => status::run(console),
    }
}

/// Why GitHub is not asked where a setting says so.
pub(super) const OFF: &str = "reconcile_github is false";

/// GitHub as this process asks it, unless that is switched off.
pub(super) fn source(layer: &Layer) -> Option<GithubSource> {
    if let Some(Setting { value: false, .. }) = &layer.reconcile_github {
        return None;
    }
    // From here on this process may hold a token, which no core dump is to keep.
    let _ = cf_conductor::process::make_undumpable();
    Some(layer.github())
}

/// Whether a batch of these tasks follows GitHub, and why or why not.
///
/// # Errors
///
/// The store cannot be read.
pub(super) fn followed(
    layer: &Layer,
    setup: &Setup,
    store: &Store,
    tasks: &[TaskId],
    settings: &Settings,
) -> Result<GitHub, CliError> {
    let off = |why: String| GitHub { is_on: false, why };
    let on = |why: String| GitHub { is_on: true, why };
    let (Some(source), explicit) = (&setup.github, layer.reconcile_github.as_ref()) else {
        let origin = layer
            .reconcile_github
            .as_ref()
            .map(|setting| &setting.origin);
        return Ok(off(match origin {
            Some(origin) => format!("reconcile_github is false ({origin})"),
            None => OFF.to_owned(),
        }));
    };
    if settings.reconcile_interval.is_zero() {
        return Ok(off("passes are disabled".to_owned()));
    }
    let mut links: BTreeMap<String, usize> = BTreeMap::new();
    store.read(|reader| {
        if reader.has_links()? {
            for task in tasks {
                for link in reader.links(*task)? {
                    *links.entry(link.host).or_default() += 1;
                }
            }
        }
        Ok(())
    })?;
    if links.is_empty() {
        let host = source.default_host();
        let remote = remote_of(setup.workspace.root(), |name| name == host);
        let why = match (&remote, explicit) {
            (_, Some(setting)) => format!("reconcile_github is true ({})", setting.origin),
            (Some((host, repo)), None) => format!("the repository is at {host}/{repo}"),
            (None, None) => {
                return Ok(off(
                    "no task has a link, and the repository has no GitHub remote".to_owned(),
                ));
            }
        };
        return Ok(match source.check(host) {
            Ok(token) => on(format!(
                "{why}; no task has a link yet (token from {token})"
            )),
            Err(refused) => off(refused),
        });
    }
    let count: usize = links.values().sum();
    let mut asked = Vec::new();
    let mut refused = Vec::new();
    for host in links.keys() {
        match source.check(host) {
            Ok(token) => asked.push(format!("{host} with the token from {token}")),
            Err(why) => refused.push(why),
        }
    }
    let links = if count == 1 {
        "1 link".to_owned()
    } else {
        format!("{count} links")
    };
    Ok(if asked.is_empty() {
        off(format!("{} ({links} not followed)", refused.join("; ")))
    } else {
        asked.extend(refused);
        on(format!("{links}, {}", asked.join("; ")))
    })
}
