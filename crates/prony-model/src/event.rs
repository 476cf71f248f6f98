//! What happens during a run, for whoever watches it: a progress line, a live screen, a web page.

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
