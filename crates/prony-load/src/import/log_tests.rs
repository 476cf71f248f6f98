//! Tests of access logs.

use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

const REPLAY: Form = Form::Replay { speed: 1.0 };

fn shown(format: &str, log: &[u8], form: Form) -> String {
    let import = match LogFormat::parse(format).and_then(|format| from_log(&mut &log[..], &format, form)) {
        Ok(import) => import,
        Err(error) => return error.to_string(),
    };
    assert_eq!(import.url, None);
    let mut lines: Vec<String> = import.headers.iter().map(|(name, value)| format!("all: {name}: {value}")).collect();
    for (n, request) in import.requests.iter().enumerate() {
        let time = import.times.as_ref().map_or(String::new(), |times| format!(" at {}", times[n]));
        let host = request.headers.get("Host").map_or(String::new(), |host| format!(" to {host}"));
        let method = request.method.as_deref().unwrap_or("GET");
        lines.push(format!("{} x {method} {}{host}{time}", request.weight, request.path));
    }
    lines.extend(import.skipped.iter().map(|skipped| format!("skipped {skipped}")));
    lines.join("\n")
}

fn check(format: &str, log: &str, form: Form, want: Expect) {
    want.assert_eq(&shown(format, log.as_bytes(), form));
}

const COMBINED: &str = r#"10.0.0.1 - - [21/Nov/2026:03:01:02 +0000] "GET /a HTTP/1.1" 200 1 "-" "curl"
10.0.0.1 - - [21/Nov/2026:03:01:02 +0000] "GET /b?x=${y} HTTP/1.1" 404 1 "-" "x \x22y\x22"

10.0.0.2 - - [21/Nov/2026:03:01:04 +0000] "POST /c HTTP/2.0" 200 1 "-" "-"
10.0.0.2 - - [21/Nov/2026:03:01:01 +0000] "GET /a HTTP/1.1" 200 1 "-" "-"
10.0.0.3 - - [21/Nov/2026:03:01:04 +0000] "\x16\x03\x01" 400 157 "-" "-"
10.0.0.3 - - [21/Nov/2026:03:01:04 +0000] "-" 408 0 "-" "-"
10.0.0.3 - - [21/Nov/2026:03:01:04 +0000] "OPTIONS * HTTP/1.0" 200 0 "-" "-"
10.0.0.3 - - [21/Nov/2026:03:01:04 +0000] "GET http://s1/\xC3\xA9 \xE9 HTTP/1.1" 200 0 "-" "-"
"#;

