//! Close looks, a few seconds long and outside scored trials: how logs are written, where worker processes wait, and
//! what the deep look sees (`deep.rs`).
//!
//! Takes some percent of one CPU while it lasts. Judges nothing. Invariant: bounded in time, looks, logs and items.

use crate::deep::DeepLook;
use crate::fact_file::FactFile;
use crate::facts::Facts;
use crate::filters;
use crate::hop;
use crate::log_times::LogTimes;
use crate::logs;
use crate::neighbours::Neighbours;
use crate::pauses::Pauses;
use crate::process::{StatFields, miss_processes, workers};
use crate::roots::Roots;
use crate::serving::Serving;
use crate::sys;
use crate::text::snmp_table;
use crate::upstreams;
use prony_model::metric as m;
use prony_model::{Gap, Host, Sample, Stacks};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longer looks tell nothing new.
const DURATION_MAX: Duration = Duration::from_secs(10);
/// Workers are looked at a hundred times per second.
const TICK: Duration = Duration::from_millis(10);
/// Workers looked at per tick, in turn, and as many of their further threads.
const WORKERS_PER_TICK: usize = 4;
/// Further threads that are looked at: each some five times in three seconds.
const THREADS_MAX: usize = 256;
/// All threads are looked at in the same moment, if they are so few: it takes 0.2 ms then. Each so many ticks.
const THREADS_AT_ONCE: usize = 100;
/// See [`THREADS_AT_ONCE`].
const TICKS_PER_MOMENT: u32 = 5;
/// Looks at one thread from which the share that found it running says something. A guess: by chance a thread that runs half of its time
/// is found running in 17 of 20 once in a thousand times.
const LOOKS_TO_TELL: u32 = 20;
/// Looks at a log per burst, and the time between two: a burst takes a CPU for 0.4 ms, which hardly delays a request, and
/// writes 5 us apart are still told apart: a worker that answers several requests in a row writes their lines every 10 us.
const LOOKS_PER_BURST: u32 = 80;
/// Looks per burst while a busy log shows nothing under them: its writer may have no CPU meanwhile but this one, and a spin of 4 ms
/// is long enough for the scheduler to move it. And looks in all: as many as the short bursts have.
const LOOKS_PER_LONG_BURST: u32 = 800;
const LOOKS_MAX: u32 = LOOKS_PER_BURST * BURSTS;
const LOOK_SPACING: Duration = Duration::from_micros(5);
/// A look that comes later than this after the one before is no quick look. A guess: room for a short interrupt.
const LATE: Duration = Duration::from_micros(30);
/// Bursts per look, spread over its time: together 80 ms of spinning at most, in which a server that writes 1000 lines per
/// second writes eighty times.
const BURSTS: u32 = 200;
/// Looks at resolvers, spread over the time.
const GLANCES: u32 = 24;
/// Each so many looks at the descriptors of the hop as well: they take a call for each, 1 % of a CPU for a busy proxy if it were
/// all.
const DESCRIPTORS_EVERY: u32 = 3;
/// A log whose writes were seen so often needs no more quick looks. A guess: six of them are its lower tenth.
const QUICK_STEPS_ENOUGH: usize = 60;
/// So many are enough when each is larger than a page: lines that are written one by one do not make a page within a quick look,
/// and there is no need to tell such writes from each other. A guess.
const LARGE_STEPS_ENOUGH: usize = 6;
/// With fewer quick steps than this, and enough quick looks, writes are so rare that one tick sees about one: then the
/// growth from tick to tick tells their size. 4000 looks are 20 ms; fewer than 3 writes in that time are fewer than
/// 150 per second.
const QUICK_STEPS_MIN: usize = 3;
const QUICK_LOOKS_MIN: u32 = 4000;
/// With fewer quick steps after so many looks there is no need for more of them. A guess: where 300 lines are written per second,
/// 40 ms show twelve, and fewer than three once in two thousand looks.
const RARE_LOOKS_MIN: u32 = 8000;
/// Ticks after which a log is known as a busy one. A guess: a tenth of a second.
const HIDDEN_TICKS_MIN: usize = 10;
/// The kernel copies a write page by page and lengthens the file after each, so a quick look may see a part of a write
/// that ends at a multiple of this. (`generic_perform_write` of Linux; seen here on ext4.) Larger pages are multiples.
const PAGE_BYTES: u64 = 4096;
/// A file that stays at the end of a page for so many quick looks is no longer within a write: 100 us, while a new page
/// takes the kernel up to some 20 us. A shorter stay may be either, and is taken for a part: what is then seen as one
/// step is two writes at most now and then, which the small growths do not notice.
const LOOKS_AT_PAGE: u32 = 20;
/// Logs that are looked at closely.
const LOGS_MAX: usize = 4;
/// Tail of a log from which the length of lines is taken.
const TAIL_BYTES: usize = 8 << 10;
/// Tail of an access log in which upstreams are looked for: some 500 lines.
const UPSTREAMS_TAIL_BYTES: usize = 256 << 10;
/// The item of [`m::SELF_LOOK`] that is this thread.
const OWN_THREAD: &str = "thread";
/// Kernel functions that are named.
const FUNCTIONS_MAX: usize = 20;

