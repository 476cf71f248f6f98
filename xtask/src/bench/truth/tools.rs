//! The load generators that are compared: how each is called, and what it tells.
//!
//! What a tool prints is read as it is; nothing is corrected in its favour or against it. Invariant: a percentile that a tool
//! does not tell is absent, never guessed.

use super::schedule::{Percentiles, QUANTILES, percentiles};
use prony_model::{Latency, LoadResult, Nanos};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a tool says of its run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    /// At [`QUANTILES`], in microseconds.
    pub(super) percentiles_us: [Option<f64>; QUANTILES.len()],
    /// Completed requests that these are of.
    pub(super) requests: u64,
    /// The part of the run that was counted, on the monotonic clock, where the tool tells it: from, to.
    pub(super) counted_ns: Option<(u64, u64)>,
    /// Whatever else a reader should know.
    pub(super) notes: Vec<String>,
}

/// The requests whose latency the truth is computed for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Truth {
    /// Those of the plan: evenly from the start of the run, at the rate asked for.
    Planned,
    /// Those that reached the server, for a schedule that is random: it sees the same times, a few microseconds later.
    Recorded,
    /// As many as were sent, evenly over the run: what users who do not wait for each other would have seen.
    Even,
}

/// One run to make.
pub(super) struct Job<'a> {
    pub(super) url: &'a str,
    pub(super) rate: u32,
    pub(super) seconds: u32,
    /// Enough for the schedule even in a stall.
    pub(super) connections: u32,
    /// As many as keep the rate when each waits for its answer.
    pub(super) connections_closed: u32,
    /// Files that the tools need: the script of wrk, the log of h2load.
    pub(super) script: &'a Path,
    pub(super) log: &'a Path,
}

/// A load generator.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) program: &'static str,
    pub(super) truth: Truth,
    pub(super) args: fn(&Job<'_>) -> Vec<String>,
    /// From standard output and the log file.
    pub(super) read: fn(&str, &str) -> Option<Told>,
}

/// Not counted by prony: connections open. Long enough that each of 512 is used several times at 2000 requests/s.
pub(super) const WARMUP: Nanos = Nanos(2_000_000_000);
/// Connections of tools that give each connection a schedule of its own: more of them would all fire at the same moment.
const CONNECTIONS_IN_STEP: u32 = 64;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "prony -R --spin, constant",
        program: "prony",
        truth: Truth::Planned,
        args: |job| prony_args(job, "constant", &["--spin"]),
        read: |said, _| prony(said),
    },
    Tool {
        name: "prony -R --spin, Poisson",
        program: "prony",
        truth: Truth::Recorded,
        args: |job| prony_args(job, "poisson", &["--spin"]),
        read: |said, _| prony(said),
    },
    Tool {
        name: "prony -R --spin, constant, without what its machine's pauses met",
        program: "prony",
        truth: Truth::Planned,
        args: |job| prony_args(job, "constant", &["--spin"]),
        read: |said, _| prony_without_pauses(said),
    },
    Tool {
        name: "prony -R, constant",
        program: "prony",
        truth: Truth::Planned,
        args: |job| prony_args(job, "constant", &[]),
        read: |said, _| prony(said),
    },
    Tool {
        name: "prony -R, Poisson",
        program: "prony",
        truth: Truth::Recorded,
        args: |job| prony_args(job, "poisson", &[]),
        read: |said, _| prony(said),
    },
    Tool { name: "wrk2 -R", program: "wrk2", truth: Truth::Even, args: wrk2_args, read: |said, _| wrk(said) },
    Tool { name: "wrk", program: "wrk", truth: Truth::Even, args: wrk_args, read: |said, _| wrk(said) },
    Tool { name: "h2load --h1", program: "h2load", truth: Truth::Even, args: h2load_args, read: |_, log| h2load(log) },
    Tool {
        name: "h2load --h1 --rps",
        program: "h2load",
        truth: Truth::Even,
        args: h2load_rps_args,
        read: |_, log| h2load(log),
    },
    Tool { name: "oha", program: "oha", truth: Truth::Even, args: oha_args, read: |said, _| oha(said) },
    Tool {
        name: "oha -q --latency-correction",
        program: "oha",
        truth: Truth::Even,
        args: oha_rate_args,
        read: |said, _| oha(said),
    },
];

impl Tool {
    /// The program, if it is there: prony as it was built, others from the search path.
    pub(super) fn find(&self, built: &Path) -> Option<PathBuf> {
        if self.program == "prony" {
            return Some(built.join("release/prony")).filter(|path| path.exists());
        }
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join(self.program)).find(|file| file.is_file())
    }
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| word.to_string()).collect()
}

fn prony_args(job: &Job<'_>, arrivals: &str, more: &[&str]) -> Vec<String> {
    let (rate, seconds, connections) = (job.rate.to_string(), format!("{}s", job.seconds), job.connections.to_string());
    let warmup = WARMUP.to_string();
    words(&["load", "--json", "-t", "1", "--seed", "1", "--warmup", &warmup, "-d", &seconds])
        .into_iter()
        .chain(words(&["-c", &connections, "-R", &rate, "--arrivals", arrivals]))
        .chain(words(more))
        .chain(words(&[job.url]))
        .collect()
}

