//! Where a network card sits in the machine: its NUMA node, and which CPUs take its interrupts.
//!
//! Interrupt numbers come from sysfs (`msi_irqs` of the device, or of the PCI device below a virtio one), else from the
//! name that the driver gave the line. Invariant: a line counts for one card.

use crate::fact_file::{FactFile, read_once};
use crate::facts::Facts;
use crate::machine::header_cpus;
use crate::network::folder_names;
use crate::roots::Roots;
use crate::text::count;
use prony_model::metric::{NIC_INTERRUPTS, NIC_NODE};
use std::path::{Path, PathBuf};

/// Whether an interface is a device, and not made by the kernel.
pub(crate) fn is_card(folder: &Path) -> bool {
    folder.join("device").is_dir()
}

/// Puts the NUMA node of a card; -1, which stands for none, is left out.
pub(crate) fn put_node(facts: &mut Facts, name: &str, folder: &Path) {
    let node = read_once(&folder.join("device/numa_node")).ok();
    facts.put_if_any(&NIC_NODE, name, node.and_then(|text| count(text.trim())));
}

/// Reader of the interrupts of cards.
#[derive(Debug)]
pub(crate) struct Vectors {
    interrupts: FactFile,
}

impl Vectors {
    pub(crate) fn new(roots: &Roots) -> Self {
        Self { interrupts: FactFile::new(roots.proc.join("interrupts")) }
    }

    /// Reads nothing when there is no card: virtual interfaces have no interrupts.
    pub(crate) fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>, cards: &[(String, PathBuf)]) {
        if cards.is_empty() {
            return;
        }
        let owned: Vec<(&str, Vec<String>)> =
            cards.iter().map(|(name, folder)| (name.as_str(), vectors(folder))).collect();
        if let Some(text) = facts.text(&mut self.interrupts, page, NIC_INTERRUPTS.name) {
            put_interrupts(facts, &text, &owned);
        }
    }
}

/// Numbers of a device's message signalled interrupts.
pub(crate) fn vectors(folder: &Path) -> Vec<String> {
    let own = folder_names(&folder.join("device/msi_irqs"));
    if own.is_empty() { folder_names(&folder.join("device/../msi_irqs")) } else { own }
}

fn put_interrupts(facts: &mut Facts, text: &str, cards: &[(&str, Vec<String>)]) {
    let cpus = header_cpus(text);
    let mut totals = vec![vec![0.0; cpus.len()]; cards.len()];
    for line in text.lines().skip(1) {
        let Some((number, rest)) = line.trim_start().split_once(':') else { continue };
        let action = rest.split_whitespace().last().unwrap_or_default();
        let is_of =
            |name: &str| action.strip_prefix(name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()));
        let by_number = cards.iter().position(|(_, vectors)| vectors.iter().any(|v| v == number));
        let Some(card) = by_number.or_else(|| cards.iter().position(|(name, _)| is_of(name))) else { continue };
        for (total, value) in totals[card].iter_mut().zip(rest.split_whitespace().map_while(count)) {
            *total += value;
        }
    }
    for ((name, _), totals) in cards.iter().zip(totals) {
        for (cpu, total) in cpus.iter().zip(totals) {
            facts.put(&NIC_INTERRUPTS, &format!("{name} {cpu}"), total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn lines_belong_to_cards_by_number_or_by_name() {
        let cards = [("eth0", vec!["24".to_string(), "25".to_string()]), ("eth1", vec![])];
        Facts::check(
            |f, t| put_interrupts(f, t, &cards),
            "      CPU0  CPU1\n 24:  1  2  PCI-MSI 1-edge virtio0-input.0\n 25:  10  20  PCI-MSI 2-edge virtio0-output.0\n\
             26:  5  6  PCI-MSI 3-edge eth1-TxRx-0\n 27:  9  9  PCI-MSI 4-edge eth10-TxRx-0\nRES: 1 1 Rescheduling interrupts\n",
            expect![[r#"
                nic.interrupts [eth0 0] 11
                nic.interrupts [eth0 1] 22
                nic.interrupts [eth1 0] 5
                nic.interrupts [eth1 1] 6
            "#]],
        );
    }

    #[test]
    fn a_virtio_card_has_its_vectors_one_folder_up() {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("pci/virtio0");
        let folder = dir.path().join("net/eth0");
        for made in [&device, &dir.path().join("pci/msi_irqs/24"), &folder] {
            std::fs::create_dir_all(made).unwrap();
        }
        assert!(!is_card(&folder));
        std::os::unix::fs::symlink(&device, folder.join("device")).unwrap();
        std::fs::write(device.join("numa_node"), "-1\n").unwrap();
        assert!(is_card(&folder));
        assert_eq!(vectors(&folder), ["24"]);
        let mut facts = Facts::new("lb", 0);
        put_node(&mut facts, "eth0", &folder);
        assert_eq!(facts.listing(), "", "-1 is no node");
    }

    proptest! {
        #[test]
        fn no_text_panics(s in "(CPU|eth0|[0-9: -]|\\PC|\n){0,120}") {
            put_interrupts(&mut Facts::new("lb", 0), &s, &[("eth0", vec!["1".to_string()])]);
        }
    }
}
