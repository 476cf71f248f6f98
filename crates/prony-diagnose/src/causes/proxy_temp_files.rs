//! # Proxy temp files
//!
//! Answers, or the bodies of requests, do not fit into the proxy's buffers, so it writes them to temporary files and reads them
//! back.
//!
//! ## What it sees
//! Lines of the error log that say "response is buffered to a temporary file" or "request body is buffered to a temporary file",
//! per request; bytes that the hop writes to files. By default nginx logs none of these lines: then the CPU time of a proxy that
//! goes into making, filling, renaming and removing files, by its profile.
//!
//! ## Why it limits
//! Each such answer or upload makes, fills, reads and removes a file: system calls, copies, and sometimes a disk.
//!
//! ## Evidence
//! Files per request at the price of making one, and the bytes that go through them at the price of a copy, as a share
//! of what limits; or what the profile shows, where that is more.
//!
//! ## What it is not
//! Logs, which have lines and writes of their own; uploads that the application keeps.
//!
//! ## Fix
//! For answers: `proxy_buffers` and `proxy_buffer_size` larger than they are, or `proxy_max_temp_file_size 0` (knob
//! `nginx.proxy_max_temp_file_size`). For uploads: `client_body_buffer_size` as large as they are (knob
//! `nginx.client_body_buffer_size`), or `proxy_request_buffering off`. Where a cache or a store writes them: fewer of them, or
//! in memory.
//!
//! ## References
//! nginx: ngx_http_proxy_module proxy_buffers, proxy_max_temp_file_size; ngx_http_core_module client_body_buffer_size.

use super::compression_cpu::dose;
use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, nginx_knob, predicted_gain, removal_or, ruled_out,
};
use crate::facts::{Fact, Hop};
use crate::logs::share_of_limit;
use crate::profile::Profile;
use crate::sessions::is_proxy;
use prony_model::metric::{
    ERROR_LOG_BODY_FILE, ERROR_LOG_TEMP_FILE, IF_RX_BYTES, IF_TX_BYTES, PRICE_LOG_OPEN, PROC_DISK_SLEEP,
    PROC_DISK_WRITTEN,
};
use prony_model::{Gap, Knob, KnobId, Level, Metric, NginxDirective};

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

/// Memory for an upload, which takes no more than it needs. A guess: uploads that come with every request are smaller.
const BODY_BUFFER: &str = "1m";
/// Share of the limit from which files matter that no log tells of: a proxy has no other use for them. A guess.
const UNTOLD_SHARE_MIN: f64 = 0.05;
const WORK: &str = "making, filling and removing files";
/// Functions of file systems that make a file: of ext4, xfs, btrfs, overlayfs and tmpfs. The last two call each other.
const CREATES: [&str; 6] =
    ["ext4_create", "xfs_generic_create", "btrfs_create", "ovl_create", "shmem_create", "shmem_mknod"];
/// Writes at an offset, as temporary files are written and logs are not; the first calls the second.
const WRITES: [&str; 3] = ["__x64_sys_pwrite64", "ksys_pwrite64", "__arm64_sys_pwrite64"];
/// Functions of the kernel that rename a file, that take its name away, and that drop its pages.
const REMOVES: [&str; 3] = ["do_renameat2", "do_unlinkat", "evict"];
/// Directives of nginx with which it keeps answers in files because it was told to.
const STORES: [&str; 2] = ["nginx.config.proxy_cache", "nginx.config.proxy_store"];

