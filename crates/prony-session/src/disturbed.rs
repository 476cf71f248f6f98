//! Whether a trial met another machine, or another stack, than the workload as it is written did.
//!
//! Partners in a pair differ by what was done to one of them. Where strangers took a CPU meanwhile, or a host's work grew dear by
//! itself (a table filled up, something was tidied up), they differ by that as well. Invariant: only what the run holds speaks; a
//! trial that cannot be told is not disturbed.

use prony_model::load::ThreadUse;
use prony_model::metric::{CPU_IRQ, CPU_SOFTIRQ};
use prony_model::stack::Role;
use prony_model::{Level, Run, SeriesSet, Trial, Window};
use std::collections::BTreeMap;

/// CPUs from which others, or dearer work, have disturbed a trial. A guess: most of a dose of 20 % of one CPU.
const TAKEN: f64 = 0.15;
/// How much dearer a host's work must be at least. A guess.
const DEARER: f64 = 2.0;

/// What disturbed a trial as found.
pub(crate) fn as_found(run: &Run, trial: &Trial) -> Option<String> {
    by_dear_work(run, trial).or_else(|| {
        let more = taken(run, trial)? - taken(run, run.level(Level::At)?)?;
        (more > TAKEN).then(|| format!("others took {more:.2} CPUs more than in the workload as written"))
    })
}

/// What disturbed a trial in which a host was slowed. Strangers on its CPU take what it may not have any more, so they do not count.
pub(crate) fn by_dear_work(run: &Run, trial: &Trial) -> Option<String> {
    let at = run.level(Level::At)?;
    run.stack.path().into_iter().find_map(|host| dearer(run, host, at, trial))
}

/// Whether a host took more CPU time than in the workload as written, for requests that should have cost far less. One that takes as much
/// as ever for fewer requests may spin, or have other duties.
fn dearer(run: &Run, host: &str, at: &Trial, trial: &Trial) -> Option<String> {
    let (used, was) = (run.process_cpus(host, trial.window)?, run.process_cpus(host, at.window)?);
    let expected = run.cpu_us_per_request(host, at)? * trial.result.completed_per_s / 1e6;
    let is_dearer = expected > 0.0 && used > DEARER * expected && used - was > TAKEN;
    is_dearer.then(|| {
        format!("{host} took {:.1} times the CPU time per request of the workload as written", used / expected)
    })
}

/// CPUs that no host of the stack used, the generator among them, packet work left out; what the hypervisor took is among it.
fn taken(run: &Run, trial: &Trial) -> Option<f64> {
    let mut busy: BTreeMap<u32, f64> = BTreeMap::new();
    let mut own = 0.0;
    for (host, about) in &run.stack.host {
        let known = run.process_cpus(host, trial.window);
        let sends = about.role == Role::Generator;
        own += known.or_else(|| sends.then(|| generator_cpus(trial))).unwrap_or(0.0);
        let shares = run.idle_shares(host, trial.window).into_iter();
        busy.extend(shares.map(|(cpu, idle)| (cpu, 1.0 - idle - packets(run, host, cpu, trial.window))));
    }
    (!busy.is_empty()).then(|| busy.values().sum::<f64>() - own)
}

fn packets(run: &Run, host: &str, cpu: u32, window: Window) -> f64 {
    let rate = |metric| SeriesSet::rate(run.series.points(host, metric, &cpu.to_string()), window).unwrap_or(0.0);
    rate(&CPU_SOFTIRQ) + rate(&CPU_IRQ)
}

fn generator_cpus(trial: &Trial) -> f64 {
    let of = |t: &ThreadUse| (t.user_us + t.system_us) / t.wall_us.max(1.0);
    trial.result.threads.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MadeRun;
    use prony_model::Purpose;
    use prony_model::metric::{CGROUP_USAGE, CPU_IDLE};
    use prony_model::run::Arm;

    const AT: Purpose = Purpose::Level { level: Level::At };
    const AS_FOUND: Purpose = Purpose::Intervention { index: 0, pair: 0, arm: Arm::A };

    /// The workload as written: 1,000 requests/s for 0.2 CPUs of `lb`, and a CPU that idles for half of the time.
    fn at() -> MadeRun {
        MadeRun::of("[host.lb]\n").trial(AT, 1000.0).shows(&CGROUP_USAGE, "", 0.2).shows(&CPU_IDLE, "0", 0.5)
    }

    fn trial(good_per_s: f64, used: f64, idle: f64) -> Run {
        at().trial(AS_FOUND, good_per_s).shows(&CGROUP_USAGE, "", used).shows(&CPU_IDLE, "0", idle).run
    }

    fn disturbed(good_per_s: f64, used: f64, idle: f64) -> Option<String> {
        let run = trial(good_per_s, used, idle);
        as_found(&run, &run.trials[1])
    }

    #[test]
    fn work_that_grew_dear_disturbs() {
        assert_eq!(disturbed(1000.0, 0.2, 0.5), None);
        assert_eq!(disturbed(100.0, 0.2, 0.5), None, "ten times as dear, but no more than ever: it may spin");
        assert_eq!(disturbed(1000.0, 0.34, 0.36), None, "border: 0.14 CPUs more");
        assert_eq!(disturbed(1800.0, 0.7, 0.0), None, "border: nearly twice as dear");
        let run = trial(600.0, 0.46, 0.24);
        let dear = by_dear_work(&run, &run.trials[1]).unwrap();
        assert_eq!(dear, "lb took 3.8 times the CPU time per request of the workload as written");
        assert_eq!(as_found(&run, &run.trials[1]), Some(dear));
    }

    #[test]
    fn strangers_disturb_what_is_as_found() {
        assert_eq!(disturbed(1000.0, 0.2, 0.36), None, "border: 0.14 CPUs");
        assert_eq!(disturbed(1000.0, 0.2, 0.9), None, "fewer strangers than before");
        let run = trial(1000.0, 0.2, 0.3);
        let taken = as_found(&run, &run.trials[1]).unwrap();
        assert_eq!(taken, "others took 0.20 CPUs more than in the workload as written");
        assert_eq!(by_dear_work(&run, &run.trials[1]), None, "where a host is slowed others may take what it leaves");
    }

    #[test]
    fn what_the_generator_and_packets_take_is_no_strangers() {
        let mut busier = trial(1000.0, 0.2, 0.2);
        assert!(as_found(&busier, &busier.trials[1]).is_some());
        busier.trials[1].result.threads =
            vec![ThreadUse { user_us: 1e5, system_us: 1e5, wall_us: 1e6, ..ThreadUse::default() }];
        assert_eq!(as_found(&busier, &busier.trials[1]), None);
        let packets = at().trial(AS_FOUND, 1000.0).shows(&CGROUP_USAGE, "", 0.2).shows(&CPU_IDLE, "0", 0.2);
        let packets = packets.shows(&CPU_SOFTIRQ, "0", 0.2).run;
        assert_eq!(as_found(&packets, &packets.trials[1]), None);
    }

    #[test]
    fn what_cannot_be_told_is_not_disturbed() {
        let silent = MadeRun::of("[host.lb]\n").trial(AT, 1000.0).trial(AS_FOUND, 10.0);
        assert_eq!(as_found(&silent.run, &silent.run.trials[1]), None);
        let alone = MadeRun::of("[host.lb]\n").trial(AS_FOUND, 10.0);
        assert_eq!(as_found(&alone.run, &alone.run.trials[0]), None);
    }
}
