//! The order of an experiment's trials, and what they say together.
//!
//! One number per cell and repeat goes in. Effects are worked out in `contrast`, sentences in `words`; the table is made here.
//! Invariant: a repeat is the unit of every interval, so that what is drawn anew for each repeat (the order, a lab that is built
//! again) is part of the spread and not of the effect.

mod contrast;
mod words;

use crate::histogram::merge_latencies;
use crate::{Random, student};
use contrast::{Column, Matrix};
use prony_model::experiment::{
    CellRow, CellSeen, Design, ExperimentResult, Find, HostSeen, HotFunction, HotSeen, SCHEMA, Seen,
};
use prony_model::{Axis, Experiment, Latency};
use std::collections::{BTreeMap, BTreeSet};

/// Cells that run one after the other without building anything anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Which of the groups.
    pub group: usize,
    /// The cells in the order to run them.
    pub cells: Vec<u32>,
}

/// Every cell once in each repeat, in an order that is random anew each time. `groups` holds the group of each cell: those of one
/// group share a lab that takes long to build, so they run together, and the groups come in random order too.
///
/// Randomised complete blocks (Fisher 1935, "The Design of Experiments", IV); with groups a split plot (Yates 1935, "Complex
/// experiments", JRSS Supplement 2), whose effects are compared over repeats, never over the trials within one.
pub fn order(groups: &[usize], repeats: u32, seed: u64) -> Vec<Batch> {
    let mut random = Random::new(seed);
    let distinct: BTreeSet<usize> = groups.iter().copied().collect();
    let mut batches = Vec::new();
    for repeat in 0..repeats {
        let mut turn: Vec<usize> = distinct.iter().copied().collect();
        random.shuffle(&mut turn);
        for group in turn {
            let mut cells: Vec<u32> =
                (0u32..).zip(groups).filter(|(_, g)| **g == group).map(|(cell, _)| cell).collect();
            random.shuffle(&mut cells);
            batches.push(Batch { repeat, group, cells });
        }
    }
    batches
}

/// Where and how the cells ran.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ran {
    /// Seed of the order.
    pub seed: u64,
    /// The stack in words.
    pub stack: String,
    /// The host whose CPUs the table shows.
    pub entry: Option<String>,
    /// What to know besides, a sentence each.
    pub notes: Vec<String>,
    /// Numbers of the cells that cannot run there, with the reason.
    pub left_out: BTreeMap<u32, String>,
}

/// Everything that the cells say.
pub fn conclude(experiment: &Experiment, seen: &[CellSeen], ran: Ran) -> ExperimentResult {
    let matrix = Matrix::new(experiment, seen);
    let (effects, interactions) = contrast::effects(&matrix);
    let placebo = contrast::placebo(&matrix);
    let claims = words::claims(&matrix);
    let total = (all_cells(experiment) - ran.left_out.len()) as u32 * experiment.repeats;
    let done: BTreeSet<(u32, u32)> = seen.iter().map(|s| (s.cell, s.repeat)).collect();
    let mut notes = ran.notes;
    notes.extend(words::notes(&matrix, placebo.as_ref()));
    ExperimentResult {
        schema: SCHEMA.to_string(),
        experiment: experiment.clone(),
        seed: ran.seed,
        stack: ran.stack,
        entry: ran.entry,
        unit: unit(experiment).to_string(),
        cells: rows(experiment, seen, &ran.left_out),
        observed: words::observed(&effects, &interactions),
        effects,
        interactions,
        placebo,
        claims,
        notes,
        done: (done.len() as u32, total),
    }
}

/// Cells of an experiment, the placebo among them.
pub fn all_cells(experiment: &Experiment) -> usize {
    experiment.cells().len() + usize::from(experiment.placebo)
}

fn unit(experiment: &Experiment) -> &'static str {
    match (experiment.find, experiment.vary.map(|vary| vary.axis)) {
        (Find::Measure | Find::Limit | Find::LimitWithinSlo, _) => "requests/s",
        (Find::StableConcurrency, _) | (Find::Search, Some(Axis::Connections) | None) => "connections",
        (Find::Search, Some(Axis::PathSize)) => "bytes",
        (Find::Search, Some(Axis::Workers)) => "workers",
    }
}

fn rows(experiment: &Experiment, seen: &[CellSeen], left_out: &BTreeMap<u32, String>) -> Vec<CellRow> {
    let cells = experiment.cells();
    let placebo = experiment.placebo.then(|| cells.first().cloned()).flatten();
    let last = placebo.iter().map(|cell| (cell, true));
    cells
        .iter()
        .map(|cell| (cell, false))
        .chain(last)
        .enumerate()
        .map(|(number, (cell, placebo))| {
            let of: Vec<&CellSeen> = seen.iter().filter(|s| s.cell as usize == number).collect();
            let label = experiment.label(cell);
            let label = if placebo { format!("{label} (placebo)") } else { label };
            let levels = experiment.settings(cell).iter().map(ToString::to_string).collect();
            let gap = left_out.get(&(number as u32)).cloned();
            CellRow { label, levels, placebo, gap, ..row(&of) }
        })
        .collect()
}

