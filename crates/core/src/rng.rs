//! Jitter from a seed: the same seed gives the same election.

use std::time::Duration;

/// SplitMix64: small, and good enough to keep processes from doing things at the same instant.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `d` times a factor between `low` and `high` percent.
    pub(crate) fn percent(&mut self, d: Duration, low: u64, high: u64) -> Duration {
        let span = (high - low) * 1000 + 1;
        let factor = low * 1000 + self.next() % span;
        Duration::from_nanos((d.as_nanos() * u128::from(factor) / 100_000) as u64)
    }
}
