//! Flags and help of every command. No work is done here.

mod calibrate_args;
mod compare_args;
mod inventory_args;
mod limit_args;
mod load_args;
mod network_args;
mod run_args;
mod serve_args;
mod watch_args;

pub(crate) use calibrate_args::CalibrateArgs;
pub(crate) use compare_args::CompareArgs;
pub(crate) use inventory_args::InventoryArgs;
pub(crate) use limit_args::LimitArgs;
pub(crate) use load_args::{ArrivalsArg, ConnectionArgs, LoadArgs, RequestArgs, ShowArgs, TlsArgs};
pub(crate) use network_args::{NetworkArgs, SenderArg};
pub(crate) use run_args::RunArgs;
pub(crate) use serve_args::ServeArgs;
pub(crate) use watch_args::WatchArgs;

use clap::{Args, Parser, Subcommand, ValueEnum};
use prony_model::{Nanos, Rate, Share};
use prony_session::Precision;
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
    Load(Box<LoadArgs>),
    /// How much can it carry, and how much within the objective?
    Limit(Box<LimitArgs>),
    /// Load, observe, name the cause
    Diagnose(DiagnoseArgs),
    /// Apply one remedy, prove it, undo it (or keep it)
    Tune(TuneArgs),
    /// A planned matrix of trials: effects with intervals, and what became of what was expected
    Run(Box<RunArgs>),
    /// Is B different from A? Two recorded runs, a knob tried live, or a history of runs
    Compare(Box<CompareArgs>),
    /// Show a recorded run: html, md, json, csv, junit, text
    Report(ReportArgs),
    /// What every host does now: CPUs, network, sockets, processes, and what is wrong there
    Watch(WatchArgs),
    /// What the ways between hosts carry: bandwidth, packet rates, round trip, and what that costs the CPUs
    Network(NetworkArgs),
    /// What every host is and how it is set; --diff: what is not the same elsewhere, and what that explains
    Inventory(InventoryArgs),
    /// Web pages over the recorded runs, live ones included; experiments are started and watched there
    Serve(ServeArgs),
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
    /// Print Markdown instead of text: the verdict with its evidence, to paste into a ticket
    #[arg(long, conflicts_with = "json")]
    pub md: bool,
    /// Write the run here instead of the runs folder [default: $PRONY_HOME/runs/ID.prony]
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Write an HTML report here as well
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub progress: ProgressArgs,
}

/// How progress is shown, on stderr.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ProgressArgs {
    /// Plain lines of progress, even on a terminal
    #[arg(long)]
    pub no_tui: bool,
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

/// How exact a proof is to be.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PrecisionArgs {
    /// The smallest change of throughput, at a rate that is carried of the speed of answers, that is to be found in 8 of 10 attempts:
    /// blocks are added until pairs differ little enough for that [default: 5%; with --quick none are added]
    #[arg(long, value_name = "PERCENT", value_parser = change)]
    pub detect: Option<Share>,
    /// Time for the trials of a proof; a change beyond doubt and a quiet machine need less [default: 120s]
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Nanos>,
}

/// A change that can be looked for.
fn change(text: &str) -> Result<Share, String> {
    let share: Share = text.parse().map_err(|e: prony_model::units::UnitError| e.to_string())?;
    let is_one = share.0 > 0.0;
    is_one.then_some(share).ok_or_else(|| format!("`{text}` is no change to be found: write more than 0%, like `2%`"))
}

impl PrecisionArgs {
    /// What the session is asked; `quick`: the user wants to have it soon.
    pub fn precision(self, quick: bool) -> Precision {
        let usual = Precision::default();
        let unasked = if quick { Share(f64::INFINITY) } else { usual.detect };
        Precision { detect: self.detect.unwrap_or(unasked), budget: self.budget.unwrap_or(usual.budget) }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony prove labs/proxy-keepalive-off.toml
  prony prove stack.toml --report report.html
  prony prove stack.toml --md            the verdict as Markdown, to paste into a ticket
  prony prove stack.toml --keep          leave the change in place if it is proven better")]
pub(crate) struct ProveArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub precision: PrecisionArgs,
    /// Leave the change in place if it is proven better, and print how to make it permanent
    #[arg(long)]
    pub keep: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony diagnose stack.toml
  prony diagnose stack.toml --json | jq .verdict
  prony diagnose stack.toml --passive        change nothing, only look
  prony diagnose --from run.prony            again, from a record
  prony diagnose stack.toml --baseline GOOD  and what differs from a good run")]
pub(crate) struct DiagnoseArgs {
    /// A stack file, a lab by name, or a URL
    #[arg(value_name = "STACK", required_unless_present = "from")]
    pub stack: Option<String>,
    /// Diagnose a recorded run instead of loading anything
    #[arg(long, value_name = "RUN", conflicts_with = "stack")]
    pub from: Option<String>,
    /// Time for all of it; interventions take what is left of it after the levels of load
    #[arg(long, value_name = "TIME", default_value = "120s")]
    pub budget: Nanos,
    /// A recorded run of the same stack that was good: what differs from it is listed as well
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<String>,
    /// Slow nothing down: only watch. The verdict cannot be grounded then
    #[arg(long)]
    pub passive: bool,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony tune stack.toml                                       the remedy that the diagnosis names
  prony tune stack.toml --knob lb:nginx.worker_processes=4    your own
  prony tune stack.toml --knob lb:nginx.backlog=511 --detect 2%  a change of 2 % is not to be missed
  prony tune stack.toml --aa                                  change nothing: must come out the same
  prony tune --knobs                                          list the knobs")]
pub(crate) struct TuneArgs {
    /// A stack file, a lab by name (`prony lab ls`), or a URL
    #[arg(value_name = "STACK", required_unless_present = "knobs")]
    pub stack: Option<String>,
    #[command(flatten)]
    pub choice: ChoiceArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub precision: PrecisionArgs,
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
    /// What had to hold, as JUnit XML for CI
    Junit,
    /// As on the terminal
    Text,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony report                                  the runs there are
  prony report 20261120-2315 --format md        by the start of its id
  prony report run.prony -o report.html
  prony report 20261120-2315 --calls vfs_write      who calls it, what it calls
  prony report 20261120-2315 --profile-from 20261119  what the CPUs run now and did not
  prony report 20261120-2315 --profile-from 20261119 --format html  the same as a flame graph")]
pub(crate) struct ReportArgs {
    /// A record file, or the start of a run's id; none: list the runs
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Form [default: html; with --profile-from: text]
    #[arg(short, long, value_enum)]
    pub format: Option<Format>,
    /// Write here instead of to stdout (html: report.html; `-` is stdout)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print the call paths through this function, as the deep look sampled them
    #[arg(long, value_name = "FUNCTION", requires = "run", conflicts_with_all = ["format", "profile_from"])]
    pub calls: Option<String>,
    /// Show which functions take more or less of the CPU samples than in this other run (text, html or json)
    #[arg(long, value_name = "RUN", requires = "run")]
    pub profile_from: Option<String>,
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
        /// Do not measure what the links do to packets
        #[arg(long)]
        no_measure: bool,
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
    /// Is the cable of a link with a delay, where the kernel has no netem; a lab starts it
    #[command(hide = true)]
    Wire {
        /// What the cable does
        plan: PathBuf,
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
