//! What an interface joins and splits, by `ethtool`.
//!
//! Each feature is switched by its own name and compared by what was asked of it, not by what it does: a driver may refuse one for as
//! long as another is off. Invariant: features that a step did not change are never written.

use super::{Look, call};
use crate::error::TuneError;
use prony_tool::ETHTOOL;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An interface and the features that are switched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloads {
    /// Which interface.
    pub interface: String,
    /// Whether each is on after the step; before it, it was the other way round.
    pub new: BTreeMap<String, bool>,
}

/// What `ethtool --json -k` prints of a feature, as far as we use it. A group of features has neither.
#[derive(Deserialize)]
struct Shown {
    fixed: Option<bool>,
    requested: Option<bool>,
}

impl Offloads {
    /// Whether each feature that can be switched is asked for. None: there is no such interface.
    pub fn present(interface: &str) -> Result<Option<BTreeMap<String, bool>>, TuneError> {
        let args = ["--json", "-k", interface];
        let text = match call(ETHTOOL, &args) {
            Err(TuneError::Tool { message, .. }) if message.contains("No such device") => return Ok(None),
            answer => answer?,
        };
        let unknown = |e: serde_json::Error| TuneError::Tool {
            command: format!("{} {}", ETHTOOL.name, args.join(" ")),
            message: format!("its answer is no JSON that we know: {e}"),
        };
        let interfaces: Vec<BTreeMap<String, serde_json::Value>> = serde_json::from_str(&text).map_err(unknown)?;
        let shown = interfaces.into_iter().flatten().filter(|(_, value)| value.is_object());
        let mut present = BTreeMap::new();
        for (name, value) in shown {
            let Shown { fixed, requested } = serde_json::from_value(value).map_err(unknown)?;
            present.extend(requested.filter(|_| fixed == Some(false)).map(|on| (name, on)));
        }
        Ok(Some(present))
    }

    pub(super) fn look(&self) -> Result<Look, TuneError> {
        let Some(now) = Self::present(&self.interface)? else {
            return Ok(Look::Gone(format!("interface {} is gone", self.interface)));
        };
        let back: Vec<&str> =
            self.new.iter().filter(|(name, on)| now.get(*name) != Some(*on)).map(|(n, _)| &**n).collect();
        Ok(match back.len() {
            0 => Look::New,
            all if all == self.new.len() => Look::Old,
            _ => Look::Partly(format!("{} of {} is as it was", back.join(", "), self.interface)),
        })
    }

    pub(super) fn apply(&self) -> Result<(), TuneError> {
        call(ETHTOOL, &self.arguments()).map(drop)
    }

    pub(super) fn restore(&self) -> Result<(), TuneError> {
        let Some(now) = Self::present(&self.interface)? else { return Ok(()) };
        let ours = self.new.iter().filter(|(name, on)| now.get(*name) == Some(*on));
        let arguments = self.switching(ours.map(|(name, on)| (name, !on)));
        if arguments.len() > NAMED { call(ETHTOOL, &arguments).map(drop) } else { Ok(()) }
    }

    /// What `ethtool` is told.
    pub fn arguments(&self) -> Vec<&str> {
        self.switching(self.new.iter().map(|(name, on)| (name, *on)))
    }

    pub(super) fn diff(&self) -> String {
        let line =
            |(name, on): (&String, &bool)| format!("{name} of {}: {} -> {}\n", self.interface, word(!on), word(*on));
        self.new.iter().map(line).collect()
    }

    fn switching<'a>(&'a self, features: impl Iterator<Item = (&'a String, bool)>) -> Vec<&'a str> {
        let named: [&str; NAMED] = ["-K", &self.interface];
        named.into_iter().chain(features.flat_map(|(name, on)| [name.as_str(), word(on)])).collect()
    }
}

/// Arguments before the first feature.
const NAMED: usize = 2;

fn word(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}
