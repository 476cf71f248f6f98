//! A run as a proxy lab gives it, made up figure by figure: nothing here was measured.
//!
//! Used by the tests and by `cargo run -p prony-report --example sample`, which draws it. Deterministic.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a sample that does not stand is a failed test")]

use prony_model::comparison::{Difference, EarlierAa};
use prony_model::diagnosis::{Against, EvidenceVerdict, GroundingTest, Moved, Remedy, WalkStep};
use prony_model::knob::ChangeState;
use prony_model::load::{Gate, ThreadUse};
use prony_model::metric::{self, Metric};
use prony_model::proof::Guard;
use prony_model::run::{Arm, Cost, HostCost, Inventory, RunEnd};
use prony_model::*;
use prony_stats::Histogram;
use std::collections::BTreeMap;

const STACK: &str = r#"
name = "nginx proxy, two file servers"
entry = "http://10.77.0.2:8080/1232"
[host.client]
role = "generator"
at = "netns:client"
cpus = "1"
[host.lb]
role = "proxy"
at = "netns:lb"
cpus = "0"
software = "nginx"
calls = ["s1", "s2"]
[host.s1]
at = "netns:s1"
cpus = "1"
software = "nginx"
[host.s2]
at = "netns:s2"
cpus = "1"
software = "nginx"
[workload]
connections = 128
[slo]
p99 = "25ms"
errors = "0.1%"
"#;

/// The whole loop: a cause found at `lb`, mended, proven, undone.
pub fn whole() -> Run {
    let mut run = Run {
        id: "20261120-231501-7f3a".into(),
        version: "0.1.0".into(),
        command: "prony prove labs/proxy-upstream-keepalive-off.toml".into(),
        started_unix_ms: 1_795_216_501_000,
        stack: Stack::parse("sample.toml", STACK).unwrap(),
        inventory: inventory(),
        end: RunEnd::Done,
        ..Run::default()
    };
    run.interventions = interventions();
    let mut at_s = 4.0;
    let below = plan(64, Some(6000.0));
    trial(&mut run, &mut at_s, Purpose::Level { level: Level::Below }, below, 5998.0, 1900.0, 4.0);
    trial(&mut run, &mut at_s, Purpose::Level { level: Level::At }, plan(128, None), 12_412.0, 9_800.0, 4.0);
    trial(&mut run, &mut at_s, Purpose::Level { level: Level::Beyond }, plan(256, None), 12_240.0, 20_300.0, 4.0);
    for (pair, x) in [12_380.0, 12_440.0, 12_301.0].into_iter().enumerate() {
        let purpose = |arm| Purpose::Intervention { index: 0, pair: pair as u32, arm };
        trial(&mut run, &mut at_s, purpose(Arm::A), plan(128, None), x, 9_800.0, 2.0);
        trial(&mut run, &mut at_s, purpose(Arm::B), plan(128, None), x * 0.79, 12_100.0, 2.0);
    }
    let pairs = [
        (12_390.0, 20_310.0),
        (12_460.0, 20_122.0),
        (12_288.0, 20_480.0),
        (12_511.0, 20_255.0),
        (12_342.0, 19_980.0),
        (12_405.0, 20_371.0),
        (12_377.0, 20_290.0),
        (12_430.0, 20_188.0),
    ];
    for (block, (a, b)) in pairs.into_iter().enumerate() {
        let mut arms = [(Arm::A, a, 9_800.0), (Arm::B, b, 5_900.0)];
        if block % 3 == 1 {
            arms.reverse();
        }
        for (arm, x, p50) in arms {
            trial(&mut run, &mut at_s, Purpose::Proof { block: block as u32, arm }, plan(128, None), x, p50, 2.0);
        }
    }
    run.diagnosis = Some(diagnosis(&run));
    run.proof = Some(proof(&run));
    run.changes = changes();
    run.gaps = gaps();
    run.cost = cost(at_s);
    run.stacks = vec![stacks("s1", 300), stacks("lb", 2_000)];
    run
}

