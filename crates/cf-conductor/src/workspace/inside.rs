//! Opens what lies inside a `.cf` folder, and never leaves it through a symbolic link.
//!
//! Agents run as the same user and can put a link in the place of any file or folder there, so that `cf`'s next write
//! would land somewhere else. `O_NOFOLLOW` alone looks at the last component of a path only. Here the way from `.cf`
//! on is gone folder by folder, each opened relative to the one before and none through a link. What stands above
//! `.cf` is the user's own business, and links there are followed.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, mkdirat, open as open_path, openat, renameat, statat,
    symlinkat, unlinkat,
};

use super::FOLDER;

const WAY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens a file. Links are not followed, neither in its own place nor in that of a folder from `.cf` on; it is closed
/// in programs that this process starts.
///
/// # Errors
///
/// It cannot be opened, or there is a link on the way.
pub(crate) fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let (folder, name) = way_to(path)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, mode).map_err(|error| told(error, path))
}

/// Makes a folder for its owner only. One that is there already will do.
///
/// # Errors
///
/// It cannot be made, or there is a link on the way or in its place.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let (folder, name) = way_to(path)?;
    match mkdirat(&folder, name, Mode::RWXU) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => step(&folder, name, path).map(drop),
        Err(error) => Err(error.into()),
    }
}

/// A folder that is open, so that the way to it need not be gone again for what lies in it.
#[derive(Debug)]
pub(crate) struct Folder(OwnedFd);

impl Folder {
    /// Makes a folder for its owner only, and opens it. It stays only when it could be opened.
    ///
    /// # Errors
    ///
    /// It cannot be made or opened, something has its place already, or there is a link on the way.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        let (folder, name) = way_to(path)?;
        mkdirat(&folder, name, Mode::RWXU)?;
        step(&folder, name, path).map(Self).inspect_err(|_| {
            let _ = unlinkat(&folder, name, AtFlags::REMOVEDIR);
        })
    }

    /// Opens a folder that is there.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or there is a link on the way or in its place.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        open(path, WAY, Mode::empty()).map(Self)
    }

    /// Opens the folder of a file.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or there is a link on the way.
    pub(crate) fn around(path: &Path) -> io::Result<Self> {
        way_to(path).map(|(folder, _)| Self(folder))
    }

    /// Whether a name in it is that of a regular file that holds nothing. A link is none.
    pub(crate) fn is_empty_file(&self, name: &OsStr) -> bool {
        statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|meta| {
            FileType::from_raw_mode(meta.st_mode) == FileType::RegularFile && meta.st_size == 0
        })
    }

    /// Opens a file in it for writing. A link is not followed, and nobody is waited for.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or is a link.
    pub(crate) fn open_to_write(&self, name: &OsStr) -> io::Result<std::fs::File> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::empty());
        Ok(file.map_err(|error| told(error, Path::new(name)))?.into())
    }

    /// Opens the file at `path`, which lies in it, for reading. A link is not followed, and nobody is waited for.
    ///
    /// # Errors
    ///
    /// It cannot be opened, or is a link.
    pub(crate) fn open_to_read(&self, path: &Path) -> io::Result<std::fs::File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = path.file_name().unwrap_or_default();
        let file = openat(&self.0, name, flags, Mode::empty());
        Ok(file.map_err(|error| told(error, path))?.into())
    }

    /// Removes a file in it.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub(crate) fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.0, name.as_ref(), AtFlags::empty())?)
    }

    /// Removes an empty folder in it.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub(crate) fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.0, name.as_ref(), AtFlags::REMOVEDIR)?)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Frees a path of whatever stands there, a folder with all that lies in it too. Its place is free also when not all of
/// it can be removed; what is left then has the name `beside` in the same folder.
///
/// # Errors
///
/// It stays where it is, or there is a link on the way.
pub(crate) fn clear(path: &Path, beside: &str) -> io::Result<()> {
    let (folder, name) = way_to(path)?;
    match renameat(&folder, name, &folder, beside) {
        Ok(()) => {}
        Err(rustix::io::Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    if unlinkat(&folder, beside, AtFlags::empty()).is_err() {
        let _ = remove_tree(&folder, OsStr::new(beside));
    }
    Ok(())
}

/// Removes a folder with all that lies in it.
///
/// # Errors
///
/// Not all of it can be removed, or there is a link on the way.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    let (folder, name) = way_to(path)?;
    remove_tree(&folder, name)
}

fn remove_tree(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let held = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    std::fs::remove_dir_all(held.join(name))
}

/// Makes a symbolic link to `target` with this name in a folder, in one step also where an older one has it.
///
/// # Errors
///
/// It cannot be made, or the folder is reached through a link.
pub(crate) fn link(target: &Path, path: &Path) -> io::Result<()> {
    let (folder, name) = way_to(path)?;
    // A new link takes the old one's place: somebody may be looking it up at this moment.
    let mut fresh = name.to_owned();
    fresh.push(format!(".{}", std::process::id()));
    let _ = unlinkat(&folder, &fresh, AtFlags::empty());
    symlinkat(target, &folder, &fresh)?;
    Ok(renameat(&folder, &fresh, &folder, name)?)
}

/// The folder of a file, opened, and the file's name in it.
fn way_to(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "it has no name");
    let name = path.file_name().ok_or_else(no_name)?;
    let parent = path.parent().ok_or_else(no_name)?;
    let components: Vec<Component<'_>> = parent.components().collect();
    let Some(at) = components
        .iter()
        .rposition(|part| part.as_os_str() == FOLDER)
    else {
        // Nothing of a workspace: only its own place is looked at.
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        return Ok((open_path(parent, flags, Mode::empty())?, name));
    };
    let first: PathBuf = components[..=at].iter().collect();
    let mut folder = open_path(&first, WAY, Mode::empty()).map_err(|error| told(error, &first))?;
    for part in &components[at + 1..] {
        folder = step(&folder, part.as_os_str(), parent)?;
    }
    Ok((folder, name))
}

