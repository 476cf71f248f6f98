//! Splits a command into words as bash does: quotes, backslashes, `$'...'`, continued lines.
//!
//! It runs nothing and fills in no variables: what only a shell could do is an error that says so. Invariant: words
//! are the very bytes that the shell would hand to the command.

/// Words of one command; an empty text has none.
///
/// # Errors
/// A sentence that says what stands in the text and what would be right.
pub(super) fn split(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut text = Text { rest: text.as_bytes() };
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    while let Some(byte) = text.next() {
        match byte {
            b' ' | b'\t' | b'\r' => words.extend(word.take()),
            b'\n' if words.is_empty() && word.is_none() => {}
            b'\n' | b';' | b'&' if text.is_blank() => break,
            b'\n' => return Err("a second line follows: end the lines before it with `\\`, or give one command".into()),
            b'|' | b'&' | b';' | b'<' | b'>' | b'(' | b')' => return Err(operator(byte)),
            b'`' => return Err(substitution("`")),
            b'\'' => text.single_quoted(word.get_or_insert_default())?,
            b'"' => text.double_quoted(word.get_or_insert_default())?,
            b'$' => text.dollar(word.get_or_insert_default())?,
            b'\\' => text.backslash(&mut word),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Ok(words)
}

/// What is left to read.
struct Text<'a> {
    rest: &'a [u8],
}

impl Text<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Takes `what` if it comes next.
    fn take(&mut self, what: &[u8]) -> bool {
        let after = self.rest.strip_prefix(what);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Whether no further command follows.
    fn is_blank(&self) -> bool {
        self.rest.iter().all(|b| b.is_ascii_whitespace() || matches!(b, b';' | b'&'))
    }

    /// Outside quotes; a line that goes on makes no word.
    fn backslash(&mut self, word: &mut Option<Vec<u8>>) {
        if !self.take(b"\r\n") && !self.take(b"\n") {
            word.get_or_insert_default().extend(self.next());
        }
    }

    fn single_quoted(&mut self, word: &mut Vec<u8>) -> Result<(), String> {
        loop {
            match self.next() {
                Some(b'\'') => return Ok(()),
                Some(byte) => word.push(byte),
                None => return Err(unclosed("'")),
            }
        }
    }

    fn double_quoted(&mut self, word: &mut Vec<u8>) -> Result<(), String> {
        loop {
            match self.next() {
                Some(b'"') => return Ok(()),
                Some(b'`') => return Err(substitution("`")),
                Some(b'$') if self.begins_variable() => return Err(self.variable()),
                Some(b'\\') => match self.rest.first() {
                    Some(b'$' | b'`' | b'"' | b'\\') => word.extend(self.next()),
                    Some(b'\n') => _ = self.next(),
                    _ => word.push(b'\\'),
                },
                Some(byte) => word.push(byte),
                None => return Err(unclosed("\"")),
            }
        }
    }

    /// After a `$` outside quotes.
    fn dollar(&mut self, word: &mut Vec<u8>) -> Result<(), String> {
        if self.take(b"'") {
            self.ansi_c_quoted(word)
        } else if self.take(b"\"") {
            self.double_quoted(word)
        } else if self.begins_variable() {
            Err(self.variable())
        } else {
            word.push(b'$');
            Ok(())
        }
    }

    fn begins_variable(&self) -> bool {
        self.rest.first().is_some_and(|b| b.is_ascii_alphanumeric() || b"_{(?$!#@*-".contains(b))
    }

    fn variable(&self) -> String {
        let name = self.rest.iter().take_while(|b| b.is_ascii_alphanumeric() || b"_{(".contains(b)).take(40);
        let name: String = name.map(|b| char::from(*b)).collect();
        substitution(&format!("${name}"))
    }

    /// Within `$'...'` (bash(1), QUOTING): what Chrome and Firefox write as soon as a text holds a quote or a special
    /// character.
    fn ansi_c_quoted(&mut self, word: &mut Vec<u8>) -> Result<(), String> {
        loop {
            match self.next() {
                Some(b'\'') => return Ok(()),
                Some(b'\\') => self.ansi_c_escape(word)?,
                Some(byte) => word.push(byte),
                None => return Err(unclosed("$'")),
            }
        }
    }

    fn ansi_c_escape(&mut self, word: &mut Vec<u8>) -> Result<(), String> {
        let from = self.rest;
        let kind = self.next().ok_or_else(|| unclosed("$'"))?;
        let byte = match kind {
            b'\\' | b'\'' | b'"' | b'?' => kind,
            b'a' => 0x07,
            b'b' => 0x08,
            b'e' | b'E' => 0x1b,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 0x0b,
            b'c' => self.next().ok_or_else(|| unclosed("$'"))? & 0x1f,
            b'0'..=b'7' => {
                self.rest = from;
                self.digits(8, 3).map_or(0, |value| value as u8) // bash keeps the low byte
            }
            b'x' | b'u' | b'U' => return self.hexadecimal(kind, word),
            _ => {
                word.extend([b'\\', kind]);
                return Ok(());
            }
        };
        if byte == 0 {
            return Err(zero_byte());
        }
        word.push(byte);
        Ok(())
    }

    /// `\xHH` is a byte, `\uHHHH` and `\UHHHHHHHH` a character; two halves of a UTF-16 pair, as old Chrome wrote, are
    /// one.
    fn hexadecimal(&mut self, kind: u8, word: &mut Vec<u8>) -> Result<(), String> {
        let most = match kind {
            b'x' => 2,
            b'u' => 4,
            _ => 8,
        };
        let Some(mut code) = self.digits(16, most) else {
            word.extend([b'\\', kind]);
            return Ok(());
        };
        if code == 0 {
            return Err(zero_byte());
        }
        if kind == b'x' {
            word.push(code as u8);
            return Ok(());
        }
        if (0xd800..0xdc00).contains(&code) && self.take(b"\\u") {
            let low = self.digits(16, 4).unwrap_or(0);
            code =
                if (0xdc00..0xe000).contains(&low) { 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) } else { code };
        }
        let c = char::from_u32(code).ok_or_else(|| format!("`\\u{code:x}` is no character: correct it"))?;
        word.extend(c.encode_utf8(&mut [0; 4]).bytes());
        Ok(())
    }

    /// The value of up to `most` digits; none when there is none.
    fn digits(&mut self, base: u32, most: usize) -> Option<u32> {
        let digit = |byte: &u8| char::from(*byte).to_digit(base);
        let count = self.rest.iter().take(most).take_while(|byte| digit(byte).is_some()).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        (count > 0).then(|| digits.iter().filter_map(digit).fold(0u32, |sum, d| sum.wrapping_mul(base).wrapping_add(d)))
    }
}

