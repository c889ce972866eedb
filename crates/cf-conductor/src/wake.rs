//! The wake file: whoever commits writes one byte to it afterwards, and a live conductor watches it.
//!
//! The write comes after the commit, so that a conductor that wakes finds the commit visible; watching the database's
//! own files does not have that property, because they change before the commit can be read. A writer that dies between
//! commit and write costs one tick of the conductor's clock.
//!
//! So does a writer that finds something else in the file's place, which agents can put there: it writes without. What
//! it has to say is in the database, whose every reader also looks by the clock; to refuse it would lose an agent's
//! report, or keep a batch from running, for the sake of less than a second. `cf doctor` names what stands there.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, inotify};
use tokio::io::unix::AsyncFd;

use crate::workspace::inside;

/// The writing end.
#[derive(Debug)]
pub struct WakeFile {
    file: File,
}

impl WakeFile {
    /// Opens the file, making it when it is missing.
    ///
    /// # Errors
    ///
    /// The file cannot be opened for writing, or is a symbolic link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
        let file = inside::open(path, flags, Mode::RUSR | Mode::WUSR)?.into();
        Ok(Self { file })
    }

    /// The file for a writer, who does without where it cannot be opened.
    pub fn if_possible(path: &Path) -> Option<Self> {
        Self::open(path)
            .inspect_err(|error| tracing::debug!(%error, "nobody is woken after a commit"))
            .ok()
    }

    /// Wakes whoever watches. A failure costs a conductor at most one tick, so it is no error.
    pub fn poke(&self) {
        let _ = self.file.write_at(b".", 0);
    }
}

/// What stands in the file's place and is none, as a noun.
pub(crate) fn stranger(path: &Path) -> Option<&'static str> {
    let kind = std::fs::symlink_metadata(path).ok()?.file_type();
    if kind.is_file() {
        None
    } else if kind.is_symlink() {
        Some("a symbolic link")
    } else if kind.is_dir() {
        Some("a folder")
    } else if kind.is_fifo() {
        Some("a named pipe")
    } else {
        Some("a socket or device")
    }
}

/// The watching end. Where the system has no inotify left to give, it never wakes by itself and the caller polls.
#[derive(Debug)]
pub struct Watch {
    fd: Option<AsyncFd<OwnedFd>>,
    /// What is watched, for [`Watch::end`].
    number: i32,
}

impl Watch {
    /// Watches the file. Must be called within a tokio runtime.
    pub fn new(path: &Path) -> Self {
        Self::on(path)
            .inspect_err(|error| tracing::debug!(%error, "no inotify"))
            .unwrap_or(Self::without_events())
    }

    /// A watch that never wakes by itself, as on a system without inotify.
    pub const fn without_events() -> Self {
        Self {
            fd: None,
            number: -1,
        }
    }

    fn on(path: &Path) -> io::Result<Self> {
        let (fd, number) = watch(path)?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; an OwnedFd keeps its descriptor, which is all that is asked for"
        )]
        let fd = Some(AsyncFd::with_interest(fd, tokio::io::Interest::READABLE)?);
        Ok(Self { fd, number })
    }

    /// Watches no longer. A kernel takes some milliseconds, up to thirty, to forget a watch, and a descriptor is not
    /// closed before that is done: who says early that it is over need not wait for it.
    pub fn end(&self) {
        if let Some(fd) = &self.fd {
            let _ = inotify::remove_watch(fd.get_ref(), self.number);
        }
    }

    /// Whether the system tells of changes; otherwise the caller looks every 100 ms.
    pub const fn has_events(&self) -> bool {
        self.fd.is_some()
    }

    /// Waits until somebody has committed. Events that came in between two calls are not lost, and are taken together.
    pub async fn woken(&self) {
        let Some(fd) = &self.fd else {
            return std::future::pending().await;
        };
        loop {
            let Ok(mut guard) = fd.readable().await else {
                return std::future::pending().await;
            };
            if guard.try_io(|fd| drain(fd.get_ref())).is_ok() {
                return;
            }
        }
    }
}

/// The shortest time between two wakings of a [`Listener`]: what is committed in a burst is looked at together.
const BURST: Duration = Duration::from_millis(50);

