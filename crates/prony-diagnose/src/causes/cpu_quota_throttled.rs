//! # CPU quota throttled
//!
//! The control group of the hop may use less CPU than it wants; the kernel stops it for the rest of each period.
//!
//! ## What it sees
//! Throttled seconds per second of the hop's control group.
//!
//! ## Why it limits
//! Stopped workers serve nothing while their CPU may be idle; p99 jumps by the length of the pause (up to 100 ms).
//!
//! ## Evidence
//! Throttled time per CPU that the hop may use, up to the whole: the score.
//!
//! ## What it is not
//! A hop that is merely busy: without a quota nothing is ever throttled.
//!
//! ## Fix
//! Knob `cgroup.cpu_quota` to `max`, or higher; fewer threads.
//!
//! ## References
//! Linux Documentation/scheduler/sched-bwc.rst.

use crate::cause::{
    Cause, Finding, Judgement, Kind, Layer, Scope, gain_of_share, gain_until_next_limit, knob, ruled_out,
};
use crate::facts::{Fact, Hop};
use prony_model::metric::{CGROUP_QUOTA, CGROUP_THROTTLED, CGROUP_THROTTLED_TIME};
use prony_model::{Gap, KnobId, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "cpu-quota-throttled",
    layer: Layer::Cpu,
    title: "CPU quota throttled",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("cpu_quota_throttled.rs"),
};

/// Throttled share from which it matters. A guess: no public tool has a rule on throttled time.
pub const THROTTLED: f64 = 0.05;

/// How long a quota stops the hop, when that is long enough to explain why requests stay there.
pub fn stopped_by_quota(hop: &Hop<'_>) -> Option<Fact> {
    hop.summary(&CGROUP_THROTTLED_TIME).ok().filter(|throttled| throttled.value >= THROTTLED)
}

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let cpus = hop.cpus()?.len() as f64;
    let throttled = hop.fact("cgroup.throttled_time", "s/s", |r| r.sum(&CGROUP_THROTTLED_TIME))?;
    if throttled.value < THROTTLED {
        return ruled_out(&throttled, THROTTLED, "guess", "its control group is not stopped");
    }
    let at = hop.at(Level::At)?;
    // Throttled time adds up over CPUs; only as many run as there are workers.
    let running = cpus.min(hop.workers().len().max(1) as f64);
    let share = (throttled.value / running).min(1.0);
    let used = at.process_cpu().unwrap_or(0.0);
    let idle = at.cpu()?.idle;
    let own_room = if used > 0.0 { Some(idle / used) } else { None };
    let cap = [own_room, gain_until_next_limit(hop)].into_iter().flatten().reduce(f64::min);
    let claim = format!("{} is stopped {:.2} s per second by its CPU quota", hop.name, throttled.value);
    let mut finding = Finding::new(throttled, THROTTLED, "guess", &claim, share)
        .and(hop.summary(&CGROUP_THROTTLED), "periods per second in which it was stopped")
        .and(hop.fact(CGROUP_QUOTA.name, "CPUs", |r| r.sum(&CGROUP_QUOTA)), "its quota")
        .and(hop.fact("idle CPUs", "CPUs", |r| Ok(r.cpu()?.idle)), "idle time of the CPUs that it may use")
        .mend("raise or lift the CPU quota", knob(hop, KnobId::CgroupCpuQuota, "max"))
        .gaining(Some(gain_of_share(share, cap)));
    for sibling in siblings_as_tight(hop) {
        let advice = format!("the same at {}, which has no more and is the next limit", sibling.name);
        finding = finding.mend(&advice, knob(&sibling, KnobId::CgroupCpuQuota, "max"));
    }
    finding.fires()
}

/// Siblings with a quota that is no larger: while requests pile up at one of them the others are hardly stopped, but lifting its quota
/// alone leaves the stack to theirs.
fn siblings_as_tight<'a>(hop: &Hop<'a>) -> Vec<Hop<'a>> {
    /// Quotas that differ by less are alike. A guess.
    const ALIKE: f64 = 1.1;
    let quota = |h: &Hop<'_>| h.at(Level::At).and_then(|at| at.sum(&CGROUP_QUOTA)).ok();
    let Some(own) = quota(hop) else { return Vec::new() };
    let is_as_tight = |h: &Hop<'_>| h.name != hop.name && quota(h).is_some_and(|other| other <= ALIKE * own);
    hop.siblings().into_iter().filter(is_as_tight).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    /// 40 ms per 100 ms: stopped for 0.56 s per second, CPU 0 idle by 57 %.
    fn lab(throttled: f64) -> Lab {
        Lab::healthy().cpu("0", 0.15, 0.16, 0.12).own("lb", 0.4).per_second("lb", &CGROUP_THROTTLED_TIME, "", throttled)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(0.56)).unwrap();
        assert!((found.score - 0.56).abs() < 1e-6);
        assert!(found.gain.unwrap() > 0.9);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.049)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.051)) > 0.0);
    }

    #[test]
    fn siblings_that_may_have_no_more_are_mended_with_it() {
        let turned = |quota_of_s2: f64| {
            let lab = Lab::healthy().per_second("s1", &CGROUP_THROTTLED_TIME, "", 0.5);
            let lab = lab.gauge("s1", &CGROUP_QUOTA, "", 0.15).gauge("s2", &CGROUP_QUOTA, "", quota_of_s2);
            let remedies = finding(CAUSE.id, "s1", &lab).unwrap().remedies;
            remedies.into_iter().filter_map(|r| Some(r.knob?.host)).collect::<Vec<_>>()
        };
        assert_eq!(turned(0.15), ["s1", "s2"]);
        assert_eq!(turned(0.5), ["s1"], "it has far more");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..3.0, b in 0.0f64..3.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