/// What a close look saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looked {
    /// Facts.
    pub sample: Sample,
    /// What could not be seen.
    pub gaps: Vec<Gap>,
    /// What the CPUs ran; none when no profile could be taken, or the host's processes did not run.
    pub stacks: Option<Stacks>,
}

/// Looks closely at `host` for about `duration` (at most 10 s): metrics `look.*` and those of the deep look. The log
/// metrics need a load meanwhile. Blocks the calling thread for that time.
pub fn look(name: &str, host: &Host, roots: Roots, at_ns: u64, duration: Duration) -> Looked {
    let mut facts = Facts::new(name, at_ns);
    let loading_ns = sys::thread_cpu_ns();
    let pids = hop::processes(host, &roots).unwrap_or_else(|gap| {
        miss_processes(&mut facts, host, &gap);
        Vec::new()
    });
    let mut logs: Vec<Log> = open_logs(&mut facts, logs::written(host, &roots, &pids));
    let serving = workers(host, &roots, &pids, &Serving::default().among(&roots, &pids));
    let mut stacks: Vec<Worker> = serving.iter().map(|pid| Worker::new(*pid, &roots.process(*pid))).collect();
    let mut threads: Vec<Worker> = further_threads(&roots, &serving);
    let (mut netstat, mut pauses) = (FactFile::new(roots.net().join("netstat")), Pauses::default());
    let mut neighbours = Neighbours::new(&roots, &pids, &serving);
    let duration = duration.min(DURATION_MAX);
    let mut deep = DeepLook::begin(&mut facts, host, &roots, &pids, duration);
    let mut times = roots.live().then(|| LogTimes::begin(host)).flatten();
    if stacks.is_empty() && logs.is_empty() && times.is_none() && deep.is_blind() {
        let (sample, gaps) = facts.finish();
        return Looked { sample, gaps, stacks: None };
    }
    let (start, reading_ns) = (Instant::now(), sys::thread_cpu_ns());
    let (mut next_worker, mut next_thread, mut glances, mut bursts, mut page) = (0, 0, 0, 0, Vec::new());
    let mut moments = Moments::default();
    while start.elapsed() < duration {
        let tick_end = Instant::now() + TICK;
        look_in_turn(&mut stacks, &mut next_worker, &mut page);
        look_in_turn(&mut threads, &mut next_thread, &mut page);
        moments.tick(&mut stacks, &mut threads, &mut page);
        if let Some(sent) = sent_so_far(&mut netstat, &mut page) {
            pauses.see(start.elapsed(), sent);
        }
        logs.iter_mut().for_each(Log::tick);
        if start.elapsed() >= duration * glances / GLANCES {
            neighbours.glance_at_resolvers();
            if !logs.is_empty() && glances.is_multiple_of(DESCRIPTORS_EVERY) {
                glance(&mut logs, &logs::held(&roots, &pids));
            }
            glances += 1;
        }
        if start.elapsed() >= duration * bursts / BURSTS {
            burst(&mut wanting(&mut logs));
            bursts += 1;
        }
        deep.tick();
        times.iter_mut().for_each(LogTimes::tick);
        std::thread::sleep(tick_end.saturating_duration_since(Instant::now()));
    }
    let (seconds, read_ns) = (start.elapsed().as_secs_f64(), sys::thread_cpu_ns() - reading_ns);
    let seen = deep.finish(&mut facts, &roots);
    // Sockets tell microseconds, and every request.
    if !facts.has(&m::SPLIT_REQUESTS) && !facts.has(&m::SPLIT_CALLS) {
        times.into_iter().for_each(|times| times.put(&mut facts));
    }
    put_logs(&mut facts, &mut logs, seconds);
    put_stacks(&mut facts, &stacks);
    put_threads(&mut facts, &threads);
    moments.put(&mut facts);
    pauses.put(&mut facts);
    neighbours.put(&mut facts, seconds);
    if roots.live() {
        filters::put(&mut facts);
    }
    if let Some(tail) = host.logs.access.as_deref().and_then(|log| upstreams_tail(Path::new(log))) {
        upstreams::put(&mut facts, &tail);
    }
    facts.put(&m::SELF_LOOK, OWN_THREAD, read_ns as f64 / 1e9 / seconds);
    facts.put(&m::SELF_LOOK_AROUND, "", (sys::thread_cpu_ns() - loading_ns - read_ns) as f64 / 1e9);
    let (sample, gaps) = facts.finish();
    Looked { sample, gaps, stacks: seen }
}

