//! What to do next to test a diagnosis: the suspect first, then the negative control. Once throughput was seen to follow the
//! suspect, its remedy shows what mending brings, and other doses where throughput begins to follow.
//!
//! It plans and does nothing. Invariant: at most one suspect and one control at a time, and nothing that was tried already.

use crate::cause::{Dose, Kind, cpu_is_full, greatest_user};
use crate::facts::Hop;
use crate::grounding::{Response, is_answered, response};
use crate::sessions::carries_a_rate;
use crate::verdict::{SAME_SCORE, Standing, standing};
use prony_model::stack::Role;
use prony_model::{Diagnosis, Intervention, InterventionKind, Knob, Level, Run};

/// Share by which CPU and links are made slower: at 20 % suspect and control separate within six pairs of 2 s
/// (methods.md).
const DOSE: f64 = 0.2;
/// Further doses of what throughput follows: the headroom curve from 0 to 40 %. The lesser tells whether it follows at once, the
/// greater how far it goes on. Guesses.
const HEADROOM_DOSES: [f64; 2] = [0.1, 0.4];
/// The same at a rate: there only the part of the time that is work on the CPU gets longer. A host has to have room for it. A guess.
const DOSE_AT_RATE: f64 = 0.4;
/// Share by which connections are raised. A guess: enough to see, little enough to stay on the same part of the curve.
const MORE_CONNECTIONS: f64 = 0.5;
/// Share by which the rate is lowered. A guess: one server that is busy for half of the time answers in two thirds of the time then
/// (M/M/1).
const LOWER_RATE: f64 = 0.5;

/// The interventions that would test the verdict of `diagnosis`: the suspect, then the negative control; each with
/// `pairs` 0. Once they were done and throughput followed: further looks at the suspect, the most telling first. Empty when
/// nothing is left to test.
pub fn plan_interventions(run: &Run, diagnosis: &Diagnosis) -> Vec<Intervention> {
    let standing = standing(run);
    let of_verdict = |s: &&Standing<'_>| s.cause.id == diagnosis.verdict.cause && s.hop.name == diagnosis.verdict.hop;
    let mut plan = Vec::new();
    let mut further = Vec::new();
    let suspect = standing.iter().find(of_verdict);
    if let Some(suspect) = suspect {
        let planned_for_it = suspect_of(suspect, &standing);
        further = planned_for_it.iter().flat_map(|tested| further_looks(suspect, tested, &standing)).collect();
        let control = control_of(suspect, &standing, planned_for_it.as_ref());
        plan.extend(planned_for_it.into_iter().chain(control));
    } else if diagnosis.verdict.cause == "none" {
        let (what, dose) = match is_closed_loop(run) {
            true => (InterventionKind::Concurrency, MORE_CONNECTIONS),
            false => (InterventionKind::Rate, DOSE),
        };
        plan.push(Intervention::planned(&diagnosis.verdict.hop, what, false, dose));
    }
    let is_tried = |p: &Intervention| run.interventions.iter().any(|i| is_same(i, p));
    plan.retain(|p| !is_tried(p));
    // A control alone may show a limit that nobody suspected; once is enough for that. But what was a control itself and answered,
    // like a suspect, has none yet.
    let lacks_control = suspect.is_some_and(|s| is_without_control(run, s));
    if plan.iter().all(|i| i.control) && !run.interventions.is_empty() && !lacks_control {
        plan.clear();
    }
    if plan.is_empty() {
        plan = suspect.into_iter().filter_map(|suspect| rival_of(suspect, &standing)).collect();
        plan.retain(|p| !is_tried(p));
    }
    if plan.is_empty() {
        further.retain(|p| !is_tried(p));
        // Trials that keep the rate and those of a closed loop have no baseline together.
        let keeps_rate = further.iter().any(|p| p.at_rate);
        further.retain(|p| p.at_rate == keeps_rate);
        plan = further;
    }
    plan
}

