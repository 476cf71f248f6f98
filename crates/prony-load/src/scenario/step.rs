//! One step with every name resolved: what it sends, and what it wants of the answer.
//!
//! It decides nothing: [`super::Scenario`] does.

use super::extract::Extract;
use super::template::{Template, Values};
use crate::protocol::Message;
use prony_model::Nanos;
use std::sync::Arc;

/// A step, ready to be rendered.
#[derive(Debug)]
pub struct Step {
    /// What reports call it.
    pub label: String,
    /// Method.
    pub method: String,
    /// Path and query.
    pub path: Template,
    /// Names and values in order.
    pub headers: Vec<(String, Template)>,
    /// Body.
    pub body: Body,
    /// Index of a variable, and where in the answer its value is.
    pub saves: Vec<(usize, Extract)>,
    /// Status codes that are accepted.
    pub expected: Expected,
    /// Index of the pattern that the body must hold.
    pub contains: Option<usize>,
    /// How often it is done before the next.
    pub repeat: u32,
    /// Wait after the answer.
    pub think: Option<Nanos>,
    /// Whether it is the same every time.
    pub fixed: bool,
    /// Whether head and body of the answer are needed.
    pub capture: bool,
}

/// A body.
#[derive(Debug)]
pub enum Body {
    /// The same bytes every time; steps that name none hold the workload's in common.
    Fixed(Arc<[u8]>),
    /// A template.
    Template(Template),
}

/// Status codes that a step accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// All: there is no check.
    Any,
    /// Below 400.
    BelowError,
    /// This one.
    Exactly(u16),
}

impl Step {
    /// Renders method, path, headers and body. `spare`: headers that this step has no use for wait there for one that has,
    /// so that their memory is not freed and asked for again.
    #[inline]
    pub fn render(&self, values: &Values<'_>, spare: &mut Vec<(String, String)>, into: &mut Message) {
        into.method.clear();
        into.method.push_str(&self.method);
        into.path.clear();
        self.path.render_path(values, &mut into.path);
        while into.headers.len() > self.headers.len() {
            spare.extend(into.headers.pop());
        }
        while into.headers.len() < self.headers.len() {
            into.headers.push(spare.pop().unwrap_or_default());
        }
        for ((name, value), (into_name, into_value)) in self.headers.iter().zip(&mut into.headers) {
            into_name.clear();
            into_name.push_str(name);
            into_value.clear();
            value.render(values, into_value);
        }
        into.body.clear();
        match &self.body {
            Body::Fixed(bytes) => into.body.extend_from_slice(bytes),
            Body::Template(template) => template.render_bytes(values, &mut into.body),
        }
    }
}
