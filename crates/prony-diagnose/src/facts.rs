//! Reads a run: what one hop showed at each level of load, as numbers that causes can judge.
//!
//! It judges nothing and knows no threshold. Invariant: a number stands here only if the run holds it; else there is a
//! gap that names the fact, the host and the reason.

use prony_model::metric::{
    CGROUP_USAGE, CONN_IN_BUSY, CONN_MIN_RTT, CONN_OUT_WAITING, CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_NICE, CPU_SOFTIRQ,
    CPU_STEAL, CPU_SYSTEM, CPU_USER, NGINX_REQUESTS, PG_SESSIONS, PROC_IS_WORKER, PROC_RUN, PROC_RUN_DELAY,
    PROC_SERVES, TCP_DSACK_RECEIVED, TCP_FAST_RETRANSMITS, TCP_IN_SEGMENTS, TCP_RETRANSMITS, TCP_SYN_RETRANSMITS,
};
use prony_model::stack::{Place, Role};
use prony_model::{
    Evidence, EvidenceVerdict, Gap, Host, Level, Metric, MetricKind, Purpose, Run, SeriesSet, Trial, Window,
};
use std::collections::BTreeSet;

/// Initial retransmission timeout of a SYN, in seconds. RFC 6298 section 2.1.
pub const SYN_TIMEOUT_S: f64 = 1.0;

/// How long a lost segment with nothing behind it stays lost, in seconds: Linux `TCP_RTO_MIN` (include/net/tcp.h),
/// which a tail loss probe of a lone segment waits for as well (`tcp_schedule_loss_probe`).
pub const RETRANSMIT_TIMEOUT_S: f64 = 0.2;
/// How much of its children's mean CPU time a parent takes, from which it serves as well. A guess: a parent that only watches takes next
/// to nothing, one that serves as much.
const AS_CHILDREN: f64 = 0.5;
/// CPUs below which a process is idle. A guess.
const WORKS_CPUS: f64 = 0.01;
/// All that was recorded.
const WHOLE_RUN: Window = Window { from_ns: 0, to_ns: u64::MAX };

/// A quantity of one hop at the level `at`, with the same below and beyond the knee.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Metric or derived quantity.
    pub name: String,
    /// Host it belongs to.
    pub host: String,
    /// Unit of the values.
    pub unit: &'static str,
    /// At the workload as written.
    pub value: f64,
    /// Below the knee, if read there.
    pub baseline: Option<f64>,
    /// Beyond the knee, if read there.
    pub beyond: Option<f64>,
}

impl Fact {
    /// A quantity of a hop that compares the levels, so that it has no value at each.
    pub fn across_levels(hop: &Hop<'_>, name: &str, value: f64) -> Self {
        Self { name: name.to_string(), host: hop.name.to_string(), unit: "", value, baseline: None, beyond: None }
    }

    /// The fact as evidence for (`Supports`) or against (`Refutes`) a claim; the border comes with its origin.
    pub fn evidence(&self, claim: &str, border: Option<f64>, origin: &str, verdict: EvidenceVerdict) -> Evidence {
        Evidence {
            claim: claim.to_string(),
            metric: self.name.clone(),
            host: self.host.clone(),
            value: self.value,
            unit: self.unit.to_string(),
            baseline: self.baseline,
            threshold: border,
            origin: origin.to_string(),
            verdict,
        }
    }
}

/// One hop of the run, at all levels.
#[derive(Clone, Copy)]
pub struct Hop<'a> {
    /// The run.
    pub run: &'a Run,
    /// Host name in the stack.
    pub name: &'a str,
}

impl<'a> Hop<'a> {
    /// Every serving host in order of the path.
    pub fn path(run: &'a Run) -> Vec<Self> {
        run.stack.path().into_iter().map(|name| Hop { run, name }).collect()
    }

    /// The host of the generator.
    pub fn generator(run: &'a Run) -> Option<Self> {
        run.stack.generator().map(|(name, _)| Hop { run, name })
    }

