//! Where the time of a request goes at each hop, and which of its resources is fullest.
//!
//! It judges nothing: a full resource is not yet the limit. Invariant: own work is CPU time, own wait is what the hop holds
//! beyond that, and what it waits for further on is not its own.

use super::finite;
use super::headline::operating_point;
use crate::number;
use crate::typed::view;
use prony_model::metric::*;
use prony_model::run::{Purpose, Trial};
use prony_model::{Host, Run, SeriesSet, Window};

view! {
    /// What a hop spends on a request of the clients, and what is fullest there.
    pub struct HopView {
        /// CPU time of its own processes.
        pub work_us: Option<f64>,
        /// Time at the hop that is neither work nor waiting for others.
        pub wait_us: Option<f64>,
        /// Time that it waits for hosts further on.
        pub upstream_us: Option<f64>,
        /// True: timed at its sockets. False: from how many requests its sockets showed, a lower bound.
        pub timed: bool,
        /// What is fullest, in words; empty when nothing was read.
        pub busiest: String,
        /// How full, from 0 to 1.
        pub busiest_share: Option<f64>,
        /// The same as text.
        pub busiest_text: String,
    }
}

/// A port or peer with fewer requests than this share of the hop's does not take part: a status page, a health check.
/// As in the diagnosis.
const PART_MIN: f64 = 0.01;
/// With less of its requests timed, the rest may be of another kind. As in the diagnosis.
const COVERED_MIN: f64 = 0.5;

pub(super) fn of(run: &Run, name: &str, host: &Host) -> Option<HopView> {
    let trial = operating_point(run)?;
    let (name, window) = (Some(name).filter(|name| run.series.iter().any(|(key, _)| key.host == *name))?, trial.window);
    let work_us = run.cpu_us_per_request(name, trial).and_then(finite);
    let timed = timed(run, name);
    let held = timed.or_else(|| by_sockets(run, name, trial));
    let own_us = held.map(|held| held.whole_us - held.upstream_us);
    let busiest = busiest(run, name, host, window);
    Some(HopView {
        work_us,
        wait_us: own_us.map(|own| (own - work_us.unwrap_or(0.0)).max(0.0)).and_then(finite),
        upstream_us: held.map(|held| held.upstream_us).and_then(finite),
        timed: timed.is_some(),
        busiest: busiest.map(|(what, _)| what.to_string()).unwrap_or_default(),
        busiest_share: busiest.map(|(_, share)| share),
        busiest_text: busiest.map(|(_, share)| number::percent(share)).unwrap_or_default(),
    })
}

/// Time of a request of the clients at a hop, and of this the time at hosts further on.
#[derive(Clone, Copy)]
struct Held {
    whole_us: f64,
    upstream_us: f64,
}

/// As the deep look timed it; none when it could not time enough.
fn timed(run: &Run, host: &str) -> Option<Held> {
    let look = run.trials.iter().rev().find(|trial| trial.purpose == Purpose::Inspect)?;
    let accepted = in_flight(run, host, [&SPLIT_REQUESTS, &SPLIT_TIMED, &SPLIT_RESIDENCE])?;
    let called = match run.series.items(host, &SPLIT_CALLS).next() {
        Some(_) => in_flight(run, host, [&SPLIT_CALLS, &SPLIT_CALLS_TIMED, &SPLIT_UPSTREAM])?,
        None => 0.0,
    };
    let per_s = Some(look.result.completed_per_s).filter(|per_s| *per_s > 0.0)?;
    // Calls that are made at once count one after the other, so the sum can pass the whole.
    Some(Held { whole_us: accepted / per_s * 1e6, upstream_us: called.min(accepted) / per_s * 1e6 })
}

