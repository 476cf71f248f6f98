//! The live screen of hosts: what each does now, and what is wrong there.
//!
//! A state machine that sees samples and draws itself, or tells itself in lines. No IO and no clock. Invariant: on a small screen
//! the CPUs and the troubles of every host are shown before anything else of any host.

use crate::charts;
use crate::look::Look;
use crate::parts::{self, LABEL, Part};
use crate::texts;
use crate::watched::{BusyProcess, CpuSplit, Watched};
use prony_model::metric::{
    CONTEXT_SWITCHES, IF_RX_BYTES, IF_RX_PACKETS, IF_TX_BYTES, IF_TX_PACKETS, LISTEN_BACKLOG, LISTEN_QUEUE,
    NGINX_ACTIVE, NGINX_REQUESTS, PG_DEADLOCKS, PG_LOCKS_AWAITED, PROC_COUNT, SOCK_TIME_WAIT, TCP_ACTIVE_OPENS,
    TCP_ESTABLISHED, TCP_PASSIVE_OPENS,
};
use prony_model::{Gap, Metric, Sample, Stack};
use prony_report::number;
use ratatui::Frame;
use ratatui::text::{Line, Span};
use std::collections::BTreeSet;

/// Columns of a CPU bar. A guess: a column for each 5 %.
const BAR: usize = 20;
/// From which share a CPU is called busy. Cited: netdata health.d/cpu.conf warns at 85 %.
const BUSY: f64 = 0.85;
/// Processes that are named. A guess: more are not read.
const PROCESSES: usize = 4;
/// Kernel locks that are named. A guess: they fill a row of 80 columns.
const LOCKS: usize = 2;
/// Less than this share of the time is not worth a name. A guess.
const LOCK_MIN: f64 = 0.001;
/// CPUs of a host that have a number each; of more the busiest are named. A guess: they fill a row of 80 columns.
const CORES: usize = 6;

/// Hosts, as a person watches them.
pub struct WatchScreen {
    title: String,
    look: Look,
    hosts: Vec<Watched>,
    gaps: BTreeSet<Gap>,
}

impl WatchScreen {
    /// The hosts of a stack, of which nothing was seen yet: the path of a request, then who sends it. `title` names the stack.
    pub fn new(title: &str, stack: &Stack, look: Look) -> Self {
        let path = stack.path();
        let others = stack.host.keys().map(String::as_str).filter(|name| !path.contains(name));
        let names: Vec<&str> = path.iter().copied().chain(others).collect();
        let hosts = names.into_iter().filter_map(|name| Some(Watched::new(name, stack.host.get(name)?))).collect();
        Self { title: title.to_string(), look, hosts, gaps: BTreeSet::new() }
    }

    /// Takes in what one reading of a host showed, in order of time. Gives the host when its rates are known.
    pub fn see(&mut self, samples: &[Sample]) -> Option<&Watched> {
        let last = samples.last()?;
        let host = self.hosts.iter_mut().find(|host| host.name() == last.host)?;
        host.see(samples, last.at_ns);
        host.is_known().then_some(&*host)
    }

    /// Takes in what a close look at a host showed.
    pub fn see_closely(&mut self, sample: &Sample) {
        if let Some(host) = self.hosts.iter_mut().find(|host| host.name() == sample.host) {
            host.see_closely(sample);
        }
    }

    /// A host by its name.
    pub fn host(&self, name: &str) -> Option<&Watched> {
        self.hosts.iter().find(|host| host.name() == name)
    }

    /// Takes in that a fact cannot be read.
    pub fn miss(&mut self, gap: Gap) {
        self.gaps.insert(gap);
    }