fn put_logs(facts: &mut Facts, logs: &mut [Log], seconds: f64) {
    let grown = logs.iter_mut().filter_map(|log| log.put(facts, seconds).then_some(())).count();
    if grown == 0 && !logs.is_empty() {
        facts.miss(
            m::LOOK_LOG_STEP.name,
            "no log grew while it was looked at: it is off, buffered, or there was no load",
        );
    }
}

/// Segments with data that this host sent. What cannot be read is told by the reader of the network.
fn sent_so_far(netstat: &mut FactFile, page: &mut Vec<u8>) -> Option<f64> {
    let mut sent = None;
    snmp_table(&netstat.text(page).ok()?, "TcpExt:", |name, value| {
        if name == "TCPOrigDataSent" {
            sent = Some(value);
        }
    });
    sent
}

/// The end of a log, long enough for some hundred lines.
fn upstreams_tail(log: &Path) -> Option<Vec<u8>> {
    let file = File::open(log).ok()?;
    let size = file.metadata().ok()?.len();
    let mut tail = vec![0; UPSTREAMS_TAIL_BYTES];
    let read = file.read_at(&mut tail, size.saturating_sub(UPSTREAMS_TAIL_BYTES as u64)).ok()?;
    tail.truncate(read);
    Some(tail)
}

fn look_in_turn(looked_at: &mut [Worker], next: &mut usize, page: &mut Vec<u8>) {
    for _ in 0..WORKERS_PER_TICK.min(looked_at.len()) {
        looked_at[*next].look(page);
        *next = (*next + 1) % looked_at.len();
    }
}

/// Processes of several threads, looked at as a whole.
#[derive(Debug, Default)]
struct Moments {
    ticks: u32,
    /// By process: moments in all, and those that found some thread running.
    seen: BTreeMap<u32, (u32, u32)>,
}

impl Moments {
    fn tick(&mut self, firsts: &mut [Worker], threads: &mut [Worker], page: &mut Vec<u8>) {
        if self.ticks.is_multiple_of(TICKS_PER_MOMENT) && threads.len() <= THREADS_AT_ONCE {
            self.look_at_all(firsts, threads, page);
        }
        self.ticks += 1;
    }

    fn look_at_all(&mut self, firsts: &mut [Worker], threads: &mut [Worker], page: &mut Vec<u8>) {
        let mut some_runs: BTreeMap<u32, bool> = threads.iter().map(|thread| (thread.process, false)).collect();
        for worker in firsts.iter_mut().chain(threads) {
            if let Some(some) = some_runs.get_mut(&worker.process) {
                *some |= worker.runs(page).unwrap_or(false);
            }
        }
        for (process, some) in some_runs {
            let (all, found) = self.seen.entry(process).or_default();
            *all += 1;
            *found += u32::from(some);
        }
    }

    fn put(&self, facts: &mut Facts) {
        for (process, (all, found)) in &self.seen {
            facts.put(&m::LOOK_ANY_THREAD, &process.to_string(), f64::from(*found) / f64::from(*all));
        }
    }
}

/// The threads of worker processes that are not their first.
fn further_threads(roots: &Roots, pids: &[u32]) -> Vec<Worker> {
    let tasks = |pid: &u32| {
        let folder = roots.process(*pid).join("task");
        let further = hop::numbered(&folder).into_iter().filter(|id| id != pid);
        further.map(|id| Worker::new(*pid, &folder.join(id.to_string()))).collect::<Vec<_>>()
    };
    pids.iter().flat_map(tasks).take(THREADS_MAX).collect()
}

