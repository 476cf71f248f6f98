//! Settings that can be read, applied, checked and undone: their names and values, not how they are turned.

use serde::{Deserialize, Serialize};

/// Which knob. The text form is that of `prony tune --knob NAME=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum KnobId {
    /// `nginx.upstream_keepalive`: idle connections per worker, with HTTP/1.1 and no `Connection: close`.
    NginxUpstreamKeepalive,
    /// `nginx.upstream_down`: servers that get no requests, by address.
    NginxUpstreamDown,
    /// `nginx.access_log`: `off` or `buffer=SIZE`.
    NginxAccessLog,
    /// `nginx.worker_processes`.
    NginxWorkerProcesses,
    /// `nginx.worker_connections`: to clients and servers, per worker.
    NginxWorkerConnections,
    /// `nginx.backlog`: of every `listen`.
    NginxBacklog,
    /// `nginx.DIRECTIVE`: a directive of one line, wherever it stands.
    NginxDirective(NginxDirective),
    /// `sysctl.NAME`, in the host's network namespace.
    Sysctl(String),
    /// `rps_cpus.INTERFACE`: hexadecimal mask of all its receive queues.
    RpsCpus(String),
    /// `offloads.INTERFACE`: what it joins and splits, like `gso,tso`.
    Offloads(String),
    /// `link_rate.INTERFACE`: rate of what the host sends on it, like `20mbit`, by a token bucket.
    LinkRate(String),
    /// `cgroup.cpu_quota`: CPUs, like `0.5`, or `max`.
    CgroupCpuQuota,
    /// `cpu_affinity`: CPUs of the host's processes, as a list.
    CpuAffinity,
}

/// Directives of nginx that are knobs as they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NginxDirective {
    /// Whether workers take turns to accept.
    AcceptMutex,
    /// What of a request's body is kept in memory.
    ClientBodyBufferSize,
    /// Whether answers are compressed.
    Gzip,
    /// How hard.
    GzipCompLevel,
    /// Requests after which a client's connection is closed.
    KeepaliveRequests,
    /// How long a client's connection may be idle.
    KeepaliveTimeout,
    /// Whether limits of connections are only logged.
    LimitConnDryRun,
    /// Bytes per second of an answer.
    LimitRate,
    /// Whether limits of requests are only logged.
    LimitReqDryRun,
    /// Memory for an answer of a server.
    ProxyBuffers,
    /// How much of an answer that does not fit may go to a file.
    ProxyMaxTempFileSize,
    /// Servers that are tried for a request.
    ProxyNextUpstreamTries,
    /// Where TLS sessions are kept.
    SslSessionCache,
    /// Whether heads wait for the first bytes of a file.
    TcpNopush,
    /// Files that a worker may open.
    WorkerRlimitNofile,
}

impl NginxDirective {
    /// All of them, by name.
    pub const ALL: [Self; 15] = [
        Self::AcceptMutex,
        Self::ClientBodyBufferSize,
        Self::Gzip,
        Self::GzipCompLevel,
        Self::KeepaliveRequests,
        Self::KeepaliveTimeout,
        Self::LimitConnDryRun,
        Self::LimitRate,
        Self::LimitReqDryRun,
        Self::ProxyBuffers,
        Self::ProxyMaxTempFileSize,
        Self::ProxyNextUpstreamTries,
        Self::SslSessionCache,
        Self::TcpNopush,
        Self::WorkerRlimitNofile,
    ];

    /// As it stands in a configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AcceptMutex => "accept_mutex",
            Self::ClientBodyBufferSize => "client_body_buffer_size",
            Self::Gzip => "gzip",
            Self::GzipCompLevel => "gzip_comp_level",
            Self::KeepaliveRequests => "keepalive_requests",
            Self::KeepaliveTimeout => "keepalive_timeout",
            Self::LimitConnDryRun => "limit_conn_dry_run",
            Self::LimitRate => "limit_rate",
            Self::LimitReqDryRun => "limit_req_dry_run",
            Self::ProxyBuffers => "proxy_buffers",
            Self::ProxyMaxTempFileSize => "proxy_max_temp_file_size",
            Self::ProxyNextUpstreamTries => "proxy_next_upstream_tries",
            Self::SslSessionCache => "ssl_session_cache",
            Self::TcpNopush => "tcp_nopush",
            Self::WorkerRlimitNofile => "worker_rlimit_nofile",
        }
    }

    /// The one of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|directive| directive.name() == name)
    }
}

