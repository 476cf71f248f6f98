//! Loads on servers that are not nginx: HAProxy, Python's own server, uvicorn and Node. What the engine counts is what the
//! server's log says.
//!
//! Every load is a number of requests, so that each of them is answered however slow the server or the machine is.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

mod server;

use prony_load::{LoadError, run};
use prony_model::tls::TlsPlan;
use prony_model::{LoadPlan, LoadResult, Nanos, Protocol, RequestSpec};
use server::Program;
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// Requests of a load. A guess: every connection is used again and again, and the slowest of these servers needs a second.
const REQUESTS: u64 = 240;
const CONNECTIONS: u32 = 4;

fn plan(port: u16) -> LoadPlan {
    LoadPlan {
        connections: CONNECTIONS,
        threads: 2,
        warmup: Nanos(0),
        duration: Nanos::from_millis(60_000),
        timeout: Nanos::from_millis(20_000),
        requests_max: Some(REQUESTS),
        ..LoadPlan::to(&format!("http://127.0.0.1:{port}/"))
    }
}

/// A load of which every request is answered.
fn load(server: &Program, change: impl FnOnce(&mut LoadPlan)) -> LoadResult {
    let mut plan = plan(server.port);
    change(&mut plan);
    let result = run(&plan, &AtomicBool::new(false), None).unwrap();
    assert_eq!((result.completed, result.responses_total), (REQUESTS, REQUESTS), "{result:?}");
    assert_eq!(result.errors.total(), result.errors.status, "{:?}", result.errors);
    result
}

fn spec(path: &str) -> RequestSpec {
    RequestSpec { path: path.into(), weight: 1.0, method: None, headers: Default::default(), body: None }
}

/// Every second request asks for what is not there.
fn half_missing(plan: &mut LoadPlan) {
    plan.requests = vec![spec("/"), spec("/missing")];
}

fn check_half_missing(result: &LoadResult) {
    let missing = result.statuses[&404];
    assert_eq!((result.statuses[&200] + missing, result.errors.status), (REQUESTS, missing), "{:?}", result.statuses);
    let sigma = (REQUESTS as f64 * 0.25).sqrt();
    assert!((missing as f64 - REQUESTS as f64 / 2.0).abs() < 5.0 * sigma, "{missing} of {REQUESTS}");
}

fn http2(plan: &mut LoadPlan) {
    (plan.protocol, plan.depth) = (Protocol::Http2, 4);
}

/// Different values in a column.
fn different(lines: &[String], column: usize) -> BTreeSet<String> {
    lines.iter().map(|line| line.split(' ').nth(column).unwrap().to_string()).collect()
}

fn check_kept(result: &LoadResult, ports: usize) {
    assert!(ports <= CONNECTIONS as usize && result.connections_opened <= CONNECTIONS.into(), "{ports}, {result:?}");
}

fn check_closed(result: &LoadResult, ports: usize) {
    assert_eq!(result.connections_opened, REQUESTS, "a connection per request");
    // A port may come again when the machine is slow.
    assert!(ports as u64 > REQUESTS / 2, "{ports} ports");
}

/// HAProxy answers by itself; `bind`: how it listens. Its log: `answered STATUS VERSION CLIENT_PORT TLS_VERSION`.
fn haproxy(bind: &'static str) -> Option<Program> {
    Program::start("haproxy", "apt-get install haproxy", |folder, port| {
        let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_string()]).unwrap();
        std::fs::write(folder.join("own.pem"), own.cert.pem() + &own.signing_key.serialize_pem()).unwrap();
        let config = format!(
            "global
  log stdout format raw local0
  nbthread 1
defaults
  mode http
  log global
  option dontlognull
  log-format \"answered %ST %HV %cp %sslv\"
  timeout client 20s
  timeout server 20s
  timeout connect 20s
frontend all
  bind 127.0.0.1:{port} {bind}
  http-request return status 404 content-type text/plain string no if {{ path /missing }}
  http-request return status 200 content-type text/plain string hello
"
        );
        std::fs::write(folder.join("haproxy.cfg"), config).unwrap();
        ["-db", "-f", "haproxy.cfg"].map(str::to_string).to_vec()
    })
}

const SECURED: &str = "ssl crt own.pem alpn h2,http/1.1";

fn secured(plan: &mut LoadPlan) {
    plan.url = plan.url.replace("http:", "https:");
    plan.tls = TlsPlan { insecure: true, ..TlsPlan::default() };
}

