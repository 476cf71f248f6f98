//! What clients do beyond asking for one thing after another: steps, values saved between them, feeds of data, checks.
//!
//! Text with `${...}` is a template: `${n}` counts the requests of its step over the whole load, from 0; `${name}` was saved by
//! an earlier step or is a column of a feed; `${feed.column}` names the feed too; `$${` stands for `${` itself. Templates are
//! taken apart here and never filled in: the engine does that. Invariant: what [`Script::check`] passes has no mistake that can
//! be seen without the rows of its feeds, but for names in templates: those the engine resolves.

use crate::load::Latency;
use crate::units::{Nanos, Share};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::collections::BTreeMap;

/// The feed of what was saved before the load.
pub const PREPARED: &str = "prepared";
/// The name of the counter in templates.
pub const COUNTER: &str = "n";
/// Most steps of a scenario. A guess: more than any recorded page has requests; each step has a histogram per thread.
const STEPS_MAX: usize = 1000;

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
    /// Path and query, a template. A value in it is written with %XX where a byte cannot stand in a URL.
    #[serde(deserialize_with = "template")]
    pub path: String,
    /// Headers besides the workload's; values are templates.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "templates")]
    pub headers: BTreeMap<String, String>,
    /// Body, a template; none: the workload's.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "template_if_any")]
    pub body: Option<String>,
    /// Values kept from the answer, each as [`Extract`] reads it. One that is not found ends the walk.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "extracts")]
    pub save: BTreeMap<String, String>,
    /// How often the step is done before the next.
    #[serde(default = "once", deserialize_with = "at_least_once")]
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

/// What a good answer looks like; one that is not counts as an error of its own kind and ends the walk.
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
    /// How the rows of the feed `prepared` are given out.
    #[serde(default)]
    pub order: FeedOrder,
    /// In order.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

/// A guess: enough to prepare 10,000 logins in seconds, few enough not to hurt.
fn prepare_connections() -> u32 {
    16
}

/// What one step of a scenario did, over all threads and the counted time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Its name, or its path when it has none.
    pub name: String,
    /// Complete answers, whatever they said.
    pub completed: u64,
    /// Requests without a complete answer, and answers that a check or a save did not accept.
    pub errors: u64,
    /// From the actual send to the complete answer.
    pub latency: Latency,
}

impl Script {
    /// Finds what is wrong without the rows of the feeds.
    ///
    /// # Errors
    /// One sentence that begins with the key.
    pub fn check(&self) -> Result<(), String> {
        for name in self.feeds.keys() {
            if !is_name(name) {
                return Err(format!("`workload.feed.{name}`: {NAMES}"));
            }
            if name == PREPARED && self.prepare.is_some() {
                return Err(format!("`workload.feed.{name}`: this is what `prepare` makes; take another name"));
            }
        }
        check_steps("workload.step", &self.steps)?;
        let Some(prepare) = &self.prepare else { return Ok(()) };
        if prepare.count == 0 || prepare.connections == 0 {
            return Err("`workload.prepare`: `count` and `connections` must be 1 or more".to_string());
        }
        if prepare.steps.is_empty() {
            return Err("`workload.prepare` has no steps: write at least one `[[workload.prepare.step]]`".to_string());
        }
        check_steps("workload.prepare.step", &prepare.steps)
    }
}

impl Step {
    /// What reports and messages call it: its name, or its path when it has none.
    pub fn label(&self) -> &str {
        if self.name.is_empty() { &self.path } else { &self.name }
    }
}

