//! What can go wrong with a record, with the path and the next step.

use std::path::{Path, PathBuf};

/// Why a record could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file could not be made.
    #[error("{}: the record cannot be made: {source}{}", path.display(), hint(source))]
    Create {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// There is no room left on the disk.
    #[error("{}: no space left for the record; what was written before can be read. Free some space, or name a file on another disk", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be written to.
    #[error("{}: the record cannot be written: {source}. What was written before can be read", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },
    /// A value has no JSON form that can be read back.
    #[error("{}: {item} cannot be recorded: {source}. A number in it may not be finite", path.display())]
    NotRecordable {
        /// The file.
        path: PathBuf,
        /// Which part of the run.
        item: String,
        /// Why not.
        source: serde_json::Error,
    },
    /// The file or folder could not be opened.
    #[error("{}: {source}. `prony report` and its like want a file that an earlier run wrote", path.display())]
    Open {
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error("{}: this is no record of prony: {reason}", path.display())]
    NotARecord {
        /// The file.
        path: PathBuf,
        /// What was seen.
        reason: String,
    },
    /// The file was written by a newer prony.
    #[error("{}: the record has format {found}, and this prony reads formats up to {known}: use a newer prony", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that can be read.
        known: i64,
    },
    /// The file is a record, but a part of it cannot be read.
    #[error("{}: {item} cannot be read: {reason}. If the file was cut or copied badly, `sqlite3 FILE .recover` may save the rest", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Which part.
        item: String,
        /// What was seen.
        reason: String,
    },
}

fn hint(source: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::{AlreadyExists, NotFound, PermissionDenied, ReadOnlyFilesystem};
    let kind = source.kind();
    if kind == AlreadyExists {
        ". Records are never overwritten: name another file, or remove this one"
    } else if kind == NotFound {
        ". Make the folder first, or name a file in another one"
    } else if [PermissionDenied, ReadOnlyFilesystem].contains(&kind) {
        ". Name a file in a folder that you may write to"
    } else {
        ""
    }
}

impl RecordError {
    pub(crate) fn write(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_path_buf();
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::DiskFull { path },
            _ => Self::Write { path, source },
        }
    }

    pub(crate) fn read(path: &Path, source: rusqlite::Error) -> Self {
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => {
                Self::NotARecord { path: path.to_path_buf(), reason: "it is not a SQLite file".to_string() }
            }
            _ => Self::damaged(path, "the file", source),
        }
    }

    pub(crate) fn damaged(path: &Path, item: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::Damaged { path: path.to_path_buf(), item: item.into(), reason: reason.to_string() }
    }
}
