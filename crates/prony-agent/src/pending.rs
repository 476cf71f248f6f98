//! Changes that an interrupted run left behind, and their undo, each inside the host it was made on.

use crate::door::{self, DoorError};
use crate::host::tune_roots;
use crate::message::Restored;
use prony_model::Place;
use std::path::Path;

/// A change that is still in force.
pub struct Pending {
    /// What it is, as a few words for a person.
    pub what: String,
    place: Place,
    entry: prony_tune::PendingEntry,
}

/// Every change that is still in force, the oldest first.
pub fn pending(journal_dir: &Path) -> Result<Vec<Pending>, prony_tune::TuneError> {
    let entries = prony_tune::pending(journal_dir)?;
    Ok(entries
        .into_iter()
        .map(|entry| Pending {
            what: format!("{} at {}", entry.knob.id, entry.knob.host),
            place: entry.place.clone(),
            entry,
        })
        .collect())
}

/// Puts one back, through the door of its host.
pub fn undo_pending(change: &Pending) -> Result<Restored, String> {
    let undo = |roots| change.entry.undo(&tune_roots(&roots));
    let undone = match door::through(&change.place, undo) {
        // What lived in the namespace is gone with it; files are restored all the same.
        Err(DoorError::NoNamespace { .. }) => door::through(&Place::Local, undo),
        other => other,
    };
    undone.map_err(|e| e.to_string())?.map_err(|e| e.to_string()).map(Restored::from)
}
