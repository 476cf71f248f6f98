//! What traffic cost the CPUs: the kernel's CPU times from before and after, per gigabit and per datagram.
//!
//! Pure arithmetic. Invariant: a time that went backwards, or was not read at both moments, is none.

use prony_model::metric::{CPU_IRQ, CPU_NICE, CPU_SOFTIRQ, CPU_STEAL, CPU_SYSTEM, CPU_USER};
use prony_model::network::CpuCost;
use prony_model::{Metric, Sample};
use std::collections::BTreeMap;

/// CPU time of a machine between two moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Used {
    /// In soft interrupts, in seconds.
    softirq_s: f64,
    /// Not idle, in seconds.
    busy_s: f64,
    /// Between the two moments, in seconds.
    window_s: f64,
    /// Soft interrupts of each CPU, in seconds.
    by_cpu_s: BTreeMap<String, f64>,
}

impl Used {
    /// None when the CPU times could not be read.
    pub(super) fn between(before: &Sample, after: &Sample) -> Option<Self> {
        let by_cpu_s = grown(before, after, &CPU_SOFTIRQ)?;
        let softirq_s = by_cpu_s.values().sum();
        let others = [&CPU_USER, &CPU_NICE, &CPU_SYSTEM, &CPU_IRQ, &CPU_STEAL];
        let others_s: f64 =
            others.iter().filter_map(|metric| grown(before, after, metric)).flat_map(BTreeMap::into_values).sum();
        let window_s = after.at_ns.checked_sub(before.at_ns).filter(|ns| *ns > 0)? as f64 / 1e9;
        Some(Self { softirq_s, busy_s: softirq_s + others_s, window_s, by_cpu_s })
    }

    /// Seconds of CPU time per second of `duration_s`; the time around the flow itself is idle.
    fn per_s(&self, duration_s: f64) -> (f64, f64) {
        (self.softirq_s / duration_s, self.busy_s / duration_s)
    }

    fn shares(&self) -> BTreeMap<String, f64> {
        self.by_cpu_s.iter().map(|(cpu, seconds)| (cpu.clone(), seconds / self.window_s)).collect()
    }
}

/// By how much a counter grew, for each of its items.
fn grown(before: &Sample, after: &Sample, metric: &Metric) -> Option<BTreeMap<String, f64>> {
    let of = |sample: &Sample| -> BTreeMap<String, f64> {
        let mine = sample.values.iter().filter(|(name, _, _)| name == metric.name);
        mine.map(|(_, item, value)| (item.clone(), *value)).collect()
    };
    let (before, after) = (of(before), of(after));
    let growth =
        |(item, end): (String, f64)| Some((item.clone(), end - before.get(&item)?)).filter(|(_, by)| *by >= 0.0);
    let grown: BTreeMap<String, f64> = after.into_iter().filter_map(growth).collect();
    (!grown.is_empty()).then_some(grown)
}

/// The cost of a flow. Two ends on one machine share its CPUs: then what the sender saw is all of it, because its facts were
/// read closer to the flow.
pub(super) fn of(
    sender: Option<&Used>,
    receiver: Option<&Used>,
    one_machine: bool,
    duration_s: f64,
    bits_per_s: f64,
    packets_per_s: Option<f64>,
) -> CpuCost {
    let (Some(sender), Some(receiver)) = (sender, receiver) else { return CpuCost::default() };
    let (mut softirq, mut busy) = sender.per_s(sender.window_s);
    if !one_machine {
        let (more_softirq, more_busy) = receiver.per_s(duration_s);
        (softirq, busy) = (softirq + more_softirq, busy + more_busy);
    }
    let per = |seconds: f64, many: f64, scale: f64| (many > 0.0).then(|| seconds * scale / many);
    CpuCost {
        softirq_ms_per_gbit: per(softirq, bits_per_s / 1e9, 1e3),
        busy_ms_per_gbit: per(busy, bits_per_s / 1e9, 1e3),
        softirq_us_per_packet: packets_per_s.and_then(|many| per(softirq, many, 1e6)),
        busy_us_per_packet: packets_per_s.and_then(|many| per(busy, many, 1e6)),
        softirq_share: if one_machine { sender.shares() } else { receiver.shares() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_s: f64, softirq: [f64; 2], user: f64) -> Sample {
        let mut sample = Sample { at_ns: (at_s * 1e9) as u64, ..Sample::default() };
        sample.push(&CPU_SOFTIRQ, "0", softirq[0]);
        sample.push(&CPU_SOFTIRQ, "1", softirq[1]);
        sample.push(&CPU_USER, "0", user);
        sample
    }

    #[test]
    fn a_machine_with_both_ends_is_counted_once() {
        let used = Used::between(&sample(0.0, [1.0, 5.0], 2.0), &sample(2.0, [1.4, 5.2], 3.0)).unwrap();
        let cost = of(Some(&used), Some(&used), true, 2.0, 10e9, Some(1e6));
        // 0.3 s of softirq and 0.8 s of CPU time for each second, in which 10 Gbit and a million datagrams passed.
        let close =
            |seen: Option<f64>, want: f64| assert!((seen.unwrap() - want).abs() < 1e-9, "{seen:?} is not {want}");
        close(cost.softirq_ms_per_gbit, 30.0);
        close(cost.busy_ms_per_gbit, 80.0);
        close(cost.softirq_us_per_packet, 0.3);
        close(cost.busy_us_per_packet, 0.8);
        close(cost.softirq_share.get("0").copied(), 0.2);
        let apart = of(Some(&used), Some(&used), false, 2.0, 10e9, None);
        close(apart.softirq_ms_per_gbit, 60.0);
        assert_eq!(apart.softirq_us_per_packet, None);
    }

    #[test]
    fn what_was_not_read_is_none() {
        let (before, after) = (sample(0.0, [1.0, 1.0], 1.0), sample(1.0, [0.5, 1.5], 1.0));
        let used = Used::between(&before, &after).unwrap();
        assert_eq!(used.softirq_s, 0.5, "a counter that fell is left out");
        assert_eq!(Used::between(&before, &Sample { at_ns: 1, ..Sample::default() }), None);
        assert_eq!(of(None, Some(&used), true, 1.0, 1e9, None), CpuCost::default());
        assert_eq!(of(Some(&used), Some(&used), true, 1.0, 0.0, None).softirq_ms_per_gbit, None);
    }
}
