//! The callers in a copied stack of a process whose code keeps no frame pointers.
//!
//! By the tables that programs carry for exceptions (`.eh_frame`, System V ABI for AMD64, 3.7), as `perf record --call-graph dwarf` does;
//! where there are none, as in code compiled at run time, by frame pointers. Reads the files that the process has mapped, each once.
//! Invariant: a stack that cannot be followed to its end is told as far as it goes, the innermost address always.

use super::mappings::{Mapping, Mappings};
use framehop::{ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, Unwinder as _};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSegment as _, ReadCache};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(target_arch = "aarch64")]
use framehop::aarch64::{CacheAarch64 as Cache, UnwindRegsAarch64 as Registers, UnwinderAarch64 as Unwinder};
#[cfg(target_arch = "x86_64")]
use framehop::x86_64::{CacheX86_64 as Cache, UnwindRegsX86_64 as Registers, UnwinderX86_64 as Unwinder};

/// Callers that are told at most, as the kernel does (kernel.perf_event_max_stack).
const DEPTH_MAX: usize = 127;
/// A larger table is not read. A guess: that of Chromium, 250 MB of code, has 30 MB.
const TABLE_BYTES_MAX: u64 = 64 << 20;

/// A stack as it was copied.
#[derive(Clone, Debug)]
pub(super) struct Copied<'a> {
    /// Process.
    pub pid: u32,
    /// Address of the next instruction.
    pub ip: u64,
    /// Stack pointer: the address of the first byte.
    pub sp: u64,
    /// Frame pointer, if the code keeps one.
    pub bp: u64,
    /// What was copied of the stack.
    pub bytes: &'a [u8],
}

/// Finds callers.
pub(super) struct Callers {
    proc: PathBuf,
    /// By device and number of the file.
    tables: BTreeMap<String, Option<Tables>>,
    processes: BTreeMap<u32, Unwinder<Arc<[u8]>>>,
    cache: Cache<MayAllocateDuringUnwind>,
}

/// What a file says about unwinding.
#[derive(Clone)]
struct Tables {
    /// Where parts of the file that can be executed lie in it, and at which address it wants them.
    code: Vec<(Range<u64>, u64)>,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    frames: Section,
    index: Option<Section>,
}

#[derive(Clone)]
struct Section {
    addresses: Range<u64>,
    data: Arc<[u8]>,
}

impl Callers {
    pub(super) fn new(proc: &Path) -> Self {
        Self { proc: proc.to_path_buf(), tables: BTreeMap::new(), processes: BTreeMap::new(), cache: Cache::new() }
    }

    /// Addresses of code, the innermost first; of callers an address within the call.
    pub(super) fn stack(&mut self, copied: &Copied<'_>) -> Vec<u64> {
        self.know(copied.pid);
        let Some(unwinder) = self.processes.get(&copied.pid) else { return vec![copied.ip] };
        let mut word = |address: u64| {
            let at = address.checked_sub(copied.sp).and_then(|at| usize::try_from(at).ok()).ok_or(())?;
            let bytes = copied.bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()).ok_or(())?;
            Ok(u64::from_ne_bytes(*bytes))
        };
        let mut frames = unwinder.iter_frames(copied.ip, registers(copied), &mut self.cache, &mut word);
        let mut stack = Vec::new();
        while let Ok(Some(frame)) = frames.next()
            && stack.len() < DEPTH_MAX
        {
            stack.push(frame.address_for_lookup());
        }
        if stack.is_empty() { vec![copied.ip] } else { stack }
    }

    /// Reads what a process has mapped, unless that is known.
    pub(super) fn know(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        let mut unwinder = Unwinder::new();
        let mappings = Mappings::of(&self.proc, pid).unwrap_or_default();
        for mapping in mappings.all() {
            let Some(file) = &mapping.file else { continue };
            // As mapped, whatever lies at its path by now, and in whichever mount namespace.
            let path = self.proc.join(format!("{pid}/map_files/{:x}-{:x}", mapping.from, mapping.to));
            let tables = self.tables.entry(file.clone()).or_insert_with(|| Tables::read(&path));
            if let Some(module) = tables.as_ref().and_then(|tables| tables.at(mapping)) {
                unwinder.add_module(module);
            }
        }
        self.processes.insert(pid, unwinder);
    }
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").field("processes", &self.processes.keys()).finish_non_exhaustive()
    }
}

