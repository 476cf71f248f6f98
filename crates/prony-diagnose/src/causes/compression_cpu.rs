//! # Compression takes the CPU
//!
//! The hop spends its CPU on compressing answers harder than it pays.
//!
//! ## What it sees
//! The share of the hop's CPU samples in compression libraries (zlib, brotli, zstd), or in functions of theirs that are
//! built into the server; the level that nginx's configuration asks for, or, where none is told, what compression costs
//! per byte that goes through.
//!
//! ## Why it limits
//! Levels above the first few cost several times the CPU for a few percent fewer bytes. Compression of the same document
//! is done anew for each request.
//!
//! ## Evidence
//! The share of samples times what the hop spends, as a share of the capacity of its CPUs, is the score.
//!
//! ## What it is not
//! Compression at a level up to 6, zlib's own choice: fewer bytes may be worth it. A full CPU is then an honest limit. A hop
//! with idle CPUs: then compression is only a part of the latency.
//!
//! ## Fix
//! A low level (`gzip_comp_level 1`), files that are compressed beforehand (`gzip_static`), a least length
//! (`gzip_min_length`). Knobs: `nginx.gzip_comp_level`, `nginx.gzip`.
//!
//! ## References
//! nginx `ngx_http_gzip_module`; zlib manual, compression levels.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_work_or, nginx_knob, predicted_gain, ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::profile::{Code, Profile};
use prony_model::metric::{IF_RX_BYTES, IF_TX_BYTES};
use prony_model::{Gap, KnobId, NginxDirective};

pub(super) const CAUSE: Cause = Cause {
    id: "compression-cpu",
    layer: Layer::Cpu,
    title: "compression takes the CPU",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("compression_cpu.rs"),
};

/// Compression by name.
const COMPRESSION: Code = Code {
    work: "compression",
    modules: &["libz.so", "libz-ng", "libbrotli", "libzstd", "libdeflate", "liblz4", "libsnappy"],
    functions: &[
        "deflate",
        "longest_match",
        "slide_hash",
        "compress_block",
        "fill_window",
        "Brotli",
        "ZSTD_",
        "compress/flate.",
        "miniz_oxide::deflate",
        "pglz_compress",
        "slz_",
    ],
};
/// Share of CPU samples from which compression matters. Cited: catalogue row 36 rules it out below 3 %.
const SHARE_MIN: f64 = 0.03;
/// Its origin.
const ORIGIN: &str = "cited: catalogue row 36 (below 3 % of the samples it is ruled out)";
/// Level up to which compression is a fair choice. Cited: the zlib manual calls level 6 the compromise between speed and
/// size, and takes it where none is asked for.
const LEVEL_FAIR: f64 = 6.0;
/// Its origin.
const LEVEL_ORIGIN: &str = "cited: zlib manual, level 6 is the compromise that it takes by itself";
/// Nanoseconds per byte from which a level that nobody told counts as high. Measured: JSON takes 15 to 21 ns per byte at
/// level 6 and 36 to 54 at level 9 on one core (AMD EPYC, zlib 1.2.13); the geometric mean of 18 and 44.
const NS_PER_BYTE: f64 = 28.0;
/// Its origin.
const PRICE_ORIGIN: &str = "measured: level 6 costs 15 to 21, level 9 costs 36 to 54";
/// What text shrinks by, where the bytes before compression did not come over the wire. A guess: JSON and HTML shrink to a
/// third or a quarter.
const SHRINKS_BY: f64 = 4.0;
/// What a low level costs of a high one. Measured: as [`NS_PER_BYTE`], 3 of 44, and what else is done for each byte.
const LOW_LEVEL_PART: f64 = 0.1;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let profile = Profile::of(hop)?;
    let part = profile.share_in(&COMPRESSION);
    let seen = profile.fact(COMPRESSION.work, part);
    if part < SHARE_MIN {
        return ruled_out(&seen, SHARE_MIN, ORIGIN, "it hardly compresses");
    }
    let price = hop.fact("compression ns / byte", "ns", |r| {
        let bytes = r.sum(&IF_RX_BYTES)?.max(SHRINKS_BY * r.sum(&IF_TX_BYTES)?);
        Ok(part * r.own_cpu()? * 1e9 / bytes.max(1.0))
    })?;
    let level = level(hop);
    match &level {
        Ok(level) if level.value <= LEVEL_FAIR => {
            return ruled_out(level, LEVEL_FAIR, LEVEL_ORIGIN, "it compresses at a fair level");
        }
        Err(_) if price.value < NS_PER_BYTE => {
            return ruled_out(&price, NS_PER_BYTE, PRICE_ORIGIN, "it compresses at a fair level");
        }
        Ok(_) | Err(_) => {}
    }
    let share = profile.limit_share(part)?;
    let claim = format!("{} spends {:.0} % of its CPU time on compression", hop.name, part * 100.0);
    Finding::new(seen, SHARE_MIN, ORIGIN, &claim, share)
        .and(level, "the level that its configuration asks for")
        .and(Ok(price), "compression at a high level costs so much for each byte")
        .and(profile.us_per_request(COMPRESSION.work, part), "what compression costs each request")
        .and(hop.fact("cpu us / request", "us", |r| r.cpu_us_per_request()), "what a request costs the hop")
        .mend(
            "compress at a low level (nginx: gzip_comp_level 1), compress files beforehand (gzip_static), and leave short \
             answers as they are (gzip_min_length)",
            nginx_knob(hop, KnobId::NginxDirective(NginxDirective::GzipCompLevel), "1"),
        )
        .gaining(predicted_gain(hop, share * (1.0 - LOW_LEVEL_PART)))
        .rising(profile.cpus(COMPRESSION.work, part))
        .tested_by(dose(hop)?)
        .fires()
}

