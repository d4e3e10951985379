//! The clock that the rules are handed: one that goes on while the machine sleeps.

use futures::future::BoxFuture;
use incumbent_core::{Instant, Now, WallTime};

/// Reads the time and waits for it. Tests bring their own.
pub trait Clock: Send + Sync + 'static {
    /// Both clocks, read together.
    fn now(&self) -> Now;

    /// Completes at `at`, also if the machine slept meanwhile; at once if `at` has passed. Cancel safe.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;
}

/// `CLOCK_BOOTTIME` and the wall clock. Instants of it are comparable between all processes of one machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

#[cfg(target_os = "linux")]
mod imp {
    use std::os::fd::OwnedFd;

    use incumbent_core::Instant;
    use rustix::time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
        timerfd_create, timerfd_settime,
    };
    use tokio::io::unix::AsyncFd;

    const NANOS: u64 = 1_000_000_000;

    pub(super) fn now() -> Instant {
        let t = clock_gettime(ClockId::Boottime);
        // The clock starts at zero with the machine: neither part is negative.
        Instant::from_nanos(t.tv_sec.unsigned_abs() * NANOS + t.tv_nsec.unsigned_abs())
    }

    /// A timer of tokio's stands still while the machine sleeps; this one does not.
    fn timer(at: Instant) -> std::io::Result<AsyncFd<OwnedFd>> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        // Zero would switch it off.
        let nanos = at.as_nanos().max(1);
        let spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(nanos / NANOS).unwrap_or(i64::MAX),
                // Below one thousand million.
                tv_nsec: (nanos % NANOS) as i64,
            },
        };
        timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &spec)?;
        // Deprecated for descriptors that can change under it; an owned one cannot.
        #[allow(deprecated)]
        AsyncFd::new(timer)
    }

    pub(super) async fn sleep_until(at: Instant) {
        match timer(at) {
            // Readable once it has expired; an error is as good a reason to look at the clock.
            Ok(timer) => drop(timer.readable().await),
            // Out of file descriptors: better a timer that a suspend delays than none.
            Err(_) => tokio::time::sleep(at.since(now())).await,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use std::sync::OnceLock;

    use incumbent_core::Instant;

    pub(super) fn now() -> Instant {
        static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
        let passed = ORIGIN.get_or_init(std::time::Instant::now).elapsed();
        Instant::from_nanos(1) + passed
    }

    pub(super) async fn sleep_until(at: Instant) {
        tokio::time::sleep(at.since(now())).await;
    }
}

impl Clock for BootClock {
    fn now(&self) -> Now {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let micros = i64::try_from(wall.as_micros()).unwrap_or(i64::MAX);
        Now { mono: imp::now(), wall: WallTime::from_micros(micros) }
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        Box::pin(imp::sleep_until(at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn waits_until_its_own_clock_says_so() {
        let clock = BootClock;
        let at = clock.now().mono + Duration::from_millis(20);
        clock.sleep_until(at).await;
        assert!(clock.now().mono >= at);
        clock.sleep_until(Instant::ZERO).await;
    }
}
