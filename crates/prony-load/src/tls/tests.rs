//! TLS against rustls' server: in memory where bytes matter, over sockets where the kernel does.

use super::server::{Authority, Pair, config, self_signed};
use super::session::End;
use super::*;
use crate::sys::Socket;
use crate::target::Endpoint;
use crate::wire::{Received, Wire};
use expect_test::{Expect, expect};
use proptest::prelude::*;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const NAME: &str = "server.test";

fn plan(authority: &Authority) -> TlsPlan {
    TlsPlan { ca_pem: Some(authority.pem.clone()), ..TlsPlan::default() }
}

fn client(plan: &TlsPlan, protocol: Protocol) -> Tls {
    Tls::from_plan(plan, NAME, protocol).unwrap()
}

/// A server for both versions, and whom to trust for it.
fn server(name: &str) -> (Authority, ServerConfig) {
    let authority = Authority::new("the authority");
    let config = config(&authority.issue(name), &[&TLS12, &TLS13], None);
    (authority, config)
}

/// The same without tickets: whoever closes with one unread resets the connection, and what it had said is lost.
fn server_without_tickets() -> (Authority, ServerConfig) {
    let (authority, mut config) = server(NAME);
    config.send_tls13_tickets = 0;
    (authority, config)
}

/// How the client sees the end of a handshake.
fn check(plan: &TlsPlan, protocol: Protocol, server: ServerConfig, want: Expect) {
    let mut pair = Pair::new(&client(plan, protocol), &Arc::new(server));
    pair.carry(&[20_000]);
    want.assert_eq(&match pair.session.end() {
        None if pair.session.is_ready() => format!("ready, {:?}", pair.server.protocol_version().unwrap()),
        None => "waits".to_string(),
        Some(end) => format!("{end:?}"),
    });
}

#[test]
fn a_certificate_must_be_signed_for_the_name_by_a_trusted_authority() {
    let (authority, right) = server(NAME);
    check(&plan(&authority), Protocol::Http1, right, expect!["ready, TLSv1_3"]);
    let wrong = config(&authority.issue("other.test"), &[&TLS13], None);
    check(
        &plan(&authority),
        Protocol::Http1,
        wrong,
        expect![[
            r#"Failed("certificate not valid for name \"server.test\"; certificate is only valid for DnsName(\"other.test\"); say which name is right in `server_name` (--server-name), or ask for `insecure` (-k)")"#
        ]],
    );
    let named = TlsPlan { server_name: Some("other.test".to_string()), ..plan(&authority) };
    let other = config(&authority.issue("other.test"), &[&TLS13], None);
    check(&named, Protocol::Http1, other, expect!["ready, TLSv1_3"]);
    let stranger = config(&Authority::new("a stranger").issue(NAME), &[&TLS13], None);
    check(
        &plan(&authority),
        Protocol::Http1,
        stranger,
        expect![[
            r#"Failed("the server's certificate comes from an authority that is not trusted here; name that authority's certificate in `ca_file` (--cacert), or ask for `insecure` (-k)")"#
        ]],
    );
}

#[test]
fn insecure_accepts_anything_when_asked() {
    let insecure = TlsPlan { insecure: true, ..TlsPlan::default() };
    for versions in [&[&TLS12], &[&TLS13]] {
        let mut pair =
            Pair::new(&client(&insecure, Protocol::Http1), &Arc::new(config(&self_signed("x"), versions, None)));
        pair.carry(&[20_000]);
        assert!(pair.session.is_ready(), "{:?}", pair.session.end());
    }
}

#[test]
fn a_certificate_that_is_named_itself_is_trusted_for_its_name_alone() {
    let identity = self_signed(NAME);
    let named = TlsPlan { ca_pem: Some(identity.chain_pem.clone()), ..TlsPlan::default() };
    check(&named, Protocol::Http1, config(&identity, &[&TLS13], None), expect!["ready, TLSv1_3"]);
    let elsewhere = Tls::from_plan(&named, "elsewhere.test", Protocol::Http1).unwrap();
    let mut pair = Pair::new(&elsewhere, &Arc::new(config(&identity, &[&TLS13], None)));
    pair.carry(&[20_000]);
    assert!(!pair.session.is_ready());
}

