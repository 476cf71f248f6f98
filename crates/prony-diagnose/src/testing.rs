//! Synthetic runs for tests: a healthy proxy stack with realistic figures, changed line by line.
//!
//! Figures are those of a two-CPU machine with the stack of `labs/proxy.toml`: client, lb (CPU 0), s1 and s2 (CPU 1).
//! Counters are given per second, gauges as they are, each for the levels below, at and beyond.

use crate::cause::{Finding, Judgement};
use crate::facts::Hop;
use prony_model::load::ThreadUse;
use prony_model::metric::*;
use prony_model::run::Inventory;
use prony_model::{
    Arrivals, ErrorCounts, Latency, Level, LoadPlan, LoadResult, Metric, MetricKind, Nanos, Purpose, Rate, Run,
    SeriesKey, Stack, Trial, Window,
};
use std::collections::BTreeMap;

mod chain;

const STACK: &str = r#"
name = "nginx proxy, two file servers"
entry = "http://10.77.0.2:8080/616"
[host.client]
role = "generator"
at = "netns:client"
cpus = "1"
[host.lb]
role = "proxy"
at = "netns:lb"
cpus = "0"
software = "nginx"
addr = "10.77.0.2"
logs = { access = "/run/lb/access.log", error = "/run/lb/error.log" }
calls = ["s1", "s2"]
[host.s1]
role = "server"
at = "netns:s1"
cpus = "1"
software = "nginx"
addr = "10.77.0.11"
[host.s2]
role = "server"
at = "netns:s2"
cpus = "1"
software = "nginx"
addr = "10.77.0.12"
"#;

/// Values below, at and beyond the knee.
pub type Levels = [f64; 3];

/// A run in the making.
#[derive(Clone)]
pub struct Lab {
    /// The stack.
    pub stack: Stack,
    /// Requests per second.
    pub x: Levels,
    /// Connections.
    pub n: Levels,
    /// Mean response time in microseconds.
    pub r_us: Levels,
    /// CPUs that the generator's one thread uses.
    pub generator: f64,
    /// Open loop at this rate at the level `at`.
    pub rate: Option<f64>,
    /// Share of requests that are answered with an error.
    pub failing: f64,
    /// The status of these answers, where the test is about it.
    pub failing_with: Option<u16>,
    /// Values by host, metric and item.
    pub values: BTreeMap<(String, String, String), Levels>,
    /// Settings of hosts, as the inventory has them.
    pub settings: BTreeMap<String, BTreeMap<String, String>>,
}

