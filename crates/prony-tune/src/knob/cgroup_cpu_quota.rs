//! `cgroup.cpu_quota`: how much CPU time the control group of the host's processes may use, v1 and v2.
//!
//! Keeps the period that is set. Never touches the root group, nor a group that prony itself runs in.

use super::{Disruption, Effect, KnobInfo, Plan, expect_read};
use crate::error::TuneError;
use crate::step::{Form, KernelFile, Root, Step, group_pids};
use crate::{Context, Roots, process};
use prony_model::cgroup::{Membership, Version};
use prony_model::metric::CGROUP_THROTTLED;
use std::collections::BTreeSet;
use std::fs;

pub(super) const KNOB: KnobInfo = KnobInfo {
    name: "cgroup.cpu_quota",
    value: "CPUs, like `0.8` or `2`, or `max`",
    disruption: Disruption::Live,
    risk: "Too low a quota stops all threads of the group until the next period: latency grows in steps of up to 100 ms.",
    effect: Effect { metric: &CGROUP_THROTTLED, how: "stops growing when the quota is raised enough" },
    doc: "cpu.cfs_quota_us (v1) or cpu.max (v2) of the group that the main process is in; the period stays. A quota of a \
          group further up still holds.",
    read,
    plan,
    check,
};

/// Smallest quota that the kernel takes (`min_cfs_quota_period` in kernel/sched/core.c, 1 ms).
const QUOTA_US_MIN: u64 = 1_000;

/// A control group and its quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// Path below the root of control groups, with the controller's folder: `cpu/faults/lb`, or
    /// `system.slice/nginx.service`.
    pub dir: String,
    /// Its folder of the mount: `cpu`, `cpu,cpuacct`, `unified` or empty.
    mount: String,
    version: Version,
    /// None: no limit.
    quota_us: Option<u64>,
    period_us: u64,
}

impl Quota {
    /// The group of the host's main process.
    pub fn find(ctx: &Context<'_>) -> Result<Self, TuneError> {
        let main = ctx.pids.first().copied().ok_or_else(|| {
            TuneError::missing(
                format!("{} has no processes", ctx.name),
                "start its server, or correct `process` of this host in the stack file",
            )
        })?;
        Self::of(&ctx.roots, main)
    }

    /// The group of a process.
    pub fn of(roots: &Roots, pid: u32) -> Result<Self, TuneError> {
        let file = roots.proc.join(pid.to_string()).join("cgroup");
        let text = fs::read_to_string(&file).map_err(TuneError::io("read", &file))?;
        let (mount, path, version) = locate(roots, &text).ok_or_else(|| {
            TuneError::missing(
                format!("process {pid} is under no cpu controller ({})", file.display()),
                "mount the cgroup v1 cpu controller, or enable `cpu` in cgroup.subtree_control (v2)",
            )
        })?;
        let dir = [mount.as_str(), path.trim_matches('/')]
            .into_iter()
            .filter(|p| !p.is_empty())
            .collect::<Vec<_>>()
            .join("/");
        let mut quota = Self { dir, mount, version, quota_us: None, period_us: 100_000 };
        quota.load(roots)?;
        Ok(quota)
    }

