//! Servers written in a few lines, each connection on a thread of its own, and loads on them.
//!
//! A load here must end within its own time and half a minute, whatever the machine is doing.

#![allow(dead_code, reason = "not every test binary needs everything")]

use prony_load::{LoadError, run};
use prony_model::load::Transport;
use prony_model::{ErrorCounts, LoadPlan, LoadResult, Nanos};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

/// A load that is not over by then does not end. Generous, for a machine that does other things.
const TOO_LONG: Duration = Duration::from_secs(30);

/// Every way to carry a load of plain connections. A kernel that refuses io_uring carries it by epoll twice.
pub const TRANSPORTS: [Option<Transport>; 2] = [Some(Transport::Epoll), Some(Transport::IoUring)];

/// What a misbehaviour is counted as.
pub struct Kind {
    pub name: &'static str,
    pub count: fn(&ErrorCounts) -> u64,
    /// Whether it takes the whole timeout to notice.
    pub waits: bool,
}

pub const PROTOCOL: Kind = Kind { name: "protocol", count: |e| e.protocol, waits: false };
pub const READ: Kind = Kind { name: "read", count: |e| e.read, waits: false };
pub const BROKEN: Kind = Kind { name: "read or write", count: |e| e.read + e.write, waits: false };
pub const TLS: Kind = Kind { name: "tls", count: |e| e.tls, waits: false };
pub const TIMEOUT: Kind = Kind { name: "timeout", count: |e| e.timeout, waits: true };

/// A server that gives each connection to `serve`. It lives as long as the test process.
pub fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    numbered_server(move |_, stream| serve(stream))
}

/// The same, with the number of each connection in the order in which they came.
fn numbered_server(serve: impl Fn(u64, TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for (number, stream) in (0..).zip(listener.incoming().flatten()) {
            let serve = serve.clone();
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || serve(number, stream));
        }
    });
    port
}

/// Reads one request head; false at the end of the connection.
pub fn read_request<S: Read>(stream: &mut S) -> bool {
    let mut last = [0; 4];
    while last != *b"\r\n\r\n" {
        last.rotate_left(1);
        match stream.read(&mut last[3..]) {
            Ok(1) => {}
            _ => return false,
        }
    }
    true
}

/// Answers as a server should.
pub fn well<S: Read + Write>(mut stream: S) {
    while read_request(&mut stream) {
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

/// Four connections for 400 ms, and a timeout that only a broken server reaches.
pub fn plan_to(port: u16) -> LoadPlan {
    LoadPlan {
        connections: 4,
        threads: 1,
        warmup: Nanos(0),
        duration: Nanos::from_millis(400),
        timeout: Nanos::from_millis(60_000),
        ..LoadPlan::to(&format!("http://127.0.0.1:{port}/"))
    }
}

/// Runs a load, which must end.
pub fn load(plan: &LoadPlan) -> Result<LoadResult, LoadError> {
    let begun = Instant::now();
    let result = run(plan, &AtomicBool::new(false), None);
    let allowed = Duration::from(plan.warmup) + Duration::from(plan.duration) + TOO_LONG;
    assert!(begun.elapsed() < allowed, "a load ends whatever the server does");
    result
}

/// How a misbehaviour is tried out.
pub struct Trial<P, W> {
    /// The load.
    pub plan: P,
    /// Good manners, on connections that do not misbehave.
    pub well: W,
    /// Connections that the load makes before it begins, and that go well.
    pub asked_first: u64,
}

/// [`Trial::check`] for HTTP/1.1.
pub fn check(what: &str, kind: &Kind, hostile: impl Fn(TcpStream) + Send + Sync + 'static) {
    Trial { plan: plan_to, well: well::<TcpStream>, asked_first: 1 }.check(what, kind, hostile);
}

impl<P: Fn(u16) -> LoadPlan + Sync, W: Fn(TcpStream) + Send + Sync + Copy + 'static> Trial<P, W> {
    /// A server that only misbehaves: nothing completes, and every failure is of this kind. One that misbehaves on every second
    /// connection: the load goes on with the others.
    pub fn check(&self, what: &str, kind: &Kind, hostile: impl Fn(TcpStream) + Send + Sync + 'static) {
        let hostile = Arc::new(hostile);
        let secured = (self.plan)(1).url.starts_with("https");
        // Side by side: these loads mostly wait.
        thread::scope(|scope| {
            for transport in TRANSPORTS.into_iter().skip(usize::from(secured)) {
                let hostile = Arc::clone(&hostile);
                scope.spawn(move || self.check_by(transport, &format!("{what}, {transport:?}"), kind, hostile));
            }
        });
    }

    fn check_by(
        &self,
        transport: Option<Transport>,
        what: &str,
        kind: &Kind,
        hostile: Arc<impl Fn(TcpStream) + Send + Sync + 'static>,
    ) {
        let result = self.load(transport, kind, 1, Arc::clone(&hostile));
        let count = (kind.count)(&result.errors);
        assert_eq!(result.completed, 0, "{what}: {result:?}");
        assert!(count > 0, "{what} counts as {}: {:?}", kind.name, result.errors);
        assert_eq!(result.errors.total(), count, "{what} counts as {}: {:?}", kind.name, result.errors);
        let result = self.load(transport, kind, 2, hostile);
        let count = (kind.count)(&result.errors);
        assert!(result.completed > 0 && count > 0, "{what}, half of the time: {result:?}");
    }

    /// One connection of `one_of` misbehaves.
    fn load(
        &self,
        transport: Option<Transport>,
        kind: &Kind,
        one_of: u64,
        hostile: Arc<impl Fn(TcpStream) + Send + Sync + 'static>,
    ) -> LoadResult {
        let (well, asked_first) = (self.well, self.asked_first);
        let port = numbered_server(move |number, stream| {
            match number.checked_sub(asked_first).is_some_and(|n| n % one_of == 0) {
                true => hostile(stream),
                false => well(stream),
            }
        });
        let plan = (self.plan)(port);
        let timeout = if kind.waits { Nanos::from_millis(100) } else { plan.timeout };
        // Where what misbehaves ends at once, good connections must end as well, or soon there would be only good ones.
        let requests_per_connection = (one_of > 1 && !kind.waits).then_some(50);
        load(&LoadPlan { timeout, requests_per_connection, transport, ..plan }).unwrap()
    }
}

/// Memory of this process, servers included: resident pages of /proc/self/statm.
pub fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
