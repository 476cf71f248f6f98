//! How much of each CPU's time each kind of soft interrupt takes, measured for a short part of the look.
//!
//! These are of the machine, like `/proc/softirqs`: no process or namespace is charged for them.

use super::Watched;
use super::program::Program;
use crate::facts::Facts;
use prony_model::metric as m;
use std::time::Instant;

/// Vectors in the order of include/linux/interrupt.h.
const VECTORS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];
/// Less than this of a CPU is not listed.
const SHARE_MIN: f64 = 0.001;

/// Soft interrupts under watch.
#[derive(Debug)]
pub(super) struct Softirqs {
    program: Program,
    begun: Instant,
    seconds: Option<f64>,
}

impl Softirqs {
    pub(super) fn begin(_: &Watched) -> Result<Self, String> {
        let mut program = Program::load("softirqs", include_bytes!(concat!(env!("OUT_DIR"), "/softirqs.bpf.o")))?;
        program.attach()?;
        Ok(Self { program, begun: Instant::now(), seconds: None })
    }

    /// Ends the measurement; a second call does nothing.
    pub(super) fn stop(&mut self) {
        if self.seconds.is_none() {
            self.seconds = Some(self.begun.elapsed().as_secs_f64());
            self.program.detach();
        }
    }

    /// Puts the shares for the CPUs that the hop may use.
    pub(super) fn put(mut self, facts: &mut Facts, watched: &Watched) {
        self.stop();
        let spent = (0u32..).zip(VECTORS).map(|(vector, name)| (name, self.program.per_cpu("spent", vector)));
        put(facts, &spent.collect::<Vec<_>>(), self.seconds.unwrap_or_default(), &watched.cpus);
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
