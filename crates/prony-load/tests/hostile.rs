//! Servers that misbehave: each failure is counted by its kind, the load ends, and memory stays bounded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

use prony_load::{LoadError, run};
use prony_model::{ErrorCounts, LoadPlan, LoadResult, Nanos, Rate};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A server that gives each connection to `serve`. It lives as long as the test process.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    port
}

/// Reads one request head; false at the end of the connection.
fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// A server that answers every request with these bytes and then closes.
fn answers(bytes: &'static [u8]) -> u16 {
    server(move |mut stream| {
        if read_request(&mut stream) {
            stream.write_all(bytes).ok();
        }
    })
}

fn load(port: u16, change: impl FnOnce(&mut LoadPlan)) -> Result<LoadResult, LoadError> {
    let mut plan = LoadPlan {
        connections: 4,
        threads: 1,
        warmup: Nanos(0),
        duration: Nanos::from_millis(600),
        timeout: Nanos::from_millis(100),
        ..LoadPlan::to(&format!("http://127.0.0.1:{port}/"))
    };
    change(&mut plan);
    let begun = Instant::now();
    let result = run(&plan, &AtomicBool::new(false), &|_| {});
    assert!(begun.elapsed() < Duration::from_secs(30), "a load ends whatever the server does");
    result
}

/// Nothing completes, and every failure is of this kind.
fn check(name: &str, port: u16, kind: fn(&ErrorCounts) -> u64) {
    let result = load(port, |_| {}).unwrap();
    assert_eq!(result.completed, 0, "{name}");
    assert!(kind(&result.errors) > 0, "{name}: {:?}", result.errors);
    assert_eq!(result.errors.total(), kind(&result.errors), "{name}: {:?}", result.errors);
}

