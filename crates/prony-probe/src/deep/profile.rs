//! The CPU profile: which code the hop's CPUs ran, by samples of call stacks.
//!
//! Samples of the hop's processes count in full. Packet work that a soft interrupt does while the CPU is idle, or a thread
//! of the kernel does, is charged to no process: it counts by the hop's part of the process time on its CPUs, as
//! `Reader::own_cpu` of the diagnosis has it. Code that runs with interrupts disabled is seen where it enables them again,
//! which is what the clock of a virtual machine allows. Samples within prony's own programs are left out: the hop does not run
//! them when nobody looks. Invariant: samples without a stack are counted, not dropped.

use super::fold::Fold;
use super::program::{Program, Records, u32_at, u64_at};
use super::symbols::{Frame, KERNEL, Symbols};
use super::unwind::{Callers, Copied};
use super::{RawStacks, Watched, sys};
use crate::facts::Facts;
use crate::hop::numbered;
use prony_model::Stacks;
use prony_model::metric as m;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Samples per second and CPU. A look of 3 s at one full CPU gives 3000, which tell a share of 5 % to 0.8 points (2
/// standard errors of a binomial share); 99 per second would tell it to 2.5. A prime below 1000, so that it falls in step
/// with no timer. Cost: 0.25 % of a CPU per 99 samples per second (measured for this design at 9999 per second), so 2.5 %.
const PER_SECOND: u64 = 997;
/// Stacks that are copied per second at most, on all CPUs together: 16 MiB, kept until the look ends. A guess: two busy CPUs have
/// their thousand each, and on 64 of them a look of 3 s still has 6,000 samples.
const COPIES_PER_S: u64 = 2_000;
/// The program that copies stacks, and the one that does not (before Linux 5.15, and on other processors than x86).
const COPYING: &str = "on_tick_copying";
const COUNTING: &str = "on_tick";
/// Where the copied bytes stand in `struct sample` of profile.bpf.c.
const COPIED_AT: usize = 40;
/// Functions of the kernel that run soft interrupts: one name since Linux 6.10, the other before.
const SOFTIRQ: [&str; 2] = ["handle_softirqs", "__do_softirq"];
/// The root of packet work outside the hop's processes.
const SOFTIRQ_ROOT: &str = "soft interrupts";
/// Errors of bpf_get_stackid that mean: there was a stack, and no place for it (EEXIST, ENOMEM).
const NO_PLACE: [i32; 2] = [-17, -12];

/// A profile in the making.
#[derive(Debug)]
pub(super) struct Profile {
    pub program: Program,
    per_second: u64,
    /// See `sample`. Their callers are found at the end: whoever looks has other things to do in time. None: the program
    /// does not copy.
    records: Option<Records>,
    callers: Callers,
}

/// A sample whose stack was copied, and its callers found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Followed {
    pid: u32,
    /// Number of the kernel's stack.
    kernel: i32,
    user: Vec<u64>,
}

/// Whose code a sample saw; numbered as in profile.bpf.c.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Hop,
    Stranger,
    Kernel,
}

/// Samples with the same stack.
#[derive(Clone, Debug)]
struct Counted {
    owner: Owner,
    pid: u32,
    kernel: Vec<u64>,
    user: Vec<u64>,
    /// Whether a part of the stack found no place.
    torn: bool,
    samples: f64,
}

/// A profile whose addresses have no names yet.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    per_second: u64,
    counted: Vec<Counted>,
    /// Samples that were not counted at all.
    lost: f64,
}

impl Profile {
    /// Clocks on every CPU that the hop's threads may run on, which may be others than the stack file says.
    pub(super) fn begin(watched: &Watched, proc: &Path) -> Result<Self, String> {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/profile.bpf.o"));
        let mut program = Program::load_at_least("profile", bytes, &[COPYING])?;
        program.watch(&watched.pids)?;
        let online = online_cpus();
        let own = if watched.cpus.is_empty() { &online } else { &watched.cpus };
        own.iter().try_for_each(|cpu| program.put("cpus", *cpu, &[1]))?;
        let theirs = cpus_of_threads(&watched.pids);
        let has_clock = |cpu: &u32| own.contains(cpu) || theirs.as_ref().is_none_or(|theirs| theirs.contains(cpu));
        let clocks: Vec<u32> = online.iter().copied().filter(has_clock).collect();
        let copies = program.has(COPYING);
        let mut callers = Callers::new(proc);
        if copies {
            watched.pids.iter().for_each(|pid| callers.know(*pid));
        }
        let per_second =
            if copies { PER_SECOND.min(COPIES_PER_S / clocks.len().max(1) as u64).max(1) } else { PER_SECOND };
        for cpu in clocks {
            let clock = sys::clock_of(cpu, per_second).map_err(|e| {
                format!(
                    "perf_event_open on CPU {cpu}: {e}; it needs root (CAP_PERFMON), see kernel.perf_event_paranoid"
                )
            })?;
            program.attach_to(if copies { COPYING } else { COUNTING }, clock)?;
        }
        let records = copies.then(|| program.records("samples", sample_bytes)).transpose()?;
        Ok(Self { program, per_second, records, callers })
    }

