//! What is measured: each work with its server, its generators, and the bars that prony has to meet.
//!
//! Invariant: within one work all generators do the same, with the same number of connections.

use super::scenario::Scenario;
use super::servers::{Fixture, Nghttpd, Nginx};
use super::tools;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Rate of the open loops, as a share of what prony's closed loop reached: busy, but with room.
pub const OPEN_SHARE: f64 = 0.7;

/// The floor on io_uring, in the table.
pub const FLOOR_URING: &str = "floor on io_uring";

/// One kind of load.
pub struct Work {
    /// What it is.
    pub name: &'static str,
    /// Prony first; the rest are what it is held against.
    pub generators: Vec<Generator>,
    /// The most CPU time per request that prony may use, as times that of the generator with this name.
    pub bars: Vec<(&'static str, f64)>,
}

/// A program that makes load, and how it tells the number of responses.
pub struct Generator {
    /// As the table calls it.
    pub name: &'static str,
    /// What to start.
    pub program: PathBuf,
    /// With what.
    pub args: Vec<String>,
    /// How it is told to send at a rate, if this work has one.
    pub open: Option<Open>,
    /// Reads the number of responses from what it printed.
    pub responses: fn(&str) -> Option<u64>,
}

/// How a generator is told the rate of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The floor: two more arguments, the rate and `constant` or `poisson`.
    Floor(&'static str),
    /// The engine: fields `rate` and `arrivals` of its plan.
    Engine(&'static str),
}

/// Everything a work needs to be put together.
pub struct Bench<'a> {
    /// The floor.
    pub floor: &'a Path,
    /// The floor on io_uring.
    pub floor_uring: &'a Path,
    /// The engine's example.
    pub engine: &'a Path,
    /// Keeps connections.
    pub keeping: &'a Fixture,
    /// Ends each connection after an answer.
    pub closing: &'a Fixture,
    /// Serves the scenario.
    pub playing: &'a Fixture,
    /// What is played there.
    pub scenario: &'a Scenario,
    /// TLS and HTTP/2.
    pub nginx: &'a Nginx,
    /// HTTP/2, faster than the generators.
    pub nghttpd: &'a Nghttpd,
    /// wrk's script for pipelining.
    pub pipeline_script: &'a Path,
    /// Connections.
    pub connections: u32,
    /// Seconds of each generator in each round.
    pub seconds: u32,
}

impl Bench<'_> {
    /// Every work, in the order of the table.
    pub fn works(&self) -> Vec<Work> {
        vec![
            self.keep_alive(),
            self.open("open loop, constant", "constant"),
            self.open("open loop, Poisson", "poisson"),
            self.connection_per_request(),
            self.pipelining(),
            self.tls(),
            self.handshakes(),
            self.http2("HTTP/2, 10 streams per connection", self.nginx.h2_port),
            self.http2("HTTP/2, 10 streams per connection, a faster server", self.nghttpd.port),
            self.scenario(),
        ]
    }

    fn keep_alive(&self) -> Work {
        let url = url(self.keeping.port);
        let (n, s) = (self.connections.to_string(), self.seconds.to_string());
        Work {
            name: "keep-alive, closed loop",
            generators: vec![
                self.engine("prony", &url, json!({})),
                self.floor_of("floor", self.floor, None),
                self.floor_of(FLOOR_URING, self.floor_uring, None),
                self.wrk("wrk", &url, &[]),
                // 5 million is more than it can do in the time, which is what ends it; ab allocates by that number.
                tool("ab", &["-q", "-k", "-c", &n, "-t", &s, "-n", "5000000", &url], tools::ab),
                tool("h2load", &["--h1", "-t1", "-c", &n, "-D", &s, &url], tools::h2load),
            ],
            bars: vec![("floor", 1.03), ("wrk", 0.80)],
        }
    }

    fn open(&self, name: &'static str, arrivals: &'static str) -> Work {
        let engine = self.engine("prony", &url(self.keeping.port), json!({}));
        Work {
            name,
            generators: vec![
                Generator { open: Some(Open::Engine(arrivals)), ..engine },
                self.floor_of("floor", self.floor, Some(Open::Floor(arrivals))),
                self.floor_of(FLOOR_URING, self.floor_uring, Some(Open::Floor(arrivals))),
            ],
            bars: vec![("floor", 1.05)],
        }
    }

    fn connection_per_request(&self) -> Work {
        let url = url(self.closing.port);
        let (n, s) = (self.connections.to_string(), self.seconds.to_string());
        Work {
            name: "a connection per request",
            generators: vec![
                self.engine("prony", &url, json!({ "keepalive": false })),
                self.wrk("wrk", &url, &["-H", "Connection: close"]),
                tool("ab", &["-q", "-c", &n, "-t", &s, "-n", "5000000", &url], tools::ab),
            ],
            bars: vec![("wrk", 0.90), ("ab", 0.90)],
        }
    }

