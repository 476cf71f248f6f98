//! Judging a verdict against the truth of a case, and the table of all cases.

use crate::bench::{machine, median};
use anyhow::Context as _;
use prony_model::diagnosis::{latency_change, told_change};
use prony_stats::paired;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;

/// Verdicts that name no fault: what a stack without one may honestly be told.
const NO_FAULT: [&str; 4] = ["none", "cpu-saturated-user", "cpu-saturated-kernel", "generator-saturated"];

/// What is wrong in a case; the part of `truth.json` that is scored.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Truth {
    pub cause: String,
    #[serde(default)]
    pub also_ok: Vec<String>,
    pub hop: String,
    #[serde(default)]
    pub hops_ok: Vec<String>,
    #[serde(default)]
    pub kind: String,
}

impl Truth {
    /// Whether there is no fault to find.
    pub fn is_healthy(&self) -> bool {
        self.kind == "healthy"
    }
}

/// What came of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Cause and hop are right.
    Right,
    /// They are not.
    Wrong,
    /// A fault was named where there is none.
    FalseAlarm,
    /// The stack format cannot express the case yet; not scored.
    Skipped(String),
    /// The case or the diagnosis did not run to its end.
    Failed(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Right => f.write_str("right"),
            Self::Wrong => f.write_str("wrong"),
            Self::FalseAlarm => f.write_str("false alarm"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Failed(reason) => write!(f, "failed: {reason}"),
        }
    }
}

/// One short load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub good_per_s: f64,
    pub mean_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
}

/// What taking the fault away brought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Achieved {
    /// Relative gain in throughput; at a rate that is carried, in how soon requests are answered.
    pub gain: f64,
    /// Half of its 95 % interval; none of rows that were kept before it was.
    #[serde(default)]
    pub half_interval: Option<f64>,
    /// Whether throughput, p99 or p99.9 differ beyond what pairs differ by: the 95 % interval of one of them leaves 0 out. Of a wait that
    /// one request in 200 has, p99 says nothing.
    pub moves: bool,
}

impl Achieved {
    /// From pairs of a load with the fault and one without, at a rate that both carry or not. None when a load served nothing.
    pub fn of(pairs: &[(Load, Load)], at_rate: bool) -> Option<Self> {
        let values =
            |of: fn(&Load) -> f64| pairs.iter().map(|(with, without)| (of(with), of(without))).collect::<Vec<_>>();
        let effect = |of: fn(&Load) -> f64| paired::compare("", &values(of));
        let (rps, tails) = (effect(|l| l.good_per_s), [effect(|l| l.p99_us), effect(|l| l.p999_us)]);
        let gained = if at_rate { effect(|l| 1e6 / l.mean_us) } else { rps.clone() };
        let (gain, low, high) = gained.as_ref().map(|e| (e.effect, e.low, e.high))?;
        let half_interval = Some((high - low) / 2.0).filter(|half| half.is_finite());
        let moves = tails.into_iter().chain([rps, gained]).flatten().any(|e| e.low > 0.0 || e.high < 0.0);
        Some(Self { gain, half_interval, moves })
    }
}

/// One line of the table.
#[derive(Clone, Serialize, Deserialize)]
pub struct Row {
    pub case: String,
    pub truth: String,
    pub healthy: bool,
    /// Magnitudes that were drawn, in words.
    pub magnitudes: String,
    /// Where it was measured.
    pub machine: String,
    pub verdict: String,
    pub hop: String,
    pub confidence: String,
    pub grounded: Option<bool>,
    /// Whether one of the three strongest candidates is right.
    pub top3: Option<bool>,
    pub predicted: Option<f64>,
    /// The stack carried the rate that it was asked at: mending brings shorter times then, and no more requests.
    #[serde(default)]
    pub at_rate: bool,
    pub achieved: Option<Achieved>,
    /// Trials of the diagnosis that made something worse, and how many kinds of them.
    pub interventions: usize,
    /// CPU share of observing, summed over the hosts.
    pub observer: Option<f64>,
    pub seconds: f64,
    pub outcome: Outcome,
    /// What the two simple methods said of the same run.
    pub by_threshold: Option<Outcome>,
    pub by_correlation: Option<Outcome>,
}

