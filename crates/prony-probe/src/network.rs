//! Facts of the host's network namespace: interfaces, TCP counters, socket totals, ports.
//!
//! Does not look at single sockets (`sockets.rs`) or queueing disciplines (`qdisc.rs`). Invariant: sysfs is believed
//! only for an interface whose hardware address is the one that this namespace has.

use crate::cadence::Cadence;
use crate::ethtool::Ethtool;
use crate::fact_file::{FactFile, read_once};
use crate::facts::Facts;
use crate::machine::SLOW_NS;
use crate::netlink::{self, Netlink};
use crate::nic::{self, Vectors};
use crate::roots::Roots;
use crate::sys;
use crate::tables::Tables;
use crate::text::{count, join_mask, snmp_table};
use prony_model::Metric;
use prony_model::metric as m;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Readers of the namespace's facts.
#[derive(Debug)]
pub(crate) struct Network {
    dev: FactFile,
    snmp: FactFile,
    netstat: FactFile,
    sockstat: FactFile,
    port_range: FactFile,
    links: Option<Links>,
    ethtool: Option<Ethtool>,
    vectors: Vectors,
    tables: Tables,
    class_net: PathBuf,
    page_bytes: f64,
    slow: Cadence,
}

impl Network {
    pub(crate) fn new(roots: &Roots) -> Self {
        let net = roots.net();
        Self {
            dev: FactFile::new(net.join("dev")),
            snmp: FactFile::new(net.join("snmp")),
            netstat: FactFile::new(net.join("netstat")),
            sockstat: FactFile::new(net.join("sockstat")),
            port_range: FactFile::new(roots.sysctl("net.ipv4.ip_local_port_range")),
            links: roots.live().then(Links::new),
            ethtool: roots.live().then(Ethtool::new),
            vectors: Vectors::new(roots),
            tables: Tables::new(roots),
            class_net: roots.sys.join("class/net"),
            page_bytes: sys::page_bytes(),
            slow: Cadence::every(SLOW_NS),
        }
    }

    /// Counters.
    pub(crate) fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>) {
        if let Some(text) = facts.text(&mut self.snmp, page, "tcp") {
            put_table(facts, &text, "Tcp:", TCP, "/proc/net/snmp");
            put_table(facts, &text, "Udp:", UDP, "/proc/net/snmp");
        }
        if let Some(text) = facts.text(&mut self.netstat, page, "tcp.ext") {
            put_table(facts, &text, "TcpExt:", TCP_EXT, "/proc/net/netstat");
        }
        if let Some(text) = facts.text(&mut self.sockstat, page, "sock") {
            put_sockstat(facts, &text, self.page_bytes);
        }
        if let Some(text) = facts.text(&mut self.dev, page, "if") {
            put_interfaces(facts, &text);
        }
    }

    /// Settings and tables, when they are due. What netlink and ethtool tell waits for the kernel's lock of all network settings
    /// (`rtnl_lock`): seen here for 1.8 s, at all hosts of a machine at once.
    pub(crate) fn read_slow(&mut self, facts: &mut Facts, page: &mut Vec<u8>, at_ns: u64) {
        if self.slow.due(at_ns) {
            self.slow.ran(at_ns, 0);
            if let Some(text) = facts.text(&mut self.port_range, page, m::PORT_RANGE.name) {
                facts.put_some(&m::PORT_RANGE, "", port_range_size(&text));
            }
            self.tables.read(facts, page);
            self.read_interfaces(facts, page);
        }
    }

    fn read_interfaces(&mut self, facts: &mut Facts, page: &mut Vec<u8>) {
        let addresses = match &mut self.links {
            Some(links) => match links.all() {
                Ok(links) => {
                    put_links(facts, &links, self.ethtool.as_mut());
                    Some(links.into_iter().map(|l| (l.name, l.address)).collect())
                }
                Err(e) => return facts.miss("if.rx_queues", format_args!("netlink RTM_GETLINK: {e}")),
            },
            None => None,
        };
        let live = addresses.is_some();
        let mut cards = Vec::new();
        for (name, folder) in interfaces(&self.class_net, addresses, facts) {
            let (rx_queues, rps_cpus) = receive_queues(&folder);
            facts.put_if_any(&m::IF_RX_QUEUES, &name, rx_queues);
            facts.put_if_any(&m::IF_RPS_CPUS, &name, rps_cpus);
            facts.put_if_any(&m::IF_SPEED, &name, speed_bits_per_s(&folder));
            if !live {
                facts.put_if_any(&m::IF_MTU, &name, read_once(&folder.join("mtu")).ok().and_then(|t| count(t.trim())));
            }
            if nic::is_card(&folder) {
                nic::put_node(facts, &name, &folder);
                if let Some(ethtool) = &mut self.ethtool {
                    ethtool.put_card(facts, &name);
                }
                cards.push((name, folder));
            }
        }
        self.vectors.read(facts, page, &cards);
    }
}

