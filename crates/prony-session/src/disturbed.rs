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
/// How much dearer a host's work must be at least. A guess: a host that spins takes all of its CPU however many requests come, which
/// at the greatest dose of 40 % makes each 1.7 times as dear.
const DEARER: f64 = 2.0;

/// What disturbed a trial, as words that stand after "in these"; `mended` when a remedy was in force: then work may cost what it likes.
pub(crate) fn by(run: &Run, trial: &Trial, mended: bool) -> Option<String> {
    let at = run.level(Level::At)?;
    let dearer = || run.stack.path().into_iter().find_map(|host| dearer(run, host, at, trial));
    if let Some(what) = (!mended).then(dearer).flatten() {
        return Some(what);
    }
    let more = taken(run, trial)? - taken(run, at)?;
    (more > TAKEN).then(|| format!("others took {more:.2} CPUs more than in the workload as written"))
}

/// Whether a host took far more CPU time for the requests of a trial than it takes for as many in the workload as written.
fn dearer(run: &Run, host: &str, at: &Trial, trial: &Trial) -> Option<String> {
    let used = run.process_cpus(host, trial.window)?;
    let expected = run.cpu_us_per_request(host, at)? * trial.result.completed_per_s / 1e6;
    let is_dearer = expected > 0.0 && used > DEARER * expected && used - expected > TAKEN;
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

    fn disturbed(good_per_s: f64, used: f64, idle: f64, mended: bool) -> Option<String> {
        let trial = at().trial(AS_FOUND, good_per_s).shows(&CGROUP_USAGE, "", used).shows(&CPU_IDLE, "0", idle);
        by(&trial.run, trial.run.trials.last().unwrap(), mended)
    }

    #[test]
    fn work_that_grew_dear_disturbs() {
        assert_eq!(disturbed(1000.0, 0.2, 0.5, false), None);
        assert_eq!(disturbed(500.0, 0.2, 0.5, false), None, "border: twice as dear, by little");
        let dear = disturbed(600.0, 0.46, 0.24, false).unwrap();
        assert_eq!(dear, "lb took 3.8 times the CPU time per request of the workload as written");
        assert_eq!(disturbed(600.0, 0.46, 0.24, true), None, "with a remedy work may cost what it likes");
    }

    #[test]
    fn strangers_disturb_whatever_was_turned() {
        assert_eq!(disturbed(1000.0, 0.2, 0.36, false), None, "border: 0.14 CPUs");
        for mended in [false, true] {
            let taken = disturbed(1000.0, 0.2, 0.3, mended).unwrap();
            assert_eq!(taken, "others took 0.20 CPUs more than in the workload as written");
        }
        assert_eq!(disturbed(1000.0, 0.2, 0.9, false), None, "fewer strangers than before");
    }

    #[test]
    fn what_the_generator_and_packets_take_is_no_strangers() {
        let mut busier = at().trial(AS_FOUND, 1000.0).shows(&CGROUP_USAGE, "", 0.2).shows(&CPU_IDLE, "0", 0.2);
        assert!(by(&busier.run, &busier.run.trials[1], false).is_some());
        busier.run.trials[1].result.threads =
            vec![ThreadUse { user_us: 1e5, system_us: 1e5, wall_us: 1e6, ..ThreadUse::default() }];
        assert_eq!(by(&busier.run, &busier.run.trials[1], false), None);
        let packets = at().trial(AS_FOUND, 1000.0).shows(&CGROUP_USAGE, "", 0.2).shows(&CPU_IDLE, "0", 0.2);
        let packets = packets.shows(&CPU_SOFTIRQ, "0", 0.2);
        assert_eq!(by(&packets.run, &packets.run.trials[1], false), None);
    }

    #[test]
    fn what_cannot_be_told_is_not_disturbed() {
        let silent = MadeRun::of("[host.lb]\n").trial(AT, 1000.0).trial(AS_FOUND, 10.0);
        assert_eq!(by(&silent.run, &silent.run.trials[1], false), None);
        let alone = MadeRun::of("[host.lb]\n").trial(AS_FOUND, 10.0);
        assert_eq!(by(&alone.run, &alone.run.trials[0], false), None);
    }
}
