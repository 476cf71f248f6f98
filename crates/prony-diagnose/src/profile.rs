//! Reads the CPU profile that the deep look took of a hop: which part of its CPU time went where.
//!
//! It judges nothing. The profile is one of the workload as written, so its shares are those of the level `at`.
//! Invariant: without a profile, or with one of a few samples, there is a gap; a function that is not listed took less than
//! 0.2 %.

use crate::cause::work_share;
use crate::facts::{Fact, Hop};
use prony_model::metric::{PROFILE_MODULE, PROFILE_SAMPLES, PROFILE_SELF, PROFILE_TOTAL};
use prony_model::{Gap, Level, Metric};

/// Samples below which shares mean nothing. 100 samples tell a share of 10 % to 6 points (2 standard errors of a binomial
/// share), which is as coarse as a cause can bear.
const SAMPLES_MIN: f64 = 100.0;

/// The profile of a hop.
#[derive(Clone, Copy, Debug)]
pub struct Profile<'a> {
    hop: Hop<'a>,
}

/// Code that does one kind of work, by the beginnings of names: of libraries, and of functions, for programs that have the
/// code built in.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// What it does, as in `spends 12 % of its CPU time on ...`.
    pub work: &'static str,
    /// Beginnings of file names of libraries.
    pub modules: &'static [&'static str],
    /// Beginnings of names of functions.
    pub functions: &'static [&'static str],
}

impl<'a> Profile<'a> {
    /// The profile of a hop, if one was taken that tells something.
    pub fn of(hop: &Hop<'a>) -> Result<Self, Gap> {
        let samples = hop.look(&PROFILE_SAMPLES, "")?;
        if samples < SAMPLES_MIN {
            let reason = format!("{samples:.0} samples are too few to tell shares; the hop hardly ran");
            return Err(Gap::new(PROFILE_SAMPLES.name, hop.name, reason));
        }
        Ok(Self { hop: *hop })
    }

    /// Share of the hop's CPU time in this code itself: by library or by function, whichever finds more of it.
    pub fn share_in(&self, code: &Code) -> f64 {
        let starts = |names: &'static [&'static str]| move |item: &str| names.iter().any(|name| item.starts_with(name));
        let modules = self.sum(&PROFILE_MODULE, starts(code.modules));
        modules.max(self.sum(&PROFILE_SELF, starts(code.functions)))
    }

    /// Whether any of this code was seen, or was the caller of what was.
    pub fn has(&self, code: &Code) -> bool {
        self.share_in(code) > 0.0
            || self.sum(&PROFILE_TOTAL, |item| code.functions.iter().any(|name| item.starts_with(name))) > 0.0
    }

    /// Share of functions without a name, in files whose bracketed names begin so.
    pub fn share_unnamed(&self, files: &[&str]) -> f64 {
        self.sum(&PROFILE_SELF, |item| files.iter().any(|file| item.starts_with(file)))
    }

    /// Share in functions that are called from one of these, or are one of these. Each must not be called by another of
    /// them.
    pub fn share_below(&self, functions: &[&str]) -> f64 {
        self.sum(&PROFILE_TOTAL, |item| functions.contains(&item))
    }

    /// The greatest of the shares in functions that are called from one of these, or are that one. They may call each other.
    pub fn most_below(&self, functions: &[&str]) -> f64 {
        functions.iter().map(|function| self.share_below(&[function])).fold(0.0, f64::max)
    }

    /// Share of one library.
    pub fn share_of_module(&self, module: &str) -> f64 {
        self.sum(&PROFILE_MODULE, |item| item == module)
    }

    /// The libraries or functions with the greatest shares; what stands for functions without a name is left out.
    pub fn hottest(&self, metric: &Metric, count: usize) -> Vec<(&'a str, f64)> {
        let share = |item| self.hop.look(metric, item).unwrap_or(0.0);
        let named = self.hop.items(metric).into_iter().filter(|item| !item.starts_with('['));
        let mut all: Vec<(&str, f64)> = named.map(|item| (item, share(item))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(count);
        all
    }

    /// A share as a fact; the profile has no other levels to compare with.
    pub fn fact(&self, work: &str, share: f64) -> Fact {
        Fact { unit: "share", ..Fact::across_levels(&self.hop, &format!("share of CPU samples: {work}"), share) }
    }

    /// The same in CPU time of each request.
    pub fn us_per_request(&self, name: &str, share: f64) -> Result<Fact, Gap> {
        let us = share * self.hop.at(Level::At)?.cpu_us_per_request()?;
        Ok(Fact { unit: "us", ..Fact::across_levels(&self.hop, &format!("cpu us / request: {name}"), us) })
    }

    /// CPUs that this share of the hop's work takes; it rises with the load.
    pub fn cpus(&self, work: &str, share: f64) -> Result<Fact, Gap> {
        self.hop.fact(format!("CPUs spent on {work}"), "CPUs", |r| Ok(share * r.own_cpu()?))
    }

    /// Share of what limits that this share of the hop's CPU time explains.
    pub fn limit_share(&self, share: f64) -> Result<f64, Gap> {
        work_share(&self.hop, share * self.hop.at(Level::At)?.cpu_us_per_request()?)
    }

    fn sum(&self, metric: &Metric, matches: impl Fn(&str) -> bool) -> f64 {
        let items = self.hop.items(metric).into_iter().filter(|item| matches(item));
        let sum: f64 = items.filter_map(|item| self.hop.look(metric, item).ok()).sum();
        sum.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lab;

    const ZLIB: Code = Code { work: "compression", modules: &["libz.so"], functions: &["deflate"] };

    fn check(lab: &Lab, read: impl Fn(Profile<'_>) -> f64) -> Result<f64, String> {
        let run = lab.run();
        let hop = Hop { run: &run, name: "lb" };
        Profile::of(&hop).map(read).map_err(|gap| gap.reason)
    }

    #[test]
    fn code_is_found_by_library_or_by_function() {
        let lab = Lab::healthy()
            .profiled("lb", &[("deflate_fast", "libz.so.1.2.13", 0.2), ("[libz.so.1.2.13]", "libz.so.1.2.13", 0.3)]);
        assert_eq!(check(&lab, |p| p.share_in(&ZLIB)), Ok(0.5));
        let built_in = Lab::healthy().profiled("lb", &[("deflate_fast", "haproxy", 0.25), ("main", "haproxy", 0.5)]);
        assert_eq!(check(&built_in, |p| p.share_in(&ZLIB)), Ok(0.25));
        assert_eq!(check(&built_in, |p| p.share_of_module("haproxy")), Ok(0.75));
        assert_eq!(check(&built_in, |p| p.hottest(&PROFILE_SELF, 1)[0].1), Ok(0.5));
    }

    #[test]
    fn no_profile_is_a_gap() {
        let none = Lab::healthy().without("lb", &PROFILE_SAMPLES);
        assert!(check(&none, |_| 0.0).unwrap_err().contains("no close look"));
        let few = Lab::healthy().profiled("lb", &[]).gauge("lb", &PROFILE_SAMPLES, "", 99.0);
        assert!(check(&few, |_| 0.0).unwrap_err().contains("99 samples"));
    }
}
