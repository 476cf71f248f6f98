//! Which trials of recorded runs may be held against each other: those of the same purpose and the same load.
//!
//! It compares no figures. Invariant: a trial that ran with something changed (the B of an intervention or of a proof) and a
//! trial that is not scored stand for nothing here.

use crate::paired::Failures;
use prony_model::comparison::ComparedMetric;
use prony_model::run::Arm;
use prony_model::{Level, LoadPlan, LoadResult, Nanos, Purpose, Run, Trial};

/// Rates that differ by less than this are one load: a rate is printed with four digits. Derived rates (half of the limit)
/// differ by more between runs, and latencies at different rates cannot be compared.
const RATE_TOLERANCE: f64 = 0.005;

/// The numbers that one trial gives to statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seen {
    /// Good requests per second.
    pub rps: f64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    /// Requests that failed, of those that ended.
    pub failures: Failures,
    /// CPU time of the entry host's processes per request in microseconds; none when it was not read.
    pub cpu_us: Option<f64>,
    /// What a piece of the yardstick's work took meanwhile, in microseconds; none when it was not measured.
    pub piece_us: Option<f64>,
    /// The generator was the limit.
    pub generator_limited: bool,
    /// Every validity gate held: it was steady, for one.
    pub valid: bool,
}

impl Seen {
    /// Of a trial within its run; CPU time is that of the first host of the path, and the speed that of the host that a proof turned
    /// something at, else of the same.
    pub fn of(run: &Run, trial: &Trial) -> Self {
        let first = run.stack.path().first().copied();
        let turned = run.proof.as_ref().and_then(|proof| Some(proof.knob.as_ref()?.host.as_str()));
        let cpu_us = first.and_then(|host| run.cpu_us_per_request(host, trial));
        let LoadResult { errors, completed, good_per_s, latency, .. } = &trial.result;
        let total = completed + (errors.total() - errors.status);
        Self {
            rps: *good_per_s,
            p50_us: latency.p50_us,
            p99_us: latency.p99_us,
            failures: Failures { errors: errors.total(), total },
            cpu_us,
            piece_us: turned.or(first).and_then(|host| run.piece_us(host, trial.window)),
            generator_limited: trial.result.generator_limited(),
            valid: trial.result.is_valid(),
        }
    }

    /// A positive quantity, for ratios; none when it is not there, or is the share of errors.
    pub fn ratio(&self, metric: ComparedMetric) -> Option<f64> {
        let value = match metric {
            ComparedMetric::Rps => Some(self.rps),
            ComparedMetric::P50 => Some(self.p50_us),
            ComparedMetric::P99 => Some(self.p99_us),
            ComparedMetric::Cpu => self.cpu_us,
            ComparedMetric::Errors => None,
        };
        value.filter(|v| v.is_finite() && *v > 0.0)
    }
}

/// All trials of a run that have one purpose and one load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadGroup {
    purpose: &'static str,
    /// What is sent, without what does not matter to the server.
    workload: LoadPlan,
    rate_per_s: Option<f64>,
    /// Their numbers, in order of time.
    pub trials: Vec<Seen>,
}

impl LoadGroup {
    /// Whether the load of two groups is the same.
    pub fn matches(&self, other: &Self) -> bool {
        let rates = match (self.rate_per_s, other.rate_per_s) {
            (Some(a), Some(b)) => (a - b).abs() <= RATE_TOLERANCE * a.max(b),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        rates && self.purpose == other.purpose && self.workload == other.workload
    }

    /// Closed loop: connections ask as fast as answers come, so that throughput says what the stack carries.
    pub fn is_closed(&self) -> bool {
        self.rate_per_s.is_none() && self.workload.profile.is_none()
    }

    /// Purpose and load, like `at the limit, 64 connections`.
    pub fn label(&self) -> String {
        let rate = self.rate_per_s.map(|r| format!(", {r:.0}/s")).unwrap_or_default();
        format!("{}, {} connections{rate}", self.purpose, self.workload.connections)
    }

    /// What is asked for, in words: tells workloads apart that have the same label.
    pub fn request(&self) -> String {
        let plan = &self.workload;
        if plan.script.is_some() {
            return "a scenario".to_string();
        }
        match plan.requests.as_slice() {
            [] => format!("{} {}", plan.method, plan.url),
            [one] => format!("{} {}", one.method.as_deref().unwrap_or(&plan.method), one.path),
            many => format!("{} kinds of requests", many.len()),
        }
    }

    /// What is not the same in two workloads, in words; empty when they are equal.
    pub fn differs(&self, other: &Self) -> Vec<&'static str> {
        let (a, b) = (&self.workload, &other.workload);
        let parts = [
            ("the path, method, body or scenario", {
                let asked = |p: &LoadPlan| {
                    (p.url.clone(), p.method.clone(), p.body.clone(), p.requests.clone(), p.script.clone())
                };
                asked(a) != asked(b)
            }),
            ("the headers", a.headers != b.headers),
            ("the protocol", (a.protocol, a.depth) != (b.protocol, b.depth)),
            (
                "how connections are kept",
                (a.keepalive, a.requests_per_connection) != (b.keepalive, b.requests_per_connection),
            ),
            ("the arrivals", (a.arrivals, &a.profile) != (b.arrivals, &b.profile)),
        ];
        let named: Vec<&str> = parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect();
        if named.is_empty() && a != b { vec!["settings of the load"] } else { named }
    }

