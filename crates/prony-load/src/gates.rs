//! Validity gates: does a result tell about the stack, or about the generator?
//!
//! Pure. Segments sent again are told with the result and are no gate: loss on the path belongs to what is measured. Invariant: every gate says what was seen against what was allowed, whether it held or not; a gate that does not
//! apply to a load is left out.

use crate::surroundings::Surroundings;
use crate::tally::BUCKET_NS;
use prony_model::LoadPlan;
use prony_model::load::{Gate, LoadResult};
use prony_stats::steady::mser5;

/// Largest share of the schedule that may be missing. From the validity gates of this project's methods: 0.5 %.
const RATE_MISSING_MAX: f64 = 0.005;
/// Largest p99 of the schedule lag, in microseconds. A guess: a tenth of a p99 objective of 10 ms.
const LAG_P99_US_MAX: f64 = 1000.0;
/// Busiest that a generator thread may be. From the same methods: above 90 % of a CPU the queue is in the generator.
const THREAD_BUSY_MAX: f64 = 0.9;
/// Largest deviation from Little's law N = X * R. From the same methods: 5 %.
const LITTLE_DEVIATION_MAX: f64 = 0.05;
/// Little's law holds over times much longer than one response; below that many responses per connection it is not asked. A guess.
const LITTLE_RESPONSES_PER_CONNECTION_MIN: f64 = 20.0;
/// From this share of connections in flight on, all are taken to be busy: then the stack held the schedule up. A guess.
const ALL_BUSY_SHARE: f64 = 0.9;

/// Largest share of the time that the generator's control group may be throttled. A guess: 1 % moves p99.
const THROTTLED_MAX: f64 = 0.01;
/// Largest share of responses for which a backlog queue may drop a packet. A guess: each costs a retransmit of 200 ms, so
/// that p99.9 is moved.
const BACKLOG_DROPS_MAX: f64 = 0.001;
/// Checks a result. `buckets`: completed responses in each tenth of a second; `around`: what happened meanwhile.
pub fn check(plan: &LoadPlan, result: &LoadResult, buckets: &[u64], around: &Surroundings) -> Vec<Gate> {
    let gates = [
        rate(plan, result),
        schedule_lag(plan, result),
        cpu(result),
        little(plan, result),
        Some(ports(result)),
        Some(descriptors(result)),
        quota(result, around),
        backlog(result, around),
        steady(result, buckets),
    ];
    gates.into_iter().flatten().collect()
}

fn gate(name: &str, held: bool, generator_limited: bool, detail: String) -> Gate {
    Gate { name: name.to_string(), held, detail, generator_limited }
}

/// In open loop a request waits when no connection is free. If all are busy, the stack is slower than the schedule: such a
/// result is not valid at that rate, but it was not the generator that limited it.
fn all_busy(plan: &LoadPlan, result: &LoadResult) -> bool {
    result.in_flight_mean >= ALL_BUSY_SHARE * f64::from(plan.connections * plan.depth)
}

fn busy_note(plan: &LoadPlan, result: &LoadResult) -> &'static str {
    if all_busy(plan, result) {
        "; all connections were busy: the stack is slower than this rate, or needs more of them"
    } else {
        ""
    }
}

fn rate(plan: &LoadPlan, result: &LoadResult) -> Option<Gate> {
    let asked = match plan.rate {
        Some(rate) => rate.to_string(),
        None => plan.profile.as_ref().map(|_| "its profile".to_string())?,
    };
    let missing = result.intended.saturating_sub(result.sent);
    let share = missing as f64 / result.intended.max(1) as f64;
    let detail = format!(
        "{missing} of {} requests of the schedule ({asked}) were not sent, {:.2} % against at most 0.5 %{}",
        result.intended,
        share * 100.0,
        if share > RATE_MISSING_MAX { busy_note(plan, result) } else { "" }
    );
    Some(gate("rate", share <= RATE_MISSING_MAX && result.intended > 0, !all_busy(plan, result), detail))
}

fn schedule_lag(plan: &LoadPlan, result: &LoadResult) -> Option<Gate> {
    plan.is_open_loop().then_some(())?;
    let lag = result.schedule_lag.p99_us;
    let held = lag <= LAG_P99_US_MAX;
    let note = if held { "" } else { busy_note(plan, result) };
    let detail = format!("1 % of requests left {lag:.0} us or more behind schedule, against at most 1000 us{note}");
    Some(gate("schedule-lag", held, !all_busy(plan, result), detail))
}

fn cpu(result: &LoadResult) -> Option<Gate> {
    let shares = result.threads.iter().filter(|t| t.wall_us > 0.0).map(|t| (t.user_us + t.system_us) / t.wall_us);
    let busiest = shares.reduce(f64::max)?;
    let detail = format!("the busiest generator thread used {:.0} % of a CPU, against less than 90 %", busiest * 100.0);
    Some(gate("cpu", busiest < THREAD_BUSY_MAX, true, detail))
}

/// Only for closed loops that keep their connections and lose no request: then every connection always has one in flight.
fn little(plan: &LoadPlan, result: &LoadResult) -> Option<Gate> {
    let connections = f64::from(plan.connections * plan.depth);
    let lost = result.errors.total() - result.errors.status;
    let reconnects = !plan.keepalive || plan.requests_per_connection.is_some();
    let enough = result.completed as f64 >= LITTLE_RESPONSES_PER_CONNECTION_MIN * connections;
    // With a number of requests, the last ones leave connections idle.
    let runs_dry = plan.requests_max.is_some();
    if plan.is_open_loop() || reconnects || runs_dry || plan.script.is_some() || lost > 0 || !enough {
        return None;
    }
    let seen = result.completed_per_s * result.latency_actual.mean_us / 1e6;
    let held = (seen / connections - 1.0).abs() <= LITTLE_DEVIATION_MAX;
    let detail = format!("throughput x latency gives {seen:.1} connections of {connections}, against within 5 %");
    Some(gate("little", held, false, detail))
}

