//! Whether the machine is quiet: what strangers use before any load of ours.
//!
//! With strangers on the CPUs an intervention shows nothing (methods.md: at a load average of 4 it was useless). So it is
//! looked for first, and said.

use prony_model::metric::SELF_CPU;
use prony_model::{Gap, Run, SeriesSet, Window};
use std::collections::BTreeMap;

/// Share of a CPU from which strangers are named. A guess: half of the dose of an intervention.
const STRANGERS_MIN: f64 = 0.1;

/// CPUs that are busy although nothing of ours runs yet, each as a gap that says what it means.
pub(crate) fn strangers(run: &Run, window: Window) -> Vec<Gap> {
    let mut busy: BTreeMap<u32, f64> = BTreeMap::new();
    let mut ours = 0.0;
    for host in run.stack.host.keys() {
        ours += SeriesSet::rate(run.series.points(host, &SELF_CPU, ""), window).unwrap_or(0.0);
        busy.extend(run.idle_shares(host, window).into_iter().map(|(cpu, idle)| (cpu, (1.0 - idle).max(0.0))));
    }
    let loud = busy.into_iter().filter(|(_, share)| share - ours >= STRANGERS_MIN);
    loud.map(|(cpu, share)| {
        let percent = share * 100.0;
        let reason = format!(
            "CPU {cpu} was {percent:.0} % busy before the load began: others work on this machine, so small effects cannot be \
             told; stop them, or repeat when it is quiet (`top` names them)"
        );
        Gap::new("quiet machine", "", reason)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::metric::CPU_IDLE;
    use prony_model::{Sample, Stack};

    /// A second in which CPU 0 idles for `idle` of it.
    fn check(idle: f64) -> Vec<Gap> {
        let text = "entry = \"http://10.0.0.1/\"\n[host.lb]\n";
        let mut run = Run { stack: Stack::parse("s", text).unwrap(), ..Run::default() };
        for (at_ns, value) in [(0, 5.0), (1_000_000_000, 5.0 + idle)] {
            let mut sample = Sample { host: "lb".into(), at_ns, values: vec![] };
            sample.push(&CPU_IDLE, "0", value);
            run.series.add(&sample);
        }
        strangers(&run, Window { from_ns: 0, to_ns: 1_000_000_000 })
    }

    #[test]
    fn a_busy_machine_is_named_and_a_quiet_one_is_not() {
        assert!(check(0.97).is_empty());
        let gaps = check(0.4);
        assert_eq!(gaps.len(), 1);
        assert!(gaps[0].reason.contains("CPU 0 was 60 % busy"), "{}", gaps[0].reason);
    }

    #[test]
    fn what_was_not_read_is_no_stranger() {
        let run = Run::default();
        assert!(strangers(&run, Window { from_ns: 0, to_ns: 1 }).is_empty());
    }
}
