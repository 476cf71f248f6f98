//! Drives requests: pacer x protocol x stop rule, one loop; records intended and actual send time.
//!
//! [`run`] is called on a thread of the network namespace that the load shall come from; the threads it starts inherit that.
//! This crate enters no namespace and prints nothing; of files it reads only the system's trust store and the counters of its
//! own process. Invariants: a load ends at its time whatever the server does; memory is bounded by the plan, not by what the
//! server sends; what the generator could not do is counted apart from what the stack could not do.

pub mod error;
pub mod flow;
pub mod gates;
pub mod import;
mod interface;
pub mod null_server;
pub mod plan;
mod ports;
pub mod target;
pub mod tls;

mod crew;
mod digits;
mod engine;
pub mod h1;
pub mod h2;
mod live;
mod pacer;
mod pauses;
pub mod protocol;
mod reach;
mod request;
mod response;
pub mod scenario;
mod slot;
mod sockets;
mod source;
mod surroundings;
mod sys;
mod tally;
mod transport;
mod watch;
mod wire;

pub use error::LoadError;
pub use plan::plan_from;
pub use scenario::Walks;
pub use target::{Endpoint, Target, check_url, endpoints, guard, is_own, is_private, resolve};

use crew::{Crew, Worked};
use engine::{Outcome, Route};
use h1::Http1;
use h2::Http2;
use ports::WaitingPorts;
use prony_model::load::{LoadPlan, LoadProgress, LoadResult};
use prony_model::script::{Feed, StepResult};
use prony_model::{Latency, Nanos, Protocol};
use scenario::{Actor, Scenario, StepTally};
use source::Source;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use surroundings::Surroundings;
use tally::{Counted, Tally};
use tls::Tls;

/// Most requests in flight at once. A guess: 100 MB of places for them.
const CALLS_MAX: u32 = 4_000_000;
/// Longest time that a prepare phase may take. A guess: a person would have stopped it.
const PREPARE_MAX: Nanos = Nanos(600_000_000_000);
/// Descriptors that the process needs besides connections. A guess: recorder, probes and pipes need some dozens.
const DESCRIPTORS_ELSEWHERE: u64 = 256;

/// Who hears how a load goes while it runs. Telling takes half a millisecond of CPU time, beside the load that is measured.
#[derive(Clone, Copy)]
pub struct Listener<'a> {
    /// How often; at most every 100 ms.
    pub every: Duration,
    /// Is told.
    pub tell: &'a (dyn Fn(LoadProgress) + Sync),
}

/// Applies a load and waits for its end: at most warm-up, duration and half a second after the first connection. `stop` ends it
/// early, and what was measured is returned as `interrupted`. The listener is called on this thread.
///
/// # Errors
/// When the load cannot begin: a URL, plan or name that is wrong, nobody who listens, a server that speaks otherwise. Failures of
/// requests are counted in the result instead.
pub fn run(plan: &LoadPlan, stop: &AtomicBool, listener: Option<Listener<'_>>) -> Result<LoadResult, LoadError> {
    run_on(plan, &mut Walks::default(), stop, listener)
}

/// The same as one load of several: a scenario goes on where the load before it ended.
///
/// # Errors
/// As [`run`].
pub fn run_on(
    plan: &LoadPlan,
    walks: &mut Walks,
    stop: &AtomicBool,
    listener: Option<Listener<'_>>,
) -> Result<LoadResult, LoadError> {
    let target = check_url(&plan.url)?;
    check_plan(plan)?;
    let tls = target.secure.then(|| Tls::from_plan(&plan.tls, &target.host, plan.protocol)).transpose()?;
    // Mistakes in a scenario are found before anything is sent.
    let mut scenario = Scenario::compile(plan, &target, None)?;
    let Some(endpoints) = reach::reachable(endpoints(&target, &plan.connect_to)?, plan, tls.as_ref(), stop)? else {
        return Ok(LoadResult { interrupted: true, ..LoadResult::default() });
    };
    let route = Route {
        endpoints,
        sources: plan.sources.clone(),
        tls,
        timeout_ns: plan.timeout.0,
        spin: plan.spin,
        deadline_ns: plan.deadline.map(|deadline| deadline.0),
        requests_per_connection: if plan.keepalive { plan.requests_per_connection.unwrap_or(u32::MAX) } else { 1 },
    };
    if let Some(preparing) = Scenario::compile_prepare(plan, &target)? {
        let Some(rows) = prepare(plan, preparing, &target, &route, stop, listener)? else {
            return Ok(LoadResult { interrupted: true, ..LoadResult::default() });
        };
        scenario = Scenario::compile(plan, &target, Some(&rows))?;
    }
    let scenario = scenario.map(Arc::new);
    let before = Surroundings::read(Path::new("/"), &route.endpoints);
    let played = Played { scenario: scenario.clone(), walks: walks.take(plan), prepares: false };
    let mut worked = send(plan, &target, &route, played, stop, listener)?;
    walks.leave(std::mem::take(&mut worked.walks));
    let mut around = Surroundings::read(Path::new("/"), &route.endpoints).since(&before);
    if plan.reconnects() {
        around.waiting_ports = WaitingPorts::read(&route.endpoints, Path::new("/"));
    }
    let result = result_of(plan, &worked.outcomes, scenario.as_deref(), &around);
    Ok(LoadResult { intervals: worked.intervals, ..result })
}

