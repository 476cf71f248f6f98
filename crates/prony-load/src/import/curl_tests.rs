//! Tests of curl commands: as people type them, and as browsers copy them.

use super::*;
use expect_test::{Expect, expect};
use proptest::prelude::*;

fn read(path: &str) -> io::Result<Vec<u8>> {
    match path {
        "body.json" => Ok(b"{\r\n \"a\": 1\n}\n".to_vec()),
        "headers" => Ok(b"X-A: 1\nX-B: 2\n".to_vec()),
        "both.pem" => Ok(b"-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n".to_vec()),
        "ca.pem" => Ok(b"-----BEGIN CERTIFICATE-----\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn shown(command: &str) -> String {
    let import = match from_curl(command, &read) {
        Ok(import) => import,
        Err(error) => return error.to_string(),
    };
    let mut lines = vec![format!("{} {}", import.method, import.url.unwrap())];
    lines.extend(import.headers.iter().map(|(name, value)| format!("{name}: {value}")));
    if !import.body.is_empty() {
        lines.push(format!("body {}", excerpt(&import.body)));
    }
    lines.extend(import.protocol.map(|protocol| format!("protocol {protocol:?}")));
    lines.extend(import.timeout.map(|timeout| format!("timeout {timeout}")));
    lines.extend(import.connect_to.iter().map(|there| format!("to {there}")));
    if import.tls != TlsPlan::default() {
        let TlsPlan { insecure, ca_pem, certificate_pem, key_pem, .. } = import.tls;
        let there = [ca_pem.is_some(), certificate_pem.is_some(), key_pem.is_some()];
        lines.push(format!("insecure {insecure}; authority, certificate, key {there:?}"));
    }
    lines.extend(import.skipped.iter().map(|skipped| format!("skipped {skipped}")));
    lines.join("\n")
}

fn check(command: &str, want: Expect) {
    want.assert_eq(&shown(command));
}

#[test]
fn what_people_type() {
    check("curl example.test", expect!["GET http://example.test"]);
    check(
        "$ curl -sSL -o /dev/null -w '%{http_code}' http://10.0.0.1:8080/a?b=c#d",
        expect![[r#"
            GET http://10.0.0.1:8080/a?b=c
            skipped `-L`: redirects are not followed: load the address that they lead to
            skipped `-s`, `-S`, `-o`, `-w`: only curl itself does something with that"#]],
    );
    check(
        "curl -XPUT -HX-A:1 -H 'X-Empty;' -H @headers -d a=1 -d b=2 http://s1/x",
        expect![[r#"
            PUT http://s1/x
            X-A: 1
            X-Empty: 
            X-A: 1
            X-B: 2
            Content-Type: application/x-www-form-urlencoded
            body a=1&b=2"#]],
    );
    check("curl -I http://s1/", expect!["HEAD http://s1/"]);
    check("curl -g 'http://s1/${x}[1-3]'", expect!["GET http://s1/$${x}[1-3]"]);
    check(
        "curl -kum:s --http2 -A me -e from;auto -b a=1 -b 'b=2; ' -r 0-99 -m 1.5 https://s1/ --compressed"
            .replace("from;auto", "'from;auto'")
            .as_str(),
        expect![[r#"
            GET https://s1/
            Authorization: Basic bTpz
            User-Agent: me
            Referer: from
            Range: bytes=0-99
            Accept-Encoding: deflate, gzip, br, zstd
            Cookie: a=1;b=2
            protocol Http2
            timeout 1.5s
            insecure true; authority, certificate, key [false, false, false]"#]],
    );
    check(
        "curl http://us%40er:pw@s1/ -H 'Accept:' -H 'Host: other' -H 'Connection: close'",
        expect![[r#"
            GET http://s1/
            Host: other
            Authorization: Basic dXNAZXI6cHc=
            skipped header `Connection`: made anew for each connection"#]],
    );
}

#[test]
fn data_of_every_kind() {
    check(
        "curl -d @body.json --data-binary @body.json --data-raw @x s1",
        expect![[r#"
            POST http://s1
            Content-Type: application/x-www-form-urlencoded
            body { "a": 1}&{\r\n "a": 1\n}\n&@x"#]],
    );
    check(
        "curl --json '{\"a\":' --json '1}' -H 'accept: text/plain' s1",
        expect![[r#"
            POST http://s1
            accept: text/plain
            Content-Type: application/json
            body {"a":1}"#]],
    );
    check(
        "curl -G --data-urlencode 'q=a b&c' --data-urlencode =x/y -d 'z=1 2' --url-query k=v 's1/s?p'",
        expect!["GET http://s1/s?p&q=a+b%26c&x%2Fy&z=1%202&k=v"],
    );
    check(
        "curl --data-urlencode n@body.json s1",
        expect![[r#"
            POST http://s1
            Content-Type: application/x-www-form-urlencoded
            body n=%7B%0D%0A+%22a%22%3A+1%0A%7D%0A"#]],
    );
}

#[test]
fn where_connections_go() {
    check(
        "curl --connect-to ::10.0.0.9: http://s1:81/",
        expect![[r#"
            GET http://s1:81/
            to 10.0.0.9:81"#]],
    );
    check(
        "curl --connect-to S1:443:[::1]:444 --connect-to other:1:x:2 https://s1/",
        expect![[r#"
            GET https://s1/
            to [::1]:444
            skipped `--connect-to other:1:x:2`: it is for another host or port, or not the first"#]],
    );
    check(
        "curl --resolve s1:80:10.0.0.1,::2,[::3] --resolve s2:80:10.0.0.4 http://s1/",
        expect![[r#"
            GET http://s1/
            to 10.0.0.1:80
            to [::2]:80
            to [::3]:80
            skipped `--resolve s2:80:10.0.0.4`: it is for another host or port"#]],
    );
    check(
        "curl --unix-socket /run/a.sock http://s1/",
        expect![[r#"
            GET http://s1/
            to unix:/run/a.sock"#]],
    );
    check(
        "curl --cacert ca.pem -E both.pem https://s1/",
        expect![[r#"
            GET https://s1/
            insecure false; authority, certificate, key [true, true, true]"#]],
    );
}

#[test]
fn what_browsers_copy() {
    // In the style of Chrome 129: everything that needs it in $'...', cookies by -b.
    check(
        r#"curl 'https://shop.test/api/cart?id=7' \
  -X 'PATCH' \
  -H 'accept: */*' \
  -H 'accept-language: en-GB,en;q=0.9' \
  -b 'session=abc; theme=dark' \
  -H 'content-type: application/json' \
  -H 'sec-ch-ua: "Chromium";v="129", "Not=A?Brand";v="8"' \
  --data-raw $'{"note":"it\'s 5\u0021","n":1}' ;
"#,
        expect![[r#"
            PATCH https://shop.test/api/cart?id=7
            accept: */*
            accept-language: en-GB,en;q=0.9
            content-type: application/json
            sec-ch-ua: "Chromium";v="129", "Not=A?Brand";v="8"
            Cookie: session=abc; theme=dark
            body {"note":"it's 5!","n":1}"#]],
    );
    // In the style of Chrome 100: pseudo headers without their colon.
    check(
        r#"curl 'https://shop.test/' -H 'authority: shop.test' -H 'cookie: a=b' --compressed"#,
        expect![[r#"
            GET https://shop.test/
            cookie: a=b
            Accept-Encoding: deflate, gzip, br, zstd
            skipped header `authority`: made anew for each connection"#]],
    );
    // In the style of Firefox 130.
    check(
        r#"curl 'https://shop.test/login' --compressed -X POST -H 'User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:130.0)' -H 'Accept-Encoding: gzip, deflate, br, zstd' -H 'Connection: keep-alive' -H 'TE: trailers' --data-raw 'user=me&password=%24%7Bx%7D${x}'"#,
        expect![[r#"
            POST https://shop.test/login
            User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:130.0)
            Accept-Encoding: gzip, deflate, br, zstd
            Content-Type: application/x-www-form-urlencoded
            body user=me&password=%24%7Bx%7D${x}
            skipped header `Connection`, `TE`: made anew for each connection"#]],
    );
    check(
        "curl ^\"https://shop.test/^\" ^\n -H ^\"a: b^\"",
        expect![[
            r#"the curl command cannot be taken over: this is the form for Windows: choose "Copy as cURL (bash)" in the browser"#
        ]],
    );
}

#[test]
fn says_what_cannot_be_taken_over() {
    for (command, want) in [
        ("", expect!["the curl command cannot be taken over: it is empty: write it as `curl URL`"]),
        (
            "wget http://s1",
            expect![
                "the curl command cannot be taken over: it begins with `wget` and not with `curl`: write it as `curl URL`, in quotes"
            ],
        ),
        ("curl -s", expect!["the curl command cannot be taken over: it has no URL: write it as `curl URL`, in quotes"]),
        (
            "curl -A $'a\\nB: c' http://s1",
            expect![[
                r#"the curl command cannot be taken over: `User-Agent: a\nB: c` holds a line end, which would end the header"#
            ]],
        ),
        (
            "curl http://s1 http://s2",
            expect![
                "the curl command cannot be taken over: it has two URLs, `http://s1` and `http://s2`: take over one at a time (or is a quote missing?)"
            ],
        ),
        (
            "curl --requets GET http://s1",
            expect!["the curl command cannot be taken over: `--requets` is not known: did you mean `--request`?"],
        ),
        (
            "curl http://s1 -X",
            expect!["the curl command cannot be taken over: `-X` needs a value, and the command ends there"],
        ),
        (
            "curl -F a=@b http://s1",
            expect![
                "the curl command cannot be taken over: `-F`: forms of several parts are not made here: send one with `curl --trace-ascii -`, save its body, and write `--data-binary @FILE` with `-H 'Content-Type: multipart/form-data; boundary=...'`"
            ],
        ),
        (
            "curl -u me http://s1",
            expect![
                "the curl command cannot be taken over: `-u me`: curl would ask for the password: write `-u me:PASSWORD`"
            ],
        ),
        (
            "curl -b jar.txt http://s1",
            expect![
                "the curl command cannot be taken over: `-b jar.txt`: files of cookies are not read: write `-b 'name=value; name=value'`"
            ],
        ),
        (
            "curl -d @- http://s1",
            expect![
                "the curl command cannot be taken over: `-d @-`: standard input is not read: write the content into a file"
            ],
        ),
    ] {
        check(command, want);
    }
}

#[test]
fn says_what_is_wrong_with_a_value() {
    for (command, want) in [
        (
            "curl -d @gone http://s1",
            expect!["gone cannot be read (entity not found): check the path, relative to the folder that you are in"],
        ),
        (
            "curl ftp://s1/",
            expect!["the curl command cannot be taken over: `ftp://s1/`: only `http://` and `https://` are spoken"],
        ),
        (
            "curl 'http://s1/[1-3]'",
            expect![
                "the curl command cannot be taken over: curl makes several URLs of `{` and `[`: write one URL, or add `-g` when they are part of it"
            ],
        ),
        (
            "curl -I -d x http://s1",
            expect![
                "the curl command cannot be taken over: `-I` and data exclude each other: add `-G` to put the data into the query, or leave one out"
            ],
        ),
        (
            "curl -m soon http://s1",
            expect!["the curl command cannot be taken over: `-m soon` is not a number of seconds"],
        ),
        (
            "curl -H 'Upgrade: websocket' http://s1",
            expect![
                "the curl command cannot be taken over: `-H 'Upgrade: ...'` asks for another protocol than HTTP, such as WebSocket: it is not spoken"
            ],
        ),
        (
            "curl --connect-to a:b http://s1",
            expect![
                "the curl command cannot be taken over: `--connect-to a:b`: write HOST1:PORT1:HOST2:PORT2, where each may be empty"
            ],
        ),
        (
            "curl --cacert body.json https://s1",
            expect![
                "the curl command cannot be taken over: `--cacert body.json`: it is no PEM file: convert it with `openssl`"
            ],
        ),
        (
            "curl http://s1:x/",
            expect![
                "the curl command cannot be taken over: `http://s1:x/` is not a URL that prony can load: `x` is not a port from 1 to 65535; write it like `http://10.77.0.2:8080/1k`"
            ],
        ),
    ] {
        check(command, want);
    }
}

proptest! {
    #[test]
    fn no_command_panics(words in proptest::collection::vec(
        prop_oneof![
            "-{0,2}[a-zA-Z]{1,3}",
            (0..curl_flags::FLAGS.len()).prop_map(|flag| format!("--{}", curl_flags::FLAGS[flag].long)),
            "[-@=:/a\\[\\]{}%?&# ]{0,12}".prop_map(|text| format!("'{text}'")),
            Just("http://s1/".to_string()),
            Just("body.json".to_string()),
        ],
        0..8,
    )) {
        let _ = from_curl(&format!("curl {}", words.join(" ")), &read);
    }
}
