//! Flags of `prony watch`.

use clap::Args;
use prony_model::Nanos;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony watch                          this machine
  prony watch stack.toml               the hosts of a stack, while something else loads it
  prony watch stack.toml --for 10s     and end after that
  prony watch --json | jq .facts       one object a line

Nothing is loaded and nothing is changed. Keys: q or Ctrl-C ends it.")]
pub(crate) struct WatchArgs {
    /// A stack file, or a lab by name (`prony lab ls`) [default: this machine]
    #[arg(value_name = "STACK")]
    pub stack: Option<String>,
    /// Time between two looks
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    pub interval: Nanos,
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    pub duration: Option<Nanos>,
    /// Plain lines, also on a terminal
    #[arg(long)]
    pub no_tui: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}