    fn load(&mut self, roots: &Roots) -> Result<(), TuneError> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let read = |name: &str| {
            let file = roots.cgroup.join(&self.dir).join(name);
            fs::read_to_string(&file).map_err(TuneError::io("read", &file))
        };
        match self.version {
            Version::V1 => {
                // -1 is no number here, and means no limit.
                self.quota_us = number(&read("cpu.cfs_quota_us")?);
                self.period_us = number(&read("cpu.cfs_period_us")?).unwrap_or(self.period_us);
            }
            // The root group of v2 has no such file, and no limit.
            Version::V2 if self.is_root() => {}
            Version::V2 => {
                let text = read("cpu.max")?;
                let (quota, period) = text.trim().split_once(' ').unwrap_or((text.trim(), "100000"));
                (self.quota_us, self.period_us) = (number(quota), number(period).unwrap_or(self.period_us));
            }
        }
        Ok(())
    }

    /// CPUs; none: no limit.
    pub fn cpus(&self) -> Option<f64> {
        self.quota_us.map(|quota| quota as f64 / self.period_us as f64)
    }

    /// The period of the limit; none: no limit.
    pub fn period_us_in_force(&self) -> Option<u64> {
        self.quota_us.map(|_| self.period_us)
    }

    /// As a person writes it.
    pub fn text(&self) -> String {
        self.cpus().map_or("max".to_string(), |cpus| cpus.to_string())
    }

    pub fn is_root(&self) -> bool {
        self.dir == self.mount
    }

    /// Whether nobody but these processes and those that they fork is in the group or below it, and it may have a quota at all.
    /// `family` is who was there before this call: some of a server that forks for each connection have ended since, others were born.
    pub fn is_theirs_alone(&self, ctx: &Context<'_>, family: &BTreeSet<u32>) -> Result<bool, TuneError> {
        let dir = ctx.roots.cgroup.join(&self.dir);
        let below = fs::read_dir(&dir).map_err(TuneError::io("list", &dir))?;
        let has_children = below.filter_map(Result::ok).any(|e| e.path().is_dir());
        let inside: BTreeSet<u32> = group_pids(&dir)?.into_iter().collect();
        let family_now = process::with_descendants(&ctx.roots.proc, &ctx.pids);
        let lives = |pid: &u32| process::start_ticks(&ctx.roots.proc, *pid).is_some();
        let has_stranger = inside.iter().any(|pid| !family.contains(pid) && !family_now.contains(pid) && lives(pid));
        let is_elsewhere = family.difference(&inside).any(lives);
        Ok(!self.is_root() && !has_children && !has_stranger && !is_elsewhere)
    }

    /// Where a group for the same processes can be made. v1: below, so that the present limits still hold. v2 allows no
    /// processes beside groups, so there it is a neighbour.
    pub fn child_dir(&self, name: &str) -> String {
        let parent = match self.version {
            Version::V1 => self.dir.as_str(),
            Version::V2 if self.is_root() => self.mount.as_str(),
            Version::V2 => self.dir.rsplit_once('/').map_or("", |(parent, _)| parent),
        };
        format!("{parent}/{name}").trim_start_matches('/').to_string()
    }

    /// Files of a group and what they hold with a quota. The period first: the kernel checks their ratio at each write.
    pub fn settings(&self, quota_us: u64, period_us: u64) -> Vec<(String, String)> {
        match self.version {
            Version::V1 => vec![
                ("cpu.cfs_period_us".to_string(), period_us.to_string()),
                ("cpu.cfs_quota_us".to_string(), quota_us.to_string()),
            ],
            Version::V2 => vec![("cpu.max".to_string(), format!("{quota_us} {period_us}"))],
        }
    }

    /// Steps from what is set now; files that need no change are left out.
    pub fn steps_to(&self, quota_us: u64, period_us: u64) -> Vec<Step> {
        self.steps(self.settings(quota_us, period_us))
    }

    fn steps(&self, settings: Vec<(String, String)>) -> Vec<Step> {
        let file = |(name, new): (String, String)| {
            let quota = self.quota_us.map(|q| q.to_string());
            let old = match name.as_str() {
                "cpu.cfs_period_us" => self.period_us.to_string(),
                "cpu.cfs_quota_us" => quota.unwrap_or("-1".to_string()),
                _ => format!("{} {}", quota.unwrap_or("max".to_string()), self.period_us),
            };
            KernelFile { root: Root::Cgroup, path: format!("{}/{name}", self.dir), old, new, form: Form::Words }
        };
        settings.into_iter().map(file).filter(|step| step.old != step.new).map(Step::KernelFile).collect()
    }

    fn unlimited(&self) -> Vec<Step> {
        let settings = match self.version {
            Version::V1 => ("cpu.cfs_quota_us".to_string(), "-1".to_string()),
            Version::V2 => ("cpu.max".to_string(), format!("max {}", self.period_us)),
        };
        self.steps(vec![settings])
    }
}

