//! # Slow upstream
//!
//! Requests stay long at a host that hardly works meanwhile: it sleeps, or waits for something outside the stack.
//!
//! ## What it sees
//! The time from the arrival of a request to its answer, less what the host waited for further on (the deep look times both
//! at its sockets). Where that was not timed: requests in flight at the host (connections that received later than they
//! sent) less those that it passed on, over all requests in flight. The host's own CPU time, run-queue time and throttling.
//!
//! ## Why it limits
//! With N connections throughput is N / response time, and the response time is this wait.
//!
//! ## Evidence
//! Share of requests that wait there, times the share of time that its workers do not work, or the share of a request's stay in which it
//! does not work for it, whichever is less. The counters of sockets resolve 4 ms
//! (one tick of the kernel's clock): a connection that was answered and asked again within one tick looks idle, so the
//! figure is a lower bound. A wait below 3 ms is not claimed, and below 1 ms not even where every CPU of the path has room
//! and clients still wait 3 ms or more. Where the slowest tenth of the requests hold most of the time, 3 ms are theirs, and a tenth
//! of it is claimed of all.
//!
//! ## What it is not
//! A host whose CPU, quota or locks are busy: those have causes of their own. A queue for something that is full, there
//! or further on (a pool, a database): then twice the connections bring no more throughput at equal speed of the CPUs, while a mere
//! wait lets them.
//!
//! Where another fault of the same host explains half of the wait or more, that tells why, and is named instead.
//!
//! ## Fix
//! Mend or cache the wait; more requests at once where nothing is saturated.
//!
//! ## References
//! Little's law; Linux tcp_info `tcpi_last_data_recv`, `tcpi_last_data_sent`.

use super::cpu_quota_throttled::{THROTTLED, stopped_by_quota};
use crate::cause::{
    Cause, Dose, FLAT, Finding, Judgement, Kind, Layer, Scope, concurrency_elasticity, cpu_is_full, does_not_apply,
    gain_of_share, gain_until_full, ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::sessions::carries_a_rate;
use prony_model::metric::{CONN_IN_BUSY, TCP_PASSIVE_OPENS};
use prony_model::stack::Role;
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "slow-upstream",
    layer: Layer::Upstream,
    title: "slow upstream",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("slow_upstream.rs"),
};

/// Shortest wait that the counters can show, in milliseconds: they tick every 4 ms (CONFIG_HZ=250).
const WAIT_MS: f64 = 3.0;
/// The same where the counters are known to miss much: clients wait at least [`WAIT_MS`], and no CPU of the path is full
/// that could explain it. A guess: in a lab with a wait of 5 ms they showed 2.6 ms.
const WAIT_MS_WHEN_IDLE: f64 = 1.0;
/// Where the slowest tenth of the requests hold most of the time, the mean of these alone is at least so much longer. Definition.
const TENTH: f64 = 10.0;
/// The mean over the 90th percentile, from which they do. A guess: it is about 1 where requests are alike, and 0.4 where their times
/// are exponential.
const FEW_HOLD: f64 = 2.0;
/// Their origin.
const ORIGIN: &str = "definition: tcp_info tells times in ticks of 4 ms";
/// Response time from which sockets should show where requests are: more than two ticks. A guess.
const RESPONSE_MS: f64 = 10.0;
/// Share of the requests in flight that they should show. A guess; seen: a third of waits of 50 ms, and 2 of 64 requests
/// that stood 150 ms before a pool.
const SEEN_SHARE: f64 = 0.5;
/// Share of request time from which a wait matters. A guess.
const SHARE_MIN: f64 = 0.1;
/// A worker busier than this is not waiting. A guess.
const BUSY_WORKER: f64 = 0.7;
/// The same where few requests hold most of the time: work would make all of them wait. A guess.
const BUSY_WORKER_OF_FEW: f64 = 0.9;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if hop.host().is_some_and(|h| h.role == Role::Proxy) {
        return does_not_apply(hop, "is a proxy: what it waits for has causes of its own");
    }
    let wait = hop.own_wait()?;
    let few = few_hold_the_time(&hop.at(Level::At)?);
    let border = border_ms(hop, few)?;
    if wait.value < border {
        waits_are_seen(hop)?;
        return ruled_out(&wait, border, ORIGIN, "requests do not stay long");
    }
    if let Some(growth) = concurrency_elasticity(hop).filter(|e| *e < FLAT) {
        let growth = Fact::across_levels(hop, "elasticity of throughput to connections", growth);
        return ruled_out(&growth, FLAT, "guess", "requests queue there: more of them at once bring nothing");
    }
    let busy = hop.fact("busiest worker", "share", busiest_worker)?;
    let border = if few { BUSY_WORKER_OF_FEW } else { BUSY_WORKER };
    if busy.value > border {
        return ruled_out(&busy, border, "guess", "requests stay long because its workers are busy");
    }
    let works = works_for_it(hop, &wait);
    if let Some(works) = works.as_ref().filter(|works| works.value > border) {
        return ruled_out(works, border, "guess", "requests stay long because it works for them");
    }
    if let Some(throttled) = stopped_by_quota(hop) {
        return ruled_out(&throttled, THROTTLED, "guess", "requests stay long because it is stopped by a quota");
    }
    let working = match works {
        // Requests come whether it is busy or not, so what it works for one takes S / (1 - rho): the queue M/M/1.
        Some(works) if carries_a_rate(hop) => (works.value / (1.0 - busy.value).max(f64::MIN_POSITIVE)).min(1.0),
        Some(works) => works.value.max(busy.value),
        None => busy.value,
    };
    let share = hop.held()?.share * if few { 1.0 } else { 1.0 - working };
    let siblings = hop.siblings().len() as f64;
    if share < SHARE_MIN / siblings {
        return ruled_out(&wait, WAIT_MS, ORIGIN, "few requests wait there");
    }
    finding(hop, few, wait, busy, share)
}

