//! Flags of `prony watch`.

use clap::Args;
use prony_model::Nanos;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony watch                          this machine
  prony watch stack.toml               the hosts of a stack, while something else loads it
  prony watch stack.toml --for 10s     and end after that
  prony watch --json | jq .facts       one object a line
  prony watch stack.toml --close       and the kernel locks that threads wait for

Nothing is loaded and nothing is changed. Keys: q or Ctrl-C ends it.")]
pub(crate) struct WatchArgs {
    /// A stack file, or a lab by name (`prony lab ls`) [default: this machine]
    #[arg(value_name = "STACK")]
    pub stack: Option<String>,
    /// Time between two looks
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    pub interval: Nanos,
    /// Look closely for a second, so often, for kernel locks that threads wait for; takes up to 5 % of a CPU, and root
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "5s")]
    pub close: Option<Nanos>,
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
