//! How long the loop waits, and what wakes it.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::super::ConductorError;
use super::super::begin::TICK;
use super::looks::next_arrival;
use super::trees::next_done;
use super::{Conductor, STORE_PAUSE, Woken};
use crate::executor::Executor;
use crate::process;

/// The same where the system tells of no changes.
const POLL: Duration = Duration::from_millis(100);

impl Conductor<'_> {
    pub(super) fn longest_wait(&mut self) -> Duration {
        if std::mem::take(&mut self.look_again) {
            return Duration::ZERO;
        }
        let mut wait = if self.watch.has_events() { TICK } else { POLL };
        // What nothing can be started for is not waited for by the clock.
        let short = self.short_until.saturating_sub(self.core.clock);
        let can_start =
            !self.core.holds_off() && (short.is_zero() || !self.core.at_gate.is_empty());
        if !short.is_zero() {
            wait = wait.min(short);
        }
        if let Some(due) = self.core.next_due().filter(|_| can_start) {
            let left = due.duration_since(self.core.time());
            wait = wait.min(Duration::try_from(left).unwrap_or(Duration::ZERO));
        }
        if let Some(follows) = self.longest_follow_wait() {
            wait = wait.min(follows);
        }
        let held_off = self
            .core
            .hold_off
            .and_then(|until| until.checked_sub(self.core.clock));
        if let Some(left) = held_off.filter(|left| !left.is_zero()) {
            wait = wait.min(left);
        }
        // What became ready in the last turn needs more supervisors than were at their gates before it.
        let lacks_supervisors =
            can_start && short.is_zero() && self.core.at_gate.len() < self.core.wanted_at_gate();
        if lacks_supervisors
            || !self.pending.is_empty()
            || (!self.core.unverified.is_empty() && can_start)
            || !self.core.relook.is_empty()
        {
            wait = if self.store_trouble {
                STORE_PAUSE
            } else {
                Duration::ZERO
            };
        }
        if self.writes_fail {
            wait = wait.max(STORE_PAUSE);
        }
        wait
    }

    pub(super) async fn wait(&mut self, longest: Duration) -> Woken {
        let mut woken = Woken::default();
        let until = Instant::now() + longest;
        let tick = self.observer.tick_every();
        loop {
            let next_tick =
                tick.map(|every| *self.next_tick.get_or_insert_with(|| Instant::now() + every));
            let tick_at = next_tick.map_or(until, |at| until.min(at));
            tokio::select! {
                biased;
                note = self.executor.note() => {
                    woken.notes.push(note);
                    // What ended at the same time is settled together.
                    while let Some(note) = ready(self.executor.note()) {
                        woken.notes.push(note);
                    }
                    return woken;
                }
                () = self.watch.woken() => {
                    // A commit of this conductor wakes it as well, and is no news to it.
                    let now = self.store.data_version();
                    if now.is_err() || now.ok() != self.data_version {
                        woken.commit = true;
                        return woken;
                    }
                }
                done = next_done(&mut self.trees) => {
                    woken.done.push(done);
                    return woken;
                }
                arrival = next_arrival(&mut self.follower) => {
                    woken.arrivals.push(arrival);
                    return woken;
                }
                () = any_signal(&mut self.signals) => {
                    woken.signals += 1;
                    return woken;
                }
                () = self.alarm.rings(tick_at) => {
                    if next_tick.is_some_and(|at| at <= Instant::now()) {
                        self.next_tick = None;
                        self.observer.tick();
                    }
                    if Instant::now() >= until {
                        return woken;
                    }
                }
            }
        }
    }

    /// Moves the loop's clock on. A gap in its own ticks, as after a suspend, is counted as one tick.
    pub(super) fn advance_clock(&mut self) {
        let gone = self.last_instant.elapsed();
        self.last_instant = Instant::now();
        self.core.clock += if gone > 3 * TICK { TICK } else { gone };
    }
}

/// The signals that stop a batch. One that whoever started this program told it to ignore (`nohup`) is not among them.
pub(super) fn stopping_signals() -> Result<Vec<Signal>, ConductorError> {
    let kinds = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ];
    let heard = kinds
        .into_iter()
        .filter(|kind| !process::is_ignored(kind.as_raw_value()));
    heard
        .map(|kind| {
            signal(kind).map_err(|source| ConductorError::System {
                what: "listen for signals",
                source,
            })
        })
        .collect()
}

/// Waits for one of the signals that stop a batch.
pub(super) async fn any_signal(signals: &mut [Signal]) {
    std::future::poll_fn(|context| {
        let came = signals
            .iter_mut()
            .any(|signal| signal.poll_recv(context).is_ready());
        if came {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}

/// What a future gives at once, if it is ready.
pub(super) fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(value) => Some(value),
        std::task::Poll::Pending => None,
    }
}
