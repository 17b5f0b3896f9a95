//! Pseudorandom numbers from a seed, so that a run can be repeated.

/// A pseudorandom number generator.
#[derive(Debug, Clone)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// A generator from a seed. Each `stream` of the same seed has different numbers.
    pub fn new(seed: u64, stream: u64) -> SeededRandom {
        let mut dice = SeededRandom(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.next();
        dice
    }

    /// The next number (splitmix64).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// The elements in random order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_reproduces_its_numbers_and_streams_differ() {
        let rolls = |seed, stream| {
            let mut dice = SeededRandom::new(seed, stream);
            (0..20).map(|_| dice.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(rolls(1, 1), rolls(1, 1));
        assert_ne!(rolls(1, 1), rolls(2, 1));
        assert_ne!(rolls(1, 1), rolls(1, 2));
    }

    #[test]
    fn shuffling_keeps_every_element() {
        let mut all: Vec<u32> = (0..50).collect();
        SeededRandom::new(7, 0).shuffle(&mut all);
        assert_ne!(all, (0..50).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..50).collect::<Vec<_>>());
    }
}
