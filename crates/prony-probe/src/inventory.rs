//! What one host is: facts that do not change during a run, by name, as text.
//!
//! Interfaces and the server's configuration are read by the files below. No secret enters it: of a configuration only
//! named settings are taken.
//! Starts no process, so the server's version is known only where its status page tells it. Invariant: names are
//! stable, because `prony inventory --diff` compares them.

mod config;
mod interfaces;

use crate::cgroup;
use crate::fact_file::read_once;
use crate::facts::Facts;
use crate::hop;
use crate::network::folder_names;
use crate::process::{miss_processes, open_files_limit, workers};
use crate::roots::Roots;
use crate::serving::Serving;
use crate::status::StatusPage;
use crate::text::word_of;
use prony_model::run::Inventory;
use prony_model::{Gap, Host, Software};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Settings of the kernel that prony may turn, or that explain a difference between hosts.
const SYSCTLS: &[&str] = &[
    "fs.file-max",
    "fs.nr_open",
    "kernel.numa_balancing",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.dev_weight",
    "net.core.dev_weight_rx_bias",
    "net.core.flow_limit_cpu_bitmap",
    "net.core.gro_normal_batch",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.optmem_max",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.skb_defer_max",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_min_tso_segs",
    "net.ipv4.tcp_moderate_rcvbuf",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_orphan_retries",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syn_retries",
    "net.ipv4.tcp_synack_retries",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tso_rtt_log",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
    "net.netfilter.nf_conntrack_max",
    "net.netfilter.nf_conntrack_tcp_timeout_time_wait",
    "vm.dirty_background_ratio",
    "vm.dirty_bytes",
    "vm.dirty_ratio",
    "vm.swappiness",
];

/// What `host` is. Reads about a hundred small files; some milliseconds.
pub fn inventory(name: &str, host: &Host, roots: Roots) -> (Inventory, Vec<Gap>) {
    let mut facts = Facts::new(name, 0);
    let mut found = BTreeMap::new();
    machine(&mut found, &roots);
    sysctls(&mut found, &mut facts, &roots);
    interfaces::put(&mut found, &mut facts, &roots);
    config::put(&mut found, &mut facts, host, &roots);
    match hop::processes(host, &roots) {
        Ok(pids) => server(&mut found, &mut facts, host, &roots, &pids),
        Err(gap) => miss_processes(&mut facts, host, &gap),
    }
    if let Some(url) = host.status.as_deref().filter(|_| roots.live()) {
        match StatusPage::new(url).ask() {
            Ok(answer) => put_version(&mut found, answer.server.as_deref()),
            Err(reason) => facts.miss("inventory.server.version", reason),
        }
    } else if host.software == Some(Software::Nginx) {
        facts.miss("inventory.server.version", "no status page tells it: add `status` to this host");
    }
    let (_, gaps) = facts.finish();
    (Inventory { host: name.to_string(), facts: found }, gaps)
}

/// Puts the first line of a file, if there is one.
fn put_line(found: &mut BTreeMap<String, String>, name: &str, path: &Path) {
    if let Ok(text) = read_once(path) {
        let line = text.lines().next().unwrap_or_default().trim();
        if !line.is_empty() {
            found.insert(name.to_string(), line.to_string());
        }
    }
}

