//! Stacks that are made up, with limits that are known: what the methods of this crate are held against.
//!
//! A stack is a queue with servers (`simulated::queue`), and around it the ways of a real machine: its speed differs from
//! trial to trial, resembles that of the trial before, drifts, is now and then disturbed, and may collapse when overloaded.
//! It measures nothing and knows nothing of the search. Invariant: the same seed gives the same stack and the same trials.

mod queue;
mod theory;

use crate::Random;
use crate::prove::TrialNumbers;
use crate::search::{Found, Load, Observation, Options, Probe, Search, Validity, Why};
use prony_model::Rate;

/// Seconds before the counted time of a trial, in which it settles, and which it costs besides.
const SETTLE_S: f64 = 0.4;
/// What a trial costs besides.
const PAUSE_S: f64 = 0.3;
/// The quantile of latency that the objective is about.
const QUANTILE: f64 = 0.99;

/// How long a request holds a server, in units of the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Exponential: squared coefficient of variation 1.
    Exponential,
    /// Erlang with 4 phases: 1/4.
    Even,
    /// Hyperexponential with balanced means (Allen 1990, "Probability, Statistics and Queueing Theory", 3.2.9): 4.
    Uneven,
}

/// What makes a stack hard to measure. The rest of it is drawn the same way for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Nothing but noise between trials.
    None,
    /// The noise of a trial resembles that of the trial before.
    Correlated,
    /// Speed changes by up to 2 % over 180 s.
    Drifting,
    /// One trial in twelve is slowed by 5 to 30 %; every third of these is seen to be unsteady.
    Disturbed,
    /// More than it can carry, and the next trial may find it at 60 %.
    Metastable,
    /// Connections beyond eight times what the stack needs cost 10 % of its speed with each doubling.
    Thrashing,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Correlated, Self::Drifting, Self::Disturbed, Self::Metastable, Self::Thrashing];

    /// For tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "noise only",
            Self::Correlated => "correlated noise",
            Self::Drifting => "drift",
            Self::Disturbed => "disturbed trials",
            Self::Metastable => "metastable",
            Self::Thrashing => "thrashing",
        }
    }
}

/// A stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stack {
    /// Servers, with one queue before them.
    pub servers: u32,
    /// How service times are distributed. Anything but exponential has one server: its limit is known exactly then.
    pub service: Service,
    /// Requests per second that all servers carry, when nothing disturbs them.
    pub capacity_per_s: f64,
    /// Mean time between an answer and the next request of its connection in closed loop, exponential.
    pub round_trip_s: f64,
    /// Latency that the 99th percentile may have.
    pub limit_s: f64,
    /// Standard deviation of ln speed between trials.
    pub noise: f64,
    /// Correlation of that with the trial before.
    pub correlation: f64,
    /// Change of ln speed per second.
    pub drift_per_s: f64,
    /// What else is wrong with it.
    pub trouble: Trouble,
}

impl Stack {
    /// A stack out of all kinds. Noise of one trial is 0.5 to 2 %, evenly on a log scale; the objective allows
    /// 1.5 to 4 times the 99th percentile of the calm stack, but nothing beyond 95 % of its capacity.
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let trouble = Trouble::ALL[random.below(Trouble::ALL.len() as u64) as usize];
        let servers = 1 << random.below(5);
        let service = [Service::Exponential, Service::Even, Service::Uneven][random.below(3) as usize];
        let service = if servers == 1 { service } else { Service::Exponential };
        let mut between = |low: f64, high: f64| low + (high - low) * random.uniform();
        let capacity_per_s = between(5000f64.ln(), 50_000f64.ln()).exp();
        let mean_s = f64::from(servers) / capacity_per_s;
        let stack = Self {
            servers,
            service,
            capacity_per_s,
            round_trip_s: mean_s * between(0.2, 8.0),
            limit_s: 0.0,
            noise: between(0.005f64.ln(), 0.02f64.ln()).exp(),
            correlation: if trouble == Trouble::Correlated { between(0.2, 0.5) } else { 0.0 },
            drift_per_s: if trouble == Trouble::Drifting { between(-0.02, 0.02) / 180.0 } else { 0.0 },
            trouble,
        };
        let calm_s = stack.latency_s(0.01 * capacity_per_s, 1.0);
        let limit_s = calm_s * between(1.5f64.ln(), 4f64.ln()).exp();
        Self { limit_s: limit_s.min(stack.latency_s(0.95 * capacity_per_s, 1.0)), ..stack }
    }

    /// The same stack, `k` times as fast in everything.
    pub fn scaled(self, k: f64) -> Self {
        Self {
            capacity_per_s: self.capacity_per_s * k,
            round_trip_s: self.round_trip_s / k,
            limit_s: self.limit_s / k,
            ..self
        }
    }

    /// The limit at a time of the session: what its servers carry.
    pub fn saturation_per_s(&self, at_s: f64) -> f64 {
        self.capacity_per_s * (self.drift_per_s * at_s).exp()
    }

    /// The limit within the objective at a time of the session: where the 99th percentile of an undisturbed stack meets it.
    pub fn within_slo_per_s(&self, at_s: f64) -> f64 {
        let speed = (self.drift_per_s * at_s).exp();
        let (mut low, mut high) = (0.0, self.capacity_per_s * speed);
        // Halved 60 times the interval is below the last bit.
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.latency_s(middle, speed) <= self.limit_s { low = middle } else { high = middle }
        }
        low
    }

    /// The 99th percentile at a rate below capacity, in steady state.
    fn latency_s(&self, rate_per_s: f64, speed: f64) -> f64 {
        let mean_s = f64::from(self.servers) / (self.capacity_per_s * speed);
        theory::latency_quantile(self.servers, self.service, rate_per_s * mean_s, QUANTILE) * mean_s
    }
}

