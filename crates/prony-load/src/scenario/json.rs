//! Finds the value that a JSON pointer (RFC 6901) names, without building the document.
//!
//! It reads only as far as it must and is no judge of the rest: a document that breaks off behind the value is good enough.
//! Of a key that stands twice, the first counts. Invariant: one pass, no recursion, no allocation, whatever the bytes are.

/// A pointer, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Keys and indices from the outside in.
    tokens: Vec<String>,
}

/// A value found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A string: what stands between its quotes.
    Text(&'a [u8]),
    /// Anything else, as it is written.
    Raw(&'a [u8]),
}

impl Pointer {
    /// None: it does not begin with `/`.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self { tokens: Vec::new() });
        }
        let rest = text.strip_prefix('/')?;
        Some(Self { tokens: rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect() })
    }

    /// The value; none: there is none there, or the bytes before it are no JSON.
    #[inline]
    pub fn find<'a>(&self, document: &'a [u8]) -> Option<Value<'a>> {
        let mut scan = Scan { bytes: document, at: 0 };
        for token in &self.tokens {
            match scan.peek()? {
                b'{' => scan.enter_member(token)?,
                b'[' => scan.enter_element(token)?,
                _ => return None,
            }
        }
        scan.value(!self.tokens.is_empty())
    }
}

impl Value<'_> {
    /// Appends its text: a string unescaped, `null` not at all. None: it is `null`, or no text.
    pub fn push_to(self, into: &mut String) -> Option<()> {
        match self {
            Self::Text(raw) => unescape(raw, |part| into.push_str(part)),
            Self::Raw(b"null") => None,
            Self::Raw(raw) => {
                into.push_str(str::from_utf8(raw).ok()?);
                Some(())
            }
        }
    }

    /// As it is written.
    pub fn raw(&self) -> &[u8] {
        match self {
            Self::Text(raw) | Self::Raw(raw) => raw,
        }
    }
}

/// A place in a document.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    /// The next byte that is no white space.
    #[inline]
    fn peek(&mut self) -> Option<u8> {
        loop {
            match *self.bytes.get(self.at)? {
                b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// From the brace to the value of this key.
    fn enter_member(&mut self, key: &str) -> Option<()> {
        self.expect(b'{')?;
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            if is_text(name, key) {
                return Some(());
            }
            self.skip()?;
            self.expect(b',')?;
        }
    }

    /// From the bracket to the value of this index.
    fn enter_element(&mut self, token: &str) -> Option<()> {
        let plain = !token.starts_with('+') && (token == "0" || !token.starts_with('0'));
        let index: usize = token.parse().ok().filter(|_| plain)?;
        self.expect(b'[')?;
        for _ in 0..index {
            self.skip()?;
            self.expect(b',')?;
        }
        Some(())
    }

    /// What stands between the quotes; then the place is behind them.
    #[inline]
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let from = self.at;
        let mut at = from;
        loop {
            match self.bytes.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                _ => at += 1,
            }
        }
        self.at = at + 1;
        Some(&self.bytes[from..at])
    }

    /// Over a number, `true`, `false` or `null`.
    fn scalar(&mut self) -> Option<()> {
        if !matches!(self.peek()?, b'-' | b'0'..=b'9' | b't' | b'f' | b'n') {
            return None;
        }
        let rest = &self.bytes[self.at..];
        let ends =
            |byte: &u8| matches!(byte, b',' | b']' | b'}' | b':' | b'"' | b'[' | b'{' | b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
        Some(())
    }

    /// Over a whole value. Brackets are counted, not matched by kind: what is skipped is not ours to judge.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => self.at += 1,
                _ => self.scalar()?,
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// `inside`: something must follow, so a number at the very end of the bytes may have been cut.
    fn value(&mut self, inside: bool) -> Option<Value<'a>> {
        match self.peek()? {
            b'"' => Some(Value::Text(self.string()?)),
            first => {
                let from = self.at;
                self.skip()?;
                let is_scalar = !matches!(first, b'{' | b'[');
                if inside && is_scalar && self.at == self.bytes.len() {
                    return None;
                }
                Some(Value::Raw(&self.bytes[from..self.at]))
            }
        }
    }
}

/// Whether what stands between quotes means this text.
fn is_text(raw: &[u8], text: &str) -> bool {
    if !raw.contains(&b'\\') {
        return raw == text.as_bytes();
    }
    let mut rest = Some(text);
    let whole = unescape(raw, |part| rest = rest.and_then(|rest| rest.strip_prefix(part)));
    whole.is_some() && rest == Some("")
}

/// Hands out the text of a string piece by piece. None: it is no UTF-8, or has an escape that there is not.
fn unescape(raw: &[u8], mut put: impl FnMut(&str)) -> Option<()> {
    let mut rest = str::from_utf8(raw).ok()?;
    while let Some(at) = rest.find('\\') {
        put(&rest[..at]);
        let escape = *rest.as_bytes().get(at + 1)?;
        rest = rest.get(at + 2..)?;
        let plain = match escape {
            b'"' => "\"",
            b'\\' => "\\",
            b'/' => "/",
            b'b' => "\u{8}",
            b'f' => "\u{c}",
            b'n' => "\n",
            b'r' => "\r",
            b't' => "\t",
            b'u' => {
                let (letter, more) = unicode(rest)?;
                put(letter.encode_utf8(&mut [0; 4]));
                rest = more;
                ""
            }
            _ => return None,
        };
        put(plain);
    }
    put(rest);
    Some(())
}

