//! eBPF programs in the kernel: loaded, attached, and their maps read.
//!
//! Knows no program. Invariant: a refusal becomes one sentence with the next step; libbpf prints nothing.

use super::sys;
use libbpf_rs::{
    Link, Map, MapCore, MapFlags, Object, ObjectBuilder, PrintLevel, Program as ProgramImpl, ProgramInput as Input,
    RingBuffer, RingBufferBuilder, set_print,
};
use std::cell::RefCell;
use std::os::fd::{AsFd as _, OwnedFd};
use std::rc::Rc;
use std::sync::Once;
use std::time::Duration;

/// Records are kept in blocks of this size.
const BLOCK_BYTES: usize = 1 << 20;

/// An object of programs and maps. Detached and freed when dropped.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    object: Object,
    left_out: Vec<String>,
    links: Vec<Link>,
}

thread_local! {
    /// What libbpf warned of on this thread since the last load began.
    static WARNINGS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

impl Program {
    /// Loads an object; nothing runs yet.
    pub(super) fn load(name: &'static str, bytes: &[u8]) -> Result<Self, String> {
        Self::load_without(name, bytes, &[])
    }

    /// The same, if need be without some of its programs, whose tracepoints not every kernel has.
    pub(super) fn load_at_least(name: &'static str, bytes: &[u8], dispensable: &[&str]) -> Result<Self, String> {
        Self::load(name, bytes).or_else(|_| Self::load_without(name, bytes, dispensable))
    }

    /// The same without some of its programs.
    pub(super) fn load_without(name: &'static str, bytes: &[u8], left_out: &[&str]) -> Result<Self, String> {
        listen();
        WARNINGS.with_borrow_mut(Vec::clear);
        let left_out: Vec<String> = left_out.iter().map(ToString::to_string).collect();
        let opened = ObjectBuilder::default().open_memory(bytes).and_then(|mut object| {
            for mut program in object.progs_mut().filter(|program| is_any_of(&left_out, program.name())) {
                program.set_autoload(false);
            }
            object.load()
        });
        let object = opened.map_err(|e| refusal(name, &e))?;
        Ok(Self { name, object, left_out, links: Vec::new() })
    }

    /// Attaches every program to the tracepoint that its section names.
    pub(super) fn attach(&mut self) -> Result<(), String> {
        let left_out = &self.left_out;
        for program in self.object.progs_mut().filter(|program| !is_any_of(left_out, program.name())) {
            self.links.push(program.attach().map_err(|e| refusal(self.name, &e))?);
        }
        Ok(())
    }

    /// Attaches one of the programs to an event.
    pub(super) fn attach_to(&mut self, name: &str, event: std::os::fd::OwnedFd) -> Result<(), String> {
        use std::os::fd::IntoRawFd;
        let program = self.object.progs_mut().find(|program| program.name() == name);
        let program = program.ok_or_else(|| format!("there is no program `{name}`"))?;
        // The link owns the descriptor from here on.
        let link = program.attach_perf_event(event.into_raw_fd()).map_err(|e| refusal(self.name, &e))?;
        self.links.push(link);
        Ok(())
    }

    /// Takes the programs out of the kernel's way; the maps stay readable.
    pub(super) fn detach(&mut self) {
        self.links.clear();
    }

    /// How long its programs have run, summed over CPUs, while the kernel timed them, and how often. None when it is not
    /// attached, or the kernel does not tell.
    pub(super) fn spent(&self) -> Option<(Duration, u64)> {
        self.told().filter(|_| !self.links.is_empty())
    }

    /// Runs each of its programs so often, attached to nothing, and tells the same of those runs as well.
    pub(super) fn rehearse(&mut self, times: u32) -> Option<(Duration, u64)> {
        for program in self.object.progs_mut() {
            (0..times).try_for_each(|_| program.test_run(Input::default()).map(drop)).ok()?;
        }
        self.told()
    }

    fn told(&self) -> Option<(Duration, u64)> {
        self.loaded().try_fold((Duration::ZERO, 0), |(run_time, runs), program| {
            let told = sys::told(program.as_fd())?;
            Some((run_time + told.run_time, runs + told.runs))
        })
    }

    /// Its programs as the kernel's symbols name them (`bpf_get_prog_name` of kernel/bpf/core.c), whoever loaded them.
    pub(super) fn symbols(&self) -> Vec<String> {
        let symbol = |program: ProgramImpl<'_>| {
            let tag: String = sys::told(program.as_fd())?.tag.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(format!("bpf_prog_{tag}_{}", program.name().to_str()?))
        };
        self.loaded().filter_map(symbol).collect()
    }

    /// Holds its programs in the kernel after it is dropped: their symbols live no longer than they do.
    pub(super) fn held(&self) -> Vec<OwnedFd> {
        self.loaded().filter_map(|program| program.as_fd().try_clone_to_owned().ok()).collect()
    }

    /// Whether a program is there and was loaded.
    pub(super) fn has(&self, name: &str) -> bool {
        self.loaded().any(|program| program.name() == name)
    }

    /// Records that its programs tell one by one. `bytes` tells how much of one is worth keeping, by what it keeps.
    pub(super) fn records(&self, map: &str, bytes: fn(&[u8]) -> usize) -> Result<Records, String> {
        let map = self.map(map).ok_or_else(|| format!("there is no map `{map}`"))?;
        let blocks = Rc::new(RefCell::new(Vec::new()));
        let told = Rc::clone(&blocks);
        let mut builder = RingBufferBuilder::new();
        let built = builder.add(&map, move |record| {
            append(&mut told.borrow_mut(), &record[..bytes(record).min(record.len())]);
            0
        });
        built.map_err(|e| refusal(self.name, &e))?;
        let ring = builder.build().map_err(|e| refusal(self.name, &e))?;
        Ok(Records { ring, blocks, bytes })
    }

    fn map(&self, name: &str) -> Option<Map<'_>> {
        self.object.maps().find(|map| map.name() == name)
    }

    fn loaded(&self) -> impl Iterator<Item = ProgramImpl<'_>> {
        self.object.progs().filter(|program| !is_any_of(&self.left_out, program.name()))
    }

    /// Puts a value into a map.
    pub(super) fn put(&self, map: &str, key: u32, value: &[u8]) -> Result<(), String> {
        self.update(map, &key.to_ne_bytes(), value)
    }

    /// Appends a value to a map that is a queue.
    pub(super) fn push(&self, map: &str, value: &[u8]) -> Result<(), String> {
        self.update(map, &[], value)
    }

    fn update(&self, map: &str, key: &[u8], value: &[u8]) -> Result<(), String> {
        let map = self.map(map).ok_or_else(|| format!("there is no map `{map}`"))?;
        map.update(key, value, MapFlags::ANY).map_err(|e| refusal(self.name, &e))
    }

    /// Names the hop's processes to the program.
    pub(super) fn watch(&self, pids: &[u32]) -> Result<(), String> {
        pids.iter().try_for_each(|pid| self.put("processes", *pid, &[1]))
    }

    /// Every key and value of a map.
    pub(super) fn entries(&self, map: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let Some(map) = self.map(map) else { return Vec::new() };
        let value = |key: &Vec<u8>| map.lookup(key, MapFlags::ANY).ok().flatten();
        map.keys().filter_map(|key| Some((value(&key)?, key)).map(|(value, key)| (key, value))).collect()
    }

    /// The value of one key of a map. Empty where there is none.
    pub(super) fn value(&self, map: &str, key: u32) -> Vec<u8> {
        self.map(map).and_then(|map| map.lookup(&key.to_ne_bytes(), MapFlags::ANY).ok().flatten()).unwrap_or_default()
    }

    /// The values of one key of a map that has one per CPU.
    pub(super) fn per_cpu(&self, map: &str, key: u32) -> Vec<u64> {
        let values = self.map(map).and_then(|map| map.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY).ok().flatten());
        values.unwrap_or_default().iter().map(|bytes| u64_at(bytes, 0)).collect()
    }

    /// A stack by its number: return addresses, the innermost first. Empty for a number that is none.
    pub(super) fn stack(&self, id: i32) -> Vec<u64> {
        let bytes = u32::try_from(id).map_or_else(|_| Vec::new(), |id| self.value("stacks", id));
        let (words, _) = bytes.as_chunks::<8>();
        words.iter().map(|word| u64::from_ne_bytes(*word)).take_while(|address| *address != 0).collect()
    }
}

