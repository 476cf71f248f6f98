//! `nginx.backlog`: how many finished handshakes may wait at each listening socket of nginx.
//!
//! nginx calls listen() again at a reload when the number changed (ngx_configure_listening_sockets); seen with 1.22:
//! `ss` shows 8 -> 777 -> 511 over two reloads of one master. So no restart is needed.

use super::{Disruption, Effect, KnobInfo, Plan, nginx, nginx_plan, whole};
use crate::Context;
use crate::error::TuneError;
use crate::nginx::edit::Edits;
use prony_model::KnobId;
use prony_model::metric::TCP_LISTEN_OVERFLOWS;
use prony_nginx::{Config, Directive};
use prony_tool::SS;
use std::collections::BTreeMap;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "nginx.backlog",
    value: "a number, like `4096`",
    disruption: Disruption::Reload,
    risk: "A longer queue hides a server that is too slow: clients wait instead of being refused.",
    effect: Effect { metric: &TCP_LISTEN_OVERFLOWS, how: "stops growing" },
    doc: "Sets `backlog=N` once for each address that nginx listens on. The kernel cuts it to net.core.somaxconn, so a \
          larger value is refused until that is raised (`sysctl.net.core.somaxconn`). Sockets in the file system, and UDP, \
          are left alone.",
    read,
    plan,
    check,
};

/// What nginx asks for on Linux when nothing is written (NGX_LISTEN_BACKLOG).
const BACKLOG_DEFAULT: &str = "511";
/// Options that nginx allows only once per address (ngx_http_core_listen sets `lsopt.set`); ours must stand with them.
const ONCE: &[&str] = &[
    "backlog=",
    "bind",
    "deferred",
    "reuseport",
    "ipv6only=",
    "so_keepalive=",
    "fastopen=",
    "rcvbuf=",
    "sndbuf=",
    "setfib=",
];

fn read(ctx: &Context<'_>, _: &str) -> Result<String, TuneError> {
    Ok(present(&nginx(ctx)?.1))
}

fn plan(ctx: &Context<'_>, _: &str, value: &str) -> Result<Plan, TuneError> {
    let number = whole(KNOB.name, value, 1..=65_535)?;
    let limit = crate::read(ctx, &KnobId::Sysctl("net.core.somaxconn".to_string()))?;
    if limit.parse::<u64>().is_ok_and(|limit| number > limit) {
        let want = format!(
            "at most net.core.somaxconn, which is {limit} here and cuts it; raise sysctl.net.core.somaxconn first"
        );
        return Err(TuneError::value(KNOB.name, value, want));
    }
    let (master, config) = nginx(ctx)?;
    let listens = listens(&config);
    if listens.is_empty() {
        return Err(TuneError::missing(
            format!("no `listen` with a TCP address is in {}", master.config.display()),
            "write `listen 80;` into its server block (nginx listens there anyway)",
        ));
    }
    let edits = edits(&listens, value);
    nginx_plan(KNOB.name, value, present(&config), (master, config), &edits)
}

/// The listening sockets themselves must show the number.
fn check(ctx: &Context<'_>, _: &str, value: &str) -> Result<(), TuneError> {
    let (_, config) = nginx(ctx)?;
    let shown = sockets()?;
    for address in listens(&config).keys() {
        let same: Vec<&(String, String)> = shown.iter().filter(|(local, _)| is_at(local, address)).collect();
        let seen = match same.iter().find(|(_, backlog)| backlog != value) {
            Some((local, backlog)) => format!("{local} with {backlog}"),
            None if same.is_empty() => format!("no socket that listens on {address}"),
            None => continue,
        };
        return Err(TuneError::NoEffect { knob: KNOB.name.to_string(), wanted: value.to_string(), seen });
    }
    Ok(())
}

fn present(config: &Config) -> String {
    let of = |list: &Vec<&Directive>| {
        let set = list.iter().flat_map(|d| &d.args).find_map(|arg| arg.strip_prefix("backlog="));
        set.unwrap_or(BACKLOG_DEFAULT).to_string()
    };
    let values: BTreeMap<String, String> =
        listens(config).iter().map(|(address, list)| (address.clone(), of(list))).collect();
    let mut distinct: Vec<&String> = values.values().collect();
    distinct.dedup();
    match distinct.as_slice() {
        [one] => (*one).clone(),
        _ => values.iter().map(|(address, value)| format!("{address}={value}")).collect::<Vec<_>>().join(" "),
    }
}