/// The remedy of another fault of the same weight, where throughput would answer to the test of the first whichever of them it is: more
/// connections hide every wait.
fn rival_of(suspect: &Standing<'_>, standing: &[Standing<'_>]) -> Option<Intervention> {
    if suspect.cause.kind != Kind::Fault || suspect.finding.dose != Dose::Concurrency {
        return None;
    }
    let is_near = |s: &Standing<'_>| (s.finding.score - suspect.finding.score).abs() < SAME_SCORE;
    let is_other = |s: &Standing<'_>| s.cause.id != suspect.cause.id && s.cause.kind == Kind::Fault;
    let rivals = standing.iter().filter(|s| is_other(s) && is_near(s) && s.finding.dose == Dose::Removal);
    rivals.filter_map(|rival| suspect_of(rival, standing)).next()
}

/// The remedy that is to be tried once the suspect was tested, if any: its own, to see what it brings, where it was slowed first; or that
/// of its rival.
pub fn remedy_to_come(run: &Run, diagnosis: &Diagnosis) -> Option<Intervention> {
    let standing = standing(run);
    let verdict = &diagnosis.verdict;
    let suspect = standing.iter().find(|s| s.cause.id == verdict.cause && s.hop.name == verdict.hop)?;
    let own = matches!(suspect.finding.dose, Dose::Cpu | Dose::CpuOf(_) | Dose::Link { .. })
        .then(|| remedy_of(suspect, &standing))
        .flatten();
    own.map(|remedy| Intervention { further: true, ..remedy }).or_else(|| rival_of(suspect, &standing))
}

fn remedy_of(suspect: &Standing<'_>, standing: &[Standing<'_>]) -> Option<Intervention> {
    let what = removal_of(suspect, standing)?;
    Some(where_asked(&suspect.hop, Intervention::planned(suspect.hop.name, what, false, 1.0)))
}

/// At the rate that is asked for, where that is carried and it is the time of requests that matters. Not what passes a link: at a rate
/// that is all it has to carry, and a link that carries less holds everybody up, whatever else does.
fn where_asked(hop: &Hop<'_>, planned: Intervention) -> Intervention {
    let is_link = matches!(planned.what, InterventionKind::LinkRate { .. });
    if carries_a_rate(hop) && !is_link { planned.at_rate() } else { planned }
}

/// Whether throughput was seen to follow a suspect while nothing else was tried.
fn is_without_control(run: &Run, suspect: &Standing<'_>) -> bool {
    let tested = suspect.finding.dose.tested_host(&suspect.hop);
    let others = run.interventions.iter().any(|i| i.target != suspect.hop.name && i.target != tested);
    !others && matches!(response(&suspect.hop, &suspect.finding), Response::Follows(_))
}

/// Whether two interventions do the same to the same place. How far a remedy is turned and how much a link carried follow the load,
/// which is not the same from trial to trial.
fn is_same(a: &Intervention, b: &Intervention) -> bool {
    let same_place = match (&a.what, &b.what) {
        (InterventionKind::Removal { .. }, InterventionKind::Removal { .. }) => {
            let name = |knob: &Knob| (knob.host.clone(), knob.id.clone());
            a.what.knobs().into_iter().map(name).eq(b.what.knobs().into_iter().map(name))
        }
        (InterventionKind::LinkRate { interface: a, .. }, InterventionKind::LinkRate { interface: b, .. }) => a == b,
        (a, b) => a == b,
    };
    same_place && a.target == b.target && a.further == b.further && (!a.further || a.dose.total_cmp(&b.dose).is_eq())
}

