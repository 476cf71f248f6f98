//! How connections are secured. Certificates and keys are held as PEM text, so that a plan needs no file.

use serde::{Deserialize, Serialize};

/// TLS as the engine needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsPlan {
    /// Accept any certificate. Only on request: a test with a self-signed one.
    pub insecure: bool,
    /// Name asked for (SNI) and checked; none: the host of the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Certificates to trust instead of the system's, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_pem: Option<String>,
    /// The client's certificate chain, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_pem: Option<String>,
    /// The client's key, PEM. Never written to a record.
    #[serde(skip_serializing)]
    pub key_pem: Option<String>,
    /// Whether a new connection resumes an earlier session. Off: every handshake is a full one.
    pub resume: bool,
}
