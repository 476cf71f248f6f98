//! glob(3), which std does not offer.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Files that a pattern matches, sorted, by glob(3): what nginx itself uses for `include`.
pub fn glob(pattern: &OsStr) -> Vec<PathBuf> {
    let Ok(pattern) = CString::new(pattern.as_bytes()) else { return Vec::new() };
    // SAFETY: glob_t is plain data, and glob(3) wants it zeroed when no GLOB_DOOFFS is given.
    let mut found: libc::glob_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pattern ends with a zero byte; no error callback is given; `found` lives until globfree.
    let failed = unsafe { libc::glob(pattern.as_ptr(), 0, None, &raw mut found) };
    let mut paths = Vec::new();
    if failed == 0 {
        for index in 0..found.gl_pathc {
            // SAFETY: glob(3) filled gl_pathv with gl_pathc pointers to strings that end with a zero byte.
            let path = unsafe { CStr::from_ptr(*found.gl_pathv.add(index)) };
            paths.push(PathBuf::from(OsStr::from_bytes(path.to_bytes())));
        }
    }
    // SAFETY: `found` was filled by glob (or is zeroed) and is freed once.
    unsafe { libc::globfree(&raw mut found) };
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glob_sorts_and_hides_dot_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.conf", "a.conf", ".a.conf.prony-new", "c.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let names: Vec<_> = glob(dir.path().join("*").as_os_str());
        assert_eq!(names, ["a.conf", "b.conf", "c.txt"].map(|n| dir.path().join(n)));
        assert!(glob(dir.path().join("*.none").as_os_str()).is_empty());
    }
}