#[test]
fn the_server_hears_why_it_was_refused() {
    let (_, config) = server(NAME);
    let mut pair = Pair::new(&client(&plan(&Authority::new("another")), Protocol::Http1), &Arc::new(config));
    pair.carry(&[20_000]);
    assert_eq!(pair.complaint, Some(rustls::Error::AlertReceived(AlertDescription::UnknownCA)));
}

/// The second handshake is accepted from memory; a chain that differs is not.
#[test]
fn what_was_accepted_is_remembered_byte_by_byte() {
    let (authority, right) = server(NAME);
    let (tls, right) = (client(&plan(&authority), Protocol::Http1), Arc::new(right));
    for _ in 0..2 {
        let mut pair = Pair::new(&tls, &right);
        pair.carry(&[20_000]);
        assert!(pair.session.is_ready(), "{:?}", pair.session.end());
    }
    let mut pair = Pair::new(&tls, &Arc::new(config(&Authority::new("a stranger").issue(NAME), &[&TLS13], None)));
    pair.carry(&[20_000]);
    assert!(!pair.session.is_ready());
}

#[test]
fn what_was_accepted_for_one_name_is_not_for_another() {
    let authority = Authority::new("the authority");
    let trusted = [CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()];
    let trusting = Trusting::new(&trusted, &Arc::new(ring::default_provider())).unwrap();
    let chain = authority.issue(NAME).chain_pem;
    let chain = CertificateDer::from_pem_slice(chain.as_bytes()).unwrap();
    let accepts = |name: &'static str| {
        let (name, now) = (ServerName::try_from(name).unwrap(), rustls::pki_types::UnixTime::now());
        trusting.verify_server_cert(&chain, &[], &name, &[], now).is_ok()
    };
    assert_eq!(
        [accepts("other.test"), accepts(NAME), accepts("other.test"), accepts(NAME)],
        [false, true, false, true]
    );
}

/// A server with the right certificate and another key: only the signature over the handshake can tell.
#[test]
fn the_signature_is_verified_also_when_the_chain_is_remembered() {
    let (authority, _) = server(NAME);
    let (right, thief) = (authority.issue(NAME), authority.issue("thief.test"));
    let tls = client(&plan(&authority), Protocol::Http1);
    let mut pair = Pair::new(&tls, &Arc::new(config(&right, &[&TLS13], None)));
    pair.carry(&[20_000]);
    assert!(pair.session.is_ready());
    let chain = CertificateDer::pem_slice_iter(right.chain_pem.as_bytes()).map(Result::unwrap).collect();
    let key =
        ring::sign::any_supported_type(&PrivateKeyDer::from_pem_slice(thief.key_pem.as_bytes()).unwrap()).unwrap();
    let stolen = Arc::new(rustls::sign::SingleCertAndKey::from(rustls::sign::CertifiedKey::new(chain, key)));
    let stolen = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(stolen);
    check(
        &plan(&authority),
        Protocol::Http1,
        stolen.clone(),
        expect![[
            r#"Failed("the server's certificate is not accepted (BadSignature); renew it, or ask for `insecure` (-k)")"#
        ]],
    );
    let mut pair = Pair::new(&tls, &Arc::new(stolen));
    pair.carry(&[20_000]);
    assert!(!pair.session.is_ready(), "remembered chains must not stand for signatures");
}

#[test]
fn a_client_certificate_is_shown_when_asked_for() {
    let authority = Authority::new("the authority");
    let identity = authority.issue(NAME);
    let me = authority.issue("client.test");
    let shown =
        TlsPlan { certificate_pem: Some(me.chain_pem.clone()), key_pem: Some(me.key_pem.clone()), ..plan(&authority) };
    for versions in [&[&TLS12], &[&TLS13]] {
        let demanding = config(&identity, versions, Some(&authority));
        let mut pair = Pair::new(&client(&shown, Protocol::Http1), &Arc::new(demanding));
        pair.carry(&[20_000]);
        assert!(pair.session.is_ready() && pair.server.peer_certificates().is_some(), "{:?}", pair.session.end());
    }
    check(
        &plan(&authority),
        Protocol::Http1,
        config(&identity, &[&TLS13], Some(&authority)),
        expect![[
            r#"Failed("the server sent the alert CertificateRequired; it asks for a client's certificate: name it in `certificate_file` and `key_file` (--cert, --key)")"#
        ]],
    );
}

