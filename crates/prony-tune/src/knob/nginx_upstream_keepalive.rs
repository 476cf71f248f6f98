//! `nginx.upstream_keepalive`: idle connections that each worker of an nginx proxy keeps to its upstreams.
//!
//! Three things must agree, or none works: `keepalive` in the upstream block, HTTP/1.1 to the upstream, and no
//! `Connection: close` to it. This knob sets all three where the configuration passes requests on, and reads "off" when
//! one of them is missing.

use super::{Disruption, Effect, KnobInfo, Plan, expect_read, nginx, nginx_plan, whole};
use crate::Context;
use crate::error::TuneError;
use crate::nginx::edit::Edits;
use crate::nginx::master::Master;
use prony_model::metric::TCP_ACTIVE_OPENS;
use prony_nginx::{Config, Directive};
use std::collections::BTreeMap;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "nginx.upstream_keepalive",
    value: "connections per worker, like `128`, or `off`",
    disruption: Disruption::Reload,
    risk: "Upstreams hold that many idle connections per worker; one that closes idle connections sooner than nginx causes 502s.",
    effect: Effect { metric: &TCP_ACTIVE_OPENS, how: "falls from about one per request to almost none" },
    doc: "Sets `keepalive N` in every upstream block that a proxy_pass uses, `proxy_http_version 1.1` and an empty Connection \
          header where requests are passed on, and raises a `keepalive_requests` that is below nginx's default. A proxy_pass \
          to an address without an upstream block cannot keep connections before nginx 1.29.7; locations for WebSocket \
          (Connection: upgrade) are left alone.",
    read,
    plan,
    check,
};

/// Default of `keepalive_requests` in an upstream since nginx 1.19.10 (nginx.org, ngx_http_upstream_module).
const KEEPALIVE_REQUESTS_DEFAULT: u64 = 1000;
/// Since this version nginx keeps 32 connections and speaks HTTP/1.1 unless told otherwise (nginx.org, same page).
const KEPT_BY_DEFAULT_SINCE: [u32; 3] = [1, 29, 7];
const KEPT_BY_DEFAULT: &str = "32";
/// Upper bound of the value. A guess: sockets per worker beyond that are never idle together on one machine.
const CONNECTIONS_MAX: u64 = 65_535;

/// A proxy_pass, the blocks around it, and the upstream block it leads to.
struct Pass<'a> {
    directive: &'a Directive,
    around: Vec<&'a Directive>,
    upstream: &'a Directive,
}

/// The Connection header that a location sends to its upstream.
enum Connection<'a> {
    /// No `proxy_set_header` anywhere: nginx's own default.
    Default,
    /// The innermost block that sets headers sets others only.
    Unset(&'a Directive),
    /// It sets Connection.
    Set(&'a Directive),
}

fn read(ctx: &Context<'_>, _: &str) -> Result<String, TuneError> {
    let (master, config) = nginx(ctx)?;
    present(&config, kept_by_default(&master)?)
}

fn check(ctx: &Context<'_>, _: &str, value: &str) -> Result<(), TuneError> {
    expect_read(KNOB.name, value, &read(ctx, "")?)
}

fn plan(ctx: &Context<'_>, _: &str, value: &str) -> Result<Plan, TuneError> {
    let wanted = match value {
        "off" => None,
        _ => Some(whole(KNOB.name, value, 1..=CONNECTIONS_MAX)?),
    };
    let (master, config) = nginx(ctx)?;
    let by_default = kept_by_default(&master)?;
    let before = present(&config, by_default)?;
    let edits = match wanted {
        Some(connections) => turn_on(&config, connections, by_default)?,
        None => turn_off(&config, by_default)?,
    };
    nginx_plan(KNOB.name, value, before, (master, config), &edits)
}

/// Whether this nginx keeps connections unless told otherwise.
fn kept_by_default(master: &Master) -> Result<bool, TuneError> {
    let text = master.version()?;
    let version = text.split("nginx/").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap_or_default();
    Ok(parts(version) >= KEPT_BY_DEFAULT_SINCE)
}

fn parts(version: &str) -> [u32; 3] {
    let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| numbers.next().unwrap_or(0))
}

/// The value that is in effect; when upstreams differ, each by name.
fn present(config: &Config, by_default: bool) -> Result<String, TuneError> {
    let mut values: BTreeMap<&str, String> = BTreeMap::new();
    for pass in passes(config)? {
        let set = pass.upstream.named("keepalive").last().and_then(|d| d.args.first()).cloned();
        let set = set.or(by_default.then(|| KEPT_BY_DEFAULT.to_string())).filter(|n| n != "0");
        let works = speaks_1_1(&pass, by_default) && clears_connection(&pass, by_default);
        let value = set.filter(|_| works).unwrap_or("off".to_string());
        let name = pass.upstream.args.first().map_or("", String::as_str);
        // One location that does not keep connections is enough to open one per request.
        let seen = values.entry(name).or_insert_with(|| value.clone());
        if value == "off" {
            *seen = value;
        }
    }
    let mut distinct: Vec<&String> = values.values().collect();
    distinct.dedup();
    Ok(match distinct.as_slice() {
        [one] => (*one).clone(),
        _ => values.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "),
    })
}

