//! A planned matrix of trials: `experiment.toml`. What is varied, what is asked of each cell, and what is expected.
//!
//! Text in, checked values out; it reads no file and runs nothing. Invariant: a file that passes names only factors that it
//! has, and its cells are the same each time.

mod parse;
mod result;
mod setting;

pub use result::{
    Allowed, CellLoad, CellRow, CellSeen, ClaimResult, ExperimentResult, FactorEffect, HostSeen, HotFunction, HotSeen,
    Interaction, Placebo, SCHEMA, Seen, Side,
};
pub use setting::{Applied, Target};

use crate::units::{Nanos, Share};
use crate::vary::{Until, Vary};
use crate::{InputError, Threshold};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The level that leaves everything as it is found.
pub const AS_FOUND: &str = "as-found";

/// A plan of trials over factors. Made by [`Experiment::parse`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// What a person calls it.
    pub name: String,
    /// Where the question comes from, in a sentence or two.
    pub about: String,
    /// A stack file relative to this one, a lab by name, or a URL.
    pub stack: String,
    /// What is expected, written before anything was measured.
    pub expectation: String,
    /// What of the question cannot be seen where it runs, and why.
    #[serde(default)]
    pub unseen: String,
    /// What is asked of each cell.
    pub find: Find,
    /// Which cells there are.
    pub design: Design,
    /// How often each cell is run; every repeat runs all cells in an order of its own.
    pub repeats: u32,
    /// Seed of the order; none: from the clock.
    pub seed: Option<u64>,
    /// Whether the first cell runs twice in each repeat, so that A against A is measured too.
    pub placebo: bool,
    /// Counted time of a trial of `measure`.
    pub duration: Nanos,
    /// Uncounted start of such a trial.
    pub settle: Nanos,
    /// Whether the CPUs of the hosts are sampled after each trial of `measure`, under the same load.
    #[serde(default)]
    pub profile: bool,
    /// Time for each search.
    pub budget: Nanos,
    /// The objective of `limit-within-slo`; empty: that of the stack.
    pub slo: Vec<Threshold>,
    /// The axis of `search`.
    pub vary: Option<Vary>,
    /// What must hold on it.
    pub until: Option<Until>,
    /// An effect within this is called none.
    pub same: Share,
    /// What is varied, in the order of the file.
    pub factors: Vec<Factor>,
    /// The cells of a design by rows: a name, and the number of the level of each factor.
    pub rows: Vec<Row>,
    /// What is expected, in a form that the data can be held against.
    pub claims: Vec<Claim>,
    /// What to draw.
    pub plot: Option<Plot>,
}

/// What is asked of each cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Find {
    /// Good requests per second of one trial under the workload as written.
    #[default]
    Measure,
    /// The limit, by a search.
    Limit,
    /// The limit within the objective, by a search.
    LimitWithinSlo,
    /// The most connections without a failure and without violent fluctuation.
    StableConcurrency,
    /// The border on another axis, like the smallest answer that fills the link.
    Search,
}

impl Find {
    /// What a value of it is, in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Measure => "good requests/s",
            Self::Limit => "limit in requests/s",
            Self::LimitWithinSlo => "limit within the objective in requests/s",
            Self::StableConcurrency => "most stable connections",
            Self::Search => "border of the search",
        }
    }
}

/// Which cells there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Every combination of levels: shows interactions.
    #[default]
    Full,
    /// The first level of every factor, and each other level alone.
    OneAtATime,
    /// Those that the file lists.
    Rows,
}

/// Something that is varied. Its first level is what the others are compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// What a person calls it: a column of the table.
    pub name: String,
    /// A knob: `HOST:KNOB`, or `KNOB` at the entry of the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knob: Option<String>,
    /// A key of the workload, like `connections` or `tls.resume`; `path` is the path of every request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// A key of a host of the lab: `HOST:KEY`, like `lb:server.workers`, `lb:link.rate` or `lb:cpus`; or of the lab itself:
    /// `overlay`, `switch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<String>,
    /// Its values, the reference first; of a design by rows they come from the rows.
    #[serde(default)]
    pub levels: Vec<Setting>,
}

/// A value of a factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a level is a text, a number, or true or false")]
pub enum Setting {
    /// `true`
    Bool(bool),
    /// `20`
    Whole(i64),
    /// `0.5`
    Number(f64),
    /// `"off"`
    Text(String),
}

impl Setting {
    /// The level that changes nothing.
    pub fn as_found() -> Self {
        Self::Text(AS_FOUND.to_string())
    }

    /// Whether it changes nothing.
    pub fn is_as_found(&self) -> bool {
        *self == Self::as_found()
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Whole(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
        }
    }
}

