//! The search of the limit, as statistics: which trial to run next, and what the trials so far say.
//!
//! Two goals in one session. *Saturation*: the most good requests per second, by a short ladder of connections in closed
//! loop and then repeated trials at the rung where throughput is flat. *Within the objective*: the highest rate at which the
//! objective holds, in open loop, as in RFC 9971 (MLRsearch): short trials first, full ones near the border, no single trial
//! ever decides. Nothing here runs a trial or judges whether one is valid; the caller does, and says so.
//!
//! Invariant: pure. [`Search::next`] and [`Search::found`] depend on the options and on the trials so far and on nothing else,
//! so that a recorded session can be replayed. A trial that is not valid is repeated once and is never part of an answer.

mod border;
mod location;
mod objective;
mod saturation;
#[cfg(test)]
mod tests;

use prony_model::Rate;
pub use saturation::{at_one_speed, repeated_per_s};

/// Trials of one goal at most, whatever the budget: a caller whose trials take no time must not run for ever. A guess:
/// more than twice what fits into the budget of an objective.
const TRIALS_MAX: usize = 60;
/// Trials of one goal that may be not valid while they are at least half of them: with more the stack is not steady enough
/// to have a limit. A guess.
const LEFT_OUT_MAX: usize = 4;
/// What a trial costs beside its counted time, in seconds, before one was seen: settling, opening connections. A guess.
const OVERHEAD_S: f64 = 1.0;
/// The confidence of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// What to search for, and for how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Connections of the workload: where the ladder begins.
    pub connections: u32,
    /// Most connections that the ladder may try.
    pub connections_max: u32,
    /// Whether there is an objective to search for as well.
    pub slo: bool,
    /// Seconds that all trials may take together, with what they cost beside their counted time.
    pub budget_s: f64,
    /// Relative width, (high - low) / estimate, at which an interval is narrow enough.
    pub width: f64,
    /// Counted seconds of a trial that only chooses the next one.
    pub short_s: f64,
    /// Counted seconds of a trial in closed loop that counts for an interval.
    pub full_s: f64,
    /// The same in open loop: longer, because a high quantile needs more requests than a mean.
    pub open_full_s: f64,
    /// Seed of the order in which rates below and above the border are tried.
    pub seed: u64,
}

impl Options {
    /// The defaults: what the search may use of the 90 s that `prony limit` takes for saturation and of its 180 s with an
    /// objective, a width of 3 %, trials of 2 s, 5 s and 8 s. Guesses that `cargo xtask bench stats` holds against known limits.
    pub fn new(connections: u32, slo: bool) -> Self {
        Self {
            connections,
            connections_max: connections.saturating_mul(64),
            slo,
            budget_s: if slo { 160.0 } else { 67.5 },
            width: 0.03,
            short_s: 2.0,
            full_s: 5.0,
            open_full_s: 8.0,
            seed: 1,
        }
    }
}

/// What a trial puts on the stack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Closed loop: so many connections, each waits for its response.
    Connections(u32),
    /// Open loop: so many requests per second, whether or not responses come.
    Rate(Rate),
}

/// What a trial is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Finding the connections at which throughput is flat.
    Ladder,
    /// Measuring saturation there.
    Saturation,
    /// Finding roughly where the objective breaks.
    Bracket,
    /// Measuring where it breaks.
    Border,
    /// Testing the lower end of the interval once more: is it a load that holds?
    Confirm,
}

/// The next trial to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// What to put on the stack.
    pub load: Load,
    /// Counted seconds.
    pub seconds: f64,
    /// What it is for.
    pub why: Why,
    /// The same trial was just run and was not valid.
    pub again: bool,
}

/// Whether a trial may count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Steady, and no gate of the generator broke.
    Valid,
    /// Start-up that did not end, a jump inside the trial, or a broken gate that says nothing about the limit.
    Unsteady,
    /// The generator was the limit: the stack carries at least what was seen.
    GeneratorLimited,
}

