//! What to send, and what came back: the plan and the result of one load, without the engine.

use crate::profile::Profile;
use crate::script::Script;
use crate::tls::TlsPlan;
use crate::units::{Nanos, Rate};
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How arrivals are spaced in open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// Independent of each other, as many users are.
    #[default]
    Poisson,
}

/// One kind of request in a weighted list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// Path and query, like `/1k?a=b`.
    pub path: String,
    /// How often, relative to the others.
    #[serde(default = "one")]
    pub weight: f64,
    /// Method; none: the workload's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Headers besides the workload's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Body; none: the workload's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

fn one() -> f64 {
    1.0
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1 (RFC 9112).
    #[default]
    Http1,
    /// HTTP/2 (RFC 9113): by ALPN over TLS, with prior knowledge without.
    Http2,
}

/// How a generator thread sends, receives and waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// epoll(7): works everywhere.
    #[default]
    Epoll,
    /// io_uring(7): less CPU time for the same, where the kernel allows it (Linux 6.1 or later).
    IoUring,
}

/// Everything the engine needs to know of one load. Self-contained: no file is read later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadPlan {
    /// The entry URL, `http[s]://HOST[:PORT]/PATH`.
    pub url: String,
    /// What is spoken.
    #[serde(default)]
    pub protocol: Protocol,
    /// Most requests in flight on one connection: streams of HTTP/2, pipelining of HTTP/1.1.
    #[serde(default = "one_request")]
    pub depth: u32,
    /// How connections of an `https` URL are secured.
    #[serde(default)]
    pub tls: TlsPlan,
    /// How threads send and receive; none: io_uring where it gains, epoll elsewhere. io_uring falls back to epoll in open
    /// loop, with TLS, on Unix sockets, and where the kernel refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<Transport>,
    /// Connect there instead of to the URL's host: `ADDRESS:PORT` or `unix:PATH`, connections in turn.
    #[serde(default)]
    pub connect_to: Vec<String>,
    /// Use every address that the host's name has, in turn, instead of the first that answers.
    #[serde(default)]
    pub all_addresses: bool,
    /// Local addresses that connections come from, in turn; empty: the kernel's choice.
    #[serde(default)]
    pub sources: Vec<IpAddr>,
    /// Most connections opened per second over all threads; none: as needed.
    #[serde(default)]
    pub connect_rate: Option<Rate>,
    /// Connections over all threads.
    pub connections: u32,
    /// Look again and again instead of sleeping: sharper times, for a whole CPU per thread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spin: bool,
    /// Threads; 0: one per CPU in `cpus`, at most one per connection.
    pub threads: u32,
    /// CPUs the threads are pinned to, in order; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Open loop at this rate over all threads; none: closed loop.
    pub rate: Option<Rate>,
    /// How the rate goes over time, instead of `rate`.
    #[serde(default)]
    pub profile: Option<Profile>,
    /// Spacing of arrivals in open loop.
    pub arrivals: Arrivals,
    /// Not counted, before `duration`.
    pub warmup: Nanos,
    /// Counted time.
    pub duration: Nanos,
    /// Give up on a response after this time on the wire.
    pub timeout: Nanos,
    /// In open loop: a request that could not begin within this time of its intended one is shed, not sent.
    #[serde(default)]
    pub deadline: Option<Nanos>,
    /// End after that many requests, if that comes before `duration`.
    #[serde(default)]
    pub requests_max: Option<u64>,
    /// Whether a connection serves more than one request.
    pub keepalive: bool,
    /// Close a connection after that many requests; none: never.
    pub requests_per_connection: Option<u32>,
    /// Headers of every request, in this order; `Host` is added when missing.
    pub headers: Vec<(String, String)>,
    /// Method of requests that name none.
    pub method: String,
    /// Body of requests that name none.
    pub body: Vec<u8>,
    /// The requests; empty: only the URL's own path.
    pub requests: Vec<RequestSpec>,
    /// A scenario, instead of `requests`.
    #[serde(default)]
    pub script: Option<Script>,
    /// Whether the result tells the counted time in stretches of about a second, each with its latency.
    #[serde(default)]
    pub intervals: bool,
    /// The target answered before: should it let nobody in now, that is counted and no mistake in its address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reached: bool,
    /// Seed of every random choice.
    pub seed: u64,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

fn one_request() -> u32 {
    1
}

