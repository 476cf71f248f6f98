//! Random numbers from a seed: the same seed gives the same sequence on every machine.
//!
//! Not for secrets. Small and `Copy`, so that the load loop and a simulated experiment can each own one.

/// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A sequence of its own for each seed.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Evenly from [0, 1), in steps of 2^-53.
    pub const fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponentially distributed with this mean: the gap between arrivals of a Poisson process.
    ///
    /// By inversion (Devroye 1986, "Non-Uniform Random Variate Generation", II.2): -mean * ln(1 - u).
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }

    /// Normally distributed: Box and Muller 1958, "A note on the generation of random normal deviates".
    pub fn normal(&mut self, mean: f64, stdev: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        mean + stdev * radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Evenly from 0..n; 0 when n is 0.
    ///
    /// Multiply and shift (Lemire 2019, "Fast random integer generation in an interval") without its rejection
    /// step: no result is favoured by more than n / 2^64.
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.next_u64() as u128 * n as u128) >> 64) as u64
    }

    /// Puts the items into a random order, each order being equally likely (Fisher and Yates; Knuth, TAOCP 2, 3.4.2 P).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_published_generator() {
        // First outputs for seed 1234567, as in the test vectors of the reference implementation (prng.di.unimi.it/splitmix64.c).
        let mut random = Random::new(1234567);
        assert_eq!([random.next_u64(), random.next_u64()], [6457827717110365317, 3203168211198807973]);
    }

    #[test]
    fn moments_are_right() {
        let mut random = Random::new(1);
        let n = 100_000;
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / f64::from(n);
        let uniform = mean((0..n).map(|_| random.uniform()).collect());
        assert!((uniform - 0.5).abs() < 0.005, "{uniform}");
        let exponential = mean((0..n).map(|_| random.exponential(3.0)).collect());
        assert!((exponential / 3.0 - 1.0).abs() < 0.02, "{exponential}");
        let squares = mean((0..n).map(|_| random.normal(0.0, 2.0).powi(2)).collect());
        assert!((squares / 4.0 - 1.0).abs() < 0.03, "{squares}");
    }

    #[test]
    fn below_reaches_all_and_no_more() {
        let mut random = Random::new(2);
        let mut seen = [0u32; 7];
        (0..7000).for_each(|_| seen[random.below(7) as usize] += 1);
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn shuffling_reaches_every_order_equally() {
        let mut random = Random::new(3);
        let mut seen = std::collections::BTreeMap::<[u8; 3], u32>::new();
        for _ in 0..6000 {
            let mut items = [1, 2, 3];
            random.shuffle(&mut items);
            *seen.entry(items).or_default() += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
    }
}