/// A run before the one of [`whole`]: its log wrote at every request, and less of the time went to sockets.
pub fn earlier() -> Run {
    let folded = "nginx;main;ngx_worker_process_cycle;ngx_http_parse_header_line 100\n\
         nginx;main;ngx_worker_process_cycle;ngx_http_log_handler;write;do_syscall_64_[k];vfs_write_[k] 500\n\
         nginx;main;ngx_worker_process_cycle;writev;do_syscall_64_[k];tcp_sendmsg_[k] 200\n\
         soft interrupts_[k];handle_softirqs_[k];tcp_v4_rcv_[k] 200\n";
    let stacks = Stacks { host: "lb".into(), at_ns: 0, samples_per_s: 997, stacks: Stacks::parse(folded) };
    Run { id: "20261119-101500-11aa".into(), stacks: vec![stacks], ..whole() }
}

fn stacks(host: &str, samples: u64) -> Stacks {
    let folded = format!(
        "nginx;main;ngx_worker_process_cycle;ngx_http_parse_header_line {}\n\
         nginx;main;ngx_worker_process_cycle;writev;do_syscall_64_[k];tcp_sendmsg_[k] {}\n\
         soft interrupts_[k];handle_softirqs_[k];tcp_v4_rcv_[k] {}\n",
        samples / 10,
        samples / 2,
        samples * 4 / 10,
    );
    Stacks { host: host.into(), at_ns: 0, samples_per_s: 997, stacks: Stacks::parse(&folded) }
}

/// A plain load on a URL: no stack, no diagnosis; the generator was the limit.
pub fn only_url() -> Run {
    let mut run = Run {
        id: "20261120-231900-0001".into(),
        version: "0.1.0".into(),
        command: "prony load -c 64 -d 2s http://127.0.0.1:8080/".into(),
        started_unix_ms: 1_795_216_740_000,
        stack: Stack::from_url("http://127.0.0.1:8080/"),
        end: RunEnd::Done,
        ..Run::default()
    };
    trial(&mut run, &mut 0.0, Purpose::Load, plan(64, None), 151_000.0, 400.0, 2.0);
    run.series = SeriesSet::default();
    run.trials[0].plan.url = run.stack.entry.clone();
    let result = &mut run.trials[0].result;
    result.gates.push(gate("cpu", false, "generator threads used 97 % of a CPU; at most 90 % is allowed", true));
    run.gaps =
        vec![Gap::new("host facts", "", "only a URL was given: name the hosts in a stack file to see what stops them")];
    run
}

/// Interrupted before the diagnosis, after the first level.
pub fn interrupted() -> Run {
    let mut run = whole();
    run.trials.truncate(1);
    run.trials[0].result.interrupted = true;
    (run.diagnosis, run.proof, run.end) = (None, None, RunEnd::Interrupted);
    run.interventions.clear();
    run.changes.clear();
    run.cost = Cost::default();
    run
}

/// A diagnosis without a proof, not grounded.
pub fn no_proof() -> Run {
    let mut run = whole();
    run.proof = None;
    run.changes.clear();
    run.trials.retain(|t| !matches!(t.purpose, Purpose::Proof { .. } | Purpose::Intervention { .. }));
    let diagnosis = run.diagnosis.as_mut().unwrap();
    diagnosis.verdict.grounded = false;
    diagnosis.verdict.confidence = Confidence::Medium;
    diagnosis.verdict.grounding[3].holds = false;
    diagnosis.verdict.grounding[3].detail =
        "no intervention was possible: no control group can be made without root".into();
    diagnosis.interventions.clear();
    run.interventions.clear();
    run
}

/// Nothing but gaps.
pub fn only_gaps() -> Run {
    let mut run = Run {
        id: "x".into(),
        end: RunEnd::Failed { reason: "connection refused by 10.77.0.2:8080".into() },
        ..Run::default()
    };
    run.stack = Stack::parse("sample.toml", STACK).unwrap();
    run.gaps = gaps();
    run
}

