//! The catalogue of knobs, one per file: name, values, risk, the counter that moves if it works, and how it is turned.
//!
//! A knob plans and checks; it never writes. Writing is the steps' work, behind the journal.
//! A new knob is one file here, one line in `KNOBS` and one name in `prony_model::KnobId`; a directive of nginx that is set as
//! it stands is an entry in `nginx_directive` and a name in `prony_model::NginxDirective`.

pub(crate) mod cgroup_cpu_quota;
mod cpu_affinity;
mod link_rate;
mod nginx_access_log;
mod nginx_backlog;
mod nginx_directive;
mod nginx_upstream_down;
mod nginx_upstream_keepalive;
mod nginx_worker_connections;
mod nginx_worker_processes;
mod offloads;
mod rps_cpus;
mod sysctl;

use crate::error::TuneError;
use crate::nginx::edit::Edits;
use crate::nginx::master::Master;
use crate::step::{ConfigFile, Step};
use crate::{Context, Roots};
use prony_model::{CpuList, KnobId, Metric, NginxDirective};
use prony_nginx::Config;

/// Knobs that are more than a directive.
const KNOBS: &[&KnobInfo] = &[
    &nginx_upstream_keepalive::KNOB,
    &nginx_upstream_down::KNOB,
    &nginx_access_log::KNOB,
    &nginx_worker_processes::KNOB,
    &nginx_worker_connections::KNOB,
    &nginx_backlog::KNOB,
    &sysctl::KNOB,
    &rps_cpus::KNOB,
    &offloads::KNOB,
    &link_rate::KNOB,
    &cgroup_cpu_quota::KNOB,
    &cpu_affinity::KNOB,
];

/// Every knob.
pub fn knobs() -> impl Iterator<Item = &'static KnobInfo> {
    let directives = NginxDirective::ALL.into_iter().map(|directive| &nginx_directive::setting(directive).knob);
    KNOBS.iter().copied().chain(directives)
}

/// What a knob is. Docs and help are made of it.
#[derive(Debug)]
pub struct KnobInfo {
    /// Name as in `--knob NAME=VALUE`; a part in capitals stands for what the user names.
    pub name: &'static str,
    /// Which values it takes.
    pub value: &'static str,
    /// What turning it does to a service that runs.
    pub disruption: Disruption,
    /// What can go wrong, in a sentence.
    pub risk: &'static str,
    /// What must move under load if it worked.
    pub effect: Effect,
    /// What it is for, and what limits it, in a few sentences.
    pub doc: &'static str,
    pub(crate) read: fn(&Context<'_>, &str) -> Result<String, TuneError>,
    pub(crate) plan: fn(&Context<'_>, &str, &str) -> Result<Plan, TuneError>,
    pub(crate) check: fn(&Context<'_>, &str, &str) -> Result<(), TuneError>,
}

/// What turning a knob does to a service that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    /// Nothing: it holds from the next moment on.
    Live,
    /// It holds for new sockets only.
    NewSockets,
    /// The server reads its configuration again: workers are replaced, idle connections are closed.
    Reload,
}

/// The sign that a knob worked.
#[derive(Clone, Copy, Debug)]
pub struct Effect {
    /// Which metric.
    pub metric: &'static Metric,
    /// How it moves, in words.
    pub how: &'static str,
}

/// What is to be done to turn a knob.
pub(crate) struct Plan {
    /// The present value.
    pub before: String,
    /// The changes, in order.
    pub steps: Vec<Step>,
    /// The nginx that must read its configuration afterwards.
    pub reload: Option<Master>,
    /// What a person does to make it permanent.
    pub permanent: String,
}

/// The catalogue entry of a knob, and the item that its name carries.
pub(crate) fn find(id: &KnobId) -> (&'static KnobInfo, &str) {
    match id {
        KnobId::NginxUpstreamKeepalive => (&nginx_upstream_keepalive::KNOB, ""),
        KnobId::NginxUpstreamDown => (&nginx_upstream_down::KNOB, ""),
        KnobId::NginxAccessLog => (&nginx_access_log::KNOB, ""),
        KnobId::NginxWorkerProcesses => (&nginx_worker_processes::KNOB, ""),
        KnobId::NginxWorkerConnections => (&nginx_worker_connections::KNOB, ""),
        KnobId::NginxBacklog => (&nginx_backlog::KNOB, ""),
        KnobId::NginxDirective(directive) => (&nginx_directive::setting(*directive).knob, directive.name()),
        KnobId::Sysctl(name) => (&sysctl::KNOB, name),
        KnobId::RpsCpus(interface) => (&rps_cpus::KNOB, interface),
        KnobId::Offloads(interface) => (&offloads::KNOB, interface),
        KnobId::LinkRate(interface) => (&link_rate::KNOB, interface),
        KnobId::CgroupCpuQuota => (&cgroup_cpu_quota::KNOB, ""),
        KnobId::CpuAffinity => (&cpu_affinity::KNOB, ""),
    }
}

/// The running nginx of a host and its configuration.
fn nginx(ctx: &Context<'_>) -> Result<(Master, Config), TuneError> {
    let master = Master::find(ctx)?;
    let config = Config::read(&master.config)?;
    Ok((master, config))
}

/// The plan of a change to nginx's configuration. nginx must accept what it has now, or its verdict on ours says
/// nothing.
fn nginx_plan(
    name: &str,
    value: &str,
    before: String,
    (master, config): (Master, Config),
    edits: &Edits,
) -> Result<Plan, TuneError> {
    let files = edits.rewrite(&config);
    if files.is_empty() {
        return Err(TuneError::Unchanged { knob: name.to_string(), value: before });
    }
    master.test()?;
    let names: Vec<String> = files.iter().map(|f| f.path.display().to_string()).collect();
    let permanent =
        format!("apply the diff to {}, then `nginx -t` and `nginx -s reload` ({name} = {value})", names.join(" and "));
    let steps = files.into_iter().map(|f| ConfigFile { path: f.path, old: f.old.into(), new: f.new.into() });
    Ok(Plan { before, steps: steps.map(Step::ConfigFile).collect(), reload: Some(master), permanent })
}

/// Fails unless reading the knob again gives what was asked for.
fn expect_read(knob: &str, wanted: &str, seen: &str) -> Result<(), TuneError> {
    if wanted == seen {
        return Ok(());
    }
    Err(TuneError::NoEffect { knob: knob.to_string(), wanted: wanted.to_string(), seen: seen.to_string() })
}

/// A whole number within bounds.
fn whole(knob: &str, value: &str, bounds: std::ops::RangeInclusive<u64>) -> Result<u64, TuneError> {
    let number = value.parse::<u64>().ok().filter(|n| bounds.contains(n));
    number.ok_or_else(|| {
        TuneError::value(knob, value, format!("a whole number from {} to {}", bounds.start(), bounds.end()))
    })
}

/// CPUs that are online, from `/sys/devices/system/cpu/online`.
fn cpus_online(roots: &Roots) -> Result<CpuList, TuneError> {
    let file = roots.sys.join("devices/system/cpu/online");
    let text = std::fs::read_to_string(&file).map_err(TuneError::io("read", &file))?;
    text.parse().map_err(|e| TuneError::missing(format!("{}: {e}", file.display()), "mount sysfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_knob() {
        for info in knobs() {
            let name = info.name.replace("NAME", "net.core.somaxconn").replace("INTERFACE", "eth0");
            let id = KnobId::try_from(name).unwrap();
            assert_eq!(find(&id).0.name, info.name);
            assert!(prony_model::metric::find(info.effect.metric.name).is_some());
        }
    }
}
