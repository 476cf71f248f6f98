//! Single TCP sockets of the namespace by inet_diag: accept queues, and which connections carry a request right now.
//!
//! Asks for established and listening sockets only; TIME_WAIT is counted by sockstat. The kernel's clock for "last
//! data" ticks at CONFIG_HZ (1 to 10 ms): within one tick, unread or unacknowledged bytes decide, and what they leave
//! open counts as idle, so busy and waiting are lower bounds for services faster than a tick.
//! Invariant: a number from tcp_info stands only when every socket of its group showed it.

use crate::cadence::Cadence;
use crate::facts::Facts;
use crate::netlink::{Netlink, attributes, u32_at};
use crate::sys;
use prony_model::metric as m;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Callees of one host are few; a host that calls more shows the first.
const PEERS_MAX: usize = 64;
/// Sockets kept of one dump. 100,000 take 8 MB.
const SOCKETS_MAX: usize = 100_000;
/// Slower than this and the gap says so.
const SLOW_NS: u64 = 1_000_000_000;

/// Reader of sockets.
#[derive(Debug)]
pub(crate) struct Sockets {
    netlink: Netlink,
    seen: Vec<Socket>,
    /// Peers seen before: they get a 0 when no connection is left, for that was looked at too.
    peers: BTreeSet<SocketAddr>,
    cadence: Cadence,
}

/// One socket.
#[derive(Clone, Debug, PartialEq)]
struct Socket {
    listening: bool,
    local: SocketAddr,
    peer: SocketAddr,
    /// Listening: connections that wait for accept(). Else: bytes that the process has not read.
    receive_queue: u32,
    /// Listening: the limit of the accept queue. Else: bytes not yet acknowledged.
    send_queue: u32,
    info: Option<Info>,
}

/// The fields of tcp_info that are used.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Info {
    sent_ms_ago: u32,
    received_ms_ago: u32,
    rtt_us: u32,
    retransmits: u32,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self {
            netlink: Netlink::new(libc::NETLINK_SOCK_DIAG),
            seen: Vec::new(),
            peers: BTreeSet::new(),
            cadence: Cadence::every(0),
        }
    }

    pub(crate) fn read(&mut self, facts: &mut Facts, at_ns: u64) {
        if !self.cadence.due(at_ns) {
            return;
        }
        let started = sys::thread_cpu_ns();
        self.seen.clear();
        let (seen, mut left_out) = (&mut self.seen, 0usize);
        let asked = self.netlink.dump(TCPDIAG_GETSOCK, &request(), |payload| match socket(payload) {
            Some(_) if seen.len() >= SOCKETS_MAX => left_out += 1,
            Some(socket) => seen.push(socket),
            None => {}
        });
        if let Err(e) = asked {
            return facts
                .miss("conn", format_args!("netlink inet_diag: {e}: does the kernel have CONFIG_INET_TCP_DIAG?"));
        }
        if left_out > 0 {
            return facts.miss("conn", format_args!("more than {SOCKETS_MAX} sockets: not counted"));
        }
        put(facts, &self.seen, &mut self.peers);
        let wait_ns = self.cadence.ran(at_ns, sys::thread_cpu_ns().saturating_sub(started));
        if wait_ns > SLOW_NS {
            let (sockets, seconds) = (self.seen.len(), wait_ns as f64 / 1e9);
            facts.miss("conn.cadence", format_args!("{sockets} sockets are dear to read: only every {seconds:.1} s"));
        }
    }
}

/// The old request of inet_diag, because it answers for IPv4 and IPv6 in one walk over the kernel's table
/// (net/ipv4/inet_diag.c, inet_diag_dump_compat sets AF_UNSPEC).
const TCPDIAG_GETSOCK: u16 = 18;
const INET_DIAG_INFO: u16 = 2;
const TCP_ESTABLISHED: u8 = 1;
const TCP_LISTEN: u8 = 10;

/// struct inet_diag_req: family, lengths, extensions (4 bytes), socket id (48), states (4), dbs (4).
fn request() -> [u8; 60] {
    let mut bytes = [0; 60];
    bytes[0] = libc::AF_INET as u8;
    bytes[3] = 1 << (INET_DIAG_INFO - 1);
    let states = (1u32 << TCP_ESTABLISHED) | (1 << TCP_LISTEN);
    bytes[52..56].copy_from_slice(&states.to_ne_bytes());
    bytes
}

/// struct inet_diag_msg, 72 bytes: family, state at 1, ports at 4 and 6 (network order), addresses at 8 and 24, queues
/// at 56 and 60.
fn socket(payload: &[u8]) -> Option<Socket> {
    let attributes_at = payload.get(72..)?;
    let family = i32::from(payload[0]);
    let port = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
    let mut info = None;
    for (kind, value) in attributes(attributes_at) {
        if kind == INET_DIAG_INFO {
            info = tcp_info(value);
        }
    }
    Some(Socket {
        listening: payload[1] == TCP_LISTEN,
        local: SocketAddr::new(address(family, payload.get(8..24)?)?, port(4)),
        peer: SocketAddr::new(address(family, payload.get(24..40)?)?, port(6)),
        receive_queue: u32_at(payload, 56)?,
        send_queue: u32_at(payload, 60)?,
        info,
    })
}

