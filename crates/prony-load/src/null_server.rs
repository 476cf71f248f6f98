//! A server that does nothing but answer: the other side of a calibration, where the generator's own ceiling is looked for.
//!
//! One thread, one epoll loop, one fixed answer to every request, over HTTP/1.1 or HTTP/2, with or without TLS. It reads no
//! method, path or header, and takes a body of HTTP/1.1 for the next head. Invariant: memory is bounded for each connection,
//! whatever clients send.

mod channel;
mod desk;

use crate::sys::{self, Epoll};
use channel::Channel;
use desk::{Answer, Desk};
use prony_model::Protocol;
use rustls::ServerConfig;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often the thread looks whether it shall end. A guess: nobody notices 20 ms at the end of a calibration.
const STOP_EVERY_NS: u64 = 20_000_000;
/// Events taken at once. Measured for the engine: more change nothing at 1000 connections.
const EVENTS: usize = 256;
/// Bytes received at once. A guess: more requests than any depth of pipelining brings.
const BUFFER_BYTES: usize = 64 * 1024;
/// Descriptors wanted: both sides of 1024 connections, which may be in one process, and what else is open. A guess.
const DESCRIPTORS: u64 = 4096;
/// Wait when no connection can be taken, so that a lack of descriptors does not cost a whole CPU. A guess.
const REST: Duration = Duration::from_millis(1);

/// What every request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullAnswer {
    /// Bytes of the body.
    pub body_bytes: usize,
    /// Close the connection after each answer.
    pub close: bool,
}

impl NullAnswer {
    /// The answer as on the wire.
    fn bytes(self) -> Vec<u8> {
        let close = if self.close { "Connection: close\r\n" } else { "" };
        let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{close}\r\n", self.body_bytes).into_bytes();
        bytes.resize(bytes.len() + self.body_bytes, b'x');
        bytes
    }
}

/// How the server speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NullSpeech {
    /// With HTTP/2, connections are kept, whatever the answer says.
    pub protocol: Protocol,
    /// TLS, with a self-signed certificate.
    pub secure: bool,
}

/// A running server on loopback; it ends when this is dropped.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    secure: bool,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Starts the thread, on that CPU when one is named. It listens when this returns.
    ///
    /// # Errors
    /// When the kernel gives no socket, no port, no thread, or not that CPU.
    pub fn start(answer: NullAnswer, speech: NullSpeech, cpu: Option<u32>) -> io::Result<Self> {
        crate::sys::descriptor_limit(DESCRIPTORS);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let service = Service::new(listener, answer, speech)?;
        let stop = Arc::new(AtomicBool::new(false));
        let halt = Arc::clone(&stop);
        let (tell, told) = std::sync::mpsc::channel();
        let thread = thread::Builder::new().name("null-server".to_string()).spawn(move || {
            let pinned = cpu.map_or(Ok(()), crate::sys::pin);
            let ready = pinned.is_ok();
            // The receiver waits for exactly this message.
            let _ = tell.send(pinned);
            if ready {
                service.run(&halt);
            }
        })?;
        let server = Self { address, secure: speech.secure, stop, thread: Some(thread) };
        told.recv().map_err(|_| io::Error::other("the thread of the null server ended early"))??;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL that it answers.
    pub fn url(&self) -> String {
        format!("{}://{}/", if self.secure { "https" } else { "http" }, self.address)
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It holds nothing that a panic could have spoiled.
            let _ = thread.join();
        }
    }
}

/// One client's connection.
struct Peer {
    channel: Channel,
    desk: Desk,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Wait,
    Close,
}

struct Service {
    listener: TcpListener,
    epoll: Epoll,
    /// By number of descriptor.
    peers: Vec<Option<Peer>>,
    buffer: Vec<u8>,
    answer: Answer,
    protocol: Protocol,
    tls: Option<Arc<ServerConfig>>,
}

