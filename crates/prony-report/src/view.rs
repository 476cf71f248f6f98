//! What a report shows, computed once from a run: the page, the JSON, the Markdown and the terminal all draw from it.
//!
//! It selects and names; it never judges: verdicts, effects and intervals come from the run as they are.
//! Every number that may be missing is an `Option`, so that no page can show a 0 for a fact that was not read.
//! The file is long because it is the published schema, in one place; the sums are in the files beside it.
//! Units stand last in field names; shares go from 0 to 1. Only finite numbers get in.

mod cpu;
mod diagnosis;
mod flames;
mod gates;
pub(crate) mod headline;
mod hops;
mod interventions;
mod latency;
mod limit;
mod load;
mod pages;
pub(crate) mod proof;
mod run;
mod series;
mod stack;

pub use interventions::InterventionView;
pub use pages::{ComparedView, HistoryView, LiveView, RunSummary};

use crate::typed::{Types, view, words};
use flames::FlameView;
use gates::GateView;
use hops::HopView;
use interventions::DoseCurve;
use prony_model::Run;
use series::TimelineView;

/// Schema name of the JSON form; fields only get added.
pub const SCHEMA: &str = "prony.report/1";

words! {
    /// How a figure is meant: as good news, as a warning, as bad news, or neither.
    pub enum Tone {
        /// Good news.
        Good = "good",
        /// Read with care.
        Warn = "warn",
        /// Bad news.
        Bad = "bad",
        /// Neither.
        Plain = "plain",
    }
    /// Where a load stands relative to the knee.
    pub enum LevelName {
        /// About half of the limit.
        Below = "below",
        /// The limit at the workload's concurrency, or the workload's own rate.
        At = "at",
        /// More than the stack carries.
        Beyond = "beyond",
    }
    /// Arm of a proof.
    pub enum ArmName {
        /// As found.
        A = "A",
        /// With the change.
        B = "B",
    }
}

