//! Metrics of hosts over time. Facts only: a value stands here only if it was read.

use crate::metric::{Metric, MetricKind};
use crate::run::Window;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one value belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeriesKey {
    /// Host name in the stack.
    pub host: String,
    /// Metric name in the catalogue.
    pub metric: String,
    /// Instance, or empty.
    pub item: String,
}

/// Everything read from one host at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Host name in the stack.
    pub host: String,
    /// Nanoseconds since the start of the run, on the session's clock.
    pub at_ns: u64,
    /// (metric name, item, value).
    pub values: Vec<(String, String, f64)>,
}

impl Sample {
    /// Adds one value.
    pub fn push(&mut self, metric: &Metric, item: impl Into<String>, value: f64) {
        // The sum of nothing is -0.
        self.values.push((metric.name.to_string(), item.into(), value + 0.0));
    }
}

/// All series of a run: for each key, points (nanoseconds since the start of the run, value) in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeriesSet {
    series: BTreeMap<SeriesKey, Vec<(u64, f64)>>,
}

impl SeriesSet {
    /// Adds a sample.
    pub fn add(&mut self, sample: &Sample) {
        for (metric, item, value) in &sample.values {
            let key = SeriesKey { host: sample.host.clone(), metric: metric.clone(), item: item.clone() };
            self.series.entry(key).or_default().push((sample.at_ns, *value));
        }
    }

    /// Adds one point; points of a series come in order of time.
    pub fn push(&mut self, key: SeriesKey, at_ns: u64, value: f64) {
        self.series.entry(key).or_default().push((at_ns, value));
    }

    /// Adds points that come after those already there.
    pub fn append(&mut self, key: SeriesKey, points: impl IntoIterator<Item = (u64, f64)>) {
        self.series.entry(key).or_default().extend(points);
    }

    /// Every series, in order of host, metric, item.
    pub fn iter(&self) -> impl Iterator<Item = (&SeriesKey, &[(u64, f64)])> {
        self.series.iter().map(|(k, v)| (k, v.as_slice()))
    }