/// The mount's folder, the path within it and the version, from the lines of /proc/PID/cgroup.
fn locate(roots: &Roots, lines: &str) -> Option<(String, String, Version)> {
    let groups = Membership::all(lines);
    if let Some(group) = groups.iter().find(|group| group.controllers.iter().any(|c| c == "cpu")) {
        let joined = group.controllers.join(",");
        let mount = [joined.as_str(), "cpu"].into_iter().find(|m| roots.cgroup.join(m).is_dir())?;
        return Some((mount.to_string(), group.path.clone(), Version::V1));
    }
    let path = &groups.iter().find(|group| group.controllers.is_empty())?.path;
    let mount = ["", "unified"].into_iter().find(|m| roots.cgroup.join(m).join("cgroup.controllers").exists())?;
    let dir = roots.cgroup.join(mount).join(path.trim_matches('/'));
    let controllers = fs::read_to_string(dir.join("cgroup.controllers")).ok()?;
    controllers.split_whitespace().any(|c| c == "cpu").then(|| (mount.to_string(), path.clone(), Version::V2))
}

fn read(ctx: &Context<'_>, _: &str) -> Result<String, TuneError> {
    Ok(Quota::find(ctx)?.text())
}

fn plan(ctx: &Context<'_>, _: &str, value: &str) -> Result<Plan, TuneError> {
    let present = Quota::find(ctx)?;
    let steps = match cpus(value)? {
        None => present.unlimited(),
        Some(cpus) => {
            let quota_us = ((cpus * present.period_us as f64).round() as u64).max(QUOTA_US_MIN);
            present.steps_to(quota_us, present.period_us)
        }
    };
    if steps.is_empty() {
        return Err(TuneError::Unchanged { knob: KNOB.name.to_string(), value: present.text() });
    }
    if present.is_root() {
        return Err(TuneError::missing(
            format!("the processes of {} are in the root control group, which has no quota", ctx.name),
            "start the server in a control group of its own (a systemd service has one)",
        ));
    }
    if Quota::of(&ctx.roots, std::process::id()).is_ok_and(|ours| ours.dir == present.dir) {
        return Err(TuneError::missing(
            format!("the processes of {} share the control group {} with prony itself", ctx.name, present.dir),
            "start the server in a control group of its own (a systemd service has one)",
        ));
    }
    let permanent = match cpus(value)? {
        Some(cpus) => {
            format!("CPUQuota={:.0}% in the service's systemd unit, or the container's CPU limit", cpus * 100.0)
        }
        None => "remove CPUQuota= from the service's systemd unit, or the container's CPU limit".to_string(),
    };
    Ok(Plan { before: present.text(), steps, reload: None, permanent })
}

fn check(ctx: &Context<'_>, _: &str, value: &str) -> Result<(), TuneError> {
    let now = Quota::find(ctx)?;
    let near = match (now.cpus(), cpus(value)?) {
        // A quota is whole microseconds, and never below 1 ms.
        (Some(now_cpus), Some(want)) => (now_cpus - want).abs() * now.period_us as f64 <= QUOTA_US_MIN as f64,
        (now, want) => now == want,
    };
    if near { Ok(()) } else { expect_read(KNOB.name, value, &now.text()) }
}

