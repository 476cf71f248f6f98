//! What causes, metrics, knobs and verdicts are called when a person reads them.
//!
//! Titles only: what a cause is and how it is seen stands with the cause. A name that is not in a table here is shown as its id,
//! so that a new cause or metric is readable before it has a title; tests ask for the titles of all causes and
//! of the whole metric catalogue.

mod causes;

use causes::CAUSES;
use prony_model::comparison::{ComparedMetric, GateState, Strength};
use prony_model::diagnosis::Confidence;
use prony_model::knob::{ChangeState, KnobId};
use prony_model::proof::ProofVerdict;
use prony_model::run::{Arm, Level};
use prony_model::stack::{Role, Software};

/// Title of a cause, like `Connections to the upstream are not reused`.
pub fn cause(id: &str) -> String {
    CAUSES.iter().find(|(name, _, _)| *name == id).map_or_else(|| spoken(id), |(_, title, _)| (*title).to_string())
}

/// What a cause means, in one sentence; empty for causes that have none here.
pub fn cause_meaning(id: &str) -> &'static str {
    CAUSES.iter().find(|(name, _, _)| *name == id).map_or("", |(_, _, meaning)| meaning)
}

/// `some-new-cause` as `Some new cause`.
fn spoken(id: &str) -> String {
    let words = id.replace(['-', '_'], " ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Title of a metric of the catalogue, or of a quantity derived from it: `tcp.active_opens / request` becomes
/// `connections opened per request`.
pub fn metric(name: &str) -> String {
    if let Some((base, per)) = name.split_once(" / ") {
        let link = if per == "request" { "per" } else { "/" };
        return format!("{} {link} {}", metric(base), metric(per));
    }
    METRICS.iter().find(|(id, _)| *id == name).map_or_else(|| name.to_string(), |(_, title)| (*title).to_string())
}

/// Title of a knob.
pub fn knob(id: &KnobId) -> String {
    match id {
        KnobId::NginxUpstreamKeepalive => "idle upstream connections kept by nginx, per worker".to_string(),
        KnobId::NginxUpstreamDown => "servers that nginx sends no requests to".to_string(),
        KnobId::NginxAccessLog => "how nginx writes its access log".to_string(),
        KnobId::NginxWorkerProcesses => "worker processes of nginx".to_string(),
        KnobId::NginxWorkerConnections => "connections that a worker of nginx may hold".to_string(),
        KnobId::NginxBacklog => "accept queue that nginx asks for".to_string(),
        KnobId::NginxDirective(directive) => format!("{} of nginx", directive.name()),
        KnobId::Sysctl(name) => format!("kernel setting {name}"),
        KnobId::RpsCpus(interface) => format!("CPUs that packets of {interface} are steered to"),
        KnobId::Offloads(interface) => format!("offloads of {interface}"),
        KnobId::LinkRate(interface) => format!("rate of what is sent on {interface}"),
        KnobId::CgroupCpuQuota => "CPU quota of the processes".to_string(),
        KnobId::CpuAffinity => "CPUs of the processes".to_string(),
    }
}

/// Where a load stands relative to the knee.
pub const fn level(level: Level) -> &'static str {
    match level {
        Level::Below => "below the knee",
        Level::At => "at the limit",
        Level::Beyond => "beyond the knee",
    }
}

/// How sure a verdict is.
pub const fn confidence(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "low",
        Confidence::Medium => "medium",
        Confidence::High => "high",
    }
}

/// What a proof concludes.
pub const fn proof(verdict: ProofVerdict) -> &'static str {
    match verdict {
        ProofVerdict::Better => "better",
        ProofVerdict::Worse => "worse",
        ProofVerdict::NoDifference => "the same",
        ProofVerdict::GuardBroken => "faster, but a guard broke",
        ProofVerdict::Inconclusive => "inconclusive",
    }
}

/// What an effect's interval says: as [`proof`], and of the same how far it may be apart.
pub fn verdict_of(verdict: ProofVerdict, d: f64) -> String {
    match verdict {
        ProofVerdict::NoDifference => format!("the same within {}", crate::number::percent(d)),
        ProofVerdict::Better | ProofVerdict::Worse | ProofVerdict::GuardBroken | ProofVerdict::Inconclusive => {
            proof(verdict).to_string()
        }
    }
}

