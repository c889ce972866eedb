//! What goes through the gate: whole jobs, and requests to stop.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cf_core::AttemptId;
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest frame that is accepted, in bytes. A kernel takes 2 MiB of arguments and environment by default.
const LONGEST: usize = 16 * 1024 * 1024;

/// Which process of an attempt: each has its own limit, log and record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The agent, or the task's `run` script.
    Agent,
    /// The task's `verify` command.
    Verify,
}

/// What becomes of processes that the agent left behind when it ended by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leftovers {
    /// They are stopped, and the record says how many there were.
    #[default]
    Stop,
    /// They are left alone, and the record says how many there are.
    Report,
}

/// Where the output goes, and how much of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// The log file; made when there is something to write. More may stand in `<path>.tail`.
    pub path: OsText,
    /// How much of the beginning is kept, in bytes.
    pub head_bytes: u64,
    /// How much of the end is kept, in bytes.
    pub tail_bytes: u64,
}

/// One process to run, with everything that a supervisor has to know about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The attempt; also put into the environment as `CF_ATTEMPT_ID`.
    pub attempt: AttemptId,
    /// Which process of the attempt.
    pub stage: Stage,
    /// Program and arguments. A program without `/` is looked for on the `PATH` of `env`; one with a `/` that is not
    /// absolute counts from `cwd`.
    pub argv: Vec<OsText>,
    /// What it inherits of an environment that many jobs share. It goes through the gate by itself, and once.
    #[serde(skip)]
    pub inherited: Inherited,
    /// The rest of its environment, which goes before what it inherits; nothing else is passed on.
    pub env: Vec<(OsText, OsText)>,
    /// The directory to start in.
    pub cwd: OsText,
    /// A file that becomes its standard input; without one it reads end of file at once.
    pub stdin: Option<OsText>,
    /// Standard output and standard error, together.
    pub log: LogLimits,
    /// The longest active time, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The longest time without output and with under 1 % of one processor, in milliseconds.
    pub stall_timeout_ms: Option<u64>,
    /// SIGTERM to SIGKILL, in milliseconds, where no stop request says otherwise.
    pub grace_ms: u64,
    /// What becomes of what the agent leaves behind.
    pub leftovers: Leftovers,
    /// Command names (at most 15 bytes are compared) that are left alone when the agent ends by itself: build daemons.
    pub keep: Vec<String>,
}

/// Variables that many jobs have in their environments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited(Arc<[(OsText, OsText)]>);

impl Inherited {
    /// These variables; of those with the same name the last one counts.
    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self(
            variables
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        )
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        let mut found = self.0.iter().rev();
        found.find_map(|(own, value)| (own.0 == name).then_some(&*value.0))
    }

    /// The variables and their values.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (&*name.0, &*value.0))
    }

    /// Whether they are known to be the same without looking at them.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.is_empty() && other.0.is_empty())
    }
}

impl From<Vec<(OsText, OsText)>> for Inherited {
    fn from(variables: Vec<(OsText, OsText)>) -> Self {
        Self(variables.into())
    }
}

impl Job {
    /// [`Job::grace_ms`] as a duration.
    pub const fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

/// One message through the gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// What the jobs after it inherit, until another one comes.
    Inherited(Vec<(OsText, OsText)>),
    /// Run this.
    Job(Box<Job>),
    /// Stop this, if it still runs.
    Stop {
        /// The attempt that is meant.
        attempt: AttemptId,
        /// The process of it that is meant.
        stage: Stage,
        /// SIGTERM to SIGKILL, in milliseconds. A second request can only shorten the first.
        grace_ms: u64,
    },
}

impl Frame {
    /// The frame as it goes through the gate: length (4 bytes, little endian), then JSON.
    ///
    /// # Errors
    ///
    /// It is longer than 16 MiB.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        append_frame(&mut bytes, self)?;
        Ok(bytes)
    }

    /// The frame of a job, and before it that of what it inherits, unless the gate has let that through already.
    ///
    /// # Errors
    ///
    /// One is longer than 16 MiB.
    pub fn of_job(job: &Job, known: &Inherited) -> io::Result<Vec<u8>> {
        /// [`Frame`], of what stays where it is.
        #[derive(Serialize)]
        #[serde(rename_all = "snake_case")]
        enum Borrowed<'j> {
            Inherited(&'j [(OsText, OsText)]),
            Job(&'j Job),
        }
        let mut bytes = Vec::with_capacity(2048);
        if !job.inherited.is_shared_with(known) {
            append_frame(&mut bytes, &Borrowed::Inherited(&job.inherited.0))?;
        }
        append_frame(&mut bytes, &Borrowed::Job(job))?;
        Ok(bytes)
    }

    /// Takes the first whole frame out of `bytes`; `None` while it is not whole.
    ///
    /// # Errors
    ///
    /// It is not a frame.
    pub(super) fn take(bytes: &mut Vec<u8>) -> io::Result<Option<Self>> {
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > LONGEST {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a frame"));
        }
        let Some(json) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = serde_json::from_slice(json)?;
        bytes.drain(..4 + length);
        Ok(Some(frame))
    }
}

