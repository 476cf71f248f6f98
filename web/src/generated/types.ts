// Generated from crates/prony-report/src/view.rs by `cargo xtask codegen`. Do not edit.

/** How a figure is meant: as good news, as a warning, as bad news, or neither. */
export type Tone = "good" | "warn" | "bad" | "plain";

/** Where a load stands relative to the knee. */
export type LevelName = "below" | "at" | "beyond";

/** Arm of a proof. */
export type ArmName = "A" | "B";

/** Everything that a report shows of one run. */
export interface ReportData {
  /** `prony.report/1`. */
  schema: string;
  /** Which run this is. */
  run: RunFacts;
  /** The result in one sentence. */
  headline: Headline;
  /** What stops the stack; none when nothing was diagnosed. */
  verdict: VerdictView | null;
  /** The way from the symptom to the cause. */
  walk: WalkView[];
  /** The chain of evidence, in order. */
  evidence: EvidenceView[];
  /** What was changed on purpose to test the verdict. */
  interventions: InterventionView[];
  /** Throughput against the dose, for each resource that was given doses. */
  doses: DoseCurve[];
  /** Causes that the evidence allows. */
  candidates: CandidateView[];
  /** Causes that were ruled out. */
  excluded: ExcludedView[];
  /** What is not as in a good run; none when none was named. */
  against: AgainstView | null;
  /** Ways to mend it; the first is the one that prony applies. */
  remedies: RemedyView[];
  /** Whether the remedy helped; none when nothing was proven. */
  proof: ProofView | null;
  /** What a search for the limit found; none when nobody searched. */
  limit: LimitView | null;
  /** The load curve. */
  curve: CurvePoint[];
  /** Host that `cpu_us_per_request` of the curve belongs to. */
  curve_cpu_host: string | null;
  /** The objective for p99 in microseconds, when the stack has one. */
  slo_p99_us: number | null;
  /** Latency distributions, merged over trials. */
  latency: LatencyCurve[];
  /** CPU of each host at each level. */
  cpu: HostCpu[];
  /** What the CPUs of hosts ran, the hop of the verdict first; empty when no profile was taken. */
  flames: FlameView[];
  /** The run over time. */
  timeline: TimelineView;
  /** What was changed on hosts. */
  changes: ChangeView[];
  /** What could not be seen. */
  gaps: GapView[];
  /** What prony itself cost. */
  cost: CostView;
  /** Who calls whom. */
  stack: StackView;
  /** Commands that repeat it. */
  commands: CommandView[];
  /** Every trial. */
  trials: TrialRow[];
  /** What made trials valid, or not. */
  gates: GateView[];
  /** What each host is. */
  inventory: HostFacts[];
}

/** A step from the symptom to the cause. */
export interface WalkView {
  /** `symptom`, `path`, `time split`, `counters`, `closely` or `cause`. */
  step: string;
  /** What a person calls it. */
  title: string;
  /** What was looked at. */
  looked_at: string;
  /** What it said, a line each. */
  said: string[];
  /** Causes that it ruled out. */
  ruled_out: string[];
}

/** What is not as in a good run of the same stack. */
export interface AgainstView {
  /** Id of the good run. */
  run: string;
  /** The throughput of both in words. */
  throughput: string;
  /** Settings that differ, each with both values. */
  settings: string[];
  /** Facts that moved, the greatest change first. */
  moved: MovedView[];
}

/** A fact that moved. */
export interface MovedView {
  /** Which. */
  metric: string;
  /** Of which host. */
  host: string;
  /** In the good run. */
  good: string;
  /** Now. */
  now: string;
  /** The relative change, with its interval where there is one. */
  change: string;
}

/** Which run this is. */
export interface RunFacts {
  /** Id of the run. */
  id: string;
  /** Version of prony. */
  version: string;
  /** Command line. */
  command: string;
  /** Start, in UTC. */
  started: string;
  /** Start in milliseconds since 1970. */
  started_unix_ms: number;
  /** Wall time in seconds; none when the run did not reach its end. */
  wall_s: number | null;
  /** `open`, `done`, `interrupted` or `failed`. */
  end: string;
  /** What to know about an end that is not `done`. */
  end_note: string | null;
}