/// The whole loop with texts that try to become markup, script or terminal commands.
pub fn hostile() -> Run {
    let mut run = whole();
    let bad = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">'\"`|\u{1b}[31m\u{2028}__PRONY_DATA__";
    run.stack.name = bad.into();
    run.command = bad.into();
    run.gaps.push(Gap::new(bad, bad, bad));
    run.inventory[0].facts.insert(bad.into(), bad.into());
    run.changes[0].diff = bad.into();
    let diagnosis = run.diagnosis.as_mut().unwrap();
    diagnosis.verdict.summary = bad.into();
    diagnosis.verdict.cause = bad.into();
    diagnosis.evidence[0].claim = bad.into();
    diagnosis.evidence[0].value = f64::NAN;
    diagnosis.excluded[0].because = bad.into();
    run.stacks[1].stacks[0].frames[1] = bad.into();
    let proof = run.proof.as_mut().unwrap();
    (proof.effect.low, proof.effect.high) = (f64::NEG_INFINITY, f64::INFINITY);
    proof.summary = bad.into();
    run
}

/// A plan of a closed loop, or of an open loop when a rate is given.
pub fn plan(connections: u32, rate_per_s: Option<f64>) -> LoadPlan {
    LoadPlan {
        connections,
        threads: 1,
        cpus: vec![1],
        rate: rate_per_s.map(Rate),
        warmup: Nanos::from_millis(500),
        duration: Nanos::from_millis(4000),
        seed: 7,
        ..LoadPlan::to("http://10.77.0.2:8080/1232")
    }
}

/// A gate.
pub fn gate(name: &str, held: bool, detail: &str, generator_limited: bool) -> Gate {
    Gate { name: name.into(), held, detail: detail.into(), generator_limited }
}

/// A skewed distribution around a median: most values near it, a tail of one in a hundred at three times.
fn latency(count: u64, p50_us: f64) -> Latency {
    let mut histogram = Histogram::new();
    for i in 0..count {
        let u = (i as f64 + 0.5) / count as f64;
        let value_us = p50_us * (0.35 * (u / (1.0 - u)).ln()).exp();
        histogram.record_ns((value_us * 1e3) as u64);
    }
    histogram.to_latency()
}

/// A result at a rate with a median.
pub fn result(good_per_s: f64, p50_us: f64, seconds: f64) -> LoadResult {
    let completed = (good_per_s * seconds) as u64;
    let latency = latency(completed.min(20_000), p50_us);
    LoadResult {
        duration_s: seconds,
        intended: completed,
        sent: completed,
        completed,
        good_per_s,
        completed_per_s: good_per_s,
        bytes_in: completed * 1480,
        bytes_out: completed * 96,
        connections_opened: 0,
        statuses: BTreeMap::from([(200, completed)]),
        latency_actual: latency.clone(),
        latency,
        per_second: (0..seconds as u64).map(|s| (good_per_s * (1.0 + 0.01 * (s % 3) as f64)) as u64).collect(),
        threads: vec![ThreadUse {
            user_us: seconds * 2.1e5,
            system_us: seconds * 4.2e5,
            wall_us: seconds * 1e6,
            waited_us: None,
            spun_us: 0.0,
        }],
        in_flight_mean: 127.4,
        gates: vec![gate("cpu", true, "generator threads used 63 % of a CPU; at most 90 % is allowed", true)],
        ..LoadResult::default()
    }
}