/// Requests at one time, by Little's law: rate times mean.
fn in_flight(run: &Run, host: &str, [rate, timed, mean]: [&Metric; 3]) -> Option<f64> {
    let last = |metric: &Metric, item: &str| run.series.points(host, metric, item).last().map(|(_, value)| *value);
    let parts: Vec<(f64, f64, f64)> = run
        .series
        .items(host, rate)
        .filter_map(|(item, points)| {
            Some((points.last()?.1, last(timed, item).unwrap_or(0.0), last(mean, item).unwrap_or(0.0)))
        })
        .collect();
    let all: f64 = parts.iter().map(|(per_s, ..)| per_s).sum();
    let mut those = parts.iter().filter(|(per_s, ..)| *per_s > 0.0 && *per_s >= PART_MIN * all).peekable();
    those.peek()?;
    those.try_fold(0.0, |sum, (per_s, timed, us)| (*timed >= COVERED_MIN).then_some(sum + per_s * us / 1e6))
}

/// As its sockets show it under load.
fn by_sockets(run: &Run, host: &str, trial: &Trial) -> Option<Held> {
    let per_s = Some(trial.result.completed_per_s).filter(|per_s| *per_s > 0.0)?;
    let sessions = || SeriesSet::mean(run.series.points(host, &PG_SESSIONS, "active"), trial.window);
    let inside = sessions().or_else(|| run.series.sum(host, &CONN_IN_BUSY, trial.window))?;
    let passed_on = run.series.sum(host, &CONN_OUT_WAITING, trial.window).unwrap_or(0.0);
    Some(Held { whole_us: inside.max(passed_on) / per_s * 1e6, upstream_us: passed_on / per_s * 1e6 })
}

/// The fullest of what has an upper end. The names end where the share begins: `CPU` 98 %.
fn busiest(run: &Run, name: &str, host: &Host, window: Window) -> Option<(&'static str, f64)> {
    let mean = |metric: &Metric| run.series.sum(name, metric, window);
    let of = |used: Option<f64>, limit: Option<f64>| Some(used? / limit.filter(|limit| *limit > 0.0)?);
    let cpus: Vec<f64> = busy_of_cpus(run, name, host, window);
    let shares = [
        ("CPU", Some(cpus.iter().sum::<f64>() / cpus.len() as f64)),
        ("fullest CPU", cpus.iter().copied().filter(|_| cpus.len() > 1).reduce(f64::max)),
        ("CPU quota", of(run.process_cpus(name, window), mean(&CGROUP_QUOTA))),
        ("disk", fullest(run, name, &DISK_BUSY, window)),
        ("accept queue", of(fullest(run, name, &LISTEN_QUEUE, window), fullest(run, name, &LISTEN_BACKLOG, window))),
        (
            "accept queue of a unix socket",
            of(fullest(run, name, &UNIX_QUEUE, window), fullest(run, name, &UNIX_BACKLOG, window)),
        ),
        ("link rate limit", of(mean(&QDISC_BYTES).map(|bytes| 8.0 * bytes), mean(&QDISC_RATE))),
        ("interface", of(mean(&IF_TX_BYTES).map(|bytes| 8.0 * bytes), mean(&IF_SPEED))),
        ("connection tracking", of(mean(&CONNTRACK_ENTRIES), mean(&CONNTRACK_MAX))),
        ("local ports", of(mean(&SOCK_TIME_WAIT).zip(mean(&CONN_OUT)).map(|(a, b)| a + b), mean(&PORT_RANGE))),
        ("database connections", of(mean(&PG_CONNECTIONS), mean(&PG_CONNECTIONS_MAX))),
        ("cache clients", of(mean(&REDIS_CLIENTS), mean(&REDIS_CLIENTS_MAX))),
    ];
    let known = shares.into_iter().filter_map(|(what, share)| Some((what, finite(share?)?.clamp(0.0, 1.0))));
    // The first of equals: a host with one CPU has no fuller one.
    known.reduce(|fullest, other| if other.1 > fullest.1 { other } else { fullest })
}