fn turn_on(config: &Config, connections: u64, by_default: bool) -> Result<Edits, TuneError> {
    let mut edits = Edits::default();
    for pass in passes(config)? {
        match pass.upstream.named("keepalive").last() {
            Some(there) => edits.set_args(there, &connections.to_string()),
            None => edits.insert_last(config, pass.upstream, &format!("keepalive {connections};")),
        }
        for requests in pass.upstream.named("keepalive_requests") {
            let small = |n: &String| n.parse::<u64>().is_ok_and(|n| n < KEEPALIVE_REQUESTS_DEFAULT);
            if requests.args.first().is_some_and(small) {
                edits.set_args(requests, &KEEPALIVE_REQUESTS_DEFAULT.to_string());
            }
        }
        if !speaks_1_1(&pass, by_default) {
            match pass.level().named("proxy_http_version").last() {
                Some(there) => edits.set_args(there, "1.1"),
                None => pass.insert(config, &mut edits, "proxy_http_version 1.1;"),
            }
        }
        if clears_connection(&pass, by_default) {
            continue;
        }
        match pass.connection() {
            Connection::Default => pass.insert(config, &mut edits, "proxy_set_header Connection \"\";"),
            // Headers are inherited all or none: one more in the location would drop those that it inherits.
            Connection::Unset(block) => edits.insert_last(config, block, "proxy_set_header Connection \"\";"),
            Connection::Set(there) if there.args.get(1).is_some_and(|v| v.contains('$')) => {
                let value = there.args.get(1).map_or("", String::as_str);
                return Err(config.error(
                    there,
                    format!(
                        "Connection is set to {value}, which this knob cannot rewrite; make it empty for requests without \
                         Upgrade (map $http_upgrade {value} {{ default upgrade; '' ''; }})"
                    ),
                )
                .into());
            }
            Connection::Set(there) => edits.set_args(there, "Connection \"\""),
        }
    }
    Ok(edits)
}

fn turn_off(config: &Config, by_default: bool) -> Result<Edits, TuneError> {
    let mut edits = Edits::default();
    for pass in passes(config)? {
        match pass.upstream.named("keepalive").last() {
            Some(there) if by_default => edits.set_args(there, "0"),
            Some(there) => edits.delete(config, there),
            None if by_default => edits.insert_last(config, pass.upstream, "keepalive 0;"),
            None => {}
        }
    }
    Ok(edits)
}

/// Every proxy_pass to an upstream block, WebSocket locations left out.
fn passes(config: &Config) -> Result<Vec<Pass<'_>>, TuneError> {
    let upstreams = config.in_http("upstream");
    let all = config.in_http("proxy_pass");
    let mut found = Vec::new();
    for (around, directive) in &all {
        let name = authority(directive.args.first().map_or("", String::as_str));
        let upstream = upstreams.iter().find(|(_, u)| u.args.first().is_some_and(|n| n == name));
        if let Some((_, upstream)) = upstream {
            let pass = Pass { directive, around: around.clone(), upstream };
            if !pass.is_websocket() {
                found.push(pass);
            }
        }
    }
    if !found.is_empty() {
        return Ok(found);
    }
    match all.first() {
        Some((_, pass)) => {
            let to = pass.args.first().map_or("", String::as_str);
            let address = authority(to);
            Err(config.error(
                pass,
                format!(
                    "proxy_pass to {to} uses no upstream block, and only those keep connections; write `upstream backend {{ \
                     server {address}; }}` within http, `proxy_pass` to http://backend, and `proxy_set_header Host {address};`"
                ),
            )
            .into())
        }
        None => Err(TuneError::missing(
            "no proxy_pass is in nginx's configuration, so it has no upstream",
            "choose the host that passes requests on",
        )),
    }
}

/// Host and port of `http://HOST:PORT/PATH`.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

fn speaks_1_1(pass: &Pass<'_>, by_default: bool) -> bool {
    let set = pass.levels().find_map(|level| level.named("proxy_http_version").last());
    set.and_then(|d| d.args.first()).map_or(by_default, |v| v != "1.0")
}

fn clears_connection(pass: &Pass<'_>, by_default: bool) -> bool {
    match pass.connection() {
        Connection::Default | Connection::Unset(_) => by_default,
        Connection::Set(directive) => directive.args.get(1).is_some_and(String::is_empty),
    }
}

impl<'a> Pass<'a> {
    /// Blocks that may hold proxy settings, the innermost first. `if` and `limit_except` may not.
    fn levels(&self) -> impl Iterator<Item = &'a Directive> + '_ {
        self.around.iter().rev().copied().filter(|d| matches!(d.name.as_str(), "location" | "server" | "http"))
    }

    fn level(&self) -> &'a Directive {
        self.levels().next().expect("in_http gives only directives within an http block")
    }

    fn connection(&self) -> Connection<'a> {
        let Some(block) = self.levels().find(|level| level.named("proxy_set_header").next().is_some()) else {
            return Connection::Default;
        };
        let is_connection = |d: &&Directive| d.args.first().is_some_and(|name| name.eq_ignore_ascii_case("connection"));
        block
            .children()
            .iter()
            .filter(|d| d.name == "proxy_set_header")
            .rfind(is_connection)
            .map_or(Connection::Unset(block), Connection::Set)
    }

    fn is_websocket(&self) -> bool {
        match self.connection() {
            Connection::Set(directive) => directive.args.get(1).is_some_and(|v| v.eq_ignore_ascii_case("upgrade")),
            Connection::Default | Connection::Unset(_) => false,
        }
    }

    /// Puts a directive beside the proxy_pass, or at the end of its location when it stands in an `if`.
    fn insert(&self, config: &Config, edits: &mut Edits, text: &str) {
        let level = self.level();
        let is_direct = self.around.last().is_some_and(|d| std::ptr::eq(*d, level));
        let is_first = level.named("proxy_pass").next().is_some_and(|d| std::ptr::eq(d, self.directive));
        if is_direct && is_first && self.directive.source == level.source {
            edits.insert_before(config, self.directive, text);
        } else if level.named("proxy_pass").next().is_none() || self.directive.source != level.source {
            edits.insert_last(config, level, text);
        }
    }
}

#[cfg(test)]
#[path = "nginx_upstream_keepalive_tests.rs"]
mod tests;
