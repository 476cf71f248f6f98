//! One way measured: streams there and back, datagrams by size, probes; each a flow between the agents of two hosts.
//!
//! Invariant: a receiver that nobody reaches is told to stop, so that a way which does not work costs no minute.

use super::cost::{self, Used};
use prony_agent::{Agent, AgentError, Reply, Request};
use prony_model::network::{CpuCost, FlowEnd, FlowPlan, Leg, PacketsSeen, RoundTrip, Sender, StreamSeen, Traffic};
use prony_model::{Gap, Latency, Nanos};
use prony_stats::Histogram;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Probes per second: enough that a loss of 1 % shows within seconds, and few enough to load nothing. A guess.
const PROBES_PER_S: u32 = 500;

/// What is wanted of each way.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Time of each measurement.
    pub each: Nanos,
    /// Payloads of datagrams, in bytes.
    pub sizes: Vec<u32>,
    /// Who sends streams and datagrams.
    pub sender: Sender,
    /// Whether streams are measured.
    pub streams: bool,
}

/// A way from one host to another.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// Name of the layer.
    pub layer: String,
    pub from: String,
    pub to: String,
    /// Address of the host that is called.
    pub to_addr: IpAddr,
    /// Address of the caller, when known: the way back leads there.
    pub from_addr: Option<IpAddr>,
    /// What the lab was told to do to packets there and back.
    pub set: (String, String),
}

/// Both ends of a flow.
struct Flown {
    sender: FlowEnd,
    receiver: FlowEnd,
    sender_used: Option<Used>,
    receiver_used: Option<Used>,
}

type Agents = BTreeMap<String, Box<dyn Agent>>;

/// Measures a way; none when nothing of it could be measured.
pub(crate) fn measure(agents: &Agents, way: &Way, asked: &Asked, stop: &AtomicBool) -> (Option<Leg>, Vec<Gap>) {
    let mut gaps = Vec::new();
    let mut leg = Leg {
        layer: way.layer.clone(),
        from: way.from.clone(),
        to: way.to.clone(),
        set_there: way.set.0.clone(),
        set_back: way.set.1.clone(),
        ..Leg::default()
    };
    let plan = |traffic, by, to| FlowPlan { traffic, duration: asked.each, by, to };
    let mut flow = |from: &str, to: &str, plan: FlowPlan, what: &str| {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let flown = flow(agents, from, to, plan);
        let told =
            flown.map_err(|reason| gaps.push(Gap::new(format!("network: {what}"), format!("{from} to {to}"), reason)));
        told.ok()
    };
    let probes = plan(Traffic::Probes { per_s: PROBES_PER_S }, Sender::Own, way.to_addr);
    let probed = flow(&way.from, &way.to, probes, "probes");
    leg.round_trip = probed.as_ref().map(round_trip);
    if asked.streams {
        let stream = |to| plan(Traffic::Stream, asked.sender, to);
        let there = flow(&way.from, &way.to, stream(way.to_addr), "stream");
        leg.stream_there = there.and_then(|flown| stream_seen(&flown, asked.each));
        let back = way.from_addr.and_then(|addr| flow(&way.to, &way.from, stream(addr), "stream"));
        leg.stream_back = back.and_then(|flown| stream_seen(&flown, asked.each));
    }
    for payload_bytes in &asked.sizes {
        let packets = plan(Traffic::Packets { payload_bytes: *payload_bytes }, asked.sender, way.to_addr);
        let flown = flow(&way.from, &way.to, packets, &format!("datagrams of {payload_bytes} bytes"));
        leg.packets.extend(flown.and_then(|flown| packets_seen(&flown, *payload_bytes, asked.each)));
    }
    if asked.streams && way.from != way.to && way.from_addr.is_none() {
        let reason = format!("its address is not known: write `addr` into [host.{}]", way.from);
        gaps.push(Gap::new("network: stream back", way.from.clone(), reason));
    }
    let empty = leg.round_trip.is_none() && leg.stream_there.is_none() && leg.packets.is_empty();
    ((!empty).then_some(leg), gaps)
}