/// The remedy of what `tested` slows, and further doses of it, when throughput was seen to follow. Where that could not be told, or its
/// control told nothing, the remedy beside nothing turned may tell, or a greater dose of what told nothing. What was tested by its
/// remedy has told all that.
fn further_looks(suspect: &Standing<'_>, tested: &Intervention, standing: &[Standing<'_>]) -> Vec<Intervention> {
    let has_doses = matches!(tested.what, InterventionKind::Cpu | InterventionKind::LinkRate { .. });
    let follows = match response(&suspect.hop, &suspect.finding) {
        Response::Follows(_) => true,
        Response::Unclear(_) => false,
        Response::Contradicts(_) | Response::NotTested(_) => return Vec::new(),
    };
    if !has_doses {
        return Vec::new();
    }
    let remedy = remedy_of(suspect, standing);
    let again = match remedy {
        _ if is_answered(&suspect.hop, &suspect.finding) => None,
        Some(_) => Some(where_asked(&suspect.hop, Intervention::planned("", InterventionKind::Placebo, true, 0.0))),
        None if follows => last_control(suspect.hop.run).and_then(slowed_more),
        None => slowed_more(tested),
    };
    // At a rate the dose shows a part of the time, and no headroom.
    let has_curve = follows && !tested.at_rate;
    let doses = HEADROOM_DOSES.map(|dose| Intervention { dose, ..tested.clone() }).into_iter().filter(|_| has_curve);
    let looks = remedy.into_iter().chain(again).chain(doses);
    looks.map(|look| Intervention { further: true, ..look }).collect()
}

/// The last control whose CPU was slowed.
fn last_control(run: &Run) -> Option<&Intervention> {
    run.interventions.iter().rev().find(|i| i.control && !i.further && i.what == InterventionKind::Cpu)
}

/// The same once more, by a greater dose.
fn slowed_more(than: &Intervention) -> Option<Intervention> {
    let dose = HEADROOM_DOSES.into_iter().find(|dose| *dose > than.dose)?;
    let planned = Intervention::planned(&than.target, than.what.clone(), than.control, dose);
    Some(Intervention { at_rate: than.at_rate, ..planned })
}

/// The first remedy that can be turned, at the siblings with the same fault too.
fn removal_of(suspect: &Standing<'_>, standing: &[Standing<'_>]) -> Option<InterventionKind> {
    let knob = knobs_of(suspect).next()?;
    let siblings = suspect.hop.siblings();
    let is_sibling = |host: &str| host != knob.host && siblings.iter().any(|sibling| sibling.name == host);
    let by_all = suspect.finding.dose == Dose::RemovalByAll;
    let same = standing.iter().filter(|s| s.cause.id == suspect.cause.id).flat_map(knobs_of);
    let belongs =
        |k: &Knob| (k.id == knob.id && is_sibling(&k.host)) || (by_all && k.id != knob.id && k.host == knob.host);
    let also = same.filter(belongs).collect();
    Some(InterventionKind::Removal { knob, also })
}

fn is_closed_loop(run: &Run) -> bool {
    run.level(Level::At).is_some_and(|t| t.plan.rate.is_none())
}

/// What shows whether requests wait for each other: in a closed loop more connections. At a rate that is carried fewer requests: the time
/// of each is asked there, and more of them would change the question. At one that is not, the stack is at its limit already.
fn of_waits(hop: &Hop<'_>) -> (InterventionKind, f64) {
    match carries_a_rate(hop) {
        true => (InterventionKind::LowerRate, LOWER_RATE),
        false => (InterventionKind::Concurrency, MORE_CONNECTIONS),
    }
}

/// The share by which a suspect's CPU is made slower.
fn dose_of_cpu(suspect: &Standing<'_>) -> f64 {
    let slowed = suspect.hop.other(suspect.finding.dose.tested_host(&suspect.hop));
    if carries_a_rate(&suspect.hop) && has_room_for(&slowed, DOSE_AT_RATE) { DOSE_AT_RATE } else { DOSE }
}

fn suspect_of(suspect: &Standing<'_>, standing: &[Standing<'_>]) -> Option<Intervention> {
    let (what, dose) = match &suspect.finding.dose {
        Dose::Cpu | Dose::CpuOf(_) => (InterventionKind::Cpu, dose_of_cpu(suspect)),
        Dose::Link { interface, bits_per_s } => {
            (InterventionKind::LinkRate { interface: interface.clone(), from_bits_per_s: *bits_per_s }, DOSE)
        }
        Dose::Concurrency | Dose::Queue => of_waits(&suspect.hop),
        Dose::Removal | Dose::RemovalByAll => (removal_of(suspect, standing)?, 1.0),
        Dose::KeepAlive => (InterventionKind::KeepAlive, 1.0),
        Dose::Untestable(_) => return None,
    };
    let target = suspect.finding.dose.tested_host(&suspect.hop);
    Some(where_asked(&suspect.hop, Intervention::planned(target, what, false, dose)))
}

