//! From a plan to a scenario: templates taken apart, names resolved, patterns compiled, values checked against their use.
//!
//! It does no IO. Invariant: whatever a person can get wrong in a scenario is found here, before the first request, and told
//! with the step, the item and the nearest name; during the load only answers can disappoint.

use super::extract::Extract;
use super::feed::{Table, check_feed};
use super::json::Pointer;
use super::prepared::Goal;
use super::step::{Body, Expected, Step};
use super::template::{Piece, Template, Usage, stands_in_path};
use super::{Scenario, Variable, Walk};
use crate::error::LoadError;
use crate::request::is_token;
use crate::target::Target;
use prony_model::input::nearest;
use prony_model::script::{self, COUNTER, Feed, PREPARED, Part, Script};
use prony_model::{LoadPlan, RequestSpec};
use regex::bytes::{Regex, RegexBuilder};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most memory that one compiled pattern may take, in bytes. A guess: ten times what the longest sensible pattern needs.
const PATTERN_BYTES_MAX: usize = 4 << 20;
/// Most names that a message lists. A guess: more do not help to find the right one.
const NAMES_TOLD_MAX: usize = 8;

impl Scenario {
    /// The scenario of a load: the steps of its script, or its weighted requests if any of them, or a header or the body of all,
    /// holds a template. None: nothing of it changes from request to request.
    ///
    /// `prepared`: what the prepare phase brought. Without it a plan that has such a phase is compiled too, to find mistakes
    /// before the phase runs; such a scenario is exhausted where it needs a prepared row.
    ///
    /// # Errors
    /// [`LoadError::Plan`] that names step and item.
    pub fn compile(plan: &LoadPlan, target: &Target, prepared: Option<&Feed>) -> Result<Option<Self>, LoadError> {
        let none = Script::default();
        let script = checked(plan.script.as_ref().unwrap_or(&none))?;
        let stand_in = script.prepare.as_ref().map(|prepare| Feed {
            columns: prepare.columns(),
            rows: Vec::new(),
            order: prepare.order,
        });
        let mut compiler = Compiler::new(plan, target, script);
        if let Some(feed) = prepared.or(stand_in.as_ref()) {
            compiler.feeds.push(NamedFeed::new(PREPARED, feed, prepared.is_some()));
        }
        if !script.steps.is_empty() {
            compiler.walk("workload.step", &script.steps)?;
            return compiler.finish(None).map(Some);
        }
        let own = [own_request(&target.path)];
        let requests = if plan.requests.is_empty() { &own[..] } else { &plan.requests };
        if !is_templated(plan, requests) {
            return Ok(None);
        }
        for request in requests {
            compiler.walk("workload.requests", &[step_of(request)])?;
        }
        compiler.finish(None).map(Some)
    }

    /// The scenario of the prepare phase. None: there is no such phase. Its walks are as many as the plan says; then it is
    /// exhausted.
    ///
    /// # Errors
    /// [`LoadError::Plan`] that names step and item.
    pub fn compile_prepare(plan: &LoadPlan, target: &Target) -> Result<Option<Self>, LoadError> {
        let Some((script, prepare)) = plan.script.as_ref().and_then(|s| Some((s, s.prepare.as_ref()?))) else {
            return Ok(None);
        };
        let mut compiler = Compiler::new(plan, target, checked(script)?);
        compiler.walk("workload.prepare.step", &prepare.steps)?;
        let goal = Goal { walks: prepare.count, failures_max: prepare.failures_max, order: prepare.order };
        compiler.finish(Some(goal)).map(Some)
    }
}

fn checked(script: &Script) -> Result<&Script, LoadError> {
    match script.check() {
        Ok(()) => Ok(script),
        Err(why) => Err(LoadError::Plan { item: "workload".to_string(), why }),
    }
}

fn own_request(path: &str) -> RequestSpec {
    RequestSpec { path: path.to_string(), weight: 1.0, method: None, headers: Default::default(), body: None }
}

fn step_of(request: &RequestSpec) -> script::Step {
    script::Step {
        name: String::new(),
        method: request.method.clone(),
        path: request.path.clone(),
        headers: request.headers.clone(),
        body: request.body.clone(),
        save: Default::default(),
        repeat: 1,
        think: None,
        check: None,
    }
}

fn is_templated(plan: &LoadPlan, requests: &[RequestSpec]) -> bool {
    let holds = |text: &str| text.contains("${");
    let one = |r: &RequestSpec| {
        holds(&r.path) || r.body.as_deref().is_some_and(holds) || r.headers.values().any(|value| holds(value))
    };
    template_body(plan).is_some() || plan.headers.iter().any(|(_, value)| holds(value)) || requests.iter().any(one)
}

