//! How the rate of an open loop goes over time.
//!
//! The spacing of arrivals ([`crate::Arrivals`]) is a choice of its own: any profile can be even or Poisson.

use crate::units::{Nanos, Rate};
use serde::{Deserialize, Serialize};

/// A rate that changes, or arrivals at given times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The rate runs straight from each point to the next; after the last it stays. Two points at one time are a step.
    Points(Vec<ProfilePoint>),
    /// A request at each of these times, in order, since the load began (warm-up included): a replay.
    Times(Vec<Nanos>),
}

/// The rate at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfilePoint {
    /// Time since the load began, warm-up included.
    pub at: Nanos,
    /// Requests per second over all threads at that time; 0 is allowed.
    pub rate: Rate,
}
