//! Whether two configurations or runs differ: the words of `prony compare`, and the gates that its result must hold.
//!
//! Read and named here, worked out in `prony-stats`. Invariant: a change without an interval has no verdict but inconclusive.

use crate::input::nearest;
use crate::proof::ProofVerdict;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Schema name of the JSON form; fields only get added.
pub const SCHEMA: &str = "prony.compare/1";

/// What is compared. One trial gives one number of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparedMetric {
    /// Good requests per second.
    Rps,
    /// Median latency in microseconds.
    P50,
    /// 99th percentile of latency in microseconds.
    P99,
    /// Share of requests that failed. Its changes are absolute: 0.001 is 0.1 percentage points.
    Errors,
    /// CPU time of the entry host's processes per request, in microseconds.
    Cpu,
}

impl ComparedMetric {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 5] = [Self::Rps, Self::P50, Self::P99, Self::Errors, Self::Cpu];

    /// As a person writes it in a gate.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rps => "rps",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Errors => "errors",
            Self::Cpu => "cpu",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Rps)
    }

    /// Whether its changes are ratios; a share changes by a difference, because it may be 0.
    pub const fn is_ratio(self) -> bool {
        !matches!(self, Self::Errors)
    }
}

/// The 95 % interval of a change, and what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeInterval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Smallest change that this many trials would have found with 80 % power.
    pub detectable: f64,
    /// Two-sided p of no change.
    pub p: f64,
    /// The same, corrected by Holm for the other questions that were asked at the same time.
    pub p_holm: f64,
}

/// How one metric differs between A and B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricChange {
    /// Which.
    pub metric: ComparedMetric,
    /// A: geometric mean over its trials; of errors the share over all requests.
    pub a: f64,
    /// B, likewise.
    pub b: f64,
    /// B against A: relative (0.12 is 12 % more); for errors the difference of the shares. At equal speed of the machine where `by_speed`
    /// says so: A and B are as they were seen.
    pub change: f64,
    /// Share of the spread between pairs that the machine's own speed explained and that is taken out of the change; none when it hardly
    /// moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_speed: Option<f64>,
    /// None when there are too few trials for one.
    pub interval: Option<ChangeInterval>,
    /// Trials of A.
    pub trials_a: u32,
    /// Trials of B.
    pub trials_b: u32,
    /// Better, worse, the same or inconclusive.
    pub verdict: ProofVerdict,
}

/// What a gate found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateState {
    /// The whole interval lies within.
    Holds,
    /// The whole interval lies beyond.
    Broken,
    /// The interval crosses the limit, or there is none.
    NotProven,
}

/// A gate and what it found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GateResult {
    /// As it was written.
    pub gate: ChangeGate,
    /// What it found.
    pub state: GateState,
    /// The change and its interval, or why there is none.
    pub detail: String,
}

/// One load at which both sides have trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatchedLoad {
    /// Purpose and load, like `at the limit, 64 connections`.
    pub label: String,
    /// Trials of A.
    pub trials_a: u32,
    /// Trials of B.
    pub trials_b: u32,
    /// Good requests per second of A, geometric mean.
    pub rps_a: f64,
    /// Of B.
    pub rps_b: f64,
    /// Whether the changes are worked out from it.
    pub used: bool,
}

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What B is, in words: a knob with its value, or a run.
    pub question: String,
    /// The answer.
    pub verdict: ProofVerdict,
    /// The answer in one or two sentences.
    pub summary: String,
    /// What the verdict is about; the others are beside it.
    pub primary: ComparedMetric,
    /// How the trials were held against each other, in words.
    pub design: String,
    /// Every metric that could be compared.
    pub metrics: Vec<MetricChange>,
    /// Gates.
    pub gates: Vec<GateResult>,
    /// Loads that both sides have.
    pub loads: Vec<MatchedLoad>,
    /// Whether the generator was the limit of either side: then nothing is said about the stack.
    pub generator_limited: bool,
    /// Trials behind the figures that broke a validity gate, of all behind them: not steady, for one.
    pub doubtful: (u32, u32),
}

/// How much a verdict is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// Interleaved trials in random order, and A against A on this machine differs as rarely as promised.
    Strong,
    /// Interleaved, but too few comparisons of A with A to know how often this machine raises a false alarm.
    Unchecked,
    /// Trials of different times, or a machine on which A differs from A too often.
    Weak,
}

/// How often A differed from A on this machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AaCheck {
    /// Comparisons of A with A.
    pub experiments: u32,
    /// Of them, those whose 95 % interval excluded 0.
    pub differ: u32,
    /// At most this many are expected by chance.
    pub allowed: u32,
    /// Smallest true rate of false alarms that so many comparisons would have noticed with 80 % power.
    pub noticed: f64,
}

