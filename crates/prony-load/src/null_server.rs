//! A server that does nothing but answer: the other side of a calibration, where the generator's own ceiling is looked for.
//!
//! One thread, one epoll loop, one fixed answer to every request head. It reads no method, path or header, and takes a body for
//! the next head. Invariant: memory is one buffer, one block of answers and a few words per connection, whatever clients send.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use sys::{Epoll, Ready};

/// How often the thread looks whether it shall end. A guess: nobody notices 20 ms at the end of a calibration.
const STOP_EVERY_MS: i32 = 20;
/// Bytes received at once. A guess: more requests than any depth of pipelining brings.
const BUFFER_BYTES: usize = 64 * 1024;
/// Short answers are laid out many times in a row up to this size, so that pipelined requests take one system call.
/// A guess: the default send buffer of a socket is larger.
const BLOCK_BYTES: usize = 16 * 1024;
/// Descriptors wanted: both sides of 1024 connections, which may be in one process, and what else is open. A guess.
const DESCRIPTORS: u64 = 4096;
/// Wait when no connection can be taken, so that a lack of descriptors does not cost a whole CPU. A guess.
const REST: Duration = Duration::from_millis(1);
/// What ends a head.
const HEAD_END: &[u8; 4] = b"\r\n\r\n";

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

/// A running server on loopback; it ends when this is dropped.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NullServer {
    /// Starts the thread, on that CPU when one is named. It listens when this returns.
    ///
    /// # Errors
    /// When the kernel gives no socket, no port, no thread, or not that CPU.
    pub fn start(answer: NullAnswer, cpu: Option<u32>) -> io::Result<Self> {
        crate::sys::descriptor_limit(DESCRIPTORS);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let service = Service::new(listener, answer)?;
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
        let server = Self { address, stop, thread: Some(thread) };
        told.recv().map_err(|_| io::Error::other("the thread of the null server ended early"))??;
        Ok(server)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL that it answers.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
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
    stream: TcpStream,
    /// How many bytes of [`HEAD_END`] came last.
    matched: u8,
    /// Answers that are not sent in full.
    owed: usize,
    /// Bytes of the first of them that are sent.
    sent: usize,
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
    /// The answer, as often as `repeats` says.
    block: Vec<u8>,
    answer_bytes: usize,
    repeats: usize,
    close: bool,
}