/// One log under close looks.
#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    first_size: u64,
    quick: QuickSteps,
    /// Growths from tick to tick, and how many ticks there were.
    slow_steps: Vec<u64>,
    ticks: usize,
    tick_size: u64,
    /// Its size at the burst before.
    burst_size: u64,
    /// Glances at the descriptors of the hop's processes, and how many of them found the log among them.
    glances: u32,
    held: u32,
}

fn open_logs(facts: &mut Facts, paths: Vec<PathBuf>) -> Vec<Log> {
    let mut logs = Vec::new();
    for path in paths.into_iter().take(LOGS_MAX) {
        match File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file))) {
            Ok((first_size, file)) => logs.push(Log {
                path,
                file,
                first_size,
                quick: QuickSteps::default(),
                slow_steps: Vec::new(),
                ticks: 0,
                tick_size: first_size,
                burst_size: first_size,
                glances: 0,
                held: 0,
            }),
            Err(e) => facts.miss("look.log", format_args!("{}: {e}", path.display())),
        }
    }
    logs
}

/// Whether each log is held open. Where no file is, descriptors may not be readable, and the glance says nothing.
fn glance(logs: &mut [Log], held: &BTreeSet<PathBuf>) {
    for log in logs.iter_mut().filter(|_| !held.is_empty()) {
        log.glances += 1;
        log.held += u32::from(held.contains(&log.path));
    }
}

/// Logs that want quick looks. One that has not grown since the burst before would show nothing in this one: that counts as
/// looked, and spares the CPUs the spinning.
fn wanting(logs: &mut [Log]) -> Vec<&mut Log> {
    let wants = |log: &mut &mut Log| {
        let size = log.size();
        let grew = std::mem::replace(&mut log.burst_size, size) != size;
        log.quick.looks += if grew { 0 } else { LOOKS_PER_BURST };
        let in_vain = log.quick.are_rare() && !log.is_hidden();
        grew && !log.quick.are_enough() && !in_vain && log.quick.looks < LOOKS_MAX
    };
    logs.iter_mut().filter_map(|mut log| wants(&mut log).then_some(log)).collect()
}

/// Quick looks at logs. Spins between them: a sleep would be longer than the spacing. A look that comes late,
/// because the scheduler gave the CPU to others, may see many writes at once and does not count as a step.
fn burst(logs: &mut [&mut Log]) {
    if logs.is_empty() {
        return;
    }
    for log in logs.iter_mut() {
        let size = log.size();
        log.quick.see(size, false);
    }
    let mut last_look = Instant::now();
    let hidden = logs.iter().any(|log| log.is_hidden());
    for _ in 0..if hidden { LOOKS_PER_LONG_BURST } else { LOOKS_PER_BURST } {
        let this_look = Instant::now();
        for log in logs.iter_mut() {
            let size = log.size();
            // From before the last look until after this one: a look itself may be where the scheduler takes the CPU.
            log.quick.see(size, last_look.elapsed() <= LATE);
        }
        last_look = this_look;
        while this_look.elapsed() < LOOK_SPACING {
            std::hint::spin_loop();
        }
    }
}

/// Growths of a file between quick looks.
#[derive(Debug, Default)]
struct QuickSteps {
    steps: Vec<u64>,
    looks: u32,
    last_size: u64,
    /// A growth that ended at a page: the rest of its write may follow.
    unfinished: u64,
    /// Looks since then that saw no growth.
    still: u32,
    /// Whether the first look itself may have fallen into a write, so that the next growth is only its rest.
    torn: bool,
}

impl QuickSteps {
    /// Whether writes are too rare for quick looks to see them: the growth from tick to tick tells their size.
    fn are_rare(&self) -> bool {
        self.looks >= RARE_LOOKS_MIN && self.steps.len() < QUICK_STEPS_MIN
    }

    fn are_enough(&self) -> bool {
        let enough =
            if self.steps.iter().all(|step| *step > PAGE_BYTES) { LARGE_STEPS_ENOUGH } else { QUICK_STEPS_ENOUGH };
        self.steps.len() >= enough
    }

    /// Takes the size of the file, and whether this look came quickly after the one before.
    fn see(&mut self, size: u64, quick: bool) {
        let grown = size.checked_sub(self.last_size).filter(|_| quick);
        self.last_size = size;
        let at_page = size.is_multiple_of(PAGE_BYTES);
        self.looks += u32::from(quick);
        self.unfinished += grown.unwrap_or(0);
        self.still = if grown == Some(0) { self.still + 1 } else { 0 };
        match grown {
            None => self.torn = at_page,
            Some(_) if at_page && self.still < LOOKS_AT_PAGE => return,
            Some(_) => {
                self.steps.extend((self.unfinished > 0 && !self.torn).then_some(self.unfinished));
                self.torn = false;
            }
        }
        self.unfinished = 0;
    }
}

