//! Thresholds: what a load must hold, in the form of k6: `p(95)<200ms`, `errors<0.1%`, `rate>1000`.
//!
//! Read and named here, measured in `prony-stats`: a percentile needs the whole histogram. Invariant: a limit is held in the
//! unit of its measure ([`Measure::unit`]), and what is printed is what was written.

use crate::input::nearest;
use crate::units::{BitRate, Nanos, Rate, Share};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// One thing that a load must hold. Text: MEASURE, then `<`, `<=`, `>`, `>=` or `==`, then a limit with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// What is measured.
    pub measure: Measure,
    /// How it is held against the limit.
    pub comparison: Comparison,
    /// The limit, in the unit of the measure.
    pub limit: f64,
    /// As it was written, without blanks.
    text: String,
}

/// What a threshold looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// `p(95)`, `p95`, `med`: a quantile of the latency, from 0 to 1.
    Quantile(f64),
    /// `avg`: the mean latency.
    Mean,
    /// `max`: the largest latency.
    Max,
    /// `lag_p(99)`, `lag_p99`: a quantile of the schedule lag in open loop, from 0 to 1.
    LagQuantile(f64),
    /// `errors`: the share of requests that failed.
    Errors,
    /// `checks`: the share of answers that the scenario's checks accepted.
    Checks,
    /// `rate`: good answers per second.
    Rate,
    /// `bandwidth`: bits received per second.
    Bandwidth,
    /// `count`: good answers.
    Count,
}

/// How a measured value is held against a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
}

/// What became of a threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdResult {
    /// The threshold.
    pub threshold: Threshold,
    /// The measured value; none when there was nothing to measure.
    pub measured: Option<f64>,
    /// Unit of the measured value: `us`, `share`, `/s`, `bit/s`, or none for a count.
    pub unit: String,
    /// Whether it held. What could not be measured did not hold.
    pub held: bool,
}

/// Why a text is no threshold: what was seen, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThresholdError(String);

impl fmt::Display for ThresholdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for ThresholdError {}

/// What an error names as the measures there are, each as it may be written.
const MEASURES: &[&str] =
    &["p(95)", "med", "avg", "max", "errors", "rate", "bandwidth", "count", "checks", "lag_p(99)"];

/// The longer sign before the shorter one that it begins with. `===` is k6's other way to write `==`.
const SIGNS: &[(&str, Comparison)] = &[
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("===", Comparison::Equal),
    ("==", Comparison::Equal),
    ("<", Comparison::Below),
    (">", Comparison::Above),
];

impl Measure {
    /// Whether it is a latency of requests; its limits are in microseconds.
    pub fn is_latency(self) -> bool {
        match self {
            Self::Quantile(_) | Self::Mean | Self::Max => true,
            Self::LagQuantile(_) | Self::Errors | Self::Checks | Self::Rate | Self::Bandwidth | Self::Count => false,
        }
    }