/** The result in one sentence, and the figures beside it. */
export interface Headline {
  /** The sentence. */
  sentence: string;
  /** A second sentence: the proof, or what to know. */
  support: string | null;
  /** How it is meant. */
  tone: Tone;
  /** Key figures. */
  figures: Figure[];
}

/** A key figure. */
export interface Figure {
  /** What it is. */
  label: string;
  /** Its value as text. */
  value: string;
  /** What stands below it, like an interval. */
  note: string;
  /** How it is meant. */
  tone: Tone;
}

/** What stops the stack. */
export interface VerdictView {
  /** Cause id, `none` or `inconclusive`. */
  cause: string;
  /** Its title. */
  title: string;
  /** What it means. */
  meaning: string;
  /** Host; empty when there is none. */
  hop: string;
  /** `low`, `medium` or `high`. */
  confidence: string;
  /** All four tests agree. */
  grounded: boolean;
  /** Relative gain that the remedy is predicted to bring. */
  predicted_gain: number | null;
  /** Lower end of its 95 % interval; none when no intervention told it. */
  predicted_gain_low: number | null;
  /** Upper end. */
  predicted_gain_high: number | null;
  /** What limits, where, and by how much. */
  summary: string;
  /** The tests of grounding. */
  grounding: GroundingView[];
}

/** One test of grounding. */
export interface GroundingView {
  /** `structure`, `deviation`, `order` or `response`. */
  test: string;
  /** Its title. */
  title: string;
  /** Whether it holds. */
  holds: boolean;
  /** What was seen. */
  detail: string;
}

/** One link in the chain of evidence. */
export interface EvidenceView {
  /** What it shows. */
  claim: string;
  /** Metric or derived quantity. */
  metric: string;
  /** What the metric is called. */
  metric_title: string;
  /** Host it was read on. */
  host: string;
  /** Unit of the numbers. */
  unit: string;
  /** Value under load. */
  value: number | null;
  /** The same as text. */
  value_text: string;
  /** Value below the knee. */
  baseline: number | null;
  /** The same as text. */
  baseline_text: string | null;
  /** Border between for and against. */
  threshold: number | null;
  /** The same as text. */
  threshold_text: string | null;
  /** Where the threshold comes from. */
  origin: string;
  /** True: speaks for the verdict. False: against it. */
  supports: boolean;
}

/** A cause that the evidence allows. */
export interface CandidateView {
  /** Cause id. */
  cause: string;
  /** Its title. */
  title: string;
  /** Host. */
  hop: string;
  /** Share of the limiting time or capacity that it explains. */
  share: number | null;
  /** The same as text. */
  share_text: string;
}

/** A cause that was ruled out. */
export interface ExcludedView {
  /** Cause id. */
  cause: string;
  /** Its title. */
  title: string;
  /** The fact that rules it out. */
  because: string;
}

/** A way to mend it. */
export interface RemedyView {
  /** What to do. */
  advice: string;
  /** `NAME=VALUE at HOST`, when prony can turn it. */
  knob: string | null;
}

/** Whether B is different from A. */
export interface ProofView {
  /** What B turned, in words; none for an A/A run. */
  change: string | null;
  /** `better`, `worse`, `no-difference`, `guard-broken` or `inconclusive`. */
  verdict: string;
  /** The same in words. */
  verdict_title: string;
  /** How it is meant. */
  tone: Tone;
  /** What was proven. */
  summary: string;
  /** Effect on throughput; at a rate that is carried, on the speed of answers. */
  effect: EffectView;
  /** Guards. */
  guards: EffectView[];
  /** Gain predicted before the proof. */
  predicted_gain: number | null;
  /** Prediction against measurement, in words. */
  prediction: string | null;
  /** What the verdict is worth on this machine, and why, in words. */
  worth: string | null;
  /** How that is meant. */
  worth_tone: Tone;
  /** What the effect is of, of each trial in the order it ran. */
  trials: ProofTrial[];
  /** Seed of the order. */
  seed: string;
}

