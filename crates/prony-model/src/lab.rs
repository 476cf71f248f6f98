//! The `[lab]` section: a stack that prony brings up itself, in network namespaces, with real servers.

mod disk;

pub use disk::LogDisk;

use crate::cpus::CpuList;
use crate::units::{BitRate, Nanos, Share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// How a lab is built: its network, and for each host the address, the link, the limits and the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabSpec {
    /// Hosts of the lab by name; each must also stand under `[host.NAME]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host: BTreeMap<String, LabHost>,
    /// What the packets between all hosts are wrapped in; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<Overlay>,
    /// Whether a switch joins the hosts; none: yes. Without it there are two hosts, and one cable between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<bool>,
}

impl LabSpec {
    /// What packets are wrapped in.
    pub fn overlay(&self) -> Overlay {
        self.overlay.unwrap_or_default()
    }

    /// Whether a switch joins the hosts.
    pub fn has_switch(&self) -> bool {
        self.switch.unwrap_or(true)
    }
}

/// What the packets between the hosts of a lab are wrapped in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overlay {
    /// Nothing.
    #[default]
    None,
    /// UDP, as VXLAN (RFC 7348): 50 bytes more for each packet.
    Vxlan,
    /// IP, as IPIP (RFC 2003): 20 bytes more for each packet, and no Ethernet inside.
    Ipip,
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
    /// How many addresses the host has, one after the other from `addr`: whoever calls it takes them in turn. None: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<u32>,
    /// Sysctls of the host's network namespace, like `"net.ipv4.ip_local_port_range" = "20000 20999"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctl: BTreeMap<String, String>,
    /// The `rps_cpus` mask of the host's receive queues, in hexadecimal, like `3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rps_cpus: Option<String>,
    /// Rules of its packet filter that each packet passes and none of which fits; none: no filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter_rules: Option<u32>,
    /// Processes beside the host's own that keep its CPUs busy, in a control group of theirs; none: nobody else is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<u32>,
    /// The disk that its logs lie on; none: that of `/var/log`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_disk: Option<LogDisk>,
    /// How often per second the host's processes may write to that disk; none: as often as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_writes_per_s: Option<NonZeroU32>,
    /// The server that runs on it; none for the host of the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<LabServer>,
}

/// What a link does to packets. Loss, delay, jitter and reordering hold in each direction, the rate for what the host sends;
/// `receive` says what is another for the packets that come to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Rate of what the host sends; none: as fast as the kernel can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// How long packets may wait at a link with a rate before they are dropped; none: 400 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Nanos>,
    /// What a link with a rate sends at once, in KiB; none: 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_kib: Option<u32>,
    /// Share of packets that the switch drops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
    /// How long each packet is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
    /// By how much the delay of a packet may be shorter or longer, evenly spread; at most the delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Nanos>,
    /// Share of packets that have no delay, so that they overtake others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Share>,
    /// What is another for packets that come to the host.
    #[serde(default, skip_serializing_if = "Direction::is_plain")]
    pub receive: Direction,
    /// Largest packet in bytes, without its Ethernet head, at both ends; none: 1500.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u32>,
    /// Largest packet that the switch passes on to the host; greater ones vanish, and nobody is told. Those that a sender leaves
    /// to be split (its `offloads`) pass. None: as large as `mtu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u32>,
    /// Queues of the host's interface, as many to receive as to send; none: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<u32>,
    /// Whether the link joins and splits packets (GRO, GSO, TSO); none: as the kernel makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offloads: Option<bool>,
}

/// What a link does to the packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    /// Rate of the direction; none: as fast as the kernel can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// How long packets may wait at a link with a rate; none: as the link says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Nanos>,
    /// What a link with a rate sends at once, in KiB; none: as the link says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_kib: Option<u32>,
    /// Share of packets that the switch drops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
    /// How long each packet is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
    /// By how much the delay may be shorter or longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Nanos>,
    /// Share of packets that have no delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reorder: Option<Share>,
}

impl Direction {
    /// Whether nothing happens to packets.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// Whether packets take longer than the kernel needs.
    pub fn is_delayed(&self) -> bool {
        self.delay.is_some()
    }
}