/// Share of a request's stay in which the host works for it. Only where few are there at once is it more than the share of time in which
/// its worker is busy.
fn works_for_it(hop: &Hop<'_>, wait: &Fact) -> Option<Fact> {
    let at = hop.at(Level::At).ok()?;
    let works = at.cpu_us_per_request().ok()? / 1e3 / wait.value.max(f64::MIN_POSITIVE);
    Some(Fact::across_levels(hop, "CPU time of a request / its stay", works.min(1.0)))
}

/// A gap when responses are long and the sockets do not show where: clients that ask again within one tick hide it.
fn waits_are_seen(hop: &Hop<'_>) -> Result<(), Gap> {
    if hop.held()?.split.is_ok() {
        return Ok(());
    }
    let at = hop.at(Level::At)?;
    let (all, response_ms) = (at.in_flight()?, at.in_flight()? / at.throughput()? * 1e3);
    let entry = Hop::path(hop.run).into_iter().next();
    let seen = entry.and_then(|e| e.at(Level::At).ok()?.sum(&CONN_IN_BUSY).ok());
    match seen.filter(|seen| response_ms >= RESPONSE_MS && *seen < SEEN_SHARE * all) {
        Some(seen) => Err(Gap::new(
            CONN_IN_BUSY.name,
            hop.name,
            format!("sockets show only {seen:.0} of {all:.0} requests in flight, so where they wait cannot be told"),
        )),
        None => Ok(()),
    }
}

fn border_ms(hop: &Hop<'_>, few: bool) -> Result<f64, Gap> {
    let at = hop.at(Level::At)?;
    let response_ms = at.in_flight()? / at.throughput()? * 1e3;
    if few {
        return Ok(WAIT_MS / TENTH);
    }
    let all_have_room = Hop::path(hop.run).iter().all(|h| !cpu_is_full(h).unwrap_or(true));
    Ok(if all_have_room && response_ms >= WAIT_MS { WAIT_MS_WHEN_IDLE } else { WAIT_MS })
}

/// Whether the slowest tenth of the requests hold most of the time, and not because packets were lost.
fn few_hold_the_time(at: &Reader<'_>) -> bool {
    let latency = &at.trial.result.latency_actual;
    latency.p90_us > 0.0 && latency.mean_us >= FEW_HOLD * latency.p90_us && at.stalled_share() < 0.5
}

