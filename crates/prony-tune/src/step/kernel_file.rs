//! One value in a file of /proc/sys, /sys or a control group.
//!
//! The path is relative to a root, since a network namespace may have its sysfs mounted elsewhere when it is undone.

use super::Look;
use crate::Roots;
use crate::error::TuneError;
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// A file and its value before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelFile {
    /// Which tree.
    pub root: Root,
    /// Path within it, without a leading slash.
    pub path: String,
    /// Value before, without the line end.
    pub old: String,
    /// Value after.
    pub new: String,
    /// How two texts are compared: the kernel prints some values otherwise than they were written.
    pub form: Form,
}

/// Which tree a path is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Root {
    /// /proc
    Proc,
    /// sysfs of the host's network namespace
    Sys,
    /// /sys/fs/cgroup
    Cgroup,
}

/// How values of a file are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Words; blanks between them do not matter (`1024 65535` is read back with a tab).
    Words,
    /// A hexadecimal mask; commas and leading zeroes do not matter.
    HexMask,
}

impl Form {
    /// Whether two texts mean the same value.
    pub fn same(self, a: &str, b: &str) -> bool {
        match self {
            Self::Words => a.split_whitespace().eq(b.split_whitespace()),
            Self::HexMask => {
                let bare = |s: &str| s.trim().replace(',', "").trim_start_matches('0').to_lowercase();
                bare(a) == bare(b)
            }
        }
    }
}

impl Root {
    /// The file, given where the trees are.
    pub fn file(self, roots: &Roots, path: &str) -> PathBuf {
        match self {
            Self::Proc => roots.proc.join(path),
            Self::Sys => roots.sys.join(path),
            Self::Cgroup => roots.cgroup.join(path),
        }
    }
}

impl KernelFile {
    pub(super) fn look(&self, roots: &Roots) -> Result<Look, TuneError> {
        let file = self.root.file(roots, &self.path);
        match fs::read_to_string(&file) {
            Ok(text) if self.form.same(&text, &self.old) => Ok(Look::Old),
            Ok(text) if self.form.same(&text, &self.new) => Ok(Look::New),
            Ok(text) => Ok(Look::Foreign(format!("{} is `{}` now", file.display(), text.trim()))),
            // ENODEV: a control group that was removed while we had a path into it.
            Err(e) if e.kind() == io::ErrorKind::NotFound || e.raw_os_error() == Some(libc::ENODEV) => {
                Ok(Look::Gone(format!("{} is gone", file.display())))
            }
            Err(e) => Err(TuneError::io("read", &file)(e)),
        }
    }

    pub(super) fn apply(&self, roots: &Roots) -> Result<(), TuneError> {
        self.write(roots, &self.new)
    }

    pub(super) fn restore(&self, roots: &Roots) -> Result<(), TuneError> {
        self.write(roots, &self.old)
    }

    pub(super) fn is_in_namespace(&self) -> bool {
        self.root == Root::Sys || (self.root == Root::Proc && self.path.starts_with("sys/net/"))
    }

    fn write(&self, roots: &Roots, value: &str) -> Result<(), TuneError> {
        let file = self.root.file(roots, &self.path);
        let open = OpenOptions::new().write(true).truncate(true).open(&file);
        open.and_then(|mut f| f.write_all(format!("{value}\n").as_bytes())).map_err(TuneError::io("write", &file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_meaning() {
        assert!(Form::Words.same("1024\t65535\n", "1024 65535"));
        assert!(!Form::Words.same("10 24", "1024"));
        assert!(Form::HexMask.same("00000000,00000003", "3"));
        assert!(Form::HexMask.same("0", "00000000"));
        assert!(!Form::HexMask.same("3", "30"));
    }
}
