//! The durations of an election, checked together.

use std::time::Duration;

use crate::time::scale_ppm;

/// The longest lease duration that is believed: 3600 s. Longer ones count as this and are reported.
pub const LONGEST_LEASE: Duration = Duration::from_secs(3600);

/// How far any clock of the fleet may run too fast or too slow, in parts per million: 1/200.
const DEFAULT_SKEW_PPM: u32 = 5_000;

/// Named sets of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profile {
    /// 6 s lease, 3 s deadline, renewed every second: quick failover, three times the requests.
    Fast,
    /// 15 s lease, 10 s deadline, renewed every 2 s: what Kubernetes components use.
    #[default]
    Default,
    /// 137 s lease, 107 s deadline, renewed every 26 s: rides out a restart of the API server.
    Patient,
}

/// What a user sets. Turned into a checked [`Timing`] by [`TimingConfig::check`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimingConfig {
    /// P: how long a lease that is not renewed stays valid for others. Whole seconds, 1 s to 3600 s.
    pub lease_duration: Duration,
    /// D: a leader whose last acknowledged renewal was sent longer ago than this no longer leads.
    pub renew_deadline: Duration,
    /// R: the time between two renewals, and between two looks of a follower that may not watch.
    pub retry_period: Duration,
    /// A: the longest time one request may take. `None`: a quarter of the renew deadline.
    pub attempt_timeout: Option<Duration>,
    /// G: how long work may take to end after leadership was *lost*, before it is killed.
    /// `None`: 3 s, or what the lease leaves room for.
    pub stop_grace: Option<Duration>,
    /// T: how long work may take to end in a *planned* stop. May exceed the lease: renewals go on meanwhile.
    pub drain_timeout: Duration,
    /// ρ in parts per million: every clock of the fleet runs at a rate within [1 − ρ, 1 + ρ]. At least 5000.
    pub clock_rate_skew_ppm: u32,
}

impl From<Profile> for TimingConfig {
    fn from(profile: Profile) -> Self {
        let (p, d, r) = match profile {
            Profile::Fast => (6, 3, 1),
            Profile::Default => (15, 10, 2),
            Profile::Patient => (137, 107, 26),
        };
        TimingConfig {
            lease_duration: Duration::from_secs(p),
            renew_deadline: Duration::from_secs(d),
            retry_period: Duration::from_secs(r),
            attempt_timeout: None,
            stop_grace: None,
            drain_timeout: Duration::from_secs(25),
            clock_rate_skew_ppm: DEFAULT_SKEW_PPM,
        }
    }
}

impl Default for TimingConfig {
    fn default() -> Self {
        Profile::Default.into()
    }
}

/// Durations that hold together (DESIGN.md, "Timing"). Only [`TimingConfig::check`] makes one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timing {
    lease_seconds: u16,
    renew_deadline: Duration,
    retry_period: Duration,
    attempt_timeout: Duration,
    stop_grace: Duration,
    drain_timeout: Duration,
    skew_ppm: u32,
    hard_end: Duration,
}

/// Why a set of durations cannot work. The text names the inequality and the values.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TimingError {
    /// P is published in whole seconds; a fraction would be read differently by others.
    #[error(
        "lease duration {0:?} has a fraction of a second, but a Lease carries whole seconds: use {1} s or {2} s"
    )]
    Fraction(Duration, u64, u64),
    /// P outside 1 s to 3600 s.
    #[error("lease duration {0:?} is outside 1 s to 3600 s")]
    LeaseRange(Duration),
    /// A duration of zero.
    #[error("{0} must be longer than zero")]
    Zero(&'static str),
    /// D < H does not hold.
    #[error(
        "renew deadline {deadline:?} must be shorter than {hard_end:?} (the lease duration {lease:?} less what clocks may drift)"
    )]
    Deadline {
        /// D.
        deadline: Duration,
        /// H.
        hard_end: Duration,
        /// P.
        lease: Duration,
    },
    /// A ≤ D/3 does not hold.
    #[error(
        "attempt timeout {attempt:?} must be at most a third of the renew deadline {deadline:?}, so that three attempts fit"
    )]
    Attempt {
        /// A.
        attempt: Duration,
        /// D.
        deadline: Duration,
    },
    /// R·1.2 + A ≤ D does not hold.
    #[error(
        "retry period {retry:?} × 1.2 + attempt timeout {attempt:?} must be at most the renew deadline {deadline:?}"
    )]
    Retry {
        /// R.
        retry: Duration,
        /// A.
        attempt: Duration,
        /// D.
        deadline: Duration,
    },
    /// R < 1.1 s, and 1 s + R·1.2 + A ≤ D does not hold.
    #[error(
        "1 s + retry period {retry:?} × 1.2 + attempt timeout {attempt:?} must be at most the renew deadline {deadline:?}: renewals within one second do not count for followers that compare whole seconds"
    )]
    WholeSeconds {
        /// R.
        retry: Duration,
        /// A.
        attempt: Duration,
        /// D.
        deadline: Duration,
    },
    /// D + G + 1 s ≤ H does not hold.
    #[error(
        "renew deadline {deadline:?} + stop grace {grace:?} + 1 s (to kill and reap) must be at most {hard_end:?} (the lease duration less what clocks may drift): after a loss the work must be over before anybody else may start"
    )]
    StopGrace {
        /// D.
        deadline: Duration,
        /// G.
        grace: Duration,
        /// H.
        hard_end: Duration,
    },
    /// ρ below 1/200 or not below 1/5.
    #[error("clock rate skew of {0} ppm is outside 5000 to 200000 ppm")]
    Skew(u32),
}

