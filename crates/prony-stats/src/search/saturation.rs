//! The goal of saturation: a ladder of connections, then repeated trials on the rung where throughput is flat.
//!
//! It knows nothing of objectives. Invariant: trials of the ladder choose the rung and never count for the interval, because
//! the best of several noisy numbers is too high.

use super::location::{self, Location};
use super::{
    Answer, CONFIDENCE, End, Interval, Load, OVERHEAD_S, Observation, Options, Probe, Search, Step, Validity, Why,
    answer, last_of_objective,
};
use crate::{speed, student};
use prony_model::limit::AtOneSpeed;
use std::collections::BTreeMap;

/// Throughput of two rungs is the same when twice the connections bring less than this more. A guess: about two standard
/// deviations of a short trial. What it costs is small, because the *upper* rung of a flat step is used.
const FLAT: f64 = 0.03;
/// Repeated trials at least. With fewer the spread is not known well enough to stop by it.
const REPEATS_MIN: usize = 5;
/// Of these after the trials of an objective, if there is one. Those before it lie within a minute, and a machine drifts for longer:
/// what it drifted by until then belongs into the interval. A guess; one alone might be an outlier.
const REPEATS_AFTER: usize = 2;
/// Repeated trials from which it is seen that they are much alike. With two, chance alone makes them so.
const REPEATS_TO_CLIMB: usize = 3;
/// So many trials at a rung that are not steady, if they are at least half of those there, and the next best rung is tried. A guess.
const RESTLESS: usize = 2;
/// Share of the spread between rungs that must go with the machine's speed before that is taken out of them. A guess: in a ladder that
/// really climbs, chance makes it less.
const EXPLAINED_MIN: f64 = 0.5;
/// Of so many rungs. A guess: a slope through three points is any.
const RUNGS_MIN: usize = 4;
/// Share of the budget that saturation may use when an objective follows.
const SHARE_WITH_SLO: f64 = 0.5;

const GOAL: Load = Load::Connections(0);

impl Search {
    pub(super) fn saturation_step(&self, seen: &[Observation]) -> Step {
        let step = match rung(&self.options, seen) {
            Rung::Unknown(connections) => Step::Try(probe(connections, self.options.short_s, Why::Ladder)),
            Rung::Flat(connections) => self.repeat(seen, connections),
            Rung::None(end) => Step::Done(end),
        };
        let share = if self.is_first(seen) { SHARE_WITH_SLO } else { 1.0 };
        self.within_budget(seen, GOAL, self.options.budget_s * share, step)
    }

    pub(super) fn saturation(&self, seen: &[Observation]) -> Answer {
        let end = match self.saturation_step(seen) {
            Step::Try(_) => End::Open,
            Step::Done(end) => end,
        };
        let at = place(seen).map(Load::Connections);
        let interval = location(seen).map(|found| Interval {
            low_per_s: found.low().exp(),
            estimate_per_s: found.center.exp(),
            high_per_s: found.high().exp(),
            confidence: CONFIDENCE,
            at,
        });
        answer(seen, GOAL, interval, end)
    }

    /// Saturation once more, when the objective is done.
    pub(super) fn saturation_again(&self, seen: &[Observation]) -> Option<Probe> {
        let after = &seen[last_of_objective(seen)? + 1..];
        let valid = after.iter().filter(|o| o.validity == Validity::Valid).count();
        let connections = place(seen).filter(|_| valid < REPEATS_AFTER && after.len() < 2 * REPEATS_AFTER)?;
        let step = Step::Try(probe(connections, self.options.full_s, Why::Saturation));
        match self.within_budget(seen, GOAL, self.options.budget_s, step) {
            Step::Try(probe) => Some(probe),
            Step::Done(_) => None,
        }
    }

    /// Seconds that this takes.
    pub(super) fn again_s(&self) -> f64 {
        REPEATS_AFTER as f64 * (self.options.full_s + OVERHEAD_S)
    }

    /// Whether an objective is still to come.
    fn is_first(&self, seen: &[Observation]) -> bool {
        self.options.slo && last_of_objective(seen).is_none_or(|last| last + 1 == seen.len())
    }

    fn repeat(&self, seen: &[Observation], connections: u32) -> Step {
        let repeats = repeats(seen, connections);
        let narrow = || location::locate(&repeats).is_some_and(|found| found.width() <= self.options.width);
        let enough = if self.is_first(seen) { REPEATS_MIN - REPEATS_AFTER } else { REPEATS_MIN };
        if repeats.len() >= enough && narrow() {
            return Step::Done(End::Narrow);
        }
        Step::Try(probe(connections, self.options.full_s, Why::Saturation))
    }
}

/// The best guess of saturation, from the repeated trials or else from the ladder or from what the generator managed.
pub(super) fn roughly_per_s(seen: &[Observation]) -> Option<f64> {
    let most = seen.iter().filter(|o| o.probe.why == Why::Ladder && usable(o.good_per_s)).map(|o| o.good_per_s);
    location(seen).map(|found| found.center.exp()).or_else(|| most.reduce(f64::max))
}

fn probe(connections: u32, seconds: f64, why: Why) -> Probe {
    Probe { load: Load::Connections(connections), seconds, why, again: false }
}