/// The watching end for whoever has no runtime and only looks on.
#[derive(Debug)]
pub struct Listener {
    fd: Option<OwnedFd>,
    woken_at: Option<Instant>,
}

impl Listener {
    /// Watches the file. Without inotify every wait is as long as it may be.
    pub fn new(path: &Path) -> Self {
        Self {
            fd: watch(path)
                .inspect_err(|error| tracing::debug!(%error, "no inotify"))
                .ok()
                .map(|(fd, _)| fd),
            woken_at: None,
        }
    }

    /// Waits until somebody has committed since the last call, but no longer than this.
    pub fn wait(&mut self, longest: Duration) {
        let begun = Instant::now();
        let Some(fd) = &self.fd else {
            std::thread::sleep(longest);
            return;
        };
        if let Some(at) = self.woken_at {
            std::thread::sleep(BURST.saturating_sub(at.elapsed()).min(longest));
        }
        let left = longest.saturating_sub(begun.elapsed());
        let timeout = Timespec::try_from(left).ok();
        // A signal ends the waiting early, which is a look too many and no harm.
        let _ = poll(&mut [PollFd::new(fd, PollFlags::IN)], timeout.as_ref());
        if drain(fd).is_ok() {
            self.woken_at = Some(Instant::now());
        }
    }
}

/// A descriptor that can be read when the file was written to, and the number of the watch.
fn watch(path: &Path) -> io::Result<(OwnedFd, i32)> {
    let fd = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
    // What is no file can be watched too, and never tells of a commit.
    if let Some(what) = stranger(path) {
        return Err(io::Error::other(what));
    }
    let number = inotify::add_watch(&fd, path, inotify::WatchFlags::MODIFY)?;
    Ok((fd, number))
}

/// Reads everything that is queued, so that one look answers all of it. A buffer that was not filled took all of it.
fn drain(fd: &OwnedFd) -> io::Result<()> {
    let mut buffer = [0u8; 4096];
    let mut any = false;
    loop {
        match rustix::io::read(fd.as_fd(), &mut buffer) {
            Ok(read) if read + LONGEST_EVENT <= buffer.len() => return Ok(()),
            Ok(_) => any = true,
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::AGAIN) if any => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The most bytes that an event takes (inotify(7)): its head, and the longest name.
const LONGEST_EVENT: usize = 16 + 255 + 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_hears_of_a_commit_at_once_and_of_a_burst_together() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wake");
        let file = WakeFile::open(&path).unwrap();
        let mut listener = Listener::new(&path);
        let long = Duration::from_mins(1);
        // Also of what came before it began to wait.
        file.poke();
        listener.wait(long);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    file.poke();
                }
            });
            listener.wait(long);
        });
        assert!(begun.elapsed() < long / 2);
        listener.wait(Duration::from_millis(1));
        let begun = Instant::now();
        listener.wait(Duration::from_millis(200));
        assert!(
            begun.elapsed() >= Duration::from_millis(190),
            "nobody has committed"
        );
    }

    #[test]
    fn what_is_no_file_is_not_watched_and_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("wake");
        let other = dir.path().join("other");
        std::fs::write(&other, "").unwrap();
        let makes: [(&str, &dyn Fn()); 3] = [
            ("a folder", &|| std::fs::create_dir(&path).unwrap()),
            ("a symbolic link", &|| {
                std::os::unix::fs::symlink(&other, &path).unwrap();
            }),
            ("a named pipe", &|| {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.unwrap().success());
            }),
        ];
        for (what, make) in makes {
            make();
            assert_eq!(stranger(&path), Some(what));
            assert!(WakeFile::if_possible(&path).is_none(), "{what}");
            assert!(watch(&path).is_err(), "{what}: the clock alone tells");
            inside::clear(&path, "gone").unwrap();
        }
        assert_eq!(stranger(&path), None);
        assert!(std::fs::read(other).unwrap().is_empty());
    }

    #[test]
    fn a_file_that_cannot_be_watched_is_waited_for_by_the_clock() {
        let mut listener = Listener::new(Path::new("/nonexistent/wake"));
        let begun = Instant::now();
        listener.wait(Duration::from_millis(30));
        assert!(begun.elapsed() >= Duration::from_millis(30));
    }
}
