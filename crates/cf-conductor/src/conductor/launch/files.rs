//! The two files that every attempt has: its prompt, and the context that grows while it runs.
//!
//! They can be made before anybody knows whose they are going to be: a file system takes longer to make a folder and
//! two files than it takes to store that an attempt begins, and while agents run nobody waits for it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fstat, statat};

use crate::workspace::{PLANTED, inside};

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
    /// Makes the folder, which must not be there, and the files, which only their owner can read. Nothing stays when
    /// one of them cannot be made.
    pub(in crate::conductor) fn make(path: PathBuf) -> io::Result<Self> {
        let folder = inside::Folder::make(&path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let file = |name| {
            let file = folder.open(name, flags, Mode::RUSR | Mode::WUSR)?;
            Ok::<_, io::Error>(File::from(file))
        };
        match file(PROMPT).and_then(|prompt| Ok((prompt, file(CONTEXT)?))) {
            Ok((prompt, context)) => Ok(Self {
                path,
                folder,
                prompt,
                context,
            }),
            Err(error) => {
                remove(&path, &folder);
                Err(error)
            }
        }
    }

    /// Makes them in place of whatever stands there: nothing of it is an attempt's that has not begun.
    pub(super) fn make_in_place(path: PathBuf) -> io::Result<Self> {
        let beside = format!("{PLANTED}{}", crate::ambient::fresh_id());
        inside::clear(&path, &beside)?;
        Self::make(path)
    }

    /// Whether the folder is still what stands at its path and holds nothing but both files, and these are still what
    /// stands under their names, empty and their owner's alone. An agent of another attempt may have written into
    /// them, or put something in their place or beside them, which the agent of this one would take for its own.
    pub(super) fn are_as_made(&self) -> bool {
        let holds_both_only = || {
            self.folder.names().is_ok_and(|names| {
                names.len() == 2 && names.iter().all(|name| name == PROMPT || name == CONTEXT)
            })
        };
        self.folder.is_at(&self.path)
            && holds_both_only()
            && is_as_made(&self.folder, PROMPT, &self.prompt)
            && is_as_made(&self.folder, CONTEXT, &self.context)
    }

    /// Writes the prompt into its file, which is empty: what an agent may have added to it is looked for before.
    pub(super) fn write_prompt(&mut self, prompt: &str) -> io::Result<()> {
        self.prompt.write_all(prompt.as_bytes())
    }

    /// Removes what was made and is not used. What cannot be removed harms nobody.
    pub(in crate::conductor) fn remove(self) {
        remove(&self.path, &self.folder);
    }
}

fn remove(path: &Path, folder: &inside::Folder) {
    for name in [PROMPT, CONTEXT] {
        let _ = folder.remove_file(name);
    }
    let _ = inside::remove_folder(path);
}

fn is_as_made(folder: &inside::Folder, name: &str, file: &File) -> bool {
    let named = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    let (Ok(named), Ok(open)) = (named, fstat(file)) else {
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
        assert!(Files::make(at.clone()).is_err());
        assert!(Files::make_in_place(at.clone()).unwrap().are_as_made());
        assert_eq!(fs::read_dir(dir.path().join(".cf")).unwrap().count(), 1);
    }

    /// What is planted is what the agent of the attempt would take for its own: a home, or a file in place of its
    /// script.
    #[test]
    fn a_folder_that_an_agent_put_something_into_or_replaced_is_not_as_made() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join(".cf/attempt");
        let theirs = dir.path().join("theirs");
        fs::create_dir(dir.path().join(".cf")).unwrap();
        fs::write(&theirs, "theirs").unwrap();
        let plant: [&dyn Fn(); 4] = [
            &|| fs::create_dir(at.join("home")).unwrap(),
            &|| fs::hard_link(&theirs, at.join("run")).unwrap(),
            &|| {
                fs::rename(&at, dir.path().join("moved")).unwrap();
                std::os::unix::fs::symlink(dir.path().join("moved"), &at).unwrap();
            },
            &|| {
                fs::create_dir(dir.path().join("own")).unwrap();
                for name in [PROMPT, CONTEXT] {
                    fs::rename(at.join(name), dir.path().join("own").join(name)).unwrap();
                }
                fs::remove_dir(&at).unwrap();
                fs::rename(dir.path().join("own"), &at).unwrap();
            },
        ];
        for (nth, plant) in plant.iter().enumerate() {
            let files = Files::make(at.clone()).unwrap();
            assert!(files.are_as_made());
            plant();
            assert!(!files.are_as_made(), "{nth}");
            files.remove();
            let files = Files::make_in_place(at.clone()).unwrap();
            assert!(files.are_as_made(), "{nth}");
            assert_eq!(fs::read_dir(&at).unwrap().count(), 2, "{nth}");
            files.remove();
        }
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
        assert_eq!(fs::read_dir(dir.path().join(".cf")).unwrap().count(), 0);
    }

    /// Set in a process that has no more than so many descriptors to spare.
    const SPARE: &str = "CF_TEST_SPARE";

    #[test]
    fn what_cannot_be_made_whole_leaves_nothing() {
        let Ok(spare) = std::env::var(SPARE) else {
            for spare in 1..=3 {
                let ended = std::process::Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "--test-threads=1"])
                    .arg(
                        "conductor::launch::files::tests::what_cannot_be_made_whole_leaves_nothing",
                    )
                    .env(SPARE, spare.to_string())
                    .output()
                    .unwrap();
                let said = String::from_utf8_lossy(&ended.stdout);
                assert!(
                    ended.status.success() && said.contains("1 passed"),
                    "{spare}: {said}"
                );
            }
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join(".cf/attempt");
        fs::create_dir(dir.path().join(".cf")).unwrap();
        // New descriptors get the lowest number that is free.
        let next = std::os::fd::AsRawFd::as_raw_fd(&File::open("/dev/null").unwrap());
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let most = u64::try_from(next).unwrap() + spare.parse::<u64>().unwrap();
        let set = |current| {
            let limit = rustix::process::Rlimit { current, ..limit };
            rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
        };
        set(Some(most));
        let made = Files::make(at.clone());
        set(limit.current);
        // The folder around it is closed by then, and three are kept.
        assert_eq!(made.is_ok(), spare == "3");
        drop(made.map(Files::remove));
        assert!(!at.exists());
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
