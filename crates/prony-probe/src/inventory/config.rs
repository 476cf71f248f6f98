//! The settings of a server's configuration file that decide how fast it is, as they stand in the file.
//!
//! Only settings named here are taken, so no password, key or header enters the inventory. Invariant: values are those of the file
//! and of those it includes, in their order, each once.

use crate::fact_file::read_once;
use crate::facts::Facts;
use crate::roots::Roots;
use prony_model::{Host, Software};
use prony_nginx::Config;
use std::collections::BTreeMap;
use std::path::Path;

/// Directives of nginx (nginx.org/en/docs/dirindex.html).
const NGINX: &[&str] = &[
    "access_log",
    "accept_mutex",
    "aio",
    "client_body_buffer_size",
    "directio",
    "error_log",
    "gzip",
    "gzip_comp_level",
    "gzip_min_length",
    "keepalive",
    "keepalive_requests",
    "keepalive_timeout",
    "limit_conn",
    "limit_rate",
    "limit_req",
    "limit_req_zone",
    "listen",
    "multi_accept",
    "open_file_cache",
    "postpone_output",
    "proxy_buffering",
    "proxy_buffer_size",
    "proxy_buffers",
    "proxy_busy_buffers_size",
    "proxy_cache",
    "proxy_http_version",
    "proxy_max_temp_file_size",
    "proxy_next_upstream",
    "proxy_pass",
    "proxy_request_buffering",
    "proxy_store",
    "reset_timedout_connection",
    "resolver",
    "sendfile",
    "sendfile_max_chunk",
    "ssl_buffer_size",
    "ssl_protocols",
    "ssl_session_cache",
    "ssl_session_tickets",
    "ssl_session_timeout",
    "tcp_nodelay",
    "tcp_nopush",
    "thread_pool",
    "use",
    "worker_aio_requests",
    "worker_connections",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_processes",
    "worker_rlimit_nofile",
];

/// Keywords of HAProxy (docs.haproxy.org, configuration manual, chapters 3 and 4).
const HAPROXY: &[&str] = &[
    "balance",
    "cpu-map",
    "fullconn",
    "http-reuse",
    "maxconn",
    "maxconnrate",
    "maxsslconn",
    "mode",
    "nbproc",
    "nbthread",
    "option http-keep-alive",
    "option http-server-close",
    "option httpclose",
    "option httplog",
    "option tcplog",
    "rate-limit sessions",
    "timeout client",
    "timeout connect",
    "timeout queue",
    "timeout server",
    "tune.bufsize",
    "tune.maxaccept",
    "tune.ssl.cachesize",
];

/// Puts `nginx.config.NAME` or `haproxy.config.NAME`; several places of a setting are told apart by `|`.
pub(super) fn put(found: &mut BTreeMap<String, String>, facts: &mut Facts, host: &Host, roots: &Roots) {
    let (Some(path), Some(software)) = (&host.config, host.software) else { return };
    // A recorded tree has no configuration of its own.
    if !roots.live() {
        return;
    }
    let path = Path::new(path);
    let (name, settings) = match software {
        Software::Nginx => ("nginx", Config::read(path).map(|config| nginx(&config)).map_err(|e| e.to_string())),
        Software::Haproxy => {
            ("haproxy", read_once(path).map(|text| haproxy(&text)).map_err(|e| format!("{}: {e}", path.display())))
        }
        Software::Postgres | Software::Redis | Software::Other => return,
    };
    let settings = match settings {
        Ok(settings) => settings,
        Err(why) => return facts.miss("inventory.config", why),
    };
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (setting, value) in settings {
        let values = by_name.entry(format!("{name}.config.{setting}")).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    found.extend(by_name.into_iter().map(|(setting, values)| (setting, values.join(" | "))));
}

/// Settings and their values, in the order of the file.
type Settings = Vec<(String, String)>;

fn nginx(config: &Config) -> Settings {
    let mut settings = Vec::new();
    config.walk(&mut |_, directive| {
        if NGINX.contains(&directive.name.as_str()) {
            settings.push((directive.name.clone(), directive.args.join(" ")));
        }
    });
    settings
}

fn haproxy(text: &str) -> Settings {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let setting = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let line = words.join(" ");
        let keyword = HAPROXY
            .iter()
            .find(|k| line.strip_prefix(**k).is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')))?;
        let value = line[keyword.len()..].trim();
        Some((keyword.replace(' ', "."), if value.is_empty() { "on" } else { value }.to_string()))
    };
    lines.filter_map(setting).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(settings: Settings) -> Vec<String> {
        settings.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn nginx_tells_what_makes_it_fast_and_no_secret() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("nginx.conf");
        let text = r#"
            worker_processes auto; # as many as CPUs
            events { worker_connections 1024; multi_accept on; }
            http {
                log_format main '$remote_addr; "$request"';
                access_log "/var/log/a;b.log" main buffer=64k;
                upstream app { server 10.0.0.1:80; keepalive 64; }
                include sites/*.conf;
            }"#;
        let site = r#"server {
            listen 80 backlog=511;
            location / { auth_basic_user_file /etc/secret; proxy_set_header Authorization "Basic abc"; access_log off; }
        }"#;
        std::fs::write(&main, text).unwrap();
        std::fs::create_dir(folder.path().join("sites")).unwrap();
        std::fs::write(folder.path().join("sites/one.conf"), site).unwrap();
        assert_eq!(
            words(nginx(&Config::read(&main).unwrap())),
            [
                "worker_processes=auto",
                "worker_connections=1024",
                "multi_accept=on",
                "access_log=/var/log/a;b.log main buffer=64k",
                "keepalive=64",
                "listen=80 backlog=511",
                "access_log=off",
            ]
        );
    }

    #[test]
    fn haproxy_tells_its_own() {
        let text = "global\n  nbthread 2 # two\n  maxconn 2000\ndefaults\n  timeout  client 10s\n  option httpclose\n\
                    listen stats\n  stats auth admin:secret\n  balance leastconn\n  maxconnections 5\n";
        assert_eq!(
            words(haproxy(text)),
            ["nbthread=2", "maxconn=2000", "timeout.client=10s", "option.httpclose=on", "balance=leastconn"]
        );
    }

    proptest! {
        #[test]
        fn no_file_panics(text in ".{0,300}") {
            haproxy(&text);
        }
    }
}
