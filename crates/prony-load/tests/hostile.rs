//! Servers of HTTP/1.1 that misbehave: each failure is counted by its kind, the load ends, and memory stays bounded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

#[path = "server/raw.rs"]
mod raw;

use prony_load::{Listener, LoadError, run};
use prony_model::{LoadPlan, LoadProgress, Nanos, Rate};
use raw::{
    BROKEN, Kind, PROTOCOL, READ, TIMEOUT, TRANSPORTS, check, load, plan_to, read_request, resident_bytes, server, well,
};
use std::io::Write as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const TEN_BYTES: &str = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n";

/// A server that answers the first request with these bytes and then closes.
fn check_answer(what: &str, kind: &Kind, bytes: impl Into<Vec<u8>>) {
    let bytes = bytes.into();
    check(what, kind, move |mut stream| {
        if read_request(&mut stream) {
            stream.write_all(&bytes).ok();
            stream.shutdown(Shutdown::Write).ok();
            // Waits for the client to close: a close with unread bytes would be a reset.
            while read_request(&mut stream) {}
        }
    });
}

/// A server that answers the first request with `first`, and then says `again` without end.
fn check_endless(what: &str, kind: &Kind, first: &'static str, again: &'static str, pause: Duration) {
    check(what, kind, move |mut stream| {
        read_request(&mut stream);
        let mut said = stream.write_all(first.as_bytes());
        let block = if pause.is_zero() { again.repeat(1000) } else { again.to_string() };
        while said.is_ok() {
            thread::sleep(pause);
            said = stream.write_all(block.as_bytes());
        }
    });
}

