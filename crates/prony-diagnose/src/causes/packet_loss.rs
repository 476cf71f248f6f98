//! # Packet loss
//!
//! A link loses packets; TCP sends them again, mostly after a timeout of 200 ms.
//!
//! ## What it sees
//! Segments sent again per segment sent, without SYNs, at both ends of a link. Both ends of the bad link see it, so it
//! is named at the host at the far end of the path that still sees it; a host of which all servers see it is itself the
//! common end. What is lost in one direction only the sender sees: then it is named at the host that it sends to. Where only
//! openings are lost: SYNs sent again, though the host that they go to refuses none.
//!
//! ## Why it limits
//! A small request or answer has nothing behind it that would reveal the loss, so it waits for a timer of 0.2 s: more
//! than a hundred times its usual time. Connections stand still meanwhile.
//!
//! ## Evidence
//! Retransmits that were not fast, times 0.2 s (Linux TCP_RTO_MIN), plus fast ones times the round trip of the path (without what
//! queues add), out of all requests in flight. What the packet filter of the host drops meanwhile tells where. Or, where no CPU is full and the kernel timed requests at both ends, those of them that are on their way on
//! that link: what stands behind a lost segment waits as long. A lost SYN is sent again after 1 s.
//!
//! ## What it is not
//! Data of which nothing gets through, however often it is sent: a path MTU black hole. Packets that a host drops in a
//! queue of its own, which it counts: then that queue is the cause. A full link that
//! drops: then `bandwidth-bound` explains more. One retransmit in ten thousand: normal life. Segments sent again
//! that the receiver had already (DSACK): a busy host acknowledges late, and nothing was lost. SYNs that the host drops itself,
//! and counts: `accept-queue-full`, `syn-queue-full`, `conntrack-full`. A host that no connection reaches.
//!
//! ## Fix
//! Find where packets are dropped on the link (cable, switch, policer, ring) and mend that. prony has no knob for it.
//!
//! ## References
//! RFC 6298; Linux `tcp_schedule_loss_probe`; snmp_counter.rst: TCPOrigDataSent is the right denominator.

use super::path_mtu_blackhole;
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, gain_of_share, gain_until_full, hosts_of,
    ruled_out,
};
use crate::facts::{Fact, Hop, SYN_TIMEOUT_S};
use crate::sessions::{held, is_held_back};
use prony_model::metric::{
    CONN_CONNECTING, CONN_OUT_RETRANSMITS, CONNTRACK_DROPS, DROP_REASON, TCP_ACTIVE_OPENS, TCP_DSACK_RECEIVED,
    TCP_LISTEN_DROPS, TCP_LISTEN_OVERFLOWS, TCP_ORIGINAL_SENT, TCP_PASSIVE_OPENS, TCP_RETRANSMITS, TCP_SYN_QUEUE_DROPS,
    TCP_SYN_RETRANSMITS, TCP_TIMEOUTS,
};
use prony_model::{Gap, Level, Metric};
use std::slice;

pub(super) const CAUSE: Cause = Cause {
    id: "packet-loss",
    layer: Layer::Network,
    title: "packet loss",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("packet_loss.rs"),
};