/// Adds a trial and what the hosts showed meanwhile.
fn trial(run: &mut Run, at_s: &mut f64, purpose: Purpose, plan: LoadPlan, good_per_s: f64, p50_us: f64, seconds: f64) {
    let window = Window { from_ns: (*at_s * 1e9) as u64, to_ns: ((*at_s + seconds) * 1e9) as u64 };
    let busy = (good_per_s / 12_412.0).min(1.0);
    let faster = good_per_s > 15_000.0;
    // Seconds of each kind per second of CPU 0 (lb) and CPU 1 (everything else).
    let zero = if faster { [0.31, 0.46, 0.20] } else { [0.19 * busy, 0.52 * busy, 0.26 * busy] };
    let one = [0.22 * busy, 0.31 * busy, 0.09 * busy];
    for end in [window.from_ns, window.to_ns] {
        let t = end as f64 / 1e9;
        for (host, own) in
            [("client", 0.63), ("lb", zero.iter().sum::<f64>() - 0.06 * busy), ("s1", 0.09), ("s2", 0.09)]
        {
            let mut sample = Sample { host: host.into(), at_ns: end, values: vec![] };
            for (cpu, [user, system, softirq]) in [("0", zero), ("1", one)] {
                let mut push = |metric: &Metric, share: f64| sample.push(metric, cpu, share * t);
                push(&metric::CPU_USER, user);
                push(&metric::CPU_SYSTEM, system);
                push(&metric::CPU_SOFTIRQ, softirq);
                push(&metric::CPU_IRQ, 0.004);
                push(&metric::CPU_IDLE, (0.996 - user - system - softirq).max(0.0));
            }
            if host != "client" {
                sample.push(&metric::PROC_USER, "4711", 0.3 * own * t);
                sample.push(&metric::PROC_SYSTEM, "4711", 0.7 * own * t);
            }
            // Counters of one trial start anew: each window is read on its own.
            for (metric, item, value) in sample.values {
                run.series.push(prony_model::SeriesKey { host: host.into(), metric, item }, end, value);
            }
        }
    }
    let id = run.trials.len() as u32;
    run.trials.push(Trial { id, purpose, plan, window, result: result(good_per_s, p50_us, seconds) });
    *at_s += seconds + 1.0;
}

/// `values`: under load, calm, border.
fn evidence(claim: &str, metric: &str, host: &str, unit: &str, values: [f64; 3], origin: &str) -> Evidence {
    Evidence {
        claim: claim.into(),
        metric: metric.into(),
        host: host.into(),
        value: values[0],
        unit: unit.into(),
        baseline: Some(values[1]),
        threshold: Some(values[2]),
        origin: origin.into(),
        verdict: EvidenceVerdict::Supports,
    }
}

fn grounding(test: &str, detail: &str) -> GroundingTest {
    GroundingTest { test: test.into(), holds: true, detail: detail.into() }
}

fn remedy_knob() -> Knob {
    Knob { host: "lb".into(), id: KnobId::NginxUpstreamKeepalive, value: "64".into() }
}