/// What a trial showed.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The probe it answers.
    pub probe: Probe,
    /// Seconds that it took in all: settling, counted time, and the pause after it.
    pub spent_s: f64,
    /// Good requests per second.
    pub good_per_s: f64,
    /// Open loop: whether the objective held. None in closed loop.
    pub good: Option<bool>,
    /// Open loop: for each metric of the objective ln(measured / limit), above 0 when it broke, always in the same order.
    /// Minus infinity is a share of 0. A metric that could not be measured is NaN: then only `good` counts.
    pub margins: Vec<f64>,
    /// What a piece of the yardstick's work took meanwhile on the CPUs of the stack, in microseconds; none when it was not timed.
    pub piece_us: Option<f64>,
    /// Whether it may count.
    pub validity: Validity,
}

/// An answer in requests per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low_per_s: f64,
    /// Best estimate.
    pub estimate_per_s: f64,
    /// Upper end.
    pub high_per_s: f64,
    /// Share of searches whose interval holds the truth.
    pub confidence: f64,
    /// A load that was run: saturation was carried there; the objective held there in at least half of the trial time.
    /// None when no tested load held the objective.
    pub at: Option<Load>,
}

impl Interval {
    /// (high - low) / estimate.
    pub fn width(&self) -> f64 {
        (self.high_per_s - self.low_per_s) / self.estimate_per_s
    }

    /// Whether a rate lies within.
    pub fn holds(&self, per_s: f64) -> bool {
        self.low_per_s <= per_s && per_s <= self.high_per_s
    }
}

/// Why a goal has no further trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has one: the search is not over.
    Open,
    /// The interval is as narrow as asked for.
    Narrow,
    /// The next trial does not fit into the budget, or there were as many as there may be.
    Budget,
    /// Too many trials were not valid.
    NotSteady,
    /// The generator was the limit: see `Found::at_least_per_s`.
    GeneratorLimited,
    /// No request succeeded.
    NothingServed,
    /// The objective did not hold at any rate, down to a thousandth of saturation.
    NothingHeld,
    /// The objective held even at the highest rate that saturation allows: the limit is saturation.
    AllHeld,
}

/// What is known of one goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// None when there is none: `end` says why.
    pub interval: Option<Interval>,
    /// Why the search of this goal ended.
    pub end: End,
    /// Trials run for it, the ones that were not valid among them.
    pub trials: usize,
    /// Trials that were not valid, and so left out.
    pub left_out: usize,
    /// Seconds they took.
    pub seconds: f64,
}

/// What a search found so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Most good requests per second.
    pub saturation: Answer,
    /// Most requests per second within the objective; none without an objective.
    pub within_slo: Option<Answer>,
    /// Which metric of the objective (by its place in `Observation::margins`) is the worst near the border.
    pub binding: Option<usize>,
    /// Most that a trial carried in which the generator was the limit.
    pub at_least_per_s: Option<f64>,
    /// All trials.
    pub trials: usize,
    /// Seconds of all trials.
    pub seconds: f64,
}

/// What one goal wants next.
enum Step {
    /// This trial.
    Try(Probe),
    /// Nothing more.
    Done(End),
}

/// A search. It has no state but its options.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    options: Options,
}

impl Search {
    /// A search with these options. Numbers that make no sense (a width of 0, a length that is no number) are replaced by the
    /// defaults.
    pub fn new(options: Options) -> Self {
        let connections = options.connections.max(1);
        let usual = Options::new(connections, options.slo);
        let sound = |value: f64, usual: f64| if value.is_finite() && value > 0.0 { value } else { usual };
        let options = Options {
            connections,
            connections_max: options.connections_max.max(connections),
            budget_s: sound(options.budget_s, usual.budget_s),
            width: sound(options.width, usual.width),
            short_s: sound(options.short_s, usual.short_s),
            full_s: sound(options.full_s, usual.full_s),
            open_full_s: sound(options.open_full_s, usual.open_full_s),
            ..options
        };
        Self { options }
    }