/// The highest level that nginx's configuration asks for, when it is nginx that compresses and its file tells one.
fn level(hop: &Hop<'_>) -> Result<Fact, Gap> {
    let untold = || Gap::new("nginx.config.gzip_comp_level", hop.name, "its configuration tells no level");
    let on = hop.settings("nginx.config.gzip").any(|value| value == "on");
    let levels = hop.settings("nginx.config.gzip_comp_level").filter_map(|level| level.parse::<u32>().ok());
    let level = levels.max().filter(|_| on).ok_or_else(untold)?;
    Ok(Fact::across_levels(hop, "gzip_comp_level", f64::from(level)))
}

/// How work of the CPU that no knob takes away is tested.
pub(super) fn dose(hop: &Hop<'_>) -> Result<Dose, Gap> {
    cpu_work_or(hop, "its CPUs are not full, and no knob of prony takes the work away")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::metric::PROFILE_SAMPLES;
    use proptest::prelude::*;

    /// One request costs 63 us: at a share of 0.5 that is 28 ns per byte for 1.1 KB.
    fn lab(share: f64, bytes: f64) -> Lab {
        compressing(("[libz.so.1.2.13]", "libz.so.1.2.13"), share, bytes)
    }

    fn compressing((function, module): (&'static str, &'static str), share: f64, bytes: f64) -> Lab {
        let rate = 15_300.0 * bytes;
        Lab::healthy()
            .profiled("lb", &[(function, module, share)])
            .per_second("lb", &IF_RX_BYTES, "eth0", rate)
            .per_second("lb", &IF_TX_BYTES, "eth0", rate / 10.0)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "lb", &lab(0.8, 1_000.0)).unwrap();
        assert!((found.score - 0.776).abs() < 0.01, "{}", found.score);
        assert_eq!(found.dose, Dose::Cpu);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.8, 60_000.0)), 0.0, "level 1: under 1 ns per byte");
        assert_eq!(score(CAUSE.id, "lb", &lab(0.029, 10.0)), 0.0);
        assert!(score(CAUSE.id, "lb", &lab(0.031, 10.0)) > 0.0);
        let own_files = lab(0.8, 100.0).per_second("lb", &IF_TX_BYTES, "eth0", 15_300.0 * 10_000.0);
        let haproxy = compressing(("slz_rfc1951_encode", "haproxy"), 0.8, 1_000.0);
        assert!(score(CAUSE.id, "lb", &haproxy) > 0.7, "built into the server");
        assert_eq!(score(CAUSE.id, "lb", &own_files), 0.0, "what it read from its disk is told by what it sent");
    }

    #[test]
    fn a_level_that_is_told_decides() {
        let fires = |settings: &[(&str, &str)], bytes: f64| {
            let set =
                |lab: Lab, (name, value): &(&str, &str)| lab.setting("lb", &format!("nginx.config.{name}"), value);
            let run = settings.iter().fold(lab(0.8, bytes), set).run();
            matches!((CAUSE.check)(&Hop { run: &run, name: "lb" }), Ok(Judgement::Fires(_)))
        };
        let (dear, cheap) = (1_000.0, 60_000.0);
        assert!(!fires(&[("gzip", "on"), ("gzip_comp_level", "6")], dear), "zlib's own choice");
        assert!(fires(&[("gzip", "on"), ("gzip_comp_level", "7")], cheap));
        assert!(fires(&[("gzip", "off | on"), ("gzip_comp_level", "1 | 9")], cheap), "the highest of several");
        assert!(fires(&[("gzip_comp_level", "1")], dear), "the level of a gzip that is off says nothing");
        assert!(!fires(&[], cheap) && fires(&[], dear), "untold: the price decides");
    }

    #[test]
    fn without_a_profile_it_stays_open() {
        let blind = Lab::healthy().without("lb", &PROFILE_SAMPLES).run();
        assert!((CAUSE.check)(&Hop { run: &blind, name: "lb" }).is_err());
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1.0, b in 0.0f64..1.0) {
            let of = |share: f64| score(CAUSE.id, "lb", &lab(share, 500.0));
            prop_assert!(of(a.min(b)) <= of(a.max(b)) + 1e-9);
        }
    }
}