/// Does the steps that come before the load, and gives what they saved. None: stopped meanwhile.
fn prepare(
    plan: &LoadPlan,
    scenario: Scenario,
    target: &Target,
    route: &Route,
    stop: &AtomicBool,
    listener: Option<Listener<'_>>,
) -> Result<Option<Feed>, LoadError> {
    let connections = plan.script.as_ref().and_then(|s| s.prepare.as_ref()).map_or(1, |p| p.connections.max(1));
    let closed = LoadPlan {
        connections,
        rate: None,
        profile: None,
        requests_max: None,
        warmup: Nanos(0),
        duration: PREPARE_MAX,
        ..plan.clone()
    };
    let mut rows = scenario.prepared_rows();
    let played = Played { scenario: Some(Arc::new(scenario)), walks: Vec::new(), prepares: true };
    let outcomes = send(&closed, target, route, played, stop, listener)?.outcomes;
    if outcomes.iter().any(|outcome| outcome.interrupted) {
        return Ok(None);
    }
    for outcome in outcomes {
        match outcome.source {
            Source::Fixed { .. } => {}
            Source::Played(play) => play.into_prepared().into_iter().for_each(|more| rows.merge(more)),
        }
    }
    rows.into_feed().map(Some)
}

/// What is played instead of a fixed list of requests.
struct Played {
    scenario: Option<Arc<Scenario>>,
    /// To go on with.
    walks: Vec<Actor>,
    prepares: bool,
}

/// Sends with the protocol of the plan.
fn send(
    plan: &LoadPlan,
    target: &Target,
    route: &Route,
    played: Played,
    stop: &AtomicBool,
    listener: Option<Listener<'_>>,
) -> Result<Worked, LoadError> {
    let threads = thread_count(plan);
    let own_table = own_table_needed(plan.connections);
    let Played { scenario, walks, prepares } = played;
    let crew = Crew { plan, target, route, scenario, walks: Mutex::new(walks), prepares, threads, own_table };
    match plan.protocol {
        Protocol::Http1 => crew.work(Http1::new(plan.depth, !plan.keepalive), stop, listener),
        Protocol::Http2 => crew.work(Http2::new(plan.depth, &request::common(plan, target)), stop, listener),
    }
}

fn check_plan(plan: &LoadPlan) -> Result<(), LoadError> {
    let wrong = |item: &str, why: &str| Err(LoadError::Plan { item: item.to_string(), why: why.to_string() });
    if plan.connections == 0 {
        return wrong("connections", "0 can send nothing: use at least one");
    }
    if plan.duration.0 == 0 || plan.timeout.0 == 0 {
        return wrong("duration", "duration and timeout must be longer than 0");
    }
    if plan.depth == 0 || plan.connections.checked_mul(plan.depth).is_none_or(|calls| calls > CALLS_MAX) {
        return wrong("depth", "connections times depth must be from 1 to 4,000,000");
    }
    if !plan.keepalive && plan.depth > 1 {
        return wrong("depth", "a connection per request carries one request: leave keep-alive on, or depth at 1");
    }
    if plan.connect_rate.is_some_and(|r| !r.0.is_finite() || r.0 <= 0.0) {
        return wrong("connect_rate", "a rate of 0 opens nothing: write more, or leave it out");
    }
    if plan.rate.is_some() && plan.profile.is_some() {
        return wrong("profile", "both a rate and a profile are given: keep one");
    }
    if let Some(Err(error)) = plan.profile.as_ref().map(|profile| profile.check()) {
        return wrong("profile", &error.to_string());
    }
    if plan.rate.is_some_and(|r| !r.0.is_finite() || r.0 <= 0.0) {
        return wrong("rate", "a rate of 0 sends nothing: write more, or leave it out for a closed loop");
    }
    if plan.requests_per_connection == Some(0) {
        return wrong("requests_per_connection", "0 would send nothing: write 1 or more");
    }
    Ok(())
}

