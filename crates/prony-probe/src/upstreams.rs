//! What the tail of an access log says of upstreams: which were tried, and how often a try failed.
//!
//! For formats that hold `$upstream_addr`, in JSON or as plain text. Keeps no line. Invariant: a line whose status is
//! not understood counts as a try and never as a failure.

use crate::facts::Facts;
use prony_model::metric as m;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;

/// Upstreams that are told apart.
const UPSTREAMS_MAX: usize = 64;
/// Lines from which shares are told. A guess: with fewer, one failure is 5 %.
const LINES_MIN: f64 = 20.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tries {
    all: f64,
    failed: f64,
}

/// Puts what the whole lines of a tail say. Nothing when they name no upstream.
pub(crate) fn put(facts: &mut Facts, tail: &[u8]) {
    let text = String::from_utf8_lossy(tail);
    let mut by_upstream: BTreeMap<SocketAddrV4, Tries> = BTreeMap::new();
    let mut lines = 0.0;
    // The first line may be cut, and the last one too.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for line in whole.lines().skip(1) {
        let tried = addresses(line);
        if tried.is_empty() {
            continue;
        }
        lines += 1.0;
        let failed = status(line).is_some_and(|status| status >= 500);
        for (i, address) in tried.iter().enumerate() {
            if by_upstream.len() >= UPSTREAMS_MAX && !by_upstream.contains_key(address) {
                continue;
            }
            let tries = by_upstream.entry(*address).or_default();
            tries.all += 1.0;
            tries.failed += f64::from(u8::from(failed || i + 1 < tried.len()));
        }
    }
    if lines < LINES_MIN {
        return;
    }
    for (address, tries) in by_upstream {
        let item = address.to_string();
        facts.put(&m::LOOK_UPSTREAM_TRIES, &item, tries.all / lines);
        facts.put(&m::LOOK_UPSTREAM_FAILURES, &item, tries.failed / tries.all);
    }
}

/// `address:port` in order; an address without a port is a client.
fn addresses(line: &str) -> Vec<SocketAddrV4> {
    line.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ':').filter_map(|word| word.parse().ok()).collect()
}

/// `"status":200`, `"status": "200"`, or the number behind `HTTP/1.1"`.
fn status(line: &str) -> Option<u16> {
    let behind = |(_, rest): (&str, &str)| {
        let digits = rest.trim_start_matches([' ', ':', '"', '=']);
        digits.get(..3).and_then(|d| d.parse().ok())
    };
    line.split_once("\"status\"").or_else(|| line.split_once(" HTTP/")?.1.split_once('"')).and_then(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(lines: &[&str]) -> String {
        let mut tail = "cut\n".to_string();
        (0..10).for_each(|_| lines.iter().for_each(|line| tail += &format!("{line}\n")));
        let mut facts = Facts::new("lb", 0);
        put(&mut facts, format!("{tail}half 10.0.0.9:80").as_bytes());
        facts.listing()
    }

    #[test]
    fn tries_and_failures_are_told_by_upstream() {
        let json =
            |status: u16, upstream: &str| format!(r#"{{"addr":"10.0.0.1","status":{status},"upstream":"{upstream}"}}"#);
        let lines = [
            json(200, "10.0.0.3:80"),
            json(200, "10.0.0.4:80, 10.0.0.3:80"),
            json(502, "10.0.0.4:80"),
            json(200, "10.0.0.3:80"),
        ];
        assert_eq!(
            told(&lines.each_ref().map(String::as_str)),
            "look.upstream_tries [10.0.0.3:80] 0.75\nlook.upstream_failures [10.0.0.3:80] 0\n\
             look.upstream_tries [10.0.0.4:80] 0.5\nlook.upstream_failures [10.0.0.4:80] 1\n"
        );
    }

    #[test]
    fn plain_formats_and_logs_without_upstreams() {
        let plain = r#"10.0.0.1 - - [21/Nov/2026:16:00:00 +0000] "GET / HTTP/1.1" 503 0 "-" "curl" 10.0.0.4:80"#;
        let good = plain.replace("503", "200");
        assert!(told(&[plain, &good]).ends_with("look.upstream_failures [10.0.0.4:80] 0.5\n"));
        assert_eq!(told(&[r#"10.0.0.1 - - [21/Nov/2026:16:00:00 +0000] "GET / HTTP/1.1" 200 5"#; 2]), "");
        assert_eq!(told(&[plain]), "", "ten lines are too few");
    }

    proptest! {
        #[test]
        fn no_text_panics(line in "(\"status\"|HTTP/1.1\" |10.0.0.3:80|[0-9:.]|\\PC|\n){0,40}") {
            let _ = (addresses(&line), status(&line));
            put(&mut Facts::new("lb", 0), line.as_bytes());
        }
    }
}
