//! # Packet filter tax
//!
//! Firewall rules, connection tracking, auditing or a packet sniffer take CPU from every packet or system call.
//!
//! ## What it sees
//! The share of the hop's CPU samples below `nf_hook_slow` (nftables, iptables, conntrack), in auditing and seccomp
//! filters of system calls, and in copies for packet sockets (`packet_rcv`, `tpacket_rcv`). How many rules each host has: on
//! one machine the CPU of who sends runs the filters of who receives.
//!
//! ## Why it limits
//! Rules are tried one after the other for each packet; a request of a proxy is about a dozen packets.
//!
//! ## Evidence
//! The share of samples times what the hop spends, as a share of the capacity of its CPUs, is the score.
//!
//! ## What it is not
//! Packet work as such: the stack without hooks is not counted. A bridge that passes packets on from within its hooks
//! (`br_nf_pre_routing`), which is forwarding: of it only tables and connection tracking count. Drops by the filter: then
//! packets are lost, and `drop.reason` says NETFILTER_DROP.
//!
//! ## Fix
//! Fewer rules, sets and maps instead of lists, `notrack` for the service's port, no audit rules for system calls, no
//! sniffer. prony has no knob for them.
//!
//! ## References
//! talawah.io, "Extreme HTTP Performance Tuning" (iptables off: +22 %, audit and seccomp off: +11 %, a raw socket off: +6
//! %).

use super::compression_cpu::dose;
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_with_relief, hosts_of, predicted_gain,
    ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::profile::Profile;
use prony_model::metric::LOOK_FILTER_RULES;
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "packet-filter-tax",
    layer: Layer::Network,
    title: "packet filter tax",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("packet_filter_tax.rs"),
};

/// Share of the limit from which it matters. A guess: connection tracking alone took 2 to 4 % elsewhere, and rules below
/// 2 % are ruled out by catalogue row 12.
const SHARE_MIN: f64 = 0.05;
/// Its origin.
const ORIGIN: &str = "a guess above catalogue row 12 (below 2 % it is ruled out)";

const NETFILTER: &str = "netfilter";
const HOOKS: &[&str] = &["nf_hook_slow", "nf_hook_slow_list"];
/// Entries of each kind of filter; within a kind they call each other, so the greatest counts.
const FILTERS: [(&str, &[&str]); 5] = [
    (NETFILTER, HOOKS),
    ("auditing after calls", &["__audit_syscall_exit", "audit_filter_syscall"]),
    ("auditing before calls", &["__audit_syscall_entry"]),
    ("seccomp", &["__secure_computing", "__seccomp_filter"]),
    ("packet sockets", &["packet_rcv", "tpacket_rcv", "packet_rcv_fanout"]),
];
/// The tables themselves, for kernels that call them without `nf_hook_slow` in the stack.
const TABLES: &[&str] = &["nft_do_chain", "ipt_do_table", "ip6t_do_table"];
const TRACKING: &[&str] = &["nf_conntrack_in"];
/// A bridge that shows its packets to the filters sends them on from within these hooks.
const BRIDGED: &[&str] = &["br_nf_pre_routing", "br_nf_forward_ip", "br_nf_post_routing"];

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let profile = Profile::of(hop)?;
    let part_of = |(kind, entries): (&'static str, &[&str])| match kind {
        NETFILTER => (kind, share_of_netfilter(&profile)),
        _ => (kind, profile.most_below(entries)),
    };
    let foreign = run_by_senders(hop);
    let is_of_others = |kind: &str| kind == NETFILTER && foreign == Rules::OfOthers;
    let parts: Vec<(&str, f64)> = FILTERS.into_iter().map(part_of).filter(|(kind, _)| !is_of_others(kind)).collect();
    let part = parts.iter().fold(0.0, |sum, (_, share)| sum + share).min(1.0);
    let (by_senders, most_by) = match &foreign {
        Rules::Own { by_senders, most_by } => (*by_senders, *most_by),
        Rules::OfOthers | Rules::NotKnown => (0.0, None),
    };
    let by_itself = profile.limit_share(part)?;
    let share = (by_itself + by_senders).min(1.0);
    let seen = of_limit(hop, "packet filters and auditing", share);
    if share < SHARE_MIN {
        return ruled_out(&seen, SHARE_MIN, ORIGIN, "filters of packets and system calls cost little");
    }
    let most = match by_senders > by_itself {
        true => NETFILTER,
        false => parts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("filters", |(kind, _)| kind),
    };
    let own = part * 100.0;
    let of_its_own = if own < 0.5 { String::new() } else { format!("{own:.0} % of its CPU time, and ") };
    let claim = match by_senders > 0.0 {
        true => {
            format!("the filters of {} take {of_its_own}time of the CPUs that send to it; most is {most}", hop.name)
        }
        false => format!("{own:.0} % of the CPU time of {} goes to filters, most to {most}", hop.name),
    };
    let sampled = profile.fact("packet filters and auditing", part);
    let mut finding =
        Finding::new(seen, SHARE_MIN, ORIGIN, &claim, share).and(Ok(sampled), "what its own CPUs run of it");
    if by_senders > 0.0 {
        let fact = of_limit(hop, "its filters run by senders", by_senders);
        finding = finding.and(Ok(fact), "on one machine the CPU of who sends runs the filters of who receives");
    }
    for (kind, share) in parts.iter().filter(|(_, share)| *share > 0.0) {
        finding = finding.and(profile.us_per_request(kind, *share), "what this filter costs each request");
    }
    // Whose CPUs run most of it: slowing those tells, and they have the room that mending frees.
    let payer = most_by.map(|name| hop.other(name)).filter(|_| by_senders > by_itself).unwrap_or(*hop);
    let spent = match payer.name == hop.name {
        true => profile.cpus("filters", part),
        false => Profile::of(&payer).and_then(|of_payer| of_payer.cpus("filters", share_of_netfilter(&of_payer))),
    };
    let dose = dose(&payer)?;
    let is_of_several = by_senders > 0.0 && cpu_is_full(&payer)?;
    let is_of_sender = dose == Dose::Cpu && payer.name != hop.name;
    let dose = if is_of_sender { Dose::CpuOf(payer.name.to_string()) } else { dose };
    finding
        .mend(
            "fewer rules, sets instead of lists, notrack for the service's port; no audit rules for system calls; no sniffer",
            None,
        )
        .gaining(if is_of_several { gain_of_all(hop, &payer, part) } else { predicted_gain(&payer, share) })
        .rising(spent)
        .tested_by(dose)
        .fires()
}

