//! Sends a load's metrics to an OpenTelemetry collector: one HTTP/1.1 POST of OTLP's JSON.
//!
//! Plain HTTP only, one request, no retry: the collector is meant to be on this machine or in this network. What is sent is
//! made in `prony-report`. Invariant: it takes at most [`SEND_MAX`] and reads at most [`ANSWER_BYTES_MAX`], whoever answers.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Longest time for connecting, sending and the answer together. The default of OpenTelemetry's exporters
/// (`OTEL_EXPORTER_OTLP_TIMEOUT`).
const SEND_MAX: Duration = Duration::from_secs(10);
/// Most of an answer that is read. A guess: an error's text fits many times.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// OTLP over HTTP (IANA; opentelemetry.io/docs/specs/otlp).
const PORT: u16 = 4318;
/// Where metrics go when the URL names no path of its own.
const PATH: &str = "/v1/metrics";

/// A collector's address. Text: `http://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Host as the `Host` header has it, with brackets around an IPv6 address.
    host: String,
    port: u16,
    path: String,
}

impl FromStr for Endpoint {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("https://") {
            return Err(
                "metrics are sent over plain http only: name a collector near by, which can pass them on over \
                        TLS, like http://127.0.0.1:4318"
                    .to_string(),
            );
        }
        let wrong = |why: &str| format!("{why}; write it like http://127.0.0.1:4318");
        let rest = text.strip_prefix("http://").ok_or_else(|| wrong("it does not begin with http://"))?;
        if !rest.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(wrong("it holds a blank or a character that must be written as %XX"));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let after_address = authority.rfind(']').map_or(0, |end| end + 1);
        let (host, port) = match authority[after_address..].find(':') {
            None => (authority, PORT),
            Some(colon) => {
                let (host, digits) = authority.split_at(after_address + colon);
                let port = digits[1..].parse::<u16>().ok().filter(|port| *port > 0);
                (host, port.ok_or_else(|| wrong("the port is not a number from 1 to 65535"))?)
            }
        };
        if host.is_empty() || authority.contains('@') {
            return Err(wrong("the host is missing, or it holds a user name"));
        }
        let base = path.trim_end_matches('/');
        let path = if base.ends_with(PATH) { base.to_string() } else { format!("{base}{PATH}") };
        Ok(Self { host: host.to_string(), port, path })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

/// Sends `body`, the JSON of an `ExportMetricsServiceRequest`. What the collector did not take, if it says so.
///
/// # Errors
/// When nobody answers in time, or the answer is not 2xx; the message has the beginning of the answer.
pub(crate) fn send(endpoint: &Endpoint, body: &str) -> Result<Option<String>> {
    let answer = exchange(endpoint, body).with_context(|| {
        format!("cannot send metrics to {endpoint}; is a collector with an OTLP/HTTP receiver there?")
    })?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, content) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split_whitespace().nth(1).and_then(|code| code.parse::<u16>().ok());
    let short: String = content.chars().take(300).filter(|c| !c.is_control()).collect();
    match status {
        Some(200..=299) if content.contains("partialSuccess") && content.contains("rejected") => Ok(Some(short)),
        Some(200..=299) => Ok(None),
        Some(code) => bail!("{endpoint} answered {code}: {short}"),
        None => bail!("{endpoint} answered something that is not HTTP; does the port speak OTLP over gRPC (4317)?"),
    }
}

fn exchange(endpoint: &Endpoint, body: &str) -> Result<Vec<u8>> {
    let deadline = Instant::now() + SEND_MAX;
    let host = endpoint.host.trim_start_matches('[').trim_end_matches(']');
    let addresses: Vec<_> = (host, endpoint.port).to_socket_addrs().context("the name has no address")?.collect();
    let mut stream = connect(&addresses, deadline)?;
    stream.set_write_timeout(Some(left(deadline)))?;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}:{}\r\nUser-Agent: prony/{}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        endpoint.path,
        endpoint.host,
        endpoint.port,
        env!("CARGO_PKG_VERSION"),
        body.len()
    );
    // One that answers early (413, 404) may close while it is still sent to: what it said is worth more than that.
    let sent = stream.write_all(&[head.as_bytes(), body.as_bytes()].concat());
    let answer = answer(&mut stream, deadline);
    match (sent, answer) {
        (_, Ok(answer)) if !answer.is_empty() => Ok(answer),
        (Err(error), _) | (Ok(()), Err(error)) => Err(error.into()),
        (Ok(()), Ok(_)) => bail!("the connection was closed without an answer"),
    }
}