/// None: no limit.
fn cpus(value: &str) -> Result<Option<f64>, TuneError> {
    if value == "max" {
        return Ok(None);
    }
    // 4096 CPUs: more than any machine that we know of.
    let cpus = value.parse::<f64>().ok().filter(|cpus| *cpus > 0.0 && *cpus <= 4096.0);
    cpus.map(Some).ok_or_else(|| TuneError::value(KNOB.name, value, "a number of CPUs like `0.8`, or `max`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(files: &[(&str, &str)]) -> (tempfile::TempDir, Roots) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let roots = Roots { proc: dir.path().join("proc"), sys: dir.path().join("sys"), cgroup: dir.path().join("cg") };
        (dir, roots)
    }

    #[test]
    fn finds_v1_where_controllers_share_a_mount() {
        let (_dir, roots) = roots(&[
            ("proc/7/cgroup", "5:memory:/m\n4:cpu,cpuacct:/faults/lb\n0::/u\n"),
            ("cg/cpu,cpuacct/faults/lb/cpu.cfs_quota_us", "80000\n"),
            ("cg/cpu,cpuacct/faults/lb/cpu.cfs_period_us", "100000\n"),
        ]);
        let quota = Quota::of(&roots, 7).unwrap();
        assert_eq!((quota.dir.as_str(), quota.text().as_str()), ("cpu,cpuacct/faults/lb", "0.8"));
        assert_eq!(quota.child_dir("x"), "cpu,cpuacct/faults/lb/x");
        assert_eq!(quota.steps_to(80_000, 100_000), []);
    }

    #[test]
    fn a_group_is_theirs_alone_also_while_they_fork_and_end() {
        let stat = |state: &str, parent: u32| format!("1 (pg) {state} {parent} {}99 0", "0 ".repeat(17));
        let alone = |inside: &str| {
            let (_dir, roots) = roots(&[
                ("proc/7/cgroup", "4:cpu:/db\n"),
                ("proc/7/stat", &stat("S", 1)),
                ("proc/20/stat", &stat("S", 7)),
                ("proc/21/stat", &stat("Z", 7)),
                ("proc/30/stat", &stat("S", 1)),
                ("cg/cpu/db/cpu.cfs_quota_us", "-1\n"),
                ("cg/cpu/db/cpu.cfs_period_us", "100000\n"),
                ("cg/cpu/db/cgroup.procs", inside),
            ]);
            let host = prony_model::Host::default();
            let ctx = Context { name: "db", host: &host, roots, pids: vec![7], place: Default::default() };
            // 18 has ended since it was listed, and 20 is born.
            Quota::find(&ctx).unwrap().is_theirs_alone(&ctx, &BTreeSet::from([7, 18, 21])).unwrap()
        };
        assert!(alone("7\n20\n") && alone("7\n18\n20\n21\n") && alone("7\n"));
        assert!(!alone("7\n20\n30\n"), "30 is nobody's child");
        assert!(!alone("20\n"), "7 is elsewhere");
    }

    #[test]
    fn finds_v2_and_keeps_its_period() {
        let (_dir, roots) = roots(&[
            ("proc/7/cgroup", "0::/system.slice/nginx.service\n"),
            ("cg/cgroup.controllers", "cpu io\n"),
            ("cg/system.slice/nginx.service/cgroup.controllers", "cpu\n"),
            ("cg/system.slice/nginx.service/cpu.max", "max 50000\n"),
        ]);
        let quota = Quota::of(&roots, 7).unwrap();
        assert_eq!((quota.text().as_str(), quota.is_root()), ("max", false));
        assert_eq!(quota.child_dir("x"), "system.slice/x");
        assert_eq!(quota.settings(40_000, 50_000), [("cpu.max".to_string(), "40000 50000".to_string())]);
    }

    #[test]
    fn no_controller_is_an_error() {
        let (_dir, roots) = roots(&[("proc/7/cgroup", "0::/\n"), ("cg/unified/cgroup.controllers", "hugetlb\n")]);
        assert!(Quota::of(&roots, 7).unwrap_err().to_string().contains("is under no cpu controller"));
    }

    #[test]
    fn values() {
        assert_eq!(cpus("max").unwrap(), None);
        assert_eq!(cpus("0.8").unwrap(), Some(0.8));
        for wrong in ["0", "-1", "NaN", "inf", "80%", ""] {
            assert!(cpus(wrong).is_err(), "{wrong}");
        }
    }
}