/// Segments sent again per segment sent, from which a link counts as bad.
const LOSS: f64 = 0.001;
/// Its origin: public tools wait for 2 %, but a lost small answer costs a hundred times its service time, so 0.1 %
/// already costs 10 %.
const ORIGIN: &str = "guess: 0.1 % of answers times 200 ms is 10 % of a response time of 2 ms";
/// Share of request time below which it does not matter. A guess.
const SHARE_MIN: f64 = 0.02;
/// Share of the segments sent again that drops of a host must explain. A guess: a drop may also be of an acknowledgement.
const EXPLAINED: f64 = 0.5;
/// Part of its ratio at the limit from which a loss in calm is one by chance, which is the same at any load. A guess.
const BY_CHANCE: f64 = 0.2;
/// The kernel's reason for what a packet filter drops (include/net/dropreason-core.h).
const BY_FILTER: &str = "NETFILTER_DROP";

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let (sender, loss) = worst_sender(hop)?;
    let openings = lost_openings(hop);
    if let Some((opener, lost)) = openings.filter(|(_, lost)| lost.value >= LOSS.max(loss.value)) {
        return openings_lost(hop, &opener, lost);
    }
    if loss.value < LOSS {
        return ruled_out(&loss, LOSS, ORIGIN, "hardly any segment is sent again");
    }
    let share = (stall(hop, &sender)? / hop.at(Level::At)?.in_flight()?).min(1.0);
    if share < SHARE_MIN {
        return ruled_out(&loss, LOSS, ORIGIN, "segments are sent again, but requests hardly wait for it");
    }
    if [hop, &sender].into_iter().any(path_mtu_blackhole::is_in_vain) {
        return ruled_out(
            &loss,
            LOSS,
            ORIGIN,
            "nearly all is sent again, and again in vain: nothing is lost by chance",
        );
    }
    if let Some(place) = dropped_at_home(hop, &sender) {
        let claim = format!("{place} itself drops about as many packets, in a queue of its own");
        return ruled_out(&loss, LOSS, ORIGIN, &claim);
    }
    if let Some(elsewhere) = better_place(hop) {
        return ruled_out(&loss, LOSS, ORIGIN, &format!("the other end of the bad link is {elsewhere}"));
    }
    // The caller sees the same link from its side: the end that waits longer tells the wait.
    let callers = hop.run.stack.callers(hop.name);
    let seen_by_caller = callers.iter().filter_map(|c| hop.other(c).at(Level::At).ok()?.retransmit_stall().ok());
    let wait_s = seen_by_caller.fold(stall(hop, &sender)?, f64::max);
    let timed = if a_cpu_is_full(hop) { 0.0 } else { on_the_links_of(hop) };
    let share = (wait_s / hop.at(Level::At)?.in_flight()?).max(timed).min(1.0);
    let claim = format!("{:.2} % of the segments of {} are sent again", loss.value * 100.0, sender.name);
    let dose = dose(hop, &loss);
    let mut finding = Finding::new(loss, LOSS, ORIGIN, &claim, share)
        .and(hop.summary(&TCP_TIMEOUTS), "retransmission timeouts per second");
    for caller in callers {
        finding = finding.and(loss_ratio(&hop.other(caller)), "the other end of the link sees it too");
    }
    for sibling in hop.siblings().iter().filter(|s| s.name != hop.name) {
        finding = finding.and(loss_ratio(sibling), "a sibling behind another link, for comparison");
    }
    if let Some(peer) = worst_peer(hop) {
        finding = finding.and(Ok(peer), "most of what it sends again goes to one peer");
    }
    mending(finding.rising(sender.summary(&TCP_RETRANSMITS)), hop, &sender)
        .gaining(Some(gain_of_share(share, gain_until_full(hop))))
        .tested_by(dose)
        .fires()
}

/// Connections that are asked for more than once: their requests wait for the timer of the SYN.
fn openings_lost(hop: &Hop<'_>, opener: &Hop<'_>, lost: Fact) -> Result<Judgement, Gap> {
    let again = opener.at(Level::At)?.sum(&TCP_SYN_RETRANSMITS)?;
    let data = stall(hop, hop)?.max(opener.at(Level::At)?.retransmit_stall()?);
    let share = ((again * SYN_TIMEOUT_S + data) / hop.at(Level::At)?.in_flight()?).min(1.0);
    if share < SHARE_MIN {
        return ruled_out(&lost, LOSS, ORIGIN, "SYNs are sent again, but requests hardly wait for it");
    }
    let claim =
        format!("{:.2} % of the connections that {} opens are asked for again", lost.value * 100.0, opener.name);
    let dose = dose(hop, &lost);
    let finding = Finding::new(lost, LOSS, ORIGIN, &claim, share)
        .and(hop.summary(&TCP_LISTEN_DROPS), "connections that it refuses itself, per second")
        .and(opener.fact("conn.connecting", "", |r| r.sum(&CONN_CONNECTING)), "connections that wait for an answer")
        .rising(opener.summary(&TCP_SYN_RETRANSMITS));
    mending(finding, hop, opener).gaining(Some(gain_of_share(share, gain_until_full(hop)))).tested_by(dose).fires()
}

