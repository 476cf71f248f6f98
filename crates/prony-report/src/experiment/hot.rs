//! Where the hottest function of each cell is called from.
//!
//! Invariant: a share stands beside the number of samples that it is of.

use crate::number::{count, percent};
use prony_model::experiment::{CellRow, ExperimentResult, HotSeen};

/// Of the section.
pub(super) const TITLE: &str = "Hottest functions, and the most frequent way to them";

/// What the CPUs of the entry ran in a cell.
pub(super) fn at_entry<'a>(result: &ExperimentResult, row: &'a CellRow) -> Option<&'a HotSeen> {
    row.hot.get(result.entry.as_ref()?)
}

/// A line for each cell whose hosts were sampled.
pub(super) fn paths(result: &ExperimentResult) -> Vec<String> {
    let line = |row: &CellRow| {
        let hot = at_entry(result, row)?;
        let hottest = hot.functions.first()?;
        let (share, samples) = (percent(hottest.share), count(hot.samples));
        Some(format!(
            "{}: {} in {share} of {samples} samples: {}",
            row.label,
            hottest.function,
            hottest.path.join(" > ")
        ))
    };
    result.cells.iter().filter_map(line).collect()
}
