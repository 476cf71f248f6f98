//! Edits of a configuration: a few bytes replaced in the right file, everything else byte for byte as it was.
//!
//! Writes no file. Invariant: edits of one file never overlap; the same edit asked for twice is made once
//! (a file that is included twice shows its directives twice).

use prony_nginx::{Config, Directive};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

/// Edits collected for one configuration.
#[derive(Debug, Default)]
pub struct Edits {
    /// By file and bytes; the texts to put there, in the order they were asked for.
    edits: BTreeMap<(usize, usize, usize), Vec<String>>,
}

/// One file before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Which file.
    pub path: PathBuf,
    /// As it was read.
    pub old: Vec<u8>,
    /// As it shall be.
    pub new: Vec<u8>,
}

impl Edits {
    /// Gives a directive other arguments.
    pub fn set_args(&mut self, directive: &Directive, args: &str) {
        let blank = if directive.args_span.is_empty() { " " } else { "" };
        self.add(directive.source, directive.args_span.clone(), format!("{blank}{args}"));
    }

    /// Takes a directive out, with the blanks before it and its line end when it has a line of its own.
    pub fn delete(&mut self, config: &Config, directive: &Directive) {
        let text = &config.sources[directive.source].text;
        let mut from = directive.span.start;
        while from > 0 && matches!(text[from - 1], b' ' | b'\t') {
            from -= 1;
        }
        let owns_line = from == 0 || text[from - 1] == b'\n';
        let to = match text.get(directive.span.end) {
            Some(b'\n') if owns_line => directive.span.end + 1,
            _ => directive.span.end,
        };
        self.add(directive.source, from..to, String::new());
    }

    /// Puts a directive in front of another one, on a line of its own with the same indent.
    pub fn insert_before(&mut self, config: &Config, directive: &Directive, text: &str) {
        let start = directive.span.start;
        let lead = indent(&config.sources[directive.source].text, start).map_or(" ".to_string(), |i| format!("\n{i}"));
        self.add(directive.source, start..start, format!("{text}{lead}"));
    }

    /// Puts a directive at the end of a block, behind the last directive that stands in the block's own file.
    pub fn insert_last(&mut self, config: &Config, block: &Directive, text: &str) {
        let own = block.children().iter().rfind(|d| d.source == block.source);
        let whole = &config.sources[block.source].text;
        let Some(last) = own else {
            let open = block.block.as_ref().map_or(block.span.end, |b| b.open);
            return self.add(block.source, open..open, format!(" {text} "));
        };
        let rest = &whole[last.span.end..];
        let line = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        let after = rest[..line].trim_ascii_start();
        let lead = indent(whole, last.span.start).filter(|_| after.is_empty() || after.starts_with(b"#"));
        match lead {
            Some(indent) => {
                let end = last.span.end + line;
                self.add(block.source, end..end, format!("\n{indent}{text}"));
            }
            None => self.add(block.source, last.span.end..last.span.end, format!(" {text}")),
        }
    }

    /// The files that change.
    pub fn rewrite(&self, config: &Config) -> Vec<Rewritten> {
        let files = config.sources.iter().enumerate().map(|(index, source)| {
            let mut new = Vec::with_capacity(source.text.len());
            let mut at = 0;
            for ((_, from, to), texts) in self.edits.range((index, 0, 0)..(index + 1, 0, 0)) {
                new.extend_from_slice(&source.text[at..*from]);
                new.extend(texts.iter().flat_map(|t| t.bytes()));
                at = *to;
            }
            new.extend_from_slice(&source.text[at..]);
            Rewritten { path: source.path.clone(), old: source.text.clone(), new }
        });
        files.filter(|f| f.old != f.new).collect()
    }

    fn add(&mut self, source: usize, span: Range<usize>, text: String) {
        let texts = self.edits.entry((source, span.start, span.end)).or_default();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
}

/// The blanks in front of a byte, when nothing else stands before it on its line.
fn indent(text: &[u8], at: usize) -> Option<String> {
    let start = text[..at].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
    let before = std::str::from_utf8(&text[start..at]).ok()?;
    before.chars().all(|c| c == ' ' || c == '\t').then(|| before.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, edit: impl Fn(&mut Edits, &Config), want: Expect) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, text).unwrap();
        let config = Config::read(&file).unwrap();
        let mut edits = Edits::default();
        assert!(edits.rewrite(&config).is_empty(), "no edit, no change");
        edit(&mut edits, &config);
        edit(&mut edits, &config);
        want.assert_eq(&String::from_utf8(edits.rewrite(&config)[0].new.clone()).unwrap());
    }

    #[test]
    fn edits_touch_nothing_else() {
        let text = "a {\n\tb 1; # one\n\tc;\n}\nd { e \"x\" y ; }\nf {}\n";
        check(
            text,
            |edits, config| {
                edits.set_args(&config.root[0].children()[0], "2");
                edits.insert_before(config, &config.root[0].children()[0], "new;");
                edits.insert_last(config, &config.root[0], "last;");
                edits.set_args(&config.root[1].children()[0], "z");
                edits.insert_last(config, &config.root[1], "last;");
                edits.insert_last(config, &config.root[2], "only;");
            },
            expect![[r#"
                a {
                	new;
                	b 2; # one
                	c;
                	last;
                }
                d { e z ; last; }
                f { only; }
            "#]],
        );
        check(
            text,
            |edits, config| {
                edits.delete(config, &config.root[0].children()[1]);
                edits.delete(config, &config.root[1].children()[0]);
                edits.set_args(&config.root[2], "arg");
            },
            expect![[r#"
                a {
                	b 1; # one
                }
                d { }
                f arg {}
            "#]],
        );
    }
}