impl Lab {
    /// 64 connections, 15,300 requests/s, CPU 0 full of lb, CPU 1 half idle: an honest limit.
    pub fn healthy() -> Self {
        let mut lab = Self {
            stack: Stack::parse("stack.toml", STACK).unwrap(),
            x: [7_650.0, 15_300.0, 15_400.0],
            n: [64.0, 64.0, 128.0],
            r_us: [400.0, 64.0 / 15_300.0 * 1e6, 128.0 / 15_400.0 * 1e6],
            generator: 0.15,
            rate: None,
            failing: 0.0,
            failing_with: None,
            values: BTreeMap::new(),
            settings: BTreeMap::new(),
        }
        .cpu("0", 0.35, 0.35, 0.27)
        .cpu("1", 0.2, 0.2, 0.1);
        for host in ["lb", "s1", "s2"] {
            let half = if host == "lb" { 15_300.0 } else { 7_650.0 };
            lab = lab
                .own(host, if host == "lb" { 0.7 } else { 0.1 })
                .per_second(host, &TCP_PASSIVE_OPENS, "", 10.0)
                .per_second(host, &TCP_ACTIVE_OPENS, "", if host == "lb" { 27.5 } else { 0.0 })
                .per_second(host, &TCP_IN_SEGMENTS, "", half * 3.0)
                .per_second(host, &TCP_OUT_SEGMENTS, "", half * 3.0)
                .per_second(host, &TCP_ORIGINAL_SENT, "", half * 2.0)
                .gauge(host, &SOCK_TIME_WAIT, "", 2.0)
                .gauge(host, &PORT_RANGE, "", 28_232.0)
                .gauge(host, &CONN_IN, "80", if host == "lb" { 64.0 } else { 30.0 })
                .gauge(host, &CONN_IN_BUSY, "80", if host == "lb" { 60.0 } else { 0.4 })
                .gauge(host, &PRICE_CONNECT, "", 40.0)
                .gauge(host, &PRICE_LOG_WRITE, "", 2.0)
                .gauge(host, &QDISC_BACKLOG, "eth0 noqueue", 0.0)
                .gauge(host, &IF_RPS_CPUS, "eth0", 0.0)
                .gauge(host, &IF_RX_QUEUES, "eth0", 1.0)
                .gauge(host, &LOOK_WAIT, "ep_poll", 0.1)
                .per_second(host, &IF_TX_BYTES, "eth0", half * 1_700.0)
                .per_second(host, &IF_TX_PACKETS, "eth0", half * 3.0);
            for quiet in QUIET {
                lab = lab.per_second(host, quiet, if quiet.item.is_empty() { "" } else { "eth0 noqueue" }, 0.0);
            }
            for cpu in ["0", "1"] {
                lab = lab.per_second(host, &SOFTNET_PROCESSED, cpu, 90_000.0).per_second(
                    host,
                    &SOFTNET_STEERED,
                    cpu,
                    0.0,
                );
            }
            lab = lab.quiet_host(host);
        }
        for host in ["lb", "s1", "s2"] {
            lab = lab
                .profiled(host, HEALTHY_PROFILE)
                .gauge(host, &LOCK_WAIT, "[short]", 0.0)
                .gauge(host, &THREAD_COUNT, "", 1.0)
                .gauge(host, &THREAD_ASLEEP, "ep_poll", 0.1)
                .gauge(host, &THREAD_SLEEPS, "ep_poll", 900.0);
        }
        lab.gauge("lb", &CONN_OUT_WAITING, "10.77.0.11:80", 1.0)
            .gauge("lb", &CONN_OUT_WAITING, "10.77.0.12:80", 1.0)
            .gauge("lb", &CONN_OUT_RETRANSMITS, "10.77.0.11:80", 0.0)
            .per_second("lb", &LOG_SIZE, "/run/lb/access.log", 15_300.0 * 300.0)
            .gauge("lb", &LOOK_LOG_STEP, "/run/lb/access.log", 65_400.0)
            .gauge("lb", &LOOK_LOG_LINE, "/run/lb/access.log", 300.0)
    }

    /// What kernel, network and machine show of a host that is well.
    fn quiet_host(self, host: &str) -> Self {
        let mut lab = self
            .gauge(host, &PACKET_SOCKETS, "", 0.0)
            .gauge(host, &CONNTRACK_ENTRIES, "", 200.0)
            .gauge(host, &CONNTRACK_MAX, "", 65_536.0)
            .gauge(host, &IF_MTU, "eth0", 1_500.0)
            .gauge(host, &CONN_MIN_RTT, "80", 60.0)
            .gauge(host, &CONN_STUCK, "80", 0.0)
            .gauge(host, &CONN_HELD, "80", 0.0)
            .per_second(host, &CONN_WINDOW_LIMITED, "80", 0.0)
            .per_second(host, &CONN_BUFFER_LIMITED, "80", 0.0)
            .per_second(host, &DISK_BUSY, "vda", 0.01)
            .per_second(host, &DISK_WRITES, "vda", 20.0)
            .per_second(host, &DISK_FLUSHES, "vda", 0.5)
            .per_second(host, &UDP_OUT, "", 0.1)
            .per_second(host, &UDP_IN, "", 0.1)
            .per_second(host, &SELF_CPU, "", 0.005);
        for feature in ["gro", "gso", "tso"] {
            lab = lab.gauge(host, &IF_OFFLOAD, &format!("eth0 {feature}"), 1.0);
        }
        for cpu in ["0", "1"] {
            lab = lab
                .per_second(host, &SOFTNET_DROPPED, cpu, 0.0)
                .per_second(host, &SOFTNET_SQUEEZED, cpu, 2.0)
                .gauge(host, &CPU_MHZ, cpu, 2_900.0)
                .gauge(host, &CPU_MHZ_MAX, cpu, 3_000.0);
        }
        lab
    }

