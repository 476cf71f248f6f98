//! The time split against servers that tell their own times: a real nginx before a server with a known delay, Redis and
//! PostgreSQL. Needs root, nginx, python3 and ip; says so and returns otherwise. Redis and PostgreSQL are left out where they
//! are not installed.
//!
//! What prony says is held against what the server measured itself, not against the delay that it was told: the machine may
//! be busy. It leaves nothing behind, however it ends.

#![allow(clippy::unwrap_used, reason = "clippy knows tests by #[test]; these are their parts")]

use prony_model::stack::Logs;
use prony_model::{Host, ProcessRef, Sample, Software};
use prony_probe::{Roots, look};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

mod cluster;
use cluster::Cluster;

mod sys {
    //! Entering a network namespace, which std does not offer.
    use std::os::fd::AsRawFd;

    /// Moves the calling thread.
    pub fn enter(namespace: &str) {
        let file = std::fs::File::open(format!("/run/netns/{namespace}")).unwrap();
        // SAFETY: the descriptor is open; setns takes no pointer and changes only the calling thread.
        assert_eq!(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }, 0);
    }

    /// Whether this process is root.
    pub fn is_root() -> bool {
        // SAFETY: geteuid has no precondition.
        unsafe { libc::geteuid() == 0 }
    }
}

/// Answers 5 ms after a request, and tells the median of what its own clock measured in between; it writes spans as well, and
/// those of another service.
const BACKEND: &str = r#"
import asyncio, json, statistics, sys, time
times, spans = {}, []
def trace(begun):
    end = time.time_ns()
    start = end - int(1e9 * (asyncio.get_running_loop().time() - begun))
    spans.append({"name": "GET", "kind": 2, "startTimeUnixNano": str(start), "endTimeUnixNano": str(end)})
    if len(spans) == 20:
        of = lambda name: {"attributes": [{"key": "service.name", "value": {"stringValue": name}}]}
        other = [{"name": "GET", "kind": 2, "startTimeUnixNano": "0", "endTimeUnixNano": "9000000000"}]
        batch = [{"resource": of("backend"), "scopeSpans": [{"spans": spans}]}, {"resource": of("other"), "scopeSpans": [{"spans": other}]}]
        with open(sys.argv[1], "a") as file:
            file.write(json.dumps({"resourceSpans": batch}) + "\n")
        spans.clear()
class Backend(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.port = transport, transport.get_extra_info("sockname")[1]
    def data_received(self, data):
        begun = asyncio.get_running_loop().time()
        if data.startswith(b"GET /median"):
            mine = times.pop(self.port, [0])
            return self.send(str(round(1e6 * statistics.median(mine))).encode())
        for _ in range(data.count(b"\r\n\r\n")):
            asyncio.get_running_loop().call_later(0.005, self.answer, begun)
    def answer(self, begun):
        times.setdefault(self.port, []).append(asyncio.get_running_loop().time() - begun)
        if self.port == 8090:
            trace(begun)
        self.send(b"hello")
    def send(self, body):
        self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
async def main():
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Backend, "127.0.0.1", port) for port in (8090, 8091, 8092)]
    await asyncio.gather(*(server.serve_forever() for server in servers))
asyncio.run(main())
"#;

const CONFIG: &str = "worker_processes 1; pid DIR/nginx.pid; error_log DIR/error.log;
events { worker_connections 64; }
http {
  log_format times '$request_time $upstream_addr $upstream_response_time';
  access_log DIR/access.log times;
  client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4; scgi_temp_path DIR/t5;
  keepalive_requests 1000000;
  upstream backend { server 127.0.0.1:8090; keepalive 8; }
  server { listen 80; location / { proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection \"\"; } }
}";

const REDIS_PORT: u16 = 6379;
const POSTGRES_PORT: u16 = 5432;

/// A namespace with everything that is installed.
struct Servers {
    namespace: String,
    folder: tempfile::TempDir,
    children: Vec<Child>,
    redis: Option<u32>,
    postgres: Option<Cluster>,
    /// A process that serves nobody.
    idle: Option<u32>,
}

fn run(command: &str) -> bool {
    let mut words = command.split(' ');
    Command::new(words.next().unwrap()).args(words).output().is_ok_and(|out| out.status.success())
}

fn listens(port: u16) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(25));
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    })
}

