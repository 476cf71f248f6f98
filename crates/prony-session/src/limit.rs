//! The search for the limit as a part of the session: which trial comes next, until every question has its answer.
//!
//! What to try next and what it means is arithmetic of `prony-stats`; here trials of a run are held against it, and phases
//! follow each other: search, load curve, overload and return, stable concurrency; or one search over another axis. It has no
//! clock: time is read from the windows of the trials. Invariant: a trial that is not valid is repeated or named as left
//! out, and a server that stopped answering is never taken for one that is slow.

mod answer;
mod axis;
mod curve;
mod health;
mod judge;
#[cfg(test)]
mod tests;

use crate::effort::Effort;
use crate::levels::timed;
use crate::machine::{Command, TrialOrder};
use axis::{AxisSearch, Question};
use health::{Health, Pulse};
use prony_model::limit::LimitVerdict;
use prony_model::{Axis, Event, Knob, LoadPlan, Nanos, Purpose, Rate, Run, Threshold, Trial, Until, Vary};
use prony_stats::overload::{self, Return};
use prony_stats::search::{End, Load, Observation, Options, Probe, Search, Validity, Why, repeated_per_s};

/// The search itself may use this share of the budget, and of a large one all but so many seconds: the rest is for the curve, the
/// overload and the return, which take longer only when trials do. Guesses.
const SEARCH_SHARE: f64 = 0.75;
const AFTER_SEARCH_S: f64 = 20.0;
/// Overload: this multiple of the limit, as metastable stacks are usually shown. A guess.
const OVERLOAD: f64 = 1.5;
/// Open-loop points of the load curve, as shares of saturation.
const CURVE_SHARES: [f64; 3] = [0.5, 0.75, 0.9];
/// What a trial costs beside its times, in seconds. A guess; the search itself learns it from its trials.
const OVERHEAD_S: f64 = 0.3;
/// The ladder of the search, and a search for stable concurrency, end at this multiple of the workload's connections.
const CONNECTIONS_TOP: u32 = 64;
/// And at this many: what a machine with default limits (`ulimit -n` of 20,000 to a million, 28,000 ports) still opens. A guess.
const CONNECTIONS_MAX: u32 = 16_384;
/// Connections of an open loop without a latency objective, and at most, in multiples of those of saturation. Guesses.
const OPEN_SPARE: f64 = 4.0;
const OPEN_TOP: u32 = 16;
/// Trials after an overload at most.
const RETURNS_MAX: usize = 2;

/// What a search for the limit is to answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitGoal {
    /// The objective; empty: only saturation is searched.
    pub slo: Vec<Threshold>,
    /// Also find the most connections that are stable.
    pub stable: bool,
    /// Search over this axis instead of the load.
    pub vary: Option<Vary>,
    /// What must hold on that axis; none: measure values of it and fit how throughput grows.
    pub until: Option<Until>,
    /// Values beyond those tried for which the fit is asked.
    pub extrapolate: Vec<u64>,
    /// Time that all trials together may take.
    pub budget: Nanos,
}

impl LimitGoal {
    /// The workload at the upper end of an axis that is a part of the request: what a warm-up may ask for.
    pub(crate) fn largest(&self, base: &LoadPlan) -> LoadPlan {
        match self.vary {
            Some(Vary { axis: Axis::PathSize, high, .. }) => axis::sized(base.clone(), high),
            Some(Vary { axis: Axis::Connections | Axis::Workers, .. }) | None => base.clone(),
        }
    }
}

/// What a trial of the search was for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    /// The search wanted it.
    Search(Probe),
    /// A point of the load curve.
    Curve,
    /// More than the stack carries.
    Overload,
    /// The limit again, after the overload.
    Return,
    /// A value of the axis, for the second time in a row because the first trial was not valid.
    Axis { value: u64, again: bool },
    /// A number of connections that may be stable.
    Stable { value: u64 },
    /// Does the server answer at all?
    Pulse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Search,
    Curve,
    Overload,
    Return,
    Stable,
    Axis,
    Done,
}

/// What the session does next.
pub(crate) enum Step {
    /// These commands, in order.
    Do(Vec<Command>),
    /// Nothing more.
    Done,
    /// The search cannot go on.
    Fail(String),
}

