//! Labs on the real kernel. Every test cleans up after itself and looks only at labs of its own, so that tests and
//! people can have labs at the same time.

#![allow(clippy::unwrap_used, reason = "clippy knows #[test] functions, not the ones they call")]

use prony_lab::{Condition, LabError, LabId, LabState, UpLab, builtin, down, list, up};
use prony_model::{Place, ProcessRef, Software, Stack};
use std::process::{Command, Stdio};

/// Says why a test does nothing, and that it does.
fn lacks_root() -> bool {
    let root = std::fs::read_to_string("/proc/self/status").is_ok_and(|s| s.contains("\nUid:\t0\t0\t"));
    if !root {
        eprintln!("skipped: labs need root");
    }
    !root
}

fn stack(name: &str, over: &str) -> Stack {
    let mut layers = builtin(name).unwrap();
    layers.push(("over.toml".to_string(), over.to_string()));
    Stack::parse_layers(&layers).unwrap()
}

fn bring_up(name: &str) -> UpLab {
    bring_up_with(name, "")
}

fn bring_up_with(name: &str, over: &str) -> UpLab {
    up(&stack(name, over), &|_| ()).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn state(id: &LabId) -> Option<LabState> {
    list().unwrap().into_iter().find(|lab| lab.id == *id)
}

/// Everything on this machine that carries the id of a lab: namespaces, control groups, folders, command lines.
fn traces(id: &LabId) -> Vec<String> {
    let mut found = Vec::new();
    for folder in [
        "/run/netns",
        "/run/prony/labs",
        "/var/log/prony/labs",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/cpu",
        "/sys/fs/cgroup/cpuacct",
    ] {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().into_string().unwrap();
            if name == id.as_str() || name.starts_with(&format!("prony-{id}")) {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    let mounted = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounted.lines().filter(|line| line.contains(&format!("/labs/{id}/"))).map(String::from));
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if command.contains(&format!("/labs/{id}/")) {
            found.push(format!("process {command}"));
        }
    }
    found
}

/// Runs a program inside a host; returns what it wrote.
fn inside(lab: &UpLab, host: &str, words: &[&str]) -> String {
    let Place::Netns(netns) = &lab.stack.host[host].at else { panic!("{host} is in no namespace") };
    let mut command = Command::new("ip");
    command.args(["netns", "exec", netns]).args(words);
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Asks for a URL from inside a host; returns status and size.
fn get(lab: &UpLab, host: &str, url: &str) -> String {
    inside(lab, host, &["curl", "-s", "-o", "/dev/null", "-w", "%{http_code} %{size_download}", url])
}

#[test]
fn needs_root_a_link_may_lose_everything() {
    if lacks_root() {
        return;
    }
    let lab = bring_up_with("proxy", "[lab.host.s1.link]\nloss = \"100%\"\n");
    let answers = |server: &str| {
        let url = format!("http://{}/1232", lab.stack.host[server].addr.as_deref().unwrap());
        inside(&lab, "lb", &["curl", "-s", "-o", "/dev/null", "-m", "1", "-w", "%{http_code}", &url])
    };
    assert_eq!((answers("s1").as_str(), answers("s2").as_str()), ("000", "200"));
    down(&lab.id).unwrap();
}

#[test]
fn needs_root_the_proxy_lab_serves_every_file() {
    if lacks_root() {
        return;
    }
    let lab = bring_up("proxy");
    let served: Vec<String> =
        SIZES.iter().map(|(path, _)| get(&lab, "client", &format!("http://10.77.0.20/{path}"))).collect();
    let status = get(&lab, "lb", lab.stack.host["lb"].status.as_deref().unwrap());
    let (lb, s1) = (lab.stack.host["lb"].clone(), lab.stack.host["s1"].clone());
    let there = [lb.config.clone(), lb.logs.access.clone(), lb.logs.error.clone(), s1.config.clone()];
    let missing: Vec<_> =
        there.into_iter().filter(|p| !p.as_ref().is_some_and(|p| std::path::Path::new(p).exists())).collect();
    let listed = state(&lab.id).unwrap();
    let switch = listed.namespaces.iter().find(|name| name.ends_with("-sw")).unwrap();
    let filters = Command::new("ip")
        .args(["netns", "exec", switch, "sysctl", "-nq", "net.bridge.bridge-nf-call-iptables"])
        .output()
        .unwrap();
    down(&lab.id).unwrap();
    down(&lab.id).unwrap();

    assert!(["0\n", ""].contains(&String::from_utf8_lossy(&filters.stdout).as_ref()), "{filters:?}");
    assert_eq!(served, SIZES.map(|(_, size)| format!("200 {size}")));
    assert!(status.starts_with("200 "), "{status}");
    assert_eq!(missing, [], "files that the stack names");
    assert_eq!((lb.software, lb.addr.as_deref()), (Some(Software::Nginx), Some("10.77.0.20")));
    assert_eq!(lb.process, Some(ProcessRef::Cgroup(format!("/prony-{}/lb", lab.id))));
    assert_eq!(s1.logs.access, None, "the file servers log nothing");
    assert_eq!((listed.condition, listed.namespaces.len(), listed.processes.len()), (Condition::Up, 5, 6));
    assert_eq!(traces(&lab.id), [""; 0]);
}

#[test]
fn needs_root_two_labs_with_the_same_addresses_live_side_by_side() {
    if lacks_root() {
        return;
    }
    let (a, b) = (bring_up("proxy"), bring_up("proxy-keepalive-off"));
    down(&a.id).unwrap();
    let answer = get(&b, "client", "http://10.77.0.20/1233");
    let (gone, stands) = (state(&a.id).is_none(), state(&b.id).unwrap().condition);
    down(&b.id).unwrap();
    assert_eq!((answer.as_str(), gone, stands), ("200 1233", true, Condition::Up));
    assert_eq!((traces(&a.id), traces(&b.id)), (vec![], vec![]));
}

#[test]
fn needs_root_every_variant_comes_up_and_answers() {
    if lacks_root() {
        return;
    }
    for name in prony_lab::builtin_names() {
        let lab = bring_up(name);
        let answer = get(&lab, "client", "http://10.77.0.20/100k");
        down(&lab.id).unwrap();
        // The application of a chain wants a token that it gave at the login.
        let expected = if name.starts_with("chain") { "401 23" } else { "200 102400" };
        assert_eq!((answer.as_str(), traces(&lab.id)), (expected, vec![]), "{name}");
    }
}

/// Names and sizes of the files.
const SIZES: [(&str, usize); 8] = [
    ("", 616),
    ("0", 0),
    ("616", 616),
    ("1232", 1232),
    ("1233", 1233),
    ("2590", 2590),
    ("10k", 10240),
    ("100k", 102400),
];

#[test]
fn needs_root_other_servers_do_the_same_work() {
    if lacks_root() {
        return;
    }
    let pairs = [
        ("httpd-files", "node-files", "nginx-proxy"),
        ("jvm-files", "haproxy-delay", "haproxy-proxy"),
        ("jetty-files", "nginx-files", "nginx-proxy"),
    ];
    let programs = [
        [prony_tool::HTTPD, prony_tool::NODE],
        [prony_tool::JAVA, prony_tool::HAPROXY],
        [prony_tool::JAVA, prony_tool::NGINX],
    ];
    for ((s1, s2, lb), programs) in pairs.into_iter().zip(programs) {
        if let Some(missing) = programs.into_iter().find(|tool| tool.find().is_none()) {
            eprintln!("skipped: {s1} and {s2} need `{}`: apt-get install {}", missing.name, missing.package);
            continue;
        }
        let kinds = [("s1", s1), ("s2", s2), ("lb", lb)];
        let over: String = kinds.map(|(host, kind)| format!("[lab.host.{host}.server]\nkind = \"{kind}\"\n")).concat();
        let lab = match up(&stack("proxy", &over), &|_| ()) {
            Err(e @ LabError::FilesMissing { .. }) => {
                eprintln!("skipped: {e}");
                continue;
            }
            up => up.unwrap_or_else(|e| panic!("{s1}, {s2}: {e}")),
        };
        let all = |host: &str, addr: &str| -> Vec<String> {
            SIZES.iter().map(|(path, _)| get(&lab, host, &format!("http://{addr}/{path}"))).collect()
        };
        // The proxy takes both in turn, so twice asks each.
        let served = [
            all("lb", "10.77.0.31"),
            all("lb", "10.77.0.32"),
            all("client", "10.77.0.20"),
            all("client", "10.77.0.20"),
        ];
        let nothing = get(&lab, "lb", "http://10.77.0.31/nothing");
        down(&lab.id).unwrap();
        let want: Vec<String> = SIZES.iter().map(|(_, size)| format!("200 {size}")).collect();
        for seen in served {
            assert_eq!(seen, want, "{s1}, {s2} behind {lb}");
        }
        assert!(nothing.starts_with("404 "), "{nothing}");
        assert_eq!(traces(&lab.id), [""; 0]);
    }
}

#[test]
fn needs_root_a_server_in_java_waits_and_keeps_what_it_is_asked_to() {
    if lacks_root() {
        return;
    }
    if prony_tool::JAVA.find().is_none() {
        eprintln!("skipped: it needs `{}`: apt-get install {}", prony_tool::JAVA.name, prony_tool::JAVA.package);
        return;
    }
    let server = "kind = \"jvm-files\"\ndelay = \"200ms\"\nthreads = 2\none_lock = true\nkept_mib = 20\n";
    let over = format!("[lab.host.lb]\nfilter_rules = 300\n[lab.host.s1.server]\n{server}");
    let lab = bring_up_with("proxy", &over);
    let begun = std::time::Instant::now();
    let answers: Vec<String> = (0..2).map(|_| get(&lab, "lb", "http://10.77.0.31/616")).collect();
    let waited = begun.elapsed();
    let rules = inside(&lab, "lb", &["nft", "list", "ruleset"]).matches("ip saddr 192.0.2.").count();
    down(&lab.id).unwrap();
    assert_eq!(answers, ["200 616", "200 616"]);
    assert!(waited.as_millis() >= 400, "two answers after {waited:?}");
    assert_eq!(rules, 300);
    assert_eq!(traces(&lab.id), [""; 0]);
}

#[test]
fn needs_root_an_application_that_blocks_answers_one_after_the_other() {
    if lacks_root() {
        return;
    }
    let lab = bring_up_with("chain", "[lab.host.app.server]\nblocking = true\ndelay = \"200ms\"\n");
    let login = ["curl", "-s", "-d", "{\"user\": \"u\"}", "http://10.77.0.20/login"];
    let token = inside(&lab, "client", &login).replace("{\"token\": \"", "").replace("\"}", "");
    let ask = format!(
        "for i in 1 2 3; do curl -s -o /dev/null -w '%{{http_code}} ' -H 'Authorization: Bearer {token}' \
         http://10.77.0.20/query?id=$i & done; wait"
    );
    let begun = std::time::Instant::now();
    let answers = inside(&lab, "client", &["sh", "-c", &ask]);
    let waited = begun.elapsed();
    down(&lab.id).unwrap();
    assert_eq!(answers, "200 200 200 ");
    assert!(waited.as_millis() >= 600, "three at once were answered after {waited:?}");
}

/// A disk of each kind; the last lies in this folder.
fn disks(folder: &std::path::Path) -> String {
    format!(
        "[lab.host.lb]\nlog_disk = \"memory\"\nserver = {{ access_log = \"unbuffered\" }}\n\
         [lab.host.s1]\nlog_disk = \"image\"\nserver = {{ access_log = \"unbuffered\" }}\n\
         [lab.host.s2]\nlog_disk = \"{}\"\nserver = {{ access_log = \"unbuffered\" }}\n",
        folder.display()
    )
}

#[test]
fn needs_root_logs_lie_on_the_disk_that_a_host_names() {
    if lacks_root() {
        return;
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let lab = up(&stack("proxy", &disks(elsewhere.path())), &|_| ()).unwrap_or_else(|e| panic!("{e}"));
    // Twice, so that each of both file servers is asked.
    let answers = [0, 1].map(|_| get(&lab, "client", "http://10.77.0.20/616"));
    let mounted = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let seen: Vec<(String, String, bool)> = lab
        .mounted
        .iter()
        .map(|m| {
            let line = mounted.lines().find(|line| line.contains(&format!(" {} ", m.at.display()))).unwrap_or("");
            let kind = line.split(" - ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
            let written = std::fs::metadata(m.at.join("access.log")).is_ok_and(|log| log.len() > 0);
            (m.host.clone(), if m.host == "s2" { m.disk.to_string() } else { kind.to_string() }, written)
        })
        .collect();
    let there = elsewhere.path().join(format!("prony-{}-s2/access.log", lab.id));
    let log = std::fs::read_to_string(&there).unwrap_or_default();
    let listed = state(&lab.id).unwrap();
    down(&lab.id).unwrap();

    assert_eq!(answers, ["200 616", "200 616"]);
    let kinds = [("lb", "tmpfs"), ("s1", "ext4"), ("s2", elsewhere.path().to_str().unwrap())];
    assert_eq!(seen, kinds.map(|(host, kind)| (host.to_string(), kind.to_string(), true)));
    assert!(log.contains("GET /616"), "{log}");
    assert_eq!((listed.condition, listed.mounts.len()), (Condition::Up, 3));
    assert_eq!(traces(&lab.id), [""; 0]);
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0, "nothing stays on the other disk");
}

#[test]
fn needs_root_a_disk_waits_a_queue_is_short_and_a_path_swallows_large_packets() {
    if lacks_root() {
        return;
    }
    // An entry whose answer fits: up waits for one.
    let over = "entry = \"http://10.77.0.20/616\"\n[lab.host.s1.link]\noffloads = false\n\
                [lab.host.lb]\nlog_disk = \"image-sync\"\nlink = { rate = \"1gbit\", burst_kib = 4, path_mtu = 1300 }\n";
    let lab = bring_up_with("proxy", over);
    let mounted = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let at = format!(" {} ", lab.mounted[0].at.display());
    let options = mounted.lines().find(|line| line.contains(&at)).and_then(|line| line.split(' ').next_back());
    let waits = options.is_some_and(|options| options.split(',').any(|option| option == "sync"));
    let queue = inside(&lab, "lb", &["tc", "qdisc", "show", "dev", "eth0"]);
    let ask = "curl -s -m 2 -o /dev/null -w '%{http_code} %{size_download}' http://10.77.0.31/$0 || true";
    let answers = ["616", "10k"].map(|path| inside(&lab, "lb", &["sh", "-c", ask, path]));
    down(&lab.id).unwrap();
    assert!(waits, "{options:?}");
    // 4096 bytes, which tc counts in whole microseconds at this rate.
    assert!(queue.contains("rate 1Gbit burst 40"), "{queue}");
    assert_eq!(answers[0], "200 616");
    assert_ne!(answers[1], "200 10240", "a full packet came through");
    assert_eq!(traces(&lab.id), [""; 0]);
}

#[test]
fn needs_root_a_disk_that_is_not_there_is_told_before_anything_is_made() {
    if lacks_root() {
        return;
    }
    let error = up(&stack("proxy", &disks(std::path::Path::new("/no/such/disk"))), &|_| ()).unwrap_err().to_string();
    assert_eq!(error, "stack `s2`: `log_disk` of host `s2` is `/no/such/disk`, and there is no such folder");
}

#[test]
fn needs_root_a_proxy_with_many_rules_passes_requests_on() {
    if lacks_root() {
        return;
    }
    let rules = "[lab.host.lb.server]\ndomains = 800\nmap_lines = 100000\nregex_rules = 1000\n\
                 [lab.host.s1]\naddr = \"10.77.0.100\"\naddresses = 16\n[lab]\noverlay = \"vxlan\"\n";
    let lab = bring_up_with("proxy", rules);
    let named = |name: &str| {
        let (host, told) = (format!("Host: {name}"), "%{http_code} %{size_download}");
        inside(&lab, "client", &["curl", "-s", "-o", "/dev/null", "-w", told, "-H", &host, "http://10.77.0.20/1233"])
    };
    let answers = [named("10.77.0.20"), named("d0.lab"), named("www.d799.lab"), named("d800.lab")];
    let last = get(&lab, "lb", "http://10.77.0.115/0");
    let wrapped = inside(&lab, "client", &["ip", "link", "show", "vxlan0"]).contains("vxlan0");
    down(&lab.id).unwrap();
    assert_eq!((answers, last), (["200 1233"; 4].map(String::from), "200 0".to_string()));
    assert!(wrapped, "packets go through the overlay");
    assert_eq!(traces(&lab.id), [""; 0]);
}

#[test]
fn needs_root_a_server_that_cannot_start_is_named_with_its_log() {
    if lacks_root() {
        return;
    }
    let broken = stack("proxy", "[lab.host.s2.server]\nworker_connections = 1\n");
    let said = std::sync::Mutex::new(String::new());
    let error = up(&broken, &|line| said.lock().unwrap().push_str(line)).unwrap_err();
    let text = error.to_string();
    assert!(matches!(&error, LabError::ServerFailed { host, .. } if host == "s2"), "{text}");
    assert!(text.starts_with("nginx on host `s2` did not start"), "{text}");
    assert!(text.contains("1 worker_connections are not enough"), "the log is shown: {text}");
    let said = said.into_inner().unwrap();
    let id = LabId::parse(said.strip_prefix("lab ").unwrap().get(..4).unwrap()).unwrap();
    assert_eq!(traces(&id), [""; 0], "what was up before the failure is gone");
}

#[test]
fn needs_root_a_lab_with_a_dead_server_is_left_over() {
    if lacks_root() {
        return;
    }
    let lab = bring_up("proxy");
    let pids = std::fs::read_to_string(format!("/run/prony/labs/{}/s1/nginx.pid", lab.id)).unwrap();
    Command::new("kill").arg(pids.trim()).status().unwrap();
    // A server that was asked to end needs a moment; it is waited for, not timed.
    while state(&lab.id).unwrap().processes.len() > 4 {
        std::thread::yield_now();
    }
    let condition = state(&lab.id).unwrap().condition;
    down(&lab.id).unwrap();
    assert_eq!(condition, Condition::LeftOver("1 of 3 servers have ended".to_string()));
    assert_eq!(traces(&lab.id), [""; 0]);
}

/// Not a test: the process that the next one kills. The variable holds a folder for logs.
#[test]
fn child_that_builds_a_lab() {
    if let Some(folder) = std::env::var_os("PRONY_TEST_BUILD_A_LAB") {
        up(&stack("proxy", &disks(std::path::Path::new(&folder))), &|_| ()).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn needs_root_down_removes_what_a_killed_up_left() {
    if lacks_root() {
        return;
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let mut left_over = 0;
    // Bringing up takes 80 to 120 ms here; on a slower machine the moments fall earlier in it, which is as good.
    for after_ms in (3..120).step_by(7) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_builds_a_lab"])
            .env("PRONY_TEST_BUILD_A_LAB", elsewhere.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(after_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        for lab in list().unwrap().into_iter().filter(|lab| lab.owner_pid == Some(child.id())) {
            assert!(!lab.owner_alive);
            left_over += usize::from(matches!(lab.condition, Condition::LeftOver(_)));
            down(&lab.id).unwrap_or_else(|e| panic!("killed after {after_ms} ms: {e}"));
            assert_eq!(traces(&lab.id), [""; 0], "killed after {after_ms} ms");
            let left = std::fs::read_dir(elsewhere.path()).unwrap().count();
            assert_eq!(left, 0, "on the other disk, killed after {after_ms} ms");
        }
    }
    assert!(left_over > 0, "no kill hit a lab that was being built: the test tests nothing");
}
