//! What the pages of `prony serve` show besides the report of one run: lists, comparisons, histories, and a run that goes on.
//!
//! It selects and names, as the report does; verdicts and intervals come as they are.

mod compared;
mod history;
mod live;
mod summary;

pub use compared::ComparedView;
pub use history::HistoryView;
pub use live::LiveView;
pub use summary::RunSummary;

use crate::typed::Types;

/// Every type of these pages.
pub(super) fn declare(types: &mut Types) {
    summary::declare_structs(types);
    compared::declare_structs(types);
    history::declare_structs(types);
    live::declare_structs(types);
}
