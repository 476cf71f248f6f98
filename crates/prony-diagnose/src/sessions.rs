//! How an application uses its connections to what it calls, and what the sessions at a database are doing.
//!
//! The word of the database comes first; sockets stand in where there is none, as far as they can: within one tick of
//! the kernel's clock they cannot tell a connection that is asked again at once from one that rests. Names no cause.
//! Invariant: what was not read is a gap, never 0.

use crate::cause::{Dose, FLAT, FULL_CPU, Judgement, concurrency_elasticity, cpu_is_full, predicted_gain, ruled_out};
use crate::causes::THROTTLED;
use crate::facts::{Fact, Hop, Reader};
use prony_model::metric::{
    CGROUP_THROTTLED_TIME, CONN_IN, CONN_IN_UNACCEPTED, CONN_IN_UNREAD, CONN_OUT, LISTEN_QUEUE, PG_ACTIVE_TIME,
    PG_COMMITS, PG_CONNECTIONS, PG_SESSIONS, PG_STATEMENTS, PG_WAITS, PROC_TRACER, REDIS_CLIENTS, REDIS_COMMANDS,
};
use prony_model::stack::{Role, Software};
use prony_model::{Gap, Level, LoadResult, Metric, Run};

/// Elasticity of throughput to connections up to which requests queue for something. A guess: behind a pool of two it
/// was 0.12 to 0.15 (`prony diagnose` of a chain with two connections to the database), and a mere wait lets it grow by
/// 0.9.
pub const QUEUES: f64 = FLAT + 0.15;
/// Share of a CPU's capacity that the stack itself must use before full CPUs are its limit. A guess: strangers fill
/// CPUs too.
const OWN_WORK: f64 = 0.5;

/// CPUs from which a process of an application is simply busy. A guess.
pub const BUSY_PROCESS: f64 = 0.7;
/// Share of the sessions in use that wait for locks or the disk, from which these are the matter. A guess.
pub const BLOCKED: f64 = 0.5;

/// Whether more requests at once bring nothing: in a closed loop by the level beyond, in an open one by the rate that
/// is asked and not carried. None when neither was tried, and for a rate that is carried: its requests may queue all the same, and each
/// gets its turn.
pub fn is_held_back(hop: &Hop<'_>) -> Option<bool> {
    if let Some(growth) = concurrency_elasticity(hop) {
        return Some(growth < QUEUES);
    }
    hop.at(Level::At).ok()?.trial.plan.rate?;
    (!carries_a_rate(hop)).then_some(true)
}

/// Whether a rate was asked and is carried: then it is the time of requests that matters, not throughput.
pub fn carries_a_rate(hop: &Hop<'_>) -> bool {
    carries_its_rate(hop.run, |result| result.completed_per_s)
}

/// Whether a rate was asked and as many requests were `answered_per_s`. A stack that stood still when the trial ended left more of
/// them in flight than at its beginning; where it answers as many at a higher rate, it carries this one.
pub fn carries_its_rate(run: &Run, answered_per_s: fn(&LoadResult) -> f64) -> bool {
    let Some((at, rate)) = run.level(Level::At).and_then(|at| Some((at, at.plan.rate?))) else { return false };
    let beyond = run.level(Level::Beyond).map(|beyond| answered_per_s(&beyond.result));
    is_carried(&at.result, answered_per_s(&at.result)) || beyond.is_some_and(|answered| answered >= CARRIED * rate.0)
}

/// Answered over due, from which a rate is carried. At random, what comes due is off the rate by 1 % itself (Poisson, 2,000/s for 5 s).
/// Cited: methods.md, validity gate `rate`: within 0.5 %; 1 % for what is in flight at both ends of short trials.
pub const CARRIED: f64 = 0.99;

/// Whether as many requests were answered as came due. One more may be in flight when the time ends: of thirty requests that is 3 %.
pub fn is_carried(result: &LoadResult, answered_per_s: f64) -> bool {
    answered_per_s * result.duration_s + 1.0 >= CARRIED * result.intended as f64
}

/// Whether the hop's CPUs are full of the stack's own work.
pub fn is_cpu_bound(hop: &Hop<'_>) -> Result<bool, Gap> {
    if !cpu_is_full(hop)? {
        return Ok(false);
    }
    let total = hop.at(Level::At)?.cpu()?.total();
    let sharing = Hop::path(hop.run).into_iter().chain(Hop::generator(hop.run)).filter(|h| h.shares_cpu_with(hop));
    let own: f64 = sharing.filter_map(|h| h.at(Level::At).and_then(|r| r.own_cpu()).ok()).sum();
    Ok(own >= OWN_WORK * total)
}

/// Whether a host keeps data.
pub fn keeps_data(hop: &Hop<'_>) -> bool {
    hop.host().is_some_and(|h| matches!(h.role, Role::Database | Role::Cache))
}

