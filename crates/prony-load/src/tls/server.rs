//! What the tests of TLS talk to: authorities and certificates made anew, and a rustls server that is fed by hand.

use super::Tls;
use super::session::Session;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, SupportedProtocolVersion};
use std::io::Read as _;
use std::sync::Arc;

/// Someone who signs certificates.
pub struct Authority {
    /// Its certificate.
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct Identity {
    pub chain_pem: String,
    pub key_pem: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub fn issue(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_string()]).unwrap();
        Identity { chain_pem: params.signed_by(&key, &self.issuer).unwrap().pem(), key_pem: key.serialize_pem() }
    }
}

/// What `openssl req -x509` makes: a server's certificate that is its own authority.
pub fn self_signed(name: &str) -> Identity {
    let mut params = CertificateParams::new(vec![name.to_string()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    Identity { chain_pem: params.self_signed(&key).unwrap().pem(), key_pem: key.serialize_pem() }
}

/// A server with this identity; `clients`: it demands a certificate that this authority signed.
pub fn config(
    identity: &Identity,
    versions: &[&'static SupportedProtocolVersion],
    clients: Option<&Authority>,
) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let chain = |pem: &str| CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect::<Vec<_>>();
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(chain(&authority.pem));
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
    builder.with_single_cert(chain(&identity.chain_pem), key).unwrap()
}

/// A client and a server that hear each other only through [`Pair::carry`].
pub struct Pair {
    pub session: Session,
    pub server: ServerConnection,
    /// What the client wants to send, as on the wire.
    pub out: Vec<u8>,
    /// Plaintext that the client heard.
    pub heard: Vec<u8>,
    /// Plaintext that the server heard.
    pub asked: Vec<u8>,
    /// What the server could not accept.
    pub complaint: Option<rustls::Error>,
    buffer: Vec<u8>,
}

impl Pair {
    pub fn new(tls: &Tls, server: &Arc<ServerConfig>) -> Self {
        let (mut session, mut out) = (Session::new(tls).unwrap(), Vec::new());
        session.take(&mut [], 0, &mut out);
        let server = ServerConnection::new(server.clone()).unwrap();
        Self { session, server, out, heard: Vec::new(), asked: Vec::new(), complaint: None, buffer: vec![0; 64 * 1024] }
    }

    /// Carries bytes both ways, to the client in pieces of these sizes in turn, until neither has more to say.
    pub fn carry(&mut self, pieces: &[usize]) {
        loop {
            let to_server = std::mem::take(&mut self.out);
            let mut rest = to_server.as_slice();
            while !rest.is_empty() {
                self.server.read_tls(&mut rest).unwrap();
                if let Err(error) = self.server.process_new_packets() {
                    self.complaint = Some(error);
                    break;
                }
                // An error means that there is nothing (more) to read.
                self.server.reader().read_to_end(&mut self.asked).ok();
            }
            let mut to_client = Vec::new();
            while self.server.wants_write() {
                self.server.write_tls(&mut to_client).unwrap();
            }
            if to_server.is_empty() && to_client.is_empty() {
                return;
            }
            let mut sizes = pieces.iter().cycle();
            let mut rest = to_client.as_slice();
            while !rest.is_empty() {
                let (piece, later) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                self.deliver(piece);
                rest = later;
            }
        }
    }

    /// Gives the client bytes from the wire.
    pub fn deliver(&mut self, bytes: &[u8]) {
        if self.session.end().is_some() {
            return;
        }
        let kept = self.session.restore(&mut self.buffer);
        let filled = kept + bytes.len();
        self.buffer[kept..filled].copy_from_slice(bytes);
        let count = self.session.take(&mut self.buffer, filled, &mut self.out);
        self.heard.extend_from_slice(&self.buffer[..count]);
    }
}