    /// The trial to run next; none when the search is over. `seen` holds all trials so far, in the order they ran.
    pub fn next(&self, seen: &[Observation]) -> Option<Probe> {
        match self.saturation_step(seen) {
            Step::Try(probe) => Some(probe),
            Step::Done(_) => match self.objective_step(seen)? {
                Step::Try(probe) => Some(probe),
                Step::Done(_) => self.saturation_again(seen),
            },
        }
    }

    /// What the trials so far say.
    pub fn found(&self, seen: &[Observation]) -> Found {
        let saturation = self.saturation(seen);
        let objective = self.objective_step(seen);
        let limited = seen.iter().filter(|o| o.validity == Validity::GeneratorLimited).map(|o| o.good_per_s);
        Found {
            saturation,
            within_slo: objective.map(|step| self.within_slo(seen, saturation.end == End::Open, &step)),
            binding: objective::binding(seen),
            at_least_per_s: limited.filter(|rate| rate.is_finite()).reduce(f64::max),
            trials: seen.len(),
            seconds: seconds(seen.iter()),
        }
    }

    /// The step of a goal, seen from its own trials: a trial that was not valid again, or what `step` says if the budget
    /// allows.
    fn within_budget(&self, seen: &[Observation], goal: Load, limit_s: f64, step: Step) -> Step {
        let own: Vec<&Observation> = seen.iter().filter(|o| same_goal(o.probe.load, goal)).collect();
        let left_out = own.iter().filter(|o| o.validity != Validity::Valid).count();
        let probe = match (own.last(), step) {
            (_, Step::Done(end)) => return Step::Done(end),
            _ if left_out >= LEFT_OUT_MAX && 2 * left_out >= own.len() => {
                let limited = own.iter().filter(|o| o.validity == Validity::GeneratorLimited).count();
                return Step::Done(if 2 * limited >= left_out { End::GeneratorLimited } else { End::NotSteady });
            }
            (Some(last), Step::Try(_)) if last.validity == Validity::Unsteady && !last.probe.again => {
                Probe { again: true, ..last.probe }
            }
            (_, Step::Try(probe)) => probe,
        };
        let overhead = seen.last().map_or(OVERHEAD_S, |o| (cost_s(o) - o.probe.seconds).max(0.0));
        if own.len() >= TRIALS_MAX || seconds(seen.iter()) + probe.seconds + overhead > limit_s {
            return Step::Done(End::Budget);
        }
        Step::Try(probe)
    }
}

fn same_goal(a: Load, b: Load) -> bool {
    match (a, b) {
        (Load::Connections(_), Load::Connections(_)) | (Load::Rate(_), Load::Rate(_)) => true,
        (Load::Connections(_), Load::Rate(_)) | (Load::Rate(_), Load::Connections(_)) => false,
    }
}

/// Index of the last trial of the objective.
fn last_of_objective(seen: &[Observation]) -> Option<usize> {
    seen.iter().rposition(|o| matches!(o.probe.load, Load::Rate(_)))
}

/// A trial takes at least its counted time, whatever the caller's clock says.
fn cost_s(observation: &Observation) -> f64 {
    let floor = observation.probe.seconds.max(0.0);
    if observation.spent_s.is_finite() { observation.spent_s.max(floor) } else { floor }
}

fn seconds<'a>(seen: impl Iterator<Item = &'a Observation>) -> f64 {
    // The sum of nothing is -0.
    seen.map(cost_s).sum::<f64>() + 0.0
}

/// Counts and time of the trials of one goal.
fn answer(seen: &[Observation], goal: Load, interval: Option<Interval>, end: End) -> Answer {
    let own = || seen.iter().filter(|o| same_goal(o.probe.load, goal));
    let left_out = own().filter(|o| o.validity != Validity::Valid).count();
    Answer { interval, end, trials: own().count(), left_out, seconds: seconds(own()) }
}
