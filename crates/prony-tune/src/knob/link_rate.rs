//! `link_rate.INTERFACE`: how fast a host may send on a link, by a token bucket at the root of its queueing
//! disciplines.
//!
//! Makes a link slower, or raises the rate of a bucket that is there; no link gets faster than it is. What was there before
//! comes back exactly.

use super::{Disruption, Effect, KnobInfo, Plan};
use crate::Context;
use crate::error::TuneError;
use crate::step::{Bucket, Qdisc, Step};
use prony_model::BitRate;
use prony_model::metric::QDISC_RATE;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "link_rate.INTERFACE",
    value: "a rate, like `20mbit`",
    disruption: Disruption::Live,
    risk: "Everything that leaves through the interface is slowed; packets waiting in a bucket that is replaced are lost.",
    effect: Effect { metric: &QDISC_RATE, how: "shows the rate" },
    doc: "A token bucket (tc-tbf) of 50 ms latency. Only where the kernel's default queueing discipline or another token \
          bucket is, since others could not be restored exactly. The rate that a bucket has already gives it room for 50 ms, \
          where it held less.",
    read,
    plan,
    check,
};

/// Longest wait in the bucket's queue: what tc's own manual uses in its example, and enough for a TCP window at 1
/// Mbit/s.
const LATENCY_US: u64 = 50_000;
/// Smallest bucket: one packet of 64 KiB, as segmentation offload hands them over on veth (IP's largest packet).
const BURST_BYTES_MIN: u64 = 65_536;
/// The bucket holds that share of a second: tbf(8) wants rate/HZ at least, and HZ is 100 on the slowest kernels.
const BURST_S: f64 = 0.01;

fn read(_: &Context<'_>, interface: &str) -> Result<String, TuneError> {
    Ok(Bucket::present(interface)?.map_or("none".to_string(), |b| text(b.rate_bytes_per_s)))
}

fn plan(_: &Context<'_>, interface: &str, value: &str) -> Result<Plan, TuneError> {
    let name = format!("link_rate.{interface}");
    let rate: BitRate = value.parse().map_err(|_| TuneError::value(&name, value, "a rate like `20mbit`"))?;
    let rate_bytes_per_s = (rate.0 / 8.0).round() as u64;
    if !(1_000..=125_000_000_000).contains(&rate_bytes_per_s) {
        return Err(TuneError::value(&name, value, "within 8kbit and 1000gbit"));
    }
    let old = Bucket::present(interface)?;
    let burst_bytes = ((rate_bytes_per_s as f64 * BURST_S) as u64).max(BURST_BYTES_MIN);
    let new =
        Bucket { handle: crate::step::OUR_HANDLE.to_string(), rate_bytes_per_s, burst_bytes, latency_us: LATENCY_US };
    if old.as_ref().is_some_and(|b| b.rate_bytes_per_s == rate_bytes_per_s && b.holds_as_much_as(&new)) {
        return Err(TuneError::Unchanged { knob: name, value: text(rate_bytes_per_s) });
    }
    let before = old.as_ref().map_or("none".to_string(), |b| text(b.rate_bytes_per_s));
    let permanent = format!(
        "at each boot: tc qdisc replace dev {interface} root tbf rate {value} burst {burst_bytes} latency {}ms",
        LATENCY_US / 1000
    );
    let step = Qdisc { interface: interface.to_string(), old, new };
    Ok(Plan { before, steps: vec![Step::Qdisc(step)], reload: None, permanent })
}

/// The step itself compares what the kernel shows with what was asked for.
fn check(_: &Context<'_>, _: &str, _: &str) -> Result<(), TuneError> {
    Ok(())
}

fn text(rate_bytes_per_s: u64) -> String {
    BitRate(rate_bytes_per_s as f64 * 8.0).to_string()
}
