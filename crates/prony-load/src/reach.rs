//! Before a load: is anybody there, and does it speak what the load will speak?
//!
//! One connection is made and closed, so that a server that is not there, or another one than it was taken for, is an error and
//! not a load of failures. It sends no request. Invariant: a generator out of ports or descriptors passes: its load will count
//! that.

use crate::error::LoadError;
use crate::h2;
use crate::target::Endpoint;
use crate::tls::Tls;
use prony_model::{LoadPlan, Protocol};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often a server that is not there yet is asked again. A guess: a person does not notice 20 ms.
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(20);
/// A server that refuses for this long is not about to come up. A guess: 1 s.
const REFUSED_MAX: Duration = Duration::from_secs(1);
/// Longest wait for the first connection. A guess: one retransmitted SYN (1 s, then 2 s; RFC 6298) may still get through.
const FIRST_CONNECT_MAX: Duration = Duration::from_secs(4);

/// A connection that blocks, at most for a while.
trait Stream: Read + Write {}

impl<S: Read + Write> Stream for S {}

/// The endpoints to use: the first address of the name that accepts a connection, or all that were asked for. None: stopped
/// meanwhile. One that answered before may be silent now.
///
/// # Errors
/// Nobody listens, nothing gets through, or what listens does not speak TLS or HTTP/2 as the plan wants it.
pub fn reachable(
    endpoints: Vec<Endpoint>,
    plan: &LoadPlan,
    tls: Option<&Tls>,
    stop: &AtomicBool,
) -> Result<Option<Vec<Endpoint>>, LoadError> {
    let begun = Instant::now();
    let wait = FIRST_CONNECT_MAX.min(plan.timeout.into());
    let all = plan.all_addresses || !plan.connect_to.is_empty();
    loop {
        let mut last = None;
        for endpoint in &endpoints {
            match connect(endpoint, wait) {
                Ok(mut stream) => greet(&mut stream, endpoint, plan.protocol, tls, wait)?,
                Err(error) if is_own_want(&error) || (plan.reached && error.kind() == ErrorKind::TimedOut) => {}
                Err(error) => {
                    last = Some((endpoint, error));
                    continue;
                }
            }
            return Ok(Some(if all { endpoints } else { vec![endpoint.clone()] }));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (endpoint, error) = last.expect("endpoints() gives at least one");
        let endpoint = endpoint.clone();
        if !matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) {
            return Err(LoadError::Unreachable { endpoint, why: error.to_string() });
        }
        if begun.elapsed() >= REFUSED_MAX {
            let why = error.to_string();
            return Err(if error.kind() == ErrorKind::NotFound {
                LoadError::Unreachable { endpoint, why }
            } else {
                LoadError::Refused { endpoint }
            });
        }
        thread::sleep(ASK_AGAIN_EVERY);
    }
}

fn connect(endpoint: &Endpoint, wait: Duration) -> io::Result<Box<dyn Stream>> {
    match endpoint {
        Endpoint::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, wait)?;
            stream.set_read_timeout(Some(wait))?;
            Ok(Box::new(stream))
        }
        Endpoint::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(wait))?;
            Ok(Box::new(stream))
        }
    }
}

/// Whether the generator lacks what a connection needs.
fn is_own_want(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL | libc::EMFILE | libc::ENFILE))
}

/// Makes the handshake of TLS, in which HTTP/2 is agreed on; without TLS, opens HTTP/2.
fn greet(
    stream: &mut Box<dyn Stream>,
    endpoint: &Endpoint,
    protocol: Protocol,
    tls: Option<&Tls>,
    wait: Duration,
) -> Result<(), LoadError> {
    let endpoint = || endpoint.clone();
    match (tls, protocol) {
        (Some(tls), _) => tls
            .trial(stream, Instant::now() + wait)
            .map(drop)
            .map_err(|why| LoadError::Handshake { endpoint: endpoint(), why }),
        (None, Protocol::Http2) => {
            h2::trial(stream).map_err(|answered| LoadError::NotHttp2 { endpoint: endpoint(), answered })
        }
        (None, Protocol::Http1) => Ok(()),
    }
}
