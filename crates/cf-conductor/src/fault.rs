//! Named points at which this program can be made to die, so that tests crash it at every step of the recovery
//! protocol on purpose.
//!
//! The rows of `docs/recovery.md` have their points: an intent or an outcome is an event, with one point inside the
//! transaction that stores it and one after the commit; an effect has a point of its own. [`POINTS`] lists them all.
//! A program without the feature `fault-points` has no points: the calls compile to nothing, and no environment
//! variable is read. Release builds cannot have the feature.
//!
//! With the feature, `CF_FAULT=NAME[:N][:ACTION]` arms one point: at its Nth visit by a process (the first, unless
//! said) the action happens. `kill` (the default), `stop` and `exit` hit the process itself, `parent` kills its parent
//! (the conductor, when a supervisor is at the point) and lets it go on, `both` kills both. With `CF_FAULT_MARK=FILE`
//! the file is made at that moment, and when it is there already nothing happens: one fault for all processes that
//! share the variable.
//!
//! `CF_MUTANT=NAME` breaks such a program in one of the ways of [`MUTANTS`]: whoever looks for faults has to find them.

#[cfg(all(feature = "fault-points", not(debug_assertions)))]
compile_error!("a release build never has fault points: build without the feature `fault-points`");

use crate::store::event::Event;

/// The process that comes to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The conductor, or another `cf` that writes to the store.
    Conductor,
    /// The supervisor of an attempt.
    Supervisor,
}

/// One point at which the program can be made to die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// What `CF_FAULT` calls it.
    pub name: &'static str,
    /// Who comes there.
    pub place: Place,
}

const fn conductor(name: &'static str) -> Point {
    Point {
        name,
        place: Place::Conductor,
    }
}

const fn supervisor(name: &'static str) -> Point {
    Point {
        name,
        place: Place::Supervisor,
    }
}

/// Every point, in the order of the rows of `docs/recovery.md`.
pub const POINTS: &[Point] = &[
    conductor("migrate.copied"),
    conductor("migrate.migrated"),
    conductor("stored.TASK_CREATED"),
    conductor("committed.TASK_CREATED"),
    conductor("stored.BATCH_STARTED"),
    conductor("committed.BATCH_STARTED"),
    conductor("stored.BATCH_RESUMED"),
    conductor("committed.BATCH_RESUMED"),
    conductor("stored.ATTEMPT_ADOPTED"),
    conductor("committed.ATTEMPT_ADOPTED"),
    conductor("adopted"),
    conductor("supervisor.started"),
    supervisor("gate.hello"),
    conductor("supervisor.ready"),
    conductor("stored.BATCH_TASK_STARTED"),
    conductor("committed.BATCH_TASK_STARTED"),
    conductor("tree.made"),
    conductor("tree.stored"),
    conductor("tree.branched"),
    conductor("launch.prepared"),
    conductor("launch.sent"),
    supervisor("gate.job"),
    supervisor("agent.recorded"),
    supervisor("agent.started"),
    conductor("prompt.made"),
    supervisor("agent.ended"),
    supervisor("leftovers.recorded"),
    supervisor("end.recorded"),
    supervisor("end.told"),
    conductor("end.heard"),
    conductor("tree.committed"),
    conductor("tree.rescued"),
    conductor("tree.removed"),
    conductor("merge.merged"),
    conductor("stored.TASK_STATUS_CHANGED"),
    conductor("committed.TASK_STATUS_CHANGED"),
    conductor("stored.ATTEMPT_VERIFYING"),
    conductor("committed.ATTEMPT_VERIFYING"),
    supervisor("verify.recorded"),
    supervisor("verify.started"),
    supervisor("verify.ended"),
    conductor("stored.ATTEMPT_ENDED"),
    conductor("committed.ATTEMPT_ENDED"),
    conductor("stored.BATCH_TASK_COMPLETED"),
    conductor("committed.BATCH_TASK_COMPLETED"),
    conductor("supervisor.forgotten"),
    conductor("stored.BATCH_TASK_STOPPING"),
    conductor("committed.BATCH_TASK_STOPPING"),
    conductor("stop.sent"),
    supervisor("stop.asked"),
    supervisor("stop.signalled"),
    supervisor("stop.ended"),
    conductor("stored.BATCH_TASK_KILLED"),
    conductor("committed.BATCH_TASK_KILLED"),
    conductor("stored.BATCH_TASK_SKIPPED"),
    conductor("committed.BATCH_TASK_SKIPPED"),
    conductor("stored.BATCH_TASK_CANCELLED"),
    conductor("committed.BATCH_TASK_CANCELLED"),
    conductor("stored.BATCH_STOP_REQUESTED"),
    conductor("committed.BATCH_STOP_REQUESTED"),
    conductor("stored.BATCH_TASK_RETRYING"),
    conductor("committed.BATCH_TASK_RETRYING"),
    conductor("stored.BATCH_TASK_BLOCKED"),
    conductor("committed.BATCH_TASK_BLOCKED"),
    conductor("stored.BATCH_TASK_REQUEUED"),
    conductor("committed.BATCH_TASK_REQUEUED"),
    conductor("look.arrived"),
    conductor("look.stored"),
    conductor("stored.BATCH_TASK_CONTEXT"),
    conductor("committed.BATCH_TASK_CONTEXT"),
    conductor("context.told"),
    conductor("stored.BATCH_COMPLETED"),
    conductor("committed.BATCH_COMPLETED"),
    conductor("stored.BATCH_CANCELLED"),
    conductor("committed.BATCH_CANCELLED"),
    conductor("supervisors.retired"),
    conductor("wake.poked"),
];