#[test]
fn http2_must_be_agreed_on_and_http1_need_not() {
    let speaks = |protocols: &[&[u8]]| {
        let (authority, mut config) = server(NAME);
        config.alpn_protocols = protocols.iter().map(|p| p.to_vec()).collect();
        (plan(&authority), config)
    };
    let (plan, both) = speaks(&[b"http/1.1", b"h2"]);
    check(&plan, Protocol::Http2, both, expect!["ready, TLSv1_3"]);
    let (plan, mute) = speaks(&[]);
    check(
        &plan,
        Protocol::Http2,
        mute,
        expect![[
            r#"Failed("the server does not speak HTTP/2 here (it did not choose `h2` by ALPN); switch HTTP/2 on in the server, or leave out `--http2` (`workload.http2` of a stack file)")"#
        ]],
    );
    let (plan, old) = speaks(&[b"http/1.1"]);
    check(
        &plan,
        Protocol::Http2,
        old,
        expect![[
            r#"Failed("the server does not speak HTTP/2 here (it did not choose `h2` by ALPN); switch HTTP/2 on in the server, or leave out `--http2` (`workload.http2` of a stack file)")"#
        ]],
    );
    let (plan, mute) = speaks(&[]);
    check(&plan, Protocol::Http1, mute, expect!["ready, TLSv1_3"]);
}

#[test]
fn sessions_are_resumed_only_when_asked_for() {
    for (versions, resume) in [([&TLS12], false), ([&TLS12], true), ([&TLS13], false), ([&TLS13], true)] {
        let authority = Authority::new("the authority");
        let server = Arc::new(config(&authority.issue(NAME), &versions, None));
        let tls = client(&TlsPlan { resume, ..plan(&authority) }, Protocol::Http1);
        let mut kinds = Vec::new();
        for _ in 0..3 {
            let mut pair = Pair::new(&tls, &server);
            pair.carry(&[20_000]);
            pair.session.seal(b"hello", &mut pair.out).unwrap();
            pair.carry(&[20_000]);
            assert_eq!(pair.asked, b"hello");
            kinds.push(pair.server.handshake_kind().unwrap());
        }
        let later = if resume { HandshakeKind::Resumed } else { HandshakeKind::Full };
        assert_eq!(kinds, [HandshakeKind::Full, later, later], "{versions:?}, resume {resume}");
    }
}

#[test]
fn aes_128_gcm_and_x25519_are_preferred() {
    let (authority, mut config) = server(NAME);
    config.ignore_client_order = false;
    let mut pair = Pair::new(&client(&plan(&authority), Protocol::Http1), &Arc::new(config));
    pair.carry(&[20_000]);
    assert_eq!(pair.server.negotiated_cipher_suite().unwrap().suite(), rustls::CipherSuite::TLS13_AES_128_GCM_SHA256);
    assert_eq!(pair.server.negotiated_key_exchange_group().unwrap().name(), rustls::NamedGroup::X25519);
}

/// Every suite that is offered: handshake and data both ways.
#[test]
fn every_suite_carries_data() {
    let authority = Authority::new("the authority");
    for suite in SUITES {
        let provider = CryptoProvider { cipher_suites: vec![suite], ..ring::default_provider() };
        let mut config = config(&authority.issue(NAME), &[&TLS12, &TLS13], None);
        // The certificates of these tests are ECDSA, so the RSA suites of TLS 1.2 cannot be chosen.
        if format!("{:?}", suite.suite()).contains("RSA") && !format!("{:?}", suite.suite()).contains("ECDSA") {
            continue;
        }
        let resolver = config.cert_resolver.clone();
        config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap_or_else(|_| panic!("{suite:?}"))
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        let mut pair = Pair::new(&client(&plan(&authority), Protocol::Http1), &Arc::new(config));
        pair.carry(&[20_000]);
        assert_eq!(pair.server.negotiated_cipher_suite().map(|s| s.suite()), Some(suite.suite()));
        exchange(&mut pair, &[7; 40_000], &[3, 20_000]);
    }
}

