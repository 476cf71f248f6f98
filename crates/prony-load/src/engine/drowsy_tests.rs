//! A thread that wakes up late tells the latency that the server has, not its own.

use super::{Route, Share, Worker};
use crate::h1::Http1;
use crate::live::Published;
use crate::pacer::{Open, Part, Schedule};
use crate::request::{Choice, Requests};
use crate::source::Source;
use crate::sys::{self, Socket};
use crate::tally::{Counted, Tally};
use crate::target::{Endpoint, check_url};
use crate::transport::{ByEpoll, Event, Transport};
use crate::wire::{Received, Wire};
use prony_model::load::{self, Arrivals};
use prony_model::{LoadPlan, Rate};
use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// How late it wakes.
const LATE: Duration = Duration::from_millis(20);
const SECOND_NS: u64 = 1_000_000_000;

/// A transport whose thread is not given a CPU for some time whenever it wakes up.
struct Drowsy(ByEpoll);

impl Transport for Drowsy {
    const NAME: load::Transport = ByEpoll::NAME;
    const GATHERS: bool = ByEpoll::GATHERS;

    fn new(connections: u32) -> io::Result<Self> {
        ByEpoll::new(connections).map(Self)
    }

    fn watch(&mut self, socket: &Socket, token: u64, sends: bool) -> io::Result<()> {
        self.0.watch(socket, token, sends)
    }

    fn opened(&mut self, token: u64) {
        self.0.opened(token);
    }

    fn watch_again(&mut self, socket: &Socket, token: u64) -> io::Result<()> {
        self.0.watch_again(socket, token)
    }

    fn forget(&mut self, token: u64) {
        self.0.forget(token);
    }

    fn wait(&mut self, now: u64, wait_ns: u64) -> io::Result<()> {
        self.0.wait(now, wait_ns)?;
        if wait_ns > 0 {
            thread::sleep(LATE);
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Event> {
        self.0.next()
    }

    fn send(&mut self, wire: &mut Wire, token: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(wire, token, bytes)
    }

    fn receive(&mut self, wire: &mut Wire) -> io::Result<Received> {
        self.0.receive(wire)
    }

    fn bytes(&self, count: usize) -> &[u8] {
        self.0.bytes(count)
    }

    fn arrived_ns(&self) -> Option<u64> {
        self.0.arrived_ns()
    }

    fn unsent(&self) -> &[u8] {
        self.0.unsent()
    }
}

/// The address of a server that answers one connection, each request at once.
fn prompt_server() -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut stream, mut head) = (listener.accept().unwrap().0, [0; 1024]);
        stream.set_nodelay(true).unwrap();
        while stream.read(&mut head).is_ok_and(|count| count > 0) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        }
    });
    Endpoint::Tcp(address)
}

/// Ten requests per second for a second, by one connection.
fn counted(transport: impl Transport) -> Tally {
    let endpoint = prompt_server();
    let route = Route {
        endpoints: vec![endpoint.clone()],
        sources: Vec::new(),
        tls: None,
        timeout_ns: 10 * SECOND_NS,
        spin: false,
        deadline_ns: None,
        requests_per_connection: u32::MAX,
    };
    let plan = LoadPlan { rate: Some(Rate(10.0)), ..LoadPlan::to("http://127.0.0.1/") };
    let (target, protocol) = (check_url(&plan.url).unwrap(), Http1::new(1, false));
    let requests = Arc::new(Requests::encode(&plan, &target, &protocol).unwrap());
    let source = Source::Fixed { requests, choice: Choice::new(0, 1) };
    let epoch_ns = sys::clock_ns();
    let share = Share {
        connections: 1,
        first: 0,
        requests_max: u64::MAX,
        opening_gap_ns: 0,
        connect_gap_ns: 0,
        epoch_ns,
        counted: Counted { start_ns: epoch_ns, end_ns: epoch_ns + SECOND_NS },
    };
    let schedule = Schedule::of(&plan).unwrap();
    let part = Part { number: 0, threads: 1, share: 1.0 };
    let pacer = Open::new(&schedule, Arrivals::Constant, part, epoch_ns, 1);
    let worker = Worker::new(&route, share, pacer, &protocol, source, transport);
    let tally = worker.run(&AtomicBool::new(false), &Published::default()).unwrap().tally;
    assert!(tally.completed >= 5 && tally.errors.total() == 0, "{} completed, {:?}", tally.completed, tally.errors);
    tally
}

#[test]
fn waking_up_late_is_no_latency_of_the_server() {
    let late_us = LATE.as_secs_f64() * 1e6;
    let by_epoll = || ByEpoll::new(1).unwrap();
    // The server answers within microseconds of the send.
    let told = counted(Drowsy(by_epoll().telling_arrivals())).latency_actual.quantile_us(0.5);
    assert!(told < late_us / 2.0, "{told} us");
    let seen = counted(Drowsy(by_epoll())).latency_actual.quantile_us(0.5);
    assert!(seen > late_us, "{seen} us: it was not late at all, so the line above says nothing");
}