/// See [`Program::records`].
#[derive(Debug)]
pub(super) struct Records {
    ring: RingBuffer<'static>,
    /// Large ones: to allocate each record alone took a system call for most of them, 1 % of a CPU.
    blocks: Rc<RefCell<Vec<Vec<u8>>>>,
    bytes: fn(&[u8]) -> usize,
}

impl Records {
    /// Takes over what was told, so that there is room for more.
    pub(super) fn fetch(&self) {
        self.ring.consume_raw();
    }

    /// Hands over all that was told since the beginning.
    pub(super) fn each(&self, mut see: impl FnMut(&[u8])) {
        self.fetch();
        for block in self.blocks.take() {
            let mut rest = block.as_slice();
            while !rest.is_empty() {
                let (record, others) = rest.split_at((self.bytes)(rest).clamp(1, rest.len()));
                see(record);
                rest = others;
            }
        }
    }
}

fn append(blocks: &mut Vec<Vec<u8>>, record: &[u8]) {
    match blocks.last_mut().filter(|block| block.capacity() - block.len() >= record.len()) {
        Some(block) => block.extend_from_slice(record),
        None => {
            let mut block = Vec::with_capacity(BLOCK_BYTES.max(record.len()));
            block.extend_from_slice(record);
            blocks.push(block);
        }
    }
}