/// Whether a host keeps data behind queries and transactions. Redis has neither.
pub fn runs_queries(hop: &Hop<'_>) -> bool {
    keeps_data(hop) && hop.host().is_none_or(|h| h.software != Some(Software::Redis))
}

/// Databases and caches that a host calls.
pub fn stores_of<'a>(hop: &Hop<'a>) -> Vec<Hop<'a>> {
    hop.callees().into_iter().filter(keeps_data).collect()
}

/// Whether a host runs code that may block or pause. Servers that are known not to do that are left out.
pub fn runs_code(hop: &Hop<'_>) -> bool {
    !is_proxy(hop) && !keeps_data(hop) && !is_nginx_or_haproxy(hop)
}

/// Whether requests may wait inside a host for something of its own that is all in use: in the application, and in a proxy that is neither
/// nginx nor HAProxy, whose limits have causes of their own.
pub fn may_hold_back(hop: &Hop<'_>) -> bool {
    runs_code(hop) || is_proxy(hop) && !is_nginx_or_haproxy(hop)
}

/// Whether a host runs one of the two whose ways are known here, as a proxy or as a server.
pub fn is_nginx_or_haproxy(hop: &Hop<'_>) -> bool {
    matches!(hop.host().and_then(|h| h.software), Some(Software::Nginx | Software::Haproxy))
}

/// Whether a host passes requests on, so that what it holds back is a matter of its own causes.
pub fn is_proxy(hop: &Hop<'_>) -> bool {
    hop.host().is_some_and(|h| h.role == Role::Proxy)
}

/// Requests of the hop that nobody has read yet: in sockets that were accepted, or before that. A worker of one connection has its request
/// at work, also where it leaves a rest of it unread.
pub fn unread(r: &Reader<'_>) -> Result<f64, Gap> {
    let queued = r.sum(&LISTEN_QUEUE).unwrap_or(0.0);
    let has_several = accepted_per_process(r).is_none_or(|accepted| accepted >= SEVERAL);
    Ok(if has_several { r.sum(&CONN_IN_UNREAD)? + queued } else { queued })
}

/// Connections that each process has accepted; none where the kernel's sockets do not tell.
pub fn accepted_per_process(r: &Reader<'_>) -> Option<f64> {
    let workers = r.hop.workers().len().max(1) as f64;
    Some((r.sum(&CONN_IN).ok()? - r.sum(&CONN_IN_UNACCEPTED).ok()?) / workers)
}

/// Accepted connections per process from which it takes up more than it works on. A guess: workers of one connection each show 1.
pub const SEVERAL: f64 = 2.0;

/// Connections that `caller` holds to `callee`, at each level.
pub fn held(caller: &Hop<'_>, callee: &Hop<'_>) -> Result<Fact, Gap> {
    let name = format!("connections to {}", callee.name);
    caller.fact(name, "", |r| {
        r.towards(&CONN_OUT, callee).or_else(|gap| sessions(&r.of(callee), |_| true).map_err(|_| gap))
    })
}

/// Mean over the readings of a database's sessions. What a reading did not show was 0 then.
fn mean_of_readings(r: &Reader<'_>, metric: &Metric, counts: impl Fn(&str) -> bool) -> Result<f64, Gap> {
    let window = r.trial.window;
    let inside = |points: &[(u64, f64)]| -> Vec<f64> {
        points.iter().filter(|(t, _)| (window.from_ns..=window.to_ns).contains(t)).map(|(_, v)| *v).collect()
    };
    let series = &r.hop.run.series;
    let readings = inside(series.points(r.hop.name, &PG_CONNECTIONS, "")).len();
    if readings == 0 {
        return Err(r.gap(metric));
    }
    let items = series.items(r.hop.name, metric).filter(|(item, _)| counts(item));
    Ok(items.flat_map(|(_, points)| inside(points)).sum::<f64>() / readings as f64)
}

/// Sessions of a database by state, as `active` or `idle in transaction`.
pub fn sessions(r: &Reader<'_>, counts: impl Fn(&str) -> bool) -> Result<f64, Gap> {
    mean_of_readings(r, &PG_SESSIONS, counts).or_else(|gap| r.one(&REDIS_CLIENTS, "").map_err(|_| gap))
}

/// Sessions that a client has in use: in a statement, or within a transaction.
pub fn in_use(r: &Reader<'_>) -> Result<f64, Gap> {
    mean_of_readings(r, &PG_SESSIONS, |state| !matches!(state, "idle" | "starting" | "disabled" | "hidden"))
}

/// The same, or what the database adds up of their time in statements, where that is more (PostgreSQL 14 and later): one reading each
/// second may find the only session of a busy pool at rest each time.
pub fn in_use_all_along(r: &Reader<'_>) -> Result<f64, Gap> {
    let seen = in_use(r)?;
    Ok(r.one(&PG_ACTIVE_TIME, "").map_or(seen, |added_up| added_up.max(seen)))
}