#[test]
fn failures_are_counted_by_kind() {
    check("garbage", answers(b"\x16\x03\x01 who are you?\r\n\r\n"), |e| e.protocol);
    check("closes early", answers(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), |e| e.read);
    check("closes without an answer", answers(b""), |e| e.read);
    check("sends too much", answers(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc"), |e| e.protocol);
    check(
        "impossible chunk",
        answers(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"),
        |e| e.protocol,
    );
    check(
        "huge chunk that ends early",
        answers(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\nabc"),
        |e| e.read,
    );
}

#[test]
fn silence_is_a_timeout() {
    let silent = server(|mut stream| while read_request(&mut stream) {});
    check("never answers", silent, |e| e.timeout);
    let stuck = server(|mut stream| {
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").ok();
        thread::sleep(Duration::from_secs(5));
    });
    check("stops in the middle", stuck, |e| e.timeout);
}

/// Closing a socket with unread bytes makes the kernel send a reset.
#[test]
fn a_reset_is_a_failure_to_read_or_write() {
    let port = server(|mut stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").ok();
        stream.peek(&mut [0]).ok();
    });
    let result = load(port, |_| {}).unwrap();
    assert!(result.errors.read > 0 && result.completed == 0, "{:?}", result.errors);
    assert_eq!(result.errors.total(), result.errors.read + result.errors.write, "{:?}", result.errors);
    let at_once = server(drop);
    let result = load(at_once, |_| {}).unwrap();
    assert!(result.completed == 0 && result.errors.total() > 0);
    assert_eq!(result.errors.total(), result.errors.read + result.errors.write, "{:?}", result.errors);
}

#[test]
fn one_byte_at_a_time_is_still_a_response() {
    let port = server(|mut stream| {
        while read_request(&mut stream) {
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc" {
                if stream.write_all(&[*byte]).is_err() {
                    return;
                }
            }
        }
    });
    let result = load(port, |plan| plan.timeout = Nanos::from_millis(20_000)).unwrap();
    assert!(result.completed > 0, "{result:?}");
    assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
}

#[test]
fn a_response_that_ends_with_the_connection_is_complete() {
    let port = answers(b"HTTP/1.1 200 OK\r\n\r\nuntil the end");
    let result = load(port, |plan| plan.timeout = Nanos::from_millis(20_000)).unwrap();
    assert!(result.completed > 0, "{result:?}");
    assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// Endless heads and endless bodies: 40 connections may keep 64 KiB each, and the servers' own threads need some too.
#[test]
fn endless_answers_take_no_memory() {
    let endless = |first: &'static [u8], again: &'static [u8]| {
        server(move |mut stream| {
            read_request(&mut stream);
            let block = again.repeat(1000);
            let mut sent = stream.write_all(first);
            while sent.is_ok() {
                sent = stream.write_all(&block);
            }
        })
    };
    let heads = endless(b"HTTP/1.1 200 OK\r\nA: ", b"bbbbbbbbbbbbbbbbbbbb");
    let bodies = endless(b"HTTP/1.1 200 OK\r\n\r\n", b"bbbbbbbbbbbbbbbbbbbb");
    load(heads, |plan| plan.connections = 40).unwrap();
    let before = resident_bytes();
    let result = load(heads, |plan| plan.connections = 40).unwrap();
    assert!(result.errors.protocol > 0, "{:?}", result.errors);
    let result = load(bodies, |plan| plan.connections = 40).unwrap();
    assert!(result.errors.timeout > 0 && result.bytes_in > 1_000_000, "{result:?}");
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}

#[test]
fn nobody_there_is_an_error_with_a_next_step() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = load(free, |_| {}).unwrap_err();
    assert!(matches!(error, LoadError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("start the server"), "{error}");
    let error = load(1, |plan| plan.url = "http://no-such-host.invalid/".into()).unwrap_err();
    assert!(matches!(error, LoadError::Resolve { .. }), "{error}");
    let error = load(1, |plan| plan.url = "https://127.0.0.1/".into()).unwrap_err();
    assert!(matches!(error, LoadError::Tls { .. }), "{error}");
    let error = load(1, |plan| plan.connections = 4_000_000_000).unwrap_err();
    assert!(error.to_string().contains("`ulimit -n`"), "{error}");
}

/// The listener goes away after the first connection: later connects are refused, counted, and do not spin.
#[test]
fn a_server_that_goes_away_is_counted_and_not_hammered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || drop(listener.accept()));
    let result = load(port, |_| {}).unwrap();
    let errors = result.errors;
    assert!(errors.connect > 0 && result.completed == 0, "{errors:?}");
    // 4 connections, a rest of 50 ms each: 12 tries each in 600 ms, and a few that met the listener's end.
    assert!(errors.total() <= 60, "{errors:?}");
}

/// Latency counts from the intended time: a server that serves one at a time, slower than the schedule, shows the wait.
#[test]
fn a_slow_server_does_not_slow_the_schedule() {
    let port = server(|mut stream| {
        while read_request(&mut stream) {
            thread::sleep(Duration::from_millis(20));
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok();
        }
    });
    let result = load(port, |plan| {
        plan.connections = 1;
        plan.rate = Some(Rate(200.0));
        plan.duration = Nanos::from_millis(1000);
        plan.timeout = Nanos::from_millis(20_000);
    })
    .unwrap();
    assert!(result.sent <= 50 && result.intended > 130, "{} {}", result.sent, result.intended);
    assert!(result.latency.p50_us > 4.0 * result.latency_actual.p50_us, "{result:?}");
    let rate = result.gates.iter().find(|g| g.name == "rate").unwrap();
    assert!(!rate.held && !rate.generator_limited, "{rate:?}");
    assert!(!result.is_valid() && !result.generator_limited());
}

#[test]
fn a_stop_returns_what_was_measured() {
    let port = server(|mut stream| {
        while read_request(&mut stream) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok();
        }
    });
    let stop = Arc::new(AtomicBool::new(false));
    let setter = stop.clone();
    let plan = LoadPlan {
        connections: 2,
        threads: 2,
        warmup: Nanos(0),
        duration: Nanos::from_millis(600_000),
        ..LoadPlan::to(&format!("http://127.0.0.1:{port}/"))
    };
    // Stops as soon as something was counted: no time is assumed.
    let result = run(&plan, &stop, &|p| setter.store(p.completed > 0, Ordering::Relaxed)).unwrap();
    assert!(result.interrupted && !result.is_valid());
    assert!(result.completed > 0 && result.duration_s > 0.0 && result.duration_s < 600.0, "{result:?}");
}
