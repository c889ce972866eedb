//! A file that a command makes where a person wants it: whole or not at all, and for that person alone.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// How many names are tried for the file that is renamed at last.
const TRIES: u32 = 100;

/// Writes a file with mode 0600. An ordinary file that is there is replaced, in one step; anything else that is there
/// (a link, a device, a folder) is refused, because nobody means it to become a page.
///
/// A crash in the middle leaves what was there, and perhaps a file `.cf-…` beside it.
///
/// # Errors
///
/// The folder does not exist or cannot be written, or something else than an ordinary file stands there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => {
            return Err(CliError::refused(
                format!(
                    "{} is not an ordinary file, and is left as it is",
                    path.display()
                ),
                "give another name, or `-` for standard output",
            ));
        }
        _ => {}
    }
    let failed = |source| CliError::File {
        what: "write",
        path: path.to_owned(),
        source,
    };
    let (beside, mut file) = open_beside(path).map_err(failed)?;
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What cannot be removed either is named like what it is.
        let _ = fs::remove_file(&beside);
    }
    written.map_err(failed)
}

/// Makes a new file in the folder of `path`, under a name that nobody has.
fn open_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    for n in 0..TRIES {
        let fresh = format!(".cf-{}-{n}-{}", std::process::id(), name.to_string_lossy());
        let beside = path.with_file_name(fresh);
        match File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
        {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => return Ok((beside, file)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_for_its_maker_alone_and_replaces_an_older_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        fs::write(&path, "old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["report.html"]);
    }

    #[test]
    fn a_link_is_neither_followed_nor_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "untouched").unwrap();
        symlink(&target, &link).unwrap();
        assert!(write(&link, b"new").is_err());
        assert_eq!(fs::read(&target).unwrap(), b"untouched");
        assert_eq!(names(folder.path()), ["link", "target"]);
    }

    #[test]
    fn a_folder_and_a_missing_folder_are_refused_and_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), b"new").is_err());
        assert!(write(&folder.path().join("none/report.html"), b"new").is_err());
        assert!(write(Path::new(".."), b"new").is_err());
        assert!(names(folder.path()).is_empty());
    }
}
