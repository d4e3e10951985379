//! A machine's clocks, as functions of true time.

use incumbent_core::{Instant, Now, WallTime};

/// True time, in nanoseconds since the simulation began.
pub(crate) type Time = u64;

pub(crate) const MILLI: Time = 1_000_000;
pub(crate) const SECOND: Time = 1_000 * MILLI;

const MILLION: u128 = 1_000_000;

/// One machine's clocks: one that never steps but runs a little too fast or too slow, and a wall clock.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    /// How much too fast, in parts per million; within ±ρ.
    rate_ppm: i64,
    /// What the own clock says when the simulation begins.
    origin: u64,
    /// What the wall clock says when the simulation begins, in microseconds, and what steps added since.
    wall: i64,
    /// How much the wall clock runs too fast against the own clock, in parts per million.
    wall_ppm: i64,
}

impl Clock {
    pub(crate) fn new(rate_ppm: i64, origin: u64, wall: i64, wall_ppm: i64) -> Clock {
        Clock { rate_ppm, origin, wall, wall_ppm }
    }

    fn rate(&self) -> u128 {
        (1_000_000 + self.rate_ppm) as u128
    }

    /// What the own clock says.
    pub(crate) fn local(&self, t: Time) -> Instant {
        Instant::from_nanos(self.origin + (u128::from(t) * self.rate() / MILLION) as u64)
    }

    /// The earliest true time at which the own clock says `local` or more.
    pub(crate) fn when(&self, local: Instant) -> Time {
        let elapsed = u128::from(local.as_nanos().saturating_sub(self.origin));
        u64::try_from((elapsed * MILLION).div_ceil(self.rate())).unwrap_or(Time::MAX)
    }

    pub(crate) fn wall(&self, t: Time) -> WallTime {
        let elapsed = (self.local(t).as_nanos() - self.origin) as i128 / 1000;
        let own = elapsed + elapsed * i128::from(self.wall_ppm) / MILLION as i128;
        WallTime::from_micros(self.wall + own as i64)
    }

    pub(crate) fn now(&self, t: Time) -> Now {
        Now { mono: self.local(t), wall: self.wall(t) }
    }

    /// Sets the wall clock forward, or back.
    pub(crate) fn step_wall(&mut self, micros: i64) {
        self.wall += micros;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_inverse_of_local_and_never_early() {
        for rate in [-5000, -1, 0, 1, 5000] {
            let clock = Clock::new(rate, 77, 0, 0);
            for t in [0, 1, 999, SECOND, 299 * SECOND + 7] {
                let local = clock.local(t);
                assert!(clock.when(local) <= t);
                assert!(clock.local(clock.when(local)) >= local);
                let next = Instant::from_nanos(local.as_nanos() + 1);
                assert!(clock.local(clock.when(next)) >= next);
            }
        }
    }

    #[test]
    fn a_step_moves_the_wall_clock_only() {
        let mut clock = Clock::new(5000, 0, 1_000, 0);
        let before = clock.now(SECOND);
        clock.step_wall(-500);
        let after = clock.now(SECOND);
        assert_eq!(before.mono, after.mono);
        assert_eq!(before.wall.as_micros() - after.wall.as_micros(), 500);
        assert_eq!(before.wall.as_micros(), 1_000 + 1_005_000);
    }
}
