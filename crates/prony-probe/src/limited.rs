//! Time in which connections could not send, added up over connections that come and go.
//!
//! The kernel counts per connection, and forgets when it closes: what was seen of a closed one stays counted, its last
//! moments are lost. Invariant: a total never falls.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Microseconds that one connection was held back: by the receiver's window, and by its own send buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Held {
    pub(crate) window_us: u64,
    pub(crate) buffer_us: u64,
}

impl Held {
    fn is_none(self) -> bool {
        self == Self::default()
    }

    fn since(self, before: Self) -> Self {
        // A connection on the same ports that counted less is another one.
        let grown = |now: u64, before: u64| if now >= before { now - before } else { now };
        Self { window_us: grown(self.window_us, before.window_us), buffer_us: grown(self.buffer_us, before.buffer_us) }
    }
}

/// Follows connections from reading to reading. Those that were never held take no room.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    before: BTreeMap<(SocketAddr, SocketAddr), Held>,
    now: BTreeMap<(SocketAddr, SocketAddr), Held>,
    totals: BTreeMap<String, Held>,
    started: bool,
}

impl Limits {
    /// How much longer a connection was held since the reading before. At the first reading nothing: what was before
    /// watching began is not of this run.
    pub(crate) fn growth(&mut self, local: SocketAddr, peer: SocketAddr, held: Held) -> Held {
        if held.is_none() {
            return held;
        }
        self.now.insert((local, peer), held);
        let before = self.before.get(&(local, peer)).copied().unwrap_or_default();
        if self.started { held.since(before) } else { Held::default() }
    }

    /// Adds to the total of a port or peer, and gives it in seconds.
    pub(crate) fn total_s(&mut self, item: &str, growth: Held) -> (f64, f64) {
        let total = self.totals.entry(item.to_string()).or_default();
        total.window_us += growth.window_us;
        total.buffer_us += growth.buffer_us;
        (total.window_us as f64 / 1e6, total.buffer_us as f64 / 1e6)
    }

    /// Ends a reading.
    pub(crate) fn close_reading(&mut self) {
        self.before = std::mem::take(&mut self.now);
        self.started = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_survive_their_connections() {
        let (local, peer): (SocketAddr, SocketAddr) = ("10.0.0.2:80".parse().unwrap(), "10.0.0.1:9".parse().unwrap());
        let mut limits = Limits::default();
        let mut read = |held: Option<u64>| {
            let growth = held
                .map_or(Held::default(), |us| limits.growth(local, peer, Held { window_us: us, buffer_us: 2 * us }));
            let total = limits.total_s("80", growth);
            limits.close_reading();
            total
        };
        assert_eq!(read(Some(1_000_000)), (0.0, 0.0), "before watching began");
        assert_eq!(read(Some(3_000_000)), (2.0, 4.0));
        assert_eq!(read(None), (2.0, 4.0), "closed");
        assert_eq!(read(Some(500_000)), (2.5, 5.0), "a new one on the same ports");
        assert_eq!(read(Some(200_000)), (2.7, 5.4), "and another");
    }
}
