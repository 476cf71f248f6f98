//! The `[lab]` section: a stack that prony brings up itself, in network namespaces, with real servers.

use crate::units::{BitRate, Nanos, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a lab is built: its network, and for each host the address, the link, the limits and the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabSpec {
    /// Hosts of the lab by name; each must also stand under `[host.NAME]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, LabHost>,
}

/// One host of a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabHost {
    /// IPv4 address in the lab's own network, like `10.77.0.2` (all hosts share one /24 on one bridge).
    #[serde(default)]
    pub addr: String,
    /// What the host's link to the bridge does to packets.
    #[serde(default, skip_serializing_if = "Link::is_plain")]
    pub link: Link,
    /// CPU time the host's processes may use, as a share of one CPU (`40%`, `150%`); none: no quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<Share>,
    /// Sysctls of the host's network namespace, like `"net.ipv4.ip_local_port_range" = "20000 20999"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// The `rps_cpus` mask of the host's receive queues, in hexadecimal, like `3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rps_cpus: Option<String>,
    /// The server that runs on it; none for the host of the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<LabServer>,
}

/// What a link does to packets, in both directions unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Rate of what the host sends; none: as fast as the kernel can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Share of packets that the switch drops, in each direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
}

impl Link {
    /// Whether the link does nothing to packets.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Which server runs on a lab host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerKind {
    /// nginx that passes requests to the hosts in `calls`.
    NginxProxy,
    /// nginx that serves files of 0, 616, 1232, 1233, 2590, 10K and 100K bytes at `/0`, `/616`, ... `/10k`, `/100k`.
    #[default]
    NginxFiles,
    /// HAProxy that waits `delay` and then answers like the file server: an upstream that thinks.
    HaproxyDelay,
}

/// How a proxy or file server writes its access log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessLog {
    /// No access log.
    Off,
    /// `buffer=64k flush=2s`.
    #[default]
    Buffered,
    /// One write per request.
    Unbuffered,
}

/// The server of a lab host and the settings its template takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabServer {
    /// Which server.
    #[serde(default)]
    pub kind: ServerKind,
    /// Worker processes; none: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// `worker_connections`; none: 8192.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_connections: Option<u32>,
    /// How the access log is written.
    #[serde(default)]
    pub access_log: AccessLog,
    /// Idle connections that a proxy keeps to its upstreams, per worker; 0: a connection per request. None: 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_keepalive: Option<u32>,
    /// Backlog of the listening socket; none: the server's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<u32>,
    /// Compression level of a proxy; none: no compression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gzip_level: Option<u32>,
    /// Waiting time of `haproxy-delay` before each answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
}