    /// Unit of its values: microseconds, share, per second, bits per second, or none for a count.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Quantile(_) | Self::Mean | Self::Max | Self::LagQuantile(_) => "us",
            Self::Errors | Self::Checks => "share",
            Self::Rate => "/s",
            Self::Bandwidth => "bit/s",
            Self::Count => "",
        }
    }

    fn parse(name: &str) -> Result<Self, String> {
        match name {
            "med" => return Ok(Self::Quantile(0.5)),
            "avg" => return Ok(Self::Mean),
            "max" => return Ok(Self::Max),
            "errors" => return Ok(Self::Errors),
            "checks" => return Ok(Self::Checks),
            "rate" => return Ok(Self::Rate),
            "bandwidth" => return Ok(Self::Bandwidth),
            "count" => return Ok(Self::Count),
            _ => {}
        }
        let (lag, rest) = name.strip_prefix("lag_").map_or((false, name), |rest| (true, rest));
        let percentile = rest.strip_prefix('p').and_then(|p| {
            let digits = p.strip_prefix('(').map_or(Some(p), |inner| inner.strip_suffix(')'))?;
            digits.bytes().all(|b| b.is_ascii_digit() || b == b'.').then(|| {
                // 99.9 / 100 is not 0.999, and a rank off by one is another value; the decimal point moves exactly in text.
                Some((digits.parse::<f64>().ok()?, format!("{digits}e-2").parse::<f64>().ok()?))
            })?
        });
        match percentile {
            Some((p, q)) if p > 0.0 && p <= 100.0 => Ok(if lag { Self::LagQuantile(q) } else { Self::Quantile(q) }),
            Some((p, _)) => Err(format!("a percentile is above 0 and at most 100, not {p}")),
            None => {
                let hint = nearest(name, MEASURES.iter().copied());
                let hint = hint.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
                Err(format!("`{name}` is not one of {}{hint}", MEASURES.join(", ")))
            }
        }
    }

    fn limit(self, text: &str) -> Result<f64, String> {
        match self {
            Self::Quantile(_) | Self::Mean | Self::Max | Self::LagQuantile(_) => {
                text.parse::<Nanos>().map(Nanos::as_us_f64).map_err(|e| e.to_string())
            }
            Self::Errors | Self::Checks => text.parse::<Share>().map(|s| s.0).map_err(|e| e.to_string()),
            Self::Rate => text.parse::<Rate>().map(|r| r.0).map_err(|e| e.to_string()),
            Self::Bandwidth => text.parse::<BitRate>().map(|r| r.0).map_err(|e| e.to_string()),
            Self::Count => {
                text.parse::<u64>().map(|n| n as f64).map_err(|_| format!("`{text}` is not a number, like `5000`"))
            }
        }
    }
}

impl Comparison {
    /// Whether `value` stands so to `limit`.
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
            Self::Equal => value == limit,
        }
    }
}