/// The ways in which a program with fault points can be broken on purpose, each a rule of the protocol that is not
/// kept: a claim demands nothing; an agent starts although its claim was not committed; a result is written over
/// whatever somebody else wrote; an attempt's end is stored apart from what follows from it; a stop reaches the agent's
/// own process alone; what a dead supervisor left is not looked for.
pub const MUTANTS: &[&str] = &[
    "claim.unfenced",
    "claim.uncommitted",
    "outcome.overwrites",
    "outcome.apart",
    "stop.agent-alone",
    "sweep.none",
];

/// Whether this program is broken in one of the ways of [`MUTANTS`].
#[inline]
pub(crate) fn is_broken(way: &'static str) -> bool {
    #[cfg(feature = "fault-points")]
    return armed::mutant().is_some_and(|mutant| mutant == way);
    #[cfg(not(feature = "fault-points"))]
    {
        let _ = way;
        false
    }
}

/// An effect is just about to happen, or has just happened.
#[inline]
pub(crate) fn point(name: &'static str) {
    #[cfg(feature = "fault-points")]
    armed::visit("", name);
    #[cfg(not(feature = "fault-points"))]
    let _ = name;
}

/// An event has been stored in a transaction that is not committed yet.
#[inline]
pub(crate) fn stored(event: &Event) {
    #[cfg(feature = "fault-points")]
    armed::visit("stored.", event.kind.as_str());
    #[cfg(not(feature = "fault-points"))]
    let _ = event;
}

/// These events have been committed, and nobody has heard of them yet.
#[inline]
pub(crate) fn committed(events: &[Event]) {
    #[cfg(feature = "fault-points")]
    for event in events {
        armed::visit("committed.", event.kind.as_str());
    }
    #[cfg(not(feature = "fault-points"))]
    let _ = events;
}

/// The variables that arm a point, for a process whose environment is built clean.
pub(crate) fn handed_down() -> impl Iterator<Item = (&'static str, std::ffi::OsString)> {
    #[cfg(feature = "fault-points")]
    let names: &[&str] = &armed::VARIABLES;
    #[cfg(not(feature = "fault-points"))]
    let names: &[&str] = &[];
    names
        .iter()
        .filter_map(|name| Some((*name, std::env::var_os(name)?)))
}