impl Tables {
    /// None: it is no ELF file of 64 bits, or has no such table.
    fn read(path: &Path) -> Option<Self> {
        let bytes = ReadCache::new(File::open(path).ok()?);
        let elf = ElfFile64::<Endianness, _>::parse(&bytes).ok()?;
        let range = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address() + section.size())
        };
        let section = |name: &str| {
            let section = elf.section_by_name(name).filter(|section| section.size() <= TABLE_BYTES_MAX)?;
            Some(Section { addresses: range(name)?, data: section.data().ok()?.into() })
        };
        let code = elf.segments().filter(|segment| segment.permissions().executable()).map(|segment| {
            let (at, size) = segment.file_range();
            (at..at + size, segment.address())
        });
        Some(Self {
            code: code.collect(),
            text: range(".text"),
            got: range(".got"),
            frames: section(".eh_frame")?,
            index: section(".eh_frame_hdr"),
        })
    }

    /// The tables for one mapping of their file.
    fn at(&self, mapping: &Mapping) -> Option<Module<Arc<[u8]>>> {
        // A mapping begins at the page in which the code begins.
        let size = mapping.to - mapping.from;
        let of = |(file, _): &&(Range<u64>, u64)| file.start < mapping.offset + size && mapping.offset < file.end;
        let (file, address) = self.code.iter().find(of)?;
        let moved_by = mapping.from.wrapping_sub(mapping.offset).wrapping_add(file.start).wrapping_sub(*address);
        let index = self.index.clone();
        let sections = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            eh_frame_svma: Some(self.frames.addresses.clone()),
            eh_frame: Some(Arc::clone(&self.frames.data)),
            eh_frame_hdr_svma: index.as_ref().map(|index| index.addresses.clone()),
            eh_frame_hdr: index.map(|index| index.data),
            ..ExplicitModuleSectionInfo::default()
        };
        Some(Module::new(String::new(), mapping.from..mapping.to, moved_by, sections))
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(copied: &Copied<'_>) -> Registers {
    Registers::new(copied.ip, copied.sp, copied.bp)
}

/// Nothing is copied on this processor yet, so the register that holds the caller is not known.
#[cfg(target_arch = "aarch64")]
fn registers(copied: &Copied<'_>) -> Registers {
    Registers::new(0, copied.sp, copied.bp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::process::Command;

    /// A function that calls another one that sleeps, in a program without frame pointers.
    const PROGRAM: &str = "#include <unistd.h>\n\
        __attribute__((noinline)) int inner(int n) { volatile char room[300]; room[n] = 1; pause(); return room[n] + n; }\n\
        __attribute__((noinline)) int outer(int n) { volatile long room[40]; room[n] = n; return inner(n) + (int)room[n]; }\n\
        int main(int n, char **words) { return outer(n) + 1; }\n";

    /// Registers of a sleeping process as /proc/PID/syscall tells them: stack pointer and next instruction come last.
    fn registers_of(pid: u32) -> Option<(u64, u64)> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let [.., sp, ip] = words.as_slice() else { return None };
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        number(sp).zip(number(ip))
    }

    fn memory_of(pid: u32, at: u64, bytes: usize) -> Vec<u8> {
        let mut into = vec![0; bytes];
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        let count = memory.read_at(&mut into, at).unwrap_or(0);
        into.truncate(count);
        into
    }

    #[test]
    fn needs_root_callers_are_found_without_frame_pointers() {
        if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
            return eprintln!("skipped: /proc/PID/map_files needs root");
        }
        let folder = tempfile::tempdir().unwrap();
        let (source, program) = (folder.path().join("calls.c"), folder.path().join("calls"));
        std::fs::write(&source, PROGRAM).unwrap();
        let flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-o"];
        let built = Command::new("cc").args(flags).arg(&program).arg(&source).status().unwrap();
        assert!(built.success());
        let mut child = Command::new(&program).spawn().unwrap();
        let pid = child.id();
        // It sleeps in pause(2): number 34 on x86.
        let paused =
            || std::fs::read_to_string(format!("/proc/{pid}/syscall")).is_ok_and(|text| text.starts_with("34 "));
        while !paused() {
            std::thread::yield_now();
        }
        let (sp, ip) = registers_of(pid).unwrap();
        let bytes = memory_of(pid, sp, 4096);
        let mut callers = Callers::new(Path::new("/proc"));
        let copied = Copied { pid, ip, sp, bp: 0, bytes: &bytes };
        let stack = callers.stack(&copied);
        let short = callers.stack(&Copied { bytes: &bytes[..16], ..copied.clone() });
        let mappings = Mappings::of(Path::new("/proc"), pid).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let modules: Vec<&str> = stack.iter().filter_map(|address| mappings.module(*address)).collect();
        // pause(), then inner, outer and main, then what called main, and `_start`.
        assert_eq!(modules[..4], ["libc.so.6", "calls", "calls", "calls"], "{stack:x?}");
        assert_eq!(modules.last(), Some(&"calls"), "{modules:?}");
        assert_eq!((modules.len(), stack.len()), (7, 7), "{modules:?}");
        assert!(
            !short.is_empty() && short.len() < stack.len() && short[..] == stack[..short.len()],
            "as far as it goes"
        );
        assert_eq!(Callers::new(Path::new("/nowhere")).stack(&copied)[0], ip, "the innermost always");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), ip: u64, sp: u64, bp: u64) {
            let mut callers = Callers::new(Path::new("/nowhere"));
            let stack = callers.stack(&Copied { pid: 1, ip, sp, bp, bytes: &bytes });
            prop_assert!(!stack.is_empty() && stack.len() <= DEPTH_MAX && stack[0] == ip);
        }
    }
}