    /// The time of one CPU, seen by every host of the machine.
    pub fn cpu(mut self, cpu: &str, user: f64, system: f64, softirq: f64) -> Self {
        let idle = (1.0 - user - system - softirq).max(0.0);
        let hosts: Vec<String> = self.stack.host.keys().cloned().collect();
        for host in hosts.iter().map(String::as_str) {
            self = self
                .per_second(host, &CPU_USER, cpu, user)
                .per_second(host, &CPU_SYSTEM, cpu, system)
                .per_second(host, &CPU_SOFTIRQ, cpu, softirq)
                .levels(host, &CPU_IDLE, cpu, [(1.0 + idle) / 2.0, idle, idle]);
        }
        self
    }

    /// CPUs that a hop's one worker uses.
    pub fn own(self, host: &str, cpus: f64) -> Self {
        self.per_second(host, &CGROUP_USAGE, "", cpus).worker(host, "101", cpus)
    }

    /// One worker.
    pub fn worker(self, host: &str, pid: &str, cpus: f64) -> Self {
        self.per_second(host, &PROC_RUN, pid, cpus)
            .per_second(host, &PROC_RUN_DELAY, pid, 0.01)
            .gauge(host, &PROC_IS_WORKER, pid, 1.0)
            .gauge(host, &PROC_TRACER, pid, 0.0)
            .gauge(host, &PROC_DESCRIPTORS, pid, 150.0)
            .gauge(host, &PROC_DESCRIPTOR_LIMIT, pid, 1024.0)
            .gauge(host, &PROC_DISK_SLEEP, pid, 0.0)
            .per_second(host, &PROC_MAJOR_FAULTS, pid, 0.0)
            .gauge(host, &PROC_AFFINITY, &format!("{pid} 0-1"), 2.0)
    }

    /// What the deep look saw the hop's CPUs run: functions, their libraries, their shares. Takes the place of what was seen
    /// before.
    pub fn profiled(mut self, host: &str, functions: &[(&str, &str, f64)]) -> Self {
        self.values.retain(|(h, m, _), _| h != host || !m.starts_with("profile."));
        let mut modules: BTreeMap<&str, f64> = BTreeMap::new();
        self = self.gauge(host, &PROFILE_SAMPLES, "", 3_000.0).gauge(host, &PROFILE_LOST, "", 0.0);
        for (function, module, share) in functions {
            *modules.entry(module).or_default() += share;
            self = self.gauge(host, &PROFILE_SELF, function, *share).gauge(host, &PROFILE_TOTAL, function, *share);
        }
        modules.into_iter().fold(self, |lab, (module, share)| lab.gauge(host, &PROFILE_MODULE, module, share))
    }

    /// A host that is the machine itself, and no namespace of it.
    pub fn local(mut self, host: &str) -> Self {
        self.stack.host.get_mut(host).unwrap().at = prony_model::Place::Local;
        self
    }

    /// A setting of a host or its server, by its name in the inventory.
    pub fn setting(mut self, host: &str, name: &str, value: &str) -> Self {
        self.settings.entry(host.to_string()).or_default().insert(name.to_string(), value.to_string());
        self
    }

    /// A value for each level.
    pub fn levels(mut self, host: &str, metric: &Metric, item: &str, values: Levels) -> Self {
        self.values.insert((host.into(), metric.name.into(), item.into()), values);
        self
    }

    /// A counter that grows so fast at the knee, and half as fast below it.
    pub fn per_second(self, host: &str, metric: &Metric, item: &str, rate: f64) -> Self {
        self.levels(host, metric, item, [rate / 2.0, rate, rate])
    }

