//! What a search says at its end, or at any moment before.
//!
//! Invariant: the verdict follows from the trials alone, and what the generator limited is never the stack's.

use super::{Asked, LimitSearch, Taken, curve, health, judge};
use prony_model::limit::{
    AxisAnswer, LeftOut, LimitAnswer, LimitReport, LimitStep, LimitVerdict, Overload, TestedLoad,
};
use prony_model::{Run, Trial};
use prony_stats::search::{self, Answer, End, Found, Load, Observation, Validity, Why};

impl LimitSearch {
    /// Everything that is known by now.
    pub(crate) fn report(&self, run: &Run) -> LimitReport {
        let found = self.search.found(&self.observed);
        let over_load = self.axis.is_none();
        let trials: Vec<&Trial> = self.taken.iter().filter_map(|t| run.trials.get(t.index)).collect();
        let curve_trials = self.curve_trials(run);
        let axis = self.axis.as_ref().map(|search| search.answer(run));
        let growth = self.axis.as_ref().and_then(|search| search.growth(run));
        let growth = growth.or_else(|| over_load.then(|| ("connections", curve::closed(&curve_trials))));
        let seed = self.base.seed;
        let slo_found = found.within_slo.filter(|_| over_load);
        LimitReport {
            verdict: self.verdict(run, &found, axis.as_ref()),
            saturation: over_load.then(|| self.answer(&found.saturation)).flatten(),
            at_one_speed: search::at_one_speed(&self.observed)
                .filter(|_| over_load && found.saturation.end != End::GeneratorLimited),
            within_slo: slo_found.and_then(|answer| self.within(&answer, &found)),
            slo: self.goal.slo.clone(),
            binding: found
                .binding
                .map(|i| self.goal.slo.get(i).map_or(judge::SCHEDULE.to_string(), ToString::to_string)),
            at_least_per_s: found.at_least_per_s,
            curve: curve::points(run, &curve_trials),
            knee: if over_load { curve::knee(&curve_trials, seed) } else { None },
            usl: growth.and_then(|(name, growth)| curve::law(name, &growth, &self.goal.extrapolate, seed)),
            stable: self.stable.as_ref().filter(|_| over_load).map(|search| search.answer(run)),
            axis,
            overload: self.overload(run),
            steps: self.steps(run),
            trials: trials.len() as u32,
            left_out: self.left_out(run),
            spent_s: self.spent_s(run),
            budget_s: self.goal.budget.as_secs_f64(),
        }
    }

    /// The trials of the search itself, each with what was known after it. What was observed are the trials that had an answer.
    fn steps(&self, run: &Run) -> Vec<LimitStep> {
        let of_search = |t: &&Taken| matches!(t.asked, Asked::Search(_));
        let trials = self.taken.iter().filter(of_search).filter_map(|t| run.trials.get(t.index));
        let answered = trials.filter(|trial| !health::is_silent(trial));
        let step = |(at, (trial, seen)): (usize, (&Trial, &Observation))| {
            let found = self.search.found(&self.observed[..=at]);
            let goal = if trial.plan.is_open_loop() { found.within_slo } else { Some(found.saturation) };
            let interval = goal.and_then(|answer| answer.interval);
            LimitStep {
                trial: trial.id,
                why: super::purpose(seen.probe.why).to_string(),
                chooses: matches!(seen.probe.why, Why::Ladder | Why::Bracket),
                load: TestedLoad {
                    connections: trial.plan.connections,
                    rate_per_s: trial.plan.rate.map(|rate| rate.0),
                },
                good_per_s: seen.good_per_s,
                held: seen.good,
                counts: seen.validity == Validity::Valid,
                low_per_s: interval.map(|i| i.low_per_s),
                high_per_s: interval.map(|i| i.high_per_s),
            }
        };
        answered.zip(&self.observed).enumerate().map(step).collect()
    }

    /// Trials that are points of the load curve: not the overload, nor what came after it, nor the pulse.
    fn curve_trials<'a>(&'a self, run: &'a Run) -> Vec<&'a Trial> {
        let of_curve = |asked: Asked| match asked {
            Asked::Search(_) | Asked::Curve => true,
            Asked::Overload | Asked::Return | Asked::Axis { .. } | Asked::Stable { .. } | Asked::Pulse => false,
        };
        let trials = self.taken.iter().filter(|t| of_curve(t.asked)).filter_map(|t| run.trials.get(t.index));
        trials.filter(|t| t.result.completed > 0).collect()
    }

    fn verdict(&self, run: &Run, found: &Found, axis: Option<&AxisAnswer>) -> LimitVerdict {
        if let Some(gone) = self.gone() {
            return gone;
        }
        if let (Some(answer), Some(search)) = (axis, &self.axis) {
            return if search.is_unsteady() { self.restless(run) } else { self.verdict_of_axis(answer) };
        }
        let ends = [Some(found.saturation.end), found.within_slo.map(|answer| answer.end)];
        let any = |end: End| ends.contains(&Some(end));
        if any(End::GeneratorLimited) {
            LimitVerdict::GeneratorLimited
        } else if any(End::NothingServed) {
            LimitVerdict::NothingServed
        } else if any(End::NotSteady) {
            self.restless(run)
        } else if any(End::NothingHeld) {
            LimitVerdict::NothingHolds
        } else if found.saturation.interval.is_none() && found.at_least_per_s.is_some() {
            LimitVerdict::GeneratorLimited
        } else if any(End::Open) || found.saturation.interval.is_none() {
            // A budget that ends before there is any interval answers nothing.
            LimitVerdict::Open
        } else if any(End::Budget) {
            LimitVerdict::Wide
        } else {
            LimitVerdict::Found
        }
    }