impl Service {
    fn new(listener: TcpListener, answer: NullAnswer) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        epoll.watch_listener(listener.as_raw_fd())?;
        let bytes = answer.bytes();
        let repeats = if answer.close { 1 } else { (BLOCK_BYTES / bytes.len()).max(1) };
        Ok(Self {
            listener,
            epoll,
            peers: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            answer_bytes: bytes.len(),
            block: bytes.repeat(repeats),
            repeats,
            close: answer.close,
        })
    }

    fn run(mut self, stop: &AtomicBool) {
        let mut ready = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            self.epoll.wait(&mut ready, STOP_EVERY_MS);
            for Ready { fd, hung_up } in ready.drain(..) {
                if fd == self.listener.as_raw_fd() {
                    self.accept();
                } else {
                    self.serve(fd, hung_up);
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
            if prepared.and_then(|()| self.epoll.watch_peer(fd)).is_ok() {
                let at = fd as usize;
                if self.peers.len() <= at {
                    self.peers.resize_with(at + 1, || None);
                }
                self.peers[at] = Some(Peer { stream, matched: 0, owed: 0, sent: 0 });
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
        let mut more = true;
        loop {
            while peer.owed > 0 {
                match self.send(peer) {
                    Ok(()) if self.close && peer.owed == 0 => return Then::Close,
                    Ok(()) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Then::Wait,
                    Err(_) => return Then::Close,
                }
            }
            if !more {
                return Then::Wait;
            }
            let count = match peer.stream.read(&mut self.buffer) {
                Ok(0) => return Then::Close,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Then::Wait,
                Err(_) => return Then::Close,
            };
            let heads = heads_ended(&mut peer.matched, &self.buffer[..count]);
            peer.owed = if self.close { heads.min(1) } else { heads };
            // A read that does not fill the buffer emptied the socket (epoll(7)); only an end is announced no second time.
            more = hung_up || count == self.buffer.len();
        }
    }

    fn send(&self, peer: &mut Peer) -> io::Result<()> {
        let until = peer.owed.min(self.repeats) * self.answer_bytes;
        let count = peer.stream.write(&self.block[peer.sent..until])?;
        peer.owed -= (peer.sent + count) / self.answer_bytes;
        peer.sent = (peer.sent + count) % self.answer_bytes;
        Ok(())
    }
}

/// How many heads end in these bytes; `matched` is carried from one piece to the next.
fn heads_ended(matched: &mut u8, bytes: &[u8]) -> usize {
    let mut ended = 0;
    let mut state = *matched;
    for byte in bytes {
        state = if *byte == HEAD_END[usize::from(state)] { state + 1 } else { u8::from(*byte == b'\r') };
        if usize::from(state) == HEAD_END.len() {
            ended += 1;
            state = 0;
        }
    }
    *matched = state;
    ended
}

mod sys {
    //! epoll with descriptors as tokens, for a server. The engine's own is for clients and counts generations.

    use std::io;
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

    /// Events taken at once. Measured for the engine: more change nothing at 1000 connections.
    const EVENTS: usize = 256;

    /// A descriptor that something happened to.
    pub struct Ready {
        pub fd: RawFd,
        /// The other side will send nothing more.
        pub hung_up: bool,
    }

    #[derive(Debug)]
    pub struct Epoll(OwnedFd);

    impl Epoll {
        pub fn new() -> io::Result<Self> {
            // SAFETY: no pointers; the result is checked before it is used.
            let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: `fd` was just made, and nothing else owns it.
            Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
        }

        /// Tells of waiting connections until all are taken.
        pub fn watch_listener(&self, fd: RawFd) -> io::Result<()> {
            self.watch(fd, libc::EPOLLIN as u32)
        }

        /// Tells each time that something new can be read or written.
        pub fn watch_peer(&self, fd: RawFd) -> io::Result<()> {
            self.watch(fd, (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET) as u32)
        }

        fn watch(&self, fd: RawFd, events: u32) -> io::Result<()> {
            let mut event = libc::epoll_event { events, u64: fd as u64 };
            // SAFETY: `event` outlives the call, which copies it; a wrong descriptor is an error and no harm.
            let result = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        }

        /// Waits at most that long, and adds to `ready` what happened.
        pub fn wait(&self, ready: &mut Vec<Ready>, wait_ms: i32) {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
            // SAFETY: `events` has EVENTS entries and outlives the call.
            let n = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), EVENTS as i32, wait_ms) };
            // An error is a signal: nothing happened.
            let count = usize::try_from(n).unwrap_or(0);
            let over = (libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR) as u32;
            ready.extend(events[..count].iter().map(|event| {
                let (token, flags) = (event.u64, event.events);
                Ready { fd: token as RawFd, hung_up: flags & over != 0 }
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let server = NullServer::start(answer, None).unwrap();
            ask(&server, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1, answer);
            ask(&server, &b"GET / HTTP/1.1\r\n\r\n".repeat(7), 7, answer);
        }
        let answer = NullAnswer { body_bytes: 70_000, close: true };
        ask(&NullServer::start(answer, None).unwrap(), b"GET / HTTP/1.1\r\n\r\n", 1, answer);
    }

    /// More answers than the client's and the server's buffers hold, while the client does not read.
    #[test]
    fn a_client_that_does_not_read_waits_for_itself() {
        let answer = NullAnswer { body_bytes: 1000, close: false };
        let server = NullServer::start(answer, None).unwrap();
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

    #[test]
    fn heads_end_in_any_piece() {
        let text = b"GET / HTTP/1.1\r\nA: b\r\n\r\nGET / HTTP/1.1\r\n\r\r\n\r\n\r\n\r\n";
        let mut whole = 0;
        let all = heads_ended(&mut whole, text);
        assert_eq!(all, 3);
        for cut in 0..text.len() {
            let mut matched = 0;
            let first = heads_ended(&mut matched, &text[..cut]);
            assert_eq!(first + heads_ended(&mut matched, &text[cut..]), all, "cut at {cut}");
            assert_eq!(matched, whole);
        }
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        assert!(NullServer::start(NullAnswer { body_bytes: 0, close: false }, Some(1023)).is_err());
    }
}