fn fullest(run: &Run, host: &str, metric: &Metric, window: Window) -> Option<f64> {
    let items = run.series.items(host, metric);
    items.filter_map(|(_, points)| SeriesSet::summary(metric, points, window)).reduce(f64::max)
}

fn busy_of_cpus(run: &Run, name: &str, host: &Host, window: Window) -> Vec<f64> {
    let mut idle = run.idle_shares(name, window);
    idle.retain(|(cpu, _)| host.cpus.as_ref().is_none_or(|own| own.contains(*cpu)));
    idle.into_iter().map(|(_, share)| (1.0 - share).clamp(0.0, 1.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{LoadPlan, LoadResult, Sample, Stack};

    const STACK: &str = "name = \"x\"\nentry = \"http://10.0.0.2/\"\n[host.lb]\nrole = \"proxy\"\ncpus = \"0\"\n";

    /// One second of 1,000 requests per second.
    fn run(values: &[(&Metric, &str, [f64; 2])]) -> Run {
        let mut run = Run { stack: Stack::parse("x.toml", STACK).unwrap(), ..Run::default() };
        for (end, at_ns) in [0, 1_000_000_000].into_iter().enumerate() {
            let mut sample = Sample { host: "lb".into(), at_ns, values: vec![] };
            values.iter().for_each(|(metric, item, value)| sample.push(metric, *item, value[end]));
            run.series.add(&sample);
        }
        for (id, purpose) in [(0, Purpose::Load), (1, Purpose::Inspect)] {
            run.trials.push(Trial {
                id,
                purpose,
                plan: LoadPlan::to("http://10.0.0.2/"),
                window: Window { from_ns: 0, to_ns: 1_000_000_000 },
                result: LoadResult { completed_per_s: 1_000.0, good_per_s: 1_000.0, ..LoadResult::default() },
            });
        }
        run
    }

    fn hop(values: &[(&Metric, &str, [f64; 2])]) -> Option<HopView> {
        let run = run(values);
        of(&run, "lb", &run.stack.host["lb"])
    }

    #[test]
    fn sockets_tell_where_no_look_was_taken() {
        let seen = hop(&[
            (&CGROUP_USAGE, "", [0.0, 0.5]),
            (&CONN_IN_BUSY, "80", [10.0, 10.0]),
            (&CONN_OUT_WAITING, "10.0.0.3:80", [4.0, 4.0]),
            (&CPU_IDLE, "0", [0.0, 0.1]),
            (&CPU_IDLE, "7", [0.0, 0.0]),
        ])
        .unwrap();
        assert_eq!((seen.work_us, seen.wait_us, seen.upstream_us), (Some(500.0), Some(5_500.0), Some(4_000.0)));
        assert!(!seen.timed);
        assert_eq!((seen.busiest.as_str(), seen.busiest_text.as_str()), ("CPU", "90 %"), "CPU 7 is another's");
    }

    #[test]
    fn a_look_that_timed_enough_is_believed() {
        let look = |timed: f64| {
            hop(&[
                (&SPLIT_REQUESTS, "80", [1_000.0; 2]),
                (&SPLIT_TIMED, "80", [timed; 2]),
                (&SPLIT_RESIDENCE, "80", [3_000.0; 2]),
                (&SPLIT_CALLS, "10.0.0.3:80", [1_000.0; 2]),
                (&SPLIT_CALLS_TIMED, "10.0.0.3:80", [0.9; 2]),
                (&SPLIT_UPSTREAM, "10.0.0.3:80", [2_000.0; 2]),
            ])
            .unwrap()
        };
        assert_eq!((look(0.9).wait_us, look(0.9).upstream_us, look(0.9).timed), (Some(1_000.0), Some(2_000.0), true));
        assert_eq!((look(0.4).wait_us, look(0.4).timed), (None, false));
    }

    #[test]
    fn nothing_read_is_nothing_shown() {
        assert_eq!(hop(&[]), None);
    }
}
