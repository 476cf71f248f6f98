//! How long requests took by the hop's own traces or access log, where the deep look cannot time them.
//!
//! From spans in the JSON form of OTLP; from `$request_time` and `$upstream_response_time` of nginx, by the `log_format` of its
//! configuration; and from the timers of HAProxy's `option httplog`. Logs tell thousandths of a second, so only means are taken. Keeps
//! no line. Invariant: a line that does not fit its format counts as a request and is not timed.

use crate::facts::Facts;
use crate::spans;
use prony_model::line_format::LineFormat;
use prony_model::metric::{self as m, SPLIT_BY_LOG, SPLIT_BY_TRACES};
use prony_model::{Host, Software};
use prony_nginx::Config;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// The newest lines that are read: some 1000, or spans of as many requests.
const TAIL_BYTES: u64 = 256 << 10;
/// The same of traces, which take some 500 bytes for a span, and many spans stand in a line.
const TRACES_TAIL_BYTES: u64 = 4 << 20;
/// With fewer lines a mean of thousandths says little. A guess.
const LINES_MIN: f64 = 20.0;
/// Upstreams that are told apart.
const UPSTREAMS_MAX: usize = 64;

/// The log of one look.
#[derive(Debug)]
pub(crate) struct LogTimes {
    file: File,
    format: Format,
    /// When it first grew while it was looked at, and its size then.
    first: Option<(Instant, u64)>,
    /// When it last grew, and its size since.
    last: (Instant, u64),
}

/// What a line means.
#[derive(Clone, Debug, PartialEq)]
enum Format {
    Nginx(LineFormat),
    Haproxy,
    /// Spans of one service, or of any.
    Otlp {
        service: Option<String>,
    },
}

/// What a line or a span tells: seconds from a request to its answer, if it is of one, and what was waited for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) seconds: Option<f64>,
    pub(crate) upstreams: Vec<(String, f64)>,
}

impl LogTimes {
    /// None where the stack names no traces and no log, or the log does not tell times.
    pub(crate) fn begin(host: &Host) -> Option<Self> {
        let (path, format) = match &host.logs.traces {
            Some(traces) => (traces, Format::Otlp { service: host.logs.service.clone() }),
            None => (host.logs.access.as_ref()?, Self::of_log(host)?),
        };
        let file = File::open(path).ok()?;
        let size = file.metadata().ok()?.len();
        Some(Self { file, format, first: None, last: (Instant::now(), size) })
    }

    fn of_log(host: &Host) -> Option<Format> {
        match host.software? {
            Software::Nginx => {
                nginx(&Config::read(Path::new(host.config.as_deref()?)).ok()?, host.logs.access.as_deref()?)
            }
            Software::Haproxy => Some(Format::Haproxy),
            Software::Postgres | Software::Redis | Software::Other => None,
        }
    }

    /// Looks whether it grew. A server that buffers its log writes many lines at once, so the time between two growths counts, not
    /// that of the look.
    pub(crate) fn tick(&mut self) {
        let Ok(size) = self.file.metadata().map(|meta| meta.len()) else { return };
        if size != self.last.1 {
            self.last = (Instant::now(), size);
            self.first.get_or_insert(self.last);
        }
    }

    /// Puts the times under the names of the deep look's.
    pub(crate) fn put(self, facts: &mut Facts) {
        let Some((begun, from)) = self.first.filter(|(_, from)| *from < self.last.1) else { return };
        let (ended, to) = self.last;
        let (item, tail_bytes) = match self.format {
            Format::Otlp { .. } => (SPLIT_BY_TRACES, TRACES_TAIL_BYTES),
            Format::Nginx(_) | Format::Haproxy => (SPLIT_BY_LOG, TAIL_BYTES),
        };
        let start = from.max(to.saturating_sub(tail_bytes));
        let mut tail = vec![0; (to - start) as usize];
        let Ok(read) = self.file.read_at(&mut tail, start) else { return };
        let whole = String::from_utf8_lossy(&tail[..read]);
        let seconds = (ended - begun).as_secs_f64() * read as f64 / (to - from) as f64;
        // A growth may end within a line.
        put_lines(facts, item, whole.lines().flat_map(|line| self.format.lines(line)), seconds);
    }
}

fn put_lines(facts: &mut Facts, item: &str, lines: impl Iterator<Item = Option<Line>>, seconds: f64) {
    let (mut seen, mut timed, mut total_s) = (0.0, 0.0, 0.0);
    let mut waits: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for line in lines {
        seen += f64::from(u8::from(line.as_ref().is_none_or(|line| line.seconds.is_some())));
        let Some(line) = line else { continue };
        if let Some(request_s) = line.seconds {
            (timed, total_s) = (timed + 1.0, total_s + request_s);
        }
        for (upstream, wait_s) in line.upstreams {
            if waits.len() < UPSTREAMS_MAX || waits.contains_key(&upstream) {
                let (calls, total_s) = waits.entry(upstream).or_default();
                (*calls, *total_s) = (*calls + 1.0, *total_s + wait_s);
            }
        }
    }
    if timed < LINES_MIN || seconds <= 0.0 {
        return;
    }
    facts.put(&m::SPLIT_REQUESTS, item, seen / seconds);
    facts.put(&m::SPLIT_TIMED, item, timed / seen);
    facts.put(&m::SPLIT_RESIDENCE, item, (total_s / timed * 1e6).round());
    for (upstream, (calls, total_s)) in waits {
        facts.put(&m::SPLIT_CALLS, &upstream, calls / seconds);
        facts.put(&m::SPLIT_CALLS_TIMED, &upstream, 1.0);
        facts.put(&m::SPLIT_UPSTREAM, &upstream, (total_s / calls * 1e6).round());
    }
}