fn usable(rate: f64) -> bool {
    rate.is_finite() && rate > 0.0
}

/// Good requests per second of each valid repeated trial at the place of the answer.
pub fn repeated_per_s(seen: &[Observation]) -> Vec<f64> {
    place(seen).map(|connections| valid_per_s(seen, connections)).unwrap_or_default()
}

/// Connections of the answer: the rung that was measured last, among those with enough trials where there is one.
fn place(seen: &[Observation]) -> Option<u32> {
    let mut measured = seen.iter().rev().filter(|o| o.probe.why == Why::Saturation).filter_map(connections_of);
    let last = measured.clone().next();
    measured.find(|n| valid_per_s(seen, *n).len() >= REPEATS_TO_CLIMB).or(last)
}

fn connections_of(observation: &Observation) -> Option<u32> {
    match observation.probe.load {
        Load::Connections(connections) => Some(connections),
        Load::Rate(_) => None,
    }
}

fn valid(seen: &[Observation], connections: u32) -> impl Iterator<Item = &Observation> {
    let here = move |o: &&Observation| o.probe.why == Why::Saturation && connections_of(o) == Some(connections);
    seen.iter().filter(here).filter(|o| o.validity == Validity::Valid && usable(o.good_per_s))
}

fn valid_per_s(seen: &[Observation], connections: u32) -> Vec<f64> {
    valid(seen, connections).map(|o| o.good_per_s).collect()
}

fn repeats(seen: &[Observation], connections: u32) -> Vec<f64> {
    valid_per_s(seen, connections).into_iter().map(f64::ln).collect()
}

fn location(seen: &[Observation]) -> Option<Location> {
    location::locate(&repeats(seen, place(seen)?))
}

/// Saturation as if the machine had kept the mean of its speeds during the repeated trials; none where it hardly moved, was not measured, or
/// with fewer than 6 of them.
pub fn at_one_speed(seen: &[Observation]) -> Option<AtOneSpeed> {
    let connections = place(seen)?;
    let pieces: Option<Vec<f64>> = valid(seen, connections).map(|o| o.piece_us).collect();
    let pieces = pieces?;
    let allowed = speed::at_one_speed(&repeats(seen, connections), &pieces, speed::VALUES_MIN)?;
    let found = location::locate(&allowed.values)?;
    let (mean, variance) = student::moments(&pieces.iter().map(|piece| piece.ln()).collect::<Vec<f64>>())?;
    Some(AtOneSpeed {
        low_per_s: found.low().exp(),
        estimate_per_s: found.center.exp(),
        high_per_s: found.high().exp(),
        piece_us: mean.exp(),
        moved: variance.sqrt(),
        slope: allowed.slope,
        explained: allowed.explained,
    })
}

enum Rung {
    /// This one must be tried before it can be said.
    Unknown(u32),
    /// Throughput is flat here.
    Flat(u32),
    /// There is none.
    None(End),
}

/// Doubles and halves the connections from where the workload stands until the rungs at both ends are no better than the one
/// two steps inside, then takes the middle of the flat part: of the inner rungs the one whose throughput, smoothed with its
/// neighbours by 1-2-1 (Hann; Tukey 1977, "Exploratory Data Analysis", 7), is highest. There the queue never runs empty, and
/// more connections do not yet cost anything.
fn rung(options: &Options, seen: &[Observation]) -> Rung {
    let rates = ladder(seen);
    let rate = |connections: u32| rates.get(&connections).copied();
    let start = options.connections;
    if rate(start).is_none() {
        return Rung::Unknown(start);
    }
    let better = |edge: u32, inside: Option<u32>| {
        let inside = inside.and_then(rate).unwrap_or(0.0);
        rate(edge).is_some_and(|edge| edge > inside * (1.0 + FLAT))
    };
    let (mut low, mut high) = (start, start);
    loop {
        let two_inside = |edge: u32, at: usize| rates.keys().copied().nth(at).filter(|n| *n != edge);
        let tried = rates.len();
        let (up, down) = (high.saturating_mul(2), low.div_ceil(2));
        let inside_high = two_inside(high, tried.saturating_sub(3));
        if up <= options.connections_max && (high == start || rate(up).is_some() || better(high, inside_high)) {
            if rate(up).is_none() {
                return Rung::Unknown(up);
            }
            high = up;
        } else if low > 1 && (low == start || rate(down).is_some() || better(low, two_inside(low, 2.min(tried - 1)))) {
            if rate(down).is_none() {
                return Rung::Unknown(down);
            }
            low = down;
        } else {
            break;
        }
    }
    if rates.values().all(|rate| *rate <= 0.0) {
        return Rung::None(if limited(seen) { End::GeneratorLimited } else { End::NothingServed });
    }
    let steady = |connections: u32| !restless(seen, connections);
    let calm = middle(&rates, low, high, &steady).or_else(|| middle(&rates, 0, u32::MAX, &steady));
    let flat = calm.or_else(|| middle(&rates, low, high, &|_| true)).unwrap_or(start);
    climbed(options, seen, &rates, flat)
}

