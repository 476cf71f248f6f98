//! Follows the error log of the server from where it ended when watching began, and counts complaints by pattern.
//!
//! Does not keep lines. Invariant: a bounded number of bytes per reading; a line is counted once, when it is complete.

use crate::facts::Facts;
use prony_model::Metric;
use prony_model::metric as m;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// Read at most this much per reading. At 10 readings per second it follows 2.5 MB/s of complaints.
const READ_BYTES_MAX: usize = 256 << 10;
/// Further behind than this, the follower gives up and goes to the end.
const BEHIND_BYTES_MAX: u64 = 8 << 20;

/// Upstreams that are told apart.
const UPSTREAMS_MAX: usize = 64;

/// EADDRNOTAVAIL as glibc and musl say it, which most languages pass on; as Go does; and as Node does.
const NO_PORT: [&str; 4] =
    ["Cannot assign requested address", "Address not available", "cannot assign requested address", "EADDRNOTAVAIL"];
/// EMFILE and ENFILE, by the same.
const NO_DESCRIPTORS: [&str; 5] =
    ["Too many open files", "No file descriptors available", "too many open files", "EMFILE", "ENFILE"];

/// What a line may contain, and what that counts as.
const PATTERNS: [(&Metric, &[&str]); 9] = [
    (&m::ERROR_LOG_NO_PORT, &NO_PORT),
    (&m::ERROR_LOG_NO_WORKER_CONNECTIONS, &["worker_connections are not enough"]),
    (&m::ERROR_LOG_NO_DESCRIPTORS, &NO_DESCRIPTORS),
    (&m::ERROR_LOG_UPSTREAM_TIMEOUT, &["upstream timed out"]),
    (&m::ERROR_LOG_NO_LIVE_UPSTREAMS, &["no live upstreams"]),
    (&m::ERROR_LOG_TEMP_FILE, &["response is buffered to a temporary file"]),
    (&m::ERROR_LOG_BODY_FILE, &["request body is buffered to a temporary file"]),
    (&m::ERROR_LOG_LIMITING, &["limiting requests", "limiting connections"]),
    (&m::ERROR_LOG_DELAYING, &["delaying request"]),
];

/// Follower of one error log.
#[derive(Debug)]
pub(crate) struct ErrorLog {
    path: PathBuf,
    open: Option<File>,
    next_byte: u64,
    started: bool,
    lines: u64,
    by_pattern: [u64; PATTERNS.len()],
    by_upstream: BTreeMap<String, u64>,
}

impl ErrorLog {
    pub(crate) fn new(path: &str) -> Self {
        Self {
            path: PathBuf::from(path),
            open: None,
            next_byte: 0,
            started: false,
            lines: 0,
            by_pattern: [0; PATTERNS.len()],
            by_upstream: BTreeMap::new(),
        }
    }

    /// `slow`: also look whether the log was rotated.
    pub(crate) fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>, slow: bool) {
        match self.follow(facts, page, slow) {
            Ok(()) => {
                facts.put(&m::ERROR_LOG_LINES, "", self.lines as f64);
                for ((metric, _), count) in PATTERNS.iter().zip(self.by_pattern) {
                    facts.put(metric, "", count as f64);
                }
                for (upstream, count) in &self.by_upstream {
                    facts.put(&m::ERROR_LOG_UPSTREAM, upstream, *count as f64);
                }
            }
            Err(e) => facts.miss("errorlog", format_args!("{}: {e}", self.path.display())),
        }
        self.started = true;
    }

    fn follow(&mut self, facts: &mut Facts, page: &mut Vec<u8>, slow: bool) -> io::Result<()> {
        if slow && self.rotated() {
            self.open = None;
        }
        let file = match self.open.take() {
            Some(file) => file,
            None => {
                let file = File::open(&self.path)?;
                // What was there before watching began is not of this run; what a rotation or a start brings is.
                self.next_byte = if self.started { 0 } else { file.metadata()?.len() };
                file
            }
        };
        let size = file.metadata()?.len();
        if size < self.next_byte {
            self.next_byte = 0;
        }
        if size - self.next_byte > BEHIND_BYTES_MAX {
            facts.miss("errorlog", "it grew faster than it was read: some lines are not counted");
            self.next_byte = size;
        }
        if page.len() < READ_BYTES_MAX {
            page.resize(READ_BYTES_MAX, 0);
        }
        let len = if size > self.next_byte { file.read_at(&mut page[..READ_BYTES_MAX], self.next_byte)? } else { 0 };
        self.next_byte += self.count(&page[..len]) as u64;
        self.open = Some(file);
        Ok(())
    }

    fn rotated(&self) -> bool {
        let id = |meta: io::Result<std::fs::Metadata>| meta.ok().map(|m| (m.dev(), m.ino()));
        self.open.as_ref().is_some_and(|file| id(file.metadata()) != id(std::fs::metadata(&self.path)))
    }

    /// Counts complete lines and gives their bytes; the rest is read again next time. A full page without an end of
    /// line is passed over, so that the follower moves on.
    fn count(&mut self, bytes: &[u8]) -> usize {
        let Some(last) = bytes.iter().rposition(|b| *b == b'\n') else {
            return if bytes.len() >= READ_BYTES_MAX { bytes.len() } else { 0 };
        };
        for line in bytes[..last].split(|b| *b == b'\n') {
            self.lines += 1;
            let line = String::from_utf8_lossy(line);
            for ((_, texts), count) in PATTERNS.iter().zip(&mut self.by_pattern) {
                *count += u64::from(texts.iter().any(|text| line.contains(text)));
            }
            if let Some(upstream) = upstream_of(&line)
                && (self.by_upstream.len() < UPSTREAMS_MAX || self.by_upstream.contains_key(upstream))
            {
                *self.by_upstream.entry(upstream.to_string()).or_default() += 1;
            }
        }
        last + 1
    }
}

