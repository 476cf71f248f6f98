//! The catalogue of metrics: every fact that a probe may read about a host, with its unit, its kind and its source.
//!
//! Growth is by lines: a new fact is one line here and one reader in `prony-probe`. An item tells instances apart
//! (a CPU, an interface, a pid); its meaning stands in each line.

/// One metric of the catalogue. Compared by name.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Stable name, like `tcp.listen_overflows`.
    pub name: &'static str,
    /// Whether it counts up for ever or shows a state.
    pub kind: MetricKind,
    /// Unit of its values.
    pub unit: Unit,
    /// What the item names; empty when the metric has one instance per host.
    pub item: &'static str,
    /// Where it is read from.
    pub source: &'static str,
}

/// How values relate over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Grows; only differences over time mean something.
    Counter,
    /// A state at one moment.
    Gauge,
}

/// Unit of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Microseconds.
    Micros,
    /// Bytes.
    Bytes,
    /// Bits per second.
    BitsPerSecond,
    /// Pure counts: packets, requests, sockets.
    Count,
    /// CPUs, as in 1.5 CPUs.
    Cpus,
    /// A share from 0 to 1.
    Share,
}

impl Unit {
    /// How the unit is written behind a number; empty for counts.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Micros => "us",
            Self::Bytes => "B",
            Self::BitsPerSecond => "bit/s",
            Self::Count => "",
            Self::Cpus => "CPUs",
            Self::Share => "share",
        }
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Looks a metric up by its name.
pub fn find(name: &str) -> Option<&'static Metric> {
    ALL.iter().copied().find(|m| m.name == name)
}