fn append_frame(bytes: &mut Vec<u8>, frame: &impl Serialize) -> io::Result<()> {
    let begin = bytes.len();
    bytes.extend([0; 4]);
    serde_json::to_writer(&mut *bytes, frame)?;
    let length = bytes.len() - begin - 4;
    if length > LONGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the job is longer than 16 MiB",
        ));
    }
    let length = u32::try_from(length).expect("16 MiB fit into 32 bits");
    bytes[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// A path, an argument or a value of the environment: any bytes, written as text where they are text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OsText(pub OsString);

// Written out rather than derived from an enum of both forms, which would be copied into and out of: a job has a
// hundred of these, and an agent waits for it.
impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => serializer.collect_seq(self.0.as_bytes()),
        }
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrBytes)
    }
}

/// Reads a text, or the numbers of its bytes.
struct TextOrBytes;

impl<'de> Visitor<'de> for TextOrBytes {
    type Value = OsText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of bytes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OsText, E> {
        Ok(OsText(text.into()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<OsText, E> {
        Ok(OsText(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OsText, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = list.next_element()? {
            bytes.push(byte);
        }
        Ok(OsText(OsString::from_vec(bytes)))
    }
}

impl<T: Into<OsString>> From<T> for OsText {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl AsRef<OsStr> for OsText {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

impl AsRef<Path> for OsText {
    fn as_ref(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl OsText {
    /// As a path.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(&self.0)
    }

    /// As bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_taken_only_when_it_is_whole() {
        let stop = Frame::Stop {
            attempt: AttemptId(uuid::Uuid::nil()),
            stage: Stage::Verify,
            grace_ms: 7,
        };
        let whole = stop.to_bytes().unwrap();
        for cut in 0..whole.len() {
            let mut part = whole[..cut].to_vec();
            assert_eq!(Frame::take(&mut part).unwrap(), None, "{cut}");
        }
        let mut two = [whole.as_slice(), whole.as_slice()].concat();
        assert_eq!(Frame::take(&mut two).unwrap(), Some(stop.clone()));
        assert_eq!(Frame::take(&mut two).unwrap(), Some(stop));
        assert!(two.is_empty());
        assert!(Frame::take(&mut b"\xff\xff\xff\xff".to_vec()).is_err());
        assert!(Frame::take(&mut b"\x02\0\0\0{}".to_vec()).is_err());
    }

    fn job(inherited: Inherited) -> Job {
        Job {
            attempt: AttemptId(uuid::Uuid::nil()),
            stage: Stage::Agent,
            argv: vec!["/bin/true".into()],
            inherited,
            env: vec![("A".into(), OsString::from_vec(vec![0xff]).into())],
            cwd: "/".into(),
            stdin: None,
            log: LogLimits {
                path: "/log".into(),
                head_bytes: 1,
                tail_bytes: 2,
            },
            timeout_ms: Some(3),
            stall_timeout_ms: None,
            grace_ms: 4,
            leftovers: Leftovers::Stop,
            keep: vec!["daemon".to_owned()],
        }
    }

    #[test]
    fn a_job_is_framed_as_it_stands() {
        let none = Inherited::default();
        let mut bytes = Frame::of_job(&job(none.clone()), &Inherited::default()).unwrap();
        let owned = Frame::Job(Box::new(job(none)));
        assert_eq!(bytes, owned.to_bytes().unwrap());
        assert_eq!(Frame::take(&mut bytes).unwrap(), Some(owned));
    }

    #[test]
    fn what_a_job_inherits_goes_before_it_and_only_once() {
        let inherited = Inherited::new([("B".into(), "1".into())]);
        let first = Frame::of_job(&job(inherited.clone()), &Inherited::default()).unwrap();
        let mut bytes = first.clone();
        let variables = vec![("B".into(), "1".into())];
        assert_eq!(
            Frame::take(&mut bytes).unwrap(),
            Some(Frame::Inherited(variables))
        );
        assert!(matches!(
            Frame::take(&mut bytes).unwrap(),
            Some(Frame::Job(_))
        ));
        assert!(bytes.is_empty());
        let second = Frame::of_job(&job(inherited.clone()), &inherited).unwrap();
        assert!(second.len() < first.len());
        assert!(first.ends_with(&second));
        let other = Frame::of_job(&job(Inherited::default()), &inherited).unwrap();
        assert!(
            other.len() > second.len(),
            "that nothing is inherited is told"
        );
    }

    #[test]
    fn bytes_that_are_not_text_survive() {
        let odd = OsText(OsString::from_vec(vec![b'a', 0xff, b'b']));
        let json = serde_json::to_string(&odd).unwrap();
        assert_eq!(json, "[97,255,98]");
        assert_eq!(serde_json::from_str::<OsText>(&json).unwrap(), odd);
        let escaped = OsText::from("a\"\n\u{1}");
        let json = serde_json::to_string(&escaped).unwrap();
        assert_eq!(serde_json::from_str::<OsText>(&json).unwrap(), escaped);
        assert!(serde_json::from_str::<OsText>("[256]").is_err());
        assert!(serde_json::from_str::<OsText>("7").is_err());
        assert_eq!(serde_json::to_string(&OsText::from("ä")).unwrap(), "\"ä\"");
    }
}
