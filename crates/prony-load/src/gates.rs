//! Validity gates: does a result tell about the stack, or about the generator?
//!
//! Pure. Segments sent again are told with the result and are no gate: loss on the path belongs to what is measured. Invariant:
//! every gate says what was seen against what was allowed, whether it held or not, and one that the generator broke also what
//! would mend it; a gate that does not apply to a load is left out.

use crate::ports::WaitingPorts;
use crate::surroundings::Surroundings;
use crate::tally::{BUCKET_NS, Tally};
use prony_model::load::{Gate, LoadResult, ThreadUse};
use prony_model::{LoadPlan, Rate};
use prony_stats::steady::mser5;

/// Largest share of the schedule that may be missing. From the validity gates of this project's methods: 0.5 %.
const RATE_MISSING_MAX: f64 = 0.005;
/// Largest p99 of the schedule lag, in microseconds. A guess: a tenth of a p99 objective of 10 ms.
const LAG_P99_US_MAX: f64 = 1000.0;
/// Busiest that a generator thread may be. From the same methods: above 90 % of a CPU the queue is in the generator. A thread
/// that waits for its CPU has that queue as well.
const THREAD_BUSY_MAX: f64 = 0.9;
/// From this share of the time on, waiting for a CPU is what a busy thread is told about. A guess: less is what a thread loses
/// on a machine that does a few other things.
const WAITED_SHARE_TOLD: f64 = 0.1;
/// Largest deviation from Little's law N = X * R. From the same methods: 5 %.
const LITTLE_DEVIATION_MAX: f64 = 0.05;
/// Little's law holds over times much longer than one response; below that many responses per connection it is not asked. A guess.
const LITTLE_RESPONSES_PER_CONNECTION_MIN: f64 = 20.0;
/// From this share of connections in flight on, all are taken to be busy: then the stack held the schedule up. A guess.
const ALL_BUSY_SHARE: f64 = 0.9;
/// From this share of all lateness on that was waiting for a connection, the stack held the schedule up. A guess: the larger part.
const WAITED_LATE_SHARE: f64 = 0.5;

/// From this share of local ports that wait on, connect() finds none of every second port free and looks through all of these first.
/// From `__inet_hash_connect` in Linux 6.18.
const WAITING_PORTS_MAX: f64 = 0.5;
/// Largest share of the time that the generator's control group may be throttled. A guess: 1 % moves p99.
const THROTTLED_MAX: f64 = 0.01;
/// Largest share of responses for which a backlog queue may drop a packet. A guess: each costs a retransmit of 200 ms, so
/// that p99.9 is moved.
const BACKLOG_DROPS_MAX: f64 = 0.001;
/// Largest share of what an interface received that may be others'. A guess: more moves the limit of a link visibly.
const OTHERS_BYTES_MAX: f64 = 0.1;
/// Headers of a packet at most: Ethernet 14, IPv6 40, TCP 20 with 40 of options (RFC 8200, RFC 9293), less than what is usual.
const HEADERS_BYTES: u64 = 114;

/// Checks a result. `tally`: the counts it was made of; `around`: what happened meanwhile.
pub fn check(plan: &LoadPlan, result: &LoadResult, tally: &Tally, around: &Surroundings) -> Vec<Gate> {
    let scanned = around.waiting_ports.filter(|ports| ports.share() > WAITING_PORTS_MAX);
    let (cpu, quota) = (cpu(result, scanned.is_some()), quota(around));
    let scanned = scanned.filter(|_| cpu.as_ref().is_some_and(|gate| !gate.held));
    let held_up = [&cpu, &quota].into_iter().flatten().any(|gate| !gate.held);
    let lateness = Lateness::of(plan, result, held_up);
    let gates = [
        rate(plan, result, lateness),
        schedule_lag(plan, result, lateness),
        Some(ports(plan, result, scanned)),
        cpu,
        little(plan, result),
        Some(descriptors(result)),
        quota,
        backlog(result, around),
        bytes(plan, tally.bytes_in_total, around),
        steady(result, &tally.buckets),
    ];
    gates.into_iter().flatten().collect()
}

fn gate(name: &str, held: bool, generator_limited: bool, detail: String) -> Gate {
    Gate { name: name.to_string(), held, detail, generator_limited }
}

/// Who is to blame when an open loop does not keep its schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lateness {
    /// A request waits when no connection is free. If all are busy, the stack is slower than the schedule: such a result is not
    /// valid at that rate, but it was not the generator that limited it.
    Stack,
    /// The generator had connections to spare, or had no CPU to read the answers with: then they look busy, too.
    Generator,
    /// The same, while its threads were idle most of the time: they were paused, or woken late.
    IdleGenerator,
}