/// Sessions in a statement that waits for something, like `Lock:transactionid`.
pub fn waiting(r: &Reader<'_>, counts: impl Fn(&str) -> bool) -> Result<f64, Gap> {
    mean_of_readings(r, &PG_WAITS, counts)
}

/// A wait for a lock that another transaction holds.
pub fn is_lock_wait(event: &str) -> bool {
    event.starts_with("Lock:")
}

/// A wait for the transaction log to reach the disk: its flush, its write, or the turn at it.
pub fn is_commit_wait(event: &str) -> bool {
    let event = event.to_ascii_lowercase();
    ["io:walsync", "io:walwrite", "lwlock:walwrite", "io:walsyncmethodassign"].contains(&event.as_str())
}

/// A wait for data from a disk, the transaction log left out.
pub fn is_data_wait(event: &str) -> bool {
    event.starts_with("IO:") && !is_commit_wait(event)
}

/// Statements or commands per second, as the store counts them.
pub fn statements(r: &Reader<'_>) -> Result<f64, Gap> {
    r.sum(&PG_STATEMENTS).or_else(|_| r.sum(&PG_COMMITS)).or_else(|_| r.sum(&REDIS_COMMANDS))
}

/// Requests that crowd before something in the application that is all in use, while no CPU is the reason.
pub struct Crowd {
    /// Requests in flight, as clients see them.
    pub requests: Fact,
    /// Those that the application has not even read.
    pub unread: Fact,
}

/// What stops a process from outside, the border from which it does, and its name.
const STOPPED: &[(&Metric, f64, &str)] =
    &[(&CGROUP_THROTTLED_TIME, THROTTLED, "a quota of CPU time"), (&PROC_TRACER, 0.5, "a tracer")];

/// Requests in flight at a rate, below which it is chance what a reading finds of them. Definition: two at a time make a queue, and with one
/// on average there are two in a quarter of the time (Poisson).
const CROWD_MIN: f64 = 1.0;

/// The crowd at a hop; or the fact, its border and the words that say why there is none.
pub fn crowd(hop: &Hop<'_>) -> Result<Result<Crowd, (Fact, f64, String)>, Gap> {
    let requests = hop.fact("requests in flight", "", |r| r.in_flight())?;
    if hop.at(Level::At)?.trial.plan.rate.is_some() && requests.value < CROWD_MIN {
        return Ok(Err((
            requests,
            CROWD_MIN,
            "hardly ever two requests are in flight, so none waits for another".to_string(),
        )));
    }
    if is_held_back(hop) == Some(false) {
        let growth = concurrency_elasticity(hop).unwrap_or(1.0);
        let growth = Fact::across_levels(hop, "elasticity of throughput to connections", growth);
        return Ok(Err((growth, QUEUES, "more requests at once are served, so they do not queue".to_string())));
    }
    for place in std::iter::once(*hop).chain(hop.callees()) {
        if is_cpu_bound(&place)? {
            let busy = place.fact("busy share of the hop's CPUs", "share", |r| Ok(r.cpu()?.busy_share()))?;
            return Ok(Err((busy, FULL_CPU, format!("the CPUs of {} are full of work", place.name))));
        }
        for (metric, border, what) in STOPPED {
            if let Ok(stopped) = place.summary(metric)
                && stopped.value >= *border
            {
                return Ok(Err((stopped, *border, format!("{} is stopped by {what}", place.name))));
            }
        }
    }
    let unread = hop.fact("requests not yet read", "", unread)?;
    Ok(Ok(Crowd { requests, unread }))
}

/// Share of the sessions in use at a store that wait for locks or for the disk; none when the store does not tell.
pub fn blocked_share(store: &Hop<'_>) -> Option<f64> {
    let at = store.at(Level::At).ok()?;
    let blocked = waiting(&at, |event| is_lock_wait(event) || is_commit_wait(event) || is_data_wait(event)).ok()?;
    let used = in_use(&at).ok().filter(|used| *used > 0.0)?;
    Some((blocked / used).min(1.0))
}

/// Share of the requests that a state of a database's sessions holds up: of all of them where requests queue for
/// sessions that are nearly all in use, else of those that are in a session.
pub fn share_held_up(db: &Hop<'_>, held_up: f64) -> Result<f64, Gap> {
    /// In use over open, from which sessions count as all in use. A guess.
    const ALL_IN_USE: f64 = 0.7;
    let at = db.at(Level::At)?;
    let (used, open, all) = (in_use(&at)?, at.sum(&PG_CONNECTIONS)?, at.in_flight()?);
    let reach = if is_held_back(db) == Some(true) && used >= ALL_IN_USE * open { 1.0 } else { (used / all).min(1.0) };
    Ok((held_up / used.max(f64::MIN_POSITIVE)).min(1.0) * reach)
}