/** An effect with its interval; relative numbers. */
export interface EffectView {
  /** Metric id. */
  metric: string;
  /** What it is called. */
  title: string;
  /** A as text. */
  a_text: string;
  /** B as text. */
  b_text: string;
  /** Relative effect. */
  effect: number | null;
  /** Lower end of the 95 % interval. */
  low: number | null;
  /** Upper end. */
  high: number | null;
  /** Effect and interval as text. */
  text: string;
  /** Smallest effect that would have been found. */
  detectable: number | null;
  /** p-value of the sign permutation test. */
  p: number | null;
  /** Pairs. */
  pairs: number;
  /** How much worse a guard may get; none for the main effect. */
  margin: number | null;
  /** How a guard ended, in words; empty for the main effect. */
  state: string;
  /** How it is meant. */
  tone: Tone;
}

/** One trial of a proof. */
export interface ProofTrial {
  /** Which configuration. */
  arm: ArmName;
  /** Good requests per second; at a rate that is carried 1 / mean latency, per second. */
  per_s: number | null;
}

/** What a search for the limit found. */
export interface LimitView {
  /** How it ended: `found`, `wide`, `nothing-holds`, `generator-limited`, `unsteady`, `died`, `flapping`, `nothing-served`, `open`. */
  verdict: string;
  /** How that is meant. */
  tone: Tone;
  /** The result in a sentence or two. */
  sentence: string;
  /** The answers, each with its interval. */
  answers: LimitAnswerView[];
  /** Everything else that was found, a line each: knee, growth, overload, trials. */
  notes: LimitNote[];
  /** The load curve: closed loop by connections, then open loop by rate. */
  curve: LimitPoint[];
  /** Hosts of which `cpu_us_per_request` was read, in its order. */
  cpu_hosts: string[];
  /** Values of an axis that was searched. */
  axis: LimitAxisPoint[];
  /** Name of that axis, and what its values were held against. */
  axis_title: string;
  /** How the search came to its answers: a list for each, in their order. */
  steps: LimitStepView[][];
  /** Limit of p99 in the objective, in microseconds. */
  slo_p99_us: number | null;
  /** Good requests per second at the knee. */
  knee_per_s: number | null;
}

/** One trial of the search for an answer. */
export interface LimitStepView {
  /** Number of the trial. */
  trial: number;
  /** What it was for, and its load, in words. */
  text: string;
  /** Requests per second: asked for in open loop, good ones in closed loop. */
  per_s: number | null;
  /** Whether the objective held; none in closed loop. */
  held: boolean | null;
  /** Whether it counts. */
  counts: boolean;
  /** Lower end of the interval after it. */
  low_per_s: number | null;
  /** Upper end. */
  high_per_s: number | null;
}

/** One answer of a search for the limit. */
export interface LimitAnswerView {
  /** What it answers. */
  label: string;
  /** The estimate as text. */
  value: string;
  /** The interval as text. */
  interval: string;
  /** Where it was confirmed, after how many trials, how long that took. */
  note: string;
  /** The estimate. */
  estimate_per_s: number | null;
  /** Lower end. */
  low_per_s: number | null;
  /** Upper end. */
  high_per_s: number | null;
}

/** One more thing that a search for the limit found. */
export interface LimitNote {
  /** What it is about. */
  label: string;
  /** What was found. */
  text: string;
  /** How it is meant. */
  tone: Tone;
}

/** All trials at one load. */
export interface LimitPoint {
  /** The load in words. */
  load: string;
  /** Connections. */
  connections: number;
  /** Rate asked for in open loop. */
  rate_per_s: number | null;
  /** Trials. */
  trials: number;
  /** Good requests per second. */
  good_per_s: number | null;
  /** Median latency. */
  p50_us: number | null;
  /** 90th percentile. */
  p90_us: number | null;
  /** 99th percentile. */
  p99_us: number | null;
  /** 99.9th percentile. */
  p999_us: number | null;
  /** Share of failed requests. */
  error_share: number;
  /** CPU time per request of each of `cpu_hosts`, as text. */
  cpu_us_per_request: string[];
  /** Why the figure is a lower bound; empty when it is not. */
  note: string;
}

/** Trials at one value of an axis. */
export interface LimitAxisPoint {
  /** The value. */
  value: number;
  /** In how many trials the condition held, of how many, as text; empty when there was no condition. */
  held: string;
  /** What was measured, as text. */
  measured: string;
  /** Good requests per second. */
  good_per_s: number | null;
  /** Why the figure is a lower bound; empty when it is not. */
  note: string;
}