impl Lateness {
    fn of(plan: &LoadPlan, result: &LoadResult, held_up: bool) -> Self {
        let all_busy = result.in_flight_mean >= ALL_BUSY_SHARE * f64::from(plan.connections * plan.depth);
        // A queue that grows keeps all of them busy only at the end: then most of the lateness is of requests that waited for one.
        let waited = result.connection_wait.total_us() > WAITED_LATE_SHARE * result.schedule_lag.total_us();
        match (all_busy || waited) && !held_up {
            true => Self::Stack,
            false if !held_up && result.had_idle_threads() => Self::IdleGenerator,
            false => Self::Generator,
        }
    }

    fn is_of_generator(self) -> bool {
        self != Self::Stack
    }

    fn note(self) -> &'static str {
        match self {
            Self::Stack => "; all connections were busy: the stack is slower than this rate, or needs more of them",
            Self::Generator => {
                "; the generator came too late: give it more threads (`-t`), or CPUs of its own (`--cpus`)"
            }
            Self::IdleGenerator => {
                "; the generator had time left and came too late: it was paused or woken late; give it CPUs of its own (`--cpus`), or let it not sleep (`--spin`)"
            }
        }
    }
}

fn rate(plan: &LoadPlan, result: &LoadResult, lateness: Lateness) -> Option<Gate> {
    let asked = match plan.rate {
        // A search asks for rates like 24682.3/s; whole ones can be read.
        Some(rate) if rate.0 >= 100.0 => Rate(rate.0.round()).to_string(),
        Some(rate) => rate.to_string(),
        None => plan.profile.as_ref().map(|_| "its profile".to_string())?,
    };
    let missing = result.intended.saturating_sub(result.sent);
    let share = missing as f64 / result.intended.max(1) as f64;
    let detail = format!(
        "{missing} of {} requests of the schedule ({asked}) were not sent, {:.2} % against at most 0.5 %{}",
        result.intended,
        share * 100.0,
        if share > RATE_MISSING_MAX { lateness.note() } else { "" }
    );
    let held = share <= RATE_MISSING_MAX && result.intended > 0;
    Some(gate("rate", held, lateness.is_of_generator(), detail))
}

fn schedule_lag(plan: &LoadPlan, result: &LoadResult, lateness: Lateness) -> Option<Gate> {
    plan.is_open_loop().then_some(())?;
    let lag = result.schedule_lag.p99_us;
    let held = lag <= LAG_P99_US_MAX;
    let note = if held { "" } else { lateness.note() };
    let waited = match result.connection_wait.count {
        0 => String::new(),
        count => format!(
            " ({:.2} % of all waited for a connection)",
            100.0 * count as f64 / result.schedule_lag.count.max(1) as f64
        ),
    };
    let detail =
        format!("1 % of requests left {lag:.0} us or more behind schedule{waited}, against at most 1000 us{note}");
    Some(gate("schedule-lag", held, lateness.is_of_generator(), detail))
}

/// `scans`: looking for a free local port may be what it does.
fn cpu(result: &LoadResult, scans: bool) -> Option<Gate> {
    let threads = result.threads.iter().filter(|thread| thread.wall_us > 0.0);
    let busiest = threads.max_by(|a, b| a.busy_share().total_cmp(&b.busy_share()))?;
    let held = busiest.busy_share() < THREAD_BUSY_MAX;
    let ran = busiest.worked_us() / busiest.wall_us;
    let mut detail = format!("the busiest generator thread used {:.0} % of a CPU", ran * 100.0);
    if let Some(share) = waited_share(busiest).filter(|share| *share >= WAITED_SHARE_TOLD) {
        let next = if held { "" } else { "; keep other work off its CPU (`--cpus`, `taskset`), or give it more CPUs" };
        detail +=
            &format!(" and waited for one {:.0} % of the time, together against less than 90 %{next}", share * 100.0);
    } else {
        let next = match (held, scans) {
            (true, _) => "",
            (false, true) => "; looking for a free local port takes it, see `ports`",
            (false, false) => "; give it more threads (`-t`) and CPUs (`--cpus`)",
        };
        detail += &format!(", against less than 90 %{next}");
    }
    Some(gate("cpu", held, true, detail))
}

