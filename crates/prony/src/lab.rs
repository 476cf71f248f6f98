//! `prony lab up|down|ls`.

use crate::Exit;
use crate::cli::{LabArgs, LabVerb};
use crate::output::print;
use crate::{network, source};
use anyhow::{Context, Result, bail};
use prony_lab::{Condition, LabState};
use prony_model::{Host, Nanos, Stack};
use serde_json::json;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// `prony lab`.
pub(crate) fn run(args: &LabArgs) -> Result<Exit> {
    match &args.verb {
        LabVerb::Up { lab, no_measure, json } => up(lab, !no_measure, *json),
        LabVerb::Down { id } => down(id.as_deref()),
        LabVerb::Ls { json } => ls(*json),
        LabVerb::Wire { plan } => Ok(prony_lab::be_wire(plan).map(|()| Exit::Done)?),
    }
}

/// How long each link is measured.
const LINK_TIME: Nanos = Nanos::from_millis(2000);

fn up(name: &str, measure: bool, json: bool) -> Result<Exit> {
    let stack = source::stack(name)?;
    if stack.lab.is_none() {
        bail!("{name} has no [lab] section: prony does not bring it up");
    }
    let up = prony_lab::up(&stack, &|line| eprintln!("{line}"))?;
    let mounted: Vec<_> = up.mounted.iter().map(|m| json!({ "host": m.host, "disk": m.disk, "at": m.at })).collect();
    let mut running = up.stack;
    let (links, gaps) = if measure { network::of_links(&running, LINK_TIME) } else { Default::default() };
    running.lab = None;
    let file = prony_lab::folder(&up.id).join("stack.toml");
    write(&running, &file).with_context(|| format!("cannot write {}", file.display()))?;
    if json {
        print(&serde_json::to_string_pretty(
            &json!({ "id": up.id.as_str(), "file": file, "stack": running, "mounted": mounted, "links": links, "gaps": gaps }),
        )?);
    } else {
        for line in prony_report::network::links(&links).into_iter().chain(gaps.iter().map(ToString::to_string)) {
            print(&line);
        }
        for mounted in &up.mounted {
            let at = mounted.at.display();
            print(&format!(
                "logs of {} lie on {}, mounted at {at}; `prony lab down` unmounts it",
                mounted.host, mounted.disk
            ));
        }
        print(&roles(&running));
        print(&format!("lab {} is up; its stack file is\n{}", up.id, file.display()));
    }
    Ok(Exit::Done)
}

/// Writes the stack file of a lab. How to ask its databases stands there too, as nowhere else: so only its owner may read it.
fn write(stack: &Stack, file: &Path) -> Result<()> {
    let mut table = toml::Table::try_from(stack)?;
    for (name, host) in table.get_mut("host").and_then(toml::Value::as_table_mut).into_iter().flatten() {
        let dsn = stack.host.get(name).and_then(|host| host.dsn.clone());
        if let Some((host, dsn)) = host.as_table_mut().zip(dsn) {
            host.insert("dsn".to_string(), dsn.into());
        }
    }
    let mut options = std::fs::OpenOptions::new();
    let mut open = options.write(true).create(true).truncate(true).mode(0o600).open(file)?;
    Ok(open.write_all(toml::to_string(&table)?.as_bytes())?)
}

/// Who runs on which CPU.
fn roles(stack: &Stack) -> String {
    let on = |(name, host): (&String, &Host)| Some(format!("{name} on {}", host.cpus.as_ref()?));
    let roles: Vec<String> = stack.host.iter().filter_map(on).collect();
    if roles.is_empty() { String::new() } else { format!("CPUs: {}", roles.join(", ")) }
}

fn down(id: Option<&str>) -> Result<Exit> {
    let labs = prony_lab::list()?;
    if let Some(id) = id {
        let names: Vec<&str> = labs.iter().map(|l| l.id.as_str()).collect();
        if !names.contains(&id) {
            let near = prony_model::input::nearest(id, names.iter().copied());
            eprintln!("prony: no lab {id} is up{}", near.map(|n| format!("; did you mean {n}?")).unwrap_or_default());
            return Ok(Exit::Done);
        }
    }
    for lab in labs.iter().filter(|l| id.is_none_or(|id| l.id.as_str() == id)) {
        prony_lab::down(&lab.id)?;
        print(&format!("lab {} is down", lab.id));
    }
    Ok(Exit::Done)
}

fn ls(json: bool) -> Result<Exit> {
    let labs = prony_lab::list()?;
    if json {
        let labs: Vec<_> = labs.iter().map(as_json).collect();
        let object = json!({ "schema": "prony.labs/1", "labs": labs, "builtin": prony_lab::builtin_names() });
        print(&serde_json::to_string_pretty(&object)?);
        return Ok(Exit::Done);
    }
    if labs.is_empty() {
        print("no lab is up");
    }
    for lab in &labs {
        print(&line(lab));
    }
    print("\nlabs that ship with prony (prony lab up NAME, prony prove NAME):");
    for name in prony_lab::builtin_names() {
        let title = source::stack(name).map(|s| s.name).unwrap_or_default();
        print(&format!("  {name:<24} {title}"));
    }
    Ok(Exit::Done)
}

fn as_json(lab: &LabState) -> serde_json::Value {
    json!({
        "id": lab.id.as_str(),
        "name": lab.name,
        "owner_pid": lab.owner_pid,
        "condition": condition(lab),
        "namespaces": lab.namespaces,
        "processes": lab.processes,
        "mounts": lab.mounts,
    })
}

fn line(lab: &LabState) -> String {
    let mounts = match lab.mounts.len() {
        0 => String::new(),
        n => format!(", {n} mounted"),
    };
    format!(
        "{}  {:<10} {} namespaces, {} processes{mounts}  {}",
        lab.id,
        condition(lab),
        lab.namespaces.len(),
        lab.processes.len(),
        lab.name
    )
}

fn condition(lab: &LabState) -> String {
    match &lab.condition {
        Condition::Building => "building".to_string(),
        Condition::Up => "up".to_string(),
        Condition::LeftOver(why) => format!("left over ({why})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_stack_file_of_a_lab_says_how_to_ask_its_databases_and_to_its_owner_only() {
        let text = "entry = \"http://a/\"\n[host.gw]\n[host.db]\ndsn = \"postgresql://app@127.0.0.1/app\"\n";
        let stack = Stack::parse("s", text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stack.toml");
        write(&stack, &file).unwrap();
        assert_eq!(Stack::parse("again", &std::fs::read_to_string(&file).unwrap()).unwrap(), stack);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
