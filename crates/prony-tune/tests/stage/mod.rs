//! A host for tests: a network namespace of the calling thread, with a real nginx (a proxy and its upstream), a control
//! group and a veth link. Needs root. Everything is gone when the stage is dropped.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(clippy::unwrap_used, reason = "this is a test; clippy sees a plain function")]

use prony_model::{Host, Knob, KnobId, Place};
use prony_tune::{Context, Roots};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const NGINX_CONF: &str =
    "# a proxy and its upstream\nuser root;\nworker_processes 2;\npid @/nginx.pid;\nerror_log @/error.log;
events { worker_connections 256; }
http {
\tclient_body_temp_path @/t1; proxy_temp_path @/t2; fastcgi_temp_path @/t3; uwsgi_temp_path @/t4; scgi_temp_path @/t5;
\taccess_log @/access.log;
\tupstream backend { server 127.0.0.1:8081; }
\tupstream spare { server 127.0.0.1:8081; server 127.0.0.2 weight=2; }
\tinclude conf.d/*.conf;
}
";
const PROXY_CONF: &str = "server {
\tlisten 127.0.0.1:8080 backlog=16;  # small
\tproxy_set_header Host $host;
\tlocation / { proxy_pass http://backend; }
\tlocation /slow { limit_rate 1k; root @; }
}
server { listen 127.0.0.1:8081; location / { return 200 'hello'; } }
";

/// Whether the test may run; says why not.
pub fn is_root() -> bool {
    let root = sys::effective_user() == 0;
    if !root {
        eprintln!("skipped: needs root for namespaces and control groups");
    }
    root
}

pub struct Stage {
    pub dir: tempfile::TempDir,
    pub host: Host,
    pub roots: Roots,
    pub master: u32,
    group: PathBuf,
}

impl Stage {
    /// Moves the calling thread into new namespaces and starts nginx there.
    pub fn new(name: &str) -> Self {
        sys::enter_new_namespaces();
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("conf.d")).unwrap();
        fs::create_dir_all(at("sys")).unwrap();
        run("mount", &["-t", "sysfs", "sysfs", at("sys").to_str().unwrap()]);
        run("ip", &["link", "set", "lo", "up"]);
        run("ip", &["link", "add", "eth0", "type", "veth", "peer", "name", "peer0"]);
        run("ip", &["link", "set", "eth0", "up"]);
        let fill = |text: &str| text.replace('@', dir.path().to_str().unwrap());
        fs::write(at("nginx.conf"), fill(NGINX_CONF)).unwrap();
        fs::write(at("conf.d/proxy.conf"), fill(PROXY_CONF)).unwrap();
        fs::write(at("slow"), "x".repeat(200_000)).unwrap();
        run("nginx", &["-p", dir.path().to_str().unwrap(), "-c", at("nginx.conf").to_str().unwrap()]);
        let master: u32 = fs::read_to_string(at("nginx.pid")).unwrap().trim().parse().unwrap();
        let group = Path::new("/sys/fs/cgroup/cpu").join(format!("prony-test-{name}-{}", std::process::id()));
        fs::create_dir(&group).unwrap();
        let config = Some(at("nginx.conf").to_str().unwrap().to_string());
        let host = Host { software: Some(prony_model::Software::Nginx), config, ..Host::default() };
        let roots = Roots { sys: at("sys"), ..Roots::default() };
        let stage = Self { dir, host, roots, master, group };
        stage.wait_for_workers(2);
        for pid in stage.family() {
            fs::write(stage.group.join("cgroup.procs"), pid.to_string()).unwrap();
        }
        stage
    }

    pub fn ctx(&self) -> Context<'_> {
        let pids = vec![self.master];
        Context { name: "lb", host: &self.host, roots: self.roots.clone(), pids, place: Place::Netns("none".into()) }
    }

    pub fn journals(&self) -> PathBuf {
        self.dir.path().join("journal")
    }

    pub fn config(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Everything that knobs change, as it is now: values and bytes, and names of files and groups.
    pub fn snapshot(&self) -> BTreeMap<String, Vec<u8>> {
        let mut all = BTreeMap::new();
        let files = ["nginx.conf", "conf.d/proxy.conf"].map(|n| self.config(n));
        let sysctls = ["core/somaxconn", "ipv4/ip_local_port_range", "ipv4/tcp_tw_reuse"];
        let sysctls = sysctls.map(|n| Path::new("/proc/sys/net").join(n));
        let quota = ["cpu.cfs_quota_us", "cpu.cfs_period_us"].map(|n| self.group.join(n));
        let mask = self.roots.sys.join("class/net/eth0/queues/rx-0/rps_cpus");
        for file in files.into_iter().chain(sysctls).chain(quota).chain([mask]) {
            all.insert(file.display().to_string(), fs::read(&file).unwrap());
        }
        for dir in [self.dir.path().to_path_buf(), self.config("conf.d")] {
            let mut names: Vec<String> =
                fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            // nginx makes its own folders and logs when it likes.
            names.retain(|n| n.contains("conf") || n.contains("prony"));
            names.sort();
            all.insert(format!("names in {}", dir.display()), names.join(" ").into_bytes());
        }
        all.insert("groups".to_string(), groups(&self.group).join(" ").into_bytes());
        all.insert("members".to_string(), if self.all_in_group() { b"all".to_vec() } else { b"some".to_vec() });
        all.insert("qdisc".to_string(), run("tc", &["qdisc", "show", "dev", "eth0"]).into_bytes());
        all.insert("offloads".to_string(), run("ethtool", &["-k", "eth0"]).into_bytes());
        all.insert("affinity".to_string(), run("taskset", &["-cp", &self.master.to_string()]).into_bytes());
        all
    }

    fn all_in_group(&self) -> bool {
        let inside = fs::read_to_string(self.group.join("cgroup.procs")).unwrap();
        let inside: Vec<u32> = inside.lines().map(|l| l.parse().unwrap()).collect();
        self.family().iter().all(|pid| inside.contains(pid))
    }

    pub fn workers(&self) -> Vec<u32> {
        let text =
            Command::new("pgrep").args(["-P", &self.master.to_string(), "-f", "worker process$"]).output().unwrap();
        String::from_utf8(text.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect()
    }

    pub fn wait_for_workers(&self, count: usize) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.workers().len() != count {
            assert!(Instant::now() < end, "nginx has {} workers, not {count}", self.workers().len());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn family(&self) -> Vec<u32> {
        let mut family = vec![self.master];
        family.extend(self.workers());
        family
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for pid in self.family() {
            Command::new("kill").args(["-KILL", &pid.to_string()]).status().unwrap();
        }
        let end = Instant::now() + Duration::from_secs(5);
        for dir in groups(&self.group).iter().rev().map(PathBuf::from).chain([self.group.clone()]) {
            while fs::remove_dir(&dir).is_err() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        run("umount", &[self.roots.sys.to_str().unwrap()]);
    }
}

fn groups(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()) {
        found.push(entry.display().to_string());
        found.extend(groups(&entry));
    }
    found
}

pub fn knob(name: &str, value: &str) -> Knob {
    Knob { host: "lb".into(), id: KnobId::try_from(name.to_string()).unwrap(), value: value.into() }
}

pub fn run(program: &str, args: &[&str]) -> String {
    let out = Command::new(program).args(args).output().unwrap();
    assert!(out.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// One request over a connection of its own.
pub fn get(path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect("127.0.0.1:8080")?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub mod sys {
    //! Namespaces of the calling thread.

    pub fn effective_user() -> u32 {
        // SAFETY: geteuid takes nothing and cannot fail.
        unsafe { libc::geteuid() }
    }

    /// New network and mount namespaces for this thread and what it starts; mounts stay within.
    pub fn enter_new_namespaces() {
        // SAFETY: unshare takes flags only.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWNS) }, 0);
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        // SAFETY: the strings end with a zero byte; null is allowed for what MS_PRIVATE ignores.
        let failed = unsafe { libc::mount(c"none".as_ptr(), c"/".as_ptr(), std::ptr::null(), flags, std::ptr::null()) };
        assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    }

    /// Gives a new network namespace to this thread only.
    pub fn enter_new_network() {
        // SAFETY: unshare takes flags only.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
    }
}
