//! A real server: who is let in, what is refused, what is seen live, and what is left when it ends.

#![allow(clippy::unwrap_used, reason = "a test may stop at what cannot be")]

mod serving;

use prony_model::{Event, LoadPlan, LoadResult, Purpose, Run, RunEnd, Stack, Trial, Window};
use prony_record::Writer;
use prony_web::{Server, Settings, Tls, Token, WebError};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use serving::{PATIENCE, Serving, answer, recorded, settings};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RUN: &str = "upstream-keepalive-off.lb.prony";

#[test]
fn pages_and_metrics_are_served_and_kept_to_themselves() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path(), &[RUN]);
    let serving = Serving::begin(settings(folder.path()), None);
    for place in [
        "/",
        "/runs/20261120-231501-7f3a",
        "/compare?runs=a,b",
        "/history?stack=x",
        "/experiments",
        "/jobs/x",
        "/stacks",
    ] {
        let page = serving.get(place);
        assert!(page.code == 200 && page.body.contains("/assets/serve.js"), "{place}: {page:?}");
        assert!(page.has("content-security-policy: default-src 'none'; script-src 'self'"), "{page:?}");
        assert!(page.has("x-content-type-options: nosniff") && page.has("content-type: text/html"), "{page:?}");
    }
    for (asset, kind) in [("/assets/serve.js", "text/javascript"), ("/assets/serve.css", "text/css")] {
        let seen = serving.get(asset);
        assert!(seen.code == 200 && seen.has(kind), "{asset}: {}", seen.head);
        let tag = seen.head.lines().find(|line| line.to_lowercase().starts_with("etag: ")).unwrap()[6..].to_string();
        let head =
            format!("GET {asset} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nIf-None-Match: {tag}\r\n\r\n");
        assert_eq!(serving.raw(&head).code, 304, "{asset}");
    }
    let metrics = serving.get("/metrics");
    assert!(metrics.has("text/plain; version=0.0.4"), "{}", metrics.head);
    for line in
        ["prony_runs{end=\"done\"} 1\n", "prony_run_good_requests_per_second{stack=\"", "prony_run_cause{stack=\""]
    {
        assert!(metrics.body.contains(line), "{line}: {}", metrics.body);
    }
    assert!(metrics.body.contains("prony_web_answers_total{code=\"304\"} 2\n"), "{}", metrics.body);
    let dashboard = include_str!("../../../docs/grafana/prony.json");
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let asked: BTreeSet<&str> = dashboard.split(|c| !word(c)).filter(|name| name.starts_with("prony_")).collect();
    assert!(asked.len() > 5, "{asked:?}");
    for name in asked {
        assert!(metrics.body.contains(&format!("# TYPE {name} ")), "the dashboard asks for {name}, which is not there");
    }
    assert!(serving.get("/api/openapi.json").json()["paths"]["/api/runs"].is_object());
    assert!(serving.get("/api/runs").has("cache-control: no-store"));
}

