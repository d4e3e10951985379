//! Instants of one's own clock, and what a wall clock says.
//!
//! The rules are pure: nothing here reads a clock. A caller hands in a [`Now`] with every input.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// An instant on this process's own clock, in nanoseconds since a fixed but unknown origin.
///
/// The clock must go on while the machine sleeps (`CLOCK_BOOTTIME` on Linux) and must never step. Instants of
/// two machines are not comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock: no instant is earlier.
    pub const ZERO: Instant = Instant(0);

    /// An instant from nanoseconds since the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    /// Saturates at the end of the clock instead of wrapping.
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;
    /// Saturates at the origin of the clock.
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// What a wall clock says, in microseconds since 1970-01-01T00:00:00Z: the resolution of a Lease's times.
///
/// Wall clocks of two machines are never compared by the rules. Equality of two stamps is used; order is only
/// used between stamps of one writer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WallTime(i64);

impl WallTime {
    /// From microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        WallTime(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The whole second this time lies in: all that a client-go follower compares.
    pub const fn second(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// This time plus `d`, in whole microseconds; saturating.
    pub fn plus(self, d: Duration) -> WallTime {
        WallTime(self.0.saturating_add(i64::try_from(d.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Parses an RFC 3339 time as it stands in a Lease; digits beyond microseconds are dropped.
    pub fn parse(text: &str) -> Option<WallTime> {
        text.parse::<jiff::Timestamp>().ok().map(|t| WallTime(t.as_microsecond()))
    }
}

impl fmt::Display for WallTime {
    /// RFC 3339 in UTC with exactly six digits and `Z`, the only form a real API server accepts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(t) => write!(f, "{t:.6}"),
            // Outside the years -9999..9999: no clock says this, but a record may.
            Err(_) => write!(f, "1970-01-01T00:00:00.000000Z"),
        }
    }
}

/// One reading of both clocks, taken together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// The process's own clock: all arithmetic is done on it.
    pub mono: Instant,
    /// The wall clock: only written into records, and held against ends that people set.
    pub wall: WallTime,
}

/// A duration stretched by a factor given in parts per million.
pub(crate) fn scale_ppm(d: Duration, ppm: u64) -> Duration {
    let nanos = d.as_nanos() * u128::from(ppm) / 1_000_000;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_time_prints_six_digits_and_comes_back() {
        let t = WallTime::parse("2026-11-30T23:15:37.225039Z").unwrap();
        assert_eq!(t.to_string(), "2026-11-30T23:15:37.225039Z");
        let whole = WallTime::parse("2026-11-30T23:15:37Z").unwrap();
        assert_eq!(whole.to_string(), "2026-11-30T23:15:37.000000Z");
        assert_eq!(whole.second(), t.second());
        assert_eq!(WallTime::parse("yesterday"), None);
    }

    #[test]
    fn seconds_are_floored_before_the_epoch_too() {
        assert_eq!(WallTime::from_micros(-1).second(), -1);
        assert_eq!(WallTime::from_micros(-1_000_000).second(), -1);
        assert_eq!(WallTime::from_micros(999_999).second(), 0);
    }

    #[test]
    fn instants_saturate() {
        assert_eq!(Instant::from_nanos(5) - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::from_nanos(u64::MAX) + Duration::from_secs(1), Instant::from_nanos(u64::MAX));
    }
}