/// Comparisons of A with A in earlier proofs on the same machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlierAa {
    /// Comparisons.
    pub experiments: u32,
    /// Of them, those whose 95 % interval excluded 0.
    pub differ: u32,
    /// Proofs that they are from.
    pub proofs: u32,
}

/// What a verdict from interleaved trials is worth on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// How much.
    pub strength: Strength,
    /// Why, and what would make it worth more.
    pub reason: String,
    /// A against A.
    pub aa: AaCheck,
}

/// Something that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Difference {
    /// What: a key of the stack file, a fact of the inventory, or `prony` for its version.
    pub what: String,
    /// Hosts on which it differs so; empty: not of a host.
    pub hosts: Vec<String>,
    /// At A; none: not there.
    pub a: Option<String>,
    /// At B.
    pub b: Option<String>,
}

/// How the trials came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CompareMode {
    /// Two runs of different times.
    Recorded,
    /// Interleaved now.
    Live,
}

/// The result of `prony compare A B` or `--live`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: String,
    /// How the trials came about.
    pub mode: CompareMode,
    /// What A is.
    pub a: String,
    /// What B is.
    pub b: String,
    /// One for each question.
    pub answers: Vec<Answer>,
    /// How much the verdicts are worth.
    pub strength: Strength,
    /// Why, and what would make them worth more.
    pub strength_reason: String,
    /// A against A; none for recorded runs.
    pub aa: Option<AaCheck>,
    /// What else differs between the sides.
    pub differences: Vec<Difference>,
    /// What to know besides, a sentence each.
    pub notes: Vec<String>,
    /// Ids of the runs that the figures come from.
    pub runs: Vec<String>,
    /// False when a run was interrupted, or the generator was the limit.
    pub valid: bool,
}

impl Comparison {
    /// Whether nothing speaks against B: every gate holds; without gates, no verdict is worse.
    pub fn passes(&self) -> bool {
        let harmed = |v: ProofVerdict| matches!(v, ProofVerdict::Worse | ProofVerdict::GuardBroken);
        let passes = |a: &Answer| match a.gates.as_slice() {
            [] => !harmed(a.verdict),
            gates => gates.iter().all(|g| g.state == GateState::Holds),
        };
        self.answers.iter().all(passes)
    }
}

/// A place in a history from which on a metric is another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryChange {
    /// Id of the first run after the change.
    pub run: String,
    /// Its place in the series, from 0.
    pub index: u32,
    /// Start of that run in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Mean of the stretch before.
    pub from: f64,
    /// Mean of the stretch after.
    pub to: f64,
    /// After against before: relative; for errors the difference of the shares.
    pub change: f64,
    /// p of the t-test between the two stretches.
    pub p: f64,
    /// Whether it is for the worse.
    pub worse: bool,
}

/// One metric at one load over many runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistorySeries {
    /// Stack and load, in words.
    pub label: String,
    /// Which metric.
    pub metric: ComparedMetric,
    /// Runs that have it, in order of time.
    pub runs: Vec<String>,
    /// One number per run.
    pub values: Vec<f64>,
    /// Where it changed.
    pub changes: Vec<HistoryChange>,
}

/// The result of `prony compare --history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// [`SCHEMA`].
    pub schema: String,
    /// `history`.
    pub mode: String,
    /// Runs that were read.
    pub runs: u32,
    /// Series that are long enough.
    pub series: Vec<HistorySeries>,
    /// Files that could not be read, and series that are too short.
    pub notes: Vec<String>,
}

/// What a change may be at most or at least. Text: METRIC, `>=` or `<=`, then a change with its sign, like `rps>=-2%`.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeGate {
    /// Which metric.
    pub metric: ComparedMetric,
    /// True: the change is at least `limit`; false: at most.
    pub at_least: bool,
    /// The limit: relative; for errors a difference of shares.
    pub limit: f64,
    /// As it was written, without blanks.
    text: String,
}

/// Why a text is no gate: what was seen, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateError(String);

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for GateError {}

impl FromStr for ChangeGate {
    type Err = GateError;

    fn from_str(written: &str) -> Result<Self, GateError> {
        let text: String = written.chars().filter(|c| !c.is_whitespace()).collect();
        let wrong = |why: String| GateError(format!("`{written}` is no gate: {why}"));
        let sign = [">=", "<="].into_iter().find_map(|sign| Some((sign, text.split_once(sign)?)));
        let Some((sign, (name, change))) = sign else {
            return Err(wrong("write METRIC>=CHANGE or METRIC<=CHANGE, like `rps>=-2%` or `p99<=+10%`".to_string()));
        };
        let metric = ComparedMetric::ALL.into_iter().find(|m| m.name() == name).ok_or_else(|| {
            let names = ComparedMetric::ALL.map(ComparedMetric::name);
            let hint = nearest(name, names).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            wrong(format!("there is no metric `{name}`; there are {}{hint}", names.join(", ")))
        })?;
        let at_least = sign == ">=";
        let limit = change.strip_suffix('%').and_then(|n| n.parse::<f64>().ok()).filter(|n| n.is_finite());
        let Some(percent) = limit else {
            let unit = if metric.is_ratio() { "in percent, like `-2%`" } else { "in percentage points, like `+0.1%`" };
            return Err(wrong(format!("`{change}` is no change of {name}: write it {unit}")));
        };
        if metric.more_is_better() != at_least {
            let right = if metric.more_is_better() { ">=" } else { "<=" };
            return Err(wrong(format!(
                "it would forbid that {name} gets better; a gate says how bad it may get: `{name}{right}{change}`"
            )));
        }
        Ok(Self { metric, at_least, limit: percent / 100.0, text })
    }
}

