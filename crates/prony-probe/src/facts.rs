//! What the readers of one host fill: a sample, and the gaps beside it. Decides nothing.
//!
//! Invariant: one gap for each fact, the first reason stays; the number of gaps is bounded by the catalogue. A value stands in a
//! sample whose moment is at most [`LATE`] before its reading began, if the reader said when that was.

use crate::fact_file::FactFile;
use prony_model::{Gap, Metric, Sample};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::{Duration, Instant};

/// A reader that begins so long after the sample's moment puts into a sample of its own. Computed: 1 % of a trial of 1 s, about as long
/// as the trials of a pair.
pub(crate) const LATE: Duration = Duration::from_millis(10);

/// A sample under construction.
#[derive(Debug)]
pub(crate) struct Facts {
    sample: Sample,
    /// When the sample was begun, and its moment then.
    begun: (Instant, u64),
    /// What was read earlier, before a reader was held up.
    earlier: Vec<Sample>,
    gaps: BTreeMap<String, Gap>,
}

impl Facts {
    pub(crate) fn new(host: &str, at_ns: u64) -> Self {
        Self {
            sample: Sample { host: host.to_string(), at_ns, values: Vec::new() },
            begun: (Instant::now(), at_ns),
            earlier: Vec::new(),
            gaps: BTreeMap::new(),
        }
    }

    pub(crate) fn put(&mut self, metric: &Metric, item: &str, value: f64) {
        self.sample.push(metric, item, value);
    }

    fn values(&self) -> impl Iterator<Item = &(String, String, f64)> {
        self.earlier.iter().chain([&self.sample]).flat_map(|sample| &sample.values)
    }

    /// Whether the sample holds a value of it.
    pub(crate) fn has(&self, metric: &Metric) -> bool {
        self.values().any(|(m, _, _)| m == metric.name)
    }

    /// Puts a value that a file should hold; when it does not, that is a gap.
    pub(crate) fn put_some(&mut self, metric: &Metric, item: &str, value: Option<f64>) {
        match value {
            Some(value) => self.put(metric, item, value),
            None => self.miss(metric.name, format_args!("not in {}, or not a number there", metric.source)),
        }
    }

    /// Puts a value that may well not exist: a quota, the speed of a virtual link.
    pub(crate) fn put_if_any(&mut self, metric: &Metric, item: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.put(metric, item, value);
        }
    }

    pub(crate) fn miss(&mut self, fact: &str, reason: impl Display) {
        if !self.gaps.contains_key(fact) {
            self.gaps.insert(fact.to_string(), Gap::new(fact, &*self.sample.host, reason.to_string()));
        }
    }

    /// Takes over a gap that was found before the host's name was known.
    pub(crate) fn miss_gap(&mut self, gap: &Gap) {
        self.miss(&gap.fact, &gap.reason);
    }

    /// Takes over what another reader of the same host has put.
    pub(crate) fn take_over(&mut self, sample: Sample, gaps: &[Gap]) {
        self.sample.values.extend(sample.values);
        gaps.iter().for_each(|gap| self.miss_gap(gap));
    }

    /// The text of a file, or a gap of `fact` that names it.
    pub(crate) fn text<'p>(&mut self, file: &mut FactFile, page: &'p mut Vec<u8>, fact: &str) -> Option<Cow<'p, str>> {
        match file.text(page) {
            Ok(text) => Some(text),
            Err(e) => {
                self.miss(fact, format_args!("{}: {e}", file.path().display()));
                None
            }
        }
    }

    pub(crate) fn begin(&mut self, at_ns: u64) {
        self.begun = (Instant::now(), at_ns);
        self.earlier.clear();
        self.sample.at_ns = at_ns;
        self.sample.values.clear();
    }

    /// What is put from here on is read now. If those before were held up, by a lock of the kernel or for want of a CPU, that is another
    /// moment, and counters of two moments are not of one sample.
    pub(crate) fn now(&mut self) {
        let (begun, at_ns) = self.begun;
        let now_ns = at_ns + begun.elapsed().as_nanos() as u64;
        if now_ns - self.sample.at_ns < LATE.as_nanos() as u64 {
            return;
        }
        let before = self.begin_another(now_ns);
        if !before.values.is_empty() {
            self.earlier.push(before);
        }
    }

    /// Gives the sample under construction, and begins the next with room for as much.
    fn begin_another(&mut self, at_ns: u64) -> Sample {
        let values = Vec::with_capacity(self.sample.values.len());
        let next = Sample { host: self.sample.host.clone(), at_ns, values };
        std::mem::replace(&mut self.sample, next)
    }

    /// Hands out what was read: mostly one sample, in order of time.
    pub(crate) fn take_samples(&mut self) -> Vec<Sample> {
        let last = self.begin_another(self.sample.at_ns);
        let mut samples = std::mem::take(&mut self.earlier);
        samples.push(last);
        samples
    }

    /// The host, and the moment of the sample.
    pub(crate) fn whose(&self) -> (String, u64) {
        (self.sample.host.clone(), self.sample.at_ns)
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        self.gaps.values().cloned().collect()
    }

    pub(crate) fn finish(self) -> (Sample, Vec<Gap>) {
        (self.sample, self.gaps.into_values().collect())
    }

    #[cfg(test)]
    pub(crate) fn value(&self, metric: &Metric, item: &str) -> Option<f64> {
        self.values().find(|(m, i, _)| m == metric.name && i == item).map(|(_, _, v)| *v)
    }

    /// What a reader puts when it is given a text.
    #[cfg(test)]
    pub(crate) fn check(put: impl Fn(&mut Self, &str), text: &str, want: expect_test::Expect) {
        let mut facts = Self::new("lb", 0);
        put(&mut facts, text);
        want.assert_eq(&facts.listing());
    }

    /// One line per value and per gap, for snapshots.
    #[cfg(test)]
    pub(crate) fn listing(&self) -> String {
        let mut text = String::new();
        for (metric, item, value) in self.values() {
            text += &format!("{metric} [{item}] {value}\n");
        }
        for gap in self.gaps.values() {
            text += &format!("gap {}: {}\n", gap.fact, gap.reason);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::metric::{CPU_IDLE, PROC_USER, SELF_CPU};

    #[test]
    fn what_was_read_after_a_stall_has_the_moment_after_it() {
        let mut facts = Facts::new("lb", 0);
        facts.begin(7_000);
        facts.put(&CPU_IDLE, "0", 1.0);
        std::thread::sleep(2 * LATE);
        facts.now();
        facts.put(&PROC_USER, "12", 2.0);
        assert!(facts.has(&CPU_IDLE) && facts.has(&PROC_USER), "both were read");
        let samples = facts.take_samples();
        let [before, after] = &samples[..] else { panic!("{samples:?}") };
        assert_eq!((before.at_ns, before.values[0].0.as_str()), (7_000, CPU_IDLE.name));
        assert!(after.at_ns >= 7_000 + 2 * LATE.as_nanos() as u64 && after.host == "lb", "{after:?}");
        assert_eq!(after.values[0].0, PROC_USER.name);
        facts.begin(9_000_000_000);
        std::thread::sleep(2 * LATE);
        facts.now();
        facts.put(&SELF_CPU, "", 3.0);
        let samples = facts.take_samples();
        assert!(
            samples.len() == 1 && samples[0].at_ns > 9_000_000_000,
            "nothing was read before the stall: {samples:?}"
        );
    }
}