/// Seed of every load that names none, so that the same command sends the same requests.
const SEED: u64 = 1;
/// Give up on a response after this time, unless the stack says otherwise: as in wrk (`--timeout`, 2 s).
const TIMEOUT: Nanos = Nanos(2_000_000_000);
/// Not counted at the beginning: connections open, caches fill. A guess; sessions set their own.
const WARMUP: Nanos = Nanos(1_000_000_000);
/// Counted time: as in wrk (`-d 10s`).
const DURATION: Nanos = Nanos(10_000_000_000);
/// A thread that had work for less of the time was idle. A guess: half.
const IDLE_THREAD_MAX: f64 = 0.5;

impl LoadPlan {
    /// A plan that asks for a URL over one connection in closed loop.
    pub fn to(url: &str) -> Self {
        Self {
            url: url.to_string(),
            protocol: Protocol::default(),
            depth: 1,
            tls: TlsPlan::default(),
            transport: None,
            connect_to: Vec::new(),
            all_addresses: false,
            sources: Vec::new(),
            connect_rate: None,
            connections: 1,
            threads: 0,
            spin: false,
            cpus: Vec::new(),
            rate: None,
            profile: None,
            arrivals: Arrivals::default(),
            warmup: WARMUP,
            duration: DURATION,
            timeout: TIMEOUT,
            deadline: None,
            requests_max: None,
            keepalive: true,
            requests_per_connection: None,
            headers: Vec::new(),
            method: "GET".to_string(),
            body: Vec::new(),
            requests: Vec::new(),
            script: None,
            intervals: false,
            reached: false,
            seed: SEED,
        }
    }

    /// How long it takes, warm-up and all, in seconds.
    pub fn seconds(&self) -> f64 {
        (self.warmup.0 + self.duration.0) as f64 / 1e9
    }

    /// Whether connections end while the load goes on, and others are opened.
    pub fn reconnects(&self) -> bool {
        !self.keepalive || self.requests_per_connection.is_some()
    }

    /// Whether arrivals follow a schedule and do not wait for answers.
    pub fn is_open_loop(&self) -> bool {
        self.rate.is_some() || self.profile.is_some()
    }
}

/// Errors by kind. Every request that was begun and did not end in a complete response is in exactly one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorCounts {
    /// connect() failed or was refused.
    pub connect: u64,
    /// A send failed (reset, broken pipe).
    pub write: u64,
    /// A receive failed, or the server closed before the response was complete.
    pub read: u64,
    /// No complete response within the timeout.
    pub timeout: u64,
    /// The bytes are no HTTP response, or break a limit (endless headers).
    pub protocol: u64,
    /// A complete response with a status of 400 or more (also counted as completed).
    pub status: u64,
    /// connect() failed because the generator had no local port left (EADDRNOTAVAIL): its own limit, not the stack's.
    pub no_local_port: u64,
    /// A socket could not be made because the generator had no file descriptor left: its own limit.
    pub no_descriptor: u64,
    /// The TLS handshake failed, or the peer sent an alert.
    #[serde(default)]
    pub tls: u64,
    /// Shed: its deadline passed before a connection was free for it. It was never sent.
    #[serde(default)]
    pub deadline: u64,
    /// A complete answer that the scenario's check did not accept (also counted as completed).
    #[serde(default)]
    pub check: u64,
}

impl ErrorCounts {
    /// Adds the counts of another thread or trial.
    pub fn add(&mut self, other: &Self) {
        self.connect += other.connect;
        self.write += other.write;
        self.read += other.read;
        self.timeout += other.timeout;
        self.protocol += other.protocol;
        self.status += other.status;
        self.no_local_port += other.no_local_port;
        self.no_descriptor += other.no_descriptor;
        self.tls += other.tls;
        self.deadline += other.deadline;
        self.check += other.check;
    }

    /// Requests that got no answer, because their connection failed or ended, or they were given up.
    pub fn unanswered(&self) -> u64 {
        self.connect + self.write + self.read + self.timeout
    }

    /// Requests that failed, whatever the reason.
    pub fn total(&self) -> u64 {
        self.connect
            + self.write
            + self.read
            + self.timeout
            + self.protocol
            + self.status
            + self.no_local_port
            + self.no_descriptor
            + self.tls
            + self.deadline
            + self.check
    }
}