fn row(of: &[&CellSeen]) -> CellRow {
    let values: Vec<f64> = of.iter().filter_map(|s| s.value).collect();
    let loads: Vec<_> = of.iter().filter_map(|s| s.load.as_ref()).collect();
    let latencies: Vec<Latency> =
        loads.iter().map(|l| Latency { hdr_v2: l.hdr_v2.clone(), ..Latency::default() }).collect();
    let merged = merge_latencies(&latencies.iter().collect::<Vec<_>>()).ok().filter(|merged| merged.count > 0);
    let mean = |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let limited = of.iter().filter(|s| s.generator_limited).count();
    // Shares of requests are weighted by requests.
    let ended = |l: &&prony_model::experiment::CellLoad| {
        (l.completed + l.errors.total() - l.errors.status - l.errors.check) as f64
    };
    let (failed, all) = loads.iter().fold((0.0, 0.0), |(f, a), l| (f + l.error_share * ended(l), a + ended(l)));
    CellRow {
        value: value(of, &values),
        at_least: limited > 0 && 2 * limited >= of.len(),
        bits_per_s: mean(loads.iter().map(|l| l.bits_per_s).collect()),
        p50_us: merged.as_ref().map(|m| m.p50_us),
        p99_us: merged.as_ref().map(|m| m.p99_us),
        error_share: (all > 0.0).then(|| failed / all),
        hosts: hosts(&loads.iter().map(|l| &l.hosts).collect::<Vec<_>>()),
        hot: hot(&loads.iter().map(|l| &l.hot).filter(|hot| !hot.is_empty()).collect::<Vec<_>>()),
        repeats: values.len() as u32,
        doubtful: of.iter().filter(|s| !s.note.is_empty()).count() as u32,
        ..CellRow::default()
    }
}

/// The geometric mean with its interval over the repeats; of a single search its own interval.
///
/// Logarithms as in Bland, Altman 1996, "Transforming data", BMJ 312; see `student::mean`.
fn value(of: &[&CellSeen], values: &[f64]) -> Option<Seen> {
    if let ([one], [value]) = (of, values) {
        return Some(Seen { value: *value, low: one.low, high: one.high });
    }
    let logs: Vec<f64> = values.iter().filter(|v| **v > 0.0).map(|v| v.ln()).collect();
    let value = (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())?;
    // As for pairs: with two values t is 12.7.
    let interval = student::mean(&logs).filter(|_| logs.len() >= 3);
    Some(Seen { value, low: interval.map(|i| i.low.exp()), high: interval.map(|i| i.high.exp()) })
}

/// Means over the repeats, of what was read.
fn hosts(seen: &[&BTreeMap<String, HostSeen>]) -> BTreeMap<String, HostSeen> {
    let names: BTreeSet<&String> = seen.iter().flat_map(|hosts| hosts.keys()).collect();
    let mean = |name: &String, of: fn(&HostSeen) -> Option<f64>| {
        let values: Vec<f64> = seen.iter().filter_map(|hosts| of(hosts.get(name)?)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let host = |name: &String| HostSeen {
        cpus: mean(name, |h| h.cpus),
        cpu_us_per_request: mean(name, |h| h.cpu_us_per_request),
        user: mean(name, |h| h.user),
        system: mean(name, |h| h.system),
        interrupts: mean(name, |h| h.interrupts),
        idle: mean(name, |h| h.idle),
    };
    names.into_iter().map(|name| (name.clone(), host(name))).collect()
}

/// Shares as means over the repeats; a function that is not among the hottest of a repeat counts as none there.
fn hot(seen: &[&BTreeMap<String, HotSeen>]) -> BTreeMap<String, HotSeen> {
    let names: BTreeSet<&String> = seen.iter().flat_map(|hosts| hosts.keys()).collect();
    let of = |name: &String| {
        let repeats: Vec<&HotSeen> = seen.iter().filter_map(|hosts| hosts.get(name)).collect();
        let n = repeats.len() as f64;
        let mut functions: BTreeMap<&str, (f64, &HotFunction)> = BTreeMap::new();
        for function in repeats.iter().flat_map(|seen| &seen.functions) {
            let (sum, most) = functions.entry(&function.function).or_insert((0.0, function));
            *sum += function.share;
            if function.share > most.share {
                *most = function;
            }
        }
        let mean = |(sum, most): (f64, &HotFunction)| HotFunction { share: sum / n, ..most.clone() };
        let mut functions: Vec<HotFunction> = functions.into_values().map(mean).collect();
        functions.sort_by(|a, b| b.share.total_cmp(&a.share).then(a.function.cmp(&b.function)));
        HotSeen {
            samples: repeats.iter().map(|seen| seen.samples).sum(),
            locks: repeats.iter().map(|seen| seen.locks).sum::<f64>() / n,
            functions,
        }
    };
    names.into_iter().map(|name| (name.clone(), of(name))).collect()
}

/// Columns that a claim or a plot may name: the factors, or the rows.
fn column(experiment: &Experiment, name: &str) -> Option<Column> {
    if experiment.design == Design::Rows && name == "row" {
        return Some(Column::Row);
    }
    experiment.factors.iter().position(|f| f.name == name).map(Column::Factor)
}

#[cfg(test)]
mod tests;
