//! The namespace door: runs a piece of work as if on the host, on a thread of its own.
//!
//! A thread that went through ends with its work, so no thread of prony is ever left in a foreign namespace.
//! What it starts there (load threads, `nginx -t`) inherits the namespace.

use crate::sys;
use prony_model::Place;
use prony_probe::Roots;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where each thread mounts the sysfs of its namespace. The mount is private to the thread, needs no folder of ours that
/// would be left behind, and hides only the interfaces of the namespace that the thread has left.
const PRIVATE_SYSFS: &str = "/sys/class/net";

/// Why a host cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// No such namespace.
    #[error("there is no network namespace `{name}`; `ip netns list` shows those that exist, `prony lab up` makes one")]
    NoNamespace {
        /// Its name.
        name: String,
    },
    /// Not allowed, or the kernel refused.
    #[error("cannot enter network namespace `{name}`: {source}; run prony as root")]
    Refused {
        /// Its name.
        name: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// A host on another machine.
    #[error("host is at `agent:{name}`: this version reaches only hosts of this machine (`local`, `netns:NAME`)")]
    Remote {
        /// Name of the agent.
        name: String,
    },
}

/// Runs `work` on a thread inside `place`, and waits for it. `work` is told where the host's files are.
pub fn through<T: Send>(place: &Place, work: impl FnOnce(Roots) -> T + Send) -> Result<T, DoorError> {
    match place {
        Place::Local => Ok(on_a_thread(|| work(Roots::here()))),
        Place::Netns(name) => {
            let namespace = open(name)?;
            on_a_thread(|| {
                sys::enter_network_namespace(&namespace)
                    .map_err(|source| DoorError::Refused { name: name.clone(), source })?;
                Ok(work(roots_inside()))
            })
        }
        Place::Agent(name) => Err(DoorError::Remote { name: name.clone() }),
    }
}

fn open(name: &str) -> Result<File, DoorError> {
    let name = name.to_string();
    File::open(Path::new("/run/netns").join(&name)).map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            DoorError::NoNamespace { name }
        } else {
            DoorError::Refused { name, source }
        }
    })
}

/// The roots as seen from inside. Without a sysfs of its own the thread sees the machine's: then interface facts are wrong,
/// so the path is left empty and the probe reports gaps.
fn roots_inside() -> Roots {
    let sysfs = PathBuf::from(PRIVATE_SYSFS);
    let sys = if sys::mount_sysfs(&sysfs).is_ok() { sysfs } else { PathBuf::from("/nonexistent") };
    Roots { sys, ..Roots::here() }
}

fn on_a_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_namespace_is_named() {
        let error = through(&Place::Netns("no-such".into()), |_| ()).unwrap_err().to_string();
        assert!(error.contains("`no-such`") && error.contains("prony lab up"), "{error}");
    }

    #[test]
    fn work_on_this_machine_sees_its_proc() {
        assert!(through(&Place::Local, |roots| roots.proc.join("stat").exists()).unwrap());
    }
}