const KILL_AND_REAP: Duration = Duration::from_secs(1);
const MAX_STOP_GRACE: Duration = Duration::from_secs(3);

impl TimingConfig {
    /// Checks all durations together, as they will be serialised, and computes the derived ones.
    ///
    /// # Errors
    /// The first inequality that does not hold, with the values in it.
    pub fn check(&self) -> Result<Timing, TimingError> {
        let p = self.lease_duration;
        if p < Duration::from_secs(1) || p > LONGEST_LEASE {
            return Err(TimingError::LeaseRange(p));
        }
        if p.subsec_nanos() != 0 {
            return Err(TimingError::Fraction(p, p.as_secs(), p.as_secs() + 1));
        }
        if !(DEFAULT_SKEW_PPM..=200_000).contains(&self.clock_rate_skew_ppm) {
            return Err(TimingError::Skew(self.clock_rate_skew_ppm));
        }
        let (d, r) = (self.renew_deadline, self.retry_period);
        for (name, value) in
            [("renew deadline", d), ("retry period", r), ("drain timeout", self.drain_timeout)]
        {
            if value.is_zero() {
                return Err(TimingError::Zero(name));
            }
        }
        let skew = u64::from(self.clock_rate_skew_ppm);
        // H = P·(1−ρ)/(1+ρ): however the two clocks differ within ρ, a follower whose timer runs P·(1+ρ) from
        // the moment it saw the renewal is later than this on the holder's own clock.
        let hard_end = Duration::from_nanos(
            (p.as_nanos() * u128::from(1_000_000 - skew) / u128::from(1_000_000 + skew)) as u64,
        );
        if d >= hard_end {
            return Err(TimingError::Deadline { deadline: d, hard_end, lease: p });
        }
        let attempt = self.attempt_timeout.unwrap_or(d / 4);
        if attempt.is_zero() {
            return Err(TimingError::Zero("attempt timeout"));
        }
        if attempt > d / 3 {
            return Err(TimingError::Attempt { attempt, deadline: d });
        }
        let cycle = scale_ppm(r, 1_200_000).saturating_add(attempt);
        if cycle > d {
            return Err(TimingError::Retry { retry: r, attempt, deadline: d });
        }
        if r < Duration::from_millis(1100) && cycle + Duration::from_secs(1) > d {
            return Err(TimingError::WholeSeconds { retry: r, attempt, deadline: d });
        }
        let room = hard_end.saturating_sub(d).saturating_sub(KILL_AND_REAP);
        let grace = self.stop_grace.unwrap_or(MAX_STOP_GRACE.min(room));
        if d.saturating_add(grace).saturating_add(KILL_AND_REAP) > hard_end {
            return Err(TimingError::StopGrace { deadline: d, grace, hard_end });
        }
        Ok(Timing {
            lease_seconds: p.as_secs() as u16,
            renew_deadline: d,
            retry_period: r,
            attempt_timeout: attempt,
            stop_grace: grace,
            drain_timeout: self.drain_timeout,
            skew_ppm: self.clock_rate_skew_ppm,
            hard_end,
        })
    }
}

