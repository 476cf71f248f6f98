//! # TLS handshakes
//!
//! The hop's CPU goes to key exchanges and signatures, because connections are opened anew all the time.
//!
//! ## What it sees
//! The share of the hop's CPU samples in cryptography (libcrypto, libssl, or such functions built into the server), and
//! the TCP connections that it accepts and opens per request.
//!
//! ## Why it limits
//! A full handshake costs a signature: some hundred microseconds to milliseconds of CPU, as much as dozens of small
//! requests.
//!
//! ## Evidence
//! The cryptography of a request, less what enciphering its bytes costs, as a share of the capacity of the hop's CPUs, is
//! the score.
//!
//! ## What it is not
//! Enciphering of large answers on connections that are kept: then few connections are opened per request, or more
//! cryptography is done for each than a handshake costs. A server without TLS: then there is no cryptography in the profile, or it is
//! an application's own (passwords, tokens, checksums), and nothing in the profile speaks TLS.
//!
//! ## Fix
//! Kept connections (knobs `nginx.keepalive_timeout`, `nginx.keepalive_requests`), a session cache or tickets
//! (`ssl_session_cache`), an ECDSA key instead of RSA.
//!
//! ## References
//! nginx `ngx_http_ssl_module`, directive `ssl_session_cache`; RFC 8446 section 2.2 (resumption).

use super::client_connections_short::{REQUESTS, TIMEOUT};
use super::compression_cpu::dose;
use crate::cause::{Cause, Finding, Judgement, Kind, Layer, Scope, nginx_knob, predicted_gain, ruled_out};
use crate::facts::{Hop, Reader};
use crate::profile::{Code, Profile};
use prony_model::metric::{IF_RX_BYTES, IF_TX_BYTES, TCP_ACTIVE_OPENS, TCP_PASSIVE_OPENS};
use prony_model::{Gap, KnobId, Level, NginxDirective};

pub(super) const CAUSE: Cause = Cause {
    id: "tls-handshakes",
    layer: Layer::Connections,
    title: "TLS handshakes",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("tls_handshakes.rs"),
};

/// Cryptography by name.
const CRYPTOGRAPHY: Code = Code {
    work: "cryptography",
    modules: &["libcrypto", "libssl", "libgnutls", "libnettle", "libhogweed", "libwolfssl", "libmbed", "libgmp"],
    functions: &[
        "crypto/",
        "math/big.",
        "ring::",
        "ring_core_",
        "aws_lc",
        "rustls::",
        "rsaz_",
        "bn_",
        "BN_",
        "ecp_nistz256",
        "EC_",
        "RSA_",
        "SSL_",
        "tls_",
        "x25519_",
        "sha256_",
        "sha512_",
    ],
};
/// What only TLS runs: keys, signatures and hashes are an application's own as well.
const TLS: Code = Code {
    work: "TLS",
    modules: &["libssl", "libgnutls", "libwolfssl", "libmbedtls"],
    functions: &["SSL_", "ssl_", "tls_", "crypto/tls.", "rustls::"],
};
/// Connections per request from which handshakes count. A guess: twice what nginx makes by itself at its former default of 100 requests
/// per connection (`keepalive_requests` before 1.19.10).
const OPENS_PER_REQUEST: f64 = 0.02;
/// The most that a handshake may cost, in milliseconds of CPU: where its share of the cryptography is more, that is something else. A
/// guess: several times a signature by an RSA key of 4,096 bits (2 to 6 ms by `openssl speed rsa4096`).
const HANDSHAKE_MS_MAX: f64 = 20.0;
/// Connections per request below which one ends because so many requests came, and not because none is kept. A guess.
const AFTER_SEVERAL: f64 = 0.5;
/// Share of the limit below which they do not matter. A guess: 5 %.
const SHARE_MIN: f64 = 0.05;
/// Share of the samples from which a profile lists a library or a function.
const LISTED: f64 = 0.002;
/// Nanoseconds to encipher a byte. Cited: `openssl speed -evp aes-256-gcm` gives 2 GB/s and more on a core with AES
/// instructions.
const CIPHER_NS_PER_BYTE: f64 = 0.5;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let opens = hop.fact("connections opened or accepted / request", "", |r| opens_per_request(r))?;
    if opens.value < OPENS_PER_REQUEST {
        return ruled_out(&opens, OPENS_PER_REQUEST, "guess", "connections are kept, so handshakes are rare");
    }
    let profile = Profile::of(hop)?;
    let at = hop.at(Level::At)?;
    let part = profile.share_in(&CRYPTOGRAPHY);
    let all = profile.fact("all cryptography", part);
    if profile.limit_share(part)? < SHARE_MIN {
        return ruled_out(&all, SHARE_MIN, "guess", "cryptography costs little or there is none");
    }
    if !speaks_tls(hop, &profile) {
        let tls = profile.fact(TLS.work, 0.0);
        return ruled_out(
            &tls,
            LISTED,
            "definition: what the profile lists",
            "its cryptography is no TLS, but its own",
        );
    }
    let us = at.cpu_us_per_request()?;
    let bytes = (at.sum(&IF_RX_BYTES)? + at.sum(&IF_TX_BYTES)?) / at.requests()?;
    let handshakes = (part - bytes * CIPHER_NS_PER_BYTE / 1e3 / us).max(0.0);
    let share = profile.limit_share(handshakes)?;
    let seen = profile.fact("TLS handshakes", handshakes);
    if share < SHARE_MIN {
        return ruled_out(&seen, SHARE_MIN, "guess", "its cryptography is what enciphering the bytes costs");
    }
    let each = hop.fact("cryptography / connection", "ms", |_| Ok(us * handshakes / opens.value / 1e3))?;
    if each.value > HANDSHAKE_MS_MAX {
        return ruled_out(&each, HANDSHAKE_MS_MAX, "guess", "its cryptography is more than so few handshakes cost");
    }
    let claim = format!(
        "{} spends {:.0} % of its CPU time on handshakes, with {:.2} connections per request",
        hop.name,
        handshakes * 100.0,
        opens.value
    );
    // How long a client's connection lasts is the server's to say; of a connection to an upstream it is not.
    let by_clients = at.sum(&TCP_PASSIVE_OPENS)? >= at.sum(&TCP_ACTIVE_OPENS)?;
    let (directive, value) = match opens.value < AFTER_SEVERAL {
        true => (NginxDirective::KeepaliveRequests, REQUESTS),
        false => (NginxDirective::KeepaliveTimeout, TIMEOUT),
    };
    let keeping = nginx_knob(hop, KnobId::NginxDirective(directive), value);
    Finding::new(opens, OPENS_PER_REQUEST, "guess", &claim, share)
        .and(Ok(seen), "cryptography, less what enciphering the bytes costs")
        .and(profile.us_per_request("TLS handshakes", handshakes), "what handshakes cost each request")
        .and(Ok(all), "share of libcrypto, libssl and the like")
        .mend(
            "keep client connections (keepalive_timeout, keepalive_requests), resume sessions (ssl_session_cache, \
             ssl_session_tickets), and use an ECDSA key",
            keeping.filter(|_| by_clients),
        )
        .gaining(predicted_gain(hop, share))
        .rising(profile.cpus("handshakes", handshakes))
        .tested_by(dose(hop)?)
        .fires()
}

