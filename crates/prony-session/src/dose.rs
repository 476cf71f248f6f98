//! How much to slow a host's CPU: a share of what it could get, not of what it happens to use.
//!
//! A host that has CPU to spare does not feel a small dose; one whose CPUs are full feels all of it. So the capacity is
//! its own use plus what its CPUs leave idle, and never more than its processes can use at once or its quota allows.

use prony_model::metric::{CGROUP_QUOTA, CPU_IDLE, PROC_CPUS_ALLOWED, PROC_IS_WORKER, PROC_THREADS};
use prony_model::run::Arm;
use prony_model::{Gap, Level, Purpose, Run, SeriesSet, Window};

/// The smallest quota the kernel takes with a period of 10 ms: 1 ms (kernel/sched/core.c, min_cfs_quota_period).
const CPUS_MIN: f64 = 0.1;

/// CPU time per second, in CPUs, that slows `host` by `dose`. The capacity is the largest seen in a trial as found: in one
/// that strangers disturbed, the host got less than it can have.
pub(crate) fn slowed_cpus(run: &Run, host: &str, dose: f64) -> Result<f64, Gap> {
    let as_found = run.trials.iter().filter(|t| is_as_found(&t.purpose));
    let capacities: Vec<Result<f64, Gap>> = as_found.map(|t| capacity_cpus(run, host, t.window)).collect();
    let largest = capacities.iter().flatten().copied().reduce(f64::max);
    match (largest, capacities.into_iter().find_map(Result::err)) {
        (Some(cpus), _) => Ok((cpus * (1.0 - dose)).max(CPUS_MIN)),
        (None, Some(gap)) => Err(gap),
        (None, None) => Err(Gap::new("intervention", host, "the workload was not run at its own level")),
    }
}

fn is_as_found(purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Level { level: Level::At } | Purpose::Intervention { arm: Arm::A, .. })
}

fn capacity_cpus(run: &Run, host: &str, window: Window) -> Result<f64, Gap> {
    let missing = |reason: &str| Gap::new("intervention", host, reason);
    let used = run.process_cpus(host, window).ok_or_else(|| {
        missing("the CPU use of its processes is not known; name them with `process` in the stack file")
    })?;
    let idle = idle_cpus(run, host, window).ok_or_else(|| missing("the idle time of its CPUs is not known"))?;
    let quota = SeriesSet::mean(run.series.points(host, &CGROUP_QUOTA, ""), window);
    let most = [worker_threads(run, host, window), quota].into_iter().flatten().fold(f64::INFINITY, f64::min);
    Ok((used + idle).min(most).max(used))
}

/// Threads that serve requests: no more CPUs than that can be used at once. A main process that only waits does not count.
fn worker_threads(run: &Run, host: &str, window: Window) -> Option<f64> {
    let is_worker = |pid: &str| {
        SeriesSet::max(run.series.points(host, &PROC_IS_WORKER, pid), window).is_some_and(|flag| flag > 0.0)
    };
    let threads = run.series.items(host, &PROC_THREADS).filter(|(pid, _)| is_worker(pid));
    threads.filter_map(|(_, points)| SeriesSet::max(points, window)).reduce(|a, b| a + b)
}

/// Idle time per second on the CPUs that the host may use.
fn idle_cpus(run: &Run, host: &str, window: Window) -> Option<f64> {
    let cpus = run.stack.host.get(host)?.cpus.as_ref();
    let allowed =
        run.series.items(host, &PROC_CPUS_ALLOWED).filter_map(|(_, p)| SeriesSet::max(p, window)).reduce(f64::max);
    let idle: Vec<f64> = run
        .series
        .items(host, &CPU_IDLE)
        .filter(|(cpu, _)| cpus.is_none_or(|list| cpu.parse().is_ok_and(|c| list.contains(c))))
        .filter_map(|(_, points)| SeriesSet::rate(points, window))
        .collect();
    (!idle.is_empty()).then(|| idle.iter().sum::<f64>().min(allowed.unwrap_or(f64::INFINITY)))
}