/// How a change ended.
pub const fn change_state(state: ChangeState) -> &'static str {
    match state {
        ChangeState::Applied => "still applied: `prony undo` puts it back",
        ChangeState::Undone => "undone, exactly as it was",
        ChangeState::Kept => "kept, as asked",
        ChangeState::Conflict => "not undone: someone else changed it meanwhile",
    }
}

/// An arm of a proof.
pub const fn arm(arm: Arm) -> &'static str {
    match arm {
        Arm::A => "A",
        Arm::B => "B",
    }
}

/// What a host does.
pub const fn role(role: Role) -> &'static str {
    match role {
        Role::Generator => "generator",
        Role::Proxy => "proxy",
        Role::Server => "server",
        Role::App => "application",
        Role::Database => "database",
        Role::Cache => "cache",
    }
}

/// Server software; empty when nothing is known of it.
pub const fn software(software: Option<Software>) -> &'static str {
    match software {
        Some(Software::Nginx) => "nginx",
        Some(Software::Haproxy) => "HAProxy",
        Some(Software::Postgres) => "PostgreSQL",
        Some(Software::Redis) => "Redis",
        Some(Software::Other) | None => "",
    }
}

/// The four tests of grounding.
pub fn grounding(test: &str) -> String {
    match test {
        "structure" => "It is on the path".to_string(),
        "deviation" => "It departs from the calm load".to_string(),
        "order" => "It comes before the limit".to_string(),
        "response" => "The limit follows it when it is changed".to_string(),
        other => spoken(other),
    }
}

/// A step from the symptom to the cause.
pub fn walk(step: &str) -> String {
    match step {
        "symptom" => "The symptom".to_string(),
        "path" => "The path".to_string(),
        "time split" => "Where the time goes".to_string(),
        "counters" => "The guilty host, counter by counter".to_string(),
        "closely" => "A closer look".to_string(),
        "cause" => "The cause".to_string(),
        other => spoken(other),
    }
}

/// What an effect of a proof is measured on.
pub fn effect(metric: &str) -> String {
    match metric {
        "good_per_s" => "good requests per second".to_string(),
        "soonness_per_s" => "speed, by mean latency".to_string(),
        "p50_us" => "p50 latency".to_string(),
        "p99_us" => "p99 latency".to_string(),
        "error_share" => "share of failed requests".to_string(),
        "cpu_us_per_request" => "CPU time per request".to_string(),
        other => spoken(other),
    }
}

/// What a comparison is about.
pub fn compared(metric: ComparedMetric) -> String {
    match metric {
        ComparedMetric::Rps => effect("good_per_s"),
        ComparedMetric::P50 => effect("p50_us"),
        ComparedMetric::P99 => effect("p99_us"),
        ComparedMetric::Errors => effect("error_share"),
        ComparedMetric::Cpu => effect("cpu_us_per_request"),
    }
}

/// What a gate of validity asks of a trial.
pub fn validity(gate: &str) -> String {
    match gate {
        "rate" => "the rate that was asked for was sent".to_string(),
        "schedule-lag" => "requests were sent when they should be".to_string(),
        "cpu" => "the generator had CPU to spare".to_string(),
        "little" => "requests in flight are throughput times latency (Little's law)".to_string(),
        "ports" => "every connection found a free local port".to_string(),
        "descriptors" => "every connection found a free descriptor".to_string(),
        "quota" => "no CPU quota throttled the generator".to_string(),
        "backlog" => "no queue of received packets overflowed".to_string(),
        "bytes" => "what was counted came through the interface".to_string(),
        "steady" => "throughput stayed the same within the trial".to_string(),
        "server-count" => "the server counted the same requests".to_string(),
        other => spoken(other),
    }
}

/// What a gate found.
pub const fn gate(state: GateState) -> &'static str {
    match state {
        GateState::Holds => "holds",
        GateState::Broken => "broken",
        GateState::NotProven => "not proven",
    }
}

/// How much a verdict is worth.
pub const fn strength(strength: Strength) -> &'static str {
    match strength {
        Strength::Strong => "strong",
        Strength::Unchecked => "unchecked",
        Strength::Weak => "weak",
    }
}

