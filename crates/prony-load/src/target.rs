//! Where a load goes: the URL taken apart, the name resolved, and the guard that keeps a load off strangers.
//!
//! It does not connect. Invariant: a name is resolved once, and the guard sees the addresses that are then used.

use crate::error::LoadError;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// Longest time that a name may take to resolve. A guess: twice the resolver's own 5 s for one server (resolv.conf(5)).
const RESOLVE_MAX: Duration = Duration::from_secs(10);

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name or address, without brackets.
    pub host: String,
    /// Port; 80 when the URL names none, 443 with https.
    pub port: u16,
    /// Whether the URL is `https`.
    pub secure: bool,
    /// What the `Host` header says: host and port as in the URL.
    pub authority: String,
    /// Path and query; `/` when the URL names none.
    pub path: String,
}

/// Takes a URL apart.
///
/// # Errors
/// [`LoadError::Url`] for anything that is not `http[s]://HOST[:PORT][/PATH]`.
pub fn check_url(url: &str) -> Result<Target, LoadError> {
    let wrong = |why: &str| LoadError::Url { url: url.escape_debug().to_string(), why: why.to_string() };
    let begins_with = |scheme: &str| url.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme));
    let secure = begins_with("https://");
    if !secure && !begins_with("http://") {
        return Err(wrong("it begins neither with `http://` nor with `https://`"));
    }
    if let Some(c) = url.chars().find(|c| c.is_control() || *c == ' ' || !c.is_ascii()) {
        return Err(wrong(&format!("it holds {c:?}, which must be written as %XX")));
    }
    let rest = url[if secure { 8 } else { 7 }..].split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err(wrong("a user name in a URL is not sent; write an `Authorization` header"));
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(v6) => v6.split_once(']').ok_or_else(|| wrong("the `[` of the address is not closed"))?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if host.is_empty() {
        return Err(wrong("the host is missing"));
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() && secure => 443,
        None if port.is_empty() => 80,
        Some(digits) => match digits.parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => return Err(wrong(&format!("`{digits}` is not a port from 1 to 65535"))),
        },
        None => return Err(wrong("there is something between `]` and the path")),
    };
    let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
    Ok(Target { host: host.to_string(), port, secure, authority: authority.to_string(), path })
}

/// The addresses of a target, in the resolver's order. Never empty. Takes at most 10 s.
///
/// # Errors
/// [`LoadError::Resolve`] when the name has no address or the resolver is silent.
pub fn resolve(target: &Target) -> Result<Vec<SocketAddr>, LoadError> {
    if let Ok(ip) = target.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, target.port)]);
    }
    let failed = |why: String| LoadError::Resolve { host: target.host.clone(), why };
    // The resolver of the C library cannot be interrupted, so it gets a thread; a thread inherits the namespace.
    let (sender, receiver) = mpsc::channel();
    let name = (target.host.clone(), target.port);
    std::thread::spawn(move || sender.send(name.to_socket_addrs().map(Iterator::collect::<Vec<_>>)));
    match receiver.recv_timeout(RESOLVE_MAX) {
        Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
        Ok(Ok(_)) => Err(failed("the resolver found none".to_string())),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Err(_) => Err(failed("the resolver did not answer within 10 s".to_string())),
    }
}

/// Where connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Over TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where the connections of a load go: the target's addresses, or what `connect_to` names instead
/// (`HOST[:PORT]` or `unix:PATH`). Never empty.
///
/// # Errors
/// [`LoadError::Resolve`] as in [`resolve`]; [`LoadError::Plan`] for a `connect_to` that is neither.
pub fn endpoints(target: &Target, connect_to: &[String]) -> Result<Vec<Endpoint>, LoadError> {
    let tcp = |addresses: Vec<SocketAddr>| addresses.into_iter().map(Endpoint::Tcp).collect::<Vec<_>>();
    if connect_to.is_empty() {
        return resolve(target).map(tcp);
    }
    let mut all = Vec::new();
    for text in connect_to {
        if let Some(path) = text.strip_prefix("unix:") {
            all.push(Endpoint::Unix(PathBuf::from(path)));
            continue;
        }
        let scheme = if target.secure { "https" } else { "http" };
        let there = check_url(&format!("{scheme}://{text}")).ok().filter(|t| t.path == "/");
        let Some(mut there) = there else {
            let why = format!("`{text}` is no address: write `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`");
            return Err(LoadError::Plan { item: "connect_to".to_string(), why });
        };
        if there.authority == there.host || there.authority.ends_with(']') {
            there.port = target.port;
        }
        all.extend(tcp(resolve(&there)?));
    }
    Ok(all)
}

/// Whether an address lies on this machine or in a private network by its number alone (RFC 1918, 4193, 3927, 4291).
pub fn is_private(ip: IpAddr) -> bool {
    let private_v4 = |v4: Ipv4Addr| v4.is_loopback() || v4.is_private() || v4.is_link_local() || v4.is_unspecified();
    match ip {
        IpAddr::V4(v4) => private_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => private_v4(v4),
            None => v6.is_loopback() || v6.is_unspecified() || v6.is_unique_local() || v6.is_unicast_link_local(),
        },
    }
}

