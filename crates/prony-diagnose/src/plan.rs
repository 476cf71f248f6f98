//! What to do next to test a diagnosis: the suspect first, then the negative control.
//!
//! It plans and does nothing. Invariant: at most one suspect and one control, and nothing that was done already.

use crate::cause::{Dose, cpu_is_full};
use crate::facts::Hop;
use crate::verdict::{Standing, standing};
use prony_model::stack::Role;
use prony_model::{Diagnosis, Intervention, InterventionKind, Knob, Level, Run};

/// Share by which CPU and links are made slower: at 20 % suspect and control separate within six pairs of 2 s
/// (methods.md).
const DOSE: f64 = 0.2;
/// Share by which connections are raised. A guess: enough to see, little enough to stay on the same part of the curve.
const MORE_CONNECTIONS: f64 = 0.5;

/// The interventions that would test the verdict of `diagnosis`: the suspect, then the negative control; each with
/// `pairs` 0. Empty when nothing can be tested, and when it was done.
pub fn plan_interventions(run: &Run, diagnosis: &Diagnosis) -> Vec<Intervention> {
    let standing = standing(run);
    let of_verdict = |s: &&Standing<'_>| s.cause.id == diagnosis.verdict.cause && s.hop.name == diagnosis.verdict.hop;
    let mut plan = Vec::new();
    if let Some(suspect) = standing.iter().find(of_verdict) {
        let planned_for_it = suspect_of(suspect, &standing);
        let is_removal = planned_for_it.as_ref().is_some_and(|i| matches!(i.what, InterventionKind::Removal { .. }));
        plan.extend(planned_for_it);
        let tested = suspect.finding.dose.cpu_host(&suspect.hop).unwrap_or(suspect.hop.name);
        plan.extend(match is_removal {
            true => Some(planned("", InterventionKind::Placebo, true, 0.0)),
            false => {
                let control = control_for(&suspect.hop.other(tested));
                control.map(|hop| planned(hop.name, InterventionKind::Cpu, true, DOSE))
            }
        });
    } else if diagnosis.verdict.cause == "none" {
        plan.push(match is_closed_loop(run) {
            true => planned(&diagnosis.verdict.hop, InterventionKind::Concurrency, false, MORE_CONNECTIONS),
            false => planned(&diagnosis.verdict.hop, InterventionKind::Rate, false, DOSE),
        });
    }
    let is_done = |p: &Intervention| {
        run.interventions.iter().any(|i| i.target == p.target && i.what == p.what && i.elasticity.is_some())
    };
    plan.retain(|p| !is_done(p));
    plan
}

fn is_closed_loop(run: &Run) -> bool {
    run.level(Level::At).is_some_and(|t| t.plan.rate.is_none())
}

fn planned(target: &str, what: InterventionKind, control: bool, dose: f64) -> Intervention {
    let target = target.to_string();
    Intervention {
        target,
        what,
        control,
        dose,
        elasticity: None,
        low: None,
        high: None,
        p99: None,
        p999: None,
        pairs: 0,
    }
}

fn suspect_of(suspect: &Standing<'_>, standing: &[Standing<'_>]) -> Option<Intervention> {
    let (what, dose) = match &suspect.finding.dose {
        Dose::Cpu | Dose::CpuOf(_) => (InterventionKind::Cpu, DOSE),
        Dose::Link { interface, bits_per_s } => {
            (InterventionKind::LinkRate { interface: interface.clone(), from_bits_per_s: *bits_per_s }, DOSE)
        }
        Dose::Concurrency | Dose::Queue if is_closed_loop(suspect.hop.run) => {
            (InterventionKind::Concurrency, MORE_CONNECTIONS)
        }
        Dose::Removal | Dose::RemovalByAll => {
            let knob = knobs_of(suspect).next()?;
            let siblings = suspect.hop.siblings();
            let is_sibling = |host: &str| host != knob.host && siblings.iter().any(|sibling| sibling.name == host);
            let by_all = suspect.finding.dose == Dose::RemovalByAll;
            let same = standing.iter().filter(|s| s.cause.id == suspect.cause.id).flat_map(knobs_of);
            let belongs = |k: &Knob| {
                (k.id == knob.id && is_sibling(&k.host)) || (by_all && k.id != knob.id && k.host == knob.host)
            };
            let also = same.filter(belongs).collect();
            (InterventionKind::Removal { knob, also }, 1.0)
        }
        Dose::Concurrency | Dose::Queue | Dose::Untestable(_) => return None,
    };
    let target = suspect.finding.dose.cpu_host(&suspect.hop).unwrap_or(suspect.hop.name);
    Some(planned(target, what, false, dose))
}

fn knobs_of<'s>(standing: &'s Standing<'_>) -> impl Iterator<Item = Knob> + use<'s> {
    standing.finding.remedies.iter().filter_map(|r| r.knob.clone())
}

/// The hop that should not matter: rather one on CPUs that are not full, on none of the suspect's, a server rather than
/// a proxy, the idlest. Hosts that share full CPUs with the suspect are part of the same limit and control nothing.
fn control_for<'a>(suspect: &Hop<'a>) -> Option<Hop<'a>> {
    let is_full = |h: &Hop<'_>| cpu_is_full(h).unwrap_or(true);
    let others = Hop::path(suspect.run).into_iter().filter(|h| h.name != suspect.name);
    let apart = others.filter(|h| !(is_full(h) && h.shares_cpu_with(suspect)));
    let rank = |h: &Hop<'_>| {
        let is_proxy = h.host().is_some_and(|h| h.role == Role::Proxy);
        (is_full(h), h.shares_cpu_with(suspect), is_proxy)
    };
    let own = |h: &Hop<'_>| h.at(Level::At).and_then(|r| r.own_cpu()).unwrap_or(f64::INFINITY);
    apart.min_by(|a, b| rank(a).cmp(&rank(b)).then(own(a).total_cmp(&own(b))))
}
