//! Flags and help of every command. No work is done here.

mod calibrate_args;

pub(crate) use calibrate_args::CalibrateArgs;

use clap::{Args, Parser, Subcommand, ValueEnum};
use prony_model::{CpuList, Nanos, Rate};
use std::path::PathBuf;

/// A dynamometer for web services: loads a stack to its limit, proves what holds it there, and proves the fix.
#[derive(Debug, Parser)]
#[command(name = "prony", version, max_term_width = 110, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "Examples:
  prony prove labs/proxy-keepalive-off.toml   find what holds a lab back, mend it, prove it, undo it
  prony diagnose stack.toml                   name the cause, with evidence
  prony limit http://127.0.0.1:8080/          how much can it carry?
  prony load -c 64 -d 10s http://127.0.0.1/   a known load, as with wrk
  prony doctor                                what can be measured here

Exit codes: 0 done, 1 failed, 2 bad arguments, 3 a gate did not hold, 4 the result is not valid.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// The whole loop: load, observe, diagnose, intervene, tune, prove, undo, report
    Prove(ProveArgs),
    /// Apply a known load; wrk's flags and output work
    Load(LoadArgs),
    /// How much can it carry, and how much within the objective?
    Limit(LimitArgs),
    /// Load, observe, name the cause
    Diagnose(DiagnoseArgs),
    /// Apply one remedy, prove it, undo it (or keep it)
    Tune(TuneArgs),
    /// Show a recorded run: html, md, json, csv, text
    Report(ReportArgs),
    /// Stacks in network namespaces with real servers
    Lab(LabArgs),
    /// Restore whatever an interrupted run left changed
    Undo(UndoArgs),
    /// What can and cannot be measured here, and how to mend that
    Doctor(DoctorArgs),
    /// The generator's own ceiling on this machine
    Calibrate(CalibrateArgs),
}

/// Where a run is recorded and how its result is printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the run here instead of the runs folder [default: $PRONY_HOME/runs/ID.prony]
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Write an HTML report here as well
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// No progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
}

/// What to measure.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    /// A stack file, a lab by name (`prony lab ls`), or a URL
    #[arg(value_name = "STACK")]
    pub stack: String,
    #[command(flatten)]
    pub choice: ChoiceArgs,
}

/// How to measure it.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChoiceArgs {
    /// The target is mine: needed for an address that is not private
    #[arg(long)]
    pub owned: bool,
    /// Seed of every random choice: order of trials, arrivals [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Shorter trials: about a third of the time, wider intervals
    #[arg(long)]
    pub quick: bool,
    /// Connections, instead of the workload's
    #[arg(short, long, value_name = "N")]
    pub connections: Option<u32>,
    /// Requests per second (open loop), instead of the workload's
    #[arg(short = 'R', long, value_name = "RATE")]
    pub rate: Option<Rate>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony prove labs/proxy-keepalive-off.toml
  prony prove stack.toml --report report.html
  prony prove stack.toml --keep          leave the change in place if it is proven better")]
pub(crate) struct ProveArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Leave the change in place if it is proven better, and print how to make it permanent
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony diagnose stack.toml
  prony diagnose stack.toml --json | jq .verdict
  prony diagnose stack.toml --watch-only     change nothing, only look
  prony diagnose --from run.prony            again, from a record")]
