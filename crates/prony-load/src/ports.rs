//! How many local ports are left for new connections to a target.
//!
//! Who closes a connection first keeps its port for a minute (TIME_WAIT, RFC 9293, 3.6.1). From half of them on, connect() looks
//! through thousands of taken ones for a free one (`__inet_hash_connect`: every second port first), so a generator that opens
//! many connections runs out of CPU long before it runs out of ports.
//!
//! Reads the sockets of the calling thread's network namespace. Invariant: only what waits towards the target counts, of the local
//! address that has most.

use crate::target::Endpoint;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// `TCP_TIME_WAIT` of `include/net/tcp_states.h`, as `/proc/net/tcp` has it.
const TIME_WAIT: &str = "06";

/// Local ports that wait, of those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingPorts {
    /// In TIME_WAIT towards one endpoint, from one local address.
    pub waiting: u32,
    /// In `net.ipv4.ip_local_port_range`.
    pub all: u32,
}

impl WaitingPorts {
    /// Looks through the sockets towards these endpoints. None when they cannot be read. `root`: `/`, or a recorded tree.
    pub fn read(endpoints: &[Endpoint], root: &Path) -> Option<Self> {
        let text = |path: &str| std::fs::read_to_string(root.join("proc").join(path)).ok();
        let all = ports_in(&text("sys/net/ipv4/ip_local_port_range")?)?;
        // A machine without IPv6 has no such list.
        let sockets = text("thread-self/net/tcp")? + &text("thread-self/net/tcp6").unwrap_or_default();
        Some(Self { waiting: most_waiting(&sockets, endpoints), all })
    }

    /// 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.waiting) / f64::from(self.all)
    }
}

/// From the first to the last, both of them included.
fn ports_in(range: &str) -> Option<u32> {
    let mut ends = range.split_whitespace().map(str::parse::<u32>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    Some(last.checked_sub(first)? + 1)
}

/// Lines like `0: 0A4D000A:8000 144D000A:0050 06 ...`: number, local and remote address, state. Heads have no such words.
fn most_waiting(sockets: &str, endpoints: &[Endpoint]) -> u32 {
    let mut waiting: HashMap<(&str, &str), u32> = HashMap::new();
    for line in sockets.lines() {
        let mut words = line.split_whitespace().skip(1);
        let (Some(local), Some(remote), Some(TIME_WAIT)) = (words.next(), words.next(), words.next()) else { continue };
        let Some((local, _port)) = local.split_once(':') else { continue };
        *waiting.entry((local, remote)).or_default() += 1;
    }
    let is_target = |remote: &str| {
        address(remote).is_some_and(|seen| endpoints.iter().any(|e| matches!(e, Endpoint::Tcp(to) if *to == seen)))
    };
    waiting.iter().filter(|((_, remote), _)| is_target(remote)).map(|(_, count)| *count).max().unwrap_or(0)
}

/// Hexadecimal address in words of 32 bits, each in the byte order of the machine, and port.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(host.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    let ip = match host.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        _ => {
            let bytes = [word(0)?, word(1)?, word(2)?, word(3)?].concat();
            let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
            v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
        }
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKETS: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3531 1
   1: 0A004D0A:8000 14004D0A:0050 06 00000000:00000000 03:00000A21 00000000     0        0 0 3
   2: 0A004D0A:8002 14004D0A:0050 06 00000000:00000000 03:00000A21 00000000     0        0 0 3
   3: 0A004D0A:8004 14004D0A:0050 01 00000000:00000000 00:00000000 00000000     0        0 9 1
   4: 0B004D0A:8002 14004D0A:0050 06 00000000:00000000 03:00000A21 00000000     0        0 0 3
   5: 14004D0A:0050 0A004D0A:9000 06 00000000:00000000 03:00000A21 00000000     0        0 0 3
   6: 0A004D0A:8002 15004D0A:0050 06 00000000:00000000 03:00000A21 00000000     0        0 0 3
";

    #[test]
    fn only_what_waits_towards_the_target_counts() {
        let to = |text: &str| vec![Endpoint::Tcp(text.parse().unwrap())];
        assert_eq!(most_waiting(SOCKETS, &to("10.77.0.20:80")), 2);
        assert_eq!(most_waiting(SOCKETS, &to("10.77.0.21:80")), 1);
        assert_eq!(most_waiting(SOCKETS, &to("10.77.0.10:36864")), 1, "what the server closed");
        assert_eq!(most_waiting(SOCKETS, &to("10.77.0.20:81")), 0);
        assert_eq!(most_waiting(SOCKETS, &[Endpoint::Unix("/run/s".into())]), 0);
    }

    #[test]
    fn addresses_of_both_kinds_are_read() {
        let read = |text: &str| address(text).map(|a| a.to_string());
        assert_eq!(read("14004D0A:0050").as_deref(), Some("10.77.0.20:80"));
        assert_eq!(read("0000000000000000FFFF000014004D0A:0050").as_deref(), Some("10.77.0.20:80"));
        assert_eq!(read("00000000000000000000000001000000:1F90").as_deref(), Some("[::1]:8080"));
        assert_eq!((read("rem_address"), read("14:zz"), read("")), (None, None, None));
    }

    #[test]
    fn a_range_has_both_its_ends() {
        assert_eq!(ports_in("32768\t60999\n"), Some(28_232));
        assert_eq!((ports_in("9 1"), ports_in("x")), (None, None));
    }
}
