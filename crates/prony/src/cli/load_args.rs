//! Flags and help of `prony load`. No work is done here: `load_plan.rs` turns flags into a plan.
//!
//! Spellings of wrk, hey, oha and h2load work where two tools do not mean different things by one letter; `docs/load.md` has
//! the table. Invariant: a flag that is taken has an effect, or is an error.

use super::ProgressArgs;
use crate::otlp::Endpoint;
use clap::{Args, ValueEnum};
use prony_model::{CpuList, Nanos, Rate, Threshold};
use prony_report::load_output::Format;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LoadArgs {
    /// A URL, a stack file, or a running lab's stack; an imported curl command or HAR file may name it instead
    #[arg(value_name = "URL|STACK", required_unless_present_any = ["from_curl", "from_har"])]
    pub target: Option<String>,
    /// What is left over, often of another tool's flags: the error says what to write.
    #[arg(value_name = "MORE", hide = true)]
    pub more: Vec<String>,
    #[command(flatten)]
    pub shape: ShapeArgs,
    #[command(flatten)]
    pub request: RequestArgs,
    #[command(flatten)]
    pub import: ImportArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub threshold: ThresholdArgs,
    #[command(flatten)]
    pub show: ShowArgs,
}

const EXAMPLES: &str = "Examples:
  prony load -t 2 -c 128 -d 10s --latency http://127.0.0.1:8080/   closed loop, as with wrk
  prony load -c 128 -R 5k --latency http://127.0.0.1:8080/         open loop, as with wrk2
  prony load -n 10000 -c 50 http://127.0.0.1:8080/                 so many requests, as with hey
  prony load -c 10 --http2 --streams 10 -k https://127.0.0.1/      as with h2load
  prony load --profile ramp:100/s..5k/s,30s -d 40s http://127.0.0.1:8080/
  prony load -m POST -b '{\"a\":1}' -H 'Content-Type: application/json' http://127.0.0.1:8080/
  prony load --feed users=users.csv 'http://127.0.0.1:8080/user?id=${users.id}'
  prony load --from-curl copied.txt                                a browser's \"Copy as cURL\", saved
  prony load --from-log access.log --replay --speed 2 http://127.0.0.1:8080/
  prony load -R 1k --threshold 'p(95)<200ms' --threshold 'errors<0.1%' http://127.0.0.1:8080/
  prony load --export run.csv --export run.hgrm http://127.0.0.1:8080/
  prony load stack.toml -d 10s                                     the workload of a stack file, scenarios too

Closed loop: each connection asks again as soon as it has its answer; it finds the most that a
server can do. Open loop (-R, --profile, --replay): requests arrive whatever the answers do, as
users do. Latency then counts from the time at which a request was due, so waiting in the generator
is not left out; the time from the actual send is shown beside it. Connections and rates are totals
over all threads.

Exit codes: 0 done, 1 failed, 2 bad arguments, 3 a threshold did not hold, 4 the result is not
valid (limited by the generator, not steady, interrupted).";

/// How much, how fast, how long.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct ShapeArgs {
    /// Connections held open, over all threads [default: 10, or the workload's]
    #[arg(short, long, value_name = "N", value_parser = whole::<u32>)]
    pub connections: Option<u32>,
    /// How long to count, like 10s or 2m; a bare number is seconds [default: 10s; with -n until they are done, with
    /// --replay until its end]
    #[arg(short, long, short_alias = 'z', value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Nanos>,
    /// End after that many requests
    #[arg(short = 'n', long, value_name = "N", value_parser = from_one::<u64>)]
    pub requests: Option<u64>,
    /// Open loop: requests per second over all threads, like 800 or 5k
    #[arg(short = 'R', long, value_name = "RATE", conflicts_with_all = ["profile", "replay"])]
    pub rate: Option<Rate>,
    /// Open loop with a rate that changes: ramp:100/s..5k/s,30s, steps:1k/s,2k/s@10s, spike:1k/s..10k/s@20s,5s,
    /// bursts:1k/s+8k/s@1s,100ms, points:0s=1k/s,30s=5k/s, or a CSV file of `seconds,rate`
    #[arg(long, value_name = "SPEC|FILE", conflicts_with = "replay")]
    pub profile: Option<String>,
    /// Spacing of arrivals in open loop: constant (evenly), or poisson (independent of each other, as many users are)
    /// [default: poisson, or the workload's]
    #[arg(long, value_name = "KIND", hide_possible_values = true)]
    pub arrivals: Option<ArrivalsArg>,
    /// Not counted, before the duration [default: 500ms; with -n and --replay 0s]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub warmup: Option<Nanos>,
    /// Give up on a response after this time [default: 2s, or the workload's]
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub timeout: Option<Nanos>,
    /// In open loop: do not send a request that could not begin within this time of when it was due; it counts as an
    /// error of its own kind
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub deadline: Option<Nanos>,
    /// Threads [default: one per CPU, at most one per connection]
    #[arg(short, long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = whole::<u32>)]
    pub threads: u32,
    /// CPUs to pin the threads to, like 0,2-3
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Seed of every random choice [default: from the clock]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The target is mine: needed for an address that is not private
    #[arg(long)]
    pub owned: bool,
}