    /// Items of a metric that a host has.
    pub fn items<'a>(
        &'a self,
        host: &str,
        metric: &Metric,
    ) -> impl Iterator<Item = (&'a str, &'a [(u64, f64)])> + use<'a> {
        let from = SeriesKey { host: host.to_string(), metric: metric.name.to_string(), item: String::new() };
        let (host, name) = (from.host.clone(), from.metric.clone());
        self.series
            .range(from..)
            .take_while(move |(k, _)| k.host == host && k.metric == name)
            .map(|(k, v)| (k.item.as_str(), v.as_slice()))
    }

    /// Points of one series; empty when it was never read.
    pub fn points(&self, host: &str, metric: &Metric, item: &str) -> &[(u64, f64)] {
        let key = SeriesKey { host: host.to_string(), metric: metric.name.to_string(), item: item.to_string() };
        self.series.get(&key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Growth per second of a counter within a window: needs two points inside it. A counter that fell (restart) gives none.
    pub fn rate(points: &[(u64, f64)], window: Window) -> Option<f64> {
        let inside = within(points, window);
        let ((t0, v0), (t1, v1)) = (inside.first()?, inside.last()?);
        (t1 > t0 && v1 >= v0).then(|| (v1 - v0) / ((t1 - t0) as f64 / 1e9))
    }

    /// Growth of a counter within the part of a window that its points reach over, on the lines between them. None without a point, or
    /// when the counter fell.
    pub fn growth(points: &[(u64, f64)], window: Window) -> Option<f64> {
        let (from, to) = (at(points, window.from_ns)?, at(points, window.to_ns)?);
        (to >= from).then_some(to - from)
    }

    /// Mean of a gauge within a window; none without a point inside it.
    pub fn mean(points: &[(u64, f64)], window: Window) -> Option<f64> {
        let inside = within(points, window);
        (!inside.is_empty()).then(|| inside.iter().map(|(_, v)| v).sum::<f64>() / inside.len() as f64)
    }

    /// Largest value within a window.
    pub fn max(points: &[(u64, f64)], window: Window) -> Option<f64> {
        within(points, window).iter().map(|(_, v)| *v).reduce(f64::max)
    }

    /// The natural summary of a metric within a window: rate per second for counters, mean for gauges.
    pub fn summary(metric: &Metric, points: &[(u64, f64)], window: Window) -> Option<f64> {
        match metric.kind {
            MetricKind::Counter => Self::rate(points, window),
            MetricKind::Gauge => Self::mean(points, window),
        }
    }

    /// The natural summary of a metric within a window, summed over the items that were read; none when none was.
    pub fn sum(&self, host: &str, metric: &Metric, window: Window) -> Option<f64> {
        let items = self.items(host, metric);
        items.filter_map(|(_, points)| Self::summary(metric, points, window)).reduce(|a, b| a + b)
    }
}

/// The value of a counter at a moment, on the line between the points around it; beyond the ends that of the nearest point.
fn at(points: &[(u64, f64)], at_ns: u64) -> Option<f64> {
    let after = points.partition_point(|(t, _)| *t <= at_ns);
    let before = after.checked_sub(1).and_then(|i| points.get(i));
    match (before, points.get(after)) {
        (Some((t0, v0)), Some((t1, v1))) => Some(v0 + (v1 - v0) * ((at_ns - t0) as f64 / (t1 - t0) as f64)),
        (Some((_, value)), None) | (None, Some((_, value))) => Some(*value),
        (None, None) => None,
    }
}

fn within(points: &[(u64, f64)], window: Window) -> &[(u64, f64)] {
    let from = points.partition_point(|(t, _)| *t < window.from_ns);
    let to = points.partition_point(|(t, _)| *t <= window.to_ns);
    points.get(from..to).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{CPU_USER, TCP_ACTIVE_OPENS};

    #[test]
    fn the_sum_of_nothing_has_no_sign() {
        let mut sample = Sample::default();
        sample.push(&CPU_USER, "", std::iter::empty::<f64>().sum());
        assert_eq!(format!("{:.0}", sample.values[0].2), "0");
    }

    #[test]
    fn a_rate_needs_two_points_inside() {
        let window = Window { from_ns: 1_000_000_000, to_ns: 3_000_000_000 };
        let points =
            [(0, 0.0), (1_000_000_000, 10.0), (2_000_000_000, 20.0), (3_000_000_000, 50.0), (9_000_000_000, 0.0)];
        assert_eq!(SeriesSet::rate(&points, window), Some(20.0));
        assert_eq!(SeriesSet::rate(&points[..2], window), None);
        assert_eq!(SeriesSet::rate(&[], window), None);
        assert_eq!(
            SeriesSet::rate(&[(1_000_000_000, 5.0), (2_000_000_000, 1.0)], window),
            None,
            "a restart is no rate"
        );
    }

    #[test]
    fn growth_lies_on_the_lines_between_points() {
        let points = [(100, 0.0), (200, 10.0), (300, 30.0)];
        let growth = |from_ns, to_ns| SeriesSet::growth(&points, Window { from_ns, to_ns });
        assert_eq!(growth(150, 250), Some(15.0));
        assert_eq!(growth(200, 300), Some(20.0));
        assert_eq!(growth(0, 150), Some(5.0), "cut to where there are points");
        assert_eq!(growth(250, 900), Some(10.0));
        assert_eq!(growth(300, 900), Some(0.0));
        assert_eq!(SeriesSet::growth(&[], Window { from_ns: 0, to_ns: 9 }), None);
        assert_eq!(SeriesSet::growth(&[(0, 5.0), (9, 1.0)], Window { from_ns: 0, to_ns: 9 }), None, "a restart");
    }

    #[test]
    fn items_are_those_of_the_metric() {
        let mut set = SeriesSet::default();
        let mut sample = Sample { host: "lb".into(), at_ns: 1, values: vec![] };
        sample.push(&CPU_USER, "0", 1.0);
        sample.push(&CPU_USER, "1", 2.0);
        sample.push(&TCP_ACTIVE_OPENS, "", 7.0);
        set.add(&sample);
        let items: Vec<_> = set.items("lb", &CPU_USER).map(|(item, _)| item).collect();
        assert_eq!(items, ["0", "1"]);
        assert_eq!(set.points("lb", &TCP_ACTIVE_OPENS, ""), [(1, 7.0)]);
        assert_eq!(set.items("s1", &CPU_USER).count(), 0);
    }

    #[test]
    fn a_sum_is_of_the_items_that_were_read() {
        let mut set = SeriesSet::default();
        for (at_ns, values) in [(0, [0.0, 5.0]), (2_000_000_000, [1.0, 9.0])] {
            let mut sample = Sample { host: "lb".into(), at_ns, values: vec![] };
            sample.push(&CPU_USER, "0", values[0]);
            sample.push(&CPU_USER, "1", values[1]);
            set.add(&sample);
        }
        let mut late = Sample { host: "lb".into(), at_ns: 1, values: vec![] };
        late.push(&CPU_USER, "2", 7.0);
        set.add(&late);
        let window = Window { from_ns: 0, to_ns: 2_000_000_000 };
        assert_eq!(set.sum("lb", &CPU_USER, window), Some(2.5), "one point of CPU 2 is no rate");
        assert_eq!(set.sum("lb", &TCP_ACTIVE_OPENS, window), None);
    }
}
