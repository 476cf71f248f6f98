//! What is not the same in two runs: keys of the stack, facts of the hosts, prony itself.
//!
//! It does not say which of them explains a change. Invariant: names that a lab makes anew each time (its id in namespaces,
//! groups and paths) are no difference.

use prony_model::Run;
use prony_model::comparison::Difference;
use prony_model::run::Inventory;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Everything that differs, in order of name; hosts with the same difference in one entry.
pub fn between(a: &Run, b: &Run) -> Vec<Difference> {
    grouped(&facts(a), &facts(b))
}

/// The same of hosts that stand for each other: the name to show, and both sides.
pub fn of_hosts(pairs: &[(String, &Inventory, &Inventory)]) -> Vec<Difference> {
    let side = |of: fn(&(String, &Inventory, &Inventory)) -> BTreeMap<String, String>| {
        let facts = pairs
            .iter()
            .flat_map(|pair| of(pair).into_iter().map(|(what, value)| ((what, Some(pair.0.clone())), value)));
        facts.map(|(key, value)| (key, without_lab_id(&value))).collect::<Facts>()
    };
    grouped(&side(|pair| pair.1.facts.clone()), &side(|pair| pair.2.facts.clone()))
}

fn grouped(of_a: &Facts, of_b: &Facts) -> Vec<Difference> {
    let mut found: BTreeMap<(String, Option<String>, Option<String>), Vec<String>> = BTreeMap::new();
    for key in of_a.keys().chain(of_b.keys()).collect::<BTreeSet<_>>() {
        let (a, b) = (of_a.get(key), of_b.get(key));
        if a != b {
            let (what, host) = key.clone();
            found.entry((what, a.cloned(), b.cloned())).or_default().extend(host);
        }
    }
    found.into_iter().map(|((what, a, b), hosts)| Difference { what, hosts, a, b }).collect()
}

/// (what, host) and its value.
type Facts = BTreeMap<(String, Option<String>), String>;

/// Every leaf of the stack, every fact of the inventory.
fn facts(run: &Run) -> Facts {
    let mut facts = BTreeMap::from([(("prony".to_string(), None), run.version.clone())]);
    let stack = serde_json::to_value(&run.stack).expect("the keys of a stack are strings");
    leaves("stack", &stack, &mut facts);
    for host in &run.inventory {
        for (fact, value) in &host.facts {
            facts.insert((fact.clone(), Some(host.host.clone())), without_lab_id(value));
        }
    }
    facts
}

fn leaves(path: &str, value: &Value, facts: &mut Facts) {
    match value {
        Value::Object(table) => table.iter().for_each(|(key, value)| leaves(&format!("{path}.{key}"), value, facts)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| leaves(&format!("{path}[{i}]"), value, facts));
        }
        Value::String(text) => {
            facts.insert((path.to_string(), None), without_lab_id(text));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            facts.insert((path.to_string(), None), value.to_string());
        }
    }
}

/// `netns:prony-07a4-lb` as `netns:prony-*-lb`, `/run/prony/labs/07a4/lb` as `/run/prony/labs/*/lb`.
fn without_lab_id(text: &str) -> String {
    const ID: usize = 4;
    let mut out = String::from(text);
    for before in ["prony-", "/labs/"] {
        let mut from = 0;
        while let Some(at) = out[from..].find(before).map(|at| from + at + before.len()) {
            let id = out.get(at..at + ID).filter(|id| id.chars().all(|c| c.is_ascii_hexdigit()));
            if id.is_some() {
                out.replace_range(at..at + ID, "*");
            }
            from = at;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::Stack;

    fn run(connections: u32, id: &str, kernel: &str) -> Run {
        let text = format!(
            "entry = \"http://a/\"\n[host.lb]\nat = \"netns:prony-{id}-lb\"\n[host.s1]\n[workload]\nconnections = {connections}\n"
        );
        let host = |name: &str| Inventory {
            host: name.to_string(),
            facts: [
                ("kernel".to_string(), kernel.to_string()),
                ("server.cgroup".to_string(), format!("/prony-{id}/lb")),
            ]
            .into(),
        };
        let stack = Stack::parse("stack.toml", &text).unwrap();
        Run { stack, inventory: vec![host("lb"), host("s1")], ..Run::default() }
    }

    #[test]
    fn what_differs_is_told_once_and_lab_names_are_no_difference() {
        assert_eq!(between(&run(64, "07a4", "6.1"), &run(64, "ffe0", "6.1")), []);
        let found = between(&run(64, "07a4", "6.1"), &run(128, "ffe0", "6.2"));
        let words: Vec<String> =
            found.iter().map(|d| format!("{} {:?} {:?} {:?}", d.what, d.hosts, d.a, d.b)).collect();
        assert_eq!(
            words,
            [
                "kernel [\"lb\", \"s1\"] Some(\"6.1\") Some(\"6.2\")",
                "stack.workload.connections [] Some(\"64\") Some(\"128\")"
            ]
        );
    }

    #[test]
    fn a_key_of_one_side_is_a_difference() {
        let (a, mut b) = (run(64, "07a4", "6.1"), run(64, "07a4", "6.1"));
        b.inventory[0].facts.insert("nginx.version".into(), "1.22".into());
        let found = between(&a, &b);
        assert_eq!((found.len(), found[0].a.as_deref(), found[0].b.as_deref()), (1, None, Some("1.22")));
        assert_eq!(without_lab_id("prony-"), "prony-");
        assert_eq!(without_lab_id("prony-\u{e4}\u{e4}\u{e4}"), "prony-\u{e4}\u{e4}\u{e4}");
    }
}
