//! Derived facts of the kernel, the network and the host that several causes share: who waits, how much is sent, where
//! packets are dropped.
//!
//! Like `facts.rs` it knows no threshold. Invariant: a sum over items is made only of items that were read.

use crate::facts::{Fact, Hop, Reader};
use prony_model::metric::{
    CONN_OUT, IF_RX_BYTES, IF_RX_PACKETS, IF_TX_BYTES, IF_TX_PACKETS, LOOK_ANY_THREAD, LOOK_BUSIEST_THREAD,
    LOOK_RUNNING, LOOK_THREADS, LOOK_WAIT, NIC_OVERRUNS, PROC_AFFINITY, PROC_RUN, PROC_RUN_DELAY, PROC_THREADS,
    QDISC_DROPS, SOFTNET_DROPPED, TCP_BACKLOG_DROPS, TCP_RECEIVE_QUEUE_DROPS,
};
use prony_model::{CpuList, Gap, Metric, Run};
use std::collections::BTreeSet;

/// Kernel functions in which a writer waits for a disk, or a disk for its turn.
const DISK_WAITS: &[&str] = &[
    "io_schedule",
    "io_schedule_timeout",
    "jbd2_log_wait_commit",
    "wait_transaction_locked",
    "folio_wait_bit_common",
    "folio_wait_writeback",
    "wait_on_page_bit_common",
    "balance_dirty_pages",
    "submit_bio_wait",
    "blkdev_issue_flush",
    "rq_qos_wait",
    "xfs_log_force_seq",
    "xlog_wait_on_iclog",
];

impl<'a> Reader<'a> {
    /// Mean of a gauge over the workers that were read.
    pub fn worker_mean(&self, metric: &Metric) -> Result<f64, Gap> {
        let values: Vec<f64> = self.hop.workers().iter().filter_map(|pid| self.one(metric, pid).ok()).collect();
        if values.is_empty() { self.sum(metric) } else { Ok(values.iter().sum::<f64>() / values.len() as f64) }
    }

    /// Seconds per second that the workers wait for a CPU although they could run, and that they run.
    pub fn delay_and_run(&self) -> Result<(f64, f64), Gap> {
        let sum = |metric: &Metric| {
            let values = self.hop.workers().into_iter().filter_map(|pid| self.one(metric, pid).ok());
            values.reduce(|a, b| a + b)
        };
        match (sum(&PROC_RUN_DELAY), sum(&PROC_RUN)) {
            (Some(delay), Some(run)) => Ok((delay, run)),
            (Some(_), None) | (None, Some(_)) | (None, None) => self.sum(&PROC_RUN_DELAY).map(|delay| (delay, 0.0)),
        }
    }

    /// Share of the time in which workers want a CPU that they spend waiting for it.
    pub fn delay_share(&self) -> Result<f64, Gap> {
        let (delay, run) = self.delay_and_run()?;
        Ok(if delay + run > 0.0 { delay / (delay + run) } else { 0.0 })
    }

    /// Sum of a counter over the interfaces that lead to other hosts.
    pub fn on_links(&self, metric: &Metric) -> Result<f64, Gap> {
        let interfaces = self.hop.items(metric).into_iter().filter(|name| *name != "lo");
        let rates = interfaces.filter_map(|name| self.one(metric, name).ok());
        rates.reduce(|a, b| a + b).ok_or_else(|| Gap::new(metric.name, self.hop.name, "no link was read"))
    }

    /// Packets per second, both ways. A host whose received ones were not read counts those sent.
    pub fn packets(&self) -> Result<f64, Gap> {
        Ok(self.on_links(&IF_TX_PACKETS)? + self.on_links(&IF_RX_PACKETS).unwrap_or(0.0))
    }