/** One load and what came back. */
export interface CurvePoint {
  /** Number of the trial. */
  trial: number;
  /** Where it stands, when it is one of the three levels. */
  level: LevelName | null;
  /** A few words. */
  label: string;
  /** Connections. */
  connections: number;
  /** Rate asked for in open loop. */
  rate_per_s: number | null;
  /** Good requests per second. */
  good_per_s: number | null;
  /** Median latency. */
  p50_us: number | null;
  /** 99th percentile. */
  p99_us: number | null;
  /** Share of failed requests. */
  error_share: number | null;
  /** CPU time per request of `curve_cpu_host`. */
  cpu_us_per_request: number | null;
  /** Why the figure is a lower bound or not valid; empty when it is valid. */
  note: string;
}

/** A latency distribution. */
export interface LatencyCurve {
  /** What it is of. */
  name: string;
  /** `at`, `a` or `b`. */
  kind: string;
  /** Number of requests. */
  count: number;
  /** Points in order of quantile. */
  points: LatencyPoint[];
  /** The usual percentiles as text, in the order of p50, p75, p90, p99, p99.9, p99.99, max. */
  usual: string[];
}

/** One point of a distribution. */
export interface LatencyPoint {
  /** Quantile from 0 to 1. */
  quantile: number;
  /** Latency in microseconds. */
  latency_us: number;
}

/** CPU of one host. */
export interface HostCpu {
  /** Host. */
  host: string;
  /** Which CPUs, as a list; empty: all of the machine. */
  cpus: string;
  /** Number of CPUs that the shares are of. */
  cpu_count: number;
  /** At each level. */
  levels: CpuLevel[];
}

/** CPU of one host at one level, as shares of its CPUs. */
export interface CpuLevel {
  /** Which level, in words. */
  label: string;
  /** User space. */
  user: number;
  /** Niced processes. */
  nice: number;
  /** Kernel. */
  system: number;
  /** Soft interrupts. */
  softirq: number;
  /** Hard interrupts. */
  irq: number;
  /** Taken by other guests. */
  steal: number;
  /** Idle with a disk busy. */
  iowait: number;
  /** Idle. */
  idle: number;
  /** CPUs that the hop's own processes used; none when they could not be read. */
  hop_cpus: number | null;
  /** CPU time of the hop's own processes per request. */
  hop_us_per_request: number | null;
}

/** A change that was made to a host. */
export interface ChangeView {
  /** Host. */
  host: string;
  /** Knob and value, as for `--knob`. */
  knob: string;
  /** What the knob is. */
  title: string;
  /** Value before. */
  before: string;
  /** Value set. */
  after: string;
  /** How it ended, in words. */
  state: string;
  /** How it is meant. */
  tone: Tone;
  /** The change itself. */
  diff: string;
  /** What makes it permanent. */
  permanent: string;
}

/** Facts that could not be read, for one reason, on one host or several. */
export interface GapView {
  /** Hosts; empty: the whole run. */
  host: string;
  /** Which facts. */
  facts: string[];
  /** Why. */
  reason: string;
}

/** What prony itself cost. */
export interface CostView {
  /** CPU time of the generator per request. */
  generator_cpu_us_per_request: number | null;
  /** Per host. */
  hosts: HostCostView[];
}

/** What prony cost on one host. */
export interface HostCostView {
  /** Host. */
  host: string;
  /** Share of one CPU that observing took. */
  observe_cpu_share: number | null;
  /** CPU time of the host's own processes per request. */
  cpu_us_per_request: number | null;
}

/** Who calls whom. */
export interface StackView {
  /** Name of the stack. */
  name: string;
  /** Entry URL. */
  entry: string;
  /** The workload in words. */
  workload: string;
  /** The objective in words; empty when there is none. */
  objective: string;
  /** Hosts. */
  nodes: StackNode[];
}

/** A host in the drawing. */
export interface StackNode {
  /** Name. */
  name: string;
  /** What it does and what runs there. */
  role: string;
  /** Where it is and on which CPUs. */
  place: string;
  /** Column: 0 for the generator. */
  depth: number;
  /** Whom it calls. */
  calls: string[];
  /** Whether the verdict names it. */
  limits: boolean;
  /** Whether facts of it were read. */
  observed: boolean;
  /** Where its time goes and what is fullest there; none when nothing was read under load. */
  hop: HopView | null;
}