    /// Called every few milliseconds: takes what was copied, so that there is room for more.
    pub(super) fn tick(&self) {
        self.records.iter().for_each(Records::fetch);
    }

    /// Ends it, and asks for the names of what it saw.
    pub(super) fn stop(mut self, raw: &mut RawStacks) -> Stopped {
        self.program.detach();
        let lost = self.program.entries("lost").iter().map(|(_, value)| u64_at(value, 0) as f64).sum();
        let mut counted = Vec::new();
        for (key, value) in self.program.entries("counts") {
            let (kernel, user) = (u32_at(&key, 8) as i32, u32_at(&key, 12) as i32);
            let owner = match u32_at(&key, 0) {
                0 => Owner::Hop,
                1 => Owner::Stranger,
                _ => Owner::Kernel,
            };
            let one = Counted {
                owner,
                pid: u32_at(&key, 4),
                kernel: self.program.stack(kernel),
                user: self.program.stack(user),
                torn: NO_PLACE.contains(&kernel) || NO_PLACE.contains(&user),
                samples: u64_at(&value, 0) as f64,
            };
            counted.push(one);
        }
        let mut followed: BTreeMap<Followed, f64> = BTreeMap::new();
        if let Some(records) = &self.records {
            records.each(|record| {
                let (kernel, copied) = sample(record);
                let of = Followed { pid: copied.pid, kernel, user: self.callers.stack(&copied) };
                *followed.entry(of).or_default() += 1.0;
            });
        }
        for (Followed { pid, kernel, user }, samples) in followed {
            let torn = NO_PLACE.contains(&kernel);
            counted.push(Counted { owner: Owner::Hop, pid, kernel: self.program.stack(kernel), user, torn, samples });
        }
        for one in &counted {
            raw.kernel.extend(&one.kernel);
            if one.owner == Owner::Hop {
                raw.user.entry(one.pid).or_default().extend(&one.user);
            }
        }
        Stopped { per_second: self.per_second, counted, lost }
    }
}

/// Of a sample: what stands before the copy, and the copy.
fn sample_bytes(record: &[u8]) -> usize {
    COPIED_AT + u32_at(record, 32) as usize
}

/// `struct sample` of profile.bpf.c: the number of the kernel's stack, and the copy of the process's own.
fn sample(record: &[u8]) -> (i32, Copied<'_>) {
    let bytes = record.get(COPIED_AT..).unwrap_or_default();
    let length = bytes.len().min(u32_at(record, 32) as usize);
    let (ip, sp, bp) = (u64_at(record, 8), u64_at(record, 16), u64_at(record, 24));
    (u32_at(record, 4) as i32, Copied { pid: u32_at(record, 0), ip, sp, bp, bytes: &bytes[..length] })
}

impl Stopped {
    /// Puts `profile.*`, and gives back the stacks; none when the hop did not run. `own`: functions that are prony's programs.
    pub(super) fn put(self, facts: &mut Facts, symbols: &Symbols, own: &BTreeSet<String>) -> Option<Stacks> {
        let torn: f64 = self.of(Owner::Hop).filter(|c| c.torn).map(|c| c.samples).sum();
        let per_second = self.per_second;
        let (fold, of_prony) = self.fold(symbols, own);
        facts.put(&m::PROFILE_OWN, "", of_prony);
        facts.put(&m::PROFILE_SAMPLES, "", fold.samples());
        facts.put(&m::PROFILE_LOST, "", self.lost + torn);
        if fold.samples() < 1.0 {
            facts.miss(m::PROFILE_SELF.name, "no process of the hop ran while the profile was taken");
            return None;
        }
        fold.put(facts);
        let (host, at_ns) = facts.whose();
        Some(Stacks { host, at_ns, samples_per_s: per_second as u32, stacks: fold.stacks() })
    }

    fn of(&self, owner: Owner) -> impl Iterator<Item = &Counted> {
        self.counted.iter().filter(move |counted| counted.owner == owner)
    }

