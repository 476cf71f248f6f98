//! TLS for a load: what is the same for all its connections.
//!
//! rustls makes the handshake; after it, records are opened and sealed with rustls' ciphers in the thread's own buffer
//! (`records`). It opens no socket and reads no file but the system's trust store. Invariant: without `insecure`, no
//! byte of a request leaves before the server's certificate and its signature over the handshake were accepted.
//!
//! Why not rustls' own record layer: in memory, against a rustls server, a request of 100 bytes and an answer of 240
//! cost 0.32 us here and 0.54 us through its `ClientConnection` (AES-128-GCM, Zen 5), and a connection that waits holds
//! 2.8 KB of memory against 7.9 KB. One allocation per send is left: that of rustls' cipher.

mod records;
pub(crate) mod secured;
mod session;
mod tickets;
mod trust;

#[cfg(test)]
mod server;

use crate::error::LoadError;
use prony_model::Protocol;
use prony_model::tls::{TlsPlan, TlsSpec};
use rustls::client::Resumption;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{self, cipher_suite};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, HandshakeKind, SupportedCipherSuite};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Instant;
use tickets::Tickets;
use trust::{AcceptAny, Trusting};

/// What is offered, in this order. AES-128-GCM first, as Firefox and Chrome do: it is the cheapest where the CPU has
/// AES, and safe. (OpenSSL's tools offer AES-256-GCM first in TLS 1.3: fix the server's choice when tools are
/// compared.)
static SUITES: [SupportedCipherSuite; 9] = [
    cipher_suite::TLS13_AES_128_GCM_SHA256,
    cipher_suite::TLS13_AES_256_GCM_SHA384,
    cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// How the connections of one load are secured. Cheap to clone; shared by all its threads.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    protocol: Protocol,
    resume: bool,
}

/// What a server agreed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// Like `TLSv1_3`.
    pub version: String,
    /// Like `TLS13_AES_128_GCM_SHA256`.
    pub suite: String,
    /// Key exchange, like `X25519`; none in a resumed session of TLS 1.2.
    pub group: Option<String>,
    /// Like `h2`; none: the server does not speak of protocols (ALPN).
    pub alpn: Option<String>,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
}

impl Tls {
    /// What `plan` says, for a server called `host` (a name, or an address without brackets), that shall speak
    /// `protocol`.
    ///
    /// # Errors
    /// [`LoadError::Plan`] that names the key of the stack file: a certificate, key or name that cannot be used.
    pub fn from_plan(plan: &TlsPlan, host: &str, protocol: Protocol) -> Result<Self, LoadError> {
        let wanted = plan.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(wanted.to_string())
            .map_err(|_| wrong("server_name", format!("`{wanted}` is neither a DNS name nor an IP address")))?;
        let provider = Arc::new(CryptoProvider { cipher_suites: SUITES.to_vec(), ..ring::default_provider() });
        let verifier: Arc<dyn ServerCertVerifier> = if plan.insecure {
            Arc::new(AcceptAny(provider.signature_verification_algorithms))
        } else {
            Arc::new(Trusting::new(&authorities(plan)?, &provider)?)
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the suites serve TLS 1.2 and 1.3")
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match identity(plan)? {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder
                .with_client_auth_cert(chain, key)
                .map_err(|e| wrong("key_file", format!("the key does not serve the certificate ({e})")))?,
        };
        config.alpn_protocols = vec![alpn(protocol).to_vec()];
        config.resumption =
            if plan.resume { Resumption::store(Arc::new(Tickets::default())) } else { Resumption::disabled() };
        // The records of a connection are our own affair once its handshake is done.
        config.enable_secret_extraction = true;
        Ok(Self { config: Arc::new(config), name, protocol, resume: plan.resume })
    }

    /// Makes one handshake over a stream that blocks, so that a server that is not accepted is an error before the load
    /// and not a load of failures. Give the stream a read timeout; `until` bounds the whole.
    ///
    /// # Errors
    /// What was seen and the next step, as text.
    pub fn trial(&self, stream: &mut (impl Read + Write), until: Instant) -> Result<Negotiated, String> {
        let begun = ClientConnection::new(self.config.clone(), self.name.clone());
        let mut connection = begun.map_err(|e| explain(&e))?;
        let io = |error: io::Error| format!("the handshake was cut short ({error})");
        while connection.is_handshaking() {
            if Instant::now() >= until {
                return Err("the handshake took too long".to_string());
            }
            while connection.wants_write() {
                connection.write_tls(stream).map_err(io)?;
            }
            if connection.read_tls(stream).map_err(io)? == 0 {
                return Err("the server closed the connection during the handshake".to_string());
            }
            if let Err(error) = connection.process_new_packets() {
                // The server should learn why, if it listens.
                while connection.wants_write() && connection.write_tls(stream).is_ok() {}
                return Err(explain(&error));
            }
        }
        connection.send_close_notify();
        while connection.wants_write() {
            connection.write_tls(stream).map_err(io)?;
        }
        self.check_alpn(connection.alpn_protocol())?;
        Ok(Negotiated {
            version: connection.protocol_version().map(|v| format!("{v:?}")).unwrap_or_default(),
            suite: connection.negotiated_cipher_suite().map(|s| format!("{:?}", s.suite())).unwrap_or_default(),
            group: connection.negotiated_key_exchange_group().map(|g| format!("{:?}", g.name())),
            alpn: connection.alpn_protocol().map(|p| String::from_utf8_lossy(p).into_owned()),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        })
    }

    /// Whether the server speaks what we want to speak. HTTP/1.1 needs no agreement.
    fn check_alpn(&self, chosen: Option<&[u8]>) -> Result<(), String> {
        if self.protocol == Protocol::Http2 && chosen != Some(b"h2") {
            return Err(NO_HTTP2.to_string());
        }
        Ok(())
    }
}

const NO_HTTP2: &str = "the server does not speak HTTP/2 here (it did not choose `h2` by ALPN); switch HTTP/2 on in \
                        the server, or leave out `--http2` (`workload.http2` of a stack file)";

/// The plan that `[workload.tls]` means. `read_file` reads the files it names, relative to the stack file.
///
/// # Errors
/// [`LoadError::Plan`] that names the key: a file that cannot be read, a certificate without its key.
pub fn plan_from(spec: &TlsSpec, read_file: &dyn Fn(&str) -> io::Result<Vec<u8>>) -> Result<TlsPlan, LoadError> {
    let read = |key: &str, path: &Option<String>| match path {
        None => Ok(None),
        Some(path) => match read_file(path).map(String::from_utf8) {
            Ok(Ok(text)) => Ok(Some(text)),
            Ok(Err(_)) => {
                Err(wrong(key, format!("{path} is not PEM: convert it with `openssl x509` or `openssl pkey`")))
            }
            Err(error) => {
                Err(wrong(key, format!("{path} cannot be read ({error}): check the path, relative to the stack file")))
            }
        },
    };
    Ok(TlsPlan {
        insecure: spec.insecure,
        server_name: spec.server_name.clone(),
        ca_pem: read("ca_file", &spec.ca_file)?,
        certificate_pem: read("certificate_file", &spec.certificate_file)?,
        key_pem: read("key_file", &spec.key_file)?,
        resume: spec.resume,
    })
}

fn wrong(key: &str, why: String) -> LoadError {
    LoadError::Plan { item: format!("workload.tls.{key}"), why }
}

/// What a client asks for, and a server of it agrees to (ALPN).
pub(crate) fn alpn(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Http1 => b"http/1.1",
        Protocol::Http2 => b"h2",
    }
}