/// A flow from one host to another, from its first message to the last.
fn flow(agents: &Agents, from: &str, to: &str, plan: FlowPlan) -> Result<Flown, String> {
    let agent = |name: &str| agents.get(name).ok_or_else(|| "the stack has no such host".to_string());
    let (sends, receives) = (agent(from)?, agent(to)?);
    let replies = receives.begin(Request::Receive(plan));
    let ended = || AgentError::ended(to).reason;
    let port = match replies.recv().map_err(|_| ended())? {
        Ok(Reply::Receiving { port }) => port,
        Ok(_) => return Err(AgentError::other_reply(to).reason),
        Err(e) => return Err(e.reason),
    };
    let sent = flowed(from, sends.call(Request::Send { plan, port }));
    if sent.is_err() {
        receives.stop_load();
    }
    let received = flowed(to, replies.recv().map_err(|_| ended())?);
    let ((sender, sender_used), (receiver, receiver_used)) = (sent?, received?);
    Ok(Flown { sender, receiver, sender_used, receiver_used })
}

fn flowed(host: &str, reply: Result<Reply, AgentError>) -> Result<(FlowEnd, Option<Used>), String> {
    match reply {
        Ok(Reply::Flowed(end, before, after)) => Ok((*end, Used::between(&before, &after))),
        Ok(_) => Err(AgentError::other_reply(host).reason),
        Err(e) => Err(e.reason),
    }
}

impl Flown {
    fn one_machine(&self) -> bool {
        self.sender.boot == self.receiver.boot && !self.sender.boot.is_empty()
    }

    /// Bits that arrived per second; whichever end knows it.
    fn bits_per_s(&self) -> Option<f64> {
        let of = |end: &FlowEnd| Some(end.bytes? as f64 * 8.0 / end.counted_s.filter(|s| *s > 0.0)?);
        of(&self.receiver).or_else(|| of(&self.sender))
    }

    fn cost(&self, each: Nanos, bits_per_s: f64, packets_per_s: Option<f64>) -> CpuCost {
        let (sender, receiver) = (self.sender_used.as_ref(), self.receiver_used.as_ref());
        cost::of(sender, receiver, self.one_machine(), each.as_secs_f64(), bits_per_s, packets_per_s)
    }
}

fn stream_seen(flown: &Flown, each: Nanos) -> Option<StreamSeen> {
    let bits_per_s = flown.bits_per_s()?;
    // iperf3 sends for whole seconds, and says so.
    let sent_s = flown.sender.counted_s.unwrap_or(each.as_secs_f64());
    Some(StreamSeen {
        by: flown.sender.by.clone(),
        bits_per_s,
        retransmits_per_s: flown.sender.retransmits.map(|count| count as f64 / sent_s),
        cost: flown.cost(each, bits_per_s, None),
    })
}

fn packets_seen(flown: &Flown, payload_bytes: u32, each: Nanos) -> Option<PacketsSeen> {
    let rate = |count: Option<u64>, end: &FlowEnd| Some(count? as f64 / end.counted_s.filter(|s| *s > 0.0)?);
    let (sender, receiver) = (&flown.sender, &flown.receiver);
    let received_per_s = rate(receiver.received, receiver).or_else(|| rate(sender.received, sender))?;
    Some(PacketsSeen {
        by: sender.by.clone(),
        payload_bytes,
        sent_per_s: rate(sender.sent, sender)?,
        received_per_s,
        cost: flown.cost(each, flown.bits_per_s()?, Some(received_per_s)),
    })
}