    /// The stacks of the hop, and the samples that are left out because they were in prony's own programs.
    fn fold(&self, symbols: &Symbols, own: &BTreeSet<String>) -> (Fold, f64) {
        let sum = |owner| self.of(owner).map(|c| c.samples).sum::<f64>();
        let (hop, strangers) = (sum(Owner::Hop), sum(Owner::Stranger));
        let part = if hop > 0.0 { hop / (hop + strangers) } else { 0.0 };
        let (mut fold, mut of_prony) = (Fold::default(), 0.0);
        let is_own = |kernel: &[&Frame]| kernel.iter().any(|frame| own.contains(&frame.function));
        let mut titles: BTreeMap<u32, Frame> = BTreeMap::new();
        for counted in self.of(Owner::Hop) {
            let title = symbols.title(counted.pid);
            let root = titles
                .entry(counted.pid)
                .or_insert_with(|| Frame { function: title.to_string(), module: title.to_string() });
            let user = symbols.user_stack(counted.pid, &counted.user);
            let kernel = symbols.kernel_stack(&counted.kernel);
            if is_own(&kernel) {
                of_prony += counted.samples;
                continue;
            }
            let mut frames = vec![root.clone()];
            frames.extend(user.into_iter().rev().chain(kernel.into_iter().rev()).cloned());
            if counted.torn || frames.len() == 1 {
                frames.push(Frame { function: "[no stack]".to_string(), module: "[no stack]".to_string() });
            }
            fold.add(frames, counted.samples);
        }
        for counted in self.of(Owner::Kernel) {
            let kernel = symbols.kernel_stack(&counted.kernel);
            if is_own(&kernel) {
                of_prony += counted.samples * part;
                continue;
            }
            let Some(at) = kernel.iter().position(|frame| SOFTIRQ.contains(&frame.function.as_str())) else { continue };
            let mut frames = vec![Frame { function: SOFTIRQ_ROOT.to_string(), module: KERNEL.to_string() }];
            frames.extend(kernel[..=at].iter().rev().map(|frame| (*frame).clone()));
            fold.add(frames, counted.samples * part);
        }
        (fold, of_prony)
    }
}

/// CPUs that threads of these processes may run on; none when one cannot be asked.
fn cpus_of_threads(pids: &[u32]) -> Option<BTreeSet<u32>> {
    let threads = pids.iter().flat_map(|pid| numbered(&PathBuf::from(format!("/proc/{pid}/task"))));
    let mut all = BTreeSet::new();
    for thread in threads {
        all.extend(sys::cpus_of(thread)?);
    }
    Some(all)
}

/// CPUs that are switched on; the first alone when the kernel does not say.
fn online_cpus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    match text.trim().parse::<prony_model::CpuList>() {
        Ok(cpus) if !cpus.as_slice().is_empty() => cpus.as_slice().to_vec(),
        Ok(_) | Err(_) => vec![0],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn counted(owner: Owner, kernel: &[u64], user: &[u64], samples: f64) -> Counted {
        Counted { owner, pid: 7, kernel: kernel.to_vec(), user: user.to_vec(), torn: false, samples }
    }

    #[test]
    fn packet_work_counts_by_the_hops_part_of_the_cpu() {
        let own = "bpf_prog_0123456789abcdef_on_read";
        let kernel = [(1, "tcp_v4_rcv"), (2, "handle_softirqs"), (3, "do_idle"), (4, "vfs_write"), (5, own)];
        let symbols =
            Symbols::made(&kernel).with_process(7, "nginx", &[(10, "ngx_write", "nginx"), (11, "main", "nginx")]);
        let stopped = Stopped {
            counted: vec![
                counted(Owner::Hop, &[4], &[10, 11], 30.0),
                counted(Owner::Hop, &[], &[10, 11], 30.0),
                counted(Owner::Stranger, &[], &[], 22.5),
                counted(Owner::Kernel, &[1, 2, 3], &[], 40.0),
                counted(Owner::Kernel, &[3], &[], 500.0),
                counted(Owner::Hop, &[5, 4], &[10, 11], 7.0),
                counted(Owner::Kernel, &[5, 1, 2, 3], &[], 10.0),
                Counted { torn: true, ..counted(Owner::Hop, &[], &[11], 0.5) },
            ],
            lost: 2.0,
            per_second: 499,
        };
        let mut facts = Facts::new("lb", 5);
        let stacks = stopped.put(&mut facts, &symbols, &BTreeSet::from([own.to_string()])).unwrap();
        expect![[r#"
            nginx;main;ngx_write 30
            nginx;main;ngx_write;vfs_write_[k] 30
            soft interrupts_[k];handle_softirqs_[k];tcp_v4_rcv_[k] 30
            nginx;main;[no stack] 1
        "#]]
        .assert_eq(&stacks.text());
        assert_eq!((stacks.host.as_str(), stacks.at_ns, stacks.samples_per_s), ("lb", 5, 499));
        assert_eq!(facts.value(&m::PROFILE_LOST, ""), Some(2.5));
        assert_eq!(facts.value(&m::PROFILE_OWN, ""), Some(14.5), "what prony itself runs is left out");
        assert!(facts.value(&m::PROFILE_SELF, "do_idle").is_none(), "idling is nobody's work");
    }

    #[test]
    fn threads_tell_where_they_may_run() {
        let own = cpus_of_threads(&[std::process::id()]).unwrap();
        assert!(!own.is_empty() && own.iter().all(|cpu| online_cpus().contains(cpu)), "{own:?}");
        assert_eq!(cpus_of_threads(&[]), Some(BTreeSet::new()));
    }

    #[test]
    fn a_hop_that_did_not_run_is_a_gap() {
        let mut facts = Facts::new("lb", 5);
        let idle = Stopped { counted: vec![counted(Owner::Kernel, &[], &[], 3000.0)], ..Stopped::default() };
        assert!(idle.put(&mut facts, &Symbols::default(), &BTreeSet::new()).is_none());
        assert!(facts.listing().contains("gap profile.self"), "{}", facts.listing());
    }
}