    /// Another host of the same run.
    pub fn other(&self, name: &'a str) -> Self {
        Hop { run: self.run, name }
    }

    /// What the stack file says about it.
    pub fn host(&self) -> Option<&'a Host> {
        self.run.stack.host.get(self.name)
    }

    /// Hosts that have the same callers and the same role, itself always included; the entry is alone, and so is what is not on the
    /// path. A cache beside a database is no sibling: what reaches it is not taken from the database.
    pub fn siblings(&self) -> Vec<Self> {
        let callers = self.run.stack.callers(self.name);
        let path = Self::path(self.run);
        if callers.is_empty() || !path.iter().any(|h| h.name == self.name) {
            return vec![*self];
        }
        let role = |h: &Self| h.host().map(|h| h.role);
        let alike = |h: &Self| self.run.stack.callers(h.name) == callers && role(h) == role(self);
        path.into_iter().filter(alike).collect()
    }

    /// Hosts that it calls.
    pub fn callees(&self) -> Vec<Self> {
        let calls = self.host().map(|h| h.calls.as_slice()).unwrap_or_default();
        calls.iter().map(|name| self.other(name)).collect()
    }

    /// Whether clients reach it first.
    pub fn is_entry(&self) -> bool {
        self.run.stack.path().first() == Some(&self.name)
    }

    /// What it showed at one level.
    pub fn at(&self, level: Level) -> Result<Reader<'a>, Gap> {
        let trial = self.run.level(level).ok_or_else(|| {
            Gap::new(format!("level {level:?}").to_lowercase(), "", "no trial ran at this level of load")
        })?;
        Ok(Reader { hop: *self, trial })
    }

    /// A quantity at the level `at`, and at the other levels where it can be read.
    pub fn fact(
        &self,
        name: impl Into<String>,
        unit: &'static str,
        read: impl Fn(&Reader<'a>) -> Result<f64, Gap>,
    ) -> Result<Fact, Gap> {
        let elsewhere = |level| self.at(level).and_then(|r| read(&r)).ok();
        Ok(Fact {
            name: name.into(),
            host: self.name.to_string(),
            unit,
            value: read(&self.at(Level::At)?)?,
            baseline: elsewhere(Level::Below),
            beyond: elsewhere(Level::Beyond),
        })
    }

    /// Growth per second, summed over items (counters), or the mean, summed over items (gauges).
    pub fn summary(&self, metric: &'static Metric) -> Result<Fact, Gap> {
        let unit = match metric.kind {
            MetricKind::Counter => "/s",
            MetricKind::Gauge => metric.unit.symbol(),
        };
        self.fact(metric.name, unit, |r| r.sum(metric))
    }

    /// Growth per second of a counter over all of the run: of what is too rare for a trial of some seconds.
    pub fn rate_of_run(&self, metric: &'static Metric) -> Option<f64> {
        self.run.series.sum(self.name, metric, WHOLE_RUN)
    }

    /// Growth per request that reaches the hop.
    pub fn per_request(&self, metric: &'static Metric) -> Result<Fact, Gap> {
        self.fact(format!("{} / request", metric.name), "", |r| Ok(r.sum(metric)? / r.requests()?))
    }

    /// A price or a close look: the mean over the unscored look, or over all of the run when it was taken outside.
    pub fn look(&self, metric: &Metric, item: &str) -> Result<f64, Gap> {
        let points = self.run.series.points(self.name, metric, item);
        let inspect = self.inspect().map_or(WHOLE_RUN, |t| t.window);
        SeriesSet::mean(points, inspect).or_else(|| SeriesSet::mean(points, WHOLE_RUN)).ok_or_else(|| {
            Gap::new(metric.name, self.name, "no close look was taken; `prony diagnose` takes it between trials")
        })
    }

    /// The unscored trial during which close looks ran.
    pub fn inspect(&self) -> Option<&'a Trial> {
        self.run.trials.iter().rev().find(|t| t.purpose == Purpose::Inspect)
    }

    /// Items of a metric.
    pub fn items(&self, metric: &Metric) -> Vec<&'a str> {
        self.run.series.items(self.name, metric).map(|(item, _)| item).collect()
    }

    /// CPUs that the hop may use: what the stack file says, else every CPU of the machine.
    pub fn cpus(&self) -> Result<BTreeSet<u32>, Gap> {
        let seen = || self.items(&CPU_IDLE).iter().filter_map(|i| i.parse().ok()).collect();
        let cpus: BTreeSet<u32> = match self.host().and_then(|h| h.cpus.as_ref()) {
            Some(named) => named.as_slice().iter().copied().collect(),
            None => seen(),
        };
        if cpus.is_empty() {
            return Err(Gap::new("cpu.idle", self.name, "no CPU of this host was read"));
        }
        Ok(cpus)
    }

    /// Whether both hosts run on the same machine and share a CPU. Namespaces of one machine share its CPUs.
    pub fn shares_cpu_with(&self, other: &Hop<'_>) -> bool {
        let machine = |h: &Hop<'_>| match h.host().map(|h| h.at.clone()) {
            Some(Place::Agent(name)) => name,
            Some(Place::Local | Place::Netns(_)) | None => String::new(),
        };
        match (self.cpus(), other.cpus()) {
            (Ok(a), Ok(b)) => machine(self) == machine(other) && !a.is_disjoint(&b),
            (Err(_), _) | (_, Err(_)) => false,
        }
    }

    /// Whether a peer, as `10.0.0.2:80`, is this host.
    pub fn is_at(&self, peer: &str) -> bool {
        let addr = self.host().and_then(|h| h.addr.as_deref());
        peer.rsplit_once(':').is_some_and(|(host, _)| Some(host) == addr)
    }

    /// Processes that serve requests, by pid; all processes when none is marked. A parent that works as its children do is one as well,
    /// but in a database, whose parent works for each connection. Those of the level at the limit: a remedy that is tried later may
    /// start others.
    pub fn workers(&self) -> Vec<&'a str> {
        let window = self.run.level(Level::At).map(|trial| trial.window);
        let ran = |points| window.is_none_or(|window| SeriesSet::max(points, window).is_some());
        let seen = self.run.series.items(self.name, &PROC_RUN);
        let then: Vec<_> = seen.filter(|(_, points)| ran(points)).map(|(pid, _)| pid).collect();
        let all = if then.is_empty() { self.items(&PROC_RUN) } else { then };
        let is_marked =
            |pid: &str| self.run.series.points(self.name, &PROC_IS_WORKER, pid).last().is_some_and(|(_, v)| *v > 0.5);
        let (marked, parents): (Vec<_>, Vec<_>) = all.iter().copied().partition(|pid| is_marked(pid));
        if marked.is_empty() {
            return all;
        }
        let ran = |pid: &str| self.at(Level::At).and_then(|r| r.one(&PROC_RUN, pid)).unwrap_or(0.0);
        let mean = marked.iter().map(|pid| ran(pid)).sum::<f64>() / marked.len() as f64;
        let (is_database, bystanders) =
            (self.host().is_some_and(|host| host.role == Role::Database), self.bystanders());
        let works =
            |pid: &&str| !is_database && !bystanders.contains(pid) && ran(pid) >= (AS_CHILDREN * mean).max(WORKS_CPUS);
        marked.iter().copied().chain(parents.into_iter().filter(works)).collect()
    }

    /// Processes in the hop's control group that can serve nobody, by pid: others that somebody runs there.
    pub fn bystanders(&self) -> Vec<&'a str> {
        let idles = |points: &[(u64, f64)]| points.last().is_some_and(|(_, serves)| *serves < 0.5);
        self.run.series.items(self.name, &PROC_SERVES).filter(|(_, points)| idles(points)).map(|(pid, _)| pid).collect()
    }
}

