//! One page per cause, made of the `//!` header of its file: the code and its page cannot disagree. One per knob, made of the
//! catalogue of `prony-tune`.
//!
//! Headers are read as text. A file whose header has no `## ` section is machinery and gets no page.

use super::{Generated, MARK};
use anyhow::{Context as _, bail};
use prony_tune::{Disruption, KnobInfo, knobs as catalogue};
use std::fmt::Write as _;
use std::path::Path;

/// Folder with one file per cause.
const CAUSES: &str = "crates/prony-diagnose/src/causes";

/// Sections that the page of a cause must have.
const SECTIONS: &[&str] = &["What it sees", "Why it limits", "Evidence", "What it is not", "Fix", "References"];

/// Pages of the causes and their index.
pub(super) fn causes(root: &Path) -> anyhow::Result<Vec<Generated>> {
    let entries = std::fs::read_dir(root.join(CAUSES)).with_context(|| format!("cannot list {CAUSES}"))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.with_context(|| format!("cannot list {CAUSES}"))?.file_name();
        names.extend(name.to_string_lossy().strip_suffix(".rs").map(ToString::to_string));
    }
    names.sort();
    let mut index = format!(
        "<!-- {MARK} from {CAUSES}. -->\n\n# Causes\n\nWhat prony can name as the thing that holds a stack back. \
         Each page says what is seen, why it limits, what rules it out and what mends it.\n\n"
    );
    let mut files = Vec::new();
    for name in names {
        let source = format!("{CAUSES}/{name}.rs");
        let text = std::fs::read_to_string(root.join(&source)).with_context(|| format!("cannot read {source}"))?;
        let Some(page) = Page::parse(&name, &text) else { continue };
        page.must_have(SECTIONS).with_context(|| source.clone())?;
        writeln!(index, "- [`{0}`]({0}.md): {1}", page.id, page.summary).expect("writing to a String cannot fail");
        files.push(Generated { path: format!("docs/causes/{}.md", page.id), text: page.markdown(&source) });
    }
    files.push(Generated { path: "docs/causes/README.md".to_string(), text: index });
    Ok(files)
}

/// Pages of the knobs and their index.
pub(super) fn knobs() -> Vec<Generated> {
    let mut index = format!(
        "<!-- {MARK} from crates/prony-tune/src/knob. -->\n\n# Knobs\n\nWhat prony can turn: \
         `prony tune STACK --knob NAME=VALUE`. Before a change is made, what undoes it is on disk; `prony undo` puts everything \
         back.\n\n| knob | values | takes hold |\n|---|---|---|\n"
    );
    let mut files = Vec::new();
    for knob in catalogue() {
        let takes_hold = disruption(knob.disruption);
        writeln!(index, "| [`{0}`]({0}.md) | {1} | {takes_hold} |", knob.name, knob.value)
            .expect("writing to a String cannot fail");
        files.push(Generated { path: format!("docs/knobs/{}.md", knob.name), text: knob_page(knob) });
    }
    files.push(Generated { path: "docs/knobs/README.md".to_string(), text: index });
    files
}

fn knob_page(knob: &KnobInfo) -> String {
    let KnobInfo { name, value, risk, effect, doc, disruption: takes_hold, .. } = knob;
    let takes_hold = disruption(*takes_hold);
    format!(
        "<!-- {MARK} from crates/prony-tune/src/knob. -->\n\n# `{name}`\n\n{doc}\n\n- Values: {value}\n- Takes hold: {takes_hold}\n\
         - Risk: {risk}\n- The sign that it worked: `{}` {}\n",
        effect.metric.name, effect.how
    )
}

fn disruption(of: Disruption) -> &'static str {
    match of {
        Disruption::Live => "at once",
        Disruption::NewSockets => "for new sockets",
        Disruption::Reload => "by a reload of the server: workers are replaced, idle connections are closed",
    }
}

/// The header of one file, taken apart.
struct Page {
    id: String,
    title: String,
    /// The first paragraph in one line.
    summary: String,
    /// Heading and text of each section.
    sections: Vec<(String, String)>,
}