impl Log {
    fn tick(&mut self) {
        let size = self.size();
        self.slow_steps.extend(size.checked_sub(self.tick_size).filter(|step| *step > 0));
        self.tick_size = size;
        self.ticks += 1;
    }

    /// Whether it grows in nine of ten ticks, so more than 200 times per second, and yet hardly under quick looks.
    fn is_hidden(&self) -> bool {
        let is_busy = self.ticks >= HIDDEN_TICKS_MIN && self.slow_steps.len() * 10 >= self.ticks * 9;
        is_busy && self.quick.steps.len() < QUICK_STEPS_MIN
    }

    /// Bytes per write. Between two quick looks there may be several writes, but no part of one, so the small growths
    /// are those of one write.
    fn step(&mut self) -> Option<u64> {
        if self.is_hidden() {
            return None;
        }
        if self.quick.steps.len() < QUICK_STEPS_MIN && self.quick.looks >= QUICK_LOOKS_MIN {
            return median(&mut self.slow_steps);
        }
        lower_tenth(&mut self.quick.steps)
    }

    /// Its size; a file that cannot be asked has not grown.
    fn size(&self) -> u64 {
        self.file.metadata().map_or(0, |meta| meta.len())
    }

    /// False when nothing was written meanwhile: such a log shows its growth of 0 and nothing else.
    fn put(&mut self, facts: &mut Facts, seconds: f64) -> bool {
        let item = self.path.display().to_string();
        let size = self.size();
        if size < self.first_size || seconds <= 0.0 {
            facts.miss(m::LOOK_LOG_GROWTH.name, format_args!("{item} was cut while it was looked at"));
            return true;
        }
        facts.put(&m::LOOK_LOG_GROWTH, &item, (size - self.first_size) as f64 / seconds);
        if size == self.first_size {
            return false;
        }
        let mut tail = vec![0; TAIL_BYTES];
        let read = self.file.read_at(&mut tail, size.saturating_sub(TAIL_BYTES as u64)).unwrap_or(0);
        let line = mean_line_bytes(&tail[..read]);
        match line {
            Some(bytes) => facts.put(&m::LOOK_LOG_LINE, &item, bytes),
            None => facts.miss(m::LOOK_LOG_LINE.name, format_args!("{item} has no whole line in its last 8 KiB")),
        }
        match self.step() {
            // Nobody writes half a line; a short one is small without being a small write.
            Some(step) => facts.put(&m::LOOK_LOG_STEP, &item, line.map_or(step as f64, |line| line.max(step as f64))),
            None => facts.miss(m::LOOK_LOG_STEP.name, format_args!("{item} grew, but not under the quick looks")),
        }
        if self.glances > 0 {
            facts.put(&m::LOOK_LOG_HELD, &item, f64::from(self.held) / f64::from(self.glances));
        }
        true
    }
}

/// The median; the lower of the two middle values, which really occurred.
fn median(values: &mut [u64]) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// The value that a tenth of them stay below.
fn lower_tenth(values: &mut [u64]) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 10).copied()
}

/// Mean length of the lines between the first and the last end of line, with their ends.
fn mean_line_bytes(tail: &[u8]) -> Option<f64> {
    let first = tail.iter().position(|b| *b == b'\n')?;
    let last = tail.iter().rposition(|b| *b == b'\n')?;
    let lines = tail[first + 1..=last].iter().filter(|b| **b == b'\n').count();
    (lines > 0).then(|| (last - first) as f64 / lines as f64)
}

/// One worker, or one of its threads, under looks.
#[derive(Debug)]
struct Worker {
    process: u32,
    stat: FactFile,
    stack: FactFile,
    looks: u32,
    running: u32,
    waits: BTreeMap<String, u32>,
    stack_error: Option<String>,
}

impl Worker {
    /// `folder` is /proc/PID or /proc/PID/task/TID.
    fn new(process: u32, folder: &Path) -> Self {
        Self {
            process,
            stat: FactFile::new(folder.join("stat")),
            stack: FactFile::new(folder.join("stack")),
            looks: 0,
            running: 0,
            waits: BTreeMap::new(),
            stack_error: None,
        }
    }

    fn running_share(&self) -> f64 {
        f64::from(self.running) / f64::from(self.looks)
    }