impl From<KnobId> for String {
    fn from(id: KnobId) -> Self {
        match id {
            KnobId::NginxUpstreamKeepalive => "nginx.upstream_keepalive".to_string(),
            KnobId::NginxUpstreamDown => "nginx.upstream_down".to_string(),
            KnobId::NginxAccessLog => "nginx.access_log".to_string(),
            KnobId::NginxWorkerProcesses => "nginx.worker_processes".to_string(),
            KnobId::NginxWorkerConnections => "nginx.worker_connections".to_string(),
            KnobId::NginxBacklog => "nginx.backlog".to_string(),
            KnobId::NginxDirective(directive) => format!("nginx.{}", directive.name()),
            KnobId::Sysctl(name) => format!("sysctl.{name}"),
            KnobId::RpsCpus(interface) => format!("rps_cpus.{interface}"),
            KnobId::Offloads(interface) => format!("offloads.{interface}"),
            KnobId::LinkRate(interface) => format!("link_rate.{interface}"),
            KnobId::CgroupCpuQuota => "cgroup.cpu_quota".to_string(),
            KnobId::CpuAffinity => "cpu_affinity".to_string(),
        }
    }
}

impl TryFrom<String> for KnobId {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        const PLAIN: [KnobId; 8] = [
            KnobId::NginxUpstreamKeepalive,
            KnobId::NginxUpstreamDown,
            KnobId::NginxAccessLog,
            KnobId::NginxWorkerProcesses,
            KnobId::NginxWorkerConnections,
            KnobId::NginxBacklog,
            KnobId::CgroupCpuQuota,
            KnobId::CpuAffinity,
        ];
        let plain = || PLAIN.into_iter().chain(NginxDirective::ALL.map(Self::NginxDirective));
        if let Some(id) = plain().find(|id| String::from(id.clone()) == text) {
            return Ok(id);
        }
        match text.split_once('.') {
            Some(("sysctl", name)) if !name.is_empty() => Ok(Self::Sysctl(name.to_string())),
            Some(("rps_cpus", interface)) if !interface.is_empty() => Ok(Self::RpsCpus(interface.to_string())),
            Some(("offloads", interface)) if !interface.is_empty() => Ok(Self::Offloads(interface.to_string())),
            Some(("link_rate", interface)) if !interface.is_empty() => Ok(Self::LinkRate(interface.to_string())),
            _ => {
                let names: Vec<String> = plain().map(String::from).collect();
                let near = crate::input::nearest(&text, names.iter().map(String::as_str));
                let hint = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
                Err(format!(
                    "`{text}` is no knob; there are {}, sysctl.NAME, rps_cpus.INTERFACE, offloads.INTERFACE, link_rate.INTERFACE{hint}",
                    names.join(", ")
                ))
            }
        }
    }
}

impl std::fmt::Display for KnobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from(self.clone()))
    }
}

/// A knob of a host and the value it is to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Knob {
    /// Host in the stack.
    pub host: String,
    /// Which knob.
    pub id: KnobId,
    /// The value, as text.
    pub value: String,
}

/// How a change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeState {
    /// Applied and not yet undone.
    Applied,
    /// Put back exactly as it was.
    Undone,
    /// Left in place because the user asked for it.
    Kept,
    /// Not put back, because someone else changed it meanwhile.
    Conflict,
}

/// A change that was made to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What was turned.
    pub knob: Knob,
    /// The value before, as text for a person.
    pub before: String,
    /// What a person does to make it permanent.
    pub permanent: String,
    /// What it changed, as a unified diff or `file: old -> new`.
    pub diff: String,
    /// How it ended.
    pub state: ChangeState,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_text() {
        for text in
            ["nginx.access_log", "nginx.gzip_comp_level", "sysctl.net.core.somaxconn", "rps_cpus.eth0", "cpu_affinity"]
        {
            assert_eq!(String::from(KnobId::try_from(text.to_string()).unwrap()), text);
        }
        let error = KnobId::try_from("nginx.acces_log".to_string()).unwrap_err();
        assert!(error.ends_with("did you mean `nginx.access_log`?"), "{error}");
    }
}
