//! What the keepalive knob makes of configurations as people write them.

use super::*;
use expect_test::{Expect, expect};

fn config(text: &str) -> (tempfile::TempDir, Config) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("nginx.conf"), text).unwrap();
    std::fs::write(
        dir.path().join("proxy_params"),
        "proxy_set_header Host $host;\nproxy_set_header X-Real-IP $remote_addr;\n",
    )
    .unwrap();
    let config = Config::read(&dir.path().join("nginx.conf")).unwrap();
    (dir, config)
}

fn check(text: &str, want: Expect) {
    let (dir, config) = config(text);
    let edits = match turn_on(&config, 64, false) {
        Ok(edits) => edits,
        Err(e) => return want.assert_eq(&e.to_string().replace(dir.path().to_str().unwrap(), "")),
    };
    let files = edits.rewrite(&config);
    assert_eq!(files.len(), 1, "only the main file may change");
    want.assert_eq(std::str::from_utf8(&files[0].new).unwrap());
    std::fs::write(&files[0].path, &files[0].new).unwrap();
    let again = Config::read(&files[0].path).unwrap();
    assert_eq!(present(&again, false).unwrap(), "64");
    assert!(turn_on(&again, 64, false).unwrap().rewrite(&again).is_empty(), "twice is once");
}

#[test]
fn a_plain_proxy() {
    check(
        "http {\n\tupstream b {\n\t\tserver 10.0.0.1;\n\t}\n\tserver {\n\t\tlocation / { # all\n\t\t\tproxy_pass http://b;\n\t\t}\n\t}\n}\n",
        expect![[r#"
            http {
            	upstream b {
            		server 10.0.0.1;
            		keepalive 64;
            	}
            	server {
            		location / { # all
            			proxy_http_version 1.1;
            			proxy_set_header Connection "";
            			proxy_pass http://b;
            		}
            	}
            }
        "#]],
    );
}

#[test]
fn headers_of_an_included_file_and_of_the_server_are_kept() {
    check(
        "http {\n upstream b { server a; keepalive 2; keepalive_requests 5; }\n server {\n  proxy_set_header Host $host;\n  location /a { proxy_pass http://b/x; }\n  location /b {\n   include proxy_params;\n   proxy_http_version 1.0;\n   proxy_pass http://b;\n  }\n }\n}\n",
        expect![[r#"
            http {
             upstream b { server a; keepalive 64; keepalive_requests 1000; }
             server {
              proxy_set_header Host $host;
              location /a { proxy_http_version 1.1; proxy_pass http://b/x; }
              location /b {
               include proxy_params;
               proxy_http_version 1.1;
               proxy_pass http://b;
               proxy_set_header Connection "";
              }
              proxy_set_header Connection "";
             }
            }
        "#]],
    );
}

#[test]
fn passes_within_if_and_websockets() {
    check(
        "http { upstream b { server a; } server { location / {\n if ($x) { proxy_pass http://b; }\n proxy_pass http://b; }\n location /ws { proxy_http_version 1.1; proxy_set_header connection upgrade; proxy_pass http://b; }\n location /c { proxy_set_header Connection close; proxy_pass http://b; } } }\n",
        expect![[r#"
            http { upstream b { server a; keepalive 64; } server { location / {
             if ($x) { proxy_pass http://b; }
             proxy_http_version 1.1;
             proxy_set_header Connection "";
             proxy_pass http://b; }
             location /ws { proxy_http_version 1.1; proxy_set_header connection upgrade; proxy_pass http://b; }
             location /c { proxy_set_header Connection ""; proxy_http_version 1.1; proxy_pass http://b; } } }
        "#]],
    );
}

#[test]
fn what_it_cannot_do_is_said() {
    check(
        "http { server { location / {\nproxy_pass http://10.0.0.1:81/x; } } }",
        expect![
            "/nginx.conf:2: proxy_pass to http://10.0.0.1:81/x uses no upstream block, and only those keep connections; write `upstream backend { server 10.0.0.1:81; }` within http, `proxy_pass` to http://backend, and `proxy_set_header Host 10.0.0.1:81;`"
        ],
    );
    check(
        "http { }",
        expect![
            "no proxy_pass is in nginx's configuration, so it has no upstream; choose the host that passes requests on"
        ],
    );
    check(
        "http { upstream b { server a; } server { location / {\n proxy_set_header Connection $c;\n proxy_pass http://b; } } }",
        expect![
            "/nginx.conf:2: Connection is set to $c, which this knob cannot rewrite; make it empty for requests without Upgrade (map $http_upgrade $c { default upgrade; '' ''; })"
        ],
    );
}

#[test]
fn reading_tells_what_is_in_effect() {
    let (_dir, one) =
        config("http { upstream b { server a; keepalive 8; } server { location / { proxy_pass http://b; } } }");
    assert_eq!(present(&one, false).unwrap(), "off", "keepalive alone does nothing before nginx 1.29.7");
    assert_eq!(present(&one, true).unwrap(), "8");
    assert_eq!(turn_off(&one, true).unwrap().rewrite(&one).len(), 1);
    let (_dir, two) = config(
        "http { proxy_http_version 1.1; proxy_set_header Connection ''; upstream b { server a; keepalive 8; } upstream c { server a; }
         server { location / { proxy_pass http://b; } location /c { proxy_pass http://c; } } }",
    );
    assert_eq!(present(&two, false).unwrap(), "b=8 c=off");
    assert!(parts("1.29.7") >= KEPT_BY_DEFAULT_SINCE && parts("1.22.1") < KEPT_BY_DEFAULT_SINCE);
}
