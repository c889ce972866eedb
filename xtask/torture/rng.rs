//! Decisions from a seed: the same seed gives the same decisions, on every machine.

/// A splitmix64 generator (Steele, Lea and Flood, 2014): small, and good enough to decide with.
pub(crate) struct Rng(u64);

impl Rng {
    /// The decisions of one round of a seed.
    pub(crate) const fn of_round(seed: u64, round: u64) -> Self {
        Self(seed ^ round.wrapping_mul(0xD6E8_FEB8_6659_FD93))
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from `from` up to, but not including, `to`.
    pub(crate) const fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    /// True once in `of` times.
    pub(crate) const fn once_in(&mut self, of: u64) -> bool {
        self.next().is_multiple_of(of)
    }

    /// One of them, or nothing when there is none.
    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        if from.is_empty() {
            return None;
        }
        from.get((self.next() % from.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_round_decide_everything() {
        let numbers = |seed, round| {
            let mut rng = Rng::of_round(seed, round);
            [rng.next(), rng.within(3, 9), u64::from(rng.once_in(2))]
        };
        assert_eq!(numbers(7, 1), numbers(7, 1));
        assert_ne!(numbers(7, 1), numbers(7, 2));
        assert_ne!(numbers(7, 1), numbers(8, 1));
    }
}
