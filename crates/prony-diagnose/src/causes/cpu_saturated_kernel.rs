//! # CPU saturated, kernel
//!
//! The hop's CPUs are full of kernel work for its requests: an honest limit.
//!
//! ## What it sees
//! The same as `cpu-saturated-user`; system calls and interrupts take at least half of the busy time.
//!
//! ## Why it limits
//! A full CPU serves no more requests. Small requests are mostly network stack.
//!
//! ## Evidence
//! As in `cpu-saturated-user`.
//!
//! ## What it is not
//! A fault: a proxy of small requests spends most of its time in the kernel when it is healthy.
//!
//! ## Fix
//! Fewer system calls and packets per request, or more CPUs.
//!
//! ## References
//! proc(5) /proc/stat.

use super::cpu_saturated_user::judge;
use crate::cause::{Cause, Judgement, Kind, Layer, Scope};
use crate::facts::Hop;
use prony_model::Gap;

pub(super) const CAUSE: Cause = Cause {
    id: "cpu-saturated-kernel",
    layer: Layer::Cpu,
    title: "CPU saturated by kernel work",
    kind: Kind::HonestLimit,
    scope: Scope::Serving,
    check,
    source: include_str!("cpu_saturated_kernel.rs"),
};

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    judge(hop, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    fn lab(system: f64) -> Lab {
        Lab::healthy().cpu("0", 0.3, system, 0.2).own("lb", 0.3 + system)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &Lab::healthy()).unwrap();
        assert!((found.score - 0.97).abs() < 0.001);
        assert!((1.0..1.03).contains(&found.gain.unwrap()), "CPU 1 is half idle");
        assert_eq!(score(CAUSE.id, "s1", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.19)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.21)) > 0.0);
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..0.5, b in 0.0f64..0.5) {
            prop_assert!(score(CAUSE.id, "lb", &lab(a.min(b))) <= score(CAUSE.id, "lb", &lab(a.max(b))) + 1e-9);
        }
    }
}
