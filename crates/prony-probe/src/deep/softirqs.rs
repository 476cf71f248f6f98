//! How much of each CPU's time each kind of soft interrupt takes, measured for a short part of the look, as soon as it has
//! settled.
//!
//! These are of the machine, like `/proc/softirqs`: no process or namespace is charged for them.

use super::Watched;
use super::part_time::PartTime;
use super::program::Program;
use crate::facts::Facts;
use prony_model::metric as m;
use std::time::Duration;

/// Vectors in the order of include/linux/interrupt.h.
const VECTORS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
/// Less than this of a CPU is not listed.
pub(super) const SHARE_MIN: f64 = 0.001;

/// Soft interrupts under watch, or soon.
#[derive(Debug)]
pub(super) struct Softirqs {
    pub part_time: PartTime,
}

impl Softirqs {
    pub(super) fn begin(look: Duration) -> Result<Self, String> {
        let program = Program::load("softirqs", include_bytes!(concat!(env!("OUT_DIR"), "/softirqs.bpf.o")))?;
        Ok(Self { part_time: PartTime::new(program, look) })
    }

    /// Begins when the load has settled, and ends soon after.
    pub(super) fn tick(&mut self, age: Duration) {
        self.part_time.tick_shortly(age);
    }

    /// Puts the shares for the CPUs that the hop may use.
    pub(super) fn put(self, facts: &mut Facts, watched: &Watched) {
        let (program, seconds) = match self.part_time.finish() {
            Ok(watched) => watched,
            Err(reason) => return facts.miss(m::SOFTIRQ_TIME.name, reason),
        };
        let spent = (0u32..).zip(VECTORS).map(|(vector, name)| (name, program.per_cpu("spent", vector)));
        put(facts, &spent.collect::<Vec<_>>(), seconds, &watched.cpus);
    }
}

fn put(facts: &mut Facts, spent_ns: &[(&str, Vec<u64>)], seconds: f64, cpus: &[u32]) {
    for (vector, by_cpu) in spent_ns {
        for (cpu, ns) in (0u32..).zip(by_cpu) {
            let share = *ns as f64 / 1e9 / seconds;
            if share >= SHARE_MIN && (cpus.is_empty() || cpus.contains(&cpu)) {
                facts.put(&m::SOFTIRQ_TIME, &format!("{vector} {cpu}"), share.min(1.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn shares_of_the_hops_cpus() {
        let mut facts = Facts::new("lb", 0);
        let spent = [("TIMER", vec![100_000, 0]), ("NET_RX", vec![50_000_000, 80_000_000])];
        put(&mut facts, &spent, 0.4, &[0]);
        expect![[r#"
            softirq.time [NET_RX 0] 0.125
        "#]]
        .assert_eq(&facts.listing());
    }
}
