//! The way to one client of the null server: its socket, or TLS over it.
//!
//! Invariant: what was taken for sending is sent before anything more is read.

use prony_model::Protocol;
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// One client's connection.
pub(super) enum Channel {
    Plain(TcpStream),
    Secured(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Channel {
    /// # Errors
    /// When rustls has no memory for a connection.
    pub fn new(stream: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Self> {
        let Some(config) = tls else { return Ok(Self::Plain(stream)) };
        let connection = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Self::Secured(Box::new(StreamOwned::new(connection, stream))))
    }

    /// Whether a read that does not fill the buffer emptied the socket (epoll(7)). Records may wait behind others.
    pub fn short_read_is_all(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Secured(stream) => stream.read(buffer),
        }
    }

    /// 0: the socket and the records before it have no room now.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Secured(stream) => stream.write(bytes),
        }
    }

    /// Says that nothing more comes. A client that does not take it sees the end all the same.
    pub fn finish(&mut self) {
        if let Self::Secured(stream) = self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    }
}

/// A self-signed certificate, made anew, with a key of the curve P-256, as most servers have it today.
///
/// # Errors
/// When the system has no random numbers.
pub(super) fn secure(protocol: Protocol) -> io::Result<Arc<ServerConfig>> {
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let params = CertificateParams::new(vec!["localhost".to_string()]).map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(io::Error::other)?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .map_err(io::Error::other)?;
    config.alpn_protocols = vec![crate::tls::alpn(protocol).to_vec()];
    Ok(Arc::new(config))
}
