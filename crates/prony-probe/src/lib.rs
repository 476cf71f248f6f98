//! Reads one host: procfs, sysfs, netlink, cgroups, server status, and for the close look eBPF. Facts only: it never judges
//! a value, and starts no process.
//!
//! It never changes its network namespace: every call runs on a thread that the caller has put into the host's. A fact
//! that cannot be read becomes a [`Gap`]; its `fact` is a metric's name, or the family before the dot (`cgroup`,
//! `proc`, `conn`) when a whole family is missing. Invariant: no value stands in a sample that was not read for it.

mod aside;
mod cadence;
mod cgroup;
mod clock;
mod deep;
mod error_log;
mod ethtool;
mod fact_file;
mod facts;
mod filters;
mod haproxy;
mod hop;
mod inventory;
mod limited;
mod log_times;
mod logs;
mod look;
mod machine;
mod memory;
mod neighbours;
mod netlink;
mod network;
mod nic;
mod pauses;
mod postgres;
mod price;
mod process;
mod qdisc;
mod redis;
mod roots;
mod serving;
mod sockets;
mod spans;
mod status;
mod sys;
mod tables;
mod tcp_info;
mod text;
mod turns;
mod unix_listeners;
mod upstreams;
mod watch;
mod yardstick;

pub use hop::processes;
pub use inventory::inventory;
pub use look::{Looked, look};
pub use price::prices;
pub use roots::Roots;
pub use watch::Watch;

#[allow(unused_imports)] // For the links of the documentation.
use prony_model::Gap;