fn unclosed(quote: &str) -> String {
    format!("the quote `{quote}` is not closed: was the end of the command cut off?")
}

fn zero_byte() -> String {
    "it holds a zero byte, which no command line can: put the body into a file and write `--data-binary @FILE`"
        .to_string()
}

fn operator(byte: u8) -> String {
    let c = char::from(byte);
    format!("`{c}` outside quotes is for a shell: put the text around it in quotes, or give the curl command alone")
}

fn substitution(seen: &str) -> String {
    format!("a shell would fill in `{seen}`, and there is none here: write its value, or put it in single quotes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(text: &str, want: Expect) {
        want.assert_eq(&match split(text) {
            Ok(words) => words.iter().map(|w| format!("<{}>", String::from_utf8_lossy(w))).collect(),
            Err(error) => error,
        });
    }

    #[test]
    fn splits_as_a_shell_does() {
        check("curl  'a b'\t\"c d\"e f\\ g", expect!["<curl><a b><c de><f g>"]);
        check("curl '' \"\" x''y", expect!["<curl><><><xy>"]);
        check("\ncurl \\\n  -k \\\r\n  x;\n", expect!["<curl><-k><x>"]);
        check(r#"'a\b' "a\b\"\$\\" a\b"#, expect![[r#"<a\b><a\b"$\><ab>"#]]);
        check("'it'\\''s' \"it's\" a$ $", expect!["<it's><it's><a$><$>"]);
        check("", expect![""]);
    }

    #[test]
    fn reads_what_browsers_quote() {
        check(r"$'it\'s \u00e9\u0021 \x41\101\t\\ \q'", expect!["<it's é! AA\t\\ \\q>"]);
        check(r"$'\ud83d\ude00 \U0001f600'", expect!["<😀 😀>"]);
        assert_eq!(split(r"$'\xe9\351\0351'").unwrap(), [b"\xe9\xe9\x1d1".to_vec()]);
    }

    #[test]
    fn says_what_only_a_shell_could_do() {
        check("curl 'a", expect!["the quote `'` is not closed: was the end of the command cut off?"]);
        check(
            "curl http://a/?x=1&y=2",
            expect![
                "`&` outside quotes is for a shell: put the text around it in quotes, or give the curl command alone"
            ],
        );
        check(
            "curl -H \"X: $TOKEN\" a",
            expect![
                "a shell would fill in `$TOKEN`, and there is none here: write its value, or put it in single quotes"
            ],
        );
        check(
            "curl $(cat x)",
            expect![
                "a shell would fill in `$(cat`, and there is none here: write its value, or put it in single quotes"
            ],
        );
        check(
            "curl a\ncurl b",
            expect!["a second line follows: end the lines before it with `\\`, or give one command"],
        );
        check(
            r"$'\0'",
            expect![
                "it holds a zero byte, which no command line can: put the body into a file and write `--data-binary @FILE`"
            ],
        );
        check(r"$'\ud800x'", expect![[r"`\ud800` is no character: correct it"]]);
    }

    /// Quotes a word in one of four ways.
    fn quote(word: &[u8], way: u8) -> String {
        let escaped: String = word.iter().map(|b| format!("\\x{b:02x}")).collect();
        let Ok(text) = std::str::from_utf8(word) else { return format!("$'{escaped}'") };
        match way {
            0 => format!("'{}'", text.replace('\'', r"'\''")),
            1 => {
                let special = |c: char| if "\\\"$`".contains(c) { format!("\\{c}") } else { c.to_string() };
                format!("\"{}\"", text.chars().map(special).collect::<String>())
            }
            2 => format!("$'{escaped}'"),
            _ => {
                let bare = |c: char| if c == '\n' { "'\n'".to_string() } else { format!("\\{c}") };
                let all: String = text.chars().map(bare).collect();
                if all.is_empty() { "''".to_string() } else { all }
            }
        }
    }

    proptest! {
        #[test]
        fn words_come_back(
            words in proptest::collection::vec((proptest::collection::vec(1u8..=255, 0..12), 0u8..4), 0..6),
        ) {
            let text: Vec<String> = words.iter().map(|(word, way)| quote(word, *way)).collect();
            let want: Vec<Vec<u8>> = words.into_iter().map(|(word, _)| word).collect();
            prop_assert_eq!(split(&text.join(" \\\n ")), Ok(want));
        }

        #[test]
        fn no_text_panics(text in "[\\\\'\"$`xuU0-9a-f \n|&{(]{0,40}") {
            let _ = split(&text);
        }
    }
}
