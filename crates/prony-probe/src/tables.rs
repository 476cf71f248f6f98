//! Tables of the host's network namespace that can be full or dear: connection tracking, packet sockets, resolvers.
//!
//! Reads counts only, never the entries of the tracking table. Invariant: a table that the kernel does not have is a
//! gap, not an empty one.

use crate::fact_file::FactFile;
use crate::facts::Facts;
use crate::roots::Roots;
use crate::text::{count, hex};
use prony_model::metric as m;

/// Readers of the namespace's tables.
#[derive(Debug)]
pub(crate) struct Tables {
    entries: FactFile,
    most: FactFile,
    tracking: FactFile,
    packet: FactFile,
}

impl Tables {
    pub(crate) fn new(roots: &Roots) -> Self {
        Self {
            entries: FactFile::new(roots.sysctl("net.netfilter.nf_conntrack_count")),
            most: FactFile::new(roots.sysctl("net.netfilter.nf_conntrack_max")),
            tracking: FactFile::new(roots.net().join("stat/nf_conntrack")),
            packet: FactFile::new(roots.net().join("packet")),
        }
    }

    pub(crate) fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>) {
        for (file, metric) in [(&mut self.entries, &m::CONNTRACK_ENTRIES), (&mut self.most, &m::CONNTRACK_MAX)] {
            if let Some(text) = facts.text(file, page, metric.name) {
                facts.put_some(metric, "", count(text.trim()));
            }
        }
        if let Some(text) = facts.text(&mut self.tracking, page, m::CONNTRACK_DROPS.name) {
            facts.put_some(&m::CONNTRACK_DROPS, "", tracking_drops(&text));
        }
        if let Some(text) = facts.text(&mut self.packet, page, m::PACKET_SOCKETS.name) {
            facts.put(&m::PACKET_SOCKETS, "", taps(&text).count() as f64);
        }
    }
}

/// Packets that were dropped because no entry could be made, over all CPUs. A header, then hexadecimal lines.
fn tracking_drops(text: &str) -> Option<f64> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next()?.split_whitespace().collect();
    let column = |name: &str| names.iter().position(|n| *n == name);
    let columns = [column("drop")?, column("early_drop")?, column("insert_failed")?];
    let mut total = 0.0;
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        for column in columns {
            total += hex(words.get(column)?)?;
        }
    }
    Some(total)
}

/// Inodes of running packet sockets that take every protocol (ETH_P_ALL is 3).
pub(crate) fn taps(text: &str) -> impl Iterator<Item = u64> + '_ {
    text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (protocol, running, inode) = (words.get(3)?, words.get(5)?, words.get(8)?);
        (*protocol == "0003" && *running == "1").then(|| inode.parse().ok())?
    })
}

/// Lines of /proc/net/udp whose peer is port 53.
pub(crate) fn resolver_sockets(text: &str) -> usize {
    let peer = |line: &str| line.split_whitespace().nth(2).is_some_and(|peer| peer.ends_with(":0035"));
    text.lines().skip(1).filter(|line| peer(line)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn drops_over_all_cpus() {
        let text = "entries  clashres insert_failed drop early_drop icmp_error\n\
                    0000000a  00000000 00000001 00000010 00000000 00000000\n\
                    0000000a  00000000 00000000 00000002 00000003 00000000\n";
        assert_eq!(tracking_drops(text), Some(22.0));
        assert_eq!(tracking_drops("entries drop\n0 0\n"), None);
    }

    #[test]
    fn taps_take_every_protocol() {
        let text = "sk       RefCnt Type Proto  Iface R Rmem   User   Inode\n\
                    00000000 3      3    0003   2     1 0      0      777\n\
                    00000000 3      3    0003   0     0 0      0      778\n\
                    00000000 3      2    88cc   2     1 0      0      779\n";
        assert_eq!(taps(text).collect::<Vec<_>>(), [777]);
    }

    #[test]
    fn resolvers_have_port_53_at_the_other_end() {
        let text = "  sl  local_address rem_address   st tx_queue\n\
                     1: 00000000:A1B2 0100007F:0035 01 0\n 2: 0100007F:0035 00000000:0000 07 0\n";
        assert_eq!(resolver_sockets(text), 1);
    }

    proptest! {
        #[test]
        fn no_text_panics(s in "(drop |early_drop |insert_failed |[0-9a-f: ]|\\PC|\n){0,120}") {
            let _ = (tracking_drops(&s), taps(&s).count(), resolver_sockets(&s));
        }
    }
}
