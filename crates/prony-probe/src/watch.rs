//! The readers of one host put together: a sample whenever the caller asks, dear facts at most once per second.
//!
//! Time comes from the caller; only how long its readers were held up does it see itself. Invariant: what a sample costs in CPU time
//! stands in the sample (`self.cpu`).

use crate::aside::Aside;
use crate::cadence::Cadence;
use crate::cgroup::Cgroup;
use crate::error_log::ErrorLog;
use crate::facts::Facts;
use crate::haproxy::{self, Haproxy};
use crate::logs::LogSizes;
use crate::machine::{Machine, SLOW_NS};
use crate::network::Network;
use crate::postgres::Postgres;
use crate::process::Processes;
use crate::qdisc::Qdiscs;
use crate::redis::Redis;
use crate::roots::{NO_LIVE_KERNEL, Roots};
use crate::sockets::Sockets;
use crate::status::StatusPage;
use crate::sys;
use crate::unix_listeners::UnixListeners;
use crate::yardstick::Yardstick;
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
    sockets: Option<(Sockets, UnixListeners, Qdiscs)>,
    processes: Processes,
    cgroup: Cgroup,
    logs: LogSizes,
    error_log: Option<ErrorLog>,
    status: Option<StatusPage>,
    server: Option<Aside>,
    /// None on a recorded tree, and where another host of this machine has it.
    yardstick: Option<Yardstick>,
    slow: Cadence,
    own_cpu_ns: u64,
}

impl Watch {
    /// Watches `host`, which the stack calls `name`. Nothing is read yet, and nothing can fail: what is missing
    /// becomes a gap.
    pub fn new(name: &str, host: &Host, roots: Roots) -> Self {
        let mut facts = Facts::new(name, 0);
        let sockets = roots.live().then(|| (Sockets::new(), UnixListeners::new(), Qdiscs::new()));
        if sockets.is_none() {
            for family in ["conn", "listen", "unix", "qdisc"] {
                facts.miss(family, NO_LIVE_KERNEL);
            }
        }
        let nginx = matches!(host.software, Some(Software::Nginx) | None);
        let status = host.status.as_deref().filter(|_| roots.live() && nginx).map(StatusPage::new);
        let server = if roots.live() { asker(name, host, &mut facts) } else { None };
        Self {
            machine: Machine::new(&roots),
            network: Network::new(&roots),
            sockets,
            processes: Processes::new(host, &roots),
            cgroup: Cgroup::new(&roots),
            logs: LogSizes::new(host, &roots),
            error_log: host.logs.error.as_deref().map(ErrorLog::new),
            status,
            server,
            yardstick: if roots.live() { Yardstick::claim(&roots.proc) } else { None },
            slow: Cadence::every(SLOW_NS),
            facts,
            page: Vec::new(),
            own_cpu_ns: 0,
        }
    }

    /// Reads the host now. `at_ns` is the time on the session's clock, in nanoseconds since the start of the run; it
    /// decides which dear facts are due. Takes well under a millisecond of CPU time, and up to 200 ms of wall time
    /// when a status page does not answer.
    ///
    /// Mostly one sample. Where a reader was held up, what was read after it stands in another, with the moment at which that was.
    pub fn samples(&mut self, at_ns: u64) -> Vec<Sample> {
        let started = sys::thread_cpu_ns();
        let (facts, page) = (&mut self.facts, &mut self.page);
        facts.begin(at_ns);
        // What moves fastest stands together and first; what may wait for others comes last: queues and settings of interfaces
        // for the kernel's lock of network settings, the status page for the server.
        if let Some((sockets, unix_listeners, _)) = &mut self.sockets {
            sockets.read(facts, at_ns);
            unix_listeners.read(facts, at_ns);
        }
        facts.now();
        self.machine.read(facts, page, at_ns);
        facts.now();
        self.network.read(facts, page);
        self.processes.read(facts, page, at_ns);
        facts.now();
        if let Some(main) = self.processes.main() {
            self.cgroup.read(facts, page, main, at_ns);
        }
        self.logs.read(facts, self.processes.pids(), at_ns);
        let slow = self.slow.due(at_ns);
        if slow {
            self.slow.ran(at_ns, 0);
        }
        if let Some(log) = &mut self.error_log {
            log.read(facts, page, slow);
        }
        if let Some((_, _, qdiscs)) = &mut self.sockets {
            qdiscs.read(facts);
        }
        facts.now();
        self.network.read_slow(facts, page, at_ns);
        if let Some(status) = &mut self.status {
            status.read(facts, at_ns);
        }
        if let Some(server) = &mut self.server {
            self.own_cpu_ns += server.read(facts, at_ns);
        }
        self.own_cpu_ns += sys::thread_cpu_ns().saturating_sub(started);
        facts.now();
        let yardstick_ns = self.yardstick.as_ref().map_or(0, |yardstick| yardstick.read(facts));
        facts.put(&SELF_CPU, "", (self.own_cpu_ns + yardstick_ns) as f64 / 1e9);
        facts.take_samples()
    }

    /// The same as one sample of that moment, for who compares two that are far apart.
    pub fn sample(&mut self, at_ns: u64) -> Sample {
        let host = self.facts.whose().0;
        let values = self.samples(at_ns).into_iter().flat_map(|sample| sample.values).collect();
        Sample { host, at_ns, values }
    }

    /// What could not be read so far: one gap for each fact, with the first reason seen.
    pub fn gaps(&self) -> Vec<Gap> {
        self.facts.gaps()
    }
}

/// Who asks the host's server, if it is one that can be asked and the stack file says how.
fn asker(name: &str, host: &Host, facts: &mut Facts) -> Option<Aside> {
    let mut dsn = |what: &str, like: &str| {
        if host.dsn.is_none() {
            let advice = format!("the stack does not say how to ask it: add `dsn = \"{like}\"` to this host");
            facts.miss(what, advice);
        }
        host.dsn.as_deref()
    };
    match host.software {
        Some(Software::Postgres) => {
            dsn("pg", "postgresql://USER@127.0.0.1/DATABASE").map(|dsn| Aside::new(name, Postgres::new(dsn)))
        }
        Some(Software::Redis) => dsn("redis", "redis://127.0.0.1:6379").map(|dsn| Aside::new(name, Redis::new(dsn))),
        Some(Software::Haproxy) => match host.status.clone().or_else(|| haproxy::socket_of(host)) {
            Some(status) => Some(Aside::new(name, Haproxy::new(&status))),
            None => {
                let advice = "the stack does not say how to ask it: add `status` (its stats socket, or the page of `stats uri`) \
                              to this host, or `config` if that has a line `stats socket`";
                facts.miss("haproxy", advice);
                None
            }
        },
        Some(Software::Other) if host.status.is_some() => {
            facts.miss("status", "only the status pages of nginx (stub_status) and HAProxy are read");
            None
        }
        Some(Software::Nginx | Software::Other) | None => None,
    }
}