    fn pipelining(&self) -> Work {
        let url = url(self.keeping.port);
        let script = self.pipeline_script.display().to_string();
        Work {
            name: "pipelining 16",
            generators: vec![
                self.engine("prony", &url, json!({ "depth": 16 })),
                self.wrk("wrk", &url, &["-s", &script]),
            ],
            bars: vec![("wrk", 0.80)],
        }
    }

    fn tls(&self) -> Work {
        let url = format!("https://127.0.0.1:{}/", self.nginx.tls_port);
        let (n, s) = (self.connections.to_string(), self.seconds.to_string());
        Work {
            name: "TLS 1.3, keep-alive",
            generators: vec![
                self.engine("prony", &url, json!({ "tls": self.trust() })),
                self.wrk("wrk", &url, &[]),
                tool("h2load", &["--h1", "-t1", "-c", &n, "-D", &s, &url], tools::h2load),
            ],
            bars: vec![("wrk", 0.85), ("h2load", 0.85)],
        }
    }

    fn handshakes(&self) -> Work {
        let url = format!("https://127.0.0.1:{}/", self.nginx.tls_port);
        let (n, s) = (self.connections.to_string(), self.seconds.to_string());
        Work {
            name: "TLS 1.3, a handshake per request",
            generators: vec![
                self.engine("prony", &url, json!({ "tls": self.trust(), "keepalive": false })),
                self.wrk("wrk", &url, &["-H", "Connection: close"]),
                tool("ab", &["-q", "-c", &n, "-t", &s, "-n", "5000000", &url], tools::ab),
            ],
            bars: vec![("wrk", 0.85), ("ab", 0.85)],
        }
    }

    fn http2(&self, name: &'static str, port: u16) -> Work {
        let url = url(port);
        let (n, s) = (self.connections.to_string(), self.seconds.to_string());
        Work {
            name,
            generators: vec![
                self.engine("prony", &url, json!({ "protocol": "http2", "depth": 10 })),
                tool("h2load", &["-t1", "-m", "10", "-c", &n, "-D", &s, &url], tools::h2load),
            ],
            bars: vec![("h2load", 0.85)],
        }
    }

    fn scenario(&self) -> Work {
        let Scenario { connections, script, k6_script } = self.scenario;
        let fields = json!({ "script": script, "connections": connections });
        let engine = self.engine("prony", &url(self.playing.port), fields);
        let (n, duration) = (connections.to_string(), format!("{}s", self.seconds));
        let base = format!("BASE=http://127.0.0.1:{}", self.playing.port);
        let quiet = ["run", "--quiet", "--no-color", "--no-usage-report", "--address", ""];
        let told = ["--vus", &n, "--duration", &duration, "-e", &base, k6_script];
        Work {
            name: "three-step scenario with extraction and a feed",
            generators: vec![
                Generator { responses: tools::without_errors, ..engine },
                tool("k6", &[&quiet[..], &told].concat(), tools::k6),
            ],
            bars: vec![("k6", 0.15)],
        }
    }

    fn trust(&self) -> Value {
        json!({ "ca_pem": std::fs::read_to_string(self.nginx.certificate()).unwrap_or_default() })
    }

    fn engine(&self, name: &'static str, url: &str, mut fields: Value) -> Generator {
        if fields.get("connections").is_none() {
            fields["connections"] = json!(self.connections);
        }
        fields["duration"] = json!(format!("{}s", self.seconds));
        let args = vec![url.to_string(), fields.to_string()];
        Generator { name, program: self.engine.to_path_buf(), args, open: None, responses: tools::key_value }
    }

    fn floor_of(&self, name: &'static str, program: &Path, open: Option<Open>) -> Generator {
        let args = [u32::from(self.keeping.port), self.connections, self.seconds];
        Generator {
            name,
            program: program.to_path_buf(),
            args: args.iter().map(u32::to_string).collect(),
            open,
            responses: tools::key_value,
        }
    }

    fn wrk(&self, name: &'static str, url: &str, more: &[&str]) -> Generator {
        let (n, seconds) = (self.connections.to_string(), format!("{}s", self.seconds));
        let args = [&["-t1", "-c", &n, "-d", &seconds], more, &[url]].concat();
        tool(name, &args, tools::wrk)
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/")
}

fn tool(name: &'static str, args: &[&str], responses: fn(&str) -> Option<u64>) -> Generator {
    let args = args.iter().map(|word| word.to_string()).collect();
    Generator { name, program: PathBuf::from(name), args, open: None, responses }
}