/// Whether an address is one of this machine's own, in the namespace of the calling thread: only those can be bound.
pub fn is_own(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// Lets a load pass that goes to a private or own address, or to a target that the user called `owned`.
///
/// # Errors
/// [`LoadError::NotOwned`] when it is a stranger's.
pub fn guard(target: &Target, endpoints: &[Endpoint], owned: bool) -> Result<(), LoadError> {
    let ip = |endpoint: &Endpoint| match endpoint {
        Endpoint::Tcp(address) => Some(address.ip()),
        Endpoint::Unix(_) => None,
    };
    match endpoints.iter().filter_map(ip).find(|ip| !owned && !is_private(*ip) && !is_own(*ip)) {
        Some(ip) => Err(LoadError::NotOwned { host: target.host.clone(), ip }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(url: &str, want: Expect) {
        want.assert_eq(&match check_url(url) {
            Ok(t) => format!("{} {} {} {}", t.host, t.port, t.authority, t.path),
            Err(e) => e.to_string(),
        });
    }

    #[test]
    fn takes_urls_apart() {
        check("http://10.0.0.1:8080/1k?a=b#c", expect!["10.0.0.1 8080 10.0.0.1:8080 /1k?a=b"]);
        check("HTTP://s1", expect!["s1 80 s1 /"]);
        check("http://s1?q=1", expect!["s1 80 s1 /?q=1"]);
        check("https://s1/x", expect!["s1 443 s1 /x"]);
        check("http://[::1]:81/", expect!["::1 81 [::1]:81 /"]);
    }

    #[test]
    fn says_what_is_wrong() {
        check(
            "s1/x",
            expect![
                "`s1/x` is not a URL that prony can load: it begins neither with `http://` nor with `https://`; write it like `http://10.77.0.2:8080/1k`"
            ],
        );
        check(
            "http://s1:0/",
            expect![
                "`http://s1:0/` is not a URL that prony can load: `0` is not a port from 1 to 65535; write it like `http://10.77.0.2:8080/1k`"
            ],
        );
        check(
            "http:///x",
            expect![
                "`http:///x` is not a URL that prony can load: the host is missing; write it like `http://10.77.0.2:8080/1k`"
            ],
        );
        check(
            "http://s1/\r\nX: y",
            expect![[
                r"`http://s1/\r\nX: y` is not a URL that prony can load: it holds '\r', which must be written as %XX; write it like `http://10.77.0.2:8080/1k`"
            ]],
        );
    }

    #[test]
    fn private_is_what_no_stranger_owns() {
        for ip in ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.0.1", "::1", "fd00::1", "fe80::1"] {
            assert!(is_private(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["8.8.8.8", "172.32.0.1", "2001:4860::1", "::ffff:8.8.8.8", "100.64.0.1"] {
            assert!(!is_private(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn the_guard_asks_for_owned() {
        let target = check_url("http://shop.example/").unwrap();
        let public = [Endpoint::Tcp("192.0.2.1:80".parse().unwrap())];
        let error = guard(&target, &public, false).unwrap_err().to_string();
        assert_eq!(
            error,
            "192.0.2.1 is a public address; if `shop.example` is your own, say `owned = true` in the stack file, or `--owned`"
        );
        guard(&target, &public, true).unwrap();
        guard(&target, &[Endpoint::Tcp("127.0.0.1:80".parse().unwrap())], false).unwrap();
        guard(&target, &[Endpoint::Unix("/run/x".into())], false).unwrap();
    }

    fn check_endpoints(connect_to: &str, want: Expect) {
        let target = check_url("http://127.0.0.1:81/x").unwrap();
        let connect_to: Vec<String> = connect_to.split_whitespace().map(str::to_string).collect();
        want.assert_eq(&match endpoints(&target, &connect_to) {
            Ok(all) => all.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(", "),
            Err(error) => error.to_string(),
        });
    }

    #[test]
    fn connections_may_go_elsewhere() {
        check_endpoints("", expect!["127.0.0.1:81"]);
        check_endpoints(
            "127.0.0.2:8 127.0.0.3 [::1]:82 [::1] unix:/run/s",
            expect!["127.0.0.2:8, 127.0.0.3:81, [::1]:82, [::1]:81, unix:/run/s"],
        );
        check_endpoints(
            "127.0.0.1:8/x",
            expect!["`connect_to`: `127.0.0.1:8/x` is no address: write `HOST:PORT`, `[IPV6]:PORT` or `unix:PATH`"],
        );
    }

    #[test]
    fn a_name_without_address_is_an_error() {
        let target = check_url("http://no-such-host.invalid/").unwrap();
        let error = resolve(&target).unwrap_err().to_string();
        assert!(error.starts_with("`no-such-host.invalid` has no address ("), "{error}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(http://)?\\PC*") {
            let _ = check_url(&text);
        }
    }
}