#[test]
fn haproxy_counts_the_same() {
    let Some(server) = haproxy("") else { return };
    let kept = load(&server, half_missing);
    check_half_missing(&kept);
    let log = server.lines("said", "answered ", REQUESTS);
    assert_eq!(log.len() as u64, REQUESTS);
    let missing = log.iter().filter(|line| line.starts_with("answered 404 ")).count() as u64;
    assert_eq!(missing, kept.statuses[&404]);
    check_kept(&kept, different(&log, 3).len());

    let closed = load(&server, |plan| plan.keepalive = false);
    assert_eq!(closed.statuses, [(200, REQUESTS)].into());
    let log = server.lines("said", "answered ", 2 * REQUESTS).split_off(log.len());
    assert_eq!((log.len() as u64, different(&log, 2)), (REQUESTS, ["HTTP/1.1".to_string()].into()));
    check_closed(&closed, different(&log, 3).len());
}

#[test]
fn haproxy_counts_the_same_over_tls() {
    let Some(server) = haproxy(SECURED) else { return };
    let kept = load(&server, secured);
    let log = server.lines("said", "answered ", REQUESTS);
    assert_eq!((log.len() as u64, different(&log, 1)), (REQUESTS, ["200".to_string()].into()));
    assert_eq!((different(&log, 2), different(&log, 4)), (["HTTP/1.1".into()].into(), ["TLSv1.3".into()].into()));
    check_kept(&kept, different(&log, 3).len());

    let closed = load(&server, |plan| {
        secured(plan);
        plan.keepalive = false;
    });
    let log = server.lines("said", "answered ", 2 * REQUESTS).split_off(log.len());
    check_closed(&closed, different(&log, 3).len());
}

#[test]
fn haproxy_counts_the_same_over_http2() {
    for bind in [SECURED, ""] {
        let Some(server) = haproxy(bind) else { return };
        let result = load(&server, |plan| {
            http2(plan);
            half_missing(plan);
            if bind == SECURED {
                secured(plan);
            }
        });
        check_half_missing(&result);
        let log = server.lines("said", "answered ", REQUESTS);
        assert_eq!((log.len() as u64, different(&log, 2)), (REQUESTS, ["HTTP/2.0".to_string()].into()));
        check_kept(&result, different(&log, 3).len());
    }
}

/// Python's own server. Its log: `CLIENT - - [DATE TIME] "METHOD PATH VERSION" STATUS -`.
fn python(version: &'static str) -> Option<Program> {
    const SERVE: &str = "import http.server, sys
class Answer(http.server.SimpleHTTPRequestHandler):
    protocol_version = sys.argv[2]
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Answer).serve_forever()
";
    Program::start("python3", "apt-get install python3", |folder, port| {
        std::fs::write(folder.join("index.html"), "hello").unwrap();
        ["-u", "-c", SERVE, &port.to_string(), version].map(str::to_string).to_vec()
    })
}

#[test]
fn pythons_server_counts_the_same() {
    let Some(server) = python("HTTP/1.1") else { return };
    let kept = load(&server, half_missing);
    check_half_missing(&kept);
    let answered = server.lines("said", "\"GET /", REQUESTS);
    assert_eq!(answered.len() as u64, REQUESTS);
    let missing = answered.iter().filter(|line| line.ends_with("\"GET /missing HTTP/1.1\" 404 -")).count() as u64;
    assert_eq!(missing, kept.statuses[&404]);
    // It closes after an error, and says so, and keeps the connection after a file.
    assert!(kept.connections_opened.abs_diff(missing) <= CONNECTIONS.into(), "{} opened", kept.connections_opened);

    let closed = load(&server, |plan| plan.keepalive = false);
    assert_eq!((closed.statuses[&200], closed.connections_opened), (REQUESTS, REQUESTS));
}

/// As it is when nobody configures it: it answers in HTTP/1.0 and closes, whatever the client would like.
#[test]
fn a_server_of_http_1_0_closes_every_connection() {
    let Some(server) = python("HTTP/1.0") else { return };
    let result = load(&server, |_| {});
    assert_eq!((result.statuses[&200], result.connections_opened), (REQUESTS, REQUESTS));
    assert_eq!(server.lines("said", "\"GET / HTTP/1.1\" 200 -", REQUESTS).len() as u64, REQUESTS);
}

