//! CPU of each host at each level, split as the kernel counts it, and what prony itself cost.
//!
//! A host's shares are of its own CPUs (`host.NAME.cpus`), or of all that were seen when the stack does not say.
//! CPUs are the machine's: hosts that share a machine and CPUs show each other's work. The hop's own processes stand apart.

use super::{CostView, CpuLevel, HostCostView, HostCpu, finite, positive};
use crate::names;
use prony_model::metric::{
    CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_NICE, CPU_SOFTIRQ, CPU_STEAL, CPU_SYSTEM, CPU_USER, Metric,
};
use prony_model::run::{Level, Purpose, Run, Trial};
use prony_model::{Host, SeriesSet};
use std::collections::BTreeSet;

pub(super) fn hosts(run: &Run) -> Vec<HostCpu> {
    let generator = run.stack.generator();
    let mut names: Vec<&str> = generator.iter().map(|(name, _)| *name).collect();
    names.extend(run.stack.path());
    names.extend(run.stack.beside_path());
    names.iter().filter_map(|name| host(run, name, run.stack.host.get(*name)?)).collect()
}

fn host(run: &Run, name: &str, host: &Host) -> Option<HostCpu> {
    let seen = run.series.items(name, &CPU_IDLE).filter_map(|(item, _)| item.parse().ok());
    let is_own = |cpu: &u32| host.cpus.as_ref().is_none_or(|own| own.contains(*cpu));
    let cpus: BTreeSet<u32> = seen.filter(is_own).collect();
    let levels: Vec<CpuLevel> =
        observed(run).into_iter().filter_map(|(t, label)| level(run, name, t, label, &cpus)).collect();
    (!levels.is_empty()).then(|| HostCpu {
        host: name.to_string(),
        cpus: host.cpus.as_ref().map(ToString::to_string).unwrap_or_default(),
        cpu_count: cpus.len() as u32,
        levels,
    })
}

/// The trial of each level; without levels, the last plain load.
fn observed(run: &Run) -> Vec<(&Trial, String)> {
    let levels = [Level::Below, Level::At, Level::Beyond];
    let found: Vec<_> =
        levels.iter().filter_map(|level| Some((run.level(*level)?, names::level(*level).to_string()))).collect();
    if !found.is_empty() {
        return found;
    }
    let load = run.trials.iter().rev().find(|t| t.purpose == Purpose::Load);
    load.map(|t| (t, "under load".to_string())).into_iter().collect()
}

fn level(run: &Run, host: &str, trial: &Trial, label: String, cpus: &BTreeSet<u32>) -> Option<CpuLevel> {
    let share = |metric: &Metric| {
        let rates = run.series.items(host, metric).filter(|(item, _)| item.parse().is_ok_and(|n| cpus.contains(&n)));
        rates.filter_map(|(_, points)| SeriesSet::rate(points, trial.window)).reduce(|a, b| a + b)
    };
    let idle = share(&CPU_IDLE)?;
    let [user, nice, system, softirq, irq, steal, iowait] =
        [CPU_USER, CPU_NICE, CPU_SYSTEM, CPU_SOFTIRQ, CPU_IRQ, CPU_STEAL, CPU_IOWAIT].map(|m| share(&m).unwrap_or(0.0));
    // The kernel's ticks do not add up to the wall time exactly; shares are of what it counted.
    let total = positive(user + nice + system + softirq + irq + steal + iowait + idle)?;
    Some(CpuLevel {
        label,
        user: user / total,
        nice: nice / total,
        system: system / total,
        softirq: softirq / total,
        irq: irq / total,
        steal: steal / total,
        iowait: iowait / total,
        idle: idle / total,
        hop_cpus: run.process_cpus(host, trial.window),
        hop_us_per_request: run.cpu_us_per_request(host, trial),
    })
}

pub(super) fn cost(run: &Run) -> CostView {
    let of_diagnosis = run.diagnosis.as_ref().map(|d| &d.cost);
    let cost = of_diagnosis.filter(|_| run.cost.hosts.is_empty()).unwrap_or(&run.cost);
    let hosts = cost.hosts.iter().map(|(host, cost)| HostCostView {
        host: host.clone(),
        observe_cpu_share: cost.observe_cpu_share.and_then(finite),
        cpu_us_per_request: cost.cpu_us_per_request.and_then(finite),
    });
    let generator_cpu_us_per_request = cost.generator_cpu_us_per_request.and_then(positive);
    CostView { generator_cpu_us_per_request, hosts: hosts.collect() }
}