view! {
    /// Everything that a report shows of one run.
    pub struct ReportData {
        /// `prony.report/1`.
        pub schema: String,
        /// Which run this is.
        pub run: RunFacts,
        /// The result in one sentence.
        pub headline: Headline,
        /// What stops the stack; none when nothing was diagnosed.
        pub verdict: Option<VerdictView>,
        /// The way from the symptom to the cause.
        pub walk: Vec<WalkView>,
        /// The chain of evidence, in order.
        pub evidence: Vec<EvidenceView>,
        /// What was changed on purpose to test the verdict.
        pub interventions: Vec<InterventionView>,
        /// Throughput against the dose, for each resource that was given doses.
        pub doses: Vec<DoseCurve>,
        /// Causes that the evidence allows.
        pub candidates: Vec<CandidateView>,
        /// Causes that were ruled out.
        pub excluded: Vec<ExcludedView>,
        /// What is not as in a good run; none when none was named.
        pub against: Option<AgainstView>,
        /// Ways to mend it; the first is the one that prony applies.
        pub remedies: Vec<RemedyView>,
        /// Whether the remedy helped; none when nothing was proven.
        pub proof: Option<ProofView>,
        /// What a search for the limit found; none when nobody searched.
        pub limit: Option<LimitView>,
        /// The load curve.
        pub curve: Vec<CurvePoint>,
        /// Host that `cpu_us_per_request` of the curve belongs to.
        pub curve_cpu_host: Option<String>,
        /// The objective for p99 in microseconds, when the stack has one.
        pub slo_p99_us: Option<f64>,
        /// Latency distributions, merged over trials.
        pub latency: Vec<LatencyCurve>,
        /// CPU of each host at each level.
        pub cpu: Vec<HostCpu>,
        /// What the CPUs of hosts ran, the hop of the verdict first; empty when no profile was taken.
        pub flames: Vec<FlameView>,
        /// The run over time.
        pub timeline: TimelineView,
        /// What was changed on hosts.
        pub changes: Vec<ChangeView>,
        /// What could not be seen.
        pub gaps: Vec<GapView>,
        /// What prony itself cost.
        pub cost: CostView,
        /// Who calls whom.
        pub stack: StackView,
        /// Commands that repeat it.
        pub commands: Vec<CommandView>,
        /// Every trial.
        pub trials: Vec<TrialRow>,
        /// What made trials valid, or not.
        pub gates: Vec<GateView>,
        /// What each host is.
        pub inventory: Vec<HostFacts>,
    }

    /// A step from the symptom to the cause.
    pub struct WalkView {
        /// `symptom`, `path`, `time split`, `counters`, `closely` or `cause`.
        pub step: String,
        /// What a person calls it.
        pub title: String,
        /// What was looked at.
        pub looked_at: String,
        /// What it said, a line each.
        pub said: Vec<String>,
        /// Causes that it ruled out.
        pub ruled_out: Vec<String>,
    }

    /// What is not as in a good run of the same stack.
    pub struct AgainstView {
        /// Id of the good run.
        pub run: String,
        /// The throughput of both in words.
        pub throughput: String,
        /// Settings that differ, each with both values.
        pub settings: Vec<String>,
        /// Facts that moved, the greatest change first.
        pub moved: Vec<MovedView>,
    }

    /// A fact that moved.
    pub struct MovedView {
        /// Which.
        pub metric: String,
        /// Of which host.
        pub host: String,
        /// In the good run.
        pub good: String,
        /// Now.
        pub now: String,
        /// The relative change, with its interval where there is one.
        pub change: String,
    }

    /// Which run this is.
    pub struct RunFacts {
        /// Id of the run.
        pub id: String,
        /// Version of prony.
        pub version: String,
        /// Command line.
        pub command: String,
        /// Start, in UTC.
        pub started: String,
        /// Start in milliseconds since 1970.
        pub started_unix_ms: u64,
        /// Wall time in seconds; none when the run did not reach its end.
        pub wall_s: Option<f64>,
        /// `open`, `done`, `interrupted` or `failed`.
        pub end: String,
        /// What to know about an end that is not `done`.
        pub end_note: Option<String>,
    }

    /// The result in one sentence, and the figures beside it.
    pub struct Headline {
        /// The sentence.
        pub sentence: String,
        /// A second sentence: the proof, or what to know.
        pub support: Option<String>,
        /// How it is meant.
        pub tone: Tone,
        /// Key figures.
        pub figures: Vec<Figure>,
    }

    /// A key figure.
    pub struct Figure {
        /// What it is.
        pub label: String,
        /// Its value as text.
        pub value: String,
        /// What stands below it, like an interval.
        pub note: String,
        /// How it is meant.
        pub tone: Tone,
    }

    /// What stops the stack.
    pub struct VerdictView {
        /// Cause id, `none` or `inconclusive`.
        pub cause: String,
        /// Its title.
        pub title: String,
        /// What it means.
        pub meaning: String,
        /// Host; empty when there is none.
        pub hop: String,
        /// `low`, `medium` or `high`.
        pub confidence: String,
        /// All four tests agree.
        pub grounded: bool,
        /// Relative gain that the remedy is predicted to bring.
        pub predicted_gain: Option<f64>,
        /// Lower end of its 95 % interval; none when no intervention told it.
        pub predicted_gain_low: Option<f64>,
        /// Upper end.
        pub predicted_gain_high: Option<f64>,
        /// What limits, where, and by how much.
        pub summary: String,
        /// The tests of grounding.
        pub grounding: Vec<GroundingView>,
    }

    /// One test of grounding.
    pub struct GroundingView {
        /// `structure`, `deviation`, `order` or `response`.
        pub test: String,
        /// Its title.
        pub title: String,
        /// Whether it holds.
        pub holds: bool,
        /// What was seen.
        pub detail: String,
    }

    /// One link in the chain of evidence.
    pub struct EvidenceView {
        /// What it shows.
        pub claim: String,
        /// Metric or derived quantity.
        pub metric: String,
        /// What the metric is called.
        pub metric_title: String,
        /// Host it was read on.
        pub host: String,
        /// Unit of the numbers.
        pub unit: String,
        /// Value under load.
        pub value: Option<f64>,
        /// The same as text.
        pub value_text: String,
        /// Value below the knee.
        pub baseline: Option<f64>,
        /// The same as text.
        pub baseline_text: Option<String>,
        /// Border between for and against.
        pub threshold: Option<f64>,
        /// The same as text.
        pub threshold_text: Option<String>,
        /// Where the threshold comes from.
        pub origin: String,
        /// True: speaks for the verdict. False: against it.
        pub supports: bool,
    }

    /// A cause that the evidence allows.
    pub struct CandidateView {
        /// Cause id.
        pub cause: String,
        /// Its title.
        pub title: String,
        /// Host.
        pub hop: String,
        /// Share of the limiting time or capacity that it explains.
        pub share: Option<f64>,
        /// The same as text.
        pub share_text: String,
    }

    /// A cause that was ruled out.
    pub struct ExcludedView {
        /// Cause id.
        pub cause: String,
        /// Its title.
        pub title: String,
        /// The fact that rules it out.
        pub because: String,
    }

    /// A way to mend it.
    pub struct RemedyView {
        /// What to do.
        pub advice: String,
        /// `NAME=VALUE at HOST`, when prony can turn it.
        pub knob: Option<String>,
    }

    /// Whether B is different from A.
    pub struct ProofView {
        /// What B turned, in words; none for an A/A run.
        pub change: Option<String>,
        /// `better`, `worse`, `no-difference`, `guard-broken` or `inconclusive`.
        pub verdict: String,
        /// The same in words.
        pub verdict_title: String,
        /// How it is meant.
        pub tone: Tone,
        /// What was proven.
        pub summary: String,
        /// Effect on throughput; at a rate that is carried, on the speed of answers.
        pub effect: EffectView,
        /// Guards.
        pub guards: Vec<EffectView>,
        /// Gain predicted before the proof.
        pub predicted_gain: Option<f64>,
        /// Prediction against measurement, in words.
        pub prediction: Option<String>,
        /// What the verdict is worth on this machine, and why, in words.
        pub worth: Option<String>,
        /// How that is meant.
        pub worth_tone: Tone,
        /// What the effect is of, of each trial in the order it ran.
        pub trials: Vec<ProofTrial>,
        /// Seed of the order.
        pub seed: String,
    }

    /// An effect with its interval; relative numbers.
    pub struct EffectView {
        /// Metric id.
        pub metric: String,
        /// What it is called.
        pub title: String,
        /// A as text.
        pub a_text: String,
        /// B as text.
        pub b_text: String,
        /// Relative effect.
        pub effect: Option<f64>,
        /// Lower end of the 95 % interval.
        pub low: Option<f64>,
        /// Upper end.
        pub high: Option<f64>,
        /// Effect and interval as text.
        pub text: String,
        /// Smallest effect that would have been found.
        pub detectable: Option<f64>,
        /// p-value of the sign permutation test.
        pub p: Option<f64>,
        /// Pairs.
        pub pairs: u32,
        /// How much worse a guard may get; none for the main effect.
        pub margin: Option<f64>,
        /// How a guard ended, in words; empty for the main effect.
        pub state: String,
        /// How it is meant.
        pub tone: Tone,
    }

    /// One trial of a proof.
    pub struct ProofTrial {
        /// Which configuration.
        pub arm: ArmName,
        /// Good requests per second; at a rate that is carried 1 / mean latency, per second.
        pub per_s: Option<f64>,
    }

    /// What a search for the limit found.
    pub struct LimitView {
        /// How it ended: `found`, `wide`, `nothing-holds`, `generator-limited`, `unsteady`, `died`, `flapping`,
        /// `nothing-served`, `open`.
        pub verdict: String,
        /// How that is meant.
        pub tone: Tone,
        /// The result in a sentence or two.
        pub sentence: String,
        /// The answers, each with its interval.
        pub answers: Vec<LimitAnswerView>,
        /// Everything else that was found, a line each: knee, growth, overload, trials.
        pub notes: Vec<LimitNote>,
        /// The load curve: closed loop by connections, then open loop by rate.
        pub curve: Vec<LimitPoint>,
        /// Hosts of which `cpu_us_per_request` was read, in its order.
        pub cpu_hosts: Vec<String>,
        /// Values of an axis that was searched.
        pub axis: Vec<LimitAxisPoint>,
        /// Name of that axis, and what its values were held against.
        pub axis_title: String,
        /// How the search came to its answers: a list for each, in their order.
        pub steps: Vec<Vec<LimitStepView>>,
        /// Limit of p99 in the objective, in microseconds.
        pub slo_p99_us: Option<f64>,
        /// Good requests per second at the knee.
        pub knee_per_s: Option<f64>,
    }

    /// One trial of the search for an answer.
    pub struct LimitStepView {
        /// Number of the trial.
        pub trial: u32,
        /// What it was for, and its load, in words.
        pub text: String,
        /// Requests per second: asked for in open loop, good ones in closed loop.
        pub per_s: Option<f64>,
        /// Whether the objective held; none in closed loop.
        pub held: Option<bool>,
        /// Whether it counts.
        pub counts: bool,
        /// Lower end of the interval after it.
        pub low_per_s: Option<f64>,
        /// Upper end.
        pub high_per_s: Option<f64>,
    }

    /// One answer of a search for the limit.
    pub struct LimitAnswerView {
        /// What it answers.
        pub label: String,
        /// The estimate as text.
        pub value: String,
        /// The interval as text.
        pub interval: String,
        /// Where it was confirmed, after how many trials, how long that took.
        pub note: String,
        /// The estimate.
        pub estimate_per_s: Option<f64>,
        /// Lower end.
        pub low_per_s: Option<f64>,
        /// Upper end.
        pub high_per_s: Option<f64>,
    }

    /// One more thing that a search for the limit found.
    pub struct LimitNote {
        /// What it is about.
        pub label: String,
        /// What was found.
        pub text: String,
        /// How it is meant.
        pub tone: Tone,
    }

    /// All trials at one load.
    pub struct LimitPoint {
        /// The load in words.
        pub load: String,
        /// Connections.
        pub connections: u32,
        /// Rate asked for in open loop.
        pub rate_per_s: Option<f64>,
        /// Trials.
        pub trials: u32,
        /// Good requests per second.
        pub good_per_s: Option<f64>,
        /// Median latency.
        pub p50_us: Option<f64>,
        /// 90th percentile.
        pub p90_us: Option<f64>,
        /// 99th percentile.
        pub p99_us: Option<f64>,
        /// 99.9th percentile.
        pub p999_us: Option<f64>,
        /// Share of failed requests.
        pub error_share: f64,
        /// CPU time per request of each of `cpu_hosts`, as text.
        pub cpu_us_per_request: Vec<String>,
        /// Why the figure is a lower bound; empty when it is not.
        pub note: String,
    }

    /// Trials at one value of an axis.
    pub struct LimitAxisPoint {
        /// The value.
        pub value: u64,
        /// In how many trials the condition held, of how many, as text; empty when there was no condition.
        pub held: String,
        /// What was measured, as text.
        pub measured: String,
        /// Good requests per second.
        pub good_per_s: Option<f64>,
        /// Why the figure is a lower bound; empty when it is not.
        pub note: String,
    }

    /// One load and what came back.
    pub struct CurvePoint {
        /// Number of the trial.
        pub trial: u32,
        /// Where it stands, when it is one of the three levels.
        pub level: Option<LevelName>,
        /// A few words.
        pub label: String,
        /// Connections.
        pub connections: u32,
        /// Rate asked for in open loop.
        pub rate_per_s: Option<f64>,
        /// Good requests per second.
        pub good_per_s: Option<f64>,
        /// Median latency.
        pub p50_us: Option<f64>,
        /// 99th percentile.
        pub p99_us: Option<f64>,
        /// Share of failed requests.
        pub error_share: Option<f64>,
        /// CPU time per request of `curve_cpu_host`.
        pub cpu_us_per_request: Option<f64>,
        /// Why the figure is a lower bound or not valid; empty when it is valid.
        pub note: String,
    }

    /// A latency distribution.
    pub struct LatencyCurve {
        /// What it is of.
        pub name: String,
        /// `at`, `a` or `b`.
        pub kind: String,
        /// Number of requests.
        pub count: u64,
        /// Points in order of quantile.
        pub points: Vec<LatencyPoint>,
        /// The usual percentiles as text, in the order of p50, p75, p90, p99, p99.9, p99.99, max.
        pub usual: Vec<String>,
    }

    /// One point of a distribution.
    pub struct LatencyPoint {
        /// Quantile from 0 to 1.
        pub quantile: f64,
        /// Latency in microseconds.
        pub latency_us: f64,
    }

    /// CPU of one host.
    pub struct HostCpu {
        /// Host.
        pub host: String,
        /// Which CPUs, as a list; empty: all of the machine.
        pub cpus: String,
        /// Number of CPUs that the shares are of.
        pub cpu_count: u32,
        /// At each level.
        pub levels: Vec<CpuLevel>,
    }

    /// CPU of one host at one level, as shares of its CPUs.
    pub struct CpuLevel {
        /// Which level, in words.
        pub label: String,
        /// User space.
        pub user: f64,
        /// Niced processes.
        pub nice: f64,
        /// Kernel.
        pub system: f64,
        /// Soft interrupts.
        pub softirq: f64,
        /// Hard interrupts.
        pub irq: f64,
        /// Taken by other guests.
        pub steal: f64,
        /// Idle with a disk busy.
        pub iowait: f64,
        /// Idle.
        pub idle: f64,
        /// CPUs that the hop's own processes used; none when they could not be read.
        pub hop_cpus: Option<f64>,
        /// CPU time of the hop's own processes per request.
        pub hop_us_per_request: Option<f64>,
    }

    /// A change that was made to a host.
    pub struct ChangeView {
        /// Host.
        pub host: String,
        /// Knob and value, as for `--knob`.
        pub knob: String,
        /// What the knob is.
        pub title: String,
        /// Value before.
        pub before: String,
        /// Value set.
        pub after: String,
        /// How it ended, in words.
        pub state: String,
        /// How it is meant.
        pub tone: Tone,
        /// The change itself.
        pub diff: String,
        /// What makes it permanent.
        pub permanent: String,
    }

    /// Facts that could not be read, for one reason, on one host or several.
    pub struct GapView {
        /// Hosts; empty: the whole run.
        pub host: String,
        /// Which facts.
        pub facts: Vec<String>,
        /// Why.
        pub reason: String,
    }

    /// What prony itself cost.
    pub struct CostView {
        /// CPU time of the generator per request.
        pub generator_cpu_us_per_request: Option<f64>,
        /// Per host.
        pub hosts: Vec<HostCostView>,
    }

    /// What prony cost on one host.
    pub struct HostCostView {
        /// Host.
        pub host: String,
        /// Share of one CPU that observing took.
        pub observe_cpu_share: Option<f64>,
        /// CPU time of the host's own processes per request.
        pub cpu_us_per_request: Option<f64>,
    }

    /// Who calls whom.
    pub struct StackView {
        /// Name of the stack.
        pub name: String,
        /// Entry URL.
        pub entry: String,
        /// The workload in words.
        pub workload: String,
        /// The objective in words; empty when there is none.
        pub objective: String,
        /// Hosts.
        pub nodes: Vec<StackNode>,
    }

    /// A host in the drawing.
    pub struct StackNode {
        /// Name.
        pub name: String,
        /// What it does and what runs there.
        pub role: String,
        /// Where it is and on which CPUs.
        pub place: String,
        /// Column: 0 for the generator.
        pub depth: u32,
        /// Whom it calls.
        pub calls: Vec<String>,
        /// Whether the verdict names it.
        pub limits: bool,
        /// Whether facts of it were read.
        pub observed: bool,
        /// Where its time goes and what is fullest there; none when nothing was read under load.
        pub hop: Option<HopView>,
    }

    /// A command that repeats something.
    pub struct CommandView {
        /// What it repeats.
        pub what: String,
        /// The command.
        pub command: String,
    }

    /// One trial.
    pub struct TrialRow {
        /// Its number.
        pub id: u32,
        /// What it was for.
        pub purpose: String,
        /// Seconds since the start of the run.
        pub at_s: f64,
        /// Counted time.
        pub duration_s: f64,
        /// Connections.
        pub connections: u32,
        /// Rate asked for in open loop.
        pub rate_per_s: Option<f64>,
        /// Good requests per second.
        pub good_per_s: Option<f64>,
        /// Median latency.
        pub p50_us: Option<f64>,
        /// 99th percentile.
        pub p99_us: Option<f64>,
        /// Failed requests.
        pub errors: u64,
        /// CPU time of the generator per request.
        pub generator_us_per_request: Option<f64>,
        /// Gates that did not hold; empty when the trial is valid.
        pub note: String,
    }

    /// What one host is.
    pub struct HostFacts {
        /// Host.
        pub host: String,
        /// Facts in order of name.
        pub facts: Vec<Fact>,
    }

    /// One fact.
    pub struct Fact {
        /// Name.
        pub name: String,
        /// Value.
        pub value: String,
    }
}