/// uvicorn, of which bodies come in chunks. Its log: `INFO:     127.0.0.1:PORT - "METHOD PATH VERSION" STATUS REASON`.
fn uvicorn() -> Option<Program> {
    const APP: &str = "async def app(scope, receive, send):
    status = 404 if scope['path'] == '/missing' else 200
    await send({'type': 'http.response.start', 'status': status, 'headers': [(b'content-type', b'text/plain')]})
    await send({'type': 'http.response.body', 'body': b'hello ', 'more_body': True})
    await send({'type': 'http.response.body', 'body': b'there'})
";
    let there = Command::new("python3").args(["-c", "import uvicorn"]).output().is_ok_and(|out| out.status.success());
    if !there {
        eprintln!("not tested: uvicorn is not installed; apt-get install python3-uvicorn");
        return None;
    }
    Program::start("python3", "apt-get install python3-uvicorn", |folder, port| {
        std::fs::write(folder.join("app.py"), APP).unwrap();
        ["-m", "uvicorn", "app:app", "--lifespan", "off", "--port", &port.to_string()].map(str::to_string).to_vec()
    })
}

#[test]
fn uvicorn_counts_the_same() {
    let Some(server) = uvicorn() else { return };
    let kept = load(&server, half_missing);
    check_half_missing(&kept);
    let log = server.lines("said", "\"GET /", REQUESTS);
    let missing = log.iter().filter(|line| line.contains("\"GET /missing HTTP/1.1\" 404")).count() as u64;
    assert_eq!((log.len() as u64, missing), (REQUESTS, kept.statuses[&404]));
    let clients: BTreeSet<&str> = log.iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    check_kept(&kept, clients.len());

    let closed = load(&server, |plan| plan.keepalive = false);
    assert_eq!((closed.statuses[&200], closed.connections_opened), (REQUESTS, REQUESTS));
}

/// Node with one of its modules. Its log: `answered STATUS VERSION CLIENT_PORT BODY_BYTES`.
fn node(module: &'static str) -> Option<Program> {
    const SERVE: &str = "const [module, port] = process.argv.slice(1);
require(module).createServer((request, response) => {
  let bytes = 0;
  request.on('data', (part) => { bytes += part.length; });
  request.on('end', () => {
    response.statusCode = request.url === '/missing' ? 404 : 200;
    console.log(`answered ${response.statusCode} ${request.httpVersion} ${request.socket.remotePort} ${bytes}`);
    response.write('hello ');
    response.end('there');
  });
}).listen(Number(port), '127.0.0.1');
";
    Program::start("node", "install Node 20 or newer from https://nodejs.org", |_, port| {
        ["-e", SERVE, "--", module, &port.to_string()].map(str::to_string).to_vec()
    })
}

#[test]
fn node_counts_the_same() {
    let Some(server) = node("http") else { return };
    let kept = load(&server, half_missing);
    check_half_missing(&kept);
    let log = server.lines("said", "answered ", REQUESTS);
    let missing = log.iter().filter(|line| line.starts_with("answered 404 ")).count() as u64;
    assert_eq!((log.len() as u64, missing), (REQUESTS, kept.statuses[&404]));
    check_kept(&kept, different(&log, 3).len());

    let closed = load(&server, |plan| plan.keepalive = false);
    let log = server.lines("said", "answered ", 2 * REQUESTS).split_off(log.len());
    assert_eq!((log.len() as u64, closed.statuses[&200]), (REQUESTS, REQUESTS));
    check_closed(&closed, different(&log, 3).len());

    let posted = load(&server, |plan| {
        plan.method = "POST".into();
        plan.body = vec![b'x'; 100_000];
    });
    assert_eq!(posted.statuses, [(200, REQUESTS)].into());
    let log = server.lines("said", "answered ", 3 * REQUESTS).split_off(2 * log.len());
    assert_eq!((log.len() as u64, different(&log, 4)), (REQUESTS, ["100000".to_string()].into()));
}

#[test]
fn node_counts_the_same_over_http2() {
    let Some(server) = node("http2") else { return };
    let result = load(&server, |plan| {
        http2(plan);
        half_missing(plan);
    });
    check_half_missing(&result);
    let log = server.lines("said", "answered ", REQUESTS);
    assert_eq!((log.len() as u64, different(&log, 2)), (REQUESTS, ["2.0".to_string()].into()));
    check_kept(&result, different(&log, 3).len());
}

/// A server that knows only HTTP/1 is told of before the load, with the next step.
#[test]
fn http2_to_a_server_of_http1_is_an_error() {
    let servers =
        [("HTTP/1.1", node("http")), ("HTTP/1.1", uvicorn()), ("what begins with `<!DOCTYPE`", python("HTTP/1.1"))];
    for (says, server) in servers {
        let Some(server) = server else { continue };
        let mut plan = plan(server.port);
        http2(&mut plan);
        let error = run(&plan, &AtomicBool::new(false), None).unwrap_err();
        assert!(matches!(&error, LoadError::NotHttp2 { answered, .. } if answered == says), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("127.0.0.1:") && text.contains("not HTTP/2: leave out `--http2`"), "{text}");
    }
}
