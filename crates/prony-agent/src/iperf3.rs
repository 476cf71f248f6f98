//! iperf3 as the sender or receiver of a flow: fixed arguments, and the figures that it prints as JSON.
//!
//! Only streams and datagrams; probes are prony's own. Invariant: an iperf3 that was started here ends before the function that
//! started it returns, or with its [`Server`].

use prony_model::network::{FlowEnd, FlowPlan, Traffic};
use prony_tool::IPERF3;
use serde_json::Value;
use std::io::Read;
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long iperf3 may take besides the time of the flow: connecting, and telling each other the figures. A guess.
const GRACE: Duration = Duration::from_secs(8);
/// How often a process is looked at.
const TICK: Duration = Duration::from_millis(20);
/// Its server needs a moment before it listens, and a connection only to look would use up its one test: so the client tries
/// again.
const ATTEMPTS: u32 = 20;
const ATTEMPT_EVERY: Duration = Duration::from_millis(100);
/// Most seconds of a flow, as iperf3 takes them (`-t`).
const SECONDS_MAX: u64 = 86_400;

/// An iperf3 that waits for one client.
pub(crate) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    pub(crate) fn start(plan: &FlowPlan) -> Result<Self, String> {
        // Free a moment ago; that somebody takes it in between shows as an error of the client.
        let free = TcpListener::bind((plan.to, 0)).and_then(|listener| listener.local_addr());
        let port = free.map_err(|e| format!("cannot listen on {}: {e}", plan.to))?.port();
        let (to, number) = (plan.to.to_string(), port.to_string());
        let mut command = IPERF3.command();
        command.args(["--server", "--one-off", "--bind", &to, "--port", &number]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|e| cannot_start(&e))?;
        Ok(Self { child, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Waits for its end. The figures of both sides are told by the client.
    pub(crate) fn wait(mut self, plan: &FlowPlan, stop: &AtomicBool) -> Result<FlowEnd, String> {
        ended(&mut self.child, Duration::from(plan.duration) + GRACE, stop)?;
        Ok(FlowEnd { by: "iperf3".to_string(), ..FlowEnd::default() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended already cannot be killed, and is reaped all the same.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Sends what the plan says, and tells what arrived.
pub(crate) fn send(plan: &FlowPlan, port: u16, stop: &AtomicBool) -> Result<FlowEnd, String> {
    let arguments = arguments(plan, port)?;
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let said = run(&arguments, Duration::from(plan.duration) + GRACE, stop)?;
        match figures(&said, plan.traffic) {
            Err(error) if error.contains("unable to connect") => last = error,
            told => return told,
        }
        std::thread::sleep(ATTEMPT_EVERY);
    }
    Err(last)
}

fn arguments(plan: &FlowPlan, port: u16) -> Result<Vec<String>, String> {
    // It takes whole seconds.
    let seconds = plan.duration.0.div_ceil(1_000_000_000).clamp(1, SECONDS_MAX);
    let (to, port, seconds) = (plan.to.to_string(), port.to_string(), seconds.to_string());
    let plain = ["--client", &to, "--port", &port, "--time", &seconds, "--json", "--interval", "0"];
    let mut arguments: Vec<String> = plain.map(str::to_string).to_vec();
    match plan.traffic {
        Traffic::Stream => {}
        Traffic::Packets { payload_bytes } => {
            let length = payload_bytes.to_string();
            arguments.extend(["--udp", "--bitrate", "0", "--length", &length].map(str::to_string));
        }
        Traffic::Probes { .. } => return Err("iperf3 sends no probes: prony does".to_string()),
    }
    Ok(arguments)
}

/// Runs a client to its end; gives what it printed.
fn run(arguments: &[String], within: Duration, stop: &AtomicBool) -> Result<String, String> {
    let mut command = IPERF3.command();
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| cannot_start(&e))?;
    let ended = ended(&mut child, within, stop);
    if ended.is_err() {
        let _ended = child.kill();
        let _reaped = child.wait();
    }
    ended?;
    // Without intervals it prints some kilobytes, which the pipe holds.
    let mut said = String::new();
    let read = child.stdout.take().map(|mut out| out.read_to_string(&mut said));
    match read {
        Some(Err(e)) => Err(format!("cannot read what iperf3 printed: {e}")),
        Some(Ok(_)) | None => Ok(said),
    }
}

fn ended(child: &mut Child, within: Duration, stop: &AtomicBool) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(_)) => return Ok(()),
            Ok(None) if stop.load(Ordering::Relaxed) => return Err("stopped".to_string()),
            Ok(None) if begun.elapsed() > within => {
                return Err(format!(
                    "iperf3 did not end within {:.0} s: is a firewall in between?",
                    within.as_secs_f64()
                ));
            }
            Ok(None) => std::thread::sleep(TICK),
            Err(e) => return Err(format!("cannot wait for iperf3: {e}")),
        }
    }
}

