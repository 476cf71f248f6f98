//! What a fact of the inventory that differs can explain, and the causes that look into it.
//!
//! It judges nothing: a difference explains a speed only when a diagnosis or a comparison says so.

/// What a difference can explain.
pub(super) struct Reason {
    /// Ends a fact's name, or with a `*` at its end begins it.
    fact: &'static str,
    pub text: &'static str,
    /// Ids of causes.
    pub causes: &'static [&'static str],
}

const fn reason(fact: &'static str, text: &'static str, causes: &'static [&'static str]) -> Reason {
    Reason { fact, text, causes }
}

/// The first that fits counts.
const REASONS: &[Reason] = &[
    reason(
        "cpus",
        "how much work fits: compare what a request costs, not only the rate",
        &["cpu-saturated-user", "cpu-saturated-kernel"],
    ),
    reason("cpu.model", "what a request costs in CPU time", &["cpu-saturated-user", "cpu-saturated-kernel"]),
    reason("cpu.governor", "whether CPUs run at their full clock", &["frequency-capped"]),
    reason(
        "cpu.smt",
        "two threads of one core share it: two CPUs are then fewer than two cores",
        &["cpu-saturated-user"],
    ),
    reason("cache.*", "what a request costs in CPU time", &[]),
    reason("numa.nodes", "memory and cards of another node are farther away", &["numa-remote"]),
    reason("numa_node", "memory and cards of another node are farther away", &["numa-remote"]),
    reason("virtual", "CPU time that others take, and no counters of the hardware", &["cpu-stolen"]),
    reason("machine.*", "another machine, or another offer of the same provider", &["cpu-stolen"]),
    reason("kernel", "what a packet and a system call cost, and which defaults hold", &[]),
    reason(
        "clocksource",
        "reading the time is a system call with some clocks, and servers do it for each request",
        &["cpu-saturated-kernel"],
    ),
    reason("memory", "how much of files and data stays in memory", &["memory-pressure", "disk-saturated"]),
    reason("transparent_hugepage", "pauses while pages are joined", &["stop-the-world-pauses"]),
    reason(
        "rps_cpus",
        "which CPUs handle packets: too few are full, too many disturb the servers",
        &["packet-steering-overspread", "interrupts-on-one-cpu"],
    ),
    reason("rps_flow_cnt", "whether packets go to the CPU of their reader", &["packet-steering-overspread"]),
    reason("xps_cpus", "which CPUs send on which queue", &["too-few-nic-queues"]),
    reason("irq_cpus", "which CPUs take the interrupts of the card", &["interrupts-on-one-cpu", "numa-remote"]),
    reason("rx_queues", "how many CPUs can take packets at once", &["too-few-nic-queues", "interrupts-on-one-cpu"]),
    reason("tx_queues", "how many CPUs can send at once", &["too-few-nic-queues"]),
    reason("queues", "how many CPUs can take packets at once", &["too-few-nic-queues"]),
    reason(
        "coalesce_rx_us",
        "how long packets wait to share an interrupt: short costs CPU, long costs latency",
        &["coalescing-too-low", "coalescing-too-high"],
    ),
    reason(
        "coalesce_tx_us",
        "how long packets wait to share an interrupt",
        &["coalescing-too-low", "coalescing-too-high"],
    ),
    reason("ring_rx", "how many packets wait in the card before they are lost", &["nic-ring-overrun"]),
    reason("ring_tx", "how many packets wait to be sent", &["transmit-queue-drops"]),
    reason("txqueuelen", "how many packets wait to be sent", &["transmit-queue-drops"]),
    reason("gro", "packets are joined before the kernel looks at them, or each costs as much", &["offloads-off"]),
    reason("gso", "large packets are split late, or each part costs as much", &["offloads-off"]),
    reason("tso", "the card splits large packets, or the CPU does", &["offloads-off"]),
    reason(
        "qdisc",
        "the queue before the wire: a rate, a delay, or none",
        &["bandwidth-bound", "transmit-queue-drops", "path-delay"],
    ),
    reason(
        "mtu",
        "how many packets an answer takes, and whether it passes at all",
        &["packet-rate-bound", "path-mtu-blackhole"],
    ),
    reason("speed_mbit", "how much the link carries", &["bandwidth-bound"]),
    reason(
        "driver",
        "another card, or none: a virtual interface passes packets on the sender's CPU",
        &["packet-rate-bound"],
    ),
    reason("driver_version", "what the card can, and its defaults", &[]),
    reason("server.workers", "how many requests are worked on at once", &["too-few-workers"]),
    reason("server.cpus_allowed", "which CPUs the workers may use", &["workers-misplaced"]),
    reason("server.cgroup.quota", "how much CPU time it may use, whatever is idle", &["cpu-quota-throttled"]),
    reason("server.open_files_limit", "how many connections and files it may hold", &["file-descriptors-exhausted"]),
    reason("config.worker_processes", "how many requests are worked on at once", &["too-few-workers"]),
    reason("config.nbthread", "how many requests are worked on at once", &["too-few-workers"]),
    reason("config.worker_connections", "how many connections a worker takes", &["worker-connections-exhausted"]),
    reason("config.maxconn", "how many connections it takes", &["connection-limit"]),
    reason("config.worker_cpu_affinity", "which CPUs the workers may use", &["workers-misplaced"]),
    reason(
        "config.keepalive",
        "whether connections to the servers are kept: if not, each request pays for a new one",
        &["upstream-keepalive-off", "ephemeral-ports-exhausted"],
    ),
    reason(
        "config.keepalive_requests",
        "after how many requests a connection is opened anew",
        &["upstream-keepalive-off"],
    ),
    reason(
        "config.proxy_http_version",
        "1.0 closes the connection to the server after each request",
        &["upstream-keepalive-off"],
    ),
    reason("config.option.httpclose", "the connection is closed after each request", &["upstream-keepalive-off"]),
    reason("config.http-reuse", "whether connections to the servers are shared", &["upstream-keepalive-off"]),
    reason(
        "config.access_log",
        "a write for each request, unless it is buffered or off",
        &["access-log-unbuffered", "access-log-lock"],
    ),
    reason("config.error_log", "at `debug` and `info` every request writes", &["log-flood"]),
    reason(
        "config.listen",
        "the accept queue (`backlog`), one queue for all workers or one each (`reuseport`), TLS",
        &["accept-queue-full", "listener-lock", "tls-handshakes"],
    ),
    reason("config.gzip", "answers are compressed for each request", &["compression-cpu"]),
    reason("config.gzip_comp_level", "how much CPU time compression takes", &["compression-cpu"]),
    reason("config.limit_req", "requests above a rate wait or fail", &["rate-limited"]),
    reason("config.limit_conn", "connections above a number fail", &["connection-limit"]),
    reason("config.limit_rate", "answers are sent no faster", &["rate-limited"]),
    reason("config.sendfile", "files go to the socket without passing through the server", &["cpu-saturated-kernel"]),
    reason("config.tcp_nopush", "whether head and body of an answer share a packet", &["partial-packets"]),
    reason("config.tcp_nodelay", "whether small pieces wait for an acknowledgement", &["delayed-ack-stall"]),
    reason(
        "config.proxy_buffering",
        "large answers of servers go through files, or hold the server",
        &["proxy-temp-files"],
    ),
    reason("config.proxy_buffers", "answers larger than these go through files", &["proxy-temp-files"]),
    reason("config.ssl_session_cache", "whether a returning client pays for a full handshake", &["tls-handshakes"]),
    reason("config.ssl_session_tickets", "whether a returning client pays for a full handshake", &["tls-handshakes"]),
    reason("config.ssl_protocols", "what a handshake costs", &["tls-handshakes"]),
    reason("config.open_file_cache", "whether each request opens its file anew", &["cpu-saturated-kernel"]),
    reason("config.resolver", "names are asked for while requests wait", &["name-lookup-per-request"]),
    reason(".version", "another release: its changes and defaults", &[]),
    reason("net.core.somaxconn", "the cap on every accept queue", &["accept-queue-full"]),
    reason("net.ipv4.tcp_max_syn_backlog", "how many connections may be half open", &["syn-queue-full"]),
    reason("net.ipv4.tcp_syncookies", "whether a full queue of half-open connections drops", &["syn-queue-full"]),
    reason(
        "net.ipv4.ip_local_port_range",
        "how many connections can be opened to one server",
        &["ephemeral-ports-exhausted"],
    ),
    reason(
        "net.ipv4.tcp_tw_reuse",
        "whether ports of closed connections can be taken again",
        &["ephemeral-ports-exhausted"],
    ),
    reason(
        "net.ipv4.tcp_max_tw_buckets",
        "how many closed connections hold their port",
        &["ephemeral-ports-exhausted"],
    ),
    reason(
        "net.ipv4.tcp_congestion_control",
        "how fast a connection sends after a loss and over a long way",
        &["packet-loss", "path-delay"],
    ),
    reason("net.ipv4.tcp_slow_start_after_idle", "whether a kept connection starts slowly again", &["path-delay"]),
    reason("net.ipv4.tcp_rmem", "how much may be under way to a host", &["socket-buffer-limited"]),
    reason("net.ipv4.tcp_wmem", "how much may be under way from a host", &["socket-buffer-limited"]),
    reason("net.core.rmem_max", "how much may be under way to a host", &["socket-buffer-limited"]),
    reason("net.core.wmem_max", "how much may be under way from a host", &["socket-buffer-limited"]),
    reason(
        "net.core.netdev_budget",
        "how many packets a CPU handles before it lets others run",
        &["softirq-budget-squeezed"],
    ),
    reason(
        "net.core.netdev_budget_usecs",
        "how long a CPU handles packets before it lets others run",
        &["softirq-budget-squeezed"],
    ),
    reason(
        "net.core.netdev_max_backlog",
        "how many packets wait for a CPU before they are dropped",
        &["softnet-backlog-drops"],
    ),
    reason(
        "net.core.rps_sock_flow_entries",
        "whether packets go to the CPU of their reader",
        &["packet-steering-overspread"],
    ),
    reason("net.core.busy_poll", "readers look for packets instead of sleeping: less latency, more CPU time", &[]),
    reason("net.core.default_qdisc", "the queue before the wire", &["transmit-queue-drops"]),
    reason("net.netfilter.nf_conntrack_max", "how many connections the firewall can follow", &["conntrack-full"]),
    reason(
        "vm.dirty_ratio",
        "how much is written before writers wait for the disk",
        &["log-disk-sync", "disk-saturated"],
    ),
    reason("vm.dirty_background_ratio", "when writing to the disk begins", &["disk-saturated"]),
    reason("vm.swappiness", "how soon memory goes to the disk", &["memory-pressure"]),
    reason("fs.file-max", "how many connections and files the host may hold", &["file-descriptors-exhausted"]),
];