/// A latency distribution: the usual quantiles, and the whole histogram.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of values.
    pub count: u64,
    /// Mean in microseconds.
    pub mean_us: f64,
    /// Standard deviation in microseconds.
    pub stdev_us: f64,
    /// Quantiles in microseconds.
    pub p50_us: f64,
    /// See `p50_us`.
    pub p75_us: f64,
    /// See `p50_us`.
    pub p90_us: f64,
    /// See `p50_us`.
    pub p99_us: f64,
    /// See `p50_us`.
    pub p999_us: f64,
    /// See `p50_us`.
    pub p9999_us: f64,
    /// The largest value in microseconds.
    pub max_us: f64,
    /// The histogram in nanoseconds: HdrHistogram V2 format, base64. Percentiles of several trials come from merging these.
    pub hdr_v2: String,
}

impl Latency {
    /// Whether nothing was timed.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All values together, in microseconds.
    pub fn total_us(&self) -> f64 {
        self.mean_us * self.count as f64
    }
}

/// What one generator thread used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadUse {
    /// User CPU time within the counted window, in microseconds.
    pub user_us: f64,
    /// System CPU time, in microseconds.
    pub system_us: f64,
    /// Wall time of the window, in microseconds.
    pub wall_us: f64,
    /// Time ready to run while others had its CPU, in microseconds (`/proc/PID/task/TID/schedstat`, second field; since Linux
    /// 2.6.23 where the kernel keeps it). None where it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_us: Option<f64>,
    /// CPU time spent looking again and again while there was nothing to do, in microseconds; 0 unless the plan says `spin`.
    /// Part of user and system time.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spun_us: f64,
}

/// Times in which a thread that never sleeps (`spin`) did not run, because its machine was elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pauses {
    /// How many.
    pub count: u64,
    /// All together, in microseconds.
    pub total_us: f64,
    /// The longest, in microseconds.
    pub longest_us: f64,
    /// Responses of requests that a pause met: their turn came in it, or their answer did, or before the thread had caught up.
    pub requests: u64,
    /// Latency of all others, from the intended send time.
    pub latency_without: Latency,
}

impl ThreadUse {
    /// CPU time in which the thread had work to do, in microseconds.
    pub fn worked_us(&self) -> f64 {
        self.user_us + self.system_us - self.spun_us
    }

    /// Share of the time in which the thread had work to do: it ran, or waited for a CPU.
    pub fn busy_share(&self) -> f64 {
        let busy_us = self.worked_us() + self.waited_us.unwrap_or(0.0);
        if self.wall_us > 0.0 { busy_us / self.wall_us } else { 0.0 }
    }
}

/// A check that decides whether a result is the stack's or the generator's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// Short name: `rate`, `schedule-lag`, `cpu`, `little`, `ports`, `descriptors`, `quota`, `backlog`, `bytes`,
    /// `steady`, `server-count`.
    pub name: String,
    /// Whether it held.
    pub held: bool,
    /// What was seen against what was allowed, as one sentence.
    pub detail: String,
    /// Whether its failure means that the generator was the limit (`at least X`), rather than that the result is not valid.
    pub generator_limited: bool,
}

/// What the kernel said of the load's own connections: of those open at the end, and of one in 64 that ended before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketFacts {
    /// Connections asked.
    pub asked: u64,
    /// Mean over connections of the smoothed round trip, in microseconds (`tcpi_rtt`).
    pub rtt_us_mean: f64,
    /// The largest of them.
    pub rtt_us_max: f64,
    /// Segments sent again (`tcpi_total_retrans`).
    pub retransmits: u64,
    /// Segments with data sent (`tcpi_data_segs_out`).
    pub segments_out: u64,
    /// Time with data to send, in microseconds (`tcpi_busy_time`).
    pub busy_us: u64,
    /// Part of it in which the receiver's window was full (`tcpi_rwnd_limited`).
    pub window_limited_us: u64,
    /// Part of it in which the own send buffer was full (`tcpi_sndbuf_limited`).
    pub buffer_limited_us: u64,
}

/// How a load goes, as a live screen shows it. Sums over all threads since the counted time began, unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadProgress {
    /// Time since the load began, warm-up included.
    pub elapsed: Nanos,
    /// Warm-up and counted time together.
    pub total: Nanos,
    /// Whether the warm-up still runs: nothing is counted yet.
    pub warming_up: bool,
    /// Requests whose turn came.
    pub intended: u64,
    /// Requests sent.
    pub sent: u64,
    /// Complete answers.
    pub completed: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Connections open now.
    pub connections: u64,
    /// Failures by kind.
    pub errors: ErrorCounts,
    /// Latency since the last progress, from the intended time in open loop.
    pub latency: Latency,
    /// CPU share of each generator thread since the last progress: 1 is a whole CPU.
    pub cpu: Vec<f64>,
    /// 99th percentile of the schedule lag since the last progress, in microseconds; none in closed loop.
    pub lag_us_p99: Option<f64>,
}

