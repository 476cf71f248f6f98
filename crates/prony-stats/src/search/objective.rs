//! The goal within the objective: rates in open loop, first short ones that bracket the border, then full ones around it.
//!
//! It decides where to try next; where the border lies is computed in `border`. Invariant: a rate is a bound only by the
//! share of its trial time that was bad (RFC 9971, "exceed ratio"), never by one trial against others at the same rate.

use super::border::{self, Border, Point};
use super::{
    Answer, CONFIDENCE, End, Interval, Load, Observation, Probe, Search, Step, Validity, Why, answer,
    last_of_objective, saturation,
};
use crate::Random;
use prony_model::Rate;

/// First rate, as a share of saturation. A guess.
const FIRST: f64 = 0.8;
/// No rate above this multiple of saturation is tried.
const TOP: f64 = 1.05;
/// Below this share of saturation nothing is looked for.
const BOTTOM: f64 = 0.001;
/// Bounds whose ratio is within this many widths are close enough for full trials.
const BRACKET_WIDTHS: f64 = 6.0;
/// Short trials at most.
const BRACKET_TRIALS: usize = 2;
/// A trial of fewer requests says nothing. A guess.
const REQUESTS_MIN: f64 = 5.0;
/// Short trials that halve the rate at most while none held; the next ones go down by more. A guess.
const HALVINGS: usize = 3;
/// Short trials at most while none of them held.
const HOPELESS_TRIALS: usize = 12;
/// Full trials at least.
const BORDER_MIN: usize = 8;
/// Share of the trial time at a rate that may be bad while the rate is still a lower bound: the exceed ratio that RFC 9971
/// proposes for its goals.
const BAD_SHARE_MAX: f64 = 0.5;
/// Full trials stand this many standard deviations of a single trial (as a rate) from the border, so that they tell something
/// of its slope, and not so far that latency bends much.
const SPREADS: f64 = 0.3;
/// But at least and at most this far, in ln rate.
const OFFSETS: (f64, f64) = (0.01, 0.06);
/// And not further than limit / measured changes by this.
const SHARE_OFFSET: f64 = 0.4;

const GOAL: Load = Load::Rate(Rate(0.0));

impl Search {
    /// What this goal wants next; none without an objective.
    pub(super) fn objective_step(&self, seen: &[Observation]) -> Option<Step> {
        if !self.options.slo {
            return None;
        }
        let seen = until_objective(seen);
        let Some(top) = saturation::roughly_per_s(seen) else { return Some(Step::Done(End::NothingServed)) };
        // Whether it holds anywhere comes before how sure saturation is.
        let reserved_s = if Bounds::of(seen).low.is_some() { self.again_s() } else { 0.0 };
        let limit_s = self.options.budget_s - reserved_s;
        Some(self.within_budget(seen, GOAL, limit_s, self.next_rate(seen, top)))
    }

    pub(super) fn within_slo(&self, seen: &[Observation], waiting: bool, step: &Step) -> Answer {
        let end = match step {
            Step::Try(_) => End::Open,
            Step::Done(_) if waiting => End::Open,
            Step::Done(end) => *end,
        };
        let bounds = Bounds::of(seen);
        let fitted =
            saturation::roughly_per_s(seen).and_then(|top| fit(seen, top)).filter(|_| count(seen, Why::Border) >= 3);
        let bracket = bounds.low.zip(bounds.high);
        let interval = match (fitted, bracket) {
            (Some(border), _) => Some(self.interval(seen, border)),
            (None, Some((low, high))) => Some(Interval {
                low_per_s: low,
                estimate_per_s: (low * high).sqrt(),
                high_per_s: high,
                confidence: 0.0,
                at: Some(Load::Rate(Rate(low))),
            }),
            (None, None) => None,
        };
        answer(seen, GOAL, interval, end)
    }

    fn interval(&self, seen: &[Observation], border: Border) -> Interval {
        Interval {
            low_per_s: border.low.exp(),
            estimate_per_s: border.estimate.exp(),
            high_per_s: border.high.exp(),
            confidence: CONFIDENCE,
            at: tested(seen, border.estimate.exp()).map(|rate| Load::Rate(Rate(rate))),
        }
    }