#[test]
fn a_log_becomes_a_mix() {
    check(
        "combined",
        COMBINED,
        Form::Mix,
        expect![[r#"
            2 x GET /a
            1 x GET /b?x=${y}
            1 x POST /c
            1 x GET /%C3%A9%20%E9
            skipped 2 of 9 lines: not of this format; the first is line 6: no request line is in it: `10.0.0.3 - - [21/Nov/2026:03:01:04 +0000] "\x16\x03\x01" 400 157 "-" "-"`
            skipped 1 line: `CONNECT` and `*` name no path
            skipped 1 body of POST, PUT or PATCH: not in a log; the request is sent without"#]],
    );
    check(
        "combined",
        &COMBINED.replace('\n', "\r\n"),
        Form::Mix,
        expect![[r#"
            2 x GET /a
            1 x GET /b?x=${y}
            1 x POST /c
            1 x GET /%C3%A9%20%E9
            skipped 2 of 9 lines: not of this format; the first is line 6: no request line is in it: `10.0.0.3 - - [21/Nov/2026:03:01:04 +0000] "\x16\x03\x01" 400 157 "-" "-"`
            skipped 1 line: `CONNECT` and `*` name no path
            skipped 1 body of POST, PUT or PATCH: not in a log; the request is sent without"#]],
    );
}

#[test]
fn a_log_becomes_a_replay() {
    check(
        "combined",
        COMBINED,
        REPLAY,
        expect![[r#"
            1 x GET /a at 0ns
            1 x GET /a at 1s
            1 x GET /b?x=${y} at 1.5s
            1 x POST /c at 3s
            1 x GET /%C3%A9%20%E9 at 3.5s
            skipped 2 of 9 lines: not of this format; the first is line 6: no request line is in it: `10.0.0.3 - - [21/Nov/2026:03:01:04 +0000] "\x16\x03\x01" 400 157 "-" "-"`
            skipped 1 line: `CONNECT` and `*` name no path
            skipped 1 body of POST, PUT or PATCH: not in a log; the request is sent without
            skipped times within a second: the log tells whole seconds: requests of one second are spread evenly over it"#]],
    );
}

#[test]
fn fields_of_ones_own() {
    let log = "10.500 0.250 POST /a?b s1\n10.250 0.000 GET /c s1\n10.250 - GET /d -\n10.250 0 GET /e bad\"host\n";
    check(
        "$msec $request_time $request_method $request_uri $host",
        log,
        REPLAY,
        expect![[r#"
        1 x GET /c to s1 at 0ns
        1 x GET /d at 0ns
        1 x GET /e at 0ns
        1 x POST /a?b to s1 at 0ns
        skipped 1 body of POST, PUT or PATCH: not in a log; the request is sent without"#]],
    );
    check(
        "$msec $uri $args",
        "1.0 /a x=1\n2.0 /b -\n",
        Form::Mix,
        expect![[r#"
        1 x GET /a?x=1
        1 x GET /b"#]],
    );
    let log = "[21/Nov/2026:03:01:02 +0000] 10.5 /a\n[21/Nov/2026:03:01:02 +0000] 10.75 /b\n";
    check("[$time_local] $msec $request_uri", log, REPLAY, expect!["1 x GET /a at 0ns\n1 x GET /b at 250ms"]);
    let log = "2026-11-21T03:01:02+01:00 s1/a\n2026-11-21T02:01:03+00:00 s1/b\n";
    check(
        "$time_iso8601 $http_host$request_uri",
        log,
        Form::Replay { speed: 4.0 },
        expect![[r#"
        all: Host: s1
        1 x GET /a at 0ns
        1 x GET /b at 250ms
        skipped times within a second: the log tells whole seconds: requests of one second are spread evenly over it"#]],
    );
}

#[test]
fn says_what_is_wrong() {
    check(
        "combined",
        "",
        Form::Mix,
        expect![
            "the access log cannot be taken over: it holds no request; is its format another one (see `log_format` in nginx.conf)?"
        ],
    );
    check(
        "combined",
        "#Fields: date time\nx\n",
        Form::Mix,
        expect![
            "the access log cannot be taken over: 2 of 2 lines: not of this format; the first is line 1: ` [` is missing after `$remote_user`, in `time`: `#Fields: date time`; is its format another one (see `log_format` in nginx.conf)?"
        ],
    );
    check(
        "$request_uri",
        "/a\n",
        REPLAY,
        expect![
            "the access log cannot be taken over: a replay needs a time: its format has none of `$msec`, `$time_local` and `$time_iso8601`"
        ],
    );
    check(
        "$msec $request_uri",
        "soon /a\n",
        REPLAY,
        expect![
            "the access log cannot be taken over: 1 of 1 lines: not of this format; the first is line 1: its time cannot be read: `soon /a`; is its format another one (see `log_format` in nginx.conf)?"
        ],
    );
    check(
        "$msec $request_uri",
        "1.0 /a\n",
        Form::Replay { speed: -1.0 },
        expect!["a replay at speed -1 has no end: write more than 0, like 2 for twice as fast as recorded"],
    );
}

#[test]
fn long_lines_are_bad_lines() {
    let long = format!("/{}\n/b\n/{}", "a".repeat(LINE_BYTES_MAX), "c".repeat(LINE_BYTES_MAX - 1));
    let shown = shown("$request_uri", long.as_bytes(), Form::Mix);
    assert!(shown.starts_with("1 x GET /b\n1 x GET /ccc"), "{}", excerpt(shown.as_bytes()));
    assert!(shown.contains("skipped 1 of 3 lines: not of this format; the first is line 1: it is longer than 16 KiB"));
}

#[test]
fn the_most_frequent_are_kept() {
    let mut log = "/often\n".repeat(30);
    (0..MIX_REQUESTS_MAX + 70).for_each(|n| log.push_str(&format!("/{n}\n")));
    let format = LogFormat::parse("$request_uri").unwrap();
    let import = from_log(&mut log.as_bytes(), &format, Form::Mix).unwrap();
    assert_eq!(import.requests.len(), MIX_REQUESTS_MAX);
    assert_eq!((import.requests[0].path.as_str(), import.requests[0].weight), ("/often", 30.0));
    assert_eq!(import.skipped, ["71 requests (0.70 %): not among the 10000 most frequent"]);
}

/// Gives one byte at a time, as a slow pipe does.
struct Trickle<'a>(&'a [u8]);

impl io::Read for Trickle<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = into.len().min(1);
        io::Read::read(&mut self.0, &mut into[..count])
    }
}

proptest! {
    #[test]
    fn lines_come_back_however_they_arrive(lines in proptest::collection::vec("[a-c \r]{0,5}", 0..9), ended: bool) {
        let text = lines.join("\n") + if ended && !lines.is_empty() { "\n" } else { "" };
        let mut want: Vec<&str> = text.split('\n').collect();
        if want.last() == Some(&"") {
            want.pop();
        }
        let (mut reader, mut line, mut seen) = (io::BufReader::new(Trickle(text.as_bytes())), Vec::new(), Vec::new());
        while next_line(&mut reader, &mut line).unwrap() {
            seen.push(String::from_utf8(line.clone()).unwrap());
        }
        prop_assert_eq!(seen, want);
    }

    /// As nginx writes it with `escape=default`, read as it was asked.
    #[test]
    fn requests_come_back(method in "[A-Z]{1,7}", path in proptest::collection::vec(any::<u8>(), 0..20)) {
        prop_assume!(method != "CONNECT");
        let escape = |b: &u8| match b {
            b'"' | b'\\' | 0..=31 | 127..=255 => format!("\\x{b:02X}"),
            _ => char::from(*b).to_string(),
        };
        let written: String = path.iter().map(escape).collect();
        let line = format!("::1 - - [21/Nov/2026:03:01:02 +0000] \"{method} /{written} HTTP/1.1\" 200 5 \"-\" \"-\"\n");
        let import = from_log(&mut line.as_bytes(), &LogFormat::common(), REPLAY).unwrap();
        let request = &import.requests[0];
        prop_assert_eq!(request.method.as_deref().unwrap_or("GET"), method);
        prop_assert_eq!(&request.path, &encoded(&[b"/", &path[..]].concat()));
    }

    #[test]
    fn no_log_panics(log in "[\\PC\n]{0,200}", speed: f64) {
        for format in ["common", "$msec $request_uri", "$time_local|$request|$request_time|$host"] {
            let format = LogFormat::parse(format).unwrap();
            let _ = from_log(&mut log.as_bytes(), &format, Form::Mix);
            let _ = from_log(&mut log.as_bytes(), &format, Form::Replay { speed });
        }
    }
}
