//! Disks of a lab: what is mounted where the logs of a host lie, how fast it is, and taking it away again.
//!
//! Nothing but logs lies there, what a database writes at each commit among them. Invariant: whatever is mounted stands below the
//! log folder of its lab, so it is found by its place, also when the lab was killed and its state file is gone.

use crate::error::file;
use crate::plan::{Plan, PlannedHost};
use crate::state::{State, Thing, make_folder};
use crate::tool;
use crate::traces::{Ground, netns_name};
use crate::{LabError, LabId, cgroup};
use prony_model::lab::LogDisk;
use prony_tool::{MKFS_EXT4, MOUNT, UMOUNT};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Room for logs. A guess: an unbuffered access log grows by some 10 MB/s, so it lasts for minutes; memory and image only take
/// what is written.
const ROOM_BYTES: u64 = 2 << 30;
/// Few files need few inodes, whose tables are then written when the file system is made and not while something is measured.
const MKFS: [&str; 8] = ["-q", "-F", "-N", "1024", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=1"];
/// How long a disk may be busy when its lab goes down. A guess: as for processes that do not go.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// What a lab mounted for the logs of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The host.
    pub host: String,
    /// What its logs lie on.
    pub disk: LogDisk,
    /// Where it is mounted.
    pub at: PathBuf,
}

/// Whether the disks of a lab can be mounted here.
pub(crate) fn check(plan: &Plan) -> Result<(), LabError> {
    for host in &plan.hosts {
        let wanted_by = format!("`log_disk` of host `{}`", host.name);
        match &host.lab.log_disk {
            None => continue,
            Some(LogDisk::Memory) => {}
            Some(LogDisk::Image | LogDisk::ImageSync) => drop(tool::find(MKFS_EXT4, &wanted_by)?),
            Some(LogDisk::Folder(folder)) if !Path::new(folder).is_dir() => {
                let reason = format!("{wanted_by} is `{folder}`, and there is no such folder");
                return Err(LabError::Stack { stack: host.name.clone(), reason });
            }
            Some(LogDisk::Folder(_)) => {}
        }
        tool::find(MOUNT, &wanted_by)?;
        tool::find(UMOUNT, &wanted_by)?;
    }
    Ok(())
}

/// Mounts what the logs of a host are to lie on.
pub(crate) fn attach(ground: &Ground, id: &LabId, host: &PlannedHost, state: &mut State) -> Result<(), LabError> {
    let Some(disk) = &host.lab.log_disk else { return Ok(()) };
    let at = ground.host_logs(id, &host.name);
    file("create", &at, std::fs::create_dir_all(&at))?;
    state.add(Thing::Mount(at.clone()))?;
    let own = netns_name(id, &host.name);
    let place = at.to_string_lossy();
    match disk {
        LogDisk::Memory => {
            let options = format!("size={ROOM_BYTES},mode=755");
            tool::run(MOUNT, &["-t", "tmpfs", "-o", &options, &own, &place], "")
        }
        LogDisk::Image | LogDisk::ImageSync => {
            // No host has a dot in its name, so this is the log folder of none.
            let image = ground.log_folder(id).join(format!("{}.ext4", host.name));
            file("create", &image, File::create(&image).and_then(|f| f.set_len(ROOM_BYTES)))?;
            let image = image.to_string_lossy();
            tool::run(MKFS_EXT4, &[&MKFS[..], &[&image]].concat(), "")?;
            let options = if *disk == LogDisk::ImageSync { "loop,sync" } else { "loop" };
            tool::run(MOUNT, &["-t", "ext4", "-o", options, &image, &place], "")
        }
        LogDisk::Folder(folder) => {
            let there = Path::new(folder).join(&own);
            state.add(Thing::Folder(there.clone()))?;
            file("create", &there, make_folder(&there))?;
            tool::run(MOUNT, &["--bind", &there.to_string_lossy(), &place], "")
        }
    }
}

/// Limits how often a host's processes write to the disk of its logs, where that is asked for.
pub(crate) fn limit(ground: &Ground, id: &LabId, host: &PlannedHost) -> Result<(), LabError> {
    let Some(per_s) = host.lab.disk_writes_per_s else { return Ok(()) };
    let logs = ground.host_logs(id, &host.name);
    let number = file("read", &logs, logs.metadata())?.dev();
    let device = format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
    // A part of a disk has no limit of its own.
    let whole = if Path::new(&device).join("partition").exists() { "../dev" } else { "dev" };
    let Ok(disk) = std::fs::read_to_string(Path::new(&device).join(whole)) else {
        let reason = format!(
            "`disk_writes_per_s` of host `{}`: {} lies on no disk; log_disk = \"image\" gives it one",
            host.name,
            logs.display()
        );
        return Err(LabError::Stack { stack: host.name.clone(), reason });
    };
    cgroup::set_disk_writes(ground, id, &host.name, disk.trim(), per_s)
}

/// What is mounted for the hosts of a plan.
pub(crate) fn of(ground: &Ground, id: &LabId, plan: &Plan) -> Vec<Mounted> {
    let mounted = |host: &PlannedHost| {
        let disk = host.lab.log_disk.clone()?;
        Some(Mounted { host: host.name.clone(), disk, at: ground.host_logs(id, &host.name) })
    };
    plan.hosts.iter().filter_map(mounted).collect()
}

/// Takes away what a lab mounted, and what lies on it: the logs of a folder on another disk would stay there.
pub(crate) fn detach(ground: &Ground, id: &LabId) -> Result<(), LabError> {
    for at in ground.mounts_of(id) {
        empty(&at)?;
        let begun = Instant::now();
        while let Err(e) = tool::run(UMOUNT, &[&at.to_string_lossy()], "") {
            if begun.elapsed() > BUSY_MAX {
                let left = format!("what is mounted at {}: {e}", at.display());
                return Err(LabError::NotGone { id: id.as_str().to_string(), left });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

fn empty(folder: &Path) -> Result<(), LabError> {
    for entry in file("list", folder, std::fs::read_dir(folder))?.flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = if is_folder { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        file("remove", &path, removed)?;
    }
    Ok(())
}

/// The folders that a lab made on other disks, as its state file says.
pub(crate) fn folders_elsewhere(state: &State, id: &LabId) -> Vec<PathBuf> {
    // Whatever the file says, nothing is removed that is not named after the lab.
    let prefix = netns_name(id, "");
    let folder = |thing: &Thing| match thing {
        Thing::Folder(path) => Some(path.clone()),
        Thing::Namespace(_) | Thing::Cgroup(_) | Thing::Server(_) | Thing::Mount(_) => None,
    };
    let named = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
    state.things.iter().filter_map(folder).filter(named).collect()
}
