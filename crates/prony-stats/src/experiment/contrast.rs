//! Effects and interactions: ratios of cells that differ in one thing, one ratio per repeat.
//!
//! Invariant: a cell is only ever compared with one that ran in the same repeat.

use crate::prove::{direction, same_within};
use crate::{holm, paired};
use prony_model::experiment::{CellSeen, Design, FactorEffect, Interaction, Placebo, Side};
use prony_model::{Effect, Experiment, ProofVerdict};
use std::collections::BTreeMap;

/// Chance of a false alarm in the whole family.
const ALPHA: f64 = 0.05;

/// What the cells are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// A factor, by its number.
    Factor(usize),
    /// The rows of a design by rows.
    Row,
}

/// The cells of an experiment and what each showed in each repeat.
pub(super) struct Matrix<'a> {
    pub experiment: &'a Experiment,
    pub cells: Vec<Vec<usize>>,
    seen: BTreeMap<(u32, u32), &'a CellSeen>,
}

/// Something that is read of a cell.
pub(super) type Reading<'a> = &'a dyn Fn(&CellSeen) -> Option<f64>;

impl<'a> Matrix<'a> {
    pub fn new(experiment: &'a Experiment, seen: &'a [CellSeen]) -> Self {
        let seen = seen.iter().map(|s| ((s.repeat, s.cell), s)).collect();
        Self { experiment, cells: experiment.cells(), seen }
    }

    pub fn all(&self) -> impl Iterator<Item = &CellSeen> {
        self.seen.values().copied()
    }

    /// Pairs of cells that differ in one column alone: there from one level to another.
    pub fn pairs(&self, column: Column, from: usize, to: usize) -> Vec<(usize, usize)> {
        let Column::Factor(at) = column else {
            return if from.max(to) < self.cells.len() { vec![(from, to)] } else { Vec::new() };
        };
        let partner = |(number, cell): (usize, &Vec<usize>)| {
            let mut other = cell.clone();
            *other.get_mut(at).filter(|level| **level == from)? = to;
            Some((number, self.cells.iter().position(|c| *c == other)?))
        };
        self.cells.iter().enumerate().filter_map(partner).collect()
    }

