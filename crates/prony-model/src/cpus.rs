//! Lists of CPUs, as people and the kernel write them: `0,2-3`.
//!
//! Which of them exist is for others to find out. Invariant: the CPUs of a list are in order, and each stands there once.

use crate::units::UnitError;
use std::fmt;
use std::str::FromStr;

/// CPUs by number. Text: `0,2-3`, never empty; in another order, or with a CPU twice, it means the same list.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CpuList(Vec<u32>);

impl CpuList {
    /// A text may name CPUs below this number only, so that a slip like `0-99999999` is an error and no list of that
    /// length. It is what sched_setaffinity(2) takes in a `cpu_set_t` (CPU_SETSIZE of glibc).
    pub const CPUS_MAX: u32 = 1024;

    /// The CPUs in order.
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Whether the CPU is in the list.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

impl FromStr for CpuList {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last && last < Self::CPUS_MAX).then_some(first..=last)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let ranges = ranges
            .ok_or_else(|| UnitError::new(text.trim(), "a list of CPUs: write numbers from 0 to 1023, like `0,2-3`"))?;
        Ok(ranges.into_iter().flatten().collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, run) in self.0.chunk_by(|cpu, next| cpu + 1 == *next).enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            match run {
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [only] => write!(f, "{comma}{only}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_and_the_kernel_write() {
        for (text, cpus) in [("1", &[1][..]), ("0,2-3\n", &[0, 2, 3]), ("3, 1-2,2", &[1, 2, 3])] {
            assert_eq!(text.parse::<CpuList>().unwrap().as_slice(), cpus, "{text}");
        }
    }

    #[test]
    fn says_how_a_list_is_written() {
        let error = "3-1\n".parse::<CpuList>().unwrap_err().to_string();
        assert_eq!(error, "`3-1` is not a list of CPUs: write numbers from 0 to 1023, like `0,2-3`");
        for wrong in ["", "a", "1,", "-1", "1-", "0-1024", "0-99999999", "0.5"] {
            assert!(wrong.parse::<CpuList>().is_err(), "{wrong}");
        }
        assert_eq!("1023".parse::<CpuList>().unwrap().as_slice(), [CpuList::CPUS_MAX - 1]);
    }

    #[test]
    fn prints_runs_as_ranges() {
        assert_eq!(CpuList::from_iter([8, 0, 1, 2, 5, 7, 7]).to_string(), "0-2,5,7-8");
        assert_eq!(CpuList::default().to_string(), "");
    }

    proptest! {
        #[test]
        fn lists_survive_printing(cpus in proptest::collection::btree_set(0..CpuList::CPUS_MAX, 1..50)) {
            let list: CpuList = cpus.iter().copied().collect();
            prop_assert_eq!(list.to_string().parse(), Ok(list.clone()));
            prop_assert_eq!(list.as_slice(), cpus.iter().copied().collect::<Vec<_>>());
            prop_assert!((0..CpuList::CPUS_MAX).all(|cpu| list.contains(cpu) == cpus.contains(&cpu)));
        }
        #[test]
        fn a_list_is_short_whatever_the_text(text in "[0-9,\\- ]{0,30}|\\PC*") {
            if let Ok(list) = text.parse::<CpuList>() {
                prop_assert!(!list.as_slice().is_empty() && list.as_slice().len() <= CpuList::CPUS_MAX as usize);
            }
        }
    }
}
