//! What a host does now: the last two readings of each fact of it, and what follows from them.
//!
//! No layout. Invariant: a counter has a rate only between two readings of it, and what is not read any more is none.

use prony_model::metric::{
    CGROUP_OOM_KILLS, CGROUP_THROTTLED, CONNTRACK_DROPS, CONTEXT_SWITCHES, CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_NICE,
    CPU_SOFTIRQ, CPU_STEAL, CPU_SYSTEM, CPU_USER, ERROR_LOG_NO_DESCRIPTORS, ERROR_LOG_NO_PORT,
    ERROR_LOG_NO_WORKER_CONNECTIONS, ERROR_LOG_UPSTREAM_TIMEOUT, IF_ERRORS, IF_RX_BYTES, IF_RX_DROPS, IF_RX_PACKETS,
    IF_TX_BYTES, IF_TX_DROPS, IF_TX_PACKETS, LISTEN_BACKLOG, LISTEN_QUEUE, LOCK_WAIT, NGINX_ACTIVE, NGINX_REQUESTS,
    NIC_OVERRUNS, PROC_DISK_SLEEP, PROC_NAME, PROC_RUN, PROC_RUN_DELAY, QDISC_DROPS, SOCK_TIME_WAIT, SOFTNET_DROPPED,
    SOFTNET_PROCESSED, SOFTNET_SQUEEZED, TCP_ACTIVE_OPENS, TCP_ESTABLISHED, TCP_LISTEN_OVERFLOWS, TCP_PASSIVE_OPENS,
    TCP_RETRANSMITS, TCP_SYN_QUEUE_DROPS, TCP_SYN_RETRANSMITS, TCP_TIME_WAIT_OVERFLOWS,
};
use prony_model::{CpuList, Host, Metric, MetricKind, Sample};
use std::collections::BTreeMap;

/// Counters that stand still on a host that is well, with what they count.
const TROUBLES: &[(&Metric, &str)] = &[
    (&TCP_LISTEN_OVERFLOWS, "accept queue overflows"),
    (&TCP_SYN_QUEUE_DROPS, "SYN queue drops"),
    (&TCP_SYN_RETRANSMITS, "SYNs sent again"),
    (&TCP_RETRANSMITS, "segments sent again"),
    (&TCP_TIME_WAIT_OVERFLOWS, "TIME_WAIT overflows"),
    (&SOFTNET_DROPPED, "packets dropped before a CPU took them"),
    (&SOFTNET_SQUEEZED, "packet handling cut short"),
    (&IF_RX_DROPS, "drops on receive"),
    (&IF_TX_DROPS, "drops on send"),
    (&IF_ERRORS, "interface errors"),
    (&QDISC_DROPS, "drops in the send queue"),
    (&NIC_OVERRUNS, "card ring overruns"),
    (&CONNTRACK_DROPS, "conntrack drops"),
    (&CGROUP_THROTTLED, "periods throttled by the quota"),
    (&CGROUP_OOM_KILLS, "kills for want of memory"),
    (&ERROR_LOG_NO_PORT, "connects without a local port"),
    (&ERROR_LOG_NO_DESCRIPTORS, "no file descriptor left"),
    (&ERROR_LOG_NO_WORKER_CONNECTIONS, "no worker connection left"),
    (&ERROR_LOG_UPSTREAM_TIMEOUT, "upstream timeouts"),
];

/// A process that uses less of a CPU is not named. It rounds to 0 %.
const PROCESS_MIN: f64 = 0.005;

/// A process that uses a CPU.
#[derive(Debug)]
pub struct BusyProcess {
    /// As its host numbers it.
    pub pid: String,
    /// Once it was read.
    pub name: Option<String>,
    /// CPUs that it uses: 1 is all of one.
    pub cpus: f64,
    /// Of the time that it wanted a CPU, the share in which it waited for one.
    pub waits_share: f64,
}

/// A host under watch.
pub struct Watched {
    name: String,
    /// CPUs of the host; none: all that it shows.
    cpus: Option<CpuList>,
    /// By metric and item.
    read: BTreeMap<(String, String), Readings>,
    /// Times of the last two readings of the host.
    seen_ns: [Option<u64>; 2],
    /// Share of their time that threads waited for each kernel lock, by the last close look; none: nobody looked, or could.
    kernel_locks: Option<Vec<(String, f64)>>,
}

/// Some facts are read less often than others.
struct Readings {
    before: Option<Reading>,
    now: Reading,
}

#[derive(Clone, Copy)]
struct Reading {
    at_ns: u64,
    value: f64,
}

