//! Processes beside the hop: who else uses the CPUs of its workers. And who taps its packets, which may be a process of its own
//! control group. Part of a close look.
//!
//! Reads every process twice, so it has no place in scored trials. Knows nothing of the stack: neighbours may be other
//! hosts of it. Invariant: kernel threads and prony itself are no neighbours.

use crate::fact_file::read_once;
use crate::facts::Facts;
use crate::hop::{numbered, open_files};
use crate::process::StatFields;
use crate::roots::Roots;
use crate::sys;
use crate::tables::{resolver_sockets, taps};
use crate::text::word_of;
use prony_model::CpuList;
use prony_model::metric::{LOOK_DNS_SOCKETS, LOOK_NEIGHBOUR, LOOK_TAP};
use std::collections::{BTreeMap, BTreeSet};

/// A process that uses less of a CPU than this disturbs nobody. A guess.
const CPUS_MIN: f64 = 0.01;
/// Neighbours that are named, the greatest first.
const NAMED_MAX: usize = 20;
/// Processes read per scan; 8 us each.
const PROCESSES_MAX: usize = 4096;
/// Descriptors of a neighbour that are compared with packet sockets: a tap opens few files.
const DESCRIPTORS_MAX: usize = 64;
/// `flags` of /proc/PID/stat: PF_KTHREAD (include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// What one process had used, and where it last ran.
#[derive(Clone, Debug, PartialEq)]
struct Use {
    name: String,
    ticks: f64,
    cpu: u32,
}

/// Between two scans of all processes.
#[derive(Debug)]
pub(crate) struct Neighbours {
    roots: Roots,
    hop: BTreeSet<u32>,
    cpus: BTreeSet<u32>,
    first: BTreeMap<u32, Use>,
    resolvers: Vec<f64>,
}

impl Neighbours {
    /// Scans for the first time. `workers` are those of the hop's processes that serve.
    pub(crate) fn new(roots: &Roots, hop: &[u32], workers: &[u32]) -> Self {
        let cpus = workers.iter().filter_map(|pid| allowed(roots, *pid)).flatten().collect();
        let hop: BTreeSet<u32> = hop.iter().copied().collect();
        let first = scan(roots);
        Self { roots: roots.clone(), hop, cpus, first, resolvers: Vec::new() }
    }

    /// Counts the sockets that ask a name server.
    pub(crate) fn glance_at_resolvers(&mut self) {
        let text = read_once(&self.roots.net().join("udp"));
        self.resolvers.extend(text.ok().map(|text| resolver_sockets(&text) as f64));
    }

    /// Scans again and puts who used what in between.
    pub(crate) fn put(self, facts: &mut Facts, seconds: f64) {
        if !self.resolvers.is_empty() {
            facts.put(&LOOK_DNS_SOCKETS, "", self.resolvers.iter().sum::<f64>() / self.resolvers.len() as f64);
        }
        let now = scan(&self.roots);
        let spent = spent(&self.first, &now, sys::ticks_per_second() * seconds);
        let packet = read_once(&self.roots.net().join("packet")).unwrap_or_default();
        let taps: BTreeSet<String> = taps(&packet).map(|inode| format!("socket:[{inode}]")).collect();
        let item = |pid: u32, process: &Use| format!("{pid} {}", process.name);
        let (own, others): (Vec<_>, Vec<_>) = spent.into_iter().partition(|(pid, ..)| self.hop.contains(pid));
        let others = &others[..others.len().min(NAMED_MAX)];
        for (pid, process, cpus) in others.iter().filter(|(_, process, _)| self.cpus.contains(&process.cpu)) {
            facts.put(&LOOK_NEIGHBOUR, &item(*pid, process), *cpus);
        }
        let is_tap = |pid: u32| !taps.is_empty() && holds(&self.roots, pid, &taps);
        for (pid, process, cpus) in own.iter().take(NAMED_MAX).chain(others).filter(|(pid, ..)| is_tap(*pid)) {
            facts.put(&LOOK_TAP, &item(*pid, process), *cpus);
        }
    }
}

fn allowed(roots: &Roots, pid: u32) -> Option<Vec<u32>> {
    let status = read_once(&roots.process(pid).join("status")).ok()?;
    let list: CpuList = word_of(&status, "Cpus_allowed_list:")?.parse().ok()?;
    Some(list.as_slice().to_vec())
}

/// All processes but this one.
fn scan(roots: &Roots) -> BTreeMap<u32, Use> {
    let pids = numbered(&roots.proc).into_iter().filter(|pid| *pid != std::process::id()).take(PROCESSES_MAX);
    pids.filter_map(|pid| Some((pid, usage(&read_once(&roots.process(pid).join("stat")).ok()?)?))).collect()
}

