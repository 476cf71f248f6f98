//! Single TCP sockets of the namespace by inet_diag: accept queues, and which connections carry a request right now.
//!
//! Asks for established and listening sockets, and those that connect; TIME_WAIT is counted by sockstat. What neither the turns (`turns.rs`) nor
//! unread or unacknowledged bytes tell counts as idle, so busy and waiting are lower bounds for services faster than a tick of the
//! kernel's clock (1 to 10 ms).
//! Invariant: a number from tcp_info stands only when every socket of its group showed it.

use crate::cadence::Cadence;
use crate::facts::Facts;
use crate::limited::{Held, Limits};
use crate::netlink::{Netlink, attributes, u32_at};
use crate::sys;
use crate::tcp_info::Info;
use crate::turns::{Place, Traffic, Turns};
use prony_model::metric as m;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
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
    sent: Sent,
    turns: Turns,
    limits: Limits,
    cadence: Cadence,
}

/// One socket.
#[derive(Clone, Debug, PartialEq)]
struct Socket {
    listening: bool,
    /// Its connect is not answered yet.
    connecting: bool,
    /// A process has taken it up.
    accepted: bool,
    local: SocketAddr,
    peer: SocketAddr,
    /// Listening: connections that wait for accept(). Else: bytes that the process has not read.
    receive_queue: u32,
    /// Listening: the limit of the accept queue. Else: bytes not yet acknowledged.
    send_queue: u32,
    info: Option<Info>,
}

