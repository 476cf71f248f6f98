//! # Run queue wait
//!
//! Processes that serve nobody in the stack take the CPUs of the hop, and its workers wait for their turn.
//!
//! ## What it sees
//! Run delay of the workers (runnable, but waiting for a CPU) against their run time; CPU time of the hop's CPUs that
//! no host of the stack used to serve; who used it, from a close look and from the hop's own control group.
//!
//! ## Why it limits
//! A worker that waits for a CPU serves nothing; the CPU that it waits for works for somebody else.
//!
//! ## Evidence
//! With full CPUs the share of the time in which its workers want a CPU that they wait for strangers; of what they wait for, the
//! stack's own processes are left out. Else, and at a rate that is carried, the share of request time that workers wait; at such
//! a rate, if it is more, that for which requests lie unread meanwhile, as timed at the sockets of the hop.
//!
//! ## What it is not
//! Hosts of the stack, or its generator, that share CPUs: then the machine is too small, which is an honest limit.
//! Workers that may use too few CPUs: `workers-misplaced`. A hypervisor that takes the CPU: `cpu-stolen`.
//!
//! ## Fix
//! Move the neighbours to other CPUs (cpuset, affinity), or give them less weight (nice, cpu.weight).
//!
//! ## References
//! Linux Documentation/scheduler/sched-stats.rst: /proc/PID/schedstat; proc(5) /proc/PID/stat.

use crate::cause::{
    Cause, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_of_share, gain_until_next_limit, hosts_of,
    ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::host_facts::looked_at;
use crate::sessions::carries_a_rate;
use prony_model::metric::{CPU_NICE, CPU_SYSTEM, CPU_USER, LOOK_NEIGHBOUR, PROC_NAME, PROC_RUN};
use prony_model::{Gap, Level, Metric, Trial};
use std::collections::BTreeSet;

pub(super) const CAUSE: Cause = Cause {
    id: "run-queue-wait",
    layer: Layer::Cpu,
    title: "run queue wait",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("run_queue_wait.rs"),
};

/// Share of the time in which workers want a CPU that they wait for it. A guess: with one neighbour of equal weight it
/// is a half, on a healthy full CPU with one worker a few percent.
const DELAY: f64 = 0.1;
/// Share of the CPUs' capacity that strangers must take. A guess: the kernel's own accounting differs from that of
/// processes by some percent.
const STRANGERS: f64 = 0.1;
/// Share of the limit below which it does not matter. A guess: there is always somebody on a machine.
const SHARE_MIN: f64 = 0.05;
/// Its origin.
const ORIGIN: &str = "guess: one neighbour of equal weight gives 0.5, a healthy full CPU some percent";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let delay = hop.fact("proc.run_delay / (run + run_delay)", "share", |r| r.delay_share())?;
    if delay.value < DELAY {
        return ruled_out(&delay, DELAY, ORIGIN, "workers hardly wait for a CPU");
    }
    let strangers = strangers(hop)?;
    let at = hop.at(Level::At)?;
    let taken = strangers.value / at.cpu()?.total();
    if taken < STRANGERS {
        return ruled_out(&strangers, STRANGERS * at.cpu()?.total(), "guess", "the CPUs work for the stack itself");
    }
    let full = cpu_is_full(hop)?;
    // Workers that do not want a CPU all the time have requests enough only now and then: they are not the limit.
    let wanted = hop.fact("share of time in which its workers want a CPU", "share", |r| {
        let (delay, run) = r.delay_and_run()?;
        Ok(((delay + run) / hop.workers().len().max(1) as f64).min(1.0))
    })?;
    let waiting = at.delay_and_run()?.0 / at.in_flight()?;
    let for_strangers = strangers.value / (strangers.value + waited_for_of_stack(hop)?);
    // At a rate, what comes while its workers wait lies there unread meanwhile.
    let at_rate = carries_a_rate(hop);
    let unread = if at_rate { hop.lying_unread().ok() } else { None };
    let share = if full && !at_rate {
        delay.value * for_strangers * wanted.value * (1.0 - at.stalled_share())
    } else {
        waiting.min(taken).max(unread.as_ref().map_or(0.0, |unread| unread.value * for_strangers))
    };
    if share < SHARE_MIN {
        let part = Fact::across_levels(hop, "share of the limit that waiting for a CPU explains", share);
        return ruled_out(&part, SHARE_MIN, "guess", "its workers want a CPU too seldom for strangers to matter");
    }
    let names = names(hop);
    let who = if names.is_empty() { "processes that are not of the stack".to_string() } else { names.join(", ") };
    let claim =
        format!("workers of {} wait {:.0} % of their time for CPUs that {who} use", hop.name, delay.value * 100.0);
    let cap = if full { gain_until_next_limit(hop) } else { None };
    let mut finding = Finding::new(delay, DELAY, ORIGIN, &claim, share)
        .and(Ok(strangers), "CPUs that strangers use on the CPUs of this hop")
        .and(Ok(wanted), "its workers want a CPU nearly always")
        .and(
            hop.fact("proc.run_delay of the workers", "s/s", |r| Ok(r.delay_and_run()?.0)),
            "time that its workers wait",
        );
    if let Some(unread) = unread {
        finding = finding.and(Ok(unread), "part of the time of requests that they lie unread meanwhile");
    }
    for Neighbour { seen_as, item, cpus } in neighbours(hop).into_iter().take(3) {
        finding = finding.and(Ok(looked_at(hop, &format!("{} {item}", seen_as.name), "CPUs", cpus)), "a neighbour");
    }
    finding
        .mend(format!("move {who} to other CPUs, or lower their weight (nice, cpu.weight)"), None)
        .gaining(Some(gain_of_share(share, cap)))
        .rising(hop.fact("proc.run_delay of the workers", "s/s", |r| Ok(r.delay_and_run()?.0)))
        .fires()
}