impl Row {
    /// A case that has no verdict yet.
    pub fn new(case: String, truth: &Truth, outcome: Outcome) -> Self {
        Self {
            case,
            truth: format!("{} at {}", truth.cause, truth.hop),
            healthy: truth.is_healthy(),
            magnitudes: String::new(),
            machine: machine(),
            verdict: String::new(),
            hop: String::new(),
            confidence: String::new(),
            grounded: None,
            top3: None,
            predicted: None,
            at_rate: false,
            achieved: None,
            interventions: 0,
            observer: None,
            seconds: 0.0,
            outcome,
            by_threshold: None,
            by_correlation: None,
        }
    }

    /// Takes over and judges a diagnosis.
    ///
    /// # Errors
    /// It has no verdict.
    pub fn judge(&mut self, truth: &Truth, diagnosis: &Value, healthy: bool) -> anyhow::Result<()> {
        let verdict = &diagnosis["verdict"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let items = |key: &str| diagnosis[key].as_array().map(Vec::as_slice).unwrap_or_default();
        self.verdict = verdict["cause"].as_str().context("the diagnosis has no verdict.cause")?.to_string();
        (self.hop, self.confidence) = (text(&verdict["hop"]), text(&verdict["confidence"]));
        self.grounded = verdict["grounded"].as_bool();
        self.predicted = verdict["predicted_gain"].as_f64();
        self.at_rate = verdict["at_rate"].as_bool() == Some(true);
        self.interventions = items("interventions").len();
        let shares = diagnosis["cost"]["hosts"].as_object().into_iter().flatten();
        self.observer = shares.filter_map(|(_, host)| host["observe_cpu_share"].as_f64()).reduce(|a, b| a + b);
        if healthy {
            (self.truth, self.healthy) = ("no fault".to_string(), true);
        }
        self.outcome = judge(truth, &self.verdict, &self.hop, healthy);
        let named = items("candidates").iter().take(3).map(|c| (text(&c["cause"]), text(&c["hop"])));
        let right = |(cause, hop): &(String, String)| judge(truth, cause, hop, healthy) == Outcome::Right;
        self.top3 = Some(self.outcome == Outcome::Right || named.into_iter().any(|c| right(&c)));
        Ok(())
    }

    /// Whether it counts.
    pub fn is_scored(&self) -> bool {
        !matches!(self.outcome, Outcome::Skipped(_))
    }

    /// What was achieved in throughput; none at a rate that is carried, where no more requests come.
    fn in_throughput(&self) -> Option<&Achieved> {
        self.achieved.as_ref().filter(|_| !self.at_rate)
    }

    /// Predicted less achieved gain of throughput, in percentage points; none where one of them is not known.
    pub fn gain_error_points(&self) -> Option<f64> {
        Some(100.0 * (self.predicted? - self.in_throughput()?.gain))
    }

    /// The same where mending at most doubled throughput: beyond that a point says little.
    fn small_gain_error_points(&self) -> Option<f64> {
        self.gain_error_points().filter(|_| self.achieved.as_ref().is_some_and(|a| a.gain <= 1.0))
    }

    /// How well the gain that was achieved is known itself, in percentage points: no prediction can be judged more exactly.
    pub fn gain_known_points(&self) -> Option<f64> {
        Some(100.0 * self.in_throughput().filter(|_| self.predicted.is_some())?.half_interval?)
    }

    /// The throughput that follows from the predicted gain against the one after mending, relative; none where one is not known.
    /// A gain of +1,300 % may be off by 50 points and the throughput by 4 %.
    pub fn throughput_error(&self) -> Option<f64> {
        Some((1.0 + self.predicted?) / (1.0 + self.in_throughput()?.gain) - 1.0)
    }

    /// The same for the share of the limit that the cause takes, in percentage points: what is ranked by, and what cannot pass 100 %.
    /// A gain of +300 % is a share of 75 %, one of +400 % a share of 80 %. The mean latency at a rate changes by as much.
    pub fn share_error_points(&self) -> Option<f64> {
        let error = latency_change(self.achieved.as_ref()?.gain) - latency_change(self.predicted?);
        error.is_finite().then_some(100.0 * error)
    }

    /// Predicted against achieved change of the mean latency, in percentage points, at a rate that is carried.
    fn latency_error_points(&self) -> Option<f64> {
        self.share_error_points().filter(|_| self.at_rate)
    }
}

/// Judges a cause at a hop against the truth; `healthy`: the case stands without its fault.
pub fn judge(truth: &Truth, cause: &str, hop: &str, healthy: bool) -> Outcome {
    if healthy && !truth.is_healthy() {
        return if NO_FAULT.contains(&cause) { Outcome::Right } else { Outcome::FalseAlarm };
    }
    let cause_right = cause == truth.cause || truth.also_ok.iter().any(|ok| ok == cause);
    // `none` says that nothing limits, so it has no hop.
    let hop_right = cause == "none" || hop == truth.hop || truth.hops_ok.iter().any(|ok| ok == hop);
    match (cause_right, hop_right) {
        (true, true) => Outcome::Right,
        (true, false) => Outcome::Wrong,
        (false, _) if truth.is_healthy() => Outcome::FalseAlarm,
        (false, _) => Outcome::Wrong,
    }
}

/// How many cases ended how.
#[derive(Default)]
struct Totals {
    right: u32,
    wrong: u32,
    false_alarms: u32,
    skipped: u32,
    failed: u32,
}

impl Totals {
    fn of(rows: &[Row]) -> Self {
        let mut totals = Self::default();
        for row in rows {
            match row.outcome {
                Outcome::Right => totals.right += 1,
                Outcome::Wrong => totals.wrong += 1,
                Outcome::FalseAlarm => totals.false_alarms += 1,
                Outcome::Skipped(_) => totals.skipped += 1,
                Outcome::Failed(_) => totals.failed += 1,
            }
        }
        totals
    }

