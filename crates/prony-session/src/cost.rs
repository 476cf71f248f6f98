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