impl fmt::Display for ChangeGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for ChangeGate {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for ChangeGate {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl ChangeGate {
    /// What the gate says of a change: it holds only if the whole interval lies within its limit.
    pub fn judge(&self, interval: Option<&ChangeInterval>) -> GateState {
        let Some(ChangeInterval { low, high, .. }) = interval else { return GateState::NotProven };
        let (worst, best) = if self.at_least { (*low, *high) } else { (-*high, -*low) };
        let limit = if self.at_least { self.limit } else { -self.limit };
        if worst >= limit {
            GateState::Holds
        } else if best < limit {
            GateState::Broken
        } else {
            GateState::NotProven
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(text: &str, want: Expect) {
        want.assert_eq(&match text.parse::<ChangeGate>() {
            Ok(gate) => format!("{:?} {} {}", gate.metric, gate.at_least, gate.limit),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn gates_are_read() {
        check("rps>=-2%", expect!["Rps true -0.02"]);
        check(" p99 <= +10% ", expect!["P99 false 0.1"]);
        check("errors<=0.1%", expect!["Errors false 0.001"]);
    }

    #[test]
    fn what_is_wrong_with_a_gate_is_said() {
        check(
            "rsp>=-2%",
            expect![
                "`rsp>=-2%` is no gate: there is no metric `rsp`; there are rps, p50, p99, errors, cpu; did you mean `rps`?"
            ],
        );
        check(
            "rps>-2%",
            expect!["`rps>-2%` is no gate: write METRIC>=CHANGE or METRIC<=CHANGE, like `rps>=-2%` or `p99<=+10%`"],
        );
        check("cpu<=5", expect!["`cpu<=5` is no gate: `5` is no change of cpu: write it in percent, like `-2%`"]);
        check(
            "errors<=1e999%",
            expect![
                "`errors<=1e999%` is no gate: `1e999%` is no change of errors: write it in percentage points, like `+0.1%`"
            ],
        );
        check(
            "p99>=-5%",
            expect![
                "`p99>=-5%` is no gate: it would forbid that p99 gets better; a gate says how bad it may get: `p99<=-5%`"
            ],
        );
    }

    fn interval(low: f64, high: f64) -> ChangeInterval {
        ChangeInterval { low, high, detectable: 0.0, p: 0.5, p_holm: 0.5 }
    }

    #[test]
    fn broken_is_told_from_not_proven() {
        let gate: ChangeGate = "rps>=-2%".parse().unwrap();
        assert_eq!(gate.judge(Some(&interval(-0.01, 0.05))), GateState::Holds);
        assert_eq!(gate.judge(Some(&interval(-0.03, 0.05))), GateState::NotProven);
        assert_eq!(gate.judge(Some(&interval(-0.05, -0.03))), GateState::Broken);
        assert_eq!(gate.judge(None), GateState::NotProven);
        let gate: ChangeGate = "p99<=10%".parse().unwrap();
        assert_eq!(gate.judge(Some(&interval(-0.5, 0.1))), GateState::Holds);
        assert_eq!(gate.judge(Some(&interval(0.05, 0.2))), GateState::NotProven);
        assert_eq!(gate.judge(Some(&interval(0.11, 0.2))), GateState::Broken);
    }

    proptest! {
        /// A gate that asks for less holds whenever one that asks for more does.
        #[test]
        fn gates_are_monotonic(low in -0.5f64..0.5, width in 0.0f64..0.5, limit in -50i32..50, ease in 0i32..50) {
            let seen = interval(low, low + width);
            for (metric, sign) in [("rps", -1), ("p99", 1)] {
                let op = if sign < 0 { ">=" } else { "<=" };
                let gate = |percent: i32| format!("{metric}{op}{percent}%").parse::<ChangeGate>().unwrap();
                let (hard, easy) = (gate(limit).judge(Some(&seen)), gate(limit + sign * ease).judge(Some(&seen)));
                prop_assert!(hard != GateState::Holds || easy == GateState::Holds);
                prop_assert!(easy != GateState::Broken || hard == GateState::Broken);
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = text.parse::<ChangeGate>();
        }
    }
}
