//! A search over whole numbers: sizes of answers, connections, workers. What one value means as a load, and what a trial says.
//!
//! Where to try next is arithmetic of `prony_stats::border`. Invariant: what is compared with "the most" is compared with the
//! most of this search alone.

use super::{LimitGoal, judge};
use crate::effort::Effort;
use crate::levels::timed;
use prony_model::limit::{AxisAnswer, AxisPoint};
use prony_model::threshold::{Measure, Threshold};
use prony_model::{Axis, Knob, KnobId, LoadPlan, LoadResult, Nanos, Run, Trial, Until, Vary};
use prony_stats::border::{self, Border, Options, Spacing};
use prony_stats::search::{CONFIDENCE, Validity};
use prony_stats::{Random, evaluate, fluctuation};
use std::collections::BTreeMap;

/// Width of the border, relative: for a size a packet's worth at 10 K, for connections what nobody tunes finer. Guesses.
const RESOLUTION_SIZE: f64 = 0.01;
const RESOLUTION_CONNECTIONS: f64 = 0.10;
/// Values of a scan at most, and times that each is tried. Guesses: a law with three parameters wants about six loads (Gunther
/// 2007), three trials each tell the noise.
const SCAN_VALUES: usize = 8;
const SCAN_ROUNDS: u32 = 3;
/// Counted time of a trial that must show fluctuation. A guess: five seconds give five values.
const STABLE: Nanos = Nanos(5_000_000_000);
/// Trials without result after which a search ends, if they are at least half.
const LEFT_OUT_MAX: u32 = 4;
/// Bytes of a head, at most, that may come with a body of the asked size. A guess.
const HEAD_MAX: f64 = 4096.0;

/// What is asked of each value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Question {
    /// Does this hold?
    Until(Until),
    /// No failure, and no violent fluctuation?
    Stable,
    /// How much does it carry? Every value is measured, several times.
    Scan,
}

impl Question {
    pub(super) fn of(goal: &LimitGoal) -> Self {
        match &goal.until {
            Some(until) => Self::Until(until.clone()),
            None if goal.stable => Self::Stable,
            None => Self::Scan,
        }
    }
}

/// The search and what it has seen.
#[derive(Clone, Debug)]
pub(super) struct AxisSearch {
    vary: Vary,
    question: Question,
    base: LoadPlan,
    /// Host whose workers are varied.
    entry: Option<String>,
    /// Value and place of the trial in the run.
    taken: Vec<(u64, usize)>,
    left_out: u32,
}

impl AxisSearch {
    pub(super) fn new(vary: Vary, question: Question, base: &LoadPlan, entry: Option<String>) -> Self {
        Self { vary, question, base: base.clone(), entry, taken: Vec::new(), left_out: 0 }
    }