impl Prepare {
    /// The columns of the feed `prepared`: every name that a step saves, sorted.
    pub fn columns(&self) -> Vec<String> {
        let mut names: Vec<String> = self.steps.iter().flat_map(|step| step.save.keys().cloned()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// A piece of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Stands as it is.
    Text(&'a str),
    /// Replaced by the value of this name.
    Name(&'a str),
}

/// Takes a template apart.
///
/// # Errors
/// One sentence about a `${` that has no end or no name.
pub fn parts(template: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            parts.extend([Part::Text(before), Part::Text("${")]);
            rest = &from[2..];
            continue;
        }
        let end = from.find('}').filter(|end| !from[2..*end].contains(['{', '"', '\n']));
        let Some(end) = end else {
            let seen: String = from.chars().take(20).collect();
            return Err(format!(
                "{seen:?} is a `${{` without its `}}`: write `${{NAME}}`, or `$${{` for one that stands as it is"
            ));
        };
        if end == 2 {
            return Err("`${}` names nothing: write `${n}`, or the name of a saved value or of a column".to_string());
        }
        parts.extend([Part::Text(before), Part::Name(&from[2..end])]);
        rest = &from[end + 1..];
    }
    parts.push(Part::Text(rest));
    parts.retain(|part| *part != Part::Text(""));
    Ok(parts)
}

/// A template that stands for exactly this text.
pub fn escape(text: &str) -> String {
    text.replace("${", "$${")
}

/// Where in an answer a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extract<'a> {
    /// `json:POINTER`: a JSON pointer (RFC 6901) into the body. Text without its quotes, anything else as it is written; `null` is not found.
    Json(&'a str),
    /// `header:NAME`: the first header of that name.
    Header(&'a str),
    /// `cookie:NAME`: the value that a `Set-Cookie` header gives to this cookie.
    Cookie(&'a str),
    /// `regex:PATTERN`: the first match in the body; of that the first group, if the pattern has one.
    Regex(&'a str),
}

impl<'a> Extract<'a> {
    /// Reads its text form.
    ///
    /// # Errors
    /// One sentence that says what was seen and what would be right. Whether a pattern is one is left to the engine.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("json", pointer)) if pointer.is_empty() || pointer.starts_with('/') => Ok(Self::Json(pointer)),
            Some(("json", pointer)) => {
                Err(format!("`{text}`: a JSON pointer begins with `/`: write `json:/{}`", pointer.replace('.', "/")))
            }
            Some(("header", name)) if !name.is_empty() => Ok(Self::Header(name)),
            Some(("cookie", name)) if !name.is_empty() => Ok(Self::Cookie(name)),
            Some(("regex", pattern)) if !pattern.is_empty() => Ok(Self::Regex(pattern)),
            Some(_) | None => Err(format!(
                "`{text}` is not a place in an answer: write `json:/POINTER`, `header:NAME`, `cookie:NAME` or `regex:PATTERN`"
            )),
        }
    }
}

const NAMES: &str = "a name is made of letters, digits, `_` and `-`, and is not `n`";

fn is_name(name: &str) -> bool {
    !name.is_empty() && name != COUNTER && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

fn check_steps(key: &str, steps: &[Step]) -> Result<(), String> {
    if steps.len() > STEPS_MAX {
        return Err(format!("`{key}`: {} steps are more than {STEPS_MAX}, the most there can be", steps.len()));
    }
    for step in steps {
        let wrong = |item: &str, why: String| Err(format!("`{key}` {}, `{item}`: {why}", step.label()));
        let texts = [("path", Some(&step.path)), ("body", step.body.as_ref())];
        let headers = step.headers.iter().map(|(name, value)| (name.as_str(), Some(value)));
        for (item, text) in texts.into_iter().chain(headers) {
            if let Some(Err(why)) = text.map(|t| parts(t)) {
                return wrong(item, why);
            }
        }
        for (name, place) in &step.save {
            if !is_name(name) {
                return wrong(&format!("save.{name}"), NAMES.to_string());
            }
            if let Err(why) = Extract::parse(place) {
                return wrong(&format!("save.{name}"), why);
            }
        }
        if step.repeat == 0 {
            return wrong("repeat", NEVER.to_string());
        }
    }
    Ok(())
}

const NEVER: &str = "0 would never do the step: write 1 or more, or leave it out";

// Checked while they are read, so that a mistake names its line.

fn template<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(TemplateText::deserialize(from)?.0)
}

fn template_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<TemplateText>::deserialize(from)?.map(|text| text.0))
}

fn templates<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let texts = BTreeMap::<String, TemplateText>::deserialize(from)?;
    Ok(texts.into_iter().map(|(name, text)| (name, text.0)).collect())
}

fn extracts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let texts = BTreeMap::<String, ExtractText>::deserialize(from)?;
    Ok(texts.into_iter().map(|(name, text)| (name, text.0)).collect())
}

fn at_least_once<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    match u32::deserialize(from)? {
        0 => Err(D::Error::custom(NEVER)),
        times => Ok(times),
    }
}

struct TemplateText(String);

