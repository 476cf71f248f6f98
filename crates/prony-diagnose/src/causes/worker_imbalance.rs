//! # Worker imbalance
//!
//! One worker process gets most of the connections and is full, while others have time left.
//!
//! ## What it sees
//! Load of each worker process (running, or waiting for a CPU): the greatest against the mean.
//!
//! ## Why it limits
//! Requests on the connections of the full worker wait, although other workers could serve them.
//!
//! ## Evidence
//! One less mean over greatest load, at most the idle share of the hop's CPUs.
//!
//! ## What it is not
//! Workers with threads of their own, or databases with a process per connection: there a full process is a heavy
//! client. Few connections: then no balance is possible, and none is claimed. Throughput that grows with connections that
//! lie as unevenly: then the full worker holds nothing back. Where more connections lie evenly, growth acquits nobody.
//!
//! ## Fix
//! `reuseport` on the listening socket, shorter-lived or more connections, `accept_mutex` (knob `nginx.accept_mutex`).
//!
//! ## References
//! epoll wakes the last waiter first: Cloudflare, "Why does one NGINX worker take all the load?".

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, concurrency_elasticity, does_not_apply, gain_of_share,
    gain_until_next_limit, nginx_knob, ruled_out,
};
use crate::facts::{Hop, Reader};
use prony_model::metric::{CONN_IN, PROC_RUN, PROC_RUN_DELAY};
use prony_model::stack::Role;
use prony_model::{Gap, KnobId, Level, NginxDirective};

pub(super) const CAUSE: Cause = Cause {
    id: "worker-imbalance",
    layer: Layer::Cpu,
    title: "worker imbalance",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("worker_imbalance.rs"),
};

/// Load from which a worker is at its limit. A guess, as for `too-few-workers`.
const FULL_WORKER: f64 = 0.85;
/// Greatest over mean load, below which workers are balanced. Cited: catalogue row 32.
const UNEVEN: f64 = 1.2;
/// Its origin.
const ORIGIN: &str = "cited: catalogue row 32 (max / mean below 1.2 rules it out)";
/// Elasticity of throughput to connections above which the full worker is no limit. A guess.
const GROWS: f64 = 0.4;
/// Connections per worker below which chance alone makes them uneven. A guess: with 4 each, one in ten has 7 or more.
const CONNECTIONS_PER_WORKER: f64 = 4.0;
/// Idle share of the hop's CPUs that could serve more. A guess.
const IDLE_SHARE: f64 = 0.1;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let workers = hop.workers().len();
    if workers < 2 || !hop.is_single_threaded() || hop.host().is_some_and(|h| h.role == Role::Database) {
        return does_not_apply(hop, "has no two workers of one thread each that share its connections");
    }
    let uneven = hop.fact("load of the busiest worker / mean", "", unevenness)?;
    if uneven.value < UNEVEN {
        return ruled_out(&uneven, UNEVEN, ORIGIN, "workers are balanced");
    }
    let greatest = hop.fact("load of the busiest worker", "share", |r| Ok(loads(r)?.0))?;
    if greatest.value < FULL_WORKER {
        return ruled_out(&greatest, FULL_WORKER, "guess", "no worker is at its limit");
    }
    let at = hop.at(Level::At)?;
    let idle = hop.fact("idle share of the hop's CPUs", "share", |r| Ok(1.0 - r.cpu()?.busy_share()))?;
    let few = at.sum(&CONN_IN).is_ok_and(|n| n < CONNECTIONS_PER_WORKER * workers as f64);
    let even_beyond = hop.at(Level::Beyond).and_then(|r| unevenness(&r)).is_ok_and(|beyond| beyond < UNEVEN);
    let grows = !even_beyond && concurrency_elasticity(hop).is_some_and(|e| e > GROWS);
    if idle.value < IDLE_SHARE || few || grows {
        let claim = "its CPUs are full, connections are few, or throughput still grows with them";
        return ruled_out(&idle, IDLE_SHARE, "guess", claim);
    }
    let share = (1.0 - 1.0 / uneven.value).min(idle.value);
    let claim = format!(
        "one of {workers} workers of {} is {:.0} % busy, {:.1} times the mean",
        hop.name,
        greatest.value * 100.0,
        uneven.value
    );
    Finding::new(uneven, UNEVEN, ORIGIN, &claim, share)
        .and(Ok(greatest.clone()), "it is at its limit")
        .and(Ok(idle), "CPUs that the others could use")
        .mend(
            "spread the connections: `reuseport` on the listening socket, or accept_mutex on",
            nginx_knob(hop, KnobId::NginxDirective(NginxDirective::AcceptMutex), "on"),
        )
        .gaining(Some(gain_of_share(share, gain_until_next_limit(hop))))
        .tested_by(Dose::Untestable("prony cannot move connections between workers"))
        .rising(Ok(greatest))
        .fires()
}

/// Greatest over mean load of the workers; 1 where none has any.
fn unevenness(r: &Reader<'_>) -> Result<f64, Gap> {
    let (greatest, mean) = loads(r)?;
    Ok(if mean > 0.0 { greatest / mean } else { 1.0 })
}

/// Greatest and mean load of the workers.
fn loads(r: &Reader<'_>) -> Result<(f64, f64), Gap> {
    let load = |pid: &&str| Ok(r.one(&PROC_RUN, pid)? + r.one(&PROC_RUN_DELAY, pid).unwrap_or(0.0));
    let loads = r.hop.workers().iter().map(load).collect::<Result<Vec<f64>, Gap>>()?;
    let greatest = loads.iter().copied().fold(0.0, f64::max);
    Ok((greatest.min(1.0), loads.iter().sum::<f64>() / loads.len().max(1) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    /// Two workers on two CPUs: one full, the other so busy.
    fn lab(other: f64) -> Lab {
        let mut lab =
            Lab::healthy().cpu("0", 0.6, 0.3, 0.1).cpu("1", 0.3, 0.1, 0.0).own("lb", 0.95).worker("lb", "102", other);
        lab.stack.host.get_mut("lb").unwrap().cpus = "0-1".parse().ok();
        lab
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.1)) - 0.3).abs() < 1e-6, "{}", score(CAUSE.id, "lb", &lab(0.1)));
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.6)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.65)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.1).cpu("1", 0.8, 0.2, 0.0)), 0.0, "no idle CPU");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.1).gauge("lb", &CONN_IN, "80", 6.0)), 0.0, "chance");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.1).own("lb", 0.6)), 0.0, "nobody is full");
    }

    #[test]
    fn growth_with_connections_that_lie_evenly_acquits_nobody() {
        let grows = |lab: Lab| Lab { x: [7_500.0, 15_300.0, 26_000.0], ..lab };
        assert_eq!(score(CAUSE.id, "lb", &grows(lab(0.1))), 0.0, "as uneven beyond: the full worker is no limit");
        let even_beyond = grows(lab(0.1).levels("lb", &PROC_RUN, "102", [0.05, 0.1, 0.9]));
        assert!(score(CAUSE.id, "lb", &even_beyond) > 0.2);
    }

    fn unlike(difference: f64) -> Lab {
        lab(0.96 - difference)
    }

    monotonic!(unlike, 0.0..0.95);
}
