//! Servers of HTTP/2 that misbehave: each failure is counted by its kind, the load ends and goes on with others, and memory
//! stays bounded.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

#[path = "server/frames.rs"]
mod frames;
#[path = "server/raw.rs"]
mod raw;

use frames::*;
use prony_load::{Listener, run};
use prony_model::{LoadPlan, Nanos, Protocol};
use raw::{BROKEN, Kind, PROTOCOL, READ, TIMEOUT, Trial, load, plan_to, resident_bytes, server};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The client's side of a connection, as a server sees it.
struct Client(TcpStream);

impl Client {
    /// Takes the preface and says SETTINGS.
    fn welcome(stream: TcpStream, settings: &[u8]) -> io::Result<Self> {
        let mut client = Self(stream);
        let mut preface = [0; 24];
        client.0.read_exact(&mut preface)?;
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.say(settings)?;
        Ok(client)
    }

    fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    /// The next frame: kind, flags and stream.
    fn frame(&mut self) -> io::Result<(u8, u8, u32)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head)?;
        let [l1, l2, l3, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, l1, l2, l3]);
        io::copy(&mut (&self.0).take(length.into()), &mut io::sink())?;
        Ok((kind, flags, u32::from_be_bytes(stream)))
    }

    /// Reads on until a request begins, and tells its stream.
    fn request(&mut self) -> io::Result<u32> {
        loop {
            let (kind, _, stream) = self.frame()?;
            if kind == HEADERS {
                return Ok(stream);
            }
        }
    }

    /// Reads until the client closes.
    fn drain(&mut self) -> io::Result<()> {
        loop {
            self.frame()?;
        }
    }

    /// Says it again and again, and reads nothing.
    fn flood(&mut self, bytes: &[u8]) -> io::Result<()> {
        let block = bytes.repeat(10_000 / bytes.len() + 1);
        loop {
            self.say(&block)?;
        }
    }
}

/// What is said to the client once it has opened a stream.
type Words = fn(u32) -> Vec<u8>;

/// Answers every request. Its settings are never acknowledged, and it acknowledges none.
fn well(stream: TcpStream) {
    let serve = || -> io::Result<()> {
        let mut client = Client::welcome(stream, &settings(&[]))?;
        loop {
            let stream = client.request()?;
            client.say(&answer(stream, b"ok"))?;
        }
    };
    // It ends with an error when the client closes.
    serve().ok();
}

fn plan(port: u16) -> LoadPlan {
    LoadPlan { protocol: Protocol::Http2, depth: 8, ..plan_to(port) }
}

/// A server that greets, waits for a request, and then does `misbehave` with the client and the request's stream.
fn check(what: &str, kind: &Kind, misbehave: fn(&mut Client, u32) -> io::Result<()>) {
    check_load(what, kind, plan, misbehave);
}

fn check_load(what: &str, kind: &Kind, plan: fn(u16) -> LoadPlan, misbehave: fn(&mut Client, u32) -> io::Result<()>) {
    let hostile = move |stream: TcpStream| {
        let serve = || -> io::Result<()> {
            let mut client = Client::welcome(stream, &settings(&[]))?;
            let stream = client.request()?;
            misbehave(&mut client, stream)
        };
        // It ends with an error when the client closes.
        serve().ok();
    };
    Trial { plan, well, asked_first: 1 }.check(what, kind, hostile);
}

#[test]
fn a_good_server_serves() {
    let result = load(&plan(server(well))).unwrap();
    assert!(result.completed > 0, "{result:?}");
    assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
}

#[test]
fn floods_are_counted_as_protocol() {
    check("settings flood", &PROTOCOL, |client, _| client.flood(&settings(&[(3, 100)])));
    check("empty settings flood", &PROTOCOL, |client, _| client.flood(&settings(&[])));
    check("ping flood", &PROTOCOL, |client, _| client.flood(&frame(PING, 0, 0, b"12345678")));
    check("flood of nothing", &PROTOCOL, |client, _| client.flood(&frame(0xfe, 0, 0, b"")));
    check("flood of empty bodies", &PROTOCOL, |client, stream| {
        client.say(&head(stream, 0))?;
        client.flood(&frame(DATA, 0, stream, b""))
    });
    check("flood of windows", &PROTOCOL, |client, stream| client.flood(&window(stream, 1)));
}

