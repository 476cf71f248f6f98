//! Calls and words that are banned somewhere, each with its replacement.
//!
//! What clippy bans everywhere (unwrap, dbg!, todo!) is not repeated here.

use super::layers::PURE;
use super::lexer::{block_end, line_of, words};
use super::{Source, Violation};

/// Where a ban holds.
enum Where {
    /// Everywhere, tests included.
    All,
    /// Outside tests and examples, in every crate but the binary and xtask: those own the terminal and the exit code.
    Libraries,
    /// Outside tests, in crates without IO and without a clock.
    Pure,
    /// Outside tests, in crates whose output a person or a test compares.
    Ordered,
}

/// A piece of code that must not stand there, and what to do instead.
struct Ban {
    code: &'static str,
    place: Where,
    instead: &'static str,
}

/// Crates that make what is stored, printed or compared.
const ORDERED: &[&str] = &["prony-model", "prony-stats", "prony-diagnose", "prony-record", "prony-report"];

/// Crates that may print and exit.
const TERMINAL: &[&str] = &["prony", "xtask"];

const PRINTS: &str = "only the binary prints: return the value, or send an `Event`";
const CLOCKS: &str = "this crate has no clock: take the time as an argument";
const READS: &str = "this crate does no IO: take the text or the value as an argument";
const ORDER: &str = "its order differs from run to run: use the BTree one, so that output is the same each time";
const HIDDEN: &str = "a test that never runs guards nothing: run it, make it a bench, or say why it is left out with `#[ignore = \"reason\"]`";

#[rustfmt::skip] // one ban per line reads as the table it is
const BANS: &[Ban] = &[
    Ban { code: "println!", place: Where::Libraries, instead: PRINTS },
    Ban { code: "print!", place: Where::Libraries, instead: PRINTS },
    Ban { code: "eprintln!", place: Where::Libraries, instead: PRINTS },
    Ban { code: "eprint!", place: Where::Libraries, instead: PRINTS },
    Ban { code: "process::exit", place: Where::Libraries, instead: "only the binary decides the exit code: return an error" },
    Ban { code: "Instant::now", place: Where::Pure, instead: CLOCKS },
    Ban { code: "SystemTime::now", place: Where::Pure, instead: CLOCKS },
    Ban { code: "thread::sleep", place: Where::Pure, instead: CLOCKS },
    Ban { code: "std::fs", place: Where::Pure, instead: READS },
    Ban { code: "std::net", place: Where::Pure, instead: READS },
    Ban { code: "std::env", place: Where::Pure, instead: READS },
    Ban { code: "std::process", place: Where::Pure, instead: READS },
    Ban { code: "std::thread", place: Where::Pure, instead: "this crate starts no threads: the caller does" },
    Ban { code: "HashMap", place: Where::Ordered, instead: ORDER },
    Ban { code: "HashSet", place: Where::Ordered, instead: ORDER },
    Ban { code: "unimplemented!", place: Where::All, instead: "build it, or do not offer it" },
    Ban { code: "#[ignore]", place: Where::All, instead: HIDDEN },
];

/// Marks of unfinished work, looked for in comments.
const UNFINISHED: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];

/// All rules on calls and words in one Rust file.
pub(super) fn check(source: &Source) -> Vec<Violation> {
    let tests = test_regions(source);
    let mut found = unfinished(source);
    found.extend(unsafe_outside_sys(source));
    for ban in BANS {
        for at in words(&source.views.code, ban.code) {
            let in_test = tests.iter().any(|(from, to)| (*from..=*to).contains(&at));
            if holds(&ban.place, source, in_test) {
                let message = format!("`{}`: {}", ban.code, ban.instead);
                found.push(Violation::new(&source.path, line_of(&source.text, at), message));
            }
        }
    }
    found
}

fn holds(place: &Where, source: &Source, in_test: bool) -> bool {
    let name = source.crate_name();
    match place {
        Where::All => true,
        Where::Libraries => !in_test && source.path.contains("/src/") && !TERMINAL.contains(&name),
        Where::Pure => !in_test && PURE.contains(&name),
        Where::Ordered => !in_test && ORDERED.contains(&name),
    }
}

fn unfinished(source: &Source) -> Vec<Violation> {
    let comments = &source.views.comments;
    let mark = |word: &&'static str| {
        let message = format!("`{word}` in a comment: do it, or open an issue and name it here");
        words(comments, word).map(move |at| Violation::new(&source.path, line_of(comments, at), message.clone()))
    };
    UNFINISHED.iter().flat_map(mark).collect()
}

