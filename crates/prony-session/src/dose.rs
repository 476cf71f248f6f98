//! How much to slow a host's CPU: a share of what it could get, not of what it happens to use.
//!
//! A host that has CPU to spare does not feel a small dose; one whose CPUs are full feels all of it. So the capacity is
//! its own use plus what its CPUs leave idle, and never more than its processes can use at once or its quota allows.

use crate::cost::cpus_used;
use prony_model::metric::{CGROUP_QUOTA, CPU_IDLE, PROC_CPUS_ALLOWED, PROC_THREADS};
use prony_model::{Gap, Level, Run, SeriesSet, Trial};

/// The smallest quota the kernel takes with a period of 10 ms: 1 ms (kernel/sched/core.c, min_cfs_quota_period).
const CPUS_MIN: f64 = 0.1;

/// CPU time per second, in CPUs, that slows `host` by `dose` at the level At.
pub(crate) fn slowed_cpus(run: &Run, host: &str, dose: f64) -> Result<f64, Gap> {
    let missing = |reason: &str| Gap::new("intervention", host, reason);
    let at = run.level(Level::At).ok_or_else(|| missing("the workload was not run at its own level"))?;
    Ok((capacity_cpus(run, host, at)? * (1.0 - dose)).max(CPUS_MIN))
}

fn capacity_cpus(run: &Run, host: &str, at: &Trial) -> Result<f64, Gap> {
    let missing = |reason: &str| Gap::new("intervention", host, reason);
    let used = cpus_used(run, host, at.window).ok_or_else(|| {
        missing("the CPU use of its processes is not known; name them with `process` in the stack file")
    })?;
    let idle = idle_cpus(run, host, at).ok_or_else(|| missing("the idle time of its CPUs is not known"))?;
    let threads: f64 = run.series.items(host, &PROC_THREADS).filter_map(|(_, p)| SeriesSet::max(p, at.window)).sum();
    let quota = SeriesSet::mean(run.series.points(host, &CGROUP_QUOTA, ""), at.window);
    let most = [(threads > 0.0).then_some(threads), quota].into_iter().flatten().fold(f64::INFINITY, f64::min);
    Ok((used + idle).min(most).max(used))
}

/// Idle time per second on the CPUs that the host may use.
fn idle_cpus(run: &Run, host: &str, at: &Trial) -> Option<f64> {
    let cpus = run.stack.host.get(host)?.cpus.as_deref().map(cpu_list);
    let allowed =
        run.series.items(host, &PROC_CPUS_ALLOWED).filter_map(|(_, p)| SeriesSet::max(p, at.window)).reduce(f64::max);
    let idle: Vec<f64> = run
        .series
        .items(host, &CPU_IDLE)
        .filter(|(cpu, _)| cpus.as_ref().is_none_or(|list| cpu.parse().is_ok_and(|c: u32| list.contains(&c))))
        .filter_map(|(_, points)| SeriesSet::rate(points, at.window))
        .collect();
    (!idle.is_empty()).then(|| idle.iter().sum::<f64>().min(allowed.unwrap_or(f64::INFINITY)))
}

/// `0,2-3` as numbers; what is no number is left out.
pub fn cpu_list(text: &str) -> Vec<u32> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<u32>> {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse().ok()?..=to.trim().parse().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(cpu_list("0,2-3"), [0, 2, 3]);
        assert_eq!(cpu_list("x"), Vec::<u32>::new());
    }
}