/// The format of `log` in a configuration of nginx, if it tells how long a request took.
fn nginx(config: &Config, log: &str) -> Option<Format> {
    let written =
        config.in_http("access_log").into_iter().find(|(_, written)| written.args.first().is_some_and(|w| w == log))?.1;
    let name = written.args.get(1)?;
    let format = config.in_http("log_format").into_iter().find(|(_, format)| format.args.first() == Some(name))?.1;
    let format = format.args[1..].iter().filter(|word| !word.starts_with("escape=")).cloned().collect::<String>();
    let format = LineFormat::new(&format);
    let tells_time = format.variables().any(|name| name == "request_time");
    tells_time.then_some(Format::Nginx(format))
}

impl Format {
    fn lines(&self, line: &str) -> Vec<Option<Line>> {
        match self {
            Self::Nginx(format) => vec![nginx_line(format, line)],
            Self::Haproxy => vec![haproxy_line(line)],
            Self::Otlp { service } => spans::read(line, service.as_deref()),
        }
    }
}

fn nginx_line(format: &LineFormat, line: &str) -> Option<Line> {
    let values = format.values(line.as_bytes()).ok()?;
    let value = |wanted: &str| {
        let written = format.variables().zip(&values).find(|(name, _)| *name == wanted);
        written.and_then(|(_, value)| std::str::from_utf8(value).ok()).unwrap_or_default()
    };
    let (addresses, times) = (value("upstream_addr"), value("upstream_response_time"));
    let seconds = value("request_time").parse::<f64>().ok();
    // `, ` stands between tries, ` : ` between groups of upstreams; `-` for what was not asked or did not answer.
    let tries = |list: &str| list.split([',', ':']).map(|s| s.trim().to_string()).collect::<Vec<_>>();
    let addresses: Vec<String> = addresses.split(", ").flat_map(|a| a.split(" : ")).map(str::to_string).collect();
    let named = |i: usize| addresses.get(i).filter(|a| !a.is_empty() && *a != "-").cloned();
    let waits = tries(times)
        .into_iter()
        .enumerate()
        .filter_map(|(i, time)| Some((named(i).unwrap_or_else(|| "upstreams".to_string()), time.parse::<f64>().ok()?)));
    let upstreams = waits.filter(|(_, wait)| wait.is_finite() && *wait >= 0.0).collect();
    let seconds = seconds.filter(|s| s.is_finite() && *s >= 0.0)?;
    Some(Line { seconds: Some(seconds), upstreams })
}

