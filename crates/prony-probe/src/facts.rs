//! What the readers of one host fill: a sample, and the gaps beside it. Decides nothing.
//!
//! Invariant: one gap for each fact, the first reason stays; the number of gaps is bounded by the catalogue.

use crate::fact_file::FactFile;
use prony_model::{Gap, Metric, Sample};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;

/// A sample under construction.
#[derive(Debug)]
pub(crate) struct Facts {
    sample: Sample,
    gaps: BTreeMap<String, Gap>,
}

impl Facts {
    pub(crate) fn new(host: &str, at_ns: u64) -> Self {
        Self { sample: Sample { host: host.to_string(), at_ns, values: Vec::new() }, gaps: BTreeMap::new() }
    }

    pub(crate) fn put(&mut self, metric: &Metric, item: &str, value: f64) {
        self.sample.push(metric, item, value);
    }

    /// Whether the sample holds a value of it.
    pub(crate) fn has(&self, metric: &Metric) -> bool {
        self.sample.values.iter().any(|(m, _, _)| m == metric.name)
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

    /// Hands the sample out and begins another.
    pub(crate) fn take_sample(&mut self, next_at_ns: u64) -> Sample {
        let room = self.sample.values.len();
        let next = Sample { host: self.sample.host.clone(), at_ns: next_at_ns, values: Vec::with_capacity(room) };
        std::mem::replace(&mut self.sample, next)
    }

    pub(crate) fn begin(&mut self, at_ns: u64) {
        self.sample.at_ns = at_ns;
        self.sample.values.clear();
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
        self.sample.values.iter().find(|(m, i, _)| m == metric.name && i == item).map(|(_, _, v)| *v)
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
        for (metric, item, value) in &self.sample.values {
            text += &format!("{metric} [{item}] {value}\n");
        }
        for gap in self.gaps.values() {
            text += &format!("gap {}: {}\n", gap.fact, gap.reason);
        }
        text
    }
}