fn of_limit(hop: &Hop<'_>, work: &str, share: f64) -> Fact {
    Fact { unit: "share", ..Fact::across_levels(hop, &format!("share of the limit: {work}"), share) }
}

/// Gain where the CPUs of senders run the filters of a hop as well: every CPU is freed of what its own profile shows.
fn gain_of_all(hop: &Hop<'_>, payer: &Hop<'_>, part: f64) -> Option<f64> {
    let freed = |host: &Hop<'_>| {
        let part = match rules(host) {
            _ if host.name == hop.name => part,
            Some(0.0) => share_of_netfilter(&Profile::of(host).ok()?),
            Some(_) | None => return None,
        };
        Some(part * host.at(Level::At).ok()?.own_cpu().ok()?)
    };
    let on_its_cpus: f64 = hosts_of(hop).filter(|o| o.shares_cpu_with(payer)).filter_map(|o| freed(&o)).sum();
    let share = on_its_cpus / payer.at(Level::At).ok()?.cpu().ok()?.total();
    Some(gain_with_relief(payer, share, freed))
}

/// Below the hooks of a bridge stands the whole way of the packet, so there only tables and tracking are the filters' cost.
fn share_of_netfilter(profile: &Profile<'_>) -> f64 {
    let tables = profile.share_below(TABLES);
    match profile.share_below(BRIDGED) > 0.0 {
        true => tables + profile.share_below(TRACKING),
        false => profile.most_below(HOOKS).max(tables),
    }
}

/// Whose rules the CPUs of a hop run.
#[derive(Debug, PartialEq)]
enum Rules<'a> {
    /// Its own; the CPUs of other hosts that have none run them as well, which explains this share of the limit. The one with most of
    /// it stands here too.
    Own { by_senders: f64, most_by: Option<&'a str> },
    /// It has none, and another host of the path has.
    OfOthers,
    /// Nobody's are known, or nobody has any.
    NotKnown,
}

/// Rules of a host, where they are known.
fn rules(host: &Hop<'_>) -> Option<f64> {
    host.look(&LOOK_FILTER_RULES, "").ok()
}

