//! Histograms, quantiles, steady state, intervals, A/B, elasticity, knee.
//!
//! Pure: no IO, no clock, and every random choice comes from a seed that the caller names.
//! Invariant: every formula cites its source in the doc of the function that computes it.

pub mod histogram;
pub mod random;

pub use histogram::{Histogram, merge_latencies};
pub use random::Random;