/// No link is made to lose more. But requests that wait for what was lost hold connections and nothing else, so with more
/// connections more are served, unless something is full as well, or it is the load that is too much for whoever drops.
fn dose(hop: &Hop<'_>, loss: &Fact) -> Dose {
    if loss.baseline.is_some_and(|calm| calm < BY_CHANCE * loss.value) {
        return Dose::Untestable(
            "hardly anything is lost in calm: what is too much is dropped, and with more connections more of it",
        );
    }
    if a_cpu_is_full(hop) {
        return Dose::Untestable(
            "prony makes no link lose more, and where CPUs are full too more connections show nothing",
        );
    }
    if waits_before_a_pool(hop) { Dose::Queue } else { Dose::Concurrency }
}

/// Whether a caller has fewer connections to the hop than requests: those that wait for what was lost hold a pool's connections, and more
/// requests queue for them.
fn waits_before_a_pool(hop: &Hop<'_>) -> bool {
    /// Connections for each request in flight, below which they are a pool that is too small for all of them. A guess.
    const TOO_FEW: f64 = 0.8;
    let Ok(requests) = hop.at(Level::At).and_then(|at| at.in_flight()) else { return false };
    let callers = hop.run.stack.callers(hop.name).into_iter();
    let connections = callers.filter_map(|caller| held(&hop.other(caller), hop).ok());
    is_held_back(hop) == Some(true)
        && connections.map(|held| held.value).reduce(f64::max).is_some_and(|n| n < TOO_FEW * requests)
}

fn a_cpu_is_full(hop: &Hop<'_>) -> bool {
    hosts_of(hop).any(|host| cpu_is_full(&host).unwrap_or(true))
}

/// Share of the requests in flight that are on their way on a link of the hop, which is the bad one. Counters see the waits that end
/// in a segment sent again; the segments behind it wait as long.
fn on_the_links_of(hop: &Hop<'_>) -> f64 {
    let ends = hop.callees().into_iter().chain([*hop]);
    ends.filter_map(|end| end.on_the_way()).sum()
}

/// Who sends most again on the links of the hop, and how much: itself, one that calls it, or one of those that it calls.
fn worst_sender<'a>(hop: &Hop<'a>) -> Result<(Hop<'a>, Fact), Gap> {
    let own = loss_ratio(hop)?;
    let others = lost_on_the_way_to(hop).into_iter().chain(lost_on_the_way_from_callees(hop));
    let worst = others.max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    Ok(worst.filter(|(_, loss)| loss.value > own.value.max(LOSS)).unwrap_or((*hop, own)))
}

/// The callee that sends most again, where the hop has several and all of them do: what they send is lost at their common end.
fn lost_on_the_way_from_callees<'a>(hop: &Hop<'a>) -> Option<(Hop<'a>, Fact)> {
    let loss = |callee: Hop<'a>| Some((callee, loss_ratio(&callee).ok().filter(|loss| loss.value >= LOSS)?));
    let all: Option<Vec<_>> = hop.callees().into_iter().map(loss).collect();
    all.filter(|all| all.len() > 1)?.into_iter().max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value))
}

/// Seconds per second for which connections stand still because the sender, or with it others that the hop calls, send again.
fn stall(hop: &Hop<'_>, sender: &Hop<'_>) -> Result<f64, Gap> {
    let callees = hop.callees();
    if callees.iter().all(|callee| callee.name != sender.name) {
        return sender.at(Level::At)?.retransmit_stall();
    }
    callees.iter().map(|callee| callee.at(Level::At)?.retransmit_stall()).sum()
}

/// The caller that loses most on its way to the hop, and how much. What the hop sends arrives, so it sees nothing but
/// acknowledgements that were lost.
fn lost_on_the_way_to<'a>(hop: &Hop<'a>) -> Option<(Hop<'a>, Fact)> {
    let losses =
        who_sends_to(hop, &CONN_OUT_RETRANSMITS).filter_map(|caller| Some((caller, loss_ratio(&caller).ok()?)));
    losses.max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value))
}

/// The clients of the hop, and its callers that call nobody else, or of whose sockets those to it have nearly all of what the metric
/// counts.
fn who_sends_to<'a>(hop: &Hop<'a>, metric: &Metric) -> impl Iterator<Item = Hop<'a>> {
    let callers = hop.run.stack.callers(hop.name).into_iter().map(|name| hop.other(name));
    let callers = callers
        .filter(|caller| caller.callees().len() == 1 || most_of(caller, metric).is_some_and(|peer| hop.is_at(peer)));
    callers.chain(Hop::generator(hop.run).filter(|_| hop.is_entry()))
}

