//! The generator is held back on purpose, each time by something else: the result then is "at least", names what held it back
//! and says what would mend that.
//!
//! The servers here do nothing but answer, so that none of these results is theirs.

mod prony;

use prony::{Said, Spinners, last_cpu, prony_under, root, scratch};
use prony_load::null_server::{NullAnswer, NullServer, NullSpeech};
use prony_model::cgroup::{Hierarchy, Version};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

fn server() -> NullServer {
    NullServer::start(NullAnswer { body_bytes: 100, close: false }, NullSpeech::default(), None)
        .expect("loopback has a free port")
}

/// Runs a load by way of `before`, for a second.
fn load(before: &[&str], words: &[&str], url: &str) -> Said {
    prony_under(before, &[&["load", "-d", "1", "--warmup", "0s", "-q"], words, &[url]].concat())
}

/// That a result is a lower bound, that this gate is what made it one, and that it says `next`.
fn check(said: &Said, gate: &str, next: &str) {
    assert_eq!(said.code, 4, "not valid: {} {}", said.out, said.err);
    // Lines are broken for a terminal.
    let text = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(" at least (generator-limited) Transfer/sec:"), "the rate itself says so: {text}");
    let begin = format!(" requests/s (generator-limited: {gate}: ");
    let from = text.find(&begin).unwrap_or_else(|| panic!("{gate} is not named: {text}"));
    let rest = &text[from..];
    let sentence = &rest[..rest.find(" at least ").unwrap_or(rest.len())];
    assert!(sentence.contains(next), "no next step: {sentence}");
    assert!(!text.contains("the stack is slower"), "the stack is not to blame: {text}");
}

/// A control group with a tenth of a CPU, and one within it that has no limit of its own. Gone when dropped.
struct Group {
    outer: PathBuf,
    inner: PathBuf,
}

impl Group {
    /// None, and why, where no such group can be made.
    fn with_a_tenth_of_a_cpu() -> Option<Self> {
        Self::make().inspect_err(|why| eprintln!("skipped: no control group with a quota can be made here: {why}")).ok()
    }

    fn make() -> std::io::Result<Self> {
        let all = Hierarchy::all(&fs::read_to_string("/proc/self/mountinfo")?);
        let of_v1 = all.iter().find(|h| h.is_v1_of("cpu"));
        let Some(mount) = of_v1.or_else(|| all.iter().find(|h| h.version == Version::V2)) else {
            return Err(std::io::Error::other("no hierarchy is mounted"));
        };
        let outer = Path::new(&mount.point).join(format!("prony-test-{}", std::process::id()));
        fs::create_dir(&outer)?;
        let group = Self { inner: outer.join("load"), outer };
        fs::create_dir(&group.inner)?;
        match mount.version {
            Version::V1 => {
                fs::write(group.outer.join("cpu.cfs_period_us"), "100000")?;
                fs::write(group.outer.join("cpu.cfs_quota_us"), "10000")?;
            }
            Version::V2 => {
                fs::write(Path::new(&mount.point).join("cgroup.subtree_control"), "+cpu")?;
                fs::write(group.outer.join("cpu.max"), "10000 100000")?;
            }
        }
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that has just ended may still be counted for a moment.
        let gone = |folder: &Path| (0..100).any(|_| fs::remove_dir(folder).is_ok() || !folder.exists() || rest());
        if !(gone(&self.inner) && gone(&self.outer)) {
            eprintln!("{} is left behind", self.outer.display());
        }
    }
}

/// Waits a little; always false.
fn rest() -> bool {
    thread::sleep(Duration::from_millis(10));
    false
}

#[test]
fn needs_root_a_cpu_quota_is_named() {
    if !root("a control group") {
        return;
    }
    let Some(group) = Group::with_a_tenth_of_a_cpu() else { return };
    let server = server();
    let procs = group.inner.join("cgroup.procs").display().to_string();
    let joined = ["sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &procs];
    for words in [&["-c", "16"][..], &["-c", "16", "-R", "50k"]] {
        check(&load(&joined, words, &server.url()), "quota", "raise the CPU quota of the generator's control group");
    }
}

/// It uses little of a CPU, because others use it.
#[test]
fn a_cpu_that_others_use_is_named() {
    let cpu = last_cpu();
    let server = server();
    let _spinners = Spinners::on(cpu);
    let cpu = cpu.to_string();
    for words in [&["-t", "1", "-c", "16", "--cpus", &cpu][..], &["-t", "1", "-c", "16", "--cpus", &cpu, "-R", "50k"]] {
        let said = load(&["nice", "-n", "19"], words, &server.url());
        check(&said, "cpu", "keep other work off its CPU (`--cpus`, `taskset`), or give it more CPUs");
    }
}

/// A stopped process is to its clock what a virtual machine without its CPU is.
#[test]
fn a_pause_of_the_machine_is_told_with_what_it_met() {
    const PAUSE: Duration = Duration::from_millis(400);
    let (server, home) = (server(), scratch());
    let words = ["load", "-t", "1", "-c", "8", "-R", "500", "--warmup", "0s", "-d", "5s", "--spin", "--json", "-q"];
    let generator = Command::new(env!("CARGO_BIN_EXE_prony"))
        .args(words)
        .arg(server.url())
        .env("PRONY_HOME", home.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary was built with the tests");
    let signal = |name: &str| Command::new("kill").args([name, &generator.id().to_string()]).status();
    thread::sleep(Duration::from_millis(2500));
    signal("-STOP").expect("kill is on every Linux");
    thread::sleep(PAUSE);
    signal("-CONT").expect("kill is on every Linux");
    let out = generator.wait_with_output().expect("it is our child");
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).expect("--json prints JSON");
    let of =
        |path: &str| told.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("{path}: {told}"));
    assert!(of("/result/pauses/longest_us") >= PAUSE.as_micros() as f64, "{told}");
    let met = of("/result/pauses/requests");
    assert!(met >= 150.0, "200 requests were due meanwhile: {met}");
    assert_eq!(of("/result/pauses/latency_without/count") + met, of("/result/latency/count"));
    assert!(of("/result/pauses/latency_without/p99_us") < of("/result/latency/p99_us"), "{told}");
}