/// Over a virtual link a packet is received by the CPU that sent it. So the filters of one host show in the profiles of others.
fn run_by_senders<'a>(hop: &Hop<'a>) -> Rules<'a> {
    let others: Vec<Hop<'a>> = Hop::path(hop.run).into_iter().filter(|other| other.name != hop.name).collect();
    match rules(hop) {
        Some(own) if own > 0.0 => {
            let bare = others.iter().filter(|other| rules(other) == Some(0.0));
            let share = |other: &Hop<'a>| {
                let profile = Profile::of(other).ok()?;
                Some((other.name, profile.limit_share(share_of_netfilter(&profile)).ok()?))
            };
            let shares: Vec<(&str, f64)> = bare.filter_map(share).collect();
            let most_by = shares.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| *name);
            Rules::Own { by_senders: shares.iter().map(|(_, share)| share).sum(), most_by }
        }
        Some(_) if others.iter().any(|other| rules(other).is_some_and(|n| n > 0.0)) => Rules::OfOthers,
        Some(_) | None => Rules::NotKnown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::PROFILE_TOTAL;
    use proptest::prelude::*;

    fn lab(function: &str, share: f64) -> Lab {
        Lab::healthy().profiled("lb", &[]).gauge("lb", &PROFILE_TOTAL, function, share)
    }

    #[test]
    fn fires_silent_border() {
        let both = lab("nf_hook_slow", 0.18).gauge("lb", &PROFILE_TOTAL, "nft_do_chain", 0.15);
        let found = finding(CAUSE.id, "lb", &both).unwrap();
        assert!((found.score - 0.18 * 0.97).abs() < 0.01, "tables are below the hook: {}", found.score);
        assert!(found.summary.contains("netfilter"));
        assert!(score(CAUSE.id, "lb", &lab("packet_rcv", 0.1)) > 0.09);
        assert!(score(CAUSE.id, "lb", &lab("ipt_do_table", 0.1)) > 0.09, "without the hook in the stack");
        assert_eq!(score(CAUSE.id, "lb", &lab("tcp_v4_rcv", 0.5)), 0.0);
        let bridged = || lab("nf_hook_slow", 0.18).gauge("lb", &PROFILE_TOTAL, "br_nf_pre_routing", 0.2);
        assert_eq!(score(CAUSE.id, "lb", &bridged()), 0.0, "the packet's way over a bridge is no filter");
        let tabled = bridged().gauge("lb", &PROFILE_TOTAL, "ipt_do_table", 0.1);
        assert!(score(CAUSE.id, "lb", &tabled) > 0.09, "rules that a bridge runs are");
        assert_eq!(score(CAUSE.id, "lb", &lab("nf_hook_slow", 0.05)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab("nf_hook_slow", 0.053)) > 0.0);
    }

    #[test]
    fn the_host_that_has_the_rules_is_named() {
        let ruled = |at_lb: f64, at_s1: f64| {
            let lab = lab("nf_hook_slow", 0.02).cpu("1", 0.3, 0.4, 0.28).own("s1", 0.8);
            let lab = lab.profiled("s1", &[]).gauge("s1", &PROFILE_TOTAL, "nf_hook_slow", 0.4);
            lab.gauge("lb", &LOOK_FILTER_RULES, "", at_lb).gauge("s1", &LOOK_FILTER_RULES, "", at_s1)
        };
        let seen = |at_lb: f64, at_s1: f64| {
            let lab = ruled(at_lb, at_s1);
            (score(CAUSE.id, "lb", &lab) > SHARE_MIN, score(CAUSE.id, "s1", &lab) > SHARE_MIN)
        };
        assert_eq!(seen(1000.0, 0.0), (true, false), "the CPU of s1 runs the rules of lb");
        let found = finding(CAUSE.id, "lb", &ruled(1000.0, 0.0)).unwrap();
        assert_eq!(found.dose, Dose::CpuOf("s1".to_string()), "so that one is slowed");
        let by_senders_alone = ruled(1000.0, 0.0).gauge("lb", &PROFILE_TOTAL, "nf_hook_slow", 0.0);
        let found = finding(CAUSE.id, "lb", &by_senders_alone).unwrap();
        assert_eq!(found.summary, "the filters of lb take time of the CPUs that send to it; most is netfilter");
        assert!((found.key.value - 0.4).abs() < 1e-6, "s1 has a CPU, with its packets: {}", found.key.value);
        assert_eq!(seen(0.0, 1000.0), (false, true));
        assert_eq!(seen(0.0, 0.0), (false, true), "rules of the older kind, or of a bridge between them");
    }

    #[test]
    fn every_cpu_that_runs_the_rules_is_freed() {
        let gain = |at_lb: f64| {
            let lab = lab("nf_hook_slow", at_lb).cpu("1", 0.3, 0.4, 0.28).own("s1", 0.8);
            let lab = lab.profiled("s1", &[]).gauge("s1", &PROFILE_TOTAL, "nf_hook_slow", 0.4);
            let lab = lab.gauge("lb", &LOOK_FILTER_RULES, "", 1000.0).gauge("s1", &LOOK_FILTER_RULES, "", 0.0);
            finding(CAUSE.id, "lb", &lab).unwrap().gain.unwrap()
        };
        let (little, much) = (gain(0.02), gain(0.3));
        assert!(little < 0.1, "the CPU of lb stays full: {little}");
        assert!((0.3..0.7).contains(&much), "it is freed as well: {much}");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            let of = |share: f64| score(CAUSE.id, "lb", &lab("nf_hook_slow", share));
            prop_assert!(of(a.min(b)) <= of(a.max(b)) + 1e-9);
        }
    }
}
