//! `sysctl.NAME`: one number, or a few, of /proc/sys, in the network namespace of the host.
//!
//! Names that cannot be undone (one-way switches) or that weaken security are refused, and so are values outside of the
//! bounds of knobs that we know.

use super::{Disruption, Effect, KnobInfo, Plan, expect_read};
use crate::Context;
use crate::error::TuneError;
use crate::nginx::master::Master;
use crate::step::{Form, KernelFile, Root, Step};
use prony_model::Place;
use prony_model::metric::TCP_LISTEN_OVERFLOWS;
use std::fs;
use std::io;
use std::ops::RangeInclusive;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "sysctl.NAME",
    value: "one number, or as many as the sysctl has (`1024 65535`)",
    disruption: Disruption::NewSockets,
    risk: "A sysctl holds for every service of the network namespace, and outside of net.* for the whole machine.",
    effect: Effect { metric: &TCP_LISTEN_OVERFLOWS, how: "depends on the sysctl; for somaxconn it stops growing" },
    doc: "Writes /proc/sys in the host's network namespace. A listening socket keeps the somaxconn it was made with until \
          its server calls listen() again. What a connection keeps for its life (sizes of buffers, for one) holds for connections \
          opened afterwards: an nginx is reloaded, so that those which it keeps to its servers are opened anew. Others that set \
          the same name (tuned, bpftune, systemd-sysctl) are seen as a conflict at undo.",
    read,
    plan,
    check,
};

/// Bounds of sysctls that we know: name, range of each number. From the kernel's Documentation/networking/ip-sysctl.rst
/// where it gives any; upper ends are a guess at what is still sane, not a recommendation.
const BOUNDS: &[(&str, RangeInclusive<i64>)] = &[
    ("net.core.somaxconn", 1..=65_535),
    ("net.core.netdev_max_backlog", 1..=1_000_000),
    ("net.ipv4.ip_local_port_range", 1_024..=65_535),
    ("net.ipv4.tcp_tw_reuse", 0..=2),
    ("net.ipv4.tcp_max_syn_backlog", 1..=65_536),
];

