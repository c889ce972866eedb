//! Looking for programs on a `PATH`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{Engine, EngineName};

/// The file that `name` would start: itself when it has a `/`, else the first executable file of that name in the
/// folders of `path`, as a shell would find it.
///
/// A relative folder of `path` is passed over: which file it means depends on where the agent starts.
pub fn find_program(name: &str, path: &OsStr) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    if name.contains('/') {
        let file = PathBuf::from(name);
        return is_executable(&file).then_some(file);
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