    /// Bytes per packet, both ways.
    pub fn bytes_per_packet(&self) -> Result<f64, Gap> {
        let bytes = self.on_links(&IF_TX_BYTES)? + self.on_links(&IF_RX_BYTES).unwrap_or(0.0);
        let packets = self.packets()?;
        if packets > 0.0 { Ok(bytes / packets) } else { Err(Gap::new(IF_TX_PACKETS.name, self.hop.name, "no packets")) }
    }

    /// Packets per second that this host itself drops: in queues of the CPUs that it uses, in queues to its links, in the
    /// rings of its cards, at its own sockets. None of them was read: a gap.
    pub fn local_drops(&self) -> Result<f64, Gap> {
        let cpus: BTreeSet<String> = self.hop.cpus()?.iter().map(u32::to_string).collect();
        let backlog = self.hop.items(&SOFTNET_DROPPED).into_iter().filter(|cpu| cpus.contains(*cpu));
        let backlog = backlog.filter_map(|cpu| self.one(&SOFTNET_DROPPED, cpu).ok()).reduce(|a, b| a + b);
        let elsewhere = [&QDISC_DROPS, &NIC_OVERRUNS, &TCP_BACKLOG_DROPS, &TCP_RECEIVE_QUEUE_DROPS];
        let parts = elsewhere.map(|metric| self.sum(metric).ok()).into_iter().chain([backlog]);
        let sum = parts.flatten().reduce(|a, b| a + b);
        sum.ok_or_else(|| Gap::new(SOFTNET_DROPPED.name, self.hop.name, "no queue of this host was read"))
    }

    /// Share of the requests in flight whose connections stand still until a lost segment is sent again.
    pub fn loss_share(&self) -> Result<f64, Gap> {
        Ok((self.retransmit_stall()? / self.in_flight()?).clamp(0.0, 1.0))
    }

    /// Requests that the hop sends on, per request that it gets: one for a proxy that calls somebody.
    pub fn calls_per_request(&self) -> f64 {
        let calls = self.hop.host().is_some_and(|h| !h.calls.is_empty());
        f64::from(u8::from(calls && !self.hop.items(&CONN_OUT).is_empty()))
    }
}

/// CPUs that the processes of a host that serve requests may use, as found; empty when no mask was read.
pub fn worker_cpus(run: &Run, host: &str) -> BTreeSet<u32> {
    Hop { run, name: host }.worker_cpus()
}

/// Whether each process of a host that serves requests has work for one CPU, and no use for more: at the limit and as found.
pub fn has_work_for_one_cpu_each(run: &Run, host: &str) -> bool {
    Hop { run, name: host }.has_work_for_one_cpu_each()
}

/// On-CPU share from which a worker is at its limit. A guess: a planted case shows 0.98, a healthy proxy at its limit
/// 0.91 to 0.97.
pub const FULL_WORKER: f64 = 0.85;
/// CPUs that a process takes at most where one of its threads runs at a time, or one is busy and the others hardly. A guess.
const ONE_CPU: f64 = 1.1;
/// Kernel functions in which threads wait for work, or for each other.
const IDLE: [&str; 3] = ["ep_poll", "do_epoll_wait", "futex"];

fn is_idle(function: &str) -> bool {
    IDLE.iter().any(|idle| function.starts_with(idle))
}

impl<'a> Hop<'a> {
    /// Whether each worker has work for one CPU and no use for more, whatever threads it has: one of them always runs, or some thread does
    /// and all together take one CPU. As Node, whose first thread runs all the requests; Go that may use one CPU; Python, whose threads run
    /// one at a time.
    pub fn has_work_for_one_cpu_each(&self) -> bool {
        let Ok(at) = self.at(prony_model::Level::At) else { return false };
        let is_one = |pid: &&str| {
            let always_runs = |metric| self.look(metric, pid).is_ok_and(|share| share >= FULL_WORKER);
            let take_one = || at.one(&PROC_RUN, pid).is_ok_and(|cpus| (FULL_WORKER..=ONE_CPU).contains(&cpus));
            [&LOOK_RUNNING, &LOOK_BUSIEST_THREAD].into_iter().any(always_runs)
                || always_runs(&LOOK_ANY_THREAD) && take_one()
        };
        let workers = self.workers();
        !workers.is_empty() && workers.iter().all(is_one)
    }

