//! Which file an address of a process belongs to: /proc/PID/maps.
//!
//! Pure but for reading that one file. Invariant: an address outside every mapping has no module. Only what can be executed counts.

use std::io::Read;
use std::path::Path;

/// A process with more mappings is named as far as this goes: 40,000 lines.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The executable mappings of a process, in order of address.
#[derive(Debug, Default)]
pub(super) struct Mappings(Vec<Mapping>);

/// One of them.
#[derive(Debug)]
pub(super) struct Mapping {
    /// First address.
    pub from: u64,
    /// First address behind it.
    pub to: u64,
    /// Where in its file it begins, in bytes.
    pub offset: u64,
    /// Device and number of the file; none: there is no file.
    pub file: Option<String>,
    module: String,
}

impl Mappings {
    /// Those of a living process; none of one that has ended.
    pub(super) fn of(proc: &Path, pid: u32) -> Option<Self> {
        let file = std::fs::File::open(proc.join(pid.to_string()).join("maps")).ok()?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(Self::parse(&String::from_utf8_lossy(&bytes)))
    }

    fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(Mapping::parse).collect())
    }

    /// In order of address.
    pub(super) fn all(&self) -> &[Mapping] {
        &self.0
    }

    /// Name of the file, or what the kernel calls the mapping.
    pub(super) fn module(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|mapping| mapping.from <= address);
        let mapping = self.0.get(after.checked_sub(1)?)?;
        (address < mapping.to).then_some(mapping.module.as_str())
    }
}

impl Mapping {
    /// `7f01000-7f02000 r-xp 00002000 fe:00 1234   /usr/lib/libz.so.1.2.13`: only what can be executed.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        if !words.next()?.contains('x') {
            return None;
        }
        let (offset, device, inode) = (words.next()?, words.next()?, words.next()?);
        let path = words.next().unwrap_or_default();
        let file = path.rsplit('/').next().unwrap_or_default();
        // Code without a file is what a just-in-time compiler wrote.
        let module = if file.is_empty() || file.starts_with("[anon") { "[jit]" } else { file };
        Some(Self {
            from: u64::from_str_radix(from, 16).ok()?,
            to: u64::from_str_radix(to, 16).ok()?,
            offset: u64::from_str_radix(offset, 16).ok()?,
            file: (inode != "0").then(|| format!("{device} {inode}")),
            module: module.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAPS: &str = "55d0-55e0 r--p 0 fe:00 7 /usr/sbin/nginx\n55e0-55f0 r-xp 1000 fe:00 7 /usr/sbin/nginx\n\
                        7f00-7f10 r-xp 0 fe:00 9 /usr/lib/x86_64-linux-gnu/libz.so.1.2.13\n7f20-7f30 rwxp 0 00:00 0\n\
                        7f40-7f50 r-xp 0 00:00 0 [vdso]\n";

    #[test]
    fn an_address_belongs_to_a_file() {
        let mappings = Mappings::parse(MAPS);
        assert_eq!(mappings.module(0x55e8), Some("nginx"));
        assert_eq!(mappings.module(0x55d8), None, "not executable");
        assert_eq!(mappings.module(0x7f0f), Some("libz.so.1.2.13"));
        assert_eq!(mappings.module(0x7f10), None, "behind its end");
        assert_eq!(mappings.module(0x7f25), Some("[jit]"));
        assert_eq!(mappings.module(0x7f45), Some("[vdso]"));
        let files: Vec<_> = mappings.all().iter().map(|m| (m.offset, m.file.as_deref())).collect();
        assert_eq!(files, [(0x1000, Some("fe:00 7")), (0, Some("fe:00 9")), (0, None), (0, None)]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9a-f rxp:/-]{0,80}", address: u64) {
            let _ = Mappings::parse(&text).module(address);
        }
    }
}