/// The workload's body, if it is a template. Bytes that are no text never are: `${` may stand in any picture.
fn template_body(plan: &LoadPlan) -> Option<&str> {
    str::from_utf8(&plan.body).ok().filter(|text| text.contains("${"))
}

/// A feed, and where its columns are used.
struct NamedFeed<'a> {
    name: &'a str,
    feed: &'a Feed,
    /// Whether its rows are here already.
    is_filled: bool,
    is_used: bool,
    usage: Vec<Usage>,
}

impl<'a> NamedFeed<'a> {
    fn new(name: &'a str, feed: &'a Feed, is_filled: bool) -> Self {
        Self { name, feed, is_filled, is_used: false, usage: vec![Usage::default(); feed.columns.len()] }
    }
}

/// A scenario in the making.
struct Compiler<'a> {
    plan: &'a LoadPlan,
    target: &'a Target,
    feeds: Vec<NamedFeed<'a>>,
    variables: Vec<Variable>,
    patterns: Vec<Regex>,
    steps: Vec<Step>,
    walks: Vec<Walk>,
    /// The workload's body, in common to all steps that have none of their own.
    body: Arc<[u8]>,
    /// The same, if it is a template.
    body_template: Option<&'a str>,
    /// Feeds that the walk in hand uses.
    used: BTreeSet<usize>,
}

/// The step in hand, for messages and for names that are saved too late.
#[derive(Clone, Copy)]
struct Here<'s> {
    key: &'static str,
    step: &'s script::Step,
    steps: &'s [script::Step],
}

impl Here<'_> {
    fn wrong(&self, item: &str, why: impl Into<String>) -> LoadError {
        LoadError::Plan { item: format!("{} {}, {item}", self.key, self.step.label()), why: why.into() }
    }
}

impl<'a> Compiler<'a> {
    fn new(plan: &'a LoadPlan, target: &'a Target, script: &'a Script) -> Self {
        Self {
            plan,
            target,
            feeds: script.feeds.iter().map(|(name, feed)| NamedFeed::new(name, feed, true)).collect(),
            variables: Vec::new(),
            patterns: Vec::new(),
            steps: Vec::new(),
            walks: Vec::new(),
            body: plan.body.as_slice().into(),
            body_template: template_body(plan),
            used: BTreeSet::new(),
        }
    }

    /// Adds a walk through these steps, of which there is at least one.
    fn walk(&mut self, key: &'static str, steps: &[script::Step]) -> Result<(), LoadError> {
        self.used.clear();
        let first = self.steps.len() as u32;
        for step in steps {
            let compiled = self.step(Here { key, step, steps })?;
            self.steps.push(compiled);
        }
        let last = self.steps.len() as u32 - 1;
        self.walks.push(Walk { first, last, tables: self.used.iter().map(|feed| *feed as u32).collect() });
        Ok(())
    }

    fn step(&mut self, here: Here<'_>) -> Result<Step, LoadError> {
        let step = here.step;
        let method = step.method.as_ref().unwrap_or(&self.plan.method).clone();
        if !is_token(&method) {
            return Err(here.wrong("method", format!("{method:?} is not a word of HTTP: write one like `GET`")));
        }
        let path = self.template(here, "path", &step.path)?;
        self.check_path(here, &path)?;
        let headers = self.headers(here)?;
        let body = match (step.body.as_deref(), self.body_template) {
            (Some(text), _) | (None, Some(text)) if text.contains("${") => {
                Body::Template(self.template(here, "body", text)?)
            }
            (Some(text), _) => Body::Fixed(text.as_bytes().into()),
            (None, _) => Body::Fixed(self.body.clone()),
        };
        // Saved only now: a step cannot send what it is about to learn.
        let saves = self.saves(here)?;
        let (expected, contains) = match &step.check {
            None => (Expected::Any, None),
            Some(check) => {
                let literal = check.contains.as_deref().map(regex::escape);
                let pattern = literal.map(|pattern| self.pattern(here, "check.contains", &pattern)).transpose()?;
                (check.status.map_or(Expected::BelowError, Expected::Exactly), pattern)
            }
        };
        let is_body_fixed = match &body {
            Body::Fixed(_) => true,
            Body::Template(template) => template.is_fixed(),
        };
        Ok(Step {
            label: step.label().to_string(),
            fixed: path.is_fixed() && is_body_fixed && headers.iter().all(|(_, value)| value.is_fixed()),
            capture: contains.is_some() || !saves.is_empty(),
            method,
            path,
            headers,
            body,
            saves,
            expected,
            contains,
            repeat: step.repeat,
            think: step.think.filter(|think| think.0 > 0),
        })
    }