/// What was set, for a person: `rate 20mbit, delay 10ms, loss 1%`; empty when nothing was.
impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = [
            self.rate.map(|rate| format!("rate {rate}")),
            self.delay.map(|delay| format!("delay {delay}")),
            self.jitter.map(|jitter| format!("jitter {jitter}")),
            self.reorder.map(|share| format!("reorder {share}")),
            self.loss.map(|share| format!("loss {share}")),
        ];
        f.write_str(&words.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl Link {
    /// Whether the link does nothing to packets.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// What happens to the packets that the host sends.
    pub fn sending(&self) -> Direction {
        let Self { rate, queue, burst_kib, loss, delay, jitter, reorder, .. } = *self;
        Direction { rate, queue, burst_kib, loss, delay, jitter, reorder }
    }

    /// What happens to the packets that come to the host.
    pub fn receiving(&self) -> Direction {
        let own = self.receive;
        Direction {
            rate: own.rate,
            queue: own.queue.or(self.queue),
            burst_kib: own.burst_kib.or(self.burst_kib),
            loss: own.loss.or(self.loss),
            delay: own.delay.or(self.delay),
            jitter: own.jitter.or(self.jitter),
            reorder: own.reorder.or(self.reorder),
        }
    }

    /// Whether the link holds packets up: that needs netem, or a process that does the same.
    pub fn is_delayed(&self) -> bool {
        self.sending().is_delayed() || self.receiving().is_delayed()
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
    /// HAProxy that passes requests to the hosts in `calls`.
    HaproxyProxy,
    /// Apache httpd that serves the files of `nginx-files`.
    HttpdFiles,
    /// Node that serves the files of `nginx-files` from memory.
    NodeFiles,
    /// The HTTP server of the Java runtime, which serves the files of `nginx-files` from memory.
    JvmFiles,
    /// Jetty, an application server for Java, which serves the files of `nginx-files` from memory.
    JettyFiles,
    /// An application: `POST /login` gives a token, `GET /query?id=N` needs it. It calls one `postgres` and one `redis`.
    ChainApp,
    /// PostgreSQL with some small tables, made anew.
    Postgres,
    /// Redis that writes nothing to disk.
    Redis,
    /// None: the host has an address and a link, and waits for what `prony network` sends it.
    None,
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
    /// Whether files leave by sendfile(2); none: yes of a proxy, no of a file server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sendfile: Option<bool>,
    /// Whether head and body of a file wait for each other and leave as full packets; it needs `sendfile`. None: yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp_nopush: Option<bool>,
    /// Names that nginx serves besides its address, from `d0.lab` on, each a server of its own; none: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domains: Option<u32>,
    /// Lines of a map of names that nginx looks up for each request; none: no such map.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_lines: Option<u32>,
    /// Locations with a regular expression that nginx tries for each request before the one that fits; none: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex_rules: Option<u32>,
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
    /// Waiting time of `haproxy-delay` and `jvm-files` before each answer, and of `chain-app` inside its database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Nanos>,
    /// Whether `chain-app` waits in its only thread, so that nobody else is served meanwhile; none: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocking: Option<bool>,
    /// Whether `chain-app` writes traces; none: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<bool>,
    /// Threads of the servers in Java that answer requests; none: 64 for each worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Whether `jvm-files` holds the same lock in each of its threads while it waits; none: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_lock: Option<bool>,
    /// Small objects that `jvm-files` keeps, in MiB; each request replaces some, and one thread collects what is left over
    /// while all others stand still. None: it keeps none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_mib: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_of_a_link_can_be_another() {
        let link: Link = toml::from_str(
            "rate = \"20mbit\"\nloss = \"1%\"\ndelay = \"10ms\"\n[receive]\nrate = \"50mbit\"\nloss = \"3%\"\n",
        )
        .unwrap();
        assert_eq!(link.sending().to_string(), "rate 20mbit, delay 10ms, loss 1%");
        assert_eq!(link.receiving().to_string(), "rate 50mbit, delay 10ms, loss 3%");
        assert!(link.is_delayed() && !link.is_plain());
        assert_eq!(toml::from_str::<Link>(&toml::to_string(&link).unwrap()).unwrap(), link);
        let rated: Link = toml::from_str("rate = \"20mbit\"").unwrap();
        assert!(rated.receiving().is_plain() && !rated.is_delayed());
    }
}
