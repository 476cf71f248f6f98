//! The probe against a real nginx in a network namespace of its own. Needs root, nginx, ip and tc; says so and returns
//! otherwise.
//!
//! One test, because the parts share the namespace. It leaves nothing behind, however it ends.

#![allow(clippy::unwrap_used, reason = "clippy knows tests by #[test]; these are their parts")]

use prony_model::{Host, ProcessRef, Sample, Software, Stacks};
use prony_probe::{Roots, Watch, inventory, look, prices};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

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

fn run(command: &str) -> bool {
    let mut words = command.split(' ');
    Command::new(words.next().unwrap()).args(words).output().is_ok_and(|out| out.status.success())
}

/// A namespace with nginx: port 80 answers at once, /slow asks an upstream at 8090 that takes its time.
struct Server {
    namespace: String,
    folder: tempfile::TempDir,
}

const CONFIG: &str = "worker_processes 2; pid DIR/nginx.pid; error_log DIR/error.log;
events { worker_connections 64; }
http {
  access_log DIR/plain.log; access_log DIR/buffered.log combined buffer=8k flush=10s;
  client_body_temp_path DIR/t1; proxy_temp_path DIR/t2; fastcgi_temp_path DIR/t3; uwsgi_temp_path DIR/t4; scgi_temp_path DIR/t5;
  keepalive_requests 1000000;
  server { listen 80; location / { return 200 hello; } location /status { stub_status; access_log off; }
           location /slow { proxy_pass http://127.0.0.1:8090; } }
}";

impl Server {
    fn up() -> Option<Self> {
        let namespace = format!("prony-test-probe-{}", std::process::id());
        let server = Self { namespace, folder: tempfile::tempdir().unwrap() };
        let (ns, dir) = (&server.namespace, server.dir());
        let made = run(&format!("ip netns add {ns}"))
            && run(&format!("ip -n {ns} link set lo up"))
            && run(&format!("ip -n {ns} link add eth0 type veth peer name peer0"))
            && run(&format!("ip -n {ns} link set eth0 up"))
            && run(&format!("tc -n {ns} qdisc add dev eth0 root tbf rate 20mbit burst 32k latency 50ms"));
        fs::write(dir.join("nginx.conf"), CONFIG.replace("DIR", dir.to_str().unwrap())).unwrap();
        let started = made && run(&format!("ip netns exec {ns} nginx -c {}/nginx.conf", dir.display()));
        started.then_some(server)
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    fn host(&self) -> Host {
        let file = |name: &str| self.dir().join(name).display().to_string();
        let mut host = Host {
            software: Some(Software::Nginx),
            process: Some(ProcessRef::PidFile(file("nginx.pid"))),
            status: Some("http://127.0.0.1/status".to_string()),
            ..Host::default()
        };
        host.logs.access = Some(file("plain.log"));
        host.logs.error = Some(file("error.log"));
        host
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(self.dir().join("nginx.pid")) {
            run(&format!("kill {}", pid.trim()));
            for _ in 0..100 {
                if !self.dir().join("nginx.pid").exists() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        run(&format!("ip netns del {}", self.namespace));
    }
}

fn ask(connection: &mut TcpStream, path: &str) {
    connection.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    let mut bytes = [0; 2048];
    assert!(connection.read(&mut bytes).unwrap() > 0);
}

fn value(sample: &Sample, metric: &str, item: &str) -> f64 {
    let found = sample.values.iter().find(|(m, i, _)| m == metric && i == item);
    found.unwrap_or_else(|| panic!("{metric} [{item}] in {:#?}", sample.values)).2
}

fn sum(sample: &Sample, metric: &str) -> f64 {
    sample.values.iter().filter(|(m, _, _)| m == metric).map(|(_, _, v)| v).sum()
}

#[test]
fn needs_root_reads_a_real_nginx() {
    if !sys::is_root() {
        return eprintln!("not root: a network namespace cannot be made");
    }
    let Some(server) = Server::up() else {
        return eprintln!("no namespace with nginx: are nginx, ip and tc installed?");
    };
    // Every part in one thread of its own, which alone enters the namespace.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sys::enter(&server.namespace);
            counters_move(&server);
            a_slow_answer_is_seen(&server);
            writes_of_logs_are_told_apart(&server);
            what_the_host_is(&server);
            what_a_sample_costs(&server);
        });
    });
    let namespace = server.namespace.clone();
    drop(server);
    assert!(!PathBuf::from(format!("/run/netns/{namespace}")).exists());
}

fn counters_move(server: &Server) {
    let mut watch = Watch::new("lb", &server.host(), Roots::here());
    watch.sample(0); // Opens prony's own connection to the status page.
    // A minute apart, so that on a busy machine too the dearest reader is due in every sample.
    let before = watch.sample(60_000_000_000);
    let mut connection = TcpStream::connect("127.0.0.1:80").unwrap();
    for _ in 0..50 {
        ask(&mut connection, "/");
    }
    let after = watch.sample(120_000_000_000);
    let grown = |metric: &str| sum(&after, metric) - sum(&before, metric);
    assert_eq!(grown("nginx.requests"), 50.0, "prony's own request is subtracted");
    assert_eq!(grown("nginx.accepts"), 1.0);
    assert_eq!(grown("tcp.passive_opens"), 1.0);
    assert!(grown("proc.writes") >= 50.0, "one write for each line of the plain log");
    assert!(grown("proc.run") > 0.0);
    assert!(value(&after, "log.size", server.dir().join("plain.log").to_str().unwrap()) > 1000.0);
    assert!(value(&after, "log.size", server.dir().join("buffered.log").to_str().unwrap()) < 1000.0);
    assert_eq!(sum(&after, "proc.is_worker"), 2.0);
    assert_eq!(sum(&after, "proc.name"), 3.0);
    assert_eq!(value(&after, "proc.count", ""), 3.0);
    assert_eq!(value(&after, "listen.backlog", "0.0.0.0:80"), 511.0);
    assert!(value(&after, "conn.in", "80") >= 1.0);
    assert_eq!(value(&after, "qdisc.rate", "eth0 tbf"), 20e6);
    assert!(value(&after, "self.cpu", "") > value(&before, "self.cpu", ""));
    assert_eq!(value(&after, "errorlog.lines", ""), 0.0);
}

fn a_slow_answer_is_seen(server: &Server) {
    let upstream = TcpListener::bind("127.0.0.1:8090").unwrap();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (arrived, at_upstream) = std::sync::mpsc::channel::<()>();
    let answering = std::thread::spawn(move || {
        let (mut connection, _) = upstream.accept().unwrap();
        let mut request = [0; 2048];
        assert!(connection.read(&mut request).unwrap() > 0);
        arrived.send(()).unwrap();
        released.recv().unwrap();
        connection.write_all(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    });
    let mut client = TcpStream::connect("127.0.0.1:80").unwrap();
    ask(&mut client, "/"); // So that an answer was sent before, as on a connection in use.
    std::thread::sleep(Duration::from_millis(30));
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    at_upstream.recv().unwrap();
    std::thread::sleep(Duration::from_millis(30)); // More than one tick of the slowest kernel clock.
    let mut watch = Watch::new("lb", &server.host(), Roots::here());
    let busy = watch.sample(0);
    release.send(()).unwrap();
    answering.join().unwrap();
    let mut bytes = [0; 2048];
    assert!(client.read(&mut bytes).unwrap() > 0);
    std::thread::sleep(Duration::from_millis(30));
    let idle = watch.sample(60_000_000_000); // Late enough for the dearest reader to be due again.
    assert_eq!(value(&busy, "conn.in_busy", "80"), 1.0);
    assert_eq!(value(&busy, "conn.out_waiting", "127.0.0.1:80"), 1.0, "the client waits too");
    assert_eq!(value(&idle, "conn.in_busy", "80"), 0.0);
    assert_eq!(value(&idle, "conn.out_waiting", "127.0.0.1:80"), 0.0);
}

fn writes_of_logs_are_told_apart(server: &Server) {
    let host = server.host();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let prony_probe::Looked { sample, gaps, stacks } = std::thread::scope(|scope| {
        // A child thread is born in the namespace of its parent.
        scope.spawn(|| {
            let mut connection = TcpStream::connect("127.0.0.1:80").unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                ask(&mut connection, "/");
            }
        });
        let looked = look("lb", &host, Roots::here(), 0, Duration::from_millis(1500));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        looked
    });
    assert_eq!(gaps, [], "the steps of both logs were seen");
    let of = |metric: &str, log: &str| value(&sample, metric, server.dir().join(log).to_str().unwrap());
    let line = of("look.log_line", "plain.log");
    assert!((50.0..200.0).contains(&line), "{line}");
    let (plain, buffered) = (of("look.log_step", "plain.log"), of("look.log_step", "buffered.log"));
    assert!(plain <= 2.0 * line, "line by line: {plain}");
    assert_eq!((of("look.log_held", "plain.log"), of("look.log_held", "buffered.log")), (1.0, 1.0));
    assert!(buffered >= 40.0 * line, "by the buffer of 8 KiB: {buffered}");
    assert!(of("look.log_growth", "plain.log") > 0.0);
    assert!(sum(&sample, "look.wait") > 0.0, "{:?}", sample.values);
    let running = sum(&sample, "look.running");
    assert!(running > 0.0 && running <= 2.0, "{running}");
    what_nginx_runs(&sample, &stacks.unwrap());
}

/// The deep look, taken with the same look.
fn what_nginx_runs(sample: &Sample, stacks: &Stacks) {
    let samples = value(sample, "profile.samples", "");
    assert!(samples >= 20.0, "1.5 s of a client without pauses: {samples}");
    assert!(value(sample, "profile.lost", "") <= 0.2 * samples);
    let of_prony = |(metric, item, _): &&(_, String, f64)| metric == "profile.total" && item.starts_with("bpf_prog_");
    assert_eq!(sample.values.iter().find(of_prony), None, "what prony itself runs is no work of the hop");
    assert!(value(sample, "profile.own", "") > 0.0, "requests were timed meanwhile");
    assert!(value(sample, "profile.module", "kernel") > 0.1, "small answers are mostly system calls");
    assert!(value(sample, "profile.module", "nginx") > 0.01);
    assert!(value(sample, "profile.total", "do_syscall_64") > 0.1);
    assert!(stacks.stacks.iter().any(|stack| stack.frames[0] == "nginx" && stack.frames.len() > 3), "{stacks:?}");
    assert!((stacks.samples() as f64 - samples).abs() <= 0.5 * stacks.stacks.len() as f64, "each sample is in a stack");
    assert!(value(sample, "thread.count", "") >= 1.0, "at least the worker that the client talks to");
    assert!(sum(sample, "thread.asleep") > 0.0, "{:?}", sample.values);
    assert_eq!(sum(sample, "retransmit.state"), 0.0);
    assert!((0.0..1.0).contains(&value(sample, "queue.wait", "")));
    // The clock of the profile alone is a thousand timer interrupts per second.
    let timer = sample.values.iter().find(|(m, item, _)| m == "hardirq.time" && item.starts_with("timer "));
    assert!(timer.is_some() || cfg!(not(target_arch = "x86_64")), "{:?}", sample.values);
    what_the_look_cost(sample);
}

/// Each instrument tells its own cost, whatever it is here.
fn what_the_look_cost(sample: &Sample) {
    for instrument in ["profile", "locks", "threads", "packets", "softirqs", "interrupts", "split", "thread"] {
        let share = value(sample, "self.look", instrument);
        assert!((0.0..1.0).contains(&share), "{instrument} took {share} of a CPU");
        eprintln!("{instrument}: {:.2} % of a CPU", share * 100.0);
    }
    assert!(value(sample, "self.look_around", "") > 0.0, "programs are loaded");
    for busy in ["profile", "threads", "softirqs", "thread"] {
        assert!(value(sample, "self.look", busy) > 0.0, "{busy} was at work");
    }
}

/// Processes that do one thing, until dropped.
struct Busy(Vec<std::process::Child>);

impl Busy {
    fn start(count: usize, script: &str) -> Self {
        // Not the files of this test: where its output goes to a file, that would be a log of theirs.
        let spawn = || Command::new("sh").args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self((0..count).map(|_| spawn().unwrap()).collect())
    }

    fn look(&self) -> prony_probe::Looked {
        let pids = self.0.iter().map(std::process::Child::id).collect();
        let host = Host { process: Some(ProcessRef::Pids(pids)), ..Host::default() };
        look("busy", &host, Roots::here(), 0, Duration::from_millis(800))
    }
}

/// What could not be seen.
fn gaps_of(seen: &prony_probe::Looked) -> Vec<&str> {
    seen.gaps.iter().map(|gap| gap.fact.as_str()).collect()
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn needs_root_a_profile_is_of_the_hop_alone() {
    if !sys::is_root() {
        return eprintln!("skipped: eBPF needs root");
    }
    let (_strangers, busy) = (Busy::start(1, "while :; do :; done"), Busy::start(1, "while :; do :; done"));
    let seen = busy.look();
    assert_eq!(gaps_of(&seen), ["split.residence"], "they serve nobody");
    let shell = std::fs::canonicalize("/bin/sh").unwrap();
    let shell = shell.file_name().unwrap().to_str().unwrap();
    // It runs itself and its C library by turns, about half of the time each.
    let own: f64 = [shell, "libc.so.6"].map(|module| value(&seen.sample, "profile.module", module)).iter().sum();
    assert!(own > 0.8, "{:?}", seen.sample.values);
    let ticks = value(&seen.sample, "profile.samples", "");
    assert!((50.0..1100.0).contains(&ticks), "one process runs on one CPU at a time: {ticks}");
    // Neither keeps frame pointers in Debian.
    let from_the_start = value(&seen.sample, "profile.total", "__libc_start_main");
    assert!(!cfg!(target_arch = "x86_64") || from_the_start > 0.8, "{:?}", seen.stacks);
}

/// As root it runs itself again as nobody.
#[test]
fn without_root_the_deep_look_is_a_gap() {
    if sys::is_root() {
        let test = ["--exact", "without_root_the_deep_look_is_a_gap"];
        let itself = std::env::current_exe().unwrap();
        let run = Command::new("setpriv").args(["--reuid=65534", "--clear-groups"]).arg(itself).args(test).output();
        // 126 and 127: nobody may not enter the folder of this program.
        match run {
            Ok(out) if matches!(out.status.code(), Some(126 | 127)) => eprintln!("skipped: {:?}", out.stderr),
            Ok(out) => assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout)),
            Err(e) => eprintln!("skipped: setpriv: {e}"),
        }
        return;
    }
    let host = Host { process: Some(ProcessRef::Pids(vec![std::process::id()])), ..Host::default() };
    let seen = look("here", &host, Roots::here(), 0, Duration::from_millis(50));
    let gap = |fact: &str| seen.gaps.iter().find(|gap| gap.fact == fact).unwrap_or_else(|| panic!("{:?}", seen.gaps));
    for fact in ["profile.samples", "lock.wait", "thread.count", "drop.reason", "softirq.time", "hardirq.time"] {
        assert!(gap(fact).reason.contains("root"), "{}", gap(fact).reason);
    }
    assert!(seen.stacks.is_none());
    assert!(seen.sample.values.iter().any(|(metric, ..)| metric == "look.running"), "the rest of the look goes on");
}