fn knobs_of<'s>(standing: &'s Standing<'_>) -> impl Iterator<Item = Knob> + use<'s> {
    standing.finding.remedies.iter().filter_map(|r| r.knob.clone())
}

/// The negative control of what tests a suspect: the hop that should not matter, made slower as well. Where every hop may matter, and
/// where a remedy is tried or the rate lowered: the same trials with nothing turned. What cannot be tested has only the former.
fn control_of(
    suspect: &Standing<'_>,
    standing: &[Standing<'_>],
    tested: Option<&Intervention>,
) -> Option<Intervention> {
    let has_none = tested.is_some_and(|tested| tested.what.is_removal() || tested.what == InterventionKind::LowerRate);
    let dose = tested.filter(|tested| tested.what == InterventionKind::Cpu).map_or(DOSE, |tested| tested.dose);
    let bystander = if has_none { None } else { control_for(suspect, standing, dose) };
    let slowed = bystander.map(|hop| Intervention::planned(hop.name, InterventionKind::Cpu, true, dose));
    let nothing = || Intervention::planned("", InterventionKind::Placebo, true, 0.0);
    let control = slowed.or_else(|| tested.map(|_| nothing()));
    let at_rate = tested.map_or(carries_a_rate(&suspect.hop), |tested| tested.at_rate);
    control.map(|control| Intervention { at_rate, ..control })
}

/// Whether the hop would not feel such a dose: what its CPUs leave idle is more than that share of what it could get.
fn has_room_for(hop: &Hop<'_>, dose: f64) -> bool {
    let Ok(at) = hop.at(Level::At) else { return false };
    let (own, idle) = (at.own_cpu(), at.cpu().map(|cpu| cpu.idle));
    own.and_then(|own| idle.map(|idle| idle > dose * (own + idle))).unwrap_or(false)
}

/// The hop that should not matter: rather one on CPUs that are not full, on none of the suspect's, a server rather than
/// a proxy, the idlest. Hosts that share full CPUs with the one that is slowed, and those with the same fault, are part of the same
/// limit and control nothing; nor does a small user of CPUs that others fill: it is slowed below what it needs, whoever holds the limit.
/// Of a queue, rather none that the suspect calls: while it answers, the place in use is held.
fn control_for<'s>(of: &'s Standing<'_>, standing: &[Standing<'_>], dose: f64) -> Option<Hop<'s>> {
    let is_queue = of.finding.dose == Dose::Queue;
    let suspect = of.hop.other(of.finding.dose.tested_host(&of.hop));
    let is_full = |h: &Hop<'_>| cpu_is_full(h).unwrap_or(true);
    let others = Hop::path(suspect.run).into_iter().filter(|h| h.name != suspect.name && h.name != of.hop.name);
    let is_fault = of.cause.kind == Kind::Fault;
    let has_it_too =
        |h: &Hop<'_>| is_fault && standing.iter().any(|s| s.cause.id == of.cause.id && s.hop.name == h.name);
    let is_part = |h: &Hop<'_>| has_it_too(h) || (is_full(h) && h.shares_cpu_with(&suspect));
    let is_squeezed = |h: &Hop<'_>| !has_room_for(h, dose) && greatest_user(h).name != h.name;
    let apart = others.filter(|h| !is_part(h) && !is_squeezed(h));
    let rank = |h: &Hop<'_>| {
        let is_proxy = h.host().is_some_and(|h| h.role == Role::Proxy);
        let is_called = suspect.host().is_some_and(|s| s.calls.iter().any(|called| called == h.name));
        (is_queue && is_called, is_full(h), h.shares_cpu_with(&suspect), is_proxy)
    };
    let own = |h: &Hop<'_>| h.at(Level::At).and_then(|r| r.own_cpu()).unwrap_or(f64::INFINITY);
    apart.min_by(|a, b| rank(a).cmp(&rank(b)).then(own(a).total_cmp(&own(b))))
}