    /// Draws over the whole frame.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let room = usize::from(frame.area().height);
        parts::draw(frame, &parts::fit(self.parts(), room));
    }

    /// A host in one plain line, for where there is no terminal.
    pub fn line(&self, host: &Watched) -> String {
        let mut words = vec![format!("{:<8}", host.name())];
        words.push(host.cpu().map_or("cpu unknown".to_string(), |cpu| {
            format!("cpu {} ({})", texts::whole_percent(cpu.busy()), split(&cpu))
        }));
        words.extend(requests(host));
        words.extend(network(host));
        words.extend(sockets(host));
        words.extend(locks(host).map(|text| format!("locks {text}")));
        words.extend(troubles(host).map(|text| format!("trouble: {text}")));
        words.join("  ")
    }

    /// From top to bottom. A rank is made of the kind of row and the place of its host.
    fn parts(&self) -> Vec<Part> {
        let (kinds, hosts) = (9, self.hosts.len() as u16);
        let part = |kind: u16, place: u16, gap: bool, rows: Vec<Line<'static>>| Part {
            rank: (kinds - kind) * (hosts + 1) + (hosts - place),
            gap,
            rows,
        };
        let mut parts = vec![part(0, 0, false, vec![self.title()])];
        for (place, host) in (1..).zip(&self.hosts) {
            let of_host = [
                (1, vec![self.cpu(host)]),
                (2, self.named("trouble", troubles(host), true)),
                (8, self.cores(host)),
                (3, self.named("requests", requests(host), false)),
                (5, self.named("network", network(host), false)),
                (4, self.named("sockets", sockets(host), false)),
                (6, self.named("locks", locks(host), false)),
                (7, self.named("processes", processes(host), false)),
            ];
            let shown = of_host.into_iter().filter(|(_, rows)| !rows.is_empty());
            parts.extend(shown.map(|(kind, rows)| part(kind, place, kind == 1, rows)));
        }
        parts.push(Part { rank: 0, gap: true, rows: vec![self.help()] });
        parts
    }

    fn title(&self) -> Line<'static> {
        Line::from(vec![
            Span::styled(" prony watch  ", self.look.label()),
            Span::styled(self.title.clone(), self.look.number()),
        ])
    }

    fn help(&self) -> Line<'static> {
        let gaps = match self.gaps.len() {
            0 => String::new(),
            1 => "; 1 fact cannot be read: `prony doctor`".to_string(),
            n => format!("; {n} facts cannot be read: `prony doctor`"),
        };
        Line::styled(format!(" q or Ctrl-C: end{gaps}"), self.look.label())
    }

    /// Its name, a bar, and where the time goes.
    fn cpu(&self, host: &Watched) -> Line<'static> {
        let mut row =
            Line::from(Span::styled(format!(" {:<width$}", host.name(), width = LABEL - 1), self.look.number()));
        let Some(cpu) = host.cpu() else {
            row.push_span(Span::raw(self.look.dash()));
            return row;
        };
        let (filled, rest) = charts::bar(cpu.busy(), BAR, self.look.blocks);
        let style = if cpu.busy() >= BUSY { self.look.warning() } else { self.look.chart() };
        row.push_span(Span::styled(filled, style));
        row.push_span(Span::styled(rest, self.look.label()));
        row.push_span(Span::styled(format!(" {:>5}  ", texts::whole_percent(cpu.busy())), self.look.number()));
        row.push_span(Span::raw(split(&cpu)));
        row
    }

    /// Each CPU with its level and its share; none for a host with one.
    fn cores(&self, host: &Watched) -> Vec<Line<'static>> {
        let mut cores: Vec<(u32, f64)> = host.cores().into_iter().map(|(cpu, split)| (cpu, split.busy())).collect();
        if cores.len() < 2 {
            return Vec::new();
        }
        if cores.len() > CORES {
            cores.sort_by(|a, b| b.1.total_cmp(&a.1));
            cores.truncate(CORES);
        }
        let one = |(cpu, busy): &(u32, f64)| {
            format!("{cpu} {} {}", charts::level(*busy, self.look.blocks), texts::whole_percent(*busy))
        };
        let text = cores.iter().map(one).collect::<Vec<_>>().join("   ");
        self.named("CPUs", Some(text), false)
    }

    fn named(&self, name: &str, text: Option<String>, warning: bool) -> Vec<Line<'static>> {
        let style = if warning { self.look.error() } else { ratatui::style::Style::new() };
        let row = |text: String| {
            let mut row = parts::named(&format!("  {name}"), LABEL, self.look);
            row.push_span(Span::styled(text, style));
            row
        };
        text.map(row).into_iter().collect()
    }
}

fn split(cpu: &CpuSplit) -> String {
    let parts = [
        ("us", cpu.user),
        ("ni", cpu.nice),
        ("sy", cpu.system),
        ("si", cpu.softirq),
        ("wa", cpu.iowait),
        ("st", cpu.steal),
    ];
    // What is nothing is not worth its columns, but user and system time always are.
    let shown = parts.into_iter().filter(|(name, share)| *share >= 0.005 || matches!(*name, "us" | "sy"));
    shown.map(|(name, share)| format!("{name} {:.0}", share * 100.0)).collect::<Vec<_>>().join("  ")
}

fn per_second(host: &Watched, metric: &Metric) -> Option<String> {
    host.sum(metric).map(number::rate)
}

