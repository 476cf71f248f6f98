//! How fast the CPUs run: clock rate now and at most, and how often heat slowed them.
//!
//! Virtual machines mostly show none of it, which is no gap: as a virtual link has no speed. Invariant: now and at most
//! are of the same CPU and unit.

use crate::fact_file::{FactFile, read_once};
use crate::facts::Facts;
use crate::network::folder_names;
use crate::roots::Roots;
use crate::text::count;
use prony_model::metric as m;

/// Reader of clock rates.
#[derive(Debug)]
pub(crate) struct Clocks {
    cpus: Vec<Cpu>,
}

#[derive(Debug)]
struct Cpu {
    number: String,
    now: FactFile,
    throttles: FactFile,
    mhz_max: f64,
}

impl Clocks {
    pub(crate) fn new(roots: &Roots) -> Self {
        let folder = roots.sys.join("devices/system/cpu");
        let cpu = |name: String| {
            let number = name.strip_prefix("cpu").filter(|n| n.parse::<u32>().is_ok())?.to_string();
            let own = folder.join(&name);
            let most = read_once(&own.join("cpufreq/cpuinfo_max_freq")).ok().and_then(|t| count(t.trim()))?;
            Some(Cpu {
                number,
                now: FactFile::new(own.join("cpufreq/scaling_cur_freq")),
                throttles: FactFile::new(own.join("thermal_throttle/core_throttle_count")),
                mhz_max: most / 1e3,
            })
        };
        Self { cpus: folder_names(&folder).into_iter().filter_map(cpu).collect() }
    }

    pub(crate) fn read(&mut self, facts: &mut Facts, page: &mut Vec<u8>) {
        for cpu in &mut self.cpus {
            if let Some(text) = facts.text(&mut cpu.now, page, m::CPU_MHZ.name) {
                facts.put_some(&m::CPU_MHZ, &cpu.number, count(text.trim()).map(|khz| khz / 1e3));
                facts.put(&m::CPU_MHZ_MAX, &cpu.number, cpu.mhz_max);
            }
            if let Ok(text) = cpu.throttles.text(page) {
                facts.put_if_any(&m::CPU_THERMAL_THROTTLES, &cpu.number, count(text.trim()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn clock_rates_of_a_tree() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots { sys: dir.path().join("sys"), ..Roots::here() };
        let cpu = dir.path().join("sys/devices/system/cpu/cpu3");
        let mut bare = Facts::new("lb", 0);
        Clocks::new(&roots).read(&mut bare, &mut Vec::new());
        assert_eq!(bare.listing(), "", "a virtual machine has no clock rate to tell");
        for (file, text) in [
            ("cpufreq/scaling_cur_freq", "1200000\n"),
            ("cpufreq/cpuinfo_max_freq", "3000000\n"),
            ("thermal_throttle/core_throttle_count", "5\n"),
        ] {
            std::fs::create_dir_all(cpu.join(file).parent().unwrap()).unwrap();
            std::fs::write(cpu.join(file), text).unwrap();
        }
        let mut facts = Facts::new("lb", 0);
        Clocks::new(&roots).read(&mut facts, &mut Vec::new());
        expect![[r#"
            cpu.mhz [3] 1200
            cpu.mhz_max [3] 3000
            cpu.thermal_throttles [3] 5
        "#]]
        .assert_eq(&facts.listing());
    }
}
