//! Takes a value out of an answer: from its body by JSON pointer or pattern, or from its head.
//!
//! Invariant: what is handed out is UTF-8 and at most [`SAVED_BYTES_MAX`] long, and finding it takes time in proportion to
//! the answer (a regular expression of the `regex` crate never goes back).

use super::json::Pointer;
use super::template::SAVED_BYTES_MAX;
use super::thread_feeds::Pattern;
use crate::protocol::Captured;

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Extract {
    /// In a JSON body.
    Json(Pointer),
    /// The first header of this name.
    Header(String),
    /// The value that `Set-Cookie` gives to this cookie.
    Cookie(String),
    /// The first match of this pattern in the body, by index.
    Pattern(usize),
}

impl Extract {
    /// Appends the value. None: it is not there, too long, or no text; then `into` may hold a part of it.
    pub fn extract(&self, answer: &Captured, patterns: &mut [Pattern], into: &mut String) -> Option<()> {
        match self {
            Self::Json(pointer) => {
                let value = pointer.find(&answer.body).filter(|value| is_short(value.raw()))?;
                value.push_to(into)
            }
            Self::Header(name) => push(headers(&answer.head, name).next()?, into),
            Self::Cookie(name) => push(headers(&answer.head, "set-cookie").find_map(|line| cookie(line, name))?, into),
            Self::Pattern(index) => push(patterns[*index].find(&answer.body)?, into),
        }
    }
}

fn is_short(value: &[u8]) -> bool {
    value.len() <= SAVED_BYTES_MAX
}

fn push(value: &[u8], into: &mut String) -> Option<()> {
    let text = Some(value).filter(|value| is_short(value)).and_then(|value| str::from_utf8(value).ok())?;
    into.push_str(text);
    Some(())
}

/// Values of every header of this name, which may be written in any case (RFC 9110, 5.1), without white space around them.
fn headers<'a>(head: &'a [u8], name: &str) -> impl Iterator<Item = &'a [u8]> {
    head.split(|b| *b == b'\n').filter_map(move |line| {
        let colon = line.iter().position(|b| *b == b':')?;
        let (seen, value) = line.split_at(colon);
        seen.eq_ignore_ascii_case(name.as_bytes()).then(|| value[1..].trim_ascii())
    })
}

/// The value of `name=value; Path=/; ...`, if it is this cookie's.
fn cookie<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let pair = line.split(|b| *b == b';').next()?;
    let equals = pair.iter().position(|b| *b == b'=')?;
    let (seen, value) = pair.split_at(equals);
    (seen.trim_ascii() == name.as_bytes()).then(|| value[1..].trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use regex::bytes::Regex;

    fn answer(head: &str, body: &[u8]) -> Captured {
        Captured { head: head.as_bytes().to_vec(), body: body.to_vec() }
    }

    /// `pattern` is the one that [`Extract::Pattern`] means.
    fn found(from: &Extract, pattern: &str, answer: &Captured) -> Option<String> {
        let mut text = String::new();
        from.extract(answer, &mut [Pattern::new(&Regex::new(pattern).unwrap())], &mut text)?;
        Some(text)
    }

    fn check(from: &Extract, want: Expect) {
        let head = "Content-Type: text/html\r\nlocation:  /there \r\nSet-Cookie: a=1; Path=/\r\n\
                    set-cookie: sid = \"x=y\";HttpOnly\r\nBroken\r\n";
        want.assert_eq(&format!("{:?}", found(from, "id=(\\w+)", &answer(head, b"<a>id=7f&id=8</a>"))));
    }

    #[test]
    fn finds_values_in_an_answer() {
        check(&Extract::Header("LOCATION".into()), expect![[r#"Some("/there")"#]]);
        check(&Extract::Header("Broken".into()), expect!["None"]);
        check(&Extract::Cookie("sid".into()), expect![[r#"Some("\"x=y\"")"#]]);
        check(&Extract::Cookie("a".into()), expect![[r#"Some("1")"#]]);
        check(&Extract::Cookie("SID".into()), expect!["None"]);
        check(&Extract::Pattern(0), expect![[r#"Some("7f")"#]]);
        check(&Extract::Json(Pointer::parse("/a").unwrap()), expect!["None"]);
    }

    #[test]
    fn a_pattern_without_a_group_is_the_whole_match() {
        let page = answer("", b"a b7 c");
        assert_eq!(found(&Extract::Pattern(0), "b[0-9]", &page).as_deref(), Some("b7"));
        assert_eq!(found(&Extract::Pattern(0), "b(x)?", &page), None, "the group took no part");
    }

    #[test]
    fn what_is_too_long_or_no_text_is_not_found() {
        let long = "x".repeat(SAVED_BYTES_MAX + 1);
        let page = answer(&format!("long: {long}\r\n"), format!("{{\"a\": \"{long}\"}}").as_bytes());
        assert_eq!(found(&Extract::Header("long".into()), "x", &page), None);
        assert_eq!(found(&Extract::Json(Pointer::parse("/a").unwrap()), "x", &page), None);
        assert_eq!(found(&Extract::Pattern(0), "x+", &page), None);
        let binary = answer("a: \u{e4}\r\n", b"id=\xff\xfe!");
        assert_eq!(found(&Extract::Pattern(0), "id=([^!]+)", &binary), None);
        assert_eq!(found(&Extract::Pattern(0), "(?-u)id=([^!]+)", &binary), None);
        assert_eq!(found(&Extract::Header("a".into()), "x", &binary).as_deref(), Some("\u{e4}"));
    }
}
