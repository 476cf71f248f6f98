//! How the rate of an open loop goes over time: ramps, steps, spikes, bursts, any points, or given times.
//!
//! The spacing of arrivals ([`crate::Arrivals`]) is a choice of its own: any profile of rates can be even or Poisson. Nothing is
//! drawn here: the load engine does that. Invariant: what was read as text or from a file has passed [`Profile::check`], and
//! its text says the same profile again.
//!
//! | text | rate |
//! |---|---|
//! | `ramp:100/s..5k/s,30s` | from 100/s straight to 5000/s within 30 s, and there it stays |
//! | `steps:1k/s,2k/s,4k/s@10s` | 10 s of each; the last stays |
//! | `spike:1k/s..10k/s@20s,5s` | 1000/s, but 10,000/s from 20 s on for 5 s |
//! | `bursts:1k/s+8k/s@1s,100ms` | 1000/s, and 8000/s more in the first 100 ms of every second |
//! | `points:0s=100/s,30s=5k/s` | straight from point to point; two points at one time are a step |
//! | `cycle:0s=1k/s,1s=4k/s@2s` | points, and again from the start every 2 s |
//! | `times:0s,1.5ms,4ms` | a request at each of these times |
//!
//! In each, `@` stands before when or how often, and a comma before how long. A file with a line `seconds,rate` per point, or
//! `seconds` per request, is read by [`Profile::from_csv`].

mod text;

pub use text::ProfileError;

use crate::units::{Nanos, Rate};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use text::Shape;

/// A rate that changes, or arrivals at given times. In JSON and TOML: the text, a list of points, or a list of times.
#[derive(Clone, Debug, PartialEq)]
pub enum Profile {
    /// The rate runs straight from each point to the next; before the first it is the first's, after the last the last's.
    /// Two points at one time are a step.
    Points(Vec<ProfilePoint>),
    /// Points that begin again and again.
    Cycle {
        /// As in `Points`, within one turn.
        points: Vec<ProfilePoint>,
        /// Length of a turn.
        every: Nanos,
    },
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

/// Latest time in a profile: up to there (104 days) a float counts nanoseconds exactly.
const AT_MAX: Nanos = Nanos(1 << 53);

impl Profile {
    /// Whether it can be followed: something is sent, rates are numbers, and time does not go back.
    ///
    /// # Errors
    /// What is wrong, with an example of what is right.
    pub fn check(&self) -> Result<(), ProfileError> {
        self.fault().map_or(Ok(()), |why| Err(ProfileError::new(&self.to_string(), why, self.example())))
    }

    /// Requests that are due from `from` on and before `to`, by the rate alone: evenly spaced ones differ by less than one,
    /// Poisson arrivals by chance.
    pub fn expected_arrivals(&self, from: Nanos, to: Nanos) -> f64 {
        (self.arrivals_before(to) - self.arrivals_before(from)).max(0.0)
    }

    fn arrivals_before(&self, at: Nanos) -> f64 {
        match self {
            Self::Points(points) => area(points, at),
            Self::Cycle { every: Nanos(0), .. } => 0.0,
            Self::Cycle { points, every } => {
                let turns = at.0 / every.0;
                turns as f64 * area(points, *every) + area(points, Nanos(at.0 % every.0))
            }
            Self::Times(times) => times.partition_point(|time| *time < at) as f64,
        }
    }

    fn fault(&self) -> Option<String> {
        match self {
            Self::Points(points) => fault_of_points(points),
            Self::Cycle { points, every } => fault_of_points(points).or_else(|| {
                let last = points.last()?.at;
                if last > *every {
                    return Some(format!("the last point, at {last}, lies behind the end of the turn, at {every}"));
                }
                (area(points, *every) <= 0.0).then(|| "a turn sends nothing".to_string())
            }),
            Self::Times(times) if times.is_empty() => Some("there is no time in it".to_string()),
            Self::Times(times) => fault_of_times(times.iter().copied()),
        }
    }
}

fn fault_of_points(points: &[ProfilePoint]) -> Option<String> {
    if let Some(point) = points.iter().find(|p| !p.rate.0.is_finite() || p.rate.0 < 0.0) {
        return Some(format!("the rate at {} is no number from 0 on", point.at));
    }
    if !points.iter().any(|p| p.rate.0 > 0.0) {
        return Some("no rate in it is above 0".to_string());
    }
    fault_of_times(points.iter().map(|p| p.at))
}

fn fault_of_times(times: impl Iterator<Item = Nanos>) -> Option<String> {
    let mut before = Nanos(0);
    for time in times {
        if time < before {
            return Some(format!("{time} stands behind {before}: time does not go back"));
        }
        if time > AT_MAX {
            return Some(format!("{time} is later than {AT_MAX}, the longest that can be counted"));
        }
        before = time;
    }
    None
}

/// Area under the lines between points, from 0 to `at`: the cumulative rate.
fn area(points: &[ProfilePoint], at: Nanos) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    let mut sum = first.rate.0 * first.at.min(at).as_secs_f64();
    for (a, b) in points.iter().zip(points.iter().skip(1)) {
        let (whole, part) = (b.at.since(a.at).as_secs_f64(), b.at.min(at).since(a.at).as_secs_f64());
        if part > 0.0 {
            let rate = a.rate.0 + (b.rate.0 - a.rate.0) * part / whole;
            sum += (a.rate.0 + rate) / 2.0 * part;
        }
    }
    sum + last.rate.0 * at.since(last.at).as_secs_f64()
}

impl Serialize for Profile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Points(points) if Shape::of(self).is_none() => points.serialize(serializer),
            Self::Points(_) | Self::Cycle { .. } => serializer.collect_str(self),
            Self::Times(times) => times.serialize(serializer),
        }
    }
}

/// What a file may hold where a profile is wanted.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "not a profile: write a text like \"ramp:100/s..5k/s,30s\", a list of points like { at = \"10s\", rate = \"1k/s\" }, \
                 or a list of times like \"1.5s\""
)]
enum Written {
    Text(String),
    Points(Vec<ProfilePoint>),
    Times(Vec<Nanos>),
}

impl<'de> Deserialize<'de> for Profile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let profile = match Written::deserialize(deserializer)? {
            Written::Text(text) => text.parse(),
            Written::Points(points) => Ok(Self::Points(points)),
            Written::Times(times) => Ok(Self::Times(times)),
        };
        profile.and_then(|p| p.check().map(|()| p)).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