pub(crate) struct DiagnoseArgs {
    /// A stack file, a lab by name, or a URL
    #[arg(value_name = "STACK", required_unless_present = "from")]
    pub stack: Option<String>,
    /// Diagnose a recorded run instead of loading anything
    #[arg(long, value_name = "RUN", conflicts_with = "stack")]
    pub from: Option<String>,
    /// Slow nothing down: only watch. The verdict cannot be grounded then
    #[arg(long)]
    pub watch_only: bool,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony tune stack.toml                                       the remedy that the diagnosis names
  prony tune stack.toml --knob lb:nginx.worker_processes=4    your own
  prony tune stack.toml --aa                                  change nothing: must say no difference
  prony tune --knobs                                          list the knobs")]
pub(crate) struct TuneArgs {
    /// A stack file, a lab by name (`prony lab ls`), or a URL
    #[arg(value_name = "STACK", required_unless_present = "knobs")]
    pub stack: Option<String>,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Try this knob: NAME=VALUE at the entry of the path, or HOST:NAME=VALUE
    #[arg(long, value_name = "KNOB", conflicts_with = "aa")]
    pub knob: Option<String>,
    /// Change nothing and compare A with A: shows what the proof can tell apart
    #[arg(long)]
    pub aa: bool,
    /// Leave the change in place if it is proven better, and print how to make it permanent
    #[arg(long)]
    pub keep: bool,
    /// List the knobs of this version and end
    #[arg(long)]
    pub knobs: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony limit http://127.0.0.1:8080/ -c 64
  prony limit stack.toml                     with [slo], also the limit within it")]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Spacing of arrivals, as a flag.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ArrivalsArg {
    /// Evenly spaced
    Constant,
    /// Independent of each other, as many users are
    Poisson,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony load -t 2 -c 128 -d 10s --latency http://127.0.0.1:8080/     closed loop, as with wrk
  prony load -c 128 -d 10s -R 5k --latency http://127.0.0.1:8080/    open loop, as with wrk2, Poisson arrivals
  prony load -d 5s -m POST -b '{\"a\":1}' -H 'Content-Type: application/json' http://127.0.0.1:8080/
  prony load stack.toml -d 10s                                       the workload of a stack file

Connections and rate are totals over all threads. With -R, latency counts from the time at which a request
was due, so waiting in the generator is not left out; the time from the actual send is shown beside it.")]
pub(crate) struct LoadArgs {
    /// A URL, a stack file, or a running lab's stack
    #[arg(value_name = "URL|STACK")]
    pub target: String,
    /// Threads [default: one per CPU, at most one per connection]
    #[arg(short, long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub threads: u32,
    /// Connections held open, over all threads [default: 10, or the workload's]
    #[arg(short, long, value_name = "N")]
    pub connections: Option<u32>,
    /// How long, like 10s or 2m; a bare number is seconds
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub duration: Nanos,
    /// Open loop: requests per second over all threads, like 800 or 5k
    #[arg(short = 'R', long, value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Spacing of arrivals in open loop
    #[arg(long, value_name = "KIND", default_value = "poisson")]
    pub arrivals: ArrivalsArg,
    /// Add a header, like 'Accept: text/html'
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// Method
    #[arg(short, long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Body
    #[arg(short, long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,
    /// Body from a file
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// A weighted path besides or instead of the URL's own: PATH or PATH=WEIGHT; may be repeated
    #[arg(long = "path", value_name = "PATH[=WEIGHT]")]
    pub paths: Vec<String>,
    /// A connection per request
    #[arg(long)]
    pub no_keepalive: bool,
    /// Close a connection after that many requests
    #[arg(long, value_name = "N")]
    pub requests_per_connection: Option<u32>,
    /// Give up on a response after this time
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub timeout: Option<Nanos>,
    /// Not counted, before the duration
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = seconds)]
    pub warmup: Nanos,
    /// CPUs to pin the threads to, like 0,2-3
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Print the latency distribution
    #[arg(long)]
    pub latency: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// The target is mine: needed for an address that is not private
    #[arg(long)]
    pub owned: bool,
    /// Seed of every random choice [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// wrk takes bare numbers as seconds.
fn seconds(text: &str) -> Result<Nanos, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Nanos(seconds.saturating_mul(1_000_000_000)));
    }
    text.parse::<Nanos>().map_err(|e| e.to_string())
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One self-contained page
    Html,
    /// Markdown
    Md,
    /// One JSON object
    Json,
    /// Every fact over time, a line each
    Csv,
    /// As on the terminal
    Text,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony report                                  the runs there are
  prony report 20261120-2315 --format md        by the start of its id
  prony report run.prony -o report.html")]
pub(crate) struct ReportArgs {
    /// A record file, or the start of a run's id; none: list the runs
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Form
    #[arg(short, long, value_enum, default_value = "html")]
    pub format: Format,
    /// Write here instead of to stdout (html: report.html)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    pub verb: LabVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabVerb {
    /// Bring a lab up, and print where its stack file is
    Up {
        /// A stack file with a lab section, or a lab by name
        lab: String,
        /// Print the stack as JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a lab down; without ID all of them, left-overs of killed ones too
    Down {
        /// Its id, as `prony lab ls` shows it
        id: Option<String>,
    },
    /// Labs that are up, left-overs of killed ones, and the labs that ship with prony
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct UndoArgs {
    /// Only show what is left changed
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