/// What a fact that differs can explain, where that is known.
pub(super) fn explain(fact: &str) -> Option<&'static Reason> {
    REASONS.iter().find(|reason| match reason.fact.strip_suffix('*') {
        Some(start) => fact.starts_with(start),
        None => ends(fact, reason.fact),
    })
}

/// Whether a name ends with another, whole words between dots: `if.eth0.mtu` with `mtu`.
fn ends(fact: &str, end: &str) -> bool {
    fact.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.') || end.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_exists() {
        for reason in REASONS {
            for cause in reason.causes {
                assert!(prony_diagnose::CAUSES.iter().any(|known| known.id == *cause), "{}: {cause}", reason.fact);
            }
        }
    }

    #[test]
    fn every_reason_can_be_reached() {
        for reason in REASONS {
            let fact = reason.fact.replace('*', "x");
            assert!(
                explain(&fact).is_some_and(|found| found.text == reason.text),
                "{} is hidden by another",
                reason.fact
            );
        }
    }

    #[test]
    fn names_end_at_dots() {
        let text = |fact: &str| explain(fact).map(|reason| reason.fact);
        assert_eq!(text("if.eth0.rx-0.rps_cpus"), Some("rps_cpus"));
        assert_eq!(text("sysctl.net.core.netdev_budget"), Some("net.core.netdev_budget"));
        assert_eq!(
            (text("nginx.config.keepalive"), text("nginx.version")),
            (Some("config.keepalive"), Some(".version"))
        );
        assert_eq!((text("server.cpus_allowed"), text("servercpus")), (Some("server.cpus_allowed"), None));
    }
}