#[test]
fn what_is_no_answer_is_counted_as_protocol() {
    check_answer("garbage", &PROTOCOL, "\x01\x02 who are you?\r\n\r\n");
    check_answer("a TLS alert", &PROTOCOL, *b"\x15\x03\x03\x00\x02\x02\x28\r\n");
    check_answer("HTTP/2 settings", &PROTOCOL, *b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\n");
    check_answer("HTTP/2 in words", &PROTOCOL, "HTTP/2 200\r\nContent-Length: 0\r\n\r\n");
    check_answer("a switch nobody asked for", &PROTOCOL, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n");
    check_answer("a header without colon", &PROTOCOL, "HTTP/1.1 200 OK\r\nContent-Length 0\r\n\r\n");
    check_answer("a folded header", &PROTOCOL, "HTTP/1.1 200 OK\r\nA: b\r\n c: d\r\n\r\n");
}

#[test]
fn wrong_lengths_are_counted() {
    check_answer("longer than it says", &PROTOCOL, format!("{TEN_BYTES}more than ten"));
    check_answer("shorter than it says", &READ, format!("{TEN_BYTES}short"));
    check_answer("two lengths", &PROTOCOL, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab");
    check_answer("a negative length", &PROTOCOL, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n");
    check_answer(
        "a length beyond belief",
        &PROTOCOL,
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    );
    check_answer("a gigabyte that does not come", &READ, "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\nabc");
}

#[test]
fn wrong_chunks_are_counted() {
    check_answer("an impossible chunk", &PROTOCOL, format!("{CHUNKED}fffffffffffffffff\r\n"));
    check_answer("a chunk of no number", &PROTOCOL, format!("{CHUNKED}-1\r\n"));
    check_answer("a chunk longer than it says", &PROTOCOL, format!("{CHUNKED}1\r\nabc\r\n"));
    check_answer("a gigabyte chunk that does not come", &READ, format!("{CHUNKED}40000000\r\nabc"));
    check_answer("the largest chunk there is", &READ, format!("{CHUNKED}fffffffffffffff\r\nabc"));
    check_answer("no last chunk", &READ, format!("{CHUNKED}3\r\nabc\r\n"));
}

#[test]
fn an_early_end_is_a_failure_to_read() {
    check_answer("nothing", &READ, "");
    check_answer("half a status line", &READ, "HTTP/1.1 2");
    check_answer("half a head", &READ, "HTTP/1.1 200 OK\r\nContent-Le");
    check_answer("only an interim answer", &READ, "HTTP/1.1 103 Early Hints\r\n\r\n");
}

/// Closing a socket with unread bytes makes the kernel send a reset.
#[test]
fn a_reset_is_a_failure_to_read_or_write() {
    check("reset in mid-body", &BROKEN, |mut stream| {
        stream.write_all(format!("{TEN_BYTES}half").as_bytes()).ok();
        stream.peek(&mut [0]).ok();
    });
    check("reset instead of an answer", &BROKEN, |stream| drop(stream.peek(&mut [0])));
    check("closed at once", &BROKEN, drop);
}

#[test]
fn silence_is_a_timeout() {
    check("never answers", &TIMEOUT, |mut stream| while read_request(&mut stream) {});
    check("stops in the middle", &TIMEOUT, |mut stream| {
        read_request(&mut stream);
        stream.write_all(format!("{TEN_BYTES}half").as_bytes()).ok();
        read_request(&mut stream);
    });
    check("stops in a gigabyte chunk", &TIMEOUT, |mut stream| {
        read_request(&mut stream);
        stream.write_all(format!("{CHUNKED}40000000\r\nabc").as_bytes()).ok();
        read_request(&mut stream);
    });
    // Longer than the timeout; then its end is a reset of a connection that nobody holds any more.
    check("does not even read", &TIMEOUT, |_stream| thread::sleep(Duration::from_secs(3)));
}

/// A load may not wait for an answer that is always about to end.
#[test]
fn a_trickle_is_a_timeout() {
    let slowly = Duration::from_millis(20);
    check_endless("a head byte by byte", &TIMEOUT, "HTTP/1.1 200 OK\r\nA: ", "b", slowly);
    check_endless("a body byte by byte", &TIMEOUT, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", "b", slowly);
    check_endless("chunks one by one", &TIMEOUT, CHUNKED, "1\r\nb\r\n", slowly);
    check_endless("interim answers one by one", &TIMEOUT, "", "HTTP/1.1 102 Processing\r\n\r\n", slowly);
}

#[test]
fn a_head_without_end_breaks_a_limit() {
    let at_once = Duration::ZERO;
    check_endless("an endless line", &PROTOCOL, "HTTP/1.1 200 OK\r\nA: ", "bbbbbbbbbbbbbbbbbbbb", at_once);
    check_endless("endless header lines", &PROTOCOL, "HTTP/1.1 200 OK\r\n", "A: bbbbbbbb\r\n", at_once);
    check_endless("an endless first line", &PROTOCOL, "HTTP/1.1 200 ", "OKOKOKOKOKOKOKOKOKOK", at_once);
    check_endless("an endless chunk size", &PROTOCOL, CHUNKED, "00000000000000000000", at_once);
    check_endless("an endless chunk extension", &PROTOCOL, CHUNKED_1, "eeeeeeeeeeeeeeeeeeee", at_once);
    check_endless("endless trailers", &PROTOCOL, CHUNKED_0, "A: bbbbbbbb\r\n", at_once);
}

const CHUNKED_1: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;";
const CHUNKED_0: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";

/// What has no end but breaks no limit is up to the timeout, also when it comes faster than it is read.
#[test]
fn an_answer_without_end_is_a_timeout() {
    let at_once = Duration::ZERO;
    check_endless("an endless body", &TIMEOUT, "HTTP/1.1 200 OK\r\n\r\n", "bbbbbbbbbbbbbbbbbbbb", at_once);
    check_endless("endless chunks", &TIMEOUT, CHUNKED, "10\r\nbbbbbbbbbbbbbbbb\r\n", at_once);
    check_endless("endless interim answers", &TIMEOUT, "", "HTTP/1.1 102 Processing\r\n\r\n", at_once);
}

/// Nothing is wrong with these, only unusual.
#[test]
fn odd_answers_are_answers() {
    let body = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    let flood = format!("{}{body}", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(1000));
    let answers = [
        ("a flood of interim answers", flood, true),
        ("line feeds only", body.replace('\r', ""), true),
        ("one byte chunks", format!("{CHUNKED}{}0\r\nA: b\r\n\r\n", "1;x\r\nb\r\n".repeat(500)), true),
        ("until the end", "HTTP/1.1 200 OK\r\n\r\nuntil the end".to_string(), false),
    ];
    for (what, answer, stays) in answers {
        let port = server(
            move |mut stream| {
                while read_request(&mut stream) && stream.write_all(answer.as_bytes()).is_ok() && stays {}
            },
        );
        for transport in TRANSPORTS {
            let result = load(&LoadPlan { transport, ..plan_to(port) }).unwrap();
            assert!(result.completed > 0, "{what}: {result:?}");
            assert_eq!(result.errors.total(), 0, "{what}: {:?}", result.errors);
        }
    }
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
    for transport in TRANSPORTS {
        let result = load(&LoadPlan { transport, ..plan_to(port) }).unwrap();
        assert!(result.completed > 0, "{result:?}");
        assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
    }
}

/// Many times what the load may hold is sent to it, whatever the time that takes: heads that each connection must bound, and
/// bodies that it must not keep.
#[test]
fn endless_answers_take_no_memory() {
    const SENT_BYTES: u64 = 512 << 20;
    const GROWN_BYTES_MAX: u64 = 64 << 20;
    let firsts = ["HTTP/1.1 200 OK\r\nA: ", "HTTP/1.1 200 OK\r\n\r\n"];
    for (first, transport) in firsts.into_iter().flat_map(|first| TRANSPORTS.map(|transport| (first, transport))) {
        let sent = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sent);
        let port = server(move |mut stream| {
            read_request(&mut stream);
            let block = [b'b'; 16 * 1024];
            let mut said = stream.write_all(first.as_bytes());
            while said.is_ok() {
                said = stream.write_all(&block);
                count.fetch_add(block.len() as u64, Ordering::Relaxed);
            }
        });
        let before = resident_bytes();
        let plan = LoadPlan { connections: 40, duration: Nanos::from_millis(600_000), transport, ..plan_to(port) };
        let stop = AtomicBool::new(false);
        let most = AtomicU64::new(0);
        let look = |_| {
            most.fetch_max(resident_bytes(), Ordering::Relaxed);
            stop.store(sent.load(Ordering::Relaxed) > SENT_BYTES, Ordering::Relaxed);
        };
        let result = run(&plan, &stop, Some(Listener { every: Duration::from_millis(250), tell: &look }));
        assert!(result.unwrap().interrupted);
        let grown = most.into_inner().saturating_sub(before);
        assert!(grown < GROWN_BYTES_MAX, "{first}: {grown} bytes");
    }
}

#[test]
fn nobody_there_is_an_error_with_a_next_step() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = load(&plan_to(free)).unwrap_err();
    assert!(matches!(error, LoadError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("start the server"), "{error}");
    let error = load(&LoadPlan { url: "http://no-such-host.invalid/".into(), ..plan_to(1) }).unwrap_err();
    assert!(matches!(error, LoadError::Resolve { .. }), "{error}");
    let error = load(&LoadPlan { connections: 4_000_000_000, ..plan_to(1) }).unwrap_err();
    assert!(error.to_string().contains("4,000,000"), "{error}");
}

/// The listener goes away after the first connection: later connects are refused, counted, and do not spin.
#[test]
fn a_server_that_lets_nobody_in_any_more_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Nobody accepts, until the kernel drops what comes.
    let wait = Duration::from_millis(300);
    let held: Vec<TcpStream> =
        std::iter::from_fn(|| TcpStream::connect_timeout(&address, wait).ok()).take(9000).collect();
    assert!(TcpStream::connect_timeout(&address, wait).is_err(), "full");
    let plan = LoadPlan { timeout: Nanos::from_millis(300), ..plan_to(address.port()) };
    let error = load(&plan).unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { .. }), "{error}");
    let result = load(&LoadPlan { reached: true, ..plan }).unwrap();
    assert_eq!(result.completed, 0);
    assert!(result.errors.connect + result.errors.timeout > 0, "{:?}", result.errors);
    drop(held);
}

#[test]
fn a_server_that_goes_away_is_counted_and_not_hammered() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || drop(listener.accept()));
    let result = load(&plan_to(port)).unwrap();
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
    let rate = Some(Rate(200.0));
    let plan = LoadPlan { connections: 1, rate, duration: Nanos::from_millis(1000), ..plan_to(port) };
    let result = load(&plan).unwrap();
    assert!(result.sent <= 50 && result.intended > 130, "{} {}", result.sent, result.intended);
    assert!(result.latency.p50_us > 4.0 * result.latency_actual.p50_us, "{result:?}");
    let (lag, waited) = (&result.schedule_lag, &result.connection_wait);
    assert!(waited.count + 2 >= lag.count && waited.count <= lag.count, "all but the first waited for a connection");
    assert!((waited.total_us() / lag.total_us() - 1.0).abs() < 0.01, "{waited:?} of {lag:?}");
    let rate = result.gates.iter().find(|g| g.name == "rate").unwrap();
    assert!(!rate.held && !rate.generator_limited, "{rate:?}");
    assert!(!result.is_valid() && !result.generator_limited());
}

