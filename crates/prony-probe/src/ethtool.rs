//! What the drivers of interfaces tell by the ethtool ioctl: offloads, queues, coalescing, rings, statistics.
//!
//! Names of statistics differ from driver to driver: only those that are known are read. Invariant: an answer that is
//! too short gives nothing, and a driver that has no such figure is no gap.

use crate::facts::Facts;
use crate::netlink::{text, u32_at, u64_at};
use crate::sys::{self, EthtoolQuestion};
use prony_model::Metric;
use prony_model::metric as m;
use std::net::UdpSocket;

/// Statistics of packets that found no room, by the drivers that have them: most (`rx_missed_errors`, `rx_fifo_errors`),
/// igb (`rx_no_buffer_count`), mlx5 (`rx_out_of_buffer`), ixgbe (`rx_no_dma_resources`).
const OVERRUNS: [&str; 6] = [
    "rx_missed_errors",
    "rx_fifo_errors",
    "rx_no_buffer_count",
    "rx_out_of_buffer",
    "rx_no_dma_resources",
    "rx_overruns",
];
/// A card has some hundred statistics; mlx5 with 64 queues some thousands.
const STATISTICS_MAX: u32 = 1 << 14;

/// What joins and splits packets, by the name that ethtool gives it.
const OFFLOADS: [(&str, EthtoolQuestion); 3] =
    [("gro", EthtoolQuestion::Gro), ("gso", EthtoolQuestion::Gso), ("tso", EthtoolQuestion::Tso)];

/// Asks drivers in the namespace of the thread that first asks.
#[derive(Debug, Default)]
pub(crate) struct Ethtool {
    socket: Option<UdpSocket>,
}

impl Ethtool {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    fn ask(&mut self, interface: &str, question: EthtoolQuestion) -> Option<Vec<u8>> {
        if self.socket.is_none() {
            self.socket = UdpSocket::bind(("0.0.0.0", 0)).ok();
        }
        sys::ethtool(self.socket.as_ref()?, interface, question).ok()
    }

    /// What a driver is set to, as text by name; what it does not know is left out.
    pub(crate) fn settings(&mut self, interface: &str) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        let mut answers = |question| self.ask(interface, question).unwrap_or_default();
        for (name, question) in OFFLOADS {
            let on = u32_at(&answers(question), 4).map(|on| if on == 0 { "off" } else { "on" });
            found.extend(on.map(|on| (name, on.to_string())));
        }
        // struct ethtool_drvinfo: driver, version and firmware, 32 bytes each behind the command.
        let driver = answers(EthtoolQuestion::Driver);
        let of = |from: usize| driver.get(from..from + 32).map(text).filter(|text| !text.is_empty() && text != "N/A");
        found.extend(of(36).map(|version| ("driver_version", version)));
        found.extend(of(68).map(|version| ("firmware_version", version)));
        for (question, numbers) in [
            (EthtoolQuestion::Coalesce, [("coalesce_rx_us", 4), ("coalesce_tx_us", 20)]),
            (EthtoolQuestion::Ring, [("ring_rx", 20), ("ring_tx", 32)]),
        ] {
            let answer = answers(question);
            found.extend(numbers.into_iter().filter_map(|(name, at)| Some((name, u32_at(&answer, at)?.to_string()))));
        }
        let (used, most) = receive_queues(&answers(EthtoolQuestion::Channels));
        found.extend(used.zip(most).map(|(used, most)| ("queues", format!("{used} of {most}"))));
        found
    }

    /// Whether the interface joins and splits packets.
    pub(crate) fn put_offloads(&mut self, facts: &mut Facts, interface: &str) {
        for (name, question) in OFFLOADS {
            let on = self.ask(interface, question).and_then(|answer| u32_at(&answer, 4));
            facts.put_if_any(&m::IF_OFFLOAD, &format!("{interface} {name}"), on.map(|on| f64::from(on.min(1))));
        }
    }

    /// What only hardware has.
    pub(crate) fn put_card(&mut self, facts: &mut Facts, interface: &str) {
        if let Some(answer) = self.ask(interface, EthtoolQuestion::Channels) {
            put_channels(facts, interface, &answer);
        }
        if let Some(answer) = self.ask(interface, EthtoolQuestion::Coalesce) {
            put_words(facts, interface, &answer, &[(&m::NIC_COALESCE, 4), (&m::NIC_COALESCE_ADAPTIVE, 40)]);
        }
        if let Some(answer) = self.ask(interface, EthtoolQuestion::Ring) {
            put_words(facts, interface, &answer, &[(&m::NIC_RING, 20), (&m::NIC_RING_MAX, 4)]);
        }
        let count = self.ask(interface, EthtoolQuestion::StatisticsCount).and_then(|answer| u32_at(&answer, 16));
        let Some(count) = count.filter(|count| *count > 0 && *count <= STATISTICS_MAX) else { return };
        let names = self.ask(interface, EthtoolQuestion::StatisticsNames { count });
        let values = self.ask(interface, EthtoolQuestion::Statistics { count });
        if let (Some(names), Some(values)) = (names, values) {
            put_statistics(facts, interface, statistics(&names, &values));
        }
    }
}