impl Servers {
    /// The calling thread enters the namespace, and must live as long as the servers.
    fn up() -> Option<Self> {
        let namespace = format!("prony-test-split-{}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        let mut servers = Self { namespace, folder, children: Vec::new(), redis: None, postgres: None, idle: None };
        let (ns, dir) = (servers.namespace.clone(), servers.folder.path().to_path_buf());
        if !(run(&format!("ip netns add {ns}")) && run(&format!("ip -n {ns} link set lo up"))) {
            return None;
        }
        sys::enter(&ns);
        fs::write(dir.join("nginx.conf"), CONFIG.replace("DIR", dir.to_str().unwrap())).unwrap();
        fs::write(dir.join("backend.py"), BACKEND).unwrap();
        let [program, traces] = ["backend.py", "traces.jsonl"].map(|name| dir.join(name));
        fs::write(&traces, "").unwrap();
        servers.start("python3", &[program.to_str().unwrap(), traces.to_str().unwrap()])?;
        if !listens(8092) || !run(&format!("nginx -c {}/nginx.conf", dir.display())) || !listens(80) {
            return None;
        }
        let port = REDIS_PORT.to_string();
        let redis = ["--port", &port, "--save", "", "--enable-debug-command", "yes"];
        servers.redis = servers.start("redis-server", &redis).filter(|_| listens(REDIS_PORT));
        servers.idle = servers.start("sleep", &["600"]);
        servers.postgres = cluster::programs().map(|bin| Cluster::up(&bin, &["listen_addresses=127.0.0.1"]));
        Some(servers)
    }

    fn start(&mut self, program: &str, args: &[&str]) -> Option<u32> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children.push(command.spawn().ok()?);
        self.children.last().map(Child::id)
    }

    fn nginx_pid(&self) -> PathBuf {
        self.folder.path().join("nginx.pid")
    }

    /// What is looked at, and whose processes.
    fn hosts(&self) -> Vec<(&'static str, Host)> {
        let pids = |pid: u32| Some(ProcessRef::Pids(vec![pid]));
        let proxy = Some(ProcessRef::PidFile(self.nginx_pid().display().to_string()));
        let postgres = self.postgres.as_ref().and_then(|c| c.server.as_ref()).map(Child::id);
        let mut hosts = vec![
            ("lb", Host { software: Some(Software::Nginx), process: proxy, ..Host::default() }),
            ("backend", Host { process: pids(self.children[0].id()), ..Host::default() }),
            ("clients", Host { process: pids(std::process::id()), ..Host::default() }),
            ("by its log", self.by_its_log()),
            ("by its traces", self.by_its_traces()),
        ];
        hosts.extend(self.redis.map(|pid| ("cache", Host { process: pids(pid), ..Host::default() })));
        hosts.extend(postgres.map(|pid| ("db", Host { process: pids(pid), ..Host::default() })));
        hosts
    }
}

impl Servers {
    fn file(&self, name: &str) -> Option<String> {
        Some(self.folder.path().join(name).display().to_string())
    }

    /// The backend, of which no probe sees a request either.
    fn by_its_traces(&self) -> Host {
        let (traces, service) = (self.file("traces.jsonl"), Some("backend".to_string()));
        Host {
            logs: Logs { traces, service, ..Logs::default() },
            process: Some(ProcessRef::Pids(self.idle.into_iter().collect())),
            ..Host::default()
        }
    }

