//! # Stop-the-world pauses
//!
//! The application stands still for moments: a garbage collector or the like stops all of its threads.
//!
//! ## What it sees
//! Stretches of 50 ms or more in which the host sends nothing although it has requests: they lie unread there, or stay there most of
//! their time while its processes are busy all the same. Shorter pauses are seen by what they cost: a collector that stops the
//! process has a good part of a full CPU.
//!
//! ## Why it limits
//! Nothing is served in a pause, and what came in waits for its end: the tail of the response times is the pause.
//!
//! ## Evidence
//! The share of the time that goes by in such stretches, or the share of the CPU samples that are the collector's. At a rate that is
//! carried, the share of the time of requests that they lie unread, if that is more; those of several servers add up.
//!
//! ## What it is not
//! A quota of CPU time that stops the processes: `cpu-quota-throttled`. Hosts behind or before it, which have nothing
//! to do meanwhile: requests lie unread at none of them, and stay elsewhere. Little load, in which gaps are natural.
//! Retransmission timeouts. Requests that wait inside for somebody else, or a loop that sleeps in a call: then its
//! processes are idle. Requests that take long on a CPU (a password that is hashed, one report for many): then a full CPU
//! runs their code, and none of a collector.
//!
//! ## Fix
//! Another collector or its settings, a smaller heap of long-lived objects, less garbage per request.
//!
//! ## References
//! The garbage collection handbook, Jones et al., on pauses; CPython `gc.freeze`.

use super::cpu_quota_throttled::{THROTTLED, stopped_by_quota};
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, cpu_work_or, does_not_apply, predicted_gain,
    ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::profile::{Code, Profile};
use crate::sessions::{BUSY_PROCESS, carries_a_rate, cpus_per_process, runs_code};
use prony_model::metric::{CONN_IN_UNREAD, LOOK_PAUSE_LONGEST, LOOK_PAUSED};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "stop-the-world-pauses",
    layer: Layer::Upstream,
    title: "stop-the-world pauses",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("stop_the_world_pauses.rs"),
};

/// Share of the time in pauses from which they matter. A guess: one of 150 ms in the three seconds of a close look.
const PAUSED: f64 = 0.05;
/// Answers per second below which 50 ms without one are nothing special: at 100/s at random that happens by e^-5.
/// Poisson.
const RATE_MIN: f64 = 100.0;
/// Requests unread, over those in flight times the share of pauses: 1 where they come in evenly and lie there. A guess.
const UNREAD: f64 = 0.3;

/// Share of the time of requests that they stay at the hop, from which it has something to do at any moment. A guess.
const STAYS: f64 = 0.5;

/// Collectors that have the process for themselves until they are done, by name: CPython, Ruby, PHP.
const STOPPING: Code = Code {
    work: "collecting garbage",
    modules: &[],
    functions: &[
        "gc_collect",
        "deduce_unreachable",
        "subtract_refs",
        "update_refs",
        "visit_decref",
        "visit_reachable",
        "dict_traverse",
        "list_traverse",
        "tupletraverse",
        "subtype_traverse",
        "gc_mark",
        "gc_sweep",
        "gc_possible_root",
        "zend_gc_",
    ],
};
/// Others, which do part of their work beside the process: V8, Go, .NET. The library of the Java runtime has the collectors in it,
/// while code of the application runs outside of it.
const OTHERS: Code = Code {
    work: STOPPING.work,
    modules: &["libjvm.so", "libclrgc"],
    functions: &[
        "v8::internal::Scavenge",
        "v8::internal::Mark",
        "v8::internal::Sweep",
        "runtime.gc",
        "runtime.scan",
        "runtime.grey",
        "WKS::gc_heap",
        "SVR::gc_heap",
    ],
};
/// Share of CPU samples from which a collector that stops the process matters, however short each of its pauses. A guess: with the
/// thresholds that runtimes ship, collecting takes a few percent.
const COLLECTS_MUCH: f64 = 0.15;
/// Functions without a name of these programs and libraries may be those of a collector.
const RUNTIMES: [&str; 11] = [
    "[python",
    "[libpython",
    "[pypy",
    "[node",
    "[libnode",
    "[ruby",
    "[libruby",
    "[php",
    "[libcoreclr",
    "[beam",
    "[unknown",
];
/// Share of a collector in the CPU time, or of a process's time on a CPU, over that of the pauses, below which no collector makes them.
/// A guess: in a pause it has the CPU for itself.
const COLLECTS_MIN: f64 = 0.3;