fn machine(found: &mut BTreeMap<String, String>, roots: &Roots) {
    put_line(found, "kernel", &roots.proc.join("sys/kernel/osrelease"));
    put_line(found, "cpus", &roots.sys.join("devices/system/cpu/online"));
    put_line(found, "numa.nodes", &roots.sys.join("devices/system/node/online"));
    let clock = roots.sys.join("devices/system/clocksource/clocksource0/current_clocksource");
    put_line(found, "clocksource", &clock);
    put_line(found, "cpu.governor", &roots.sys.join("devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    put_line(found, "cpu.smt", &roots.sys.join("devices/system/cpu/smt/control"));
    put_line(found, "machine.vendor", &roots.sys.join("class/dmi/id/sys_vendor"));
    put_line(found, "machine.product", &roots.sys.join("class/dmi/id/product_name"));
    put_line(found, "transparent_hugepage", &roots.sys.join("kernel/mm/transparent_hugepage/enabled"));
    caches(found, &roots.sys.join("devices/system/cpu/cpu0/cache"));
    if let Ok(text) = read_once(&roots.proc.join("cpuinfo")) {
        let field = |key: &str| {
            text.lines().find_map(|l| l.split_once(':').filter(|(k, _)| k.trim() == key)).map(|(_, v)| v.trim())
        };
        if let Some(model) = field("model name").or(field("CPU part")) {
            found.insert("cpu.model".to_string(), model.to_string());
        }
        if let Some(flags) = field("flags") {
            let inside = flags.split(' ').any(|flag| flag == "hypervisor");
            found.insert("virtual".to_string(), if inside { "yes" } else { "no" }.to_string());
        }
    }
    if let Ok(text) = read_once(&roots.proc.join("meminfo"))
        && let Some(kib) = word_of(&text, "MemTotal:")
    {
        found.insert("memory".to_string(), format!("{kib} KiB"));
    }
}

/// `cache.l1d = 32K`, as the first CPU has them; who shares them beside the last.
fn caches(found: &mut BTreeMap<String, String>, folder: &Path) {
    for index in folder_names(folder).iter().filter(|name| name.starts_with("index")) {
        let line = |file: &str| read_once(&folder.join(index).join(file)).unwrap_or_default().trim().to_string();
        let kind = match line("type").as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        let (level, size, shared) = (line("level"), line("size"), line("shared_cpu_list"));
        if !level.is_empty() && !size.is_empty() {
            let shared = if shared.is_empty() { String::new() } else { format!(", shared by CPUs {shared}") };
            found.insert(format!("cache.l{level}{kind}"), format!("{size}{shared}"));
        }
    }
}

fn sysctls(found: &mut BTreeMap<String, String>, facts: &mut Facts, roots: &Roots) {
    let mut missing = Vec::new();
    for name in SYSCTLS {
        match read_once(&roots.sysctl(name)) {
            Ok(text) => {
                let value = text.split_whitespace().collect::<Vec<_>>().join(" ");
                found.insert(format!("sysctl.{name}"), value);
            }
            Err(_) => missing.push(*name),
        }
    }
    if !missing.is_empty() {
        facts.miss(
            "inventory.sysctl",
            format_args!(
                "not on this kernel, or the whole machine's and not seen from a namespace: {}",
                missing.join(", ")
            ),
        );
    }
}

fn server(found: &mut BTreeMap<String, String>, facts: &mut Facts, host: &Host, roots: &Roots, pids: &[u32]) {
    let workers = workers(host, roots, pids, &Serving::default().among(roots, pids));
    found.insert("server.processes".to_string(), pids.len().to_string());
    found.insert("server.workers".to_string(), workers.len().to_string());
    let Some(worker) = workers.first().or(pids.first()) else { return };
    let folder: PathBuf = roots.process(*worker);
    put_line(found, "server.command", &folder.join("comm"));
    if let Ok(status) = read_once(&folder.join("status"))
        && let Some(cpus) = word_of(&status, "Cpus_allowed_list:")
    {
        found.insert("server.cpus_allowed".to_string(), cpus.to_string());
    }
    if let Ok(limits) = read_once(&folder.join("limits")) {
        let limit = open_files_limit(&limits).map_or("unlimited".to_string(), |n| n.to_string());
        found.insert("server.open_files_limit".to_string(), limit);
    }
    match cgroup::path_and_quota(roots, *worker) {
        Ok((path, quota)) => {
            found.insert("server.cgroup".to_string(), path);
            let quota = quota.map_or("none".to_string(), |cpus| format!("{cpus} CPUs"));
            found.insert("server.cgroup.quota".to_string(), quota);
        }
        Err(reason) => facts.miss("inventory.server.cgroup", reason),
    }
}

/// `nginx/1.22.1` of the Server header becomes `nginx.version = 1.22.1`.
fn put_version(found: &mut BTreeMap<String, String>, server: Option<&str>) {
    if let Some((software, version)) = server.and_then(|s| s.split_once('/')) {
        let version = version.split(' ').next().unwrap_or(version);
        found.insert(format!("{}.version", software.to_ascii_lowercase()), version.to_string());
    }
}
