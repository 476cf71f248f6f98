//! `prony inventory`: what every host is and how it is set, and what is not the same elsewhere.
//!
//! Reads only. Invariant: what could not be read is told as a gap, never as a difference.

mod explain;

use crate::BadArgument;
use crate::Exit;
use crate::cli::InventoryArgs;
use crate::measure::LabGuard;
use crate::output::print;
use crate::progress::Progress;
use crate::{home, report, source};
use anyhow::{Context, Result};
use explain::explain;
use prony_model::comparison::Difference;
use prony_model::input::nearest;
use prony_model::run::Inventory;
use prony_model::{Event, Gap, Stack};
use prony_stats::compare::differences;
use serde_json::{Value, json};

/// Version of the JSON output.
const SCHEMA: &str = "prony.inventory/1";

/// Hosts, with what is not known of them.
struct Hosts {
    /// What was named on the command line.
    name: String,
    /// In the order of the path of a request.
    found: Vec<Inventory>,
    gaps: Vec<Gap>,
}

/// `prony inventory STACK [--diff WITH]`.
pub(crate) fn run(args: &InventoryArgs) -> Result<Exit> {
    let mut progress = Progress::lines(args.json);
    let hosts = look(&args.of, &mut progress)?.only(&args.host)?;
    let Some(with) = &args.diff else {
        print(&if args.json { serde_json::to_string_pretty(&hosts.json())? } else { hosts.text() });
        return Ok(Exit::Done);
    };
    let other;
    let mut gaps = hosts.gaps.clone();
    let (a, b, pairs) = if let Some((a, b)) = with.split_once(',') {
        let (a, b) = (a.trim(), b.trim());
        (a, b, vec![(with.clone(), hosts.one(a)?, hosts.one(b)?)])
    } else {
        other = look(with, &mut progress)?.only(&args.host)?;
        gaps.extend(other.gaps.iter().cloned());
        (hosts.name.as_str(), other.name.as_str(), pairs(&hosts.found, &other.found)?)
    };
    let found = differences::of_hosts(&pairs);
    let facts = pairs.iter().flat_map(|(_, a, _)| a.facts.keys()).count();
    print(&if args.json {
        let found: Vec<Value> = found.iter().map(as_json).collect::<Result<_>>()?;
        serde_json::to_string_pretty(
            &json!({ "schema": SCHEMA, "a": a, "b": b, "facts": facts, "differences": found, "gaps": gaps }),
        )?
    } else {
        told(a, b, facts, &found)
    });
    Ok(Exit::Done)
}

/// Reads the hosts of a stack, which are up or are brought up, or those of a record.
fn look(name: &str, progress: &mut Progress) -> Result<Hosts> {
    let is_record = name.ends_with(".prony") || (!std::path::Path::new(name).exists() && report::find(name).is_ok());
    if is_record {
        let run = prony_record::read(&report::find(name)?)?;
        return Ok(Hosts { name: name.to_string(), found: in_order(run.inventory, &run.stack), gaps: Vec::new() });
    }
    let stack = source::stack(name)?;
    let lab = stack.lab.is_some().then(|| LabGuard::up(&stack, progress)).transpose()?;
    let stack = lab.as_ref().map_or(stack, |lab| lab.up.stack.clone());
    progress.show(&Event::Stage { name: "observe".to_string(), detail: format!("what the hosts of {name} are") });
    let (found, gaps) = prony_session::inventories(&prony_session::connect(&stack, &home::journal()));
    if let Some(lab) = lab {
        lab.down()?;
    }
    Ok(Hosts { name: name.to_string(), found: in_order(found, &stack), gaps })
}

/// The generator, then the path of a request.
fn in_order(mut found: Vec<Inventory>, stack: &Stack) -> Vec<Inventory> {
    let path = stack.path();
    found.sort_by_key(|host| path.iter().position(|name| *name == host.host).map_or(0, |at| at + 1));
    found
}

impl Hosts {
    fn only(mut self, names: &[String]) -> Result<Self> {
        names.iter().try_for_each(|name| self.one(name).map(drop))?;
        if !names.is_empty() {
            self.found.retain(|host| names.contains(&host.host));
            self.gaps.retain(|gap| names.contains(&gap.host));
        }
        Ok(self)
    }

    fn one(&self, name: &str) -> Result<&Inventory> {
        self.found.iter().find(|host| host.host == name).ok_or_else(|| {
            let names: Vec<&str> = self.found.iter().map(|host| host.host.as_str()).collect();
            let near =
                nearest(name, names.iter().copied()).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            BadArgument::error(format!("{} has no host `{name}`{near}; it has {}", self.name, names.join(", ")))
        })
    }