/// `TR/Tw/Tc/Tr/Ta` in milliseconds, behind `backend/server` (HAProxy, configuration manual, 8.2.3): the request is read, waits in the
/// queue, connects, waits for the first byte of the answer; all of it. -1 stands for what was not reached.
fn haproxy_line(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let timers = |word: &str| {
        let times: Vec<f64> =
            word.split('/').map(|t| t.trim_start_matches('+').parse()).collect::<Result<_, _>>().ok()?;
        <[f64; 5]>::try_from(times).ok()
    };
    let (at, [read, _, connect, answer, all]) =
        words.iter().enumerate().find_map(|(i, word)| Some((i, timers(word)?)))?;
    let server = at.checked_sub(1).map(|before| words[before].to_string())?;
    if read < 0.0 || all < read {
        return None;
    }
    let waited = (connect >= 0.0 && answer >= 0.0).then_some((server, (connect + answer) / 1e3));
    Some(Line { seconds: Some((all - read) / 1e3), upstreams: waited.into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;
    use std::io::Write;
    use std::time::Duration;

    const SITE: &str = r#"
        log_format main escape=json '{"time":"$time_iso8601","rt":$request_time,'
            '"upstream":"$upstream_addr","urt":"$upstream_response_time","agent":"${http_user_agent}"}';
        log_format short '$remote_addr "$request" $status';
        access_log /var/log/access.log main buffer=64k;
        access_log /var/log/short.log short;
    "#;

    /// The site stands in a file of its own, as Debian has it.
    fn format_of(log: &str) -> Option<Format> {
        let folder = tempfile::tempdir().unwrap();
        let (main, site) = (folder.path().join("nginx.conf"), folder.path().join("site.conf"));
        std::fs::write(&main, "http { include site.conf; }").unwrap();
        std::fs::write(site, SITE).unwrap();
        nginx(&Config::read(&main).unwrap(), log)
    }

    fn line(rt: &str, upstream: &str, urt: &str) -> String {
        format!(
            r#"{{"time":"2026-11-22T09:00:00+00:00","rt":{rt},"upstream":"{upstream}","urt":"{urt}","agent":"a, \"b\""}}"#
        )
    }

    fn told(lines: impl Iterator<Item = Option<Line>>, seconds: f64) -> String {
        let mut facts = Facts::new("lb", 0);
        put_lines(&mut facts, SPLIT_BY_LOG, lines, seconds);
        facts.listing()
    }

    #[test]
    fn nginx_tells_its_own_time_and_that_of_each_upstream() {
        let format = format_of("/var/log/access.log").unwrap();
        let lines = [
            line("0.010", "10.0.0.3:80", "0.006"),
            line("0.020", "10.0.0.4:80, 10.0.0.3:80", "0.008, 0.010"),
            line("0.000", "-", "-"),
            "half a line".to_string(),
        ];
        let all = lines.iter().cycle().take(40).flat_map(|line| format.lines(line));
        expect![[r#"
            split.requests [access log] 20
            split.timed [access log] 0.75
            split.residence [access log] 10000
            split.calls [10.0.0.3:80] 10
            split.calls_timed [10.0.0.3:80] 1
            split.upstream [10.0.0.3:80] 8000
            split.calls [10.0.0.4:80] 5
            split.calls_timed [10.0.0.4:80] 1
            split.upstream [10.0.0.4:80] 8000
        "#]]
        .assert_eq(&told(all, 2.0));
    }

    #[test]
    fn a_log_without_times_tells_none() {
        assert_eq!(format_of("/var/log/short.log"), None);
        assert_eq!(format_of("/var/log/other.log"), None, "another server's");
        let format = format_of("/var/log/access.log").unwrap();
        let few = std::iter::repeat_n(format.lines(&line("0.010", "-", "-")), 19).flatten();
        assert_eq!(told(few, 2.0), "", "19 lines are too few");
    }

    #[test]
    fn haproxy_tells_them_by_its_timers() {
        let check = |line: &str, want: Expect| want.assert_eq(&format!("{:?}", haproxy_line(line)));
        let head = "haproxy[14389]: 10.0.1.2:33317 [06/Feb/2026:12:14:14.655] http-in static/srv1";
        let tail = r#"200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1""#;
        check(
            &format!("{head} 10/0/30/69/109 {tail}"),
            expect![[r#"Some(Line { seconds: Some(0.099), upstreams: [("static/srv1", 0.099)] })"#]],
        );
        check(&format!("{head} 10/5/-1/-1/+45 {tail}"), expect!["Some(Line { seconds: Some(0.035), upstreams: [] })"]);
        check("haproxy[1]: Server static/srv1 is UP", expect!["None"]);
    }

    #[test]
    fn what_was_written_before_the_look_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let (log, config) = (folder.path().join("access.log"), folder.path().join("nginx.conf"));
        let text = format!("http {{ {} }}", SITE.replace("/var/log/access.log", log.to_str().unwrap()));
        std::fs::write(&config, text).unwrap();
        std::fs::write(&log, format!("{}\n", line("9.000", "-", "-")).repeat(100)).unwrap();
        let host = Host {
            software: Some(Software::Nginx),
            config: Some(config.display().to_string()),
            logs: prony_model::stack::Logs { access: Some(log.display().to_string()), ..Default::default() },
            ..Host::default()
        };
        let mut times = LogTimes::begin(&host).unwrap();
        let mut file = File::options().append(true).open(&log).unwrap();
        for _ in 0..3 {
            file.write_all(format!("{}\n", line("0.010", "-", "-")).repeat(50).as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(20));
            times.tick();
        }
        let mut facts = Facts::new("lb", 0);
        times.put(&mut facts);
        assert_eq!(facts.value(&m::SPLIT_RESIDENCE, SPLIT_BY_LOG), Some(10_000.0));
        let rate = facts.value(&m::SPLIT_REQUESTS, SPLIT_BY_LOG).unwrap();
        assert!(rate > 100.0 && rate < 2_500.0, "50 lines each 20 ms or more: {rate}");
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "([0-9./+-]{0,12}|static/srv1|\"urt\":|\\PC| ){0,30}", format in "(\\$[a-z_]{0,20}|\\$\\{|\\}|\\PC){0,10}") {
            let _ = haproxy_line(&line);
            let _ = nginx_line(&LineFormat::new(&format), &line);
        }

        #[test]
        fn a_line_is_taken_apart_as_it_was_written(rt in 0u32..100_000, urt in 0u32..100_000) {
            let format = format_of("/var/log/access.log").unwrap();
            let (rt, urt) = (f64::from(rt) / 1e3, f64::from(urt) / 1e3);
            let read = format.lines(&line(&format!("{rt:.3}"), "10.0.0.3:80", &format!("{urt:.3}"))).remove(0).unwrap();
            prop_assert_eq!(read, Line { seconds: Some(rt), upstreams: vec![("10.0.0.3:80".to_string(), urt)] });
        }
    }
}
