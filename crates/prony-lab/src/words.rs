//! What stands for each `@WORD@` of the templates of servers.
//!
//! Text only: it writes no file and starts nothing. Invariant: a setting that a lab does not name stands as its documented
//! default.

use crate::plan::{PORT, PlannedHost, Upstream};
use crate::server::FILES;
use crate::{rules, sys};
use prony_model::Nanos;
use prony_model::lab::{AccessLog, ErrorLevel, LabServer, ServerKind};
use std::path::Path;

/// Threads of an httpd process and of the Java servers: httpd's own 25 are few for 128 connections. A guess.
const THREADS: u32 = 64;

/// The file of an application's traces.
pub(crate) const TRACES: &str = "traces.jsonl";

/// A word and its text.
pub(crate) type Word = (&'static str, String);

/// All words of a host's server, whose files are in `dir`.
pub(crate) fn of(dir: &Path, logs: &Path, host: &PlannedHost, server: &LabServer) -> Vec<Word> {
    let mut words = vec![
        ("HOST", host.name.clone()),
        ("DIR", dir.display().to_string()),
        ("LOGS", logs.display().to_string()),
        ("WORKERS", server.workers.unwrap_or(1).to_string()),
        (
            "BACKLOG",
            server.backlog.map(|n| format!(" backlog {n}")).map_or(String::new(), |b| backlog_of(server.kind, &b)),
        ),
    ];
    words.extend(of_nginx(dir, logs, host, server));
    words.extend(of_haproxy(dir, host, server));
    words.extend(of_chain(logs, host, server));
    let httpd_log = match server.access_log {
        AccessLog::Off => String::new(),
        AccessLog::Buffered => format!("BufferedLogs On\n{}", httpd_log(logs)),
        AccessLog::Unbuffered => httpd_log(logs),
    };
    let threads = server.threads.unwrap_or(THREADS * server.workers.unwrap_or(1));
    words.extend([("HTTPD_LOG", httpd_log), ("THREADS", THREADS.to_string()), ("ALL_THREADS", threads.to_string())]);
    let one_lock = (server.one_lock == Some(true)).to_string();
    words.extend([("ONE_LOCK", one_lock), ("KEPT_MIB", server.kept_mib.unwrap_or(0).to_string())]);
    words
}

fn of_nginx(dir: &Path, logs: &Path, host: &PlannedHost, server: &LabServer) -> Vec<Word> {
    let connections = server.worker_connections.unwrap_or(8192);
    let logs = logs.display();
    let access_log = match server.access_log {
        AccessLog::Off => "access_log off;".to_string(),
        AccessLog::Buffered => format!("access_log {logs}/access.log main buffer=64k flush=2s;"),
        AccessLog::Unbuffered => format!("access_log {logs}/access.log main;"),
    };
    // max_fails=0: a failed connect shows as itself in the log, not as `no live upstreams` for the next 10 s.
    let upstreams: Vec<String> =
        host.upstreams.iter().map(|u| format!("server {}:{PORT} max_fails=0;", u.addr)).collect();
    let (upstream_keepalive, upstream_http) = match kept(server) {
        0 => (String::new(), String::new()),
        n => (
            format!("keepalive {n};\n        keepalive_requests 1000000;"),
            "proxy_http_version 1.1;\n            proxy_set_header Connection \"\";".to_string(),
        ),
    };
    let gzip = server
        .gzip_level
        .map(|level| format!("gzip on;\n    gzip_types *;\n    gzip_proxied any;\n    gzip_comp_level {level};"));
    vec![
        ("WORKER_CONNECTIONS", connections.to_string()),
        ("OPEN_FILES", (u64::from(connections) * 2).min(sys::open_files_max()).to_string()),
        ("ACCESS_LOG", access_log),
        ("ERROR_LEVEL", error_level(server.error_log).to_string()),
        ("WORKER_AFFINITY", worker_affinity(server)),
        ("PROXY_BUFFERS", proxy_buffers(server)),
        ("LIMIT_ZONE", limit_zone(server)),
        ("LIMIT", server.requests_per_s_max.map_or(String::new(), |_| "limit_req zone=all burst=500;".to_string())),
        ("UPSTREAM_SERVERS", upstreams.join("\n        ")),
        ("UPSTREAM_KEEPALIVE", upstream_keepalive),
        ("UPSTREAM_HTTP", upstream_http),
        ("GZIP", gzip.unwrap_or_default()),
        ("SENDFILE", on_off(server.sendfile.unwrap_or(server.kind == ServerKind::NginxProxy))),
        ("TCP_NOPUSH", on_off(server.tcp_nopush.unwrap_or(true))),
        ("MAP", rules::map(server)),
        ("MAP_HEADER", rules::map_header(server)),
        ("REGEX_RULES", rules::locations(server)),
        ("DOMAINS", rules::domains(server, dir)),
    ]
}

fn of_haproxy(dir: &Path, host: &PlannedHost, server: &LabServer) -> Vec<Word> {
    let file = |(name, _): &(&str, usize)| {
        let from = dir.join("www").join(name);
        format!(
            "    http-request return status 200 content-type text/plain file {} if {{ path /{name} }}",
            from.display()
        )
    };
    let return_files: Vec<String> = FILES.iter().map(file).collect();
    let idle = if kept(server) == 0 { String::new() } else { format!(" pool-max-conn {}", kept(server)) };
    let line = |(at, upstream): (usize, &Upstream)| format!("server s{at} {}:{PORT}{idle}", upstream.addr);
    let servers: Vec<String> = host.upstreams.iter().enumerate().map(line).collect();
    let reuse = if kept(server) == 0 { "option http-server-close" } else { "http-reuse always" };
    vec![
        ("DELAY_MS", delay_ms(server.delay)),
        ("DELAY", server.delay.map_or(String::new(), |_| "http-request lua.delay".to_string())),
        ("RETURN_FILES", return_files.join("\n")),
        ("HAPROXY_SERVERS", servers.join("\n    ")),
        ("HAPROXY_REUSE", reuse.to_string()),
    ]
}

fn of_chain(logs: &Path, host: &PlannedHost, server: &LabServer) -> Vec<Word> {
    let store =
        |kind| host.upstreams.iter().find(|u| u.kind == Some(kind)).map_or(String::new(), |u| u.addr.to_string());
    let index = if server.index == Some(false) { "" } else { "create index items_code on items(code);" };
    vec![
        ("DATABASE", store(ServerKind::Postgres)),
        ("CACHE", store(ServerKind::Redis)),
        ("POOL", server.pool.unwrap_or(20).to_string()),
        ("QUESTIONS", server.questions.unwrap_or(1).to_string()),
        ("CONTENDED_ROWS", server.contended_rows.unwrap_or(0).to_string()),
        ("TRACES", if server.traces == Some(true) { logs.join(TRACES).display().to_string() } else { String::new() }),
        ("BLOCKING", if server.blocking == Some(true) { "True" } else { "False" }.to_string()),
        ("INDEX", index.to_string()),
        ("SYNCHRONOUS_COMMIT", on_off(server.synchronous_commit == Some(true))),
        ("MAX_CONNECTIONS", server.max_connections.unwrap_or(200).to_string()),
    ]
}

/// Idle connections that a proxy keeps.
fn kept(server: &LabServer) -> u32 {
    server.upstream_keepalive.unwrap_or(128)
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_string()
}

fn httpd_log(logs: &Path) -> String {
    format!("CustomLog {}/access.log \"%h %t \\\"%r\\\" %>s %b\"", logs.display())
}

fn error_level(level: ErrorLevel) -> &'static str {
    match level {
        ErrorLevel::Warn => "warn",
        ErrorLevel::Debug => "debug",
    }
}