fn unsafe_outside_sys(source: &Source) -> Vec<Violation> {
    if source.path.split('/').any(|part| part == "sys" || part == "sys.rs") {
        return Vec::new();
    }
    let code = &source.views.code;
    let sys: Vec<_> = words(code, "mod sys {").map(|at| (at, block_end(code, at))).collect();
    words(code, "unsafe")
        .filter(|at| !sys.iter().any(|(from, to)| (*from..=*to).contains(at)))
        .map(|at| {
            let message = "`unsafe` outside a module named `sys`: wrap the call there behind a safe function, with a SAFETY comment";
            Violation::new(&source.path, line_of(code, at), message)
        })
        .collect()
}

/// Offsets of what is only compiled for tests; the whole file when it lies in a `tests` folder or is named `tests.rs`.
fn test_regions(source: &Source) -> Vec<(usize, usize)> {
    if source.path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs")) {
        return vec![(0, source.text.len())];
    }
    let code = &source.views.code;
    let end = |at: usize| {
        let rest = &code[at..];
        let (brace, semicolon) = (rest.find('{'), rest.find(';'));
        match (brace, semicolon) {
            (Some(brace), Some(semicolon)) if semicolon < brace => at + semicolon,
            (Some(brace), _) => block_end(code, at + brace),
            (None, Some(semicolon)) => at + semicolon,
            (None, None) => code.len(),
        }
    };
    code.match_indices("#[cfg(test)]").map(|(at, _)| (at, end(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_ban_finds_its_sample() {
        for ban in BANS {
            let text = format!("//! A.\nfn a() {{ {}(x) }}\n", ban.code);
            let found = messages("crates/prony-diagnose/src/lib.rs", &text);
            assert!(!found.is_empty(), "{} is found in no crate", ban.code);
            assert!(found[0].starts_with("crates/prony-diagnose/src/lib.rs:2: "), "{found:?}");
        }
    }

    #[test]
    fn bans_hold_only_where_they_are_meant() {
        assert_eq!(messages("crates/prony/src/main.rs", "fn a() { println!() }"), [""; 0]);
        assert_eq!(messages("crates/prony-load/src/lib.rs", "fn a() { Instant::now() }"), [""; 0]);
        assert_eq!(messages("crates/prony-load/src/lib.rs", "fn a() { println!() }").len(), 1);
        assert_eq!(
            messages("crates/prony-load/src/lib.rs", "/// println! is \"println!\"\nfn a() { x(\"print!\") }"),
            [""; 0]
        );
    }

    #[test]
    fn tests_may_print_and_read() {
        let text = "#[cfg(test)]\nmod tests {\n    fn a() { println!(); std::fs::read() }\n}\nfn b() { println!() }\n";
        let found = messages("crates/prony-stats/src/lib.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("lib.rs:5:"));
        assert_eq!(messages("crates/prony-stats/tests/a.rs", "fn b() { println!() }"), [""; 0]);
        assert_eq!(messages("crates/prony-stats/examples/a.rs", "fn main() { println!() }"), [""; 0]);
        assert_eq!(messages("crates/prony-stats/src/a.rs", "#[cfg(test)]\nuse x;\nfn b() { println!() }").len(), 1);
    }

    #[test]
    fn unfinished_work_is_found_in_comments_only() {
        for word in UNFINISHED {
            let found = messages("a.rs", &format!("//! A.\n// {word}: later\n"));
            assert!(found[0].starts_with(&format!("a.rs:2: `{word}`")), "{found:?}");
            assert_eq!(messages("a.rs", &format!("const A: &str = \"{word}\";")), [""; 0]);
        }
    }

    #[test]
    fn unsafe_lives_in_sys() {
        let text = "fn a() { unsafe { x() } }\n";
        assert!(messages("crates/prony-load/src/socket.rs", text)[0].contains(":1: `unsafe` outside"));
        assert_eq!(messages("crates/prony-load/src/sys.rs", text), [""; 0]);
        assert_eq!(messages("crates/prony-load/src/sys/epoll.rs", text), [""; 0]);
        assert_eq!(messages("a.rs", "mod sys {\n    fn a() { unsafe { x() } }\n}\n"), [""; 0]);
        assert_eq!(messages("a.rs", "#![deny(unsafe_op_in_unsafe_fn)] // unsafe\n"), [""; 0]);
    }
}
