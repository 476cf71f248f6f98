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
    /// Fewest connections that brought it, but for a growth that does not count.
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
        // A rate that failed once has moved no bound, so it is the middle again, and is tried again.
        let rate = (low + high) / 2.0;
        let connections = self.found(run).connections.max(self.base.connections);
        let timed = timed(&self.base, effort.settle, effort.level);
        let plan = LoadPlan { rate: Some(Rate(rate)), connections, ..timed };
        Some(TrialOrder { purpose: Purpose::Curve, plan, label: format!("{rate:.0}/s against the objective") })
    }

    /// What is known so far.
    pub(crate) fn found(&self, run: &Run) -> Limit {
        let best = closed(run).max_by(|a, b| a.result.good_per_s.total_cmp(&b.result.good_per_s));
        let limit_per_s = best.map_or(0.0, |t| t.result.good_per_s);
        let mut enough = closed(run).filter(|t| t.result.good_per_s * (1.0 + GROWTH_MIN) >= limit_per_s);
        Limit {
            limit_per_s,
            connections: enough.next().map_or(0, |t| t.plan.connections),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MadeRun, plan};
    use prony_model::load::Gate;
    use prony_model::{Latency, LoadResult, Nanos};
    use prony_stats::Random;

    /// A server as a queue: so many requests per second at most, and so long for one when nobody waits.
    struct Server {
        capacity_per_s: f64,
        service_us: f64,
        noise: f64,
        random: Random,
    }

    impl Server {
        fn new(noise: f64, seed: u64) -> Self {
            Self { capacity_per_s: 10_000.0, service_us: 1000.0, noise, random: Random::new(seed) }
        }

        /// Rate at which the tail reaches the objective: the p99 of M/M/1 is 4.6 means, and a mean is S / (1 - load).
        fn within(&self, p99_us: f64) -> f64 {
            self.capacity_per_s * (1.0 - 4.6 * self.service_us / p99_us)
        }

        fn answer(&mut self, plan: &LoadPlan) -> LoadResult {
            let mut noisy = |value: f64| value * self.random.normal(0.0, self.noise).exp();
            let round_trip = f64::from(plan.connections) * 1e6 / self.service_us;
            let carried = plan.rate.map_or(round_trip, |rate| rate.0).min(self.capacity_per_s);
            let load = plan.rate.map_or(1.0, |rate| rate.0 / self.capacity_per_s);
            let p99_us = if load < 1.0 { 4.6 * self.service_us / (1.0 - load) } else { 1e7 };
            let latency = Latency { p99_us: noisy(p99_us), ..Latency::default() };
            LoadResult { good_per_s: noisy(carried), latency, ..LoadResult::default() }
        }

        /// Plays a search to its end.
        fn search(&mut self, slo: Option<Slo>) -> (Limit, Run) {
            let mut search = LimitSearch::new(&plan(), slo);
            let mut made = MadeRun::of("");
            while let Some(order) = search.next(&made.run, &Effort::quick()) {
                let result = self.answer(&order.plan);
                made.push(order.purpose, order.plan, result);
                assert!(made.run.trials.len() <= search.ladder.len() + BISECTION_TRIALS, "the search does not end");
            }
            (search.found(&made.run), made.run)
        }
    }

    fn p99(ms: u64) -> Option<Slo> {
        Some(Slo { p99: Some(Nanos::from_millis(ms)), ..Slo::default() })
    }

    #[test]
    fn without_noise_the_bounds_hold_the_truth_between_them() {
        for ms in [6, 10, 20, 100] {
            let mut server = Server::new(0.0, 1);
            let (limit, _) = server.search(p99(ms));
            let (low, high) = limit.within_slo_per_s.unwrap();
            let truth = server.within(ms as f64 * 1e3);
            assert!(low <= truth && truth <= high && high - low <= WIDTH * high, "{ms} ms: {low} {truth} {high}");
            assert_eq!(
                (limit.limit_per_s, limit.connections),
                (10_000.0, 16),
                "10 suffice; 16 is the first rung beyond"
            );
        }
    }

    #[test]
    fn with_noise_nearly_every_search_brackets_the_truth() {
        let (mut near, searches) = (0, 200);
        for seed in 0..searches {
            let mut server = Server::new(0.02, seed);
            let (limit, _) = server.search(p99(20));
            let (low, high) = limit.within_slo_per_s.unwrap();
            let truth = server.within(20e3);
            assert!(low < high, "{low} {high}");
            // A p99 that is 2 % off moves the rate at which it meets the objective by 0.6 %.
            near += u64::from(low <= truth * 1.02 && truth * 0.98 <= high);
            assert!((limit.limit_per_s / 10_000.0 - 1.0).abs() < 0.1, "{}", limit.limit_per_s);
        }
        assert!(near * 100 >= searches * 95, "{near} of {searches}");
    }

    #[test]
    fn one_disturbed_trial_does_not_cut_the_search() {
        let mut search = LimitSearch::new(&plan(), p99(20));
        let (mut server, mut made, mut disturbed) = (Server::new(0.0, 1), MadeRun::of(""), false);
        while let Some(order) = search.next(&made.run, &Effort::quick()) {
            let mut result = server.answer(&order.plan);
            if order.plan.rate.is_some() && !disturbed {
                (disturbed, result.latency.p99_us) = (true, 1e6);
            }
            made.push(order.purpose, order.plan, result);
        }
        let (low, high) = search.found(&made.run).within_slo_per_s.unwrap();
        let truth = server.within(20e3);
        assert!(disturbed && low <= truth && truth <= high, "{low} {truth} {high}");
    }

    #[test]
    fn an_objective_that_no_rate_holds_ends_near_zero() {
        let (limit, run) = Server::new(0.0, 1).search(p99(1));
        let (low, high) = limit.within_slo_per_s.unwrap();
        assert!(low == 0.0 && high < 100.0, "{low} {high}");
        assert_eq!(run.trials.iter().filter(|t| t.plan.rate.is_some()).count(), BISECTION_TRIALS);
    }

    #[test]
    fn without_an_objective_only_the_ladder_is_climbed() {
        let (limit, run) = Server::new(0.0, 1).search(None);
        assert_eq!(limit.within_slo_per_s, None);
        let rungs: Vec<u32> = run.trials.iter().map(|t| t.plan.connections).collect();
        assert_eq!(rungs, [1, 2, 4, 8, 16, 32], "two flat steps end it");
    }

    #[test]
    fn a_limit_of_the_generator_is_called_so() {
        let mut search = LimitSearch::new(&plan(), None);
        let (mut server, mut made) = (Server::new(0.0, 1), MadeRun::of(""));
        while let Some(order) = search.next(&made.run, &Effort::quick()) {
            let mut result = server.answer(&order.plan);
            let held = order.plan.connections < 8;
            result.gates = vec![Gate { name: "cpu".into(), held, detail: String::new(), generator_limited: true }];
            made.push(order.purpose, order.plan, result);
        }
        assert!(search.found(&made.run).generator_limited);
    }

    #[test]
    fn a_search_without_an_answer_finds_nothing_and_ends() {
        let mut server = Server { capacity_per_s: 0.0, ..Server::new(0.0, 1) };
        let (limit, _) = server.search(p99(10));
        assert_eq!((limit.limit_per_s, limit.within_slo_per_s), (0.0, Some((0.0, 0.0))));
    }
}
