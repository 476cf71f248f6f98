//! What a search varies besides the load, and until when: `path-size=0..10000`, `bandwidth>=95%`.
//!
//! Read and named here, carried out in `prony-session`. Invariant: what is printed is what was written.

use crate::input::nearest;
use crate::threshold::{Comparison, Measure, Threshold};
use crate::units::{Bytes, Share};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Which whole number is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// Bytes of an answer: `%d` in the path becomes the size; without it the first bytes of the file are asked for (`Range`).
    PathSize,
    /// Connections, in closed loop unless the workload has a rate.
    Connections,
    /// nginx's `worker_processes` at the entry of the path, put back after each trial.
    Workers,
}

/// Every axis with its name.
const AXES: &[(&str, Axis)] =
    &[("path-size", Axis::PathSize), ("connections", Axis::Connections), ("workers", Axis::Workers)];

impl Axis {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::PathSize => "path-size",
            Self::Connections => "connections",
            Self::Workers => "workers",
        }
    }

    /// Whether it is a degree of parallelism, so that the universal scalability law applies.
    pub fn is_parallelism(self) -> bool {
        match self {
            Self::Connections | Self::Workers => true,
            Self::PathSize => false,
        }
    }
}

/// An axis with its ends, both of which are tried: `NAME=LOW..HIGH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vary {
    /// What is varied.
    pub axis: Axis,
    /// Smallest value.
    pub low: u64,
    /// Largest value.
    pub high: u64,
}

/// What must hold: a threshold, or a share of the most that any value brings.
#[derive(Clone, Debug, PartialEq)]
pub enum Until {
    /// `p99<10ms`
    Threshold(Threshold),
    /// `bandwidth>=95%`, `rate>=95%`: at least this share of the most.
    ShareOfMost {
        /// What is measured.
        measure: Measure,
        /// `>` or `>=`.
        comparison: Comparison,
        /// From 0 to 1.
        share: f64,
        /// As it was written, without blanks.
        text: String,
    },
}

/// Why a text is no axis or no condition: what was seen, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaryError(String);

impl fmt::Display for VaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for VaryError {}

impl FromStr for Vary {
    type Err = VaryError;
    fn from_str(written: &str) -> Result<Self, VaryError> {
        let wrong = |why: String| VaryError(format!("`{written}` is nothing to vary: {why}"));
        let form = || wrong("write NAME=LOW..HIGH, like `path-size=0..10000`".to_string());
        let (name, range) = written.trim().split_once('=').ok_or_else(form)?;
        let found = AXES.iter().find(|(axis, _)| *axis == name.trim());
        let (_, axis) = found.ok_or_else(|| {
            let names: Vec<&str> = AXES.iter().map(|(axis, _)| *axis).collect();
            let hint = nearest(name.trim(), names.iter().copied());
            let hint = hint.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            wrong(format!("`{}` is not one of {}{hint}", name.trim(), names.join(", ")))
        })?;
        let (low, high) = range.split_once("..").ok_or_else(form)?;
        let end = |text: &str| match axis {
            Axis::PathSize => text.trim().parse::<Bytes>().map(|bytes| bytes.0).map_err(|e| wrong(e.to_string())),
            Axis::Connections | Axis::Workers => text.trim().parse::<u64>().map_err(|_| {
                wrong(format!("`{}` is not a whole number: write {name}=LOW..HIGH, like `{name}=1..16`", text.trim()))
            }),
        };
        let vary = Self { axis: *axis, low: end(low)?, high: end(high)? };
        vary.check().map_err(wrong)
    }
}

impl Vary {
    fn check(self) -> Result<Self, String> {
        let Self { axis, low, high } = self;
        if low >= high {
            return Err(format!("{low} is not below {high}: the smaller value comes first"));
        }
        match axis {
            Axis::Connections | Axis::Workers if low == 0 => {
                Err(format!("0 {} serve nothing: begin at 1", axis.name()))
            }
            Axis::Connections if high > u64::from(u32::MAX) => Err(format!("{high} connections are too many")),
            Axis::Workers if high > WORKERS_MAX => {
                Err(format!("{high} workers are more than nginx allows, {WORKERS_MAX}"))
            }
            Axis::Connections | Axis::Workers | Axis::PathSize => Ok(self),
        }
    }
}

/// As in the knob `nginx.worker_processes`: nginx's own limit is 1024 processes (NGX_MAX_PROCESSES).
const WORKERS_MAX: u64 = 1000;

impl fmt::Display for Vary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}..{}", self.axis.name(), self.low, self.high)
    }
}