#[test]
fn a_stop_returns_what_was_measured() {
    let port = server(well);
    let plan = LoadPlan { connections: 2, threads: 2, duration: Nanos::from_millis(600_000), ..plan_to(port) };
    let stop = AtomicBool::new(false);
    // Stops as soon as something was counted: no time is assumed.
    let look = |p: LoadProgress| stop.store(p.completed > 0, Ordering::Relaxed);
    let listener = Listener { every: Duration::from_millis(250), tell: &look };
    let result = run(&plan, &stop, Some(listener)).unwrap();
    assert!(result.interrupted && !result.is_valid());
    assert!(result.completed > 0 && result.duration_s > 0.0 && result.duration_s < 600.0, "{result:?}");
}

/// A connection that was answered may be closed by the server at any time: the next request opens another.
#[test]
fn a_server_that_closes_without_a_word_loses_little() {
    let port = server(|mut stream: TcpStream| {
        for _ in 0..3 {
            if read_request(&mut stream) {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok();
            }
        }
    });
    for transport in TRANSPORTS {
        let result = load(&LoadPlan { transport, ..plan_to(port) }).unwrap();
        let lost = result.errors.read + result.errors.write;
        assert!(result.completed > 0 && result.connections_opened > 4, "{result:?}");
        assert_eq!(result.errors.total(), lost, "{:?}", result.errors);
        // At most the fourth request of each connection.
        assert!(lost * 3 <= result.responses_total + 12, "{lost} of {}", result.responses_total);
    }
}