impl Timing {
    /// P in whole seconds, as it is published.
    pub fn lease_seconds(&self) -> u16 {
        self.lease_seconds
    }
    /// P.
    pub fn lease_duration(&self) -> Duration {
        Duration::from_secs(u64::from(self.lease_seconds))
    }
    /// D: a term is valid for this long from the send of the latest acknowledged renewal.
    pub fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }
    /// R.
    pub fn retry_period(&self) -> Duration {
        self.retry_period
    }
    /// A.
    pub fn attempt_timeout(&self) -> Duration {
        self.attempt_timeout
    }
    /// G.
    pub fn stop_grace(&self) -> Duration {
        self.stop_grace
    }
    /// T.
    pub fn drain_timeout(&self) -> Duration {
        self.drain_timeout
    }
    /// H: all work is over this long after the send of the latest acknowledged renewal.
    pub fn hard_end(&self) -> Duration {
        self.hard_end
    }
    /// `d` stretched by 1 + ρ: how long to wait on one's own clock to be sure that `d` passed on another's.
    pub fn stretched(&self, d: Duration) -> Duration {
        scale_ppm(d, 1_000_000 + u64::from(self.skew_ppm))
    }
    /// The duration that a transferred lock is published with, in whole seconds: short, so that a successor
    /// which dies at that instant costs little. Its first renewal publishes its own.
    pub fn transfer_seconds(&self) -> u16 {
        let two_attempts = self.attempt_timeout * 2;
        let ceil = two_attempts.as_secs() + u64::from(two_attempts.subsec_nanos() > 0);
        self.lease_seconds.min(5.max(ceil as u16 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    fn config(p: f64, d: f64, r: f64) -> TimingConfig {
        TimingConfig {
            lease_duration: secs(p),
            renew_deadline: secs(d),
            retry_period: secs(r),
            ..TimingConfig::default()
        }
    }

    #[test]
    fn profiles_hold_together() {
        for profile in [Profile::Fast, Profile::Default, Profile::Patient] {
            let t = TimingConfig::from(profile).check().unwrap();
            assert!(t.renew_deadline() + t.stop_grace() + KILL_AND_REAP <= t.hard_end(), "{profile:?}");
        }
        let t = TimingConfig::default().check().unwrap();
        assert_eq!(t.hard_end().as_millis(), 14_850);
        assert_eq!(t.transfer_seconds(), 6);
        assert_eq!(t.attempt_timeout(), secs(2.5));
        assert_eq!(t.stretched(secs(15.0)), secs(15.075));
    }

    #[test]
    fn b59_a_fraction_of_a_second_is_refused() {
        assert!(matches!(config(1.5, 1.0, 0.2).check(), Err(TimingError::Fraction(..))));
    }

    #[test]
    fn b60_each_violated_inequality_is_named_with_its_values() {
        let cases: [(TimingConfig, &str); 9] = [
            (config(15.0, 15.0, 2.0), "renew deadline 15s must be shorter than 14.85"),
            (config(15.0, 14.9, 2.0), "renew deadline"),
            (config(15.0, 10.0, 9.0), "retry period 9s × 1.2 + attempt timeout 2.5s"),
            (config(0.0, 10.0, 2.0), "outside 1 s to 3600 s"),
            (config(7200.0, 10.0, 2.0), "outside 1 s to 3600 s"),
            (config(15.0, 0.0, 2.0), "renew deadline must be longer than zero"),
            (config(6.0, 2.0, 0.5), "1 s + retry period 500ms"),
            (
                TimingConfig { attempt_timeout: Some(secs(4.0)), ..config(15.0, 10.0, 2.0) },
                "attempt timeout 4s must be at most a third",
            ),
            (
                TimingConfig { stop_grace: Some(secs(5.0)), ..config(15.0, 10.0, 2.0) },
                "+ stop grace 5s + 1 s",
            ),
        ];
        for (config, text) in cases {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(text), "{error} should contain {text}");
        }
    }

    #[test]
    fn b62_a_holder_is_over_before_anybody_may_follow() {
        use proptest::prelude::*;
        // Any configuration that is accepted: the hard end on the slowest holder's clock comes before the
        // takeover on the fastest follower's clock.
        proptest!(|(p in 1u64..3600, d in 1u64..3_600_000, r in 1u64..3_600_000, ppm in 5_000u32..200_000)| {
            let config = TimingConfig {
                lease_duration: Duration::from_secs(p),
                renew_deadline: Duration::from_millis(d),
                retry_period: Duration::from_millis(r),
                clock_rate_skew_ppm: ppm,
                ..TimingConfig::default()
            };
            if let Ok(t) = config.check() {
                let rho = f64::from(ppm) / 1e6;
                let holder_latest = t.hard_end().as_secs_f64() / (1.0 - rho);
                let follower_earliest = t.stretched(t.lease_duration()).as_secs_f64() / (1.0 + rho);
                prop_assert!(holder_latest <= follower_earliest + 1e-6);
                prop_assert!(t.renew_deadline() + t.stop_grace() < t.hard_end());
            }
        });
    }
}