/// A trial of the search: its place in the run, and what it was for.
#[derive(Clone, Copy, Debug)]
struct Taken {
    index: usize,
    asked: Asked,
}

/// The state of a search.
#[derive(Clone, Debug)]
pub(crate) struct LimitSearch {
    base: LoadPlan,
    goal: LimitGoal,
    search: Search,
    phase: Phase,
    /// Where the search begins: end of the last trial before it.
    begun_ns: u64,
    /// Trials of the run that were looked at.
    looked_at: usize,
    pending: Option<Asked>,
    again: Option<Asked>,
    taken: Vec<Taken>,
    observed: Vec<Observation>,
    axis: Option<AxisSearch>,
    stable: Option<AxisSearch>,
    health: Health,
    failed: Option<String>,
}

impl LimitSearch {
    pub(crate) fn new(base: &LoadPlan, goal: LimitGoal, run: &Run, effort: &Effort) -> Self {
        let connections_max = base.connections.saturating_mul(CONNECTIONS_TOP).clamp(base.connections, CONNECTIONS_MAX);
        let slo = !goal.slo.is_empty();
        let budget_s = goal.budget.as_secs_f64();
        let search = Search::new(Options {
            connections_max: connections_max.max(base.connections),
            budget_s: (budget_s * SEARCH_SHARE).max(budget_s - AFTER_SEARCH_S),
            short_s: effort.curve.as_secs_f64(),
            full_s: effort.level.as_secs_f64(),
            open_full_s: effort.border.as_secs_f64(),
            width: effort.limit_width,
            seed: base.seed,
            ..Options::new(base.connections, slo)
        });
        let entry = run.stack.path().first().map(|host| (*host).to_string());
        let axis = goal.vary.map(|vary| AxisSearch::new(vary, Question::of(&goal), base, entry.clone()));
        let all = Vary { axis: Axis::Connections, low: 1, high: u64::from(connections_max.max(2)) };
        let stable = goal.stable.then(|| AxisSearch::new(all, Question::Stable, base, entry));
        Self {
            phase: if axis.is_some() { Phase::Axis } else { Phase::Search },
            begun_ns: run.trials.last().map_or(0, |t| t.window.to_ns),
            looked_at: run.trials.len(),
            base: base.clone(),
            goal,
            search,
            pending: None,
            again: None,
            taken: Vec::new(),
            observed: Vec::new(),
            axis,
            stable,
            health: Health::default(),
            failed: None,
        }
    }

    /// The next commands, or none when the search is over.
    pub(crate) fn next(&mut self, run: &Run, effort: &Effort) -> Step {
        self.look(run);
        if let Some(reason) = self.failed.take() {
            return Step::Fail(reason);
        }
        match self.health.pulse() {
            Pulse::Gone(_) => return Step::Done,
            Pulse::Check => return self.order(Asked::Pulse, run, effort),
            Pulse::Fine => {}
        }
        if let Some(asked) = self.again.take() {
            return self.order(asked, run, effort);
        }
        while self.phase != Phase::Done {
            if let Some(asked) = self.wanted(run, effort) {
                return self.order(asked, run, effort);
            }
            self.phase = self.phase.after();
        }
        Step::Done
    }

    /// What the phase wants next.
    fn wanted(&self, run: &Run, effort: &Effort) -> Option<Asked> {
        match self.phase {
            Phase::Search => self.search.next(&self.observed).map(Asked::Search),
            Phase::Curve => self.curve_point(run, effort).map(|_| Asked::Curve),
            Phase::Overload => {
                let first = self.of(run, Asked::Overload).next().is_none();
                (first && self.overload_plan(effort).is_some()).then_some(Asked::Overload)
            }
            Phase::Return => {
                let returned = self.returned(run);
                let wanted = returned.is_some_and(|(seen, trials)| trials == 0 || (seen.again && trials < RETURNS_MAX));
                wanted.then_some(Asked::Return)
            }
            Phase::Stable => {
                let value = self.stable.as_ref()?.next(run)?;
                Some(Asked::Stable { value })
            }
            Phase::Axis => {
                let value = self.axis.as_ref()?.next(run)?;
                Some(Asked::Axis { value, again: false })
            }
            Phase::Done => None,
        }
        .filter(|asked| self.affordable(*asked, run, effort))
    }