    /// The workload's headers, but for those that the step names itself; then the step's.
    fn headers(&mut self, here: Here<'_>) -> Result<Vec<(String, Template)>, LoadError> {
        let own = &here.step.headers;
        let plan = self.plan;
        let replaced = |name: &str| own.keys().any(|own| own.eq_ignore_ascii_case(name));
        let all = plan.headers.iter().filter(|(name, _)| !replaced(name)).map(|(name, value)| (name, value)).chain(own);
        let mut headers = Vec::new();
        for (name, text) in all {
            let item = format!("headers.{name}");
            if !is_token(name) {
                return Err(here.wrong(&item, "the name is not a word of HTTP: it is made of letters, digits and `-`"));
            }
            let value = self.template(here, &item, text)?;
            let in_header = Usage { in_header: true, leads_path: false };
            for piece in value.pieces() {
                match piece {
                    Piece::Literal(text) => {
                        in_header.accepts(text).map_err(|why| here.wrong(&item, format!("the value {why}")))?;
                    }
                    Piece::Counter => {}
                    Piece::Saved(variable) => self.variables[*variable].usage.in_header = true,
                    Piece::Cell { table, column } => self.feeds[*table].usage[*column].in_header = true,
                }
            }
            headers.push((name.clone(), value));
        }
        Ok(headers)
    }

    fn check_path(&mut self, here: Here<'_>, path: &Template) -> Result<(), LoadError> {
        let begins = match path.pieces().first() {
            Some(Piece::Literal(text)) => text.starts_with('/'),
            Some(Piece::Saved(variable)) => {
                self.variables[*variable].usage.leads_path = true;
                true
            }
            Some(Piece::Cell { table, column }) => {
                self.feeds[*table].usage[*column].leads_path = true;
                true
            }
            Some(Piece::Counter) | None => false,
        };
        let stands = |piece: &Piece| match piece {
            Piece::Literal(text) => text.bytes().all(|b| stands_in_path(b) || b == b'#'),
            Piece::Counter | Piece::Saved(_) | Piece::Cell { .. } => true,
        };
        if begins && path.pieces().iter().all(stands) {
            return Ok(());
        }
        let why = format!("{:?} is not a path: it begins with `/`, and other bytes are written as %XX", here.step.path);
        Err(here.wrong("path", why))
    }

    fn saves(&mut self, here: Here<'_>) -> Result<Vec<(usize, Extract)>, LoadError> {
        let mut saves = Vec::new();
        for (name, place) in &here.step.save {
            let item = format!("save.{name}");
            let from = match script::Extract::parse(place).map_err(|why| here.wrong(&item, why))? {
                script::Extract::Json(pointer) => {
                    let pointer = Pointer::parse(pointer);
                    Extract::Json(pointer.ok_or_else(|| here.wrong(&item, "a JSON pointer begins with `/`"))?)
                }
                script::Extract::Header(header) => Extract::Header(header.to_string()),
                script::Extract::Cookie(cookie) => Extract::Cookie(cookie.to_string()),
                script::Extract::Regex(pattern) => Extract::Pattern(self.pattern(here, &item, pattern)?),
            };
            let known = self.variables.iter().position(|variable| variable.name == *name);
            let variable = known.unwrap_or_else(|| {
                self.variables.push(Variable { name: name.clone(), usage: Usage::default() });
                self.variables.len() - 1
            });
            saves.push((variable, from));
        }
        Ok(saves)
    }

    fn pattern(&mut self, here: Here<'_>, item: &str, pattern: &str) -> Result<usize, LoadError> {
        let regex = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build().map_err(|error| {
            let text = error.to_string();
            let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            here.wrong(item, format!("`{pattern}` is not a pattern that can be searched for: {reason}"))
        })?;
        self.patterns.push(regex);
        Ok(self.patterns.len() - 1)
    }

    fn template(&mut self, here: Here<'_>, item: &str, text: &str) -> Result<Template, LoadError> {
        let parts = script::parts(text).map_err(|why| here.wrong(item, why))?;
        let pieces = parts.into_iter().map(|part| match part {
            Part::Text(text) => Ok(Piece::Literal(text.to_string())),
            Part::Name(name) => self.resolve(here, name).map_err(|why| here.wrong(item, why)),
        });
        Ok(Template::new(pieces.collect::<Result<Vec<_>, _>>()?))
    }