/// Sends `data` both ways and looks whether it arrives.
fn exchange(pair: &mut Pair, data: &[u8], pieces: &[usize]) {
    pair.session.seal(data, &mut pair.out).unwrap_or_else(|e| panic!("{e}: {:?}", pair.session.end()));
    pair.carry(pieces);
    assert!(pair.asked == data, "{} of {} bytes reached the server", pair.asked.len(), data.len());
    // The server's own buffer is limited, and then it takes less.
    let mut sent = 0;
    while sent < data.len() {
        sent += pair.server.writer().write(&data[sent..]).unwrap();
        pair.carry(pieces);
    }
    assert!(pair.heard == data, "{} of {} bytes reached the client", pair.heard.len(), data.len());
    pair.asked.clear();
    pair.heard.clear();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn pieces_of_any_size_make_the_same_connection(
        pieces in proptest::collection::vec(1usize..3000, 1..8),
        data in proptest::collection::vec(any::<u8>(), 0..40_000),
        old in any::<bool>(),
        resume in any::<bool>(),
    ) {
        let authority = Authority::new("the authority");
        let versions = if old { [&TLS12] } else { [&TLS13] };
        let server = Arc::new(config(&authority.issue(NAME), &versions, None));
        let tls = client(&TlsPlan { resume, ..plan(&authority) }, Protocol::Http1);
        for _ in 0..2 {
            let mut pair = Pair::new(&tls, &server);
            pair.carry(&pieces);
            prop_assert!(pair.session.is_ready(), "{:?}", pair.session.end());
            exchange(&mut pair, &data, &pieces);
            pair.server.send_close_notify();
            pair.carry(&pieces);
            prop_assert_eq!(pair.session.end(), Some(&End::Closed));
        }
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000), after in any::<bool>(), kind in 20u8..24) {
        let insecure = TlsPlan { insecure: true, ..TlsPlan::default() };
        let server = Arc::new(config(&self_signed(NAME), &[&TLS12, &TLS13], None));
        let mut pair = Pair::new(&client(&insecure, Protocol::Http1), &server);
        if after {
            pair.carry(&[20_000]);
        }
        // Some with the header of a record, so that they come further.
        let length = (bytes.len() as u16).to_be_bytes();
        pair.deliver(&[kind, 3, 3, length[0], length[1]]);
        pair.deliver(&bytes);
        pair.deliver(&bytes);
        prop_assert!(pair.heard.is_empty());
    }
}

#[test]
fn one_byte_at_a_time_is_enough() {
    let (authority, config) = server(NAME);
    let mut pair = Pair::new(&client(&plan(&authority), Protocol::Http1), &Arc::new(config));
    pair.carry(&[1]);
    exchange(&mut pair, &[1; 1000], &[1]);
}

#[test]
fn keys_may_change_while_data_flows() {
    let authority = Authority::new("the authority");
    let config = Arc::new(config(&authority.issue(NAME), &[&TLS13], None));
    let mut pair = Pair::new(&client(&plan(&authority), Protocol::Http1), &config);
    pair.carry(&[20_000]);
    for _ in 0..5 {
        // This also asks for new keys of the client.
        pair.server.refresh_traffic_keys().unwrap();
        pair.carry(&[20_000]);
        let mut record = |text: &[u8]| {
            let from = pair.out.len();
            pair.session.seal(text, &mut pair.out).unwrap();
            pair.out.len() - from
        };
        // Header, message, its type within and its tag: RFC 8446, sections 4.6.3 and 5.2.
        assert_eq!(record(b"x") - record(b"x"), 5 + 5 + 1 + 16, "the first brings the key update along");
        pair.carry(&[20_000]);
        assert_eq!(std::mem::take(&mut pair.asked), b"xx");
        exchange(&mut pair, &[5; 20_000], &[700]);
    }
}

#[test]
fn a_flood_of_records_without_data_ends_the_connection() {
    let authority = Authority::new("the authority");
    let config = Arc::new(config(&authority.issue(NAME), &[&TLS13], None));
    let mut pair = Pair::new(&client(&plan(&authority), Protocol::Http1), &config);
    pair.carry(&[20_000]);
    for _ in 0..70 {
        pair.server.refresh_traffic_keys().unwrap();
        pair.carry(&[20_000]);
    }
    assert_eq!(pair.session.end(), Some(&End::Failed("more than 64 records without data".to_string())));
}