/// Sysctls that a connection takes over when it opens, and keeps. From the same text, and socket(7).
const OF_CONNECTIONS: &[&str] = &[
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.tcp_base_mss",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// Trees that may be written at all. `kernel.` holds one-way switches and protections, so of it only what tunes
/// scheduling.
const ALLOWED: &[&str] = &["net.", "vm.", "fs.", "kernel.numa_balancing", "kernel.sched_"];

/// Names that are refused whatever the value, with the reason.
const DENIED: &[(&str, &str)] = &[
    ("rp_filter", "it checks where packets come from"),
    ("ip_forward", "switching forwarding resets other settings of every interface, which undo could not restore"),
    ("forwarding", "switching forwarding resets other settings of every interface, which undo could not restore"),
    ("suid_dumpable", "it protects memory of privileged programs"),
    ("protected_symlinks", "it protects against attacks through shared folders"),
    ("protected_hardlinks", "it protects against attacks through shared folders"),
    ("bpf_jit_harden", "it protects the kernel"),
    ("mmap_min_addr", "it protects the kernel"),
    ("drop_caches", "it cannot be undone"),
    ("compact_memory", "it cannot be undone"),
];

/// Two names of one setting: the kernel holds to the one that was written last, and shows 0 for the other. That 0 cannot
/// be written back. From mm/page-writeback.c and mm/util.c.
const TWINS: &[(&str, &str)] = &[
    ("vm.dirty_bytes", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_background_ratio"),
    ("vm.overcommit_kbytes", "vm.overcommit_ratio"),
];

fn read(ctx: &Context<'_>, name: &str) -> Result<String, TuneError> {
    let file = ctx.roots.proc.join(path(name)?);
    let text = fs::read_to_string(&file).map_err(|e| {
        if e.kind() == io::ErrorKind::NotFound { absent(ctx, name) } else { TuneError::io("read", &file)(e) }
    })?;
    Ok(words(&text))
}

fn plan(ctx: &Context<'_>, name: &str, value: &str) -> Result<Plan, TuneError> {
    let before = read(ctx, name)?;
    let new = words(value);
    allow(name, &new, &before)?;
    if !dotted(name).starts_with("net.") && ctx.place != Place::Local {
        return Err(TuneError::missing(
            format!("{name} belongs to the whole machine, not to the network namespace of {}", ctx.name),
            "set it on a host with `at = \"local\"`",
        ));
    }
    if new == before {
        return Err(TuneError::Unchanged { knob: format!("sysctl.{name}"), value: before });
    }
    let step =
        KernelFile { root: Root::Proc, path: path(name)?, old: before.clone(), new: new.clone(), form: Form::Words };
    let permanent = format!(
        "echo '{} = {new}' > /etc/sysctl.d/90-{}.conf && sysctl --system",
        dotted(name),
        dotted(name).rsplit('.').next().unwrap_or_default()
    );
    let kept = OF_CONNECTIONS.contains(&dotted(name).as_str());
    let reload = kept.then(|| Master::find(ctx).ok()).flatten().filter(|master| master.test().is_ok());
    Ok(Plan { before, steps: vec![Step::KernelFile(step)], reload, permanent })
}

fn check(ctx: &Context<'_>, name: &str, value: &str) -> Result<(), TuneError> {
    expect_read(&format!("sysctl.{name}"), &words(value), &read(ctx, name)?)
}

/// Path below /proc. As in sysctl(8), a name may have dots or slashes; with slashes, dots belong to an interface's
/// name.
fn path(name: &str) -> Result<String, TuneError> {
    let path = if name.contains('/') { name.to_string() } else { name.replace('.', "/") };
    let sane = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if sane { Ok(format!("sys/{path}")) } else { Err(TuneError::value("sysctl", name, "the name of a sysctl")) }
}

fn dotted(name: &str) -> String {
    name.replace('/', ".")
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn absent(ctx: &Context<'_>, name: &str) -> TuneError {
    let place = match &ctx.place {
        Place::Netns(_) => {
            "of this network namespace: the kernel may have it only once for the machine, so ask a host \
                            with `at = \"local\"`, or correct the name"
        }
        Place::Local | Place::Agent(_) => "here: correct the name, or load the module that has it",
    };
    TuneError::missing(format!("there is no sysctl {name} on {}", ctx.name), format!("it is not {place}"))
}

/// Rule 9 of the apply protocol: what must never be turned, and bounds of what may.
fn allow(name: &str, value: &str, before: &str) -> Result<(), TuneError> {
    let name = dotted(name);
    let knob = format!("sysctl.{name}");
    let deny = |why: &str| TuneError::Denied { knob: knob.clone(), value: value.to_string(), why: why.to_string() };
    if !ALLOWED.iter().any(|tree| name.starts_with(tree)) {
        return Err(deny(
            "outside of net., vm. and fs. are switches that cannot be undone, or that protect the machine",
        ));
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    if let Some((_, why)) = DENIED.iter().find(|(denied, _)| *denied == last) {
        return Err(deny(why));
    }
    let mut twins = TWINS.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
    if let Some((_, twin)) = twins.find(|(twin, _)| *twin == name && before == "0") {
        return Err(deny(&format!("{twin} is in force instead, and undo could not bring that back; set {twin}")));
    }
    let fields = before.split(' ').count();
    let want = format!("{fields} whole number{}, as it has now (`{before}`)", if fields == 1 { "" } else { "s" });
    let numbers = |text: &str| text.split(' ').map(|word| word.parse::<i64>().ok()).collect::<Option<Vec<_>>>();
    let Some(old) = numbers(before) else {
        return Err(deny("only sysctls that hold numbers are set"));
    };
    let new = numbers(value).filter(|n| n.len() == old.len());
    let new = new.ok_or_else(|| TuneError::value(&knob, value, want))?;
    match last {
        "tcp_syncookies" | "tcp_timestamps" if new == [0] => {
            return Err(deny("it protects against floods and lost data"));
        }
        "tcp_abort_on_overflow" if new != [0] => return Err(deny("clients would get resets instead of a retry")),
        "tcp_max_tw_buckets" | "tcp_max_orphans" if new < old => {
            return Err(deny("lowering this limit breaks connections; it may only be raised"));
        }
        "ip_local_port_range" if new.first() >= new.last() => {
            return Err(TuneError::value(&knob, value, "a range: the first port must be below the last"));
        }
        _ => {}
    }
    let bounds = BOUNDS.iter().find(|(known, _)| *known == name).map(|(_, bounds)| bounds);
    match bounds.filter(|bounds| new.iter().any(|n| !bounds.contains(n))) {
        Some(b) => Err(TuneError::value(&knob, value, format!("within {} to {}", b.start(), b.end()))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(name: &str, before: &str, value: &str, want: Expect) {
        let said = allow(name, value, before).map_or_else(|e| e.to_string(), |()| "allowed".to_string());
        want.assert_eq(&said);
    }

    #[test]
    fn what_may_be_set() {
        check("net.core.somaxconn", "4096", "128", expect!["allowed"]);
        check("net.ipv4.ip_local_port_range", "32768 60999", "1024 65535", expect!["allowed"]);
        check("net.ipv4.tcp_max_tw_buckets", "100", "200", expect!["allowed"]);
        check("vm.swappiness", "60", "10", expect!["allowed"]);
        check("vm.dirty_bytes", "8192", "268435456", expect!["allowed"]);
        check("vm.dirty_ratio", "20", "10", expect!["allowed"]);
    }

    #[test]
    fn what_may_not() {
        check(
            "net.core.somaxconn",
            "4096",
            "4294967296",
            expect!["sysctl.net.core.somaxconn: `4294967296` is not within 1 to 65535"],
        );
        check(
            "net.ipv4.ip_local_port_range",
            "32768 60999",
            "1024",
            expect![
                "sysctl.net.ipv4.ip_local_port_range: `1024` is not 2 whole numbers, as it has now (`32768 60999`)"
            ],
        );
        check(
            "net.ipv4.ip_local_port_range",
            "32768 60999",
            "60000 2000",
            expect![
                "sysctl.net.ipv4.ip_local_port_range: `60000 2000` is not a range: the first port must be below the last"
            ],
        );
        check(
            "net.ipv4.tcp_congestion_control",
            "cubic",
            "bbr",
            expect![
                "sysctl.net.ipv4.tcp_congestion_control: prony does not set this to `bbr`: only sysctls that hold numbers are set"
            ],
        );
        check(
            "net/ipv4/conf/eth0.1/rp_filter",
            "1",
            "0",
            expect![
                "sysctl.net.ipv4.conf.eth0.1.rp_filter: prony does not set this to `0`: it checks where packets come from"
            ],
        );
        check(
            "vm.dirty_bytes",
            "0",
            "268435456",
            expect![
                "sysctl.vm.dirty_bytes: prony does not set this to `268435456`: vm.dirty_ratio is in force instead, and undo could not bring that back; set vm.dirty_ratio"
            ],
        );
        for (name, before, value) in [
            ("vm.dirty_ratio", "0", "20"),
            ("net.ipv4.tcp_syncookies", "1", "0"),
            ("net.ipv4.tcp_timestamps", "1", "0"),
            ("net.ipv4.tcp_abort_on_overflow", "0", "1"),
            ("net.ipv4.tcp_max_tw_buckets", "200", "100"),
            ("kernel.randomize_va_space", "2", "0"),
            ("kernel.modules_disabled", "0", "1"),
            ("fs.suid_dumpable", "0", "2"),
        ] {
            assert!(matches!(allow(name, value, before), Err(TuneError::Denied { .. })), "{name}");
        }
    }

    #[test]
    fn names_stay_below_proc_sys() {
        assert_eq!(path("net.core.somaxconn").unwrap(), "sys/net/core/somaxconn");
        assert_eq!(path("net/ipv4/conf/eth0.1/rp_filter").unwrap(), "sys/net/ipv4/conf/eth0.1/rp_filter");
        for wrong in ["../kernel", "net/../../x", "net..core", "/net"] {
            assert!(path(wrong).is_err(), "{wrong}");
        }
    }
}
