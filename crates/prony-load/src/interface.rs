//! The network interface that a load goes through, and what it counted meanwhile.
//!
//! Reads the routes and counters of the calling thread's network namespace. Invariant: where several interfaces may carry the
//! load, or the kernel does not tell which does, there is none, and nothing is said of its bytes.

use crate::target::Endpoint;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

/// The interface of what stays on this machine.
const LOOPBACK: &str = "lo";
/// `RTF_UP` of `<linux/route.h>`.
const ROUTE_UP: u32 = 1;

/// What one interface received, since it exists or between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its name.
    pub name: String,
    /// Bytes, headers included.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

impl Received {
    /// Reads the counters of the interface through which all of these endpoints are reached. `root`: `/`, or a recorded tree.
    pub fn from(endpoints: &[Endpoint], root: &Path) -> Option<Self> {
        let text = |path: &str| std::fs::read_to_string(root.join("proc/thread-self/net").join(path)).ok();
        let routes = text("route").unwrap_or_default();
        let mut names = endpoints.iter().map(|endpoint| match endpoint {
            Endpoint::Tcp(address) if is_local(address.ip()) => Some(LOOPBACK),
            Endpoint::Tcp(address) => route_to(&routes, address.ip()),
            Endpoint::Unix(_) => None,
        });
        let name = names.next()??;
        names.all(|other| other == Some(name)).then_some(())?;
        let (bytes, packets) = counters(&text("dev")?, name)?;
        Some(Self { name: name.to_string(), bytes, packets })
    }

    /// Whether it carries what stays on this machine: requests as well as answers, and those of others.
    pub fn is_loopback(&self) -> bool {
        self.name == LOOPBACK
    }

    /// What was added since `before`; none if that was another interface.
    pub fn since(&self, before: &Self) -> Option<Self> {
        let added = |now: u64, then: u64| now.saturating_sub(then);
        (self.name == before.name).then(|| Self {
            name: self.name.clone(),
            bytes: added(self.bytes, before.bytes),
            packets: added(self.packets, before.packets),
        })
    }
}

/// Whether an address is this machine's own: then the kernel would answer from the same one. Nothing is sent.
fn is_local(address: IpAddr) -> bool {
    let from = || {
        let any: IpAddr = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { "::".parse().ok()? };
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((address, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    address.is_loopback() || from() == Some(address)
}

/// The interface of the longest route that fits, of those the one with the least metric (`/proc/net/route`: destination and
/// mask are in the byte order of the network). None for IPv6: its list has another form.
fn route_to(routes: &str, address: IpAddr) -> Option<&str> {
    let IpAddr::V4(address) = address else { return None };
    let address = u32::from_ne_bytes(address.octets());
    let fitting = routes.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let (destination, flags, mask) = (number(1)?, number(3)?, number(7)?);
        let metric: u32 = words.get(6)?.parse().ok()?;
        let fits = flags & ROUTE_UP != 0 && address & mask == destination;
        fits.then(|| (mask.count_ones(), std::cmp::Reverse(metric), *words.first().unwrap_or(&"")))
    });
    fitting.max_by_key(|(bits, metric, _)| (*bits, *metric)).map(|(_, _, name)| name)
}

/// Bytes and packets received (`/proc/net/dev`).
fn counters(dev: &str, name: &str) -> Option<(u64, u64)> {
    let line = dev.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let mut numbers = line.split_whitespace().map(|word| word.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const ROUTES: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
                          eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                          eth1\t0002000A\t00000000\t0001\t0\t0\t50\t00FFFFFF\t0\t0\t0\n\
                          eth2\t0002000A\t00000000\t0001\t0\t0\t10\t00FFFFFF\t0\t0\t0\n\
                          down\t0703000A\t00000000\t0000\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n";
    const DEV: &str =
        "Inter-|   Receive\n face |bytes    packets errs\n    lo: 100 2 0 0\n  eth0:5000 40 0 0\n eth2: 7000 50 0\n";

    fn endpoint(text: &str) -> Endpoint {
        Endpoint::Tcp(text.parse().unwrap())
    }

    #[test]
    fn the_longest_route_with_the_least_metric_wins() {
        let to = |address: &str| route_to(ROUTES, address.parse().unwrap());
        assert_eq!((to("10.0.2.7"), to("10.0.3.7"), to("8.8.8.8")), (Some("eth2"), Some("eth0"), Some("eth0")));
        assert_eq!((to("fd00::1"), route_to("", "10.0.2.7".parse().unwrap())), (None, None));
    }

    #[test]
    fn counters_are_those_of_the_one_interface() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("proc/thread-self/net");
        fs::create_dir_all(&net).unwrap();
        fs::write(net.join("route"), ROUTES).unwrap();
        let of = |endpoints: &[&str]| {
            let endpoints: Vec<Endpoint> = endpoints.iter().map(|text| endpoint(text)).collect();
            Received::from(&endpoints, root.path()).map(|r| (r.name, r.bytes, r.packets))
        };
        assert_eq!(of(&["127.0.0.1:80"]), None, "no counters");
        fs::write(net.join("dev"), DEV).unwrap();
        assert_eq!(of(&["127.0.0.1:80", "[::1]:80"]), Some(("lo".into(), 100, 2)));
        assert_eq!(of(&["10.0.2.7:80"]), Some(("eth2".into(), 7000, 50)));
        assert_eq!(of(&["10.0.2.7:80", "10.0.3.7:80"]), None, "two ways");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn what_was_added_is_of_the_same_interface() {
        let received = |name: &str, bytes| Received { name: name.into(), bytes, packets: bytes / 100 };
        assert_eq!(received("lo", 700).since(&received("lo", 500)), Some(received("lo", 200)));
        assert_eq!(received("lo", 700).since(&received("eth0", 500)), None);
    }

    #[test]
    fn own_addresses_are_local() {
        assert!(is_local("127.0.0.1".parse().unwrap()) && is_local("::1".parse().unwrap()));
        assert!(!is_local("192.0.2.1".parse().unwrap()), "an address for documentation");
    }
}
