//! The `[lab]` section: a stack that prony brings up itself, in network namespaces, with real servers.

use crate::cpus::CpuList;
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
    /// Memory the host's processes may use, in MiB; none: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<u32>,
    /// Sysctls of the host's network namespace, like `"net.ipv4.ip_local_port_range" = "20000 20999"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// The `rps_cpus` mask of the host's receive queues, in hexadecimal, like `3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rps_cpus: Option<String>,
    /// Processes beside the host's own that keep its CPUs busy, in a control group of theirs; none: nobody else is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<u32>,
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
    /// How long packets may wait at a link with a rate before they are dropped; none: 400 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Nanos>,
    /// Whether the link joins and splits packets (GRO, GSO, TSO); none: as the kernel makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offloads: Option<bool>,
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
    /// An application: `POST /login` gives a token, `GET /query?id=N` needs it. It calls one `postgres` and one `redis`.
    ChainApp,
    /// PostgreSQL with some small tables, made anew.
    Postgres,
    /// Redis that writes nothing to disk.
    Redis,
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

/// What a server writes to its error log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorLevel {
    /// Warnings and worse.
    #[default]
    Warn,
    /// Everything that it does.
    Debug,
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
    /// Connections that `chain-app` keeps to its database; 0: a connection per request. None: 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<u32>,
    /// Statements that `chain-app` sends for one request, one after the other; none: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub questions: Option<u32>,
    /// Rows that the requests of `chain-app` change, each one of them within a transaction; none: nothing is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contended_rows: Option<u32>,
    /// Whether `postgres` has the index that the application searches by; none: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<bool>,
    /// Whether `postgres` waits at each commit until its log has reached the disk; none: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synchronous_commit: Option<bool>,
    /// `max_connections` of `postgres`; none: 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<u32>,
    /// Waiting time of `haproxy-delay` before each answer, and of `chain-app` inside its database.
    /// What is written to the error log of nginx.
    #[serde(default)]
    pub error_log: ErrorLevel,
    /// CPUs that every worker of nginx is bound to; none: those of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_cpus: Option<CpuList>,
    /// Buffers of a proxy for one answer, in KiB (a multiple of 4, at least 12); none: the default of nginx.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffers_kib: Option<u32>,
    /// Requests per second that a proxy lets through; others wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_s_max: Option<u32>,
    /// Waiting time of `haproxy-delay` before each answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
}