/// `..., upstream: "http://10.0.0.3:80/path", ...`: the address that nginx complains of.
fn upstream_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("upstream: \"")?;
    let (_, rest) = rest.split_once("://")?;
    rest.split(['/', '"']).next().filter(|address| address.parse::<SocketAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use std::fs;
    use std::io::Write;

    fn lines(log: &mut ErrorLog) -> Option<f64> {
        let mut facts = Facts::new("lb", 0);
        log.read(&mut facts, &mut Vec::new(), true);
        facts.value(&m::ERROR_LOG_LINES, "")
    }

    #[test]
    fn counts_what_was_added_by_pattern() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("error.log");
        fs::write(&path, "old: upstream timed out\n").unwrap();
        let mut log = ErrorLog::new(path.to_str().unwrap());
        assert_eq!(lines(&mut log), Some(0.0), "what was there before does not count");
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        let text = b"[crit] connect() failed (99: Cannot assign requested address) while\n\
                    [alert] 512 worker_connections are not enough\n\
                    [crit] accept4() failed (24: Too many open files)\n\
                    [error] upstream timed out (110: x)\n\
                    [error] no live upstreams while connecting to upstream, upstream: \"http://backend/\"\n\
                    [warn] an upstream response is buffered to a temporary file /x\n\
                    [warn] a client request body is buffered to a temporary file /x\n\
                    [error] limiting requests, excess\n[error] \xc3\x28 limiting connections by zone\n\
                    [warn] delaying request, excess: 0.5\nhalf a li";
        file.write_all(text).unwrap();
        let mut facts = Facts::new("lb", 0);
        log.read(&mut facts, &mut Vec::new(), false);
        expect![[r#"
            errorlog.lines [] 10
            errorlog.no_port [] 1
            errorlog.no_worker_connections [] 1
            errorlog.no_descriptors [] 1
            errorlog.upstream_timeout [] 1
            errorlog.no_live_upstreams [] 1
            errorlog.temp_file [] 1
            errorlog.body_file [] 1
            errorlog.limiting [] 2
            errorlog.delaying [] 1
        "#]]
        .assert_eq(&facts.listing());
        file.write_all(b"ne\n").unwrap();
        assert_eq!(lines(&mut log), Some(11.0), "half a line counts once it is whole");
    }

    #[test]
    fn complaints_of_other_servers_are_known() {
        let mut log = ErrorLog::new("/none");
        log.count(
            b"OSError: [Errno 24] Too many open files\n\
              http: Accept error: accept tcp [::]:80: accept4: too many open files; retrying in 5ms\n\
              Error: accept EMFILE\n\
              dial tcp 10.0.0.3:80: connect: cannot assign requested address\n\
              OSError: [Errno 99] Cannot assign requested address\n",
        );
        let counted = |metric: &Metric| {
            let known = PATTERNS.iter().zip(log.by_pattern).find(|((m, _), _)| m.name == metric.name);
            known.map(|(_, count)| count)
        };
        assert_eq!(counted(&m::ERROR_LOG_NO_DESCRIPTORS), Some(3));
        assert_eq!(counted(&m::ERROR_LOG_NO_PORT), Some(2));
    }

    #[test]
    fn follows_rotation_and_truncation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("error.log");
        fs::write(&path, "a\nb\n").unwrap();
        let mut log = ErrorLog::new(path.to_str().unwrap());
        lines(&mut log);
        fs::write(&path, "c\n").unwrap();
        assert_eq!(lines(&mut log), Some(1.0), "truncated");
        fs::rename(&path, dir.path().join("error.log.1")).unwrap();
        fs::write(&path, "d\ne\n").unwrap();
        assert_eq!(lines(&mut log), Some(3.0), "rotated");
        fs::remove_file(&path).unwrap();
        assert_eq!(lines(&mut log), None, "gone is a gap");
    }

    #[test]
    fn complaints_are_counted_by_upstream() {
        let line = |address: &str| {
            format!(
                "2026/11/21 [error] 7#7: *1 upstream prematurely closed connection, upstream: \"http://{address}/x\", host: \"h\""
            )
        };
        assert_eq!(upstream_of(&line("10.0.0.3:80")), Some("10.0.0.3:80"));
        assert_eq!(upstream_of(&line("backend")), None);
        assert_eq!(upstream_of("upstream: \""), None);
        let mut log = ErrorLog::new("/none");
        log.count(format!("{}\n{}\nother\n", line("10.0.0.3:80"), line("10.0.0.3:80")).as_bytes());
        assert_eq!(log.by_upstream, BTreeMap::from([("10.0.0.3:80".to_string(), 2)]));
    }
}
