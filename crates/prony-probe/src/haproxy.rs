//! What HAProxy knows of itself: `show stat` on its stats socket, or the statistics page as CSV.
//!
//! The status of the host is `http://ADDRESS:PORT/PATH` of the page, or the path of the socket; where the stack does not say, its
//! configuration names the socket. Each reading is a
//! connection of its own, as both close after the answer. Invariant: a reading ends within [`ANSWER_MAX`].

use crate::aside::Asker;
use crate::fact_file::read_once;
use crate::facts::Facts;
use crate::status::url_parts;
use prony_model::metric as m;
use prony_model::{Host, Metric};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A proxy that does not answer within this time is left alone until the next second. A guess.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// 1000 servers take some 500 KiB.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Lines that are told.
const LINES_MAX: usize = 64;

/// Columns of the statistics and the metric that each is.
const COLUMNS: &[(&str, &Metric)] = &[
    ("qcur", &m::HAPROXY_QUEUE),
    ("scur", &m::HAPROXY_SESSIONS),
    ("slim", &m::HAPROXY_SESSIONS_MAX),
    ("stot", &m::HAPROXY_REQUESTS),
    ("econ", &m::HAPROXY_CONNECT_ERRORS),
    ("eresp", &m::HAPROXY_RESPONSE_ERRORS),
    ("wretr", &m::HAPROXY_RETRIES),
    ("wredis", &m::HAPROXY_REDISPATCHES),
    ("hrsp_5xx", &m::HAPROXY_FAILURES),
];

/// The stats socket that the configuration of a host names, if it names one by its path.
pub(crate) fn socket_of(host: &Host) -> Option<String> {
    socket(&read_once(Path::new(host.config.as_deref()?)).ok()?)
}

/// `stats socket PATH ...` of a configuration; an address is none.
fn socket(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let path = (words.next() == Some("stats") && words.next() == Some("socket")).then(|| words.next())??;
        let path = path.strip_prefix("unix@").unwrap_or(path);
        path.starts_with('/').then(|| path.to_string())
    })
}

/// Reader of one HAProxy.
pub(crate) struct Haproxy {
    status: String,
}

impl Haproxy {
    pub(crate) fn new(status: &str) -> Self {
        Self { status: status.to_string() }
    }

    fn statistics(&self) -> Result<String, String> {
        let told = |e: io::Error| format!("status `{}`: {e}", self.status);
        let end = Instant::now() + ANSWER_MAX;
        if self.status.starts_with("http://") {
            let url = url_parts(&self.status)?;
            let path = if url.path.contains(";csv") { url.path } else { format!("{};csv", url.path) };
            let mut stream = TcpStream::connect_timeout(&url.address, ANSWER_MAX).map_err(told)?;
            let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\nUser-Agent: prony\r\n\r\n", url.host);
            stream
                .set_write_timeout(Some(ANSWER_MAX))
                .and_then(|()| stream.write_all(request.as_bytes()))
                .map_err(told)?;
            let page = read_all(&mut stream, end, TcpStream::set_read_timeout).map_err(told)?;
            let body = page.split_once("\r\n\r\n").map(|(_, body)| body.to_string());
            return body.ok_or_else(|| told(io::Error::other("the answer is no HTTP")));
        }
        let mut stream = UnixStream::connect(&self.status).map_err(told)?;
        stream.set_write_timeout(Some(ANSWER_MAX)).and_then(|()| stream.write_all(b"show stat\n")).map_err(told)?;
        read_all(&mut stream, end, UnixStream::set_read_timeout).map_err(told)
    }
}

impl Asker for Haproxy {
    fn ask(&mut self, facts: &mut Facts) {
        match self.statistics() {
            Ok(text) if text.starts_with("# pxname,") => put(facts, &text),
            Ok(text) => {
                let start: String = text.chars().take(40).collect();
                facts.miss("haproxy", format_args!("status `{}` answers `{start}`, which is not show stat: name the stats socket, or the page of `stats uri`", self.status));
            }
            Err(reason) => facts.miss("haproxy", reason),
        }
    }
}

/// Reads to the end of the answer, its size and its time bounded.
fn read_all<S: Read>(
    stream: &mut S,
    end: Instant,
    set_timeout: impl Fn(&S, Option<Duration>) -> io::Result<()>,
) -> io::Result<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 << 10];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || bytes.len() > ANSWER_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the answer is too late or too long"));
        }
        set_timeout(stream, Some(left))?;
        match stream.read(&mut chunk)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            n => bytes.extend_from_slice(&chunk[..n]),
        }
    }
}