    /// The proxy, of which no probe sees a request: it is looked for among the sockets of a process that has none.
    fn by_its_log(&self) -> Host {
        Host {
            software: Some(Software::Nginx),
            config: self.file("nginx.conf"),
            logs: Logs { access: self.file("access.log"), ..Logs::default() },
            process: Some(ProcessRef::Pids(self.idle.into_iter().collect())),
            ..Host::default()
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(self.nginx_pid()) {
            run(&format!("kill {}", pid.trim()));
        }
        for child in &mut self.children {
            let _ = child.kill().and_then(|()| child.wait());
        }
        self.postgres = None;
        run(&format!("ip netns del {}", self.namespace));
    }
}

fn connect(port: u16) -> TcpStream {
    let connection = TcpStream::connect(("127.0.0.1", port)).unwrap();
    connection.set_nodelay(true).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    connection
}

/// Reads until the bytes so far are a whole answer.
fn answer(connection: &mut TcpStream, whole: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 << 10]);
    while !whole(&bytes) {
        let n = connection.read(&mut piece).unwrap();
        assert!(n > 0, "the server closed the connection after {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend(&piece[..n]);
    }
    bytes
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

fn ask(connection: &mut TcpStream) {
    connection.write_all(GET).unwrap();
    answer(connection, |bytes| bytes.ends_with(b"hello"));
}

/// Two requests on their way at once.
fn ask_twice(connection: &mut TcpStream) {
    connection.write_all(GET).unwrap();
    std::thread::sleep(Duration::from_millis(1));
    connection.write_all(GET).unwrap();
    answer(connection, |bytes| bytes.windows(5).filter(|five| five == b"hello").count() == 2);
}

/// A request of many packets, written at once; seldom, so that the servers are busy with the others.
fn ask_at_length(connection: &mut TcpStream) {
    std::thread::sleep(Duration::from_millis(50));
    let request = [&GET[..GET.len() - 2], b"X: ", &[b'x'; 100_000], b"\r\n\r\n"].concat();
    connection.write_all(&request).unwrap();
    answer(connection, |bytes| bytes.ends_with(b"hello"));
}

fn backends_median(port: u16) -> f64 {
    let mut connection = connect(port);
    connection.write_all(b"GET /median HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let text = answer(&mut connection, |bytes| bytes.windows(4).any(|four| four == b"\r\n\r\n"));
    String::from_utf8(text).unwrap().rsplit("\r\n").next().unwrap().parse().unwrap()
}

fn ask_redis(connection: &mut TcpStream) {
    connection.write_all(b"DEBUG SLEEP 0.005\r\n").unwrap();
    answer(connection, |bytes| bytes == b"+OK\r\n");
}

/// As Redis counted it itself: `latency_percentiles_usec_debug:p50=5095.423,p99=...`.
fn redis_median() -> f64 {
    let mut connection = connect(REDIS_PORT);
    connection.write_all(b"INFO latencystats\r\n").unwrap();
    let text = answer(&mut connection, |bytes| bytes.len() > 20 && bytes.ends_with(b"\r\n"));
    let text = String::from_utf8(text).unwrap();
    text.split("usec_debug:p50=").nth(1).unwrap().split(',').next().unwrap().parse().unwrap()
}

/// A message of the protocol: kind, length with itself, text.
fn message(kind: &[u8], text: &[u8]) -> Vec<u8> {
    [kind, &(text.len() as u32 + 4).to_be_bytes(), text].concat()
}

const READY: &[u8] = b"Z\0\0\0\x05I";

fn log_in() -> TcpStream {
    let mut connection = connect(POSTGRES_PORT);
    connection.write_all(&message(b"", b"\0\x03\0\0user\0app\0database\0postgres\0\0")).unwrap();
    answer(&mut connection, |bytes| bytes.ends_with(READY));
    connection
}

/// Sleeps, and gives the microseconds since the statement came, by the server's own clock.
fn ask_postgres(connection: &mut TcpStream) -> f64 {
    let sql =
        "select pg_sleep(0.005), 'us=' || extract(epoch from clock_timestamp() - statement_timestamp()) * 1e6 || ';'\0";
    connection.write_all(&message(b"Q", sql.as_bytes())).unwrap();
    let bytes = answer(connection, |bytes| bytes.ends_with(READY));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    text.split("us=").nth(1).unwrap().split(';').next().unwrap().parse().unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What every host showed, and what servers told of themselves.
struct Seen {
    samples: Vec<Sample>,
    backend_us: f64,
    redis_us: Option<f64>,
    postgres_us: Option<f64>,
}

impl Seen {
    /// Loads the servers and looks at all of them at once, as a diagnosis does.
    fn take(servers: &Servers) -> Self {
        backends_median(8090); // Forgets what was before.
        let (end, postgres) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let until = |mut step: Box<dyn FnMut() + '_>| {
            while !end.load(Ordering::Relaxed) {
                step();
            }
        };
        let enter = || sys::enter(&servers.namespace);
        let samples = std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    enter();
                    let mut connection = connect(80);
                    until(Box::new(|| ask(&mut connection)));
                });
            }
            scope.spawn(|| {
                enter();
                let mut connection = connect(8091);
                until(Box::new(|| ask_twice(&mut connection)));
            });
            scope.spawn(|| {
                enter();
                let mut connection = connect(8092);
                until(Box::new(|| ask_at_length(&mut connection)));
            });
            if servers.redis.is_some() {
                scope.spawn(|| {
                    enter();
                    let mut connection = connect(REDIS_PORT);
                    until(Box::new(|| ask_redis(&mut connection)));
                });
            }
            if servers.postgres.is_some() {
                scope.spawn(|| {
                    enter();
                    let mut connection = log_in();
                    until(Box::new(|| postgres.lock().unwrap().push(ask_postgres(&mut connection))));
                });
            }
            let looks: Vec<_> = (servers.hosts().into_iter())
                .map(|(name, host)| {
                    scope.spawn(move || {
                        enter();
                        let seen = look(name, &host, Roots::here(), 0, Duration::from_secs(3));
                        eprintln!("{name}: gaps {:?}", seen.gaps);
                        seen.sample
                    })
                })
                .collect();
            let samples = looks.into_iter().map(|look| look.join().unwrap()).collect();
            end.store(true, Ordering::Relaxed);
            samples
        });
        let postgres = postgres.into_inner().unwrap();
        Self {
            samples,
            backend_us: backends_median(8090),
            redis_us: servers.redis.map(|_| redis_median()),
            postgres_us: servers.postgres.as_ref().map(|_| median(postgres)),
        }
    }

    fn value(&self, host: &str, metric: &str, item: &str) -> f64 {
        let sample = self.samples.iter().find(|s| s.host == host).unwrap();
        let found = sample.values.iter().find(|(m, i, _)| m == metric && i == item);
        let split = || sample.values.iter().filter(|(m, ..)| m.starts_with("split.")).collect::<Vec<_>>();
        found.unwrap_or_else(|| panic!("{metric} [{item}] of {host} in {:#?}", split())).2
    }

    /// What prony measured, and what the server told.
    fn times(&self) -> Vec<(&'static str, f64, f64)> {
        let mut times = vec![
            ("lb waits", self.value("lb", "split.upstream_p50", "127.0.0.1:8090"), self.backend_us),
            ("backend holds", self.value("backend", "split.residence_p50", "8090"), self.backend_us),
        ];
        times.extend(self.redis_us.into_iter().flat_map(|us| {
            let waits = self.value("clients", "split.upstream_p50", &format!("127.0.0.1:{REDIS_PORT}"));
            let holds = self.value("cache", "split.residence_p50", &REDIS_PORT.to_string());
            [("clients wait for redis", waits, us), ("redis holds", holds, us)]
        }));
        times.extend(self.postgres_us.into_iter().flat_map(|us| {
            let waits = self.value("clients", "split.upstream_p50", &format!("127.0.0.1:{POSTGRES_PORT}"));
            let holds = self.value("db", "split.residence_p50", &POSTGRES_PORT.to_string());
            [("clients wait for postgres", waits, us), ("postgres holds", holds, us)]
        }));
        times
    }
}