fn round_trip(flown: &Flown) -> RoundTrip {
    let (sender, receiver) = (&flown.sender, &flown.receiver);
    let [sent, returned] = [sender.sent, sender.returned].map(Option::unwrap_or_default);
    let received = receiver.received.unwrap_or_default();
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    // Clocks of two machines say nothing about one way.
    let one_way = |latency: &Option<Latency>| latency.clone().filter(|l| l.count > 0 && flown.one_machine());
    let (there, back) = (one_way(&sender.there), one_way(&sender.back));
    let both = sender.round_trip.as_ref().filter(|latency| latency.count > 0);
    RoundTrip {
        by: sender.by.clone(),
        sent,
        lost_there: share(sent.saturating_sub(received), sent),
        lost_back: share(received.saturating_sub(returned), received),
        overtaken_there: share(receiver.overtaken.unwrap_or_default(), received),
        overtaken_back: share(sender.overtaken.unwrap_or_default(), returned),
        p50_us: both.map(|latency| latency.p50_us),
        p90_us: both.map(|latency| latency.p90_us),
        p99_us: both.map(|latency| latency.p99_us),
        there_p50_us: there.as_ref().map(|latency| latency.p50_us),
        back_p50_us: back.as_ref().map(|latency| latency.p50_us),
        there_spread_us: there.as_ref().and_then(spread_us),
        back_spread_us: back.as_ref().and_then(spread_us),
    }
}

/// From the 5th to the 95th percentile.
fn spread_us(latency: &Latency) -> Option<f64> {
    let histogram = Histogram::from_hdr_v2(&latency.hdr_v2).ok()?;
    Some(histogram.quantile_us(0.95) - histogram.quantile_us(0.05))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flown(sender: FlowEnd, receiver: FlowEnd) -> Flown {
        Flown { sender, receiver, sender_used: None, receiver_used: None }
    }

    #[test]
    fn loss_is_counted_in_each_direction() {
        let sender = FlowEnd { sent: Some(1000), returned: Some(720), overtaken: Some(72), ..FlowEnd::default() };
        let receiver = FlowEnd { received: Some(900), overtaken: Some(9), ..FlowEnd::default() };
        let seen = round_trip(&flown(sender, receiver));
        assert_eq!((seen.lost_there, seen.lost_back), (0.1, 0.2));
        assert_eq!((seen.overtaken_there, seen.overtaken_back, seen.p50_us), (0.01, 0.1, None));
    }

    #[test]
    fn a_way_in_one_direction_needs_one_clock() {
        let mut times = Histogram::new();
        (0..100).for_each(|i| times.record_ns(1_000_000 + i * 10_000));
        let end = |boot: &str| FlowEnd {
            sent: Some(100),
            returned: Some(100),
            there: Some(times.to_latency()),
            boot: boot.to_string(),
            ..FlowEnd::default()
        };
        let apart = round_trip(&flown(end("a"), end("b")));
        assert_eq!((apart.there_p50_us, apart.there_spread_us), (None, None));
        let here = round_trip(&flown(end("a"), end("a")));
        assert!((here.there_p50_us.unwrap() - 1_490.0).abs() < 10.0, "{here:?}");
        assert!((here.there_spread_us.unwrap() - 900.0).abs() < 20.0, "{here:?}");
    }

    #[test]
    fn whichever_end_knows_tells_the_rate() {
        let own = FlowEnd { bytes: Some(125_000_000), counted_s: Some(1.0), received: Some(50), ..FlowEnd::default() };
        let sent = FlowEnd { sent: Some(200), counted_s: Some(2.0), ..FlowEnd::default() };
        let each = Nanos::from_millis(1000);
        let seen = packets_seen(&flown(sent.clone(), own.clone()), 64, each).unwrap();
        assert_eq!((seen.sent_per_s, seen.received_per_s), (100.0, 50.0));
        assert_eq!(stream_seen(&flown(sent, own.clone()), each).unwrap().bits_per_s, 1e9);
        // iperf3 tells everything at the client.
        let of_client = FlowEnd { sent: Some(100), ..own };
        let seen = packets_seen(&flown(of_client, FlowEnd::default()), 64, each).unwrap();
        assert_eq!((seen.sent_per_s, seen.received_per_s), (100.0, 50.0));
    }
}
