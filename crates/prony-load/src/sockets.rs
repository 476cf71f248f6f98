//! What the kernel says of the load's own connections: round trips, retransmits, and what limited their sending.
//!
//! It decides nothing. Invariant: only whole answers of the kernel count; an older kernel's shorter one leaves fields out.

use crate::sys::Socket;
use prony_model::load::SocketFacts;

/// Of connections that end, one in so many is asked, so that a connection per request stays cheap. A guess.
const ASK_ONE_IN: u32 = 64;
/// Length of `struct tcp_info` up to `tcpi_sndbuf_limited` (linux/tcp.h, since Linux 4.10).
const INFO_BYTES: usize = 192;

/// Adds up over the connections of one thread.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    facts: SocketFacts,
    rtt_us_sum: f64,
    ended: u32,
}

impl Sockets {
    /// A connection ends: it may be asked.
    #[inline]
    pub fn ending(&mut self, socket: &Socket) {
        self.ended = self.ended.wrapping_add(1);
        if self.ended % ASK_ONE_IN == 1 {
            self.ask(socket);
        }
    }

    /// Asks the kernel about a connection. One that is no TCP connection is not counted.
    pub fn ask(&mut self, socket: &Socket) {
        let mut info = [0; INFO_BYTES];
        if let Some(INFO_BYTES..) = socket.tcp_info(&mut info) {
            self.add(&info);
        }
    }

    fn add(&mut self, info: &[u8; INFO_BYTES]) {
        let u32_at = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().expect("eight bytes"));
        let facts = &mut self.facts;
        // Offsets of linux/tcp.h: tcpi_rtt, tcpi_total_retrans, tcpi_data_segs_out, and three times in microseconds.
        let rtt_us = f64::from(u32_at(68));
        facts.asked += 1;
        self.rtt_us_sum += rtt_us;
        facts.rtt_us_max = facts.rtt_us_max.max(rtt_us);
        facts.retransmits += u64::from(u32_at(100));
        facts.segments_out += u64::from(u32_at(156));
        facts.busy_us += u64_at(168);
        facts.window_limited_us += u64_at(176);
        facts.buffer_limited_us += u64_at(184);
    }

    /// Adds what another thread saw.
    pub fn merge(&mut self, other: &Self) {
        let (mine, theirs) = (&mut self.facts, &other.facts);
        mine.asked += theirs.asked;
        mine.rtt_us_max = mine.rtt_us_max.max(theirs.rtt_us_max);
        mine.retransmits += theirs.retransmits;
        mine.segments_out += theirs.segments_out;
        mine.busy_us += theirs.busy_us;
        mine.window_limited_us += theirs.window_limited_us;
        mine.buffer_limited_us += theirs.buffer_limited_us;
        self.rtt_us_sum += other.rtt_us_sum;
    }

    /// The sum; none when no connection was asked.
    pub fn facts(&self) -> Option<SocketFacts> {
        let asked = self.facts.asked;
        (asked > 0).then(|| SocketFacts { rtt_us_mean: self.rtt_us_sum / asked as f64, ..self.facts.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Endpoint;
    use std::net::TcpListener;

    #[test]
    fn reads_the_kernels_fields() {
        let mut info = [0; INFO_BYTES];
        let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
        put(68, &250u32.to_ne_bytes());
        put(100, &3u32.to_ne_bytes());
        put(156, &40u32.to_ne_bytes());
        put(168, &1000u64.to_ne_bytes());
        put(184, &7u64.to_ne_bytes());
        let mut sockets = Sockets::default();
        assert_eq!(sockets.facts(), None);
        sockets.add(&info);
        sockets.merge(&sockets.clone());
        let facts = sockets.facts().unwrap();
        assert_eq!((facts.asked, facts.rtt_us_mean, facts.rtt_us_max, facts.retransmits), (2, 250.0, 250.0, 6));
        assert_eq!(
            (facts.segments_out, facts.busy_us, facts.window_limited_us, facts.buffer_limited_us),
            (80, 2000, 0, 14)
        );
    }

    #[test]
    fn asks_a_real_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::Tcp(listener.local_addr().unwrap());
        let socket = Socket::open(&endpoint).unwrap();
        socket.connect(&endpoint).unwrap();
        listener.accept().unwrap();
        let mut sockets = Sockets::default();
        sockets.ask(&socket);
        let facts = sockets.facts().unwrap();
        assert!(facts.rtt_us_mean > 0.0 && facts.rtt_us_mean < 1e6, "{facts:?}");
    }
}
