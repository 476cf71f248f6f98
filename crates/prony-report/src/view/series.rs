//! The run over time: what was asked, what came back, and what each host did meanwhile, thinned for display.
//!
//! It judges nothing and smooths nothing: a line keeps its least and its greatest value. Invariant: all lines of a chart
//! share one list of moments, and a value that was not read is none, never 0.

mod charts;
mod cpu;
mod heat;
mod load;
mod thin;

use crate::typed::{Types, view, words};
use prony_model::Run;

words! {
    /// What a chart shows.
    pub enum ChartKind {
        /// Requests per second: asked for, good ones.
        Throughput = "throughput",
        /// Latency of each trial.
        Latency = "latency",
        /// CPUs of a host, split as the kernel counts.
        Cpu = "cpu",
        /// One CPU of a host, split likewise.
        Core = "core",
        /// How busy each CPU of a host is.
        Cores = "cores",
        /// Packets per second.
        Packets = "packets",
        /// Bytes per second.
        Bytes = "bytes",
        /// Segments sent again, timeouts.
        Retransmits = "retransmits",
        /// Connections that are opened, accepted, reset.
        Openings = "openings",
        /// What waits in queues.
        Queues = "queues",
        /// Bytes in queues of interfaces.
        Backlog = "backlog",
        /// What was thrown away.
        Drops = "drops",
        /// Context switches and forks.
        Switches = "switches",
        /// Waiting for a CPU, being throttled.
        Waits = "waits",
        /// Locks of databases.
        Locks = "locks",
        /// Processes and threads.
        Processes = "processes",
        /// Connections and sockets.
        Connections = "connections",
    }
    /// In what the values of a chart are.
    pub enum ChartUnit {
        /// From 0 to 1.
        Share = "share",
        /// Things per second.
        PerSecond = "per_s",
        /// Bytes per second.
        BytesPerSecond = "bytes_per_s",
        /// Bytes.
        Bytes = "bytes",
        /// Things.
        Count = "count",
        /// Microseconds.
        Micros = "us",
        /// CPUs, as in 1.5 CPUs.
        Cpus = "cpus",
    }
    /// Why load was sent.
    pub enum BandKind {
        /// Not scored.
        Warmup = "warmup",
        /// One of the three levels.
        Level = "level",
        /// While close looks were taken.
        Inspect = "inspect",
        /// Half of a pair of an intervention.
        Intervention = "intervention",
        /// One trial of a proof.
        Proof = "proof",
        /// A point of the load curve.
        Curve = "curve",
        /// Asked for by a person.
        Load = "load",
        /// One trial of an experiment.
        Cell = "cell",
    }
}

view! {
    /// The run over time.
    pub struct TimelineView {
        /// When which load was sent, in order of time.
        pub bands: Vec<BandView>,
        /// Charts: those of the load, then host by host, the hop of the verdict first.
        pub charts: Vec<ChartView>,
        /// How the answers of each trial spread over latency.
        pub heat: HeatView,
    }

    /// Latency over time, in classes.
    pub struct HeatView {
        /// Edges of the classes in microseconds, one more than there are classes.
        pub edges_us: Vec<f64>,
        /// A column for each trial with answers, in order of time.
        pub columns: Vec<HeatColumn>,
    }

    /// The latency of one trial.
    pub struct HeatColumn {
        /// Number of the trial.
        pub trial: u32,
        /// Begin in seconds since the start of the run.
        pub from_s: f64,
        /// End.
        pub to_s: f64,
        /// Median, in microseconds.
        pub p50_us: f64,
        /// 99th percentile.
        pub p99_us: f64,
        /// Share of the answers in each class.
        pub shares: Vec<f64>,
    }

    /// The counted time of a trial.
    pub struct BandView {
        /// Number of the trial.
        pub trial: u32,
        /// Why it was run.
        pub kind: BandKind,
        /// The same in words.
        pub label: String,
        /// Begin in seconds since the start of the run.
        pub from_s: f64,
        /// End.
        pub to_s: f64,
    }

    /// A chart over time.
    pub struct ChartView {
        /// What it shows.
        pub kind: ChartKind,
        /// Host; empty for what clients saw.
        pub host: String,
        /// Which of several: the number of a CPU; empty for the only one.
        pub item: String,
        /// Unit of the values.
        pub unit: ChartUnit,
        /// Moments in seconds since the start of the run, in order.
        pub at_s: Vec<f64>,
        /// Lines; one value for each moment.
        pub lines: Vec<LineView>,
        /// What was read and was 0 all the time.
        pub zero: Vec<String>,
    }

    /// A line of a chart.
    pub struct LineView {
        /// What it shows.
        pub name: String,
        /// Values at the moments of the chart; none where nothing was read.
        pub values: Vec<Option<f64>>,
    }
}

/// Everything over time that `run` holds.
pub(super) fn of(run: &Run) -> TimelineView {
    let mut charts = load::charts(run);
    for host in hosts(run) {
        charts.extend(cpu::charts(run, host));
        charts.extend(charts::charts(run, host));
    }
    TimelineView { bands: load::bands(run), charts, heat: heat::of(run) }
}

/// Every type above.
pub(super) fn declare(types: &mut Types) {
    declare_words(types);
    declare_structs(types);
}

/// The hop of the verdict, the path, the generator, who is beside the path.
fn hosts(run: &Run) -> Vec<&str> {
    let suspect = run.diagnosis.as_ref().map(|diagnosis| diagnosis.verdict.hop.as_str());
    let mut hosts = run.stack.path();
    hosts.extend(run.stack.generator().map(|(name, _)| name));
    hosts.extend(run.stack.beside_path());
    hosts.sort_by_key(|host| Some(*host) != suspect);
    hosts
}

/// Seconds since the start of the run, to the millisecond.
fn seconds(at_ns: u64) -> f64 {
    (at_ns / 1_000_000) as f64 / 1e3
}

/// A value with four digits, which is more than a chart shows: the page stays small.
fn short(value: f64) -> Option<f64> {
    let rounded = format!("{value:.3e}").parse().ok()?;
    super::finite(rounded)
}
