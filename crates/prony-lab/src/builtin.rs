//! Labs that come with prony: two healthy stacks, and variants with one planted defect each.
//!
//! The files of `labs/` are part of the binary. What each variant should be diagnosed as stands here, once; tests and
//! the score of the diagnosis read it.

/// What the diagnosis of a lab should say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Causes that are right.
    pub causes: &'static [&'static str],
    /// Hosts that are right.
    pub hops: &'static [&'static str],
}

struct Lab {
    name: &'static str,
    base: Option<&'static str>,
    text: &'static str,
    expected: Expected,
}

macro_rules! labs {
    ($($name:literal on $base:expr => $causes:expr, at $hops:expr;)*) => {
        &[$(Lab {
            name: $name,
            base: $base,
            text: include_str!(concat!("../../../labs/", $name, ".toml")),
            expected: Expected { causes: &$causes, hops: &$hops },
        }),*]
    };
}

const PROXY: Option<&str> = Some("proxy");
const CHAIN: Option<&str> = Some("chain");

const LABS: &[Lab] = labs! {
    "proxy" on None => ["cpu-saturated-user", "cpu-saturated-kernel"], at ["lb"];
    "proxy-keepalive-off" on PROXY => ["upstream-keepalive-off"], at ["lb"];
    "proxy-access-log" on PROXY => ["access-log-unbuffered", "access-log-lock"], at ["lb"];
    "proxy-few-workers" on PROXY => ["too-few-workers"], at ["lb"];
    "proxy-cpu-quota" on PROXY => ["cpu-quota-throttled"], at ["lb"];
    "proxy-backlog" on PROXY => ["accept-queue-full"], at ["lb"];
    "proxy-link-rate" on PROXY => ["bandwidth-bound"], at ["lb"];
    "proxy-packet-loss" on PROXY => ["packet-loss"], at ["s1", "lb"];
    "proxy-slow-upstream" on PROXY => ["slow-upstream"], at ["s1", "s2"];
    "proxy-ports" on PROXY => ["ephemeral-ports-exhausted"], at ["lb"];
    "chain" on None => ["cpu-saturated-user", "cpu-saturated-kernel"], at ["app", "db"];
    "chain-pool" on CHAIN => ["connection-pool-exhausted"], at ["app"];
    "chain-missing-index" on CHAIN => ["slow-query"], at ["db"];
    "chain-row-locks" on CHAIN => ["row-lock-contention"], at ["db"];
    "chain-connection-per-query" on CHAIN => ["connection-per-query"], at ["app"];
    "chain-chatty" on CHAIN => ["chatty-queries"], at ["app"];
    "proxy-neighbour" on PROXY => ["run-queue-wait"], at ["lb"];
    "proxy-misplaced" on PROXY => ["workers-misplaced"], at ["lb"];
    "proxy-offloads" on PROXY => ["offloads-off"], at ["lb"];
    "proxy-debug-log" on PROXY => ["log-flood"], at ["lb"];
    "proxy-rate-limit" on PROXY => ["rate-limited"], at ["lb"];
};

/// Names of the labs that come with prony, the healthy one first.
pub fn builtin_names() -> Vec<&'static str> {
    LABS.iter().map(|lab| lab.name).collect()
}

/// The layers of a lab for `Stack::parse_layers`: (file name, text), the base first. None when there is no such lab.
/// The name may end in `.toml`.
pub fn builtin(name: &str) -> Option<Vec<(String, String)>> {
    let lab = find(name)?;
    let base = lab.base.and_then(find);
    Some(base.into_iter().chain([lab]).map(|l| (format!("{}.toml", l.name), l.text.to_string())).collect())
}

/// What the diagnosis of a lab that comes with prony should say.
pub fn expected(name: &str) -> Option<Expected> {
    find(name).map(|lab| lab.expected)
}

fn find(name: &str) -> Option<&'static Lab> {
    let name = name.strip_suffix(".toml").unwrap_or(name);
    LABS.iter().find(|lab| lab.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use prony_model::{CpuList, Stack};

    #[test]
    fn every_lab_parses_and_can_be_planned() {
        assert_eq!(builtin_names()[0], "proxy");
        for name in builtin_names() {
            let layers = builtin(name).unwrap();
            let stack = Stack::parse_layers(&layers).unwrap_or_else(|e| panic!("{e}"));
            Plan::of(&stack, &CpuList::from_iter([0, 1])).unwrap_or_else(|e| panic!("{name}: {e}"));
            let named_base = Stack::base_of(&layers[layers.len() - 1].0, &layers[layers.len() - 1].1).unwrap();
            let base_file = (layers.len() > 1).then(|| layers[0].0.clone());
            assert_eq!(named_base, base_file, "{name} is laid on what it names");
            let expected = expected(name).unwrap();
            assert!(expected.hops.iter().all(|hop| stack.host.contains_key(*hop)), "{name} expects a host it has");
            let line = format!("# Expected: {} at {}\n", expected.causes.join(" or "), expected.hops.join(" or "));
            assert!(layers[layers.len() - 1].1.contains(&line), "labs/{name}.toml must say: {line}");
        }
    }

    #[test]
    fn every_file_of_the_folder_is_built_in() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let files = crate::traces::names_in(&folder);
        let mut stems: Vec<&str> = files.iter().filter_map(|f| f.strip_suffix(".toml")).collect();
        stems.sort_unstable();
        let mut names = builtin_names();
        names.sort_unstable();
        assert_eq!(stems, names);
    }

    #[test]
    fn a_defect_differs_from_the_healthy_lab() {
        for lab in LABS.iter().filter_map(|lab| Some((lab.name, lab.base?))) {
            let of = |name| Stack::parse_layers(&builtin(name).unwrap()).unwrap().lab;
            assert_ne!(of(lab.0), of(lab.1), "{}", lab.0);
        }
        assert!(builtin("proxy.toml").is_some() && builtin("nothing").is_none());
    }
}
