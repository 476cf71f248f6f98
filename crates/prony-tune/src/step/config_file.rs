//! A configuration file that is replaced as a whole, by temporary file and rename.
//!
//! Invariant: at every moment the file is entirely old or entirely new, and the journal holds both.

use super::Look;
use crate::diff::unified;
use crate::error::TuneError;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

/// A file and its content before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigFile {
    /// Without symbolic links.
    pub path: PathBuf,
    /// Before.
    pub old: Content,
    /// After.
    pub new: Content,
}

/// Bytes of a file: as text when they are UTF-8, so that a person can read the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Content {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|e| Self::Bytes(e.into_bytes()), Self::Text)
    }
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl ConfigFile {
    pub(super) fn look(&self) -> Result<Look, TuneError> {
        match fs::read(&self.path) {
            Ok(bytes) if bytes == self.old.bytes() => Ok(Look::Old),
            Ok(bytes) if bytes == self.new.bytes() => Ok(Look::New),
            Ok(_) => Ok(Look::Foreign(format!("{} was edited meanwhile", self.path.display()))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Look::Gone(format!("{} is gone", self.path.display()))),
            Err(e) => Err(TuneError::io("read", &self.path)(e)),
        }
    }

    pub(super) fn apply(&self) -> Result<(), TuneError> {
        self.replace(self.new.bytes())
    }

    pub(super) fn restore(&self) -> Result<(), TuneError> {
        self.replace(self.old.bytes())
    }

    pub(super) fn sweep(&self) {
        // Most often there is none.
        fs::remove_file(self.temporary()).ok();
    }

    pub(super) fn diff(&self) -> String {
        unified(&self.path.display().to_string(), self.old.bytes(), self.new.bytes())
    }

    /// Beside the file, hidden (globs such as `conf.d/*` skip it), and with a name that undo knows.
    fn temporary(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        self.path.with_file_name(format!(".{name}.prony-new"))
    }

    fn replace(&self, bytes: &[u8]) -> Result<(), TuneError> {
        let before = fs::metadata(&self.path).map_err(TuneError::io("read", &self.path))?;
        if before.nlink() > 1 {
            return Err(TuneError::missing(
                format!(
                    "{} has {} names (hard links), and replacing it would part them",
                    self.path.display(),
                    before.nlink()
                ),
                "make it one file with one name",
            ));
        }
        let temporary = self.temporary();
        let replaced = write_like(&temporary, bytes, &before).and_then(|()| fs::rename(&temporary, &self.path));
        if let Err(e) = replaced {
            self.sweep();
            return Err(TuneError::io("replace", &self.path)(e));
        }
        sync_dir(&self.path)
    }
}

fn write_like(path: &Path, bytes: &[u8], like: &fs::Metadata) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.set_permissions(like.permissions())?;
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (like.uid(), like.gid()) {
        chown(path, Some(like.uid()), Some(like.gid()))?;
    }
    file.sync_all()
}

/// Makes a new name in the folder of `path` survive a power cut.
fn sync_dir(path: &Path) -> Result<(), TuneError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    File::open(dir).and_then(|d| d.sync_all()).map_err(TuneError::io("sync", dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn keeps_mode_and_leaves_nothing_beside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nginx.conf");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let step = ConfigFile { path: path.clone(), old: b"old".to_vec().into(), new: vec![0xff, b'x'].into() };
        assert_eq!(step.look().unwrap(), Look::Old);
        step.apply().unwrap();
        assert_eq!(step.look().unwrap(), Look::New);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        fs::write(step.temporary(), "torn").unwrap();
        step.restore().unwrap();
        assert_eq!(step.look().unwrap(), Look::Old);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        fs::write(&path, "someone else").unwrap();
        assert!(matches!(step.look().unwrap(), Look::Foreign(_)));
        fs::remove_file(&path).unwrap();
        assert!(matches!(step.look().unwrap(), Look::Gone(_)));
    }

    #[test]
    fn a_file_with_two_names_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("nginx.conf");
        fs::write(&path, "old").unwrap();
        fs::hard_link(&path, dir.path().join("other")).unwrap();
        let step = ConfigFile { path, old: b"old".to_vec().into(), new: b"new".to_vec().into() };
        assert!(step.apply().unwrap_err().to_string().contains("2 names"));
    }
}