impl std::fmt::Debug for Hop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Where the time of a hop's CPUs went, each as CPUs (1.0 is one CPU all the time).
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTime {
    /// User code.
    pub user: f64,
    /// The part of it that gives way to others (nice).
    pub nice: f64,
    /// System calls.
    pub system: f64,
    /// Packet work and other soft interrupts, and hard ones.
    pub interrupts: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Nothing to do; waiting for a disk counts as idle.
    pub idle: f64,
}

impl CpuTime {
    /// All of it.
    pub fn total(self) -> f64 {
        self.user + self.system + self.interrupts + self.steal + self.idle
    }
    /// What runs there and does not give way.
    pub fn demand(self) -> f64 {
        self.user - self.nice + self.system + self.interrupts
    }
    /// Share that is not idle.
    pub fn busy_share(self) -> f64 {
        1.0 - self.idle / self.total().max(f64::MIN_POSITIVE)
    }
    /// Share of the busy time that the kernel took.
    pub fn kernel_share(self) -> f64 {
        (self.system + self.interrupts) / (self.user + self.system + self.interrupts).max(f64::MIN_POSITIVE)
    }
}

/// One hop in one trial.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The hop.
    pub hop: Hop<'a>,
    /// The trial.
    pub trial: &'a Trial,
}

impl<'a> Reader<'a> {
    /// The gap of a metric that was not read in this trial.
    pub fn gap(&self, metric: &Metric) -> Gap {
        Gap::new(metric.name, self.hop.name, format!("not read during the trial; its source is {}", metric.source))
    }

