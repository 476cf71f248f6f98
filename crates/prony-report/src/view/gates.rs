//! The gates of validity over all trials: what was asked of each, and where it did not hold.
//!
//! It decides nothing: whether a gate held stands in the trials.

use crate::names;
use crate::typed::view;
use prony_model::Run;

view! {
    /// A gate of validity, over all trials that were asked it.
    pub struct GateView {
        /// Its name.
        pub gate: String,
        /// What it asks.
        pub title: String,
        /// Trials that were asked.
        pub trials: u32,
        /// Trials in which it held.
        pub held: u32,
        /// What it said where it first did not hold, else in the last trial.
        pub detail: String,
        /// Whether a trial in which it does not hold still gives a lower bound, because the generator was the limit.
        pub bounds: bool,
    }
}

/// In the order in which trials name them.
pub(super) fn gates(run: &Run) -> Vec<GateView> {
    let mut out: Vec<GateView> = Vec::new();
    for gate in run.trials.iter().flat_map(|trial| &trial.result.gates) {
        let at = out.iter().position(|seen| seen.gate == gate.name).unwrap_or_else(|| {
            let (name, title) = (gate.name.clone(), names::validity(&gate.name));
            out.push(GateView { gate: name, title, trials: 0, held: 0, detail: String::new(), bounds: false });
            out.len() - 1
        });
        let seen = &mut out[at];
        // All held until now.
        if seen.held == seen.trials {
            (seen.detail, seen.bounds) = (gate.detail.clone(), gate.generator_limited);
        }
        seen.trials += 1;
        seen.held += u32::from(gate.held);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::load::Gate;
    use prony_model::{LoadPlan, LoadResult, Purpose, Trial, Window};

    fn trial(gates: &[(&str, bool, &str)]) -> Trial {
        let gate = |(name, held, detail): &(&str, bool, &str)| Gate {
            name: (*name).into(),
            held: *held,
            detail: (*detail).into(),
            generator_limited: *name == "cpu",
        };
        let result = LoadResult { gates: gates.iter().map(gate).collect(), ..LoadResult::default() };
        let window = Window { from_ns: 0, to_ns: 1 };
        Trial { id: 0, purpose: Purpose::Load, plan: LoadPlan::to("http://127.0.0.1/"), window, result }
    }

    #[test]
    fn a_gate_tells_where_it_first_did_not_hold() {
        let trials = vec![
            trial(&[("cpu", true, "60 %"), ("steady", true, "calm")]),
            trial(&[("cpu", false, "97 %")]),
            trial(&[("cpu", false, "99 %"), ("steady", true, "calmer")]),
        ];
        let gates = gates(&Run { trials, ..Run::default() });
        let told: Vec<_> =
            gates.iter().map(|g| (g.gate.as_str(), g.held, g.trials, g.detail.as_str(), g.bounds)).collect();
        assert_eq!(told, [("cpu", 1, 3, "97 %", true), ("steady", 2, 2, "calmer", false)]);
        assert_ne!(gates[0].title, gates[0].gate, "it says what it asks");
    }
}