    fn affordable(&self, asked: Asked, run: &Run, effort: &Effort) -> bool {
        let Some(plan) = self.plan(asked, run, effort) else { return false };
        let cost_s = plan.seconds() + OVERHEAD_S;
        // The overload and one trial after it say more than another point of the curve.
        let level_s = (effort.settle.0 + effort.level.0) as f64 / 1e9 + OVERHEAD_S;
        let reserved_s = if asked == Asked::Curve { 2.0 * level_s } else { 0.0 };
        // The search has a budget of its own, and gives an answer however small it is.
        matches!(asked, Asked::Search(_)) || self.spent_s(run) + cost_s + reserved_s <= self.goal.budget.as_secs_f64()
    }

    fn order(&mut self, asked: Asked, run: &Run, effort: &Effort) -> Step {
        let Some(plan) = self.plan(asked, run, effort) else { return Step::Done };
        self.pending = Some(asked);
        let label = self.label(asked, &plan);
        let trial = Command::Trial(Box::new(TrialOrder { purpose: Purpose::Curve, plan, label }));
        match self.knob(asked) {
            Some(knob) => Step::Do(vec![Command::Turn(knob), trial, Command::Restore]),
            None => Step::Do(vec![trial]),
        }
    }

    fn knob(&self, asked: Asked) -> Option<Knob> {
        match asked {
            Asked::Axis { value, .. } => self.axis.as_ref()?.knob(value),
            Asked::Search(_) | Asked::Curve | Asked::Overload | Asked::Return | Asked::Stable { .. } | Asked::Pulse => {
                None
            }
        }
    }

    fn plan(&self, asked: Asked, run: &Run, effort: &Effort) -> Option<LoadPlan> {
        Some(match asked {
            Asked::Search(probe) => {
                let plan = timed(&self.base, effort.settle, Nanos::from_secs_f64(probe.seconds));
                match probe.load {
                    Load::Connections(connections) => LoadPlan { connections, rate: None, ..plan },
                    Load::Rate(rate) => LoadPlan { rate: Some(rate), connections: self.open_connections(rate), ..plan },
                }
            }
            Asked::Curve => self.curve_point(run, effort)?,
            Asked::Overload => self.overload_plan(effort)?,
            Asked::Return => {
                let connections = self.saturated()?;
                LoadPlan { connections, rate: None, ..timed(&self.base, effort.settle, effort.level) }
            }
            Asked::Axis { value, .. } => self.axis.as_ref()?.plan(value, effort),
            Asked::Stable { value } => self.stable.as_ref()?.plan(value, effort),
            Asked::Pulse => health::pulse_plan(&self.base),
        })
    }

    fn label(&self, asked: Asked, plan: &LoadPlan) -> String {
        let load = match plan.rate {
            Some(rate) => format!("{:.0}/s", rate.0),
            None => format!("{} connections", plan.connections),
        };
        match asked {
            Asked::Search(Probe { why, again, .. }) => {
                let again = if again { ", again" } else { "" };
                format!("{}: {load}{again}", purpose(why))
            }
            Asked::Curve => format!("load curve: {load}"),
            Asked::Overload => format!("overload: {load}"),
            Asked::Return => format!("after the overload: {load}"),
            Asked::Axis { value, .. } => format!("{} = {value}", self.axis.as_ref().map_or("", AxisSearch::name)),
            Asked::Stable { .. } => format!("stable? {load}"),
            Asked::Pulse => "does it still answer?".to_string(),
        }
    }

