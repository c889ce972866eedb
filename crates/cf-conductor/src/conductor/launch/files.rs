//! The two files that every attempt has: its prompt, and the context that grows while it runs.
//!
//! They can be made before anybody knows whose they are going to be: a file system takes longer to make a folder and
//! two files than it takes to store that an attempt begins, and while agents run nobody waits for it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fstat, lstat};

use crate::workspace::inside;

/// What an agent is told.
pub(super) const PROMPT: &str = "prompt.md";

/// What is told while it runs.
pub(super) const CONTEXT: &str = "context.md";

/// The folder of an attempt with both files, empty and open.
#[derive(Debug)]
pub(in crate::conductor) struct Files {
    path: PathBuf,
    folder: inside::Folder,
    prompt: File,
    context: File,
}

impl Files {
    /// Makes the folder and the files, which only their owner can read. What is in the files goes; a link in the place
    /// of one is not followed.
    pub(in crate::conductor) fn make(path: PathBuf) -> io::Result<Self> {
        let folder = inside::Folder::make(&path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK;
        let file = |name| {
            let file = folder.open(name, flags, Mode::RUSR | Mode::WUSR)?;
            Ok::<_, io::Error>(File::from(file))
        };
        Ok(Self {
            prompt: file(PROMPT)?,
            context: file(CONTEXT)?,
            path,
            folder,
        })
    }

    /// Whether both files are still what stands under their names, empty and their owner's alone: an agent of another
    /// attempt may have removed them, written into them, or put something in their place.
    pub(super) fn are_as_made(&self) -> bool {
        is_as_made(&self.path.join(PROMPT), &self.prompt)
            && is_as_made(&self.path.join(CONTEXT), &self.context)
    }

    /// Writes the prompt into its file, which is empty: what an agent may have added to it is looked for before.
    pub(super) fn write_prompt(&mut self, prompt: &str) -> io::Result<()> {
        self.prompt.write_all(prompt.as_bytes())
    }

    /// Removes what was made and is not used. What cannot be removed harms nobody.
    pub(in crate::conductor) fn remove(self) {
        for name in [PROMPT, CONTEXT] {
            let _ = self.folder.remove_file(name);
        }
        let _ = inside::remove_folder(&self.path);
    }
}

fn is_as_made(path: &Path, file: &File) -> bool {
    let (Ok(named), Ok(open)) = (lstat(path), fstat(file)) else {
        return false;
    };
    (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)
        && open.st_size == 0
        && open.st_nlink == 1
        && Mode::from_raw_mode(open.st_mode) == Mode::RUSR | Mode::WUSR
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_that_an_agent_removed_or_replaced_are_not_as_made() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join(".cf/attempt");
        fs::create_dir(dir.path().join(".cf")).unwrap();

        let mut files = Files::make(at.clone()).unwrap();
        assert!(files.are_as_made());
        files.write_prompt("do it").unwrap();
        assert_eq!(fs::read_to_string(at.join(PROMPT)).unwrap(), "do it");
        fs::remove_dir_all(&at).unwrap();
        assert!(!files.are_as_made());

        let files = Files::make(at.clone()).unwrap();
        assert!(files.are_as_made());
        assert_eq!(fs::read_to_string(at.join(PROMPT)).unwrap(), "");
        fs::rename(at.join(CONTEXT), at.join("kept")).unwrap();
        std::os::unix::fs::symlink(at.join("kept"), at.join(CONTEXT)).unwrap();
        assert!(!files.are_as_made());
        assert!(Files::make(at).is_err());
    }

    #[test]
    fn files_that_an_agent_touched_are_not_as_made() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join(".cf/attempt");
        fs::create_dir(dir.path().join(".cf")).unwrap();
        for name in [PROMPT, CONTEXT] {
            let files = Files::make(at.clone()).unwrap();
            assert!(files.are_as_made());
            fs::write(at.join(name), "do something else").unwrap();
            assert!(!files.are_as_made(), "{name} was written into");
            files.remove();

            let files = Files::make(at.clone()).unwrap();
            fs::hard_link(at.join(name), dir.path().join(name)).unwrap();
            assert!(!files.are_as_made(), "{name} has another name");
            files.remove();

            let files = Files::make(at.clone()).unwrap();
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o666);
            fs::set_permissions(at.join(name), open).unwrap();
            assert!(!files.are_as_made(), "{name} is open to others");
            files.remove();
            assert!(!at.exists());
        }
    }

    #[test]
    fn what_was_made_for_nobody_goes_and_what_somebody_put_there_stays() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join(".cf/attempt");
        fs::create_dir(dir.path().join(".cf")).unwrap();
        Files::make(at.clone()).unwrap().remove();
        assert!(!at.exists());
        let files = Files::make(at.clone()).unwrap();
        fs::write(at.join("mine"), "").unwrap();
        files.remove();
        assert!(at.join("mine").exists());
    }
}
