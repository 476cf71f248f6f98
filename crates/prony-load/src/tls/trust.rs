//! Whether a server's certificate is accepted.
//!
//! rustls-webpki judges; this remembers its judgement within one load. Invariant: what is remembered is a chain byte by
//! byte and the name it was accepted for. The server's signature over the handshake is never remembered: it is verified
//! each time.

use super::wrong;
use crate::error::LoadError;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::{Arc, OnceLock};

/// Accepts what the trusted authorities signed for the server's name, and a trusted certificate itself.
///
/// The first chain that is accepted is remembered, so that a load of handshakes does not verify the same signatures of
/// the same authority again and again: real clients are many, but each pays that once. A certificate that expires or is
/// revoked while a load runs is noticed by the next load.
#[derive(Debug)]
pub struct Trusting {
    verifier: Arc<WebPkiServerVerifier>,
    /// Named one by one by the user: `openssl req -x509` makes a server's certificate that is its own authority, which
    /// webpki does not accept as a server's.
    named: Vec<CertificateDer<'static>>,
    accepted: OnceLock<Accepted>,
}

#[derive(Debug)]
struct Accepted {
    end_entity: CertificateDer<'static>,
    intermediates: Vec<CertificateDer<'static>>,
    name: ServerName<'static>,
}

impl Trusting {
    /// Trusts `authorities`; those that cannot be read are left out, as long as one is left.
    pub fn new(authorities: &[CertificateDer<'static>], provider: &Arc<CryptoProvider>) -> Result<Self, LoadError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities.iter().cloned());
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let verifier = builder.build().map_err(|e| wrong("ca_file", format!("it holds nothing to trust ({e})")))?;
        Ok(Self { verifier, named: authorities.to_vec(), accepted: OnceLock::new() })
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let known = |a: &Accepted| {
            a.end_entity == *end_entity && a.intermediates.as_slice() == intermediates && a.name == *name
        };
        if self.accepted.get().is_some_and(known) {
            return Ok(ServerCertVerified::assertion());
        }
        if self.named.iter().any(|c| c == end_entity) {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
        } else {
            self.verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)?;
        }
        self.accepted.get_or_init(|| Accepted {
            end_entity: end_entity.clone().into_owned(),
            intermediates: intermediates.iter().map(|c| c.clone().into_owned()).collect(),
            name: name.to_owned(),
        });
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Accepts everything, and does not look at it: a signature by a key that nobody vouches for proves nothing. So
/// certificates that webpki cannot even read (version 1) are accepted too, and an insecure handshake is cheaper than a
/// client's.
#[derive(Debug)]
pub struct AcceptAny(pub WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
