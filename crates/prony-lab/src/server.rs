//! Servers of a lab: their files from one template per software, and starting them on their host.
//!
//! A server makes itself a daemon, so it outlives prony and its parent is init. Starting waits until it has read its
//! configuration and listens; whether it answers is `ready`'s question.

use crate::error::file;
use crate::plan::{PlannedHost, software_name, store};
use crate::state::{State, Thing};
use crate::sys::{self, Seat};
use crate::tool::find;
use crate::traces::Ground;
use crate::{LabError, LabId, cgroup, jetty, words};
use prony_model::lab::{AccessLog, LabServer, ServerKind};
use prony_model::stack::Logs;
use prony_model::{Host, Place, ProcessRef, Software};
use prony_tool::{HAPROXY, HTTPD, JAVA, NGINX, NODE, PYTHON, REDIS, SETPRIV, SH, Tool};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Files that every file server has: name and size in bytes. 1232 and 1233 stand on both sides of a border (cases from
/// the field); 10k and 100k are KiB.
pub(crate) const FILES: [(&str, usize); 7] =
    [("0", 0), ("616", 616), ("1232", 1232), ("1233", 1233), ("2590", 2590), ("10k", 10 << 10), ("100k", 100 << 10)];

/// How long a server may take to read its configuration and listen. A guess; seen: 10 to 60 ms, and 2 to 8 s when a
/// database is made first.
const START_MAX: Duration = Duration::from_secs(40);

/// Bytes of each log that an error shows.
const LOG_TAIL: usize = 1500;

/// Where a server's files are.
struct Home {
    /// Configuration, pid file, documents.
    dir: PathBuf,
    /// Logs.
    logs: PathBuf,
}

impl Home {
    fn of(ground: &Ground, id: &LabId, host: &str) -> Self {
        Self { dir: ground.host(id, host), logs: ground.host_logs(id, host) }
    }
}

/// The program that a server kind needs.
pub(crate) fn tool(kind: ServerKind) -> Tool {
    match kind {
        ServerKind::NginxProxy | ServerKind::NginxFiles => NGINX,
        ServerKind::HaproxyDelay | ServerKind::HaproxyProxy => HAPROXY,
        ServerKind::HttpdFiles => HTTPD,
        ServerKind::NodeFiles => NODE,
        ServerKind::JvmFiles | ServerKind::JettyFiles => JAVA,
        ServerKind::ChainApp => PYTHON,
        ServerKind::Postgres => SETPRIV,
        ServerKind::Redis => REDIS,
        // A host without a server starts nothing; the shell is on every machine.
        ServerKind::None => SH,
    }
}

/// Writes the files of a host's server and starts it.
///
/// # Errors
/// The server does not start: the error holds the end of its logs.
pub(crate) fn start(ground: &Ground, id: &LabId, host: &PlannedHost, state: &mut State) -> Result<(), LabError> {
    let Some((server, software)) = host.server() else { return Ok(()) };
    let home = Home::of(ground, id, &host.name);
    let config = write_files(&home, host, server)?;
    state.add(Thing::Server(host.name.clone()))?;
    let mut command = command_of(server, &home, &config, &host.name)?;
    let output = home.logs.join("start.log");
    let output_file = file("create", &output, File::create(&output))?;
    let more = file("create", &output, output_file.try_clone())?;
    command.stdin(Stdio::null()).stdout(output_file).stderr(more).current_dir(&home.dir);
    let netns = ground.netns_path(id, &host.name);
    let netns = file("open", &netns, File::open(&netns))?;
    sys::seat(
        &mut command,
        Seat { netns, cgroup_procs: cgroup::doors(ground, id, &host.name)?, cpus: host.cpus.clone() },
    );
    run_to_daemon(command).map_err(|reason| LabError::ServerFailed {
        host: host.name.clone(),
        server: software_name(software).to_string(),
        reason,
        log: log_tail(ground, id, &host.name),
    })
}

/// How the server is started with its configuration.
fn command_of(server: &LabServer, home: &Home, config: &Path, host: &str) -> Result<Command, LabError> {
    let kind = server.kind;
    let wanted_by = format!("host `{host}`");
    let program = find(tool(kind), &wanted_by)?;
    let mut command = match kind {
        // A script of ours makes the cluster and calls setpriv.
        ServerKind::Postgres | ServerKind::None => Command::new(find(SH, &wanted_by)?),
        // These make no daemons of themselves: the shell leaves them behind when it ends.
        ServerKind::NodeFiles | ServerKind::JvmFiles | ServerKind::JettyFiles => {
            let mut command = Command::new(find(SH, &wanted_by)?);
            command.arg("-c").arg("\"$0\" \"$@\" &").arg(program);
            command
        }
        ServerKind::NginxProxy
        | ServerKind::NginxFiles
        | ServerKind::HaproxyDelay
        | ServerKind::HaproxyProxy
        | ServerKind::HttpdFiles
        | ServerKind::ChainApp
        | ServerKind::Redis => Command::new(program),
    };
    match kind {
        ServerKind::HaproxyDelay | ServerKind::HaproxyProxy => command.arg("-D").arg("-f").arg(config),
        ServerKind::HttpdFiles => command.arg("-f").arg(config).arg("-k").arg("start"),
        // Idle connections are kept, and answers leave at once, as those of the other servers.
        ServerKind::JvmFiles => command
            .args(heap(server.kept_mib))
            .args(["-Dsun.net.httpserver.nodelay=true", "-Dsun.net.httpserver.maxIdleConnections=100000"])
            .arg(config),
        ServerKind::JettyFiles => command.arg("-Xmx256m").arg("-cp").arg(jetty::class_path()).arg(config),
        ServerKind::NodeFiles | ServerKind::ChainApp | ServerKind::Postgres | ServerKind::Redis | ServerKind::None => {
            command.arg(config)
        }
        ServerKind::NginxProxy | ServerKind::NginxFiles => {
            command.arg("-p").arg(&home.dir).arg("-e").arg(home.logs.join("error.log")).arg("-c").arg(config)
        }
    };
    Ok(command)
}

/// Heap of `jvm-files`: what it keeps and a little more, looked through by one thread.
fn heap(kept_mib: Option<u32>) -> Vec<String> {
    let Some(kept) = kept_mib else { return vec!["-Xmx256m".to_string()] };
    // An object of 64 bytes has a head of 16 and a reference of 4, and 8 MiB are for the young ones.
    let all = kept.saturating_mul(4) / 3 + 48;
    ["-XX:+UseSerialGC".to_string(), "-Xmn8m".to_string(), format!("-Xmx{all}m")].to_vec()
}

/// Waits until the started program has made itself a daemon.
pub(crate) fn run_to_daemon(mut command: Command) -> Result<(), String> {
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let begun = Instant::now();
    loop {
        match child.try_wait().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("it ended with {status}")),
            None if begun.elapsed() > START_MAX => {
                sys::kill(child.id() as i32);
                let reaped = child.wait();
                return Err(format!("it was not ready after {} s ({reaped:?})", START_MAX.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}

/// Fills in what the stack should know of a host that is up.
pub(crate) fn describe(ground: &Ground, id: &LabId, planned: &PlannedHost, host: &mut Host) {
    host.at = Place::Netns(crate::traces::netns_name(id, &planned.name));
    host.addr = Some(planned.addr.to_string());
    let Some((server, software)) = planned.server() else { return };
    let home = Home::of(ground, id, &planned.name);
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    host.software = Some(software);
    host.config = Some(text(home.dir.join(config_name(server.kind))));
    host.process = Some(ProcessRef::Cgroup(cgroup::reference(id, &planned.name)));
    host.dsn = store(server.kind).map(|store| store.dsn.to_string());
    if server.kind == ServerKind::HaproxyProxy {
        host.status = Some(text(home.dir.join("haproxy.sock")));
    }
    if software == Software::Nginx {
        host.status = Some("http://127.0.0.1:8081/".to_string());
        let access = (server.access_log != AccessLog::Off).then(|| text(home.logs.join("access.log")));
        host.logs = Logs { access, error: Some(text(home.logs.join("error.log"))), ..Logs::default() };
    }
    if server.traces == Some(true) {
        host.logs.traces = Some(text(home.logs.join(words::TRACES)));
    }
}

/// The end of a host's logs, for a person.
pub(crate) fn log_tail(ground: &Ground, id: &LabId, host: &str) -> String {
    let home = Home::of(ground, id, host);
    let mut shown = String::new();
    for name in ["start.log", "error.log"] {
        let bytes = std::fs::read(home.logs.join(name)).unwrap_or_default();
        let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LOG_TAIL)..]).trim().to_string();
        if !tail.is_empty() {
            shown += &format!("--- {name} ---\n{tail}\n");
        }
    }
    if shown.is_empty() { "(its logs are empty)".to_string() } else { shown.trim_end().to_string() }
}

fn config_name(kind: ServerKind) -> &'static str {
    match kind {
        ServerKind::NginxProxy | ServerKind::NginxFiles => "nginx.conf",
        ServerKind::HaproxyDelay | ServerKind::HaproxyProxy => "haproxy.cfg",
        ServerKind::HttpdFiles => "httpd.conf",
        ServerKind::NodeFiles => "node-files.js",
        ServerKind::JvmFiles => "JvmFiles.java",
        ServerKind::JettyFiles => "JettyFiles.java",
        ServerKind::ChainApp => "chain-app.py",
        ServerKind::Postgres => "postgres.sh",
        ServerKind::Redis => "redis.conf",
        ServerKind::None => "none.sh",
    }
}