/// A cell of a design by rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// What a person calls it.
    pub name: String,
    /// The number of the level of each factor.
    pub levels: Vec<usize>,
}

/// An expectation that the data can be held against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name of the factor; `row` in a design by rows.
    pub factor: String,
    /// The level before; none: the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Setting>,
    /// The level after.
    pub to: Setting,
    /// What happens to the value.
    pub change: Expected,
}

/// An expected change. Text: `more`, `less`, `same`, `>=20%`, `<=-20%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    /// Any gain.
    More,
    /// Any loss.
    Less,
    /// No effect that matters.
    Same,
    /// A change of at least this.
    AtLeast(f64),
    /// A change of at most this.
    AtMost(f64),
}

impl FromStr for Expected {
    type Err = String;
    fn from_str(written: &str) -> Result<Self, String> {
        let wrong = || format!("`{written}` is no expectation: write `more`, `less`, `same`, `>=20%` or `<=-20%`");
        let text: String = written.split_whitespace().collect();
        let percent = |text: &str| {
            let number = text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok()).filter(|n| n.is_finite());
            number.map(|n| n / 100.0).ok_or_else(wrong)
        };
        match (text.as_str(), text.strip_prefix(">="), text.strip_prefix("<=")) {
            ("more", _, _) => Ok(Self::More),
            ("less", _, _) => Ok(Self::Less),
            ("same", _, _) => Ok(Self::Same),
            (_, Some(least), _) => percent(least).map(Self::AtLeast),
            (_, _, Some(most)) => percent(most).map(Self::AtMost),
            (_, None, None) => Err(wrong()),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Rounded, so that 0.07 is not 7.000000000000001 %.
        let percent = |share: f64| (share * 1e8).round() / 1e6;
        match self {
            Self::More => f.write_str("more"),
            Self::Less => f.write_str("less"),
            Self::Same => f.write_str("same"),
            Self::AtLeast(share) => write!(f, ">={}%", percent(*share)),
            Self::AtMost(share) => write!(f, "<={}%", percent(*share)),
        }
    }
}

impl Serialize for Expected {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for Expected {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What to draw: levels of one factor from left to right, a line for each level of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Name of the factor from left to right; `row` in a design by rows.
    pub x: String,
    /// Name of the factor with a line for each level; none: one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// What is drawn upwards.
    #[serde(default)]
    pub y: Plotted,
}

/// What is drawn upwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plotted {
    /// What was asked of each cell.
    #[default]
    Value,
    /// The 99th percentile of latency.
    P99,
}

impl Experiment {
    /// Parses an experiment file and checks what can be checked without its stack.
    ///
    /// # Errors
    /// The file is not TOML, has an unknown key or a wrong unit, or names what is not there; with the line where possible.
    pub fn parse(file: &str, text: &str) -> Result<Self, InputError> {
        parse::parse(file, text)
    }

    /// The cells: for each the number of the level of every factor. The first is what effects are measured from.
    pub fn cells(&self) -> Vec<Vec<usize>> {
        let reference = vec![0; self.factors.len()];
        match self.design {
            Design::Rows => self.rows.iter().map(|row| row.levels.clone()).collect(),
            Design::OneAtATime => {
                let alone = self.factors.iter().enumerate().flat_map(|(at, factor)| {
                    let reference = &reference;
                    (1..factor.levels.len()).map(move |level| {
                        let mut cell = reference.clone();
                        cell[at] = level;
                        cell
                    })
                });
                std::iter::once(reference.clone()).chain(alone).collect()
            }
            Design::Full => self.factors.iter().fold(vec![Vec::new()], |cells, factor| {
                let with = |cell: Vec<usize>| (0..factor.levels.len()).map(move |level| [&cell[..], &[level]].concat());
                cells.into_iter().flat_map(with).collect()
            }),
        }
    }

    /// The settings of a cell, in the order of the factors.
    pub fn settings(&self, cell: &[usize]) -> Vec<Setting> {
        let of = |(factor, level): (&Factor, &usize)| factor.levels.get(*level).cloned();
        self.factors.iter().zip(cell).filter_map(of).collect()
    }

    /// A cell in words: `keepalive off, log off`; factors with one level are left out.
    pub fn label(&self, cell: &[usize]) -> String {
        let row = self.rows.iter().find(|row| row.levels == cell);
        if let (Design::Rows, Some(row)) = (self.design, row) {
            return row.name.clone();
        }
        let varied = self.factors.iter().zip(self.settings(cell)).filter(|(factor, _)| factor.levels.len() > 1);
        let words: Vec<String> = varied.map(|(factor, setting)| format!("{} {setting}", factor.name)).collect();
        if words.is_empty() { "the only cell".to_string() } else { words.join(", ") }
    }
}
