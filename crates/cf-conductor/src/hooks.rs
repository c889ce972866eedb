//! Commands and an address that are told what happens in a batch.
//!
//! They hear of the batch, and the batch never hears of them: what is to be told goes into queues of bounded length,
//! threads of their own work through those, and whatever goes wrong is a line in `hooks.log`. When the batch has ended,
//! what is under way has its limit, and what still waits then is left out.

mod command;
mod webhook;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cf_core::{EventType, Phase};
pub use cf_github::Webhook;
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use serde_json::json;

use crate::conductor::{Notice, Observer};
use crate::engine::withheld;
use crate::process;
use crate::store::event::Event;
use crate::workspace::{Workspace, inside};

/// The variable that holds the secret of the webhook. Like every `CF_*` it goes to no program that is started.
pub const SECRET_VARIABLE: &str = "CF_WEBHOOK_SECRET";

/// How long a command may take when nothing else is said, and how long the batch's end waits for those under way.
pub const LIMIT: Duration = Duration::from_secs(30);

/// How many commands run at once.
const AT_ONCE: usize = 4;

/// How much may wait to be told. A batch of ten thousand tasks that all end at once waits with a tenth of them.
const QUEUE: usize = 1_000;

/// How often is looked whether something has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Above this size, in bytes, the log begins anew, and the old one is kept beside it.
const LOG_CAP: u64 = 1024 * 1024;

/// What is to be told, and to whom.
#[derive(Debug)]
pub struct Hooks {
    /// A command for the end of a batch.
    pub on_batch_end: Option<String>,
    /// A command for each task that becomes blocked.
    pub on_blocked: Option<String>,
    /// A command for each task that has its outcome.
    pub on_task_end: Option<String>,
    /// How long each may take.
    pub limit: Duration,
    /// An address for all of them.
    pub webhook: Option<Webhook>,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            on_batch_end: None,
            on_blocked: None,
            on_task_end: None,
            limit: LIMIT,
            webhook: None,
        }
    }
}

impl Hooks {
    fn command(&self, kind: &str) -> Option<&String> {
        match kind {
            "on_batch_end" => self.on_batch_end.as_ref(),
            "on_blocked" => self.on_blocked.as_ref(),
            _ => self.on_task_end.as_ref(),
        }
    }
}

/// The hooks that an event is for.
fn kinds_of(event: &Event) -> &'static [&'static str] {
    use EventType as E;
    let is = |name, phase: Phase| event.text(name) == Some(phase.as_str());
    let ends = is("phase", Phase::Finished);
    match event.kind.known() {
        Some(E::BatchCompleted | E::BatchPartial | E::BatchFailed | E::BatchCancelled) => {
            &["on_batch_end"]
        }
        // That it is held was told when it began.
        Some(E::BatchTaskBlocked) if ends && is("phase_before", Phase::Held) => &["on_task_end"],
        Some(E::BatchTaskBlocked) if ends => &["on_blocked", "on_task_end"],
        Some(E::BatchTaskBlocked) => &["on_blocked"],
        Some(
            E::BatchTaskCompleted
            | E::BatchTaskFailed
            | E::BatchTaskSkipped
            | E::BatchTaskCancelled,
        ) => &["on_task_end"],
        _ => &[],
    }
}

/// One thing to be told.
#[derive(Clone, Debug)]
struct Call {
    kind: &'static str,
    /// What it is about, for the log.
    about: String,
    /// The JSON.
    body: Arc<str>,
    /// The command, where it is one.
    command: String,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    root: PathBuf,
    log: PathBuf,
    environment: Vec<(OsString, OsString)>,
    /// The limit of open files that this process began with; it may raise its own.
    files: Option<u64>,
    limit: Duration,
    /// When, at the latest, everything is over; nothing while the batch runs.
    until: Mutex<Option<Instant>>,
    rotating: Mutex<()>,
    /// How many calls found no room in a queue. Only counted: the batch itself offers them, and waits for no file.
    left_out: AtomicUsize,
}

impl Shared {
    fn is_over(&self) -> bool {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() >= until)
    }

    fn end_at(&self, at: Instant) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// The log, open for appending. Nothing is followed to it, and nothing but a file is taken for it: a named pipe in
    /// its place would be waited for.
    fn open_log(&self) -> io::Result<File> {
        let _rotating = self.rotating.lock().unwrap_or_else(PoisonError::into_inner);
        let open = || {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
            inside::open(&self.log, flags, Mode::RUSR | Mode::WUSR).map(File::from)
        };
        let file = open()?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::other("the log is no regular file"));
        }
        if meta.len() <= LOG_CAP {
            return Ok(file);
        }
        fs::rename(&self.log, self.log.with_extension("log.1"))?;
        open()
    }

    /// Adds a line to the log; where there is no log, nobody is told.
    fn note(&self, call: &Call, what: &str) {
        self.write(&format!("{} {}: {what}", call.kind, call.about));
    }

    fn write(&self, what: &str) {
        self.write_output(format!("{:.3} {what}\n", crate::ambient::now()).as_bytes());
    }

    /// Adds what a command printed.
    fn write_output(&self, output: &[u8]) {
        if output.is_empty() {
            return;
        }
        if let Ok(mut log) = self.open_log() {
            let _ = log.write_all(output);
        }
    }
}

/// An observer that tells the hooks as well.
pub(crate) struct Hooked<'o> {
    observer: &'o mut dyn Observer,
    hooks: Hooks,
    shared: Arc<Shared>,
    commands: Option<SyncSender<Call>>,
    webhook: Option<SyncSender<Call>>,
    threads: Vec<JoinHandle<()>>,
}