/// What is asked for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
pub(crate) struct RequestArgs {
    /// Method [default: GET]
    #[arg(short, long, value_name = "METHOD")]
    pub method: Option<String>,
    /// Add a header, like 'Accept: text/html'; 'Host: NAME' sets the Host header. May be repeated
    #[arg(short = 'H', long = "header", value_name = "HEADER")]
    pub headers: Vec<String>,
    /// Body
    #[arg(short, long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,
    /// Body from a file
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// A path to ask for instead of the URL's, with its weight. May be repeated
    #[arg(long = "path", value_name = "PATH[=WEIGHT]")]
    pub paths: Vec<String>,
    /// Host names, one per line: requests name them in turn in their Host header
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// Rows for templates, from a .csv or .jsonl file: ${NAME.COLUMN} in paths, headers and bodies. Rows are given out in
    /// turn, or as ,random or ,unique behind the file says (unique: the load ends with the last row). May be repeated
    #[arg(long = "feed", value_name = "NAME=FILE[,ORDER]", conflicts_with_all = ["from_curl", "from_har", "from_log"])]
    pub feeds: Vec<String>,
    /// hey's, oha's and ab's way to set a Content-Type header.
    #[arg(short = 'T', long, value_name = "TYPE", hide = true)]
    pub content_type: Option<String>,
    /// wrk's Lua script, which is not run: the error says what to do instead.
    #[arg(short = 's', long, value_name = "FILE", hide = true)]
    pub script: Option<PathBuf>,
}

/// Workloads that exist already.
#[derive(Debug, Args)]
#[command(next_help_heading = "Imports")]
pub(crate) struct ImportArgs {
    /// The request of a curl command, quoted as one argument, or in a file (`-` is stdin): a browser's "Copy as cURL"
    #[arg(long, value_name = "COMMAND|FILE", conflicts_with_all = ["from_har", "from_log"])]
    pub from_curl: Option<String>,
    /// The requests of a HAR file, as browsers save it
    #[arg(long, value_name = "FILE", conflicts_with = "from_log")]
    pub from_har: Option<PathBuf>,
    /// The requests of an access log of nginx or Apache, each as often as it is in it
    #[arg(long, value_name = "FILE")]
    pub from_log: Option<PathBuf>,
    /// Format of the log, as in nginx's log_format [default: combined]
    #[arg(long, value_name = "FORMAT", requires = "from_log")]
    pub log_format: Option<String>,
    /// Send each request at its own time, as recorded in the HAR file or log, instead of a mix
    #[arg(long)]
    pub replay: bool,
    /// How much faster than recorded: 2 is twice as fast
    #[arg(long, value_name = "FACTOR", requires = "replay", default_value_t = 1.0, hide_default_value = true)]
    pub speed: f64,
}

