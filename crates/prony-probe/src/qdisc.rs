//! Queueing disciplines of the namespace's interfaces, by RTM_GETQDISC: counters, backlog, and the rate of tbf.
//!
//! Does not read classes or filters. Invariant: `noqueue` is left out, for it counts nothing and its zeros would be
//! invented.

use crate::facts::Facts;
use crate::netlink::{Netlink, attributes, text, u32_at, u64_at};
use crate::network::Links;
use prony_model::metric::{QDISC_BACKLOG, QDISC_BYTES, QDISC_DROPS, QDISC_OVERLIMITS, QDISC_RATE};
use std::collections::BTreeMap;
use std::io;

/// Reader of queueing disciplines.
#[derive(Debug)]
pub(crate) struct Qdiscs {
    netlink: Netlink,
    links: Links,
    names: BTreeMap<u32, String>,
}

/// Sums over the disciplines of one kind on one interface: `mq` has one child per transmit queue.
#[derive(Clone, Debug, Default, PartialEq)]
struct Totals {
    bytes: f64,
    drops: f64,
    overlimits: f64,
    backlog: f64,
    rate_bits: Option<f64>,
}

/// One discipline as the kernel tells it.
#[derive(Clone, Debug, PartialEq)]
struct Qdisc {
    interface: u32,
    kind: String,
    totals: Totals,
}

impl Qdiscs {
    pub(crate) fn new() -> Self {
        Self { netlink: Netlink::new(libc::NETLINK_ROUTE), links: Links::new(), names: BTreeMap::new() }
    }

    /// Every discipline of the namespace.
    fn dump(&mut self) -> io::Result<Vec<Qdisc>> {
        let mut seen = Vec::new();
        // struct tcmsg: twenty zero bytes ask for every discipline.
        self.netlink.dump(libc::RTM_GETQDISC, &[0; 20], |payload| seen.extend(qdisc(payload)))?;
        Ok(seen)
    }

    fn read_names(&mut self) -> io::Result<()> {
        self.names = self.links.all()?.into_iter().map(|l| (l.index, l.name)).collect();
        Ok(())
    }

    /// Kinds of disciplines by interface, each once.
    pub(crate) fn kinds(&mut self) -> io::Result<BTreeMap<String, Vec<String>>> {
        let seen = self.dump()?;
        self.read_names()?;
        let mut kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for one in seen {
            let Some(name) = self.names.get(&one.interface) else { continue };
            let of_interface = kinds.entry(name.clone()).or_default();
            if !of_interface.contains(&one.kind) {
                of_interface.push(one.kind);
            }
        }
        Ok(kinds)
    }

    /// Like all that netlink tells of interfaces it waits for the kernel's lock of network settings, so the moment is that of the answer.
    pub(crate) fn read(&mut self, facts: &mut Facts) {
        let mut seen = match self.dump() {
            Ok(seen) => seen,
            Err(e) => return facts.miss("qdisc", format_args!("netlink RTM_GETQDISC: {e}")),
        };
        seen.retain(|q| q.kind != "noqueue");
        let unnamed = seen.iter().any(|q| !self.names.contains_key(&q.interface));
        if unnamed && let Err(e) = self.read_names() {
            return facts.miss("qdisc", format_args!("netlink RTM_GETLINK: {e}"));
        }
        facts.now();
        put(facts, &seen, &self.names);
    }
}

fn put(facts: &mut Facts, seen: &[Qdisc], names: &BTreeMap<u32, String>) {
    let mut totals: BTreeMap<String, Totals> = BTreeMap::new();
    for qdisc in seen {
        let Some(name) = names.get(&qdisc.interface) else { continue };
        let total = totals.entry(format!("{name} {}", qdisc.kind)).or_default();
        total.bytes += qdisc.totals.bytes;
        total.drops += qdisc.totals.drops;
        total.overlimits += qdisc.totals.overlimits;
        total.backlog += qdisc.totals.backlog;
        total.rate_bits = qdisc.totals.rate_bits.or(total.rate_bits);
    }
    for (item, total) in &totals {
        facts.put(&QDISC_BYTES, item, total.bytes);
        facts.put(&QDISC_DROPS, item, total.drops);
        facts.put(&QDISC_OVERLIMITS, item, total.overlimits);
        facts.put(&QDISC_BACKLOG, item, total.backlog);
        facts.put_if_any(&QDISC_RATE, item, total.rate_bits);
    }
}

