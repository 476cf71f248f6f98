//! Rules on whole files and functions: length, header, names of folders and modules.
//!
//! It counts lines of rustfmt's layout and parses no grammar.

use super::lexer::{block_end, line_of, words};
use super::{Source, Violation};

/// Longest file. style.md: about 300, 600 wants a reason, 800 fails. Generated files are exempt.
const FILE_LINES_MAX: usize = 800;

/// Longest function, from the line with `fn` to its closing brace. style.md, measured on code bases that we admire
/// (p99 of 44 to 170 lines). Lines inside a string do not count: they are data.
const FUNCTION_LINES_MAX: usize = 70;

/// Names that say nothing of the domain: a reader must find things by the name of a folder alone.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "shared", "misc"];

/// All rules on one file.
pub(super) fn check(source: &Source) -> Vec<Violation> {
    let mut found = names(source);
    if source.is_generated() {
        return found;
    }
    found.extend(file_length(source));
    if source.is_rust() {
        found.extend(header(source));
        found.extend(function_lengths(source));
    }
    found
}

fn file_length(source: &Source) -> Option<Violation> {
    let lines = source.text.lines().count();
    (lines > FILE_LINES_MAX).then(|| {
        let message = format!("the file has {lines} lines, {FILE_LINES_MAX} are allowed: split it by what it is about");
        Violation::new(&source.path, FILE_LINES_MAX + 1, message)
    })
}

fn header(source: &Source) -> Option<Violation> {
    (!source.text.starts_with("//!")).then(|| {
        let message = "the file does not open with `//!`: say its job, what it does not do, and one invariant";
        Violation::new(&source.path, 1, message)
    })
}

fn names(source: &Source) -> Vec<Violation> {
    let empty = |name: &str| EMPTY_NAMES.contains(&name);
    let mut found = Vec::new();
    let parts = source.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    for part in parts.filter(|part| empty(part)) {
        let message = format!("`{part}` says nothing of the domain: name the folder or file after what is in it");
        found.push(Violation::new(&source.path, 1, message));
    }
    if source.is_rust() {
        let code = &source.views.code;
        for at in words(code, "mod ") {
            let name: String = code[at + 4..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if empty(&name) {
                let message = format!("module `{name}` says nothing of the domain: name it after what is in it");
                found.push(Violation::new(&source.path, line_of(code, at), message));
            }
        }
    }
    found
}

fn function_lengths(source: &Source) -> Vec<Violation> {
    let code = &source.views.code;
    let mut found = Vec::new();
    for at in words(code, "fn ") {
        let Some(body) = body_start(code, at) else { continue };
        let end = (block_end(code, body) + 1).min(code.len());
        let lines = source.text[at..end].lines().zip(code[at..end].lines()).filter(|(text, code)| counts(text, code));
        let lines = lines.count();
        if lines > FUNCTION_LINES_MAX {
            let name: String = code[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let message = format!(
                "fn {name} has {lines} lines, {FUNCTION_LINES_MAX} are allowed: keep the control flow here and move the leaves out"
            );
            found.push(Violation::new(&source.path, line_of(code, at), message));
        }
    }
    found
}

/// Lines that are wholly inside a string have text, but neither code nor a comment.
fn counts(text: &str, code: &str) -> bool {
    text.trim().is_empty() || !code.trim().is_empty() || text.trim_start().starts_with("//")
}

/// Offset of the brace that opens the body; none for a declaration without one and for `fn` types.
fn body_start(code: &str, at: usize) -> Option<usize> {
    let name = code.as_bytes().get(at + 3)?;
    if !super::lexer::is_word(*name) {
        return None;
    }
    let mut depth = 0_i32;
    for (offset, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b';' if depth == 0 => return None,
            b'{' if depth == 0 => return Some(offset),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_long_file_is_found_unless_generated() {
        let text = "//! A.\n".to_string() + &"\n".repeat(800);
        assert_eq!(
            messages("a.rs", &text),
            ["a.rs:801: the file has 801 lines, 800 are allowed: split it by what it is about"]
        );
        assert_eq!(messages("a.rs", text.trim_end()), [""; 0]);
        assert_eq!(messages("web/src/generated/a.ts", &text), [""; 0]);
    }

    #[test]
    fn a_file_without_header_is_found() {
        assert!(messages("a.rs", "use x;\n")[0].starts_with("a.rs:1: the file does not open with `//!`"));
    }

    #[test]
    fn names_without_meaning_are_found() {
        assert_eq!(messages("crates/a/src/utils/x.rs", "//! A.\n").len(), 1);
        assert_eq!(messages("crates/a/src/helpers.rs", "//! A.\n").len(), 1);
        assert!(messages("a.rs", "//! A.\npub mod common {}\n")[0].starts_with("a.rs:2: module `common`"));
        assert_eq!(messages("crates/a/src/shared_link.rs", "//! A.\nmod commonest;\n"), [""; 0]);
    }

    #[test]
    fn a_long_function_is_found_with_its_name() {
        let body = "    x();\n".repeat(69);
        let text = format!("//! A.\nfn long(\n    a: [u8; 3],\n) {{\n{body}}}\n");
        assert!(
            messages("a.rs", &text)[0].starts_with("a.rs:2: fn long has 73 lines"),
            "{:?}",
            messages("a.rs", &text)
        );
        let text = format!("//! A.\nfn fits() {{\n{}}}\nfn other() {{\n{body}}}\n", "    x();\n".repeat(68));
        assert_eq!(messages("a.rs", &text).len(), 1, "the border is {FUNCTION_LINES_MAX}");
    }

    #[test]
    fn lines_of_a_string_do_not_count() {
        let text = format!("//! A.\nfn table() {{\n    x(r#\"\n{}\"#);\n}}\n", "row\n".repeat(100));
        assert_eq!(messages("a.rs", &text), [""; 0]);
    }

    #[test]
    fn declarations_have_no_body() {
        let text = format!("//! A.\ntrait T {{\n    fn a(&self);\n{}}}\n", "    fn b(&self);\n".repeat(100));
        assert_eq!(messages("a.rs", &text), [""; 0]);
    }
}
