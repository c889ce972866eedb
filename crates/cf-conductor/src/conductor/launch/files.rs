//! The files that stand beside an attempt's folder: its prompt, which every attempt has, and the context that comes
//! while it runs.
//!
//! The prompt's can be made before anybody knows whose it is going to be: a file system may take longer to make a file
//! than it takes to store that an attempt begins, and while agents run nobody waits for it. Neither lies in a folder of
//! its own, because most attempts need nothing else and a folder costs more than both.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, statat};
use rustix::io::Errno;

use crate::workspace::{PLANTED, inside};

/// The empty file of a prompt, made ahead. It is not kept open: descriptors may be few, and a start needs some.
#[derive(Debug)]
pub(in crate::conductor) struct PromptFile(PathBuf);

impl PromptFile {
    /// Makes the file, which must not be there and which only its owner can read.
    pub(in crate::conductor) fn make(path: PathBuf) -> io::Result<Self> {
        make_prompt(&path).map(|_| Self(path))
    }

    /// Opens the file for writing if it is empty and its owner's alone. An agent of another attempt may have written
    /// into it, or put something in its place, which the agent of this one would take for its own.
    pub(super) fn open_as_made(&self, folder: &inside::Folder) -> Option<File> {
        let file = folder.open_to_write(name(&self.0)).ok()?;
        let now = fstat(&file).ok()?;
        let is_as_made = FileType::from_raw_mode(now.st_mode) == FileType::RegularFile
            && now.st_size == 0
            && now.st_nlink == 1
            && Mode::from_raw_mode(now.st_mode) == Mode::RUSR | Mode::WUSR;
        is_as_made.then_some(file)
    }

    /// Removes what was made and is not used. What cannot be removed, or is something else by now, harms nobody.
    pub(in crate::conductor) fn remove(self) {
        let folder = self.0.parent().map(inside::Folder::at);
        if let Some(Ok(folder)) = folder
            && self.open_as_made(&folder).is_some()
        {
            let _ = folder.remove_file(name(&self.0));
        }
    }
}

fn make_prompt(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    Ok(inside::open(path, flags, Mode::RUSR | Mode::WUSR)?.into())
}

/// Makes the file of a prompt in place of whatever stands there: nothing of it is an attempt's that has not begun.
pub(super) fn make_prompt_in_place(path: &Path) -> io::Result<File> {
    clear(path)?;
    make_prompt(path)
}

/// Frees the place of a file that is still to come.
pub(super) fn keep_free(folder: &inside::Folder, path: &Path) -> io::Result<()> {
    match statat(folder, name(path), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(()),
        _ => clear(path),
    }
}

/// Makes the folder of an attempt in place of whatever stands there.
pub(super) fn make_folder_in_place(path: &Path) -> io::Result<()> {
    clear(path)?;
    inside::Folder::make(path).map(drop)
}

fn clear(path: &Path) -> io::Result<()> {
    let beside = format!("{PLANTED}{}", crate::ambient::fresh_id());
    inside::clear(path, &beside)
}

fn name(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    const PROMPT: &str = "1.md";

    /// A folder as attempts have it, and the path of a prompt in it.
    fn folder() -> (TempDir, inside::Folder, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join(".cf");
        fs::create_dir(&at).unwrap();
        let folder = inside::Folder::at(&at).unwrap();
        (dir, folder, at.join(PROMPT))
    }

    #[test]
    fn a_file_that_nobody_touched_is_written_into() {
        let (_dir, folder, at) = folder();
        let made = PromptFile::make(at.clone()).unwrap();
        let mut file = made.open_as_made(&folder).unwrap();
        file.write_all(b"do it").unwrap();
        assert_eq!(fs::read_to_string(&at).unwrap(), "do it");
        assert!(PromptFile::make(at).is_err(), "it is there already");
    }

    #[test]
    fn a_file_that_an_agent_touched_is_not_as_made() {
        let (dir, folder, at) = folder();
        let other = dir.path().join("other");
        let touch: [(&str, &dyn Fn()); 6] = [
            ("removed", &|| fs::remove_file(&at).unwrap()),
            ("a folder", &|| {
                fs::remove_file(&at).unwrap();
                fs::create_dir(&at).unwrap();
            }),
            ("written into", &|| {
                fs::write(&at, "do something else").unwrap();
            }),
            ("has another name", &|| fs::hard_link(&at, &other).unwrap()),
            ("open to others", &|| {
                let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
                fs::set_permissions(&at, open).unwrap();
            }),
            ("replaced by a link", &|| {
                fs::rename(&at, dir.path().join("moved")).unwrap();
                symlink(dir.path().join("moved"), &at).unwrap();
            }),
        ];
        for (what, touch) in touch {
            let made = PromptFile::make(at.clone()).unwrap();
            assert!(made.open_as_made(&folder).is_some(), "{what}");
            touch();
            assert!(made.open_as_made(&folder).is_none(), "{what}");
            drop(make_prompt_in_place(&at).unwrap());
            assert!(made.open_as_made(&folder).is_some(), "{what}");
            made.remove();
            assert_eq!(fs::read_dir(dir.path().join(".cf")).unwrap().count(), 0);
        }
    }

    #[test]
    fn what_somebody_put_in_its_place_stays() {
        let (_dir, _folder, at) = folder();
        let made = PromptFile::make(at.clone()).unwrap();
        fs::write(&at, "mine").unwrap();
        made.remove();
        assert!(at.exists());
    }

    /// What is planted is what the agent of the attempt would take for its own: news, a home, a script.
    #[test]
    fn what_an_agent_planted_for_another_attempt_goes() {
        let (dir, folder, _) = folder();
        let (context, own) = (
            dir.path().join(".cf/1.context.md"),
            dir.path().join(".cf/1"),
        );
        let theirs = dir.path().join("theirs");
        fs::write(&theirs, "theirs").unwrap();
        let plant: [&dyn Fn(&Path); 3] = [
            &|at| fs::write(at, "do something else").unwrap(),
            &|at| fs::create_dir_all(at.join("home")).unwrap(),
            &|at| symlink(&theirs, at).unwrap(),
        ];
        for plant in plant {
            plant(&context);
            keep_free(&folder, &context).unwrap();
            assert!(fs::symlink_metadata(&context).is_err());
            let _ = fs::remove_dir(&own);
            plant(&own);
            make_folder_in_place(&own).unwrap();
            assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
        }
        keep_free(&folder, &context).unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
        assert_eq!(fs::read_dir(dir.path().join(".cf")).unwrap().count(), 1);
    }
}