    /// Geometric mean of a metric over the trials, of errors the share of all requests; none when a trial lacks it.
    pub fn mean(&self, metric: ComparedMetric) -> Option<f64> {
        if metric == ComparedMetric::Errors {
            let all = crate::paired::pooled(self.trials.iter().map(|t| &t.failures));
            return (all.total > 0).then(|| all.errors.min(all.total) as f64 / all.total as f64);
        }
        let logs: Option<Vec<f64>> = self.trials.iter().map(|t| Some(t.ratio(metric)?.ln())).collect();
        logs.filter(|l| !l.is_empty()).map(|logs| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }
}

/// The scored trials of a run in groups of one purpose and load, in the order in which each was run first.
pub fn groups(run: &Run) -> Vec<LoadGroup> {
    let mut groups: Vec<LoadGroup> = Vec::new();
    for trial in run.trials.iter().filter(|t| !t.result.interrupted) {
        let Some(purpose) = as_found(&trial.purpose) else { continue };
        let rate_per_s = trial.plan.rate.map(|r| r.0);
        let trials = vec![Seen::of(run, trial)];
        let group = LoadGroup { purpose, workload: workload(&trial.plan), rate_per_s, trials };
        match groups.iter_mut().find(|g| g.matches(&group)) {
            Some(known) => known.trials.extend(group.trials),
            None => groups.push(group),
        }
    }
    groups
}

/// What a trial was for, if it was scored and nothing was changed.
fn as_found(purpose: &Purpose) -> Option<&'static str> {
    match purpose {
        Purpose::Level { level: Level::At } => Some("at the limit"),
        Purpose::Level { level: Level::Below } => Some("below the knee"),
        Purpose::Level { level: Level::Beyond } => Some("beyond the knee"),
        Purpose::Intervention { arm: Arm::A, .. } => Some("as found, between interventions"),
        Purpose::Proof { arm: Arm::A, .. } => Some("as found, in the blocks of a proof"),
        Purpose::Curve => Some("load curve"),
        Purpose::Load => Some("load"),
        Purpose::Warmup
        | Purpose::Inspect
        | Purpose::Cell { .. }
        | Purpose::Intervention { arm: Arm::B, .. }
        | Purpose::Proof { arm: Arm::B, .. } => None,
    }
}

/// A plan without what differs between runs of the same workload: addresses, durations, seeds, the generator's own threads.
fn workload(plan: &LoadPlan) -> LoadPlan {
    let (scheme, rest) = plan.url.split_once("://").unwrap_or(("http", &plan.url));
    let path = rest.find('/').map_or("/", |at| &rest[at..]);
    LoadPlan {
        url: format!("{scheme}:{path}"),
        connect_to: Vec::new(),
        sources: Vec::new(),
        transport: None,
        threads: 0,
        cpus: Vec::new(),
        rate: None,
        warmup: Nanos(0),
        duration: Nanos(0),
        intervals: false,
        seed: 0,
        ..plan.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{Rate, Window};

    fn trial(purpose: Purpose, plan: LoadPlan, good_per_s: f64) -> Trial {
        let result = LoadResult { good_per_s, completed: 1000, ..LoadResult::default() };
        Trial { id: 0, purpose, plan, window: Window::default(), result }
    }

    fn labels(trials: Vec<Trial>) -> Vec<String> {
        groups(&Run { trials, ..Run::default() }).iter().map(|g| format!("{} x{}", g.label(), g.trials.len())).collect()
    }

    #[test]
    fn trials_are_grouped_by_purpose_and_load() {
        let plan =
            |host: &str, rate: Option<f64>| LoadPlan { rate: rate.map(Rate), connections: 8, ..LoadPlan::to(host) };
        let b = Purpose::Proof { block: 0, arm: Arm::B };
        let seen = labels(vec![
            trial(Purpose::Warmup, plan("http://a/1", None), 1.0),
            trial(Purpose::Load, plan("http://a/1", None), 1.0),
            trial(Purpose::Load, LoadPlan { seed: 9, threads: 4, ..plan("http://b:81/1", None) }, 2.0),
            trial(Purpose::Load, plan("http://a/2", None), 1.0),
            trial(Purpose::Curve, plan("http://a/1", Some(1000.0)), 1.0),
            trial(Purpose::Curve, plan("http://a/1", Some(1001.0)), 1.0),
            trial(Purpose::Curve, plan("http://a/1", Some(1100.0)), 1.0),
            trial(b, plan("http://a/1", None), 1.0),
        ]);
        let of =
            |plan: LoadPlan| groups(&Run { trials: vec![trial(Purpose::Load, plan, 1.0)], ..Run::default() }).remove(0);
        let (one, gzip) = (LoadPlan::to("http://a/"), vec![("Accept-Encoding".to_string(), "gzip".to_string())]);
        let other = LoadPlan { headers: gzip, timeout: Nanos(5), ..one.clone() };
        assert_eq!(of(one.clone()).differs(&of(other)), ["the headers"]);
        assert_eq!(
            of(one.clone()).differs(&of(LoadPlan { timeout: Nanos(5), ..one.clone() })),
            ["settings of the load"]
        );
        assert_eq!(of(one.clone()).differs(&of(one)), [""; 0]);
        assert_eq!(
            seen,
            [
                "load, 8 connections x2",
                "load, 8 connections x1",
                "load curve, 8 connections, 1000/s x2",
                "load curve, 8 connections, 1100/s x1"
            ]
        );
    }

    #[test]
    fn a_mean_needs_every_trial() {
        let plan = || LoadPlan::to("http://a/");
        let run = Run {
            trials: vec![trial(Purpose::Load, plan(), 1.0), trial(Purpose::Load, plan(), 4.0)],
            ..Run::default()
        };
        let group = &groups(&run)[0];
        assert!((group.mean(ComparedMetric::Rps).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(group.mean(ComparedMetric::Errors), Some(0.0));
        assert_eq!((group.mean(ComparedMetric::P99), group.mean(ComparedMetric::Cpu)), (None, None));
    }
}