/// What goes through files: the complaints, what passes the links with it, and how it is kept in memory instead.
struct Kept {
    files: &'static Metric,
    bytes: &'static Metric,
    what: &'static str,
    how: &'static str,
    instead: (NginxDirective, &'static str),
}

const ANSWERS: Kept = Kept {
    files: &ERROR_LOG_TEMP_FILE,
    bytes: &IF_TX_BYTES,
    what: "answers",
    how: "make proxy_buffers larger than the answers, or set proxy_max_temp_file_size 0",
    instead: (NginxDirective::ProxyMaxTempFileSize, "0"),
};
const UPLOADS: Kept = Kept {
    files: &ERROR_LOG_BODY_FILE,
    bytes: &IF_RX_BYTES,
    what: "uploads",
    how: "make client_body_buffer_size as large as the uploads, or set proxy_request_buffering off",
    instead: (NginxDirective::ClientBodyBufferSize, BODY_BUFFER),
};

impl Kept {
    fn remedy(&self, hop: &Hop<'_>) -> Option<Knob> {
        let (directive, value) = self.instead;
        nginx_knob(hop, KnobId::NginxDirective(directive), value)
    }
}

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let answers = hop.per_request(ANSWERS.files);
    let told = |files: &Result<Fact, Gap>| files.as_ref().map_or(0.0, |files| files.value);
    // A record of an older prony counts uploads with the answers.
    let uploads = hop.per_request(UPLOADS.files);
    let (kept, files) = if told(&uploads) > told(&answers) { (&UPLOADS, uploads) } else { (&ANSWERS, answers) };
    let work = file_work(hop);
    if told(&files) >= FILES_PER_REQUEST {
        return complaints(hop, kept, files?, work.unwrap_or(0.0));
    }
    match work.map(|work| untold(hop, work)).transpose()?.flatten() {
        Some(finding) => finding.fires(),
        None => ruled_out(&files?, FILES_PER_REQUEST, "guess", "answers and uploads fit into the buffers"),
    }
}

/// Share of a proxy's CPU time that goes into files.
fn file_work(hop: &Hop<'_>) -> Option<f64> {
    let profile = Profile::of(hop).ok().filter(|_| is_proxy(hop))?;
    let work = profile.most_below(&CREATES) + profile.most_below(&WRITES) + profile.share_below(&REMOVES);
    Some(work.min(1.0))
}

/// The error log tells of the files.
fn complaints(hop: &Hop<'_>, kept: &Kept, files: Fact, work: f64) -> Result<Judgement, Gap> {
    let at = hop.at(Level::At)?;
    let written = hop.fact("proc.disk_written / request", "B", |r| Ok(r.sum(&PROC_DISK_WRITTEN)? / r.requests()?));
    // What goes to a file in memory is not counted as written to a disk: then the bytes on the links tell.
    let passing = files.value.min(1.0) * at.on_links(kept.bytes).unwrap_or(0.0) / at.requests()?;
    let kib = written.as_ref().map_or(0.0, |fact| fact.value).max(passing) / 1024.0;
    let file_us = FILE_US + hop.look(&PRICE_LOG_OPEN, "").unwrap_or(0.0);
    let priced_us = files.value * file_us + kib * COPY_US_PER_KIB;
    let cost_us = priced_us.max(work * at.cpu_us_per_request().unwrap_or(0.0));
    let share = share_of_limit(hop, cost_us)?.max(at.worker_mean(&PROC_DISK_SLEEP).unwrap_or(0.0));
    if share < SHARE_MIN {
        return ruled_out(&files, FILES_PER_REQUEST, "guess", "temporary files cost under 2 % of the limit");
    }
    let claim = format!("{} writes {:.2} temporary files per request, for {}", hop.name, files.value, kept.what);
    let remedy = kept.remedy(hop);
    Finding::new(files, FILES_PER_REQUEST, "guess", &claim, share)
        .and(written, "bytes to files per request")
        .and(hop.fact(PRICE_LOG_OPEN.name, "us", |r| r.hop.look(&PRICE_LOG_OPEN, "")), "price of opening a file here")
        .and(Profile::of(hop).map(|profile| profile.fact(WORK, work)), "CPU time that goes into files")
        .and(
            hop.fact("workers asleep for a disk", "share", |r| r.worker_mean(&PROC_DISK_SLEEP)),
            "workers that wait for a disk",
        )
        .mend(kept.how, remedy.clone())
        .gaining(predicted_gain(hop, share))
        .rising(hop.summary(kept.files))
        .tested_by(removal_or(remedy.as_ref(), Dose::Cpu))
        .fires()
}

