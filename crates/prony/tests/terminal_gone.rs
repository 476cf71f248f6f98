//! A terminal that goes away while a load shows its screen there: the load ends like any other.

mod prony;

use prony::scratch;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The load lasts 2 s. A guess: a machine needs never longer than this to end it, however busy.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Answers every request of one connection, at leisure.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/", listener.local_addr().expect("a bound listener has an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut request = [0u8; 4096];
                while matches!(stream.read(&mut request), Ok(n) if n > 0) {
                    thread::sleep(Duration::from_millis(5));
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                }
            });
        }
    });
    url
}

/// Whether a process runs; one that nobody has asked for its end yet does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < ENDS_WITHIN, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_load_whose_terminal_hangs_up_ends() {
    let home = scratch();
    let pid_file = home.path().join("pid");
    let (binary, url) = (env!("CARGO_BIN_EXE_prony"), server());
    let line = format!("stty rows 24 cols 80; echo $$ >'{}'; exec '{binary}' load -c 1 -d 2 {url}", pid_file.display());
    // `script` (util-linux) gives the load a terminal of its own, which goes with it.
    let mut script = Command::new("script")
        .args(["-qfc", &line, "/dev/null"])
        .env("PRONY_HOME", home.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux has `script`");
    let mut shown = script.stdout.take().expect("stdout is piped");
    let mut screen = Vec::new();
    // The alternate screen: now the load holds the terminal.
    let taken = |screen: &[u8]| screen.windows(8).any(|bytes| bytes == b"\x1b[?1049h");
    while !taken(&screen) {
        let mut more = [0; 4096];
        let count = shown.read(&mut more).expect("the terminal is there");
        assert!(count > 0, "the load took no terminal: {}", String::from_utf8_lossy(&screen));
        screen.extend_from_slice(&more[..count]);
    }
    let pid = std::fs::read_to_string(&pid_file).expect("the shell wrote it").trim().to_string();
    assert!(runs(&pid));
    script.kill().expect("it is our child");
    script.wait().expect("it is our child");
    wait_until("the load goes on without a terminal", || !runs(&pid));
}