    /// Takes in the trial that was ordered last.
    fn look(&mut self, run: &Run) {
        let (Some(trial), true) = (run.trials.last(), run.trials.len() > self.looked_at) else { return };
        let from_ns = run.trials.iter().rev().nth(1).map_or(self.begun_ns, |before| before.window.to_ns);
        self.looked_at = run.trials.len();
        let Some(asked) = self.pending.take() else { return };
        let spent_s = trial.window.to_ns.saturating_sub(from_ns) as f64 / 1e9;
        self.taken.push(Taken { index: run.trials.len() - 1, asked });
        let silent = health::is_silent(trial);
        match asked {
            Asked::Pulse => self.health.felt(!silent),
            // An overload may silence a server: what matters is whether it answers afterwards.
            Asked::Overload if silent => self.health.check(false),
            Asked::Axis { value, again: true } if silent => {
                // Twice, and it is there in between: so it is with this value.
                self.health.excuse();
                let index = self.looked_at - 1;
                let Some(axis) = &mut self.axis else { return };
                if !axis.cap(value, trial) {
                    axis.take(value, index);
                }
            }
            Asked::Axis { value, again: false } if silent => {
                self.again = Some(Asked::Axis { value, again: true });
                self.health.check(true);
            }
            Asked::Search(_) | Asked::Curve | Asked::Return if silent => {
                self.again = Some(asked);
                self.health.check(true);
            }
            Asked::Search(probe) => self.observed.push(judge::observation(probe, run, trial, &self.goal.slo, spent_s)),
            Asked::Axis { value, again } => self.look_at_axis(value, again, trial),
            Asked::Stable { value } => {
                // So may more connections than it answers in such a time.
                if silent {
                    self.health.check(false);
                }
                let index = self.looked_at - 1;
                let Some(search) = &mut self.stable else { return };
                if !search.cap(value, trial) {
                    search.take(value, index);
                }
            }
            Asked::Curve | Asked::Overload | Asked::Return => {}
        }
    }

    fn look_at_axis(&mut self, value: u64, again: bool, trial: &Trial) {
        let Some(axis) = &mut self.axis else { return };
        if let Err(reason) = axis.answers(value, trial) {
            self.failed = Some(reason);
        } else if axis.cap(value, trial) {
            // Fewer connections are asked about from here on.
        } else if judge::validity(trial, &self.goal.slo) == Validity::Unsteady {
            axis.leave_out();
            self.again = (!again).then_some(Asked::Axis { value, again: true });
        } else {
            axis.take(value, self.looked_at - 1);
        }
    }

    /// Trials of the search that were for this.
    fn of<'a>(&'a self, run: &'a Run, asked: Asked) -> impl Iterator<Item = &'a Trial> {
        self.taken.iter().filter(move |t| t.asked == asked).filter_map(|t| run.trials.get(t.index))
    }

    fn spent_s(&self, run: &Run) -> f64 {
        run.trials.last().map_or(0.0, |t| t.window.to_ns.saturating_sub(self.begun_ns) as f64 / 1e9)
    }

    /// Connections at which saturation was measured.
    fn saturated(&self) -> Option<u32> {
        match self.search.found(&self.observed).saturation.interval?.at? {
            Load::Connections(connections) => Some(connections),
            Load::Rate(_) => None,
        }
    }

    /// Connections for a rate: an open loop in which requests wait for a connection is none. By Little's law as many are in flight
    /// as rate x latency, and at the border the latency is that of the objective; a few times those of saturation without one.
    fn open_connections(&self, rate: Rate) -> u32 {
        let own = self.saturated().unwrap_or(0).max(self.base.connections);
        let latencies = self.goal.slo.iter().filter(|t| t.measure.is_latency());
        let longest_s = latencies.map(|t| t.limit / 1e6).reduce(f64::max);
        let needed = longest_s.map_or(f64::from(own) * OPEN_SPARE, |latency_s| rate.0 * latency_s);
        (needed.ceil() as u32).clamp(own, own.saturating_mul(OPEN_TOP).clamp(own, CONNECTIONS_MAX.max(own)))
    }

