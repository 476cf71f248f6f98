//! Reads what a hop writes to its logs, and what that costs: lines and writes per request, and the price of a write.
//!
//! It judges nothing. Invariant: a log that was not looked at counts for nothing, and where no log was, there is a gap.

use crate::cause::{cpu_is_full, work_share};
use crate::facts::{Fact, Hop, Reader};
use crate::profile::Profile;
use prony_model::metric::{ERROR_LOG_LINES, LOG_SIZE, LOOK_LOG_HELD, LOOK_LOG_LINE, LOOK_LOG_STEP, PRICE_LOG_WRITE};
use prony_model::{Gap, Level};

/// Writes per request from which a log counts as unbuffered. A guess: a buffer of 4 KB holds 5 to 20 lines, 0.05 to 0.2.
pub const WRITES_PER_REQUEST: f64 = 0.2;
/// Share of glances from which a log counts as held open: one that is kept is seen at each of them. One that is opened for each line
/// is seen at a few in a hundred, but at half of them where four workers wait for each other to write to it.
const HELD: f64 = 0.9;
/// Functions of the kernel for `write()`; the first calls the second, unless the compiler made one of them.
const WRITES: [&str; 3] = ["__x64_sys_write", "ksys_write", "__arm64_sys_write"];
/// Functions of file systems that write into the page cache: of ext4, of xfs, of btrfs, of others (which ext4 calls as well).
const FILE_WRITES: [&str; 4] =
    ["ext4_buffered_write_iter", "iomap_file_buffered_write", "btrfs_buffered_write", "generic_perform_write"];
/// Share of `write()` from which it is mostly in files. A guess: to a file 0.7 to 0.9 of it was seen there.
const MOSTLY: f64 = 0.5;
/// Bytes of a line where no look measured it: nginx writes time, level, pid, connection and text. A guess.
const LINE_BYTES: f64 = 120.0;

/// CPU time of one write to a log: the greater of what it took before the load and of what the profile shows under load, where more
/// of what it touches has left the caches.
///
/// # Errors
/// It was not tried out.
pub fn price_of_write_us(hop: &Hop<'_>) -> Result<f64, Gap> {
    let tried_us = hop.look(&PRICE_LOG_WRITE, "")?;
    Ok(profiled_price_us(hop).map_or(tried_us, |us| us.max(tried_us)))
}

/// By the profile: what `write()` takes in files. Servers write temporary files at an offset, and sockets are no files. Where most of
/// `write()` is in files, the way there is theirs too.
fn profiled_price_us(hop: &Hop<'_>) -> Result<f64, Gap> {
    let profile = Profile::of(hop)?;
    let at = hop.at(Level::At)?;
    let (in_files, in_all) = (profile.most_below(&FILE_WRITES), profile.most_below(&WRITES));
    let us = if in_files >= MOSTLY * in_all { in_all } else { in_files } * at.cpu_us_per_request()?;
    let lines = error_log(hop).map_or(Ok(0.0), |path| lines_per_s(&at, path))? / at.requests()?;
    Ok(us / (writes_per_request(hop)?.value + lines).max(WRITES_PER_REQUEST))
}

/// With full CPUs the share of their capacity; else the share of time that one writer at a time holds the file.
pub fn share_of_limit(hop: &Hop<'_>, us_per_request: f64) -> Result<f64, Gap> {
    if cpu_is_full(hop)? {
        work_share(hop, us_per_request)
    } else {
        Ok((us_per_request * hop.at(Level::At)?.requests()? / 1e6).min(1.0))
    }
}

/// The path of its error log, if the stack file names one.
pub fn error_log<'a>(hop: &Hop<'a>) -> Option<&'a str> {
    hop.host().and_then(|host| host.logs.error.as_deref())
}

/// Logs of the hop other than the error log.
pub fn access_logs<'a>(hop: &Hop<'a>) -> Vec<&'a str> {
    hop.items(&LOG_SIZE).into_iter().filter(|path| Some(*path) != error_log(hop)).collect()
}

/// Writes to access logs per request.
pub fn writes_per_request(hop: &Hop<'_>) -> Result<Fact, Gap> {
    hop.fact("log writes / request", "", |r| {
        Ok(writes_per_s(r)?.iter().map(|(_, writes)| writes).sum::<f64>() / r.requests()?)
    })
}

/// Of these writes those to logs that are opened for each. A log that nobody glanced at counts as held.
pub fn opens_per_request(hop: &Hop<'_>) -> Result<Fact, Gap> {
    hop.fact("log opens / request", "", |r| {
        let is_reopened = |path: &str| hop.look(&LOOK_LOG_HELD, path).is_ok_and(|held| held < HELD);
        let opens = writes_per_s(r)?.into_iter().filter(|(path, _)| is_reopened(path));
        Ok(opens.map(|(_, writes)| writes).sum::<f64>() / r.requests()?)
    })
}

/// Writes per second to each access log. A log that is opened anew for every line is found only by chance: those that
/// were not read do not count.
fn writes_per_s<'a>(r: &Reader<'a>) -> Result<Vec<(&'a str, f64)>, Gap> {
    let (mut writes, mut unread) = (Vec::new(), None);
    for path in access_logs(&r.hop) {
        let seen = r.one(&LOG_SIZE, path).and_then(|growth| match growth > 0.0 {
            true => Ok(growth / r.hop.look(&LOOK_LOG_STEP, path)?.max(1.0)),
            false => Ok(0.0),
        });
        match seen {
            Ok(seen) => writes.push((path, seen)),
            Err(gap) => unread = Some(gap),
        }
    }
    match unread {
        Some(gap) if writes.is_empty() => Err(gap),
        Some(_) | None => Ok(writes),
    }
}

/// Lines per second of an error log: by its growth, which is always right; a flood is faster than its lines can be counted.
pub fn lines_per_s(r: &Reader<'_>, path: &str) -> Result<f64, Gap> {
    let line = r.hop.look(&LOOK_LOG_LINE, path).unwrap_or(LINE_BYTES).max(1.0);
    let counted = r.sum(&ERROR_LOG_LINES);
    match r.one(&LOG_SIZE, path) {
        Ok(bytes) => Ok((bytes / line).max(counted.unwrap_or(0.0))),
        Err(_) => counted,
    }
}

/// Lines of a kind per second: those that were counted, and their part of what a flood wrote uncounted.
///
/// # Errors
/// Its lines were not read.
pub fn with_uncounted(r: &Reader<'_>, path: &str, counted: f64) -> Result<f64, Gap> {
    let lines = r.sum(&ERROR_LOG_LINES)?;
    Ok(if lines > 0.0 { counted * (lines_per_s(r, path)? / lines).max(1.0) } else { counted })
}