/// Size of packets and offloads of each interface that is up. Tunnels that every namespace is born with are down.
fn put_links(facts: &mut Facts, links: &[Link], mut ethtool: Option<&mut Ethtool>) {
    for link in links.iter().filter(|l| l.is_up && l.name != "lo") {
        facts.put_if_any(&m::IF_MTU, &link.name, link.mtu.map(f64::from));
        if let Some(ethtool) = ethtool.as_deref_mut() {
            ethtool.put_offloads(facts, &link.name);
        }
    }
}

const TCP: &[(&str, Metric)] = &[
    ("ActiveOpens", m::TCP_ACTIVE_OPENS),
    ("PassiveOpens", m::TCP_PASSIVE_OPENS),
    ("AttemptFails", m::TCP_ATTEMPT_FAILS),
    ("EstabResets", m::TCP_ESTAB_RESETS),
    ("CurrEstab", m::TCP_ESTABLISHED),
    ("InSegs", m::TCP_IN_SEGMENTS),
    ("OutSegs", m::TCP_OUT_SEGMENTS),
    ("RetransSegs", m::TCP_RETRANSMITS),
    ("OutRsts", m::TCP_OUT_RESETS),
];
const UDP: &[(&str, Metric)] = &[("InDatagrams", m::UDP_IN), ("OutDatagrams", m::UDP_OUT)];
const TCP_EXT: &[(&str, Metric)] = &[
    ("TCPOrigDataSent", m::TCP_ORIGINAL_SENT),
    ("TCPTimeouts", m::TCP_TIMEOUTS),
    ("TCPSynRetrans", m::TCP_SYN_RETRANSMITS),
    ("TCPFastRetrans", m::TCP_FAST_RETRANSMITS),
    ("TCPLossProbes", m::TCP_LOSS_PROBES),
    ("TCPDSACKRecv", m::TCP_DSACK_RECEIVED),
    ("ListenOverflows", m::TCP_LISTEN_OVERFLOWS),
    ("ListenDrops", m::TCP_LISTEN_DROPS),
    ("TCPReqQFullDrop", m::TCP_SYN_QUEUE_DROPS),
    ("SyncookiesSent", m::TCP_SYN_COOKIES),
    ("TCPTimeWaitOverflow", m::TCP_TIME_WAIT_OVERFLOWS),
    ("TWRecycled", m::TCP_TIME_WAIT_REUSED),
    ("TCPBacklogDrop", m::TCP_BACKLOG_DROPS),
    ("TCPRcvQDrop", m::TCP_RECEIVE_QUEUE_DROPS),
    ("DelayedACKs", m::TCP_DELAYED_ACKS),
    ("TCPMemoryPressures", m::TCP_MEMORY_PRESSURES),
    ("TCPMTUPFail", m::TCP_MTU_PROBES_FAILED),
    ("TCPToZeroWindowAdv", m::TCP_ZERO_WINDOWS),
    ("PruneCalled", m::TCP_PRUNED),
];

fn put_table(facts: &mut Facts, text: &str, prefix: &str, wanted: &[(&str, Metric)], file: &str) {
    let mut found = 0;
    snmp_table(text, prefix, |name, value| {
        if let Some((_, metric)) = wanted.iter().find(|(n, _)| *n == name) {
            facts.put(metric, "", value);
            found += 1;
        }
    });
    if found < wanted.len() {
        miss_columns(facts, text, prefix, wanted, file);
    }
}

/// Names what a table lacks. Apart from the hot path, which only counts.
fn miss_columns(facts: &mut Facts, text: &str, prefix: &str, wanted: &[(&str, Metric)], file: &str) {
    for (name, metric) in wanted {
        let mut there = false;
        snmp_table(text, prefix, |n, _| there |= n == *name);
        if !there {
            facts.miss(metric.name, format_args!("{file} has no {prefix}{name} on this kernel"));
        }
    }
}

fn put_sockstat(facts: &mut Facts, text: &str, page_bytes: f64) {
    let Some(line) = text.lines().find(|l| l.starts_with("TCP:")) else {
        return facts.miss("sock", "/proc/net/sockstat has no TCP line");
    };
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    for pair in words.chunks_exact(2) {
        let value = count(pair[1]);
        match pair[0] {
            "inuse" => facts.put_some(&m::SOCK_TCP_IN_USE, "", value),
            "orphan" => facts.put_some(&m::SOCK_ORPHANS, "", value),
            "tw" => facts.put_some(&m::SOCK_TIME_WAIT, "", value),
            "mem" => facts.put_some(&m::SOCK_TCP_MEMORY, "", value.map(|pages| pages * page_bytes)),
            _ => {}
        }
    }
}