fn is_any_of(names: &[String], name: &std::ffi::OsStr) -> bool {
    names.iter().any(|left_out| name == left_out.as_str())
}

/// Four bytes of a key or value, as the program wrote them.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// Eight bytes.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// Takes libbpf's warnings instead of having them printed into the progress of a run.
fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        set_print(Some((PrintLevel::Warn, |_, line| {
            WARNINGS.with_borrow_mut(|lines| lines.push(line.trim().trim_start_matches("libbpf: ").to_string()));
        })));
    });
}

/// What the kernel refused, in one line, and what to do about it.
fn refusal(name: &str, error: &libbpf_rs::Error) -> String {
    let heard = WARNINGS.with_borrow(|warnings| telling(warnings)).map_or(String::new(), |line| format!(" ({line})"));
    let step = if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        "; run prony as root (CAP_BPF and CAP_PERFMON); under lockdown a kernel may refuse root as well"
    } else if error.kind() == libbpf_rs::ErrorKind::NotFound {
        "; it needs a kernel with CONFIG_DEBUG_INFO_BTF (/sys/kernel/btf/vmlinux)"
    } else {
        ""
    };
    format!("the kernel does not take the eBPF program `{name}`: {error}{heard}{step}")
}

/// The line that tells most: what the kernel's verifier said last, else the first warning. The advice to raise `ulimit -l`
/// is out of date since Linux 5.11.
fn telling(warnings: &[String]) -> Option<String> {
    let log = warnings.iter().find(|warning| warning.contains("BEGIN PROG LOAD LOG"));
    let is_word = |line: &&str| !line.is_empty() && !line.starts_with("processed ") && !line.starts_with("--");
    let verdict = log.and_then(|log| log.lines().map(str::trim).rfind(is_word).map(str::to_string));
    verdict.or_else(|| warnings.iter().find(|warning| !warning.contains("ulimit")).cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_has_the_last_word() {
        let warnings = [
            "prog 'on_drop': BPF program load failed: -EACCES".to_string(),
            "prog 'on_drop': -- BEGIN PROG LOAD LOG --\n0: r1 = 1\nR2 invalid mem access\nprocessed 2 insns\n-- END PROG LOAD LOG --"
                .to_string(),
        ];
        assert_eq!(telling(&warnings).unwrap(), "R2 invalid mem access");
        assert_eq!(telling(&warnings[..1]).unwrap(), warnings[0]);
        assert_eq!(telling(&["try raising 'ulimit -l'".to_string()]), None);
    }

    #[test]
    fn what_is_no_program_is_refused_in_a_sentence() {
        let refused = Program::load("nonsense", b"no object").unwrap_err();
        assert!(refused.contains("`nonsense`") && !refused.contains('\n'), "{refused}");
    }

    #[test]
    fn records_fill_blocks_and_are_never_split() {
        let mut blocks = Vec::new();
        (0..40u8).for_each(|n| append(&mut blocks, &vec![n; BLOCK_BYTES / 16 - 1]));
        let firsts: Vec<u8> =
            blocks.iter().flat_map(|block| block.chunks_exact(BLOCK_BYTES / 16 - 1)).map(|record| record[0]).collect();
        assert_eq!((blocks.len(), firsts), (3, (0..40).collect::<Vec<u8>>()));
        append(&mut blocks, &vec![0; 2 * BLOCK_BYTES]);
        assert_eq!(blocks.last().map(Vec::len), Some(2 * BLOCK_BYTES));
    }

    #[test]
    fn short_values_read_as_zero() {
        assert_eq!((u32_at(&[1, 0, 0, 0], 0), u32_at(&[1, 0], 0), u64_at(&[0; 8], 4)), (1, 0, 0));
    }
}