/// Where the repeated trials of a rung are so much alike that the trial of a neighbour stands out above what one more of them would
/// have shown, throughput is not flat but rises to there, by less than a ladder sees. So it goes on along the ladder while that rises
/// by as much, and repeats the trials there.
fn climbed(options: &Options, seen: &[Observation], rates: &BTreeMap<u32, f64>, flat: u32) -> Rung {
    let mut repeated = seen.iter().filter(|o| o.probe.why == Why::Saturation).filter_map(connections_of);
    let Some((_, excess)) = repeated.find_map(|n| one_more(options, seen, n)) else { return Rung::Flat(flat) };
    let rate = |n: u32| one_more(options, seen, n).map_or(rates[&n], |(rate, _)| rate);
    let (mut way, mut here) = (vec![flat], flat);
    loop {
        let near = [here.saturating_mul(2), here.div_ceil(2)].into_iter();
        let near = near.filter(|n| *n <= options.connections_max && !way.contains(n) && !restless(seen, *n));
        let (known, unknown): (Vec<u32>, Vec<u32>) = near.partition(|n| rates.contains_key(n));
        // Beyond the ends of the ladder a look is only worth it on the way up.
        if let Some(next) = unknown.first().filter(|_| way.len() > 1) {
            return Rung::Unknown(*next);
        }
        let best = known.into_iter().max_by(|a, b| rates[a].total_cmp(&rates[b]));
        let Some(best) = best.filter(|n| rates[n] > rate(here) * excess) else { return Rung::Flat(here) };
        way.push(best);
        here = best;
    }
}

/// The rate at a rung, and how many times that one more trial, as short as those of the ladder, would show at most: the upper end of the
/// 95 % prediction interval, wider by the square root of the times. None with too few trials there.
fn one_more(options: &Options, seen: &[Observation], connections: u32) -> Option<(f64, f64)> {
    let repeats = repeats(seen, connections);
    let next = student::one_more(&repeats).filter(|_| repeats.len() >= REPEATS_TO_CLIMB)?;
    let shorter = (options.full_s / options.short_s).max(1.0).sqrt();
    Some((next.center.exp(), ((next.high - next.center) * shorter).exp()))
}

/// Whether throughput swings at a rung: with few connections requests may go round in one bunch.
fn restless(seen: &[Observation], connections: u32) -> bool {
    let here = || {
        seen.iter().filter(move |o| o.probe.why == Why::Saturation && o.probe.load == Load::Connections(connections))
    };
    let unsteady = here().filter(|o| o.validity == Validity::Unsteady).count();
    unsteady >= RESTLESS && 2 * unsteady >= here().count()
}

/// The inner rung that is the best together with its neighbours; an end of the ladder that could not go on counts as inner.
fn middle(rates: &BTreeMap<u32, f64>, low: u32, high: u32, wanted: &dyn Fn(u32) -> bool) -> Option<u32> {
    let list: Vec<(u32, f64)> = rates.iter().map(|(n, rate)| (*n, *rate)).collect();
    let smooth = |i: usize| {
        let left = if i > 0 { list[i - 1].1 } else { 0.0 };
        left + 2.0 * list[i].1 + list.get(i + 1).unwrap_or(&list[i]).1
    };
    let inner = (0..list.len()).filter(|i| list.len() < 3 || (list[*i].0 > low && list[*i].0 < high));
    inner.filter(|i| wanted(list[*i].0)).max_by(|a, b| smooth(*a).total_cmp(&smooth(*b))).map(|i| list[i].0)
}

/// Rate of each rung that was tried: of its valid trials the last, 0 when it has none. Where most of what differs between rungs went with
/// the machine's own speed, it is taken out: the rung on which the machine happened to be fast is not the best one.
fn ladder(seen: &[Observation]) -> BTreeMap<u32, f64> {
    let mut last: BTreeMap<u32, Option<&Observation>> = BTreeMap::new();
    for observation in seen.iter().filter(|o| o.probe.why == Why::Ladder) {
        let Some(connections) = connections_of(observation) else { continue };
        let counts = observation.validity == Validity::Valid && usable(observation.good_per_s);
        let known = last.entry(connections).or_default();
        *known = Some(observation).filter(|_| counts).or(*known);
    }
    let valid: Vec<&Observation> = last.values().copied().flatten().collect();
    let logs: Vec<f64> = valid.iter().map(|o| o.good_per_s.ln()).collect();
    let pieces: Option<Vec<f64>> = valid.iter().map(|o| o.piece_us).collect();
    let allowed = pieces.and_then(|pieces| speed::at_one_speed(&logs, &pieces, RUNGS_MIN));
    let allowed = allowed.filter(|allowed| allowed.slope < 0.0 && allowed.explained > EXPLAINED_MIN);
    let mut rates = allowed.map_or(logs, |allowed| allowed.values).into_iter().map(f64::exp);
    last.into_iter()
        .map(|(connections, trial)| (connections, trial.and_then(|_| rates.next()).unwrap_or(0.0)))
        .collect()
}

fn limited(seen: &[Observation]) -> bool {
    seen.iter().any(|o| o.validity == Validity::GeneratorLimited)
}