/// An IPv4 connection on an IPv6 socket is an IPv4 connection.
fn address(family: i32, bytes: &[u8]) -> Option<IpAddr> {
    if family == libc::AF_INET {
        return bytes.first_chunk::<4>().map(|b| IpAddr::V4(Ipv4Addr::from(*b)));
    }
    let v6 = bytes.first_chunk::<16>().map(|b| Ipv6Addr::from(*b)).filter(|_| family == libc::AF_INET6)?;
    Some(v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4))
}

/// Offsets of struct tcp_info (include/uapi/linux/tcp.h): fields are only ever added at its end.
fn tcp_info(bytes: &[u8]) -> Option<Info> {
    Some(Info {
        sent_ms_ago: u32_at(bytes, 44)?,
        received_ms_ago: u32_at(bytes, 52)?,
        rtt_us: u32_at(bytes, 68)?,
        retransmits: u32_at(bytes, 100)?,
    })
}

impl Socket {
    /// A request came in and its answer has not gone out.
    fn busy(&self) -> Option<bool> {
        let info = self.info?;
        let tie = info.received_ms_ago == info.sent_ms_ago && self.receive_queue > 0;
        Some(info.received_ms_ago < info.sent_ms_ago || tie)
    }

    /// A request went out and its answer has not come in.
    fn waiting(&self) -> Option<bool> {
        let info = self.info?;
        let tie = info.sent_ms_ago == info.received_ms_ago && self.send_queue > 0;
        Some(info.sent_ms_ago < info.received_ms_ago || tie)
    }
}

/// Sums over the sockets of one port or one peer.
#[derive(Clone, Debug, Default)]
struct Group {
    sockets: f64,
    active: f64,
    unread: f64,
    rtt_us: f64,
    retransmits: f64,
    without_info: bool,
}

impl Group {
    fn add(&mut self, socket: &Socket, active: Option<bool>) {
        self.sockets += 1.0;
        self.unread += f64::from(u8::from(socket.receive_queue > 0));
        self.active += f64::from(u8::from(active == Some(true)));
        match socket.info {
            Some(info) => {
                self.rtt_us += f64::from(info.rtt_us);
                self.retransmits += f64::from(info.retransmits);
            }
            None => self.without_info = true,
        }
    }
}

fn put(facts: &mut Facts, sockets: &[Socket], peers: &mut BTreeSet<SocketAddr>) {
    // Of several sockets on one address (reuseport) the fullest tells.
    let mut listeners: BTreeMap<SocketAddr, &Socket> = BTreeMap::new();
    for socket in sockets.iter().filter(|s| s.listening) {
        let fullest = listeners.entry(socket.local).or_insert(socket);
        if socket.receive_queue > fullest.receive_queue {
            *fullest = socket;
        }
    }
    for (local, socket) in &listeners {
        let item = local.to_string();
        facts.put(&m::LISTEN_QUEUE, &item, f64::from(socket.receive_queue));
        facts.put(&m::LISTEN_BACKLOG, &item, f64::from(socket.send_queue));
    }
    let mut inbound: BTreeMap<u16, Group> = listeners.keys().map(|local| (local.port(), Group::default())).collect();
    let mut outbound: BTreeMap<SocketAddr, Group> = peers.iter().map(|peer| (*peer, Group::default())).collect();
    for socket in sockets.iter().filter(|s| !s.listening) {
        if let Some(group) = inbound.get_mut(&socket.local.port()) {
            group.add(socket, socket.busy());
        } else {
            outbound.entry(socket.peer).or_default().add(socket, socket.waiting());
        }
    }
    for (port, group) in &inbound {
        put_inbound(facts, &port.to_string(), group);
    }
    if outbound.len() > PEERS_MAX {
        facts.miss("conn.out", format_args!("more than {PEERS_MAX} peers: the rest is not shown"));
    }
    for (peer, group) in outbound.iter().take(PEERS_MAX) {
        if peers.len() < PEERS_MAX {
            peers.insert(*peer);
        }
        put_outbound(facts, &peer.to_string(), group);
    }
}

const NO_INFO: &str = "inet_diag gave no or a short tcp_info for some socket";

fn put_inbound(facts: &mut Facts, item: &str, group: &Group) {
    facts.put(&m::CONN_IN, item, group.sockets);
    facts.put(&m::CONN_IN_UNREAD, item, group.unread);
    if group.without_info {
        return facts.miss(m::CONN_IN_BUSY.name, NO_INFO);
    }
    facts.put(&m::CONN_IN_BUSY, item, group.active);
    facts.put(&m::CONN_IN_RETRANSMITS, item, group.retransmits);
}

