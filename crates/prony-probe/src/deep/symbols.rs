//! Names for addresses: functions of the kernel, functions and files of processes.
//!
//! All addresses of a look are named at once, because reading the kernel's symbols takes 50 to 200 ms however many are
//! asked for. Invariant: an address without a name still has its file, so that stripped programs tell something; a file that cannot be
//! read costs the names of its own functions and of no others.

use super::RawStacks;
use super::mappings::Mappings;
use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{Input, Symbolizer};
use blazesym::{MaybeDefault, Pid};
use std::collections::BTreeMap;
use std::path::Path;

/// What the kernel's own code is called as a module.
pub(super) const KERNEL: &str = "kernel";

/// Among so many of the innermost frames are those of the watching program: itself, `bpf_trace_run2`, and on some kernels
/// `__bpf_trace_...` and `__traceiter_...`.
const FRAMES_OF_OURS: usize = 4;

/// The module of addresses that lie in no code, and of processes that have ended.
const UNKNOWN: &str = "[unknown]";

/// One place in a call stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Frame {
    /// Function, or the file in brackets where its name is not known.
    pub function: String,
    /// File name of the program or library, or [`KERNEL`].
    pub module: String,
}

/// Names of addresses.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    kernel: BTreeMap<u64, Frame>,
    user: BTreeMap<(u32, u64), Frame>,
    /// What processes are called.
    titles: BTreeMap<u32, String>,
}

impl Symbols {
    /// Names for all of them.
    pub(super) fn of(raw: &RawStacks, proc: &Path) -> Self {
        let symbolizer = Symbolizer::new();
        let mut symbols = Self::default();
        let kernel: Vec<u64> = raw.kernel.iter().copied().collect();
        let source = Source::Kernel(Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() });
        let names = names(&symbolizer, &source, &kernel).unwrap_or_else(|| vec![None; kernel.len()]);
        for (address, name) in kernel.iter().zip(names) {
            let function = name.map_or("[kernel]".to_string(), |name| without_suffix(&name));
            symbols.kernel.insert(*address, Frame { function, module: KERNEL.to_string() });
        }
        for (pid, addresses) in &raw.user {
            symbols.add_process(&symbolizer, proc, *pid, &addresses.iter().copied().collect::<Vec<_>>());
        }
        symbols
    }

    fn add_process(&mut self, symbolizer: &Symbolizer, proc: &Path, pid: u32, addresses: &[u64]) {
        let title = std::fs::read_to_string(proc.join(pid.to_string()).join("comm")).unwrap_or_default();
        let title = if title.trim().is_empty() { "[ended process]" } else { title.trim() };
        self.titles.insert(pid, title.to_string());
        let mappings = Mappings::of(proc, pid).unwrap_or_default();
        let source = Source::Process(Process::new(Pid::from(pid)));
        let names = names(symbolizer, &source, addresses).unwrap_or_else(|| {
            // One file that nobody can read here (debug data packed by xz, as in Fedora) fails all: then each by itself.
            let by_file = addresses.chunk_by(|a, b| mappings.module(*a) == mappings.module(*b));
            let of_one = |of: &[u64]| names(symbolizer, &source, of).unwrap_or_else(|| vec![None; of.len()]);
            by_file.flat_map(of_one).collect()
        });
        for (address, name) in addresses.iter().zip(names) {
            let module = mappings.module(*address).unwrap_or(UNKNOWN).to_string();
            let bracketed = if module.starts_with('[') { module.clone() } else { format!("[{module}]") };
            self.user.insert((pid, *address), Frame { function: name.unwrap_or(bracketed), module });
        }
    }

    /// A stack of the kernel, the innermost frame first.
    pub(super) fn kernel_stack(&self, addresses: &[u64]) -> Vec<&Frame> {
        addresses.iter().filter_map(|address| self.kernel.get(address)).collect()
    }

    /// The same for a stack that was taken at a tracepoint: without the frames of the watching program itself.
    pub(super) fn traced_stack(&self, addresses: &[u64]) -> Vec<&Frame> {
        let mut frames = self.kernel_stack(addresses);
        let ours =
            frames.iter().take(FRAMES_OF_OURS).rposition(|frame| is_ours(&frame.function)).map_or(0, |at| at + 1);
        frames.drain(..ours);
        frames
    }

    /// A stack of a process, the innermost frame first. Where callers are looked for by frame pointers that the code does not keep,
    /// other words are taken for return addresses: those that lie in no code are left out, but for the innermost, which is where the
    /// sample was.
    pub(super) fn user_stack(&self, pid: u32, addresses: &[u64]) -> Vec<&Frame> {
        let frames = addresses.iter().filter_map(|address| self.user.get(&(pid, *address))).enumerate();
        frames.filter(|(depth, frame)| *depth == 0 || frame.module != UNKNOWN).map(|(_, frame)| frame).collect()
    }

    /// What a process is called.
    pub(super) fn title(&self, pid: u32) -> &str {
        self.titles.get(&pid).map_or("[process]", String::as_str)
    }
}