/// The figures of what it printed: an object with `start`, `end`, and `error` when it failed (iperf3(1), `--json`).
fn figures(said: &str, traffic: Traffic) -> Result<FlowEnd, String> {
    let told: Value = serde_json::from_str(said).map_err(|e| format!("iperf3 printed no JSON: {e}"))?;
    if let Some(error) = told["error"].as_str() {
        return Err(format!("iperf3: {error}"));
    }
    let version = told["start"]["version"].as_str().unwrap_or("iperf (version not told)");
    let by = version.replacen("iperf", "iperf3", 1);
    let end = &told["end"];
    let (received, sent, sum) = (&end["sum_received"], &end["sum_sent"], &end["sum"]);
    let figures = match traffic {
        Traffic::Stream | Traffic::Probes { .. } => FlowEnd {
            by,
            bytes: received["bytes"].as_u64(),
            counted_s: received["seconds"].as_f64(),
            retransmits: sent["retransmits"].as_u64(),
            ..FlowEnd::default()
        },
        Traffic::Packets { payload_bytes } => {
            // Sent, and of those lost, as the server has counted.
            let count = sum["packets"].as_u64();
            let arrived = count.zip(sum["lost_packets"].as_u64()).map(|(count, lost)| count.saturating_sub(lost));
            let bytes = arrived.map(|arrived| arrived * u64::from(payload_bytes));
            FlowEnd {
                by,
                bytes,
                counted_s: sum["seconds"].as_f64(),
                sent: count,
                received: arrived,
                ..FlowEnd::default()
            }
        }
    };
    match (figures.bytes, figures.counted_s) {
        (Some(_), Some(seconds)) if seconds > 0.0 => Ok(figures),
        (_, _) => Err("iperf3 told no figures of what arrived; take `--sender own`".to_string()),
    }
}

fn cannot_start(error: &std::io::Error) -> String {
    format!("cannot start iperf3: {error}; apt-get install {}, or take `--sender own`", IPERF3.package)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Nanos;
    use prony_model::network::Sender;

    // Shortened from what iperf3 3.12 prints.
    const STREAM: &str = r#"{ "start": { "version": "iperf 3.12" }, "end": {
        "sum_sent": { "seconds": 2.0, "bytes": 2500000000, "retransmits": 3 },
        "sum_received": { "seconds": 2.0001, "bytes": 2499000000, "bits_per_second": 9.99e9 } } }"#;
    const PACKETS: &str = r#"{ "start": { "version": "iperf 3.12" }, "end": {
        "sum": { "seconds": 2, "bytes": 64000, "packets": 1000, "lost_packets": 100 } } }"#;

    #[test]
    fn figures_are_those_of_the_receiver() {
        let stream = figures(STREAM, Traffic::Stream).unwrap();
        assert_eq!((stream.bytes, stream.counted_s, stream.retransmits), (Some(2_499_000_000), Some(2.0001), Some(3)));
        assert_eq!(stream.by, "iperf3 3.12");
        let packets = figures(PACKETS, Traffic::Packets { payload_bytes: 64 }).unwrap();
        assert_eq!((packets.sent, packets.received, packets.bytes), (Some(1000), Some(900), Some(57_600)));
    }

    #[test]
    fn what_it_refuses_is_told() {
        let error = |said| figures(said, Traffic::Stream).unwrap_err();
        assert_eq!(error(r#"{ "error": "unable to connect to server: x" }"#), "iperf3: unable to connect to server: x");
        assert!(error("").starts_with("iperf3 printed no JSON"));
        assert!(error(r#"{ "end": {} }"#).contains("told no figures"));
    }

    #[test]
    fn whole_seconds_and_the_size_are_asked_for() {
        let traffic = Traffic::Packets { payload_bytes: 512 };
        let to = "10.0.0.2".parse().unwrap();
        let plan = FlowPlan { traffic, duration: Nanos::from_millis(1500), by: Sender::Iperf3, to };
        assert_eq!(
            arguments(&plan, 5201).unwrap().join(" "),
            "--client 10.0.0.2 --port 5201 --time 2 --json --interval 0 --udp --bitrate 0 --length 512"
        );
        let probes = FlowPlan { traffic: Traffic::Probes { per_s: 1 }, ..plan };
        assert!(arguments(&probes, 5201).is_err());
    }
}