    pub(super) fn name(&self) -> &'static str {
        match self.question {
            Question::Stable => "stable connections",
            Question::Until(_) | Question::Scan => self.vary.axis.name(),
        }
    }

    /// The trial at this place of the run was at `value`, and counts.
    pub(super) fn take(&mut self, value: u64, index: usize) {
        self.taken.push((value, index));
    }

    /// The generator had no port or descriptor left for so many connections: only fewer can be asked about. Whether it was so.
    pub(super) fn cap(&mut self, value: u64, trial: &Trial) -> bool {
        let errors = trial.result.errors;
        let capped = self.vary.axis == Axis::Connections && errors.no_local_port + errors.no_descriptor > 0;
        if capped {
            self.vary.high = (value / 2).max(self.vary.low + 1);
            self.taken.retain(|(taken, _)| *taken <= self.vary.high);
        }
        capped
    }

    /// A trial did not count.
    pub(super) fn leave_out(&mut self) {
        self.left_out += 1;
    }

    /// Whether too many trials did not count.
    pub(super) fn is_unsteady(&self) -> bool {
        self.left_out >= LEFT_OUT_MAX && self.left_out as usize >= self.taken.len()
    }

    /// The value to try next; none when the search is over.
    pub(super) fn next(&self, run: &Run) -> Option<u64> {
        if self.is_unsteady() {
            return None;
        }
        match self.question {
            Question::Scan => self.next_of_scan(),
            Question::Until(_) | Question::Stable => border::next(&self.options(), &self.votes(run)),
        }
    }

    pub(super) fn border(&self, run: &Run) -> Border {
        border::found(&self.options(), &self.votes(run))
    }

    fn options(&self) -> Options {
        let (spacing, resolution) = match self.vary.axis {
            Axis::PathSize => (Spacing::Even, RESOLUTION_SIZE),
            Axis::Connections => (Spacing::Ratio, RESOLUTION_CONNECTIONS),
            Axis::Workers => (Spacing::Even, 0.0),
        };
        Options { low: self.vary.low, high: self.vary.high, spacing, resolution, confidence: CONFIDENCE }
    }

    /// Every value of the scan once, in random order, then again: so drift sides with no value.
    fn next_of_scan(&self) -> Option<u64> {
        let values = self.scan_values();
        let round = (self.taken.len() / values.len()) as u64;
        if round >= u64::from(SCAN_ROUNDS) {
            return None;
        }
        let mut order = values.clone();
        Random::new(self.base.seed ^ round.wrapping_add(1)).shuffle(&mut order);
        order.get(self.taken.len() % values.len()).copied()
    }

    fn scan_values(&self) -> Vec<u64> {
        let Vary { low, high, .. } = self.vary;
        if high - low < SCAN_VALUES as u64 {
            return (low..=high).collect();
        }
        let step = |i: usize| {
            let part = i as f64 / (SCAN_VALUES - 1) as f64;
            match self.options().spacing {
                Spacing::Even => low as f64 + (high - low) as f64 * part,
                Spacing::Ratio => (low.max(1) as f64) * (high as f64 / low.max(1) as f64).powf(part),
            }
        };
        let mut values: Vec<u64> = (0..SCAN_VALUES).map(|i| step(i).round() as u64).collect();
        values.dedup();
        values
    }

    /// The load at a value.
    pub(super) fn plan(&self, value: u64, effort: &Effort) -> LoadPlan {
        let duration = match self.question {
            Question::Stable => STABLE,
            Question::Until(_) | Question::Scan => effort.curve,
        };
        let plan = timed(&self.base, effort.settle, duration);
        match self.vary.axis {
            Axis::Connections => LoadPlan { connections: u32::try_from(value).unwrap_or(u32::MAX), ..plan },
            Axis::Workers => plan,
            Axis::PathSize => sized(plan, value),
        }
    }

    /// What must be turned for a value, if anything.
    pub(super) fn knob(&self, value: u64) -> Option<Knob> {
        match (self.vary.axis, &self.entry) {
            (Axis::Workers, Some(host)) => {
                Some(Knob { host: host.clone(), id: KnobId::NginxWorkerProcesses, value: value.to_string() })
            }
            (Axis::Workers, None) | (Axis::Connections | Axis::PathSize, _) => None,
        }
    }

    /// Whether the answers of a trial are what the value asks for.
    ///
    /// # Errors
    /// When they are not: what came instead, and what to do.
    pub(super) fn answers(&self, value: u64, trial: &Trial) -> Result<(), String> {
        let result = &trial.result;
        if self.vary.axis != Axis::PathSize {
            return Ok(());
        }
        if result.good_per_s == 0.0 {
            let statuses: Vec<String> = result.statuses.keys().map(u16::to_string).collect();
            let hint = "is there a file of that size? `%d` in the path becomes the size in bytes";
            return Err(format!("at {value} bytes every answer has status {}: {hint}", statuses.join(", ")));
        }
        let per_answer = result.bytes_in as f64 / result.completed as f64;
        // Heads take their part, and a request in flight at an end of the counted time brings a part of its answer.
        if per_answer < value as f64 * 0.9 || per_answer > value as f64 * 1.1 + HEAD_MAX {
            let hint = "write a path in which `%d` becomes the size, or ask for a file of at least that size from a server that \
                        knows `Range`";
            return Err(format!("an answer has {per_answer:.0} bytes where {value} were asked for: {hint}"));
        }
        Ok(())
    }

    fn trials<'a>(&'a self, run: &'a Run) -> impl Iterator<Item = (u64, &'a Trial)> {
        self.taken.iter().filter_map(|(value, index)| Some((*value, run.trials.get(*index)?)))
    }

    /// Every trial as a yes or no.
    fn votes(&self, run: &Run) -> Vec<(u64, bool)> {
        let most = self.most(run);
        self.trials(run).map(|(value, trial)| (value, self.holds(trial, most))).collect()
    }

    fn holds(&self, trial: &Trial, most: f64) -> bool {
        let answers = trial.result.completed > 0;
        match &self.question {
            Question::Scan => true,
            Question::Stable => is_stable(trial),
            Question::Until(Until::Threshold(threshold)) => {
                answers && evaluate(std::slice::from_ref(threshold), &trial.result).iter().all(|seen| seen.held)
            }
            Question::Until(Until::ShareOfMost { measure, comparison, share, .. }) => {
                answers && measured(*measure, &trial.result).is_some_and(|v| comparison.holds(v, share * most))
            }
        }
    }

    /// The largest mean of what the condition measures, over all values.
    fn most(&self, run: &Run) -> f64 {
        let Some(measure) = self.measure() else { return 0.0 };
        self.by_value(run).values().filter_map(|trials| mean_of(measure, trials)).fold(0.0, f64::max)
    }

    fn measure(&self) -> Option<Measure> {
        match &self.question {
            Question::Until(Until::ShareOfMost { measure, .. } | Until::Threshold(Threshold { measure, .. })) => {
                Some(*measure)
            }
            Question::Stable => None,
            Question::Scan => Some(Measure::Rate),
        }
    }

    fn by_value<'a>(&'a self, run: &'a Run) -> BTreeMap<u64, Vec<&'a Trial>> {
        let mut by_value: BTreeMap<u64, Vec<&Trial>> = BTreeMap::new();
        self.trials(run).for_each(|(value, trial)| by_value.entry(value).or_default().push(trial));
        by_value
    }

    /// (N, good requests per second) of every trial, for the law of scalability.
    pub(super) fn growth(&self, run: &Run) -> Option<(&'static str, Vec<(f64, f64)>)> {
        let trials = || self.trials(run).map(|(value, trial)| (value as f64, trial.result.good_per_s));
        self.vary.axis.is_parallelism().then(|| (self.vary.axis.name(), trials().collect()))
    }

    /// What was found.
    pub(super) fn answer(&self, run: &Run) -> AxisAnswer {
        let most = self.most(run);
        let point = |(value, trials): (u64, Vec<&Trial>)| AxisPoint {
            value,
            held: trials.iter().filter(|t| self.holds(t, most)).count() as u32,
            trials: trials.len() as u32,
            measured: self.measure().and_then(|measure| mean_of(measure, &trials)),
            good_per_s: geometric_mean(trials.iter().map(|t| t.result.good_per_s)),
            generator_limited: 2 * trials.iter().filter(|t| t.result.generator_limited()).count() >= trials.len(),
        };
        let scan = self.question == Question::Scan;
        let border = Some(self.border(run)).filter(|_| !scan && !self.taken.is_empty());
        AxisAnswer {
            axis: self.vary.axis.name().to_string(),
            until: match &self.question {
                Question::Until(until) => until.to_string(),
                Question::Stable => "no failure and no violent fluctuation".to_string(),
                Question::Scan => String::new(),
            },
            rising: border.is_some_and(|b| b.rising),
            holds_at: border.and_then(|b| b.holds_at),
            fails_at: border.and_then(|b| b.fails_at),
            confidence: border.map_or(0.0, |b| b.confidence),
            tried: self.by_value(run).into_iter().map(point).collect(),
            measured: self.measure().map(|m| m.unit().to_string()).unwrap_or_default(),
        }
    }
}