/// One answer: struct tcmsg (interface at 4, 20 bytes), then attributes.
fn qdisc(payload: &[u8]) -> Option<Qdisc> {
    const TCA_KIND: u16 = 1;
    const TCA_OPTIONS: u16 = 2;
    const TCA_STATS2: u16 = 7;
    let interface = u32_at(payload, 4)?;
    let (mut kind, mut options, mut stats) = (None, None, None);
    for (attribute, value) in attributes(payload.get(20..)?) {
        match attribute {
            TCA_KIND => kind = Some(text(value)),
            TCA_OPTIONS => options = Some(value),
            TCA_STATS2 => stats = totals(value),
            _ => {}
        }
    }
    let (kind, mut totals) = (kind?, stats?);
    if kind == "tbf" {
        totals.rate_bits = options.and_then(tbf_rate_bits);
    }
    Some(Qdisc { interface, kind, totals })
}

/// TCA_STATS2: gnet_stats_basic (bytes u64, packets u32) and gnet_stats_queue (qlen, backlog, drops, requeues,
/// overlimits: u32 each).
fn totals(stats: &[u8]) -> Option<Totals> {
    const TCA_STATS_BASIC: u16 = 1;
    const TCA_STATS_QUEUE: u16 = 3;
    let (mut basic, mut queue) = (None, None);
    for (attribute, value) in attributes(stats) {
        match attribute {
            TCA_STATS_BASIC => basic = Some(value),
            TCA_STATS_QUEUE => queue = Some(value),
            _ => {}
        }
    }
    let queue = queue?;
    let number = |at| u32_at(queue, at).map(f64::from);
    Some(Totals {
        bytes: u64_at(basic?, 0)? as f64,
        backlog: number(4)?,
        drops: number(8)?,
        overlimits: number(16)?,
        rate_bits: None,
    })
}

/// Rate of a tbf: TCA_TBF_RATE64 when there is one, else tc_ratespec.rate at offset 8 of TCA_TBF_PARMS. Both in bytes
/// per second.
fn tbf_rate_bits(options: &[u8]) -> Option<f64> {
    const TCA_TBF_PARMS: u16 = 1;
    const TCA_TBF_RATE64: u16 = 4;
    let (mut narrow, mut wide) = (None, None);
    for (attribute, value) in attributes(options) {
        match attribute {
            TCA_TBF_PARMS => narrow = u32_at(value, 8).map(f64::from),
            TCA_TBF_RATE64 => wide = u64_at(value, 0).map(|r| r as f64),
            _ => {}
        }
    }
    wide.or(narrow).map(|bytes_per_s| bytes_per_s * 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = (4 + value.len() as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn tbf(interface: u32, rate: u32) -> Vec<u8> {
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        let stats = [
            attribute(1, &[&1000u64.to_ne_bytes()[..], &words(&[10, 0])].concat()),
            attribute(3, &words(&[1, 500, 7, 0, 42])),
        ];
        let parms = words(&[0, 0, rate, 0, 0, 0, 0, 0, 0]);
        [
            words(&[0, interface, 0, 0, 0]),
            attribute(1, b"tbf\0"),
            attribute(2, &attribute(1, &parms)),
            attribute(7, &stats.concat()),
        ]
        .concat()
    }

    #[test]
    fn reads_counters_and_rate_of_a_tbf() {
        let seen: Vec<_> = [tbf(2, 2_500_000), tbf(2, 2_500_000), tbf(9, 1)].iter().filter_map(|b| qdisc(b)).collect();
        let mut facts = Facts::new("lb", 0);
        put(&mut facts, &seen, &BTreeMap::from([(2, "eth0".to_string())]));
        expect![[r#"
            qdisc.bytes [eth0 tbf] 2000
            qdisc.drops [eth0 tbf] 14
            qdisc.overlimits [eth0 tbf] 84
            qdisc.backlog [eth0 tbf] 1000
            qdisc.rate [eth0 tbf] 20000000
        "#]]
        .assert_eq(&facts.listing());
    }

    proptest! {
        #[test]
        fn cut_messages_never_panic(cut in 0usize..200, noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            let whole = tbf(2, 1);
            let _ = qdisc(&whole[..cut.min(whole.len())]);
            let _ = qdisc(&noise);
        }
    }
}
