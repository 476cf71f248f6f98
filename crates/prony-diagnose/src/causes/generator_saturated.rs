//! # Generator saturated
//!
//! The load generator is the limit, not the stack.
//!
//! ## What it sees
//! CPU of the generator's busiest thread; gates of the load that failed because of the generator; and who uses most of
//! the CPUs that it shares with servers.
//!
//! ## Why it limits
//! A generator that cannot send or read faster measures itself. The rate is then a lower bound of what the stack can
//! carry. Requests that left late from threads that were idle most of the time are another matter: the machine paused
//! them, which says nothing of a limit.
//!
//! ## Evidence
//! The CPU share of its busiest thread, or 1 when a gate says that the generator was the limit.
//!
//! ## What it is not
//! Few connections in a closed loop: then nothing is saturated, and the verdict is `none` with the room that is left.
//!
//! ## Fix
//! More CPUs or machines for the generator, or fewer of its CPUs shared with servers.
//!
//! ## References
//! design.md, invariant 3: a result that the generator limited is never printed as the stack's.

use super::cpu_saturated_user::OWN_SHARE;
use crate::cause::{Cause, Dose, FULL_CPU, FULL_CPU_ORIGIN, Finding, Judgement, Kind, Layer, Scope, ruled_out};
use crate::facts::{Hop, Reader};
use prony_model::load::{Gate, LoadResult};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "generator-saturated",
    layer: Layer::Rig,
    title: "generator saturated",
    kind: Kind::HonestLimit,
    scope: Scope::Generator,
    check,
    source: include_str!("generator_saturated.rs"),
};

/// CPU share from which a generator thread is full.
const FULL_THREAD: f64 = 0.9;
/// Its origin.
const ORIGIN: &str = "cited: methods.md, validity gates: generator threads below 90 % of a CPU";
/// One gate is enough.
const ONE_GATE: f64 = 1.0;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let result = &hop.at(Level::At)?.trial.result;
    let thread = hop.fact("busiest generator thread", "share", busiest_thread)?;
    let gate = broken(result).next();
    let crowding = crowding_share(hop);
    if thread.value < FULL_THREAD && gate.is_none() && crowding.is_none() {
        let claim = match result.generator_limited() {
            true => "the generator has time left: where it came late, it was paused or woken late",
            false => "the generator has time left, and its gates held",
        };
        return ruled_out(&thread, FULL_THREAD, ORIGIN, claim);
    }
    let busy = hop.fact("busy share of the generator's CPUs", "share", |r| Ok(r.cpu()?.busy_share()));
    let full = format!("full from {FULL_CPU} on ({FULL_CPU_ORIGIN})");
    let has_time_left = thread.value < FULL_THREAD;
    let finding = match (gate, crowding) {
        (Some(gate), _) => {
            let claim = format!("the generator was the limit: {}", gate.detail);
            let by_gate = if has_time_left {
                // A quota or ports stop it.
                let broken = |r: &Reader<'_>| Ok(broken(&r.trial.result).count() as f64);
                let gates = hop.fact("gates that the generator breaks", "", broken)?;
                let finding = Finding::new(gates, ONE_GATE, "definition", &claim, 1.0);
                finding.and(Ok(thread), "busiest generator thread")
            } else {
                Finding::new(thread, FULL_THREAD, ORIGIN, &claim, 1.0)
            };
            by_gate.and(busy, &full)
        }
        (None, Some(share)) if has_time_left => {
            let claim = "the generator uses most of a full CPU that it shares with servers";
            let crowded = Finding::new(busy?, FULL_CPU, FULL_CPU_ORIGIN, claim, share);
            crowded.and(Ok(thread), "busiest generator thread")
        }
        (None, _) => {
            let used = thread.value;
            let claim = format!("a thread of the generator uses {:.0} % of a CPU", used * 100.0);
            Finding::new(thread, FULL_THREAD, ORIGIN, &claim, used).and(busy, &full)
        }
    };
    finding
        .mend("give the generator more CPUs or machines; the rate is a lower bound until then", None)
        .tested_by(Dose::Untestable("slowing the generator would only show what is known: it sends less"))
        .fires()
}

