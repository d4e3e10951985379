//! The one source of chance: everything random in a run comes from its seed.

/// SplitMix64: small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        // Neighbouring seeds must not begin alike.
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D1CE_4E5B);
        rng.next();
        rng
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be zero.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `lo..=hi`; `lo` if the range is empty.
    pub(crate) fn between(&mut self, lo: u64, hi: u64) -> u64 {
        if hi <= lo { lo } else { lo + self.below(hi - lo + 1) }
    }

    /// A number in `lo..=hi`, mostly near `lo`.
    pub(crate) fn mostly_low(&mut self, lo: u64, hi: u64) -> u64 {
        let (a, b) = (self.between(lo, hi), self.between(lo, hi));
        a.min(b).min(self.between(lo, hi))
    }

    /// True in `per_mille` of 1000 cases. Draws nothing if that is zero, so that calm costs nothing.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.below(1000) < u64::from(per_mille)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// An index, drawn by weights that are not all zero.
    pub(crate) fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut n = self.below(weights.iter().map(|w| u64::from(*w)).sum());
        for (i, w) in weights.iter().enumerate() {
            match n.checked_sub(u64::from(*w)) {
                Some(rest) => n = rest,
                None => return i,
            }
        }
        weights.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_sequence_and_neighbours_differ() {
        let draw = |seed| {
            (0..8)
                .map({
                    let mut r = Rng::new(seed);
                    move |_| r.next()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn draws_stay_in_range_and_reach_its_ends() {
        let mut r = Rng::new(1);
        let all: Vec<u64> = (0..1000).map(|_| r.between(3, 6)).collect();
        for n in 3..=6 {
            assert!(all.contains(&n));
        }
        assert!(all.iter().all(|n| (3..=6).contains(n)));
        assert_eq!(r.weighted(&[0, 5, 0]), 1);
        assert!(!r.chance(0) && r.chance(1000));
    }
}