fn ports(result: &LoadResult) -> Gate {
    let count = result.errors.no_local_port;
    let next = "; widen `net.ipv4.ip_local_port_range` at the generator, or keep connections alive";
    let detail = format!("{count} connections found no free local port{}", if count > 0 { next } else { "" });
    gate("ports", count == 0, true, detail)
}

fn descriptors(result: &LoadResult) -> Gate {
    let count = result.errors.no_descriptor;
    let next = "; raise `ulimit -n` at the generator, or use fewer connections";
    let detail = format!("{count} connections found no free file descriptor{}", if count > 0 { next } else { "" });
    gate("descriptors", count == 0, true, detail)
}

/// Left out when the control group cannot be read.
fn quota(result: &LoadResult, around: &Surroundings) -> Option<Gate> {
    let throttled_s = around.throttled_ns? as f64 / 1e9;
    let share = throttled_s / result.duration_s.max(1e-9);
    let held = share <= THROTTLED_MAX;
    let next =
        if held { "" } else { "; raise the CPU quota of the generator's control group (cpu.max, cpu.cfs_quota_us)" };
    let detail = format!(
        "the generator's control group was throttled for {:.1} % of the time, against at most 1 %{next}",
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

/// Looks at every tenth of a second. Left out when the load was too short to tell.
fn steady(result: &LoadResult, buckets: &[u64]) -> Option<Gate> {
    let whole = (result.duration_s * 1e9 / BUCKET_NS as f64 + 1e-6) as usize;
    let counts: Vec<f64> = buckets.iter().take(whole).map(|n| *n as f64).collect();
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
    use expect_test::{Expect, expect};
    use prony_model::load::{Latency, ThreadUse};
    use prony_model::{ErrorCounts, Rate};

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
            threads: vec![ThreadUse { user_us: 1e5, system_us: 1e6, wall_us: 2e6 }],
            in_flight_mean: 9.0,
            ..Default::default()
        };
        (plan, result)
    }

    fn check(change: impl FnOnce(&mut LoadPlan, &mut LoadResult), want: Expect) {
        let (mut plan, mut result) = healthy();
        let around = Surroundings { throttled_ns: Some(1_000_000), backlog_drops: Some(2) };
        change(&mut plan, &mut result);
        let failed = |g: &Gate| format!("{} generator_limited={}: {}\n", g.name, g.generator_limited, g.detail);
        let gates = super::check(&plan, &result, &[100; 20], &around);
        want.assert_eq(&gates.iter().filter(|g| !g.held).map(failed).collect::<String>());
    }

    #[test]
    fn a_healthy_load_holds_every_gate() {
        check(|_, _| {}, expect![""]);
        let (plan, result) = healthy();
        let around = Surroundings { throttled_ns: Some(0), backlog_drops: None };
        let names: Vec<_> = super::check(&plan, &result, &[100; 20], &around).into_iter().map(|g| g.name).collect();
        assert_eq!(names, ["cpu", "little", "ports", "descriptors", "quota", "steady"]);
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
                rate generator_limited=true: 11 of 2011 requests of the schedule (1k/s) were not sent, 0.55 % against at most 0.5 %
            "#]],
        );
        check(
            |plan, result| {
                plan.rate = Some(Rate(1000.0));
                result.schedule_lag.p99_us = 1001.0;
                result.in_flight_mean = 9.9;
            },
            expect![[r#"
                schedule-lag generator_limited=false: 1 % of requests left 1001 us or more behind schedule, against at most 1000 us; all connections were busy: the stack is slower than this rate, or needs more of them
            "#]],
        );
        check(
            |_, result| result.threads[0].system_us = 1.7e6,
            expect![[r#"
                cpu generator_limited=true: the busiest generator thread used 90 % of a CPU, against less than 90 %
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
                ports generator_limited=true: 1 connections found no free local port; widen `net.ipv4.ip_local_port_range` at the generator, or keep connections alive
                descriptors generator_limited=true: 2 connections found no free file descriptor; raise `ulimit -n` at the generator, or use fewer connections
            "#]],
        );
    }

    #[test]
    fn what_holds_the_generator_up_from_outside_is_named() {
        let (plan, result) = healthy();
        let around = Surroundings { throttled_ns: Some(500_000_000), backlog_drops: Some(5) };
        let failed = super::check(&plan, &LoadResult { responses_total: 2000, ..result }, &[100; 20], &around);
        let failed: String = failed.iter().filter(|g| !g.held).map(|g| format!("{}: {}\n", g.name, g.detail)).collect();
        expect![[r#"
            quota: the generator's control group was throttled for 25.0 % of the time, against at most 1 %; raise the CPU quota of the generator's control group (cpu.max, cpu.cfs_quota_us)
            backlog: the backlog queues of this machine's CPUs dropped 5 packets for 2000 responses, against at most 0.1 %; raise `net.core.netdev_max_backlog` on this machine, or spread its load
        "#]]
        .assert_eq(&failed);
    }

    #[test]
    fn a_load_that_slows_down_is_not_steady() {
        let (plan, result) = healthy();
        let buckets: Vec<u64> = (0..20).map(|i| if i < 10 { 100 } else { 80 }).collect();
        let gates = super::check(&plan, &result, &buckets, &Surroundings::default());
        assert!(gates.iter().any(|g| g.name == "steady" && !g.held && !g.generator_limited), "{gates:?}");
    }
}