/// No log tells of the files, as with nginx's own level of its error log: the profile does.
fn untold(hop: &Hop<'_>, work: f64) -> Result<Option<Finding>, Gap> {
    let profile = Profile::of(hop)?;
    let share = profile.limit_share(work)?;
    if share < UNTOLD_SHARE_MIN {
        return Ok(None);
    }
    let claim = format!("{} spends {:.0} % of its CPU time on {WORK}", hop.name, work * 100.0);
    let finding = Finding::new(profile.fact(WORK, work), UNTOLD_SHARE_MIN, "guess", &claim, share)
        .and(profile.us_per_request(WORK, work), "what files cost each request")
        .gaining(predicted_gain(hop, share))
        .rising(profile.cpus(WORK, work));
    let is_told_to = |name| hop.settings(name).any(|value| value != "off");
    if STORES.into_iter().any(is_told_to) {
        let how = "store what is asked for again only (proxy_cache_min_uses), for longer, or in memory (a tmpfs)";
        return Ok(Some(finding.mend(how, None).tested_by(dose(hop)?)));
    }
    let remedy = ANSWERS.remedy(hop);
    let by = if remedy.is_some() { Dose::RemovalByAll } else { dose(hop)? };
    Ok(Some(finding.mend(ANSWERS.how, remedy).mend(UPLOADS.how, UPLOADS.remedy(hop)).tested_by(by)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, monotonic, score};
    use prony_model::metric::PROFILE_TOTAL;

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

    #[test]
    fn uploads_have_a_remedy_of_their_own() {
        let lab = lab(0.0).per_second("lb", &ERROR_LOG_BODY_FILE, "", 2_000.0).per_second(
            "lb",
            &IF_RX_BYTES,
            "eth0",
            2_000.0 * 105.0 * 1024.0,
        );
        let found = finding(CAUSE.id, "lb", &lab).unwrap();
        assert_eq!(found.key.name, ERROR_LOG_BODY_FILE.name);
        let remedy = found.remedies[0].knob.as_ref().expect("a knob");
        assert_eq!(
            (String::from(remedy.id.clone()), &*remedy.value),
            ("nginx.client_body_buffer_size".to_string(), "1m")
        );
    }

    /// A log that tells of no files, and a profile that shows them.
    fn quiet(share: f64) -> Lab {
        lab(0.0).profiled("lb", &[("ext4_create", "kernel", share), ("tcp_sendmsg", "kernel", 1.0 - share)])
    }

    #[test]
    fn the_profile_tells_what_no_log_tells() {
        let found = finding(CAUSE.id, "lb", &quiet(0.3)).unwrap();
        assert_eq!((found.dose, found.remedies.len()), (Dose::RemovalByAll, 2));
        assert_eq!(score(CAUSE.id, "lb", &quiet(0.04)), 0.0);
        let renamed = |function, share| quiet(0.0).gauge("lb", &PROFILE_TOTAL, function, share);
        for function in CREATES.iter().chain(&WRITES).chain(&REMOVES) {
            assert!(score(CAUSE.id, "lb", &renamed(function, 0.3)) > 0.2, "{function}");
        }
        let mut app = quiet(0.3);
        app.stack.host.get_mut("lb").unwrap().role = prony_model::stack::Role::App;
        assert_eq!(score(CAUSE.id, "lb", &app), 0.0, "an application may have a use for files");
    }

    #[test]
    fn what_a_cache_stores_is_not_sent_around_it() {
        let dose = |name: &str, value: &str| {
            let run = quiet(0.3).setting("lb", name, value).run();
            match check(&Hop { run: &run, name: "lb" }) {
                Ok(Judgement::Fires(finding)) => finding.dose,
                Ok(_) | Err(_) => panic!("it fires"),
            }
        };
        assert_eq!(dose("nginx.config.proxy_cache", "off | answers"), Dose::Cpu);
        assert_eq!(dose("nginx.config.proxy_cache", "off"), Dose::RemovalByAll);
        assert_eq!(dose("nginx.config.proxy_store", "/var/store$uri"), Dose::Cpu);
    }

    #[test]
    fn the_profile_prices_what_the_log_counts() {
        let both = lab(1.0).profiled("lb", &[("ext4_create", "kernel", 0.5), ("tcp_sendmsg", "kernel", 0.5)]);
        let share = score(CAUSE.id, "lb", &both);
        assert!(share > 2.0 * score(CAUSE.id, "lb", &lab(1.0)), "{share}");
    }

    monotonic!(lab, 0.0..1.0);
}