/// What happened within one stretch of the counted time, about a second long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadInterval {
    /// Its begin, since the counted time began.
    pub from: Nanos,
    /// Its end, since the counted time began.
    pub to: Nanos,
    /// Requests whose turn came.
    pub intended: u64,
    /// Requests sent.
    pub sent: u64,
    /// Complete answers, whatever their status.
    pub completed: u64,
    /// Failures of every kind, see [`ErrorCounts::total`].
    pub failed: u64,
    /// Latency of the answers completed in it, from the intended time in open loop.
    pub latency: Latency,
}

/// The result of one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// CLOCK_MONOTONIC of the generator's host at the start of the counted time, in nanoseconds.
    pub counted_from_ns: u64,
    /// The same moment on the calendar, in milliseconds since 1970 (UTC).
    #[serde(default)]
    pub counted_from_unix_ms: u64,
    /// Counted time, in seconds.
    pub duration_s: f64,
    /// Requests whose turn came within the counted time (open loop: the schedule; closed loop: as many as were sent).
    pub intended: u64,
    /// Requests sent within the counted time.
    pub sent: u64,
    /// Complete responses within the counted time, whatever their status.
    pub completed: u64,
    /// Complete responses over the whole load: warm-up, counted time, and the requests in flight at its end that were
    /// waited for. This is what the server must have counted.
    #[serde(default)]
    pub responses_total: u64,
    /// Complete responses with status below 400, per second. This is the X of every formula.
    pub good_per_s: f64,
    /// All complete responses per second.
    pub completed_per_s: f64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Connections opened within the counted time.
    pub connections_opened: u64,
    /// Errors by kind.
    pub errors: ErrorCounts,
    /// Responses by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Latency from the intended send time (equal to `latency_actual` in closed loop).
    pub latency: Latency,
    /// Latency from the actual send.
    pub latency_actual: Latency,
    /// Actual minus intended send time; empty in closed loop.
    pub schedule_lag: Latency,
    /// The part of `schedule_lag` of requests that found every connection busy: they waited for the stack, as long as the
    /// generator had the CPU to read its answers. Empty when none did.
    #[serde(default, skip_serializing_if = "Latency::is_empty")]
    pub connection_wait: Latency,
    /// What the machine itself did to an open loop of threads that never sleep; none for others, which cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pauses: Option<Pauses>,
    /// Completed responses in each whole second of the counted time.
    pub per_second: Vec<u64>,
    /// The counted time in stretches, each with its latency; empty when nobody asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<LoadInterval>,
    /// CPU use of each generator thread.
    pub threads: Vec<ThreadUse>,
    /// How they sent and received.
    #[serde(default)]
    pub transport: Transport,
    /// Requests in flight, as a mean over the counted time.
    pub in_flight_mean: f64,
    /// What the kernel said of the connections; none without TCP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sockets: Option<SocketFacts>,
    /// Per step of a scenario, in its order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<crate::script::StepResult>,
    /// Validity gates.
    pub gates: Vec<Gate>,
    /// True when the load was stopped before its time.
    pub interrupted: bool,
}

impl LoadResult {
    /// Whether every gate held and the load ran to its end.
    pub fn is_valid(&self) -> bool {
        !self.interrupted && self.gates.iter().all(|g| g.held)
    }

    /// Answers per second that the stack worked for, good or not: all but refusals (429, 503), which cost it next to nothing.
    pub fn worked_for_per_s(&self) -> f64 {
        let refused: u64 = [429, 503].iter().filter_map(|status| self.statuses.get(status)).sum();
        (self.completed_per_s - refused as f64 / self.duration_s.max(f64::MIN_POSITIVE)).max(0.0)
    }

    /// Whether most of what the stack worked for is no good answer. What limits such a stack limits its failures too.
    pub fn mostly_fails(&self) -> bool {
        self.good_per_s < self.worked_for_per_s() / 2.0
    }

    /// Whether the generator was the limit: then the rate is a lower bound of what the stack can carry.
    pub fn generator_limited(&self) -> bool {
        self.gates.iter().any(|g| !g.held && g.generator_limited)
    }

