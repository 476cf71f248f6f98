//! How long requests stay at the hop and how long it waits for what it calls, from the times of its sockets.
//!
//! Passive, and no byte is read: the first arrival on an accepted connection begins a request, the first write after it was
//! read ends it; a call runs from a write on an opened connection to the next arrival. That holds where a connection carries
//! one request at a time, as with HTTP/1.1, PostgreSQL and Redis. Invariant: what it cannot tell apart is counted and not
//! timed.

use super::Watched;
use super::part_time::PartTime;
use super::program::{Program, u32_at, u64_at};
use crate::facts::Facts;
use crate::sockets::listening_ports;
use prony_model::metric as m;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Slots of a histogram for each doubling, as in split.bpf.c, and where they stand in a value.
const FINE: usize = 32;
const SLOTS: usize = 1024;
const SLOTS_AT: usize = 16;
/// After so many requests the programs leave the kernel: a rare request shows well before, and a busy host pays for a part
/// of the look only. A guess: a median then stands on 20,000 values.
const ENOUGH: u64 = 20_000;
/// Room for ports and peers in split.bpf.c, and the kinds of times of each.
const PLACES_MAX: u32 = 128;
const KINDS: u32 = 3;

/// Requests under watch, or soon.
#[derive(Debug)]
pub(super) struct Split {
    pub part_time: PartTime,
}

/// What a place is timed for, as `enum kind` in split.bpf.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Queue,
    Residence,
    Upstream,
}

/// Requests of one kind at one port or peer.
#[derive(Clone, Debug)]
struct Times {
    kind: Kind,
    item: String,
    /// Only of calls: requests that came are those whose wait in the queue was timed.
    seen: f64,
    total_us: f64,
    slots: Vec<u32>,
}

impl Split {
    pub(super) fn begin(watched: &Watched, look: Duration) -> Result<Self, String> {
        let namespace = watched.namespace.ok_or("the number of the network namespace cannot be read")?;
        let ports = listening_ports().map_err(|e| format!("the ports that are listened on cannot be read: {e}"))?;
        // Before Linux 6.16 the end of a write has to stand for its begin.
        let program = load_without("on_written").or_else(|_| load_without("on_write"))?;
        program.put("namespace", 0, &namespace.to_ne_bytes())?;
        ports.iter().try_for_each(|port| program.put("ports", u32::from(*port), &[1]))?;
        (1..=PLACES_MAX).try_for_each(|number| program.push("numbers", &number.to_ne_bytes()))?;
        program.watch(&watched.pids)?;
        Ok(Self { part_time: PartTime::new(program, look) })
    }

    /// Begins when the load has settled, and ends when enough was seen.
    pub(super) fn tick(&mut self, age: Duration) {
        self.part_time.tick(age, |program, _| timed(program) >= ENOUGH);
    }

    /// Puts `split.*`.
    pub(super) fn put(self, facts: &mut Facts) {
        let (program, seconds) = match self.part_time.finish() {
            Ok(watched) => watched,
            Err(reason) => return facts.miss(m::SPLIT_RESIDENCE.name, reason),
        };
        let places = program.entries("places");
        if places.len() >= PLACES_MAX as usize {
            facts.miss(
                m::SPLIT_CALLS.name,
                format_args!("more than {PLACES_MAX} ports and peers: the rest is not timed"),
            );
        }
        let times = places.iter().filter_map(|(key, number)| Some((place(key)?, u32_at(number, 0))));
        let times = times.flat_map(|((item, kinds), number)| {
            let value = |kind: &Kind| program.value("times", number * KINDS + *kind as u32);
            kinds.iter().map(|kind| Times::read(*kind, &item, &value(kind))).collect::<Vec<_>>()
        });
        put(facts, times.collect(), seconds);
    }
}

fn load_without(program: &str) -> Result<Program, String> {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/split.bpf.o"));
    Program::load_without("split", bytes, &[program])
}

/// Requests that came to the hop and were timed so far.
fn timed(program: &Program) -> u64 {
    u64_at(&program.value("enough", 0), 0)
}