    /// Threads beside the first of each process that wait in a call: for an answer, a file, a time. Those that wait for work or for each
    /// other do not count. None when nobody looked.
    pub fn threads_in_calls(&self) -> Option<f64> {
        let waits = self.items(&LOOK_THREADS).into_iter().filter(|function| !is_idle(function));
        self.was_looked_at().then(|| waits.filter_map(|function| self.look(&LOOK_THREADS, function).ok()).sum())
    }

    /// Share of looks that found the first threads of its processes waiting for work, or for other threads; none when nobody looked.
    pub fn idle_looks(&self) -> Option<f64> {
        let idle = self.items(&LOOK_WAIT).into_iter().filter(|function| is_idle(function));
        self.was_looked_at().then(|| idle.filter_map(|function| self.look(&LOOK_WAIT, function).ok()).sum())
    }

    fn was_looked_at(&self) -> bool {
        !self.items(&LOOK_WAIT).is_empty() || !self.items(&LOOK_RUNNING).is_empty()
    }

    /// Share of looks at workers that found them waiting for a disk; none when nobody looked.
    pub fn disk_waits(&self) -> Option<f64> {
        let waits = DISK_WAITS.iter().filter_map(|function| self.look(&LOOK_WAIT, function).ok());
        self.was_looked_at().then(|| waits.sum::<f64>().min(1.0))
    }

    /// A setting of the host or its server by its name in the inventory, as `nginx.config.gzip`.
    pub fn setting(&self, name: &str) -> Option<&'a str> {
        let inventory = self.run.inventory.iter().find(|inventory| inventory.host == self.name)?;
        inventory.facts.get(name).map(String::as_str)
    }

    /// The values of a setting in all the places where it stands, which the inventory joins; none where it stands nowhere.
    pub fn settings(&self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.setting(name).into_iter().flat_map(|values| values.split(" | "))
    }

    /// CPUs that any of its workers may use at the limit, before a remedy was tried; empty when no mask was read.
    pub fn worker_cpus(&self) -> BTreeSet<u32> {
        let (workers, at) = (self.workers(), self.at(prony_model::Level::At));
        let is_as_found = |item: &&str| at.as_ref().is_ok_and(|at| at.one(&PROC_AFFINITY, item).is_ok());
        let masks = self.items(&PROC_AFFINITY).into_iter().filter(is_as_found).filter_map(|item| item.split_once(' '));
        let lists = masks.filter(|(pid, _)| workers.contains(pid)).filter_map(|(_, list)| list.parse::<CpuList>().ok());
        lists.flat_map(|list| list.as_slice().to_vec()).collect()
    }

    /// Whether each worker is one thread, so that one CPU is all that it can use.
    pub fn is_single_threaded(&self) -> bool {
        let workers = self.workers();
        let at = self.at(prony_model::Level::At);
        let threads = workers.iter().filter_map(|pid| at.as_ref().ok()?.one(&PROC_THREADS, pid).ok());
        threads.sum::<f64>() <= workers.len() as f64 + 0.5
    }

    /// The greatest value of a per-CPU share over the hop's CPUs: the CPU and what the reader says of it.
    pub fn worst_cpu(&self, read: impl Fn(&str) -> Option<f64>) -> Option<(u32, f64)> {
        let cpus = self.cpus().ok()?;
        let shares = cpus.into_iter().filter_map(|cpu| Some((cpu, read(&cpu.to_string())?)));
        shares.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// A quantity that is one part of another, with the same levels: for sums in evidence.
pub fn share_of(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 }
}

/// A fact that was read once, in a close look, and so is the same at every level.
pub fn looked_at(hop: &Hop<'_>, name: &str, unit: &'static str, value: f64) -> Fact {
    Fact { unit, ..Fact::across_levels(hop, name, value) }
}