fn diagnosis(run: &Run) -> Diagnosis {
    let excluded = |cause: &str, because: &str| Excluded { cause: cause.into(), because: because.into() };
    Diagnosis {
        schema: prony_model::diagnosis::SCHEMA.into(),
        verdict: Verdict {
            cause: "upstream-keepalive-off".into(),
            hop: "lb".into(),
            confidence: Confidence::High,
            at_rate: false,
            grounded: true,
            predicted_gain: Some(0.58),
            predicted_gain_low: Some(0.54),
            predicted_gain_high: Some(0.71),
            summary: "lb opens 1.00 connections to s1 and s2 for every request; opening and closing them costs 29 us of the 78 us of CPU time that lb spends per request, and its CPU is full.".into(),
            grounding: vec![
                grounding("structure", "lb calls s1 and s2 for every request of the workload"),
                grounding("deviation", "the CPU of lb goes from 49 % below the knee to 97 % at the limit"),
                grounding("order", "the CPU of lb fills before the latency of the path rises"),
                grounding("response", "20 % less CPU for lb costs 21 % throughput; 20 % less for s1 costs nothing"),
            ],
        },
        candidates: vec![
            Candidate { cause: "upstream-keepalive-off".into(), hop: "lb".into(), score: 0.37 },
            Candidate { cause: "cpu-saturated-kernel".into(), hop: "lb".into(), score: 0.22 },
        ],
        evidence: vec![
            evidence("lb opens a new connection to its upstreams for every request", "tcp.active_opens / request", "lb", "", [1.0003, 1.0001, 0.05], "causes.md 4: a pool that works stays below 0.05"),
            evidence("s1 accepts as many connections as it answers requests", "tcp.passive_opens / request", "s1", "", [0.998, 1.0, 0.05], "causes.md 4"),
            evidence("The CPU that lb may use is full", "cpu.busy", "lb", "share", [0.974, 0.491, 0.9], "a guess"),
            evidence("Opening and closing a connection is a large part of what lb spends per request", "price.connect / request", "lb", "us", [29.1, 29.0, 7.8], "10 % of the CPU time per request"),
            Evidence { baseline: None, threshold: None, verdict: EvidenceVerdict::Refutes, ..evidence("Few sockets wait in TIME_WAIT, so ports are not the limit yet", "sock.time_wait", "lb", "", [9_811.0, 0.0, 0.0], "") },
        ],
        excluded: vec![
            excluded("access-log-lock", "0 of 400 looks found a worker of lb waiting for a file lock"),
            excluded("access-log-unbuffered", "0.004 write() calls per request at lb; 1 would be unbuffered"),
            excluded("accept-queue-full", "0 overflows of the accept queue at lb, s1 and s2"),
            excluded("bandwidth-bound", "lb sends 147 Mbit/s; no queue discipline has a rate"),
            excluded("packet-loss", "0.000 % of segments sent again"),
            excluded("cpu-quota-throttled", "no control group of the path has a quota"),
            excluded("generator-saturated", "generator threads used 63 % of a CPU; at most 90 % is allowed"),
        ],
        interventions: run.interventions.clone(),
        gaps: vec![],
        remedies: vec![
            Remedy { advice: "Keep connections to the upstream open: `keepalive 64;` in the upstream block, `proxy_http_version 1.1;` and an empty `Connection` header.".into(), knob: Some(remedy_knob()) },
            Remedy { advice: "Give lb another CPU: that buys room, and leaves the waste where it is.".into(), knob: None },
        ],
        cost: Cost::default(),
        walk: vec![
            WalkStep { step: "symptom".into(), looked_at: "the load curve".into(), said: vec!["as written (64 connections): 12800 good requests/s, p50 4.90 ms, p99 9.10 ms".into()], ruled_out: vec![] },
            WalkStep { step: "counters".into(), looked_at: "every counter of lb, in a fixed order".into(), said: vec!["CPU: us 31, sy 44, si 22, st 0, wa 0, id 3 %".into()], ruled_out: vec!["packet-loss".into()] },
        ],
        against: Some(Against {
            run: "20261119-081500-1a2b".into(),
            good_per_s: 18_200.0,
            settings: vec![Difference { what: "nginx.keepalive".into(), hosts: vec!["lb".into()], a: Some("64".into()), b: None }],
            moved: vec![
                Moved { metric: "tcp.active_opens".into(), host: "lb".into(), unit: "/ request".into(), now: 1.0, good: 0.0, low: None, high: None },
                Moved { metric: "cpu.system".into(), host: "lb".into(), unit: "s / request".into(), now: 5.1e-5, good: 2.2e-5, low: Some(1.1), high: Some(1.5) },
            ],
        }),
    }
}

fn interventions() -> Vec<Intervention> {
    let one = |target: &str, what, control, dose, elasticity: f64, half: f64, pairs| Intervention {
        elasticity: Some(elasticity),
        low: Some(elasticity - half),
        high: Some(elasticity + half),
        pairs,
        ..Intervention::planned(target, what, control, dose)
    };
    vec![
        one("lb", InterventionKind::Cpu, false, 0.2, 1.06, 0.11, 8),
        one("s1", InterventionKind::Cpu, true, 0.2, -0.03, 0.09, 8),
        one("lb", InterventionKind::Removal { knob: remedy_knob(), also: Vec::new() }, false, 1.0, 0.63, 0.04, 4),
        Intervention { by_speed: Some(0.7), ..one("lb", InterventionKind::Cpu, false, 0.1, 0.93, 0.24, 8) },
    ]
}

fn effect(metric: &str, a: f64, b: f64, half: f64) -> Effect {
    let effect = if a > 0.0 { b / a - 1.0 } else { 0.0 };
    Effect {
        metric: metric.into(),
        a,
        b,
        effect,
        low: effect - half,
        high: effect + half,
        detectable: 0.011,
        p: 0.0078,
        pairs: 8,
        by_speed: None,
    }
}