    /// Not steady; and if connections failed in half of what was left out, because the server comes and goes.
    fn restless(&self, run: &Run) -> LimitVerdict {
        let out: Vec<&Trial> = self.unsteady(run).collect();
        let cut = |t: &&&Trial| judge::cut_share(&t.result) > 0.0;
        let failed = out.iter().filter(cut).count();
        if failed > 0 && 2 * failed >= out.len() { LimitVerdict::Flapping } else { LimitVerdict::Unsteady }
    }

    fn verdict_of_axis(&self, answer: &AxisAnswer) -> LimitVerdict {
        let at = |value: Option<u64>| answer.tried.iter().find(|point| Some(point.value) == value);
        let limited = at(answer.fails_at).is_some_and(|point| point.generator_limited);
        let scan = answer.until.is_empty();
        if answer.tried.is_empty() {
            LimitVerdict::Open
        } else if limited {
            LimitVerdict::GeneratorLimited
        } else if !scan && answer.holds_at.is_none() {
            LimitVerdict::NothingHolds
        } else if !scan && answer.confidence < prony_stats::search::CONFIDENCE && answer.fails_at.is_some() {
            LimitVerdict::Wide
        } else {
            LimitVerdict::Found
        }
    }

    /// None where the generator was the limit: what it carried is a lower bound and no interval.
    fn answer(&self, answer: &Answer) -> Option<LimitAnswer> {
        let interval = answer.interval.filter(|_| answer.end != End::GeneratorLimited)?;
        let tested = |load: Load| match load {
            Load::Connections(connections) => TestedLoad { connections, rate_per_s: None },
            Load::Rate(rate) => TestedLoad { connections: self.open_connections(rate), rate_per_s: Some(rate.0) },
        };
        Some(LimitAnswer {
            low_per_s: interval.low_per_s,
            estimate_per_s: interval.estimate_per_s,
            high_per_s: interval.high_per_s,
            confidence: interval.confidence,
            tested: interval.at.map(tested),
            narrow: answer.end == End::Narrow,
            held_to_saturation: false,
            trials: answer.trials as u32,
            seconds: answer.seconds,
        })
    }

    /// When the objective holds at every rate that the stack carries, saturation is the limit within it. Short trials may hold it even a
    /// little beyond, until the queue has grown.
    fn within(&self, answer: &Answer, found: &Found) -> Option<LimitAnswer> {
        let saturation = self.answer(&found.saturation);
        let beyond =
            |own: &LimitAnswer| saturation.as_ref().is_some_and(|most| own.estimate_per_s >= most.estimate_per_s);
        let own = self.answer(answer).filter(|own| answer.end != End::AllHeld && !beyond(own));
        if own.is_some() || (answer.end != End::AllHeld && answer.interval.is_none()) {
            return own;
        }
        let saturation = saturation?;
        Some(LimitAnswer {
            held_to_saturation: true,
            trials: answer.trials as u32,
            seconds: answer.seconds,
            ..saturation
        })
    }

    fn overload(&self, run: &Run) -> Option<Overload> {
        let trial = self.of(run, Asked::Overload).next()?;
        let (returned, _) = self.returned(run)?;
        Some(Overload {
            rate_per_s: trial.plan.rate.map_or(0.0, |rate| rate.0),
            carried_per_s: trial.result.good_per_s,
            error_share: trial.result.error_share(),
            after_per_s: self.of(run, Asked::Return).map(|t| t.result.good_per_s).collect(),
            before_low_per_s: returned.before_low,
            metastable: returned.metastable,
        })
    }

    /// Trials of the search that were not steady.
    fn unsteady<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = &'a Trial> {
        self.questions(run).filter(|t| judge::validity(t, &self.goal.slo) == Validity::Unsteady)
    }

    /// Trials that must be valid. A search for stable connections counts those that are not steady; overload is meant not to be.
    fn questions<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = &'a Trial> {
        let counts = |asked: Asked| match asked {
            Asked::Search(_) | Asked::Curve | Asked::Axis { .. } => true,
            Asked::Overload | Asked::Return | Asked::Stable { .. } | Asked::Pulse => false,
        };
        self.taken.iter().filter(move |t| counts(t.asked)).filter_map(|t| run.trials.get(t.index))
    }

    fn left_out(&self, run: &Run) -> Vec<LeftOut> {
        let silent = |t: &&Trial| health::is_silent(t) && !t.result.interrupted;
        let out = self.questions(run).filter(|t| judge::validity(t, &self.goal.slo) != Validity::Valid);
        let out = out.map(|t| LeftOut { trial: t.id, reason: judge::why_left_out(t) });
        let trials = self.taken.iter().filter(|t| t.asked != Asked::Pulse).filter_map(|t| run.trials.get(t.index));
        let silent = trials.filter(silent).filter(|t| judge::validity(t, &self.goal.slo) == Validity::Valid);
        let mut out: Vec<LeftOut> =
            out.chain(silent.map(|t| LeftOut { trial: t.id, reason: "no answer at all".to_string() })).collect();
        out.sort_by_key(|left| left.trial);
        out
    }
}
