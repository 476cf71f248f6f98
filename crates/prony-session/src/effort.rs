//! How long everything takes: one place for all durations of a run.

use prony_model::Nanos;

/// Durations and counts of a run. The default keeps `diagnose` under 120 s and `prove` under 5 minutes.
#[derive(Clone, Debug, PartialEq)]
pub struct Effort {
    /// How long hosts are watched before any load.
    pub listen: Nanos,
    /// Unscored load at the start.
    pub warmup: Nanos,
    /// Uncounted start of each trial: connections open and queues fill.
    pub settle: Nanos,
    /// Counted time of a level.
    pub level: Nanos,
    /// Length of the unscored load during which close looks run.
    pub look: Nanos,
    /// Counted time of a trial of the load curve.
    pub curve: Nanos,
    /// Counted time of each trial of an intervention. Short: partners in a pair must see the same machine, and on a shared
    /// one the speed of the CPUs drifts from second to second.
    pub intervention: Nanos,
    /// Pairs of each intervention: as much time as the eight pairs of 2 s that separated suspect and control at a dose of
    /// 20 % (methods.md), in smaller pieces.
    pub pairs: u32,
    /// Counted time of each trial of a proof, where a stack answers soon and often; short as those of interventions are.
    pub proof: Nanos,
    /// Blocks of a proof at first; each has two trials of A and two of B. More follow where pairs differ too much.
    pub blocks: u32,
    /// Counted time of a trial at the border of an objective: longer than a level, because a high quantile needs more requests
    /// than a mean.
    pub border: Nanos,
    /// Relative width at which the interval of a limit is narrow enough.
    pub limit_width: f64,
    /// Samples per second of each host.
    pub samples_per_s: f64,
}

impl Default for Effort {
    fn default() -> Self {
        Self {
            // A guess: the kernel's CPU times have ticks of 10 ms, so this tells 1 %.
            listen: Nanos::from_millis(1000),
            warmup: Nanos::from_millis(2000),
            settle: Nanos::from_millis(400),
            level: Nanos::from_millis(5000),
            look: Nanos::from_millis(3000),
            curve: Nanos::from_millis(2000),
            intervention: Nanos::from_millis(800),
            pairs: 14,
            // For the same time of load on a noisy shared machine trials of 2, 1 and 0.5 s left a standard error of 4.9, 2.9 and 2.3 %
            // (labs/proxy-cpu-quota, its throughput every 0.1 s for two minutes); each settles for 0.4 s besides.
            proof: Nanos::from_millis(1000),
            blocks: 6,
            border: Nanos::from_millis(8000),
            limit_width: 0.03,
            samples_per_s: 4.0,
        }
    }
}

impl Effort {
    /// The same work in about a third of the time, for labs under test.
    pub fn quick() -> Self {
        Self {
            warmup: Nanos::from_millis(1000),
            settle: Nanos::from_millis(300),
            level: Nanos::from_millis(2000),
            look: Nanos::from_millis(1500),
            curve: Nanos::from_millis(1000),
            intervention: Nanos::from_millis(600),
            pairs: 7,
            proof: Nanos::from_millis(800),
            blocks: 3,
            border: Nanos::from_millis(2000),
            limit_width: 0.05,
            ..Self::default()
        }
    }

    /// Just long enough that everything is done once: nothing is concluded from it.
    pub fn rehearsal() -> Self {
        Self { listen: Nanos::from_millis(50), warmup: Nanos::from_millis(400), ..Self::quick() }
    }
}