fn wrk_args(job: &Job<'_>) -> Vec<String> {
    let (seconds, connections) = (format!("{}s", job.seconds), job.connections_closed.to_string());
    let script = job.script.display().to_string();
    words(&["-t1", "-c", &connections, "-d", &seconds, "-s", &script, job.url])
}

fn wrk2_args(job: &Job<'_>) -> Vec<String> {
    let (rate, seconds, connections) =
        (job.rate.to_string(), format!("{}s", job.seconds), CONNECTIONS_IN_STEP.to_string());
    let script = job.script.display().to_string();
    words(&["-t1", "-c", &connections, "-d", &seconds, "-R", &rate, "-s", &script, job.url])
}

fn h2load_args(job: &Job<'_>) -> Vec<String> {
    let (seconds, connections) = (job.seconds.to_string(), job.connections_closed.to_string());
    let log = format!("--log-file={}", job.log.display());
    words(&["--h1", "-t1", "-c", &connections, "-D", &seconds, &log, job.url])
}

fn h2load_rps_args(job: &Job<'_>) -> Vec<String> {
    let (seconds, connections) = (job.seconds.to_string(), CONNECTIONS_IN_STEP.to_string());
    let log = format!("--log-file={}", job.log.display());
    let rate = format!("--rps={}", f64::from(job.rate) / f64::from(CONNECTIONS_IN_STEP));
    words(&["--h1", "-t1", "-c", &connections, "-D", &seconds, &rate, &log, job.url])
}

fn oha_args(job: &Job<'_>) -> Vec<String> {
    let (seconds, connections) = (format!("{}s", job.seconds), job.connections_closed.to_string());
    words(&["--no-tui", "--output-format", "json", "-z", &seconds, "-c", &connections, job.url])
}

fn oha_rate_args(job: &Job<'_>) -> Vec<String> {
    let (rate, seconds, connections) = (job.rate.to_string(), format!("{}s", job.seconds), job.connections.to_string());
    words(&["--no-tui", "--output-format", "json", "-z", &seconds, "-c", &connections])
        .into_iter()
        .chain(words(&["-q", &rate, "--latency-correction", job.url]))
        .collect()
}

/// `prony load --json`.
fn prony(said: &str) -> Option<Told> {
    let result = prony_result(said)?;
    told_by_prony(&result, &result.latency)
}

/// The same without the requests that it says a pause of its machine met.
fn prony_without_pauses(said: &str) -> Option<Told> {
    let result = prony_result(said)?;
    let pauses = result.pauses.as_ref()?;
    let mut told = told_by_prony(&result, &pauses.latency_without)?;
    let (total_ms, longest_ms) = (pauses.total_us / 1e3, pauses.longest_us / 1e3);
    told.notes.push(format!(
        "{} pauses, {total_ms:.1} ms in all, {longest_ms:.1} ms the longest; they met {} requests",
        pauses.count, pauses.requests
    ));
    Some(told)
}

fn prony_result(said: &str) -> Option<LoadResult> {
    #[derive(Deserialize)]
    struct Said {
        result: LoadResult,
    }
    serde_json::from_str::<Said>(said).ok().map(|said| said.result)
}

fn told_by_prony(result: &LoadResult, latency: &Latency) -> Option<Told> {
    let values = [latency.p50_us, latency.p90_us, latency.p99_us, latency.p999_us, latency.p9999_us];
    let (from, length) = (result.counted_from_ns, Nanos::from_secs_f64(result.duration_s).0);
    let lag = &result.schedule_lag;
    let mut notes = vec![format!("sent {:.0} us behind schedule at p50, {:.0} at p99", lag.p50_us, lag.p99_us)];
    if result.errors.total() > 0 {
        notes.push(format!("{} requests failed", result.errors.total()));
    }
    notes.extend(
        result.gates.iter().filter(|gate| !gate.held).map(|gate| format!("gate {}: {}", gate.name, gate.detail)),
    );
    Some(Told {
        percentiles_us: values.map(Some),
        requests: result.completed,
        counted_ns: Some((from, from + length)),
        notes,
    })
}

/// `percentile 99.9 1234` and `requests N`, as our script for wrk prints. Its own text is above them: errors are told there.
fn wrk(said: &str) -> Option<Told> {
    let percentile = |q: f64| {
        let values = said.lines().filter_map(|line| line.strip_prefix("percentile ")?.split_once(' '));
        let found = values.filter_map(|(p, us)| Some((p.parse::<f64>().ok()?, us.trim().parse::<f64>().ok()?)));
        found.into_iter().find(|(p, _)| (p / 100.0 - q).abs() < 1e-9).map(|(_, us)| us)
    };
    let requests = said.lines().find_map(|line| line.strip_prefix("requests "))?.trim().parse().ok()?;
    let errors = said.lines().map(str::trim).filter(|l| l.starts_with("Socket errors") || l.starts_with("Non-2xx"));
    Some(Told {
        percentiles_us: QUANTILES.map(percentile),
        requests,
        counted_ns: None,
        notes: errors.map(str::to_string).collect(),
    })
}