    fn next_rate(&self, seen: &[Observation], top: f64) -> Step {
        let bounds = Bounds::of(seen);
        let brackets = count(seen, Why::Bracket);
        let bracketed = match (bounds.low, bounds.high) {
            (None, Some(high)) if high < top * BOTTOM || brackets >= HOPELESS_TRIALS => {
                return Step::Done(End::NothingHeld);
            }
            (Some(low), None) if low >= top * TOP * 0.999 => return Step::Done(End::AllHeld),
            (Some(low), Some(high)) => {
                high <= low * (1.0 + BRACKET_WIDTHS * self.options.width) || brackets >= BRACKET_TRIALS
            }
            (Some(_) | None, None) | (None, Some(_)) => false,
        };
        if !bracketed && count(seen, Why::Border) == 0 {
            let rate = self.bracket(seen, &bounds, top);
            if bounds.low.is_none() && rate * self.options.short_s < REQUESTS_MIN {
                return Step::Done(End::NothingHeld);
            }
            return Step::Try(probe(rate, self.options.short_s, Why::Bracket));
        }
        self.near_border(seen, &bounds, top)
    }

    /// The next rate of the bracket: regula falsi on y = limit / measured, which is 1 at the border and 0 at saturation, where
    /// latency knows no bound; for a queue y is nearly a straight line there (Kleinrock 1975, "Queueing Systems" 1, 3.2).
    fn bracket(&self, seen: &[Observation], bounds: &Bounds, top: f64) -> f64 {
        let share = |rate: f64| share_at(seen, rate);
        match (bounds.low, bounds.high) {
            (None, None) => top * FIRST,
            (Some(low), None) => {
                let rate = top - (top - low) / share(low).max(1.1);
                // Where latency is still low at saturation the line says nothing: go beyond.
                if rate > low * (1.0 + self.options.width) { rate } else { top * TOP }
            }
            (None, Some(high)) => {
                // Perhaps it holds nowhere: that should not take the whole budget.
                let step = if count(seen, Why::Bracket) >= HALVINGS { 8.0 } else { 2.0 };
                (top - (top - high) / share(high).clamp(0.05, 0.9)).clamp(high / step, 0.97 * high)
            }
            (Some(low), Some(high)) => {
                let (a, b) = (share(low).max(1.0), share(high).min(1.0));
                let part = if a > b { (a - 1.0) / (a - b) } else { 0.5 };
                low + (high - low) * part.clamp(0.15, 0.85)
            }
        }
    }

    fn near_border(&self, seen: &[Observation], bounds: &Bounds, top: f64) -> Step {
        let full = count(seen, Why::Border);
        let fitted = fit(seen, top);
        if let Some(border) = fitted.filter(|border| full >= BORDER_MIN && border.width() <= self.options.width) {
            let low = border.low.exp();
            let known = tested(seen, border.estimate.exp()).is_some_and(|at| at >= low * (1.0 - self.options.width));
            if known || count(seen, Why::Confirm) >= 2 {
                return Step::Done(End::Narrow);
            }
            return Step::Try(probe(low, self.options.open_full_s, Why::Confirm));
        }
        let middle = match (fitted, bounds.low.zip(bounds.high)) {
            (Some(border), _) => border.estimate.exp(),
            (None, Some((low, high))) => (low * high).sqrt(),
            (None, None) => bounds.low.or(bounds.high).unwrap_or(1.0),
        };
        let wanted = fitted.map_or(OFFSETS.0, |b| (SPREADS * b.spread).min(SHARE_OFFSET / -b.slope));
        let offset = wanted.clamp(OFFSETS.0, OFFSETS.1);
        // Pairs of one rate below and one above, in random order: balanced, so that drift does not side with one.
        let mut random = Random::new(self.options.seed ^ (full as u64 / 2).wrapping_mul(0x9E37_79B9));
        let first_below = random.below(2) == 0;
        let below = full.is_multiple_of(2) == first_below;
        // A line through few trials may cross the border anywhere.
        let rate = (middle * (if below { -offset } else { offset }).exp()).clamp(BOTTOM * top, TOP * top);
        Step::Try(probe(rate, self.options.open_full_s, Why::Border))
    }
}

fn probe(rate: f64, seconds: f64, why: Why) -> Probe {
    Probe { load: Load::Rate(Rate(rate)), seconds, why, again: false }
}

/// Without what was measured after the objective: it is no reason to go on.
fn until_objective(seen: &[Observation]) -> &[Observation] {
    last_of_objective(seen).map_or(seen, |last| &seen[..=last])
}

/// Valid trials in open loop: rate, and the trial.
fn trials(seen: &[Observation]) -> impl Iterator<Item = (f64, &Observation)> {
    seen.iter().filter(|o| o.validity == Validity::Valid).filter_map(|o| match o.probe.load {
        Load::Rate(Rate(rate)) if rate.is_finite() && rate > 0.0 && o.good.is_some() => Some((rate, o)),
        Load::Rate(_) | Load::Connections(_) => None,
    })
}