fn usage(stat: &str) -> Option<Use> {
    let fields = StatFields::of(stat)?;
    let is_kernel_thread = fields.number(9)? as u64 & KERNEL_THREAD != 0;
    let name = stat.split_once('(')?.1.rsplit_once(')')?.0.replace(char::is_whitespace, "_");
    let (ticks, cpu) = (fields.number(14)? + fields.number(15)?, fields.number(39)? as u32);
    (!is_kernel_thread).then_some(Use { name, ticks, cpu })
}

/// Processes with the CPUs that they used in between, the greatest first.
fn spent<'a>(before: &BTreeMap<u32, Use>, now: &'a BTreeMap<u32, Use>, ticks: f64) -> Vec<(u32, &'a Use, f64)> {
    let mut spent: Vec<(u32, &Use, f64)> = Vec::new();
    for (pid, process) in now {
        let had =
            before.get(pid).filter(|b| b.name == process.name && b.ticks <= process.ticks).map_or(0.0, |b| b.ticks);
        let cpus = (process.ticks - had) / ticks.max(f64::MIN_POSITIVE);
        if cpus >= CPUS_MIN && cpus.is_finite() {
            spent.push((*pid, process, cpus));
        }
    }
    spent.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
    spent
}

/// Whether a process has one of these sockets open.
fn holds(roots: &Roots, pid: u32, sockets: &BTreeSet<String>) -> bool {
    let folder = roots.process(pid).join("fd");
    let descriptors = numbered(&folder).into_iter().take(DESCRIPTORS_MAX);
    open_files(&folder, descriptors).any(|to| sockets.contains(&to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Fields 9, 14, 15 and 39 of proc(5).
    fn stat(name: &str, flags: u64, ticks: u32, cpu: u32) -> String {
        let mut fields = vec!["0".to_string(); 50];
        (fields[0], fields[6], fields[11], fields[36]) =
            ("R".to_string(), flags.to_string(), ticks.to_string(), cpu.to_string());
        format!("7 ({name}) {}\n", fields.join(" "))
    }

    #[test]
    fn neighbours_on_the_workers_cpus_and_taps() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: dir.path().to_path_buf(), ..Roots::here() };
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("10/status", "Name:\tnginx\nCpus_allowed_list:\t0\n");
        write("10/stat", &stat("nginx", 0, 0, 0));
        for (pid, name, flags, cpu) in
            [(11, "cc 1", 0, 0), (12, "tap", 0, 1), (13, "kworker", KERNEL_THREAD, 0), (14, "own", 0, 0)]
        {
            write(&format!("{pid}/stat"), &stat(name, flags, 0, cpu));
        }
        write("net/packet", "sk R T P I R R U I\n0 3 3 0003 2 1 0 0 777\n");
        write("net/udp", "head\n1: 0:1 0:0035 01\n");
        for tap in ["12", "14"].map(|pid| dir.path().join(pid).join("fd")) {
            std::fs::create_dir_all(&tap).unwrap();
            std::os::unix::fs::symlink("socket:[777]", tap.join("3")).unwrap();
        }
        let mut neighbours = Neighbours::new(&roots, &[10, 14], &[10]);
        neighbours.glance_at_resolvers();
        let ticks = sys::ticks_per_second() as u32;
        for (pid, name, flags, cpu) in [
            (10, "nginx", 0, 0),
            (11, "cc 1", 0, 0),
            (12, "tap", 0, 1),
            (13, "kworker", KERNEL_THREAD, 0),
            (14, "own", 0, 0),
        ] {
            write(&format!("{pid}/stat"), &stat(name, flags, ticks, cpu));
        }
        let mut facts = Facts::new("lb", 0);
        neighbours.put(&mut facts, 2.0);
        assert_eq!(
            facts.listing(),
            "look.dns_sockets [] 1\nlook.neighbour [11 cc_1] 0.5\nlook.tap [14 own] 0.5\nlook.tap [12 tap] 0.5\n"
        );
    }

    #[test]
    fn a_pid_that_came_back_is_another_process() {
        let process = |name: &str, ticks| Use { name: name.to_string(), ticks, cpu: 0 };
        let before = BTreeMap::from([(7, process("a", 90.0)), (8, process("b", 90.0))]);
        let now = BTreeMap::from([(7, process("a", 50.0)), (8, process("c", 95.0))]);
        let seen: Vec<f64> = spent(&before, &now, 100.0).iter().map(|(_, _, cpus)| *cpus).collect();
        assert_eq!(seen, [0.95, 0.5]);
    }

    proptest! {
        #[test]
        fn no_text_panics(s in "[()0-9A-Z \n\\PC]{0,200}") {
            let _ = usage(&s);
        }
    }
}
