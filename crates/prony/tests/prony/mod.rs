//! Runs the real binary, and servers that misbehave.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use prony_model::CpuList;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What the binary said.
pub struct Said {
    pub out: String,
    pub err: String,
    pub code: i32,
}

/// Runs `prony` with a home of its own.
pub fn prony(args: &[&str]) -> Said {
    let home = scratch();
    prony_at(home.path(), args)
}

/// Runs `prony` with this home.
pub fn prony_at(home: &std::path::Path, args: &[&str]) -> Said {
    run(Command::new(BINARY).args(args), home)
}

/// Runs `prony` by way of another program, whose arguments end where prony's command line begins.
pub fn prony_under(before: &[&str], args: &[&str]) -> Said {
    let (program, more) = before.split_first().expect("a program is named");
    run(Command::new(program).args(more).arg(BINARY).args(args), scratch().path())
}

const BINARY: &str = env!("CARGO_BIN_EXE_prony");

fn run(command: &mut Command, home: &std::path::Path) -> Said {
    let out =
        command.env("PRONY_HOME", home).stdin(Stdio::null()).output().expect("the binary was built with the tests");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { out: text(out.stdout), err: text(out.stderr), code: out.status.code().unwrap_or(-1) }
}

/// A folder that goes away with the test.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

/// Whether the test may do what needs root; says why it is skipped otherwise.
pub fn root(what: &str) -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| std::os::unix::fs::MetadataExt::uid(&m) == 0);
    if !root {
        eprintln!("skipped: {what} needs root");
    }
    root
}

/// The machine for this test alone: two that load it at the same time would disturb each other. A test that failed has left nothing
/// behind that matters to the next one.
pub fn alone() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The longest that a test waits for what must come. A guess: no machine needs longer, however busy.
const COMES_WITHIN: Duration = Duration::from_secs(60);

/// Waits until something holds; fails with its name when it never does.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < COMES_WITHIN, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The ready experiments, in the order of their names.
pub fn experiments() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let entries = std::fs::read_dir(&folder).expect("the folder is part of the project").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    files.sort();
    assert!(files.len() >= 24, "{files:?}");
    files
}

/// Programs that use all of a CPU. Gone when dropped.
pub struct Spinners(Vec<Child>);

impl Spinners {
    /// Three of them on one CPU.
    pub fn on(cpu: u32) -> Self {
        let spin = |_| {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
            command.stdin(Stdio::null()).spawn().expect("util-linux and a shell are on every Linux")
        };
        Self((0..3).map(spin).collect())
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// The last CPU that this may run on.
pub fn last_cpu() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("since Linux 2.6.26");
    let cpus: CpuList = list.trim().parse().expect("the kernel's own form");
    *cpus.as_slice().last().expect("this runs somewhere")
}

/// How a server answers.
#[derive(Clone, Copy)]
pub enum Served {
    /// Properly.
    Answer,
    /// With bytes that are no HTTP.
    Garbage,
    /// With a reset.
    Reset,
    /// Never.
    Silence,
    /// With headers that never end.
    EndlessHeaders,
}

/// Starts a server that answers so; it ends with the test. Gives its port.
pub fn hostile(served: Served) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let port = listener.local_addr().expect("a bound listener has an address").port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, served));
        }
    });
    port
}

fn serve(mut stream: TcpStream, served: Served) {
    let mut request = [0u8; 4096];
    while matches!(stream.read(&mut request), Ok(n) if n > 0) {
        let alive = match served {
            Served::Answer => stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok(),
            Served::Garbage => stream.write_all(b"\x00\x01 this is not HTTP at all\r\n\r\n").is_ok(),
            Served::Reset => false,
            Served::Silence => {
                thread::sleep(Duration::from_secs(5));
                false
            }
            Served::EndlessHeaders => {
                let begun = stream.write_all(b"HTTP/1.1 200 OK\r\n").is_ok();
                while begun && stream.write_all(b"X-More: and more and more and more\r\n").is_ok() {}
                false
            }
        };
        if !alive {
            return;
        }
    }
}
