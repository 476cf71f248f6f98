//! What prony and the load cost: CPU per request of the generator, of every host, and of observing.

use prony_model::metric::SELF_CPU;
use prony_model::run::{Cost, HostCost};
use prony_model::{Level, Run, SeriesSet};

/// The cost at the operating point: the level At, or the last trial.
pub(crate) fn of(run: &Run) -> Cost {
    let end_ns = run.trials.iter().map(|t| t.window.to_ns).max().unwrap_or(0);
    let mut cost = Cost { wall_s: end_ns as f64 / 1e9, ..Cost::default() };
    let Some(trial) = run.level(Level::At).or(run.trials.last()) else { return cost };
    cost.generator_cpu_us_per_request = trial.result.generator_cpu_us_per_request();
    for host in run.stack.host.keys() {
        let observe_cpu_share = SeriesSet::rate(run.series.points(host, &SELF_CPU, ""), trial.window);
        let cpu_us_per_request = run.cpu_us_per_request(host, trial);
        cost.hosts.insert(host.clone(), HostCost { observe_cpu_share, cpu_us_per_request });
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MadeRun;
    use prony_model::Purpose;
    use prony_model::load::ThreadUse;
    use prony_model::metric::CGROUP_USAGE;

    #[test]
    fn the_cost_is_that_of_the_workload_as_written() {
        let mut made = MadeRun::of("[host.lb]\n")
            .trial(Purpose::Level { level: Level::At }, 10_000.0)
            .shows(&CGROUP_USAGE, "", 0.5)
            .shows(&SELF_CPU, "", 0.01);
        let result = &mut made.run.trials[0].result;
        result.completed = 10_000;
        result.threads = vec![ThreadUse { user_us: 3e4, system_us: 5e4, wall_us: 1e6, waited_us: None, spun_us: 0.0 }];
        let made = made.trial(Purpose::Curve, 2_000.0).shows(&CGROUP_USAGE, "", 0.9);
        let cost = of(&made.run);
        assert_eq!((cost.wall_s, cost.generator_cpu_us_per_request), (3.0, Some(8.0)));
        let lb = &cost.hosts["lb"];
        assert!(
            (lb.observe_cpu_share.unwrap() - 0.01).abs() < 1e-9 && (lb.cpu_us_per_request.unwrap() - 50.0).abs() < 1e-9
        );
        assert_eq!(cost.hosts["client"], HostCost::default(), "what was not read is none");
    }

    #[test]
    fn a_run_without_a_trial_cost_nothing_that_is_known() {
        assert_eq!(of(&MadeRun::of("[host.lb]\n").run), Cost::default());
    }
}