const REMEDY: &str =
    "another collector or its settings, a smaller heap of long-lived objects, less garbage per request";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if !runs_code(hop) {
        return does_not_apply(hop, "runs no code of the application");
    }
    let paused = paused(hop)?;
    if paused.value < PAUSED {
        return in_short_pauses(hop).unwrap_or_else(|| ruled_out(&paused, PAUSED, "guess", "it sends all the time"));
    }
    let rate = hop.fact("requests", "/s", |r| r.requests())?;
    if rate.value < RATE_MIN {
        return ruled_out(&rate, RATE_MIN, "Poisson", "so few requests leave gaps by themselves");
    }
    if let Some(throttled) = stopped_by_quota(hop) {
        return ruled_out(&throttled, THROTTLED, "guess", "a quota stops it");
    }
    let unread = hop.summary(&CONN_IN_UNREAD)?;
    let in_flight = hop.at(Level::At)?.in_flight()?;
    let border = UNREAD * paused.value * in_flight;
    let busy = cpus_per_process(hop)?;
    let works_on = busy.value >= BUSY_PROCESS && hop.held()?.share >= STAYS;
    if unread.value < border && !works_on {
        return ruled_out(&unread, border, "guess", "nothing lies unread: it has nothing to do in the pauses");
    }
    if busy.value < COLLECTS_MIN * paused.value {
        let claim = "its processes sleep in the pauses, and a collector works";
        return ruled_out(&busy, COLLECTS_MIN * paused.value, "guess", claim);
    }
    let full = cpu_is_full(hop)?;
    if full && let Ok(profile) = Profile::of(hop) {
        let collects = profile.share_in(&STOPPING) + profile.share_in(&OTHERS) + profile.share_unnamed(&RUNTIMES);
        if collects < COLLECTS_MIN * paused.value {
            let seen = profile.fact(STOPPING.work, collects);
            return ruled_out(&seen, COLLECTS_MIN * paused.value, "guess", "its CPU works on requests in the pauses");
        }
    }
    // At a rate, what comes in a pause makes others wait after it too; and what waits for one server waits for no other.
    let adds_up = carries_a_rate(hop);
    let lying = || hop.lying_unread().map_or(unread.value / in_flight, |lying| lying.value);
    let waits = if adds_up { lying() } else { 0.0 };
    let share = paused.value.max(waits).min(1.0);
    let percent = paused.value * 100.0;
    let claim = format!("{} stands still for {percent:.0} % of the time, in stretches of 50 ms and more", hop.name);
    let longest = hop.look(&LOOK_PAUSE_LONGEST, "");
    let longest = longest.map(|s| Fact { unit: "s", ..Fact::across_levels(hop, LOOK_PAUSE_LONGEST.name, s) });
    let dose = cpu_work_or(hop, "prony has no knob for a collector, and its CPUs have room")?;
    let mut finding = Finding::new(paused, PAUSED, "guess", &claim, share)
        .and(longest, "the longest of them")
        .and(Ok(unread.clone()), "requests lie unread")
        .and(Ok(busy.clone()), "what its processes use all the same")
        .mend(REMEDY, None)
        .gaining(predicted_gain(hop, share))
        .rising(Ok(if unread.value < border { busy } else { unread }))
        .tested_by(dose);
    finding.adds_up = adds_up;
    finding.fires()
}

fn paused(hop: &Hop<'_>) -> Result<Fact, Gap> {
    Ok(Fact { unit: "share", ..Fact::across_levels(hop, LOOK_PAUSED.name, hop.look(&LOOK_PAUSED, "")?) })
}

/// The share of the time in pauses that are seen to stop the hop, with its border.
pub(super) fn stopped_by_pauses(hop: &Hop<'_>) -> Option<(Fact, f64)> {
    let paused = paused(hop).ok().filter(|paused| paused.value >= PAUSED)?;
    matches!(check(hop), Ok(Judgement::Fires(_))).then_some((paused, PAUSED))
}

