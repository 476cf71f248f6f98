//! nginx stub_status by a plain GET from inside the host, at most once per second, on a connection that is kept.
//!
//! Not an HTTP client: one request, one small answer. What prony itself adds to the counters (one request per reading,
//! one connection) is subtracted, so they show the server without it. Invariant: the whole reading ends within
//! [`ANSWER_MS_MAX`].

use crate::cadence::Cadence;
use crate::facts::Facts;
use crate::machine::SLOW_NS;
use crate::text::count;
use prony_model::metric as m;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A server that does not answer its status page within this time is left alone until the next second. A guess: longer
/// would hold up the readers behind it.
pub(crate) const ANSWER_MS_MAX: u64 = 200;
/// stub_status answers with about 300 bytes.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// Reader of one status page.
#[derive(Debug)]
pub(crate) struct StatusPage {
    url: Result<Url, String>,
    connection: Option<TcpStream>,
    cadence: Cadence,
    own_requests: f64,
    own_accepts: f64,
    last_requests: f64,
}

/// The parts of `http://address:port/path`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Url {
    pub(crate) address: SocketAddr,
    pub(crate) host: String,
    pub(crate) path: String,
}

/// An answer: the `Server` header and the body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) server: Option<String>,
    body: String,
}

/// The numbers of stub_status.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Numbers {
    active: f64,
    accepts: f64,
    handled: f64,
    requests: f64,
    reading: f64,
    writing: f64,
    waiting: f64,
}

impl StatusPage {
    pub(crate) fn new(url: &str) -> Self {
        Self {
            url: url_parts(url),
            connection: None,
            cadence: Cadence::every(SLOW_NS),
            own_requests: 0.0,
            own_accepts: 0.0,
            last_requests: 0.0,
        }
    }

    pub(crate) fn read(&mut self, facts: &mut Facts, at_ns: u64) {
        if !self.cadence.due(at_ns) {
            return;
        }
        self.cadence.ran(at_ns, 0);
        match self.ask().and_then(|answer| numbers(&answer.body).ok_or_else(|| not_stub_status(&answer))) {
            Ok(numbers) => self.put(facts, numbers),
            Err(reason) => facts.miss("nginx", reason),
        }
    }

    /// Asks once; a kept connection that the server has closed meanwhile is opened anew.
    pub(crate) fn ask(&mut self) -> Result<Answer, String> {
        let url = self.url.clone()?;
        let end = Instant::now() + Duration::from_millis(ANSWER_MS_MAX);
        if let Some(kept) = self.connection.take()
            && let Ok(answer) = self.exchange(kept, &url, end)
        {
            return answer;
        }
        let told = |e: io::Error| format!("status page at {}: {}", url.address, reason(&e));
        let connection = TcpStream::connect_timeout(&url.address, left(end).map_err(told)?).map_err(told)?;
        self.own_accepts += 1.0;
        self.exchange(connection, &url, end).map_err(told)?
    }

    /// The outer error is the connection's, the inner one the answer's.
    fn exchange(&mut self, mut connection: TcpStream, url: &Url, end: Instant) -> io::Result<Result<Answer, String>> {
        connection.set_nodelay(true)?;
        connection.set_write_timeout(Some(left(end)?))?;
        let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: prony\r\n\r\n", url.path, url.host);
        connection.write_all(request.as_bytes())?;
        let mut bytes = Vec::new();
        let mut chunk = [0; 1024];
        loop {
            connection.set_read_timeout(Some(left(end)?))?;
            match connection.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => bytes.extend_from_slice(&chunk[..n]),
            }
            match answer(&bytes) {
                Some(answer) => {
                    self.own_requests += 1.0;
                    self.connection = Some(connection);
                    return Ok(answer);
                }
                None if bytes.len() > ANSWER_BYTES_MAX => {
                    return Ok(Err("the status page answers with more than 8 KiB: is it stub_status?".to_string()));
                }
                None => {}
            }
        }
    }

    fn put(&mut self, facts: &mut Facts, now: Numbers) {
        if now.requests < self.last_requests {
            // The server was started anew: of its requests only this one is ours.
            (self.own_requests, self.own_accepts) = (1.0, 1.0);
        }
        self.last_requests = now.requests;
        let without = |value: f64, own: f64| (value - own).max(0.0);
        facts.put(&m::NGINX_REQUESTS, "", without(now.requests, self.own_requests));
        facts.put(&m::NGINX_ACCEPTS, "", without(now.accepts, self.own_accepts));
        facts.put(&m::NGINX_HANDLED, "", without(now.handled, self.own_accepts));
        facts.put(&m::NGINX_ACTIVE, "", without(now.active, 1.0));
        facts.put(&m::NGINX_READING, "", now.reading);
        facts.put(&m::NGINX_WRITING, "", without(now.writing, 1.0));
        facts.put(&m::NGINX_WAITING, "", now.waiting);
    }
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn reason(error: &io::Error) -> String {
    // A read that runs into its timeout says "would block".
    if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) {
        format!("no answer within {ANSWER_MS_MAX} ms: every worker may be busy")
    } else {
        error.to_string()
    }
}

fn not_stub_status(answer: &Answer) -> String {
    let start: String = answer.body.chars().take(40).collect();
    format!("the status page answers `{start}`, which is not stub_status: set `stub_status;` at that location")
}

