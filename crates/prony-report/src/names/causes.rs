//! What causes are called when a person reads them. A test asks for every cause of the catalogue.

/// (id, title as a clause that can stand before "at HOST", what it means in one sentence).
pub(super) const CAUSES: &[(&str, &str, &str)] = &[
    (
        "upstream-keepalive-off",
        "Connections to the upstream are not reused",
        "The proxy opens a new TCP connection for every request that it passes on.",
    ),
    (
        "access-log-unbuffered",
        "The access log is written once per request",
        "Every request pays for a write() of its own.",
    ),
    (
        "access-log-lock",
        "Workers wait for the lock of one access log",
        "All workers append to the same file, and the kernel lets one write at a time.",
    ),
    (
        "ephemeral-ports-exhausted",
        "Outgoing ports run out",
        "Closed connections hold their local port for a minute; new ones find none free.",
    ),
    (
        "accept-queue-full",
        "The accept queue overflows",
        "The kernel drops finished handshakes because the server's queue is full.",
    ),
    (
        "too-few-workers",
        "Too few workers for the CPUs",
        "The server's workers are busy all the time while CPUs that it may use are idle.",
    ),
    (
        "cpu-quota-throttled",
        "A CPU quota stops the processes",
        "The control group has used its CPU time, and the kernel holds it until the next period.",
    ),
    (
        "bandwidth-bound",
        "The link is full",
        "The bytes of the answers fill the link; only smaller answers or a faster link help.",
    ),
    (
        "packet-loss",
        "Packets are lost on the link",
        "Lost packets are sent again after a timeout, and their requests wait.",
    ),
    (
        "slow-upstream",
        "The upstream answers late",
        "Requests spend their time waiting for another host, while this one is idle.",
    ),
    (
        "packet-steering-overspread",
        "Packet steering takes CPUs from the server",
        "Receive work is spread over every CPU and displaces the application.",
    ),
    (
        "cpu-saturated-user",
        "The CPUs are used up by the server's own work",
        "The CPUs that this hop may use are busy in user space.",
    ),
    (
        "cpu-saturated-kernel",
        "The CPUs are used up by kernel work",
        "The CPUs that this hop may use are busy in the kernel: sockets, packets, system calls.",
    ),
    (
        "generator-saturated",
        "The load generator is the limit",
        "The generator could not send more; the stack can carry at least this.",
    ),
    (
        "client-connections-short",
        "Clients open a new connection too often",
        "Opening and closing client connections takes a large part of what the hop spends per request.",
    ),
    ("file-descriptors-exhausted", "File descriptors run out", "The server cannot open another socket or file."),
    (
        "overlay-encapsulation",
        "Packets are wrapped in other packets on the way",
        "An overlay network costs CPU for every packet, and most for small ones.",
    ),
    (
        "syn-queue-full",
        "The queue of unfinished handshakes is full",
        "The kernel drops or delays new connections before they reach the accept queue.",
    ),
    ("traced-process", "A tracer is attached to the server", "Every system call of a traced process stops it twice."),
    (
        "worker-connections-exhausted",
        "Workers run out of connections",
        "Connections to clients and to upstreams together reach `worker_connections`.",
    ),
    (
        "tls-handshakes",
        "TLS handshakes take the CPU",
        "Connections are opened anew so often that key exchanges outweigh requests.",
    ),
    (
        "compression-cpu",
        "Compression takes the CPU",
        "Answers are compressed at a level that costs more CPU than its bytes are worth.",
    ),
    (
        "rule-set-cost",
        "Matching rules takes the CPU",
        "Each request is held against many names, locations or regular expressions.",
    ),
    (
        "packet-filter-tax",
        "Filters take CPU from every packet",
        "Firewall rules, auditing or a sniffer cost CPU for each packet or system call.",
    ),
    (
        "listener-lock",
        "Workers queue at one listening socket",
        "One listening socket has one lock, whatever the number of CPUs.",
    ),
    (
        "application-lock",
        "Threads wait for a lock of the application",
        "One thread at a time goes through it while the others hold their requests.",
    ),
    (
        "connection-pool-exhausted",
        "Requests wait for a free connection of a pool",
        "The application keeps fewer connections to what it calls than requests need at once.",
    ),
    (
        "slow-query",
        "Statements read far more rows than they need",
        "Most often an index is missing, and each request scans a whole table.",
    ),
    (
        "event-loop-blocked",
        "A blocking call stops the event loop",
        "The application has many requests and serves one at a time, while its CPU is idle.",
    ),
    (
        "thread-pool-exhausted",
        "Every thread that serves requests waits",
        "All threads wait for an answer, and the other requests wait for a thread.",
    ),
    (
        "connection-per-query",
        "A connection to the database is opened per request",
        "A database pays some hundred times the work of a small statement for each connection.",
    ),
    (
        "chatty-queries",
        "Many small questions to the database per request",
        "Each question costs a round trip and work on both sides.",
    ),
    (
        "row-lock-contention",
        "Transactions wait for the same rows",
        "Those who want the same row go one after the other, each until the one before has committed.",
    ),
    (
        "connection-limit",
        "A server has all the connections that it may have",
        "Further connections are refused, or wait for a slot.",
    ),
    (
        "commit-disk-wait",
        "Commits wait for the disk",
        "A commit is durable only when its log is, and the disk does so many flushes and no more.",
    ),
    (
        "bad-upstream",
        "One server of several is bad",
        "It fails or is far slower than its siblings, and still gets its share of the requests.",
    ),
    (
        "retry-storm",
        "Retries multiply the work of the servers",
        "The proxy tries requests again and again, and capacity goes into answers that nobody sees.",
    ),
    (
        "stop-the-world-pauses",
        "The application stands still for moments",
        "A garbage collector or the like stops all of its threads, and what came in waits.",
    ),
    ("coalescing-too-high", "The card gathers packets for too long", "Requests wait for its next interrupt."),
    (
        "coalescing-too-low",
        "The card interrupts for nearly every packet",
        "Each interrupt costs CPU that requests could use.",
    ),
    (
        "conntrack-full",
        "The table of tracked connections is full",
        "The kernel drops packets that would need a new entry.",
    ),
    (
        "cpu-stolen",
        "The hypervisor gives the CPUs to somebody else",
        "The machine is virtual, and is ready to run while it is not let run.",
    ),
    ("disk-saturated", "The disk has work all the time", "The workers wait for it, while it does as much as it can."),
    (
        "delayed-ack-stall",
        "A rest of each message waits for a delayed acknowledgement",
        "The sender keeps it back (Nagle), and the receiver acknowledges up to 40 ms later.",
    ),
    (
        "flow-hash-skew",
        "Most packets land on one queue of the card",
        "Its hash puts them there, and the CPU behind that queue is full while others are idle.",
    ),
    (
        "frequency-capped",
        "The CPUs run slower than they can",
        "They are full, and a governor, a power limit or heat holds their frequency down.",
    ),
    (
        "interrupts-on-one-cpu",
        "One CPU takes all interrupts of the card",
        "It is full of packet work while others are idle.",
    ),
    (
        "log-disk-sync",
        "Writes wait until they are on the disk",
        "A log is flushed for each line, or its file system is mounted so.",
    ),
    (
        "log-flood",
        "The error log is flooded",
        "It gets lines for every request: a debug level, or a complaint that repeats.",
    ),
    (
        "memory-pressure",
        "Memory is short",
        "The kernel frees pages while requests wait, and reads them back from the disk.",
    ),
    (
        "name-lookup-per-request",
        "A name server is asked for each request",
        "The answer is not kept, so each request waits for it and pays for it.",
    ),
    (
        "nic-ring-overrun",
        "The receive ring of the card overflows",
        "The card drops packets before the kernel sees them.",
    ),
    (
        "numa-remote",
        "Memory or card are of another NUMA node",
        "The workers reach over to it from the CPUs that they run on.",
    ),
    ("observer-overhead", "Observing itself lowers what is measured", "It takes a large part of the CPUs of this hop."),
    (
        "offloads-off",
        "Segmentation or receive offload is switched off",
        "Large answers leave and arrive as many small packets.",
    ),
    (
        "out-of-memory-kills",
        "The kernel kills processes for want of memory",
        "The control group of the hop has none left.",
    ),
    ("packet-capture-tax", "A tap gets a copy of every packet", "tcpdump, or an agent like it, costs CPU for each."),
    ("packet-rate-bound", "The number of packets takes the CPU", "Work goes by small packets, not by their bytes."),
    (
        "partial-packets",
        "Answers leave in more packets than they need",
        "Head and body go apart, or there are many small writes.",
    ),
    (
        "path-delay",
        "The way between two hosts takes the time",
        "A large part of the response time is spent between them, whatever they do.",
    ),
    (
        "path-mtu-blackhole",
        "Large packets vanish on the way",
        "Small ones pass: connections open and small answers work, and large ones hang.",
    ),
    (
        "proxy-temp-files",
        "Answers go through temporary files of the proxy",
        "They do not fit into its buffers, so it writes them to files and reads them back.",
    ),
    (
        "rate-limited",
        "A configured limit holds requests back",
        "A rule counts requests or connections, and refuses or delays what is beyond it.",
    ),
    (
        "run-queue-wait",
        "Strangers take the CPUs",
        "Processes that are not of the stack run there, and the workers wait for their turn.",
    ),
    (
        "socket-buffer-limited",
        "A socket buffer is too small",
        "Senders have data and the path has room, but no more may be under way.",
    ),
    (
        "softirq-budget-squeezed",
        "Packet work of one CPU comes to the end of its budget",
        "That CPU is full of it while others are idle.",
    ),
    (
        "softnet-backlog-drops",
        "The queue of received packets overflows",
        "The kernel drops what comes for a CPU that is too slow in taking it.",
    ),
    ("too-few-nic-queues", "The card uses too few of its queues", "The CPU behind one of them is full of packet work."),
    (
        "transmit-queue-drops",
        "The send queue of an interface is too short",
        "The host drops packets that it wants to send, although the link has room.",
    ),
    ("worker-imbalance", "One worker gets most of the connections", "It is full while others have time left."),
    ("workers-misplaced", "Workers are bound to too few CPUs", "Those are full while other CPUs of the host are idle."),
    ("none", "Nothing limits the stack at this load", "There is headroom left."),
    ("inconclusive", "The limit could not be named", "The evidence does not single out one cause."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Those that have a page, which `cargo xtask codegen` writes for each.
    #[test]
    fn every_cause_of_the_catalogue_has_a_title_and_no_other() {
        let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/causes");
        let pages = std::fs::read_dir(pages).unwrap().map(|page| page.unwrap().path());
        let expected: BTreeSet<String> = pages
            .map(|page| page.file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| name != "README")
            .chain(["none".to_string(), "inconclusive".to_string()])
            .collect();
        let titled: BTreeSet<String> = CAUSES.iter().map(|(id, _, _)| (*id).to_string()).collect();
        assert_eq!(titled, expected);
    }

    #[test]
    fn titles_are_clauses_and_meanings_are_sentences() {
        for (id, title, meaning) in CAUSES {
            assert!(!title.ends_with('.') && title.chars().count() <= 60, "{id}: {title}");
            assert!(meaning.ends_with('.') && !meaning.contains(". "), "{id}: {meaning}");
        }
    }
}
