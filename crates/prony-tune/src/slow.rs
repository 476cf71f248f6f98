//! Makes one hop a little slower: the intervention that shows whether the limit follows it.
//!
//! Goes through the same journal as a knob. Invariant: a hop never gets more CPU than it had.

use crate::knob::{Plan, cgroup_cpu_quota::Quota};
use crate::step::{Group, Moved, Step};
use crate::{Applied, Context, Journal, TuneError, process};
use prony_model::{Knob, KnobId, Nanos};

/// Longest period that the kernel takes (`max_cfs_quota_period` in kernel/sched/core.c, 1 s).
const PERIOD_US_MAX: u64 = 1_000_000;
/// Smallest quota that the kernel takes (`min_cfs_quota_period` in kernel/sched/core.c, 1 ms).
const QUOTA_US_MIN: u64 = 1_000;

/// A hop that was slowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Slowed {
    /// The change; `undo` takes it back.
    pub applied: Applied,
    /// CPUs that the hop really has now: the dose asked for, to the microsecond of a period, and at least 0.001.
    pub cpus: f64,
}

/// Quota and period, in microseconds, that give so many CPUs. The period is longer only where the quota would be too small for the kernel.
fn quota_and_period_us(cpus: f64, period_us: u64) -> (u64, u64) {
    let period_us = ((QUOTA_US_MIN as f64 / cpus).ceil() as u64).max(period_us).min(PERIOD_US_MAX);
    (((cpus * period_us as f64).round() as u64).max(QUOTA_US_MIN), period_us)
}

/// Gives the processes of a host at most that many CPUs. Where they have a quota, its period stays: shorter stalls would speed up what the
/// smaller quota slows. Else it is `period`, or longer where the quota would be below 1 ms. Processes that are in the root control group or share
/// theirs with others get a group of their own for the time.
pub fn cpu(ctx: &Context<'_>, cpus: f64, period: Nanos, journal: &Journal) -> Result<Slowed, TuneError> {
    if !(cpus > 0.0 && cpus.is_finite()) {
        return Err(TuneError::value("slow cpu", &cpus.to_string(), "a number of CPUs above 0"));
    }
    let present = Quota::find(ctx)?;
    let (quota_us, period_us) = quota_and_period_us(cpus, present.period_us_in_force().unwrap_or(period.0 / 1000));
    let true_cpus = quota_us as f64 / period_us as f64;
    if present.cpus().is_some_and(|has| has <= true_cpus) {
        return Err(TuneError::value(
            "slow cpu",
            &cpus.to_string(),
            format!("less than the {} CPUs that the host has already", present.text()),
        ));
    }
    let family = process::with_descendants(&ctx.roots.proc, &ctx.pids);
    let steps = if present.is_theirs_alone(ctx, &family)? {
        present.steps_to(quota_us, period_us)
    } else {
        let dir = present.child_dir(&format!("prony-{}-{}", ctx.name, std::process::id()));
        let settings = present.settings(quota_us, period_us);
        let first = ctx.pids.first().copied();
        let order = first.into_iter().chain(family.iter().copied().filter(|pid| Some(*pid) != first));
        let members = order.filter_map(|pid| {
            let start_ticks = process::start_ticks(&ctx.roots.proc, pid)?;
            Some(Moved { pid, start_ticks, from: Quota::of(&ctx.roots, pid).ok()?.dir })
        });
        vec![Step::Group(Group { dir, settings, members: members.collect() })]
    };
    let knob = Knob { host: ctx.name.to_string(), id: KnobId::CgroupCpuQuota, value: format!("{true_cpus}") };
    let plan = Plan {
        before: present.text(),
        steps,
        reload: None,
        permanent: "an intervention is never made permanent".to_string(),
    };
    let applied = crate::carry_out(ctx, &knob, plan, journal, || Ok(()))?;
    Ok(Slowed { applied, cpus: true_cpus })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_host_with_a_tenth_of_a_cpu_can_be_slowed_too() {
        assert_eq!(quota_and_period_us(0.5, 10_000), (5_000, 10_000));
        assert_eq!(quota_and_period_us(0.1, 10_000), (1_000, 10_000));
        assert_eq!(quota_and_period_us(0.08, 10_000), (1_000, 12_500));
        assert_eq!(quota_and_period_us(0.08, 100_000), (8_000, 100_000));
        assert_eq!(quota_and_period_us(1e-9, 10_000), (1_000, 1_000_000));
    }

    proptest! {
        #[test]
        fn the_kernel_takes_them_and_they_give_what_was_asked_for(cpus in 0.001f64..64.0, period_us in 10_000u64..1_000_000) {
            let (quota_us, period_us) = quota_and_period_us(cpus, period_us);
            prop_assert!(quota_us >= QUOTA_US_MIN && (QUOTA_US_MIN..=PERIOD_US_MAX).contains(&period_us));
            prop_assert!((quota_us as f64 / period_us as f64 - cpus).abs() <= 1.0 / 10_000.0);
        }
    }
}
