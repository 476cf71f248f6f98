//! The limit, and the limit within the objective: a ladder of connections, then a bisection of the rate.
//!
//! A rate counts as too high only after two bad trials, because one disturbed trial must not cut the search for ever
//! (RFC 9971 says so of packets). The search ends when the bounds are within 2 % or its trials are used up.

use crate::effort::Effort;
use crate::levels::timed;
use crate::machine::TrialOrder;
use prony_model::stack::Slo;
use prony_model::{LoadPlan, Purpose, Rate, Run, Trial};
use serde::Serialize;

/// Twice the connections must bring at least this much more, or the limit is reached. A guess.
const GROWTH_MIN: f64 = 0.03;
/// The ladder ends at this multiple of the workload's connections.
const LADDER_TOP: u32 = 4;
/// Relative width of the bounds at which the search ends (RFC 9971 suggests 0.5 % for packets; requests are noisier).
const WIDTH: f64 = 0.02;
/// Trials of the bisection at most.
const BISECTION_TRIALS: usize = 14;

/// What the search found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Limit {
    /// Most good requests per second in closed loop.
    pub limit_per_s: f64,
    /// Connections that it took.
    pub connections: u32,
    /// The generator was the limit: the stack carries at least this.
    pub generator_limited: bool,
    /// Highest rate that held the objective, and lowest that did not; none without an objective.
    pub within_slo_per_s: Option<(f64, f64)>,
    /// Trials run.
    pub trials: u32,
}

/// The state of a search; every decision is made from the trials in the run.
#[derive(Clone, Debug)]
pub(crate) struct LimitSearch {
    base: LoadPlan,
    slo: Option<Slo>,
    ladder: Vec<u32>,
    bisected: usize,
}

impl LimitSearch {
    pub(crate) fn new(base: &LoadPlan, slo: Option<Slo>) -> Self {
        let top = base.connections.saturating_mul(LADDER_TOP);
        let ladder =
            std::iter::successors(Some(1u32), |c| c.checked_mul(2)).take_while(|c| *c < top).chain([top]).collect();
        Self { base: base.clone(), slo, ladder, bisected: 0 }
    }

    /// The next trial, or none when the search is over.
    pub(crate) fn next(&mut self, run: &Run, effort: &Effort) -> Option<TrialOrder> {
        if let Some(connections) = self.next_rung(run) {
            let plan = LoadPlan { connections, rate: None, ..timed(&self.base, effort.settle, effort.curve) };
            return Some(TrialOrder { purpose: Purpose::Curve, plan, label: format!("{connections} connections") });
        }
        self.slo.as_ref()?;
        let (low, high) = self.bounds(run);
        if self.bisected >= BISECTION_TRIALS || high - low <= WIDTH * high {
            return None;
        }
        self.bisected += 1;
        // A rate that failed once is tried again before it becomes the upper bound.
        let rate = self.doubtful(run, high).unwrap_or((low + high) / 2.0);
        let connections = self.found(run).connections.max(self.base.connections);
        let timed = timed(&self.base, effort.settle, effort.level);
        let plan = LoadPlan { rate: Some(Rate(rate)), connections, ..timed };
        Some(TrialOrder { purpose: Purpose::Curve, plan, label: format!("{rate:.0}/s against the objective") })
    }

    /// What is known so far.
    pub(crate) fn found(&self, run: &Run) -> Limit {
        let best = closed(run).max_by(|a, b| a.result.good_per_s.total_cmp(&b.result.good_per_s));
        Limit {
            limit_per_s: best.map_or(0.0, |t| t.result.good_per_s),
            connections: best.map_or(0, |t| t.plan.connections),
            generator_limited: best.is_some_and(|t| t.result.generator_limited()),
            within_slo_per_s: self.slo.as_ref().map(|_| self.bounds(run)),
            trials: run.trials.len() as u32,
        }
    }

    fn next_rung(&self, run: &Run) -> Option<u32> {
        let rungs: Vec<&Trial> = closed(run).collect();
        let flat = rungs
            .windows(2)
            .rev()
            .take(2)
            .filter(|w| w[1].result.good_per_s < w[0].result.good_per_s * (1.0 + GROWTH_MIN));
        let wide_enough = rungs.last().is_some_and(|t| t.plan.connections >= self.base.connections);
        if wide_enough && flat.count() == 2 {
            return None;
        }
        self.ladder.get(rungs.len()).copied()
    }

    /// Highest rate that held, lowest that failed twice (or the limit, a little raised, which cannot be carried).
    fn bounds(&self, run: &Run) -> (f64, f64) {
        let top = closed(run).map(|t| t.result.good_per_s).fold(0.0, f64::max) * (1.0 + WIDTH);
        let high = open(run)
            .filter(|(rate, _)| open(run).filter(|(r, t)| r == rate && !self.held(t)).count() >= 2)
            .map(|(rate, _)| rate)
            .fold(top, f64::min);
        let low = open(run).filter(|(rate, t)| *rate < high && self.held(t)).map(|(rate, _)| rate).fold(0.0, f64::max);
        (low, high)
    }

    fn doubtful(&self, run: &Run, high: f64) -> Option<f64> {
        let tried = |rate: f64| open(run).filter(move |(r, _)| *r == rate).count();
        open(run).find(|(rate, t)| *rate < high && !self.held(t) && tried(*rate) == 1).map(|(rate, _)| rate)
    }

    fn held(&self, trial: &Trial) -> bool {
        let Some(slo) = &self.slo else { return true };
        let within = |limit: Option<prony_model::Nanos>, us: f64| limit.is_none_or(|l| us <= l.as_us_f64());
        within(slo.p99, trial.result.latency.p99_us)
            && within(slo.p50, trial.result.latency.p50_us)
            && slo.errors.is_none_or(|share| trial.result.error_share() <= share.0)
    }
}

fn closed(run: &Run) -> impl Iterator<Item = &Trial> {
    run.trials.iter().filter(|t| t.purpose == Purpose::Curve && t.plan.rate.is_none())
}

fn open(run: &Run) -> impl Iterator<Item = (f64, &Trial)> {
    run.trials.iter().filter(|t| t.purpose == Purpose::Curve).filter_map(|t| Some((t.plan.rate?.0, t)))
}
