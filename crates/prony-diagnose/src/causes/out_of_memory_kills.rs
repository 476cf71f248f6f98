//! # Out of memory kills
//!
//! The kernel kills processes of the hop because its control group has no memory left.
//!
//! ## What it sees
//! `oom_kill` of the hop's control group, at the limit or over all of the run.
//!
//! ## Why it limits
//! Requests of a killed worker fail, its connections are reset, and the new one starts cold.
//!
//! ## Evidence
//! Share of requests that fail, and the time that workers need to come back.
//!
//! ## What it is not
//! Memory that is short without kills: `memory-pressure`.
//!
//! ## Fix
//! A higher memory limit, or mend the leak. prony has no knob for it.
//!
//! ## References
//! Linux Documentation/admin-guide/cgroup-v2.rst memory.events; cgroup-v1/memory.rst memory.oom_control.

use crate::cause::{Cause, Dose, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_full, ruled_out};
use crate::facts::{Fact, Hop};
use prony_model::metric::{CGROUP_MEMORY_LIMIT_HITS, CGROUP_OOM_KILLS, TCP_ESTAB_RESETS};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "out-of-memory-kills",
    layer: Layer::Cpu,
    title: "out of memory kills",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("out_of_memory_kills.rs"),
};

/// Kills per second from which it matters: one in twenty seconds. A guess.
const KILLS_PER_S: f64 = 0.05;
/// Seconds until a killed worker serves again. A guess: nginx is back within 0.1 s, an application server in some.
const RESTART_S: f64 = 1.0;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let kills = kills(hop)?;
    if kills.value < KILLS_PER_S {
        return ruled_out(&kills, KILLS_PER_S, "guess", "no process of its control group is killed");
    }
    let away = kills.value * RESTART_S / hop.workers().len().max(1) as f64;
    let share = away.max(hop.at(Level::At)?.trial.result.error_share()).min(1.0);
    let claim = format!("the kernel kills {:.2} processes of {} per second for want of memory", kills.value, hop.name);
    Finding::new(kills, KILLS_PER_S, "guess", &claim, share)
        .and(hop.summary(&CGROUP_MEMORY_LIMIT_HITS), "how often its control group was at its limit, per second")
        .and(hop.summary(&TCP_ESTAB_RESETS), "connections that were reset, per second")
        .mend("raise the memory limit of the hop, or find what leaks", None)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(Dose::Untestable("prony has no knob for memory limits"))
        .fires()
}

/// At the limit, or over all of the run where it was more: a process that leaks lives longer than a trial.
fn kills(hop: &Hop<'_>) -> Result<Fact, Gap> {
    let at = hop.summary(&CGROUP_OOM_KILLS)?;
    let over_all = hop.rate_of_run(&CGROUP_OOM_KILLS).filter(|rate| *rate > at.value);
    Ok(match over_all {
        Some(rate) => Fact { unit: at.unit, ..Fact::across_levels(hop, "cgroup.oom_kills over all of the run", rate) },
        None => at,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};
    use prony_model::SeriesKey;

    fn lab(kills: f64) -> Lab {
        Lab::healthy().per_second("lb", &CGROUP_OOM_KILLS, "", kills)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(0.5)) - 0.5).abs() < 1e-6);
        assert!((score(CAUSE.id, "lb", &lab(0.1).failing(0.3)) - 0.3).abs() < 1e-3);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.049)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.051)) > 0.0);
    }

    #[test]
    fn a_slow_leak_kills_between_the_trials() {
        let mut run = Lab::healthy().run();
        let key = SeriesKey { host: "lb".into(), metric: CGROUP_OOM_KILLS.name.into(), item: String::new() };
        let mut last = (0, 0.0);
        run.series.iter().filter(|(k, _)| **k == key).for_each(|(_, points)| last = *points.last().unwrap());
        run.series.push(key, last.0 + 60_000_000_000, last.1 + 8.0);
        let standing = crate::verdict::standing(&run);
        let kills = standing.iter().find(|s| s.cause.id == CAUSE.id).unwrap();
        assert!(kills.finding.score > 0.08, "{}", kills.finding.score);
    }

    monotonic!(lab, 0.0..3.0);
}
