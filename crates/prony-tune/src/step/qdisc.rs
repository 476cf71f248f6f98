//! The root queueing discipline of an interface, by `tc`.
//!
//! prony's token bucket carries a handle of its own, so that undo knows it again. Former token buckets are restored
//! with their handle and parameters; the kernel's default comes back by itself when ours is deleted.

use super::{Look, call};
use crate::error::TuneError;
use prony_tool::TC;
use serde::{Deserialize, Serialize};

/// Handle of prony's own queueing discipline: `pr` in ASCII. The kernel gives out handles from 8000 up by itself.
pub const OUR_HANDLE: &str = "7072:";
/// Rates and times come back from the kernel rounded to its clock ticks (seen: 33 ms as 32960 us). A guess with room.
const ROUNDING: f64 = 0.01;

/// An interface and its root queueing discipline before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qdisc {
    /// Which interface.
    pub interface: String,
    /// The token bucket before; none: the kernel's default.
    pub old: Option<Bucket>,
    /// The token bucket after.
    pub new: Bucket,
}

/// A token bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Like `8001:`.
    pub handle: String,
    /// Rate in bytes per second.
    pub rate_bytes_per_s: u64,
    /// Size of the bucket in bytes.
    pub burst_bytes: u64,
    /// Longest wait in the queue in microseconds.
    pub latency_us: u64,
}

/// What `tc -j qdisc show` prints of one queueing discipline, as far as we use it.
#[derive(Deserialize)]
struct Shown {
    kind: String,
    handle: String,
    #[serde(default)]
    root: bool,
    #[serde(default)]
    options: Options,
}

#[derive(Default, Deserialize)]
struct Options {
    rate: Option<u64>,
    burst: Option<u64>,
    lat: Option<u64>,
    /// Shown only with a peak rate, which tc leaves out of its JSON, so it could not be restored.
    minburst: Option<u64>,
}

impl Bucket {
    /// The token bucket at the root of an interface; none when the kernel's default is there.
    /// An error when it is anything else, since that could not be restored exactly.
    pub fn present(interface: &str) -> Result<Option<Self>, TuneError> {
        let text = call(TC, &["-j", "qdisc", "show", "dev", interface])?;
        let shown: Vec<Shown> = serde_json::from_str(&text).map_err(|e| TuneError::Tool {
            command: format!("tc -j qdisc show dev {interface}"),
            message: format!("its answer is no JSON that we know: {e}"),
        })?;
        let Some(root) = shown.into_iter().find(|q| q.root) else { return Ok(None) };
        let options = root.options;
        match (options.rate, options.burst, options.lat) {
            (Some(rate), Some(burst), Some(lat)) if root.kind == "tbf" && options.minburst.is_none() => {
                Ok(Some(Self { handle: root.handle, rate_bytes_per_s: rate, burst_bytes: burst, latency_us: lat }))
            }
            _ if root.handle == "0:" => Ok(None),
            _ => Err(TuneError::missing(
                format!("{interface} has a queueing discipline `{}` that prony could not restore exactly", root.kind),
                format!("remove it first (`tc qdisc del dev {interface} root`), or measure another link"),
            )),
        }
    }

    /// Whether as much fits into the bucket and its queue.
    pub fn holds_as_much_as(&self, other: &Self) -> bool {
        let reaches = |own: u64, others: u64| own as f64 >= (1.0 - ROUNDING) * others as f64;
        reaches(self.burst_bytes, other.burst_bytes) && reaches(self.latency_us, other.latency_us)
    }

    fn is(&self, other: &Self) -> bool {
        let near = |a: u64, b: u64| (a as f64 - b as f64).abs() <= ROUNDING * a as f64;
        self.handle == other.handle
            && near(self.rate_bytes_per_s, other.rate_bytes_per_s)
            && near(self.burst_bytes, other.burst_bytes)
            && near(self.latency_us, other.latency_us)
    }

    fn put(&self, interface: &str) -> Result<(), TuneError> {
        let rate = format!("{}bps", self.rate_bytes_per_s);
        let burst = format!("{}b", self.burst_bytes);
        let latency = format!("{}us", self.latency_us);
        let place = ["qdisc", "replace", "dev", interface, "root", "handle", &self.handle];
        call(TC, &[place.as_slice(), &["tbf", "rate", &rate, "burst", &burst, "latency", &latency]].concat()).map(drop)
    }

    fn text(&self) -> String {
        let kbit = self.rate_bytes_per_s as f64 * 8.0 / 1000.0;
        format!("tbf rate {kbit}kbit burst {} latency {}us", self.burst_bytes, self.latency_us)
    }
}

impl Qdisc {
    pub(super) fn look(&self) -> Result<Look, TuneError> {
        let now = match Bucket::present(&self.interface) {
            Ok(now) => now,
            Err(TuneError::Tool { message, .. }) if message.contains("Cannot find device") => {
                return Ok(Look::Gone(format!("interface {} is gone", self.interface)));
            }
            Err(TuneError::Missing { what, .. }) => return Ok(Look::Foreign(what)),
            Err(other) => return Err(other),
        };
        Ok(match (&now, &self.old) {
            (None, None) => Look::Old,
            (Some(now), Some(old)) if now.is(old) => Look::Old,
            (Some(now), _) if now.is(&self.new) => Look::New,
            (Some(now), _) => Look::Foreign(format!("{} has {} now", self.interface, now.text())),
            (None, Some(_)) => Look::Foreign(format!("{} has the kernel's default now", self.interface)),
        })
    }

    pub(super) fn apply(&self) -> Result<(), TuneError> {
        self.new.put(&self.interface)
    }

    pub(super) fn restore(&self) -> Result<(), TuneError> {
        match &self.old {
            Some(old) => old.put(&self.interface),
            None => call(TC, &["qdisc", "del", "dev", &self.interface, "root"]).map(drop),
        }
    }

    pub(super) fn diff(&self) -> String {
        let old = self.old.as_ref().map_or("default".to_string(), Bucket::text);
        format!("qdisc of {}: {old} -> {}\n", self.interface, self.new.text())
    }
}
