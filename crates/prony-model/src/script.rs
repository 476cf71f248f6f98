//! What clients do beyond asking for one thing after another: steps, values saved between them, feeds of data, checks.
//!
//! Text with `${...}` is a template: `${n}` counts requests over the whole load, `${name}` was saved by an earlier step, and
//! `${feed.column}` comes from a feed. Parsed here, never executed: the engine does that.

use crate::units::{Nanos, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A scenario: every connection walks through the steps, again and again, with values of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Script {
    /// In order.
    pub steps: Vec<Step>,
    /// Tables of data by name.
    pub feeds: BTreeMap<String, Feed>,
    /// What is done once, before the load; its saved values become the feed `prepared`.
    pub prepare: Option<Prepare>,
}

/// One request of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What reports call it.
    #[serde(default)]
    pub name: String,
    /// Method; none: the workload's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path and query, a template.
    pub path: String,
    /// Headers besides the workload's; values are templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Body, a template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Values kept from the answer: `json:POINTER`, `header:NAME`, `regex:PATTERN` (its first group, or the whole).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub save: BTreeMap<String, String>,
    /// How often the step is done before the next.
    #[serde(default = "once")]
    pub repeat: u32,
    /// Wait after the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Nanos>,
    /// What a good answer looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
}

fn once() -> u32 {
    1
}

/// What a good answer looks like; an answer that is not counts as an error of its own kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Check {
    /// The status code; none: below 400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Text that the body holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
}

/// A table of data: rows of columns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Feed {
    /// Column names.
    pub columns: Vec<String>,
    /// Rows, each with one value per column.
    pub rows: Vec<Vec<String>>,
    /// How rows are given out.
    pub order: FeedOrder,
}

/// How the rows of a feed are given out. A connection keeps its row for one walk through the steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedOrder {
    /// One after another, and again from the start.
    #[default]
    Sequential,
    /// Any row, any time.
    Random,
    /// Each row once; the load ends when there are no more.
    Unique,
}

/// What is done once, before the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepare {
    /// How many walks through its steps.
    pub count: u32,
    /// Connections that share them.
    #[serde(default = "prepare_connections")]
    pub connections: u32,
    /// Largest share of walks that may fail; more ends the load before it begins.
    #[serde(default)]
    pub failures_max: Share,
    /// In order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

/// A guess: enough to prepare 10,000 logins in seconds, few enough not to hurt.
fn prepare_connections() -> u32 {
    16
}