/// Nor is there any other answer than "at least" from a search.
#[test]
fn a_search_that_the_generator_limits_says_at_least() {
    let cpu = last_cpu();
    let server = server();
    let _spinners = Spinners::on(cpu);
    let cpu = cpu.to_string();
    let words = ["limit", &server.url(), "--quick", "-q", "-c", "8", "--budget", "20s"];
    let said = prony_under(&["nice", "-n", "19", "taskset", "-c", &cpu], &words);
    assert_eq!(said.code, 4, "{} {}", said.out, said.err);
    assert!(said.out.contains("carries at least") && said.out.contains("the generator was the limit"), "{}", said.out);
}

/// Tells the inner test below that it shall load.
const INNER_VARIABLE: &str = "PRONY_TEST_FEW_PORTS";

/// In a network namespace of its own, which goes away with its last process.
#[test]
fn needs_root_few_local_ports_are_named() {
    if !root("a network namespace") {
        return;
    }
    let narrow = "ip link set lo up && echo 50000 50019 > /proc/sys/net/ipv4/ip_local_port_range && exec \"$@\"";
    let inner = std::env::current_exe().expect("this test runs from a file");
    let out = Command::new("unshare")
        .args(["--net", "sh", "-c", narrow, "sh"])
        .arg(inner)
        .args(["--exact", "loads_with_few_ports"])
        .env(INNER_VARIABLE, "1")
        .output()
        .expect("util-linux is on every Linux");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("1 passed"), "{said} {}", String::from_utf8_lossy(&out.stderr));
}

/// Runs within the test above; alone it does nothing.
#[test]
fn loads_with_few_ports() {
    if std::env::var_os(INNER_VARIABLE).is_none() {
        return;
    }
    let server = server();
    let said = load(&["env"], &["-c", "40"], &server.url());
    check(&said, "ports", "widen `net.ipv4.ip_local_port_range` at the generator, use fewer connections");
    let said = load(&["env"], &["-c", "40", "--requests-per-connection", "50"], &server.url());
    check(&said, "ports", "widen `net.ipv4.ip_local_port_range` at the generator, or keep connections alive");
}

#[test]
fn a_low_limit_of_descriptors_is_named() {
    let server = server();
    let limited = ["sh", "-c", "ulimit -n 40 && exec \"$@\"", "sh"];
    let said = load(&limited, &["-c", "100", "-t", "1"], &server.url());
    check(&said, "descriptors", "raise `ulimit -n` at the generator, or use fewer connections");
}

/// The limit of the backlog queues belongs to the machine, not to a namespace, and is not to be touched by a test: what the
/// kernel counts is played to prony instead, from a file in the place of `/proc/net/softnet_stat`.
#[test]
fn needs_root_full_backlog_queues_are_named() {
    if !root("a mount namespace") {
        return;
    }
    let folder = scratch();
    let stat = folder.path().join("softnet_stat");
    let dropped = |count: u32| format!("00000001 {count:08x} 00000000\n00000001 00000000 00000000\n");
    fs::write(&stat, dropped(7)).expect("a scratch folder takes files");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/", listener.local_addr().expect("a bound listener has an address"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            while matches!(stream.read(&mut request), Ok(n) if n > 0) {
                // Requests come after the counters were read, and before they are read again.
                fs::write(&stat, dropped(900_007)).expect("a scratch folder takes files");
                if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                    break;
                }
            }
        }
    });
    let folder = folder.path().display().to_string();
    let played = ["unshare", "--mount", "sh", "-c", "mount --bind \"$0\" /proc/$$/net && exec \"$@\"", &folder];
    let said = load(&played, &["-c", "1"], &url);
    check(&said, "backlog", "raise `net.core.netdev_max_backlog` on this machine, or spread its load");
}