/// Pauses that are each too short to be seen as a stretch without answers, by the part of a full CPU that a collector has; none when it
/// has little, or was not seen.
fn in_short_pauses(hop: &Hop<'_>) -> Option<Result<Judgement, Gap>> {
    let profile = Profile::of(hop).ok()?;
    let collects = profile.share_in(&STOPPING);
    if collects < COLLECTS_MUCH || !cpu_is_full(hop).ok()? {
        return None;
    }
    let share = profile.limit_share(collects).ok()?;
    let part = collects * 100.0;
    let claim = format!("{} collects garbage in {part:.0} % of its CPU time, and stands still meanwhile", hop.name);
    let found = Finding::new(profile.fact(STOPPING.work, collects), COLLECTS_MUCH, "guess", &claim, share)
        .and(profile.us_per_request(STOPPING.work, collects), "what it costs each request")
        .mend(REMEDY, None)
        .gaining(predicted_gain(hop, share))
        .rising(profile.cpus(STOPPING.work, collects))
        .tested_by(Dose::Cpu);
    Some(found.fires())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    fn lab(paused: f64) -> Lab {
        pausing(Lab::chain(), paused)
    }

    fn pausing(lab: Lab, paused: f64) -> Lab {
        let lab = lab.gauge("app", &LOOK_PAUSED, "", paused).gauge("app", &LOOK_PAUSE_LONGEST, "", 0.2);
        lab.levels("app", &CONN_IN_UNREAD, "80", [20.0 * paused, 50.0 * paused, 90.0 * paused]).gauge(
            "db",
            &LOOK_PAUSED,
            "",
            paused,
        )
    }

    #[test]
    fn fires_silent_border() {
        let closed = finding(CAUSE.id, "app", &lab(0.4)).unwrap();
        assert!((closed.score - 0.4).abs() < 1e-9 && !closed.adds_up, "{}", closed.score);
        let rate =
            Lab { rate: Some(647.0), x: [320.0, 647.0, 960.0], ..lab(0.2).gauge("app", &CONN_IN_UNREAD, "80", 9.0) };
        let rate = Lab { r_us: [1_000.0, 15_000.0, 15_000.0], ..rate };
        let found = finding(CAUSE.id, "app", &rate).unwrap();
        assert!((found.score - 0.93).abs() < 0.01, "9 of 10 wait for it at this rate: {}", found.score);
        assert!(found.adds_up, "those that wait at another server are others");
        assert!(found.summary.contains("stands still for 20 %"), "{}", found.summary);
        assert_eq!(score(CAUSE.id, "db", &lab(0.4)), 0.0, "it waits for the application");
        assert_eq!(score(CAUSE.id, "app", &lab(0.0)), 0.0);
        assert_eq!(score(CAUSE.id, "app", &lab(0.049)), 0.0, "border");
        assert!(score(CAUSE.id, "app", &lab(0.051)) > 0.0, "border");
        let silent = |lab: Lab, why: &str| assert_eq!(score(CAUSE.id, "app", &lab), 0.0, "{why}");
        silent(
            lab(0.4).queueing(900.0).gauge("app", &CONN_IN_UNREAD, "80", 1.0),
            "nothing lies unread, and it is idle",
        );
        silent(lab(0.4).per_second("app", &prony_model::metric::CGROUP_THROTTLED_TIME, "", 0.4), "a quota");
        silent(lab(0.4).throughput(90.0), "little load");
        silent(lab(0.9).own("app", 0.05), "its loop sleeps in a call");
        let collecting = lab(0.4).gauge("app", &CONN_IN_UNREAD, "80", 1.0);
        let collecting = collecting.levels("app", &prony_model::metric::CONN_IN_BUSY, "80", [5.0, 60.0, 120.0]);
        assert!(score(CAUSE.id, "app", &collecting) > 0.3, "all were read, and it works on something else");
        // What the CPU ran, by the profile.
        let ran = |function: &'static str, module: &'static str| {
            let full = Lab::chain().cpu("0", 0.8, 0.15, 0.05).profiled("app", &[(function, module, 0.6)]);
            score(CAUSE.id, "app", &pausing(full, 0.4))
        };
        assert!(ran("gc_collect_main", "libpython3.11.so.1.0") > 0.3, "a collector by name");
        assert!(ran("[python3.11]", "python3.11") > 0.3, "a stripped runtime: it may be one");
        assert!(ran("GCTaskThread::run", "libjvm.so") > 0.3, "the library of a runtime");
        assert_eq!(ran("sha512_transform", "libcrypto.so.3"), 0.0, "long requests");
        // Pauses that are too short to be seen as such.
        let collects = |function: &'static str, share: f64, idle: f64| {
            let cpu =
                Lab::chain().cpu("0", 0.95 - idle, 0.03, 0.02).profiled("app", &[(function, "python3.11", share)]);
            score(CAUSE.id, "app", &pausing(cpu, 0.02))
        };
        assert!(collects("dict_traverse", 0.3, 0.0) > 0.1, "a third of a full CPU");
        assert!(collects("visit_decref", 0.151, 0.0) > 0.0 && collects("visit_decref", 0.149, 0.0) == 0.0, "border");
        assert_eq!(collects("runtime.gcDrain", 0.3, 0.0), 0.0, "a collector that works beside the process");
        assert_eq!(collects("dict_traverse", 0.3, 0.6), 0.0, "there is room");
        let run = Lab::chain().run();
        assert!(check(&Hop { run: &run, name: "app" }).is_err(), "no close look");
    }

    #[test]
    fn at_a_rate_that_is_carried_a_slower_collector_is_felt_where_there_is_room() {
        let dose = |rate: Option<f64>| {
            let lab = Lab { rate, x: [320.0, 647.0, 960.0], ..lab(0.4).cpu("0", 0.3, 0.1, 0.05) };
            finding(CAUSE.id, "app", &lab).expect("it pauses").dose
        };
        assert_eq!(dose(Some(647.0)), Dose::Cpu);
        assert!(matches!(dose(None), Dose::Untestable(_)), "throughput would not feel it");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            prop_assert!(score(CAUSE.id, "app", &lab(a.min(b))) <= score(CAUSE.id, "app", &lab(a.max(b))) + 1e-9);
        }
    }
}