    /// B against A over the repeats in which every pair was seen; in each the geometric mean over the pairs.
    pub fn contrast(&self, pairs: &[(usize, usize)], reading: Reading<'_>) -> Option<Effect> {
        let value = |repeat: u32, cell: usize| reading(self.seen.get(&(repeat, cell as u32))?).filter(|v| *v > 0.0);
        let mean = |repeat: u32, cells: &mut dyn Iterator<Item = usize>| {
            let logs = cells.map(|cell| value(repeat, cell).map(f64::ln)).collect::<Option<Vec<f64>>>()?;
            (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
        };
        let of = |repeat: u32| {
            let a = mean(repeat, &mut pairs.iter().map(|(a, _)| *a))?;
            Some((a, mean(repeat, &mut pairs.iter().map(|(_, b)| *b))?))
        };
        let ratios: Vec<(f64, f64)> = (0..self.experiment.repeats).filter_map(of).collect();
        paired::compare("value", &ratios)
    }

    /// Ratio of the ratios: what `pairs_with` shows against what `pairs_without` does.
    fn ratio_of_ratios(&self, without: &[(usize, usize)], with: &[(usize, usize)]) -> Option<Effect> {
        // Of (b/a) against (d/c) is that of (b c) against (a d): a list of pairs, half of them turned round.
        let turned = without.iter().map(|(a, b)| (*b, *a));
        let all: Vec<(usize, usize)> = turned.chain(with.iter().copied()).collect();
        // The mean over twice as many pairs halves the logarithm, so it is doubled again.
        self.contrast(&all, &|s| s.value.map(|v| v * v))
    }
}

/// What each level does against the first of its factor, and of a full design what pairs of factors do together.
pub(super) fn effects(matrix: &Matrix<'_>) -> (Vec<FactorEffect>, Vec<Interaction>) {
    let experiment = matrix.experiment;
    let mut effects: Vec<FactorEffect> = match experiment.design {
        Design::Rows => one_column(matrix, Column::Row, "row"),
        Design::Full | Design::OneAtATime => {
            let factors = experiment.factors.iter().enumerate();
            factors.flat_map(|(at, factor)| one_column(matrix, Column::Factor(at), &factor.name)).collect()
        }
    };
    let mut interactions = match experiment.design {
        Design::Full => interactions(matrix),
        Design::Rows | Design::OneAtATime => Vec::new(),
    };
    let found = || effects.iter().map(|e| &e.effect).chain(interactions.iter().map(|i| &i.effect));
    let p: Vec<f64> = found().flatten().map(paired::p_by_t).collect();
    let mut corrected = holm::adjusted(&p).into_iter();
    for (effect, p_holm, side, within) in effects
        .iter_mut()
        .map(|e| (&e.effect, &mut e.p_holm, &mut e.side, &mut e.within))
        .chain(interactions.iter_mut().map(|i| (&i.effect, &mut i.p_holm, &mut i.side, &mut i.within)))
    {
        let Some(effect) = effect else { continue };
        *p_holm = corrected.next().unwrap_or(1.0);
        *within = same_within(effect.low, effect.high);
        *side = judge(effect, *p_holm, experiment.same.0);
    }
    (effects, interactions)
}

fn one_column(matrix: &Matrix<'_>, column: Column, name: &str) -> Vec<FactorEffect> {
    let names = matrix.experiment.names_of(name).unwrap_or_default();
    let effect = |to: usize| {
        let pairs = matrix.pairs(column, 0, to);
        FactorEffect {
            factor: name.to_string(),
            from: names[0].clone(),
            to: names[to].clone(),
            effect: matrix.contrast(&pairs, &|s| s.value),
            p_holm: 1.0,
            side: Side::Open,
            within: 0.0,
            pairs_of_cells: pairs.len() as u32,
        }
    };
    (1..names.len()).map(effect).collect()
}

fn interactions(matrix: &Matrix<'_>) -> Vec<Interaction> {
    let factors = &matrix.experiment.factors;
    let mut found = Vec::new();
    for (one, first) in factors.iter().enumerate() {
        for (other, second) in factors.iter().enumerate().skip(one + 1) {
            for (l, m) in (1..first.levels.len()).flat_map(|l| (1..second.levels.len()).map(move |m| (l, m))) {
                let pairs = matrix.pairs(Column::Factor(one), 0, l);
                let at = |level: usize| {
                    let of = pairs.iter().filter(|(a, _)| matrix.cells[*a][other] == level);
                    of.copied().collect::<Vec<(usize, usize)>>()
                };
                found.push(Interaction {
                    one: (first.name.clone(), first.levels[l].to_string()),
                    other: (second.name.clone(), second.levels[m].to_string()),
                    effect: matrix.ratio_of_ratios(&at(0), &at(m)),
                    p_holm: 1.0,
                    ..Interaction::default()
                });
            }
        }
    }
    found
}

/// The first cell against itself. Its own p counts: it is asked once, whatever else is.
pub(super) fn placebo(matrix: &Matrix<'_>) -> Option<Placebo> {
    let last = matrix.cells.len();
    let effect = matrix.contrast(&[(0, last)], &|s| s.value).filter(|_| matrix.experiment.placebo)?;
    let alarm = effect.low > 0.0 || effect.high < 0.0;
    Some(Placebo { effect, alarm })
}

/// Whether an effect lies so near to nothing that it is called none, where nothing says that there is one.
pub(super) fn is_none(effect: &Effect, same: f64) -> bool {
    same_within(effect.low, effect.high) <= same
}

/// What may be said of an effect. "None" is a test of equivalence, as in `prove::direction`.
pub(super) fn judge(effect: &Effect, p_holm: f64, same: f64) -> Side {
    let within = same_within(effect.low, effect.high);
    let small = if is_none(effect, same) { Side::None } else { Side::Open };
    match direction(effect.low, effect.high, within, same) {
        ProofVerdict::Better if p_holm <= ALPHA => Side::More,
        ProofVerdict::Worse if p_holm <= ALPHA => Side::Less,
        ProofVerdict::Better
        | ProofVerdict::Worse
        | ProofVerdict::NoDifference
        | ProofVerdict::GuardBroken
        | ProofVerdict::Inconclusive => small,
    }
}