/// What is to be done: where the hop's own packet filter drops as many, its rules are the place to look.
fn mending(finding: Finding, hop: &Hop<'_>, sender: &Hop<'_>) -> Finding {
    match filtered(hop, sender) {
        Some(filtered) => finding.and(Ok(filtered), "its own packet filter drops as many").mend(
            format!("find the rule of {} that drops them: `nft list ruleset`, `iptables-save -c`", hop.name),
            None,
        ),
        None => finding.mend(
            "mend the link: find where packets are dropped (cable, switch port, policer, ring of the card)",
            None,
        ),
    }
}

/// Who opens connections to the hop of which some are lost on the way, and how many of all; the hop itself, where it loses some to
/// each of those that it calls.
fn lost_openings<'a>(hop: &Hop<'a>) -> Option<(Hop<'a>, Fact)> {
    let to_hop = who_sends_to(hop, &CONN_CONNECTING)
        .filter_map(|opener| Some((opener, opening_loss(&opener, slice::from_ref(hop))?)));
    let callees = hop.callees();
    let is_common = callees.len() > 1 && most_of(hop, &CONN_CONNECTING).is_none();
    let from_hop = is_common.then(|| Some((*hop, opening_loss(hop, &callees)?))).flatten();
    to_hop.chain(from_hop).max_by(|(_, a), (_, b)| a.value.total_cmp(&b.value))
}

/// SYNs of the opener that are sent again per connection, which neither it nor the hosts that they go to dropped themselves. A host
/// that hardly any connection reaches is no matter of chance.
fn opening_loss(opener: &Hop<'_>, to: &[Hop<'_>]) -> Option<Fact> {
    let opening = opener.at(Level::At).ok()?;
    let again = opening.sum(&TCP_SYN_RETRANSMITS).ok()?;
    let (mut refused, mut reached) = (opening.local_drops().unwrap_or(0.0), f64::INFINITY);
    for hop in to {
        let at = hop.at(Level::At).ok()?;
        let drops = |metric: &Metric| at.sum(metric).unwrap_or(0.0);
        refused += drops(&TCP_LISTEN_DROPS).max(drops(&TCP_LISTEN_OVERFLOWS))
            + drops(&TCP_SYN_QUEUE_DROPS)
            + drops(&CONNTRACK_DROPS)
            + at.local_drops().unwrap_or(0.0);
        reached = at.sum(&TCP_PASSIVE_OPENS).ok()?.min(reached);
    }
    if refused >= EXPLAINED * again || reached * to.len() as f64 <= EXPLAINED * again {
        return None;
    }
    let lost = opener.fact("tcp.syn_retransmits / tcp.active_opens", "share", |r| {
        let (again, opened) = (r.sum(&TCP_SYN_RETRANSMITS)?, r.sum(&TCP_ACTIVE_OPENS)?);
        Ok(if opened > 0.0 { (again / opened).min(1.0) } else { 0.0 })
    });
    lost.ok()
}

/// Packets that the packet filter of the hop drops, if they explain what the sender sends again.
fn filtered(hop: &Hop<'_>, sender: &Hop<'_>) -> Option<Fact> {
    let again = sender.at(Level::At).ok()?.sum(&TCP_RETRANSMITS).ok()?;
    let dropped = hop.look(&DROP_REASON, BY_FILTER).ok().filter(|dropped| *dropped >= EXPLAINED * again)?;
    let name = format!("{} by {BY_FILTER}", DROP_REASON.name);
    Some(Fact { unit: "/s", ..Fact::across_levels(hop, &name, dropped) })
}

/// Data segments sent again per data segment sent, without those that had not been lost (DSACK).
pub(super) fn loss_ratio(hop: &Hop<'_>) -> Result<Fact, Gap> {
    hop.fact("tcp.retransmits / tcp.original_sent", "share", |r| {
        let needless = r.sum(&TCP_SYN_RETRANSMITS).unwrap_or(0.0) + r.sum(&TCP_DSACK_RECEIVED).unwrap_or(0.0);
        let again = r.sum(&TCP_RETRANSMITS)? - needless;
        let sent = r.sum(&TCP_ORIGINAL_SENT)?;
        if sent > 0.0 {
            Ok((again / sent).clamp(0.0, 1.0))
        } else {
            Err(Gap::new(TCP_ORIGINAL_SENT.name, hop.name, "nothing was sent"))
        }
    })
}