    /// A gauge that does not move.
    pub fn gauge(self, host: &str, metric: &Metric, item: &str, value: f64) -> Self {
        self.levels(host, metric, item, [value; 3])
    }

    /// Throughput at the knee (half below it, the same beyond) and the response time that N connections make of it.
    pub fn throughput(mut self, x: f64) -> Self {
        self.x = [x / 2.0, x, x];
        self.r_us = [self.r_us[0], self.n[1] / x * 1e6, self.n[2] / x * 1e6];
        self
    }

    /// This share of the requests is answered with an error.
    pub fn failing(mut self, share: f64) -> Self {
        self.failing = share;
        self
    }

    /// This share of the requests is answered with this status.
    pub fn answering(self, status: u16, share: f64) -> Self {
        Self { failing_with: Some(status), ..self.failing(share) }
    }

    /// The load balancer finds no live upstream for this share of its requests: they fail, with a line in its error log each.
    pub fn refusing(self, share: f64) -> Self {
        let per_s = share * self.x[1];
        let lab = self.per_second("lb", &ERROR_LOG_LINES, "", per_s);
        lab.per_second("lb", &ERROR_LOG_NO_LIVE_UPSTREAMS, "", per_s).failing(share)
    }

    /// The metric was not read on that host.
    pub fn without(mut self, host: &str, metric: &Metric) -> Self {
        self.values.retain(|(h, m, _), _| h != host || m != metric.name);
        self
    }

    /// The recorded run.
    pub fn run(&self) -> Run {
        let inventory = self.settings.clone().into_iter().map(|(host, facts)| Inventory { host, facts }).collect();
        let mut run = Run { stack: self.stack.clone(), inventory, ..Run::default() };
        let purposes = [
            Purpose::Level { level: Level::Below },
            Purpose::Level { level: Level::At },
            Purpose::Level { level: Level::Beyond },
            Purpose::Inspect,
        ];
        for (i, purpose) in purposes.into_iter().enumerate() {
            let column = if i == 3 { 1 } else { i };
            run.trials.push(self.trial(i, column, purpose));
        }
        for ((host, metric, item), levels) in &self.values {
            let kind = find(metric).unwrap().kind;
            let key = SeriesKey { host: host.clone(), metric: metric.clone(), item: item.clone() };
            let mut count = 1_000.0;
            for trial in &run.trials {
                let value = levels[if trial.id == 3 { 1 } else { trial.id as usize }];
                for step in 0..=2 {
                    let at_ns = trial.window.from_ns + step * 1_000_000_000;
                    let now = if kind == MetricKind::Gauge { value } else { count + value * step as f64 };
                    run.series.push(key.clone(), at_ns, now);
                }
                count += value * 2.0;
            }
        }
        run
    }

    fn trial(&self, number: usize, level: usize, purpose: Purpose) -> Trial {
        let from_ns = 1_000_000_000 + number as u64 * 3_000_000_000;
        let rate = if level == 0 { Some(self.x[0]) } else { self.rate.map(|r| if level == 2 { 1.5 * r } else { r }) };
        let plan = LoadPlan {
            connections: self.n[level] as u32,
            rate: rate.map(Rate),
            arrivals: Arrivals::Constant,
            warmup: Nanos(0),
            duration: Nanos::from_millis(2_000),
            ..LoadPlan::to(&self.stack.entry)
        };
        let latency = Latency { mean_us: self.r_us[level], p99_us: self.r_us[level] * 3.0, ..Latency::default() };
        let cpu_us = self.generator * if level == 0 { 0.5e6 } else { 1e6 };
        let result = LoadResult {
            duration_s: 2.0,
            intended: (rate.unwrap_or(self.x[level]) * 2.0) as u64,
            completed: (self.x[level] * 2.0) as u64,
            errors: ErrorCounts { status: (self.x[level] * 2.0 * self.failing) as u64, ..ErrorCounts::default() },
            statuses: self
                .failing_with
                .map(|code| (code, (self.x[level] * 2.0 * self.failing) as u64))
                .into_iter()
                .collect(),
            good_per_s: self.x[level] * (1.0 - self.failing),
            completed_per_s: self.x[level],
            latency: latency.clone(),
            latency_actual: latency,
            threads: vec![ThreadUse {
                user_us: cpu_us,
                system_us: cpu_us,
                wall_us: 2e6,
                waited_us: None,
                spun_us: 0.0,
            }],
            ..LoadResult::default()
        };
        let window = Window { from_ns, to_ns: from_ns + 2_000_000_000 };
        Trial { id: number as u32, purpose, plan, window, result }
    }
}

