//! Servers that misbehave below HTTP, in TLS: counted as failures of TLS, the load ends and goes on with others.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking; clippy sees only the test functions themselves")]

#[path = "server/raw.rs"]
mod raw;

use prony_model::LoadPlan;
use prony_model::tls::TlsPlan;
use raw::{Kind, READ, TIMEOUT, TLS, Trial, load, plan_to, read_request, server};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

/// A server's identity, made anew for each run of the tests.
static CONFIG: LazyLock<Arc<ServerConfig>> = LazyLock::new(|| {
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_string()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![own.cert.der().clone()], key.into());
    Arc::new(config.unwrap())
});

fn secured(stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
    StreamOwned::new(ServerConnection::new(Arc::clone(&CONFIG)).unwrap(), stream)
}

fn well(stream: TcpStream) {
    raw::well(secured(stream));
}

fn plan(port: u16) -> LoadPlan {
    let tls = TlsPlan { insecure: true, ..TlsPlan::default() };
    LoadPlan { url: format!("https://127.0.0.1:{port}/"), tls, ..plan_to(port) }
}

fn check(what: &str, kind: &Kind, hostile: impl Fn(TcpStream) + Send + Sync + 'static) {
    // One connection asks whether anybody is there, and whether its certificate is accepted.
    Trial { plan, well, asked_first: 1 }.check(what, kind, hostile);
}

/// Takes what the client says until it closes.
fn drain(mut stream: &TcpStream) {
    while stream.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {}
}

/// A server that answers the client's first message with these bytes and says no more.
fn check_hello(what: &str, bytes: &'static [u8], ends: bool) {
    check(what, &TLS, move |mut stream| {
        stream.read_exact(&mut [0; 5]).ok();
        stream.write_all(bytes).ok();
        if ends {
            stream.shutdown(Shutdown::Write).ok();
        }
        drain(&stream);
    });
}

/// A server that answers the client's first message with these bytes without end.
fn check_flood(what: &str, first: &'static [u8], again: &'static [u8]) {
    check(what, &TLS, move |mut stream| {
        stream.read_exact(&mut [0; 5]).ok();
        let block = again.repeat(1 + 10_000 / again.len());
        let mut said = stream.write_all(first);
        while said.is_ok() {
            said = stream.write_all(&block);
        }
    });
}

#[test]
fn a_good_server_serves() {
    let result = load(&plan(server(well))).unwrap();
    assert!(result.completed > 0, "{result:?}");
    assert_eq!(result.errors.total(), 0, "{:?}", result.errors);
}

#[test]
fn what_is_no_handshake_is_counted_as_tls() {
    check_hello("an alert", b"\x15\x03\x03\x00\x02\x02\x28", false);
    check_hello("plain HTTP", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", false);
    check_hello("a record of 64 KiB", b"\x16\x03\x03\xff\xff\x02", false);
    check_hello("an answer before the handshake", b"\x17\x03\x03\x00\x05hello", false);
    check_hello("the end", b"", true);
    check_hello("the end within a record", b"\x16\x03\x03\x00\x50\x02\x00\x00\x4c\x03\x03", true);
    // With bytes unread, the kernel makes a reset of it.
    check("a reset", &TLS, |stream| drop(stream.peek(&mut [0])));
}

#[test]
fn floods_in_the_handshake_are_counted_as_tls() {
    check_flood("empty records", b"", b"\x16\x03\x03\x00\x00");
    check_flood("warnings", b"", b"\x15\x03\x03\x00\x02\x01\x5a");
    check_flood("changes of the cipher", b"", b"\x14\x03\x03\x00\x01\x01");
    // A message of 16 MiB, in records of 16 bytes.
    check_flood(
        "a message without end",
        b"\x16\x03\x03\x00\x04\x02\xff\xff\xff",
        b"\x16\x03\x03\x00\x10aaaaaaaaaaaaaaaa",
    );
}

#[test]
fn silence_in_the_handshake_is_a_timeout() {
    check("says nothing", &TIMEOUT, |stream| drain(&stream));
    check("a record byte by byte", &TIMEOUT, |mut stream| {
        stream.read_exact(&mut [0; 5]).ok();
        let mut said = stream.write_all(b"\x16\x03\x03\x20\x00\x02");
        while said.is_ok() {
            thread::sleep(Duration::from_millis(20));
            said = stream.write_all(b"\0");
        }
    });
}

/// A server that makes the handshake, reads a request, answers half, and then says this on the bare socket.
fn check_later(what: &str, kind: &Kind, bytes: &'static [u8], floods: bool) {
    check(what, kind, move |stream| {
        let mut tls = secured(stream);
        read_request(&mut tls);
        tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").and_then(|()| tls.flush()).ok();
        let mut said = tls.sock.write_all(bytes);
        while floods && said.is_ok() {
            said = tls.sock.write_all(&bytes.repeat(1000));
        }
        tls.sock.shutdown(Shutdown::Write).ok();
        drain(&tls.sock);
    });
}

#[test]
fn what_is_not_encrypted_is_counted_as_tls() {
    check_later("a bare alert", &TLS, b"\x15\x03\x03\x00\x02\x02\x50", false);
    check_later("the rest in plain text", &TLS, b"plain text", false);
    check_later("a record that was not sealed", &TLS, b"\x17\x03\x03\x00\x20aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false);
    check_later("changes of the cipher without end", &TLS, b"\x14\x03\x03\x00\x01\x01", true);
}

/// An end without a word could be an attacker's: what came is not all.
#[test]
fn an_early_end_is_a_failure_to_read() {
    check_later("the end without goodbye", &READ, b"", false);
    check("goodbye in mid-body", &READ, |stream| {
        let mut tls = secured(stream);
        read_request(&mut tls);
        tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf").ok();
        tls.conn.send_close_notify();
        tls.flush().ok();
        drain(&tls.sock);
    });
}