/// The names that are known, in order; none when something of the source cannot be read.
fn names(symbolizer: &Symbolizer, source: &Source<'_>, addresses: &[u64]) -> Option<Vec<Option<String>>> {
    if addresses.is_empty() {
        return Some(Vec::new());
    }
    let found = symbolizer.symbolize(source, Input::AbsAddr(addresses)).ok()?;
    Some(found.iter().map(|found| found.as_sym().map(|sym| sym.name.to_string())).collect())
}

/// `do_x.constprop.0` and `do_x.cold` are `do_x`: the compiler's suffixes change from build to build.
fn without_suffix(name: &str) -> String {
    name.split('.').next().filter(|plain| !plain.is_empty()).unwrap_or(name).to_string()
}

/// Frames between the tracepoint and the program that took the stack; the program itself may have any name.
fn is_ours(function: &str) -> bool {
    const STARTS: [&str; 3] = ["bpf_trace_run", "__bpf_trace_", "__traceiter_"];
    STARTS.iter().any(|start| function.starts_with(start))
}

#[cfg(test)]
impl Symbols {
    /// Kernel functions by made-up addresses.
    pub(super) fn made(kernel: &[(u64, &str)]) -> Self {
        let frame = |name: &str| Frame { function: name.to_string(), module: KERNEL.to_string() };
        Self { kernel: kernel.iter().map(|(address, name)| (*address, frame(name))).collect(), ..Self::default() }
    }

    /// Adds functions of a process.
    pub(super) fn with_process(mut self, pid: u32, title: &str, frames: &[(u64, &str, &str)]) -> Self {
        self.titles.insert(pid, title.to_string());
        for (address, function, module) in frames {
            let frame = Frame { function: (*function).to_string(), module: (*module).to_string() };
            self.user.insert((pid, *address), frame);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn own_frames_and_suffixes_go() {
        let symbols = Symbols::made(&[(1, "whatever"), (2, "bpf_trace_run2"), (3, "down_write"), (4, "vfs_write")]);
        let names = |stack: &[u64]| symbols.traced_stack(stack).iter().map(|f| f.function.clone()).collect::<Vec<_>>();
        assert_eq!(names(&[1, 2, 3, 4, 9]), ["down_write", "vfs_write"]);
        assert_eq!(names(&[4, 3, 4, 3, 2, 1]).len(), 6, "only at the top are they ours");
        assert_eq!(without_suffix("tcp_v4_rcv.constprop.0"), "tcp_v4_rcv");
        assert_eq!(without_suffix(".text"), ".text");
    }

    #[test]
    fn this_process_knows_its_own_functions() {
        let here = this_process_knows_its_own_functions as *const () as u64;
        let pid = std::process::id();
        let raw = RawStacks { user: [(pid, [here, 16].into())].into(), ..RawStacks::default() };
        let symbols = Symbols::of(&raw, Path::new("/proc"));
        let stack = symbols.user_stack(pid, &[here, 16, here]);
        assert_eq!(stack.len(), 2, "nothing lives at address 16");
        assert!(stack[0].function.contains("this_process_knows"), "{stack:?}");
        assert!(stack[0].module.starts_with("prony_probe"), "{stack:?}");
        assert_eq!(symbols.user_stack(pid, &[16, here])[0].function, "[unknown]", "the innermost stays");
    }

    /// A section in which Fedora packs more symbols by xz, and which cannot be unpacked here.
    #[test]
    fn a_file_that_cannot_be_read_costs_only_its_own_names() {
        let folder = tempfile::tempdir().unwrap();
        let (program, packed) = (folder.path().join("sleeper"), folder.path().join("packed"));
        std::fs::write(&packed, b"\xfd7zXZ\0 and more").unwrap();
        let section = format!(".gnu_debugdata={}", packed.display());
        let added = Command::new("objcopy").args(["--add-section", &section, "/bin/sleep"]).arg(&program).status();
        assert!(added.unwrap().success());
        let mut child = Command::new(&program).arg("30").spawn().unwrap();
        let pid = child.id();
        let maps = || std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let middle = |file: &str| {
            let maps = maps();
            let line = maps.lines().find(|line| line.contains("r-xp") && line.contains(file))?;
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            Some((u64::from_str_radix(from, 16).unwrap() + u64::from_str_radix(to, 16).unwrap()) / 2)
        };
        let stack = loop {
            if let (Some(own), Some(libc)) = (middle("sleeper"), middle("libc.so")) {
                break [own, libc];
            }
            std::thread::yield_now();
        };
        let raw = RawStacks { user: [(pid, stack.into())].into(), ..RawStacks::default() };
        let symbols = Symbols::of(&raw, Path::new("/proc"));
        child.kill().unwrap();
        child.wait().unwrap();
        let named: Vec<&str> = symbols.user_stack(pid, &stack).iter().map(|frame| frame.function.as_str()).collect();
        assert_eq!(named[0], "[sleeper]");
        assert!(!named[1].starts_with('['), "{named:?}");
    }
}