impl FromStr for Until {
    type Err = VaryError;
    fn from_str(written: &str) -> Result<Self, VaryError> {
        let text: String = written.split_whitespace().collect();
        let of_most =
            [("bandwidth", Measure::Bandwidth), ("rate", Measure::Rate)].into_iter().find_map(|(name, measure)| {
                let rest = text.strip_prefix(name)?;
                let (comparison, limit) = match rest.strip_prefix(">=") {
                    Some(limit) => (Comparison::AtLeast, limit),
                    None => (Comparison::Above, rest.strip_prefix('>')?),
                };
                limit.ends_with('%').then_some((measure, comparison, limit))
            });
        let Some((measure, comparison, limit)) = of_most else {
            return text.parse().map(Self::Threshold).map_err(|e| VaryError(e.to_string()));
        };
        let wrong = |why: String| VaryError(format!("`{written}` is no condition: {why}"));
        let share = limit.parse::<Share>().map_err(|e| wrong(e.to_string()))?.0;
        if share <= 0.0 || share > 1.0 {
            return Err(wrong(format!("{limit} of the most is not above 0 and at most 100 %")));
        }
        Ok(Self::ShareOfMost { measure, comparison, share, text })
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threshold(threshold) => threshold.fmt(f),
            Self::ShareOfMost { text, .. } => f.write_str(text),
        }
    }
}

impl Serialize for Vary {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Vary {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Until {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Until {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check<T: FromStr + fmt::Display>(texts: &[&str], want: Expect)
    where
        T::Err: fmt::Display,
    {
        let line = |text: &&str| match text.parse::<T>() {
            Ok(found) => format!("{found}\n"),
            Err(error) => format!("{error}\n"),
        };
        want.assert_eq(&texts.iter().map(line).collect::<String>());
    }

    #[test]
    fn an_axis_has_a_name_and_two_ends() {
        check::<Vary>(
            &["path-size=0..10000", "path-size=1K..10K", "connections=1..512", "workers = 1 .. 8"],
            expect![[r#"
                path-size=0..10000
                path-size=1024..10240
                connections=1..512
                workers=1..8
            "#]],
        );
        check::<Vary>(
            &["pathsize=0..1", "conections=1..2", "workers", "workers=1-8", "workers=a..8", "workers=0..8"],
            expect![[r#"
                `pathsize=0..1` is nothing to vary: `pathsize` is not one of path-size, connections, workers; did you mean `path-size`?
                `conections=1..2` is nothing to vary: `conections` is not one of path-size, connections, workers; did you mean `connections`?
                `workers` is nothing to vary: write NAME=LOW..HIGH, like `path-size=0..10000`
                `workers=1-8` is nothing to vary: write NAME=LOW..HIGH, like `path-size=0..10000`
                `workers=a..8` is nothing to vary: `a` is not a whole number: write workers=LOW..HIGH, like `workers=1..16`
                `workers=0..8` is nothing to vary: 0 workers serve nothing: begin at 1
            "#]],
        );
        check::<Vary>(
            &["workers=8..8", "workers=1..2000", "path-size=10X..20", "zzz=1..2"],
            expect![[r#"
                `workers=8..8` is nothing to vary: 8 is not below 8: the smaller value comes first
                `workers=1..2000` is nothing to vary: 2000 workers are more than nginx allows, 1000
                `path-size=10X..20` is nothing to vary: `10X` is not a size: write bytes, or K, M or G, like `10K`
                `zzz=1..2` is nothing to vary: `zzz` is not one of path-size, connections, workers
            "#]],
        );
    }

    #[test]
    fn a_condition_is_a_threshold_or_a_share_of_the_most() {
        let share = |text: &str| match text.parse::<Until>() {
            Ok(Until::ShareOfMost { measure, comparison, share, .. }) => {
                Some((measure, comparison, (share * 1e6).round()))
            }
            Ok(Until::Threshold(_)) | Err(_) => None,
        };
        assert_eq!(share("bandwidth >= 95%"), Some((Measure::Bandwidth, Comparison::AtLeast, 950_000.0)));
        assert_eq!(share("rate>50%"), Some((Measure::Rate, Comparison::Above, 500_000.0)));
        assert!(matches!("rate>=5k".parse(), Ok(Until::Threshold(_))));
        assert!(matches!("errors<0.1%".parse(), Ok(Until::Threshold(_))));
        check::<Until>(
            &["bandwidth>=0%", "bandwidth>=101%", "bandwidth<95%", "bandwith>=95%", "rate"],
            expect![[r#"
                `bandwidth>=0%` is no condition: 0% of the most is not above 0 and at most 100 %
                `bandwidth>=101%` is no condition: 101% of the most is not above 0 and at most 100 %
                `bandwidth<95%` is no threshold: `95%` is not a link rate: write it with kbit, mbit or gbit, like `20mbit`
                `bandwith>=95%` is no threshold: `bandwith` is not one of p(95), med, avg, max, errors, rate, bandwidth, count, checks, lag_p(99); did you mean `bandwidth`?
                `rate` is no threshold: write what is measured, how, and the limit, like `p(95)<200ms`
            "#]],
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(path-size|workers)?=?[0-9kM.]{0,9}\\PC{0,6}") {
            if let Ok(vary) = text.parse::<Vary>() {
                prop_assert_eq!(vary.to_string().parse(), Ok(vary));
            }
            if let Ok(until) = text.parse::<Until>() {
                prop_assert_eq!(until.to_string().parse(), Ok(until));
            }
        }
    }
}