/// A search that was played to its end on a simulated stack.
#[derive(Clone, Debug)]
pub struct Played {
    /// All trials.
    pub seen: Vec<Observation>,
    /// The answers.
    pub found: Found,
    /// What saturation was in the middle of the trials that measured it.
    pub saturation_per_s: f64,
    /// The same for the limit within the objective.
    pub within_slo_per_s: f64,
}

/// Plays a search on a stack.
pub fn play(stack: Stack, options: Options, seed: u64) -> Played {
    let search = Search::new(Options { seed, ..options });
    let (mut session, mut seen) = (Session::new(stack, seed), Vec::new());
    let (mut closed_s, mut open_s) = (Vec::new(), Vec::new());
    while let Some(probe) = search.next(&seen) {
        let middle_s = session.clock_s() + SETTLE_S + probe.seconds / 2.0;
        match probe.why {
            Why::Ladder => {}
            Why::Saturation => closed_s.push(middle_s),
            Why::Bracket | Why::Border | Why::Confirm => open_s.push(middle_s),
        }
        seen.push(session.run(probe));
    }
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len().max(1) as f64;
    Played {
        found: search.found(&seen),
        seen,
        saturation_per_s: stack.saturation_per_s(mean(&closed_s)),
        within_slo_per_s: stack.within_slo_per_s(mean(&open_s)),
    }
}

/// A session with a stack: trials run one after another, and each leaves its mark.
#[derive(Clone, Debug)]
pub struct Session {
    stack: Stack,
    random: Random,
    clock_s: f64,
    /// ln speed of the last trial, without drift and disturbance.
    wander: f64,
    collapsed: bool,
}