    fn scored(&self) -> u32 {
        self.right + self.wrong + self.false_alarms + self.failed
    }
}

/// Whether every case that could be expressed got the right verdict. Nothing scored is not right.
pub fn all_right(rows: &[Row]) -> bool {
    let totals = Totals::of(rows);
    totals.scored() > 0 && totals.right == totals.scored()
}

/// The table for a person.
pub fn table(rows: &[Row]) -> String {
    let head = ["case", "truth", "verdict", "hop", "grounded", "gain: said, got", "seconds", "right"];
    let mut lines: Vec<[String; 8]> = vec![head.map(str::to_string)];
    for row in rows {
        let grounded = row.grounded.map_or("", |g| if g { "yes" } else { "no" });
        lines.push([
            row.case.clone(),
            row.truth.clone(),
            row.verdict.clone(),
            row.hop.clone(),
            grounded.to_string(),
            gains(row),
            format!("{:.1}", row.seconds),
            row.outcome.to_string(),
        ]);
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text.push('\n');
    text + &summary(rows).join("\n") + "\n"
}

/// Predicted and achieved gain as told, in percent.
pub fn gains(row: &Row) -> String {
    let percent =
        |gain: Option<f64>| gain.map_or("-".to_string(), |g| format!("{:+.0} %", 100.0 * told_change(g, row.at_rate)));
    let of = if row.at_rate { "latency " } else { "" };
    match (row.predicted, &row.achieved) {
        (None, None) => String::new(),
        (said, got) => format!("{of}{}, {}", percent(said), percent(got.as_ref().map(|g| g.gain))),
    }
}

/// What all rows say together, a sentence each.
pub fn summary(rows: &[Row]) -> Vec<String> {
    let totals = Totals::of(rows);
    let scored: Vec<&Row> = rows.iter().filter(|r| r.is_scored()).collect();
    let n = scored.len();
    let right = |of: fn(&Row) -> bool| scored.iter().filter(|r| of(r)).count();
    let by = |of: fn(&Row) -> &Option<Outcome>| {
        let judged: Vec<&Outcome> = scored.iter().filter_map(|r| of(r).as_ref()).collect();
        format!("{} of {}", judged.iter().filter(|o| ***o == Outcome::Right).count(), judged.len())
    };
    let off = |error: fn(&Row) -> Option<f64>| {
        let errors: Vec<f64> = scored.iter().filter_map(|r| error(r)).map(f64::abs).collect();
        Some((median(&errors)?, errors.len()))
    };
    let healthy = scored.iter().filter(|r| r.healthy);
    let (diagnosed, stacks) = (healthy.clone().count(), healthy.map(|r| &r.case).collect::<BTreeSet<_>>().len());
    let mut lines = vec![
        format!(
            "{} of {n} right; {} wrong, {} false alarms, {} failed; {} skipped, not counted",
            totals.right, totals.wrong, totals.false_alarms, totals.failed, totals.skipped
        ),
        format!(
            "with a fault: {} of {} right; on {stacks} healthy stacks: {} of {diagnosed} right",
            right(|r| !r.healthy && r.outcome == Outcome::Right),
            n - diagnosed,
            right(|r| r.healthy && r.outcome == Outcome::Right)
        ),
        format!(
            "grounded and right: {}; right among the three strongest: {}",
            right(|r| r.outcome == Outcome::Right && r.grounded == Some(true)),
            right(|r| r.top3 == Some(true))
        ),
        format!(
            "by plain thresholds: {} right; by ranked correlation: {} right",
            by(|r| &r.by_threshold),
            by(|r| &r.by_correlation)
        ),
    ];
    let errors = (off(Row::gain_error_points), off(Row::throughput_error), off(Row::share_error_points));
    if let (Some((points, cases)), Some((throughput, _)), Some((share, _))) = errors {
        lines.push(format!(
            "median error of the predicted gain: {points:.0} points, over {cases} cases; of the throughput that follows from it: \
             {:.0} %; of the share of the limit that it is: {share:.1} points",
            100.0 * throughput
        ));
    }
    if let Some((points, cases)) = off(Row::latency_error_points) {
        lines.push(format!(
            "at a rate that is carried, that of the mean latency: {points:.1} points, over {cases} cases"
        ));
    }
    if let Some((points, cases)) = off(Row::small_gain_error_points) {
        lines.push(format!(
            "where mending at most doubled throughput, that of the gain: {points:.1} points, over {cases} cases"
        ));
    }
    if let Some((points, cases)) = off(Row::gain_known_points) {
        lines.push(format!("the gain that was got is known to {points:.0} points itself (median half of its 95 % interval, {cases} cases)"));
    }
    let seconds: Vec<f64> = scored.iter().map(|r| r.seconds).filter(|s| *s > 0.0).collect();
    if let (Some(middle), Some(most)) = (median(&seconds), seconds.iter().copied().reduce(f64::max)) {
        lines.push(format!("a diagnosis took {middle:.0} s in the median, {most:.0} s at most"));
    }
    lines
}

/// The same for a program.
pub fn json(rows: &[Row]) -> Value {
    let totals = Totals::of(rows);
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "case": row.case, "truth": row.truth, "magnitudes": row.magnitudes, "verdict": row.verdict, "hop": row.hop,
                "confidence": row.confidence, "grounded": row.grounded, "top3": row.top3,
                "at_rate": row.at_rate, "predicted_gain": row.predicted, "achieved_gain": row.achieved.as_ref().map(|a| a.gain),
                "interventions": row.interventions, "observer_cpu_share": row.observer,
                "seconds": row.seconds, "right": row.outcome == Outcome::Right, "outcome": row.outcome.to_string(),
                "by_threshold": row.by_threshold.as_ref().map(ToString::to_string),
                "by_correlation": row.by_correlation.as_ref().map(ToString::to_string),
            })
        })
        .collect();
    json!({
        "schema": "prony.faults/1",
        "rows": rows,
        "totals": {
            "right": totals.right, "scored": totals.scored(), "wrong": totals.wrong, "false_alarms": totals.false_alarms,
            "failed": totals.failed, "skipped": totals.skipped,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn truth(kind: &str) -> Truth {
        let text = json!({"cause": "accept-queue-full", "also_ok": ["none"], "hop": "s1", "hops_ok": ["s2"], "kind": kind, "why": "x"});
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn cause_and_hop_must_both_be_right() {
        let judged = |cause: &str, hop: &str, kind: &str| judge(&truth(kind), cause, hop, false);
        assert_eq!(judged("accept-queue-full", "s1", "tcp"), Outcome::Right);
        assert_eq!(judged("accept-queue-full", "s2", "tcp"), Outcome::Right);
        assert_eq!(judged("accept-queue-full", "lb", "tcp"), Outcome::Wrong);
        assert_eq!(judged("packet-loss", "s1", "tcp"), Outcome::Wrong);
        assert_eq!(judged("none", "", "tcp"), Outcome::Right, "none ignores the hop");
        assert_eq!(judged("packet-loss", "s1", "healthy"), Outcome::FalseAlarm);
        assert_eq!(judged("accept-queue-full", "lb", "healthy"), Outcome::Wrong);
    }

    #[test]
    fn without_its_fault_a_case_may_be_told_none_or_saturated() {
        let judged = |cause: &str| judge(&truth("tcp"), cause, "lb", true);
        assert_eq!(judged("none"), Outcome::Right);
        assert_eq!(judged("cpu-saturated-user"), Outcome::Right);
        assert_eq!(judged("accept-queue-full"), Outcome::FalseAlarm);
        assert_eq!(judged("inconclusive"), Outcome::FalseAlarm);
    }

    #[test]
    fn prints_a_table_and_totals() {
        let mut row = Row::new("backlog".into(), &truth("tcp"), Outcome::Wrong);
        let verdict = json!({"cause": "accept-queue-full", "hop": "s1", "grounded": true, "predicted_gain": 0.2});
        row.judge(&truth("tcp"), &json!({ "verdict": verdict }), false).unwrap();
        row.achieved = Some(Achieved { gain: 0.25, half_interval: Some(0.031), moves: true });
        let skipped = Row::new("tls".into(), &truth("tcp"), Outcome::Skipped("needs TLS".into()));
        let rows = [row, skipped];
        let want = "\
case     truth                    verdict            hop  grounded  gain: said, got  seconds  right
backlog  accept-queue-full at s1  accept-queue-full  s1   yes       +20 %, +25 %     0.0      right
tls      accept-queue-full at s1                                                     0.0      skipped: needs TLS

1 of 1 right; 0 wrong, 0 false alarms, 0 failed; 1 skipped, not counted
with a fault: 1 of 1 right; on 0 healthy stacks: 0 of 0 right
grounded and right: 1; right among the three strongest: 1
by plain thresholds: 0 of 0 right; by ranked correlation: 0 of 0 right
median error of the predicted gain: 5 points, over 1 cases; of the throughput that follows from it: 4 %; of the share of the limit that it is: 3.3 points
where mending at most doubled throughput, that of the gain: 5.0 points, over 1 cases
the gain that was got is known to 3 points itself (median half of its 95 % interval, 1 cases)
";
        assert_eq!(table(&rows), want);
        let doubled =
            |gain| Row { achieved: Some(Achieved { gain, half_interval: None, moves: true }), ..rows[0].clone() };
        assert_eq!(doubled(1.0).small_gain_error_points(), Some(-80.0));
        assert_eq!(doubled(1.01).small_gain_error_points(), None);
        let at_rate = Row { at_rate: true, predicted: Some(19.0), ..doubled(99.0) };
        assert_eq!(gains(&at_rate), "latency -95 %, -99 %");
        assert!(at_rate.latency_error_points().is_some_and(|points| (points + 4.0).abs() < 1e-9));
        assert_eq!(rows[0].latency_error_points(), None, "its gain is of throughput");
        let in_throughput = (at_rate.gain_error_points(), at_rate.throughput_error(), at_rate.gain_known_points());
        assert_eq!(in_throughput, (None, None, None), "no more requests come");
        let both = summary(&[rows[0].clone(), at_rate]);
        let want = "at a rate that is carried, that of the mean latency: 4.0 points, over 1 cases";
        assert!(both.iter().any(|line| line == want), "{both:?}");
        assert!(both.iter().any(|line| line.contains("predicted gain: 5 points, over 1 cases")), "{both:?}");
        let calm = Row { case: "idle".into(), healthy: true, outcome: Outcome::Right, ..rows[0].clone() };
        let alarm = Row { outcome: Outcome::FalseAlarm, ..calm.clone() };
        assert_eq!(
            summary(&[rows[0].clone(), calm.clone(), alarm, calm])[1],
            "with a fault: 1 of 1 right; on 1 healthy stacks: 2 of 3 right"
        );
        assert!(all_right(&rows) && !all_right(&rows[1..]));
        assert_eq!(
            json(&rows)["totals"],
            json!({"right": 1, "scored": 1, "wrong": 0, "false_alarms": 0, "failed": 0, "skipped": 1})
        );
        assert!(Row::new("x".into(), &truth("tcp"), Outcome::Wrong).judge(&truth("tcp"), &json!({}), false).is_err());
    }

    #[test]
    fn a_candidate_among_three_counts_apart() {
        let candidates = json!([{"cause": "x", "hop": "s1"}, {"cause": "accept-queue-full", "hop": "s2"}]);
        let mut row = Row::new("x".into(), &truth("tcp"), Outcome::Wrong);
        let diagnosis = json!({"verdict": {"cause": "x", "hop": "s1"}, "candidates": candidates});
        row.judge(&truth("tcp"), &diagnosis, false).unwrap();
        assert_eq!((row.outcome, row.top3), (Outcome::Wrong, Some(true)));
    }

    #[test]
    fn a_fault_that_moves_nothing_is_seen() {
        let waiting = |good_per_s: f64, p999_us: f64| Load {
            good_per_s,
            mean_us: 5e5 / good_per_s,
            p99_us: 1e6 / good_per_s,
            p999_us,
        };
        let load = |good_per_s: f64| waiting(good_per_s, 3e6 / good_per_s);
        let pairs = |with: [f64; 4], without: [f64; 4]| with.into_iter().zip(without).map(|(a, b)| (load(a), load(b)));
        let of = |with, without| Achieved::of(&pairs(with, without).collect::<Vec<_>>(), false);
        // The machine gets slower, by as much as the fault costs.
        let healthy = [1000.0, 800.0, 650.0, 500.0];
        let moved = of([500.0, 405.0, 320.0, 252.0], healthy).unwrap();
        assert!(moved.moves && (moved.gain - 1.0).abs() < 0.01, "{moved:?}");
        assert!(moved.half_interval.is_some_and(|half| (0.01..0.05).contains(&half)), "{moved:?}");
        assert!(!of([1002.0, 795.0, 652.0, 499.0], healthy).unwrap().moves);
        assert_eq!(of([0.0; 4], healthy), None);
        let few_wait = healthy.map(|rate| (waiting(rate, 1e6), load(rate)));
        assert!(Achieved::of(&few_wait, false).unwrap().moves, "one request in 200 waits for a second");
    }

    #[test]
    fn at_a_rate_that_is_carried_the_gain_is_of_the_latency() {
        let load = |mean_us: f64| Load { good_per_s: 300.0, mean_us, p99_us: 9e3, p999_us: 9e3 };
        let pairs: Vec<_> = [1.0, 1.01, 0.99].map(|noise| (load(9e3 * noise), load(3e3))).to_vec();
        let [of_latency, of_throughput] = [true, false].map(|at_rate| Achieved::of(&pairs, at_rate).unwrap());
        assert!((of_latency.gain - 2.0).abs() < 0.01 && of_latency.moves, "{of_latency:?}");
        assert_eq!((of_throughput.gain, of_throughput.moves), (0.0, false));
    }
}
