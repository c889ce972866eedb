//! `cf init`.

use std::path::{Path, PathBuf};

use cf_conductor::caller;
use cf_conductor::store::Store;
use cf_conductor::workspace::Workspace;
use serde_json::json;

use super::Ended;
use crate::args::InitArgs;
use crate::console::{self, Console};
use crate::error::CliError;
use crate::render::text;
use crate::workspace;

pub(super) fn run(args: &InitArgs, console: &Console) -> Ended {
    caller::refuse_agent("make a workspace")?;
    let root = match &args.path {
        Some(path) => {
            std::fs::create_dir_all(path).map_err(|source| CliError::File {
                what: "create",
                path: path.clone(),
                source,
            })?;
            path.clone()
        }
        None => match workspace::find()? {
            Some(found) => found.root().to_owned(),
            None => repository_root(&workspace::current_dir()?),
        },
    };
    let (workspace, created) = Workspace::create(&root)?;
    // One that was there may hold something else under our name.
    Store::open(&workspace)?;
    if console.json {
        console::print_json(
            &json!({ "workspace": workspace.root().to_string_lossy(), "created": created }),
        )?;
        return Ok(0);
    }
    if created {
        console.say(format_args!(
            "made a workspace in {}",
            text::path(workspace.root())
        ))?;
        console.say(format_args!(
            "next: cf tasks add \"What is to be done\" --run ./script.sh"
        ))?;
    } else {
        console.say(format_args!(
            "there is a workspace in {} already",
            text::path(workspace.root())
        ))?;
    }
    Ok(0)
}

/// The root of the repository that a directory belongs to, else the directory.
fn repository_root(directory: &Path) -> PathBuf {
    directory
        .ancestors()
        .find(|folder| folder.join(".git").exists())
        .unwrap_or(directory)
        .to_owned()
}
