//! `offloads.INTERFACE`: what an interface joins and splits: received packets (GRO), sent ones late in the kernel (GSO) or in the
//! card (TSO).
//!
//! Knows which features are behind these three words. Undo gives each feature its own state again.

use super::{Disruption, Effect, KnobInfo, Plan, expect_read};
use crate::Context;
use crate::error::TuneError;
use crate::step::{Offloads, Step};
use prony_model::metric::IF_OFFLOAD;
use std::collections::BTreeMap;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "offloads.INTERFACE",
    value: "those of `gro`, `gso` and `tso` that are on, like `gso,tso`; `none`",
    disruption: Disruption::Live,
    risk: "Some cards lose what they hold when they are switched. A host that forwards packets may have to have some of them off.",
    effect: Effect { metric: &IF_OFFLOAD, how: "tells for each whether it is on" },
    doc: "64 KiB as one packet through the kernel, or as 45 (Documentation/networking/segmentation-offloads.rst). By `ethtool -K`. Large \
          receive offload is left alone: it may join what was never one stream.",
    read,
    plan,
    check,
};

/// The features behind each word, as ethtool names them. `tx-tcp-mangleid-segmentation` is not among them: it is off unless somebody
/// wants it.
const WORDS: [(&str, &[&str]); 3] = [
    ("gro", &["generic-receive-offload"]),
    ("gso", &["generic-segmentation-offload"]),
    ("tso", &["tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation"]),
];

fn read(ctx: &Context<'_>, interface: &str) -> Result<String, TuneError> {
    Ok(text(&present(ctx, interface)?))
}

fn plan(ctx: &Context<'_>, interface: &str, value: &str) -> Result<Plan, TuneError> {
    let name = format!("offloads.{interface}");
    let wanted: Vec<&str> = value.split(',').map(str::trim).filter(|word| *word != "none").collect();
    if wanted.iter().any(|word| WORDS.iter().all(|(known, _)| known != word)) {
        return Err(TuneError::value(
            &name,
            value,
            "those of `gro`, `gso` and `tso` that are on, like `gso,tso`, or `none`",
        ));
    }
    let present = present(ctx, interface)?;
    let mut new = BTreeMap::new();
    for (word, features) in WORDS {
        let on = wanted.contains(&word);
        let known: Vec<&&str> = features.iter().filter(|feature| present.contains_key(**feature)).collect();
        if on && known.is_empty() {
            return Err(TuneError::missing(
                format!("{interface} of {} cannot switch `{word}`", ctx.name),
                format!("`ethtool -k {interface}` inside the host shows what is fixed"),
            ));
        }
        let changed = known.into_iter().filter(|feature| present[**feature] != on);
        new.extend(changed.map(|feature| ((*feature).to_string(), on)));
    }
    let before = text(&present);
    if new.is_empty() {
        return Err(TuneError::Unchanged { knob: name, value: before });
    }
    let words: Vec<String> =
        new.iter().map(|(name, on)| format!("{name} {}", if *on { "on" } else { "off" })).collect();
    let permanent = format!("at each boot (in a udev rule or a unit): ethtool -K {interface} {}", words.join(" "));
    let step = Offloads { interface: interface.to_string(), new };
    Ok(Plan { before, steps: vec![Step::Offloads(step)], reload: None, permanent })
}

fn check(ctx: &Context<'_>, interface: &str, value: &str) -> Result<(), TuneError> {
    let mut words: Vec<&str> = value.split(',').map(str::trim).collect();
    words.sort_unstable();
    words.dedup();
    expect_read(&format!("offloads.{interface}"), &words.join(","), &read(ctx, interface)?)
}

fn present(ctx: &Context<'_>, interface: &str) -> Result<BTreeMap<String, bool>, TuneError> {
    Offloads::present(interface)?.ok_or_else(|| {
        TuneError::missing(
            format!("{} has no interface `{interface}`", ctx.name),
            "`ip link` inside the host lists its interfaces",
        )
    })
}

/// The words of which all features are on, in the order of the alphabet.
fn text(present: &BTreeMap<String, bool>) -> String {
    let is_on = |features: &&[&str]| {
        let mut known = features.iter().filter_map(|feature| present.get(*feature)).peekable();
        known.peek().is_some() && known.all(|on| *on)
    };
    let words: Vec<&str> = WORDS.iter().filter(|(_, features)| is_on(features)).map(|(word, _)| *word).collect();
    if words.is_empty() { "none".to_string() } else { words.join(",") }
}