/// CPUs among those of its workers that no host on the path uses: the accounts of the CPUs less those of every process
/// of the path on them. Kernels that charge packet work to whoever runs make that too little; what strangers are seen to
/// use is the least. A gap when the processes of one of these hosts are not known: its work would look like a stranger's.
fn strangers(hop: &Hop<'_>) -> Result<Fact, Gap> {
    let cpus = worker_cpus(hop)?;
    let near = |other: &Hop<'_>| is_on(other, hop, &cpus);
    hop.fact("CPUs used by strangers", "CPUs", |r| {
        let mut used = 0.0;
        for cpu in cpus.iter().map(u32::to_string) {
            used += r.one(&CPU_USER, &cpu)? + r.one(&CPU_NICE, &cpu).unwrap_or(0.0) + r.one(&CPU_SYSTEM, &cpu)?;
        }
        let own = process_cpu(hosts_of(hop).filter(near), r.trial)?;
        let beside = hop.run.stack.beside_path().into_iter().map(|name| hop.other(name)).filter(near);
        let beside = beside.filter_map(|other| Reader { hop: other, trial: r.trial }.process_cpu().ok());
        let bystanders = hop.bystanders().into_iter().filter_map(|pid| r.one(&PROC_RUN, pid).ok());
        Ok((used - own).max(beside.chain(bystanders).sum()))
    })
}

/// CPUs that processes of the stack use for which a worker of the hop waits: those of other hosts on its CPUs, and, where workers are
/// more than CPUs, those of the workers beside it.
fn waited_for_of_stack(hop: &Hop<'_>) -> Result<f64, Gap> {
    let (cpus, at, workers) = (worker_cpus(hop)?, hop.at(Level::At)?, hop.workers().len().max(1) as f64);
    let others = hosts_of(hop).filter(|other| other.name != hop.name && is_on(other, hop, &cpus));
    let beside_it = (1.0 - cpus.len() as f64 / workers).max(0.0);
    Ok(process_cpu(others, at.trial)? + beside_it * at.process_cpu()?)
}

/// CPUs that the processes of all these hosts use.
fn process_cpu<'a>(hosts: impl Iterator<Item = Hop<'a>>, trial: &Trial) -> Result<f64, Gap> {
    hosts.map(|hop| Reader { hop, trial }.process_cpu()).sum()
}

/// Whether another host may run on these CPUs of the hop.
fn is_on(other: &Hop<'_>, hop: &Hop<'_>, cpus: &BTreeSet<u32>) -> bool {
    other.shares_cpu_with(hop) && other.cpus().is_ok_and(|theirs| !theirs.is_disjoint(cpus))
}

/// CPUs of the hop that its workers may use; all of them where no mask was read.
fn worker_cpus(hop: &Hop<'_>) -> Result<BTreeSet<u32>, Gap> {
    let own = hop.cpus()?;
    let may: BTreeSet<u32> = own.intersection(&hop.worker_cpus()).copied().collect();
    Ok(if may.is_empty() { own } else { may })
}