fn edits(listens: &BTreeMap<String, Vec<&Directive>>, value: &str) -> Edits {
    let mut edits = Edits::default();
    for list in listens.values() {
        let has = |d: &&&Directive, wanted: &[&str]| d.args.iter().any(|a| wanted.iter().any(|w| a.starts_with(w)));
        let chosen = list.iter().find(|d| has(d, &ONCE[..1])).or_else(|| list.iter().find(|d| has(d, ONCE)));
        let Some(chosen) = chosen.or(list.first()) else { continue };
        let mut args: Vec<String> = chosen.args.iter().filter(|a| !a.starts_with("backlog=")).cloned().collect();
        args.push(format!("backlog={value}"));
        if !chosen.args.contains(&format!("backlog={value}")) {
            edits.set_args(chosen, &args.join(" "));
        }
    }
    edits
}

/// TCP listens by address; one address may stand in many servers.
fn listens(config: &Config) -> BTreeMap<String, Vec<&Directive>> {
    let mut found: BTreeMap<String, Vec<&Directive>> = BTreeMap::new();
    for (_, listen) in config.in_http("listen") {
        let is_tcp = !listen.args.iter().any(|arg| arg == "udp" || arg == "quic" || arg.starts_with("unix:"));
        if let Some(address) = listen.args.first().filter(|_| is_tcp) {
            found.entry(full(address)).or_default().push(listen);
        }
    }
    found
}

/// `80`, `*:80`, `1.2.3.4` and `[::]:80` as `ADDRESS:PORT`.
fn full(address: &str) -> String {
    let address = address.replace('*', "0.0.0.0");
    if address.bytes().all(|b| b.is_ascii_digit()) {
        return format!("0.0.0.0:{address}");
    }
    let has_port = address.rsplit_once(':').is_some_and(|(host, _)| !host.starts_with('[') || host.ends_with(']'));
    if has_port { address } else { format!("{address}:80") }
}

/// Whether a socket as `ss` shows it listens on an address of the configuration; a host name matches by its port.
fn is_at(local: &str, address: &str) -> bool {
    let (Some((host, port)), Some((wanted, wanted_port))) = (local.rsplit_once(':'), address.rsplit_once(':')) else {
        return false;
    };
    let wanted_is_ip = wanted.starts_with('[') || wanted.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let same_host = host == wanted || (host == "*" && wanted == "[::]") || !wanted_is_ip;
    port == wanted_port && same_host
}

/// Listening sockets of this network namespace: local address and backlog (Send-Q of a listening socket, see ss(8)).
fn sockets() -> Result<Vec<(String, String)>, TuneError> {
    let failed = |message: String| TuneError::Tool { command: "ss -Hltn".to_string(), message };
    let out = SS.command().arg("-Hltn").output().map_err(|e| failed(format!("{e}; install iproute2")))?;
    if !out.status.success() {
        return Err(failed(String::from_utf8_lossy(&out.stderr).trim().to_string()));
    }
    let text = String::from_utf8_lossy(&out.stdout);
    let socket = |line: &str| {
        let mut words = line.split_whitespace().skip(2);
        let backlog = words.next()?.to_string();
        Some((words.next()?.to_string(), backlog))
    };
    Ok(text.lines().filter_map(socket).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_listen_of_each_address_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("nginx.conf");
        let text = "http { server { listen 80; listen unix:/x; listen [::]:80 ipv6only=on; }
            server { listen *:80 reuseport; listen 443 quic; listen 127.0.0.1:81 backlog=8 ssl; } }";
        std::fs::write(&file, text).unwrap();
        let config = Config::read(&file).unwrap();
        assert_eq!(present(&config), "0.0.0.0:80=511 127.0.0.1:81=8 [::]:80=511");
        let new = edits(&listens(&config), "100").rewrite(&config).remove(0).new;
        let want = "http { server { listen 80; listen unix:/x; listen [::]:80 ipv6only=on backlog=100; }
            server { listen *:80 reuseport backlog=100; listen 443 quic; listen 127.0.0.1:81 ssl backlog=100; } }";
        assert_eq!(String::from_utf8(new).unwrap(), want);
    }

    #[test]
    fn addresses() {
        for (written, meant) in [
            ("80", "0.0.0.0:80"),
            ("[::1]", "[::1]:80"),
            ("[::]:8", "[::]:8"),
            ("1.2.3.4", "1.2.3.4:80"),
            ("a.b:9", "a.b:9"),
        ] {
            assert_eq!(full(written), meant);
        }
        assert!(is_at("*:80", "[::]:80") && is_at("10.0.0.1:80", "lb:80") && !is_at("10.0.0.1:80", "0.0.0.0:80"));
    }
}