/// A host whose own queues drop as many packets as are sent again: then no link is bad.
fn dropped_at_home<'a>(hop: &Hop<'a>, sender: &Hop<'_>) -> Option<&'a str> {
    let again = sender.at(Level::At).ok()?.sum(&TCP_RETRANSMITS).ok()?;
    let drops = |h: &Hop<'a>| h.at(Level::At).and_then(|r| r.local_drops()).unwrap_or(0.0);
    hosts_of(hop).find(|h| drops(h) >= EXPLAINED * again).map(|h| h.name)
}

/// The host that is a better place to name than this one, when the bad link has this host at its near end.
fn better_place<'a>(hop: &Hop<'a>) -> Option<&'a str> {
    let is_bad = |h: &Hop<'_>| worst_sender(h).is_ok_and(|(_, loss)| loss.value >= LOSS);
    let siblings = hop.siblings();
    let caller = hop.run.stack.callers(hop.name).first().copied();
    if siblings.len() > 1 && siblings.iter().all(is_bad) && caller.is_some_and(|c| is_bad(&hop.other(c))) {
        return caller;
    }
    let calls: Vec<Hop<'a>> = hop.host()?.calls.iter().map(|c| hop.other(c)).collect();
    let bad: Vec<_> = calls.iter().filter(|h| is_bad(h)).collect();
    (bad.len() == 1 || (!bad.is_empty() && bad.len() < calls.len())).then(|| bad[0].name)
}

/// The callee whose sockets, of those now open, have nearly all of what the metric counts, when there are several.
fn most_of<'a>(hop: &Hop<'a>, metric: &Metric) -> Option<&'a str> {
    let at = hop.at(Level::At).ok()?;
    let to = |peer: &str| at.one(metric, peer).unwrap_or(0.0);
    let peers = hop.items(metric);
    let all: f64 = peers.iter().map(|p| to(p)).sum();
    peers.iter().filter(|_| peers.len() > 1).find(|p| all > 0.0 && to(p) > 0.8 * all).copied()
}

