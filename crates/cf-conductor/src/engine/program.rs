//! Looking for programs on a `PATH`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Engine, EngineName};

/// Why a program cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProgram {
    /// No folder of the `PATH` has it.
    NotOnPath,
    /// Its name is a path, and there is no such file.
    NotThere,
    /// Its name is a path, and what is there may not be executed.
    NotExecutable(PathBuf),
}

/// The file that `name` starts in the folder `start`: with a `/` in it the one that lies there, wherever the caller
/// stands, else what [`find_program`] finds.
///
/// # Errors
///
/// There is none that can be started.
pub fn program_started_in(start: &Path, name: &str, path: &OsStr) -> Result<PathBuf, NoProgram> {
    if !name.contains('/') {
        return find_program(name, path).ok_or(NoProgram::NotOnPath);
    }
    // Without the `.` of `./agent.sh`, since people are to read it.
    let file: PathBuf = start.join(name).components().collect();
    if is_executable(&file) {
        Ok(file)
    } else if file.exists() {
        Err(NoProgram::NotExecutable(file))
    } else {
        Err(NoProgram::NotThere)
    }
}

/// The file that `name` would start wherever that is: itself when it is an absolute path, else the first executable
/// file of that name in the folders of `path`, as a shell would find it.
///
/// A relative path, and a relative folder of `path`, is passed over: which file it means depends on where the agent
/// starts.
pub fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        let file = PathBuf::from(name);
        return (file.is_absolute() && is_executable(&file)).then_some(file);
    }
    std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| is_executable(file))
}

/// The built-in agents whose program is on `path`, in the order in which they are listed.
pub fn agents_on_path(path: &OsStr) -> Vec<(EngineName, PathBuf)> {
    Engine::presets()
        .filter(|engine| !engine.runs_scripts())
        .filter_map(|engine| find_program(engine.program(), path).map(|file| (engine.name, file)))
        .collect()
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(file)
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}