/// As many as the plan says; 0: one per CPU named, or per CPU of this thread. Never more than connections.
fn thread_count(plan: &LoadPlan) -> u32 {
    let wanted = match (plan.threads, plan.cpus.len()) {
        (0, 0) => thread::available_parallelism().map_or(1, |n| n.get() as u32),
        (0, cpus) => cpus as u32,
        (threads, _) => threads,
    };
    wanted.clamp(1, plan.connections)
}

/// Whether each thread needs a table of descriptors of its own, because one is too small for all connections. Should those be too
/// small as well, connections fail for want of descriptors, which a gate tells, and the rest of the process has still its own.
fn own_table_needed(connections: u32) -> bool {
    let all = u64::from(connections) + DESCRIPTORS_ELSEWHERE;
    all > sys::descriptor_limit(all)
}

fn result_of(plan: &LoadPlan, outcomes: &[Outcome], scenario: Option<&Scenario>, around: &Surroundings) -> LoadResult {
    let (first, rest) = outcomes.split_first().expect("there is at least one thread");
    let mut counted = first.tally.counted;
    counted.end_ns = outcomes.iter().map(|o| o.tally.counted.end_ns).max().unwrap_or(counted.end_ns);
    let duration_ns = counted.end_ns - counted.start_ns;
    // Buckets are as many as the plan's whole time has; of an interrupted load the rest is empty.
    let mut sum = Tally::new(Counted { end_ns: counted.start_ns + plan.duration.0, ..counted });
    sum.merge(&first.tally);
    let mut sockets = first.sockets.clone();
    for outcome in rest {
        sum.merge(&outcome.tally);
        sockets.merge(&outcome.sockets);
    }
    let duration_s = duration_ns as f64 / 1e9;
    let per_s = |count: u64| if duration_ns == 0 { 0.0 } else { count as f64 / duration_s };
    let in_second: Vec<u64> =
        sum.buckets.chunks(10).map(|tenths| tenths.iter().copied().map(u64::from).sum()).collect();
    let actual = sum.latency_actual.to_latency();
    let (latency, lag) = match plan.is_open_loop() {
        false => (actual.clone(), Latency::default()),
        true => (sum.latency.to_latency(), sum.lag.to_latency()),
    };
    let codes = (0u16..).zip(sum.statuses.iter().copied());
    let mut result = LoadResult {
        counted_from_ns: counted.start_ns,
        counted_from_unix_ms: calendar_ms(counted.start_ns),
        duration_s,
        intended: sum.intended,
        sent: sum.sent,
        completed: sum.completed,
        responses_total: sum.responses_total,
        good_per_s: per_s(sum.completed - sum.errors.status - sum.errors.check),
        completed_per_s: per_s(sum.completed),
        bytes_in: sum.bytes_in,
        bytes_out: sum.bytes_out,
        connections_opened: sum.connections_opened,
        errors: sum.errors,
        statuses: codes.filter(|(_, count)| *count > 0).collect(),
        latency,
        latency_actual: actual,
        schedule_lag: lag,
        connection_wait: sum.waited.to_latency(),
        pauses: sum.pauses.as_ref().map(|pauses| pauses.told(&sum.latency)),
        per_second: in_second.into_iter().take((duration_ns / 1_000_000_000) as usize).collect(),
        threads: outcomes.iter().map(|o| o.usage).collect(),
        // Where one thread had to fall back, the load is not called one of io_uring.
        transport: outcomes.iter().map(|o| o.transport).min().unwrap_or_default(),
        in_flight_mean: if duration_ns == 0 { 0.0 } else { sum.in_flight_ns as f64 / duration_ns as f64 },
        sockets: sockets.facts(),
        intervals: Vec::new(),
        steps: scenario.map(|scenario| steps_of(scenario, outcomes)).unwrap_or_default(),
        gates: Vec::new(),
        interrupted: outcomes.iter().any(|o| o.interrupted),
    };
    result.gates = gates::check(plan, &result, &sum, around);
    result
}

/// A moment of the monotonic clock on the calendar, in milliseconds since 1970.
fn calendar_ms(at_ns: u64) -> u64 {
    let ago = Duration::from_nanos(sys::clock_ns().saturating_sub(at_ns));
    let then = SystemTime::now().checked_sub(ago).and_then(|then| then.duration_since(UNIX_EPOCH).ok());
    then.map_or(0, |since| since.as_millis() as u64)
}

/// What the steps of a scenario did, over all threads.
fn steps_of(scenario: &Scenario, outcomes: &[Outcome]) -> Vec<StepResult> {
    let mut sums: Vec<StepTally> = scenario.tallies();
    for outcome in outcomes {
        match &outcome.source {
            Source::Fixed { .. } => {}
            Source::Played(play) => sums.iter_mut().zip(play.tallies()).for_each(|(sum, more)| sum.merge(more)),
        }
    }
    (0..).zip(&sums).map(|(step, sum)| sum.to_result(scenario.step_label(step))).collect()
}
