//! Why a load could not be made: what was seen, and the next step.
//!
//! Failed requests are no errors here: they are counted in the result.

use crate::target::Endpoint;
use std::net::IpAddr;

/// Why a load could not begin, or had to end without a result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The URL cannot be read.
    #[error("`{url}` is not a URL that prony can load: {why}; write it like `http://10.77.0.2:8080/1k`")]
    Url {
        /// As the person wrote it.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A field of the workload makes no sense.
    #[error("`{item}`: {why}")]
    Plan {
        /// The field, like `workload.paths.format`.
        item: String,
        /// What was seen and what would be right.
        why: String,
    },
    /// The host name has no address.
    #[error("`{host}` has no address ({why}); check the spelling, or write the IP address into the URL")]
    Resolve {
        /// The name.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// The target is neither private nor named as the user's own.
    #[error("{ip} is a public address; if `{host}` is your own, say `owned = true` in the stack file, or `--owned`")]
    NotOwned {
        /// The host as written.
        host: String,
        /// Its address.
        ip: IpAddr,
    },
    /// Nobody listens.
    #[error(
        "{endpoint} refused the connection: nothing listens there; start the server (see `ss -ltn`), or correct the port"
    )]
    Refused {
        /// Address and port, or path.
        endpoint: Endpoint,
    },
    /// No connection came about.
    #[error("{endpoint} cannot be reached ({why}); {}", next_to_reach(endpoint))]
    Unreachable {
        /// Address and port, or path.
        endpoint: Endpoint,
        /// What the kernel said.
        why: String,
    },
    /// The kernel refused something that the engine cannot do without.
    #[error("{call} failed: {source}; {next}")]
    System {
        /// The call, as one would look it up.
        call: &'static str,
        /// What the kernel said.
        source: std::io::Error,
        /// The next step.
        next: &'static str,
    },
    /// HTTP/2 was spoken to a server that answers otherwise.
    #[error("{endpoint} answered {answered}, not HTTP/2: leave out `--http2` (`workload.http2` of a stack file)")]
    NotHttp2 {
        /// Address and port, or path.
        endpoint: Endpoint,
        /// What it answered, like `HTTP/1.1`.
        answered: String,
    },
    /// No TLS connection came about.
    #[error("no TLS connection to {endpoint}: {why}")]
    Handshake {
        /// Address and port, or path.
        endpoint: Endpoint,
        /// What was seen, and the next step.
        why: String,
    },
}

fn next_to_reach(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Tcp(address) => format!("check the route (`ip route get {}`) and firewalls", address.ip()),
        Endpoint::Unix(_) => "check the path, and that the server listens on it (`ss -lx`)".to_string(),
    }
}
