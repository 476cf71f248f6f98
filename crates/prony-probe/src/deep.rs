//! The deep look: eBPF programs that watch a host for a few seconds, and what they saw as facts and call stacks.
//!
//! Each instrument is one program file in `src/bpf` and one file beside this one. What can be watched is found out by
//! loading it: an instrument that the kernel refuses is a gap with its reason, and the others go on. It costs a few
//! percent of the CPUs while it lasts, so it is never taken in a scored trial; what each instrument costs is a fact of the
//! look (`cargo xtask bench observe`). Invariant: nothing stays in the kernel when a [`DeepLook`] is dropped.

mod costs;
mod fold;
mod interrupts;
mod locks;
mod mappings;
mod packets;
mod part_time;
mod profile;
mod program;
mod softirqs;
mod split;
mod symbols;
mod sys;
mod threads;
mod unwind;

use crate::facts::Facts;
use crate::roots::Roots;
use prony_model::metric as m;
use prony_model::{Host, Metric, Stacks};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Whom to watch.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    /// The hop's processes.
    pub pids: Vec<u32>,
    /// CPUs that the hop may use; empty: all.
    pub cpus: Vec<u32>,
    /// Number of the network namespace of the calling thread.
    pub namespace: Option<u32>,
}

/// Instruments at work.
#[derive(Debug)]
pub(crate) struct DeepLook {
    watched: Watched,
    begun: Instant,
    profile: Option<profile::Profile>,
    locks: Option<locks::Locks>,
    threads: Option<threads::Threads>,
    packets: Option<packets::Packets>,
    softirqs: Option<softirqs::Softirqs>,
    interrupts: Option<interrupts::Interrupts>,
    split: Option<split::Split>,
    costs: costs::Costs,
    duration: Duration,
}

impl DeepLook {
    /// Loads and attaches what the kernel allows, for a look that will last about `duration`. What it refuses is a gap.
    pub(crate) fn begin(facts: &mut Facts, host: &Host, roots: &Roots, pids: &[u32], duration: Duration) -> Self {
        let watched = Watched {
            pids: pids.to_vec(),
            cpus: host.cpus.as_ref().map_or_else(Vec::new, |cpus| cpus.as_slice().to_vec()),
            namespace: sys::namespace(&roots.proc.join("thread-self/ns/net")),
        };
        // A recorded /proc has no kernel behind it.
        if roots.proc != std::path::Path::new("/proc") {
            return Self::blind(watched);
        }
        let processes = !pids.is_empty() && sys::sees_all_pids(&roots.proc);
        if !pids.is_empty() && !processes {
            facts.miss(
                m::PROFILE_SAMPLES.name,
                "prony runs in a pid namespace of its own, where the kernel's pids mean nothing: start it outside, or its \
                 container with `--pid=host`",
            );
        }
        let profile = processes
            .then(|| taken(facts, &m::PROFILE_SAMPLES, profile::Profile::begin(&watched, &roots.proc)))
            .flatten();
        let locks = processes.then(|| taken(facts, &m::LOCK_WAIT, locks::Locks::begin(&watched))).flatten();
        let threads = processes.then(|| taken(facts, &m::THREAD_COUNT, threads::Threads::begin(&watched))).flatten();
        let packets = taken(facts, &m::DROP_REASON, packets::Packets::begin(&watched));
        let softirqs = taken(facts, &m::SOFTIRQ_TIME, softirqs::Softirqs::begin(duration));
        let interrupts = taken(facts, &m::HARDIRQ_TIME, interrupts::Interrupts::begin(duration));
        let split =
            processes.then(|| taken(facts, &m::SPLIT_RESIDENCE, split::Split::begin(&watched, duration))).flatten();
        let (costs, begun) = (costs::Costs::new(), Instant::now());
        Self { watched, begun, profile, locks, threads, packets, softirqs, interrupts, split, costs, duration }
    }

    fn blind(watched: Watched) -> Self {
        let (profile, locks, threads, packets, split) = (None, None, None, None, None);
        let (softirqs, interrupts) = (None, None);
        let (begun, costs, duration) = (Instant::now(), costs::Costs::default(), Duration::ZERO);
        Self { watched, begun, profile, locks, threads, packets, softirqs, interrupts, split, costs, duration }
    }