/// The server alerts because of a record that it cannot open; what it had said before arrives first.
#[test]
fn an_alert_is_named_and_comes_after_the_data_before_it() {
    for versions in [[&TLS12], [&TLS13]] {
        let authority = Authority::new("the authority");
        let config = Arc::new(config(&authority.issue(NAME), &versions, None));
        let mut pair = Pair::new(&client(&plan(&authority), Protocol::Http1), &config);
        pair.carry(&[20_000]);
        pair.server.writer().write_all(b"half an answer").unwrap();
        pair.out.extend_from_slice(&[23, 3, 3, 0, 40]);
        pair.out.extend_from_slice(&[0; 40]);
        pair.carry(&[20_000]);
        assert_eq!(pair.heard, b"half an answer");
        let want = End::Failed("the server sent the alert BadRecordMac".to_string());
        assert_eq!(pair.session.end(), Some(&want), "{versions:?}");
    }
}

#[test]
fn what_is_not_tls_is_called_so() {
    let insecure = TlsPlan { insecure: true, ..TlsPlan::default() };
    let (_, config) = server(NAME);
    let mut pair = Pair::new(&client(&insecure, Protocol::Http1), &Arc::new(config));
    pair.deliver(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let want = "what the server sent is not TLS (InvalidContentType); is this port its https port?";
    assert_eq!(pair.session.end(), Some(&End::Failed(want.to_string())));
}

#[test]
fn what_cannot_be_used_names_the_key_of_the_stack_file() {
    let authority = Authority::new("the authority");
    let (one, other) = (authority.issue("a"), authority.issue("b"));
    let with = |change: &dyn Fn(&mut TlsPlan)| {
        let mut plan = plan(&authority);
        change(&mut plan);
        Tls::from_plan(&plan, NAME, Protocol::Http1).unwrap_err().to_string()
    };
    let check = |change: &dyn Fn(&mut TlsPlan), want: Expect| want.assert_eq(&with(change));
    check(
        &|p| p.server_name = Some("not a name".to_string()),
        expect!["`workload.tls.server_name`: `not a name` is neither a DNS name nor an IP address"],
    );
    check(&|p| p.ca_pem = Some("?".to_string()), expect!["`workload.tls.ca_file`: it holds no certificate in PEM"]);
    check(
        &|p| p.certificate_pem = Some(one.chain_pem.clone()),
        expect!["`workload.tls.key_file`: `certificate_file` is of no use without its key"],
    );
    check(
        &|p| {
            p.certificate_pem = Some(one.chain_pem.clone());
            p.key_pem = Some(other.key_pem.clone());
        },
        expect![
            "`workload.tls.key_file`: the key does not serve the certificate (keys may not be consistent: KeyMismatch)"
        ],
    );
    check(
        &|p| {
            p.certificate_pem = Some(one.chain_pem.clone());
            p.key_pem = Some(one.chain_pem.clone());
        },
        expect!["`workload.tls.key_file`: it holds no private key in PEM (no items found)"],
    );
}

#[test]
fn files_become_text() {
    let read = |path: &str| match path {
        "ca.pem" => Ok(b"text".to_vec()),
        "ca.der" => Ok(vec![0xff]),
        _ => Err(ErrorKind::NotFound.into()),
    };
    let with = |ca_file: &str| TlsSpec { ca_file: Some(ca_file.to_string()), resume: true, ..TlsSpec::default() };
    let plan = plan_from(&with("ca.pem"), &read).unwrap();
    assert_eq!(plan, TlsPlan { ca_pem: Some("text".to_string()), resume: true, ..TlsPlan::default() });
    let error = plan_from(&with("gone.pem"), &read).unwrap_err().to_string();
    assert!(error.starts_with("`workload.tls.ca_file`: gone.pem cannot be read ("), "{error}");
    let error = plan_from(&with("ca.der"), &read).unwrap_err().to_string();
    assert!(error.contains("ca.der is not PEM"), "{error}");
}

/// Serves one connection over a socket on a thread of its own.
fn serve(serve: impl FnOnce(TcpStream) + Send + 'static) -> (Endpoint, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (Endpoint::Tcp(address), thread::spawn(move || serve(listener.accept().unwrap().0)))
}

fn secured(config: ServerConfig, stream: TcpStream) -> StreamOwned<ServerConnection, TcpStream> {
    StreamOwned::new(ServerConnection::new(Arc::new(config)).unwrap(), stream)
}

/// Again and again until it no longer would block.
fn patiently<T>(mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..10_000 {
        match act() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
    panic!("nothing happened for 10 s");
}

fn dial(endpoint: &Endpoint, tls: &Tls) -> Wire {
    let socket = Socket::open(endpoint).unwrap();
    socket.connect(endpoint).unwrap();
    let mut wire = Wire::secured(socket, tls).unwrap();
    wire.connected().unwrap();
    wire
}

/// Carries the handshake on until it is done, as the engine does when no request waits.
fn shake(wire: &mut Wire, buffer: &mut [u8]) -> io::Result<()> {
    patiently(|| match wire.receive(buffer, None) {
        Err(error) if error.kind() == ErrorKind::WouldBlock && wire.is_ready() => Ok(()),
        Err(error) => Err(error),
        Ok(received) => panic!("{received:?} before anything was asked"),
    })?;
    assert!(wire.has_unsent(), "the last word of the handshake waits");
    assert_eq!(patiently(|| wire.send(&[]))?, 0);
    assert!(!wire.has_unsent());
    Ok(())
}

#[test]
fn large_bodies_pass_both_ways_and_close_notify_ends_in_order() {
    const BYTES: usize = 3_000_000;
    let (authority, config) = server(NAME);
    let (endpoint, server) = serve(move |stream| {
        let mut stream = secured(config, stream);
        let mut body = vec![0; BYTES];
        // Slowly, so that the socket fills.
        for part in body.chunks_mut(100_000) {
            stream.read_exact(part).unwrap();
            thread::sleep(Duration::from_millis(2));
        }
        stream.write_all(&body).unwrap();
        stream.conn.send_close_notify();
        stream.flush().unwrap();
    });
    let mut wire = dial(&endpoint, &client(&plan(&authority), Protocol::Http1));
    let mut buffer = vec![0; 64 * 1024];
    shake(&mut wire, &mut buffer).unwrap();
    let body: Vec<u8> = (0..BYTES).map(|n| (n / 7) as u8).collect();
    let mut sent = 0;
    while sent < BYTES {
        let count = patiently(|| wire.send(&body[sent..])).unwrap();
        assert!(count > 0);
        sent += count;
    }
    let mut heard = Vec::new();
    while heard.len() < BYTES {
        let received = patiently(|| wire.receive(&mut buffer, None)).unwrap();
        heard.extend_from_slice(&buffer[..received.count]);
    }
    assert!(heard == body);
    assert_eq!(patiently(|| wire.receive(&mut buffer, None)).unwrap().count, 0);
    server.join().unwrap();
}

#[test]
fn an_end_without_close_notify_is_a_truncation() {
    let (authority, config) = server(NAME);
    let (endpoint, server) = serve(move |stream| {
        let mut stream = secured(config, stream);
        let mut asked = [0; 5];
        stream.read_exact(&mut asked).unwrap();
        stream.write_all(b"half").unwrap();
    });
    let mut wire = dial(&endpoint, &client(&plan(&authority), Protocol::Http1));
    let mut buffer = vec![0; 64 * 1024];
    shake(&mut wire, &mut buffer).unwrap();
    patiently(|| wire.send(b"hello")).unwrap();
    let received = patiently(|| wire.receive(&mut buffer, None)).unwrap();
    assert_eq!(&buffer[..received.count], b"half");
    let error = patiently(|| wire.receive(&mut buffer, None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
    server.join().unwrap();
}

#[test]
fn a_connection_that_is_dropped_says_goodbye() {
    let (authority, config) = server_without_tickets();
    let (endpoint, server) = serve(move |stream| {
        let mut stream = secured(config, stream);
        let mut asked = Vec::new();
        // Fails with UnexpectedEof when there was no close_notify.
        stream.read_to_end(&mut asked).unwrap();
        assert_eq!(asked, b"hello");
    });
    let mut wire = dial(&endpoint, &client(&plan(&authority), Protocol::Http1));
    shake(&mut wire, &mut vec![0; 64 * 1024]).unwrap();
    patiently(|| wire.send(b"hello")).unwrap();
    drop(wire);
    server.join().unwrap();
}

#[test]
fn failures_of_the_handshake_are_failures_of_tls() {
    let tls = client(&TlsPlan { insecure: true, ..TlsPlan::default() }, Protocol::Http1);
    let talks = |serve_one: fn(TcpStream), want: &str| {
        let (endpoint, server) = serve(serve_one);
        let mut wire = dial(&endpoint, &tls);
        let error = shake(&mut wire, &mut vec![0; 64 * 1024]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        assert!(error.to_string().contains(want), "{error}");
        assert_eq!(crate::wire::failure_of(&error, crate::tally::Failure::Read), crate::tally::Failure::Tls);
        server.join().unwrap();
    };
    talks(|mut stream| stream.write_all(b"220 mail.test ESMTP\r\n").unwrap(), "is not TLS");
    talks(
        |mut stream| {
            // All of the ClientHello, so that the end is an end and no reset.
            assert!(stream.read(&mut [0; 4096]).unwrap() > 100);
        },
        "closed the connection during the handshake",
    );
}

#[test]
fn a_trial_tells_what_was_agreed_on() {
    let (authority, config) = server_without_tickets();
    let (endpoint, server) = serve(move |stream| {
        let mut stream = secured(config, stream);
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "close_notify after the handshake");
    });
    let Endpoint::Tcp(address) = endpoint else { panic!("a TCP server") };
    let mut stream = TcpStream::connect(address).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let tls = client(&plan(&authority), Protocol::Http1);
    let agreed = tls.trial(&mut stream, until).unwrap();
    expect![[r#"Negotiated { version: "TLSv1_3", suite: "TLS13_AES_128_GCM_SHA256", group: Some("X25519"), alpn: None, resumed: false }"#]]
        .assert_eq(&format!("{agreed:?}"));
    drop(stream);
    server.join().unwrap();
}

#[test]
fn a_trial_for_http2_needs_the_servers_agreement() {
    let (authority, config) = server_without_tickets();
    let (endpoint, server) = serve(move |stream| {
        let mut stream = secured(config, stream);
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "close_notify after the handshake");
    });
    let Endpoint::Tcp(address) = endpoint else { panic!("a TCP server") };
    let mut stream = TcpStream::connect(address).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let error = client(&plan(&authority), Protocol::Http2).trial(&mut stream, until).unwrap_err();
    assert!(error.contains("did not choose `h2`"), "{error}");
    drop(stream);
    server.join().unwrap();
}

#[test]
fn a_trial_of_a_stranger_says_so() {
    let (_, config) = server(NAME);
    let (endpoint, server) = serve(move |stream| {
        let mut stream = secured(config, stream);
        let error = stream.read(&mut [0; 1]).unwrap_err().to_string();
        assert!(error.contains("UnknownCA"), "{error}");
    });
    let Endpoint::Tcp(address) = endpoint else { panic!("a TCP server") };
    let mut stream = TcpStream::connect(address).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let error = client(&plan(&Authority::new("another")), Protocol::Http1).trial(&mut stream, until).unwrap_err();
    assert!(error.contains("not trusted here"), "{error}");
    server.join().unwrap();
}

#[test]
fn a_plain_wire_is_its_socket() {
    let (endpoint, server) = serve(|mut stream| {
        stream.write_all(&[7; 10]).unwrap();
    });
    let socket = Socket::open(&endpoint).unwrap();
    socket.connect(&endpoint).unwrap();
    let mut wire = Wire::plain(socket);
    wire.connected().unwrap();
    assert!(wire.is_ready());
    let mut four = [0; 4];
    let mut received = || patiently(|| wire.receive(&mut four, None)).unwrap();
    assert_eq!(received(), Received { count: 4, drained: false });
    assert_eq!(received(), Received { count: 4, drained: false });
    assert_eq!(received(), Received { count: 2, drained: true });
    assert_eq!(received().count, 0);
    server.join().unwrap();
}