/// The point that this process is to die at, if any.
#[cfg(feature = "fault-points")]
mod armed {
    use std::fs::File;
    use std::path::PathBuf;
    use std::process::exit;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Pid, Signal, getpid, getppid, kill_process};

    /// What arms a point, and where the fault is noted down.
    pub(super) const VARIABLES: [&str; 3] = ["CF_FAULT", "CF_FAULT_MARK", "CF_MUTANT"];

    /// In which way this program is broken. A wrong word ends the process.
    pub(super) fn mutant() -> Option<&'static str> {
        static MUTANT: OnceLock<Option<&'static str>> = OnceLock::new();
        *MUTANT.get_or_init(|| {
            let word = std::env::var(VARIABLES[2]).ok()?;
            let known = super::MUTANTS.iter().find(|mutant| **mutant == word);
            if known.is_none() {
                eprintln!("cf: no mutant is called {word:?}");
                exit(99);
            }
            known.copied()
        })
    }

    #[derive(Clone, Copy)]
    enum Action {
        Kill,
        Stop,
        Exit,
        Parent,
        Both,
    }

    struct Armed {
        name: String,
        at: u32,
        visits: AtomicU32,
        action: Action,
        mark: Option<PathBuf>,
    }

    impl Armed {
        /// Reads the variables. A wrong word ends the process: a fault that never comes would prove nothing.
        fn from_env() -> Option<Self> {
            let text = std::env::var(VARIABLES[0]).ok()?;
            let mut parts = text.split(':');
            let mut armed = Self {
                name: parts.next().unwrap_or_default().to_owned(),
                at: 1,
                visits: AtomicU32::new(0),
                action: Action::Kill,
                mark: std::env::var_os(VARIABLES[1]).map(PathBuf::from),
            };
            let known = super::POINTS.iter().any(|point| point.name == armed.name);
            let mut fits = known;
            for part in parts {
                match part {
                    "kill" => armed.action = Action::Kill,
                    "stop" => armed.action = Action::Stop,
                    "exit" => armed.action = Action::Exit,
                    "parent" => armed.action = Action::Parent,
                    "both" => armed.action = Action::Both,
                    number => match number.parse() {
                        Ok(at) => armed.at = at,
                        Err(_) => fits = false,
                    },
                }
            }
            if !fits {
                eprintln!("cf: no fault is called {text:?}");
                exit(99);
            }
            Some(armed)
        }

        fn happen(&self) {
            if let Some(mark) = &self.mark
                && File::create_new(mark).is_err()
            {
                return;
            }
            let signal = |pid: Option<Pid>, signal| {
                if let Some(pid) = pid {
                    let _ = kill_process(pid, signal);
                }
            };
            let own = Some(getpid());
            match self.action {
                Action::Kill => signal(own, Signal::KILL),
                Action::Stop => signal(own, Signal::STOP),
                Action::Exit => exit(98),
                Action::Parent => signal(getppid(), Signal::KILL),
                Action::Both => {
                    signal(getppid(), Signal::KILL);
                    signal(own, Signal::KILL);
                }
            }
        }
    }

    /// Comes to a point, whose name is in two parts so that none has to be put together when nothing is armed.
    pub(super) fn visit(kind: &str, name: &str) {
        static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
        let Some(armed) = ARMED.get_or_init(Armed::from_env) else {
            return;
        };
        if armed.name.strip_prefix(kind) == Some(name)
            && armed.visits.fetch_add(1, Ordering::Relaxed) + 1 == armed.at
        {
            armed.happen();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use cf_core::EventType;

    use super::*;

    #[test]
    fn every_point_has_a_name_of_its_own_and_those_of_events_name_an_event() {
        let mut names = HashSet::new();
        for point in POINTS {
            assert!(names.insert(point.name), "{} is there twice", point.name);
            assert!(!point.name.contains(':'), "{}", point.name);
            for kind in ["stored.", "committed."] {
                if let Some(event) = point.name.strip_prefix(kind) {
                    assert!(event.parse::<EventType>().is_ok(), "{event}");
                }
            }
        }
    }

    #[test]
    fn the_page_about_recovery_names_every_point_and_mutant_and_no_other() {
        let page = include_str!("../../../docs/recovery.md");
        let points = POINTS.iter().map(|point| point.name);
        let points: HashSet<&str> = points.chain(MUTANTS.iter().copied()).collect();
        for point in &points {
            assert!(
                page.contains(&format!("`{point}`")),
                "{point} is not on the page"
            );
        }
        let (_, list) = page
            .split_once("## The named points")
            .expect("the page has that part");
        for name in list.split('`').skip(1).step_by(2) {
            let is_one = name.contains('.') && !name.contains(' ') && !name.contains('/');
            assert!(!is_one || points.contains(name), "{name} is neither");
        }
    }
}
