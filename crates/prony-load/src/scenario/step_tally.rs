//! What one step of a scenario did, counted by one thread.
//!
//! It reads no clock and does not know which time is counted: the caller does.

use prony_model::script::StepResult;
use prony_stats::histogram::Histogram;

/// Counts of one step.
#[derive(Clone, Debug, Default)]
pub struct StepTally {
    /// Complete answers.
    pub completed: u64,
    /// Requests that failed, and answers that were not accepted.
    pub errors: u64,
    /// From the actual send to the complete answer.
    pub latency: Histogram,
}

impl StepTally {
    /// A complete answer. `unmet`: it was not accepted.
    #[inline]
    pub fn record(&mut self, latency_ns: u64, unmet: bool) {
        self.completed += 1;
        self.errors += u64::from(unmet);
        self.latency.record_ns(latency_ns);
    }

    /// A request without one.
    #[inline]
    pub fn failed(&mut self) {
        self.errors += 1;
    }

    /// Adds the counts of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.completed += other.completed;
        self.errors += other.errors;
        self.latency.merge(&other.latency);
    }

    /// For the result of the load.
    pub fn to_result(&self, name: &str) -> StepResult {
        StepResult {
            name: name.to_string(),
            completed: self.completed,
            errors: self.errors,
            latency: self.latency.to_latency(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_make_one_result() {
        let (mut one, mut two) = (StepTally::default(), StepTally::default());
        one.record(1_000_000, false);
        one.failed();
        two.record(3_000_000, true);
        one.merge(&two);
        let result = one.to_result("login");
        assert_eq!((result.name.as_str(), result.completed, result.errors), ("login", 2, 2));
        assert_eq!(result.latency.count, 2);
        assert!((result.latency.max_us / 3000.0 - 1.0).abs() < 1e-3);
    }
}