fn write_files(home: &Home, host: &PlannedHost, server: &LabServer) -> Result<PathBuf, LabError> {
    for folder in [&home.dir, &home.logs] {
        file("create", folder, std::fs::create_dir_all(folder))?;
    }
    let write = |path: &Path, bytes: &[u8]| file("write", path, std::fs::write(path, bytes));
    if serves_files(server.kind) {
        let www = home.dir.join("www");
        file("create", &www, std::fs::create_dir_all(&www))?;
        for (name, size) in FILES {
            write(&www.join(name), &document(size))?;
        }
    }
    let words = words::of(&home.dir, &home.logs, host, server);
    if server.domains.is_some() {
        write(&home.dir.join("pass.conf"), fill(include_str!("../templates/nginx-pass.conf"), &words).as_bytes())?;
    }
    if server.kind == ServerKind::HaproxyDelay {
        write(&home.dir.join("delay.lua"), fill(include_str!("../templates/haproxy-delay.lua"), &words).as_bytes())?;
    }
    let template = match server.kind {
        ServerKind::NginxProxy => include_str!("../templates/nginx-proxy.conf"),
        ServerKind::NginxFiles => include_str!("../templates/nginx-files.conf"),
        ServerKind::HaproxyDelay => include_str!("../templates/haproxy-delay.cfg"),
        ServerKind::HaproxyProxy => include_str!("../templates/haproxy-proxy.cfg"),
        ServerKind::HttpdFiles => include_str!("../templates/httpd-files.conf"),
        ServerKind::NodeFiles => include_str!("../templates/node-files.js"),
        ServerKind::JvmFiles => include_str!("../templates/JvmFiles.java"),
        ServerKind::JettyFiles => include_str!("../templates/JettyFiles.java"),
        ServerKind::None => "",
        ServerKind::ChainApp => include_str!("../templates/chain-app.py"),
        ServerKind::Postgres => include_str!("../templates/postgres.sh"),
        ServerKind::Redis => include_str!("../templates/redis.conf"),
    };
    let config = home.dir.join(config_name(server.kind));
    write(&config, fill(template, &words).as_bytes())?;
    Ok(config)
}

