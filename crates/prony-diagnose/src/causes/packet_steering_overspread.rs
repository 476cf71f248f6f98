//! # Packet steering overspread
//!
//! RPS hands received packets to CPUs that already have enough of them, or that the application needs.
//!
//! ## What it sees
//! Packets that arrive on the hop's CPUs by steering (`softnet.steered`), out of all that they process, with an
//! `rps_cpus` mask set.
//!
//! ## Why it limits
//! Each handed-over packet costs an interrupt between CPUs and a cold cache, and its work displaces the application's.
//!
//! ## Evidence
//! Share of steered packets times the share of interrupt work in the capacity of the hop's CPUs.
//!
//! ## What it is not
//! A network card with a single queue, for which steering is the way to use more than one CPU.
//!
//! ## Fix
//! Knob `rps_cpus.INTERFACE` to 0; or the CPUs near the card that the application does not use.
//!
//! ## References
//! Linux Documentation/networking/scaling.rst: RPS is redundant if there is a hardware queue for each CPU.

use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, does_not_apply, knob, predicted_gain, ruled_out};
use crate::facts::Hop;
use prony_model::metric::{IF_RPS_CPUS, IF_RX_QUEUES, IF_SPEED, INTERRUPTS_CALL, SOFTNET_PROCESSED, SOFTNET_STEERED};
use prony_model::{Gap, KnobId, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "packet-steering-overspread",
    layer: Layer::Network,
    title: "packet steering overspread",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("packet_steering_overspread.rs"),
};

/// Share of the CPUs' capacity that steered packets must take. A guess: the field case F4 gained 7 to 14 % from
/// switching it off.
const SHARE_MIN: f64 = 0.05;
/// Share of packets that must be steered to be worth a look. A guess.
const STEERED_SHARE: f64 = 0.05;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let steering = hop
        .items(&IF_RPS_CPUS)
        .into_iter()
        .find(|i| hop.at(Level::At).is_ok_and(|r| r.one(&IF_RPS_CPUS, i).is_ok_and(|n| n > 0.0)));
    let Some(interface) = steering else {
        let mask = hop.summary(&IF_RPS_CPUS)?;
        return ruled_out(&mask, 1.0, "definition", "no interface steers packets");
    };
    let queues = hop.at(Level::At)?.one(&IF_RX_QUEUES, interface).unwrap_or(1.0);
    let is_hardware = hop.at(Level::At)?.one(&IF_SPEED, interface).is_ok();
    if is_hardware && queues < 2.0 {
        return does_not_apply(hop, "its card has one queue: steering is needed");
    }
    let steered = hop.fact("softnet.steered / softnet.processed", "share", |r| {
        let (mut steered, mut processed) = (0.0, 0.0);
        for cpu in hop.cpus()?.iter().map(u32::to_string) {
            steered += r.one(&SOFTNET_STEERED, &cpu)?;
            processed += r.one(&SOFTNET_PROCESSED, &cpu)?;
        }
        Ok(if processed > 0.0 { (steered / processed).min(1.0) } else { 0.0 })
    })?;
    let cpu = hop.at(Level::At)?.cpu()?;
    let share = steered.value * cpu.interrupts / cpu.total() * (1.0 - hop.at(Level::At)?.stalled_share());
    if steered.value < STEERED_SHARE || share < SHARE_MIN || !crate::cause::cpu_is_full(hop)? {
        return ruled_out(
            &steered,
            STEERED_SHARE,
            "guess",
            "steered packets take under 5 % of these CPUs, or the CPUs are not full",
        );
    }
    let claim = format!("{:.0} % of the packets on the CPUs of {} come by steering", steered.value * 100.0, hop.name);
    Finding::new(steered, STEERED_SHARE, "guess", &claim, share)
        .and(hop.summary(&IF_RPS_CPUS), "CPUs in the steering masks")
        .and(hop.fact(IF_RX_QUEUES.name, "", |r| r.one(&IF_RX_QUEUES, interface)), "receive queues of the interface")
        .and(hop.summary(&INTERRUPTS_CALL), "interrupts between CPUs")
        .mend("switch packet steering off", knob(hop, KnobId::RpsCpus(interface.to_string()), "0"))
        .gaining(predicted_gain(hop, share))
        .rising(hop.summary(&SOFTNET_STEERED))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    fn lab(steered: f64) -> Lab {
        Lab::healthy().gauge("lb", &IF_RPS_CPUS, "eth0", 2.0).per_second("lb", &SOFTNET_STEERED, "0", steered)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(60_000.0)).unwrap();
        assert!((found.score - 60.0 / 90.0 * 0.27).abs() < 1e-6, "{}", found.score);
        assert_eq!(found.remedies[0].knob.as_ref().unwrap().id.to_string(), "rps_cpus.eth0");
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(16_000.0)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(18_000.0)) > 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(60_000.0).gauge("lb", &IF_SPEED, "eth0", 1e10)), 0.0, "needed");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..200_000.0, b in 0.0f64..200_000.0) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))));
        }
    }
}