impl Page {
    /// None when the header has no section.
    fn parse(name: &str, source: &str) -> Option<Self> {
        let header = source.lines().map_while(|line| line.strip_prefix("//!"));
        let (mut before, mut sections) = (Vec::new(), Vec::<(String, Vec<&str>)>::new());
        for line in header {
            // Continued lines may be indented, to stand under the text of their heading.
            let line = line.trim();
            if let Some(rest) = line.strip_prefix("## ") {
                // A heading may be followed by its text on the same line, after two or more spaces.
                let (heading, text) = rest.split_once("  ").unwrap_or((rest, ""));
                sections.push((heading.to_string(), vec![text.trim()]));
            } else if let Some((_, text)) = sections.last_mut() {
                text.push(line);
            } else {
                before.push(line);
            }
        }
        if sections.is_empty() {
            return None;
        }
        let title = before.iter().find_map(|line| line.strip_prefix("# ")).unwrap_or_default().to_string();
        let text = before.into_iter().skip_while(|line| line.is_empty() || line.starts_with("# "));
        let paragraph: Vec<&str> = text.take_while(|line| !line.is_empty()).collect();
        let sections = sections.into_iter().map(|(heading, text)| (heading, text.join("\n").trim().to_string()));
        Some(Self { id: id(name, source), title, summary: paragraph.join(" "), sections: sections.collect() })
    }

    fn must_have(&self, wanted: &[&str]) -> anyhow::Result<()> {
        if self.title.is_empty() || self.summary.is_empty() {
            bail!("the header does not begin with `//! # Title` and a paragraph");
        }
        for section in wanted {
            if !self.sections.iter().any(|(heading, text)| heading == section && !text.is_empty()) {
                bail!("the header has no section `## {section}`, or nothing below it");
            }
        }
        Ok(())
    }

    fn markdown(&self, source: &str) -> String {
        let mut out =
            format!("<!-- {MARK} from {source}. -->\n\n# {}\n\n`{}`: {}\n", self.title, self.id, self.summary);
        for (heading, text) in &self.sections {
            write!(out, "\n## {heading}\n\n{text}\n").expect("writing to a String cannot fail");
        }
        write!(out, "\n---\nIn the code: [{source}](../../{source})\n").expect("writing to a String cannot fail");
        out
    }
}

/// The id that the file declares, or its name with hyphens.
fn id(name: &str, source: &str) -> String {
    let declared = source.split_once("id: \"").and_then(|(_, rest)| rest.split_once('"')).map(|(id, _)| id);
    declared.map_or_else(|| name.replace('_', "-"), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! # Accept queue full
//!
//! The kernel drops handshakes
//! before the server can accept them.
//!
//! More for the reader of the code.
//!
//! ## What it sees     Overflows grow.
//! ## Why it limits
//! A dropped handshake costs a timeout.
//!
//! - and p99 jumps
//! ## Fix              A knob;
//!                     the smaller one wins.

const CAUSE: Cause = Cause { id: \"accept-queue-full\" };
";

    #[test]
    fn a_header_becomes_a_page() {
        let page = Page::parse("accept_queue", SOURCE).unwrap();
        let want = "# Accept queue full

`accept-queue-full`: The kernel drops handshakes before the server can accept them.

## What it sees

Overflows grow.

## Why it limits

A dropped handshake costs a timeout.

- and p99 jumps

## Fix

A knob;
the smaller one wins.
";
        let text = page.markdown("x.rs");
        assert!(text.contains(want), "{text}");
    }

    #[test]
    fn a_missing_or_empty_section_is_an_error() {
        let page = Page::parse("a", SOURCE).unwrap();
        assert!(page.must_have(&["Fix"]).is_ok());
        assert!(page.must_have(&["Evidence"]).unwrap_err().to_string().contains("`## Evidence`"));
        assert!(Page::parse("a", "//! # A\n//!\n//! B.\n//! ## Fix\n").unwrap().must_have(&["Fix"]).is_err());
        assert!(Page::parse("a", "//! B.\n//! ## Fix\n//! C.\n").unwrap().must_have(&[]).is_err(), "no title");
    }

    #[test]
    fn machinery_gets_no_page_and_a_name_is_an_id() {
        assert!(Page::parse("list", "//! The list of causes.\n").is_none());
        assert_eq!(Page::parse("link_rate", "//! A.\n//! ## What it turns  x\n").unwrap().id, "link-rate");
    }

    #[test]
    fn a_knob_has_a_page_with_its_risk() {
        let page = knobs().into_iter().find(|page| page.path == "docs/knobs/sysctl.NAME.md").unwrap();
        assert!(page.text.contains("# `sysctl.NAME`") && page.text.contains("- Risk: "), "{}", page.text);
    }
}