/// Within 5 % or 100 us.
fn agree((what, prony_us, server_us): &(&str, f64, f64)) -> bool {
    eprintln!("{what}: prony {prony_us:.0} us, the server {server_us:.0} us");
    (prony_us - server_us).abs() <= (0.05 * server_us).max(100.0)
}

#[test]
fn needs_root_times_are_those_that_the_servers_tell() {
    if !sys::is_root() {
        return eprintln!("not root: a network namespace cannot be made");
    }
    // One thread enters the namespace, and lives as long as the servers.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let Some(servers) = Servers::up() else {
                return eprintln!("no namespace with nginx before python3: are nginx, python3 and ip installed?");
            };
            let seen = Seen::take(&servers);
            whole_requests_are_covered_and_others_are_not(&seen);
            the_log_tells_the_same_in_thousandths(&seen);
            the_traces_tell_the_same(&seen);
            // A CPU that stalls between the server's clock and the network moves a median, though not three times.
            let agreed = seen.times().iter().filter(|t| !agree(t)).count() == 0
                || (0..2).any(|_| Seen::take(&servers).times().iter().filter(|t| !agree(t)).count() == 0);
            assert!(agreed, "see above");
        });
    });
}

fn whole_requests_are_covered_and_others_are_not(seen: &Seen) {
    let value = |host, metric, item| seen.value(host, metric, item);
    assert!(value("lb", "split.timed", "80") > 0.9);
    assert!(value("lb", "split.calls_timed", "127.0.0.1:8090") > 0.9);
    assert!(value("backend", "split.timed", "8090") > 0.9);
    let (requests, calls) = (value("lb", "split.requests", "80"), value("lb", "split.calls", "127.0.0.1:8090"));
    assert!((requests / calls - 1.0).abs() < 0.05, "{requests} requests/s, {calls} calls/s");
    assert!(value("lb", "split.residence", "80") > value("lb", "split.upstream", "127.0.0.1:8090"));
    assert!(value("lb", "split.queue", "80") < value("lb", "split.residence", "80"));
    // Two at once cannot be told apart: they are counted, and hardly any is timed.
    assert!(value("backend", "split.requests", "8091") > 10.0);
    assert!(value("backend", "split.timed", "8091") < 0.4, "{}", value("backend", "split.timed", "8091"));
    assert!(value("clients", "split.calls_timed", "127.0.0.1:8091") < 0.4);
    assert!(value("clients", "split.calls_timed", "127.0.0.1:8092") > 0.9, "one write is one request, however long");
}