    /// Whether its first thread, or the one thread that it is, runs or could.
    fn runs(&mut self, page: &mut Vec<u8>) -> Option<bool> {
        let text = self.stat.text(page).ok()?;
        StatFields::of(&text).and_then(|s| s.word(3)).map(|state| state == "R")
    }

    /// One look at it.
    fn look(&mut self, page: &mut Vec<u8>) {
        let Some(runs) = self.runs(page) else { return };
        self.looks += 1;
        self.running += u32::from(runs);
        match self.stack.text(page) {
            Ok(stack) => {
                if let Some(function) = waits_in(&stack, runs) {
                    *self.waits.entry(function.to_string()).or_default() += 1;
                }
            }
            Err(e) => self.stack_error = Some(format!("{}: {e}: needs root", self.stack.path().display())),
        }
    }
}

/// Functions through which every sleeper goes: they tell that it sleeps, not why.
pub(crate) fn is_scheduling(function: &str) -> bool {
    const EXACT: [&str; 6] =
        ["__cond_resched", "poll_schedule_timeout", "schedule", "__schedule", "do_nanosleep", "__switch_to"];
    EXACT.contains(&function)
        || ["schedule_", "__schedule_", "preempt_schedule", "exit_to_user_mode", "irqentry_"]
            .iter()
            .any(|p| function.starts_with(p))
}

/// Functions in which a task spins without sleeping, so that its state is running.
fn is_spinning(function: &str) -> bool {
    ["osq_lock", "rwsem_spin_on_owner", "mutex_spin_on_owner"].contains(&function)
        || function.ends_with("spin_lock_slowpath")
        || function.starts_with("rwsem_optimistic_spin")
}

/// The kernel function that a task waits in. The stack of a running task is that of its last sleep, unless it was
/// taken off its CPU while it span: then the top is a spinning function, in which no task sleeps, so only those are
/// believed.
fn waits_in(stack: &str, runs: bool) -> Option<&str> {
    let mut functions = stack.lines().filter_map(function_of).filter(|f| !is_scheduling(f));
    let top = functions.next()?;
    // Entry into the kernel at the top: it was about to return to its own code.
    if top.starts_with("do_syscall_") || top.starts_with("entry_") || top.starts_with("ret_from_") {
        return None;
    }
    // Compilers inline ep_poll into its only caller; an idle worker gets one name on every kernel.
    let top = if top == "do_epoll_wait" { "ep_poll" } else { top };
    (!runs || is_spinning(top)).then_some(top)
}

/// `[<0>] ep_poll+0x2b1/0x2d0` or `[<ffffffff8112>] do_x.constprop.0+0x1/0x2`: the name without offset and compiler's
/// suffix.
fn function_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("] ")?;
    let name = rest.split('+').next()?.split('.').next()?.trim();
    (!name.is_empty() && !name.starts_with("0x")).then_some(name)
}

/// Mean number of further threads in each function, and how much the busiest of each process runs. What is running or was never seen waits
/// nowhere.
fn put_threads(facts: &mut Facts, threads: &[Worker]) {
    let mut waits: BTreeMap<&str, f64> = BTreeMap::new();
    for thread in threads {
        for (function, count) in &thread.waits {
            *waits.entry(function).or_default() += f64::from(*count) / f64::from(thread.looks);
        }
    }
    let mut waits: Vec<(&str, f64)> = waits.into_iter().collect();
    waits.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    waits.iter().take(FUNCTIONS_MAX).for_each(|(function, count)| facts.put(&m::LOOK_THREADS, function, *count));
    let mut busiest: BTreeMap<u32, f64> = BTreeMap::new();
    for thread in threads.iter().filter(|thread| thread.looks >= LOOKS_TO_TELL) {
        let share = busiest.entry(thread.process).or_default();
        *share = share.max(thread.running_share());
    }
    busiest.iter().for_each(|(pid, share)| facts.put(&m::LOOK_BUSIEST_THREAD, &pid.to_string(), *share));
}