/// One mask for each worker, the lowest CPU last, as nginx writes them.
fn worker_affinity(server: &LabServer) -> String {
    let Some(cpus) = &server.worker_cpus else { return String::new() };
    let last = cpus.as_slice().iter().copied().max().unwrap_or(0);
    let mask: String = (0..=last).rev().map(|cpu| if cpus.contains(cpu) { '1' } else { '0' }).collect();
    let masks = vec![mask; server.workers.unwrap_or(1) as usize];
    format!("worker_cpu_affinity {};", masks.join(" "))
}

/// Buffers of 4 KiB: nginx keeps one free of those that are being sent.
fn proxy_buffers(server: &LabServer) -> String {
    let Some(kib) = server.buffers_kib else { return String::new() };
    let count = (kib / 4).max(3);
    format!("proxy_buffer_size 4k; proxy_buffers {count} 4k; proxy_busy_buffers_size {}k;", (count - 1) * 4)
}

fn limit_zone(server: &LabServer) -> String {
    let zone = |rate: u32| format!("limit_req_zone $server_port zone=all:1m rate={rate}r/s;");
    server.requests_per_s_max.map_or(String::new(), zone)
}

/// nginx writes `backlog=8`, HAProxy `backlog 8`.
fn backlog_of(kind: ServerKind, haproxy: &str) -> String {
    match kind {
        ServerKind::NginxProxy | ServerKind::NginxFiles => haproxy.replace("backlog ", "backlog="),
        ServerKind::HttpdFiles => haproxy.replace(" backlog ", "ListenBacklog "),
        ServerKind::NodeFiles | ServerKind::JvmFiles | ServerKind::JettyFiles => haproxy.replace(" backlog ", ""),
        ServerKind::HaproxyDelay
        | ServerKind::HaproxyProxy
        | ServerKind::ChainApp
        | ServerKind::Postgres
        | ServerKind::Redis
        | ServerKind::None => haproxy.to_string(),
    }
}

/// HAProxy waits whole milliseconds.
fn delay_ms(delay: Option<Nanos>) -> String {
    (delay.unwrap_or(Nanos(0)).0 / 1_000_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_as_nginx_writes_them() {
        let plain = LabServer::default();
        let unset = [worker_affinity(&plain), proxy_buffers(&plain), limit_zone(&plain)];
        assert!(unset.iter().all(String::is_empty), "{unset:?}");
        let set = LabServer {
            workers: Some(2),
            worker_cpus: "1".parse().ok(),
            buffers_kib: Some(16),
            requests_per_s_max: Some(50),
            ..plain
        };
        assert_eq!(worker_affinity(&set), "worker_cpu_affinity 10 10;");
        assert_eq!(proxy_buffers(&set), "proxy_buffer_size 4k; proxy_buffers 4 4k; proxy_busy_buffers_size 12k;");
        assert_eq!(limit_zone(&set), "limit_req_zone $server_port zone=all:1m rate=50r/s;");
    }
}