fn put(facts: &mut Facts, mut times: Vec<Times>, seconds: f64) {
    times.sort_by(|a, b| a.item.cmp(&b.item));
    let of = |kind: Kind| times.iter().filter(move |t| t.kind == kind);
    if !of(Kind::Residence).any(|t| t.timed() > 0.0) {
        let reason = "no request came and was answered on a TCP connection of the hop's processes";
        facts.miss(m::SPLIT_RESIDENCE.name, reason);
    }
    for queue in of(Kind::Queue) {
        facts.put_if_any(&m::SPLIT_QUEUE, &queue.item, queue.mean_us());
        facts.put(&m::SPLIT_REQUESTS, &queue.item, queue.timed() / seconds);
        let stayed = of(Kind::Residence).find(|stay| stay.item == queue.item).map_or(0.0, Times::timed);
        facts.put(&m::SPLIT_TIMED, &queue.item, coverage(stayed, queue.timed()));
    }
    for stay in of(Kind::Residence) {
        facts.put_if_any(&m::SPLIT_RESIDENCE, &stay.item, stay.mean_us());
        facts.put_if_any(&m::SPLIT_RESIDENCE_P50, &stay.item, stay.quantile_us(0.5));
        facts.put_if_any(&m::SPLIT_RESIDENCE_P99, &stay.item, stay.quantile_us(0.99));
    }
    for call in of(Kind::Upstream) {
        facts.put(&m::SPLIT_CALLS, &call.item, call.seen / seconds);
        facts.put(&m::SPLIT_CALLS_TIMED, &call.item, coverage(call.timed(), call.seen));
        facts.put_if_any(&m::SPLIT_UPSTREAM, &call.item, call.mean_us());
        facts.put_if_any(&m::SPLIT_UPSTREAM_P50, &call.item, call.quantile_us(0.5));
        facts.put_if_any(&m::SPLIT_UPSTREAM_P99, &call.item, call.quantile_us(0.99));
    }
}

impl Times {
    /// `struct times` of split.bpf.c.
    fn read(kind: Kind, item: &str, value: &[u8]) -> Self {
        Self {
            kind,
            item: item.to_string(),
            seen: u64_at(value, 0) as f64,
            total_us: u64_at(value, 8) as f64 / 1e3,
            slots: (0..SLOTS).map(|slot| u32_at(value, SLOTS_AT + 4 * slot)).collect(),
        }
    }

    fn timed(&self) -> f64 {
        self.slots.iter().map(|n| f64::from(*n)).sum()
    }

    fn mean_us(&self) -> Option<f64> {
        let timed = self.timed();
        (timed > 0.0).then(|| self.total_us / timed)
    }

    /// Between the ends of the slot that the quantile falls into, in proportion.
    fn quantile_us(&self, quantile: f64) -> Option<f64> {
        let (mut before, wanted) = (0.0, quantile * self.timed());
        for (slot, n) in self.slots.iter().enumerate().filter(|(_, n)| **n > 0) {
            if before + f64::from(*n) >= wanted {
                let (from, to) = (lower_us(slot), lower_us(slot + 1));
                return Some(from + (to - from) * (wanted - before) / f64::from(*n));
            }
            before += f64::from(*n);
        }
        None
    }
}

/// `struct place` of split.bpf.c: the port or peer, and what is timed there.
fn place(key: &[u8]) -> Option<(String, &'static [Kind])> {
    let port = u16::from_ne_bytes(key.get(2..4)?.try_into().ok()?);
    if u32_at(key, 0) & 0xffff == 0 {
        return Some((port.to_string(), &[Kind::Queue, Kind::Residence]));
    }
    let address = address_of(u32_at(key, 4), key.get(8..24)?)?;
    Some((SocketAddr::new(address, port).to_string(), &[Kind::Upstream]))
}

fn coverage(timed: f64, seen: f64) -> f64 {
    if seen > 0.0 { (timed / seen).min(1.0) } else { 0.0 }
}

/// Where a slot begins: one for each microsecond up to 32, then 32 for each doubling.
fn lower_us(slot: usize) -> f64 {
    if slot < 2 * FINE {
        return slot as f64;
    }
    let doublings = slot / FINE - 1;
    ((FINE + slot % FINE) << doublings) as f64
}