fn the_log_tells_the_same_in_thousandths(seen: &Seen) {
    let (lb, log) =
        (|metric, item| seen.value("lb", metric, item), |metric, item| seen.value("by its log", metric, item));
    assert!(log("split.timed", "access log") > 0.99);
    let (requests, lines) = (lb("split.requests", "80"), log("split.requests", "access log"));
    assert!((lines / requests - 1.0).abs() < 0.2, "{requests} requests/s, {lines} lines/s");
    for (metric, by_log) in [("split.residence", "access log"), ("split.upstream", "127.0.0.1:8090")] {
        let by_socket = lb(metric, if by_log == "access log" { "80" } else { by_log });
        let us = log(metric, by_log);
        // The sockets are timed for a part of the look, the log for all of it.
        assert!(
            (us - by_socket).abs() < (0.25 * by_socket).max(1_000.0),
            "{metric}: log {us} us, sockets {by_socket} us"
        );
    }
}

fn the_traces_tell_the_same(seen: &Seen) {
    let (socket, traces) =
        (|metric| seen.value("backend", metric, "8090"), |metric| seen.value("by its traces", metric, "traces"));
    let (requests, spans) = (socket("split.requests"), traces("split.requests"));
    assert!((spans / requests - 1.0).abs() < 0.2, "{requests} requests/s, {spans} spans/s");
    let (by_socket, us) = (socket("split.residence"), traces("split.residence"));
    assert!((us - by_socket).abs() < (0.25 * by_socket).max(1_000.0), "traces {us} us, sockets {by_socket} us");
}
