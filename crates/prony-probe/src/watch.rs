//! The readers of one host put together: a sample whenever the caller asks, dear facts at most once per second.
//!
//! Reads no clock: time comes from the caller. Invariant: what a sample costs in CPU time stands in the sample
//! (`self.cpu`).

use crate::cadence::Cadence;
use crate::cgroup::Cgroup;
use crate::error_log::ErrorLog;
use crate::facts::Facts;
use crate::logs::LogSizes;
use crate::machine::{Machine, SLOW_NS};
use crate::network::Network;
use crate::process::Processes;
use crate::qdisc::Qdiscs;
use crate::roots::{NO_LIVE_KERNEL, Roots};
use crate::sockets::Sockets;
use crate::status::StatusPage;
use crate::sys;
use prony_model::metric::SELF_CPU;
use prony_model::{Gap, Host, Sample, Software};

/// Watches one host. Belongs to the thread that made it: its files and sockets show that thread's network namespace.
#[derive(Debug)]
pub struct Watch {
    facts: Facts,
    page: Vec<u8>,
    machine: Machine,
    network: Network,
    /// None on a recorded tree.
    sockets: Option<(Sockets, Qdiscs)>,
    processes: Processes,
    cgroup: Cgroup,
    logs: LogSizes,
    error_log: Option<ErrorLog>,
    status: Option<StatusPage>,
    slow: Cadence,
    own_cpu_ns: u64,
}

impl Watch {
    /// Watches `host`, which the stack calls `name`. Nothing is read yet, and nothing can fail: what is missing
    /// becomes a gap.
    pub fn new(name: &str, host: &Host, roots: Roots) -> Self {
        let mut facts = Facts::new(name, 0);
        let sockets = roots.live().then(|| (Sockets::new(), Qdiscs::new()));
        if sockets.is_none() {
            for family in ["conn", "listen", "qdisc"] {
                facts.miss(family, NO_LIVE_KERNEL);
            }
        }
        let nginx = matches!(host.software, Some(Software::Nginx) | None);
        let status = host.status.as_deref().filter(|_| roots.live() && nginx).map(StatusPage::new);
        if host.status.is_some() && !nginx {
            facts.miss("status", "only the status page of nginx (stub_status) is read");
        }
        Self {
            machine: Machine::new(&roots),
            network: Network::new(&roots),
            sockets,
            processes: Processes::new(host, &roots),
            cgroup: Cgroup::new(&roots),
            logs: LogSizes::new(host, &roots),
            error_log: host.logs.error.as_deref().map(ErrorLog::new),
            status,
            slow: Cadence::every(SLOW_NS),
            facts,
            page: Vec::new(),
            own_cpu_ns: 0,
        }
    }

    /// Reads the host now. `at_ns` is the time on the session's clock, in nanoseconds since the start of the run; it
    /// decides which dear facts are due. Takes well under a millisecond of CPU time, and up to 200 ms of wall time
    /// when a status page does not answer.
    pub fn sample(&mut self, at_ns: u64) -> Sample {
        let started = sys::thread_cpu_ns();
        let (facts, page) = (&mut self.facts, &mut self.page);
        facts.begin(at_ns);
        // What moves fastest stands together and first; the status page may wait, so it comes last.
        if let Some((sockets, qdiscs)) = &mut self.sockets {
            sockets.read(facts, at_ns);
            qdiscs.read(facts);
        }
        self.machine.read(facts, page, at_ns);
        self.network.read(facts, page, at_ns);
        self.processes.read(facts, page, at_ns);
        if let Some(first) = self.processes.pids().next() {
            self.cgroup.read(facts, page, first, at_ns);
        }
        self.logs.read(facts, self.processes.pids(), at_ns);
        let slow = self.slow.due(at_ns);
        if slow {
            self.slow.ran(at_ns, 0);
        }
        if let Some(log) = &mut self.error_log {
            log.read(facts, page, slow);
        }
        if let Some(status) = &mut self.status {
            status.read(facts, at_ns);
        }
        self.own_cpu_ns += sys::thread_cpu_ns().saturating_sub(started);
        facts.put(&SELF_CPU, "", self.own_cpu_ns as f64 / 1e9);
        facts.take_sample(at_ns)
    }

    /// What could not be read so far: one gap for each fact, with the first reason seen.
    pub fn gaps(&self) -> Vec<Gap> {
        self.facts.gaps()
    }
}
