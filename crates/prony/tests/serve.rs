//! `prony serve` through the command line: what it refuses, how it ends, and what happens to an experiment that runs then.

mod prony;

use prony::{Served, hostile, prony, scratch};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Above this nothing comes any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs until it is told to end.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn begin(folder: &Path, experiments: &Path) -> Self {
        let runs = folder.join("runs");
        std::fs::create_dir_all(&runs).expect("a folder can be made");
        let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
        command.args(["serve", "--bind", "127.0.0.1:0", "--runs"]).arg(runs).arg("--experiments").arg(experiments);
        command.env("PRONY_HOME", folder.join("home")).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the binary was built with the tests");
        let mut line = String::new();
        let out = child.stdout.take().expect("it was piped");
        BufReader::new(out).read_line(&mut line).expect("it says where it is");
        let address = line.trim().strip_prefix("pages at http://").expect(&line).trim_end_matches('/').to_string();
        Self { child, address }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-Prony: 1\r\n", self.address);
        let kind = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{kind}{body}").as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(status.expect("there is a kill").success());
    }

    /// Starts the experiment, waits until a trial was measured, and gives the folder of the job.
    fn start(&self, folder: &Path, file: &Path) -> std::path::PathBuf {
        let body = serde_json::json!({ "file": file, "quick": false }).to_string();
        let answer = self.ask("POST", "/api/jobs", &body);
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        let jobs = std::fs::read_dir(folder.join("runs/experiments")).expect("the job has a folder");
        let job = jobs.flatten().next().expect("there is one").path();
        let begun = Instant::now();
        while !read(&job.join("progress.log")).contains("connections 1") {
            assert!(begun.elapsed() < PATIENCE, "{}", read(&job.join("progress.log")));
            std::thread::sleep(Duration::from_millis(50));
        }
        job
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// An experiment on a server of this test.
fn experiment(folder: &Path) -> std::path::PathBuf {
    let port = hostile(Served::Answer);
    let file = folder.join("connections.toml");
    let text = format!(
        "name = \"Connections\"\nstack = \"http://127.0.0.1:{port}/\"\nexpectation = \"More.\"\nduration = \"500ms\"\n\
         settle = \"100ms\"\nrepeats = 20\n[[factor]]\nname = \"connections\"\nworkload = \"connections\"\nlevels = [1, 2]\n"
    );
    std::fs::write(&file, text).expect("a file can be written");
    file
}

#[test]
fn wrong_arguments_say_what_would_be_right() {
    let home = scratch();
    let path = |name: &str| home.path().join(name).display().to_string();
    std::fs::write(path("token"), "0123456789abcdef\n").expect("a file can be written");
    for (args, says) in [
        (vec!["--bind", "0.0.0.0:0"], "give --token-file, --tls-cert and --tls-key, or bind to loopback"),
        (vec!["--bind", "localhost"], "invalid socket address"),
        (vec!["--runs", &path("nothing")], "nothing: there is no such folder"),
        (vec!["--experiments", &path("nothing")], "nothing: there is no such folder"),
        (vec!["--token-file", &path("none")], "openssl rand"),
        (vec!["--token-file", &path("token")], "chmod 600"),
        (vec!["--tls-cert", "cert.pem"], "--tls-key"),
        (vec!["--tls-cert", &path("none"), "--tls-key", &path("none")], "none: no PEM"),
    ] {
        let said = prony(&[&["serve"][..], &args].concat());
        assert!(said.code == 2 && said.err.contains(says), "{args:?}: {} {}", said.code, said.err);
    }
}

#[test]
fn ctrl_c_ends_the_server_and_the_experiment_that_runs() {
    let home = scratch();
    let file = experiment(home.path());
    let mut serving = Serving::begin(home.path(), home.path());
    let job = serving.start(home.path(), &file);
    serving.signal("INT");
    let status = serving.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    assert!(read(&job.join("progress.log")).contains("finished cells are kept"), "{}", read(&job.join("progress.log")));
    let about: serde_json::Value = serde_json::from_str(&read(&job.join("job.json"))).expect("it is JSON");
    assert_eq!(about["exit_code"], 4);
    assert!(read(&job.join("cells.jsonl")).lines().count() >= 2, "the plan, and a finished cell");
}

#[test]
fn an_experiment_ends_with_a_server_that_was_killed() {
    let home = scratch();
    let file = experiment(home.path());
    let serving = Serving::begin(home.path(), home.path());
    let job = serving.start(home.path(), &file);
    serving.signal("KILL");
    let begun = Instant::now();
    while !read(&job.join("progress.log")).contains("finished cells are kept") {
        assert!(begun.elapsed() < PATIENCE, "it was not asked to end: {}", read(&job.join("progress.log")));
        std::thread::sleep(Duration::from_millis(50));
    }
}