/// `start in us since 1970, status, us until the end of the response`, a line per request.
fn h2load(log: &str) -> Option<Told> {
    let rows: Vec<(i32, u64)> = log
        .lines()
        .map(|line| {
            let mut columns = line.split('\t').skip(1);
            Some((columns.next()?.trim().parse().ok()?, columns.next()?.trim().parse().ok()?))
        })
        .collect::<Option<_>>()?;
    let ended: Vec<u64> = rows.iter().filter(|(status, _)| *status >= 0).map(|(_, us)| us * 1000).collect();
    let failed = rows.len() - ended.len();
    let requests = ended.len() as u64;
    let values: Percentiles = percentiles(ended)?;
    Some(Told {
        percentiles_us: values.map(Some),
        requests,
        counted_ns: None,
        notes: if failed == 0 { Vec::new() } else { vec![format!("{failed} requests failed")] },
    })
}

/// `oha --output-format json`: seconds.
fn oha(said: &str) -> Option<Told> {
    #[derive(Deserialize)]
    struct Said {
        #[serde(rename = "latencyPercentiles")]
        percentiles: BTreeMap<String, Option<f64>>,
        #[serde(rename = "statusCodeDistribution")]
        statuses: BTreeMap<String, u64>,
        #[serde(rename = "errorDistribution")]
        errors: BTreeMap<String, u64>,
    }
    let said: Said = serde_json::from_str(said).ok()?;
    let names = ["p50", "p90", "p99", "p99.9", "p99.99"];
    Some(Told {
        percentiles_us: names.map(|name| said.percentiles.get(name).copied().flatten().map(|s| s * 1e6)),
        requests: said.statuses.values().sum(),
        counted_ns: None,
        notes: said.errors.iter().map(|(what, count)| format!("{count}: {what}")).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{ErrorCounts, Latency};

    #[test]
    fn reads_what_prony_says() {
        let latency =
            Latency { p50_us: 1.0, p90_us: 2.0, p99_us: 3.0, p999_us: 4.0, p9999_us: 5.0, ..Latency::default() };
        let lag = Latency { p50_us: 7.0, p99_us: 9.0, ..Latency::default() };
        let result = LoadResult {
            counted_from_ns: 100,
            duration_s: 2.0,
            completed: 42,
            latency,
            schedule_lag: lag,
            errors: ErrorCounts { timeout: 3, ..ErrorCounts::default() },
            ..LoadResult::default()
        };
        let told = prony(&serde_json::json!({ "schema": "prony.load/1", "result": result }).to_string()).unwrap();
        assert_eq!(told.percentiles_us, [1.0, 2.0, 3.0, 4.0, 5.0].map(Some));
        assert_eq!((told.requests, told.counted_ns), (42, Some((100, 2_000_000_100))));
        assert_eq!(told.notes, ["sent 7 us behind schedule at p50, 9 at p99", "3 requests failed"]);
        assert_eq!(prony("error: nobody listens"), None);
    }

    #[test]
    fn reads_what_wrk_says() {
        let said = "Running 2s test @ http://127.0.0.1:1/\n  1 threads and 10 connections\n  \
                    Socket errors: connect 0, read 0, write 0, timeout 5\nRequests/sec:   1966.53\n\
                    percentile 50 5060\npercentile 90 5093\npercentile 99 5177\npercentile 99.9 5300\n\
                    percentile 99.99 6001\nrequests 3934\n";
        let told = wrk(said).unwrap();
        assert_eq!(told.percentiles_us, [5060.0, 5093.0, 5177.0, 5300.0, 6001.0].map(Some));
        assert_eq!((told.requests, told.notes.len()), (3934, 1));
        assert_eq!(wrk("unable to connect to 127.0.0.1:1 Connection refused\n"), None);
    }

    #[test]
    fn reads_the_log_of_h2load() {
        let told =
            h2load("1763692400000000\t200\t5050\n1763692400000010\t-1\t9\n1763692400000020\t200\t7000\n").unwrap();
        assert_eq!(told.percentiles_us, [5050.0, 7000.0, 7000.0, 7000.0, 7000.0].map(Some));
        assert_eq!((told.requests, told.notes), (2, vec!["1 requests failed".to_string()]));
        assert_eq!(h2load(""), None);
        assert_eq!(h2load("no log"), None);
    }

    #[test]
    fn reads_what_oha_says() {
        let said = r#"{"summary":{"total":2.0},"latencyPercentiles":{"p10":0.004,"p50":0.005,"p90":0.006,"p99":0.007,
            "p99.9":0.008,"p99.99":null},"statusCodeDistribution":{"200":12},"errorDistribution":{"aborted due to deadline":3}}"#;
        let told = oha(said).unwrap();
        let rounded = told.percentiles_us.map(|us| us.map(f64::round));
        assert_eq!(rounded, [Some(5000.0), Some(6000.0), Some(7000.0), Some(8000.0), None]);
        assert_eq!((told.requests, told.notes), (12, vec!["3: aborted due to deadline".to_string()]));
        assert_eq!(oha("{}"), None);
    }
}
