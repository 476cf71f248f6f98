//! How much of each CPU's time the handler of each interrupt takes, measured for a short part of the look, as soon as it has
//! settled.
//!
//! Like soft interrupts these are of the machine. What CPUs send themselves and each other (timer, rescheduling, calls) is seen
//! where the kernel tells of it, which is x86.

use super::Watched;
use super::part_time::PartTime;
use super::program::{Program, u32_at, u64_at};
use super::softirqs::SHARE_MIN;
use crate::facts::Facts;
use crate::network::folder_names;
use prony_model::metric as m;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Interrupts without a number: as in interrupts.bpf.c, from the first on.
const OWN: [&str; 4] = ["timer", "reschedule", "call-function", "irq-work"];
const FIRST_OWN: u32 = 1 << 30;
/// Programs that only x86 has tracepoints for.
const X86: [&str; 10] = [
    "on_timer",
    "on_timer_end",
    "on_reschedule",
    "on_reschedule_end",
    "on_call",
    "on_call_end",
    "on_single",
    "on_single_end",
    "on_work",
    "on_work_end",
];

/// Interrupts under watch, or soon.
#[derive(Debug)]
pub(super) struct Interrupts {
    pub part_time: PartTime,
}

impl Interrupts {
    pub(super) fn begin(look: Duration) -> Result<Self, String> {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/interrupts.bpf.o"));
        let program = Program::load_at_least("interrupts", bytes, &X86)?;
        Ok(Self { part_time: PartTime::new(program, look) })
    }

    /// Begins when the load has settled, and ends soon after.
    pub(super) fn tick(&mut self, age: Duration) {
        self.part_time.tick_shortly(age);
    }

    /// Puts the shares for the CPUs that the hop may use. `proc` names the interrupts.
    pub(super) fn put(self, facts: &mut Facts, watched: &Watched, proc: &Path) {
        let (program, seconds) = match self.part_time.finish() {
            Ok(watched) => watched,
            Err(reason) => return facts.miss(m::HARDIRQ_TIME.name, reason),
        };
        let spent = program.entries("spent").into_iter();
        let spent = spent.map(|(key, ns)| (u32_at(&key, 0), u32_at(&key, 4), u64_at(&ns, 0))).collect::<Vec<_>>();
        put(facts, &spent, seconds, &watched.cpus, proc);
    }
}

/// `spent`: interrupt, CPU, nanoseconds.
fn put(facts: &mut Facts, spent: &[(u32, u32, u64)], seconds: f64, cpus: &[u32], proc: &Path) {
    // Several interrupts may have one name.
    let mut shares: BTreeMap<String, f64> = BTreeMap::new();
    for (interrupt, cpu, ns) in spent.iter().filter(|(_, cpu, _)| cpus.is_empty() || cpus.contains(cpu)) {
        *shares.entry(format!("{} {cpu}", name_of(*interrupt, proc))).or_default() += *ns as f64 / 1e9 / seconds;
    }
    for (item, share) in shares.into_iter().filter(|(_, share)| *share >= SHARE_MIN) {
        facts.put(&m::HARDIRQ_TIME, &item, share.min(1.0));
    }
}

/// Who handles it: the folders of /proc/irq/NUMBER have their names.
fn name_of(interrupt: u32, proc: &Path) -> String {
    if let Some(own) = interrupt.checked_sub(FIRST_OWN).and_then(|own| OWN.get(own as usize)) {
        return own.to_string();
    }
    let folder = proc.join("irq").join(interrupt.to_string());
    let handlers = folder_names(&folder).into_iter().filter(|name| folder.join(name).is_dir()).collect::<Vec<_>>();
    if handlers.is_empty() { format!("irq-{interrupt}") } else { handlers.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn shares_by_the_names_of_handlers() {
        let proc = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(proc.path().join("irq/36/virtio1-req.0")).unwrap();
        std::fs::write(proc.path().join("irq/36/smp_affinity"), "3").unwrap();
        let spent = [
            (36, 0, 60_000_000),
            (36, 1, 8_000_000),
            (37, 0, 4_000_000),
            (FIRST_OWN, 0, 2_000_000),
            (FIRST_OWN + 2, 0, 10_000),
        ];
        let mut facts = Facts::new("lb", 0);
        put(&mut facts, &spent, 0.4, &[0], proc.path());
        expect![[r#"
            hardirq.time [irq-37 0] 0.01
            hardirq.time [timer 0] 0.005
            hardirq.time [virtio1-req.0 0] 0.15
        "#]]
        .assert_eq(&facts.listing());
    }
}