    /// Whether its threads had nothing to do most of the time: what was late then was not late for want of CPU.
    pub fn had_idle_threads(&self) -> bool {
        !self.threads.is_empty() && self.threads.iter().all(|thread| thread.busy_share() < IDLE_THREAD_MAX)
    }

    /// Share of begun requests that failed; 0 when none was begun.
    pub fn error_share(&self) -> f64 {
        let ended = self.completed + self.errors.total() - self.errors.status - self.errors.check;
        if ended == 0 { 0.0 } else { self.errors.total() as f64 / ended as f64 }
    }

    /// How soon a request is answered well, per second: 1 / mean latency, as many as one client would get that waits for each. What fails
    /// soon is no better; where all fail, half a request counts (Haldane 1956, "The estimation and significance of the logarithm of a
    /// ratio of frequencies").
    pub fn soonness_per_s(&self) -> f64 {
        let good = (1.0 - self.error_share()).max(0.5 / self.completed.max(1) as f64);
        good * 1e6 / self.latency.mean_us
    }

    /// CPU time of the generator per completed request, in microseconds; none when none was completed or no thread was seen.
    pub fn generator_cpu_us_per_request(&self) -> Option<f64> {
        let cpu_us: f64 = self.threads.iter().map(|t| t.user_us + t.system_us).sum();
        (self.completed > 0 && !self.threads.is_empty()).then(|| cpu_us / self.completed as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(held: bool, generator_limited: bool) -> Gate {
        Gate { name: "cpu".into(), held, detail: String::new(), generator_limited }
    }

    #[test]
    fn a_result_is_valid_when_every_gate_held_and_it_ran_to_its_end() {
        let with = |gates: Vec<Gate>, interrupted| LoadResult { gates, interrupted, ..LoadResult::default() };
        assert!(with(vec![gate(true, true)], false).is_valid());
        assert!(!with(vec![gate(true, true)], true).is_valid());
        let (steady, generator) = (with(vec![gate(false, false)], false), with(vec![gate(false, true)], false));
        assert_eq!((steady.is_valid(), steady.generator_limited()), (false, false));
        assert_eq!((generator.is_valid(), generator.generator_limited()), (false, true));
    }

    #[test]
    fn a_failed_request_counts_once() {
        // 90 complete responses, 10 of them with an error status, and 10 timeouts: 20 of 100 requests failed.
        let errors = ErrorCounts { status: 10, timeout: 10, ..ErrorCounts::default() };
        let result = LoadResult { completed: 90, errors, ..LoadResult::default() };
        assert!((result.error_share() - 0.2).abs() < 1e-12);
        assert_eq!(LoadResult::default().error_share(), 0.0);
    }

    #[test]
    fn answers_that_fail_are_not_sooner() {
        let of = |mean_us: f64, status: u64| {
            let latency = Latency { mean_us, ..Default::default() };
            let errors = ErrorCounts { status, ..ErrorCounts::default() };
            LoadResult { latency, errors, completed: 100, ..LoadResult::default() }.soonness_per_s()
        };
        assert_eq!((of(10_000.0, 0), of(5_000.0, 50)), (100.0, 100.0), "half of them fail in half of the time");
        assert_eq!(of(1_000.0, 100), 5.0, "all fail");
    }

    #[test]
    fn a_thread_that_waits_for_its_cpu_is_not_idle() {
        let with = |waited_us: &[f64]| {
            let thread =
                |us: &f64| ThreadUse { user_us: 300.0, wall_us: 1000.0, waited_us: Some(*us), ..ThreadUse::default() };
            LoadResult { threads: waited_us.iter().map(thread).collect(), ..LoadResult::default() }.had_idle_threads()
        };
        assert!(with(&[0.0, 100.0]) && !with(&[0.0, 200.0]) && !with(&[]));
    }

    #[test]
    fn the_generators_cost_is_that_of_all_its_threads() {
        let thread = ThreadUse { user_us: 100.0, system_us: 300.0, wall_us: 1000.0, waited_us: None, spun_us: 0.0 };
        let result = LoadResult { completed: 200, threads: vec![thread; 2], ..LoadResult::default() };
        assert_eq!(result.generator_cpu_us_per_request(), Some(4.0));
        assert_eq!(LoadResult::default().generator_cpu_us_per_request(), None);
    }
}
