//! Flags of `prony network`.

use clap::{Args, ValueEnum};
use prony_model::Nanos;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony network stack.toml                 each way of a request, as the stack file has it
  prony network proxy-packet-loss          a lab: what was set beside what is measured
  prony network --layers                   loopback, cable, switch, overlay; offloads on and off
  prony network stack.toml --sizes 64,1448 --each 5s
  prony network --layers --json | jq '.legs[].stream_there.bits_per_s'

Between each two hosts that call each other: one TCP connection there and one back, datagrams of
each size, and probes that are sent back. iperf3 sends where it is installed, prony itself where it
is not; each figure names its sender. No application is loaded and nothing is changed; a lab is
brought up and taken down. Packets cross links of this machine only.

Exit codes: 0 measured, 2 bad arguments, 4 interrupted, or no way could be measured.")]
pub(crate) struct NetworkArgs {
    /// A stack file, or a lab by name (`prony lab ls`)
    #[arg(value_name = "STACK", required_unless_present = "layers")]
    pub stack: Option<String>,
    /// The layers that packets cross on this machine, each in a lab of two hosts
    #[arg(long)]
    pub layers: bool,
    /// Time of each measurement
    #[arg(long, value_name = "TIME", default_value = "2s")]
    pub each: Nanos,
    /// Bytes of payload of the datagrams
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "64,256,512,1448")]
    pub sizes: Vec<u32>,
    /// Who sends streams and datagrams
    #[arg(long, value_enum, default_value = "auto")]
    pub sender: SenderArg,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the result as Markdown here
    #[arg(long, value_name = "FILE")]
    pub md: Option<PathBuf>,
    /// No progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SenderArg {
    /// iperf3 where it is installed, else prony
    Auto,
    /// prony itself
    Own,
    /// iperf3
    Iperf3,
}