/// A process that uses the hop's CPUs and serves nobody.
struct Neighbour<'a> {
    /// Where it was seen.
    seen_as: &'static Metric,
    /// Its pid and name.
    item: &'a str,
    cpus: f64,
}

/// Processes on the hop's CPUs that serve for no host of the stack, the greatest first: those of nobody's, from the close look, and
/// bystanders in the hop's own control group.
fn neighbours<'a>(hop: &Hop<'a>) -> Vec<Neighbour<'a>> {
    let pid = |item: &'a str| item.split(' ').next().unwrap_or(item);
    let serves = |h: &Hop<'_>, pid: &str| h.items(&PROC_RUN).contains(&pid) && !h.bystanders().contains(&pid);
    let of_stack = |item: &&'a str| hosts_of(hop).any(|h| serves(&h, pid(item)));
    let others = hop.items(&LOOK_NEIGHBOUR).into_iter().filter(|item| !of_stack(item));
    let others = others.filter_map(|item| {
        Some(Neighbour { seen_as: &LOOK_NEIGHBOUR, item, cpus: hop.look(&LOOK_NEIGHBOUR, item).ok()? })
    });
    let bystanders = hop.bystanders();
    let own = hop.items(&PROC_NAME).into_iter().filter(|item| bystanders.contains(&pid(item)));
    let own = own.filter_map(|item| {
        Some(Neighbour { seen_as: &PROC_RUN, item, cpus: hop.at(Level::At).ok()?.one(&PROC_RUN, pid(item)).ok()? })
    });
    let mut seen: Vec<_> = others.chain(own).collect();
    seen.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    seen
}

