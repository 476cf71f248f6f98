//! Splits Rust source into views of equal shape: code alone, comments alone. Everything else becomes spaces.
//!
//! It knows strings, raw strings, characters, lifetimes and nested comments, and nothing of the grammar.
//! Invariant: each view has the same bytes-per-line layout as the source, so that an offset means the same in all.

/// The views of one file.
pub(super) struct Views {
    /// The source with comments and the insides of strings and characters blanked.
    pub(super) code: String,
    /// The source with everything but comments blanked.
    pub(super) comments: String,
}

/// What a stretch of source is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Splits `source` into its views.
pub(super) fn split(source: &str) -> Views {
    let kinds = kinds(source.as_bytes());
    let view = |want: Kind| -> String {
        let keep = |(at, c): (usize, char)| -> String {
            if c == '\n' || kinds[at] == want { c.to_string() } else { " ".repeat(c.len_utf8()) }
        };
        source.char_indices().map(keep).collect()
    };
    Views { code: view(Kind::Code), comments: view(Kind::Comment) }
}

/// The kind of each byte. Quotes count as code, so that `("")` stays recognisable as a call with an argument.
fn kinds(bytes: &[u8]) -> Vec<Kind> {
    let mut kinds = vec![Kind::Code; bytes.len()];
    let mut at = 0;
    while at < bytes.len() {
        let (kind, inside, end) = token(bytes, at);
        kinds[inside..end.max(inside)].fill(kind);
        at = end.max(at + 1);
        if kind == Kind::Literal {
            at += 1; // the closing quote
        }
    }
    kinds
}

/// The token that begins at `at`: its kind, where its inside begins and where its inside ends.
fn token(bytes: &[u8], at: usize) -> (Kind, usize, usize) {
    let rest = &bytes[at..];
    let begins_word = at == 0 || !is_word(bytes[at - 1]) || matches!(bytes[at - 1], b'b' | b'c');
    if rest.starts_with(b"//") {
        return (Kind::Comment, at, at + line_end(rest));
    }
    if rest.starts_with(b"/*") {
        return (Kind::Comment, at, at + block_comment_end(rest));
    }
    if rest[0] == b'"' {
        return (Kind::Literal, at + 1, at + 1 + string_end(&rest[1..]));
    }
    if rest[0] == b'r' && begins_word {
        let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
        if rest.get(1 + hashes) == Some(&b'"') {
            let inside = at + 2 + hashes;
            return (Kind::Literal, inside, inside + raw_string_end(&bytes[inside..], hashes));
        }
    }
    if rest[0] == b'\''
        && let Some(length) = character_length(rest)
    {
        return (Kind::Literal, at + 1, at + 1 + length);
    }
    (Kind::Code, at, at + 1)
}

fn line_end(rest: &[u8]) -> usize {
    rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
}

fn block_comment_end(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn string_end(rest: &[u8]) -> usize {
    let mut at = 0;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at.min(rest.len())
}

fn raw_string_end(rest: &[u8], hashes: usize) -> usize {
    let close =
        |at: &usize| rest[*at] == b'"' && rest[*at + 1..].iter().take(hashes).filter(|b| **b == b'#').count() == hashes;
    (0..rest.len()).find(close).unwrap_or(rest.len())
}

/// Length of what stands between the quotes of a character; none when the quote begins a lifetime.
fn character_length(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let close = rest[3.min(rest.len())..].iter().position(|b| *b == b'\'')?;
        return Some(close + 2);
    }
    let text = std::str::from_utf8(&rest[1..rest.len().min(6)]).or_else(|e| {
        std::str::from_utf8(&rest[1..1 + e.valid_up_to()]) // cut in the middle of the next character
    });
    let length = text.ok()?.chars().next()?.len_utf8();
    (rest.get(1 + length) == Some(&b'\'')).then_some(length)
}

/// Whether a byte can stand in a name.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Offsets of `needle` in `text` where it does not continue a longer name on either side.
pub(super) fn words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    let first = needle.as_bytes().first().copied().unwrap_or(b' ');
    let last = needle.as_bytes().last().copied().unwrap_or(b' ');
    text.match_indices(needle).map(|(at, _)| at).filter(move |at| {
        let before = *at > 0 && is_word(bytes[at - 1]) && is_word(first);
        let after = bytes.get(at + needle.len()).is_some_and(|b| is_word(*b)) && is_word(last);
        !before && !after
    })
}

/// Line number of an offset, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|b| **b == b'\n').count() + 1
}

/// Offset of the brace that closes the first `{` at or after `from` in code; the end of the text when none does.
pub(super) fn block_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_comments_are_no_code() {
        let source = "let a = \"un\\\"safe // x\"; // TODO é\nlet c = '\"'; let s: &'a str = r#\"fn \"quoted\"\"#; /* a /* b */ c */ end('\\n', 'é')";
        let views = split(source);
        assert_eq!(views.code.len(), source.len());
        assert_eq!(views.code.lines().count(), 2);
        for absent in ["safe", "TODO", "fn", "quoted", "é", " b ", "\\n"] {
            assert!(!views.code.contains(absent), "{absent} is not code: {}", views.code);
        }
        assert!(views.code.contains("&'a str"));
        assert!(views.code.trim_end().ends_with("end(' ', '  ')") || views.code.contains("end('"));
        assert!(views.comments.contains("TODO é") && !views.comments.contains("let"));
    }

    #[test]
    fn words_do_not_match_inside_names() {
        let found: Vec<usize> = words("unsafe unsafe_op deny(unsafe)", "unsafe").collect();
        assert_eq!(found, [0, 22]);
    }

    #[test]
    fn blocks_end_at_their_own_brace() {
        assert_eq!(block_end("fn a() { { } } fn b() {}", 0), 13);
    }
}
