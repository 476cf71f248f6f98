//! Memory of the machine under pressure, and on which NUMA node it is given out.
//!
//! Machine-wide. Invariant: without a second node nothing is said about nodes.

use crate::fact_file::{FactFile, read_once};
use crate::facts::Facts;
use crate::network::folder_names;
use crate::roots::Roots;
use crate::text::{count, keyed};
use prony_model::CpuList;
use prony_model::metric as m;
use std::path::PathBuf;

/// Readers of the machine's memory counters.
#[derive(Debug)]
pub(crate) struct Memory {
    vmstat: FactFile,
    /// One per node, none on a machine with a single one.
    nodes: Vec<(String, FactFile)>,
    folder: PathBuf,
}

impl Memory {
    pub(crate) fn new(roots: &Roots) -> Self {
        let folder = roots.sys.join("devices/system/node");
        let numbered = |name: &String| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
        let mut nodes: Vec<(String, FactFile)> = (folder_names(&folder).into_iter().filter(numbered))
            .map(|name| (name["node".len()..].to_string(), FactFile::new(folder.join(&name).join("numastat"))))
            .collect();
        if nodes.len() < 2 {
            nodes.clear();
        }
        Self { vmstat: FactFile::new(roots.proc.join("vmstat")), nodes, folder }
    }

    pub(crate) fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>) {
        if let Some(text) = facts.text(&mut self.vmstat, page, "vm") {
            put_vmstat(facts, &text);
        }
        for (node, file) in &mut self.nodes {
            if let Some(text) = facts.text(file, page, "numa") {
                facts.put_some(&m::NUMA_LOCAL, node, keyed(&text, "local_node"));
                facts.put_some(&m::NUMA_REMOTE, node, keyed(&text, "other_node"));
            }
            let cpus = read_once(&self.folder.join(format!("node{node}/cpulist")));
            let cpus = cpus.ok().and_then(|list| list.trim().parse::<CpuList>().ok());
            for cpu in cpus.iter().flat_map(|list| list.as_slice()) {
                facts.put_if_any(&m::CPU_NODE, &cpu.to_string(), count(node));
            }
        }
    }
}

fn put_vmstat(facts: &mut Facts, text: &str) {
    facts.put_some(&m::VM_DIRECT_SCANS, "", keyed(text, "pgscan_direct"));
    facts.put_some(&m::VM_MAJOR_FAULTS, "", keyed(text, "pgmajfault"));
    let stalls = text.lines().filter(|line| line.starts_with("allocstall")).map(|line| line.split_whitespace().nth(1));
    // One line per zone.
    let stalls: Vec<f64> = stalls.filter_map(|word| count(word?)).collect();
    facts.put_some(&m::VM_ALLOCATION_STALLS, "", (!stalls.is_empty()).then(|| stalls.iter().sum()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn stalls_add_up_over_zones() {
        Facts::check(
            put_vmstat,
            "pgmajfault 7\nallocstall_normal 3\nallocstall_movable 4\npgscan_direct 9\npgscan_direct_throttle 1\n",
            expect![[r#"
                vm.direct_scans [] 9
                vm.major_faults [] 7
                vm.allocation_stalls [] 7
            "#]],
        );
    }

    #[test]
    fn nodes_are_read_where_there_are_two() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { proc: dir.path().join("proc"), sys: dir.path().join("sys"), ..Roots::here() };
        let mut page = Vec::new();
        for (node, cpus) in [("node0", "0-1\n"), ("node1", "2\n")] {
            let folder = dir.path().join("sys/devices/system/node").join(node);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("numastat"), "numa_hit 9\nlocal_node 5\nother_node 3\n").unwrap();
            std::fs::write(folder.join("cpulist"), cpus).unwrap();
            let mut facts = Facts::new("lb", 0);
            Memory::new(&roots).read(&mut facts, &mut page);
            assert_eq!(facts.value(&m::NUMA_REMOTE, "0"), (node == "node1").then_some(3.0));
            assert_eq!(facts.value(&m::CPU_NODE, "2"), (node == "node1").then_some(1.0));
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(s in "(allocstall|pgmajfault|[0-9 ]|\\PC|\n){0,120}") {
            put_vmstat(&mut Facts::new("lb", 0), &s);
        }
    }
}