#[test]
fn heads_without_end_are_counted_as_protocol() {
    check("continuation flood", &PROTOCOL, |client, stream| {
        client.say(&frame(HEADERS, END, stream, &[STATUS_200]))?;
        client.flood(&frame(CONTINUATION, 0, stream, &field("a", "b")))
    });
    check("empty continuation flood", &PROTOCOL, |client, stream| {
        client.say(&frame(HEADERS, END, stream, &[STATUS_200]))?;
        client.flood(&frame(CONTINUATION, 0, stream, b""))
    });
    check("long continuations", &PROTOCOL, |client, stream| {
        client.say(&frame(HEADERS, END, stream, &[STATUS_200]))?;
        client.flood(&frame(CONTINUATION, 0, stream, &field("a", &"b".repeat(120)).repeat(100)))
    });
    // One entry of 4 KB in the dynamic table, then a byte for each copy of it (RFC 7541, 7.3).
    check("a bomb of header compression", &PROTOCOL, |client, stream| {
        let value = [b'v'; 3900];
        let length = [0x7f, 0xbd, 0x1d]; // 3900 as an integer with a prefix of 7 bits
        let block = [&[STATUS_200, 0x40, 1, b'k'][..], &length, &value, &[0xbe; 5000]].concat();
        client.say(&frame(HEADERS, END | END_HEADERS, stream, &block))?;
        client.drain()
    });
    check("interim answers without end", &PROTOCOL, |client, stream| {
        client.flood(&frame(HEADERS, END_HEADERS, stream, &field(":status", "103")))
    });
}

#[test]
fn what_http2_forbids_is_counted_as_protocol() {
    let forbidden: [(&str, Words); 9] = [
        ("a window larger than there is", |stream| window(stream, 0x7fff_ffff)),
        ("a window of the connection larger than there is", |_| window(0, 0x7fff_ffff)),
        ("a setting larger than there is", |_| settings(&[(4, 0x8000_0000)])),
        ("a frame of 16 MiB", |stream| frame_of_length(0xff_ffff, DATA, 0, stream, b"x")),
        ("a stream of its own", |_| answer(2, b"")),
        ("a stream from the future", |_| answer(1_000_001, b"")),
        ("a push", |stream| frame(PUSH_PROMISE, END_HEADERS, stream, &[0, 0, 0, 2, 0x82])),
        ("a body before its head", |stream| frame(DATA, END, stream, b"x")),
        ("a head without status", |stream| frame(HEADERS, END | END_HEADERS, stream, &field("a", "b"))),
    ];
    for (what, bytes) in forbidden {
        let misbehave = move |stream: TcpStream| {
            let serve = || -> io::Result<()> {
                let mut client = Client::welcome(stream, &settings(&[]))?;
                let stream = client.request()?;
                client.say(&bytes(stream))?;
                client.drain()
            };
            serve().ok();
        };
        Trial { plan, well, asked_first: 1 }.check(what, &PROTOCOL, misbehave);
    }
    Trial { plan, well, asked_first: 1 }.check("HTTP/1.1 instead", &PROTOCOL, http1);
}

/// Knows only HTTP/1.1.
fn http1(mut stream: TcpStream) {
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").ok();
    while stream.read(&mut [0; 1000]).is_ok_and(|n| n > 0) {}
}

#[test]
fn an_early_end_is_a_failure_to_read() {
    check("ends", &READ, |client, _| {
        client.0.shutdown(std::net::Shutdown::Write)?;
        client.drain()
    });
    check("ends within a frame", &READ, |client, stream| {
        client.say(&head(stream, 0)[..7])?;
        client.0.shutdown(std::net::Shutdown::Write)?;
        client.drain()
    });
    check("goes away and ends", &READ, |client, _| {
        client.say(&goaway(0, 0))?;
        client.0.shutdown(std::net::Shutdown::Write)?;
        client.drain()
    });
    check("resets each stream", &READ, |client, mut stream| {
        loop {
            client.say(&reset(stream, 7))?;
            stream = client.request()?;
        }
    });
    // With bytes unread, the kernel makes a reset of it.
    check("resets the connection", &BROKEN, |client, _| client.0.peek(&mut [0]).map(drop));
}

