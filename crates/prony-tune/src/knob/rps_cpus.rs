//! `rps_cpus.INTERFACE`: which CPUs do the protocol work of packets that come in, as a hexadecimal mask.
//!
//! Sets all receive queues of the interface to the same mask; undo gives each queue its own again.

use super::{Disruption, Effect, KnobInfo, Plan, cpus_online, expect_read};
use crate::Context;
use crate::error::TuneError;
use crate::step::{Form, KernelFile, Root, Step};
use prony_model::metric::SOFTNET_STEERED;
use std::fs;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "rps_cpus.INTERFACE",
    value: "a hexadecimal mask of CPUs, like `3` for CPUs 0 and 1; `0` steers nothing",
    disruption: Disruption::Live,
    risk: "Steering to a busy or a distant CPU costs more than it gives: each packet then interrupts another CPU.",
    effect: Effect { metric: &SOFTNET_STEERED, how: "grows per packet with a mask, stands still with 0" },
    doc: "Receive packet steering (Documentation/networking/scaling.rst). Worth it when there are fewer receive queues than \
          CPUs and one CPU is busy with packets. Flows that are open may arrive out of order for a moment.",
    read,
    plan,
    check,
};

fn read(ctx: &Context<'_>, interface: &str) -> Result<String, TuneError> {
    let mut masks: Vec<String> = queues(ctx, interface)?.into_iter().map(|(_, mask)| bare(&mask)).collect();
    let all = masks.join(",");
    masks.dedup();
    // Queues that differ are told one by one, in the order of their names.
    Ok(if masks.len() == 1 { masks.remove(0) } else { all })
}

fn plan(ctx: &Context<'_>, interface: &str, value: &str) -> Result<Plan, TuneError> {
    let name = format!("rps_cpus.{interface}");
    let mask = u128::from_str_radix(&bare(value), 16).ok();
    let online = cpus_online(&ctx.roots)?;
    let inside = |mask: &u128| (0..128).all(|cpu| mask >> cpu & 1 == 0 || online.contains(cpu));
    if mask.as_ref().is_none_or(|mask| !inside(mask)) {
        let most: u128 = online.as_slice().iter().filter(|cpu| **cpu < 128).map(|cpu| 1 << cpu).sum();
        return Err(TuneError::value(
            &name,
            value,
            format!("a hexadecimal mask of CPUs that are online, at most {most:x}"),
        ));
    }
    let before = read(ctx, interface)?;
    let new = bare(value);
    let queues = queues(ctx, interface)?.into_iter().filter(|(_, old)| bare(old) != new);
    let steps: Vec<Step> = queues
        .map(|(path, old)| KernelFile { root: Root::Sys, path, old, new: new.clone(), form: Form::HexMask })
        .map(Step::KernelFile)
        .collect();
    if steps.is_empty() {
        return Err(TuneError::Unchanged { knob: name, value: before });
    }
    let permanent = format!(
        "at each boot (in a udev rule or a unit): for q in /sys/class/net/{interface}/queues/rx-*; do echo {new} > $q/rps_cpus; done"
    );
    Ok(Plan { before, steps, reload: None, permanent })
}

fn check(ctx: &Context<'_>, interface: &str, value: &str) -> Result<(), TuneError> {
    expect_read(&format!("rps_cpus.{interface}"), &bare(value), &read(ctx, interface)?)
}

/// The file of each receive queue, below /sys, and its mask.
fn queues(ctx: &Context<'_>, interface: &str) -> Result<Vec<(String, String)>, TuneError> {
    let below = format!("class/net/{interface}/queues");
    let dir = ctx.roots.sys.join(&below);
    let absent = || {
        TuneError::missing(
            format!("{} has no interface `{interface}` with receive queues ({})", ctx.name, dir.display()),
            "`ip link` inside the host lists its interfaces",
        )
    };
    let entries = fs::read_dir(&dir).map_err(|_| absent())?;
    let mut names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    names.retain(|name| name.starts_with("rx-"));
    names.sort();
    if names.is_empty() || interface.contains('/') {
        return Err(absent());
    }
    names
        .into_iter()
        .map(|queue| {
            let path = format!("{below}/{queue}/rps_cpus");
            let file = ctx.roots.sys.join(&path);
            let mask = fs::read_to_string(&file).map_err(TuneError::io("read", &file))?;
            Ok((path, mask.trim().to_string()))
        })
        .collect()
}

/// A mask without commas and leading zeroes.
fn bare(mask: &str) -> String {
    let bare = mask.trim().replace(',', "");
    let bare = bare.trim_start_matches('0').to_lowercase();
    if bare.is_empty() { "0".to_string() } else { bare }
}