/// Sessions of a database that wait for one thing, with what they hold up.
pub struct HeldUp {
    /// How many, at each level.
    pub waits: Fact,
    /// Share of the requests that they hold up.
    pub share: f64,
    /// What more throughput could come if nothing waited, until the next CPU is full; none where that is not known.
    pub gain: Option<f64>,
    /// Whether throughput is held back at all: a rate that is carried waits all the same.
    is_held_back: bool,
}

impl HeldUp {
    /// Sessions that wait, below which a reading may be chance. A guess.
    pub const WAITING_MIN: f64 = 0.5;
    /// Share of the requests below which it does not matter. A guess.
    const SHARE_MIN: f64 = 0.1;
    /// Gain below which the waits go by while a full CPU sets the pace. A guess: what pairs of trials can tell from nothing.
    const GAIN_MIN: f64 = 0.05;

    /// By those whose wait event counts; `name` is what the sessions are called as a fact.
    pub fn by(db: &Hop<'_>, name: &str, counts: fn(&str) -> bool) -> Result<Self, Gap> {
        let waits = db.fact(name, "", |r| waiting(r, counts))?;
        let share = share_held_up(db, waits.value)?;
        Ok(Self { waits, share, gain: predicted_gain(db, share), is_held_back: is_held_back(db) == Some(true) })
    }

    /// The gain, where it is so small that the waits go by while a full CPU sets the pace.
    fn too_small_gain(&self) -> Option<f64> {
        self.gain.filter(|gain| self.is_held_back && *gain < Self::GAIN_MIN)
    }

    /// Whether enough wait to be no chance, and hold up enough to matter.
    pub fn matters(&self) -> bool {
        let is_worth_it = self.too_small_gain().is_none();
        self.waits.value >= Self::WAITING_MIN && self.share >= Self::SHARE_MIN && is_worth_it
    }

    /// What rules it out when it does not matter; `nobody` in words where hardly a session waits.
    pub fn ruled_out(&self, db: &Hop<'_>, nobody: &str) -> Result<Judgement, Gap> {
        if self.waits.value < Self::WAITING_MIN {
            return ruled_out(&self.waits, Self::WAITING_MIN, "guess", nobody);
        }
        if let Some(gain) = self.too_small_gain().filter(|_| self.share >= Self::SHARE_MIN) {
            let gain = Fact::across_levels(db, "gain if no session waited", gain);
            return ruled_out(&gain, Self::GAIN_MIN, "guess", "sessions wait while a full CPU sets the pace");
        }
        let share = Fact::across_levels(db, "share of the requests that waiting sessions hold up", self.share);
        ruled_out(&share, Self::SHARE_MIN, "guess", "sessions that wait hold up few requests")
    }
}

/// CPUs that each process of the hop uses, on average.
pub fn cpus_per_process(hop: &Hop<'_>) -> Result<Fact, Gap> {
    hop.fact("CPUs that each process uses", "CPUs", |r| Ok(r.process_cpu()? / r.hop.workers().len().max(1) as f64))
}

/// Microseconds of CPU that a database takes for each of these. Only their relation matters. Measured, PostgreSQL 15 on
/// an EPYC (Zen 5): `pgbench -S` 50 us per statement, `pgbench -S -C` 7.2 ms per connection; 60,000 rows scanned 414
/// times a second take 0.83 CPUs (33 ns a row), 20,000 rows found by an index 647 times a second 0.93 CPUs (72 ns a
/// row).
pub mod price_us {
    /// A small statement.
    pub const STATEMENT: f64 = 50.0;
    /// A connection: a process, its memory, the check of who it is.
    pub const CONNECTION: f64 = 7_000.0;
    /// A row that a sequential scan reads.
    pub const SCANNED_ROW: f64 = 0.033;
    /// A row that an index leads to.
    pub const INDEX_ROW: f64 = 0.072;
}

/// Share of what limits that a part of a hop's work explains: of its CPUs where they are full, else of the response
/// time.
pub fn share_of_limit(hop: &Hop<'_>, part: f64) -> Result<f64, Gap> {
    let at = hop.at(Level::At)?;
    let cpu = if cpu_is_full(hop)? { at.own_cpu()? / at.cpu()?.total() } else { at.own_cpu()? / at.in_flight()? };
    Ok((cpu * part).clamp(0.0, 1.0))
}

/// What tests a wait: more requests at once are served where they only wait, and queue where something is all in use.
pub fn dose_of_wait(hop: &Hop<'_>) -> Dose {
    if is_held_back(hop) == Some(false) { Dose::Concurrency } else { Dose::Queue }
}
