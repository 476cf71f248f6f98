//! What happens during a run, for whoever watches it: a progress line, a live screen, a web page.

use crate::experiment::CellSeen;
use crate::gap::Gap;
use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// A stage began: `load`, `observe`, `diagnose`, `intervene`, `tune`, `prove`, `undo`, `report`.
    Stage {
        /// Name of the stage.
        name: String,
        /// What is about to happen, as a sentence.
        detail: String,
    },
    /// A trial began.
    TrialStarted {
        /// Its number.
        id: u32,
        /// What it is for, as a few words.
        label: String,
        /// How long it will take, in seconds.
        seconds: f64,
        /// Seconds of the trials that are planned after it. A search plans a step at a time, so there it is no promise.
        #[serde(default)]
        left_s: f64,
    },
    /// A trial ended.
    TrialDone {
        /// Its number.
        id: u32,
        /// Good requests per second.
        good_per_s: f64,
        /// 99th percentile in microseconds.
        p99_us: f64,
        /// Failed requests.
        errors: u64,
    },
    /// A cell of an experiment ran in one repeat.
    CellDone {
        /// What was seen.
        seen: Box<CellSeen>,
    },
    /// A search went on: what is known of its answer by now.
    Narrowed {
        /// Which answer, in a few words: `limit`, `limit within the objective`, `path-size`.
        answer: String,
        /// Lower end of its interval; none before there is one.
        low: Option<f64>,
        /// Upper end.
        high: Option<f64>,
        /// Unit of both: `/s`, or none for a whole number.
        unit: String,
        /// Trials so far.
        trials: u32,
        /// Seconds that they took.
        spent_s: f64,
        /// Seconds that they may take.
        budget_s: f64,
    },
    /// A note for the person who watches.
    Note {
        /// The note.
        text: String,
    },
    /// A fact that could not be read.
    Missing {
        /// The gap.
        gap: Gap,
    },
}