fn serves_files(kind: ServerKind) -> bool {
    match kind {
        ServerKind::NginxFiles
        | ServerKind::HaproxyDelay
        | ServerKind::HttpdFiles
        | ServerKind::NodeFiles
        | ServerKind::JvmFiles
        | ServerKind::JettyFiles => true,
        ServerKind::NginxProxy
        | ServerKind::HaproxyProxy
        | ServerKind::ChainApp
        | ServerKind::Postgres
        | ServerKind::Redis
        | ServerKind::None => false,
    }
}

/// Starts the neighbours of a host: loops of a shell, on its CPUs and in its namespace, but in a group of their own.
///
/// # Errors
/// The shell cannot be started.
pub(crate) fn start_neighbours(ground: &Ground, id: &LabId, host: &PlannedHost) -> Result<(), LabError> {
    let group = cgroup::neighbours(&host.name);
    let netns = ground.netns_path(id, &host.name);
    for _ in 0..host.lab.neighbours.unwrap_or(0) {
        let mut command = Command::new("/bin/sh");
        // In the background, so that the shell that started it ends and its parent is init.
        command.arg("-c").arg("while :; do :; done &").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let netns = file("open", &netns, File::open(&netns))?;
        let cgroup_procs = cgroup::doors(ground, id, &group)?;
        sys::seat(&mut command, Seat { netns, cgroup_procs, cpus: host.cpus.clone() });
        run_to_daemon(command).map_err(|reason| LabError::ServerFailed {
            host: host.name.clone(),
            server: "a neighbour".to_string(),
            reason,
            log: String::new(),
        })?;
    }
    Ok(())
}

/// Fills a template. Lines that held only a word without text are left out.
fn fill(template: &str, words: &[(&'static str, String)]) -> String {
    let mut text = String::new();
    for line in template.lines() {
        let mut filled = line.to_string();
        for (word, value) in words {
            filled = filled.replace(&format!("@{word}@"), value);
        }
        if filled == line || !filled.trim().is_empty() {
            text.push_str(&filled);
            text.push('\n');
        }
    }
    text
}

/// A document of `size` bytes: words in an order that gzip cannot guess, so that it shrinks about as much as real text.
fn document(size: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "load", "limit", "queue", "server", "request", "answer", "socket", "kernel", "packet", "buffer", "worker",
        "client", "proxy", "wait", "serve", "table",
    ];
    let mut text = String::new();
    // Numerical Recipes' linear congruential generator; any would do, but each lab must serve the same bytes.
    let mut seed: u32 = 1;
    while text.len() < size {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        text.push_str(WORDS[(seed >> 28) as usize]);
        text.push_str(&format!(" {} ", (seed >> 12) % 1000));
    }
    text.truncate(size);
    text.into_bytes()
}