/// An IPv4 connection on an IPv6 socket is an IPv4 connection.
fn address_of(family: u32, bytes: &[u8]) -> Option<IpAddr> {
    if family == libc::AF_INET as u32 {
        return bytes.first_chunk::<4>().map(|b| IpAddr::V4(Ipv4Addr::from(*b)));
    }
    let v6 = Ipv6Addr::from(*bytes.first_chunk::<16>()?);
    Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    /// As `slot_of` in split.bpf.c.
    fn slot_of(us: u64) -> usize {
        if us < 32 { us as usize } else { (us.ilog2() as usize - 4) * 32 + ((us >> (us.ilog2() - 5)) & 31) as usize }
    }

    fn times(kind: Kind, item: &str, seen: f64, all_us: &[u64]) -> Times {
        let mut slots = vec![0; SLOTS];
        all_us.iter().for_each(|us| slots[slot_of(*us)] += 1);
        let total_us = all_us.iter().sum::<u64>() as f64;
        Times { kind, item: item.to_string(), seen, total_us, slots }
    }

    #[test]
    fn a_proxy_and_what_it_calls() {
        let mut facts = Facts::new("lb", 0);
        let seen = vec![
            times(Kind::Upstream, "10.0.0.3:5432", 8.0, &[100, 100, 100, 100]),
            times(Kind::Queue, "80", 0.0, &[20, 20, 40, 40]),
            times(Kind::Residence, "80", 0.0, &[5_000, 5_000, 5_000, 25_000]),
            times(Kind::Upstream, "10.0.0.2:80", 4.0, &[]),
        ];
        put(&mut facts, seen, 2.0);
        expect![[r#"
            split.queue [80] 30
            split.requests [80] 2
            split.timed [80] 1
            split.residence [80] 10000
            split.residence_p50 [80] 5077.333333333333
            split.residence_p99 [80] 25067.52
            split.calls [10.0.0.2:80] 2
            split.calls_timed [10.0.0.2:80] 0
            split.calls [10.0.0.3:5432] 4
            split.calls_timed [10.0.0.3:5432] 0.5
            split.upstream [10.0.0.3:5432] 100
            split.upstream_p50 [10.0.0.3:5432] 101
            split.upstream_p99 [10.0.0.3:5432] 101.98
        "#]]
        .assert_eq(&facts.listing());
    }

    #[test]
    fn a_quiet_hop_is_a_gap() {
        let mut facts = Facts::new("lb", 0);
        put(&mut facts, vec![times(Kind::Queue, "80", 0.0, &[10, 10, 10])], 1.0);
        expect![[r#"
            split.queue [80] 10
            split.requests [80] 3
            split.timed [80] 0
            gap split.residence: no request came and was answered on a TCP connection of the hop's processes
        "#]]
        .assert_eq(&facts.listing());
    }

    #[test]
    fn reads_what_the_program_writes() {
        let key = |is_peer: u16, family: u32, address: [u8; 16]| {
            let mut key = [is_peer.to_ne_bytes(), 5432u16.to_ne_bytes()].concat();
            key.extend(family.to_ne_bytes());
            key.extend(address);
            key
        };
        let mut mapped = [0; 16];
        mapped[10..].copy_from_slice(&[255, 255, 10, 0, 0, 9]);
        let mut v4 = [0; 16];
        v4[..4].copy_from_slice(&[10, 0, 0, 9]);
        let peer = |address: &str| Some((address.to_string(), &[Kind::Upstream][..]));
        assert_eq!(place(&key(1, 2, v4)), peer("10.0.0.9:5432"));
        assert_eq!(place(&key(1, 10, mapped)), peer("10.0.0.9:5432"));
        assert_eq!(place(&key(1, 10, [1; 16])), peer("[101:101:101:101:101:101:101:101]:5432"));
        assert_eq!(place(&key(0, 0, [0; 16])), Some(("5432".to_string(), &[Kind::Queue, Kind::Residence][..])));
        let mut value = [9u64.to_ne_bytes(), 7_000_000u64.to_ne_bytes()].concat();
        value.resize(SLOTS_AT + 4 * SLOTS, 0);
        value[SLOTS_AT + 4 * 40..][..4].copy_from_slice(&7u32.to_ne_bytes());
        let read = Times::read(Kind::Upstream, "10.0.0.9:5432", &value);
        assert_eq!((read.seen, read.timed(), read.mean_us(), read.slots[40]), (9.0, 7.0, Some(1_000.0), 7));
    }

    proptest! {
        #[test]
        fn a_slot_holds_its_times(us in 0u64..(1 << 31)) {
            let slot = slot_of(us);
            prop_assert!(lower_us(slot) <= us as f64 && (us as f64) < lower_us(slot + 1));
            prop_assert!(lower_us(slot + 1) - lower_us(slot) <= (us as f64 / 32.0).max(1.0));
        }
    }
}
