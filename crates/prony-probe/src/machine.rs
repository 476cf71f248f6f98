//! Facts of the whole machine: CPUs, packet work, interrupts, pressure, memory, disks. The same for every namespace on
//! it.
//!
//! Does not look at processes or sockets. Invariant: a CPU is named by the number that the kernel wrote, never by its
//! line.

use crate::cadence::Cadence;
use crate::clock::Clocks;
use crate::fact_file::FactFile;
use crate::facts::Facts;
use crate::memory::Memory;
use crate::roots::Roots;
use crate::sys;
use crate::text::{count, hex, keyed};
use prony_model::Metric;
use prony_model::metric::{
    CONTEXT_SWITCHES, CPU_IDLE, CPU_IOWAIT, CPU_IRQ, CPU_NICE, CPU_SOFTIRQ, CPU_STEAL, CPU_SYSTEM, CPU_USER, DISK_BUSY,
    DISK_FLUSHES, DISK_WAITED, DISK_WRITES, DISK_WRITTEN, FORKS, INTERRUPTS, INTERRUPTS_CALL, INTERRUPTS_RESCHEDULE,
    LOAD_1, MEMORY_AVAILABLE, PSI_CPU_SOME, PSI_IO_FULL, PSI_IO_SOME, PSI_MEMORY_SOME, SOFTIRQ_NET_RX, SOFTIRQ_NET_TX,
    SOFTNET_DROPPED, SOFTNET_PROCESSED, SOFTNET_SQUEEZED, SOFTNET_STEERED,
};

/// Facts that are dear or slow to change are read once per second.
pub(crate) const SLOW_NS: u64 = 1_000_000_000;
/// Sectors of /proc/diskstats are 512 bytes whatever the device (Documentation/admin-guide/iostats.rst).
const SECTOR_BYTES: f64 = 512.0;

/// Readers of the machine's facts.
#[derive(Debug)]
pub(crate) struct Machine {
    stat: FactFile,
    softnet: FactFile,
    pressure: [(FactFile, &'static [(&'static str, Metric)]); 3],
    loadavg: FactFile,
    meminfo: FactFile,
    diskstats: FactFile,
    softirqs: FactFile,
    interrupts: FactFile,
    memory: Memory,
    clocks: Clocks,
    ticks_per_s: f64,
    slow: Cadence,
}

impl Machine {
    pub(crate) fn new(roots: &Roots) -> Self {
        let file = |name: &str| FactFile::new(roots.proc.join(name));
        Self {
            stat: file("stat"),
            softnet: FactFile::new(roots.net().join("softnet_stat")),
            pressure: [
                (file("pressure/cpu"), &[("some", PSI_CPU_SOME)]),
                (file("pressure/io"), &[("some", PSI_IO_SOME), ("full", PSI_IO_FULL)]),
                (file("pressure/memory"), &[("some", PSI_MEMORY_SOME)]),
            ],
            loadavg: file("loadavg"),
            meminfo: file("meminfo"),
            diskstats: file("diskstats"),
            softirqs: file("softirqs"),
            interrupts: file("interrupts"),
            memory: Memory::new(roots),
            clocks: Clocks::new(roots),
            ticks_per_s: sys::ticks_per_second(),
            slow: Cadence::every(SLOW_NS),
        }
    }

    pub(crate) fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>, at_ns: u64) {
        if let Some(text) = facts.text(&mut self.stat, page, "cpu") {
            put_stat(facts, &text, self.ticks_per_s);
        }
        if let Some(text) = facts.text(&mut self.softnet, page, "softnet") {
            put_softnet(facts, &text);
        }
        if self.slow.due(at_ns) {
            self.read_slow(facts, page);
            self.slow.ran(at_ns, 0);
        }
    }

    fn read_slow(&mut self, facts: &mut Facts, page: &mut Vec<u8>) {
        for (file, lines) in &mut self.pressure {
            for (line, metric) in *lines {
                match file.text(page) {
                    Ok(text) => facts.put_some(metric, "", pressure_total_s(&text, line)),
                    Err(e) => facts.miss(
                        metric.name,
                        format_args!("{}: {e}: needs a kernel with CONFIG_PSI, and psi=1", file.path().display()),
                    ),
                }
            }
        }
        if let Some(text) = facts.text(&mut self.loadavg, page, LOAD_1.name) {
            let load = text.split_whitespace().next().and_then(|w| w.parse().ok()).filter(|l: &f64| l.is_finite());
            facts.put_some(&LOAD_1, "", load);
        }
        if let Some(text) = facts.text(&mut self.meminfo, page, MEMORY_AVAILABLE.name) {
            facts.put_some(&MEMORY_AVAILABLE, "", keyed(&text, "MemAvailable:").map(|kib| kib * 1024.0));
        }
        if let Some(text) = facts.text(&mut self.diskstats, page, "disk") {
            put_disks(facts, &text);
        }
        if let Some(text) = facts.text(&mut self.softirqs, page, "softirq") {
            put_softirqs(facts, &text);
        }
        if let Some(text) = facts.text(&mut self.interrupts, page, "interrupts") {
            put_interrupts(facts, &text);
        }
        self.memory.read(facts, page);
        self.clocks.read(facts, page);
    }
}