impl<'o> Hooked<'o> {
    /// Tells the hooks what the observer hears. Nothing is started before there is something to tell. To be called
    /// before this process raises its limit of open files.
    pub(crate) fn new(
        hooks: Hooks,
        workspace: &Workspace,
        environment: &[(OsString, OsString)],
        observer: &'o mut dyn Observer,
    ) -> Self {
        let withheld = withheld(environment.iter().map(|(name, value)| (&**name, &**value)));
        let environment = environment
            .iter()
            .filter(|(name, _)| !withheld.contains(&**name))
            .cloned()
            .collect();
        Self {
            shared: Arc::new(Shared {
                root: workspace.root().to_owned(),
                log: workspace.logs().join("hooks.log"),
                environment,
                files: process::most_files(),
                limit: hooks.limit,
                until: Mutex::default(),
                rotating: Mutex::default(),
                left_out: AtomicUsize::default(),
            }),
            observer,
            hooks,
            commands: None,
            webhook: None,
            threads: Vec::new(),
        }
    }

    fn tell(&mut self, event: &Event) {
        for kind in kinds_of(event) {
            self.tell_one(kind, event);
        }
    }

    fn tell_one(&mut self, kind: &'static str, event: &Event) {
        let command = self.hooks.command(kind).cloned();
        let has_webhook = self.hooks.webhook.is_some() || self.webhook.is_some();
        if command.is_none() && !has_webhook {
            return;
        }
        let call = Call {
            kind,
            about: event.text("label").map_or_else(
                || {
                    event
                        .batch
                        .map_or_else(String::new, cf_core::BatchId::short)
                },
                |label| label.chars().filter(|c| !c.is_control()).collect(),
            ),
            body: Arc::from(body(kind, event, &self.shared)),
            command: command.clone().unwrap_or_default(),
        };
        if command.is_some() {
            let queue = self
                .commands
                .get_or_insert_with(|| start_commands(&self.shared, &mut self.threads));
            offer(queue, call.clone(), &self.shared);
        }
        if has_webhook {
            if let Some(webhook) = self.hooks.webhook.take() {
                self.webhook = Some(start_webhook(webhook, &self.shared, &mut self.threads));
            }
            if let Some(queue) = &self.webhook {
                offer(queue, call, &self.shared);
            }
        }
    }

    /// Waits for what is under way, for at most the limit; a signal ends the waiting.
    pub(crate) fn finish(mut self) {
        self.commands = None;
        self.webhook = None;
        if self.threads.is_empty() {
            return;
        }
        let interrupted = Arc::new(AtomicBool::new(false));
        let listening: Vec<_> = [Signal::INT, Signal::TERM, Signal::HUP]
            .into_iter()
            .filter_map(|signal| {
                signal_hook::flag::register(signal.as_raw(), Arc::clone(&interrupted)).ok()
            })
            .collect();
        self.shared.end_at(Instant::now() + self.shared.limit);
        while !self.threads.iter().all(JoinHandle::is_finished) {
            if interrupted.load(Ordering::Relaxed) {
                self.shared.end_at(Instant::now());
            }
            std::thread::sleep(LOOK);
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has told nobody, and the batch has ended well all the same.
            let _ = thread.join();
        }
        let left_out = self.shared.left_out.load(Ordering::Relaxed);
        if left_out > 0 {
            self.shared
                .write(&format!("{left_out} left out: too many were waiting"));
        }
        for id in listening {
            signal_hook::low_level::unregister(id);
        }
    }
}

impl Observer for Hooked<'_> {
    fn events(&mut self, events: &[Event]) {
        self.observer.events(events);
        for event in events {
            self.tell(event);
        }
    }

    fn notice(&mut self, notice: &Notice) {
        self.observer.notice(notice);
    }

    fn tick_every(&self) -> Option<Duration> {
        self.observer.tick_every()
    }

    fn tick(&mut self) {
        self.observer.tick();
    }
}

/// What a hook is told: its name, the workspace, and the event as `cf events --json` prints it.
fn body(kind: &str, event: &Event, shared: &Shared) -> String {
    let mut told = serde_json::to_value(event).expect("an event is JSON");
    told["at"] = format!("{:.3}", event.at).into();
    let workspace = shared.root.to_string_lossy();
    json!({ "hook": kind, "workspace": workspace, "event": told }).to_string()
}

fn offer(queue: &SyncSender<Call>, call: Call, shared: &Shared) {
    if queue.try_send(call).is_err() {
        shared.left_out.fetch_add(1, Ordering::Relaxed);
    }
}

fn start_commands(shared: &Arc<Shared>, threads: &mut Vec<JoinHandle<()>>) -> SyncSender<Call> {
    let (queue, calls) = sync_channel(QUEUE);
    let calls = Arc::new(Mutex::new(calls));
    for _ in 0..AT_ONCE {
        let (shared, calls) = (Arc::clone(shared), Arc::clone(&calls));
        threads.push(std::thread::spawn(move || {
            let next = |calls: &Mutex<Receiver<Call>>| {
                calls.lock().unwrap_or_else(PoisonError::into_inner).recv()
            };
            while let Ok(call) = next(&calls) {
                command::run(&call, &shared);
            }
        }));
    }
    queue
}

fn start_webhook(
    webhook: Webhook,
    shared: &Arc<Shared>,
    threads: &mut Vec<JoinHandle<()>>,
) -> SyncSender<Call> {
    let (queue, calls) = sync_channel(QUEUE);
    let shared = Arc::clone(shared);
    threads.push(std::thread::spawn(move || {
        webhook::deliver(&webhook, &calls, &shared);
    }));
    queue
}
