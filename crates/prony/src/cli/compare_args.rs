//! Flags of `prony compare`.

use super::{ChoiceArgs, PrecisionArgs, ProgressArgs};
use clap::Args;
use prony_model::comparison::ChangeGate;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  prony compare 20261120-2315 20261121-0902     two recorded runs, by their ids
  prony compare a.prony b.prony --gate 'rps>=-2%' --gate 'p99<=+10%' --md comment.md
  prony compare --live stack.toml --knob nginx.worker_processes=4
  prony compare --live stack.toml --knob nginx.backlog=511 --knob s1:nginx.backlog=511
  prony compare --live stack.toml --knob lb:nginx.backlog=511 --detect 1% --budget 10m
  prony compare --live stack.toml --aa 5        A against A: what is made of nothing?
  prony compare --history runs/                 since which run is it slower?

A gate holds only if the whole 95 % interval lies within it. \"Not proven\" is not
\"broken\", but it does not hold either. Metrics of gates: rps, p50, p99, cpu (changes
in %), errors (in percentage points). docs/compare.md says how it decides.

Exit codes: 0 every gate holds (without gates: B is not worse), 3 a gate does not hold or
B is worse, 4 the result is not valid: interrupted, or the generator was the limit.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// Two recorded runs, A then B: record files, or the starts of their ids
    #[arg(value_name = "RUN", num_args = 2, required_unless_present_any = ["live", "history"])]
    pub runs: Vec<String>,
    /// Compare now, interleaved: a stack file, a lab by name, or a URL
    #[arg(long, value_name = "STACK", conflicts_with = "runs")]
    pub live: Option<String>,
    /// What B turns, with --live: NAME=VALUE, or HOST:NAME=VALUE. Each is a question of its own, against A as found
    #[arg(long = "knob", value_name = "KNOB")]
    pub knobs: Vec<String>,
    /// So many runs of A against A as well, with --live: how often does this machine raise a false alarm?
    #[arg(long, value_name = "N")]
    pub aa: Option<u32>,
    /// Where did the figures change, over all recorded runs of a folder?
    #[arg(long, value_name = "DIR", conflicts_with_all = ["runs", "live"])]
    pub history: Option<PathBuf>,
    /// What B must hold against A, like 'rps>=-2%' or 'errors<=+0.1%'; repeatable
    #[arg(long = "gate", value_name = "GATE", conflicts_with = "history")]
    pub gates: Vec<ChangeGate>,
    /// Write JUnit XML here: a case per gate, or per question
    #[arg(long, value_name = "FILE", conflicts_with = "history")]
    pub junit: Option<PathBuf>,
    /// Write Markdown here, for a pull request
    #[arg(long, value_name = "FILE")]
    pub md: Option<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub precision: PrecisionArgs,
    #[command(flatten)]
    pub progress: ProgressArgs,
    #[command(flatten)]
    pub choice: ChoiceArgs,
}
