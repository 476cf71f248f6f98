//! The catalogue of metrics: every fact that a probe may read about a host, with its unit, its kind and its source.
//!
//! Growth is by lines: a new fact is one line here and one reader in `prony-probe`. An item tells instances apart
//! (a CPU, an interface, a pid); its meaning stands in each line.

/// Item of the metrics `split.*` whose times are those of the host's access log.
pub const SPLIT_BY_LOG: &str = "access log";
/// Item of the time split where the hop's own traces tell the times.
pub const SPLIT_BY_TRACES: &str = "traces";

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

    // The same small piece of work on each CPU again and again: what it costs shows how fast the machine is at the moment.
    YARDSTICK_TIME = "yardstick.time", Counter, Seconds, "cpu number", "CLOCK_THREAD_CPUTIME_ID, of pieces of work of one size; told by one host of each machine";
    YARDSTICK_PIECES = "yardstick.pieces", Counter, Count, "cpu number", "pieces of work done, those left out that were interrupted";

    // Processes of the hop.
    PROC_COUNT = "proc.count", Gauge, Count, "", "number of processes of the hop";
    PROC_NAME = "proc.name", Gauge, Count, "pid and name", "/proc/PID/status Name: always 1";
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
    PROC_IS_WORKER = "proc.is_worker", Gauge, Count, "pid", "1 when the process serves requests (nginx: title says worker process; others: it can, and no child of its own can)";
    PROC_SERVES = "proc.serves", Gauge, Count, "pid", "1 when the process can serve requests: it, or one that it descends from, has a socket open in /proc/PID/fd; 0 for others in the hop's control group";

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
    UNIX_QUEUE = "unix.queue", Gauge, Count, "path", "unix_diag rqueue of listeners: connections waiting for accept(); the 16 fullest";
    UNIX_BACKLOG = "unix.backlog", Gauge, Count, "path", "unix_diag wqueue of listeners: the limit";
    CONN_IN = "conn.in", Gauge, Count, "local port", "inet_diag: established sockets accepted on that port";
    CONN_IN_BUSY = "conn.in_busy", Gauge, Count, "local port", "tcp_info: last data received later than last data sent, so a request is being served";
    CONN_IN_UNACCEPTED = "conn.in_unaccepted", Gauge, Count, "local port", "inet_diag idiag_inode = 0: connections that no process has accepted";
    CONN_IN_UNREAD = "conn.in_unread", Gauge, Count, "local port", "inet_diag rqueue > 0: bytes that the process has not read; of connections that it has accepted (idiag_inode)";
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
    ERROR_LOG_NO_PORT = "errorlog.no_port", Counter, Count, "", "error log lines that tell of EADDRNOTAVAIL: Cannot assign requested address";
    ERROR_LOG_NO_WORKER_CONNECTIONS = "errorlog.no_worker_connections", Counter, Count, "", "error log lines with worker_connections are not enough";
    ERROR_LOG_NO_DESCRIPTORS = "errorlog.no_descriptors", Counter, Count, "", "error log lines that tell of EMFILE or ENFILE: Too many open files";
    ERROR_LOG_UPSTREAM_TIMEOUT = "errorlog.upstream_timeout", Counter, Count, "", "error log lines with upstream timed out";
    ERROR_LOG_NO_LIVE_UPSTREAMS = "errorlog.no_live_upstreams", Counter, Count, "", "error log lines with no live upstreams";
    ERROR_LOG_TEMP_FILE = "errorlog.temp_file", Counter, Count, "", "error log lines with response is buffered to a temporary file";
    ERROR_LOG_BODY_FILE = "errorlog.body_file", Counter, Count, "", "error log lines with request body is buffered to a temporary file";
    ERROR_LOG_LIMITING = "errorlog.limiting", Counter, Count, "", "error log lines with limiting requests or connections";

    // Kernel, network and host, beyond the first counters.
    PROC_DISK_SLEEP = "proc.disk_sleep", Gauge, Share, "pid", "/proc/PID/stat state D: 1 when the main thread sleeps uninterruptibly, mostly for a disk";
    PROC_MAJOR_FAULTS = "proc.major_faults", Counter, Count, "pid", "/proc/PID/stat majflt: page faults that waited for a disk";
    PROC_AFFINITY = "proc.affinity", Gauge, Count, "pid cpus", "/proc/PID/status Cpus_allowed_list: the list stands in the item, the value counts it";
    CGROUP_MEMORY_LIMIT_HITS = "cgroup.memory_limit_hits", Counter, Count, "", "memory.events high and max, or memory.failcnt";
    VM_DIRECT_SCANS = "vm.direct_scans", Counter, Count, "", "/proc/vmstat pgscan_direct: pages that processes looked at to find room themselves";
    VM_ALLOCATION_STALLS = "vm.allocation_stalls", Counter, Count, "", "/proc/vmstat allocstall_*, summed";
    VM_MAJOR_FAULTS = "vm.major_faults", Counter, Count, "", "/proc/vmstat pgmajfault";
    NUMA_LOCAL = "numa.local_pages", Counter, Count, "node", "/sys/devices/system/node/nodeN/numastat local_node";
    NUMA_REMOTE = "numa.remote_pages", Counter, Count, "node", "/sys/devices/system/node/nodeN/numastat other_node: given to a process that ran on another node";
    CPU_MHZ = "cpu.mhz", Gauge, Count, "cpu number", "/sys/devices/system/cpu/cpuN/cpufreq/scaling_cur_freq, in MHz";
    CPU_MHZ_MAX = "cpu.mhz_max", Gauge, Count, "cpu number", "/sys/devices/system/cpu/cpuN/cpufreq/cpuinfo_max_freq, in MHz";
    CPU_THERMAL_THROTTLES = "cpu.thermal_throttles", Counter, Count, "cpu number", "/sys/devices/system/cpu/cpuN/thermal_throttle/core_throttle_count";
    CPU_NODE = "cpu.node", Gauge, Count, "cpu number", "/sys/devices/system/node/nodeN/cpulist";
    DISK_WAITED = "disk.waited", Counter, Seconds, "device", "/proc/diskstats time in queue, summed over requests";
    DISK_WRITES = "disk.writes", Counter, Count, "device", "/proc/diskstats writes completed";
    IF_MTU = "if.mtu", Gauge, Bytes, "interface", "netlink RTM_GETLINK IFLA_MTU, or /sys/class/net/IF/mtu";
    IF_OFFLOAD = "if.offload", Gauge, Count, "interface feature", "ethtool ioctl ETHTOOL_GGRO, GGSO, GTSO: 1 when the feature is on";
    NIC_QUEUES = "nic.queues", Gauge, Count, "interface", "ethtool ioctl ETHTOOL_GCHANNELS: rx and combined channels in use";
    NIC_QUEUES_MAX = "nic.queues_max", Gauge, Count, "interface", "ethtool ioctl ETHTOOL_GCHANNELS: the most that the card offers";
    NIC_COALESCE = "nic.coalesce", Gauge, Micros, "interface", "ethtool ioctl ETHTOOL_GCOALESCE rx_coalesce_usecs: how long the card gathers packets before it interrupts";
    NIC_COALESCE_ADAPTIVE = "nic.coalesce_adaptive", Gauge, Count, "interface", "ethtool ioctl ETHTOOL_GCOALESCE use_adaptive_rx_coalesce";
    NIC_RING = "nic.ring", Gauge, Count, "interface", "ethtool ioctl ETHTOOL_GRINGPARAM rx_pending";
    NIC_RING_MAX = "nic.ring_max", Gauge, Count, "interface", "ethtool ioctl ETHTOOL_GRINGPARAM rx_max_pending";
    NIC_OVERRUNS = "nic.overruns", Counter, Count, "interface", "ethtool ioctl ETHTOOL_GSTATS: rx_missed, rx_no_buffer, rx_fifo and the like; else /proc/net/dev fifo";
    NIC_QUEUE_PACKETS = "nic.queue_packets", Counter, Count, "interface queue", "ethtool ioctl ETHTOOL_GSTATS: packets of one receive queue";
    NIC_INTERRUPTS = "nic.interrupts", Counter, Count, "interface cpu", "/proc/interrupts, lines of the card's vectors (/sys/class/net/IF/device/msi_irqs, or its name in the line)";
    NIC_NODE = "nic.node", Gauge, Count, "interface", "/sys/class/net/IF/device/numa_node";
    CONNTRACK_ENTRIES = "conntrack.entries", Gauge, Count, "", "/proc/sys/net/netfilter/nf_conntrack_count of the namespace";
    CONNTRACK_MAX = "conntrack.max", Gauge, Count, "", "/proc/sys/net/netfilter/nf_conntrack_max";
    CONNTRACK_DROPS = "conntrack.drops", Counter, Count, "", "/proc/net/stat/nf_conntrack drop, early_drop and insert_failed, summed over CPUs";
    PACKET_SOCKETS = "packet.sockets", Gauge, Count, "", "/proc/net/packet: running sockets that take packets of every protocol (ETH_P_ALL)";
    TCP_MTU_PROBES_FAILED = "tcp.mtu_probes_failed", Counter, Count, "", "/proc/net/netstat TcpExt:TCPMTUPFail";
    TCP_ZERO_WINDOWS = "tcp.zero_windows", Counter, Count, "", "/proc/net/netstat TcpExt:TCPToZeroWindowAdv: a receiver said that it has no room";
    TCP_PRUNED = "tcp.pruned", Counter, Count, "", "/proc/net/netstat TcpExt:PruneCalled: a receive buffer was too small for what came";
    CONN_MIN_RTT = "conn.min_rtt", Gauge, Micros, "local port or peer address:port", "tcp_info min_rtt, the least over sockets to other hosts";
    CONN_CONNECTING = "conn.connecting", Gauge, Count, "peer address:port", "inet_diag: sockets in SYN_SENT, whose connect is not answered yet";
    CONN_STUCK = "conn.stuck", Gauge, Count, "local port or peer address:port", "tcp_info backoff >= 3: sockets whose data was sent again three times in a row without an answer";
    CONN_HELD = "conn.held", Gauge, Count, "local port or peer address:port", "tcp_info: sockets that hold back less than a full segment until what they sent is acknowledged (Nagle)";
    CONN_WINDOW_LIMITED = "conn.window_limited", Counter, Seconds, "local port or peer address:port", "tcp_info rwnd_limited: had data to send, and the receiver no room; summed over sockets";
    CONN_BUFFER_LIMITED = "conn.buffer_limited", Counter, Seconds, "local port or peer address:port", "tcp_info sndbuf_limited: the send buffer was full although path and receiver had room; summed over sockets";
    ERROR_LOG_DELAYING = "errorlog.delaying", Counter, Count, "", "error log lines with delaying request";
    LOOK_NEIGHBOUR = "look.neighbour", Gauge, Cpus, "pid name", "CPU time during the look, by /proc/PID/stat, of a process that is not the hop's and last ran on a CPU of its workers";
    LOOK_TAP = "look.tap", Gauge, Cpus, "pid name", "the same of a process that holds a packet socket of this namespace (/proc/PID/fd against /proc/net/packet)";
    LOOK_FILTER_RULES = "look.filter_rules", Gauge, Count, "", "rules of netfilter's tables in the namespace (netlink NFT_MSG_GETRULE); those of the older iptables are not among them";
    LOOK_DNS_SOCKETS = "look.dns_sockets", Gauge, Count, "", "/proc/net/udp: sockets connected to port 53, mean over glances";

    // Close looks: short bursts outside scored trials.
    LOOK_LOG_LINE = "look.log_line", Gauge, Bytes, "path", "mean line length in the tail of the log";
    LOOK_LOG_STEP = "look.log_step", Gauge, Bytes, "path", "bytes per write: of the growths of the log file between quick looks, one that nine in ten reach, and at least a line";
    LOOK_LOG_HELD = "look.log_held", Gauge, Share, "path", "share of glances at /proc/PID/fd that found the log held open by a process of the hop; one that is opened for each line hardly ever is";
    LOOK_LOG_GROWTH = "look.log_growth", Gauge, Bytes, "path", "growth of the log per second during the look";
    LOOK_WAIT = "look.wait", Gauge, Share, "kernel function", "share of looks at worker processes that found them asleep or spinning in that kernel function (/proc/PID/stack)";
    LOOK_ANY_THREAD = "look.any_thread", Gauge, Share, "pid", "share of the moments at which all threads of the process were looked at that found one of them or more running or runnable";
    LOOK_BUSIEST_THREAD = "look.busiest_thread", Gauge, Share, "pid", "share of looks at a thread of the process, other than its first, that found it running or runnable; that of the thread where it is most";
    LOOK_RUNNING = "look.running", Gauge, Share, "pid", "share of looks that found the process running or runnable";
    PRICE_CONNECT = "price.connect", Gauge, Micros, "", "CPU time to open and close one TCP connection here, measured in this namespace with no load of ours";
    PRICE_LOG_WRITE = "price.log_write", Gauge, Micros, "", "time of one write() that appends a 200-byte line to a file here, as after a request: not in the first two caches";
    PRICE_LOG_OPEN = "price.log_open", Gauge, Micros, "", "CPU time to open and close a file for appending here";

    // The deep look: eBPF, a few seconds outside scored trials, while the host serves the workload as written.
    PROFILE_SELF = "profile.self", Gauge, Share, "function", "share of the hop's CPU samples that were in this function itself; the file in brackets where its name is not known; functions below 0.2 % are left out";
    PROFILE_TOTAL = "profile.total", Gauge, Share, "function", "share of the hop's CPU samples that were in this function or in what it called; callers of user code are found by its tables for exceptions (x86, since Linux 5.15), else by frame pointers";
    PROFILE_MODULE = "profile.module", Gauge, Share, "module", "share of the hop's CPU samples by the program or library whose code ran; kernel is one of them";
    PROFILE_SAMPLES = "profile.samples", Gauge, Count, "", "CPU samples of the hop: its processes, and its part of the soft interrupts on its CPUs";
    PROFILE_OWN = "profile.own", Gauge, Count, "", "CPU samples of the hop within prony's own eBPF programs, which are left out everywhere else";
    PROFILE_LOST = "profile.lost", Gauge, Count, "", "CPU samples whose stack found no place";
    LOCK_WAIT = "lock.wait", Gauge, Share, "kernel function", "share of the time of the threads that ran which they spent waiting for a kernel lock, by the function that wanted it (tracepoints lock:contention_begin and _end; waits below 5 us together as `short` in brackets)";
    LOCK_WAITS = "lock.waits", Gauge, Count, "kernel function", "the same waits, how many per second";
    THREAD_COUNT = "thread.count", Gauge, Count, "", "threads of the hop that ran during the look (tracepoint sched_switch)";
    THREAD_ASLEEP = "thread.asleep", Gauge, Share, "kernel function", "share of the time of the threads that ran which they slept in this function of the kernel (sched_switch; sleeps that ended during the look)";
    THREAD_SLEEPS = "thread.sleeps", Gauge, Count, "kernel function", "the same sleeps, how many per second";
    QUEUE_WAIT = "queue.wait", Gauge, Share, "", "share of the time of the threads that ran which they waited for a CPU (sched_wakeup to sched_switch)";
    QUEUE_P99 = "queue.p99", Gauge, Micros, "", "99th percentile of a wait for a CPU: upper end of its power of two";
    DROP_REASON = "drop.reason", Gauge, Count, "reason", "packets dropped per second in the host's network namespace by the kernel's reason (tracepoint kfree_skb); NONE with 0 when there were none";
    RETRANSMIT_STATE = "retransmit.state", Gauge, Count, "TCP state", "segments sent again per second by the state of their connection (tracepoint tcp_retransmit_skb)";
    SOFTIRQ_TIME = "softirq.time", Gauge, Share, "vector cpu number", "share of that CPU's time in this kind of soft interrupt, during a tenth of the look (tracepoints softirq_entry and _exit)";
    HARDIRQ_TIME = "hardirq.time", Gauge, Share, "interrupt cpu number", "share of that CPU's time in the handler of this interrupt, during a tenth of the look (tracepoints irq_handler_entry and _exit; on x86 those of timer, reschedule, call-function and irq-work interrupts as well)";
    SPLIT_REQUESTS = "split.requests", Gauge, Count, "local port", "requests per second that the hop's processes took from connections accepted on that port (tracepoints sk_data_ready and sock_recv_length); `access log`: lines of the access log, `traces`: spans of its traces, where no probe could time requests";
    SPLIT_TIMED = "split.timed", Gauge, Share, "local port", "share of these requests that were timed; the rest came in pieces or several at once, or was not answered during the look";
    SPLIT_QUEUE = "split.queue", Gauge, Micros, "local port", "time from the arrival of a request in its socket until the process reads it, mean";
    SPLIT_RESIDENCE = "split.residence", Gauge, Micros, "local port", "time from the arrival of a request until the first byte of its answer is written, mean (tracepoint tcp_sendmsg_locked, or sock_send_length before Linux 6.16)";
    SPLIT_RESIDENCE_P50 = "split.residence_p50", Gauge, Micros, "local port", "the same, median, to 3 %";
    SPLIT_RESIDENCE_P99 = "split.residence_p99", Gauge, Micros, "local port", "the same, 99th percentile, to 3 %";
    SPLIT_CALLS = "split.calls", Gauge, Count, "peer address:port", "requests per second that the hop's processes wrote to that peer, on connections that they opened; or as its access log or its traces name the upstream";
    SPLIT_CALLS_TIMED = "split.calls_timed", Gauge, Share, "peer address:port", "share of these that were timed";
    SPLIT_UPSTREAM = "split.upstream", Gauge, Micros, "peer address:port", "time from writing a request until the first byte of its answer arrives, mean";
    SPLIT_UPSTREAM_P50 = "split.upstream_p50", Gauge, Micros, "peer address:port", "the same, median, to 3 %";
    SPLIT_UPSTREAM_P99 = "split.upstream_p99", Gauge, Micros, "peer address:port", "the same, 99th percentile, to 3 %";
    SELF_CPU = "self.cpu", Counter, Seconds, "", "CPU time of prony's own observing thread for this host";
    SELF_LOOK = "self.look", Gauge, Share, "instrument", "share of one CPU that an instrument of the deep look took while it was at work, summed over CPUs: the run time of its eBPF programs (bpf_prog_info run_time_ns), less what this timing itself takes of a program that does nothing, and without the interrupt or event that starts them; `thread`: CPU time of the looking thread, which reads logs and stacks";
    SELF_LOOK_AROUND = "self.look_around", Gauge, Seconds, "", "CPU time of the looking thread before and after: it loads the eBPF programs, and names functions";
    // Databases, caches and proxies, as they tell it themselves. What prony's own session adds is subtracted.
    PG_SESSIONS = "pg.sessions", Gauge, Count, "state", "pg_stat_activity: client sessions by state";
    PG_WAITS = "pg.waits", Gauge, Count, "type:event", "pg_stat_activity: active sessions by wait_event_type and wait_event; `running` when they wait for nothing";
    PG_OLDEST_TRANSACTION = "pg.oldest_transaction", Gauge, Seconds, "", "pg_stat_activity xact_start, the oldest";
    PG_LOCKS_AWAITED = "pg.locks_awaited", Gauge, Count, "lock type", "pg_locks, not granted";
    PG_CONNECTIONS = "pg.connections", Gauge, Count, "", "pg_stat_activity: client sessions of all databases";
    PG_CONNECTIONS_MAX = "pg.connections_max", Gauge, Count, "", "max_connections less those reserved for superusers";
    PG_SESSIONS_OPENED = "pg.sessions_opened", Counter, Count, "", "pg_stat_database sessions (PostgreSQL 14 and later)";
    PG_ACTIVE_TIME = "pg.active_time", Counter, Seconds, "", "pg_stat_database active_time: time in statements, summed over sessions (PostgreSQL 14 and later)";
    PG_IN_TRANSACTION_TIME = "pg.in_transaction_time", Counter, Seconds, "", "pg_stat_database idle_in_transaction_time (PostgreSQL 14 and later)";
    PG_COMMITS = "pg.commits", Counter, Count, "", "pg_stat_database xact_commit; a statement outside of a transaction is one";
    PG_ROLLBACKS = "pg.rollbacks", Counter, Count, "", "pg_stat_database xact_rollback";
    PG_DEADLOCKS = "pg.deadlocks", Counter, Count, "", "pg_stat_database deadlocks";
    PG_BLOCKS_READ = "pg.blocks_read", Counter, Count, "", "pg_stat_database blks_read: blocks not found in shared buffers";
    PG_BLOCKS_HIT = "pg.blocks_hit", Counter, Count, "", "pg_stat_database blks_hit";
    PG_TEMP_BYTES = "pg.temp_bytes", Counter, Bytes, "", "pg_stat_database temp_bytes: what sorts and hashes wrote to temporary files";
    PG_ROWS_WRITTEN = "pg.rows_written", Counter, Count, "", "pg_stat_database tup_inserted, tup_updated and tup_deleted";
    PG_WAL_BYTES = "pg.wal_bytes", Counter, Bytes, "", "pg_stat_wal wal_bytes (PostgreSQL 14 and later)";
    PG_WAL_SYNCS = "pg.wal_syncs", Counter, Count, "", "pg_stat_wal wal_sync; pg_stat_io from PostgreSQL 18 on";
    PG_WAL_WRITES = "pg.wal_writes", Counter, Count, "", "pg_stat_wal wal_write; pg_stat_io from PostgreSQL 18 on";
    PG_TABLE_SCANS = "pg.table_scans", Counter, Count, "table", "pg_stat_user_tables seq_scan: sequential scans";
    PG_TABLE_SCANNED_ROWS = "pg.table_scanned_rows", Counter, Count, "table", "pg_stat_user_tables seq_tup_read: rows that sequential scans read";
    PG_TABLE_INDEX_ROWS = "pg.table_index_rows", Counter, Count, "table", "pg_stat_user_tables idx_tup_fetch: rows that were found by an index";
    PG_TABLE_ROWS = "pg.table_rows", Gauge, Count, "table", "pg_stat_user_tables n_live_tup, an estimate";
    PG_STATEMENTS = "pg.statements", Counter, Count, "", "pg_stat_statements calls, all statements";
    PG_STATEMENT_CALLS = "pg.statement_calls", Counter, Count, "statement", "pg_stat_statements calls; the text is normalised and cut";
    PG_STATEMENT_TIME = "pg.statement_time", Counter, Seconds, "statement", "pg_stat_statements total_exec_time";
    PG_STATEMENT_ROWS = "pg.statement_rows", Counter, Count, "statement", "pg_stat_statements rows";
    REDIS_CLIENTS = "redis.clients", Gauge, Count, "", "INFO connected_clients";
    REDIS_CLIENTS_MAX = "redis.clients_max", Gauge, Count, "", "INFO maxclients";
    REDIS_BLOCKED = "redis.blocked", Gauge, Count, "", "INFO blocked_clients";
    REDIS_COMMANDS = "redis.commands", Counter, Count, "", "INFO total_commands_processed";
    REDIS_CONNECTIONS = "redis.connections", Counter, Count, "", "INFO total_connections_received";
    REDIS_REJECTED = "redis.rejected", Counter, Count, "", "INFO rejected_connections: refused for maxclients";
    REDIS_HITS = "redis.hits", Counter, Count, "", "INFO keyspace_hits";
    REDIS_MISSES = "redis.misses", Counter, Count, "", "INFO keyspace_misses";
    REDIS_EVICTED = "redis.evicted", Counter, Count, "", "INFO evicted_keys";
    REDIS_MEMORY = "redis.memory", Gauge, Bytes, "", "INFO used_memory";
    REDIS_MEMORY_MAX = "redis.memory_max", Gauge, Bytes, "", "INFO maxmemory; absent when there is none";
    REDIS_SLOW_LOG = "redis.slow_log", Gauge, Count, "", "SLOWLOG LEN";
    REDIS_COMMAND_CALLS = "redis.command_calls", Counter, Count, "command", "INFO commandstats calls";
    REDIS_COMMAND_TIME = "redis.command_time", Counter, Seconds, "command", "INFO commandstats usec";
    HAPROXY_QUEUE = "haproxy.queue", Gauge, Count, "proxy/server", "show stat qcur: requests that wait for a slot";
    HAPROXY_SESSIONS = "haproxy.sessions", Gauge, Count, "proxy/server", "show stat scur";
    HAPROXY_SESSIONS_MAX = "haproxy.sessions_max", Gauge, Count, "proxy/server", "show stat slim; absent when there is no limit";
    HAPROXY_REQUESTS = "haproxy.requests", Counter, Count, "proxy/server", "show stat stot";
    HAPROXY_UP = "haproxy.up", Gauge, Share, "proxy/server", "show stat status: 1 when it begins with UP, OPEN or `no check`";
    HAPROXY_CONNECT_ERRORS = "haproxy.connect_errors", Counter, Count, "proxy/server", "show stat econ";
    HAPROXY_RESPONSE_ERRORS = "haproxy.response_errors", Counter, Count, "proxy/server", "show stat eresp";
    HAPROXY_RETRIES = "haproxy.retries", Counter, Count, "proxy/server", "show stat wretr";
    HAPROXY_REDISPATCHES = "haproxy.redispatches", Counter, Count, "proxy/server", "show stat wredis";
    HAPROXY_FAILURES = "haproxy.failures", Counter, Count, "proxy/server", "show stat hrsp_5xx";
    HAPROXY_RESPONSE_TIME = "haproxy.response_time", Gauge, Micros, "proxy/server", "show stat rtime, mean of the last 1024 requests";
    CONN_OUT_SENT = "conn.out_sent", Counter, Count, "peer address:port", "tcp_info data_segs_out: segments with data sent to that peer; of a connection that ended, those until it was last seen";
    CONN_IN_ANSWERED = "conn.in_answered", Counter, Count, "local port", "tcp_info data_segs_out of accepted connections, counted like conn.out_sent";
    ERROR_LOG_UPSTREAM = "errorlog.upstream", Counter, Count, "address:port", "error log lines of nginx that name that upstream";
    LOOK_UPSTREAM_TRIES = "look.upstream_tries", Gauge, Count, "address:port", "how often the access log names that upstream, per line; only where lines name upstreams";
    LOOK_UPSTREAM_FAILURES = "look.upstream_failures", Gauge, Share, "address:port", "share of those tries that ended with status 5xx or were followed by another try";
    LOOK_PAUSED = "look.paused", Gauge, Share, "", "share of the look's time in stretches of 50 ms or more in which the host sent no data (TcpExt:TCPOrigDataSent)";
    LOOK_PAUSE_LONGEST = "look.pause_longest", Gauge, Seconds, "", "the longest of these stretches";
    LOOK_THREADS = "look.threads", Gauge, Count, "kernel function", "threads of the hop, other than the first of each process, that were asleep in that kernel function; mean over looks";
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