/** A command that repeats something. */
export interface CommandView {
  /** What it repeats. */
  what: string;
  /** The command. */
  command: string;
}

/** One trial. */
export interface TrialRow {
  /** Its number. */
  id: number;
  /** What it was for. */
  purpose: string;
  /** Seconds since the start of the run. */
  at_s: number;
  /** Counted time. */
  duration_s: number;
  /** Connections. */
  connections: number;
  /** Rate asked for in open loop. */
  rate_per_s: number | null;
  /** Good requests per second. */
  good_per_s: number | null;
  /** Median latency. */
  p50_us: number | null;
  /** 99th percentile. */
  p99_us: number | null;
  /** Failed requests. */
  errors: number;
  /** CPU time of the generator per request. */
  generator_us_per_request: number | null;
  /** Gates that did not hold; empty when the trial is valid. */
  note: string;
}

/** What one host is. */
export interface HostFacts {
  /** Host. */
  host: string;
  /** Facts in order of name. */
  facts: Fact[];
}

/** One fact. */
export interface Fact {
  /** Name. */
  name: string;
  /** Value. */
  value: string;
}

/** CPU samples of one host. */
export interface FlameView {
  /** Host. */
  host: string;
  /** All samples. */
  samples: number;
  /** Samples per second and CPU. */
  samples_per_s: number;
  /** Names of functions, those of the kernel with `_[k]` at the end. */
  frames: string[];
  /** Call stacks, the most frequent first. */
  stacks: FlameStack[];
  /** What it is held against; none when no other run was named, or that run holds no samples of this host. */
  before: FlameBefore | null;
}

/** The CPU samples of the same host in an earlier run. */
export interface FlameBefore {
  /** Id of that run. */
  run: string;
  /** All samples. */
  samples: number;
  /** Call stacks, with the same numbers of frames. */
  stacks: FlameStack[];
  /** Functions whose own share moved by more than chance, the greatest change first. */
  moved: FunctionShift[];
  /** Functions that are no longer seen, with the shares of the stacks that they were in. */
  gone: FunctionShift[];
}

/** The share of a function before and now. */
export interface FunctionShift {
  /** Its name, with `_[k]` at the end if it is of the kernel. */
  function: string;
  /** Share of the samples before. */
  before: number;
  /** Share now. */
  now: number;
}

/** One call stack. */
export interface FlameStack {
  /** Numbers of frames, the outermost first. */
  frames: number[];
  /** How often it was seen. */
  samples: number;
}

/** A gate of validity, over all trials that were asked it. */
export interface GateView {
  /** Its name. */
  gate: string;
  /** What it asks. */
  title: string;
  /** Trials that were asked. */
  trials: number;
  /** Trials in which it held. */
  held: number;
  /** What it said where it first did not hold, else in the last trial. */
  detail: string;
  /** Whether a trial in which it does not hold still gives a lower bound, because the generator was the limit. */
  bounds: boolean;
}

/** What a hop spends on a request of the clients, and what is fullest there. */
export interface HopView {
  /** CPU time of its own processes. */
  work_us: number | null;
  /** Time at the hop that is neither work nor waiting for others. */
  wait_us: number | null;
  /** Time that it waits for hosts further on. */
  upstream_us: number | null;
  /** True: timed at its sockets. False: from how many requests its sockets showed, a lower bound. */
  timed: boolean;
  /** What is fullest, in words; empty when nothing was read. */
  busiest: string;
  /** How full, from 0 to 1. */
  busiest_share: number | null;
  /** The same as text. */
  busiest_text: string;
}

/** One intervention and what it showed. */
export interface InterventionView {
  /** Host. */
  target: string;
  /** What was done, in words. */
  what: string;
  /** Negative control: nothing is expected to happen. */
  control: boolean;
  /** True: the numbers are a relative gain (removal). False: they are an elasticity. */
  is_gain: boolean;
  /** Elasticity or gain. */
  value: number | null;
  /** Lower end of the 95 % interval. */
  low: number | null;
  /** Upper end. */
  high: number | null;
  /** Value and interval as text. */
  text: string;
  /** How to read it. */
  reading: string;
  /** Pairs of trials. */
  pairs: number;
}

