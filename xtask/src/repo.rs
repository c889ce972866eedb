//! The repository: where it is, which files belong to it, which crates it has, and how cargo is called in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::problem::Problem;

/// The repository that this xtask was built from.
pub(crate) struct Repo {
    pub(crate) root: PathBuf,
}

/// One crate of the workspace, as its manifest says.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a manifest's dependency tables.
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// The identifier by which the sources know it.
    pub(crate) ident: String,
    pub(crate) dev: bool,
}

impl Repo {
    pub(crate) fn find() -> Result<Self, Problem> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        match manifest.parent() {
            Some(root) if root.join("xtask/Cargo.toml").is_file() => Ok(Self {
                root: root.to_owned(),
            }),
            _ => Err(Problem::new("the repository of this xtask is gone")
                .hint("start it with `cargo xtask`, inside the repository")),
        }
    }

    /// Calls cargo in the repository. Its output goes where ours goes.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(args)
            .current_dir(&self.root)
            .stdin(Stdio::null());
        // The cargo that started us has described this package to us. Build scripts that look at such variables (ring's
        // does) would run again, and everything above them be built again, whenever cargo is called from elsewhere.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(describes_a_package) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Builds what a chore measures, as it is released. `what` are the words of cargo that choose a part of the
    /// package.
    pub(crate) fn build_release(&self, package: &str, what: &[&str]) -> Result<(), Problem> {
        let words = ["build", "--release", "--package", package];
        must(&mut self.cargo(&[&words, what].concat()))
    }

    /// Returns every file that git knows or would add, relative to the root and sorted.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, Problem> {
        let mut git = Command::new("git");
        git.args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(&self.root);
        let listed = output(&mut git)?;
        let mut files: Vec<PathBuf> = listed
            .split('\0')
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
            .filter(|file| self.root.join(file).is_file())
            .collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    /// Returns the text of a file, or none when it is not text.
    pub(crate) fn text(&self, file: &Path) -> Option<String> {
        fs::read(self.root.join(file))
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
    }

    /// Returns the crates of the workspace, by name.
    pub(crate) fn packages(&self) -> Result<Vec<Package>, Problem> {
        let metadata = self.metadata()?;
        let mut packages: Vec<Package> = array(&metadata["packages"])
            .map(|package| Package {
                name: text(&package["name"]),
                folder: Path::new(&text(&package["manifest_path"]))
                    .parent()
                    .map(Path::to_path_buf)
                    .unwrap_or_default(),
                dependencies: array(&package["dependencies"]).map(dependency).collect(),
            })
            .collect();
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(packages)
    }

    /// Returns the folder into which cargo builds.
    pub(crate) fn target(&self) -> Result<PathBuf, Problem> {
        Ok(PathBuf::from(text(&self.metadata()?["target_directory"])))
    }

    fn metadata(&self) -> Result<Value, Problem> {
        let json = output(&mut self.cargo(&["metadata", "--format-version=1", "--no-deps"]))?;
        serde_json::from_str(&json)
            .map_err(|error| Problem::new(format!("cargo metadata does not answer JSON: {error}")))
    }
}

/// Tells whether cargo sets the variable for a program that it runs, about the package which that program is from.
fn describes_a_package(variable: &str) -> bool {
    [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_BIN_",
        "CARGO_CRATE_",
    ]
    .iter()
    .any(|prefix| variable.starts_with(prefix))
        || matches!(variable, "OUT_DIR" | "CARGO_PRIMARY_PACKAGE")
}

fn dependency(value: &Value) -> Dependency {
    let name = text(&value["name"]);
    let ident = value["rename"].as_str().unwrap_or(&name).replace('-', "_");
    Dependency {
        name,
        ident,
        dev: value["kind"].as_str() == Some("dev"),
    }
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Runs a command that must succeed, showing its output as it comes.
pub(crate) fn must(command: &mut Command) -> Result<(), Problem> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command
        .status()
        .map_err(|error| Problem::new(format!("cannot start `{shown}`: {error}")))?;
    if status.success() {
        Ok(())
    } else {
        Err(Problem::new(format!("`{shown}` failed ({status})")))
    }
}

/// Runs a command that must succeed, and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, Problem> {
    let shown = show(command);
    let output = command
        .output()
        .map_err(|error| Problem::new(format!("cannot start `{shown}`: {error}")))?;
    if !output.status.success() {
        return Err(Problem::new(format!(
            "`{shown}` failed ({})\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr).trim_end()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Shows a command as it would be typed, the program by its name alone.
pub(crate) fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![
        program
            .file_name()
            .unwrap_or(program.as_os_str())
            .to_string_lossy()
            .into_owned(),
    ];
    words.extend(
        command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

/// Tells whether a program is on the PATH.
pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("CARGO_PKG_NAME" => true)]
    #[test_case("CARGO_MANIFEST_DIR" => true)]
    #[test_case("CARGO_TERM_COLOR" => false)]
    #[test_case("CARGO_HOME" => false)]
    #[test_case("CARGO_TARGET_DIR" => false)]
    fn what_describes_a_package_is_not_passed_on(variable: &str) -> bool {
        describes_a_package(variable)
    }
}
