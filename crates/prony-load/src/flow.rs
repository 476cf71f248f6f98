//! Flows: what crosses a path so that the path itself is measured. A TCP stream, datagrams of one size, or probes.
//!
//! No protocol of anybody's application is spoken, and nothing is judged. Each end is called on a thread of its host's network
//! namespace. Invariant: both ends come to their end in time, whatever the other one does.

mod datagrams;
mod probes;
mod stream;

use crate::sys::Epoll;
use prony_model::network::{FlowEnd, FlowPlan, Traffic};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What the ends call themselves.
pub const BY: &str = concat!("prony ", env!("CARGO_PKG_VERSION"));

/// How long an end waits for the other one, beyond the duration of the flow. A guess: agents begin within milliseconds.
const GRACE: Duration = Duration::from_secs(5);
/// How often an end that waits looks whether it shall stop.
const TICK: Duration = Duration::from_millis(100);
/// Share of the duration at the beginning that is not counted: windows open, queues fill. A guess, as in a trial of an experiment.
const SETTLE: f64 = 0.2;

/// Why a flow could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The receiver cannot listen.
    #[error("cannot listen on {at}: {source}; is that an address of the host that receives?")]
    Listen {
        /// The address.
        at: IpAddr,
        /// The system's word.
        source: io::Error,
    },
    /// The sender cannot reach the receiver.
    #[error("cannot send to {to}: {source}; is a firewall in between?")]
    Reach {
        /// The receiver.
        to: SocketAddr,
        /// The system's word.
        source: io::Error,
    },
    /// Nothing came.
    #[error("nothing came to {at} within {waited_s:.0} s: a firewall, or a route that leads elsewhere?")]
    Nothing {
        /// Where it was waited for.
        at: IpAddr,
        /// How long, in seconds.
        waited_s: f64,
    },
    /// It broke on the way.
    #[error("the flow broke off: {0}")]
    Broke(io::Error),
}

/// The end that receives. It listens from when it is opened.
#[derive(Debug)]
pub struct Receiver {
    plan: FlowPlan,
    port: u16,
    listens: Listens,
}

#[derive(Debug)]
enum Listens {
    Stream(TcpListener),
    Datagrams(UdpSocket),
    Probes(UdpSocket),
}

impl Receiver {
    /// Listens on the plan's address, on a port that the kernel chooses.
    ///
    /// # Errors
    /// [`FlowError::Listen`].
    pub fn open(plan: &FlowPlan) -> Result<Self, FlowError> {
        let at = plan.to;
        let opened = match plan.traffic {
            Traffic::Stream => TcpListener::bind((at, 0)).and_then(|l| Ok((l.local_addr()?, Listens::Stream(l)))),
            Traffic::Packets { .. } => {
                UdpSocket::bind((at, 0)).and_then(|s| Ok((s.local_addr()?, Listens::Datagrams(s))))
            }
            Traffic::Probes { .. } => UdpSocket::bind((at, 0)).and_then(|s| Ok((s.local_addr()?, Listens::Probes(s)))),
        };
        let (address, listens) = opened.map_err(|source| FlowError::Listen { at, source })?;
        Ok(Self { plan: *plan, port: address.port(), listens })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Receives until the sender ends, or for the duration of the plan and some seconds. `stop` ends it early.
    ///
    /// # Errors
    /// [`FlowError::Nothing`] when nobody sent, [`FlowError::Broke`] when the connection failed.
    pub fn run(self, stop: &AtomicBool) -> Result<FlowEnd, FlowError> {
        let duration = Duration::from(self.plan.duration);
        let until = Until { begun: Instant::now(), end: Instant::now() + duration + GRACE, stop };
        let end = match self.listens {
            Listens::Stream(listener) => stream::receive(&listener, duration, &until),
            Listens::Datagrams(socket) => datagrams::receive(&socket, duration, &until),
            Listens::Probes(socket) => probes::answer(&socket, &until),
        };
        let (at, waited_s) = (self.plan.to, until.begun.elapsed().as_secs_f64());
        Ok(FlowEnd { by: BY.to_string(), ..end.map_err(FlowError::Broke)?.ok_or(FlowError::Nothing { at, waited_s })? })
    }
}

/// Sends what the plan says to `port` of its address, for its duration. `stop` ends it early.
///
/// # Errors
/// [`FlowError::Reach`] when nobody listens there, [`FlowError::Broke`] when the connection failed.
pub fn send(plan: &FlowPlan, port: u16, stop: &AtomicBool) -> Result<FlowEnd, FlowError> {
    let to = SocketAddr::new(plan.to, port);
    let until = Until { begun: Instant::now(), end: Instant::now() + Duration::from(plan.duration), stop };
    let reach = |source| FlowError::Reach { to, source };
    let end = match plan.traffic {
        Traffic::Stream => stream::send(&stream::connect(to).map_err(reach)?, &until),
        Traffic::Packets { payload_bytes } => {
            datagrams::send(&connected(to).map_err(reach)?, payload_bytes as usize, &until)
        }
        Traffic::Probes { per_s } => {
            let socket = connected(to).map_err(reach)?;
            let epoll = Epoll::new().map_err(FlowError::Broke)?;
            probes::send(&socket, &epoll, per_s, &until)
        }
    };
    Ok(FlowEnd { by: BY.to_string(), ..end.map_err(FlowError::Broke)? })
}

/// A UDP socket that sends to `to` and hears nobody else.
fn connected(to: SocketAddr) -> io::Result<UdpSocket> {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    Ok(socket)
}

/// When an end stops.
struct Until<'a> {
    begun: Instant,
    end: Instant,
    stop: &'a AtomicBool,
}

