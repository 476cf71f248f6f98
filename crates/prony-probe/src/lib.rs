//! Reads one host: procfs, sysfs, netlink, cgroups, server status. Facts only: it never judges a value, and starts no
//! process.
//!
//! It never changes its network namespace: every call runs on a thread that the caller has put into the host's. A fact
//! that cannot be read becomes a [`Gap`]; its `fact` is a metric's name, or the family before the dot (`cgroup`,
//! `proc`, `conn`) when a whole family is missing. Invariant: no value stands in a sample that was not read for it.

mod cadence;
mod cgroup;
mod error_log;
mod fact_file;
mod facts;
mod hop;
mod inventory;
mod logs;
mod look;
mod machine;
mod netlink;
mod network;
mod price;
mod process;
mod qdisc;
mod roots;
mod sockets;
mod status;
mod sys;
mod text;
mod watch;

pub use hop::processes;
pub use inventory::inventory;
pub use look::look;
pub use price::prices;
pub use roots::Roots;
pub use watch::Watch;

#[allow(unused_imports)] // For the links of the documentation.
use prony_model::Gap;
