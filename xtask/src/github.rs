//! What is tested against GitHub's own descriptions of itself: its GraphQL schema and its OpenAPI description, as npm
//! has them, with servers on loopback that are built on them. Needs node and npm; without them it says so and goes on.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::problem::Problem;
use crate::repo::{Repo, must, on_path, output};

const SCHEMA: &str = "crates/cf-github/tests/schema";
const REST: &str = "crates/cf-github/tests/rest";

/// Every test against GitHub's own descriptions.
pub(crate) fn on_its_own_descriptions(repo: &Repo) -> Result<(), Problem> {
    if !on_path("node") || !on_path("npm") {
        println!("GitHub's schema: SKIPPED, node and npm are not on the PATH");
        return Ok(());
    }
    if install(repo, SCHEMA) {
        validate_documents(repo)?;
        ignored(repo, "cf-github", "real_schema")?;
        ignored(repo, "cf-cli", "github::real_schema")?;
    }
    if install(repo, REST) {
        must(node(repo, REST).arg("slice.mjs"))?;
        ignored(repo, "cf-github", "real_rest")?;
    }
    Ok(())
}

/// Installs the packages that a folder's lock file names, unless they are there. Tells whether they are.
fn install(repo: &Repo, folder: &str) -> bool {
    let folder = repo.root.join(folder);
    let installed = modified(&folder.join("node_modules/.package-lock.json"));
    if installed.is_some() && installed >= modified(&folder.join("package-lock.json")) {
        return true;
    }
    let mut npm = Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&folder)
        .stdin(Stdio::null());
    if must(&mut npm).is_ok() {
        return true;
    }
    // Without a network nothing can be installed, and the other tests are worth running all the same.
    println!(
        "GitHub's schema: SKIPPED, npm cannot install the packages of {}",
        folder.display()
    );
    false
}

fn modified(file: &Path) -> Option<std::time::SystemTime> {
    std::fs::metadata(file)
        .and_then(|meta| meta.modified())
        .ok()
}

fn node(repo: &Repo, folder: &str) -> Command {
    let mut node = Command::new("node");
    node.current_dir(repo.root.join(folder))
        .stdin(Stdio::null());
    node
}

/// Every document that the client can send is valid on GitHub's own schema, and costs what is thought.
fn validate_documents(repo: &Repo) -> Result<(), Problem> {
    let mut cargo = repo.cargo(&[
        "run",
        "--quiet",
        "-p",
        "cf-github",
        "--example",
        "documents",
    ]);
    let documents = output(&mut cargo)?;
    let mut child = node(repo, SCHEMA)
        .arg(PathBuf::from("validate.mjs"))
        .stdin(Stdio::piped())
        .spawn()?;
    let mut stdin = child
        .stdin
        .take()
        .ok_or_else(|| Problem::new("node has no standard input"))?;
    stdin.write_all(documents.as_bytes())?;
    drop(stdin);
    if child.wait()?.success() {
        return Ok(());
    }
    Err(Problem::new(
        "a document is not valid on GitHub's own schema",
    ))
}

/// The tests of a crate that need what was installed.
fn ignored(repo: &Repo, package: &str, filter: &str) -> Result<(), Problem> {
    let args = [
        "test",
        "-p",
        package,
        "--test",
        "it",
        "--",
        "--ignored",
        filter,
    ];
    must(&mut repo.cargo(&args))
}