impl Session {
    /// A fresh session.
    pub fn new(stack: Stack, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5E55_1011);
        let wander = random.normal(0.0, stack.noise);
        Self { stack, random, clock_s: 0.0, wander, collapsed: false }
    }

    /// Seconds since the session began.
    pub fn clock_s(&self) -> f64 {
        self.clock_s
    }

    /// Runs a trial of a search.
    pub fn run(&mut self, probe: Probe) -> Observation {
        let (answers, validity, spent_s) = self.trial(probe.load, probe.seconds, 0.0);
        let good_per_s = answers.per_s;
        let margin = match probe.load {
            Load::Connections(_) => None,
            Load::Rate(_) => Some((answers.latency_s / self.stack.limit_s).ln()),
        };
        Observation {
            probe,
            spent_s,
            good_per_s,
            good: margin.map(|m| m <= 0.0),
            margins: margin.into_iter().collect(),
            piece_us: None,
            validity,
        }
    }

    /// Runs a trial of a comparison in closed loop, with the stack made faster by the share `gain`.
    pub fn numbers(&mut self, connections: u32, seconds: f64, gain: f64) -> TrialNumbers {
        let (answers, _, _) = self.trial(Load::Connections(connections), seconds, gain);
        TrialNumbers {
            good_per_s: answers.per_s,
            soonness_per_s: None,
            p99_us: answers.latency_s * 1e6,
            errors: 0,
            total: (answers.per_s * seconds) as u64,
            cpu_us_per_request: None,
            piece_us: None,
        }
    }

    /// What was answered, whether it is seen to be steady, and the seconds it took.
    fn trial(&mut self, load: Load, seconds: f64, gain: f64) -> (queue::Answers, Validity, f64) {
        let (speed, validity) = self.speed(load, seconds);
        let spent_s = seconds + SETTLE_S + PAUSE_S;
        self.clock_s += spent_s;
        let queue = queue::Queue {
            servers: self.stack.servers,
            service: self.stack.service,
            mean_s: f64::from(self.stack.servers) / (self.stack.capacity_per_s * speed * (1.0 + gain)),
            settle_s: SETTLE_S,
            counted_s: seconds,
            quantile: QUANTILE,
        };
        let answers = match load {
            Load::Connections(n) => queue.closed(n, self.stack.round_trip_s, &mut self.random),
            Load::Rate(Rate(rate)) => {
                self.collapsed = self.overloads(rate) && self.random.below(2) == 0;
                queue.open(rate, &mut self.random)
            }
        };
        (answers, validity, spent_s)
    }

    fn overloads(&self, rate_per_s: f64) -> bool {
        self.stack.trouble == Trouble::Metastable && rate_per_s > self.stack.capacity_per_s
    }

    /// Speed in the next trial, 1 when undisturbed, and whether the trial will be seen to be steady.
    fn speed(&mut self, load: Load, seconds: f64) -> (f64, Validity) {
        let Stack { noise, correlation, drift_per_s, trouble, .. } = self.stack;
        let fresh = noise * (1.0 - correlation * correlation).sqrt();
        self.wander = correlation * self.wander + self.random.normal(0.0, fresh);
        let steady = (self.wander + drift_per_s * (self.clock_s + seconds / 2.0)).exp();
        match trouble {
            Trouble::Disturbed if self.random.below(12) == 0 => {
                let seen = self.random.below(3) == 0;
                let loss = 0.05 + 0.25 * self.random.uniform();
                (steady * (1.0 - loss), if seen { Validity::Unsteady } else { Validity::Valid })
            }
            Trouble::Metastable if self.collapsed => (steady * 0.6, Validity::Valid),
            Trouble::Thrashing => (steady * self.thrashing(load), Validity::Valid),
            Trouble::None | Trouble::Correlated | Trouble::Drifting | Trouble::Disturbed | Trouble::Metastable => {
                (steady, Validity::Valid)
            }
        }
    }

    /// Each doubling of the connections beyond eight times what the stack needs costs 10 %.
    fn thrashing(&self, load: Load) -> f64 {
        let needed = f64::from(self.stack.servers) + self.stack.capacity_per_s * self.stack.round_trip_s;
        match load {
            Load::Connections(n) => 0.9f64.powf((f64::from(n) / (8.0 * needed)).log2().max(0.0)),
            Load::Rate(_) => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Why;

    fn probe(load: Load, seconds: f64) -> Probe {
        Probe { load, seconds, why: Why::Border, again: false }
    }

    fn undisturbed(seed: u64) -> Stack {
        Stack { noise: 0.0, correlation: 0.0, drift_per_s: 0.0, trouble: Trouble::None, ..Stack::draw(seed) }
    }

    #[test]
    fn the_known_limits_are_those_that_long_trials_show() {
        for seed in 0..8 {
            let stack = undisturbed(seed);
            let mut session = Session::new(stack, seed);
            let closed = session.run(probe(Load::Connections(16 * stack.servers + 64), 20.0));
            let error = closed.good_per_s / stack.saturation_per_s(0.0) - 1.0;
            assert!(error.abs() < 0.03, "{stack:?}: {error}");
            let border = stack.within_slo_per_s(0.0);
            let at_border: f64 =
                (0..4).map(|_| session.run(probe(Load::Rate(Rate(border)), 20.0)).margins[0]).sum::<f64>() / 4.0;
            assert!(at_border.abs() < 0.15, "{stack:?}: {at_border}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trials() {
        let run = |seed: u64| Session::new(Stack::draw(seed), seed).run(probe(Load::Connections(32), 0.2));
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
    }

    #[test]
    fn drift_moves_the_limit() {
        let stack = Stack { drift_per_s: 0.001, ..undisturbed(1) };
        assert!((stack.saturation_per_s(100.0) / stack.saturation_per_s(0.0) - 0.1f64.exp()).abs() < 1e-9);
        assert!(stack.within_slo_per_s(100.0) > 1.1 * stack.within_slo_per_s(0.0), "a faster server waits less, too");
    }

    #[test]
    fn a_metastable_stack_may_stay_slow_after_too_much() {
        let stack = Stack { trouble: Trouble::Metastable, ..undisturbed(2) };
        let carried = |seed: u64| {
            let mut session = Session::new(stack, seed);
            session.run(probe(Load::Rate(Rate(1.2 * stack.capacity_per_s)), 0.5));
            session.run(probe(Load::Connections(200), 0.5)).good_per_s / stack.capacity_per_s
        };
        let slow = (0..20).filter(|seed| carried(*seed) < 0.8).count();
        assert!((3..=17).contains(&slow), "{slow}");
    }
}