    fn json(&self) -> Value {
        json!({ "schema": SCHEMA, "of": self.name, "hosts": self.found, "gaps": self.gaps })
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        for host in &self.found {
            let width = host.facts.keys().map(String::len).max().unwrap_or(0);
            lines.push(host.host.clone());
            lines.extend(host.facts.iter().map(|(name, value)| format!("  {name:<width$}  {value}")));
            let gaps = self.gaps.iter().filter(|gap| gap.host == host.host);
            lines.extend(gaps.map(|gap| format!("  gap: {}: {}", gap.fact, gap.reason)));
            lines.push(String::new());
        }
        let unreached = self.gaps.iter().filter(|gap| self.found.iter().all(|host| host.host != gap.host));
        lines.extend(unreached.map(|gap| format!("gap: {gap}")));
        lines.join("\n")
    }
}

/// Hosts that stand for each other: those of the same name; where no name is on both sides, those at the same place.
fn pairs<'a>(a: &'a [Inventory], b: &'a [Inventory]) -> Result<Vec<(String, &'a Inventory, &'a Inventory)>> {
    let same: Vec<_> = a
        .iter()
        .filter_map(|left| b.iter().find(|right| right.host == left.host).map(|right| (left.host.clone(), left, right)))
        .collect();
    if !same.is_empty() {
        return Ok(same);
    }
    let placed = a.iter().zip(b).map(|(left, right)| (format!("{} / {}", left.host, right.host), left, right));
    let placed: Vec<_> = placed.collect();
    (!placed.is_empty()).then_some(placed).context("one of the two has no host that could be looked at")
}

fn as_json(difference: &Difference) -> Result<Value> {
    let mut value = serde_json::to_value(difference)?;
    if let Some(reason) = explain(&difference.what) {
        value["explains"] = reason.text.into();
        value["causes"] = json!(reason.causes);
    }
    Ok(value)
}

/// Those whose meaning is known first.
fn told(a: &str, b: &str, facts: usize, found: &[Difference]) -> String {
    if found.is_empty() {
        return format!("{a} and {b}: none of {facts} facts differs");
    }
    let (known, others): (Vec<_>, Vec<_>) = found.iter().partition(|d| explain(&d.what).is_some());
    let mut lines = vec![format!("{a} (left) and {b} (right): {} of {facts} facts differ", found.len())];
    let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "not there".to_string());
    for (head, list) in [("What may explain another speed", known), ("Other differences", others)] {
        if !list.is_empty() {
            lines.push(format!("\n{head}"));
        }
        for difference in list {
            let Difference { what, hosts, a, b } = difference;
            lines.push(format!("  {what} at {}: {} | {}", hosts.join(", "), side(a), side(b)));
            if let Some(reason) = explain(what) {
                let causes =
                    if reason.causes.is_empty() { String::new() } else { format!(" ({})", reason.causes.join(", ")) };
                lines.push(format!("      {}{causes}", reason.text));
            }
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn host(name: &str, facts: &[(&str, &str)]) -> Inventory {
        let facts = facts.iter().map(|(name, value)| ((*name).to_string(), (*value).to_string())).collect();
        Inventory { host: name.to_string(), facts }
    }

    #[test]
    fn what_explains_a_speed_comes_first() {
        let a = [
            host("s1", &[("kernel", "6.1"), ("server.workers", "1"), ("zone", "a")]),
            host("s2", &[("kernel", "6.1")]),
        ];
        let b = [
            host("s1", &[("kernel", "6.1"), ("server.workers", "2"), ("zone", "b")]),
            host("s2", &[("kernel", "6.1")]),
        ];
        let found = differences::of_hosts(&pairs(&a, &b).unwrap());
        expect![[r#"
            a.toml (left) and b.toml (right): 2 of 4 facts differ

            What may explain another speed
              server.workers at s1: 1 | 2
                  how many requests are worked on at once (too-few-workers)

            Other differences
              zone at s1: a | b"#]]
        .assert_eq(&told("a.toml", "b.toml", 4, &found));
        assert_eq!(told("a", "b", 4, &[]), "a and b: none of 4 facts differs");
    }

    #[test]
    fn hosts_without_a_common_name_are_paired_by_their_place() {
        let (a, b) = ([host("web", &[("cpus", "0")])], [host("edge", &[("cpus", "0-1")]), host("db", &[])]);
        let found = differences::of_hosts(&pairs(&a, &b).unwrap());
        assert_eq!((found.len(), found[0].hosts.as_slice()), (1, &["web / edge".to_string()][..]));
        assert!(pairs(&a, &[]).is_err());
    }

    #[test]
    fn a_wrong_host_names_the_nearest() {
        let hosts =
            Hosts { name: "stack.toml".into(), found: vec![host("lb", &[]), host("s1", &[])], gaps: Vec::new() };
        let error = hosts.only(&["s11".to_string()]).err().unwrap();
        assert_eq!(error.to_string(), "stack.toml has no host `s11`; did you mean `s1`?; it has lb, s1");
    }
}