#[test]
fn what_is_not_meant_for_this_server_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path(), &[RUN]);
    let serving = Serving::begin(settings(folder.path()), None);
    let code = |request: &str| serving.raw(request).code;
    assert_eq!(code("GET /api/runs HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 421);
    assert_eq!(code("GET /api/runs HTTP/1.0\r\n\r\n"), 421);
    assert_eq!(code("GET http://evil.example/api/runs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), 421);
    assert_eq!(code("nonsense\r\n\r\n"), 400);
    for path in
        ["/etc/passwd", "/../../etc/passwd", "/assets/../Cargo.toml", "/runs/a/b", "/api/runs/a/b", "/api/nothing"]
    {
        let seen = serving.get(path);
        assert!(seen.code == 404 && seen.json()["error"].is_string(), "{path}: {seen:?}");
    }
    assert_eq!(serving.send("DELETE", "/api/runs", &json!({})).code, 405);
    let id = serving.get("/api/runs").json()["runs"][0]["id"].as_str().unwrap().to_string();
    let path = format!("/api/runs/{id}/tags");
    let body = "{\"tags\":[\"a\"]}";
    let json = "Content-Type: application/json\r\n";
    let put = |headers: &str, body: &str| serving.send_with("PUT", &path, headers, body).code;
    assert_eq!(put(json, body), 403, "without X-Prony");
    assert_eq!(put(&format!("{json}X-Prony: 1\r\nOrigin: https://evil.example\r\n"), body), 403);
    assert_eq!(put("X-Prony: 1\r\nContent-Type: text/plain\r\n", body), 415);
    assert_eq!(put(&format!("{json}X-Prony: 1\r\n"), "{\"tags\":"), 400);
    assert_eq!(put(&format!("{json}X-Prony: 1\r\n"), "{\"tags\":[],\"more\":1}"), 400);
    let large = format!("PUT {path} HTTP/1.1\r\nHost: localhost\r\n{json}X-Prony: 1\r\nContent-Length: 300000\r\n\r\n");
    assert_eq!(code(&large), 413, "before it is read");
    let many: String = (0..100).map(|i| format!("X-{i}: y\r\n")).collect();
    assert_eq!(code(&format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n")), 431);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was written");
    assert_eq!(put(&format!("{json}X-Prony: 1\r\n"), body), 200);
}

#[test]
fn an_open_address_needs_a_token_and_tls() {
    let folder = tempfile::tempdir().unwrap();
    let refused =
        |address: &str, settings: Settings| Server::bind(address.parse().unwrap(), None, settings).err().unwrap();
    let error = refused("0.0.0.0:0", settings(folder.path()));
    assert!(matches!(error, WebError::Open { .. }) && error.is_bad_input(), "{error}");
    assert!(error.to_string().contains("give --token-file, --tls-cert and --tls-key"), "{error}");
    let (_, token) = token(folder.path());
    let error = refused("0.0.0.0:0", Settings { token: Some(token), ..settings(folder.path()) });
    assert!(matches!(error, WebError::Open { .. }), "a token in clear text is none: {error}");
    let error = refused("127.0.0.1:0", settings(&folder.path().join("nothing")));
    assert!(error.to_string().ends_with("nothing: there is no such folder"), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let error = refused(&taken.local_addr().unwrap().to_string(), settings(folder.path()));
    assert!(error.to_string().contains("name another address with --bind") && !error.is_bad_input(), "{error}");
}

fn token(folder: &Path) -> (String, Token) {
    let text = "0123456789abcdef0123456789abcdef".to_string();
    let file = folder.join("token");
    std::fs::write(&file, format!("{text}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    (text, Token::read(&file).unwrap())
}

#[test]
fn tls_and_a_token_keep_others_out() {
    let (folder, secrets) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["bench.example".to_string()]).unwrap().self_signed(&key).unwrap();
    let files = Tls { certificate: secrets.path().join("cert.pem"), key: secrets.path().join("key.pem") };
    std::fs::write(&files.certificate, certificate.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    let (text, token) = token(secrets.path());
    let hosts = vec!["bench.example".to_string()];
    let serving = Serving::begin(Settings { token: Some(token), hosts, ..settings(folder.path()) }, Some(&files));

    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let ask = |authorization: &str| {
        let name = ServerName::try_from("bench.example").unwrap();
        let socket = TcpStream::connect(serving.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut stream = StreamOwned::new(ClientConnection::new(Arc::clone(&config), name).unwrap(), socket);
        let head = "GET /api/runs HTTP/1.1\r\nHost: bench.example\r\nConnection: close\r\n";
        write!(stream, "{head}{authorization}\r\n").unwrap();
        answer(stream)
    };
    let refused = ask("");
    assert!(refused.code == 401 && refused.has("www-authenticate: basic realm=\"prony\""), "{refused:?}");
    assert_eq!(ask("Authorization: Bearer wrong\r\n").code, 401);
    assert_eq!(ask(&format!("Authorization: Bearer {text}\r\n")).json()["total"], 0);
    // Without TLS nobody is answered at all.
    assert_eq!(serving.get("/api/runs").code, 0);
    std::fs::write(&files.key, "no key").unwrap();
    let wrong = Server::bind("127.0.0.1:0".parse().unwrap(), Some(&files), settings(folder.path())).err().unwrap();
    assert!(wrong.to_string().contains("key.pem: no PEM: "), "{wrong}");
}

fn open_run() -> Run {
    let stack = Stack { name: "shop".into(), entry: "http://10.0.0.2/".into(), ..Stack::default() };
    Run { id: "live".into(), stack, ..Run::default() }
}

fn trial(id: u32, connections: u32) -> Trial {
    let result = LoadResult { good_per_s: 1_000.0 * f64::from(connections), completed: 1_000, ..LoadResult::default() };
    let plan = LoadPlan { connections, ..LoadPlan::to("http://10.0.0.2/") };
    Trial { id, purpose: Purpose::Curve, plan, window: Window::default(), result }
}

#[test]
fn a_run_is_seen_growing_until_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = open_run();
    let mut writer = Writer::create(&folder.path().join("live.prony"), &run).unwrap();
    let serving = Serving::begin(settings(folder.path()), None);
    let mut events = serving.events("/api/runs/live/live");
    let (name, first) = events.next().unwrap();
    assert_eq!((name.as_str(), &first["report"]["run"]["end"]), ("now", &json!("open")));
    assert_eq!(first["report"]["curve"], json!([]));
    run.trials.push(trial(0, 8));
    writer.trial(&run.trials[0]).unwrap();
    writer.event(1_500_000_000, &Event::Stage { name: "load".into(), detail: "the curve".into() }).unwrap();
    writer.flush().unwrap();
    let (_, grown) = events.next().unwrap();
    assert_eq!(grown["report"]["curve"][0]["good_per_s"], 8_000.0);
    assert_eq!(grown["happened"], json!([{ "at_s": 1.5, "text": "load: the curve", "tone": "plain" }]));
    run.end = RunEnd::Done;
    writer.finish(&run).unwrap();
    let (name, last) = std::iter::from_fn(|| events.next()).last().unwrap();
    assert_eq!((name.as_str(), &last["report"]["run"]["end"]), ("last", &json!("done")));
    assert_eq!(serving.get("/api/runs/nothing/live").code, 404);
}

#[test]
fn too_many_who_look_on_are_told_to_wait() {
    let folder = tempfile::tempdir().unwrap();
    Writer::create(&folder.path().join("live.prony"), &open_run()).unwrap();
    let serving = Serving::begin(settings(folder.path()), None);
    let mut streams: Vec<_> = (0..32).map(|_| serving.events("/api/runs/live/live")).collect();
    assert!(streams.iter_mut().all(|stream| stream.status().contains("200")));
    let refused = serving.get("/api/runs/live/live");
    assert!(refused.code == 503 && refused.body.contains("look on already"), "{refused:?}");
    assert!(serving.get("/metrics").body.contains("prony_web_live_streams 32\n"));
}

/// A program that stands for `prony run FILE --output DIR`: records a run, then waits to be interrupted.
fn program(folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let script = "#!/bin/sh\ntrap 'echo undone; exit 4' INT\ncp \"$(dirname \"$0\")/inner.prony\" \"$4/\"\necho started >&2\n\
                  while :; do sleep 0.05; done\n";
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}

#[test]
fn an_experiment_is_started_watched_stopped_and_never_outlives_the_server() {
    let (folder, files) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let text = "name = \"A\"\nstack = \"http://127.0.0.1:1/\"\nexpectation = \"More.\"\n[[factor]]\nname = \"c\"\n\
                workload = \"connections\"\nlevels = [1, 2]\n";
    std::fs::write(files.path().join("a.toml"), text).unwrap();
    Writer::create(&files.path().join("inner.prony"), &Run { id: "inner".into(), ..open_run() }).unwrap();
    let program = program(files.path());
    let of_files = Settings { experiments: vec![files.path().to_path_buf()], program, ..settings(folder.path()) };
    let mut serving = Serving::begin(of_files, None);
    let file = serving.get("/api/experiments").json()["experiments"][0]["file"].clone();
    let start = |serving: &Serving| serving.send("POST", "/api/jobs", &json!({ "file": file, "quick": false }));
    let begun = start(&serving);
    assert_eq!(begun.code, 201, "{begun:?}");
    let job = begun.json()["id"].as_str().unwrap().to_string();
    assert_eq!(start(&serving).code, 409, "one at a time");
    let mut events = serving.events(&format!("/api/jobs/{job}/live"));
    let running = std::iter::from_fn(|| events.next()).find(|(_, state)| state["lines"][0] == "started").unwrap().1;
    assert_eq!((&running["job"]["state"], &running["runs"][0]["id"]), (&json!("running"), &json!("inner")));
    assert_eq!(serving.get("/api/runs/inner").json()["run"]["id"], "inner");
    let stopping = serving.send_with("POST", &format!("/api/jobs/{job}/stop"), "X-Prony: 1\r\n", "");
    assert_eq!((stopping.code, &stopping.json()["state"]), (200, &json!("stopping")));
    let (name, last) = std::iter::from_fn(|| events.next()).last().unwrap();
    assert_eq!((name.as_str(), &last["job"]["exit_code"], &last["result"]), ("last", &json!(4), &json!("undone\n")));

    // A second one is stopped by the end of the server.
    let second = start(&serving).json()["id"].as_str().unwrap().to_string();
    let of_second = folder.path().join("experiments").join(&second);
    while !std::fs::read_to_string(of_second.join("progress.log")).is_ok_and(|text| text.contains("started")) {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    serving.end();
    assert_eq!(std::fs::read_to_string(of_second.join("result.txt")).unwrap(), "undone\n");
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(of_second.join("job.json")).unwrap()).unwrap();
    assert_eq!(kept["exit_code"], 4);
}