/** Throughput against the dose of one resource. */
export interface DoseCurve {
  /** The resource, in words. */
  resource: string;
  /** Negative control: nothing is expected to happen. */
  control: boolean;
  /** True: the resource was raised, as connections are. False: it was made slower. */
  raises: boolean;
  /** The elasticity that fits all doses. */
  elasticity: number;
  /** Each dose, in the order they were given. */
  points: DosePoint[];
}

/** What one dose showed. */
export interface DosePoint {
  /** Share by which the resource was made slower or raised. */
  dose: number;
  /** Relative change of throughput. */
  effect: number;
  /** Lower end of its 95 % interval. */
  low: number | null;
  /** Upper end. */
  high: number | null;
  /** Pairs of trials. */
  pairs: number;
}

/** What a chart shows. */
export type ChartKind = "throughput" | "latency" | "cpu" | "core" | "cores" | "packets" | "bytes" | "retransmits" | "openings" | "queues" | "backlog" | "drops" | "switches" | "waits" | "locks" | "processes" | "connections";

/** In what the values of a chart are. */
export type ChartUnit = "share" | "per_s" | "bytes_per_s" | "bytes" | "count" | "us" | "cpus";

/** Why load was sent. */
export type BandKind = "warmup" | "level" | "inspect" | "intervention" | "proof" | "curve" | "load" | "cell";

/** The run over time. */
export interface TimelineView {
  /** When which load was sent, in order of time. */
  bands: BandView[];
  /** Charts: those of the load, then host by host, the hop of the verdict first. */
  charts: ChartView[];
  /** How the answers of each trial spread over latency. */
  heat: HeatView;
}

/** Latency over time, in classes. */
export interface HeatView {
  /** Edges of the classes in microseconds, one more than there are classes. */
  edges_us: number[];
  /** A column for each trial with answers, in order of time. */
  columns: HeatColumn[];
}

/** The latency of one trial. */
export interface HeatColumn {
  /** Number of the trial. */
  trial: number;
  /** Begin in seconds since the start of the run. */
  from_s: number;
  /** End. */
  to_s: number;
  /** Median, in microseconds. */
  p50_us: number;
  /** 99th percentile. */
  p99_us: number;
  /** Share of the answers in each class. */
  shares: number[];
}

/** The counted time of a trial. */
export interface BandView {
  /** Number of the trial. */
  trial: number;
  /** Why it was run. */
  kind: BandKind;
  /** The same in words. */
  label: string;
  /** Begin in seconds since the start of the run. */
  from_s: number;
  /** End. */
  to_s: number;
}

/** A chart over time. */
export interface ChartView {
  /** What it shows. */
  kind: ChartKind;
  /** Host; empty for what clients saw. */
  host: string;
  /** Which of several: the number of a CPU; empty for the only one. */
  item: string;
  /** Unit of the values. */
  unit: ChartUnit;
  /** Moments in seconds since the start of the run, in order. */
  at_s: number[];
  /** Lines; one value for each moment. */
  lines: LineView[];
  /** What was read and was 0 all the time. */
  zero: string[];
}

/** A line of a chart. */
export interface LineView {
  /** What it shows. */
  name: string;
  /** Values at the moments of the chart; none where nothing was read. */
  values: (number | null)[];
}

/** A run in a list. */
export interface RunSummary {
  /** Id of the run. */
  id: string;
  /** The stack: its name, or its entry. */
  stack: string;
  /** Command line. */
  command: string;
  /** Start, in UTC. */
  started: string;
  /** Start in milliseconds since 1970. */
  started_unix_ms: number;
  /** Wall time in seconds; none when the run did not reach its end. */
  wall_s: number | null;
  /** `open`, `done`, `interrupted` or `failed`. */
  end: string;
  /** The result in one sentence. */
  sentence: string;
  /** How it is meant. */
  tone: Tone;
  /** Cause of the verdict; none when nothing was diagnosed. */
  cause: string | null;
  /** Host that the verdict names; empty when it names none. */
  hop: string;
  /** Good requests per second at the operating point. */
  good_per_s: number | null;
  /** The generator was the limit there: the stack carries at least this. */
  generator_limited: boolean;
  /** Median latency there. */
  p50_us: number | null;
  /** 99th percentile there. */
  p99_us: number | null;
  /** Share of failed requests there. */
  error_share: number | null;
  /** Trials so far. */
  trials: number;
  /** Good requests per second, trial by trial, from the least load to the greatest; of a single trial second by second. */
  course: number[];
  /** Tags that people gave it. */
  tags: string[];
}