fn put_words(facts: &mut Facts, interface: &str, answer: &[u8], wanted: &[(&Metric, usize)]) {
    for (metric, at) in wanted {
        facts.put_if_any(metric, interface, u32_at(answer, *at).map(f64::from));
    }
}

/// Queues that receive, in use and at most. struct ethtool_channels: most of rx, tx, other, combined, then those in use.
fn receive_queues(answer: &[u8]) -> (Option<f64>, Option<f64>) {
    let receiving =
        |rx: usize, combined: usize| Some(f64::from(u32_at(answer, rx)?) + f64::from(u32_at(answer, combined)?));
    (receiving(20, 32), receiving(4, 16))
}

fn put_channels(facts: &mut Facts, interface: &str, answer: &[u8]) {
    let (used, most) = receive_queues(answer);
    facts.put_if_any(&m::NIC_QUEUES_MAX, interface, most);
    facts.put_if_any(&m::NIC_QUEUES, interface, used);
}

/// Names of 32 bytes behind a head of 12, values of 8 bytes behind a head of 8.
fn statistics(names: &[u8], values: &[u8]) -> Vec<(String, f64)> {
    let names = names.get(12..).unwrap_or_default().chunks_exact(32).map(text);
    names.enumerate().map_while(|(i, name)| Some((name, u64_at(values, 8 + 8 * i)? as f64))).collect()
}

fn put_statistics(facts: &mut Facts, interface: &str, statistics: Vec<(String, f64)>) {
    let mut overruns = None;
    for (name, value) in statistics {
        if OVERRUNS.contains(&name.as_str()) {
            *overruns.get_or_insert(0.0) += value;
        }
        if let Some(queue) = receive_queue(&name) {
            facts.put(&m::NIC_QUEUE_PACKETS, &format!("{interface} {queue}"), value);
        }
    }
    facts.put_if_any(&m::NIC_OVERRUNS, interface, overruns);
}

/// The receive queue whose packets a statistic counts: `rx_queue_3_packets`, `rx3_packets`, `rx-3.packets`,
/// `queue_3_rx_cnt`.
fn receive_queue(name: &str) -> Option<u32> {
    let counts = name.ends_with("packets") || name.ends_with("rx_cnt");
    let other = ["xdp", "drop", "err", "lro", "bad", "csum", "tx"].iter().any(|word| name.contains(word));
    if !counts || other || !name.contains("rx") {
        return None;
    }
    let mut numbers = name.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let number = numbers.next()?.parse().ok()?;
    numbers.next().is_none().then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn a_cards_answers() {
        let mut facts = Facts::new("lb", 0);
        put_channels(&mut facts, "eth0", &words(&[0x3c, 0, 0, 1, 8, 0, 0, 1, 2]));
        put_words(
            &mut facts,
            "eth0",
            &words(&[0x10, 4096, 0, 0, 4096, 256]),
            &[(&m::NIC_RING, 20), (&m::NIC_RING_MAX, 4)],
        );
        let mut names = words(&[0x1b, 1, 4]);
        for name in ["rx_missed_errors", "rx_queue_1_packets", "rx_queue_1_drops", "tx_queue_1_packets"] {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(32, 0);
            names.extend(bytes);
        }
        let values: Vec<u8> = [4u64 << 32 | 0x1d, 7, 900, 3, 800].iter().flat_map(|v| v.to_ne_bytes()).collect();
        put_statistics(&mut facts, "eth0", statistics(&names, &values));
        expect![[r#"
            nic.queues_max [eth0] 8
            nic.queues [eth0] 2
            nic.ring [eth0] 256
            nic.ring_max [eth0] 4096
            nic.queue_packets [eth0 1] 900
            nic.overruns [eth0] 7
        "#]]
        .assert_eq(&facts.listing());
    }

    #[test]
    fn queues_of_several_drivers() {
        let names = ["rx_queue_3_packets", "rx3_packets", "rx-3.packets", "queue_3_rx_cnt"];
        assert!(names.iter().all(|name| receive_queue(name) == Some(3)));
        for other in ["tx3_packets", "rx3_xdp_packets", "rx_packets", "rx3_bytes", "rx_64_to_127_packets"] {
            assert_eq!(receive_queue(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics(a in proptest::collection::vec(any::<u8>(), 0..200), b in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut facts = Facts::new("lb", 0);
            put_channels(&mut facts, "eth0", &a.iter().map(|b| b & 0x7f).collect::<Vec<u8>>());
            put_statistics(&mut facts, "eth0", statistics(&a, &b));
        }
    }
}