/// Answers at all, no failure, no violent fluctuation from second to second, and no lasting change inside the trial (which the
/// gate `steady` looks for in tenths of a second). Seconds in which the generator was the limit say nothing against the stack.
fn is_stable(trial: &Trial) -> bool {
    let fluctuation = fluctuation::judge(std::slice::from_ref(&trial.result.per_second));
    let answers = trial.result.completed > 0 && trial.result.errors.total() == 0;
    answers && !fluctuation.violent && judge::validity(trial, &[]) != Validity::Unsteady
}

fn measured(measure: Measure, result: &LoadResult) -> Option<f64> {
    prony_stats::threshold::measure(measure, result)
}

fn mean_of(measure: Measure, trials: &[&Trial]) -> Option<f64> {
    let values: Vec<f64> = trials.iter().filter_map(|t| measured(measure, &t.result)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// 0 when one of the values is.
pub(super) fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    if logs.is_empty() { 0.0 } else { (logs.iter().sum::<f64>() / logs.len() as f64).exp() }
}

/// The plan with answers of that many bytes: `%d` in the path becomes the size; where there is none, the first bytes of the file
/// are asked for (RFC 9110, 14.2).
pub(super) fn sized(mut plan: LoadPlan, bytes: u64) -> LoadPlan {
    let size = bytes.to_string();
    let names_size = plan.url.contains("%d") || plan.requests.iter().any(|request| request.path.contains("%d"));
    if names_size {
        plan.url = plan.url.replace("%d", &size);
        plan.requests.iter_mut().for_each(|request| request.path = request.path.replace("%d", &size));
    } else {
        plan.headers.push(("Range".to_string(), format!("bytes=0-{}", bytes.saturating_sub(1))));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;

    #[test]
    fn a_size_stands_in_the_path_or_in_the_range() {
        let named = LoadPlan { url: "http://10.0.0.2/f%d".into(), ..plan() };
        assert_eq!(sized(named, 2590).url, "http://10.0.0.2/f2590");
        let file = sized(plan(), 2590);
        assert_eq!((file.url.as_str(), file.headers[0].1.as_str()), ("http://10.0.0.2/", "bytes=0-2589"));
    }

    #[test]
    fn a_scan_tries_every_value_and_both_ends() {
        let of = |text: &str| {
            let mut search = AxisSearch::new(text.parse().unwrap(), Question::Scan, &plan(), Some("lb".into()));
            let mut values = Vec::new();
            while let Some(value) = search.next(&Run::default()) {
                search.take(value, 0);
                values.push(value);
            }
            assert_eq!(values.len() % SCAN_ROUNDS as usize, 0);
            assert_ne!(
                values[..values.len() / 3],
                values[values.len() / 3..2 * values.len() / 3],
                "each round is shuffled"
            );
            values.sort_unstable();
            values.dedup();
            values
        };
        assert_eq!(of("workers=1..6"), [1, 2, 3, 4, 5, 6]);
        assert_eq!(of("connections=1..128"), [1, 2, 4, 8, 16, 32, 64, 128]);
    }

    #[test]
    fn workers_are_a_knob_of_the_entry() {
        let search = |entry: Option<&str>| {
            AxisSearch::new("workers=1..6".parse().unwrap(), Question::Scan, &plan(), entry.map(str::to_string))
        };
        let knob = search(Some("lb")).knob(3).unwrap();
        assert_eq!((knob.host.as_str(), knob.value.as_str()), ("lb", "3"));
        assert_eq!(search(None).knob(3), None);
    }
}
