//! The master process of nginx: which program and configuration it runs, `nginx -t`, and a reload that is waited for.
//!
//! Changes no file. Invariant: a reload is asked for only after nginx itself accepted the configuration.

use crate::error::TuneError;
use crate::{Context, Roots, process, sys};
use prony_model::ProcessRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long new workers may take to appear. A guess.
const WORKERS_APPEAR_MAX: Duration = Duration::from_secs(10);
/// How long old workers may finish what they serve. nginx closes their idle connections itself. A guess.
const WORKERS_FINISH_MAX: Duration = Duration::from_secs(2);
/// Between two looks at the list of processes. A guess: short against the second that a trial takes at least.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A running nginx, and how to ask its program about a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Master {
    /// Pid of the master process.
    pub pid: u32,
    /// When it started, see [`process::start_ticks`].
    pub start_ticks: u64,
    /// The program.
    pub program: PathBuf,
    /// The main configuration file.
    pub config: PathBuf,
    /// `-p`, when it was given.
    pub prefix: Option<String>,
    /// `-g`, when it was given.
    pub globals: Option<String>,
}

impl Master {
    /// Finds the master among the processes of a host.
    pub fn find(ctx: &Context<'_>) -> Result<Self, TuneError> {
        let proc = &ctx.roots.proc;
        let is_master = |pid: &&u32| process::title(proc, **pid).starts_with("nginx: master process");
        let Some(pid) = ctx.pids.iter().find(is_master).copied() else { return Err(no_master(ctx)) };
        let start_ticks = process::start_ticks(proc, pid).ok_or_else(|| no_master(ctx))?;
        let exe = proc.join(pid.to_string()).join("exe");
        let program = std::fs::read_link(&exe).map_err(TuneError::io("read", &exe))?;
        // A program that a package upgrade replaced keeps running; its successor has the same path.
        let program = PathBuf::from(program.to_string_lossy().trim_end_matches(" (deleted)"));
        let flags = Flags::parse(&process::title(proc, pid));
        let mut master =
            Self { pid, start_ticks, program, config: PathBuf::new(), prefix: flags.prefix, globals: flags.globals };
        let given = ctx.host.config.clone().or(flags.config);
        let config = match given {
            Some(config) => config,
            None => master.built_with("--conf-path=")?,
        };
        master.config = match &master.prefix {
            Some(prefix) => Path::new(prefix).join(config),
            None if Path::new(&config).is_absolute() => config.into(),
            None => Path::new(&master.built_with("--prefix=")?).join(config),
        };
        Ok(master)
    }

    /// A value from `nginx -V`, like that of `--conf-path=`.
    pub fn built_with(&self, option: &str) -> Result<String, TuneError> {
        let text = self.version()?;
        let value = text.split_whitespace().find_map(|word| word.strip_prefix(option));
        value.map(str::to_string).ok_or_else(|| {
            TuneError::missing(
                format!("`{} -V` does not say {option}", self.program.display()),
                "name the configuration file as `config` of the host",
            )
        })
    }

    /// What `nginx -V` prints.
    pub fn version(&self) -> Result<String, TuneError> {
        let out = prony_tool::command(&self.program).arg("-V").output().map_err(TuneError::io("run", &self.program))?;
        Ok(String::from_utf8_lossy(&out.stderr).into_owned())
    }

    /// Asks nginx whether it would accept the configuration as it is on disk now.
    pub fn test(&self) -> Result<(), TuneError> {
        let mut command = prony_tool::command(&self.program);
        command.arg("-t").arg("-q").arg("-c").arg(&self.config);
        if let Some(prefix) = &self.prefix {
            command.arg("-p").arg(prefix);
        }
        if let Some(globals) = &self.globals {
            command.arg("-g").arg(globals);
        }
        let out = command.output().map_err(TuneError::io("run", &self.program))?;
        if out.status.success() {
            return Ok(());
        }
        let words: Vec<String> = std::iter::once(command.get_program())
            .chain(command.get_args().filter(|a| *a != "-q"))
            .map(|w| w.to_string_lossy().into_owned())
            .collect();
        let message = String::from_utf8_lossy(&out.stderr);
        let said = message.lines().filter(|l| l.contains("[emerg]")).collect::<Vec<_>>().join("; ");
        let message = if said.is_empty() { message.trim().to_string() } else { said };
        Err(TuneError::Rejected { message, command: words.join(" ") })
    }

    /// Whether this very process still runs.
    pub fn is_alive(&self, roots: &Roots) -> bool {
        process::start_ticks(&roots.proc, self.pid) == Some(self.start_ticks)
    }

    /// This master, or the one that was started since with the same flags; none when none runs.
    pub fn successor(&self, roots: &Roots) -> Option<Self> {
        if self.is_alive(roots) {
            return Some(self.clone());
        }
        let masters = process::everyone(&roots.proc).into_iter().map(|(pid, _)| pid);
        let same = masters.filter_map(|pid| {
            let title = process::title(&roots.proc, pid);
            let flags = Flags::parse(title.strip_prefix("nginx: master process")?);
            let is_same = flags.prefix == self.prefix
                && flags.globals == self.globals
                && flags.config.as_ref().is_none_or(|config| self.config.ends_with(config));
            let start_ticks = process::start_ticks(&roots.proc, pid)?;
            is_same.then(|| Self { pid, start_ticks, ..self.clone() })
        });
        { same }.next()
    }