fn put_outbound(facts: &mut Facts, item: &str, group: &Group) {
    facts.put(&m::CONN_OUT, item, group.sockets);
    if group.without_info {
        return facts.miss(m::CONN_OUT_WAITING.name, NO_INFO);
    }
    facts.put(&m::CONN_OUT_WAITING, item, group.active);
    facts.put(&m::CONN_OUT_RETRANSMITS, item, group.retransmits);
    if group.sockets > 0.0 {
        facts.put(&m::CONN_OUT_RTT, item, group.rtt_us / group.sockets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    /// Sent and received in milliseconds ago.
    fn connection(local: &str, peer: &str, sent: u32, received: u32, queues: (u32, u32)) -> Socket {
        Socket {
            listening: false,
            local: local.parse().unwrap(),
            peer: peer.parse().unwrap(),
            receive_queue: queues.0,
            send_queue: queues.1,
            info: Some(Info { sent_ms_ago: sent, received_ms_ago: received, rtt_us: 100, retransmits: 2 }),
        }
    }

    fn listener(local: &str, queue: u32, backlog: u32) -> Socket {
        Socket { listening: true, ..connection(local, "0.0.0.0:0", 0, 0, (queue, backlog)) }
    }

    fn check(sockets: &[Socket], want: Expect) {
        let mut facts = Facts::new("lb", 0);
        put(&mut facts, sockets, &mut BTreeSet::new());
        want.assert_eq(&facts.listing());
    }

    #[test]
    fn tells_who_has_the_request() {
        check(
            &[
                listener("0.0.0.0:80", 3, 511),
                listener("0.0.0.0:80", 9, 511),
                connection("10.0.0.2:80", "10.0.0.1:4000", 50, 10, (0, 0)), // being served
                connection("10.0.0.2:80", "10.0.0.1:4009", 90, 10, (0, 0)), // being served
                connection("10.0.0.2:80", "10.0.0.1:4001", 10, 50, (0, 0)), // answered
                connection("10.0.0.2:80", "10.0.0.1:4002", 10, 10, (5, 0)), // one tick, unread
                connection("10.0.0.2:80", "10.0.0.1:4003", 10, 10, (0, 0)), // one tick, not known: idle
                connection("10.0.0.2:5000", "10.0.0.3:80", 10, 50, (0, 0)), // awaits
                connection("10.0.0.2:5009", "10.0.0.3:80", 10, 90, (0, 0)), // awaits
                connection("10.0.0.2:5001", "10.0.0.3:80", 10, 10, (0, 7)), // one tick, not acknowledged
                connection("10.0.0.2:5002", "10.0.0.3:80", 50, 10, (0, 0)), // idle
            ],
            expect![[r#"
                listen.queue [0.0.0.0:80] 9
                listen.backlog [0.0.0.0:80] 511
                conn.in [80] 5
                conn.in_unread [80] 1
                conn.in_busy [80] 3
                conn.in_retransmits [80] 10
                conn.out [10.0.0.3:80] 4
                conn.out_waiting [10.0.0.3:80] 3
                conn.out_retransmits [10.0.0.3:80] 8
                conn.out_rtt [10.0.0.3:80] 100
            "#]],
        );
    }

    #[test]
    fn without_tcp_info_busy_is_a_gap_and_not_zero() {
        let mut bare = connection("10.0.0.2:80", "10.0.0.1:4000", 50, 10, (0, 0));
        bare.info = None;
        check(
            &[listener("[::]:80", 0, 511), bare],
            expect![[r#"
                listen.queue [[::]:80] 0
                listen.backlog [[::]:80] 511
                conn.in [80] 1
                conn.in_unread [80] 0
                gap conn.in_busy: inet_diag gave no or a short tcp_info for some socket
            "#]],
        );
    }

    #[test]
    fn a_peer_that_left_shows_zero() {
        let mut peers = BTreeSet::new();
        let mut facts = Facts::new("lb", 0);
        put(&mut facts, &[connection("10.0.0.2:5000", "10.0.0.3:80", 1, 2, (0, 0))], &mut peers);
        facts.begin(1);
        put(&mut facts, &[], &mut peers);
        assert_eq!(facts.value(&m::CONN_OUT, "10.0.0.3:80"), Some(0.0));
        assert_eq!(facts.value(&m::CONN_OUT_RTT, "10.0.0.3:80"), None, "no socket has no round trip time");
    }

    #[test]
    fn reads_the_kernels_layout() {
        let mut bytes = vec![0u8; 72];
        bytes[0] = libc::AF_INET6 as u8;
        bytes[1] = TCP_ESTABLISHED;
        bytes[4..8].copy_from_slice(&[0, 80, 0x10, 0]);
        bytes[18..24].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 2]);
        bytes[24 + 15] = 1;
        bytes[56] = 5;
        let mut info = vec![0u8; 104];
        (info[44], info[52], info[68], info[100]) = (1, 2, 3, 4);
        bytes.extend([108, 0, 2, 0]);
        bytes.extend(info);
        let seen = socket(&bytes).unwrap();
        assert_eq!(seen.local, "10.0.0.2:80".parse().unwrap());
        assert_eq!(seen.peer, "[::1]:4096".parse().unwrap());
        assert_eq!(seen.info, Some(Info { sent_ms_ago: 1, received_ms_ago: 2, rtt_us: 3, retransmits: 4 }));
        assert_eq!(seen.receive_queue, 5);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = socket(&bytes);
            let _ = tcp_info(&bytes);
        }
    }
}