fn put_stacks(facts: &mut Facts, workers: &[Worker]) {
    let looks: u32 = workers.iter().map(|w| w.looks).sum();
    let mut waits: BTreeMap<&str, u32> = BTreeMap::new();
    for worker in workers {
        if worker.looks > 0 {
            facts.put(&m::LOOK_RUNNING, &worker.process.to_string(), worker.running_share());
        }
        if let Some(error) = &worker.stack_error {
            facts.miss(m::LOOK_WAIT.name, error);
        }
        for (function, count) in &worker.waits {
            *waits.entry(function).or_default() += count;
        }
    }
    let mut waits: Vec<(&str, u32)> = waits.into_iter().collect();
    waits.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    for (function, count) in waits.into_iter().take(FUNCTIONS_MAX) {
        facts.put(&m::LOOK_WAIT, function, f64::from(count) / f64::from(looks));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOCKED: &str = "[<0>] schedule_preempt_disabled+0x15/0x30\n[<0>] rwsem_down_write_slowpath+0x24e/0x6c0\n\
                          [<0>] down_write+0x5b/0x60\n[<0>] ext4_buffered_write_iter+0x30/0x120\n";

    #[test]
    fn the_top_of_the_stack_names_the_wait() {
        assert_eq!(waits_in(LOCKED, false), Some("rwsem_down_write_slowpath"));
        assert_eq!(waits_in(LOCKED, true), None, "the stack of a running task is that of its last sleep");
        assert_eq!(waits_in("[<0>] ep_poll.isra.0+0x2b1/0x2d0\n[<0>] do_epoll_wait+0x1/0x2\n", false), Some("ep_poll"));
        assert_eq!(waits_in("[<0>] do_epoll_wait+0x548/0x5a0\n", false), Some("ep_poll"));
        assert_eq!(waits_in("[<0>] osq_lock+0x1/0x2\n", true), Some("osq_lock"));
        assert_eq!(waits_in("[<0>] exit_to_user_mode_loop+0x1/0x2\n[<0>] do_syscall_64+0x1/0x2\n", false), None);
        assert_eq!(waits_in("", false), None);
    }

    #[test]
    fn threads_are_counted_where_they_wait() {
        let worker = |looks: u32, waits: &[(&str, u32)]| {
            let waits = waits.iter().map(|(function, count)| (function.to_string(), *count)).collect();
            Worker { looks, waits, ..Worker::new(1, Path::new("/proc/1/task/2")) }
        };
        let mut facts = Facts::new("app", 0);
        put_threads(
            &mut facts,
            &[worker(4, &[("futex_wait", 4)]), worker(4, &[("futex_wait", 2), ("sk_wait_data", 1)])],
        );
        assert_eq!(facts.listing(), "look.threads [futex_wait] 1.5\nlook.threads [sk_wait_data] 0.25\n");
    }

    #[test]
    fn processes_of_several_threads_are_looked_at_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let worker = |process: u32, thread: &str, state: &str| {
            let own = folder.path().join(thread);
            std::fs::create_dir_all(&own).unwrap();
            std::fs::write(own.join("stat"), format!("{process} (app) {state} 1 1\n")).unwrap();
            Worker::new(process, &own)
        };
        let mut firsts = [worker(7, "7", "S"), worker(8, "8", "S"), worker(9, "9", "R")];
        let mut moments = Moments::default();
        for state in ["R", "S"] {
            let mut threads = [worker(7, "70", "S"), worker(7, "71", state), worker(8, "80", "D")];
            moments.look_at_all(&mut firsts, &mut threads, &mut Vec::new());
        }
        let mut facts = Facts::new("app", 0);
        moments.put(&mut facts);
        assert_eq!(facts.listing(), "look.any_thread [7] 0.5\nlook.any_thread [8] 0\n", "the third has one thread");
    }

    #[test]
    fn the_busiest_thread_of_each_process_is_told() {
        let thread =
            |process, looks, running| Worker { looks, running, ..Worker::new(process, Path::new("/proc/1/task/2")) };
        let mut facts = Facts::new("app", 0);
        put_threads(&mut facts, &[thread(7, 40, 39), thread(7, 40, 2), thread(8, 40, 10), thread(8, 5, 5)]);
        assert_eq!(facts.listing(), "look.busiest_thread [7] 0.975\nlook.busiest_thread [8] 0.25\n");
    }

    #[test]
    fn medians_really_occurred() {
        assert_eq!(median(&mut [9, 1, 5, 7]), Some(5));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn the_small_growths_are_those_of_one_write() {
        // Seen at 40,000 lines/s: more than half of the quick looks saw two writes or more.
        let mut growths = [[242u64; 30].as_slice(), &[484; 40], &[726; 20], &[968; 10]].concat();
        assert_eq!(lower_tenth(&mut growths), Some(242));
        assert_eq!(lower_tenth(&mut [65_400; 3]), Some(65_400));
        assert_eq!(lower_tenth(&mut []), None);
    }

    #[test]
    fn a_write_that_is_seen_in_parts_is_one_step() {
        let steps = |first: u64, sizes: &[u64]| {
            let mut quick = QuickSteps::default();
            quick.see(first, false);
            sizes.iter().for_each(|size| quick.see(*size, true));
            quick.steps
        };
        let stays = |size: u64| vec![size; 1 + LOOKS_AT_PAGE as usize];
        assert_eq!(steps(100, &[4096, 8192, 8240]), [8140], "page by page");
        assert_eq!(steps(100, &[4096, 4096, 4096, 8192, 8240]), [8140], "a new page takes its time");
        assert_eq!(steps(100, &[stays(4096), vec![4170]].concat()), [3996, 74], "a write may end at a page");
        assert_eq!(steps(0, &[stays(4096), stays(8192)].concat()), [4096], "the first look may have torn one");
        assert_eq!(steps(4096, &[8240, 16_380]), [8140], "a rest is no write");
        assert_eq!(steps(4096, &[stays(4096), vec![8240]].concat()), [4144], "nothing grew for long: it tore none");
    }

    #[test]
    fn a_log_is_held_or_opened_for_each_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["kept.log", "anew.log"] {
            std::fs::write(path(name), "").unwrap();
        }
        let mut facts = Facts::new("lb", 0);
        let mut logs = open_logs(&mut facts, vec![path("kept.log"), path("anew.log")]);
        glance(&mut logs, &BTreeSet::new());
        for _ in 0..3 {
            glance(&mut logs, &[path("kept.log")].into());
        }
        glance(&mut logs, &[path("kept.log"), path("anew.log")].into());
        for log in &mut logs {
            std::fs::write(&log.path, "one line\n").unwrap();
            log.tick();
            assert!(log.put(&mut facts, 1.0));
        }
        let held = |name: &str| facts.value(&m::LOOK_LOG_HELD, path(name).to_str().unwrap());
        assert_eq!((held("kept.log"), held("anew.log")), (Some(1.0), Some(0.25)));
    }

    #[test]
    fn a_busy_log_that_quick_looks_do_not_see_has_no_step() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut logs = open_logs(&mut Facts::new("lb", 0), vec![file.path().to_path_buf()]);
        let log = &mut logs[0];
        (log.quick.looks, log.ticks, log.slow_steps) = (LOOKS_MAX, 100, vec![2442; 95]);
        assert_eq!((log.is_hidden(), log.step()), (true, None), "33 lines in a tick are no write");
        log.slow_steps.truncate(60);
        assert_eq!((log.is_hidden(), log.step()), (false, Some(2442)), "one write in most ticks that saw any");
        (log.slow_steps, log.quick.steps) = (vec![2442; 95], vec![74; 3]);
        assert_eq!((log.is_hidden(), log.step()), (false, Some(74)));
    }

    #[test]
    fn only_a_log_that_grows_and_was_not_seen_enough_gets_quick_looks() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["grows", "rests", "known", "by pages"].map(|name| dir.path().join(name));
        paths.iter().for_each(|path| std::fs::write(path, "").unwrap());
        let mut logs = open_logs(&mut Facts::new("lb", 0), paths.to_vec());
        logs[2].quick.steps = vec![200; QUICK_STEPS_ENOUGH];
        logs[3].quick.steps = vec![8140; LARGE_STEPS_ENOUGH];
        [&paths[0], &paths[2], &paths[3]].iter().for_each(|path| std::fs::write(path, "one line\n").unwrap());
        let wanted: Vec<PathBuf> = wanting(&mut logs).iter().map(|log| log.path.clone()).collect();
        assert_eq!(wanted, [paths[0].clone()]);
        assert!(wanting(&mut logs).is_empty(), "none has grown since then");
        assert_eq!(
            logs.iter().map(|log| log.quick.looks).collect::<Vec<_>>(),
            [80, 160, 80, 80],
            "a rest counts as looked"
        );
    }

    #[test]
    fn lines_are_measured_between_whole_ends() {
        assert_eq!(mean_line_bytes(b"cut\n1234\n123456\nhalf"), Some(6.0));
        assert_eq!(mean_line_bytes(b"only one\n"), None);
        assert_eq!(mean_line_bytes(b""), None);
    }

    proptest! {
        #[test]
        fn no_stack_panics(s in "(\\[<0>\\] |[a-z_.+0-9/]|\\PC|\n){0,100}") {
            let _ = (waits_in(&s, false), mean_line_bytes(s.as_bytes()));
        }
    }
}
