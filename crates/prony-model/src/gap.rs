//! A fact that could not be read, and why.

use serde::{Deserialize, Serialize};

/// A fact that is missing. It stands where a number would stand, so that nobody mistakes it for zero.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Gap {
    /// Which fact: a metric name (`tcp.listen_overflows`), or a short noun (`inventory`, `intervention`).
    pub fact: String,
    /// The host it was wanted from; empty when it concerns the whole run.
    pub host: String,
    /// Why it is missing, and if possible what would mend it.
    pub reason: String,
}

impl Gap {
    /// A gap of one fact on one host.
    pub fn new(fact: impl Into<String>, host: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { fact: fact.into(), host: host.into(), reason: reason.into() }
    }
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.is_empty() {
            write!(f, "{}: {}", self.fact, self.reason)
        } else {
            write!(f, "{} of {}: {}", self.fact, self.host, self.reason)
        }
    }
}