/// Addresses only: a name would ask DNS, and that can hang.
pub(crate) fn url_parts(url: &str) -> Result<Url, String> {
    let rest = url.strip_prefix("http://").ok_or_else(|| format!("status `{url}`: only http:// is asked"))?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let with_port = if host.parse::<IpAddr>().is_ok() || !host.contains(':') || host.ends_with(']') {
        format!("{host}:80")
    } else {
        host.to_string()
    };
    let local = with_port.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let address = match local {
        Some(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        None => {
            with_port.parse().map_err(|_| format!("status `{url}`: write the host as an address, like 127.0.0.1"))?
        }
    };
    Ok(Url { address, host: host.to_string(), path: format!("/{path}") })
}

/// The answer once it is complete; none while bytes are missing.
fn answer(bytes: &[u8]) -> Option<Result<Answer, String>> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    let (mut length, mut server) = (0usize, None);
    for (name, value) in lines.filter_map(|l| l.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        } else if name.eq_ignore_ascii_case("server") {
            server = Some(value.trim().to_string());
        }
    }
    let body = bytes.get(end + 4..)?;
    let body = body.get(..length)?;
    if status.split(' ').nth(1) != Some("200") {
        let status: String = status.chars().take(60).collect();
        return Some(Err(format!("the status page answers `{status}`: is stub_status on at that location?")));
    }
    Some(Ok(Answer { server, body: String::from_utf8_lossy(body).into_owned() }))
}

/// `Active connections: 1`, then a line of names, a line of three counters, and `Reading: 0 Writing: 1 Waiting: 0`.
fn numbers(body: &str) -> Option<Numbers> {
    let mut lines = body.lines();
    let active = count(lines.next()?.strip_prefix("Active connections:")?.trim())?;
    let mut counters = lines.nth(1)?.split_whitespace().map(count);
    let (accepts, handled, requests) = (counters.next()??, counters.next()??, counters.next()??);
    let words: Vec<&str> = lines.next()?.split_whitespace().collect();
    let [_, reading, _, writing, _, waiting] = words.as_slice() else { return None };
    Some(Numbers {
        active,
        accepts,
        handled,
        requests,
        reading: count(reading)?,
        writing: count(writing)?,
        waiting: count(waiting)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;

    const BODY: &str =
        "Active connections: 3 \nserver accepts handled requests\n 10 9 50 \nReading: 0 Writing: 2 Waiting: 1 \n";

    /// A server that gives these answers in turn on one connection, then closes.
    fn served(answers: Vec<String>) -> StatusPage {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/status", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            for answer in answers {
                let mut request = [0; 512];
                let _ = connection.read(&mut request);
                connection.write_all(answer.as_bytes()).unwrap();
            }
        });
        StatusPage::new(&url)
    }

    fn page(status: &str, body: &str) -> String {
        format!("HTTP/1.1 {status}\r\nServer: nginx/1.22.1\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    }

    fn listing(status: &mut StatusPage, at_ns: u64) -> String {
        let mut facts = Facts::new("lb", at_ns);
        status.read(&mut facts, at_ns);
        facts.listing()
    }

    #[test]
    fn its_own_requests_are_subtracted() {
        let mut status = served(vec![page("200 OK", BODY), page("200 OK", &BODY.replace(" 50 ", " 61 "))]);
        expect_test::expect![[r#"
            nginx.requests [] 49
            nginx.accepts [] 9
            nginx.handled [] 8
            nginx.active [] 2
            nginx.reading [] 0
            nginx.writing [] 1
            nginx.waiting [] 1
        "#]]
        .assert_eq(&listing(&mut status, 0));
        assert!(listing(&mut status, 2_000_000_000).starts_with("nginx.requests [] 59\n"), "two of 61 were ours");
        assert_eq!(listing(&mut status, 2_000_000_001), "", "once per second");
    }

    #[test]
    fn what_is_not_stub_status_is_a_gap() {
        let not_found = listing(&mut served(vec![page("404 Not Found", "x")]), 0);
        assert!(not_found.contains("answers `HTTP/1.1 404 Not Found`"), "{not_found}");
        let other = listing(&mut served(vec![page("200 OK", "<html>")]), 0);
        assert!(other.contains("answers `<html>`, which is not stub_status"), "{other}");
        let silent = listing(&mut served(vec![String::new(), String::new()]), 0);
        assert!(silent.starts_with("gap nginx: status page"), "{silent}");
    }

    #[test]
    fn urls_are_addresses() {
        assert_eq!(url_parts("http://127.0.0.1:8081/s").unwrap().address, "127.0.0.1:8081".parse().unwrap());
        assert_eq!(url_parts("http://[::1]/").unwrap().address, "[::1]:80".parse().unwrap());
        assert_eq!(url_parts("http://localhost/").unwrap().address, "127.0.0.1:80".parse().unwrap());
        assert!(url_parts("http://example.com/").unwrap_err().contains("write the host as an address"));
        assert!(url_parts("https://127.0.0.1/").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = answer(&bytes);
            let _ = numbers(&String::from_utf8_lossy(&bytes));
            let _ = url_parts(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn half_an_answer_is_none(cut in 0usize..200) {
            let whole = page("200 OK", BODY);
            prop_assert_eq!(answer(&whole.as_bytes()[..cut.min(whole.len() - 1)]), None);
        }
    }
}