/// The certificates to trust: those of the plan, or the system's.
fn authorities(plan: &TlsPlan) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    if let Some(pem) = &plan.ca_pem {
        return certificates("ca_file", pem);
    }
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map(|e| format!(" ({e})")).unwrap_or_default();
        let why = format!(
            "this system has no trusted certificates{why}: install its `ca-certificates`, name the server's authority, \
             or ask for `insecure` (-k)"
        );
        return Err(wrong("ca_file", why));
    }
    Ok(found.certs)
}

/// The client's certificate chain and key, if it has one.
#[allow(clippy::type_complexity, reason = "a pair that lives for one line")]
fn identity(plan: &TlsPlan) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, LoadError> {
    match (&plan.certificate_pem, &plan.key_pem) {
        (None, None) => Ok(None),
        (Some(chain), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|e| wrong("key_file", format!("it holds no private key in PEM ({e})")))?;
            Ok(Some((certificates("certificate_file", chain)?, key)))
        }
        (Some(_), None) => Err(wrong("key_file", "`certificate_file` is of no use without its key".to_string())),
        (None, Some(_)) => {
            Err(wrong("certificate_file", "`key_file` is of no use without its certificate".to_string()))
        }
    }
}

fn certificates(key: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, LoadError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(wrong(key, "it holds no certificate in PEM".to_string())),
        Err(error) => Err(wrong(key, format!("it is not PEM ({error})"))),
    }
}

/// Why a handshake failed, with the next step where there is one.
fn explain(error: &rustls::Error) -> String {
    use rustls::Error::{AlertReceived, InvalidCertificate, InvalidMessage};
    if let InvalidCertificate(CertificateError::UnknownIssuer) = error {
        return "the server's certificate comes from an authority that is not trusted here; name that authority's \
                certificate in `ca_file` (--cacert), or ask for `insecure` (-k)"
            .to_string();
    }
    if let InvalidCertificate(CertificateError::Other(other)) = error
        && other.0.to_string().contains("CaUsedAsEndEntity")
    {
        return "the server's certificate is self-signed, and not trusted here; name it in `ca_file` (--cacert), or ask \
                for `insecure` (-k)"
            .to_string();
    }
    if let InvalidCertificate(
        why @ (CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }),
    ) = error
    {
        return format!("{why}; say which name is right in `server_name` (--server-name), or ask for `insecure` (-k)");
    }
    if let InvalidCertificate(why) = error {
        return format!("the server's certificate is not accepted ({why}); renew it, or ask for `insecure` (-k)");
    }
    if let AlertReceived(AlertDescription::NoApplicationProtocol) = error {
        return NO_HTTP2.to_string();
    }
    if let AlertReceived(alert) = error {
        return alerted(*alert);
    }
    if let InvalidMessage(what) = error {
        return format!("what the server sent is not TLS ({what:?}); is this port its https port?");
    }
    error.to_string()
}

fn alerted(alert: AlertDescription) -> String {
    let next = if alert == AlertDescription::CertificateRequired {
        "; it asks for a client's certificate: name it in `certificate_file` and `key_file` (--cert, --key)"
    } else {
        ""
    };
    format!("the server sent the alert {alert:?}{next}")
}

#[cfg(test)]
mod tests;
