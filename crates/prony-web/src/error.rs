//! Why a server cannot be started, with the next step.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address can be reached from elsewhere, and nothing keeps others out.
    #[error(
        "{address} can be reached from other machines: give --token-file, --tls-cert and --tls-key, or bind to loopback, \
         like 127.0.0.1:{}", address.port()
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// Someone else has the address, or it is not of this machine.
    #[error("cannot listen at {address}: {source}; name another address with --bind")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A file or folder that was named cannot be used.
    #[error("{}: {reason}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// The machine has no room for a server.
    #[error("the server cannot go on: {0}")]
    Io(#[from] io::Error),
}

impl WebError {
    pub(crate) fn file(path: &Path, reason: impl Into<String>) -> Self {
        Self::File { path: path.to_path_buf(), reason: reason.into() }
    }

    /// Whether what was asked for is wrong, and not the machine.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Open { .. } | Self::File { .. } => true,
            Self::Bind { .. } | Self::Io(_) => false,
        }
    }
}
