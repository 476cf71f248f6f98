//! Flags of `prony serve`.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony serve                                    pages over the recorded runs at http://127.0.0.1:7766/
  prony serve --runs runs/                       of another folder
  prony serve --experiments experiments/         experiments of this folder can be started, watched and stopped
  prony serve --stacks stacks/                   stack files of this folder can be edited and checked
  prony serve --bind 10.0.0.7:7766 --token-file token --tls-cert cert.pem --tls-key key.pem
                                                 for others too: only with a token, over TLS

Whoever can reach the address can do what the pages can do; on a machine that others use, give a token on loopback too.
The pages use a documented API (/api/openapi.json); figures for Prometheus are at /metrics. Ctrl-C ends it: an experiment
that runs then puts back what it changed first. docs/serve.md tells more.")]
pub(crate) struct ServeArgs {
    /// Folder of runs [default: $PRONY_HOME/runs]
    #[arg(long, value_name = "DIR")]
    pub runs: Option<PathBuf>,
    /// Address to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7766")]
    pub bind: SocketAddr,
    /// Experiments of this folder can be started; may be repeated
    #[arg(long, value_name = "DIR")]
    pub experiments: Vec<PathBuf>,
    /// Stack files of this folder can be edited; may be repeated
    #[arg(long, value_name = "DIR")]
    pub stacks: Vec<PathBuf>,
    /// Answer also when asked by this name; may be repeated [default: IP addresses and localhost]
    #[arg(long, value_name = "NAME")]
    pub host: Vec<String>,
    /// File with the token that whoever asks must know
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificate chain in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}
