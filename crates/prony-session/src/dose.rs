//! How much to slow a host's CPU: a share of what it could get, not of what it happens to use.
//!
//! A host that has CPU to spare does not feel a small dose; one whose CPUs are full feels all of it. So the capacity is
//! its own use plus what its CPUs leave idle, and never more than its processes can use at once or its quota allows.

use prony_model::metric::{CGROUP_QUOTA, PROC_CPUS_ALLOWED, PROC_IS_WORKER, PROC_RUN, PROC_THREADS};
use prony_model::run::Arm;
use prony_model::{Gap, Level, Nanos, Purpose, Run, SeriesSet, Trial, Window};

/// The smallest quota the kernel takes, 1 ms, in its longest period, 1 s (kernel/sched/core.c, `min_cfs_quota_period` and
/// `max_cfs_quota_period`).
const CPUS_MIN: f64 = 0.001;

/// Over which time a quota counts. Short, so that a hop is slowed evenly and does not stall for tens of milliseconds (the kernel's default of
/// 100 ms inflates p99); tried in the interventions of this project's notes, where 10 ms gave clean elasticities.
const PERIOD: Nanos = Nanos::from_millis(10);
/// The same at a rate, where a request may be all that the hop works on: a query of 7 ms would not feel a quota of 8 ms in 10. The
/// shortest that the kernel takes.
const PERIOD_AT_RATE: Nanos = Nanos::from_millis(1);

/// Over which time the quota of an intervention counts.
pub(crate) fn period(at_rate: bool) -> Nanos {
    if at_rate { PERIOD_AT_RATE } else { PERIOD }
}

/// How many times what a host uses it may take at a rate before its capacity is cut. A guess: it then feels the dose, and carries the rate.
const ROOM_AT_RATE: f64 = 2.0;

/// CPU time per second, in CPUs, that slows `host` by `dose`. The capacity is the largest seen in a trial as found: in one
/// that strangers disturbed, the host got less than it can have.
///
/// At a rate a host with many CPUs has few of them in use at once: there no more than one counts, or twice what it uses.
pub(crate) fn slowed_cpus(run: &Run, host: &str, dose: f64, at_rate: bool) -> Result<f64, Gap> {
    let as_found = run.trials.iter().filter(|t| is_as_found(&t.purpose));
    let capacity = |t: &Trial| {
        let cpus = capacity_cpus(run, host, t.window)?;
        let used = run.process_cpus(host, t.window).unwrap_or(cpus);
        Ok(if at_rate { cpus.min((used * ROOM_AT_RATE).max(1.0)) } else { cpus })
    };
    let capacities: Vec<Result<f64, Gap>> = as_found.map(capacity).collect();
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
    let quota = known(run.series.points(host, &CGROUP_QUOTA, ""), window);
    let most = [worker_threads(run, host, window), quota].into_iter().flatten().fold(f64::INFINITY, f64::min);
    Ok((used + idle).min(most).max(used))
}

/// Threads that serve requests: no more CPUs than that can be used at once. A main process that only waits does not count. A process that
/// runs on one CPU at a time counts once, however many threads take turns.
fn worker_threads(run: &Run, host: &str, window: Window) -> Option<f64> {
    let workers: Vec<_> = run.series.items(host, &PROC_THREADS).filter(|(pid, _)| is_worker(run, host, pid)).collect();
    // A server that was reloaded has new workers; the old ones run no more. In a short trial perhaps none was read.
    let runs = |pid: &str| SeriesSet::rate(run.series.points(host, &PROC_RUN, pid), window).is_some();
    let read_ns = |pid: &str| last(run.series.points(host, &PROC_RUN, pid), window).map(|(at_ns, _)| at_ns);
    let newest_ns = workers.iter().filter_map(|(pid, _)| read_ns(pid)).max();
    let none_runs = !workers.iter().any(|(pid, _)| runs(pid));
    let counts = |pid: &str| if none_runs { read_ns(pid) == newest_ns } else { runs(pid) };
    let one_each = prony_diagnose::has_work_for_one_cpu_each(run, host);
    let threads = |points| known(points, window).map(|threads| if one_each { 1.0 } else { threads });
    workers.iter().filter(|(pid, _)| counts(pid)).filter_map(|(_, points)| threads(points)).reduce(|a, b| a + b)
}

/// What was last read of something that seldom changes and is seldom read: in a short trial perhaps not at all.
fn known(points: &[(u64, f64)], window: Window) -> Option<f64> {
    last(points, window).map(|(_, value)| value)
}

fn last(points: &[(u64, f64)], window: Window) -> Option<(u64, f64)> {
    let until = points.partition_point(|(at_ns, _)| *at_ns <= window.to_ns);
    points.get(..until)?.last().copied()
}

fn is_worker(run: &Run, host: &str, pid: &str) -> bool {
    run.series.points(host, &PROC_IS_WORKER, pid).iter().any(|(_, flag)| *flag > 0.0)
}