impl<'de> Deserialize<'de> for TemplateText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        parts(&text).map_err(D::Error::custom)?;
        Ok(Self(text))
    }
}

struct ExtractText(String);

impl<'de> Deserialize<'de> for ExtractText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        Extract::parse(&text).map_err(D::Error::custom)?;
        Ok(Self(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(template: &str, want: Expect) {
        want.assert_eq(&match parts(template) {
            Ok(parts) => format!("{parts:?}"),
            Err(error) => error,
        });
    }

    #[test]
    fn takes_templates_apart() {
        check("", expect!["[]"]);
        check("/a?b=1", expect![[r#"[Text("/a?b=1")]"#]]);
        check("/u/${n}/${users.name}", expect![[r#"[Text("/u/"), Name("n"), Text("/"), Name("users.name")]"#]]);
        check("$5 $${n} $", expect![[r#"[Text("$5 "), Text("${"), Text("n} $")]"#]]);
    }

    #[test]
    fn says_what_is_wrong_with_a_template() {
        check(
            "/a/${token/b",
            expect![[
                r#""${token/b" is a `${` without its `}`: write `${NAME}`, or `$${` for one that stands as it is"#
            ]],
        );
        check("${}", expect!["`${}` names nothing: write `${n}`, or the name of a saved value or of a column"]);
        check(
            "{\"a\": \"${n\", \"b\": {}}",
            expect![[
                r#""${n\", \"b\": {}}" is a `${` without its `}`: write `${NAME}`, or `$${` for one that stands as it is"#
            ]],
        );
    }

    #[test]
    fn places_in_an_answer() {
        assert_eq!(Extract::parse("json:/a/0"), Ok(Extract::Json("/a/0")));
        assert_eq!(Extract::parse("json:"), Ok(Extract::Json("")));
        assert_eq!(Extract::parse("header:Location"), Ok(Extract::Header("Location")));
        assert_eq!(Extract::parse("cookie:sid"), Ok(Extract::Cookie("sid")));
        assert_eq!(Extract::parse("regex:id=(\\d+):"), Ok(Extract::Regex("id=(\\d+):")));
        let error = |text| Extract::parse(text).unwrap_err();
        assert_eq!(error("json:a.b"), "`json:a.b`: a JSON pointer begins with `/`: write `json:/a/b`");
        assert!(error("jsn:/a").starts_with("`jsn:/a` is not a place in an answer: write `json:/POINTER`"));
        assert!(error("regex:").starts_with("`regex:` is not a place"));
    }

    fn step(path: &str) -> Step {
        Step {
            name: String::new(),
            method: None,
            path: path.to_string(),
            headers: BTreeMap::new(),
            body: None,
            save: BTreeMap::new(),
            repeat: 1,
            think: None,
            check: None,
        }
    }

    #[test]
    fn a_script_made_by_a_program_is_checked_too() {
        let why = |change: fn(&mut Script)| {
            let mut script = Script { steps: vec![step("/a")], ..Script::default() };
            change(&mut script);
            script.check().err().unwrap_or_default()
        };
        assert_eq!(why(|_| {}), "");
        assert!(why(|s| s.steps[0].path = "/${".into()).starts_with("`workload.step` /${, `path`: "));
        assert!(why(|s| s.steps[0].repeat = 0).contains("`repeat`: 0 would never do the step"));
        assert!(why(|s| drop(s.steps[0].save.insert("n".into(), "json:".into()))).contains("`save.n`: a name is"));
        assert!(
            why(|s| drop(s.feeds.insert("a.b".into(), Feed::default()))).starts_with("`workload.feed.a.b`: a name")
        );
        assert!(why(|s| s.steps = vec![step("/a"); 1001]).contains("1001 steps are more than 1000"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "([$]|[{]|[}]|n|\\PC)*") {
            let _ = parts(&text);
        }

        #[test]
        fn an_escaped_text_is_itself(text in "([$]|[{]|[}]|n|\\PC)*") {
            let escaped = escape(&text);
            let parts = parts(&escaped).unwrap();
            let whole: String = parts.iter().map(|part| match part {
                Part::Text(text) | Part::Name(text) => *text,
            }).collect();
            prop_assert!(parts.iter().all(|part| matches!(part, Part::Text(_))), "{:?}", parts);
            prop_assert_eq!(whole, text);
        }
    }
}