/// Whether clients ask it over TLS, or something that only TLS runs was seen.
fn speaks_tls(hop: &Hop<'_>, profile: &Profile<'_>) -> bool {
    (hop.is_entry() && is_tls(&hop.run.stack.entry)) || profile.has(&TLS)
}

/// Whether whoever asks there does so over TLS.
fn is_tls(url: &str) -> bool {
    url.starts_with("https:")
}

/// A server of TLS makes a handshake for what it accepts, a client of TLS for what it opens. Where nobody knows whether it is one, it is.
fn opens_per_request(reader: &Reader<'_>) -> Result<f64, Gap> {
    let hop = &reader.hop;
    let accepts = !hop.is_entry() || is_tls(&hop.run.stack.entry);
    let may_be = |target: &str| is_tls(target) || target.starts_with('$');
    let targets: Vec<&str> = hop.settings("nginx.config.proxy_pass").collect();
    let calls = targets.is_empty() || targets.into_iter().any(may_be);
    let counted = |metric, counts: bool| if counts { reader.sum(metric) } else { Ok(0.0) };
    Ok((counted(&TCP_PASSIVE_OPENS, accepts)? + counted(&TCP_ACTIVE_OPENS, calls)?) / reader.requests()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::Dose;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::PROFILE_TOTAL;
    use proptest::prelude::*;

    fn lab(opens: f64, crypto: f64) -> Lab {
        with_code(opens, &[("[libcrypto.so.3]", "libcrypto.so.3", crypto), ("[libssl.so.3]", "libssl.so.3", 0.002)])
    }

    fn with_code(opens: f64, code: &[(&'static str, &'static str, f64)]) -> Lab {
        let mut lab = Lab::healthy();
        lab.stack.entry = lab.stack.entry.replace("http:", "https:");
        lab.throughput(940.0)
            .profiled("lb", &[code, &[("tcp_v4_rcv", "kernel", 0.1)]].concat())
            .per_second("lb", &TCP_PASSIVE_OPENS, "", 940.0 * opens)
            .per_second("lb", &TCP_ACTIVE_OPENS, "", 0.0)
            .per_second("lb", &IF_RX_BYTES, "eth0", 940.0 * 2_000.0)
            .per_second("lb", &IF_TX_BYTES, "eth0", 940.0 * 5_000.0)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(1.0, 0.7)).unwrap();
        assert!(found.score > 0.6 && found.dose == Dose::Cpu, "{}", found.score);
        assert_eq!(found.remedies[0].knob.as_ref().unwrap().value, "75s");
        let to_servers = lab(1.0, 0.7).per_second("lb", &TCP_ACTIVE_OPENS, "", 1_000.0);
        assert_eq!(finding(CAUSE.id, "lb", &to_servers).unwrap().remedies[0].knob, None, "nothing that clients do");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.01, 0.7)), 0.0, "connections are kept: that is enciphering");
        let rare = finding(CAUSE.id, "lb", &lab(0.04, 0.7)).unwrap();
        assert!(rare.score > 0.6, "rare handshakes of 19 ms each fill the CPU all the same");
        assert_eq!(rare.remedies[0].knob.as_ref().unwrap().value, "100000", "a connection ends after so many requests");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.03, 0.7)), 0.0, "no handshake costs 25 ms");
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0, 0.0)), 0.0, "no TLS");
        assert_eq!(score(CAUSE.id, "lb", &lab(1.0, 0.05)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(1.0, 0.06)) > 0.0);
        let large = lab(0.06, 0.5).per_second("lb", &IF_TX_BYTES, "eth0", 940.0 * 2e6);
        assert_eq!(score(CAUSE.id, "lb", &large), 0.0, "1 ms for 2 MB is what enciphering them costs");
    }

    #[test]
    fn an_application_that_hashes_speaks_no_tls() {
        // A proxy opens a connection to it for each request.
        let app = |code: &[(&'static str, &'static str, f64)]| {
            let opens = with_code(0.0, &[]).per_second("s1", &TCP_PASSIVE_OPENS, "", 940.0).throughput(940.0);
            let bytes = [&IF_RX_BYTES, &IF_TX_BYTES].into_iter();
            let lab = bytes.fold(opens, |lab, metric| lab.per_second("s1", metric, "eth0", 940.0 * 2_000.0));
            lab.profiled("s1", code).cpu("1", 0.8, 0.1, 0.05).own("s1", 0.9)
        };
        let hashes = [("[libcrypto.so.3]", "libcrypto.so.3", 0.5), ("main", "python3.11", 0.5)];
        assert_eq!(score(CAUSE.id, "s1", &app(&hashes)), 0.0);
        let tls = [("[libcrypto.so.3]", "libcrypto.so.3", 0.5), ("[libssl.so.3]", "libssl.so.3", 0.01)];
        assert!(score(CAUSE.id, "s1", &app(&tls)) > 0.3);
        let go = [("crypto/internal/fips140/bigmod.addMulVVW2048", "app", 0.5)];
        assert_eq!(score(CAUSE.id, "s1", &app(&go)), 0.0);
        let caller = "crypto/tls.(*Conn).serverHandshake";
        assert!(score(CAUSE.id, "s1", &app(&go).gauge("s1", &PROFILE_TOTAL, caller, 0.6)) > 0.3);
        let unnamed = with_code(1.0, &[("[libcrypto.so.3]", "libcrypto.so.3", 0.5)]);
        assert!(score(CAUSE.id, "lb", &unnamed) > 0.4, "clients ask over TLS: what has no name may be it");
    }

    #[test]
    fn only_connections_that_may_speak_tls_count() {
        let opening = |entry: &str, proxy_pass: Option<&str>| {
            let lab = lab(0.0, 0.7).per_second("lb", &TCP_ACTIVE_OPENS, "", 940.0);
            let set = |lab: Lab, targets: &str| lab.setting("lb", "nginx.config.proxy_pass", targets);
            let mut run = proxy_pass.into_iter().fold(lab, set).run();
            run.stack.entry = entry.to_string();
            matches!(check(&Hop { run: &run, name: "lb" }), Ok(Judgement::Fires(_)))
        };
        assert!(opening("https://10.77.0.2/", None), "nobody knows");
        assert!(opening("http://10.77.0.2/", Some("http://a | https://b")));
        assert!(opening("http://10.77.0.2/", Some("$scheme://b")));
        assert!(!opening("https://10.77.0.2/", Some("http://a")), "none to the servers, and clients keep theirs");
        let mut plain = lab(1.0, 0.7);
        plain.stack.entry = plain.stack.entry.replace("https:", "http:");
        assert_eq!(score(CAUSE.id, "lb", &plain), 0.0, "clients open theirs anew, but plain");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            let of = |share: f64| score(CAUSE.id, "lb", &lab(1.0, share));
            prop_assert!(of(a.min(b)) <= of(a.max(b)) + 1e-9);
        }
    }
}