    /// Rate of a counter or mean of a gauge for one item.
    pub fn one(&self, metric: &Metric, item: &str) -> Result<f64, Gap> {
        let points = self.hop.run.series.points(self.hop.name, metric, item);
        SeriesSet::summary(metric, points, self.trial.window).ok_or_else(|| self.gap(metric))
    }

    /// The same, summed over the items that were read.
    pub fn sum(&self, metric: &Metric) -> Result<f64, Gap> {
        let sum = self.hop.run.series.sum(self.hop.name, metric, self.trial.window);
        sum.ok_or_else(|| self.gap(metric))
    }

    /// Largest value of a gauge, summed over items.
    pub fn max(&self, metric: &Metric) -> Result<f64, Gap> {
        let points = self.hop.run.series.items(self.hop.name, metric);
        let values: Vec<f64> = points.filter_map(|(_, p)| SeriesSet::max(p, self.trial.window)).collect();
        if values.is_empty() { Err(self.gap(metric)) } else { Ok(values.iter().sum()) }
    }

    /// Requests per second that the entry completed. Where it completed none, those that clients gave up: each stayed at least until then.
    pub fn throughput(&self) -> Result<f64, Gap> {
        let result = &self.trial.result;
        let given_up_per_s = result.errors.timeout as f64 / result.duration_s.max(f64::MIN_POSITIVE);
        let x = if result.completed > 0 { result.completed_per_s } else { given_up_per_s };
        if x > 0.0 { Ok(x) } else { Err(Gap::new("completed_per_s", "", "no request was completed in this trial")) }
    }

