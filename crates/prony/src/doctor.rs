//! `prony doctor`: what can and cannot be measured here, and the one command that mends it.

use crate::Exit;
use crate::cli::DoctorArgs;
use crate::home;
use crate::output::print;
use anyhow::Result;
use prony_model::cgroup::{Hierarchy, Version};
use prony_tool::Tool;
use serde::Serialize;
use std::path::Path;

/// One thing that prony needs for something.
#[derive(Debug, Serialize)]
struct Check {
    /// What is looked for.
    name: &'static str,
    /// Whether it is there.
    there: bool,
    /// What is seen.
    seen: String,
    /// What is not possible without it.
    without: &'static str,
    /// The command that mends it; empty when none does.
    mend: String,
}

/// `prony doctor`.
pub(crate) fn run(args: &DoctorArgs) -> Result<Exit> {
    let checks = checks();
    if args.json {
        print(&serde_json::to_string_pretty(&serde_json::json!({ "schema": "prony.doctor/1", "checks": checks }))?);
        return Ok(Exit::Done);
    }
    for check in &checks {
        print(&format!("{:<5} {:<22} {}", if check.there { "ok" } else { "gap" }, check.name, check.seen));
        if !check.there {
            print(&format!("      without it: {}", check.without));
        }
    }
    let mut mends: Vec<&str> =
        checks.iter().filter(|c| !c.there && !c.mend.is_empty()).map(|c| c.mend.as_str()).collect();
    mends.dedup();
    match mends.is_empty() {
        true if checks.iter().all(|c| c.there) => print("\neverything that this version measures can be measured here"),
        true => print("\nwhat is missing cannot be mended by a command here"),
        false => print(&format!("\nto mend it:\n  {}", mends.join(" && "))),
    }
    Ok(Exit::Done)
}

fn checks() -> Vec<Check> {
    let root = prony_agent::is_root();
    let mut checks = vec![
        check(
            "root",
            root,
            if root { "yes" } else { "no" },
            "labs, hosts in namespaces, interventions and tuning",
            if root { "" } else { "sudo -E prony doctor" },
        ),
        readable("network namespaces", "/proc/self/ns/net", "labs and hosts in namespaces"),
        cgroups(),
        readable("kernel stacks", "/proc/self/stack", "naming the lock or wait that holds workers (access-log-lock)"),
        readable(
            "kernel types (BTF)",
            "/sys/kernel/btf/vmlinux",
            "the deep look by eBPF: what the CPUs run, waits for kernel locks, drop reasons",
        ),
        readable("run-queue delay", "/proc/self/schedstat", "telling busy from waiting for a CPU"),
        readable("pressure (PSI)", "/proc/pressure/io", "stalls for disk and memory; boot with psi=1"),
        readable("TCP counters", "/proc/thread-self/net/netstat", "accept queue, retransmits, time-wait"),
        check(
            "TAP devices",
            Path::new("/dev/net/tun").exists(),
            "/dev/net/tun",
            "labs whose links have a delay, where the kernel has no netem",
            "",
        ),
        state_folder(),
    ];
    checks.extend(tools());
    checks
}

fn check(
    name: &'static str,
    there: bool,
    seen: impl Into<String>,
    without: &'static str,
    mend: impl Into<String>,
) -> Check {
    Check { name, there, seen: seen.into(), without, mend: mend.into() }
}

fn readable(name: &'static str, path: &str, without: &'static str) -> Check {
    match std::fs::File::open(path)
        .and_then(|mut f| std::io::Read::read(&mut f, &mut [0; 16]).or_else(only_directories))
    {
        Ok(_) => check(name, true, path, without, ""),
        Err(e) => check(name, false, format!("{path}: {e}"), without, ""),
    }
}

/// A namespace file opens but does not read; that is enough.
fn only_directories(e: std::io::Error) -> std::io::Result<usize> {
    if e.kind() == std::io::ErrorKind::InvalidInput { Ok(0) } else { Err(e) }
}

fn cgroups() -> Check {
    let all = Hierarchy::all(&std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    let has_cpu = |hierarchy: &&Hierarchy| {
        std::fs::read_to_string(Path::new(&hierarchy.point).join("cgroup.controllers"))
            .is_ok_and(|c| c.split_whitespace().any(|w| w == "cpu"))
    };
    let v2 = all.iter().find(|h| h.version == Version::V2 && has_cpu(h)).map(|h| format!("v2 at {}", h.point));
    let v1 = all.iter().find(|h| h.is_v1_of("cpu")).map(|h| format!("v1 at {}", h.point));
    let without = "CPU quotas: the intervention on a host's CPU, and cpu-quota-throttled";
    match v2.or(v1) {
        Some(seen) => check("cgroup cpu controller", true, seen, without, ""),
        None => check("cgroup cpu controller", false, "no cgroup with a cpu controller is mounted", without, ""),
    }
}

fn state_folder() -> Check {
    let folder = home::folder();
    let made = std::fs::create_dir_all(&folder).and_then(|()| tempfile_in(&folder));
    let without = "recording runs, and changing anything: the undo must be on disk first";
    match made {
        Ok(()) => check("state folder", true, folder.display().to_string(), without, ""),
        Err(e) => {
            check("state folder", false, format!("{}: {e}", folder.display()), without, "export PRONY_HOME=$HOME/prony")
        }
    }
}

fn tempfile_in(folder: &Path) -> std::io::Result<()> {
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    std::fs::write(&probe, b"x")?;
    std::fs::remove_file(probe)
}

/// Programs, and what is not possible without them.
const TOOLS: [(Tool, &str); 6] = [
    (prony_tool::IP, "labs"),
    (prony_tool::TC, "links with a rate, and the intervention on a link"),
    (prony_tool::NFT, "labs with packet loss"),
    (prony_tool::NGINX, "labs"),
    (prony_tool::HAPROXY, "the lab with a slow upstream"),
    (prony_tool::CHROMIUM, "only tests: looking at the report"),
];

fn tools() -> Vec<Check> {
    let looked = TOOLS.map(|(tool, without)| (tool, without, tool.find()));
    let mut packages: Vec<&str> =
        looked.iter().filter(|(_, _, at)| at.is_none()).map(|(tool, _, _)| tool.package).collect();
    packages.dedup();
    let mend = format!("sudo apt-get install -y {}", packages.join(" "));
    looked
        .into_iter()
        .map(|(tool, without, at)| match at {
            Some(at) => check(tool.name, true, at.display().to_string(), without, ""),
            None => {
                check(tool.name, false, format!("not found; Debian package {}", tool.package), without, mend.clone())
            }
        })
        .collect()
}