macro_rules! catalogue {
    ($($id:ident = $name:literal, $kind:ident, $unit:ident, $item:literal, $source:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`, from ", $source)]
            pub const $id: Metric =
                Metric { name: $name, kind: MetricKind::$kind, unit: Unit::$unit, item: $item, source: $source };
        )*
        /// Every metric, in the order of the catalogue.
        pub const ALL: &[&Metric] = &[$(&$id),*];
    };
}

catalogue! {
    // The machine's CPUs. Values are seconds of that CPU's time.
    CPU_USER = "cpu.user", Counter, Seconds, "cpu number", "/proc/stat user";
    CPU_NICE = "cpu.nice", Counter, Seconds, "cpu number", "/proc/stat nice";
    CPU_SYSTEM = "cpu.system", Counter, Seconds, "cpu number", "/proc/stat system";
    CPU_IDLE = "cpu.idle", Counter, Seconds, "cpu number", "/proc/stat idle";
    CPU_IOWAIT = "cpu.iowait", Counter, Seconds, "cpu number", "/proc/stat iowait";
    CPU_IRQ = "cpu.irq", Counter, Seconds, "cpu number", "/proc/stat irq";
    CPU_SOFTIRQ = "cpu.softirq", Counter, Seconds, "cpu number", "/proc/stat softirq";
    CPU_STEAL = "cpu.steal", Counter, Seconds, "cpu number", "/proc/stat steal";
    LOAD_1 = "load.1m", Gauge, Count, "", "/proc/loadavg";
    CONTEXT_SWITCHES = "cpu.context_switches", Counter, Count, "", "/proc/stat ctxt";
    FORKS = "cpu.forks", Counter, Count, "", "/proc/stat processes";

    // Processes of the hop.
    PROC_COUNT = "proc.count", Gauge, Count, "", "number of processes of the hop";
    PROC_USER = "proc.user", Counter, Seconds, "pid", "/proc/PID/stat utime";
    PROC_SYSTEM = "proc.system", Counter, Seconds, "pid", "/proc/PID/stat stime";
    PROC_RUN = "proc.run", Counter, Seconds, "pid", "/proc/PID/schedstat 1 (main thread: all threads summed)";
    PROC_RUN_DELAY = "proc.run_delay", Counter, Seconds, "pid", "/proc/PID/schedstat 2: runnable, but waiting for a CPU";
    PROC_THREADS = "proc.threads", Gauge, Count, "pid", "/proc/PID/stat num_threads";
    PROC_CPUS_ALLOWED = "proc.cpus_allowed", Gauge, Count, "pid", "/proc/PID/status Cpus_allowed_list, counted";
    PROC_SWITCHES_VOLUNTARY = "proc.switches_voluntary", Counter, Count, "pid", "/proc/PID/status voluntary_ctxt_switches";
    PROC_SWITCHES_INVOLUNTARY = "proc.switches_involuntary", Counter, Count, "pid", "/proc/PID/status nonvoluntary_ctxt_switches";
    PROC_TRACER = "proc.tracer", Gauge, Count, "pid", "/proc/PID/status TracerPid, 1 when one is attached";
    PROC_WRITES = "proc.writes", Counter, Count, "pid", "/proc/PID/io syscw";
    PROC_READS = "proc.reads", Counter, Count, "pid", "/proc/PID/io syscr";
    PROC_WRITTEN = "proc.written", Counter, Bytes, "pid", "/proc/PID/io wchar";
    PROC_DISK_WRITTEN = "proc.disk_written", Counter, Bytes, "pid", "/proc/PID/io write_bytes";
    PROC_DESCRIPTORS = "proc.descriptors", Gauge, Count, "pid", "entries of /proc/PID/fd";
    PROC_DESCRIPTOR_LIMIT = "proc.descriptor_limit", Gauge, Count, "pid", "/proc/PID/limits Max open files";
    PROC_MEMORY = "proc.memory", Gauge, Bytes, "pid", "/proc/PID/stat rss";
    PROC_IS_WORKER = "proc.is_worker", Gauge, Count, "pid", "1 when the process serves requests (nginx: title says worker process; others: no child of its own)";

    // The control group of the hop's processes.
    CGROUP_USAGE = "cgroup.usage", Counter, Seconds, "", "cpuacct.usage or cpu.stat usage_usec";
    CGROUP_PERIODS = "cgroup.periods", Counter, Count, "", "cpu.stat nr_periods";
    CGROUP_THROTTLED = "cgroup.throttled", Counter, Count, "", "cpu.stat nr_throttled";
    CGROUP_THROTTLED_TIME = "cgroup.throttled_time", Counter, Seconds, "", "cpu.stat throttled_time or throttled_usec";
    CGROUP_QUOTA = "cgroup.quota", Gauge, Cpus, "", "cpu.cfs_quota_us / cpu.cfs_period_us or cpu.max; absent when there is no quota";
    CGROUP_OOM_KILLS = "cgroup.oom_kills", Counter, Count, "", "memory.events oom_kill or memory.oom_control";

    // Interfaces and queues of the host's network namespace.
    IF_RX_BYTES = "if.rx_bytes", Counter, Bytes, "interface", "/proc/net/dev";
    IF_TX_BYTES = "if.tx_bytes", Counter, Bytes, "interface", "/proc/net/dev";
    IF_RX_PACKETS = "if.rx_packets", Counter, Count, "interface", "/proc/net/dev";
    IF_TX_PACKETS = "if.tx_packets", Counter, Count, "interface", "/proc/net/dev";
    IF_RX_DROPS = "if.rx_drops", Counter, Count, "interface", "/proc/net/dev";
    IF_TX_DROPS = "if.tx_drops", Counter, Count, "interface", "/proc/net/dev";
    IF_ERRORS = "if.errors", Counter, Count, "interface", "/proc/net/dev errs, both directions";
    IF_SPEED = "if.speed", Gauge, BitsPerSecond, "interface", "/sys/class/net/IF/speed; absent for virtual links";
    IF_RX_QUEUES = "if.rx_queues", Gauge, Count, "interface", "/sys/class/net/IF/queues/rx-*";
    IF_RPS_CPUS = "if.rps_cpus", Gauge, Count, "interface", "/sys/class/net/IF/queues/rx-*/rps_cpus: CPUs in the union of the masks";
    QDISC_BYTES = "qdisc.bytes", Counter, Bytes, "interface kind", "netlink RTM_GETQDISC";
    QDISC_DROPS = "qdisc.drops", Counter, Count, "interface kind", "netlink RTM_GETQDISC";
    QDISC_OVERLIMITS = "qdisc.overlimits", Counter, Count, "interface kind", "netlink RTM_GETQDISC";
    QDISC_BACKLOG = "qdisc.backlog", Gauge, Bytes, "interface kind", "netlink RTM_GETQDISC";
    QDISC_RATE = "qdisc.rate", Gauge, BitsPerSecond, "interface kind", "netlink RTM_GETQDISC, rate of tbf";

    // TCP of the host's network namespace.
    TCP_ACTIVE_OPENS = "tcp.active_opens", Counter, Count, "", "/proc/net/snmp Tcp:ActiveOpens";
    TCP_PASSIVE_OPENS = "tcp.passive_opens", Counter, Count, "", "/proc/net/snmp Tcp:PassiveOpens";
    TCP_ATTEMPT_FAILS = "tcp.attempt_fails", Counter, Count, "", "/proc/net/snmp Tcp:AttemptFails";
    TCP_ESTAB_RESETS = "tcp.estab_resets", Counter, Count, "", "/proc/net/snmp Tcp:EstabResets";
    TCP_ESTABLISHED = "tcp.established", Gauge, Count, "", "/proc/net/snmp Tcp:CurrEstab";
    TCP_IN_SEGMENTS = "tcp.in_segments", Counter, Count, "", "/proc/net/snmp Tcp:InSegs";
    TCP_OUT_SEGMENTS = "tcp.out_segments", Counter, Count, "", "/proc/net/snmp Tcp:OutSegs";
    TCP_RETRANSMITS = "tcp.retransmits", Counter, Count, "", "/proc/net/snmp Tcp:RetransSegs";
    TCP_OUT_RESETS = "tcp.out_resets", Counter, Count, "", "/proc/net/snmp Tcp:OutRsts";
    TCP_ORIGINAL_SENT = "tcp.original_sent", Counter, Count, "", "/proc/net/netstat TcpExt:TCPOrigDataSent";
    TCP_TIMEOUTS = "tcp.timeouts", Counter, Count, "", "/proc/net/netstat TcpExt:TCPTimeouts";
    TCP_SYN_RETRANSMITS = "tcp.syn_retransmits", Counter, Count, "", "/proc/net/netstat TcpExt:TCPSynRetrans";
    TCP_FAST_RETRANSMITS = "tcp.fast_retransmits", Counter, Count, "", "/proc/net/netstat TcpExt:TCPFastRetrans";
    TCP_LOSS_PROBES = "tcp.loss_probes", Counter, Count, "", "/proc/net/netstat TcpExt:TCPLossProbes";
    TCP_DSACK_RECEIVED = "tcp.dsack_received", Counter, Count, "", "/proc/net/netstat TcpExt:TCPDSACKRecv: spurious retransmits";
    TCP_LISTEN_OVERFLOWS = "tcp.listen_overflows", Counter, Count, "", "/proc/net/netstat TcpExt:ListenOverflows";
    TCP_LISTEN_DROPS = "tcp.listen_drops", Counter, Count, "", "/proc/net/netstat TcpExt:ListenDrops";
    TCP_SYN_QUEUE_DROPS = "tcp.syn_queue_drops", Counter, Count, "", "/proc/net/netstat TcpExt:TCPReqQFullDrop";
    TCP_SYN_COOKIES = "tcp.syn_cookies", Counter, Count, "", "/proc/net/netstat TcpExt:SyncookiesSent";
    TCP_TIME_WAIT_OVERFLOWS = "tcp.time_wait_overflows", Counter, Count, "", "/proc/net/netstat TcpExt:TCPTimeWaitOverflow";
    TCP_TIME_WAIT_REUSED = "tcp.time_wait_reused", Counter, Count, "", "/proc/net/netstat TcpExt:TWRecycled";
    TCP_BACKLOG_DROPS = "tcp.backlog_drops", Counter, Count, "", "/proc/net/netstat TcpExt:TCPBacklogDrop";
    TCP_RECEIVE_QUEUE_DROPS = "tcp.receive_queue_drops", Counter, Count, "", "/proc/net/netstat TcpExt:TCPRcvQDrop";
    TCP_DELAYED_ACKS = "tcp.delayed_acks", Counter, Count, "", "/proc/net/netstat TcpExt:DelayedACKs";
    TCP_MEMORY_PRESSURES = "tcp.memory_pressures", Counter, Count, "", "/proc/net/netstat TcpExt:TCPMemoryPressures";
    SOCK_TCP_IN_USE = "sock.tcp_in_use", Gauge, Count, "", "/proc/net/sockstat TCP inuse";
    SOCK_TIME_WAIT = "sock.time_wait", Gauge, Count, "", "/proc/net/sockstat TCP tw";
    SOCK_ORPHANS = "sock.orphans", Gauge, Count, "", "/proc/net/sockstat TCP orphan";
    SOCK_TCP_MEMORY = "sock.tcp_memory", Gauge, Bytes, "", "/proc/net/sockstat TCP mem, which counts pages";
    PORT_RANGE = "port.range", Gauge, Count, "", "/proc/sys/net/ipv4/ip_local_port_range, size";
    UDP_OUT = "udp.out", Counter, Count, "", "/proc/net/snmp Udp:OutDatagrams";
    UDP_IN = "udp.in", Counter, Count, "", "/proc/net/snmp Udp:InDatagrams";

    // Sockets, by inet_diag. Busy and waiting tell where requests are: a request is at the last hop whose inbound socket received later than it sent.
    LISTEN_QUEUE = "listen.queue", Gauge, Count, "address:port", "inet_diag rqueue of listeners: connections waiting for accept()";
    LISTEN_BACKLOG = "listen.backlog", Gauge, Count, "address:port", "inet_diag wqueue of listeners: the limit";
    CONN_IN = "conn.in", Gauge, Count, "local port", "inet_diag: established sockets accepted on that port";
    CONN_IN_BUSY = "conn.in_busy", Gauge, Count, "local port", "tcp_info: last data received later than last data sent, so a request is being served";
    CONN_IN_UNREAD = "conn.in_unread", Gauge, Count, "local port", "inet_diag rqueue > 0: bytes that the process has not read";
    CONN_OUT = "conn.out", Gauge, Count, "peer address:port", "inet_diag: established sockets that this host opened";
    CONN_OUT_WAITING = "conn.out_waiting", Gauge, Count, "peer address:port", "tcp_info: last data sent later than last data received, so an answer is awaited";
    CONN_OUT_RTT = "conn.out_rtt", Gauge, Micros, "peer address:port", "tcp_info rtt, mean over sockets";
    CONN_OUT_RETRANSMITS = "conn.out_retransmits", Gauge, Count, "peer address:port", "tcp_info total_retrans, summed over the sockets now open";
    CONN_IN_RETRANSMITS = "conn.in_retransmits", Gauge, Count, "local port", "tcp_info total_retrans, summed over the sockets now open";

    // Packet work of the machine. Global, not per namespace.
    SOFTNET_PROCESSED = "softnet.processed", Counter, Count, "cpu number", "/proc/net/softnet_stat 1";
    SOFTNET_DROPPED = "softnet.dropped", Counter, Count, "cpu number", "/proc/net/softnet_stat 2";
    SOFTNET_SQUEEZED = "softnet.squeezed", Counter, Count, "cpu number", "/proc/net/softnet_stat 3";
    SOFTNET_STEERED = "softnet.steered", Counter, Count, "cpu number", "/proc/net/softnet_stat 10 received_rps";
    SOFTIRQ_NET_RX = "softirq.net_rx", Counter, Count, "cpu number", "/proc/softirqs NET_RX";
    SOFTIRQ_NET_TX = "softirq.net_tx", Counter, Count, "cpu number", "/proc/softirqs NET_TX";
    INTERRUPTS = "interrupts.total", Counter, Count, "cpu number", "/proc/interrupts, all lines";
    INTERRUPTS_CALL = "interrupts.call", Counter, Count, "cpu number", "/proc/interrupts CAL: function call interrupts";
    INTERRUPTS_RESCHEDULE = "interrupts.reschedule", Counter, Count, "cpu number", "/proc/interrupts RES";

    // Pressure, memory, disks.
    PSI_CPU_SOME = "psi.cpu_some", Counter, Seconds, "", "/proc/pressure/cpu some total";
    PSI_IO_SOME = "psi.io_some", Counter, Seconds, "", "/proc/pressure/io some total";
    PSI_IO_FULL = "psi.io_full", Counter, Seconds, "", "/proc/pressure/io full total";
    PSI_MEMORY_SOME = "psi.memory_some", Counter, Seconds, "", "/proc/pressure/memory some total";
    MEMORY_AVAILABLE = "memory.available", Gauge, Bytes, "", "/proc/meminfo MemAvailable";
    DISK_BUSY = "disk.busy", Counter, Seconds, "device", "/proc/diskstats io_ticks";
    DISK_WRITTEN = "disk.written", Counter, Bytes, "device", "/proc/diskstats sectors written";
    DISK_FLUSHES = "disk.flushes", Counter, Count, "device", "/proc/diskstats flush requests";

    // Server software.
    NGINX_REQUESTS = "nginx.requests", Counter, Count, "", "stub_status requests";
    NGINX_ACCEPTS = "nginx.accepts", Counter, Count, "", "stub_status accepts";
    NGINX_HANDLED = "nginx.handled", Counter, Count, "", "stub_status handled";
    NGINX_ACTIVE = "nginx.active", Gauge, Count, "", "stub_status Active connections";
    NGINX_READING = "nginx.reading", Gauge, Count, "", "stub_status Reading";
    NGINX_WRITING = "nginx.writing", Gauge, Count, "", "stub_status Writing";
    NGINX_WAITING = "nginx.waiting", Gauge, Count, "", "stub_status Waiting";
    LOG_SIZE = "log.size", Counter, Bytes, "path", "stat of a log that the hop writes";
    ERROR_LOG_LINES = "errorlog.lines", Counter, Count, "", "lines appended to the error log";
    ERROR_LOG_NO_PORT = "errorlog.no_port", Counter, Count, "", "error log lines with (99: Cannot assign requested address)";
    ERROR_LOG_NO_WORKER_CONNECTIONS = "errorlog.no_worker_connections", Counter, Count, "", "error log lines with worker_connections are not enough";
    ERROR_LOG_NO_DESCRIPTORS = "errorlog.no_descriptors", Counter, Count, "", "error log lines with (24: Too many open files)";
    ERROR_LOG_UPSTREAM_TIMEOUT = "errorlog.upstream_timeout", Counter, Count, "", "error log lines with upstream timed out";
    ERROR_LOG_TEMP_FILE = "errorlog.temp_file", Counter, Count, "", "error log lines with buffered to a temporary file";
    ERROR_LOG_LIMITING = "errorlog.limiting", Counter, Count, "", "error log lines with limiting requests or connections";

    // Close looks: short bursts outside scored trials.
    LOOK_LOG_LINE = "look.log_line", Gauge, Bytes, "path", "mean line length in the tail of the log";
    LOOK_LOG_STEP = "look.log_step", Gauge, Bytes, "path", "bytes per write: of the growths of the log file between quick looks, one that nine in ten reach, and at least a line";
    LOOK_LOG_HELD = "look.log_held", Gauge, Share, "path", "share of glances at /proc/PID/fd that found the log held open by a process of the hop; one that is opened for each line hardly ever is";
    LOOK_LOG_GROWTH = "look.log_growth", Gauge, Bytes, "path", "growth of the log per second during the look";
    LOOK_WAIT = "look.wait", Gauge, Share, "kernel function", "share of looks at worker processes that found them asleep or spinning in that kernel function (/proc/PID/stack)";
    LOOK_RUNNING = "look.running", Gauge, Share, "pid", "share of looks that found the process running or runnable";
    PRICE_CONNECT = "price.connect", Gauge, Micros, "", "CPU time to open and close one TCP connection here, measured in this namespace with no load of ours";
    PRICE_LOG_WRITE = "price.log_write", Gauge, Micros, "", "time of one write() that appends a 200-byte line to a file here, as after a request: not in the first two caches";
    PRICE_LOG_OPEN = "price.log_open", Gauge, Micros, "", "CPU time to open and close a file for appending here";
    SELF_CPU = "self.cpu", Counter, Seconds, "", "CPU time of prony's own observing thread for this host";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (i, metric) in ALL.iter().enumerate() {
            assert!(ALL[i + 1..].iter().all(|m| m.name != metric.name), "{} stands twice", metric.name);
            assert_eq!(find(metric.name), Some(*metric));
            assert!(!metric.source.is_empty());
        }
    }
}
