//! A real server over a folder of its own, and a client that says exactly what it is told to.

#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may stop at what cannot be")]

use prony_web::{Server, Settings, Tls};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Above this an answer does not come any more.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with the test.
pub struct Serving {
    pub address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    pub fn has(&self, header: &str) -> bool {
        self.head.to_lowercase().contains(&header.to_lowercase())
    }
}

/// Settings over a folder: nothing can be started or edited.
pub fn settings(runs: &Path) -> Settings {
    Settings {
        runs: runs.to_path_buf(),
        experiments: Vec::new(),
        stacks: Vec::new(),
        hosts: Vec::new(),
        token: None,
        program: PathBuf::from("/bin/false"),
    }
}

impl Serving {
    pub fn begin(settings: Settings, tls: Option<&Tls>) -> Self {
        let server = Server::bind("127.0.0.1:0".parse().unwrap(), tls, settings).unwrap();
        let url = server.url().unwrap();
        let address = url.split("//").nth(1).unwrap().trim_end_matches('/').parse().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let thread = std::thread::spawn(move || server.serve(|| is_over.load(Ordering::Relaxed)).unwrap());
        Self { address, over, thread: Some(thread) }
    }

    /// Sends bytes as they are and reads the answer.
    pub fn raw(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        answer(stream)
    }

    pub fn get(&self, path: &str) -> Answer {
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address))
    }

    /// A change, as the pages send it.
    pub fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.send_with(method, path, "X-Prony: 1\r\nContent-Type: application/json\r\n", &body.to_string())
    }

    /// A change with these headers.
    pub fn send_with(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}", self.address);
        self.raw(&format!("{head}Content-Length: {length}\r\n\r\n{body}"))
    }

    /// A stream of events that begins.
    pub fn events(&self, path: &str) -> Events {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).unwrap();
        Events(BufReader::new(stream))
    }

    /// Ends it and waits.
    pub fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A test that failed shall show its own message.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

pub fn answer(mut stream: impl Read) -> Answer {
    let mut bytes = Vec::new();
    // A server that refuses in mid-request may reset the connection after its answer.
    drop(stream.read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { dechunked(body) } else { body.to_string() };
    Answer { code, head: head.to_string(), body }
}

fn dechunked(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        out.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    out
}

/// Server-sent events.
pub struct Events(BufReader<TcpStream>);

impl Events {
    /// The next event: its name and its data. None: the stream is over.
    pub fn next(&mut self) -> Option<(String, Value)> {
        let mut name = String::new();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 || line == "0\r\n" {
                return None;
            }
            if let Some(seen) = line.strip_prefix("event: ") {
                name = seen.trim().to_string();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }

    /// The first line of the answer.
    pub fn status(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim().to_string()
    }
}

/// Copies of recorded runs, because reading may recover what a killed writer left.
pub fn recorded(folder: &Path, names: &[&str]) {
    for name in names {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runs").join(name);
        std::fs::copy(from, folder.join(name)).unwrap();
    }
}
