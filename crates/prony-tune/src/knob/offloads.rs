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
    let wanted = wanted(&name, value)?;
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
    let step = Offloads { interface: interface.to_string(), new };
    let permanent = format!("at each boot (in a udev rule or a unit): ethtool {}", step.arguments().join(" "));
    Ok(Plan { before, steps: vec![Step::Offloads(step)], reload: None, permanent })
}

fn check(ctx: &Context<'_>, interface: &str, value: &str) -> Result<(), TuneError> {
    let name = format!("offloads.{interface}");
    expect_read(&name, &listed(&wanted(&name, value)?), &read(ctx, interface)?)
}

/// The words of a value, in the order of [`WORDS`].
fn wanted(name: &str, value: &str) -> Result<Vec<&'static str>, TuneError> {
    let given: Vec<&str> = value.split(',').map(str::trim).filter(|_| value.trim() != "none").collect();
    if given.iter().any(|word| WORDS.iter().all(|(known, _)| known != word)) {
        let expected = "those of `gro`, `gso` and `tso` that are on, like `gso,tso`, or `none`";
        return Err(TuneError::value(name, value, expected));
    }
    Ok(WORDS.iter().map(|(word, _)| *word).filter(|word| given.contains(word)).collect())
}

fn present(ctx: &Context<'_>, interface: &str) -> Result<BTreeMap<String, bool>, TuneError> {
    Offloads::present(interface)?.ok_or_else(|| {
        TuneError::missing(
            format!("{} has no interface `{interface}`", ctx.name),
            "`ip link` inside the host lists its interfaces",
        )
    })
}

/// The words of which all features are on.
fn text(present: &BTreeMap<String, bool>) -> String {
    let is_on = |features: &&[&str]| {
        let mut known = features.iter().filter_map(|feature| present.get(*feature)).peekable();
        known.peek().is_some() && known.all(|on| *on)
    };
    let words: Vec<&str> = WORDS.iter().filter(|(_, features)| is_on(features)).map(|(word, _)| *word).collect();
    listed(&words)
}

fn listed(words: &[&str]) -> String {
    if words.is_empty() { "none".to_string() } else { words.join(",") }
}
