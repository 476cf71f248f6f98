//! Flags of `prony run`.

use super::ProgressArgs;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony run experiments/upstream-keepalive.toml --plan     what would run, and how long it would take
  prony run experiments/upstream-keepalive.toml -o out     run it; finished cells are kept in out
  prony run experiments/upstream-keepalive.toml -o out     the same again goes on where it was cut short
  prony run experiments/access-log.toml --quick            shorter trials, three repeats
  prony run experiments/access-log.toml --rehearse         does every level work here? half a minute, nothing is measured
  prony run my.toml --stack stack.toml --md result.md      on another stack; the result as a page with its picture

An experiment names a stack, what is varied (knobs, the workload, the lab), and what is expected. Cells run in an order that is
random anew in each repeat, every knob is put back, and the first cell runs twice in each repeat, so that A against A is measured
too. docs/experiments/README.md says how to write one.

Exit codes: 0 every cell ran (or works), 2 the file or a level is wrong, 4 not every cell ran (or works), or the generator was the limit of most.")]
pub(crate) struct RunArgs {
    /// An experiment file
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: PathBuf,
    /// Print the trials and the time that they take, and end
    #[arg(long)]
    pub plan: bool,
    /// Try every level once, for a moment, and say which cells work here: whether each lab comes up, each level can be set, and
    /// the stack answers
    #[arg(long, conflicts_with_all = ["plan", "output", "resume", "repeats", "quick", "md"])]
    pub rehearse: bool,
    /// Another stack than the file names: a stack file, a lab by name, or a URL
    #[arg(long, value_name = "STACK")]
    pub stack: Option<String>,
    /// Where finished cells, records and the result are kept; when it holds cells of this experiment, it goes on there
    /// [default: $PRONY_HOME/experiments/ID]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Go on with the newest run of this experiment that did not come to its end
    #[arg(long, conflicts_with = "output")]
    pub resume: bool,
    /// How often each cell runs, instead of what the file says
    #[arg(long, value_name = "N")]
    pub repeats: Option<u32>,
    /// Seed of the order [default: that of the file, else from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Trials of a second and a third of the time for searches, three repeats at most: wider intervals
    #[arg(long)]
    pub quick: bool,
    /// The target is mine: needed for an address that is not private
    #[arg(long)]
    pub owned: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the result as Markdown here, with its picture beside it
    #[arg(long, value_name = "FILE")]
    pub md: Option<PathBuf>,
    #[command(flatten)]
    pub progress: ProgressArgs,
}