fn waited_share(thread: &ThreadUse) -> Option<f64> {
    Some(thread.waited_us? / thread.wall_us)
}

/// Only for closed loops that keep their connections and lose no request: then every connection always has one in flight.
fn little(plan: &LoadPlan, result: &LoadResult) -> Option<Gate> {
    let connections = f64::from(plan.connections * plan.depth);
    let lost = result.errors.total() - result.errors.status;
    let enough = result.completed as f64 >= LITTLE_RESPONSES_PER_CONNECTION_MIN * connections;
    // With a number of requests, the last ones leave connections idle.
    let runs_dry = plan.requests_max.is_some();
    if plan.is_open_loop() || plan.reconnects() || runs_dry || plan.script.is_some() || lost > 0 || !enough {
        return None;
    }
    let seen = result.completed_per_s * result.latency_actual.mean_us / 1e6;
    let held = (seen / connections - 1.0).abs() <= LITTLE_DEVIATION_MAX;
    let detail = format!("throughput x latency gives {seen:.1} connections of {connections}, against within 5 %");
    Some(gate("little", held, false, detail))
}

/// Ports that wait are told of when the generator has no CPU left: looking through them is what takes it.
fn ports(plan: &LoadPlan, result: &LoadResult, scanned: Option<WaitingPorts>) -> Gate {
    let count = result.errors.no_local_port;
    if let (0, Some(WaitingPorts { waiting, all })) = (count, scanned) {
        let detail = format!(
            "{waiting} of {all} local ports wait for a minute after their connection (TIME_WAIT), and each connect() looks for a \
             free one among them; more addresses to come from (`--source`), a wider `net.ipv4.ip_local_port_range`, \
             `net.ipv4.tcp_tw_reuse=1`, or kept connections"
        );
        return gate("ports", false, true, detail);
    }
    let next = match (count, plan.reconnects()) {
        (0, _) => "",
        (_, false) => {
            "; widen `net.ipv4.ip_local_port_range` at the generator, use fewer connections, or more addresses to come from \
             (`--source`)"
        }
        (_, true) => "; widen `net.ipv4.ip_local_port_range` at the generator, or keep connections alive",
    };
    gate("ports", count == 0, true, format!("{count} connections found no free local port{next}"))
}

fn descriptors(result: &LoadResult) -> Gate {
    let count = result.errors.no_descriptor;
    let next = "; raise `ulimit -n` at the generator, or use fewer connections";
    let detail = format!("{count} connections found no free file descriptor{}", if count > 0 { next } else { "" });
    gate("descriptors", count == 0, true, detail)
}

/// Left out when the control group cannot be read.
fn quota(around: &Surroundings) -> Option<Gate> {
    let throttled_s = around.throttled_ns? as f64 / 1e9;
    let span_s = around.at_ns as f64 / 1e9;
    let share = throttled_s / span_s.max(1e-9);
    let held = share <= THROTTLED_MAX;
    let next =
        if held { "" } else { "; raise the CPU quota of the generator's control group (cpu.max, cpu.cfs_quota_us)" };
    let detail = format!(
        "the generator's control group was throttled for {throttled_s:.2} s in {span_s:.1} s, {:.1} % against at most 1 %{next}",
        share * 100.0
    );
    Some(gate("quota", held, true, detail))
}

/// The queues belong to the machine: a stack on the same machine fills them too. Left out when they cannot be read.
fn backlog(result: &LoadResult, around: &Surroundings) -> Option<Gate> {
    let drops = around.backlog_drops?;
    let held = drops as f64 <= BACKLOG_DROPS_MAX * result.responses_total as f64;
    let next = if held { "" } else { "; raise `net.core.netdev_max_backlog` on this machine, or spread its load" };
    let detail = format!(
        "the backlog queues of this machine's CPUs dropped {drops} packets for {} responses, against at most 0.1 %{next}",
        result.responses_total
    );
    Some(gate("backlog", held, true, detail))
}

/// What was counted must have come through the interface, and little else with it. Over loopback everybody's bytes go both ways
/// through one interface, and over TLS more bytes come than answers have: there only too few are told. Left out where the
/// interface is not known.
fn bytes(plan: &LoadPlan, counted: u64, around: &Surroundings) -> Option<Gate> {
    let received = around.received.as_ref()?;
    let enough = received.bytes >= counted;
    let others = received.bytes.saturating_sub(counted + HEADERS_BYTES * received.packets);
    let alone = received.is_loopback()
        || plan.url.starts_with("https:")
        || others as f64 <= OTHERS_BYTES_MAX * received.bytes as f64;
    let next = match (enough, alone) {
        (false, _) => "; the load counted what did not come there: did the route change meanwhile?",
        (true, false) => "; others use this interface, and more than 10 % of it: give the load one of its own",
        (true, true) => "",
    };
    let detail = format!(
        "the load received {counted} bytes, the interface {} {} with headers, in {} packets{next}",
        received.name, received.bytes, received.packets
    );
    Some(gate("bytes", enough && alone, false, detail))
}