    /// Requests per second that reach this hop: its own count, else its share of the segments that it and its siblings
    /// receive.
    pub fn requests(&self) -> Result<f64, Gap> {
        let x = self.throughput()?;
        if self.hop.is_entry() || self.hop.host().is_none() {
            return Ok(x);
        }
        if let Ok(own) = self.sum(&NGINX_REQUESTS) {
            return if own > 0.0 { Ok(own) } else { Err(self.gap(&NGINX_REQUESTS)) };
        }
        let received = |h: &Hop<'_>| {
            Reader { hop: Hop { run: self.hop.run, name: h.name }, trial: self.trial }.sum(&TCP_IN_SEGMENTS)
        };
        let siblings = self.hop.siblings();
        match siblings.iter().map(received).collect::<Result<Vec<f64>, Gap>>() {
            Ok(all) if all.iter().sum::<f64>() > 0.0 => Ok(x * received(&self.hop)? / all.iter().sum::<f64>()),
            Ok(_) | Err(_) => Ok(x / siblings.len().max(1) as f64),
        }
        .and_then(|r| match r > 0.0 {
            true => Ok(r),
            false => Err(Gap::new(TCP_IN_SEGMENTS.name, self.hop.name, "nothing came to it during the trial")),
        })
    }

    /// Share of the requests that do not fail. Time spent on those that do limits no good ones.
    pub fn good_share(&self) -> f64 {
        1.0 - self.trial.result.error_share()
    }

    /// Requests in flight (Little's law: N = X R), as the generator saw them.
    pub fn in_flight(&self) -> Result<f64, Gap> {
        let result = &self.trial.result;
        let little = result.completed_per_s * result.latency_actual.mean_us / 1e6;
        let n = little.max(result.in_flight_mean);
        if n > 0.0 {
            Ok(n)
        } else {
            Err(Gap::new("in_flight", "", "the load has no latency and no requests in flight"))
        }
    }

    /// Requests in flight at the hop that it did not pass on: of its own sockets, else of those of its callers that lead
    /// to it. A lower bound: the kernel tells times in ticks, and what is answered and asked again within one looks idle.
    /// A database that tells how many sessions are in a statement is believed.
    pub fn staying(&self) -> Result<f64, Gap> {
        if let Ok(active) = self.one(&PG_SESSIONS, "active") {
            return Ok(active);
        }
        let inside = self.sum(&CONN_IN_BUSY).or_else(|gap| self.awaited_by_callers().ok_or(gap))?;
        let passed_on = self.sum(&CONN_OUT_WAITING).unwrap_or(0.0);
        Ok((inside - passed_on).max(0.0))
    }

    fn awaited_by_callers(&self) -> Option<f64> {
        let callers = self.hop.run.stack.callers(self.hop.name);
        let reader = |caller| Reader { hop: self.hop.other(caller), trial: self.trial };
        let awaited = callers.into_iter().filter_map(|c| reader(c).towards(&CONN_OUT_WAITING, &self.hop).ok());
        awaited.reduce(|a, b| a + b)
    }

    /// A metric of the sockets that lead to a host, which must have an address in the stack.
    pub fn towards(&self, metric: &Metric, callee: &Hop<'_>) -> Result<f64, Gap> {
        if callee.host().is_none_or(|h| h.addr.is_none()) {
            let reason = format!("the stack gives no `addr` for {}", callee.name);
            return Err(Gap::new(metric.name, self.hop.name, reason));
        }
        let peers = self.hop.items(metric).into_iter().filter(|peer| callee.is_at(peer));
        peers.filter_map(|peer| self.one(metric, peer).ok()).reduce(|a, b| a + b).ok_or_else(|| self.gap(metric))
    }

    /// The same hop's trial seen from another hop.
    pub fn of(&self, hop: &Hop<'a>) -> Self {
        Reader { hop: *hop, trial: self.trial }
    }

    /// Time of the hop's CPUs. Fails when one of them was not read.
    pub fn cpu(&self) -> Result<CpuTime, Gap> {
        let mut time = CpuTime::default();
        for cpu in self.hop.cpus()?.iter().map(u32::to_string) {
            let optional = |metric| self.one(metric, &cpu).unwrap_or(0.0);
            let nice = optional(&CPU_NICE);
            time.user += self.one(&CPU_USER, &cpu)? + nice;
            time.nice += nice;
            time.system += self.one(&CPU_SYSTEM, &cpu)?;
            time.interrupts += self.one(&CPU_SOFTIRQ, &cpu)? + optional(&CPU_IRQ);
            time.steal += optional(&CPU_STEAL);
            time.idle += self.one(&CPU_IDLE, &cpu)? + optional(&CPU_IOWAIT);
        }
        Ok(time)
    }

    /// CPUs that the hop's own processes use, packet work and bystanders left out. The generator's are its threads.
    pub fn process_cpu(&self) -> Result<f64, Gap> {
        let threads = &self.trial.result.threads;
        if self.hop.host().is_some_and(|h| h.role == Role::Generator) && !threads.is_empty() {
            let cpus = threads.iter().map(|t| (t.user_us + t.system_us) / t.wall_us.max(1.0));
            return Ok(cpus.sum());
        }
        let all = self.hop.run.process_cpus(self.hop.name, self.trial.window).ok_or_else(|| self.gap(&CGROUP_USAGE))?;
        let bystanders = self.hop.bystanders().into_iter().filter_map(|pid| self.one(&PROC_RUN, pid).ok());
        Ok((all - bystanders.sum::<f64>()).max(0.0))
    }

    /// CPUs that the hop uses with its part of the packet work on its CPUs, which no process is charged for: shared out
    /// in proportion to process time, because the kernel does not say for whom a packet was.
    pub fn own_cpu(&self) -> Result<f64, Gap> {
        let (own, cpu) = (self.process_cpu()?, self.cpu()?);
        let processes = (cpu.user + cpu.system).max(own);
        let packets = if processes > 0.0 { cpu.interrupts * own / processes } else { 0.0 };
        Ok((own + packets).min(cpu.total()))
    }

    /// CPU time of the hop per request that reaches it, in microseconds.
    pub fn cpu_us_per_request(&self) -> Result<f64, Gap> {
        Ok(self.own_cpu()? * 1e6 / self.requests()?)
    }

    /// Share of time that each worker could not take more work: on a CPU, in the run queue, or stopped there by packet
    /// work, which is charged to no process; as nobody says on which CPU, the hop's CPU with most of it counts.
    pub fn worker_loads(&self) -> Result<Vec<f64>, Gap> {
        let packets = |cpu: &u32| self.one(&CPU_SOFTIRQ, &cpu.to_string()).ok();
        let packets = self.hop.cpus()?.iter().filter_map(packets).fold(0.0, f64::max);
        let load = |pid: &&str| -> Result<f64, Gap> {
            let delay = self.one(&PROC_RUN_DELAY, pid).unwrap_or(0.0);
            Ok((self.one(&PROC_RUN, pid)? + delay + packets).min(1.0))
        };
        let loads: Vec<_> = self.hop.workers().iter().filter_map(|pid| load(pid).ok()).collect();
        if loads.is_empty() { Err(self.gap(&PROC_RUN)) } else { Ok(loads) }
    }

    /// Seconds per second that this host's connections stand still until a lost segment is sent again. Segments that the
    /// receiver had already (it says so: DSACK) were not lost: an acknowledgement came late, and nobody waited for them. A segment
    /// that was sent again at once (fast retransmit) costs a round trip of the path: what queues add to it, they add to all.
    pub fn retransmit_stall(&self) -> Result<f64, Gap> {
        let all = self.sum(&TCP_RETRANSMITS)?;
        let fast = self.sum(&TCP_FAST_RETRANSMITS).unwrap_or(0.0).min(all);
        let round_trips = self.hop.items(&CONN_MIN_RTT).into_iter().filter_map(|to| self.one(&CONN_MIN_RTT, to).ok());
        let rtt_s = round_trips.fold(0.0, f64::max) / 1e6;
        let syn = self.sum(&TCP_SYN_RETRANSMITS).unwrap_or(0.0).min(all - fast);
        let spurious = self.sum(&TCP_DSACK_RECEIVED).unwrap_or(0.0).min(all - fast - syn);
        Ok((all - fast - syn - spurious) * RETRANSMIT_TIMEOUT_S + fast * rtt_s)
    }

    /// Share of request time that stands still in retransmission timers anywhere on the path. Work cannot explain that
    /// part.
    pub fn stalled_share(&self) -> f64 {
        let n = self.in_flight().unwrap_or(f64::INFINITY);
        let hops = Hop::path(self.hop.run).into_iter().chain(Hop::generator(self.hop.run));
        let readers: Vec<_> = hops.map(|hop| Reader { hop, trial: self.trial }).collect();
        let most = |read: &dyn Fn(&Reader<'a>) -> Result<f64, Gap>| {
            readers.iter().filter_map(|r| read(r).ok()).fold(0.0, f64::max)
        };
        let syn = most(&|r| Ok(r.sum(&TCP_SYN_RETRANSMITS)? * SYN_TIMEOUT_S));
        let data = most(&|r| r.retransmit_stall());
        ((syn + data) / n).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lab;
    use prony_model::SeriesKey;

    #[test]
    fn what_a_healthy_proxy_shows() {
        let run = Lab::healthy().run();
        let lb = Hop { run: &run, name: "lb" };
        let at = lb.at(Level::At).unwrap();
        assert!((at.cpu().unwrap().busy_share() - 0.97).abs() < 1e-6);
        assert!((at.requests().unwrap() - 15_300.0).abs() < 1e-6);
        assert!((lb.other("s1").at(Level::At).unwrap().requests().unwrap() - 7_650.0).abs() < 1.0);
        assert!((at.in_flight().unwrap() - 64.0).abs() < 0.1);
        assert!((at.cpu_us_per_request().unwrap() - 63.4).abs() < 0.1, "{:?}", at.cpu_us_per_request());
        assert!(lb.shares_cpu_with(&lb) && !lb.shares_cpu_with(&lb.other("s1")));
        assert_eq!(at.stalled_share(), 0.0);
    }

    #[test]
    fn workers_that_a_tried_remedy_started_do_not_count() {
        let mut run = Lab::healthy().run();
        let workers = Hop { run: &run, name: "lb" }.workers().len();
        let later = run.trials.iter().map(|trial| trial.window.to_ns).max().unwrap() + 1;
        for (metric, value) in [(&PROC_RUN, 9.0), (&PROC_IS_WORKER, 1.0)] {
            let key = SeriesKey { host: "lb".into(), metric: metric.name.into(), item: "4711".into() };
            run.series.push(key, later, value);
        }
        assert_eq!(Hop { run: &run, name: "lb" }.workers().len(), workers);
        run.trials.clear();
        assert_eq!(Hop { run: &run, name: "lb" }.workers().len(), workers + 1, "without a level all that ran");
    }

    #[test]
    fn a_parent_that_works_as_its_children_do_is_a_worker() {
        let workers = |parent: f64, role: Role| {
            let lab = Lab::healthy().own("lb", 0.4).gauge("lb", &PROC_IS_WORKER, "101", 1.0);
            let mut lab = lab.per_second("lb", &PROC_RUN, "100", parent).gauge("lb", &PROC_IS_WORKER, "100", 0.0);
            lab.stack.host.get_mut("lb").unwrap().role = role;
            Hop { run: &lab.run(), name: "lb" }.workers().len()
        };
        assert_eq!(workers(0.005, Role::Proxy), 1, "a master");
        assert_eq!(workers(0.15, Role::App), 1);
        assert_eq!(workers(0.25, Role::App), 2);
        assert_eq!(workers(0.25, Role::Database), 1, "it starts a process for each connection");
    }

    #[test]
    fn what_was_not_read_is_a_gap() {
        let run = Lab::healthy().without("lb", &TCP_RETRANSMITS).run();
        let gap = Hop { run: &run, name: "lb" }.summary(&TCP_RETRANSMITS).unwrap_err();
        assert_eq!((gap.fact.as_str(), gap.host.as_str()), ("tcp.retransmits", "lb"));
    }
}