fn count(seen: &[Observation], why: Why) -> usize {
    trials(seen).filter(|(_, o)| o.probe.why == why).count()
}

/// The worst margin; of a trial without any, one that says only good or bad.
fn worst(observation: &Observation) -> f64 {
    let known = observation.margins.iter().copied().filter(|m| !m.is_nan()).reduce(f64::max);
    let bad = observation.good == Some(false);
    match known {
        Some(margin) if (margin > 0.0) == bad => margin,
        Some(_) | None => {
            if bad {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            }
        }
    }
}

/// limit / measured at a rate, as a mean of its trials.
fn share_at(seen: &[Observation], rate: f64) -> f64 {
    let at = trials(seen).filter(|(r, _)| *r == rate);
    let (sum, n) = at.fold((0.0, 0.0), |(sum, n), (_, o)| (sum + border::share(worst(o)), n + 1.0));
    if n > 0.0 { sum / n } else { 1.0 }
}

/// Index of the worst metric in most of the trials near the border.
pub(super) fn binding(seen: &[Observation]) -> Option<usize> {
    let worst_of = |o: &Observation| {
        let known = o.margins.iter().enumerate().filter(|(_, m)| !m.is_nan());
        known.max_by(|a, b| a.1.total_cmp(b.1)).map(|(i, _)| i)
    };
    let mut votes = std::collections::BTreeMap::<usize, usize>::new();
    let near = |o: &Observation| matches!(o.probe.why, Why::Border | Why::Confirm);
    trials(seen)
        .filter(|(_, o)| near(o))
        .filter_map(|(_, o)| worst_of(o))
        .for_each(|i| *votes.entry(i).or_default() += 1);
    votes.into_iter().max_by_key(|(_, n)| *n).map(|(i, _)| i)
}

/// Highest rate that is a lower bound and at most `limit`.
fn tested(seen: &[Observation], limit: f64) -> Option<f64> {
    trials(seen).map(|(rate, _)| rate).filter(|rate| *rate <= limit && !bad(seen, *rate)).reduce(f64::max)
}

/// Whether more than half of the trial time at a rate was bad.
fn bad(seen: &[Observation], rate: f64) -> bool {
    let at = || trials(seen).filter(|(r, _)| *r == rate).map(|(_, o)| o);
    let all: f64 = at().map(|o| o.probe.seconds).sum();
    let bad: f64 = at().filter(|o| o.good == Some(false)).map(|o| o.probe.seconds).sum();
    bad > BAD_SHARE_MAX * all
}

/// Rates beside the split that leaves the least trial time on its wrong side: good above it, or bad below. One disturbed trial
/// so cuts nothing off, which is what RFC 9971 wants of its bounds when loads are not all tried for the same time.
struct Bounds {
    low: Option<f64>,
    high: Option<f64>,
}

impl Bounds {
    fn of(seen: &[Observation]) -> Self {
        let mut sorted: Vec<(f64, bool, f64)> =
            trials(seen).map(|(rate, o)| (rate, o.good == Some(true), o.probe.seconds)).collect();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let wrong = |split: usize| {
            let bad_below = sorted[..split].iter().filter(|t| !t.1).map(|t| t.2).sum::<f64>();
            bad_below + sorted[split..].iter().filter(|t| t.1).map(|t| t.2).sum::<f64>()
        };
        let splits = (0..=sorted.len()).filter(|i| *i == 0 || sorted.get(*i).is_none_or(|t| t.0 > sorted[i - 1].0));
        let split = splits.min_by(|a, b| wrong(*a).total_cmp(&wrong(*b))).unwrap_or(0);
        Self { low: sorted[..split].last().map(|t| t.0), high: sorted.get(split).map(|t| t.0) }
    }
}

fn fit(seen: &[Observation], top: f64) -> Option<Border> {
    let longest = trials(seen).map(|(_, o)| o.probe.seconds).reduce(f64::max)?;
    let point = |(rate, o): (f64, &Observation)| Point {
        ln_rate: rate.ln(),
        share: border::share(worst(o)),
        weight: o.probe.seconds / longest,
    };
    let bounds = Bounds::of(seen);
    let around = bounds.low.zip(bounds.high).map(|(low, high)| (low * high).sqrt()).or(bounds.low).or(bounds.high)?;
    border::fit(&trials(seen).map(point).collect::<Vec<_>>(), around.ln(), top.ln())
}
