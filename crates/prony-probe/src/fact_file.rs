//! A file of facts that is read again and again: kept open, read with pread into a buffer that all readers use in turn.
//!
//! Knows nothing about contents. Invariant: a file that failed is opened anew at the next reading.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Nothing that a probe reads is longer. `/proc/interrupts` of a machine with 512 CPUs is about 1.5 MB (computed, not
/// seen).
const FILE_BYTES_MAX: usize = 4 << 20;
/// First size of a buffer: `/proc/stat` of a small machine is 3 KB.
const PAGE_BYTES: usize = 16 << 10;

/// A file and its open descriptor.
#[derive(Debug)]
pub(crate) struct FactFile {
    path: PathBuf,
    open: Option<File>,
}

impl FactFile {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), open: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The whole file as it is now.
    pub(crate) fn bytes<'p>(&mut self, page: &'p mut Vec<u8>) -> io::Result<&'p [u8]> {
        let file = match self.open.take() {
            Some(file) => file,
            None => File::open(&self.path)?,
        };
        let len = fill(&file, page)?;
        self.open = Some(file);
        Ok(&page[..len])
    }

    /// The whole file as text. Names of processes may hold any byte, so wrong UTF-8 is replaced, not refused.
    pub(crate) fn text<'p>(&mut self, page: &'p mut Vec<u8>) -> io::Result<Cow<'p, str>> {
        self.bytes(page).map(String::from_utf8_lossy)
    }
}

/// Reads to the end: a short read of a /proc file does not mean that it ended.
fn fill(file: &File, page: &mut Vec<u8>) -> io::Result<usize> {
    let mut len = 0;
    loop {
        if page.len() - len < PAGE_BYTES / 2 {
            page.resize(page.len() + PAGE_BYTES, 0);
        }
        match file.read_at(&mut page[len..], len as u64) {
            Ok(0) => return Ok(len),
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if len > FILE_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "longer than 4 MiB"));
        }
    }
}

/// One reading of a file that is not kept open, at most 64 KiB: facts that never change, and short-lived files.
pub(crate) fn read_once(path: &Path) -> io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    File::open(path)?.take(64 << 10).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_stands_there_now_and_recovers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fact");
        let (mut file, mut page) = (FactFile::new(&path), Vec::new());
        assert!(file.text(&mut page).is_err());
        std::fs::write(&path, "x".repeat(3 * PAGE_BYTES)).unwrap();
        assert_eq!(file.bytes(&mut page).unwrap().len(), 3 * PAGE_BYTES);
        std::fs::write(&path, "short").unwrap();
        assert_eq!(file.text(&mut page).unwrap(), "short");
    }
}
