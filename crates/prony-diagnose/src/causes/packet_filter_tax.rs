//! # Packet filter tax
//!
//! Firewall rules, connection tracking, auditing or a packet sniffer take CPU from every packet or system call.
//!
//! ## What it sees
//! The share of the hop's CPU samples below `nf_hook_slow` (nftables, iptables, conntrack), in auditing and seccomp
//! filters of system calls, and in copies for packet sockets (`packet_rcv`, `tpacket_rcv`).
//!
//! ## Why it limits
//! Rules are tried one after the other for each packet; a request of a proxy is about a dozen packets.
//!
//! ## Evidence
//! The share of samples times what the hop spends, as a share of the capacity of its CPUs, is the score.
//!
//! ## What it is not
//! Packet work as such: the stack without hooks is not counted. Drops by the filter: then packets are lost, and
//! `drop.reason` says NETFILTER_DROP.
//!
//! ## Fix
//! Fewer rules, sets and maps instead of lists, `notrack` for the service's port, no audit rules for system calls, no
//! sniffer. prony has no knob for them.
//!
//! ## References
//! talawah.io, "Extreme HTTP Performance Tuning" (iptables off: +22 %, audit and seccomp off: +11 %, a raw socket off: +6
//! %).

use super::compression_cpu::dose;
use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, predicted_gain, ruled_out};
use crate::facts::Hop;
use crate::profile::Profile;
use prony_model::Gap;

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

/// Entries of each kind of filter; within a kind they call each other, so the greatest counts.
const FILTERS: [(&str, &[&str]); 5] = [
    ("netfilter", &["nf_hook_slow", "nf_hook_slow_list"]),
    ("auditing after calls", &["__audit_syscall_exit", "audit_filter_syscall"]),
    ("auditing before calls", &["__audit_syscall_entry"]),
    ("seccomp", &["__secure_computing", "__seccomp_filter"]),
    ("packet sockets", &["packet_rcv", "tpacket_rcv", "packet_rcv_fanout"]),
];
/// The tables themselves, for kernels that call them without `nf_hook_slow` in the stack.
const TABLES: &[&str] = &["nft_do_chain", "ipt_do_table", "ip6t_do_table"];

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let profile = Profile::of(hop)?;
    let part_of = |(kind, entries): (&'static str, &[&str])| {
        let all = entries.iter().map(|entry| profile.share_below(&[entry])).fold(0.0, f64::max);
        (kind, if kind == "netfilter" { all.max(profile.share_below(TABLES)) } else { all })
    };
    let parts: Vec<(&str, f64)> = FILTERS.into_iter().map(part_of).collect();
    let part = parts.iter().map(|(_, share)| share).sum::<f64>().min(1.0);
    let seen = profile.fact("packet filters and auditing", part);
    let share = profile.limit_share(part)?;
    if share < SHARE_MIN {
        return ruled_out(&seen, SHARE_MIN, ORIGIN, "filters of packets and system calls cost little");
    }
    let most = parts.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("filters", |(kind, _)| kind);
    let claim = format!("{:.0} % of the CPU time of {} goes to filters, most to {most}", part * 100.0, hop.name);
    let mut finding = Finding::new(seen, SHARE_MIN, ORIGIN, &claim, share);
    for (kind, share) in parts.iter().filter(|(_, share)| *share > 0.0) {
        finding = finding.and(profile.us_per_request(kind, *share), "what this filter costs each request");
    }
    finding
        .mend(
            "fewer rules, sets instead of lists, notrack for the service's port; no audit rules for system calls; no sniffer",
            None,
        )
        .gaining(predicted_gain(hop, share))
        .rising(profile.cpus("filters", part))
        .tested_by(dose(hop)?)
        .fires()
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
        assert_eq!(score(CAUSE.id, "lb", &lab("nf_hook_slow", 0.05)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab("nf_hook_slow", 0.053)) > 0.0);
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
