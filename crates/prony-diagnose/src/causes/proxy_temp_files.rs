//! # Proxy temp files
//!
//! Answers do not fit into the proxy's buffers, so it writes them to temporary files and reads them back.
//!
//! ## What it sees
//! Lines of the error log that say "buffered to a temporary file", per request; bytes that the hop writes to files.
//!
//! ## Why it limits
//! Each such answer makes, fills, reads and removes a file: system calls, copies, and sometimes a disk.
//!
//! ## Evidence
//! Files per request at the price of making one, and the bytes that go through them at the price of a copy, as a share
//! of what limits.
//!
//! ## What it is not
//! Uploads that are kept in files, and logs: they have lines and writes of their own.
//!
//! ## Fix
//! `proxy_buffers` and `proxy_buffer_size` larger than the answers, or `proxy_max_temp_file_size 0` (knob
//! `nginx.proxy_max_temp_file_size`).
//!
//! ## References
//! nginx: ngx_http_proxy_module proxy_buffers, proxy_max_temp_file_size.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, nginx_knob, predicted_gain, removal_or, ruled_out,
};
use crate::facts::Hop;
use crate::logs::share_of_limit;
use prony_model::metric::{ERROR_LOG_TEMP_FILE, IF_TX_BYTES, PRICE_LOG_OPEN, PROC_DISK_SLEEP, PROC_DISK_WRITTEN};
use prony_model::{Gap, KnobId, Level, NginxDirective};

pub(super) const CAUSE: Cause = Cause {
    id: "proxy-temp-files",
    layer: Layer::Logs,
    title: "proxy temp files",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("proxy_temp_files.rs"),
};

/// Files per request from which it matters. A guess.
const FILES_PER_REQUEST: f64 = 0.05;
/// Microseconds to make, map and remove a file beside the opening that was priced. A guess.
const FILE_US: f64 = 15.0;
/// Microseconds per KiB that goes through a file: written into the page cache, read back, freed. A guess: 1.6 us per
/// page of 4 KiB.
const COPY_US_PER_KIB: f64 = 0.4;
/// Share of the limit below which it does not matter. A guess.
const SHARE_MIN: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let files = hop.per_request(&ERROR_LOG_TEMP_FILE)?;
    if files.value < FILES_PER_REQUEST {
        return ruled_out(&files, FILES_PER_REQUEST, "guess", "answers fit into the buffers");
    }
    let at = hop.at(Level::At)?;
    let written = hop.fact("proc.disk_written / request", "B", |r| Ok(r.sum(&PROC_DISK_WRITTEN)? / r.requests()?));
    // What goes to a file in memory is not counted as written to a disk: then the bytes of the answers tell.
    let answers = files.value.min(1.0) * at.on_links(&IF_TX_BYTES).unwrap_or(0.0) / at.requests()?;
    let kib = written.as_ref().map_or(0.0, |fact| fact.value).max(answers) / 1024.0;
    let file_us = FILE_US + hop.look(&PRICE_LOG_OPEN, "").unwrap_or(0.0);
    let cost_us = files.value * file_us + kib * COPY_US_PER_KIB;
    let share = share_of_limit(hop, cost_us)?.max(at.worker_mean(&PROC_DISK_SLEEP).unwrap_or(0.0));
    if share < SHARE_MIN {
        return ruled_out(&files, FILES_PER_REQUEST, "guess", "temporary files cost under 2 % of the limit");
    }
    let claim = format!("{} writes {:.2} temporary files per request", hop.name, files.value);
    let remedy = nginx_knob(hop, KnobId::NginxDirective(NginxDirective::ProxyMaxTempFileSize), "0");
    Finding::new(files, FILES_PER_REQUEST, "guess", &claim, share)
        .and(written, "bytes to files per request")
        .and(hop.fact(PRICE_LOG_OPEN.name, "us", |r| r.hop.look(&PRICE_LOG_OPEN, "")), "price of opening a file here")
        .and(
            hop.fact("workers asleep for a disk", "share", |r| r.worker_mean(&PROC_DISK_SLEEP)),
            "workers that wait for a disk",
        )
        .mend("make proxy_buffers larger than the answers, or set proxy_max_temp_file_size 0", remedy.clone())
        .gaining(predicted_gain(hop, share))
        .rising(hop.summary(&ERROR_LOG_TEMP_FILE))
        .tested_by(removal_or(remedy.as_ref(), Dose::Cpu))
        .fires()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, monotonic, score};

    fn lab(files: f64) -> Lab {
        Lab::healthy()
            .throughput(2_000.0)
            .per_second("lb", &ERROR_LOG_TEMP_FILE, "", files * 2_000.0)
            .per_second("lb", &PROC_DISK_WRITTEN, "101", files * 2_000.0 * 100.0 * 1024.0)
            .per_second("lb", &IF_TX_BYTES, "eth0", 2_000.0 * 105.0 * 1024.0)
            .gauge("lb", &PRICE_LOG_OPEN, "", 5.0)
    }

    #[test]
    fn fires_silent_border() {
        assert!((score(CAUSE.id, "lb", &lab(1.0)) - 0.124).abs() < 0.001, "{}", score(CAUSE.id, "lb", &lab(1.0)));
        assert_eq!(score(CAUSE.id, "lb", &Lab::healthy()), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.04)), 0.0);
        assert_eq!(score(CAUSE.id, "lb", &lab(0.1)), 0.0, "cheap");
        assert!(score(CAUSE.id, "lb", &lab(0.2)) > 0.0);
    }

    monotonic!(lab, 0.0..1.0);
}