fn requests(host: &Watched) -> Option<String> {
    let active =
        host.sum(&NGINX_ACTIVE).map_or(String::new(), |n| format!(", {} connections", number::count(n as u64)));
    Some(format!("{} requests/s{active}", per_second(host, &NGINX_REQUESTS)?))
}

fn network(host: &Watched) -> Option<String> {
    let bytes = |metric| host.sum(metric).map_or(String::new(), |rate| format!(" {}/s", number::bytes(rate)));
    Some(format!(
        "in {} packets/s{}, out {} packets/s{}",
        per_second(host, &IF_RX_PACKETS)?,
        bytes(&IF_RX_BYTES),
        per_second(host, &IF_TX_PACKETS)?,
        bytes(&IF_TX_BYTES)
    ))
}

fn sockets(host: &Watched) -> Option<String> {
    let count = |metric| host.sum(metric).map(|n| number::count(n as u64));
    let mut words = vec![format!("{} established", count(&TCP_ESTABLISHED)?)];
    let queue = count(&LISTEN_QUEUE).zip(count(&LISTEN_BACKLOG));
    words.extend(queue.map(|(queue, backlog)| format!("queue {queue} of {backlog}")));
    words.extend(count(&SOCK_TIME_WAIT).map(|n| format!("{n} in TIME_WAIT")));
    // A host that keeps its connections opens none, and that is no news.
    for (metric, word) in [(&TCP_ACTIVE_OPENS, "opened"), (&TCP_PASSIVE_OPENS, "accepted")] {
        let rate = host.sum(metric).filter(|rate| *rate > 0.0);
        words.extend(rate.map(|rate| format!("{}/s {word}", number::rate(rate))));
    }
    Some(words.join(", "))
}

/// Locks that somebody waits for: of a database, and of the kernel after a close look; none where neither tells.
fn locks(host: &Watched) -> Option<String> {
    let words: Vec<String> = database_locks(host).into_iter().chain(kernel_locks(host)).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn kernel_locks(host: &Watched) -> Option<String> {
    let waits = host.kernel_locks()?;
    let all = number::percent(waits.iter().map(|(_, share)| share).sum());
    let named: Vec<String> = waits
        .iter()
        .filter(|(_, share)| *share >= LOCK_MIN)
        .take(LOCKS)
        .map(|(function, share)| format!("{function} {}", number::percent(*share)))
        .collect();
    let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    Some(format!("kernel {all} of the threads' time{named}"))
}

fn database_locks(host: &Watched) -> Option<String> {
    let (all, deadlocks) = (host.sum(&PG_LOCKS_AWAITED), host.sum(&PG_DEADLOCKS));
    let all = all.or(deadlocks.map(|_| 0.0))?;
    let mut awaited = host.items(&PG_LOCKS_AWAITED);
    awaited.retain(|(_, count)| *count > 0.0);
    awaited.sort_by(|a, b| b.1.total_cmp(&a.1));
    let kinds: Vec<String> = awaited.iter().map(|(kind, count)| format!("{kind} {count:.0}")).collect();
    let kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let dead = deadlocks.filter(|rate| *rate > 0.0).map(|rate| format!(", {}/s deadlocks", number::rate(rate)));
    Some(format!("{all:.0} awaited{kinds}{}", dead.unwrap_or_default()))
}

fn processes(host: &Watched) -> Option<String> {
    let mut last = None;
    let one = |process: &BusyProcess| {
        let BusyProcess { pid, name, cpus, waits_share } = process;
        let waits = if *waits_share >= 0.05 {
            format!(" (waits {})", texts::whole_percent(*waits_share))
        } else {
            String::new()
        };
        // Processes of one program share its name.
        let named = name.as_ref().filter(|_| *name != last).map_or(String::new(), |name| format!("{name} "));
        last.clone_from(name);
        format!("{named}{pid} {}{waits}", texts::whole_percent(*cpus))
    };
    let mut words: Vec<String> = host.processes().iter().take(PROCESSES).map(one).collect();
    let others = host.sum(&PROC_COUNT).map_or(0, |n| (n as usize).saturating_sub(words.len()));
    words.extend((others > 0 && !words.is_empty()).then(|| format!("{others} more")));
    words.extend(per_second(host, &CONTEXT_SWITCHES).map(|n| format!("{n} switches/s")));
    (!words.is_empty()).then(|| words.join(", "))
}

fn troubles(host: &Watched) -> Option<String> {
    let words = host.troubles().into_iter().map(|(_, words, rate)| format!("{words} {}/s", number::rate(rate)));
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
#[path = "watch_screen_tests.rs"]
mod tests;