/// A fact that was not read for so long is gone: a process that ended, an interface. A guess: the slowest are read every second.
const GONE_NS: u64 = 3_000_000_000;

/// Shares of CPU time, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuSplit {
    pub user: f64,
    pub nice: f64,
    pub system: f64,
    pub softirq: f64,
    pub iowait: f64,
    pub steal: f64,
    pub idle: f64,
}

/// A part of a split.
type CpuPart = fn(&mut CpuSplit) -> &mut f64;

impl CpuSplit {
    /// Waiting for a disk is no work.
    pub fn busy(&self) -> f64 {
        (1.0 - self.idle - self.iowait).clamp(0.0, 1.0)
    }
}

impl Watched {
    pub(crate) fn new(name: &str, host: &Host) -> Self {
        Self {
            name: name.to_string(),
            cpus: host.cpus.clone(),
            read: BTreeMap::new(),
            seen_ns: [None, None],
            kernel_locks: None,
        }
    }

    /// Takes in the samples of one reading of the host, which ended at `at_ns`.
    pub(crate) fn see(&mut self, samples: &[Sample], at_ns: u64) {
        for sample in samples {
            for (metric, item, value) in &sample.values {
                let now = Reading { at_ns: sample.at_ns, value: *value };
                let key = (metric.clone(), item.clone());
                let entry = self.read.entry(key).or_insert(Readings { before: None, now });
                if entry.now.at_ns < now.at_ns {
                    (entry.before, entry.now) = (Some(entry.now), now);
                }
            }
        }
        self.seen_ns = [self.seen_ns[1], Some(at_ns)];
        let step_ns = self.seen_ns[0].map_or(0, |before| at_ns.saturating_sub(before));
        let kept_ns = GONE_NS.max(2 * step_ns);
        self.read.retain(|_, readings| at_ns.saturating_sub(readings.now.at_ns) <= kept_ns);
    }

    /// Takes in a close look, which stands until the next one.
    pub(crate) fn see_closely(&mut self, sample: &Sample) {
        let is_lock = |(metric, _, _): &&(String, String, f64)| metric == LOCK_WAIT.name;
        let mut waits: Vec<(String, f64)> =
            sample.values.iter().filter(is_lock).map(|(_, item, share)| (item.clone(), *share)).collect();
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        self.kernel_locks = (!waits.is_empty()).then_some(waits);
    }

    /// Share of their time that threads waited for each kernel lock, the longest waits first.
    pub(crate) fn kernel_locks(&self) -> Option<&[(String, f64)]> {
        self.kernel_locks.as_deref()
    }

    /// Its name in the stack.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether two samples were seen, so that rates are known.
    pub(crate) fn is_known(&self) -> bool {
        self.seen_ns[0].is_some()
    }

    /// Each item of a metric: a gauge as it is, a counter per second.
    pub(crate) fn items(&self, metric: &Metric) -> Vec<(&str, f64)> {
        let from = (metric.name.to_string(), String::new());
        let read = self.read.range(from..).take_while(|((name, _), _)| name == metric.name);
        let value = |readings: &Readings| match metric.kind {
            MetricKind::Gauge => Some(readings.now.value),
            MetricKind::Counter => {
                let before = readings.before?;
                let grown = readings.now.value - before.value;
                let seconds = readings.now.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
                (grown >= 0.0 && seconds > 0.0).then(|| grown / seconds)
            }
        };
        read.filter_map(|((_, item), readings)| Some((item.as_str(), value(readings)?))).collect()
    }

    /// All items together; none when none was read.
    pub(crate) fn sum(&self, metric: &Metric) -> Option<f64> {
        self.items(metric).into_iter().map(|(_, value)| value).reduce(|a, b| a + b)
    }

    /// The split of each of its CPUs, in order.
    pub(crate) fn cores(&self) -> Vec<(u32, CpuSplit)> {
        let mut cores: BTreeMap<u32, CpuSplit> = BTreeMap::new();
        let parts: [(&Metric, CpuPart); 8] = [
            (&CPU_USER, |c| &mut c.user),
            (&CPU_NICE, |c| &mut c.nice),
            (&CPU_SYSTEM, |c| &mut c.system),
            (&CPU_SOFTIRQ, |c| &mut c.softirq),
            (&CPU_IRQ, |c| &mut c.softirq),
            (&CPU_IOWAIT, |c| &mut c.iowait),
            (&CPU_STEAL, |c| &mut c.steal),
            (&CPU_IDLE, |c| &mut c.idle),
        ];
        for (metric, part) in parts {
            for (cpu, share) in self.items(metric) {
                let Ok(cpu) = cpu.parse() else { continue };
                if self.cpus.as_ref().is_none_or(|list| list.contains(cpu)) {
                    *part(cores.entry(cpu).or_default()) += share;
                }
            }
        }
        cores.into_iter().map(|(cpu, split)| (cpu, split.of_all())).collect()
    }