    /// Whether anything watches.
    pub(crate) fn is_blind(&self) -> bool {
        self.profile.is_none() && self.packets.is_none()
    }

    /// Called every few milliseconds: begins and ends what is watched for a part of the time only.
    pub(crate) fn tick(&mut self) {
        let age = self.begun.elapsed();
        self.profile.iter().for_each(profile::Profile::tick);
        if !self.costs.is_timing() {
            self.softirqs.iter_mut().for_each(|softirqs| softirqs.tick(age));
            self.interrupts.iter_mut().for_each(|interrupts| interrupts.tick(age));
            self.split.iter_mut().for_each(|split| split.tick(age));
        }
        let mut costs = std::mem::take(&mut self.costs);
        costs.tick(&self.programs(), age, self.duration);
        self.costs = costs;
    }

    fn programs(&self) -> costs::Programs<'_> {
        [
            ("profile", self.profile.as_ref().map(|i| &i.program)),
            ("locks", self.locks.as_ref().map(|i| &i.program)),
            ("threads", self.threads.as_ref().map(|i| &i.program)),
            ("packets", self.packets.as_ref().map(|i| &i.program)),
            ("softirqs", self.softirqs.as_ref().map(|i| i.part_time.program())),
            ("interrupts", self.interrupts.as_ref().map(|i| i.part_time.program())),
            ("split", self.split.as_ref().map(|i| i.part_time.program())),
        ]
    }

    /// Ends the look: puts `profile.*`, `lock.*`, `thread.*`, `queue.*`, `drop.*`, `softirq.time`, `hardirq.time`, `split.*`,
    /// `self.look`, and gives back the call stacks. Names are looked up now, in one batch, while the processes still live.
    pub(crate) fn finish(mut self, facts: &mut Facts, roots: &Roots) -> Option<Stacks> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let costs = std::mem::take(&mut self.costs);
        costs.put(&self.programs(), facts);
        let programs = self.programs();
        let programs = || programs.iter().filter_map(|(_, program)| *program);
        let own = programs().flat_map(program::Program::symbols).collect();
        // The names of addresses within them are looked up below, when the instruments have ended.
        let held: Vec<OwnedFd> = programs().flat_map(program::Program::held).collect();
        let mut raw = RawStacks::default();
        let profile = self.profile.take().map(|profile| profile.stop(&mut raw));
        let locks = self.locks.take().map(|locks| locks.stop(&mut raw));
        let threads = self.threads.take().map(|threads| threads.stop(&mut raw));
        if let Some(packets) = self.packets.take() {
            packets.put(facts, seconds);
        }
        if let Some(softirqs) = self.softirqs.take() {
            softirqs.put(facts, &self.watched);
        }
        if let Some(interrupts) = self.interrupts.take() {
            interrupts.put(facts, &self.watched, &roots.proc);
        }
        if let Some(split) = self.split.take() {
            split.put(facts);
        }
        let symbols = symbols::Symbols::of(&raw, &roots.proc);
        drop(held);
        let busy_s = threads.as_ref().map(|threads| threads.count() as f64 * seconds).filter(|s| *s > 0.0);
        if let Some(threads) = threads {
            threads.put(facts, &symbols, seconds);
        }
        if let (Some(locks), Some(busy_s)) = (locks, busy_s) {
            locks.put(facts, &symbols, busy_s, seconds);
        }
        profile.and_then(|profile| profile.put(facts, &symbols, &own))
    }
}

/// An instrument, or a gap of its first fact.
fn taken<T>(facts: &mut Facts, metric: &Metric, begun: Result<T, String>) -> Option<T> {
    begun.inspect_err(|reason| facts.miss(metric.name, reason)).ok()
}

/// Addresses that wait for their names.
#[derive(Debug, Default)]
pub(crate) struct RawStacks {
    /// Of the kernel.
    pub kernel: std::collections::BTreeSet<u64>,
    /// Of processes, by pid.
    pub user: std::collections::BTreeMap<u32, std::collections::BTreeSet<u64>>,
}