fn connect(addresses: &[std::net::SocketAddr], deadline: Instant) -> Result<TcpStream> {
    let mut last = None;
    for address in addresses {
        match TcpStream::connect_timeout(address, left(deadline)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some((address, error)),
        }
    }
    let (address, error) = last.context("the name has no address")?;
    Err(error).with_context(|| format!("{address} did not accept the connection"))
}

/// Reads until the answer is complete by its `Content-Length`, or the other side closes.
fn answer(stream: &mut TcpStream, deadline: Instant) -> std::io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while answer.len() < ANSWER_BYTES_MAX && !is_complete(&answer) {
        stream.set_read_timeout(Some(left(deadline)))?;
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A reset after the answer, because not all of the request was read: the answer is what counts.
            Err(_) if !answer.is_empty() => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                return Err(std::io::Error::new(ErrorKind::TimedOut, "no answer within 10 s"));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

fn is_complete(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= end + 4 + length)
}

/// Time until the deadline; never 0, which a socket takes for "no limit".
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    #[test]
    fn an_endpoint_has_a_port_and_a_path_of_its_own() {
        for (text, want) in [
            ("http://127.0.0.1", "http://127.0.0.1:4318/v1/metrics"),
            ("http://otel:9000/", "http://otel:9000/v1/metrics"),
            ("http://[::1]:4318/a/b", "http://[::1]:4318/a/b/v1/metrics"),
            ("http://[::1]", "http://[::1]:4318/v1/metrics"),
            ("http://otel/v1/metrics", "http://otel:4318/v1/metrics"),
        ] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), want);
        }
        for (text, why) in [
            ("https://otel", "plain http only"),
            ("127.0.0.1:4318", "does not begin"),
            ("http://", "host is missing"),
            ("http://otel:0", "port"),
            ("http://otel:x/", "port"),
            ("http://me@otel/", "user name"),
            ("http://otel/a b", "%XX"),
        ] {
            let said = text.parse::<Endpoint>().unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }

    /// A collector that gives one answer; joins to the request that it got.
    fn collector(answer: &'static str) -> (Endpoint, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut seen, mut buffer) = (Vec::new(), [0; 1024]);
            while !is_complete(&seen) {
                let n = stream.read(&mut buffer).unwrap();
                seen.extend_from_slice(&buffer[..n]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(seen).unwrap()
        });
        (endpoint, thread)
    }

    #[test]
    fn a_collector_gets_the_body_whole() {
        let (endpoint, request) = collector("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        let body = format!("{{\"x\":\"{}\"}}", "y".repeat(100_000));
        assert_eq!(send(&endpoint, &body).unwrap(), None);
        let request = request.join().unwrap();
        assert!(request.starts_with("POST /v1/metrics HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
        assert!(request.contains("\r\nContent-Type: application/json\r\n"));
        assert_eq!(request.split_once("\r\n\r\n").unwrap().1, body);
    }

    #[test]
    fn what_was_not_taken_is_told() {
        let partial =
            "HTTP/1.1 200 OK\r\nContent-Length: 48\r\n\r\n{\"partialSuccess\":{\"rejectedDataPoints\":\"3\"}}   ";
        let (endpoint, _request) = collector(partial);
        assert!(send(&endpoint, "{}").unwrap().unwrap().contains("rejectedDataPoints"));
        let (endpoint, _request) = collector("HTTP/1.1 415 No\r\nContent-Length: 8\r\n\r\nnot JSON");
        let error = format!("{:#}", send(&endpoint, "{}").unwrap_err());
        assert!(error.ends_with("/v1/metrics answered 415: not JSON"), "{error}");
        let (endpoint, _request) = collector("\x00\x00\x12\x04");
        assert!(format!("{:#}", send(&endpoint, "{}").unwrap_err()).contains("4317"));
    }

    #[test]
    fn nobody_there_is_an_error_with_the_next_step() {
        let error = format!("{:#}", send(&"http://127.0.0.1:1".parse().unwrap(), "{}").unwrap_err());
        assert!(error.contains("is a collector with an OTLP/HTTP receiver there?"), "{error}");
        assert!(error.contains("127.0.0.1:1 did not accept the connection"), "{error}");
    }
}