/// How connections are made and used.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connections")]
pub(crate) struct ConnectionArgs {
    /// A connection per request
    #[arg(long, alias = "disable-keepalive")]
    pub no_keepalive: bool,
    /// Close a connection after that many requests
    #[arg(long, value_name = "N", value_parser = from_one::<u32>)]
    pub requests_per_connection: Option<u32>,
    /// Open at most that many connections per second: a ramp at the beginning, and a limit after it
    #[arg(long, value_name = "RATE")]
    pub connect_rate: Option<Rate>,
    /// Speak HTTP/2: by ALPN over TLS, with prior knowledge without
    #[arg(long, conflicts_with = "pipeline")]
    pub http2: bool,
    /// Requests in flight on each HTTP/2 connection (h2load's -m) [default: 1]
    #[arg(long, value_name = "N", requires = "http2", value_parser = from_one::<u32>)]
    pub streams: Option<u32>,
    /// Requests in flight on each HTTP/1.1 connection, sent without waiting for the answer before [default: 1]
    #[arg(long, value_name = "N", value_parser = from_one::<u32>)]
    pub pipeline: Option<u32>,
    /// Connect there instead of to the URL's host: ADDRESS:PORT. Repeated: connections in turn
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["unix_socket", "all_addresses"])]
    pub connect_to: Vec<String>,
    /// Connect to a Unix socket; the URL still gives host and path
    #[arg(long, value_name = "PATH", conflicts_with = "all_addresses")]
    pub unix_socket: Option<PathBuf>,
    /// Use every address of the host's name in turn, instead of the first that answers
    #[arg(long)]
    pub all_addresses: bool,
    /// Local address that connections come from, or a range like 127.0.0.2-127.0.0.9. Repeated: in turn
    #[arg(long = "source", value_name = "IP[-IP]")]
    pub sources: Vec<String>,
    /// Send and receive by epoll only. Closed loops of kept connections without TLS go through io_uring where the kernel allows it
    #[arg(long)]
    pub no_io_uring: bool,
    /// Look again and again instead of sleeping: latencies to p99.99 without the time of waking up. Takes a whole CPU per
    /// thread: give the threads CPUs that the server does not need (--cpus)
    #[arg(long)]
    pub spin: bool,
}

/// How an https URL is secured.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsArgs {
    /// Accept any certificate, a self-signed one too
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// Trust these certificates instead of the system's (PEM)
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Client's certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Client's key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Name to ask for (SNI) and to check, instead of the URL's host
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// Let new connections resume an earlier session. Without it every handshake is a full one
    #[arg(long)]
    pub resume: bool,
}

/// What must hold.
#[derive(Debug, Args)]
#[command(next_help_heading = "Thresholds")]
pub(crate) struct ThresholdArgs {
    /// What must hold, or else exit code 3: p(95)<200ms, med, avg, max, errors<0.1%, checks>99%, rate>1000 (good answers
    /// per second), count>=5000, lag_p(99)<1ms (schedule lag); with <, <=, >, >= or ==. May be repeated
    #[arg(long = "threshold", value_name = "EXPR")]
    pub thresholds: Vec<Threshold>,
    /// End as soon as a threshold is broken, 2 s after the counted time began at the earliest
    #[arg(long, requires = "thresholds")]
    pub abort_on_fail: bool,
}

/// Where the result goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShowArgs {
    /// Print the latency distribution
    #[arg(long, alias = "u_latency", short_aliases = ['L', 'U'])]
    pub latency: bool,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// Write the result to a file as well; its extension says how: .json, .csv (per second), .hgrm and .hdrlog
    /// (HdrHistogram), .prom (Prometheus). May be repeated
    #[arg(long = "export", value_name = "FILE", value_parser = export)]
    pub exports: Vec<Export>,
    /// Send the result as metrics to an OpenTelemetry collector, like http://127.0.0.1:4318 (OTLP over plain HTTP, JSON)
    #[arg(long, value_name = "URL")]
    pub otlp: Option<Endpoint>,
    #[command(flatten)]
    pub progress: ProgressArgs,
}

/// Spacing of arrivals, as a flag. What they are is said there: text of values would make every option of the help a
/// paragraph.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[allow(missing_docs, reason = "see above")]
pub(crate) enum ArrivalsArg {
    Constant,
    Poisson,
}

/// A file to write, and its form.
#[derive(Clone, Debug)]
pub(crate) struct Export {
    pub path: PathBuf,
    pub format: Format,
}

fn export(text: &str) -> Result<Export, String> {
    let path = PathBuf::from(text);
    Ok(Export { format: Format::of(&path)?, path })
}

/// A count, 0 included.
fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "write a whole number, like 128".to_string())
}

/// A count of which 0 makes no sense.
fn from_one<T: FromStr + PartialEq + Default>(text: &str) -> Result<T, String> {
    let count = whole::<T>(text)?;
    if count == T::default() { Err("write a whole number from 1 on, like 128".to_string()) } else { Ok(count) }
}

/// wrk takes bare numbers as seconds.
fn seconds(text: &str) -> Result<Nanos, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Nanos(seconds.saturating_mul(1_000_000_000)));
    }
    text.parse::<Nanos>().map_err(|e| e.to_string())
}