impl Sockets {
    pub(crate) fn new() -> Self {
        Self {
            netlink: Netlink::new(libc::NETLINK_SOCK_DIAG),
            seen: Vec::new(),
            peers: BTreeSet::new(),
            sent: Sent::default(),
            turns: Turns::default(),
            limits: Limits::default(),
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
        let asked =
            self.netlink.dump(TCPDIAG_GETSOCK, &request(&[TCP_ESTABLISHED, TCP_SYN_SENT, TCP_LISTEN]), |payload| {
                match socket(payload) {
                    Some(_) if seen.len() >= SOCKETS_MAX => left_out += 1,
                    Some(socket) => seen.push(socket),
                    None => {}
                }
            });
        if let Err(e) = asked {
            return facts
                .miss("conn", format_args!("netlink inet_diag: {e}: does the kernel have CONFIG_INET_TCP_DIAG?"));
        }
        if left_out > 0 {
            return facts.miss("conn", format_args!("more than {SOCKETS_MAX} sockets: not counted"));
        }
        put(facts, &self.seen, &mut self.peers, &mut self.turns, &mut self.limits);
        self.sent.put(facts, &self.seen);
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
const TCP_SYN_SENT: u8 = 2;
const TCP_LISTEN: u8 = 10;

/// struct inet_diag_req: family, lengths, extensions (4 bytes), socket id (48), states (4), dbs (4).
fn request(states: &[u8]) -> [u8; 60] {
    let mut bytes = [0; 60];
    bytes[0] = libc::AF_INET as u8;
    bytes[3] = 1 << (INET_DIAG_INFO - 1);
    let states = states.iter().fold(0u32, |all, state| all | (1 << state));
    bytes[52..56].copy_from_slice(&states.to_ne_bytes());
    bytes
}

/// Ports that anybody listens on in the namespace of the calling thread.
pub(crate) fn listening_ports() -> io::Result<BTreeSet<u16>> {
    let mut ports = BTreeSet::new();
    Netlink::new(libc::NETLINK_SOCK_DIAG).dump(TCPDIAG_GETSOCK, &request(&[TCP_LISTEN]), |payload| {
        ports.extend(socket(payload).filter(|socket| socket.listening).map(|socket| socket.local.port()));
    })?;
    Ok(ports)
}

/// struct inet_diag_msg, 72 bytes: family, state at 1, ports at 4 and 6 (network order), addresses at 8 and 24, queues
/// at 56 and 60, inode at 68: 0 while no process has accepted the connection.
fn socket(payload: &[u8]) -> Option<Socket> {
    let attributes_at = payload.get(72..)?;
    let family = i32::from(payload[0]);
    let port = |at: usize| u16::from_be_bytes([payload[at], payload[at + 1]]);
    let mut info = None;
    for (kind, value) in attributes(attributes_at) {
        if kind == INET_DIAG_INFO {
            info = Info::of(value);
        }
    }
    Some(Socket {
        listening: payload[1] == TCP_LISTEN,
        connecting: payload[1] == TCP_SYN_SENT,
        local: SocketAddr::new(address(family, payload.get(8..24)?)?, port(4)),
        peer: SocketAddr::new(address(family, payload.get(24..40)?)?, port(6)),
        accepted: u32_at(payload, 68)? != 0,
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

impl Socket {
    /// A request is under way: at a port one that came in and is not answered, to a peer one that went out and is not answered.
    fn is_asked(&self, place: Place, turns: &mut Turns) -> Option<bool> {
        let info = self.info.filter(|_| !self.connecting)?;
        let (came, went) = ((info.received_ms_ago, info.received), (info.sent_ms_ago, info.sent));
        let (asked, answered, queue) = match place {
            Place::Port(_) => (came, went, self.receive_queue),
            Place::Peer(_) => (went, came, self.send_queue),
        };
        let traffic = Traffic { asked_ms_ago: asked.0, answered_ms_ago: answered.0, segments: asked.1.zip(answered.1) };
        let told = turns.under_way(place, (self.local, self.peer), traffic);
        Some(told.unwrap_or(false) || (traffic.is_within_a_tick() && queue > 0))
    }
}

/// Segments with data that were sent to each peer, and from each port that is listened on, since the first look.
#[derive(Debug, Default)]
struct Sent {
    /// What each open socket had sent when it was last seen.
    last: HashMap<(SocketAddr, SocketAddr), u32>,
    to_peers: BTreeMap<SocketAddr, f64>,
    from_ports: BTreeMap<u16, f64>,
    begun: bool,
}

impl Sent {
    fn put(&mut self, facts: &mut Facts, sockets: &[Socket]) {
        let ports: BTreeSet<u16> = sockets.iter().filter(|s| s.listening).map(|s| s.local.port()).collect();
        let mut now = HashMap::with_capacity(sockets.len());
        for socket in sockets.iter().filter(|s| !s.listening && !s.connecting) {
            let Some(sent) = socket.info.and_then(|info| info.sent) else { return };
            let key = (socket.local, socket.peer);
            // What a socket sent before the first look is not counted; a pair of ports that is used again begins at 0.
            let before = self.last.get(&key).copied().unwrap_or(if self.begun { 0 } else { sent });
            let more = f64::from(if sent >= before { sent - before } else { sent });
            now.insert(key, sent);
            if ports.contains(&socket.local.port()) {
                *self.from_ports.entry(socket.local.port()).or_default() += more;
            } else if self.to_peers.len() < PEERS_MAX || self.to_peers.contains_key(&socket.peer) {
                *self.to_peers.entry(socket.peer).or_default() += more;
            }
        }
        self.last = now;
        self.begun = true;
        self.to_peers.iter().for_each(|(peer, sent)| facts.put(&m::CONN_OUT_SENT, &peer.to_string(), *sent));
        self.from_ports.iter().for_each(|(port, sent)| facts.put(&m::CONN_IN_ANSWERED, &port.to_string(), *sent));
    }
}

/// Sums over the sockets of one port or one peer.
#[derive(Clone, Debug, Default)]
struct Group {
    sockets: f64,
    connecting: f64,
    active: f64,
    unaccepted: f64,
    unread: f64,
    rtt_us: f64,
    retransmits: f64,
    without_info: bool,
    min_rtt_us: Option<u32>,
    stuck: f64,
    held: f64,
    limited: Option<Held>,
}

impl Group {
    fn add(&mut self, socket: &Socket, active: Option<bool>, limits: &mut Limits) {
        if socket.connecting {
            self.connecting += 1.0;
            return;
        }
        self.sockets += 1.0;
        self.unaccepted += f64::from(u8::from(!socket.accepted));
        self.unread += f64::from(u8::from(socket.accepted && socket.receive_queue > 0));
        self.active += f64::from(u8::from(active == Some(true)));
        match socket.info {
            Some(info) => {
                self.rtt_us += f64::from(info.rtt_us);
                self.retransmits += f64::from(info.retransmits);
                self.stuck += f64::from(u8::from(info.stuck()));
                self.held += f64::from(u8::from(info.held()));
                let elsewhere = socket.local.ip() != socket.peer.ip();
                self.min_rtt_us = self.min_rtt_us.into_iter().chain(info.min_rtt_us.filter(|_| elsewhere)).min();
                if let (Some(window_us), Some(buffer_us)) = (info.window_limited_us, info.buffer_limited_us) {
                    let growth = limits.growth(socket.local, socket.peer, Held { window_us, buffer_us });
                    let limited = self.limited.get_or_insert_default();
                    limited.window_us += growth.window_us;
                    limited.buffer_us += growth.buffer_us;
                }
            }
            None => self.without_info = true,
        }
    }
}

fn put(
    facts: &mut Facts,
    sockets: &[Socket],
    peers: &mut BTreeSet<SocketAddr>,
    turns: &mut Turns,
    limits: &mut Limits,
) {
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
            group.add(socket, socket.is_asked(Place::Port(socket.local.port()), turns), limits);
        } else {
            outbound.entry(socket.peer).or_default().add(
                socket,
                socket.is_asked(Place::Peer(socket.peer), turns),
                limits,
            );
        }
    }
    for (port, group) in &inbound {
        put_inbound(facts, &port.to_string(), group, limits);
    }
    if outbound.len() > PEERS_MAX {
        facts.miss("conn.out", format_args!("more than {PEERS_MAX} peers: the rest is not shown"));
    }
    for (peer, group) in outbound.iter().take(PEERS_MAX) {
        if peers.len() < PEERS_MAX {
            peers.insert(*peer);
        }
        put_outbound(facts, &peer.to_string(), group, limits);
    }
    turns.close_reading();
    limits.close_reading();
}

/// What a port and a peer show alike.
fn put_path(facts: &mut Facts, item: &str, group: &Group, limits: &mut Limits) {
    facts.put(&m::CONN_STUCK, item, group.stuck);
    facts.put(&m::CONN_HELD, item, group.held);
    facts.put_if_any(&m::CONN_MIN_RTT, item, group.min_rtt_us.map(f64::from));
    let (window_s, buffer_s) = limits.total_s(item, group.limited.unwrap_or_default());
    if group.limited.is_some() || group.sockets == 0.0 {
        facts.put(&m::CONN_WINDOW_LIMITED, item, window_s);
        facts.put(&m::CONN_BUFFER_LIMITED, item, buffer_s);
    }
}

const NO_INFO: &str = "inet_diag gave no or a short tcp_info for some socket";

fn put_inbound(facts: &mut Facts, item: &str, group: &Group, limits: &mut Limits) {
    facts.put(&m::CONN_IN, item, group.sockets);
    facts.put(&m::CONN_IN_UNACCEPTED, item, group.unaccepted);
    facts.put(&m::CONN_IN_UNREAD, item, group.unread);
    if group.without_info {
        return facts.miss(m::CONN_IN_BUSY.name, NO_INFO);
    }
    facts.put(&m::CONN_IN_BUSY, item, group.active);
    facts.put(&m::CONN_IN_RETRANSMITS, item, group.retransmits);
    put_path(facts, item, group, limits);
}

fn put_outbound(facts: &mut Facts, item: &str, group: &Group, limits: &mut Limits) {
    facts.put(&m::CONN_OUT, item, group.sockets);
    facts.put(&m::CONN_CONNECTING, item, group.connecting);
    if group.without_info {
        return facts.miss(m::CONN_OUT_WAITING.name, NO_INFO);
    }
    facts.put(&m::CONN_OUT_WAITING, item, group.active);
    facts.put(&m::CONN_OUT_RETRANSMITS, item, group.retransmits);
    if group.sockets > 0.0 {
        facts.put(&m::CONN_OUT_RTT, item, group.rtt_us / group.sockets);
    }
    put_path(facts, item, group, limits);
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
            connecting: false,
            accepted: true,
            local: local.parse().unwrap(),
            peer: peer.parse().unwrap(),
            receive_queue: queues.0,
            send_queue: queues.1,
            info: Some(Info {
                sent_ms_ago: sent,
                received_ms_ago: received,
                rtt_us: 100,
                retransmits: 2,
                sent: Some(sent),
                ..Info::default()
            }),
        }
    }

    fn listener(local: &str, queue: u32, backlog: u32) -> Socket {
        Socket { listening: true, ..connection(local, "0.0.0.0:0", 0, 0, (queue, backlog)) }
    }

    fn check(sockets: &[Socket], want: Expect) {
        let mut facts = Facts::new("lb", 0);
        put(&mut facts, sockets, &mut BTreeSet::new(), &mut Turns::default(), &mut Limits::default());
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
                Socket { accepted: false, ..connection("10.0.0.2:80", "10.0.0.1:4004", 50, 10, (5, 0)) }, // not accepted
                connection("10.0.0.2:80", "10.0.0.1:4003", 10, 10, (0, 0)), // one tick, not known: idle
                connection("10.0.0.2:5000", "10.0.0.3:80", 10, 50, (0, 0)), // awaits
                connection("10.0.0.2:5009", "10.0.0.3:80", 10, 90, (0, 0)), // awaits
                connection("10.0.0.2:5001", "10.0.0.3:80", 10, 10, (0, 7)), // one tick, not acknowledged
                connection("10.0.0.2:5002", "10.0.0.3:80", 50, 10, (0, 0)), // idle
                Socket { connecting: true, ..connection("10.0.0.2:5003", "10.0.0.4:80", 0, 0, (0, 1)) },
            ],
            expect![[r#"
                listen.queue [0.0.0.0:80] 9
                listen.backlog [0.0.0.0:80] 511
                conn.in [80] 6
                conn.in_unaccepted [80] 1
                conn.in_unread [80] 1
                conn.in_busy [80] 4
                conn.in_retransmits [80] 12
                conn.stuck [80] 0
                conn.held [80] 0
                conn.out [10.0.0.3:80] 4
                conn.connecting [10.0.0.3:80] 0
                conn.out_waiting [10.0.0.3:80] 3
                conn.out_retransmits [10.0.0.3:80] 8
                conn.out_rtt [10.0.0.3:80] 100
                conn.stuck [10.0.0.3:80] 0
                conn.held [10.0.0.3:80] 0
                conn.out [10.0.0.4:80] 0
                conn.connecting [10.0.0.4:80] 1
                conn.out_waiting [10.0.0.4:80] 0
                conn.out_retransmits [10.0.0.4:80] 0
                conn.stuck [10.0.0.4:80] 0
                conn.held [10.0.0.4:80] 0
                conn.window_limited [10.0.0.4:80] 0
                conn.buffer_limited [10.0.0.4:80] 0
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
                conn.in_unaccepted [80] 0
                conn.in_unread [80] 0
                gap conn.in_busy: inet_diag gave no or a short tcp_info for some socket
            "#]],
        );
    }

    #[test]
    fn a_peer_that_left_shows_zero() {
        let (mut peers, mut turns, mut limits) = (BTreeSet::new(), Turns::default(), Limits::default());
        let mut facts = Facts::new("lb", 0);
        put(
            &mut facts,
            &[connection("10.0.0.2:5000", "10.0.0.3:80", 1, 2, (0, 0))],
            &mut peers,
            &mut turns,
            &mut limits,
        );
        facts.begin(1);
        put(&mut facts, &[], &mut peers, &mut turns, &mut limits);
        assert_eq!(facts.value(&m::CONN_OUT, "10.0.0.3:80"), Some(0.0));
        assert_eq!(facts.value(&m::CONN_OUT_RTT, "10.0.0.3:80"), None, "no socket has no round trip time");
    }

    #[test]
    fn what_is_sent_is_counted_over_sockets_that_come_and_go() {
        let mut sent = Sent::default();
        let mut told = |sockets: &[(&str, u32)]| {
            let mut seen = vec![listener("10.0.0.2:80", 0, 5)];
            seen.extend(sockets.iter().map(|(peer, segments)| connection("10.0.0.2:4000", peer, *segments, 1, (0, 0))));
            seen.push(connection("10.0.0.2:80", "10.0.0.9:1", sockets.len() as u32, 1, (0, 0)));
            let mut facts = Facts::new("app", 0);
            sent.put(&mut facts, &seen);
            let value = |metric, item: &str| facts.value(metric, item);
            (value(&m::CONN_OUT_SENT, "10.0.0.3:5432"), value(&m::CONN_IN_ANSWERED, "80"))
        };
        assert_eq!(told(&[("10.0.0.3:5432", 90)]), (Some(0.0), Some(0.0)), "sent before the first look");
        assert_eq!(told(&[("10.0.0.3:5432", 97)]), (Some(7.0), Some(0.0)));
        assert_eq!(
            told(&[]),
            (Some(7.0), Some(0.0)),
            "a peer that is gone stays counted; a port that is used again starts at 0"
        );
        assert_eq!(told(&[("10.0.0.3:5432", 4)]), (Some(11.0), Some(1.0)));
    }

    #[test]
    fn reads_the_kernels_layout() {
        let mut bytes = vec![0u8; 72];
        bytes[0] = libc::AF_INET6 as u8;
        bytes[1] = TCP_ESTABLISHED;
        bytes[4..8].copy_from_slice(&[0, 80, 0x10, 0]);
        bytes[18..24].copy_from_slice(&[0xff, 0xff, 10, 0, 0, 2]);
        bytes[24 + 15] = 1;
        (bytes[56], bytes[70]) = (5, 1);
        let mut info = vec![0u8; 160];
        (info[44], info[52], info[68], info[100], info[156]) = (1, 2, 3, 4, 5);
        bytes.extend([164, 0, 2, 0]);
        bytes.extend(info);
        let seen = socket(&bytes).unwrap();
        assert_eq!(seen.local, "10.0.0.2:80".parse().unwrap());
        assert_eq!(seen.peer, "[::1]:4096".parse().unwrap());
        let seen_info = seen.info.map(|i| (i.sent_ms_ago, i.received_ms_ago, i.rtt_us, i.retransmits, i.sent));
        assert_eq!(seen_info, Some((1, 2, 3, 4, Some(5))));
        assert_eq!((seen.receive_queue, seen.accepted), (5, true));
        bytes[70] = 0;
        assert!(!socket(&bytes).unwrap().accepted, "without an inode it waits in the accept queue");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = socket(&bytes);
        }
    }
}
