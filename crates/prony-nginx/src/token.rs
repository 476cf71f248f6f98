//! Cuts an nginx configuration into tokens without losing a byte.
//!
//! Knows nothing of directives. Invariant: the tokens lie end to end and cover the text, whatever the text is.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Blanks and line ends.
    Space,
    /// From `#` to the end of the line.
    Comment,
    /// A name or an argument, with its quotes and backslashes.
    Word,
    /// `;`
    Semicolon,
    /// `{`
    Open,
    /// `}`
    Close,
}

/// One token: its kind and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    pub span: Range<usize>,
}

/// Cuts a text into tokens by the rules of `ngx_conf_read_token` (nginx src/core/ngx_conf_file.c).
pub fn tokens(text: &[u8]) -> Vec<Token> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (kind, end) = match text[at] {
            b' ' | b'\t' | b'\r' | b'\n' => (Kind::Space, run(text, at, |b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))),
            b'#' => (Kind::Comment, run(text, at, |b| b != b'\n')),
            b';' => (Kind::Semicolon, at + 1),
            b'{' => (Kind::Open, at + 1),
            b'}' => (Kind::Close, at + 1),
            quote @ (b'"' | b'\'') => (Kind::Word, quoted_end(text, at, quote)),
            _ => (Kind::Word, bare_end(text, at)),
        };
        found.push(Token { kind, span: at..end });
        at = end;
    }
    found
}

fn run(text: &[u8], from: usize, keep: impl Fn(u8) -> bool) -> usize {
    text[from..].iter().position(|b| !keep(*b)).map_or(text.len(), |n| from + n)
}

/// End of a quoted word: behind the closing quote, or the end of the text.
fn quoted_end(text: &[u8], from: usize, quote: u8) -> usize {
    let mut at = from + 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b if b == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// End of a bare word: before a blank, `;` or `{`, but `${` belongs to the word, and so do `}`, `#` and quotes.
fn bare_end(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'$' if text.get(at + 1) == Some(&b'{') => at += 2,
            b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' => return at,
            _ => at += 1,
        }
    }
    text.len()
}

/// What a word means: without its quotes, and `\"`, `\'`, `\\`, `\t`, `\r`, `\n` replaced as nginx does.
pub fn meaning(word: &[u8]) -> String {
    let bare = match word {
        [q @ (b'"' | b'\''), inner @ .., end] if q == end => inner,
        _ => word,
    };
    let mut out = Vec::with_capacity(bare.len());
    let mut at = 0;
    while at < bare.len() {
        let replaced = (bare[at] == b'\\').then(|| bare.get(at + 1)).flatten().and_then(|next| match next {
            b'"' | b'\'' | b'\\' => Some(*next),
            b't' => Some(b'\t'),
            b'r' => Some(b'\r'),
            b'n' => Some(b'\n'),
            _ => None,
        });
        out.push(replaced.unwrap_or(bare[at]));
        at += 1 + usize::from(replaced.is_some());
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(text: &str, want: Expect) {
        let words = tokens(text.as_bytes()).into_iter().filter(|t| t.kind != Kind::Space);
        let line: Vec<String> = words.map(|t| format!("{:?}<{}>", t.kind, &text[t.span])).collect();
        want.assert_eq(&line.join(" "));
    }

    #[test]
    fn cuts_as_nginx_does() {
        check("listen 80;#x\n}", expect!["Word<listen> Word<80> Semicolon<;> Comment<#x> Close<}>"]);
        check("a#b \"c;{ \\\" d\" '}';", expect![[r##"Word<a#b> Word<"c;{ \" d"> Word<'}'> Semicolon<;>"##]]);
        check("root ${dir}/a\\ b;", expect![[r"Word<root> Word<${dir}/a\ b> Semicolon<;>"]]);
        check("map{a}b c;", expect!["Word<map> Open<{> Word<a}b> Word<c> Semicolon<;>"]);
        check("x \"open", expect![[r#"Word<x> Word<"open>"#]]);
    }

    #[test]
    fn words_mean_what_nginx_reads() {
        assert_eq!(meaning(b"\"\""), "");
        assert_eq!(meaning(br#""a \"b\" \d""#), r#"a "b" \d"#);
        assert_eq!(meaning(b"'"), "'");
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut end = 0;
            for token in tokens(&text) {
                prop_assert_eq!(token.span.start, end);
                prop_assert!(token.span.end > end);
                end = token.span.end;
            }
            prop_assert_eq!(end, text.len());
        }

        #[test]
        fn no_byte_is_lost_of_what_looks_like_a_configuration(text in "[a-c;{}#\"'\\\\$ \n]{0,80}") {
            let printed: Vec<u8> = tokens(text.as_bytes()).into_iter().flat_map(|t| text.as_bytes()[t.span].to_vec()).collect();
            prop_assert_eq!(printed, text.as_bytes());
        }
    }
}