/// Columns of a `cpuN` line of /proc/stat.
const CPU_COLUMNS: [&Metric; 8] =
    [&CPU_USER, &CPU_NICE, &CPU_SYSTEM, &CPU_IDLE, &CPU_IOWAIT, &CPU_IRQ, &CPU_SOFTIRQ, &CPU_STEAL];

fn put_stat(facts: &mut Facts, text: &str, ticks_per_s: f64) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("ctxt") => facts.put_some(&CONTEXT_SWITCHES, "", words.next().and_then(count)),
            Some("processes") => facts.put_some(&FORKS, "", words.next().and_then(count)),
            Some(name) => {
                let cpu = name.strip_prefix("cpu").filter(|n| n.parse::<u32>().is_ok());
                let Some(cpu) = cpu else { continue };
                for (metric, ticks) in CPU_COLUMNS.iter().zip(words) {
                    facts.put_some(metric, cpu, count(ticks).map(|t| t / ticks_per_s));
                }
            }
            None => {}
        }
    }
}

/// Columns of /proc/net/softnet_stat, hexadecimal; the 13th is the CPU (since 5.14). Before that kernel lines of
/// offline CPUs are left out without a trace, so no CPU can be named and nothing is put.
fn put_softnet(facts: &mut Facts, text: &str) {
    const COLUMNS: [(usize, &Metric); 4] =
        [(0, &SOFTNET_PROCESSED), (1, &SOFTNET_DROPPED), (2, &SOFTNET_SQUEEZED), (9, &SOFTNET_STEERED)];
    for line in text.lines() {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let Some(cpu) = columns.get(12).copied().and_then(hex) else {
            return facts.miss("softnet", "/proc/net/softnet_stat does not name its CPUs: needs kernel 5.14");
        };
        let cpu = cpu.to_string();
        for (column, metric) in COLUMNS {
            facts.put_some(metric, &cpu, columns.get(column).copied().and_then(hex));
        }
    }
}

/// `some avg10=0.00 ... total=123` in microseconds.
fn pressure_total_s(text: &str, line: &str) -> Option<f64> {
    let line = text.lines().find(|l| l.split_whitespace().next() == Some(line))?;
    let total = line.split_whitespace().find_map(|w| w.strip_prefix("total="))?;
    count(total).map(|us| us / 1e6)
}

/// Whole disks that were ever used. Partitions follow their disk and are left out.
fn put_disks(facts: &mut Facts, text: &str) {
    let mut disk = "";
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(numbers)) = (words.get(2), words.get(3..)) else { continue };
        let part = name.strip_prefix(disk).filter(|_| !disk.is_empty()).unwrap_or("-");
        if part.trim_start_matches('p').parse::<u32>().is_ok() {
            continue;
        }
        disk = name;
        let number = |i: usize| numbers.get(i).copied().and_then(count);
        if number(0).unwrap_or(0.0) + number(4).unwrap_or(0.0) == 0.0 {
            continue; // Never used: RAM disks and loop devices come by the dozen.
        }
        facts.put_some(&DISK_BUSY, name, number(9).map(|ms| ms / 1e3));
        facts.put_some(&DISK_WAITED, name, number(10).map(|ms| ms / 1e3));
        facts.put_some(&DISK_WRITES, name, number(4));
        facts.put_some(&DISK_WRITTEN, name, number(6).map(|sectors| sectors * SECTOR_BYTES));
        facts.put_some(&DISK_FLUSHES, name, number(15));
    }
}

/// CPU numbers of a header like `   CPU0   CPU2`.
pub(crate) fn header_cpus(text: &str) -> Vec<&str> {
    let header = text.lines().next().unwrap_or_default();
    header.split_whitespace().map_while(|w| w.strip_prefix("CPU").filter(|n| n.parse::<u32>().is_ok())).collect()
}