/// The character behind a `\u`, and the text behind it. Two surrogates make one character (RFC 8259, 7).
fn unicode(text: &str) -> Option<(char, &str)> {
    let (first, rest) = hex(text)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, rest));
    }
    let (second, rest) = hex(rest.strip_prefix("\\u")?)?;
    let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + low)?, rest))
}

fn hex(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let all = digits.bytes().all(|b| b.is_ascii_hexdigit());
    Some((u32::from_str_radix(digits, 16).ok().filter(|_| all)?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use serde_json::Value as Json;

    fn found(document: &[u8], pointer: &str) -> Option<String> {
        let mut text = String::new();
        Pointer::parse(pointer).unwrap().find(document)?.push_to(&mut text)?;
        Some(text)
    }

    fn check(document: &str, pointer: &str, want: Expect) {
        want.assert_eq(&format!("{:?}", found(document.as_bytes(), pointer)));
    }

    #[test]
    fn finds_values() {
        let document = r#" {"a": {"b": [1, {"c": "x\"\u00e4\ud83d\ude00/"}, -2.5e3, null]}, "": true, "m/n~": {} , "k\u0065y": 7}"#;
        check(document, "/a/b/0", expect![[r#"Some("1")"#]]);
        check(document, "/a/b/1/c", expect![[r#"Some("x\"ä😀/")"#]]);
        check(document, "/a/b/2", expect![[r#"Some("-2.5e3")"#]]);
        check(document, "/a/b/3", expect!["None"]);
        check(document, "/a/b/4", expect!["None"]);
        check(document, "/a/b/01", expect!["None"]);
        check(document, "/a/b/-", expect!["None"]);
        check(document, "/a/b", expect![[r#"Some("[1, {\"c\": \"x\\\"\\u00e4\\ud83d\\ude00/\"}, -2.5e3, null]")"#]]);
        check(document, "/", expect![[r#"Some("true")"#]]);
        check(document, "/m~1n~0", expect![[r#"Some("{}")"#]]);
        check(document, "/key", expect![[r#"Some("7")"#]]);
        check(document, "/none", expect!["None"]);
        check("\"only\"", "", expect![[r#"Some("only")"#]]);
        check("12", "", expect![[r#"Some("12")"#]]);
    }

    #[test]
    fn what_is_cut_or_wrong_is_not_found() {
        check(r#"{"a": 1"#, "/a", expect!["None"]);
        check(r#"{"a": 1,"#, "/a", expect![[r#"Some("1")"#]]);
        check(r#"{"a": "x"#, "/a", expect!["None"]);
        check(r#"{"a": "x\"#, "/a", expect!["None"]);
        check(r#"{"a": "\ud800"}"#, "/a", expect!["None"]);
        check(r#"{"a": "\ud800\u0041"}"#, "/a", expect!["None"]);
        check(r#"{"a": "\u+041"}"#, "/a", expect!["None"]);
        check("<html>", "", expect!["None"]);
        check("", "/a", expect!["None"]);
        check("[]", "/0", expect!["None"]);
        check("[1]", "/18446744073709551615", expect!["None"]);
        assert_eq!(found(b"{\"a\": \"\xff\"}", "/a"), None, "no UTF-8");
    }

    #[test]
    fn a_million_brackets_are_only_bytes() {
        let deep = format!("{{\"x\": {}, \"a\": 1}}", "[".repeat(1 << 20));
        assert_eq!(found(deep.as_bytes(), "/a"), None);
        let closed = format!("{{\"x\": {}{}, \"a\": 1}}", "[".repeat(1 << 18), "]".repeat(1 << 18));
        assert_eq!(found(closed.as_bytes(), "/a").as_deref(), Some("1"));
    }

    fn json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            (-1e9f64..1e9).prop_map(Json::from),
            "[a\\\\\"/~é😀\\n\\x00 ]{0,5}".prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
                proptest::collection::btree_map("[ab/~\"é0]{0,2}", inner, 0..5)
                    .prop_map(|map| Json::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Every pointer into a document, and each with something behind it that is not there.
    fn pointers(json: &Json, here: &str, all: &mut Vec<String>) {
        all.extend([here.to_string(), format!("{here}/9"), format!("{here}/zz")]);
        match json {
            Json::Array(items) => {
                items.iter().enumerate().for_each(|(i, item)| pointers(item, &format!("{here}/{i}"), all));
            }
            Json::Object(map) => map.iter().for_each(|(key, item)| {
                pointers(item, &format!("{here}/{}", key.replace('~', "~0").replace('/', "~1")), all);
            }),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
        }
    }

    proptest! {
        #[test]
        fn finds_what_serde_json_finds(json in json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) }.unwrap();
            let mut all = Vec::new();
            pointers(&json, "", &mut all);
            for pointer in all {
                let got = Pointer::parse(&pointer).unwrap().find(text.as_bytes());
                let got = got.map(|value| match value {
                    Value::Text(raw) => {
                        let mut text = String::new();
                        unescape(raw, |part| text.push_str(part)).unwrap();
                        Json::String(text)
                    }
                    Value::Raw(raw) => serde_json::from_slice(raw).unwrap(),
                });
                prop_assert_eq!(got.as_ref(), json.pointer(&pointer), "{} in {}", pointer, text);
            }
        }

        #[test]
        fn no_bytes_panic(bytes in "[\\[\\]{}\",:\\\\ua0-9 tn-]{0,60}", pointer in "(/[a0-3]{0,2}){0,4}", cut in 0usize..60) {
            let bytes = &bytes.as_bytes()[..cut.min(bytes.len())];
            let value = Pointer::parse(&pointer).unwrap().find(bytes);
            let mut text = String::new();
            let _ = value.and_then(|value| value.push_to(&mut text));
            prop_assert!(text.len() <= bytes.len());
        }
    }
}