impl Until<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end || self.stop.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// Whether a read or write only waited too long, or was interrupted.
fn is_pause(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    [Interrupted, TimedOut, WouldBlock].contains(&error.kind())
}

/// What arrived after the beginning of the flow that is not counted.
#[derive(Debug)]
struct Counted {
    settle: Duration,
    begun: Instant,
    /// Of the first arrival after the beginning.
    from: Option<Instant>,
    to: Instant,
    bytes: u64,
    packets: u64,
}

impl Counted {
    fn new(duration: Duration) -> Self {
        let now = Instant::now();
        Self { settle: duration.mul_f64(SETTLE), begun: now, from: None, to: now, bytes: 0, packets: 0 }
    }

    /// Something arrived now. What arrives first after the beginning starts the clock and is not counted itself.
    fn add(&mut self, bytes: u64, packets: u64) {
        let now = Instant::now();
        match self.from {
            None if now.duration_since(self.begun) >= self.settle => (self.from, self.to) = (Some(now), now),
            None => {}
            Some(_) => (self.to, self.bytes, self.packets) = (now, self.bytes + bytes, self.packets + packets),
        }
    }

    /// The counted time in seconds; none when nothing arrived twice after the beginning.
    fn seconds(&self) -> Option<f64> {
        let seconds = self.to.duration_since(self.from?).as_secs_f64();
        (seconds > 0.0).then_some(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Nanos;
    use prony_model::network::Sender;

    /// Both ends over loopback.
    fn both(traffic: Traffic) -> (FlowEnd, FlowEnd) {
        let to = Ipv4Addr::LOCALHOST.into();
        let plan = FlowPlan { traffic, duration: Nanos::from_millis(300), by: Sender::Own, to };
        let receiver = Receiver::open(&plan).unwrap();
        let port = receiver.port();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let received = scope.spawn(|| receiver.run(&stop));
            let sent = send(&plan, port, &stop).unwrap();
            (sent, received.join().unwrap().unwrap())
        })
    }

    #[test]
    fn a_stream_is_counted_where_it_arrives() {
        let (sent, received) = both(Traffic::Stream);
        let counted_s = received.counted_s.unwrap();
        assert!(received.bytes.unwrap() > 1 << 20 && counted_s > 0.1 && counted_s < 2.0, "{received:?}");
        assert!(sent.bytes.is_none() && sent.retransmits.is_some() && sent.by == BY, "{sent:?}");
    }

    #[test]
    fn datagrams_are_counted_at_both_ends() {
        let (sent, received) = both(Traffic::Packets { payload_bytes: 64 });
        let (count, arrived) = (sent.sent.unwrap(), received.received.unwrap());
        assert!(arrived > 100 && arrived <= count, "{sent:?} {received:?}");
        assert_eq!(received.bytes, Some(64 * arrived));
    }

    #[test]
    fn probes_come_back_with_their_times() {
        let (sent, received) = both(Traffic::Probes { per_s: 500 });
        assert!(sent.sent.unwrap() > 50, "{sent:?}");
        assert_eq!((sent.returned, received.received, received.overtaken), (sent.sent, sent.sent, Some(0)));
        let (round_trip, there) = (sent.round_trip.unwrap(), sent.there.unwrap());
        assert_eq!((round_trip.count, there.count), (sent.sent.unwrap(), sent.sent.unwrap()));
        assert!(there.p50_us <= round_trip.p50_us * 1.01, "{there:?} {round_trip:?}");
    }

    #[test]
    fn an_end_without_its_other_one_says_so() {
        let to: IpAddr = Ipv4Addr::LOCALHOST.into();
        let plan = FlowPlan { traffic: Traffic::Stream, duration: Nanos::from_millis(100), by: Sender::Own, to };
        let receiver = Receiver::open(&plan).unwrap();
        let stop = AtomicBool::new(true);
        let error = receiver.run(&stop).unwrap_err().to_string();
        assert!(error.starts_with("nothing came to 127.0.0.1"), "{error}");
        // Port 1 of loopback: nothing listens there.
        let error = send(&plan, 1, &AtomicBool::new(false)).unwrap_err().to_string();
        assert!(error.starts_with("cannot send to 127.0.0.1:1: "), "{error}");
        let elsewhere = FlowPlan { to: "192.0.2.1".parse().unwrap(), ..plan };
        assert!(Receiver::open(&elsewhere).unwrap_err().to_string().starts_with("cannot listen on 192.0.2.1: "));
    }
}
