//! Tests of log formats: lines come back as the values that they were made of.

use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

const KNOWN: [(&str, Field); 10] = [
    ("request", Field::Request),
    ("method", Field::Method),
    ("request_uri", Field::RequestUri),
    ("uri", Field::Uri),
    ("args", Field::Args),
    ("host", Field::Host),
    ("time_local", Field::TimeLocal),
    ("time_iso8601", Field::TimeIso),
    ("msec", Field::Msec),
    ("request_time", Field::RequestTime),
];

fn check(format: &str, line: &str, want: Expect) {
    let shown = match LogFormat::parse(format) {
        Ok(format) => match format.values(line.as_bytes()) {
            Ok(values) => {
                let value = |(name, field): &(&str, Field)| {
                    values.get(*field).map(|value| format!("{name} <{}>", String::from_utf8_lossy(value)))
                };
                KNOWN.iter().filter_map(value).collect::<Vec<_>>().join(" ")
            }
            Err(why) => why,
        },
        Err(error) => error.to_string(),
    };
    want.assert_eq(&shown);
}

#[test]
fn common_and_all_that_begin_like_it() {
    let line = r#"10.0.0.1 - bob [21/Nov/2026:03:01:02 +0000] "GET /a b HTTP/1.1" 200 12"#;
    check("common", line, expect!["request <GET /a b HTTP/1.1> time_local <21/Nov/2026:03:01:02 +0000>"]);
    check(
        "combined",
        &format!("{line} \"-\" \"curl/7 \\\"x\\\"\" 0.004"),
        expect!["request <GET /a b HTTP/1.1> time_local <21/Nov/2026:03:01:02 +0000>"],
    );
    check(
        "combined",
        r#"::1 - - [t] "GET /\"q\" HTTP/1.1" 404 0"#,
        expect![[r#"request <GET /\"q\" HTTP/1.1> time_local <t>"#]],
    );
    check("combined", "10.0.0.1 GET /", expect!["` [` is missing after `$remote_user`, in `/`"]);
    check("combined", "", expect!["` ` is missing after `$remote_addr`, in ``"]);
}

#[test]
fn formats_of_ones_own() {
    check(
        "$remote_addr $upstream_addr $upstream_response_time $host$request_uri $msec",
        "10.0.0.1 10.0.0.2:80, 10.0.0.3:80 : 10.0.0.4:80 0.001, 0.002 : 0.003 shop.test/a?b=c 1.250",
        expect!["request_uri </a?b=c> host <shop.test> msec <1.250>"],
    );
    check(
        "$request_method $uri$is_args$args $request_time",
        "PUT /a?b 0.5",
        expect!["method <PUT> uri </a?b> request_time <0.5>"],
    );
    check("${request_method}|$uri?$args|", "GET|/a?-|", expect!["method <GET> uri </a>"]);
    check(
        r#"{"t":"$time_iso8601","r":"$request","ua":"$http_user_agent"}"#,
        r#"{"t":"2026-11-21T03:01:02+00:00","r":"GET /\"a\\\" HTTP/1.1","ua":"x\"y"}"#,
        expect![[r#"request <GET /\"a\\\" HTTP/1.1> time_iso8601 <2026-11-21T03:01:02+00:00>"#]],
    );
    check(
        "log_format  main escape=json '$request_method \"$request_uri\"'\n    \" it\\'s $host\";",
        "GET \"/a\" it's s1",
        expect!["method <GET> request_uri </a> host <s1>"],
    );
    check("$request_uri;", "/a;b", expect!["`b` follows its end"]);
    check("$request_uri $uri $request_uri", "/a /b /c", expect!["request_uri </a> uri </b>"]);
}

#[test]
fn says_what_is_wrong() {
    check(
        "$remote_addr",
        "",
        expect![
            "the log format cannot be used: no variable tells the path: it needs `$request`, `$request_uri` or `$uri`"
        ],
    );
    check(
        "$request_uri$status",
        "",
        expect![
            "the log format cannot be used: nothing stands between `$request_uri` and `$status`, so nobody can tell them apart"
        ],
    );
    check("log_format main '$request", "", expect!["the log format cannot be used: the quote `'` is not closed"]);
    check(
        "log_format main;",
        "",
        expect!["the log format cannot be used: `log_format` needs a name and a format behind it"],
    );
    check("$request_uri ($status)", "/a 200", expect!["` (` is missing after `$request_uri`, in `/a 200`"]);
    check("$host$request_uri", "s1", expect!["`$request_uri` is missing after `$host`, in `s1`"]);
    check("[$request_uri]", "/a", expect!["`[` is missing at its beginning, in `/a`"]);
}

#[test]
fn undoes_what_servers_escape() {
    let check = |text: &str, want: &str| assert_eq!(String::from_utf8_lossy(&unescaped(text.as_bytes())), want);
    check(r"/a", "/a");
    check(r"\x22\xC3\xA9\\\/\n\u0009", "\"\u{e9}\\/\n\t");
    check(r"\x2 \u20ac \q \", r"\x2 \u20ac \q \");
}

proptest! {
    #[test]
    fn values_come_back(
        parts in proptest::collection::vec((0usize..6, "[ |,\"\\[\\]{}:-]{1,3}", "[a-z0-9/.]{0,8}"), 1..8),
    ) {
        let names = ["remote_addr", "status", "host", "time_local", "request_time", "bytes_sent"];
        let mut format = "$request_uri".to_string();
        let mut line = "/path".to_string();
        for (name, between, value) in &parts {
            format.push_str(&format!("{between}${{{}}}", names[*name]));
            line.push_str(&format!("{between}{value}"));
        }
        let format = LogFormat::parse(&format).unwrap();
        let values = format.values(line.as_bytes()).unwrap();
        prop_assert_eq!(values.get(Field::RequestUri), Some(&b"/path"[..]));
        for (wanted, field) in [(2, Field::Host), (3, Field::TimeLocal), (4, Field::RequestTime)] {
            let first = parts.iter().find(|(name, _, _)| *name == wanted).map(|(_, _, value)| value.as_bytes());
            prop_assert_eq!(values.get(field), first.filter(|value| !value.is_empty()));
        }
    }

    #[test]
    fn no_text_panics(format in "[$a-z{}_ \"'\\\\;]{0,30}", line in "\\PC{0,30}") {
        for format in [format!("$request_uri {format}"), format!("log_format {format}"), format] {
            if let Ok(format) = LogFormat::parse(&format) {
                let _ = format.values(line.as_bytes());
            }
        }
    }

    #[test]
    fn no_escape_panics(text in "[\\\\xu0-9a-f\"n]{0,20}") {
        let _ = unescaped(text.as_bytes());
    }
}
