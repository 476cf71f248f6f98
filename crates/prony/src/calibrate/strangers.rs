//! CPU time that other programs used while a calibration ran.
//!
//! It reads `/proc/stat` and `/proc/self/stat` before and after. Invariant: what cannot be read is none, not 0.

/// Share of all CPUs that others may use before the table is doubted. A guess: on two CPUs a tenth of one of them.
const QUIET_MAX: f64 = 0.05;

/// Counters of CPU time at one moment, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticks {
    /// Of all CPUs, idle or not.
    all: u64,
    /// User, nice and system time of everybody, and what a hypervisor took away.
    busy: u64,
    /// User and system time of this process.
    own: u64,
}

impl Ticks {
    /// Now.
    pub fn read() -> Option<Self> {
        let text = |path| std::fs::read_to_string(path).ok();
        Self::parse(&text("/proc/stat")?, &text("/proc/self/stat")?)
    }

    fn parse(stat: &str, own: &str) -> Option<Self> {
        let cpu = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let times: Vec<u64> = cpu.split_whitespace().map_while(|word| word.parse().ok()).collect();
        // proc_stat(5): user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user time.
        let [user, nice, system, _, _, _, _, steal, ..] = times[..] else { return None };
        // proc_pid_stat(5): fields 14 and 15, of which the third follows the name in parentheses.
        let mut fields = own.rsplit_once(')')?.1.split_whitespace().skip(11);
        let own = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
        Some(Self { all: times.iter().take(8).sum(), busy: user + nice + system + steal, own })
    }

    /// Share of all CPUs that others used since `before`.
    pub fn others_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|ticks| *ticks > 0)?;
        let others = (self.busy - before.busy.min(self.busy)).saturating_sub(self.own.saturating_sub(before.own));
        Some(others as f64 / all as f64)
    }
}

/// What to say of it; none when it was quiet, or nobody knows.
pub(super) fn doubt(others: Option<f64>) -> Option<String> {
    let share = others.filter(|share| *share > QUIET_MAX)?;
    Some(format!(
        "Other programs used {:.0} % of the CPUs meanwhile, so these figures are doubtful: run it again when it is quiet.",
        share * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_everybody_but_us() {
        let own = |user, system| format!("7 (a) b) S 1 7 7 0 -1 4194304 10 0 0 0 {user} {system} 0 0 20 0 3 0 100");
        let before = Ticks::parse("cpu  10 0 10 100 0 5 5 0 0 0\ncpu0 1\n", &own(3, 2)).unwrap();
        assert_eq!(before, Ticks { all: 130, busy: 20, own: 5 });
        let after = Ticks::parse("cpu  30 5 30 200 0 10 10 5 0 0\n", &own(13, 12)).unwrap();
        assert_eq!(after.others_since(before), Some(30.0 / 160.0));
        assert_eq!(before.others_since(before), None, "no time passed");
        assert_eq!(Ticks::parse("intr 1\n", &own(1, 1)), None);
        assert_eq!(Ticks::parse("cpu  1 2 3\n", &own(1, 1)), None);
    }

    #[test]
    fn a_loud_machine_is_told() {
        assert!(doubt(Some(0.19)).unwrap().starts_with("Other programs used 19 % of the CPUs meanwhile"));
        assert_eq!((doubt(Some(0.02)), doubt(None)), (None, None));
    }

    #[test]
    fn this_machine_can_be_read() {
        assert!(Ticks::read().is_some());
    }
}
