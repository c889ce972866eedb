//! Starting the process of a job.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, Mode, OFlags, access, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

use super::job::Job;
use crate::workspace::inside;

/// A process that runs, and the end of the pipe that its output comes out of.
pub(super) struct Started {
    pub(super) pid: Pid,
    pub(super) output: OwnedFd,
}

/// Why a process could not be started.
pub(super) struct NotStarted {
    /// What was tried and what the system said, as it goes into the record.
    pub(super) error: String,
    /// Whether the system was short of something at that moment.
    pub(super) passing: bool,
}

impl NotStarted {
    /// The job itself is impossible.
    fn for_good(error: String) -> Self {
        Self {
            error,
            passing: false,
        }
    }

    fn because(what: &str, source: &io::Error) -> Self {
        Self {
            error: format!("{what}: {source}"),
            passing: is_shortage(source),
        }
    }
}

/// Whether the system ran out of processes, memory, descriptors or room: the same may well work later.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::NOSPC | Errno::DQUOT
        )
    )
}

/// Starts the process of a job in a process group of its own: nothing but what the job says is handed to it. Without an
/// input it reads `null`.
///
/// # Errors
///
/// It could not be started.
pub(super) fn start(job: &Job, null: &File) -> Result<Started, NotStarted> {
    let name = job.argv.first().ok_or_else(|| {
        NotStarted::for_good("cannot start anything: the command is empty".to_owned())
    })?;
    let cwd: &Path = job.cwd.as_ref();
    let shown = name.0.to_string_lossy();
    let program = find(job, name.as_ref()).ok_or_else(|| {
        NotStarted::for_good(format!("cannot start {shown}: it is not on the PATH"))
    })?;
    let stdin: Stdio = match &job.stdin {
        None => null
            .try_clone()
            .map_err(|error| NotStarted::because("cannot give it an empty input", &error))?
            .into(),
        Some(path) => {
            let path: &Path = path.as_ref();
            let file = inside::open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
            let file = file.and_then(|file| {
                // NONBLOCK was only there so that opening a FIFO would not wait for its writer.
                fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
                Ok(File::from(file))
            });
            file.map_err(|error| {
                NotStarted::because(&format!("cannot open its input {}", path.display()), &error)
            })?
            .into()
        }
    };
    let pipe = || -> io::Result<(OwnedFd, OwnedFd, OwnedFd)> {
        let (output, input) = pipe_with(PipeFlags::CLOEXEC)?;
        // This sets the reading end only: the two ends of a pipe have flags of their own.
        fcntl_setfl(&output, fcntl_getfl(&output)? | OFlags::NONBLOCK)?;
        let again = input.try_clone()?;
        Ok((output, input, again))
    };
    let (output, stdout, stderr) =
        pipe().map_err(|error| NotStarted::because("cannot make a pipe for its output", &error))?;
    let mut command = Command::new(program);
    command
        .arg0(name)
        .args(&job.argv[1..])
        .env_clear()
        .envs(job.inherited.iter())
        .envs(job.env.iter().map(|(name, value)| (name, value)))
        .env("CF_ATTEMPT_ID", job.attempt.to_string())
        .current_dir(cwd)
        .process_group(0)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr);
    // The child is waited for by number together with all others, never through this handle.
    match command.spawn() {
        Ok(child) => Ok(Started {
            pid: Pid::from_child(&child),
            output,
        }),
        Err(error) if !is_shortage(&error) && !cwd.is_dir() => Err(NotStarted::for_good(format!(
            "cannot start {shown} in {}: there is no such directory",
            cwd.display()
        ))),
        Err(error) => Err(NotStarted::because(
            &format!("cannot start {shown}"),
            &error,
        )),
    }
}

/// The file of a program. It is looked for here because `std` leaves `posix_spawn` when it has to search the `PATH` of
/// the child itself.
fn find(job: &Job, name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(job.cwd.path().join(name));
    }
    let path = job
        .env
        .iter()
        .rev()
        .find(|(key, _)| key.as_bytes() == b"PATH")
        .map(|(_, value)| &*value.0)
        .or_else(|| job.inherited.get("PATH"));
    let path = path.map_or(b"/usr/local/bin:/usr/bin:/bin".as_slice(), OsStr::as_bytes);
    path.split(|b| *b == b':')
        .map(|dir| Path::new(OsStr::from_bytes(dir)).join(name))
        // An empty or relative entry would mean a directory that the agent itself can write to.
        .filter(|file| file.is_absolute())
        .find(|file| file.is_file() && access(file, Access::EXEC_OK).is_ok())
}
