//! What a machine leaves of a CPU: while somebody else has it, no sender is on time, and no answer is looked at.

use super::{compile, median, number_told, said_on, spread};
use std::path::{Path, PathBuf};

/// Share of the time above which a bar at p99 cannot be shown.
const AWAY_MAX: f64 = 0.01;

/// A loop that only reads the clock.
pub struct Clock(PathBuf);

impl Clock {
    /// Builds it.
    ///
    /// # Errors
    /// There is no gcc, or it fails.
    pub fn prepare(root: &Path) -> anyhow::Result<Self> {
        Ok(Self(compile(root, "clock")?))
    }

    /// Share of the time in which the CPU was kept from it for longer than so long at once.
    ///
    /// # Errors
    /// It cannot run.
    pub fn away(&self, cpu: &str, seconds: u32, longer_than_us: f64, realtime: bool) -> anyhow::Result<f64> {
        number_told(&said_on(cpu, &self.0, &[&seconds, &longer_than_us], realtime)?, "away_share")
    }
}

/// What the machine itself leaves of a bar at p99: `away` are shares of the time, one for each round.
pub fn said(away: &[f64], longer_than_us: f64) -> String {
    let percent: Vec<f64> = away.iter().map(|share| 100.0 * share).collect();
    let leaves = if median(away).unwrap_or_default() < AWAY_MAX {
        "That leaves room for the bar."
    } else {
        "Above 1 % this machine cannot show the bar: no sender is on time while it has no CPU, and what was due meanwhile is late as well."
    };
    format!(
        "In each round, with no load at all, a loop that only reads the clock was kept from the CPU of the generators for longer than {longer_than_us:.0} us in {} % of \
         its time. {leaves}",
        spread(&percent, 2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_takes_its_cpu_away_cannot_show_the_bar() {
        assert!(
            said(&[0.002, 0.03, 0.004], 50.0)
                .contains("than 50 us in 0.40 (0.20 to 3.00) % of its time. That leaves room")
        );
        assert!(said(&[0.02, 0.03, 0.004], 50.0).contains("Above 1 % this machine cannot"));
    }
}
