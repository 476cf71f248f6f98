//! The conclusion in sentences: expected, observed, why; and what to know besides.
//!
//! Why is read from the CPU time that a request costs on each host: that is what these figures can say. Invariant: no sentence
//! names a cause that the figures do not show.

use super::column;
use super::contrast::{Matrix, is_none, judge};
use crate::paired;
use crate::prove::{percent, same_within};
use prony_model::Effect;
use prony_model::experiment::{
    Allowed, CellSeen, Claim, ClaimResult, Expected, FactorEffect, Find, Interaction, Placebo, Side,
};
use std::collections::BTreeSet;

/// Each expectation held against the data.
pub(super) fn claims(matrix: &Matrix<'_>) -> Vec<ClaimResult> {
    matrix.experiment.claims.iter().map(|claim| held(matrix, claim)).collect()
}

fn held(matrix: &Matrix<'_>, claim: &Claim) -> ClaimResult {
    let names = matrix.experiment.names_of(&claim.factor).unwrap_or_default();
    let number = |name: String| names.iter().position(|n| *n == name);
    let from = claim.from.as_ref().map_or(Some(0), |from| number(from.to_string()));
    let pairs = match (column(matrix.experiment, &claim.factor), from, number(claim.to.to_string())) {
        (Some(column), Some(from), Some(to)) => matrix.pairs(column, from, to),
        (_, _, _) => Vec::new(),
    };
    let effect = matrix.contrast(&pairs, &|s| s.value);
    let same = matrix.experiment.same.0;
    let (allowed, observed) = match &effect {
        Some(effect) => {
            (allowed(claim.change, effect, same), change(effect, judge(effect, paired::p_by_t(effect), same)))
        }
        None => (Allowed::Open, "no interval: it takes three repeats in which both were seen".to_string()),
    };
    let from = from.and_then(|from| names.get(from)).cloned().unwrap_or_default();
    let what = format!("{} from {from} to {}", claim.factor, claim.to);
    let expected = match claim.change {
        Expected::More => format!("{what} brings more"),
        Expected::Less => format!("{what} brings less"),
        Expected::Same => format!("{what} changes nothing by more than {}", plain(same)),
        Expected::AtLeast(least) => format!("{what} brings {} or more", percent(least)),
        Expected::AtMost(most) => format!("{what} brings {} or less", percent(most)),
    };
    let why = effect.as_ref().map_or(String::new(), |effect| why(matrix, &pairs, effect));
    ClaimResult { claim: claim.clone(), allowed, expected, observed, why }
}

/// As expected only when the whole interval agrees; of "the same" when it lies within. One that lies within and holds 0 is
/// neither more nor less.
fn allowed(expected: Expected, effect: &Effect, same: f64) -> Allowed {
    let (low, high) = (effect.low, effect.high);
    let (agrees, disagrees) = match expected {
        Expected::More => (low > 0.0, high <= 0.0 || is_none(effect, same)),
        Expected::Less => (high < 0.0, low >= 0.0 || is_none(effect, same)),
        Expected::AtLeast(least) => (low >= least, high < least),
        Expected::AtMost(most) => (high <= most, low > most),
        Expected::Same => {
            // Ends as growth, so that it stays when both sides are swapped: see `same_within`.
            let beyond = low > same || high.ln_1p() < -same.ln_1p();
            (is_none(effect, same), beyond)
        }
    };
    match (agrees, disagrees) {
        (true, _) => Allowed::AsExpected,
        (false, true) => Allowed::NotAsExpected,
        (false, false) => Allowed::Open,
    }
}