/// Looks at every tenth of a second. Left out when the load was too short to tell.
fn steady(result: &LoadResult, buckets: &[u32]) -> Option<Gate> {
    let whole = (result.duration_s * 1e9 / BUCKET_NS as f64 + 1e-6) as usize;
    let counts: Vec<f64> = buckets.iter().take(whole).map(|n| f64::from(*n)).collect();
    let seen = mser5(&counts)?;
    let change = match seen.change {
        Some(change) => format!("throughput changed by {:+.1} %", change * 100.0),
        None => "no change of throughput found".to_string(),
    };
    let start = seen.cut as f64 * BUCKET_NS as f64 / 1e9;
    let detail = format!("{change}, start-up of {start:.1} s within {:.1} s", result.duration_s);
    Some(gate("steady", seen.steady, false, detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::Received;
    use crate::tally::Counted;
    use expect_test::{Expect, expect};
    use prony_model::ErrorCounts;
    use prony_model::load::Latency;

    /// A healthy result: 10 connections, 1000/s, 10 ms each.
    fn healthy() -> (LoadPlan, LoadResult) {
        let plan = LoadPlan { connections: 10, ..LoadPlan::to("http://10.0.0.1/") };
        let result = LoadResult {
            duration_s: 2.0,
            intended: 2000,
            sent: 2000,
            completed: 2000,
            responses_total: 2000,
            completed_per_s: 1000.0,
            latency_actual: Latency { mean_us: 10_000.0, ..Default::default() },
            threads: vec![ThreadUse { user_us: 1e5, system_us: 1e6, wall_us: 2e6, waited_us: None, spun_us: 0.0 }],
            in_flight_mean: 9.0,
            ..Default::default()
        };
        (plan, result)
    }

    #[test]
    fn lateness_is_of_the_stack_when_requests_waited_for_a_connection() {
        let (mut plan, mut result) = healthy();
        (plan.rate, result.in_flight_mean) = (Some(Rate(1000.0)), 5.0);
        result.schedule_lag = Latency { count: 2000, mean_us: 200.0, p99_us: 14_000.0, ..Latency::default() };
        let of = |count, held_up| {
            let connection_wait = Latency { count, mean_us: 1000.0, ..Latency::default() };
            Lateness::of(&plan, &LoadResult { connection_wait, ..result.clone() }, held_up)
        };
        // 0.4 s of lateness in all.
        assert_eq!((of(100, false), of(300, false)), (Lateness::Generator, Lateness::Stack));
        assert_eq!(of(300, true), Lateness::Generator);
    }

    /// The counts that matter: 1000/s, and 300 KB received.
    fn tally() -> Tally {
        let counted = Counted { start_ns: 0, end_ns: 2_000_000_000 };
        Tally { buckets: vec![100; 20], bytes_in_total: 300_000, ..Tally::new(counted) }
    }

    fn check(change: impl FnOnce(&mut LoadPlan, &mut LoadResult), want: Expect) {
        let (mut plan, mut result) = healthy();
        let around = Surroundings {
            at_ns: 2_500_000_000,
            throttled_ns: Some(1_000_000),
            backlog_drops: Some(2),
            ..Surroundings::default()
        };
        change(&mut plan, &mut result);
        let failed = |g: &Gate| format!("{} generator_limited={}: {}\n", g.name, g.generator_limited, g.detail);
        let gates = super::check(&plan, &result, &tally(), &around);
        want.assert_eq(&gates.iter().filter(|g| !g.held).map(failed).collect::<String>());
    }

    #[test]
    fn a_healthy_load_holds_every_gate() {
        check(|_, _| {}, expect![""]);
        let (plan, result) = healthy();
        let around = Surroundings { at_ns: 2_500_000_000, throttled_ns: Some(0), ..Surroundings::default() };
        let names: Vec<_> = super::check(&plan, &result, &tally(), &around).into_iter().map(|g| g.name).collect();
        assert_eq!(names, ["ports", "cpu", "little", "descriptors", "quota", "steady"]);
    }

    #[test]
    fn each_gate_can_fail() {
        check(
            |plan, result| {
                plan.rate = Some(Rate(1000.0));
                result.intended = 2011;
                result.in_flight_mean = 3.0;
            },
            expect![[r#"
                rate generator_limited=true: 11 of 2011 requests of the schedule (1k/s) were not sent, 0.55 % against at most 0.5 %; the generator came too late: give it more threads (`-t`), or CPUs of its own (`--cpus`)
            "#]],
        );
        check(
            |plan, result| {
                plan.rate = Some(Rate(1000.0));
                (result.schedule_lag.count, result.connection_wait.count) = (2000, 450);
                result.schedule_lag.p99_us = 1001.0;
                result.in_flight_mean = 9.9;
            },
            expect![[r#"
                schedule-lag generator_limited=false: 1 % of requests left 1001 us or more behind schedule (22.50 % of all waited for a connection), against at most 1000 us; all connections were busy: the stack is slower than this rate, or needs more of them
            "#]],
        );
        check(
            |_, result| result.threads[0].system_us = 1.7e6,
            expect![[r#"
                cpu generator_limited=true: the busiest generator thread used 90 % of a CPU, against less than 90 %; give it more threads (`-t`) and CPUs (`--cpus`)
            "#]],
        );
        check(
            |_, result| result.latency_actual.mean_us = 9_400.0,
            expect![[r#"
                little generator_limited=false: throughput x latency gives 9.4 connections of 10, against within 5 %
            "#]],
        );
        check(
            |_, result| result.errors = ErrorCounts { no_local_port: 1, no_descriptor: 2, ..Default::default() },
            expect![[r#"
                ports generator_limited=true: 1 connections found no free local port; widen `net.ipv4.ip_local_port_range` at the generator, use fewer connections, or more addresses to come from (`--source`)
                descriptors generator_limited=true: 2 connections found no free file descriptor; raise `ulimit -n` at the generator, or use fewer connections
            "#]],
        );
    }

    #[test]
    fn bytes_come_through_the_interface_and_few_others_with_them() {
        let gate = |url: &str, name: &str, seen| {
            let received = Some(Received { name: name.into(), bytes: seen, packets: 2000 });
            let around = Surroundings { received, ..Surroundings::default() };
            let gate = bytes(&LoadPlan::to(url), 300_000, &around).unwrap();
            let next = gate.detail.split_once("; ").map(|(_, next)| next.split(' ').next().unwrap().to_string());
            (gate.held, next)
        };
        let plain = "http://10.0.0.1/";
        assert_eq!(gate(plain, "eth0", 300_000 + 66 * 2000), (true, None));
        assert_eq!(gate(plain, "eth0", 299_999), (false, Some("the".into())), "more counted than came");
        assert_eq!(gate(plain, "eth0", 700_000), (false, Some("others".into())));
        assert_eq!(gate(plain, "lo", 700_000), (true, None), "there all bytes go both ways");
        assert_eq!(gate("https://10.0.0.1/", "eth0", 700_000), (true, None), "records and handshakes");
        assert!(bytes(&LoadPlan::to(plain), 1, &Surroundings::default()).is_none());
    }

    #[test]
    fn what_holds_the_generator_up_from_outside_is_named() {
        let (plan, result) = healthy();
        let around = Surroundings {
            at_ns: 2_500_000_000,
            throttled_ns: Some(500_000_000),
            backlog_drops: Some(5),
            ..Surroundings::default()
        };
        let failed = super::check(&plan, &LoadResult { responses_total: 2000, ..result }, &tally(), &around);
        let failed: String = failed.iter().filter(|g| !g.held).map(|g| format!("{}: {}\n", g.name, g.detail)).collect();
        expect![[r#"
            quota: the generator's control group was throttled for 0.50 s in 2.5 s, 20.0 % against at most 1 %; raise the CPU quota of the generator's control group (cpu.max, cpu.cfs_quota_us)
            backlog: the backlog queues of this machine's CPUs dropped 5 packets for 2000 responses, against at most 0.1 %; raise `net.core.netdev_max_backlog` on this machine, or spread its load
        "#]]
        .assert_eq(&failed);
    }

    /// Strangers on its CPU take what the generator needs, although it uses little of it.
    #[test]
    fn a_thread_that_waits_for_its_cpu_is_busy() {
        let waits = |waited_us| {
            move |plan: &mut LoadPlan, result: &mut LoadResult| {
                plan.rate = Some(Rate(1000.0));
                result.threads[0] =
                    ThreadUse { user_us: 1e5, system_us: 1e5, wall_us: 2e6, waited_us: Some(waited_us), spun_us: 0.0 };
                // It looks as if the stack were slow, because nobody was there to read the answers.
                (result.schedule_lag.p99_us, result.in_flight_mean) = (5000.0, 10.0);
            }
        };
        check(
            waits(1.7e6),
            expect![[r#"
                schedule-lag generator_limited=true: 1 % of requests left 5000 us or more behind schedule, against at most 1000 us; the generator came too late: give it more threads (`-t`), or CPUs of its own (`--cpus`)
                cpu generator_limited=true: the busiest generator thread used 10 % of a CPU and waited for one 85 % of the time, together against less than 90 %; keep other work off its CPU (`--cpus`, `taskset`), or give it more CPUs
            "#]],
        );
        check(
            waits(1.5e6),
            expect![[r#"
                schedule-lag generator_limited=false: 1 % of requests left 5000 us or more behind schedule, against at most 1000 us; all connections were busy: the stack is slower than this rate, or needs more of them
            "#]],
        );
    }

    #[test]
    fn a_generator_that_had_time_left_was_paused() {
        let late = |waited_us| {
            move |plan: &mut LoadPlan, result: &mut LoadResult| {
                plan.rate = Some(Rate(1000.0));
                result.threads[0] = ThreadUse { user_us: 2e4, wall_us: 2e6, waited_us, ..ThreadUse::default() };
                (result.schedule_lag.p99_us, result.in_flight_mean) = (1004.0, 5.0);
            }
        };
        let paused = expect![[r#"
            schedule-lag generator_limited=true: 1 % of requests left 1004 us or more behind schedule, against at most 1000 us; the generator had time left and came too late: it was paused or woken late; give it CPUs of its own (`--cpus`), or let it not sleep (`--spin`)
        "#]];
        check(late(None), paused);
        check(
            late(Some(1.2e6)),
            expect![[r#"
            schedule-lag generator_limited=true: 1 % of requests left 1004 us or more behind schedule, against at most 1000 us; the generator came too late: give it more threads (`-t`), or CPUs of its own (`--cpus`)
        "#]],
        );
    }

    #[test]
    fn connections_that_end_are_told_to_be_kept() {
        check(
            |plan, result| {
                plan.keepalive = false;
                result.errors.no_local_port = 3;
            },
            expect![[r#"
                ports generator_limited=true: 3 connections found no free local port; widen `net.ipv4.ip_local_port_range` at the generator, or keep connections alive
            "#]],
        );
    }

    #[test]
    fn ports_that_wait_are_told_of_when_they_take_the_cpu() {
        let told = |waiting, system_us| {
            let (plan, mut result) = healthy();
            result.threads[0].system_us = system_us;
            let around =
                Surroundings { waiting_ports: Some(WaitingPorts { waiting, all: 28_232 }), ..Surroundings::default() };
            let gates = super::check(&plan, &result, &tally(), &around);
            let broken =
                |name: &str| gates.iter().find(|gate| gate.name == name && !gate.held).map(|g| g.detail.clone());
            (broken("ports"), broken("cpu"))
        };
        let (ports, cpu) = told(25_406, 1.9e6);
        expect!["25406 of 28232 local ports wait for a minute after their connection (TIME_WAIT), and each connect() looks for a free one among them; more addresses to come from (`--source`), a wider `net.ipv4.ip_local_port_range`, `net.ipv4.tcp_tw_reuse=1`, or kept connections"]
            .assert_eq(&ports.unwrap());
        assert!(cpu.unwrap().ends_with("looking for a free local port takes it, see `ports`"), "no thread helps");
        assert_eq!(told(25_406, 1e5), (None, None), "the CPU has time left");
        let (ports, cpu) = told(14_000, 1.9e6);
        assert_eq!(ports, None, "every second port has free ones");
        assert!(cpu.unwrap().contains("more threads"), "what else should take it");
    }

    #[test]
    fn a_load_that_slows_down_is_not_steady() {
        let (plan, result) = healthy();
        let buckets: Vec<u32> = (0..20).map(|i| if i < 10 { 100 } else { 80 }).collect();
        let gates = super::check(&plan, &result, &Tally { buckets, ..tally() }, &Surroundings::default());
        assert!(gates.iter().any(|g| g.name == "steady" && !g.held && !g.generator_limited), "{gates:?}");
    }
}