    /// Worker processes that serve new connections.
    pub fn workers(&self, roots: &Roots) -> BTreeSet<u32> {
        self.children(roots).into_iter().filter(|(_, leaving)| !leaving).map(|(pid, _)| pid).collect()
    }

    /// Worker processes, and whether each is shutting down.
    fn children(&self, roots: &Roots) -> Vec<(u32, bool)> {
        let children = process::children(&roots.proc, self.pid).into_iter();
        children
            .filter_map(|pid| {
                let title = process::title(&roots.proc, pid);
                title.starts_with("nginx: worker process").then(|| (pid, title.contains("shutting down")))
            })
            .collect()
    }

    /// Tests the configuration, makes nginx read it, and waits until new workers serve and the old ones are gone.
    /// Old workers that still serve after 2 s are ended. Returns notes about what was unusual.
    pub fn reload(&self, roots: &Roots) -> Result<Vec<String>, TuneError> {
        self.test()?;
        let old: BTreeSet<u32> = self.children(roots).into_iter().map(|(pid, _)| pid).collect();
        sys::signal(self.pid, libc::SIGHUP).map_err(|e| self.gone(&e.to_string()))?;
        let appeared = wait(WORKERS_APPEAR_MAX, || self.workers(roots).difference(&old).next().is_some());
        if !appeared {
            let why = if self.is_alive(roots) { "no new worker appeared; its error log says why" } else { "it ended" };
            return Err(self.gone(why));
        }
        let left = |of: &BTreeSet<u32>| -> Vec<(u32, bool)> {
            self.children(roots).into_iter().filter(|(pid, _)| of.contains(pid)).collect()
        };
        if wait(WORKERS_FINISH_MAX, || left(&old).is_empty()) {
            return Ok(Vec::new());
        }
        let late: Vec<u32> = left(&old).into_iter().filter(|(_, leaving)| *leaving).map(|(pid, _)| pid).collect();
        for pid in &late {
            // It may have ended by itself since the look; then there is nothing to end.
            sys::signal(*pid, libc::SIGTERM).ok();
        }
        wait(WORKERS_FINISH_MAX, || left(&old).is_empty());
        let seconds = WORKERS_FINISH_MAX.as_secs();
        Ok(vec![format!("{} old workers of nginx still served requests after {seconds} s and were ended", late.len())])
    }

    fn gone(&self, why: &str) -> TuneError {
        TuneError::missing(
            format!("nginx (master process {}) did not take the configuration: {why}", self.pid),
            format!("look at its error log, then start it with {}", self.config.display()),
        )
    }
}

fn no_master(ctx: &Context<'_>) -> TuneError {
    let named = match &ctx.host.process {
        Some(ProcessRef::PidFile(file)) => format!("the process that {file} names"),
        Some(_) | None => format!("the {} processes of the host", ctx.pids.len()),
    };
    TuneError::missing(
        format!("no master process of nginx runs on {}: looked at {named}", ctx.name),
        "start nginx, or correct `process` of this host in the stack file (a pid file may be stale)",
    )
}

/// Polls until something holds or the time is over; whether it held.
pub fn wait(at_most: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + at_most;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Flags of nginx's command line. Its title keeps them, but joined by blanks, so a value reaches to the next flag.
#[derive(Debug, Default, PartialEq, Eq)]
struct Flags {
    config: Option<String>,
    prefix: Option<String>,
    globals: Option<String>,
}

impl Flags {
    fn parse(title: &str) -> Self {
        let mut flags = Self::default();
        let mut current: Option<(char, Vec<&str>)> = None;
        for word in title.split(' ').chain(["-"]) {
            if let Some(flag) = word.strip_prefix('-') {
                if let Some((name, value)) = current.take() {
                    flags.set(name, value.join(" ").trim().to_string());
                }
                current = flag.chars().next().map(|name| (name, vec![&flag[name.len_utf8()..]]));
            } else if let Some((_, value)) = &mut current {
                value.push(word);
            }
        }
        flags
    }

    fn set(&mut self, name: char, value: String) {
        match name {
            'c' => self.config = Some(value),
            'p' => self.prefix = Some(value),
            'g' => self.globals = Some(value),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_flags_of_a_title() {
        let flags =
            Flags::parse("nginx: master process /usr/sbin/nginx -g daemon on; master_process on; -c/a b/n.conf -p /x");
        assert_eq!(flags.globals.as_deref(), Some("daemon on; master_process on;"));
        assert_eq!(flags.config.as_deref(), Some("/a b/n.conf"));
        assert_eq!(flags.prefix.as_deref(), Some("/x"));
        assert_eq!(Flags::parse("nginx: master process nginx"), Flags::default());
    }

    #[test]
    fn a_missing_nginx_names_the_pid_file() {
        let host = prony_model::Host { process: Some(ProcessRef::PidFile("/run/x.pid".into())), ..Default::default() };
        let ctx = Context::local("lb", &host, vec![u32::MAX]);
        let error = Master::find(&ctx).unwrap_err().to_string();
        assert_eq!(
            error,
            "no master process of nginx runs on lb: looked at the process that /run/x.pid names; \
             start nginx, or correct `process` of this host in the stack file (a pid file may be stale)"
        );
    }
}
