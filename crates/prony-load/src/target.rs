//! Where a load goes: the URL taken apart, the name resolved, and the guard that keeps a load off strangers.
//!
//! It does not connect. Invariant: a name is resolved once, and the guard sees the addresses that are then used.

use crate::error::LoadError;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

/// Longest time that a name may take to resolve. A guess: twice the resolver's own 5 s for one server (resolv.conf(5)).
const RESOLVE_MAX: Duration = Duration::from_secs(10);

/// A URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name or address, without brackets.
    pub host: String,
    /// Port; 80 when the URL names none.
    pub port: u16,
    /// What the `Host` header says: host and port as in the URL.
    pub authority: String,
    /// Path and query; `/` when the URL names none.
    pub path: String,
}

/// Takes a URL apart.
///
/// # Errors
/// [`LoadError::Tls`] for https, [`LoadError::Url`] for anything else that is not `http://HOST[:PORT][/PATH]`.
pub fn check_url(url: &str) -> Result<Target, LoadError> {
    let wrong = |why: &str| LoadError::Url { url: url.escape_debug().to_string(), why: why.to_string() };
    if url.get(..8).is_some_and(|s| s.eq_ignore_ascii_case("https://")) {
        return Err(LoadError::Tls { url: url.to_string() });
    }
    if !url.get(..7).is_some_and(|s| s.eq_ignore_ascii_case("http://")) {
        return Err(wrong("it does not begin with `http://`"));
    }
    if let Some(c) = url.chars().find(|c| c.is_control() || *c == ' ' || !c.is_ascii()) {
        return Err(wrong(&format!("it holds {c:?}, which must be written as %XX")));
    }
    let rest = url[7..].split('#').next().unwrap_or_default();
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
        None if port.is_empty() => 80,
        Some(digits) => match digits.parse::<u16>() {
            Ok(port) if port > 0 => port,
            _ => return Err(wrong(&format!("`{digits}` is not a port from 1 to 65535"))),
        },
        None => return Err(wrong("there is something between `]` and the path")),
    };
    let path = if path.starts_with('/') { path.to_string() } else { format!("/{path}") };
    Ok(Target { host: host.to_string(), port, authority: authority.to_string(), path })
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
pub fn guard(target: &Target, addresses: &[SocketAddr], owned: bool) -> Result<(), LoadError> {
    match addresses.iter().map(SocketAddr::ip).find(|ip| !owned && !is_private(*ip) && !is_own(*ip)) {
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
        check("http://[::1]:81/", expect!["::1 81 [::1]:81 /"]);
    }

    #[test]
    fn says_what_is_wrong() {
        check(
            "https://s1/",
            expect![
                "`https://s1/`: TLS is not spoken yet; load the plain `http://` port of the server, or one in front of TLS"
            ],
        );
        check(
            "s1/x",
            expect![
                "`s1/x` is not a URL that prony can load: it does not begin with `http://`; write it like `http://10.77.0.2:8080/1k`"
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
        let public = ["192.0.2.1:80".parse().unwrap()];
        let error = guard(&target, &public, false).unwrap_err().to_string();
        assert_eq!(
            error,
            "192.0.2.1 is a public address; if `shop.example` is your own, say `owned = true` in the stack file, or `--owned`"
        );
        guard(&target, &public, true).unwrap();
        guard(&target, &["127.0.0.1:80".parse().unwrap()], false).unwrap();
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