fn proof(run: &Run) -> Proof {
    let guard = |effect, margin| Guard { effect, margin, held: true, broken: false };
    let of_trial = |t: &Trial| {
        let Purpose::Proof { arm, .. } = t.purpose else { return None };
        Some((arm, t.result.good_per_s))
    };
    Proof {
        knob: Some(remedy_knob()),
        verdict: ProofVerdict::Better,
        effect: effect("good_per_s", 12_400.0, 20_249.0, 0.014),
        guards: vec![
            guard(effect("p99_us", 48_900.0, 29_500.0, 0.03), 0.1),
            guard(effect("error_share", 0.0, 0.0, 0.001), 0.001),
            guard(effect("cpu_us_per_request", 78.2, 47.9, 0.02), 0.05),
        ],
        predicted_gain: Some(0.58),
        summary: "Throughput rises from 12,400 to 20,249 requests/s; predicted was +58 %.".into(),
        seed: 20_261_120,
        worth: Some(prony_stats::aa::worth(&[false, false], EarlierAa { experiments: 38, differ: 2, proofs: 19 })),
        trials: run.trials.iter().filter_map(of_trial).collect(),
    }
}

fn changes() -> Vec<Change> {
    vec![Change {
        knob: remedy_knob(),
        before: "no keepalive, HTTP/1.0 to the upstream".into(),
        permanent: "put the three lines marked + into /etc/nginx/nginx.conf, then `nginx -s reload`".into(),
        diff: "--- /etc/nginx/nginx.conf\n+++ /etc/nginx/nginx.conf\n@@ -12,6 +12,7 @@\n     upstream servers {\n         server 10.77.0.3:8080;\n         server 10.77.0.4:8080;\n+        keepalive 64;\n     }\n@@ -22,3 +23,5 @@\n         location / {\n             proxy_pass http://servers;\n+            proxy_http_version 1.1;\n+            proxy_set_header Connection \"\";\n".into(),
        state: ChangeState::Undone,
    }]
}

fn gaps() -> Vec<Gap> {
    let speed = "virtual links name no speed: say `lab.host.NAME.link.rate`, or measure it with `prony network`";
    vec![
        Gap::new("if.speed", "lb", speed),
        Gap::new("cgroup.quota", "lb", "the processes are in the root control group, which has no quota"),
        Gap::new("tcp.retransmits", "s2", "the namespace was gone when the last sample was due"),
        Gap::new("tcp.timeouts", "s2", "the namespace was gone when the last sample was due"),
        Gap::new("tcp.original_sent", "s2", "the namespace was gone when the last sample was due"),
        Gap::new("tcp.loss_probes", "s2", "the namespace was gone when the last sample was due"),
    ]
}

fn inventory() -> Vec<Inventory> {
    let facts = |host: &str, more: &[(&str, &str)]| Inventory {
        host: host.into(),
        facts: [("cpus", "2"), ("kernel", "6.18.0"), ("cpu.model", "EPYC")]
            .iter()
            .chain(more)
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
    };
    vec![
        facts("client", &[]),
        facts("lb", &[("nginx.version", "1.22.1"), ("sysctl.net.core.somaxconn", "4096")]),
        facts("s1", &[("nginx.version", "1.18.0")]),
        facts("s2", &[("nginx.version", "1.22.1")]),
    ]
}

fn cost(wall_s: f64) -> Cost {
    let host = |share: f64, us: f64| HostCost { observe_cpu_share: Some(share), cpu_us_per_request: Some(us) };
    Cost {
        generator_cpu_us_per_request: Some(4.9),
        hosts: BTreeMap::from([
            ("client".to_string(), HostCost { observe_cpu_share: Some(0.004), cpu_us_per_request: None }),
            ("lb".to_string(), host(0.006, 78.2)),
            ("s1".to_string(), host(0.005, 14.6)),
            ("s2".to_string(), host(0.005, 14.7)),
        ]),
        wall_s,
    }
}