impl Service {
    fn new(listener: TcpListener, answer: NullAnswer, speech: NullSpeech) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.watch_listener(&listener, listener.as_raw_fd() as u64)?;
        Ok(Self {
            listener,
            epoll,
            peers: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            answer: Answer::new(answer),
            protocol: speech.protocol,
            tls: speech.secure.then(|| channel::secure(speech.protocol)).transpose()?,
        })
    }

    fn run(mut self, stop: &AtomicBool) {
        let mut events = [sys::NO_EVENT; EVENTS];
        while !stop.load(Ordering::Relaxed) {
            let Ok(count) = self.epoll.wait(&mut events, STOP_EVERY_NS) else { return };
            for event in &events[..count] {
                let (token, flags) = (event.u64, event.events);
                if token == self.listener.as_raw_fd() as u64 {
                    self.accept();
                } else {
                    self.serve(token as RawFd, flags & sys::HUNG_UP != 0);
                }
            }
        }
    }

    /// Takes every connection that waits. One that cannot be watched is dropped: its client sees a reset and counts it.
    fn accept(&mut self) {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => return thread::sleep(REST),
            };
            let fd = stream.as_raw_fd();
            let prepared = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            let watched = prepared.and_then(|()| self.epoll.watch(&stream, fd as u64, true));
            if let Ok(channel) = watched.and_then(|()| Channel::new(stream, self.tls.as_ref())) {
                let desk = match self.protocol {
                    Protocol::Http1 => Desk::heads(),
                    Protocol::Http2 => Desk::frames(),
                };
                let at = fd as usize;
                if self.peers.len() <= at {
                    self.peers.resize_with(at + 1, || None);
                }
                self.peers[at] = Some(Peer { channel, desk });
            }
        }
    }

    fn serve(&mut self, fd: RawFd, hung_up: bool) {
        // An event of a connection that was closed in the same batch finds nobody.
        let Some(mut peer) = self.peers.get_mut(fd as usize).and_then(Option::take) else { return };
        if self.talk(&mut peer, hung_up) == Then::Wait {
            self.peers[fd as usize] = Some(peer);
        }
    }

    /// Answers and reads until the socket has no more to take or to give. Nothing is read while answers are owed, so a client
    /// that only asks fills its own buffers.
    fn talk(&mut self, peer: &mut Peer, hung_up: bool) -> Then {
        let Peer { channel, desk } = peer;
        let mut more = true;
        loop {
            while !desk.owed(&self.answer).is_empty() {
                match channel.write(desk.owed(&self.answer)) {
                    Ok(0) => return Then::Wait,
                    Ok(count) => desk.sent(count, &self.answer),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Then::Wait,
                    Err(_) => return Then::Close,
                }
                if desk.is_done(&self.answer) {
                    channel.finish();
                    return Then::Close;
                }
            }
            if !more {
                return Then::Wait;
            }
            let count = match channel.read(&mut self.buffer) {
                Ok(0) => return Then::Close,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Then::Wait,
                Err(_) => return Then::Close,
            };
            if desk.hear(&self.buffer[..count], &self.answer).is_err() {
                return Then::Close;
            }
            // Where a short read emptied the socket, only an end is announced no second time.
            more = hung_up || count == self.buffer.len() || !channel.short_read_is_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Nanos;
    use prony_model::load::{LoadPlan, LoadResult};
    use prony_model::tls::TlsPlan;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    fn ask(server: &NullServer, request: &[u8], answers: usize, answer: NullAnswer) {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let want = answer.bytes();
        for _ in 0..3 {
            stream.write_all(request).unwrap();
            for _ in 0..answers {
                let mut got = vec![0; want.len()];
                stream.read_exact(&mut got).unwrap();
                assert_eq!(got, want);
            }
            if answer.close {
                assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server closes");
                return;
            }
        }
    }

    #[test]
    fn every_head_gets_the_answer() {
        for body_bytes in [0, 100, 5_000_000] {
            let answer = NullAnswer { body_bytes, close: false };
            let server = NullServer::start(answer, NullSpeech::default(), None).unwrap();
            ask(&server, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1, answer);
            ask(&server, &b"GET / HTTP/1.1\r\n\r\n".repeat(7), 7, answer);
        }
        let answer = NullAnswer { body_bytes: 70_000, close: true };
        ask(&NullServer::start(answer, NullSpeech::default(), None).unwrap(), b"GET / HTTP/1.1\r\n\r\n", 1, answer);
    }

    /// More answers than the client's and the server's buffers hold, while the client does not read.
    #[test]
    fn a_client_that_does_not_read_waits_for_itself() {
        let answer = NullAnswer { body_bytes: 1000, close: false };
        let server = NullServer::start(answer, NullSpeech::default(), None).unwrap();
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let mut reader = stream.try_clone().unwrap();
        let count = 20_000;
        let asking = thread::spawn(move || stream.write_all(&b"GET / HTTP/1.1\r\n\r\n".repeat(count)).map(|()| stream));
        thread::sleep(std::time::Duration::from_millis(100));
        let mut got = vec![0; answer.bytes().len() * count];
        reader.read_exact(&mut got).unwrap();
        asking.join().unwrap().unwrap();
        assert!(got == answer.bytes().repeat(count));
    }

    /// What a load of prony's own client does with it.
    fn load(speech: NullSpeech, close: bool, depth: u32) -> LoadResult {
        let server = NullServer::start(NullAnswer { body_bytes: 40_000, close }, speech, None).unwrap();
        let plan = LoadPlan {
            connections: 4,
            threads: 1,
            protocol: speech.protocol,
            depth,
            keepalive: !close,
            tls: TlsPlan { insecure: true, ..TlsPlan::default() },
            warmup: Nanos(0),
            requests_max: Some(500),
            ..LoadPlan::to(&server.url())
        };
        crate::run(&plan, &AtomicBool::new(false), None).unwrap()
    }

    #[test]
    fn a_load_of_every_kind_is_answered() {
        for (protocol, close, depth) in [
            (Protocol::Http1, false, 1),
            (Protocol::Http1, false, 16),
            (Protocol::Http1, true, 1),
            (Protocol::Http2, false, 1),
            (Protocol::Http2, false, 10),
        ] {
            for secure in [false, true] {
                let speech = NullSpeech { protocol, secure };
                let result = load(speech, close, depth);
                assert_eq!((result.completed, result.errors.total()), (500, 0), "{speech:?} {close} {result:?}");
                assert!(result.bytes_in > 500 * 40_000, "{speech:?} {}", result.bytes_in);
            }
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(
            NullServer::start(NullAnswer { body_bytes: 0, close: false }, NullSpeech::default(), Some(1023)).is_err()
        );
    }
}
