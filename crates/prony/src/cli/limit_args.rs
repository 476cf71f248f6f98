//! Flags of `prony limit`.

use super::{OutputArgs, TargetArgs};
use clap::Args;
use prony_model::{Nanos, Threshold, Until, Vary};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony limit http://127.0.0.1:8080/ -c 64
  prony limit stack.toml                                     with [slo], also the limit within it
  prony limit stack.toml --slo 'p99<10ms' --slo 'errors<0.1%'
  prony limit stack.toml --stable --budget 3m                also the most connections that are stable
  prony limit http://10.0.0.2/f%d --vary path-size=0..10000 --until 'bandwidth>=95%'
                                                             smallest answers that fill the link
  prony limit stack.toml --vary workers=1..8 --extrapolate 32   how it grows, and what 32 would bring
  prony limit stack.toml --vary connections=1..2048 --until 'p99<20ms'

Exit codes: 0 found, 3 no load holds the objective, 4 not valid (generator-limited, not steady, a server that died or cannot be reached).")]
pub(crate) struct LimitArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    /// What must hold, as in `prony load --threshold`: `p99<10ms`, `errors<0.1%`, `rate>=5k`, `bandwidth>=1gbit`; may be
    /// repeated [default: the objective of the stack file]
    #[arg(long = "slo", value_name = "THRESHOLD")]
    pub slo: Vec<Threshold>,
    /// Also find the most connections without a failure and without violent fluctuation
    #[arg(long)]
    pub stable: bool,
    /// Search over this instead of the load: path-size, connections or workers
    #[arg(long, value_name = "NAME=LOW..HIGH")]
    pub vary: Option<Vary>,
    /// What must hold on that axis: a threshold, or a share of the most that any value brings (`bandwidth>=95%`); without it
    /// the axis is measured from end to end
    #[arg(long, value_name = "CONDITION", requires = "vary")]
    pub until: Option<Until>,
    /// Also say what this many connections or workers would carry, by the universal scalability law; may be repeated
    #[arg(long, value_name = "N")]
    pub extrapolate: Vec<u64>,
    /// Time for all trials together [default: 90s, 180s with an objective; 90s more with --stable]
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Nanos>,
}