fn step(folder: &OwnedFd, name: &OsStr, path: &Path) -> io::Result<OwnedFd> {
    openat(folder, name, WAY, Mode::empty()).map_err(|error| told(error, path))
}

/// A link in the place of a folder is said as such: the system says "not a directory" about one that leads to one.
fn told(error: rustix::io::Errno, path: &Path) -> io::Error {
    match error {
        rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP => io::Error::new(
            io::ErrorKind::NotADirectory,
            format!(
                "{} is a symbolic link or no folder, and nothing is written through it",
                path.display()
            ),
        ),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const NEW: OFlags = OFlags::RDWR.union(OFlags::CREATE);

    fn write(path: &Path) -> io::Result<OwnedFd> {
        open(path, NEW, Mode::RUSR | Mode::WUSR)
    }

    #[test]
    fn a_link_from_the_folder_on_is_followed_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("ws"), dir.path().join("outside"));
        fs::create_dir_all(root.join(".cf/logs")).unwrap();
        fs::create_dir(&outside).unwrap();
        write(&root.join(".cf/logs/a")).unwrap();

        symlink(outside.join("a"), root.join(".cf/logs/b")).unwrap();
        assert!(write(&root.join(".cf/logs/b")).is_err(), "in its own place");

        fs::rename(root.join(".cf/logs"), root.join(".cf/old")).unwrap();
        symlink(&outside, root.join(".cf/logs")).unwrap();
        assert!(write(&root.join(".cf/logs/a")).is_err(), "of its folder");
        assert!(make_folder(&root.join(".cf/logs/x")).is_err());
        assert!(make_folder(&root.join(".cf/logs")).is_err());
        assert!(Folder::make(&root.join(".cf/logs/x")).is_err());
        assert!(Folder::make(&root.join(".cf/logs")).is_err());
        assert!(link(&outside, &root.join(".cf/logs/y")).is_err());

        fs::rename(root.join(".cf"), root.join("moved")).unwrap();
        symlink(root.join("moved"), root.join(".cf")).unwrap();
        let error = write(&root.join(".cf/old/a")).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        assert!(fs::read_dir(&outside).unwrap().next().is_none());
    }

    #[test]
    fn in_an_open_folder_no_link_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (at, outside) = (dir.path().join(".cf/x"), dir.path().join("outside"));
        fs::create_dir_all(dir.path().join(".cf")).unwrap();
        fs::create_dir(&outside).unwrap();
        let folder = Folder::make(&at).unwrap();
        assert!(Folder::make(&at).is_err(), "it is there already");
        write(&at.join("a")).unwrap();
        symlink(outside.join("b"), at.join("b")).unwrap();
        fs::write(outside.join("b"), "").unwrap();
        assert!(folder.is_empty_file("a".as_ref()));
        assert!(!folder.is_empty_file("b".as_ref()), "a link to one is none");
        folder.remove_file("a").unwrap();
        folder.remove_file("b").unwrap();
        assert!(outside.join("b").exists());
        fs::remove_dir(&at).unwrap();
        symlink(&outside, &at).unwrap();
        assert!(Folder::at(&at).is_err());
        assert!(outside.exists());
    }

    #[test]
    fn what_stands_in_a_place_goes_and_what_a_link_leads_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (at, outside) = (dir.path().join(".cf/x"), dir.path().join("outside"));
        fs::create_dir_all(outside.join("in")).unwrap();
        fs::create_dir(dir.path().join(".cf")).unwrap();
        clear(&at, "y").unwrap();
        symlink(&outside, &at).unwrap();
        clear(&at, "y").unwrap();
        fs::create_dir_all(at.join("deep/er")).unwrap();
        symlink(&outside, at.join("deep/link")).unwrap();
        clear(&at, "y").unwrap();
        fs::write(&at, "a file").unwrap();
        clear(&at, "y").unwrap();
        assert!(outside.join("in").exists());
        assert_eq!(fs::read_dir(dir.path().join(".cf")).unwrap().count(), 0);
    }

    #[test]
    fn links_above_the_folder_are_the_users_own_business() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("real/.cf/logs")).unwrap();
        symlink(dir.path().join("real"), dir.path().join("ws")).unwrap();
        write(&dir.path().join("ws/.cf/logs/a")).unwrap();
        assert!(dir.path().join("real/.cf/logs/a").exists());
    }

    #[test]
    fn a_link_takes_the_place_of_an_older_one() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("cf");
        link(Path::new("/one"), &at).unwrap();
        link(Path::new("/two"), &at).unwrap();
        assert_eq!(fs::read_link(&at).unwrap(), Path::new("/two"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