/// Interfaces that carried anything. Every namespace is born with a dozen tunnels that never do.
fn put_interfaces(facts: &mut Facts, text: &str) {
    for line in text.lines() {
        let Some((name, numbers)) = line.split_once(':') else { continue };
        let numbers: Vec<f64> = numbers.split_whitespace().map_while(count).collect();
        if numbers.len() < 16 || numbers.iter().all(|n| *n == 0.0) {
            continue;
        }
        let name = name.trim();
        facts.put(&m::IF_RX_BYTES, name, numbers[0]);
        facts.put(&m::IF_RX_PACKETS, name, numbers[1]);
        facts.put(&m::IF_RX_DROPS, name, numbers[3]);
        facts.put(&m::IF_TX_BYTES, name, numbers[8]);
        facts.put(&m::IF_TX_PACKETS, name, numbers[9]);
        facts.put(&m::IF_TX_DROPS, name, numbers[11]);
        facts.put(&m::IF_ERRORS, name, numbers[2] + numbers[10]);
    }
}

fn port_range_size(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (low, high) = (words.next().and_then(count)?, words.next().and_then(count)?);
    (high >= low).then_some(high - low + 1.0)
}

/// Hardware addresses of the namespace's interfaces, by RTM_GETLINK.
#[derive(Debug)]
pub(crate) struct Links {
    netlink: Netlink,
}

/// What RTM_GETLINK tells of one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    /// As sysfs writes it: `02:00:00:00:00:01`; empty for interfaces without one.
    pub(crate) address: String,
    pub(crate) is_up: bool,
    pub(crate) mtu: Option<u32>,
}

impl Links {
    pub(crate) fn new() -> Self {
        Self { netlink: Netlink::new(libc::NETLINK_ROUTE) }
    }

    pub(crate) fn all(&mut self) -> std::io::Result<Vec<Link>> {
        let mut links = Vec::new();
        // struct ifinfomsg: sixteen zero bytes ask for every interface.
        self.netlink.dump(libc::RTM_GETLINK, &[0; 16], |payload| links.extend(link(payload)))?;
        Ok(links)
    }

    pub(crate) fn addresses(&mut self) -> std::io::Result<BTreeMap<String, String>> {
        Ok(self.all()?.into_iter().map(|l| (l.name, l.address)).collect())
    }
}

/// One answer: struct ifinfomsg (index at 4, flags at 8), then attributes.
fn link(payload: &[u8]) -> Option<Link> {
    const IFLA_ADDRESS: u16 = 1;
    const IFLA_IFNAME: u16 = 3;
    const IFLA_MTU: u16 = 4;
    const IFF_UP: u32 = 1;
    let index = netlink::u32_at(payload, 4)?;
    let is_up = netlink::u32_at(payload, 8)? & IFF_UP != 0;
    let mut mtu = None;
    let (mut name, mut address) = (String::new(), String::new());
    for (kind, value) in netlink::attributes(payload.get(16..)?) {
        match kind {
            IFLA_IFNAME => name = netlink::text(value),
            IFLA_MTU => mtu = netlink::u32_at(value, 0),
            IFLA_ADDRESS => {
                address = value.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":");
            }
            _ => {}
        }
    }
    (!name.is_empty()).then_some(Link { index, name, address, is_up, mtu })
}

/// Folders of sysfs for the interfaces of this namespace, loopback left out. With `addresses` those that sysfs shows
/// of another namespace become a gap.
pub(crate) fn interfaces(
    class_net: &Path,
    addresses: Option<BTreeMap<String, String>>,
    facts: &mut Facts,
) -> Vec<(String, PathBuf)> {
    let names: Vec<String> = match &addresses {
        Some(addresses) => addresses.keys().cloned().collect(),
        None => folder_names(class_net),
    };
    let mut found = Vec::new();
    for name in names.into_iter().filter(|n| n != "lo") {
        let folder = class_net.join(&name);
        if let Some(address) = addresses.as_ref().and_then(|a| a.get(&name)) {
            let seen = read_once(&folder.join("address")).unwrap_or_default();
            if seen.trim() != address {
                let reason =
                    format!("{} is not this namespace's {name}: its sysfs is not mounted here", folder.display());
                facts.miss("if.rx_queues", &reason);
                facts.miss("if.rps_cpus", reason);
                continue;
            }
        }
        found.push((name, folder));
    }
    found
}

