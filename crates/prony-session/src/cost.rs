//! What prony and the load cost: CPU per request of the generator, of every host, and of observing.

use prony_model::metric::{CGROUP_USAGE, PROC_RUN, SELF_CPU};
use prony_model::run::{Cost, HostCost};
use prony_model::{Level, Run, SeriesSet, Window};

/// The cost at the operating point: the level At, or the last trial.
pub(crate) fn of(run: &Run) -> Cost {
    let end_ns = run.trials.iter().map(|t| t.window.to_ns).max().unwrap_or(0);
    let mut cost = Cost { wall_s: end_ns as f64 / 1e9, ..Cost::default() };
    let Some(trial) = run.level(Level::At).or(run.trials.last()) else { return cost };
    cost.generator_cpu_us_per_request = trial.result.generator_cpu_us_per_request();
    for host in run.stack.host.keys() {
        let observe = SeriesSet::rate(run.series.points(host, &SELF_CPU, ""), trial.window);
        let per_request = cpu_us_per_request(run, host, trial.window, trial.result.completed_per_s);
        cost.hosts.insert(host.clone(), HostCost { observe_cpu_share: observe, cpu_us_per_request: per_request });
    }
    cost
}

/// CPUs that a host's own processes use within a window.
pub(crate) fn cpus_used(run: &Run, host: &str, window: Window) -> Option<f64> {
    let cgroup = SeriesSet::rate(run.series.points(host, &CGROUP_USAGE, ""), window);
    cgroup.or_else(|| {
        let rates: Vec<f64> =
            run.series.items(host, &PROC_RUN).filter_map(|(_, points)| SeriesSet::rate(points, window)).collect();
        (!rates.is_empty()).then(|| rates.iter().sum())
    })
}

/// CPU time of a host's processes per request, in microseconds.
pub(crate) fn cpu_us_per_request(run: &Run, host: &str, window: Window, requests_per_s: f64) -> Option<f64> {
    let used = cpus_used(run, host, window)?;
    (requests_per_s > 0.0).then(|| used * 1e6 / requests_per_s)
}
