//! Who else turns knobs on a host: daemons that would fight over a value, or write it again after it was put back.
//!
//! Reads the names of processes under a given root. Invariant: a knob that a running daemon owns is not turned.

use crate::error::TuneError;
use crate::process;
use prony_model::KnobId;
use std::path::Path;

/// A daemon that sets what we set.
struct Owner {
    /// Name of its process (`/proc/PID/comm`).
    process: &'static str,
    /// Whether it sets this knob.
    owns: fn(&KnobId) -> bool,
    /// How to let it rest for the time of a tuning.
    rest: &'static str,
}

/// The daemons that knobs.md of this project names; what each sets is in its own documentation (tuned-profiles(7),
/// irqbalance(1), bpftune(8)).
const OWNERS: [Owner; 3] = [
    Owner {
        process: "tuned",
        owns: |knob| matches!(knob, KnobId::Sysctl(_) | KnobId::CpuAffinity),
        rest: "`systemctl stop tuned`, and start it again afterwards",
    },
    Owner {
        process: "bpftune",
        owns: |knob| matches!(knob, KnobId::Sysctl(name) if name.starts_with("net.")),
        rest: "`systemctl stop bpftune`, and start it again afterwards",
    },
    Owner {
        process: "irqbalance",
        owns: |knob| matches!(knob, KnobId::RpsCpus(_)),
        rest: "`systemctl stop irqbalance`, and start it again afterwards: it moves the interrupts that steering builds on",
    },
];

/// Lets a knob pass that nobody else turns.
///
/// # Errors
/// [`TuneError::Owned`] names the daemon and how to let it rest.
pub(crate) fn check(proc: &Path, knob: &KnobId) -> Result<(), TuneError> {
    let owners: Vec<&Owner> = OWNERS.iter().filter(|owner| (owner.owns)(knob)).collect();
    if owners.is_empty() {
        return Ok(());
    }
    for (pid, _) in process::everyone(proc) {
        let name = std::fs::read_to_string(proc.join(pid.to_string()).join("comm")).unwrap_or_default();
        if let Some(owner) = owners.iter().find(|owner| owner.process == name.trim_end()) {
            let (knob, owner, next) = (knob.to_string(), owner.process, owner.rest);
            return Err(TuneError::Owned { knob, owner, pid, next });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_of_a_running_daemon_is_left_alone() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, name) in [(1, "init"), (44, "bpftune"), (45, "irqbalance")] {
            let folder = proc.path().join(pid.to_string());
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("comm"), format!("{name}\n")).unwrap();
            std::fs::write(folder.join("stat"), format!("{pid} ({name}) S 1 1 1 0 -1")).unwrap();
        }
        let told = |knob: KnobId| check(proc.path(), &knob).err().map(|e| e.to_string());
        assert_eq!(
            told(KnobId::Sysctl("net.core.somaxconn".into())).unwrap(),
            "sysctl.net.core.somaxconn is turned by bpftune too (pid 44), which would fight over it; \
             `systemctl stop bpftune`, and start it again afterwards"
        );
        assert!(told(KnobId::RpsCpus("eth0".into())).unwrap().contains("irqbalance"));
        assert_eq!(told(KnobId::Sysctl("vm.swappiness".into())), None, "tuned does not run");
        assert_eq!(told(KnobId::NginxWorkerProcesses), None);
    }
}