fn put_softirqs(facts: &mut Facts, text: &str) {
    let cpus = header_cpus(text);
    for line in text.lines().skip(1) {
        let mut words = line.split_whitespace();
        let metric = match words.next() {
            Some("NET_RX:") => &SOFTIRQ_NET_RX,
            Some("NET_TX:") => &SOFTIRQ_NET_TX,
            _ => continue,
        };
        for (cpu, value) in cpus.iter().zip(words) {
            facts.put_some(metric, cpu, count(value));
        }
    }
}

fn put_interrupts(facts: &mut Facts, text: &str) {
    let cpus = header_cpus(text);
    let mut totals = vec![0.0; cpus.len()];
    for line in text.lines().skip(1) {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default();
        // ERR and MIS have one number for the whole machine.
        if matches!(name, "ERR:" | "MIS:") {
            continue;
        }
        for ((cpu, total), value) in cpus.iter().zip(&mut totals).zip(words.map_while(count)) {
            *total += value;
            match name {
                "CAL:" => facts.put(&INTERRUPTS_CALL, cpu, value),
                "RES:" => facts.put(&INTERRUPTS_RESCHEDULE, cpu, value),
                _ => {}
            }
        }
    }
    for (cpu, total) in cpus.iter().zip(totals) {
        facts.put(&INTERRUPTS, cpu, total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn stat_counts_ticks_per_cpu() {
        Facts::check(
            |f, t| put_stat(f, t, 100.0),
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu3 100 0 50 7 1 2 3 4 0 0\nintr 5 1\nctxt 77\nbtime 1\nprocesses 8\n",
            expect![[r#"
                cpu.user [3] 1
                cpu.nice [3] 0
                cpu.system [3] 0.5
                cpu.idle [3] 0.07
                cpu.iowait [3] 0.01
                cpu.irq [3] 0.02
                cpu.softirq [3] 0.03
                cpu.steal [3] 0.04
                cpu.context_switches [] 77
                cpu.forks [] 8
            "#]],
        );
    }

    #[test]
    fn softnet_names_the_cpu_by_its_column() {
        Facts::check(
            put_softnet,
            "0000000a 00000001 00000002 0 0 0 0 0 0 0000000b 0 0 00000005 0 0\n",
            expect![[r#"
                softnet.processed [5] 10
                softnet.dropped [5] 1
                softnet.squeezed [5] 2
                softnet.steered [5] 11
            "#]],
        );
        Facts::check(
            put_softnet,
            "0000000a 00000001 00000002 0 0 0 0 0 0 0000000b\n",
            expect![[r#"
                gap softnet: /proc/net/softnet_stat does not name its CPUs: needs kernel 5.14
            "#]],
        );
    }

    #[test]
    fn disks_without_their_partitions() {
        Facts::check(
            put_disks,
            "7 0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
             259 0 nvme0n1 1 0 8 1 2 0 16 1 0 1500 3 0 0 0 0 4 1\n\
             259 1 nvme0n1p1 1 0 8 1 2 0 16 1 0 1500 3 0 0 0 0 4 1\n\
             8 0 sda 1 0 8 1 2 0 16 1 0 500 3\n",
            expect![[r#"
                disk.busy [nvme0n1] 1.5
                disk.waited [nvme0n1] 0.003
                disk.writes [nvme0n1] 2
                disk.written [nvme0n1] 8192
                disk.flushes [nvme0n1] 4
                disk.busy [sda] 0.5
                disk.waited [sda] 0.003
                disk.writes [sda] 2
                disk.written [sda] 8192
                gap disk.flushes: not in /proc/diskstats flush requests, or not a number there
            "#]],
        );
    }

    #[test]
    fn interrupts_follow_the_header() {
        Facts::check(
            put_interrupts,
            "      CPU0  CPU2\n 24:  1  2  IO-APIC 5-edge ACPI\nRES: 10 20 Rescheduling interrupts\nCAL: 100 200 Function\nERR: 7\n",
            expect![[r#"
                interrupts.reschedule [0] 10
                interrupts.reschedule [2] 20
                interrupts.call [0] 100
                interrupts.call [2] 200
                interrupts.total [0] 111
                interrupts.total [2] 222
            "#]],
        );
    }

    #[test]
    fn pressure_is_its_total() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=7\n";
        assert_eq!(pressure_total_s(text, "some"), Some(1.5));
        assert_eq!(pressure_total_s("some avg10=0\n", "some"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(s in "(cpu|CPU|NET_RX:|[0-9a-f -]|\\PC|\n){0,200}") {
            let mut facts = Facts::new("lb", 0);
            put_stat(&mut facts, &s, 100.0);
            put_softnet(&mut facts, &s);
            put_disks(&mut facts, &s);
            put_softirqs(&mut facts, &s);
            put_interrupts(&mut facts, &s);
        }
    }
}