/// What a proxy of small answers runs. Measured: `labs/proxy.toml`, nginx 1.22, rounded.
const HEALTHY_PROFILE: &[(&str, &str, f64)] = &[
    ("_raw_spin_unlock_irqrestore", "kernel", 0.12),
    ("tcp_v4_rcv", "kernel", 0.08),
    ("__local_bh_enable_ip", "kernel", 0.2),
    ("do_syscall_64", "kernel", 0.26),
    ("[nginx]", "nginx", 0.2),
    ("ngx_http_parse_header_line", "nginx", 0.03),
    ("ngx_http_core_find_location", "nginx", 0.01),
    ("[libc.so.6]", "libc.so.6", 0.08),
    ("[libcrypto.so.3]", "libcrypto.so.3", 0.005),
];

/// Counters that stand still on a healthy host.
const QUIET: &[&Metric] = &[
    &TCP_RETRANSMITS,
    &TCP_SYN_RETRANSMITS,
    &TCP_FAST_RETRANSMITS,
    &TCP_LISTEN_OVERFLOWS,
    &TCP_SYN_QUEUE_DROPS,
    &CGROUP_THROTTLED_TIME,
    &CGROUP_OOM_KILLS,
    &ERROR_LOG_LINES,
    &ERROR_LOG_NO_PORT,
    &ERROR_LOG_NO_WORKER_CONNECTIONS,
    &ERROR_LOG_NO_DESCRIPTORS,
    &ERROR_LOG_NO_LIVE_UPSTREAMS,
    &ERROR_LOG_TEMP_FILE,
    &ERROR_LOG_LIMITING,
    &ERROR_LOG_DELAYING,
    &CGROUP_MEMORY_LIMIT_HITS,
    &CONNTRACK_DROPS,
    &QDISC_DROPS,
    &QDISC_OVERLIMITS,
];

/// What a cause finds at a hop of a lab.
pub fn finding(id: &str, host: &str, lab: &Lab) -> Option<Finding> {
    let run = lab.run();
    let cause = crate::CAUSES.iter().find(|c| c.id == id).unwrap();
    match (cause.check)(&Hop { run: &run, name: host }).unwrap() {
        Judgement::Fires(finding) => Some(*finding),
        Judgement::Silent(_) => None,
    }
}

/// Its score, or 0 when it is silent.
pub fn score(id: &str, host: &str, lab: &Lab) -> f64 {
    finding(id, host, lab).map_or(0.0, |f| f.score)
}

/// Every case builds a whole run, so few of them.
pub fn few_cases() -> proptest::test_runner::Config {
    proptest::test_runner::Config::with_cases(24)
}

/// Tests that more of what `lab` takes never scores less. Stands in the tests of a cause.
macro_rules! monotonic {
    ($lab:path, $range:expr) => {
        monotonic!($lab, $range, "lb");
    };
    ($lab:path, $range:expr, $host:literal) => {
        proptest::proptest! {
            #![proptest_config(crate::testing::few_cases())]
            #[test]
            fn monotonic(a in $range, b in $range) {
                let (less, more): (f64, f64) = (a, b);
                let (less, more) = (less.min(more), less.max(more));
                proptest::prop_assert!(score(CAUSE.id, $host, &$lab(less)) <= score(CAUSE.id, $host, &$lab(more)) + 1e-9);
            }
        }
    };
}
pub(crate) use monotonic;
