//! Interfaces of a host, as they are set: queues, steering, offloads, coalescing, rings, disciplines, interrupts.
//!
//! Counts nothing. Invariant: what an interface does not have is left out.

use super::put_line;
use crate::ethtool::Ethtool;
use crate::fact_file::read_once;
use crate::facts::Facts;
use crate::network::{Links, folder_names, interfaces};
use crate::nic::{is_card, vectors};
use crate::qdisc::Qdiscs;
use crate::roots::Roots;
use std::collections::BTreeMap;
use std::path::Path;

pub(super) fn put(found: &mut BTreeMap<String, String>, facts: &mut Facts, roots: &Roots) {
    let addresses = match roots.live().then(|| Links::new().addresses()).transpose() {
        Ok(addresses) => addresses,
        Err(e) => return facts.miss("inventory.if", format_args!("netlink RTM_GETLINK: {e}")),
    };
    let (mut ethtool, disciplines) = (Ethtool::new(), disciplines(roots));
    for (name, folder) in interfaces(&roots.sys.join("class/net"), addresses, facts) {
        if read_once(&folder.join("operstate")).is_ok_and(|state| state.trim() == "down") {
            continue; // Namespaces are born with a dozen tunnels that nobody uses.
        }
        let fact = |what: &str| format!("if.{name}.{what}");
        for (what, file) in [
            ("mtu", "mtu"),
            ("speed_mbit", "speed"),
            ("numa_node", "device/numa_node"),
            ("txqueuelen", "tx_queue_len"),
            ("gro_flush_timeout", "gro_flush_timeout"),
            ("napi_defer_hard_irqs", "napi_defer_hard_irqs"),
            ("threaded", "threaded"),
        ] {
            put_line(found, &fact(what), &folder.join(file));
        }
        let driver = std::fs::read_link(folder.join("device/driver")).ok();
        let driver = driver.as_deref().and_then(Path::file_name).and_then(|n| n.to_str());
        found.insert(fact("driver"), driver.unwrap_or("virtual").to_string());
        if roots.live() {
            let settings = ethtool.settings(&name);
            found.extend(settings.into_iter().map(|(what, value)| (fact(what), value)));
        }
        if let Some(kinds) = disciplines.get(&name) {
            found.insert(fact("qdisc"), kinds.join(" "));
        }
        if is_card(&folder) {
            put_interrupts(found, &name, &folder, roots);
        }
        put_queues(found, &name, &folder);
    }
}

fn put_queues(found: &mut BTreeMap<String, String>, name: &str, folder: &Path) {
    let queues = folder.join("queues");
    let names = folder_names(&queues);
    for (side, masks) in [("rx", &["rps_cpus", "rps_flow_cnt"][..]), ("tx", &["xps_cpus"])] {
        let of_side: Vec<&String> = names.iter().filter(|n| n.starts_with(&format!("{side}-"))).collect();
        found.insert(format!("if.{name}.{side}_queues"), of_side.len().to_string());
        for (queue, mask) in of_side.into_iter().flat_map(|queue| masks.iter().map(move |mask| (queue, mask))) {
            put_line(found, &format!("if.{name}.{queue}.{mask}"), &queues.join(queue).join(mask));
        }
    }
}

/// Kinds of queueing disciplines by interface; none of a recorded tree.
fn disciplines(roots: &Roots) -> BTreeMap<String, Vec<String>> {
    if roots.live() { Qdiscs::new().kinds().unwrap_or_default() } else { BTreeMap::new() }
}

/// Which CPUs take the interrupts of a card, as the kernel was told: `/proc/irq/N/smp_affinity_list` of all its vectors.
fn put_interrupts(found: &mut BTreeMap<String, String>, name: &str, folder: &Path, roots: &Roots) {
    let of = |number: &String| read_once(&roots.proc.join("irq").join(number).join("smp_affinity_list")).ok();
    let mut lists: Vec<String> = vectors(folder).iter().filter_map(of).map(|list| list.trim().to_string()).collect();
    lists.dedup();
    if !lists.is_empty() {
        found.insert(format!("if.{name}.irq_cpus"), lists.join(" "));
    }
}
