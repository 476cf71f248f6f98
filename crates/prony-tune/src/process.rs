//! Facts about processes that undo needs: who is who after a pid was used again, children, threads, control groups.
//!
//! Reads `/proc` under a given root. A process that ended meanwhile is absent, never an error.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// When a thread or process started, in clock ticks since boot (`/proc/PID/stat` field 22): with its pid this names it
/// for one boot. None when it does not exist, or is only waiting to be reaped.
pub fn start_ticks(proc: &Path, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    let fields = after_name(&stat)?;
    // Field 3 (state) comes first here, so field 22 is the 20th.
    let state = fields.split_whitespace().next()?;
    (state != "Z" && state != "X").then(|| fields.split_whitespace().nth(19)?.parse().ok()).flatten()
}

/// The fields of `/proc/PID/stat` behind the name, which may hold spaces and brackets of its own.
fn after_name(stat: &str) -> Option<&str> {
    stat.rsplit_once(')').map(|(_, rest)| rest)
}

/// What `ps` shows: the command line with spaces for zero bytes; empty when the process is gone.
pub fn title(proc: &Path, pid: u32) -> String {
    let bytes = fs::read(proc.join(pid.to_string()).join("cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ").trim_end().to_string()
}

/// Every process and its parent.
pub fn everyone(proc: &Path) -> Vec<(u32, u32)> {
    let Ok(entries) = fs::read_dir(proc) else { return Vec::new() };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
        let parent = after_name(&stat)?.split_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
    .collect()
}

/// Children of a process.
pub fn children(proc: &Path, parent: u32) -> BTreeSet<u32> {
    everyone(proc).into_iter().filter(|(_, p)| *p == parent).map(|(pid, _)| pid).collect()
}

/// The processes and all that descend from them.
pub fn with_descendants(proc: &Path, pids: &[u32]) -> BTreeSet<u32> {
    let everyone = everyone(proc);
    let mut family: BTreeSet<u32> = pids.iter().copied().collect();
    loop {
        let before = family.len();
        family.extend(
            everyone.iter().filter(|(_, parent)| family.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>(),
        );
        if family.len() == before {
            return family;
        }
    }
}

/// Threads of a process; empty when it is gone.
pub fn threads(proc: &Path, pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(proc.join(pid.to_string()).join("task")) else { return Vec::new() };
    let mut tids: Vec<u32> = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect();
    tids.sort_unstable();
    tids
}

/// Identity of the running kernel: changes with every boot.
pub fn boot_id(proc: &Path) -> String {
    fs::read_to_string(proc.join("sys/kernel/random/boot_id")).map(|s| s.trim().to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_this_process() {
        let (proc, me) = (Path::new("/proc"), std::process::id());
        assert!(start_ticks(proc, me).unwrap() > 0);
        assert!(threads(proc, me).contains(&me));
        assert!(with_descendants(proc, &[me]).contains(&me));
        assert!(title(proc, me).contains("prony"));
        assert_eq!(start_ticks(proc, u32::MAX), None);
        assert!(!boot_id(proc).is_empty());
    }

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("7")).unwrap();
        let stat = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        fs::write(dir.path().join("7/stat"), stat).unwrap();
        assert_eq!(start_ticks(dir.path(), 7), Some(4711));
        assert_eq!(children(dir.path(), 3), BTreeSet::from([7]));
        fs::write(dir.path().join("7/stat"), stat.replace(" S ", " Z ")).unwrap();
        assert_eq!(start_ticks(dir.path(), 7), None, "a zombie is nobody to restore");
    }
}