/** Several runs beside each other. */
export interface ComparedView {
  /** The runs; the first is what the others are held against. */
  runs: ComparedRun[];
  /** Each of the others against the first. */
  against: RunAgainst[];
}

/** A run among others. */
export interface ComparedRun {
  /** Id of the run. */
  id: string;
  /** The stack: its name, or its entry. */
  stack: string;
  /** Start, in UTC. */
  started: string;
  /** The result in one sentence. */
  sentence: string;
  /** Key figures. */
  figures: Figure[];
  /** What it carried at which latency. */
  loads: CarriedLoad[];
  /** The latency distribution at the operating point; none when no request was timed. */
  latency: LatencyCurve | null;
}

/** A load that a run carried. */
export interface CarriedLoad {
  /** The load in words. */
  load: string;
  /** Whether requests arrived at a rate of their own. */
  open_loop: boolean;
  /** Good requests per second. */
  good_per_s: number;
  /** Median latency. */
  p50_us: number;
  /** 99th percentile. */
  p99_us: number;
}

/** A run against the first. */
export interface RunAgainst {
  /** Id of the run. */
  run: string;
  /** What was found, or why nothing could be compared. */
  summary: string;
  /** How it is meant. */
  tone: Tone;
  /** What the verdict is worth, and why; empty when nothing could be compared. */
  worth: string;
  /** How that is meant. */
  worth_tone: Tone;
  /** Metric by metric. */
  changes: MetricChangeView[];
  /** What else differs between the two. */
  differences: string[];
  /** What to know besides. */
  notes: string[];
  /** CPU profiles of the hosts that were sampled in both runs, held against the first. */
  flames: FlameView[];
}

/** How one metric differs. */
export interface MetricChangeView {
  /** `rps`, `p50`, `p99`, `errors` or `cpu`. */
  metric: string;
  /** What it is called. */
  title: string;
  /** Of the first run, as text. */
  a_text: string;
  /** Of this run. */
  b_text: string;
  /** Relative change; none for a share, which changes by points. */
  change: number | null;
  /** Lower end of the 95 % interval. */
  low: number | null;
  /** Upper end. */
  high: number | null;
  /** Change and interval as text. */
  text: string;
  /** Smallest change that would have been found, as text; empty without an interval. */
  detectable: string;
  /** Trials on both sides, as text. */
  trials: string;
  /** The verdict in words. */
  verdict: string;
  /** How it is meant. */
  tone: Tone;
}

/** Where the figures of many runs change. */
export interface HistoryView {
  /** Runs that were read. */
  runs: number;
  /** One for each load and metric. */
  series: HistoryLine[];
  /** What was left out, and how changes are found. */
  notes: string[];
}

/** One metric at one load over many runs. */
export interface HistoryLine {
  /** Stack and load, in words. */
  label: string;
  /** `rps`, `p50`, `p99`, `errors` or `cpu`. */
  metric: string;
  /** What it is called. */
  title: string;
  /** Unit of the values. */
  unit: ChartUnit;
  /** Runs in order of time. */
  runs: string[];
  /** A value for each of them. */
  values: number[];
  /** Where it changed. */
  changes: HistoryStep[];
}

/** A run from which on a metric is another. */
export interface HistoryStep {
  /** Id of the first run after the change. */
  run: string;
  /** Its place in the line, from 0. */
  index: number;
  /** Mean before. */
  from: number;
  /** Mean after. */
  to: number;
  /** What changed, in words. */
  text: string;
  /** Whether it is for the worse. */
  worse: boolean;
}

/** A run while it goes on. */
export interface LiveView {
  /** What was found so far; without the timeline, the inventory and the commands, which come with the report. */
  report: ReportData;
  /** What happened, the newest last. */
  happened: HappenedView[];
}

/** Something that happened during a run. */
export interface HappenedView {
  /** Seconds since the start of the run. */
  at_s: number;
  /** What, in a line. */
  text: string;
  /** How it is meant. */
  tone: Tone;
}
