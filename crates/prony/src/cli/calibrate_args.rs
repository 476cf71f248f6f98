//! Flags and help of `prony calibrate`. No work is done here.

use clap::Args;
use prony_model::Nanos;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony calibrate                 about 40 s; writes $PRONY_HOME/calibration.json
  prony calibrate --each 2s       longer, steadier numbers
  prony calibrate --json

HTTP/1.1, with pipelining and with a connection per request, TLS, and HTTP/2, on loopback. Run it once per machine
and kernel, when nothing else runs. Later loads then say how much of its ceiling the generator used. Ctrl-C
leaves the calibration before as it was.")]
pub(crate) struct CalibrateArgs {
    /// Length of each of the loads
    #[arg(long, value_name = "TIME", default_value = "450ms")]
    pub each: Nanos,
    /// CPU of the generator's thread; the null server gets another one [default: the last CPU that this process may use]
    #[arg(long, value_name = "N")]
    pub cpu: Option<u32>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}