const METRICS: &[(&str, &str)] = &[
    ("request", "request"),
    ("cpu.user", "CPU time in user space"),
    ("cpu.nice", "CPU time of niced processes"),
    ("cpu.system", "CPU time in the kernel"),
    ("cpu.idle", "idle CPU time"),
    ("cpu.iowait", "idle CPU time with a disk busy"),
    ("cpu.irq", "CPU time in hard interrupts"),
    ("cpu.softirq", "CPU time in soft interrupts"),
    ("cpu.steal", "CPU time taken by other guests"),
    ("load.1m", "load average over a minute"),
    ("cpu.context_switches", "context switches"),
    ("cpu.forks", "processes started"),
    ("yardstick.time", "CPU time of the yardstick's work"),
    ("yardstick.pieces", "pieces of the yardstick's work"),
    ("proc.count", "processes of the hop"),
    ("proc.user", "CPU time of a process in user space"),
    ("proc.system", "CPU time of a process in the kernel"),
    ("proc.run", "time a process ran"),
    ("proc.run_delay", "time a process waited for a CPU"),
    ("proc.threads", "threads of a process"),
    ("proc.cpus_allowed", "CPUs a process may use"),
    ("proc.switches_voluntary", "times a process gave up its CPU"),
    ("proc.switches_involuntary", "times a process was put off its CPU"),
    ("proc.tracer", "a tracer is attached"),
    ("proc.writes", "write calls"),
    ("proc.reads", "read calls"),
    ("proc.written", "bytes written by calls"),
    ("proc.disk_written", "bytes written to disks"),
    ("proc.descriptors", "open file descriptors"),
    ("proc.descriptor_limit", "limit of file descriptors"),
    ("proc.memory", "resident memory"),
    ("proc.is_worker", "process serves requests"),
    ("proc.serves", "process can serve requests"),
    ("proc.name", "name of a process"),
    ("cgroup.usage", "CPU time of the control group"),
    ("cgroup.periods", "quota periods"),
    ("cgroup.throttled", "periods stopped by the quota"),
    ("cgroup.throttled_time", "time stopped by the quota"),
    ("cgroup.quota", "CPU quota"),
    ("cgroup.oom_kills", "processes killed for memory"),
    ("if.rx_bytes", "bytes received"),
    ("if.tx_bytes", "bytes sent"),
    ("if.rx_packets", "packets received"),
    ("if.tx_packets", "packets sent"),
    ("if.rx_drops", "received packets dropped"),
    ("if.tx_drops", "packets dropped before sending"),
    ("if.errors", "interface errors"),
    ("if.speed", "speed of the link"),
    ("if.rx_queues", "receive queues"),
    ("if.rps_cpus", "CPUs that packets are steered to"),
    ("qdisc.bytes", "bytes through the queue"),
    ("qdisc.drops", "drops of the queue"),
    ("qdisc.overlimits", "times the queue was over its rate"),
    ("qdisc.backlog", "bytes waiting in the queue"),
    ("qdisc.rate", "rate of the queue"),
    ("tcp.active_opens", "connections opened"),
    ("tcp.passive_opens", "connections accepted"),
    ("tcp.attempt_fails", "failed connection attempts"),
    ("tcp.estab_resets", "connections reset"),
    ("tcp.established", "established connections"),
    ("tcp.in_segments", "segments received"),
    ("tcp.out_segments", "segments sent"),
    ("tcp.retransmits", "segments sent again"),
    ("tcp.out_resets", "resets sent"),
    ("tcp.original_sent", "data segments sent"),
    ("tcp.timeouts", "retransmit timeouts"),
    ("tcp.syn_retransmits", "handshakes sent again"),
    ("tcp.fast_retransmits", "fast retransmits"),
    ("tcp.loss_probes", "loss probes"),
    ("tcp.dsack_received", "spurious retransmits"),
    ("tcp.listen_overflows", "accept queue overflows"),
    ("tcp.listen_drops", "handshakes dropped by listeners"),
    ("tcp.syn_queue_drops", "handshakes dropped for a full SYN queue"),
    ("tcp.syn_cookies", "SYN cookies sent"),
    ("tcp.time_wait_overflows", "TIME_WAIT table overflows"),
    ("tcp.time_wait_reused", "TIME_WAIT sockets reused"),
    ("tcp.backlog_drops", "packets dropped for a full socket backlog"),
    ("tcp.receive_queue_drops", "packets dropped for a full receive queue"),
    ("tcp.delayed_acks", "delayed acknowledgements"),
    ("tcp.memory_pressures", "times TCP came under memory pressure"),
    ("sock.tcp_in_use", "TCP sockets in use"),
    ("sock.time_wait", "sockets in TIME_WAIT"),
    ("sock.orphans", "sockets without a process"),
    ("sock.tcp_memory", "memory of TCP"),
    ("port.range", "local ports to choose from"),
    ("udp.out", "datagrams sent"),
    ("udp.in", "datagrams received"),
    ("listen.queue", "connections waiting for accept()"),
    ("listen.backlog", "size of the accept queue"),
    ("unix.queue", "waiting for accept at a unix socket"),
    ("unix.backlog", "size of a unix socket's accept queue"),
    ("conn.in", "connections from clients"),
    ("conn.in_busy", "requests being served"),
    ("conn.in_unaccepted", "connections that nobody accepted"),
    ("conn.in_unread", "connections with unread bytes"),
    ("conn.out", "connections to upstreams"),
    ("conn.out_waiting", "answers awaited from upstreams"),
    ("conn.out_rtt", "round trip to the upstream"),
    ("conn.out_retransmits", "retransmits to upstreams"),
    ("conn.in_retransmits", "retransmits to clients"),
    ("softnet.processed", "packets processed by a CPU"),
    ("softnet.dropped", "packets dropped for a full CPU backlog"),
    ("softnet.squeezed", "receive rounds cut short"),
    ("softnet.steered", "packets steered to a CPU"),
    ("softirq.net_rx", "receive soft interrupts"),
    ("softirq.net_tx", "send soft interrupts"),
    ("interrupts.total", "hard interrupts"),
    ("interrupts.call", "function call interrupts"),
    ("interrupts.reschedule", "reschedule interrupts"),
    ("psi.cpu_some", "time someone waited for a CPU"),
    ("psi.io_some", "time someone waited for a disk"),
    ("psi.io_full", "time everyone waited for a disk"),
    ("psi.memory_some", "time someone waited for memory"),
    ("memory.available", "available memory"),
    ("disk.busy", "time a disk was busy"),
    ("disk.written", "bytes written to a disk"),
    ("disk.flushes", "disk flushes"),
    ("nginx.requests", "requests counted by nginx"),
    ("nginx.accepts", "connections accepted by nginx"),
    ("nginx.handled", "connections handled by nginx"),
    ("nginx.active", "active connections of nginx"),
    ("nginx.reading", "connections nginx reads a request from"),
    ("nginx.writing", "connections nginx answers on"),
    ("nginx.waiting", "idle client connections of nginx"),
    ("log.size", "size of a log"),
    ("errorlog.lines", "lines in the error log"),
    ("errorlog.no_port", "complaints about missing local ports"),
    ("errorlog.no_worker_connections", "complaints about worker_connections"),
    ("errorlog.no_descriptors", "complaints about open files"),
    ("errorlog.upstream_timeout", "complaints about late upstreams"),
    ("errorlog.no_live_upstreams", "requests for which no server was alive or free"),
    ("errorlog.temp_file", "answers buffered to a file"),
    ("errorlog.body_file", "uploads buffered to a file"),
    ("errorlog.limiting", "requests held by a limit"),
    ("look.log_line", "length of a log line"),
    ("look.log_step", "bytes per write to the log"),
    ("look.log_held", "share of glances that found the log held open"),
    ("look.log_growth", "growth of the log"),
    ("look.wait", "share of looks that found workers waiting there"),
    // Kernel, network and host.
    ("proc.disk_sleep", "asleep without being woken, mostly for a disk"),
    ("proc.major_faults", "pages read back from disk"),
    ("proc.affinity", "CPUs that the process may use"),
    ("cgroup.memory_limit_hits", "times the group met its memory limit"),
    ("vm.direct_scans", "pages looked at to find room"),
    ("vm.allocation_stalls", "stalls for want of memory"),
    ("vm.major_faults", "pages read back on the machine"),
    ("numa.local_pages", "pages given from the own node"),
    ("numa.remote_pages", "pages given from another node"),
    ("cpu.mhz", "clock rate"),
    ("cpu.mhz_max", "highest clock rate"),
    ("cpu.thermal_throttles", "times the CPU was slowed for its heat"),
    ("cpu.node", "NUMA node of the CPU"),
    ("disk.waited", "time that disk requests waited"),
    ("disk.writes", "writes to the disk"),
    ("if.mtu", "largest packet of the interface"),
    ("if.offload", "offload feature is on"),
    ("nic.queues", "receive queues in use"),
    ("nic.queues_max", "receive queues that the card has"),
    ("nic.coalesce", "time that the card gathers packets"),
    ("nic.coalesce_adaptive", "the card adapts its gathering"),
    ("nic.ring", "receive ring"),
    ("nic.ring_max", "largest receive ring"),
    ("nic.overruns", "packets lost for want of ring room"),
    ("nic.queue_packets", "packets of a receive queue"),
    ("nic.interrupts", "interrupts of the card"),
    ("nic.node", "NUMA node of the card"),
    ("conntrack.entries", "connections tracked"),
    ("conntrack.max", "room for tracked connections"),
    ("conntrack.drops", "packets dropped for a full tracking table"),
    ("packet.sockets", "taps on all packets"),
    ("tcp.mtu_probes_failed", "path MTU probes that failed"),
    ("tcp.zero_windows", "times a receiver had no room"),
    ("tcp.pruned", "times a receive buffer was too small"),
    ("conn.min_rtt", "shortest round trip"),
    ("conn.connecting", "connects without an answer"),
    ("conn.stuck", "connections that send in vain"),
    ("conn.held", "connections that hold a small rest back"),
    ("conn.window_limited", "time that the receiver had no room"),
    ("conn.buffer_limited", "time that the send buffer was full"),
    ("errorlog.delaying", "requests delayed by a limit"),
    ("look.neighbour", "CPU time of a neighbour"),
    ("look.tap", "CPU time of a packet tap"),
    ("look.filter_rules", "rules of packet filters"),
    ("look.dns_sockets", "sockets that ask a name server"),
    ("look.any_thread", "share of moments that found some thread of the process running"),
    ("look.busiest_thread", "share of looks that found the busiest further thread of the process running"),
    ("look.running", "share of looks that found the process running"),
    ("look.threads", "further threads that wait there"),
    ("look.upstream_tries", "tries of that upstream per request"),
    ("look.upstream_failures", "share of the tries of that upstream that fail"),
    ("look.paused", "share of the time without anything sent"),
    ("look.pause_longest", "longest stretch without anything sent"),
    ("errorlog.upstream", "complaints about that upstream"),
    ("conn.out_sent", "segments with data sent to the peer"),
    ("conn.in_answered", "segments with data sent to callers"),
    ("pg.sessions", "database sessions"),
    ("pg.waits", "database sessions in a statement, by what they wait for"),
    ("pg.oldest_transaction", "age of the oldest transaction"),
    ("pg.locks_awaited", "locks not granted"),
    ("pg.connections", "connections of the database"),
    ("pg.connections_max", "most connections that the database takes"),
    ("pg.sessions_opened", "database sessions opened"),
    ("pg.active_time", "time in statements"),
    ("pg.in_transaction_time", "time idle in transactions"),
    ("pg.commits", "transactions committed"),
    ("pg.rollbacks", "transactions rolled back"),
    ("pg.deadlocks", "deadlocks"),
    ("pg.blocks_read", "blocks read that were not in shared buffers"),
    ("pg.blocks_hit", "blocks found in shared buffers"),
    ("pg.rows_written", "rows written"),
    ("pg.temp_bytes", "bytes written to temporary files"),
    ("pg.wal_bytes", "bytes of the write-ahead log"),
    ("pg.wal_syncs", "flushes of the write-ahead log"),
    ("pg.wal_writes", "writes of the write-ahead log"),
    ("pg.table_scans", "sequential scans"),
    ("pg.table_scanned_rows", "rows read by sequential scans"),
    ("pg.table_index_rows", "rows found by an index"),
    ("pg.table_rows", "rows of the table, about"),
    ("pg.statements", "statements"),
    ("pg.statement_calls", "calls of the statement"),
    ("pg.statement_time", "time in the statement"),
    ("pg.statement_rows", "rows of the statement"),
    ("redis.clients", "clients of Redis"),
    ("redis.clients_max", "most clients that Redis takes"),
    ("redis.blocked", "clients that wait for a blocking command"),
    ("redis.commands", "commands of Redis"),
    ("redis.connections", "connections opened to Redis"),
    ("redis.rejected", "connections that Redis refused"),
    ("redis.hits", "keys found"),
    ("redis.misses", "keys not found"),
    ("redis.evicted", "keys evicted"),
    ("redis.memory", "memory of Redis"),
    ("redis.memory_max", "most memory that Redis takes"),
    ("redis.slow_log", "entries of the slow log"),
    ("redis.command_calls", "calls of the command"),
    ("redis.command_time", "time in the command"),
    ("haproxy.queue", "requests that wait for a slot"),
    ("haproxy.sessions", "sessions"),
    ("haproxy.sessions_max", "most sessions"),
    ("haproxy.requests", "sessions served"),
    ("haproxy.up", "share of the time that it was up"),
    ("haproxy.connect_errors", "connections that failed"),
    ("haproxy.response_errors", "answers that failed"),
    ("haproxy.retries", "retries"),
    ("haproxy.redispatches", "requests sent to another server"),
    ("haproxy.failures", "answers with status 5xx"),
    ("haproxy.response_time", "response time"),
    ("price.connect", "price of one connection here"),
    ("price.log_write", "price of one log write here"),
    ("price.log_open", "price of opening a log here"),
    ("profile.self", "CPU samples in a function itself"),
    ("profile.total", "CPU samples in a function and what it calls"),
    ("profile.module", "CPU samples by program or library"),
    ("profile.samples", "CPU samples"),
    ("profile.lost", "CPU samples without a stack"),
    ("profile.own", "CPU samples within prony's own programs"),
    ("lock.wait", "time spent waiting for kernel locks"),
    ("lock.waits", "waits for kernel locks"),
    ("thread.count", "threads that ran"),
    ("thread.asleep", "time that threads slept, by kernel function"),
    ("thread.sleeps", "sleeps of threads, by kernel function"),
    ("queue.wait", "time spent waiting for a CPU"),
    ("queue.p99", "99th percentile of a wait for a CPU"),
    ("drop.reason", "packets dropped, by reason"),
    ("retransmit.state", "segments sent again, by state of the connection"),
    ("softirq.time", "CPU time in soft interrupts, by kind"),
    ("hardirq.time", "CPU time in interrupt handlers, by interrupt"),
    ("split.requests", "requests seen on accepted connections"),
    ("split.timed", "share of these requests that were timed"),
    ("split.queue", "time until a request that arrived is read"),
    ("split.residence", "time from the arrival of a request to its answer"),
    ("split.residence_p50", "time from the arrival of a request to its answer, median"),
    ("split.residence_p99", "time from the arrival of a request to its answer, 99th percentile"),
    ("split.calls", "requests sent to a host further on"),
    ("split.calls_timed", "share of these calls that were timed"),
    ("split.upstream", "time until a host further on answers"),
    ("split.upstream_p50", "time until a host further on answers, median"),
    ("split.upstream_p99", "time until a host further on answers, 99th percentile"),
    ("self.cpu", "CPU time of observing"),
    ("self.look", "CPU time of the close look, by instrument"),
    ("self.look_around", "CPU time before and after the close look"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::metric::ALL;

    #[test]
    fn every_metric_of_the_catalogue_has_a_title() {
        let missing: Vec<&str> = ALL.iter().map(|m| m.name).filter(|name| metric(name) == *name).collect();
        assert!(missing.is_empty(), "add a title to METRICS for: {missing:?}");
    }

    #[test]
    fn no_title_outlives_its_metric() {
        let known = |id: &str| id == "request" || ALL.iter().any(|m| m.name == id);
        let stale: Vec<&str> = METRICS.iter().map(|(id, _)| *id).filter(|id| !known(id)).collect();
        assert!(stale.is_empty(), "remove from METRICS: {stale:?}");
    }

    #[test]
    fn derived_and_unknown_names_read_well() {
        assert_eq!(metric("tcp.active_opens / request"), "connections opened per request");
        assert_eq!(metric("tcp.retransmits / tcp.original_sent"), "segments sent again / data segments sent");
        assert_eq!(metric("a.new_one"), "a.new_one");
        assert_eq!(cause("of-tomorrow"), "Of tomorrow");
        assert_eq!(cause(""), "");
    }
}
