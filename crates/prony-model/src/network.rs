//! What crosses a path so that the path itself is measured, what both of its ends saw, and the report of it.
//!
//! Words only: who sends is in `prony-load`, who asks in the binary. Invariant: what was not seen is none, never 0.

use crate::gap::Gap;
use crate::load::Latency;
use crate::units::Nanos;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema name of the JSON form; fields only get added.
pub const SCHEMA: &str = "prony.network/1";

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// One TCP connection, as fast as it goes.
    Stream,
    /// UDP datagrams with so many bytes of payload each, as many as one thread can send.
    Packets {
        /// Payload.
        payload_bytes: u32,
    },
    /// Small UDP datagrams at an even pace; each is sent back at once.
    Probes {
        /// How many.
        per_s: u32,
    },
}

/// Who sends and receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sender {
    /// prony itself.
    #[default]
    Own,
    /// The program iperf3.
    Iperf3,
}

/// A stretch of traffic between two hosts, as both of its ends are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowPlan {
    /// What is sent.
    pub traffic: Traffic,
    /// How long.
    pub duration: Nanos,
    /// Who sends.
    pub by: Sender,
    /// Address of the host that receives; nothing listens anywhere else.
    pub to: IpAddr,
}

/// What one end of a flow saw. Which fields there are depends on the traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowEnd {
    /// Program and version.
    pub by: String,
    /// Bytes of payload that arrived in the counted time; only the end that knows it says so.
    pub bytes: Option<u64>,
    /// The counted time, in seconds.
    pub counted_s: Option<f64>,
    /// Datagrams handed to the kernel to send.
    pub sent: Option<u64>,
    /// Datagrams that arrived in the counted time.
    pub received: Option<u64>,
    /// Of probes: those that came back.
    pub returned: Option<u64>,
    /// Of probes: datagrams that came after one that was sent later.
    pub overtaken: Option<u64>,
    /// Segments that a stream sent again; none where nobody says.
    pub retransmits: Option<u64>,
    /// Of probes: from sending to their return.
    pub round_trip: Option<Latency>,
    /// Of probes: from sending to their arrival, by the clocks of two hosts. Means something only when they are one machine.
    pub there: Option<Latency>,
    /// Of probes: from their arrival to their return, by the clocks of two hosts.
    pub back: Option<Latency>,
    /// Which boot of which machine this end is on: two ends with the same share clocks and CPUs.
    pub boot: String,
}

/// Everything that `prony network` found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkReport {
    /// `prony.network/1`.
    pub schema: String,
    /// What was named on the command line.
    pub of: String,
    /// Time of each measurement.
    pub each: Nanos,
    /// CPUs of each host, as the stack says; hosts that may use all are left out.
    pub cpus: BTreeMap<String, String>,
    /// One for each layer and pair of hosts, in the order in which they were measured.
    pub legs: Vec<Leg>,
    /// What could not be measured, and why.
    pub gaps: Vec<Gap>,
}

/// The way from one host to another, through one layer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Leg {
    /// Which layer: `loopback`, `namespaces`, `bridge`, `vxlan`, or `path` as the stack has it.
    pub layer: String,
    /// Host that calls.
    pub from: String,
    /// Host that is called.
    pub to: String,
    /// What the lab was told to do to packets on the way there; empty: nothing.
    pub set_there: String,
    /// The same for the way back.
    pub set_back: String,
    /// One TCP connection on the way there.
    pub stream_there: Option<StreamSeen>,
    /// One TCP connection on the way back.
    pub stream_back: Option<StreamSeen>,
    /// Datagrams by size, on the way there.
    pub packets: Vec<PacketsSeen>,
    /// Probes, there and back.
    pub round_trip: Option<RoundTrip>,
}

/// What a TCP connection moved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamSeen {
    /// Program and version.
    pub by: String,
    /// Bits of payload per second, as received.
    pub bits_per_s: f64,
    /// Segments sent again per second.
    pub retransmits_per_s: Option<f64>,
    /// What it cost the CPUs.
    pub cost: CpuCost,
}

/// What became of datagrams of one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PacketsSeen {
    /// Program and version.
    pub by: String,
    /// Bytes of payload in each.
    pub payload_bytes: u32,
    /// Datagrams sent per second.
    pub sent_per_s: f64,
    /// Datagrams received per second.
    pub received_per_s: f64,
    /// What it cost the CPUs.
    pub cost: CpuCost,
}

/// CPU time while traffic ran, of the whole machine or of both, per gigabit or per datagram received. It holds what others
/// did meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuCost {
    /// In soft interrupts, in milliseconds per gigabit.
    pub softirq_ms_per_gbit: Option<f64>,
    /// Not idle, in milliseconds per gigabit.
    pub busy_ms_per_gbit: Option<f64>,
    /// In soft interrupts, in microseconds per datagram.
    pub softirq_us_per_packet: Option<f64>,
    /// Not idle, in microseconds per datagram.
    pub busy_us_per_packet: Option<f64>,
    /// Share of each CPU's time in soft interrupts, by number; of two machines that of the receiver.
    pub softirq_share: BTreeMap<String, f64>,
}

/// What became of probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// Program and version.
    pub by: String,
    /// Probes sent.
    pub sent: u64,
    /// Share that did not arrive.
    pub lost_there: f64,
    /// Of those that arrived, the share that did not return.
    pub lost_back: f64,
    /// Of those that arrived, the share that others overtook.
    pub overtaken_there: f64,
    /// Of those that returned, the share that others overtook on the way back.
    pub overtaken_back: f64,
    /// Median time there and back, in microseconds; none when no probe returned.
    pub p50_us: Option<f64>,
    /// 90th percentile, in microseconds.
    pub p90_us: Option<f64>,
    /// 99th percentile, in microseconds.
    pub p99_us: Option<f64>,
    /// Median time there, in microseconds; none when both ends do not share a clock.
    pub there_p50_us: Option<f64>,
    /// Median time back, in microseconds.
    pub back_p50_us: Option<f64>,
    /// From the 5th to the 95th percentile on the way there, in microseconds: what jitter does.
    pub there_spread_us: Option<f64>,
    /// The same on the way back.
    pub back_spread_us: Option<f64>,
}