/// Names of the three greatest, with their pids.
fn names(hop: &Hop<'_>) -> Vec<String> {
    let name = |item: &str| item.split_once(' ').map_or(item.to_string(), |(pid, name)| format!("{name} (pid {pid})"));
    neighbours(hop).into_iter().take(3).map(|seen| name(seen.item)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, monotonic, score};
    use prony_model::metric::{
        CGROUP_USAGE, PROC_IS_WORKER, PROC_RUN_DELAY, PROC_SERVES, SPLIT_QUEUE, SPLIT_REQUESTS, SPLIT_RESIDENCE,
        SPLIT_TIMED,
    };

    /// A neighbour of equal weight on CPU 0.
    fn lab(delay: f64) -> Lab {
        Lab::healthy()
            .throughput(8_000.0)
            .cpu("0", 0.7, 0.2, 0.1)
            .own("lb", 0.45)
            .per_second("lb", &PROC_RUN_DELAY, "101", delay)
            .gauge("lb", &LOOK_NEIGHBOUR, "900 burn", 0.45)
            .gauge("lb", &LOOK_NEIGHBOUR, "101 nginx", 0.1)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(0.45)).unwrap();
        assert!((found.score - 0.5 * 0.9).abs() < 1e-6, "{}", found.score);
        assert!(found.summary.contains("burn (pid 900)") && !found.summary.contains("nginx"), "{}", found.summary);
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.04)), 0.0, "it hardly waits");
        assert!(score(CAUSE.id, "lb", &lab(0.06)) > 0.0);
        assert_eq!(
            score(CAUSE.id, "lb", &lab(0.45).own("lb", 0.85).per_second("lb", &PROC_RUN_DELAY, "101", 0.45)),
            0.0,
            "its own workers fill the CPU"
        );
        let siblings = lab(0.0).cpu("1", 0.5, 0.3, 0.1).own("s1", 0.4).own("s2", 0.4);
        assert_eq!(
            score(CAUSE.id, "s1", &siblings.per_second("s1", &PROC_RUN_DELAY, "101", 0.4)),
            0.0,
            "the stack's own"
        );
    }

    #[test]
    fn at_a_rate_that_is_carried_it_is_a_part_of_the_time() {
        let seldom =
            || lab(0.05).per_second("lb", &PROC_RUN, "101", 0.05).gauge("lb", &LOOK_NEIGHBOUR, "900 burn", 0.9);
        let at_rate = |x: f64| Lab { rate: Some(1_000.0), x: [500.0, x, x], r_us: [250.0; 3], ..seldom() };
        let part = score(CAUSE.id, "lb", &at_rate(1_000.0));
        assert!((part - 0.2).abs() < 0.01, "0.05 of 0.25 requests in flight: {part}");
        assert!(score(CAUSE.id, "lb", &at_rate(900.0)) < 0.1, "a rate that is not carried");
        let timed = |x: f64| {
            let lab = at_rate(x).gauge("lb", &SPLIT_REQUESTS, "80", 1_000.0).gauge("lb", &SPLIT_TIMED, "80", 1.0);
            lab.gauge("lb", &SPLIT_RESIDENCE, "80", 250.0).gauge("lb", &SPLIT_QUEUE, "80", 100.0)
        };
        let behind = score(CAUSE.id, "lb", &timed(1_000.0));
        assert!((behind - 0.4).abs() < 0.01, "100 of 250 us they lie unread, all of it for strangers: {behind}");
        assert!(score(CAUSE.id, "lb", &timed(900.0)) < 0.1, "a rate that is not carried");
    }

    #[test]
    fn workers_that_wait_for_each_other_wait_for_no_stranger() {
        // Three quarters of the CPU are its own, and each worker waits for the other three.
        let four = |workers: [&str; 4]| {
            let lab = workers.into_iter().fold(lab(0.0).own("lb", 0.0), |lab, pid| {
                let lab = lab.per_second("lb", &PROC_RUN, pid, 0.18).per_second("lb", &PROC_RUN_DELAY, pid, 0.8);
                lab.gauge("lb", &PROC_IS_WORKER, pid, 1.0)
            });
            score(CAUSE.id, "lb", &lab.per_second("lb", &CGROUP_USAGE, "", 0.72))
        };
        let share = four(["101", "102", "103", "104"]);
        assert!((0.15..0.25).contains(&share), "the fifth that the stranger takes: {share}");
    }

    #[test]
    fn a_bystander_in_the_hops_own_control_group_is_a_neighbour() {
        // The group's account holds both; 900 has no socket.
        let both = || {
            lab(0.45)
                .per_second("lb", &CGROUP_USAGE, "", 0.9)
                .without("lb", &LOOK_NEIGHBOUR)
                .per_second("lb", &PROC_RUN, "900", 0.45)
        };
        assert_eq!(score(CAUSE.id, "lb", &both()), 0.0, "it may serve");
        let bystander = both().gauge("lb", &PROC_SERVES, "900", 0.0).gauge("lb", &PROC_NAME, "900 burn", 1.0);
        let found = finding(CAUSE.id, "lb", &bystander.gauge("lb", &PROC_SERVES, "101", 1.0)).unwrap();
        assert!(found.score > 0.35, "{}", found.score);
        assert!(found.summary.contains("burn (pid 900)"), "{}", found.summary);
    }

    /// Packet work is charged to whoever runs: the hop's own account is all that user and system code used.
    fn charged() -> Lab {
        let lab = lab(0.45).cpu("0", 0.4, 0.25, 0.34).own("lb", 0.7).without("lb", &LOOK_NEIGHBOUR);
        lab.per_second("lb", &PROC_RUN_DELAY, "101", 0.25)
    }

    #[test]
    fn what_strangers_are_seen_to_use_is_the_least() {
        assert_eq!(score(CAUSE.id, "lb", &charged()), 0.0, "nobody else is seen");
        let bystander = charged().per_second("lb", &CGROUP_USAGE, "", 0.95).per_second("lb", &PROC_RUN, "900", 0.25);
        let bystander = bystander.gauge("lb", &PROC_SERVES, "900", 0.0).gauge("lb", &PROC_SERVES, "101", 1.0);
        let found = score(CAUSE.id, "lb", &bystander);
        assert!((found - 0.25).abs() < 0.03, "{found}");
    }

    #[test]
    fn a_host_beside_the_path_is_a_neighbour() {
        let with = |calls: &str| {
            let mut lab = charged().own("batch", 0.25);
            let batch = prony_model::Host { cpus: "0".parse().ok(), ..lab.stack.host["lb"].clone() };
            lab.stack.host.insert("batch".to_string(), prony_model::Host { calls: vec![], ..batch });
            let name = lab.stack.generator().unwrap().0.to_string();
            lab.stack.host.get_mut(&name).unwrap().calls = calls.split(' ').map(String::from).collect();
            score(CAUSE.id, "lb", &lab)
        };
        assert!(with("lb") > 0.2, "{}", with("lb"));
        assert_eq!(with("lb batch"), 0.0, "clients call it: it is of the stack");
    }

    monotonic!(lab, 0.0..2.0);
}