/// `# pxname,svname,qcur,...`, then one line each for frontends, servers and backends. A value that is empty does not
/// apply.
fn put(facts: &mut Facts, text: &str) {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().trim_start_matches("# ").split(',').collect();
    for line in lines.take(LINES_MAX) {
        // Values with a comma stand behind the columns that are read.
        let values: Vec<&str> = line.split(',').collect();
        let value = |name: &str| Some(*values.get(names.iter().position(|n| *n == name)?)?).filter(|v| !v.is_empty());
        let (Some(proxy), Some(server)) = (value("pxname"), value("svname")) else { continue };
        let item = format!("{proxy}/{server}");
        for (name, metric) in COLUMNS {
            facts.put_if_any(metric, &item, value(name).and_then(|v| v.parse().ok()));
        }
        let time_us = value("rtime").and_then(|v| v.parse::<f64>().ok()).map(|ms| ms * 1e3);
        facts.put_if_any(&m::HAPROXY_RESPONSE_TIME, &item, time_us);
        let up = value("status").map(|s| ["UP", "OPEN", "no check"].iter().any(|good| s.starts_with(good)));
        facts.put_if_any(&m::HAPROXY_UP, &item, up.map(|up| f64::from(u8::from(up))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;
    use std::net::TcpListener;

    const STAT: &str = "# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,dreq,dresp,ereq,econ,eresp,wretr,wredis,status,hrsp_5xx,rtime,\n\
        web,s1,3,9,4,4,4,100,1,1,,0,,2,1,5,4,UP,7,12,\nweb,s2,0,0,0,1,,90,1,1,,0,,0,0,0,0,DOWN 1/2,0,,\n\n";

    #[test]
    fn columns_are_found_by_name() {
        Facts::check(
            put,
            STAT,
            expect![[r#"
                haproxy.queue [web/s1] 3
                haproxy.sessions [web/s1] 4
                haproxy.sessions_max [web/s1] 4
                haproxy.requests [web/s1] 100
                haproxy.connect_errors [web/s1] 2
                haproxy.response_errors [web/s1] 1
                haproxy.retries [web/s1] 5
                haproxy.redispatches [web/s1] 4
                haproxy.failures [web/s1] 7
                haproxy.response_time [web/s1] 12000
                haproxy.up [web/s1] 1
                haproxy.queue [web/s2] 0
                haproxy.sessions [web/s2] 0
                haproxy.requests [web/s2] 90
                haproxy.connect_errors [web/s2] 0
                haproxy.response_errors [web/s2] 0
                haproxy.retries [web/s2] 0
                haproxy.redispatches [web/s2] 0
                haproxy.failures [web/s2] 0
                haproxy.up [web/s2] 0
            "#]],
        );
    }

    /// A page that is answered once.
    fn served(body: &'static str) -> Haproxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let _ = connection.read(&mut [0; 512]);
            connection.write_all(format!("HTTP/1.0 200 OK\r\n\r\n{body}").as_bytes()).unwrap();
        });
        Haproxy::new(&format!("http://{address}/stats"))
    }

    #[test]
    fn pages_and_sockets_are_asked() {
        let asked = |mut haproxy: Haproxy| {
            let mut facts = Facts::new("lb", 0);
            haproxy.ask(&mut facts);
            facts.listing()
        };
        assert!(asked(served(STAT)).starts_with("haproxy.queue [web/s1] 3\n"));
        assert!(asked(served("<html>")).contains("answers `<html>`, which is not show stat"));
        assert!(asked(Haproxy::new("/no/such.sock")).starts_with("gap haproxy: status `/no/such.sock`"));
    }

    #[test]
    fn the_configuration_names_the_socket() {
        let text =
            "global\n  # stats socket /old\n  stats timeout 5s\n  stats socket /run/h.sock mode 600 level admin\n";
        assert_eq!(socket(text).as_deref(), Some("/run/h.sock"));
        assert_eq!(socket("stats socket unix@/run/h.sock").as_deref(), Some("/run/h.sock"));
        assert_eq!(socket("stats socket ipv4@127.0.0.1:9999 level admin\nstats enable\nstats socket\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(# pxname,svname,qcur|,|[0-9]|\\PC|\n){0,60}") {
            put(&mut Facts::new("lb", 0), &text);
            socket(&text);
        }
    }
}
