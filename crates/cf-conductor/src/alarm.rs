//! When the loop wakes by the clock: one timer of the kernel, which wakes it once.
//!
//! tokio's own timers are kept in wheels, and one a second ahead is moved from a coarser wheel to a finer one on its
//! way: that wakes an idle conductor twice a second instead of once, and a third time without sleeping. Where the
//! kernel has no timer left to give, tokio's are used.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer that may ring earlier than it is asked to, and never later.
#[derive(Debug)]
pub(crate) struct Alarm {
    fd: Option<AsyncFd<OwnedFd>>,
    /// When it rings next, once it was set.
    set_for: Option<Instant>,
}

impl Alarm {
    /// An alarm that is not set. Must be called within a tokio runtime.
    pub(crate) fn new() -> Self {
        Self {
            fd: timer()
                .inspect_err(|error| tracing::debug!(%error, "no timer of the kernel's"))
                .ok(),
            set_for: None,
        }
    }

    /// Waits until `at`, or until a moment before that for which it was set earlier: so a loop that seldom gets to the
    /// end of its waiting seldom sets it. Cancelling loses nothing.
    pub(crate) async fn rings(&mut self, at: Instant) {
        let now = Instant::now();
        if at <= now {
            return;
        }
        let Some(fd) = &self.fd else {
            return tokio::time::sleep_until(at.into()).await;
        };
        if self.set_for.is_none_or(|set| set > at || set <= now) {
            self.set_for = Some(at);
            if set(fd.get_ref(), at.saturating_duration_since(now)).is_err() {
                self.set_for = None;
                return tokio::time::sleep_until(at.into()).await;
            }
        }
        loop {
            let Ok(mut ready) = fd.readable().await else {
                return tokio::time::sleep_until(at.into()).await;
            };
            if ready.try_io(|fd| drain(fd.get_ref())).is_ok() {
                self.set_for = None;
                return;
            }
        }
    }
}

fn timer() -> std::io::Result<AsyncFd<OwnedFd>> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    #[expect(
        deprecated,
        reason = "its successor is unsafe; an OwnedFd keeps its descriptor, which is all that is asked for"
    )]
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// Sets it to ring once, so long from now. Nothing would stop it, so it is a nanosecond at least.
fn set(fd: &OwnedFd, from_now: Duration) -> rustix::io::Result<()> {
    let it_value =
        Timespec::try_from(from_now.max(Duration::from_nanos(1))).map_err(|_| Errno::INVAL)?;
    let it_interval = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let once = Itimerspec {
        it_interval,
        it_value,
    };
    timerfd_settime(fd, TimerfdTimerFlags::empty(), &once).map(drop)
}

/// Takes in that it has rung.
fn drain(fd: &OwnedFd) -> std::io::Result<()> {
    let mut times = [0; 8];
    loop {
        match rustix::io::read(fd.as_fd(), &mut times) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Waits by a loop like the conductor's. Returns how often it rang.
    async fn until(alarm: &mut Alarm, at: Instant) -> u32 {
        let mut rung = 0;
        while Instant::now() < at {
            alarm.rings(at).await;
            rung += 1;
        }
        rung
    }

    #[tokio::test]
    async fn it_rings_when_its_time_has_come_and_then_again() {
        let mut alarm = Alarm::new();
        for _ in 0..3 {
            let begun = Instant::now();
            let rung = until(&mut alarm, begun + Duration::from_millis(30)).await;
            assert!(begun.elapsed() >= Duration::from_millis(30));
            assert!(rung <= 2, "it rang {rung} times");
        }
    }

    #[tokio::test]
    async fn a_later_time_does_not_set_it_anew_and_an_earlier_one_does() {
        let mut alarm = Alarm::new();
        let mut context = Context::from_waker(Waker::noop());
        let soon = Instant::now() + Duration::from_mins(1);
        assert!(pin!(alarm.rings(soon)).poll(&mut context).is_pending());
        assert!(
            pin!(alarm.rings(soon + Duration::from_mins(1)))
                .poll(&mut context)
                .is_pending()
        );
        assert_eq!(alarm.set_for, Some(soon));
        let begun = Instant::now();
        until(&mut alarm, begun + Duration::from_millis(20)).await;
        assert!(begun.elapsed() < Duration::from_secs(30));
    }

    #[tokio::test]
    async fn without_a_timer_of_the_kernel_it_rings_all_the_same() {
        let mut alarm = Alarm {
            fd: None,
            set_for: None,
        };
        let begun = Instant::now();
        until(&mut alarm, begun + Duration::from_millis(20)).await;
        assert!(begun.elapsed() >= Duration::from_millis(20));
    }
}