/// Which host's cost of a request moved against the value, over the same pairs of cells.
fn why(matrix: &Matrix<'_>, pairs: &[(usize, usize)], effect: &Effect) -> String {
    match matrix.experiment.find {
        Find::Measure | Find::Limit | Find::LimitWithinSlo => {}
        Find::StableConcurrency | Find::Search => return String::new(),
    }
    let mine = |s: &&CellSeen| pairs.iter().any(|(a, b)| [*a, *b].contains(&(s.cell as usize)));
    let (limited, all) = matrix
        .all()
        .filter(mine)
        .fold((0, 0), |(limited, all), s| (limited + usize::from(s.generator_limited), all + 1));
    if 2 * limited > all {
        return "the generator was the limit of most of these trials: they say nothing about the stack".to_string();
    }
    let hosts: BTreeSet<&String> = matrix.all().filter_map(|s| s.load.as_ref()).flat_map(|l| l.hosts.keys()).collect();
    let cost = |host: &String| {
        let reading = |s: &CellSeen| s.load.as_ref()?.hosts.get(host)?.cpu_us_per_request;
        matrix.contrast(pairs, &reading).map(|cost| (host.clone(), cost))
    };
    let costs: Vec<(String, Effect)> = hosts.into_iter().filter_map(cost).collect();
    let sure = |e: &Effect| e.low > 0.0 || e.high < 0.0;
    let against = |(_, cost): &&(String, Effect)| sure(cost) && (cost.effect > 0.0) != (effect.effect > 0.0);
    let size = |(_, cost): &&(String, Effect)| (cost.effect.ln_1p().abs() * 1e6) as u64;
    let told = |(host, cost): &(String, Effect)| {
        let (a, b) = (cost.a, cost.b);
        let range = format!("{} to {}", percent(cost.low), percent(cost.high));
        format!("CPU time per request at {host} went from {a:.1} to {b:.1} us ({}, {range})", percent(cost.effect))
    };
    if costs.is_empty() {
        return "the CPU time of the hosts could not be read, so the figures do not say why".to_string();
    }
    match (sure(effect) && !is_none(effect, matrix.experiment.same.0), costs.iter().filter(against).max_by_key(size)) {
        (true, Some(cost)) => told(cost),
        (true, None) => {
            "no host's CPU time per request moved against it, so the figures do not say why; `prony diagnose` looks further"
                .to_string()
        }
        (false, _) => {
            let most = costs.iter().map(|(_, cost)| same_within(cost.low, cost.high)).fold(0.0, f64::max);
            format!("CPU time per request changed at no host by more than {}", plain(most))
        }
    }
}

/// An effect with its interval, and what may be said of it.
fn change(effect: &Effect, side: Side) -> String {
    let figures = format!("{} ({} to {})", percent(effect.effect), percent(effect.low), percent(effect.high));
    let within = plain(same_within(effect.low, effect.high));
    match side {
        Side::More | Side::Less => figures,
        Side::None => format!("no effect larger than {within}: {figures}"),
        // Its own interval tells it; corrected for the number of effects it is open.
        Side::Open if effect.low > 0.0 || effect.high < 0.0 => {
            format!("alone it would be told, among so many effects it may be chance: {figures}")
        }
        Side::Open => format!("cannot be told, any effect is smaller than {within}: {figures}"),
    }
}

/// A sentence for each effect, and for each interaction that is one.
pub(super) fn observed(effects: &[FactorEffect], interactions: &[Interaction]) -> Vec<String> {
    let one = |e: &FactorEffect| {
        let effect = e.effect.as_ref()?;
        Some(format!("{} from {} to {}: {}", e.factor, e.from, e.to, change(effect, e.side)))
    };
    let both = |i: &&Interaction| matches!(i.side, Side::More | Side::Less);
    let together = |i: &Interaction| {
        let effect = i.effect.as_ref()?;
        let ((one, level), (other, at)) = (&i.one, &i.other);
        Some(format!("{one} {level} and {other} {at} together: {} of what each brings alone", change(effect, i.side)))
    };
    let open = interactions.iter().filter(|i| i.effect.is_some() && !both(i)).map(|i| i.within).reduce(f64::max);
    let rest = open.map(|within| format!("no other interaction is larger than {}", plain(within)));
    effects.iter().filter_map(one).chain(interactions.iter().filter(both).filter_map(together)).chain(rest).collect()
}

/// What to know besides the figures.
pub(super) fn notes(matrix: &Matrix<'_>, placebo: Option<&Placebo>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(Placebo { effect, alarm: true }) = placebo {
        notes.push(format!(
            "this machine sees an effect where there is none: the first cell against itself is {} ({} to {}); effects of that size \
             are not to be trusted",
            percent(effect.effect),
            percent(effect.low),
            percent(effect.high)
        ));
    }
    let (mut doubtful, mut limited, mut all) = (0, 0, 0);
    for seen in matrix.all() {
        all += 1;
        doubtful += usize::from(!seen.note.is_empty());
        limited += usize::from(seen.generator_limited);
    }
    if doubtful > 0 {
        let first = matrix.all().map(|s| s.note.as_str()).find(|note| !note.is_empty()).unwrap_or_default();
        notes.push(format!("{doubtful} of {all} trials are doubtful; the first: {first}"));
    }
    if limited > 0 {
        notes.push(format!(
            "in {limited} of {all} trials the generator was the limit, so their values are lower bounds; give it more CPUs, or see \
             `prony calibrate`"
        ));
    }
    if matrix.experiment.repeats < 3 {
        notes.push("fewer than 3 repeats give no effect with an interval".to_string());
    }
    notes
}

/// A share without its sign.
fn plain(share: f64) -> String {
    percent(share).trim_start_matches('+').to_string()
}