    /// A point of the load curve that is still missing: first the rungs below saturation, then rates below it.
    fn curve_point(&self, run: &Run, effort: &Effort) -> Option<LoadPlan> {
        let top = self.saturated()?;
        let trials = || self.taken.iter().filter_map(|t| run.trials.get(t.index));
        let tried = |connections: u32| trials().any(|t| t.plan.rate.is_none() && t.plan.connections == connections);
        let plan = timed(&self.base, effort.settle, effort.curve);
        let mut rungs = std::iter::successors(Some(1u32), |c| c.checked_mul(2)).take_while(|c| *c < top);
        if let Some(connections) = rungs.find(|c| !tried(*c)) {
            return Some(LoadPlan { connections, rate: None, ..plan });
        }
        let saturation_per_s = self.search.found(&self.observed).saturation.interval?.estimate_per_s;
        let near = |rate: f64| trials().any(|t| t.plan.rate.is_some_and(|r| (r.0 / rate - 1.0).abs() < 0.03));
        let rate =
            CURVE_SHARES.map(|share| (share * saturation_per_s).max(1.0)).into_iter().find(|rate| !near(*rate))?;
        Some(LoadPlan { rate: Some(Rate(rate)), connections: self.open_connections(Rate(rate)), ..plan })
    }

    fn overload_plan(&self, effort: &Effort) -> Option<LoadPlan> {
        let saturation = self.search.found(&self.observed).saturation;
        // What the generator could not carry, it cannot exceed by half.
        let interval = saturation.interval.filter(|_| saturation.end != End::GeneratorLimited)?;
        let rate = Rate(interval.estimate_per_s * OVERLOAD);
        let connections = self.open_connections(rate).saturating_mul(2);
        Some(LoadPlan { rate: Some(rate), connections, ..timed(&self.base, effort.settle, effort.level) })
    }

    /// What the trials after the overload say, and how many there are; none without an overload or without enough before it.
    fn returned(&self, run: &Run) -> Option<(Return, usize)> {
        self.of(run, Asked::Overload).next()?;
        let after: Vec<f64> = self.of(run, Asked::Return).map(|t| t.result.good_per_s).collect();
        let returned = overload::returned(&repeated_per_s(&self.observed), &after)?;
        Some((returned, after.len()))
    }

    /// What is known by now, for whoever watches; none before the first trial.
    pub(crate) fn narrowed(&self, run: &Run) -> Option<Event> {
        let trials = self.taken.len() as u32;
        let (spent_s, budget_s) = (self.spent_s(run), self.goal.budget.as_secs_f64());
        let event = |answer: &str, low, high, unit: &str| {
            let (answer, unit) = (answer.to_string(), unit.to_string());
            Some(Event::Narrowed { answer, low, high, unit, trials, spent_s, budget_s })
        };
        self.taken.last()?;
        let ends = |search: &AxisSearch| {
            let border = search.border(run);
            let (one, other) = (border.holds_at?, border.fails_at?);
            Some((one.min(other) as f64, one.max(other) as f64))
        };
        match self.phase {
            Phase::Search => {
                let found = self.search.found(&self.observed);
                let second = found.within_slo.filter(|_| found.saturation.end != End::Open);
                let name = if second.is_some() { "limit within the objective" } else { "limit" };
                let interval = second.unwrap_or(found.saturation).interval;
                event(name, interval.map(|i| i.low_per_s), interval.map(|i| i.high_per_s), "/s")
            }
            Phase::Axis | Phase::Stable => {
                let search = if self.phase == Phase::Axis { self.axis.as_ref()? } else { self.stable.as_ref()? };
                let (low, high) = ends(search).unzip();
                event(search.name(), low, high, "")
            }
            Phase::Curve | Phase::Overload | Phase::Return | Phase::Done => None,
        }
    }

    /// Why the search ended before it had its answers, if it did.
    fn gone(&self) -> Option<LimitVerdict> {
        match self.health.pulse() {
            Pulse::Gone(verdict) => Some(verdict),
            Pulse::Check | Pulse::Fine => None,
        }
    }
}

/// What a trial of the search is for, in words.
fn purpose(why: Why) -> &'static str {
    match why {
        Why::Ladder => "ladder",
        Why::Saturation => "limit",
        Why::Bracket => "objective, roughly",
        Why::Border => "objective",
        Why::Confirm => "objective, confirmed",
    }
}

impl Phase {
    fn after(self) -> Self {
        match self {
            Self::Search => Self::Curve,
            Self::Curve => Self::Overload,
            Self::Overload => Self::Return,
            Self::Return => Self::Stable,
            Self::Stable | Self::Axis | Self::Done => Self::Done,
        }
    }
}
