//! Instants on `CLOCK_BOOTTIME`: the clock that two processes of one machine share, and that goes on during
//! suspend.

use std::ops::{Add, Sub};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use serde::{Deserialize, Serialize};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Nanoseconds on this machine's `CLOCK_BOOTTIME`. The same in every process of the machine, meaningless on
/// another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BootTime(u64);

impl BootTime {
    /// Now.
    pub fn now() -> BootTime {
        let t = clock_gettime(ClockId::Boottime);
        // The clock starts at zero with the machine: neither part is negative.
        BootTime(t.tv_sec.unsigned_abs() * NANOS_PER_SECOND + t.tv_nsec.unsigned_abs())
    }

    /// From nanoseconds since the clock's origin.
    pub const fn from_nanos(nanos: u64) -> BootTime {
        BootTime(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: BootTime) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for BootTime {
    type Output = BootTime;
    /// Saturates at the end of the clock.
    fn add(self, d: Duration) -> BootTime {
        BootTime(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for BootTime {
    type Output = BootTime;
    /// Saturates at the clock's origin.
    fn sub(self, d: Duration) -> BootTime {
        BootTime(self.0.saturating_sub(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A file descriptor that becomes readable at an instant. Unlike the timeout of `poll`, it also counts the time
/// for which the machine slept.
pub(super) struct Alarm(OwnedFd);

impl Alarm {
    pub(super) fn new() -> rustix::io::Result<Alarm> {
        timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK).map(Alarm)
    }

    /// Rings at `at` (at once if that has passed), and at no earlier setting; never for `None`.
    pub(super) fn set(&self, at: Option<BootTime>) -> rustix::io::Result<()> {
        // Zero would switch the timer off.
        let nanos = at.map_or(0, |t| t.as_nanos().max(1));
        let spec = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(nanos / NANOS_PER_SECOND).unwrap_or(i64::MAX),
                // Below one thousand million.
                tv_nsec: (nanos % NANOS_PER_SECOND) as i64,
            },
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_and_saturates() {
        let a = BootTime::now();
        let b = BootTime::now();
        assert!(a <= b && a.as_nanos() > 0);
        assert_eq!(BootTime::from_nanos(5) - Duration::from_secs(1), BootTime::from_nanos(0));
        assert_eq!(BootTime::from_nanos(u64::MAX) + Duration::from_secs(1), BootTime::from_nanos(u64::MAX));
        assert_eq!(a.since(a + Duration::from_secs(1)), Duration::ZERO);
    }
}