/// Idle time per second on the CPUs that the host may use.
fn idle_cpus(run: &Run, host: &str, window: Window) -> Option<f64> {
    let cpus = run.stack.host.get(host)?.cpus.as_ref();
    let allowed = run.series.items(host, &PROC_CPUS_ALLOWED).filter_map(|(_, p)| known(p, window)).reduce(f64::max);
    let mut idle = run.idle_shares(host, window);
    let bound = prony_diagnose::worker_cpus(run, host);
    let may_use = |cpu: u32| bound.is_empty() || bound.contains(&cpu);
    idle.retain(|(cpu, _)| cpus.is_none_or(|list| list.contains(*cpu)) && may_use(*cpu));
    (!idle.is_empty()).then(|| idle.iter().map(|(_, share)| share).sum::<f64>().min(allowed.unwrap_or(f64::INFINITY)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MadeRun;
    use expect_test::{Expect, expect};
    use prony_model::metric::{CGROUP_USAGE, CPU_IDLE, CPU_IOWAIT, LOOK_ANY_THREAD, LOOK_RUNNING, PROC_AFFINITY};

    const AT: Purpose = Purpose::Level { level: Level::At };
    const LB: &str = "[host.lb]\n";

    /// `lb` with one worker that uses so many CPUs, on a machine whose CPUs idle so much.
    fn worker(hosts: &str, used: f64, idle: &[f64]) -> MadeRun {
        showing(MadeRun::of(hosts).trial(AT, 1000.0), used, idle)
    }

    fn showing(run: MadeRun, used: f64, idle: &[f64]) -> MadeRun {
        let run = run.shows(&PROC_RUN, "7", used).shows(&PROC_THREADS, "7", 1.0).shows(&PROC_IS_WORKER, "7", 1.0);
        idle.iter().enumerate().fold(run, |run, (cpu, idle)| run.shows(&CPU_IDLE, &cpu.to_string(), *idle))
    }

    /// What is left of the CPU at a dose of 20 %.
    fn check(run: MadeRun, want: Expect) {
        want.assert_eq(&left(&run, false));
    }

    fn left(run: &MadeRun, at_rate: bool) -> String {
        match slowed_cpus(&run.run, "lb", 0.2, at_rate) {
            Ok(cpus) => format!("{cpus:.3} CPUs"),
            Err(gap) => gap.to_string(),
        }
    }

    #[test]
    fn at_a_rate_few_of_many_cpus_are_in_use_at_once() {
        let four = |used: f64| {
            let run = worker(LB, used, &[1.0 - used / 4.0; 4]).shows(&PROC_THREADS, "7", 4.0);
            [true, false].map(|at_rate| left(&run, at_rate))
        };
        assert_eq!(four(0.1), ["0.800 CPUs", "3.200 CPUs"], "one at a time");
        assert_eq!(four(1.0), ["1.600 CPUs", "3.200 CPUs"], "twice what it uses");
        assert_eq!(four(3.0), ["3.200 CPUs", "3.200 CPUs"], "never more than it can get");
        assert_eq!(left(&worker(LB, 0.1, &[0.3]), true), "0.320 CPUs", "less than one is all there is");
    }

    #[test]
    fn a_host_is_slowed_by_a_share_of_what_it_could_get() {
        check(worker(LB, 0.3, &[0.7]), expect!["0.800 CPUs"]);
        check(worker(LB, 0.95, &[0.05]), expect!["0.800 CPUs"]);
        // Others use the other half of its CPU.
        check(worker(LB, 0.4, &[0.1]), expect!["0.400 CPUs"]);
        check(worker(LB, 0.4, &[0.1]).shows(&CPU_IOWAIT, "0", 0.2), expect!["0.560 CPUs"]);
    }

    #[test]
    fn a_quota_is_all_it_can_get() {
        check(worker(LB, 0.5, &[0.5]).shows(&CGROUP_QUOTA, "", 0.5), expect!["0.400 CPUs"]);
        check(worker(LB, 0.5, &[0.5]).shows(&CGROUP_QUOTA, "", 4.0), expect!["0.800 CPUs"]);
    }

    #[test]
    fn one_worker_on_two_cpus_can_use_one() {
        let master = |run: MadeRun| run.shows(&PROC_THREADS, "6", 1.0).shows(&PROC_IS_WORKER, "6", 0.0);
        check(master(worker(LB, 0.6, &[0.7, 0.7])), expect!["0.800 CPUs"]);
        let two = worker(LB, 1.2, &[0.4, 0.4]).shows(&PROC_THREADS, "8", 1.0).shows(&PROC_IS_WORKER, "8", 1.0);
        check(two.shows(&PROC_RUN, "8", 0.0), expect!["1.600 CPUs"]);
    }

    #[test]
    fn many_threads_that_run_one_at_a_time_can_use_one_cpu() {
        let go = |running: f64| {
            let run = worker(LB, 0.95, &[0.2, 0.7]).shows(&PROC_THREADS, "7", 5.0);
            run.shows(&LOOK_RUNNING, "7", running)
        };
        check(go(0.93), expect!["0.800 CPUs"]);
        check(go(0.5), expect!["1.480 CPUs"]);
        check(go(0.5).shows(&LOOK_ANY_THREAD, "7", 0.97), expect!["0.800 CPUs"]);
    }

    #[test]
    fn a_short_trial_in_which_the_workers_were_not_looked_at_counts_them_all_the_same() {
        let later =
            worker(LB, 1.0, &[0.0, 0.9]).trial(Purpose::Intervention { index: 0, pair: 0, arm: Arm::A }, 1000.0);
        let later = later.shows(&PROC_RUN, "7", 1.0).shows(&CPU_IDLE, "0", 0.0).shows(&CPU_IDLE, "1", 0.9);
        check(later, expect!["0.800 CPUs"]);
        // Reloaded since: the new worker has another number, and the old one is no second.
        let reloaded =
            worker(LB, 0.9, &[0.0, 0.9]).trial(Purpose::Intervention { index: 0, pair: 0, arm: Arm::A }, 1000.0);
        let reloaded =
            reloaded.shows(&PROC_RUN, "8", 1.0).shows(&PROC_THREADS, "8", 1.0).shows(&PROC_IS_WORKER, "8", 1.0);
        check(reloaded.shows(&CPU_IDLE, "0", 0.0).shows(&CPU_IDLE, "1", 0.9), expect!["0.800 CPUs"]);
    }

    #[test]
    fn workers_that_a_short_trial_did_not_read_are_those_read_last() {
        let found = worker(LB, 0.95, &[0.2, 0.7]);
        let short = found.trial(Purpose::Intervention { index: 0, pair: 0, arm: Arm::A }, 1000.0);
        let short = short.shows(&CGROUP_USAGE, "", 0.95).shows(&CPU_IDLE, "0", 0.2).shows(&CPU_IDLE, "1", 0.7);
        check(short, expect!["0.800 CPUs"]);
    }

    #[test]
    fn what_its_workers_are_bound_to_is_all_they_can_get() {
        // Two workers on CPU 0 of two; their master is bound to nothing.
        let two = |mask: &str| {
            let run = worker(LB, 0.95, &[0.0, 0.8]).shows(&PROC_THREADS, "7", 2.0);
            run.shows(&PROC_AFFINITY, &format!("7 {mask}"), 1.0).shows(&PROC_AFFINITY, "6 0-1", 2.0)
        };
        check(two("0"), expect!["0.760 CPUs"]);
        // A short trial in which nothing was told of them.
        let later = two("0").trial(Purpose::Intervention { index: 0, pair: 0, arm: Arm::A }, 1000.0);
        let later = later.shows(&PROC_RUN, "7", 0.95).shows(&CPU_IDLE, "0", 0.0).shows(&CPU_IDLE, "1", 0.8);
        check(later, expect!["0.760 CPUs"]);
        check(two("0-1"), expect!["1.400 CPUs"]);
    }

    #[test]
    fn only_its_own_cpus_count() {
        let two_threads = |hosts| worker(hosts, 0.5, &[0.2, 1.0]).shows(&PROC_THREADS, "7", 2.0);
        check(two_threads("[host.lb]\ncpus = \"0\"\n"), expect!["0.560 CPUs"]);
        check(two_threads(LB).shows(&PROC_CPUS_ALLOWED, "7", 1.0), expect!["1.200 CPUs"]);
        check(two_threads(LB), expect!["1.360 CPUs"]);
    }

    #[test]
    fn the_least_disturbed_trial_as_found_counts() {
        let arm = |arm| Purpose::Intervention { index: 1, pair: 0, arm };
        let disturbed = worker(LB, 0.5, &[0.1]);
        let quiet = showing(disturbed.trial(arm(Arm::A), 1000.0), 0.9, &[0.1]);
        check(showing(quiet.trial(arm(Arm::B), 800.0), 0.5, &[2.0]), expect!["0.800 CPUs"]);
    }

    #[test]
    fn the_kernel_takes_no_smaller_quota_than_a_millisecond() {
        check(worker(LB, 0.0001, &[0.0]), expect!["0.001 CPUs"]);
    }

    #[test]
    fn what_is_not_known_is_a_gap() {
        let idle_only = MadeRun::of(LB).trial(AT, 1000.0).shows(&CPU_IDLE, "0", 0.5);
        check(
            idle_only,
            expect![
                "intervention of lb: the CPU use of its processes is not known; name them with `process` in the stack file"
            ],
        );
        check(worker(LB, 0.3, &[]), expect!["intervention of lb: the idle time of its CPUs is not known"]);
        check(
            MadeRun::of(LB).trial(Purpose::Warmup, 1000.0),
            expect!["intervention of lb: the workload was not run at its own level"],
        );
    }
}
