//! Histograms, quantiles, steady state, intervals, A/B, elasticity, knee.
//!
//! Pure: no IO, no clock, and every random choice comes from a seed that the caller names.
//! Invariant: every formula cites its source in the doc of the function that computes it.

pub mod aa;
pub mod anderson_darling;
pub mod border;
pub mod change_points;
pub mod compare;
pub mod curve;
pub mod elasticity;
pub mod experiment;
pub mod fluctuation;
pub mod histogram;
#[cfg(test)]
mod histogram_tests;
pub mod history;
pub mod holm;
pub mod loads;
pub mod order;
pub mod overload;
pub mod paired;
pub mod precision;
pub mod prove;
pub mod random;
pub mod search;
pub mod simulated;
mod speed;
pub mod steady;
mod student;
pub mod threshold;
pub mod unpaired;
pub mod usl;

pub use elasticity::Elasticity;
pub use histogram::{Histogram, merge_latencies};
pub use random::Random;
pub use threshold::{EarlyStop, evaluate};