impl FromStr for Threshold {
    type Err = ThresholdError;
    fn from_str(written: &str) -> Result<Self, ThresholdError> {
        let text: String = written.split_whitespace().collect();
        let wrong = |why: String| ThresholdError(format!("`{written}` is no threshold: {why}"));
        let form = || wrong("write what is measured, how, and the limit, like `p(95)<200ms`".to_string());
        let at = text.find(['<', '>', '=']).ok_or_else(form)?;
        let (name, rest) = text.split_at(at);
        let sign = SIGNS.iter().find_map(|(sign, comparison)| Some((*comparison, rest.strip_prefix(sign)?)));
        let (comparison, limit) = sign.ok_or_else(form)?;
        let measure = Measure::parse(name).map_err(wrong)?;
        let limit = measure.limit(limit).map_err(wrong)?;
        Ok(Self { measure, comparison, limit, text })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(texts: &[&str], want: Expect) {
        let line = |text: &&str| match text.parse::<Threshold>() {
            Ok(t) => format!("{t}: {:?} {:?} {} {}\n", t.measure, t.comparison, t.limit, t.measure.unit()),
            Err(error) => format!("{error}\n"),
        };
        want.assert_eq(&texts.iter().map(line).collect::<String>());
    }

    #[test]
    fn reads_what_k6_users_write() {
        check(
            &["p(95)<200ms", "p(99.9) <= 1s", "p99<10ms", "med<5ms", "avg<5ms", "max<2s", "errors<0.1%", "errors==0%"],
            expect![[r#"
                p(95)<200ms: Quantile(0.95) Below 200000 us
                p(99.9)<=1s: Quantile(0.999) AtMost 1000000 us
                p99<10ms: Quantile(0.99) Below 10000 us
                med<5ms: Quantile(0.5) Below 5000 us
                avg<5ms: Mean Below 5000 us
                max<2s: Max Below 2000000 us
                errors<0.1%: Errors Below 0.001 share
                errors==0%: Errors Equal 0 share
            "#]],
        );
        check(
            &[
                "rate>1000",
                "rate>=5k/s",
                "bandwidth>=9gbit",
                "count>=5000",
                "checks>99%",
                "lag_p99<1ms",
                "lag_p(99.9)<50us",
            ],
            expect![[r#"
                rate>1000: Rate Above 1000 /s
                rate>=5k/s: Rate AtLeast 5000 /s
                bandwidth>=9gbit: Bandwidth AtLeast 9000000000 bit/s
                count>=5000: Count AtLeast 5000 
                checks>99%: Checks Above 0.99 share
                lag_p99<1ms: LagQuantile(0.99) Below 1000 us
                lag_p(99.9)<50us: LagQuantile(0.999) Below 50 us
            "#]],
        );
    }

    #[test]
    fn says_what_would_be_right() {
        check(
            &["p95", "p(95)<200", "p(0)<1s", "p(101)<1s", "p()<1s", "error<1%", "errors<0.1", "nonsense<1", "p(95)=1s"],
            expect![[r#"
                `p95` is no threshold: write what is measured, how, and the limit, like `p(95)<200ms`
                `p(95)<200` is no threshold: `200` is not a duration: write it with ns, us, ms, s, m or h, like `10ms`
                `p(0)<1s` is no threshold: a percentile is above 0 and at most 100, not 0
                `p(101)<1s` is no threshold: a percentile is above 0 and at most 100, not 101
                `p()<1s` is no threshold: `p()` is not one of p(95), med, avg, max, errors, rate, bandwidth, count, checks, lag_p(99); did you mean `p(95)`?
                `error<1%` is no threshold: `error` is not one of p(95), med, avg, max, errors, rate, bandwidth, count, checks, lag_p(99); did you mean `errors`?
                `errors<0.1` is no threshold: `0.1` is not a share: write it in percent, like `0.1%`
                `nonsense<1` is no threshold: `nonsense` is not one of p(95), med, avg, max, errors, rate, bandwidth, count, checks, lag_p(99)
                `p(95)=1s` is no threshold: write what is measured, how, and the limit, like `p(95)<200ms`
            "#]],
        );
        check(
            &["", "<", "count>=many", "rate>-5", "lag<1ms", "p(95)<200ms<300ms"],
            expect![[r#"
            `` is no threshold: write what is measured, how, and the limit, like `p(95)<200ms`
            `<` is no threshold: `` is not one of p(95), med, avg, max, errors, rate, bandwidth, count, checks, lag_p(99)
            `count>=many` is no threshold: `many` is not a number, like `5000`
            `rate>-5` is no threshold: `-5` is not a rate: write requests per second, like `800/s` or `5k/s`
            `lag<1ms` is no threshold: `lag` is not one of p(95), med, avg, max, errors, rate, bandwidth, count, checks, lag_p(99); did you mean `avg`?
            `p(95)<200ms<300ms` is no threshold: `200ms<300ms` is not a duration: write it with ns, us, ms, s, m or h, like `10ms`
        "#]],
        );
    }

    #[test]
    fn a_limit_itself_is_inside_or_outside() {
        let holds = |text: &str, value: f64| {
            let t: Threshold = text.parse().unwrap();
            t.comparison.holds(value, t.limit)
        };
        assert!(!holds("max<1ms", 1000.0) && holds("max<=1ms", 1000.0) && holds("max<1ms", 999.9));
        assert!(!holds("rate>10", 10.0) && holds("rate>=10", 10.0) && holds("errors==0%", 0.0));
        assert!(!holds("errors==0%", 1e-9));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(p|lag_p|errors|rate)?[(]?[0-9.]{0,6}[)]?[<>=]{0,3}\\PC{0,8}") {
            if let Ok(threshold) = text.parse::<Threshold>() {
                prop_assert_eq!(threshold.to_string().parse(), Ok(threshold));
            }
        }
    }
}