/// Gates that say that the generator was the limit. What came late while its threads had time left was paused or woken late.
fn broken(result: &LoadResult) -> impl Iterator<Item = &Gate> {
    let was_paused = |g: &Gate| g.name == "schedule-lag" && result.had_idle_threads();
    result.gates.iter().filter(move |g| !g.held && g.generator_limited && !was_paused(g))
}

fn busiest_thread(r: &Reader<'_>) -> Result<f64, Gap> {
    let shares = r.trial.result.threads.iter().map(|t| (t.user_us + t.system_us) / t.wall_us.max(1.0));
    shares.reduce(f64::max).ok_or_else(|| Gap::new("generator threads", "", "the load recorded no CPU time"))
}

/// The generator's share of full CPUs that it shares with servers, when it uses more of them than any server, and
/// strangers do not fill them.
fn crowding_share(hop: &Hop<'_>) -> Option<f64> {
    let at = hop.at(Level::At).ok()?;
    let cpu = at.cpu().ok()?;
    let own = at.own_cpu().ok()?;
    let others = Hop::path(hop.run).into_iter().filter(|o| o.shares_cpu_with(hop));
    let uses: Vec<f64> = others.filter_map(|o| o.at(Level::At).ok()?.own_cpu().ok()).collect();
    let is_greatest = !uses.is_empty() && uses.iter().all(|other| *other < own);
    let share = own / cpu.total();
    (cpu.busy_share() >= FULL_CPU && is_greatest && share >= OWN_SHARE).then_some(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    fn lab(thread: f64) -> Lab {
        Lab { generator: thread, ..Lab::healthy() }
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "client", &lab(0.97)) - 0.97).abs() < 1e-6);
        assert_eq!(score(CAUSE.id, "client", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "client", &lab(0.89)), 0.0);
        let crowded = lab(0.5).cpu("1", 0.6, 0.3, 0.08);
        assert!(score(CAUSE.id, "client", &crowded) >= 0.5, "it uses most of a full CPU");
        let key = finding(CAUSE.id, "client", &crowded).unwrap().evidence[0].clone();
        assert_eq!((key.metric.as_str(), key.threshold), ("busy share of the generator's CPUs", Some(FULL_CPU)));
        let strangers = lab(0.15).cpu("1", 0.9, 0.1, 0.0);
        assert_eq!(score(CAUSE.id, "client", &strangers), 0.0, "strangers fill its CPU");
    }

    #[test]
    fn a_generator_that_is_paused_while_it_has_time_left_is_no_limit() {
        let fires = |name: &str, thread| {
            let mut run = lab(thread).run();
            for trial in &mut run.trials {
                let detail = String::new();
                trial.result.gates = vec![Gate { name: name.into(), held: false, detail, generator_limited: true }];
            }
            matches!(check(&Hop { run: &run, name: "client" }), Ok(Judgement::Fires(_)))
        };
        assert!(!fires("schedule-lag", 0.1) && fires("schedule-lag", 0.6) && fires("quota", 0.1));
    }

    #[test]
    fn a_gate_stands_for_itself_where_the_threads_have_time_left() {
        let first = |thread| {
            let mut run = lab(thread).run();
            let gate = Gate { name: "quota".into(), held: false, detail: String::new(), generator_limited: true };
            run.trials[1].result.gates = vec![gate];
            let Ok(Judgement::Fires(found)) = check(&Hop { run: &run, name: "client" }) else { panic!("silent") };
            (found.evidence[0].metric.clone(), found.evidence[0].value, found.evidence[0].baseline)
        };
        assert_eq!(first(0.2), ("gates that the generator breaks".to_string(), 1.0, Some(0.0)));
        assert_eq!(first(0.95).0, "busiest generator thread");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            prop_assert!(score(CAUSE.id, "client", &lab(a.min(b))) <= score(CAUSE.id, "client", &lab(a.max(b))));
        }
    }
}