    /// What a name stands for in this step.
    fn resolve(&mut self, here: Here<'_>, name: &str) -> Result<Piece, String> {
        if name == COUNTER {
            return Ok(Piece::Counter);
        }
        let full = name.split_once('.');
        if let Some((feed, column)) = full
            && let Some(table) = self.feeds.iter().position(|f| f.name == feed)
        {
            let columns = &self.feeds[table].feed.columns;
            let Some(index) = columns.iter().position(|c| c == column) else {
                return Err(format!("feed `{feed}` has no column `{column}`{}", told(column, columns, &[])));
            };
            return Ok(self.cell(table, index));
        }
        let saved = self.variables.iter().position(|variable| variable.name == name);
        let cells: Vec<(usize, usize)> = self
            .feeds
            .iter()
            .enumerate()
            .filter_map(|(table, f)| Some((table, f.feed.columns.iter().position(|c| c == name)?)))
            .collect();
        match (saved, cells.as_slice()) {
            (Some(variable), []) => Ok(Piece::Saved(variable)),
            (None, [(table, column)]) => Ok(self.cell(*table, *column)),
            (None, []) => Err(self.unknown(here, name)),
            (saved, cells) => {
                let full = cells.iter().map(|(table, _)| format!("`${{{}.{name}}}`", self.feeds[*table].name));
                let full = full.collect::<Vec<_>>().join(" or ");
                let or = if saved.is_some() { ", or save the value under another name" } else { "" };
                Err(format!("`${{{name}}}` may mean more than one thing: write {full}{or}"))
            }
        }
    }

    fn cell(&mut self, table: usize, column: usize) -> Piece {
        self.used.insert(table);
        self.feeds[table].is_used = true;
        Piece::Cell { table, column }
    }

    fn unknown(&self, here: Here<'_>, name: &str) -> String {
        if let Some(later) = here.steps.iter().find(|step| step.save.contains_key(name)) {
            return format!(
                "`${{{name}}}` is not saved yet: step `{}` does that, and must come before this one",
                later.label()
            );
        }
        let mut names = vec![COUNTER.to_string()];
        names.extend(self.variables.iter().map(|variable| variable.name.clone()));
        let mut short = Vec::new();
        for feed in &self.feeds {
            names.extend(feed.feed.columns.iter().map(|column| format!("{}.{column}", feed.name)));
            short.extend_from_slice(&feed.feed.columns);
        }
        let told = told(name, &names, &short);
        format!("`${{{name}}}` is neither saved by an earlier step nor a column of a feed{told}")
    }

    fn finish(self, goal: Option<Goal>) -> Result<Scenario, LoadError> {
        for feed in &self.feeds {
            let wrong = |why: String| LoadError::Plan { item: format!("workload.feed.{}", feed.name), why };
            check_feed(feed.feed).map_err(wrong)?;
            if feed.is_used && feed.is_filled && feed.feed.rows.is_empty() {
                return Err(wrong("has no rows: a template would have nothing to stand for".to_string()));
            }
            for (number, row) in (1..).zip(&feed.feed.rows) {
                for ((cell, usage), column) in row.iter().zip(&feed.usage).zip(&feed.feed.columns) {
                    usage.accepts(cell).map_err(|why| wrong(format!("`{column}` of row {number} {why}")))?;
                }
            }
        }
        Ok(Scenario {
            authority: self.target.authority.clone(),
            secure: self.target.secure,
            walks: self.walks,
            steps: self.steps,
            tables: self.feeds.iter().map(|feed| Table::new(feed.feed)).collect(),
            variables: self.variables,
            patterns: self.patterns,
            goal,
        })
    }
}

/// The names that there are, and the one of these or of the `short` ones that may have been meant.
fn told(name: &str, names: &[String], short: &[String]) -> String {
    let mut list: Vec<String> = names.iter().take(NAMES_TOLD_MAX).map(|n| format!("`{n}`")).collect();
    if names.len() > NAMES_TOLD_MAX {
        list.push(format!("{} more", names.len() - NAMES_TOLD_MAX));
    }
    let hint = nearest(name, short.iter().chain(names).map(String::as_str)).map(|n| format!("; did you mean `{n}`?"));
    format!("; known: {}{}", list.join(", "), hint.unwrap_or_default())
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