#[test]
fn needs_root_the_lock_of_a_shared_file_is_named() {
    if !sys::is_root() {
        return eprintln!("skipped: eBPF needs root");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let writers = Busy::start(4, &format!("while :; do echo a line; done >> {}", file.path().display()));
    let seen = writers.look();
    // Where the writers wait for the CPU of whoever looks, how they write cannot be told.
    let gaps: Vec<&str> = gaps_of(&seen).into_iter().filter(|gap| *gap != "look.log_step").collect();
    assert_eq!(gaps, ["split.residence"], "they serve nobody");
    let named: Vec<&str> =
        seen.sample.values.iter().filter(|(m, ..)| m == "lock.waits").map(|(_, site, _)| site.as_str()).collect();
    assert!(named.iter().any(|site| site.ends_with("write_iter")), "{named:?}");
}

fn what_the_host_is(server: &Server) {
    let (found, _) = inventory("lb", &server.host(), Roots::here());
    assert_eq!(found.facts["server.workers"], "2");
    assert!(found.facts["nginx.version"].starts_with("1."), "{:?}", found.facts);
    assert!(found.facts.contains_key("sysctl.net.core.somaxconn"));
    let (sample, gaps) = prices("lb", Roots::here(), 0);
    assert_eq!(gaps, []);
    eprintln!("prices: {:?}", sample.values);
}

/// Prints, and demands nothing: a bar would fail on a busy machine.
fn what_a_sample_costs(server: &Server) {
    let held: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect("127.0.0.1:80").unwrap()).collect();
    let mut watch = Watch::new("lb", &server.host(), Roots::here());
    let first = watch.sample(0);
    let mut last = first.clone();
    for tenth in 1..=100u64 {
        last = watch.sample(tenth * 100_000_000);
    }
    let us = (value(&last, "self.cpu", "") - value(&first, "self.cpu", "")) / 100.0 * 1e6;
    eprintln!(
        "first sample {:.0} us, {} values; then {us:.0} us each at 10 Hz, {} values; {} connections",
        value(&first, "self.cpu", "") * 1e6,
        first.values.len(),
        last.values.len(),
        held.len()
    );
    eprintln!("gaps: {:#?}", watch.gaps().iter().map(ToString::to_string).collect::<Vec<_>>());
}
