//! How connections are secured: as the stack file says it, and as the engine needs it.
//!
//! No file is read here. Invariant: a plan holds certificates and keys as PEM text, so that it needs no file.

use serde::{Deserialize, Serialize};

/// `[workload.tls]` of a stack file. Files are named relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsSpec {
    /// Accept any certificate, and any signature made with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// Name asked for (SNI) and checked; none: the host of the URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// PEM file of certificates to trust instead of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// PEM file of the client's certificate chain, its own certificate first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_file: Option<String>,
    /// PEM file of the client's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
    /// Whether a new connection resumes an earlier session. Off: every handshake is a full one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub resume: bool,
}

impl TlsSpec {
    /// Whether the file says nothing of TLS.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// TLS as the engine needs it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsPlan {
    /// Accept any certificate, and any signature made with it. Only on request: a test with a self-signed one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_never_written() {
        let plan = TlsPlan { key_pem: Some("secret".to_string()), ..TlsPlan::default() };
        let text = serde_json::to_string(&plan).unwrap();
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn the_table_of_a_stack_file_is_read_and_written() {
        let text = "entry = \"https://a/\"\n[workload.tls]\nca_file = \"ca.pem\"\nresume = true\n";
        let stack = crate::Stack::parse("stack.toml", text).unwrap();
        let want = TlsSpec { ca_file: Some("ca.pem".to_string()), resume: true, ..TlsSpec::default() };
        assert_eq!(stack.workload.tls, want);
        assert_eq!(crate::Stack::parse("again.toml", &toml::to_string(&stack).unwrap()).unwrap(), stack);
        let error = crate::Stack::parse("stack.toml", &text.replace("ca_file", "cafile")).unwrap_err().to_string();
        assert!(error.starts_with("stack.toml:3: unknown field `cafile`") && error.ends_with("`ca_file`?"), "{error}");
    }
}
