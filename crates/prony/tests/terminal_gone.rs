//! A terminal that prony has taken: it may go away while a load shows its screen there, and `q` ends a run and gives it back.

mod prony;

use prony::{scratch, wait_until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

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

/// A process that must not outlive its test, however the test ends.
struct Bounded(String);

impl Drop for Bounded {
    fn drop(&mut self) {
        if runs(&self.0) {
            let _ = Command::new("kill").args(["-KILL", &self.0]).status();
        }
    }
}

/// Runs a line of a shell in a terminal of its own, which goes with it. `script` is of util-linux.
fn in_a_terminal(line: &str, home: &Path) -> Child {
    Command::new("script")
        .args(["-qfec", line, "/dev/null"])
        .env("PRONY_HOME", home)
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("util-linux has `script`")
}

/// Reads what the terminal shows until `text` was among it, or the end.
fn read_until(text: &[u8], shown: &mut impl Read, screen: &mut Vec<u8>) {
    while !screen.windows(text.len()).any(|bytes| bytes == text) {
        let mut more = [0; 4096];
        let count = shown.read(&mut more).unwrap_or(0);
        assert!(count > 0, "the terminal ended before {text:?}: {}", String::from_utf8_lossy(screen));
        screen.extend_from_slice(&more[..count]);
    }
}

/// The alternate screen: from here on prony holds the terminal, and to here it did.
const TAKEN: &[u8] = b"\x1b[?1049h";
const GIVEN_BACK: &[u8] = b"\x1b[?1049l";

#[test]
fn q_ends_a_search_and_the_terminal_is_as_before() {
    let home = scratch();
    let (binary, url) = (env!("CARGO_BIN_EXE_prony"), server());
    let line =
        format!("stty rows 24 cols 80; '{binary}' limit {url} -c 2 --budget 60s; echo \"ended with $?\"; stty -a");
    let mut script = in_a_terminal(&line, home.path());
    let mut shown = script.stdout.take().expect("stdout is piped");
    let mut screen = Vec::new();
    read_until(TAKEN, &mut shown, &mut screen);
    // Only what differs from the last frame is sent, so whole sentences do not come.
    read_until(b"load", &mut shown, &mut screen);
    script.stdin.as_mut().expect("stdin is piped").write_all(b"q").expect("the terminal is there");
    read_until(GIVEN_BACK, &mut shown, &mut screen);
    read_until(b"ended with 4", &mut shown, &mut screen);
    // Raw mode is off again: the terminal echoes what is typed.
    read_until(b" icanon", &mut shown, &mut screen);
    script.wait().expect("it is our child");
}

#[test]
fn a_load_whose_terminal_hangs_up_ends() {
    let home = scratch();
    let pid_file = home.path().join("pid");
    let (binary, url) = (env!("CARGO_BIN_EXE_prony"), server());
    let line = format!("stty rows 24 cols 80; echo $$ >'{}'; exec '{binary}' load -c 1 -d 2 {url}", pid_file.display());
    let mut script = in_a_terminal(&line, home.path());
    let mut shown = script.stdout.take().expect("stdout is piped");
    read_until(TAKEN, &mut shown, &mut Vec::new());
    let load = Bounded(std::fs::read_to_string(&pid_file).expect("the shell wrote it").trim().to_string());
    assert!(runs(&load.0));
    script.kill().expect("it is our child");
    script.wait().expect("it is our child");
    wait_until("the load goes on without a terminal", || !runs(&load.0));
}