fn finding(hop: &Hop<'_>, few: bool, wait: Fact, busy: Fact, share: f64) -> Result<Judgement, Gap> {
    let mean = if few { " in the mean, and few of them nearly all of that," } else { "" };
    let claim = format!("a request stays {:.1} ms{mean} at {}, which hardly works meanwhile", wait.value, hop.name);
    let mut finding = Finding::new(wait, border_ms(hop, few)?, ORIGIN, &claim, share)
        .and(Ok(busy), "its busiest worker has time left")
        .and(hop.timed_residence(), "from the arrival of a request to its answer")
        .and(hop.fact("in flight at the hop", "", |r| r.staying()), "requests in flight at the hop itself")
        .and(hop.summary(&TCP_PASSIVE_OPENS), "connections that it accepts per second")
        .mend("mend or cache what the server waits for; until then allow more requests at once", None)
        .gaining(gain_until_full(hop).map(|cap| gain_of_share(share, Some(cap))))
        .rising(hop.fact("in flight at the hop", "", |r| r.staying()))
        .tested_by(Dose::Concurrency);
    finding.adds_up = true;
    finding.only_where = true;
    finding.fires()
}

fn busiest_worker(r: &Reader<'_>) -> Result<f64, Gap> {
    match r.worker_loads() {
        Ok(shares) => Ok(shares.into_iter().fold(0.0, f64::max)),
        Err(_) => Ok((r.process_cpu()? / r.hop.cpus()?.len() as f64).min(1.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{CONN_OUT_WAITING, SPLIT_REQUESTS, SPLIT_RESIDENCE, SPLIT_TIMED, TCP_IN_SEGMENTS};
    use proptest::prelude::*;

    /// 50 ms at s1 and s2, 1,233 requests/s, CPUs idle.
    fn lab(busy_s1: f64) -> Lab {
        let lab = Lab::healthy().throughput(1_233.0);
        Lab { x: [616.0, 1_233.0, 2_440.0], ..lab }
            .cpu("0", 0.03, 0.03, 0.02)
            .cpu("1", 0.03, 0.03, 0.02)
            .own("s1", 0.03)
            .own("s2", 0.03)
            .per_second("s1", &prony_model::metric::TCP_IN_SEGMENTS, "", 1_849.0)
            .per_second("s2", &prony_model::metric::TCP_IN_SEGMENTS, "", 1_849.0)
            .gauge("s1", &CONN_IN_BUSY, "80", busy_s1)
            .gauge("s2", &CONN_IN_BUSY, "80", 31.0)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "s1", &lab(31.0)).unwrap();
        assert!((found.score - 31.0 / 64.0 * 0.94).abs() < 0.001, "{}", found.score);
        assert_eq!(found.dose, Dose::Concurrency);
        assert_eq!(score(CAUSE.id, "s1", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(31.0)), 0.0, "the proxy only passes on");
        assert_eq!(score(CAUSE.id, "s1", &lab(1.8)), 0.0, "under 3 ms");
        assert_eq!(score(CAUSE.id, "s1", &lab(31.0).own("s1", 0.9)), 0.0, "busy, not waiting");
        let throttled = lab(31.0).per_second("s1", &prony_model::metric::CGROUP_THROTTLED_TIME, "", 0.3);
        assert_eq!(score(CAUSE.id, "s1", &throttled), 0.0);
    }

    #[test]
    fn few_that_wait_long_are_seen_below_a_tick() {
        // 30,000 requests/s stay 2.1 ms in the mean, 0.8 of it at s1.
        let quick = Lab { x: [15_000.0, 30_000.0, 58_000.0], ..Lab::healthy().throughput(30_000.0) };
        let quick =
            quick.per_second("s1", &TCP_IN_SEGMENTS, "", 45_000.0).per_second("s2", &TCP_IN_SEGMENTS, "", 45_000.0);
        let run = quick.gauge("s1", &CONN_IN_BUSY, "80", 12.0).own("s1", 0.7).run();
        let found = |p90_us: f64| {
            let mut run = run.clone();
            for trial in &mut run.trials {
                trial.result.latency_actual.p90_us = p90_us;
            }
            match check(&Hop { run: &run, name: "s1" }).unwrap() {
                Judgement::Fires(found) => Some(found.summary),
                Judgement::Silent(_) => None,
            }
        };
        let said = found(1_060.0).expect("border");
        assert_eq!(
            said,
            "a request stays 0.8 ms in the mean, and few of them nearly all of that, at s1, which hardly works meanwhile"
        );
        assert_eq!(found(1_070.0), None, "border");
        assert_eq!(found(0.0), None, "not told");
    }

    #[test]
    fn the_work_for_a_request_is_no_wait() {
        // 20 requests/s, each 5 ms at s1 or s2; packets cost a third more than its processes. Its worker is busy for 3 %, and what it works.
        let share = |cpus: f64| {
            let lab = Lab { rate: Some(20.0), x: [10.0, 20.0, 30.0], r_us: [5_200.0; 3], ..lab(0.0) }.own("s1", cpus);
            let lab = lab.gauge("s1", &SPLIT_REQUESTS, "80", 10.0).gauge("s1", &SPLIT_TIMED, "80", 1.0);
            score(CAUSE.id, "s1", &lab.gauge("s1", &SPLIT_RESIDENCE, "80", 5_000.0))
        };
        let want = (1.0 - 0.4 / 0.955) / (1.0 - 0.02 / 0.97);
        assert!((share(0.015) / share(0.000_75) - want).abs() < 0.001, "2 of 5 ms: {}", share(0.015));
        assert!(share(0.026) > 0.0, "border");
        assert_eq!(share(0.0265), 0.0, "border");
    }

    #[test]
    fn a_queue_is_no_wait() {
        let grows = |beyond: f64| Lab { x: [616.0, 1_233.0, beyond], ..lab(31.0) };
        assert_eq!(score(CAUSE.id, "s1", &grows(1_240.0)), 0.0, "as behind a pool of few connections");
        assert_eq!(score(CAUSE.id, "s1", &grows(1_400.0)), 0.0, "border");
        assert!(score(CAUSE.id, "s1", &grows(1_440.0)) > 0.0, "border");
    }

    #[test]
    fn waits_that_sockets_hide_are_a_gap() {
        let judged = |lab: Lab| check(&Hop { run: &lab.run(), name: "s1" });
        let hidden = lab(0.0).gauge("lb", &CONN_IN_BUSY, "80", 2.0);
        let gap = judged(hidden).err().expect("52 ms, and the sockets do not tell where");
        assert_eq!(gap.reason, "sockets show only 2 of 64 requests in flight, so where they wait cannot be told");
        assert!(judged(lab(0.0)).is_ok(), "lb holds 60 of 64");
        assert!(judged(Lab::healthy().gauge("lb", &CONN_IN_BUSY, "80", 2.0)).is_ok(), "4 ms");
    }

    #[test]
    fn times_of_the_deep_look_show_waits_that_sockets_hide() {
        let timed = |ms: f64| {
            lab(0.0).gauge("s1", &SPLIT_REQUESTS, "80", 616.0).gauge("s1", &SPLIT_TIMED, "80", 1.0).gauge(
                "s1",
                &SPLIT_RESIDENCE,
                "80",
                ms * 1e3,
            )
        };
        let found = finding(CAUSE.id, "s1", &timed(50.0)).unwrap();
        assert!((found.score - 616.0 * 0.05 / 64.0 * 0.94).abs() < 0.001, "{}", found.score);
        assert!(found.evidence.iter().any(|e| e.metric == "split.residence" && e.value == 50.0), "{found:?}");
        assert_eq!(score(CAUSE.id, "s1", &timed(0.9)), 0.0, "border");
        let hidden = timed(0.9).gauge("lb", &CONN_IN_BUSY, "80", 2.0);
        let judged = check(&Hop { run: &hidden.run(), name: "s1" });
        assert!(judged.is_ok(), "what sockets hide is no gap where it was timed");
    }

    #[test]
    fn callers_tell_when_its_own_sockets_were_not_read() {
        let unseen = lab(0.0).without("s1", &CONN_IN_BUSY).gauge("lb", &CONN_OUT_WAITING, "10.77.0.11:80", 31.0);
        assert!(score(CAUSE.id, "s1", &unseen) > 0.4);
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..64.0, b in 0.0f64..64.0) {
            prop_assert!(score(CAUSE.id, "s1", &lab(a.min(b))) <= score(CAUSE.id, "s1", &lab(a.max(b))));
        }
    }
}