impl ReportData {
    /// Everything that a report shows of `run`.
    pub fn of(run: &Run) -> Self {
        Self::made(run, None)
    }

    /// The same, with the CPU profiles held against those of an earlier run.
    pub fn after(run: &Run, before: &Run) -> Self {
        Self::made(run, Some(before))
    }

    fn made(run: &Run, before: Option<&Run>) -> Self {
        let verdict = diagnosis::verdict(run);
        let curve_cpu_host = load::cpu_host(run);
        Self {
            schema: SCHEMA.to_string(),
            run: run::facts(run),
            headline: headline::of(run),
            walk: diagnosis::walk(run),
            evidence: diagnosis::evidence(run),
            interventions: interventions::interventions(run),
            doses: interventions::doses(run),
            candidates: diagnosis::candidates(run),
            excluded: diagnosis::excluded(run),
            against: diagnosis::against(run),
            remedies: diagnosis::remedies(run),
            proof: run.proof.as_ref().map(proof::of),
            limit: run.limit.as_ref().map(|limit| limit::of(run, limit)),
            curve: load::curve(run, curve_cpu_host.as_deref()),
            curve_cpu_host,
            slo_p99_us: run.stack.slo.as_ref().and_then(|slo| slo.p99).map(prony_model::Nanos::as_us_f64),
            latency: latency::curves(run),
            cpu: cpu::hosts(run),
            flames: flames::flames(run, before),
            timeline: series::of(run),
            changes: proof::changes(run),
            gaps: diagnosis::gaps(run),
            cost: cpu::cost(run),
            stack: stack::of(run),
            commands: stack::commands(run),
            trials: load::trials(run),
            gates: gates::gates(run),
            inventory: stack::inventory(run),
            verdict,
        }
    }
}

/// Every type above and beside it.
pub(crate) fn declare(types: &mut Types) {
    declare_words(types);
    declare_structs(types);
    flames::declare_structs(types);
    gates::declare_structs(types);
    hops::declare_structs(types);
    interventions::declare_structs(types);
    series::declare(types);
    pages::declare(types);
}

/// The number, if it is one.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// The number, if it is one and not the 0 that stands where nothing was measured.
fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}