    /// The mean over its CPUs.
    pub(crate) fn cpu(&self) -> Option<CpuSplit> {
        let cores = self.cores();
        let n = cores.len() as f64;
        let mean = |of: fn(&CpuSplit) -> f64| cores.iter().map(|(_, split)| of(split)).sum::<f64>() / n;
        (!cores.is_empty()).then(|| CpuSplit {
            user: mean(|c| c.user),
            nice: mean(|c| c.nice),
            system: mean(|c| c.system),
            softirq: mean(|c| c.softirq),
            iowait: mean(|c| c.iowait),
            steal: mean(|c| c.steal),
            idle: mean(|c| c.idle),
        })
    }

    /// The processes that use a CPU, the busiest first.
    pub fn processes(&self) -> Vec<BusyProcess> {
        let named: BTreeMap<&str, &str> =
            self.items(&PROC_NAME).into_iter().filter_map(|(item, _)| item.split_once(' ')).collect();
        let waits: BTreeMap<&str, f64> = self.items(&PROC_RUN_DELAY).into_iter().collect();
        let mut found: Vec<BusyProcess> = self
            .items(&PROC_RUN)
            .into_iter()
            .filter(|(_, cpus)| *cpus >= PROCESS_MIN)
            .map(|(pid, cpus)| {
                let waited = waits.get(pid).copied().unwrap_or(0.0);
                let name = named.get(pid).map(|name| name.to_string());
                BusyProcess { pid: pid.to_string(), name, cpus, waits_share: waited / (cpus + waited) }
            })
            .collect();
        found.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
        found
    }

    /// What does not stand still although it should, per second, with what it counts.
    pub(crate) fn troubles(&self) -> Vec<(&'static str, &'static str, f64)> {
        let grows = |(metric, words): &(&'static Metric, &'static str)| {
            self.sum(metric).filter(|rate| *rate > 0.0).map(|rate| (metric.name, *words, rate))
        };
        TROUBLES.iter().filter_map(grows).collect()
    }

    /// Everything that a screen shows, by name and in base units (shares, per second, counts), for programs. What was not read is
    /// left out.
    pub fn facts(&self) -> Vec<(String, f64)> {
        let mut facts: Vec<(String, f64)> = Vec::new();
        if let Some(cpu) = self.cpu() {
            let split = [
                ("cpu.busy", cpu.busy()),
                ("cpu.user", cpu.user),
                ("cpu.nice", cpu.nice),
                ("cpu.system", cpu.system),
                ("cpu.softirq", cpu.softirq),
                ("cpu.iowait", cpu.iowait),
                ("cpu.steal", cpu.steal),
            ];
            facts.extend(split.map(|(name, share)| (name.to_string(), share)));
        }
        let sums = [
            &NGINX_REQUESTS,
            &NGINX_ACTIVE,
            &IF_RX_PACKETS,
            &IF_TX_PACKETS,
            &IF_RX_BYTES,
            &IF_TX_BYTES,
            &TCP_ESTABLISHED,
            &SOCK_TIME_WAIT,
            &TCP_ACTIVE_OPENS,
            &TCP_PASSIVE_OPENS,
            &LISTEN_QUEUE,
            &LISTEN_BACKLOG,
            &CONTEXT_SWITCHES,
            &SOFTNET_PROCESSED,
            &PROC_DISK_SLEEP,
        ];
        facts.extend(sums.into_iter().filter_map(|metric| Some((metric.name.to_string(), self.sum(metric)?))));
        let waited = self.kernel_locks().map(|waits| waits.iter().map(|(_, share)| share).sum());
        facts.extend(waited.map(|share: f64| (LOCK_WAIT.name.to_string(), share)));
        facts.extend(self.troubles().into_iter().map(|(name, _, rate)| (name.to_string(), rate)));
        facts
    }
}

impl CpuSplit {
    /// Shares of what was counted: readings that are not of the same instant add up to a little more or less than 1.
    fn of_all(self) -> Self {
        let all = self.user + self.nice + self.system + self.softirq + self.iowait + self.steal + self.idle;
        let part = |share: f64| if all > 0.0 { share / all } else { 0.0 };
        Self {
            user: part(self.user),
            nice: part(self.nice),
            system: part(self.system),
            softirq: part(self.softirq),
            iowait: part(self.iowait),
            steal: part(self.steal),
            idle: part(self.idle),
        }
    }
}
