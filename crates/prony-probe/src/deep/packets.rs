//! Why packets were dropped in the host's network namespace, and connections in which state sent again.
//!
//! A full accept queue drops without this event: `TcpExt:ListenOverflows` tells that one (`network.rs`).

use super::Watched;
use super::program::{Program, u32_at, u64_at};
use crate::facts::Facts;
use libbpf_rs::btf::{Btf, types::Enum};
use prony_model::Metric;
use prony_model::metric as m;
use std::collections::BTreeMap;

/// States of a connection in the order of include/net/tcp_states.h, the first is 1.
const STATES: [&str; 12] = [
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
];
/// What stands for no drop, and no retransmit, at all.
const NONE: &str = "NONE";

/// Packets under watch.
#[derive(Debug)]
pub(super) struct Packets {
    pub program: Program,
}

impl Packets {
    pub(super) fn begin(watched: &Watched) -> Result<Self, String> {
        let namespace = watched.namespace.ok_or("the number of the network namespace cannot be read")?;
        let mut program = Program::load("packets", include_bytes!(concat!(env!("OUT_DIR"), "/packets.bpf.o")))?;
        program.put("namespace", 0, &namespace.to_ne_bytes())?;
        program.attach()?;
        Ok(Self { program })
    }

    pub(super) fn put(mut self, facts: &mut Facts, seconds: f64) {
        self.program.detach();
        let reasons = reasons();
        put(facts, &m::DROP_REASON, self.counts("drops"), seconds, |n| {
            // Numbers move from kernel to kernel: only the running one can name them.
            reasons.get(&n).cloned().unwrap_or_else(|| format!("reason {n}"))
        });
        put(facts, &m::RETRANSMIT_STATE, self.counts("retransmits"), seconds, |n| {
            let state = (n as usize).checked_sub(1).and_then(|n| STATES.get(n));
            state.map_or_else(|| format!("state {n}"), ToString::to_string)
        });
    }

    fn counts(&self, map: &str) -> Vec<(u32, f64)> {
        let entries = self.program.entries(map);
        entries.iter().map(|(key, value)| (u32_at(key, 0), u64_at(value, 0) as f64)).collect()
    }
}

fn put(facts: &mut Facts, metric: &Metric, counts: Vec<(u32, f64)>, seconds: f64, name: impl Fn(u32) -> String) {
    let mut counts: Vec<(String, f64)> = counts.into_iter().map(|(n, count)| (name(n), count)).collect();
    counts.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    if counts.is_empty() {
        counts.push((NONE.to_string(), 0.0));
    }
    for (item, count) in counts {
        facts.put(metric, &item, count / seconds);
    }
}

/// Names of `enum skb_drop_reason` in the running kernel, without their common beginning.
fn reasons() -> BTreeMap<u32, String> {
    let Ok(btf) = Btf::from_vmlinux() else { return BTreeMap::new() };
    let Some(reasons) = btf.type_by_name::<Enum<'_>>("skb_drop_reason") else { return BTreeMap::new() };
    let named = reasons.iter().filter_map(|member| {
        let name = member.name?.to_str()?;
        let name = ["SKB_DROP_REASON_", "SKB_"].iter().find_map(|start| name.strip_prefix(start)).unwrap_or(name);
        Some((u32::try_from(member.value).ok()?, name.to_string()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_most_frequent_first_and_none_is_a_fact() {
        let mut facts = Facts::new("lb", 0);
        put(&mut facts, &m::DROP_REASON, vec![(3, 10.0), (9, 40.0)], 2.0, |n| format!("R{n}"));
        put(&mut facts, &m::RETRANSMIT_STATE, vec![], 2.0, |n| format!("{n}"));
        expect![[r#"
            drop.reason [R9] 20
            drop.reason [R3] 5
            retransmit.state [NONE] 0
        "#]]
        .assert_eq(&facts.listing());
    }
}
