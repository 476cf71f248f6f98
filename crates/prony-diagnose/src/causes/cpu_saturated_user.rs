//! # CPU saturated, user
//!
//! The hop's CPUs are full of its own code: an honest limit.
//!
//! ## What it sees
//! Busy share of the CPUs that the hop may use, its own part of it (with its packet work), and how it splits between
//! user and kernel; where the CPU time of a request goes, by library and function, if a profile was taken.
//!
//! ## Why it limits
//! A full CPU serves no more requests, whatever the concurrency.
//!
//! ## Evidence
//! The hop's own share of the capacity of its CPUs is the score; of hosts that share full CPUs, the one that uses most
//! is named.
//!
//! ## What it is not
//! A fault: it stands only when no fault explains what the CPU is spent on. CPUs that strangers fill: the hop's own
//! share is small then.
//!
//! ## Fix
//! Less work per request (configuration, code), or more CPUs: throughput grows with them until the next limit.
//!
//! ## References
//! proc(5) /proc/stat.

use super::cpu_stolen::stolen_beside;
use crate::cause::{
    Cause, FULL_CPU, FULL_CPU_ORIGIN, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_until_next_limit,
    greatest_user, ruled_out,
};
use crate::facts::Hop;
use crate::profile::Profile;
use prony_model::metric::{PROFILE_MODULE, PROFILE_SELF};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "cpu-saturated-user",
    layer: Layer::Cpu,
    title: "CPU saturated by user code",
    kind: Kind::HonestLimit,
    scope: Scope::Serving,
    check,
    source: include_str!("cpu_saturated_user.rs"),
};

/// Share of full CPUs that the hop itself must use to be named. A guess: of three hosts on one CPU the greatest uses at
/// least a third.
pub(super) const OWN_SHARE: f64 = 0.25;

/// Lines of evidence for libraries and for functions: what fits beside the rest. A guess.
const MODULES_TOLD: usize = 3;
/// See [`MODULES_TOLD`].
const FUNCTIONS_TOLD: usize = 5;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    judge(hop, false)
}

/// The judgement for one half of the kernel/user divide.
pub(super) fn judge(hop: &Hop<'_>, kernel_side: bool) -> Result<Judgement, Gap> {
    let busy = hop.fact("busy share of the hop's CPUs", "share", |r| Ok(r.cpu()?.busy_share()))?;
    if !cpu_is_full(hop)? {
        return ruled_out(&busy, FULL_CPU, FULL_CPU_ORIGIN, "its CPUs have room");
    }
    let own = hop.fact("share of its CPUs that the hop uses", "share", |r| Ok(r.own_cpu()? / r.cpu()?.total()))?;
    if own.value < OWN_SHARE {
        return ruled_out(&own, OWN_SHARE, "guess", "its CPUs are full, but not of it");
    }
    let at = hop.at(Level::At)?;
    let greatest = greatest_user(hop);
    if greatest.name != hop.name {
        return ruled_out(&own, OWN_SHARE, "guess", &format!("{} uses more of the same CPUs", greatest.name));
    }
    let kernel = hop.fact("kernel share of busy time", "share", |r| Ok(r.cpu()?.kernel_share()))?;
    if (kernel.value >= 0.5) != kernel_side {
        return ruled_out(&kernel, 0.5, "definition", "the other half of the CPU time is greater");
    }
    let side = if kernel_side { "kernel" } else { "user" };
    let claim = format!(
        "the CPUs of {} are {:.0} % busy, most of it in {side} code of its requests",
        hop.name,
        busy.value * 100.0
    );
    let share = own.value * at.good_share();
    let mut finding = Finding::new(busy, FULL_CPU, FULL_CPU_ORIGIN, &claim, share)
        .and(Ok(own), "the hop's own share of them")
        .and(Ok(kernel), "kernel share of the busy time")
        .and(hop.fact("cpu us / request", "us", |r| r.cpu_us_per_request()), "what a request costs the hop");
    if let Some(stolen) = stolen_beside(hop) {
        finding = finding.and(Ok(stolen), "what the hypervisor takes of them");
    }
    with_hottest(finding, hop)
        .mend("less work per request, or more CPUs for this hop", None)
        .gaining(gain_until_next_limit(hop))
        .fires()
}

/// Adds where the CPU time of a request goes, if a profile was taken: by library, then by function.
fn with_hottest(mut finding: Finding, hop: &Hop<'_>) -> Finding {
    let Ok(profile) = Profile::of(hop) else { return finding };
    for (metric, count, what) in [
        (&PROFILE_MODULE, MODULES_TOLD, "of that goes to this program or library"),
        (&PROFILE_SELF, FUNCTIONS_TOLD, "of that goes to this function"),
    ] {
        for (item, share) in profile.hottest(metric, count) {
            let claim = format!("{:.0} % {what}", share * 100.0);
            finding = finding.and(profile.us_per_request(item, share), &claim);
        }
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::CPU_STEAL;
    use proptest::prelude::*;

    fn lab(user: f64) -> Lab {
        Lab::healthy().cpu("0", user, 0.2, 0.07).own("lb", user + 0.2)
    }

    #[test]
    fn fires_silent_border() {
        assert!(score(CAUSE.id, "lb", &lab(0.7)) > 0.9);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0, "that one is full of kernel work");
        assert_eq!(score(CAUSE.id, "s1", &lab(0.7)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.7).own("lb", 0.1)), 0.0, "strangers fill it");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.42)), 0.0, "69 % busy");
        assert!(score(CAUSE.id, "lb", &lab(0.44)) > 0.0, "71 % busy, and more connections bring nothing");
    }

    #[test]
    fn what_the_hypervisor_takes_is_told_with_it() {
        let told = |share: f64| {
            let lab = Lab::healthy().cpu("0", 0.6, 0.1, 0.03).own("lb", 0.7).per_second("lb", &CPU_STEAL, "0", share);
            finding(CAUSE.id, "lb", &lab).unwrap().evidence.iter().any(|e| e.metric.starts_with("cpu.steal"))
        };
        assert!(told(0.25));
        assert!(!told(0.05));
    }

    #[test]
    fn the_time_of_a_request_is_told_by_function() {
        let found =
            finding(CAUSE.id, "lb", &lab(0.7).profiled("lb", &[("f", "nginx", 0.6), ("g", "kernel", 0.4)])).unwrap();
        let all = found.evidence.iter().find(|e| e.metric == "cpu us / request").unwrap().value;
        let of = |metric: &str| found.evidence.iter().find(|e| e.metric == metric).unwrap().value;
        assert!((of("cpu us / request: f") - 0.6 * all).abs() < 1e-6);
        assert!((of("cpu us / request: kernel") - 0.4 * all).abs() < 1e-6);
    }

    #[test]
    fn of_hosts_on_one_cpu_the_greatest_is_named() {
        let crowded = Lab::healthy().cpu("0", 0.1, 0.1, 0.0).cpu("1", 0.7, 0.2, 0.05).own("s1", 0.5).own("s2", 0.2);
        assert!(score(CAUSE.id, "s1", &crowded) > 0.5);
        assert_eq!(score(CAUSE.id, "s2", &crowded), 0.0);
        assert_eq!(score(CAUSE.id, "s1", &Lab { generator: 0.6, ..crowded }), 0.0, "the generator uses most");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..0.73, b in 0.0f64..0.73) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))) + 1e-9);
        }
    }
}