/// Sorted names in a folder; none when there is no folder.
pub(crate) fn folder_names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Number of receive queues, and CPUs in the union of their packet steering masks. None when sysfs shows no queue.
fn receive_queues(folder: &Path) -> (Option<f64>, Option<f64>) {
    let queues = folder.join("queues");
    let (mut rx, mut union, mut masks_read) = (0.0, Vec::new(), false);
    for name in folder_names(&queues).iter().filter(|n| n.starts_with("rx-")) {
        rx += 1.0;
        let mask = read_once(&queues.join(name).join("rps_cpus"));
        masks_read |= mask.ok().and_then(|mask| join_mask(&mask, &mut union)).is_some();
    }
    let steered: u32 = union.iter().map(|w| w.count_ones()).sum();
    ((rx > 0.0).then_some(rx), masks_read.then_some(f64::from(steered)))
}

/// Speed of a real link; none for virtual ones, which report a speed that limits nothing.
fn speed_bits_per_s(folder: &Path) -> Option<f64> {
    let is_virtual = std::fs::read_link(folder).is_ok_and(|to| to.components().any(|c| c.as_os_str() == "virtual"));
    let mbit = count(read_once(&folder.join("speed")).ok()?.trim())?;
    (!is_virtual && mbit > 0.0).then_some(mbit * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn a_missing_column_is_a_gap() {
        Facts::check(
            |f, t| put_table(f, t, "Udp:", UDP, "/proc/net/snmp"),
            "Udp: InDatagrams NoPorts\nUdp: 41 0\n",
            expect![[r#"
                udp.in [] 41
                gap udp.out: /proc/net/snmp has no Udp:OutDatagrams on this kernel
            "#]],
        );
    }

    #[test]
    fn sockstat_memory_is_in_pages() {
        Facts::check(
            |f, t| put_sockstat(f, t, 4096.0),
            "sockets: used 18\nTCP: inuse 2 orphan 1 tw 7 alloc 2 mem 3\n",
            expect![[r#"
                sock.tcp_in_use [] 2
                sock.orphans [] 1
                sock.time_wait [] 7
                sock.tcp_memory [] 12288
            "#]],
        );
    }

    #[test]
    fn interfaces_that_carried_nothing_are_left_out() {
        Facts::check(
            put_interfaces,
            "Inter-|   Receive\n face |bytes packets\n  eth0: 10 1 2 3 0 0 0 0 20 4 5 6 0 0 0 0\n tunl0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
            expect![[r#"
                if.rx_bytes [eth0] 10
                if.rx_packets [eth0] 1
                if.rx_drops [eth0] 3
                if.tx_bytes [eth0] 20
                if.tx_packets [eth0] 4
                if.tx_drops [eth0] 6
                if.errors [eth0] 7
            "#]],
        );
    }

    #[test]
    fn queues_and_speed_of_sysfs() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("devices/pci/net/eth0");
        for (queue, mask) in [("rx-0", "00000000,00000003"), ("rx-1", "00000001,00000002"), ("tx-0", "ff")] {
            std::fs::create_dir_all(real.join("queues").join(queue)).unwrap();
            std::fs::write(real.join("queues").join(queue).join("rps_cpus"), mask).unwrap();
        }
        std::fs::write(real.join("speed"), "10000\n").unwrap();
        assert_eq!(receive_queues(&real), (Some(2.0), Some(3.0)));
        assert_eq!(speed_bits_per_s(&real), Some(10e9));
        let class = dir.path().join("class/net");
        std::fs::create_dir_all(&class).unwrap();
        std::os::unix::fs::symlink(&real, class.join("eth0")).unwrap();
        std::os::unix::fs::symlink(&real, class.join("lo")).unwrap();
        let mut facts = Facts::new("lb", 0);
        assert_eq!(interfaces(&class, None, &mut facts).len(), 1);
        let other = BTreeMap::from([("eth0".to_string(), "02:00:00:00:00:01".to_string())]);
        assert!(interfaces(&class, Some(other), &mut facts).is_empty(), "sysfs of another namespace");
        assert!(facts.listing().contains("gap if.rps_cpus"));
        std::fs::write(real.join("speed"), "-1\n").unwrap();
        assert_eq!(speed_bits_per_s(&class.join("eth0")), None);
    }

    #[test]
    fn a_virtual_link_has_no_speed() {
        let dir = tempfile::tempdir().unwrap();
        let veth = dir.path().join("devices/virtual/net/eth0");
        std::fs::create_dir_all(&veth).unwrap();
        std::fs::write(veth.join("speed"), "10000\n").unwrap();
        std::os::unix::fs::symlink(&veth, dir.path().join("eth0")).unwrap();
        assert_eq!(speed_bits_per_s(&dir.path().join("eth0")), None);
    }

    #[test]
    fn port_range_includes_both_ends() {
        assert_eq!(port_range_size("32768\t60999\n"), Some(28232.0));
        assert_eq!(port_range_size("9 3"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = link(&bytes);
            let text = String::from_utf8_lossy(&bytes);
            let mut facts = Facts::new("lb", 0);
            put_interfaces(&mut facts, &text);
            put_sockstat(&mut facts, &text, 1.0);
        }
    }
}