/// What went there.
fn worst_peer(hop: &Hop<'_>) -> Option<Fact> {
    let worst = most_of(hop, &CONN_OUT_RETRANSMITS)?;
    hop.fact(format!("{} to {worst}", CONN_OUT_RETRANSMITS.name), "", |r| r.one(&CONN_OUT_RETRANSMITS, worst)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::{
        CONN_MIN_RTT, CONN_OUT_RTT, CONN_STUCK, QDISC_DROPS, SPLIT_CALLS, SPLIT_CALLS_TIMED, SPLIT_REQUESTS,
        SPLIT_RESIDENCE, SPLIT_TIMED, SPLIT_UPSTREAM, TCP_FAST_RETRANSMITS,
    };
    use proptest::prelude::*;

    /// 3 % loss on the link of s1: 182 and 226 retransmits/s, 13,034 requests/s.
    fn lab(s1: f64) -> Lab {
        Lab::healthy().throughput(13_034.0).per_second("s1", &TCP_RETRANSMITS, "", s1).per_second(
            "lb",
            &TCP_RETRANSMITS,
            "",
            226.0,
        )
    }

    #[test]
    fn what_never_gets_through_is_not_lost_by_chance() {
        let all = |stuck: f64| {
            let lab = Lab::healthy().throughput(32.0).cpu("0", 0.01, 0.01, 0.0).cpu("1", 0.01, 0.01, 0.0);
            let lab = lab.per_second("s1", &TCP_ORIGINAL_SENT, "", 60.0).per_second("s1", &TCP_RETRANSMITS, "", 55.0);
            lab.gauge("s1", &CONN_STUCK, "80", stuck)
        };
        let both = |stuck| (score(CAUSE.id, "s1", &all(stuck)), score("path-mtu-blackhole", "s1", &all(stuck)));
        let (loss, hole) = both(7.0);
        assert!(loss == 0.0 && hole > 0.15, "{loss} {hole}: what waits for the timer counts, not only 7 of 64");
        let (loss, hole) = both(0.0);
        assert!(loss > 0.15 && hole == 0.0, "{loss} {hole}");
        // All servers behind the same hole: it is not the proxy's own link that loses by chance.
        let servers = |stuck: f64| {
            let lab = all(stuck).per_second("s2", &TCP_ORIGINAL_SENT, "", 60.0).gauge("s2", &CONN_STUCK, "80", stuck);
            score(CAUSE.id, "lb", &lab.per_second("s2", &TCP_RETRANSMITS, "", 54.0))
        };
        assert!(servers(7.0) == 0.0 && servers(0.0) > 0.15, "{} {}", servers(7.0), servers(0.0));
    }

    #[test]
    fn lost_openings_count_where_the_host_refuses_none() {
        // 8 % of the SYNs: 680 connections/s, one for each request, and 55 that are sent again.
        let asked = |again: f64| {
            let lab = Lab::healthy().throughput(680.0).cpu("0", 0.1, 0.1, 0.0).cpu("1", 0.1, 0.1, 0.0);
            let lab = lab.per_second("client", &TCP_SYN_RETRANSMITS, "", again);
            lab.per_second("client", &TCP_RETRANSMITS, "", again)
                .per_second("client", &TCP_ACTIVE_OPENS, "", 680.0)
                .per_second("client", &TCP_ORIGINAL_SENT, "", 1_360.0)
                .per_second("lb", &TCP_PASSIVE_OPENS, "", 680.0)
        };
        let found = finding(CAUSE.id, "lb", &asked(55.0)).unwrap();
        assert!((found.score - 55.0 / 64.0).abs() < 0.01 && found.dose == Dose::Concurrency, "{}", found.score);
        assert_eq!(score(CAUSE.id, "s1", &asked(55.0)), 0.0);
        let data =
            asked(55.0).per_second("lb", &TCP_ORIGINAL_SENT, "", 500.0).per_second("lb", &TCP_RETRANSMITS, "", 100.0);
        assert!(finding(CAUSE.id, "lb", &data).unwrap().summary.contains("segments of lb"), "more of the data is lost");
        assert_eq!(score(CAUSE.id, "lb", &asked(55.0).per_second("client", &QDISC_DROPS, "eth0 tbf", 40.0)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &asked(0.6)), 0.0, "hardly any");
        assert!(score(CAUSE.id, "lb", &asked(1.5)) > 0.02);
        for drops in [&TCP_LISTEN_DROPS, &TCP_LISTEN_OVERFLOWS, &TCP_SYN_QUEUE_DROPS, &CONNTRACK_DROPS] {
            assert_eq!(score(CAUSE.id, "lb", &asked(55.0).per_second("lb", drops, "", 40.0)), 0.0, "{}", drops.name);
        }
        assert_eq!(score(CAUSE.id, "lb", &asked(55.0).per_second("lb", &TCP_PASSIVE_OPENS, "", 20.0)), 0.0, "dead");
    }

    #[test]
    fn openings_to_servers_are_named_where_they_wait() {
        let asked = |to_s1: f64, to_s2: f64| {
            let lab = Lab::healthy().throughput(680.0).cpu("0", 0.1, 0.1, 0.0).cpu("1", 0.1, 0.1, 0.0);
            ["s1", "s2"]
                .into_iter()
                .fold(lab, |lab, server| lab.per_second(server, &TCP_PASSIVE_OPENS, "", 340.0))
                .per_second("lb", &TCP_SYN_RETRANSMITS, "", 30.0)
                .per_second("lb", &TCP_RETRANSMITS, "", 30.0)
                .per_second("lb", &TCP_ACTIVE_OPENS, "", 680.0)
                .gauge("lb", &CONN_CONNECTING, "10.77.0.11:80", to_s1)
                .gauge("lb", &CONN_CONNECTING, "10.77.0.12:80", to_s2)
        };
        let named = |lab: Lab| ["lb", "s1", "s2"].map(|hop| score(CAUSE.id, hop, &lab) > 0.3);
        assert_eq!(named(asked(30.0, 0.0)), [false, true, false]);
        assert_eq!(named(asked(15.0, 15.0)), [true, false, false], "the common end");
        let dead = asked(15.0, 15.0).per_second("s1", &TCP_PASSIVE_OPENS, "", 0.0);
        assert_eq!(named(dead), [false; 3], "one that nothing reaches is no matter of chance");
    }

    #[test]
    fn names_the_far_end() {
        let found = finding(CAUSE.id, "s1", &lab(182.0)).unwrap();
        assert!((found.score - 226.0 * 0.2 / 64.0).abs() < 0.01, "{}", found.score);
        assert_eq!(score(CAUSE.id, "lb", &lab(182.0)), 0.0);
        assert_eq!(score(CAUSE.id, "s2", &lab(182.0)), 0.0);
    }

    #[test]
    fn what_was_timed_on_the_way_counts_where_no_cpu_is_full() {
        // 58 of 64 requests in flight are on the way to s1 or back; its counters tell of 9 that wait for a timer.
        let timed = |lab: Lab| {
            lab.throughput(2_000.0)
                .per_second("lb", &TCP_RETRANSMITS, "", 45.0)
                .gauge("lb", &SPLIT_CALLS, "10.77.0.11:80", 1_000.0)
                .gauge("lb", &SPLIT_CALLS_TIMED, "10.77.0.11:80", 1.0)
                .gauge("lb", &SPLIT_UPSTREAM, "10.77.0.11:80", 58_100.0)
                .gauge("s1", &SPLIT_REQUESTS, "80", 1_000.0)
                .gauge("s1", &SPLIT_TIMED, "80", 1.0)
                .gauge("s1", &SPLIT_RESIDENCE, "80", 100.0)
        };
        let idle = timed(lab(45.0).cpu("0", 0.1, 0.1, 0.1));
        let found = finding(CAUSE.id, "s1", &idle).unwrap();
        assert!((found.score - 58.0 / 64.0).abs() < 0.01, "{}", found.score);
        let full = finding(CAUSE.id, "s1", &timed(lab(45.0))).unwrap();
        assert!((full.score - 9.0 / 64.0).abs() < 0.01, "{}", full.score);
    }

    #[test]
    fn names_the_common_end() {
        let all = lab(182.0).per_second("s2", &TCP_RETRANSMITS, "", 182.0);
        assert!(score(CAUSE.id, "lb", &all) > 0.5);
        assert_eq!(score(CAUSE.id, "s1", &all), 0.0);
        let client_link = lab(0.0);
        assert!(score(CAUSE.id, "lb", &client_link) > 0.5);
    }

    /// 208 of 10,066 requests a second are sent again by the client; what lb sends again had arrived.
    fn one_way() -> Lab {
        let lab = lab(0.0).per_second("lb", &TCP_RETRANSMITS, "", 135.0);
        let lab = lab.per_second("lb", &TCP_DSACK_RECEIVED, "", 132.0);
        lab.per_second("client", &TCP_ORIGINAL_SENT, "", 10_066.0).per_second("client", &TCP_RETRANSMITS, "", 208.0)
    }

    #[test]
    fn what_is_lost_one_way_is_seen_by_the_sender() {
        let found = finding(CAUSE.id, "lb", &one_way()).unwrap();
        assert!((found.score - 208.0 * 0.2 / 64.0).abs() < 0.01, "{}", found.score);
        assert!(found.remedies[0].advice.starts_with("mend the link"), "{:?}", found.remedies);
        let lab = one_way().gauge("lb", &DROP_REASON, BY_FILTER, 240.0);
        let found = finding(CAUSE.id, "lb", &lab).unwrap();
        assert!(found.remedies[0].advice.contains("the rule of lb"), "{:?}", found.remedies);
        let unseen =
            one_way().per_second("lb", &TCP_RETRANSMITS, "", 0.0).per_second("lb", &TCP_DSACK_RECEIVED, "", 0.0);
        assert!(score(CAUSE.id, "lb", &unseen) > 0.5, "no queue of lb drops what the clients send again");
        let to_s1 = |peer: &str| {
            let lab = lab_between().gauge("lb", &CONN_OUT_RETRANSMITS, "10.77.0.11:80", 0.0);
            let lab = lab.gauge("lb", &CONN_OUT_RETRANSMITS, "10.77.0.12:80", 0.0);
            lab.gauge("lb", &CONN_OUT_RETRANSMITS, peer, 9.0)
        };
        assert!(score(CAUSE.id, "s1", &to_s1("10.77.0.11:80")) > 0.5);
        assert_eq!(score(CAUSE.id, "lb", &to_s1("10.77.0.11:80")), 0.0, "s1 is the far end");
        assert_eq!(score(CAUSE.id, "s2", &to_s1("10.77.0.11:80")), 0.0);
    }

    #[test]
    fn what_all_servers_send_in_vain_is_lost_at_their_common_end() {
        let lab = lab(80.0).per_second("s2", &TCP_RETRANSMITS, "", 80.0).per_second("lb", &TCP_RETRANSMITS, "", 0.0);
        let found = finding(CAUSE.id, "lb", &lab).unwrap();
        assert!((found.score - 2.0 * 80.0 * 0.2 / 64.0).abs() < 0.01, "{}", found.score);
        assert_eq!((score(CAUSE.id, "s1", &lab), score(CAUSE.id, "s2", &lab)), (0.0, 0.0));
    }

    /// What lb sends to one server is lost, what that server answers is not.
    fn lab_between() -> Lab {
        lab(182.0).per_second("s1", &TCP_DSACK_RECEIVED, "", 182.0)
    }

    #[test]
    fn more_connections_bring_more_unless_the_load_is_what_is_too_much() {
        let idle = lab(182.0).cpu("0", 0.1, 0.1, 0.1);
        assert_eq!(finding(CAUSE.id, "s1", &idle).unwrap().dose, Dose::Concurrency);
        let policed = idle.levels("s1", &TCP_RETRANSMITS, "", [9.0, 182.0, 182.0]);
        let dose = finding(CAUSE.id, "s1", &policed).unwrap().dose;
        assert!(matches!(dose, Dose::Untestable(why) if why.contains("in calm")), "{dose:?}");
    }

    #[test]
    fn before_a_pool_more_connections_only_queue() {
        let dose = |connections: f64| {
            let lab = Lab::chain().queueing(770.0).held(connections).per_second("db", &TCP_RETRANSMITS, "", 30.0);
            let lab = lab.per_second("app", &TCP_RETRANSMITS, "", 30.0).per_second("app", &TCP_ORIGINAL_SENT, "", 3e3);
            finding(CAUSE.id, "db", &lab.per_second("db", &TCP_ORIGINAL_SENT, "", 3e3)).unwrap().dose
        };
        assert_eq!(dose(20.0), Dose::Queue);
        assert_eq!(dose(64.0), Dose::Concurrency, "one for each request");
    }

    #[test]
    fn silent_and_border() {
        let spurious = lab(182.0).per_second("s1", &TCP_DSACK_RECEIVED, "", 182.0);
        assert_eq!(score(CAUSE.id, "s1", &spurious), 0.0, "the receiver had it already");
        assert_eq!(score(CAUSE.id, "s1", &Lab::healthy()), 0.0);
        let rare = Lab::healthy().per_second("lb", &TCP_RETRANSMITS, "", 3.0);
        assert_eq!(score(CAUSE.id, "lb", &rare), 0.0, "1 in 10,000");
        let syn_only = lab(0.0).per_second("lb", &TCP_SYN_RETRANSMITS, "", 226.0);
        assert_eq!(score(CAUSE.id, "lb", &syn_only), 0.0, "SYNs belong to the accept queue");
        assert_eq!(score(CAUSE.id, "s1", &lab(15.0)), 0.0);
        assert!(score(CAUSE.id, "s1", &lab(33.0)) > 0.0);
    }

    #[test]
    fn what_is_sent_again_at_once_costs_a_round_trip_of_the_path() {
        // 1 MB answers from a host without idle CPU: 4,149 of 1.2 million segments a second, queues of 25 ms, no timer.
        let lab = |min_rtt_us: f64| {
            let lab = Lab::healthy().per_second("lb", &TCP_RETRANSMITS, "", 4_149.0);
            let lab = lab.per_second("lb", &TCP_FAST_RETRANSMITS, "", 4_149.0);
            lab.gauge("lb", &CONN_OUT_RTT, "10.77.0.11:80", 25_000.0).gauge("lb", &CONN_MIN_RTT, "80", min_rtt_us)
        };
        assert_eq!(score(CAUSE.id, "lb", &lab(60.0)), 0.0, "the rest is the queue's");
        assert!(score(CAUSE.id, "lb", &lab(20_000.0)) > 0.5, "a long way");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..900.0, b in 0.0f64..900.0) {
            prop_assert!(score(CAUSE.id, "s1", &lab(a.min(b))) <= score(CAUSE.id, "s1", &lab(a.max(b))));
        }
    }
}
