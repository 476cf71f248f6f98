//! Flags of `prony inventory`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony inventory stack.toml                       every host
  prony inventory stack.toml --host lb
  prony inventory fast.toml --diff slow.toml       two environments: what differs, and what that explains
  prony inventory stack.toml --diff s1,s2          two hosts of one stack
  prony inventory stack.toml --diff 20261120-2315  what changed since a recorded run
  prony inventory 20261120-2315                    the hosts of a recorded run, as they were

Nothing is loaded and nothing is changed; a lab is brought up and taken down. Passwords, keys and headers are never read.")]
pub(crate) struct InventoryArgs {
    /// A stack file, a lab by name (`prony lab ls`), or a recorded run
    #[arg(value_name = "STACK")]
    pub of: String,
    /// Show what is not the same there: a stack file, a lab, a recorded run, or HOST,HOST of this stack
    #[arg(long, value_name = "WITH")]
    pub diff: Option<String>,
    /// Only this host; may be repeated
    #[arg(long, value_name = "HOST")]
    pub host: Vec<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