#[test]
fn silence_is_a_timeout() {
    check("never answers", &TIMEOUT, |client, _| client.drain());
    check("stops after the head", &TIMEOUT, |client, mut stream| {
        loop {
            client.say(&head(stream, 0))?;
            stream = client.request()?;
        }
    });
    // The initial window of 65,535 bytes is all that it ever grants.
    let large = |port| LoadPlan { method: "POST".into(), body: vec![b'p'; 200_000], ..plan(port) };
    check_load("never opens the window", &TIMEOUT, large, |client, _| client.drain());
    check_load("opens the window byte by byte", &TIMEOUT, large, |client, stream| {
        loop {
            client.say(&[window(stream, 1), window(0, 1)].concat())?;
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
}

#[test]
fn odd_servers_are_served() {
    let go_away_every_third = |stream: TcpStream| {
        let serve = || -> io::Result<()> {
            let mut client = Client::welcome(stream, &settings(&[(3, 1)]))?;
            for number in 0.. {
                let stream = client.request()?;
                client.say(&answer(stream, b"ok"))?;
                if number == 2 {
                    client.say(&goaway(stream, 0))?;
                    return client.drain();
                }
            }
            Ok(())
        };
        serve().ok();
    };
    let result = load(&plan(server(go_away_every_third))).unwrap();
    assert!(result.completed > 0 && result.connections_opened > 4, "{result:?}");

    let one_stream_at_a_time = |stream: TcpStream| {
        let serve = || -> io::Result<()> {
            let mut client = Client::welcome(stream, &settings(&[(3, 1), (1, 0), (4, 1), (5, 1 << 20)]))?;
            loop {
                let stream = client.request()?;
                client
                    .say(&[head(stream, 0), frame(DATA, 0, stream, b""), frame(DATA, END, stream, b"ok")].concat())?;
            }
        };
        serve().ok();
    };
    let result = load(&plan(server(one_stream_at_a_time))).unwrap();
    assert!(result.completed > 0, "{result:?}");
    assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
}

/// Many times what the load may hold is sent to it, and it is never allowed to answer: floods that must be replied to, and
/// bodies that it must not keep.
#[test]
fn endless_frames_take_no_memory() {
    const SENT_BYTES: u64 = 256 << 20;
    const GROWN_BYTES_MAX: u64 = 64 << 20;
    let floods: [(&str, Words); 3] = [
        ("settings", |_| settings(&[(3, 100)]).repeat(1000)),
        ("continuations", |stream| {
            let more = frame(CONTINUATION, 0, stream, &field("a", &"b".repeat(120)).repeat(100));
            [frame(HEADERS, 0, stream, &[STATUS_200]), more.repeat(10)].concat()
        }),
        ("bodies", |stream| [head(stream, 0), frame(DATA, 0, stream, &[b'b'; 16_000])].concat()),
    ];
    for (what, flood) in floods {
        let sent = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&sent);
        let port = server(move |stream| {
            let serve = || -> io::Result<()> {
                let mut client = Client::welcome(stream, &settings(&[]))?;
                let stream = client.request()?;
                let first = flood(stream);
                client.say(&first)?;
                let again = if what == "bodies" { frame(DATA, 0, stream, &[b'b'; 16_000]) } else { first };
                loop {
                    client.say(&again)?;
                    count.fetch_add(again.len() as u64, Ordering::Relaxed);
                }
            };
            serve().ok();
        });
        let before = resident_bytes();
        let plan = LoadPlan { connections: 10, duration: Nanos::from_millis(600_000), ..plan(port) };
        let (stop, most) = (AtomicBool::new(false), AtomicU64::new(0));
        let look = |_| {
            most.fetch_max(resident_bytes(), Ordering::Relaxed);
            stop.store(sent.load(Ordering::Relaxed) > SENT_BYTES, Ordering::Relaxed);
        };
        let result = run(&plan, &stop, Some(Listener { every: Duration::from_millis(250), tell: &look }));
        assert!(result.unwrap().interrupted);
        let grown = most.into_inner().saturating_sub(before);
        assert!(grown < GROWN_BYTES_MAX, "{what}: {grown} bytes");
    }
}
