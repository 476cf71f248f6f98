//! # Slow query
//!
//! Statements read far more rows than they need, most often because an index is missing; or commands of Redis walk over
//! many keys.
//!
//! ## What it sees
//! Rows that sequential scans read per request, table by table, beside rows that an index found and the number of
//! statements; sessions that wait for data from the disk, and what sorts wrote to temporary files; where the server tells
//! them, the statements that take the most time. Of Redis what each command takes.
//!
//! ## Why it limits
//! Each row that is read costs CPU, or a read from the disk. More requests at once only share the same CPU.
//!
//! ## Evidence
//! The share of the database's work that goes into rows read by sequential scans, at prices per row and per statement,
//! of the part of the limit that the database makes. Or the share of its sessions that wait for data. Of Redis the share
//! of its CPU time that goes into commands which take long each: it does one at a time, so all others wait.
//!
//! ## What it is not
//! A database that computes what was asked: many rows found by an index are the statement's own work, an honest full
//! CPU. Small tables, which are cheaper to scan. Waits for locks or for the log.
//!
//! ## Fix
//! An index on what the statement asks for, named with the table; a statement that reads less. In Redis `SCAN` in place of
//! `KEYS`, parts in place of whole sets and lists.
//!
//! ## References
//! PostgreSQL, "Using EXPLAIN" and `pg_stat_user_tables`. Redis, "Diagnosing latency issues" and `INFO commandstats`.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_or, does_not_apply, predicted_gain, ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::sessions::{
    in_use, is_data_wait, keeps_data, price_us, runs_queries, share_held_up, share_of_limit, statements, waiting,
};
use prony_model::metric::{
    PG_BLOCKS_READ, PG_STATEMENT_CALLS, PG_STATEMENT_TIME, PG_TABLE_INDEX_ROWS, PG_TABLE_SCANNED_ROWS, PG_TABLE_SCANS,
    PG_TEMP_BYTES, REDIS_COMMAND_CALLS, REDIS_COMMAND_TIME,
};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "slow-query",
    layer: Layer::Upstream,
    title: "slow query",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("slow_query.rs"),
};

/// Rows of one scan from which a table counts as large: below, a scan costs less than a small statement, 50 us.
/// Measured: see `sessions::price_us`.
const ROWS_PER_SCAN: f64 = 1_000.0;
/// Share of the limit below which it does not matter. A guess.
const SHARE_MIN: f64 = 0.1;
/// Mean time of a command of Redis from which it is long. A guess: `GET` takes 1 us, a range of a hundred members 50 us.
const COMMAND_US: f64 = 500.0;
/// Share of the sessions in use that wait for data from the disk, from which this is the matter. A guess.
const WAITS_MIN: f64 = 0.3;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if !keeps_data(hop) {
        return does_not_apply(hop, "answers no statements");
    }
    if !runs_queries(hop) {
        return slow_command(hop);
    }
    if let Some(finding) = waits_for_data(hop)? {
        return finding.fires();
    }
    let scanned =
        hop.fact("rows read by scans of large tables / request", "", |r| Ok(scanned_rows(r)?.1 / r.throughput()?))?;
    let at = hop.at(Level::At)?;
    let (table, rows_per_s) = scanned_rows(&at)?;
    let work = rows_per_s * price_us::SCANNED_ROW;
    let other = at.sum(&PG_TABLE_INDEX_ROWS).unwrap_or(0.0) * price_us::INDEX_ROW
        + statements(&at).unwrap_or(0.0) * price_us::STATEMENT;
    let part = work / (work + other).max(f64::MIN_POSITIVE);
    let share = share_of_limit(hop, part)?;
    if share < SHARE_MIN {
        return ruled_out(&scanned, ROWS_PER_SCAN, "guess", "sequential scans of large tables hardly cost anything");
    }
    let claim = format!("statements read {:.0} rows per request by scanning all of `{table}`", scanned.value);
    let mut finding = Finding::new(scanned.clone(), ROWS_PER_SCAN.min(scanned.value), "guess", &claim, share)
        .and(
            Ok(Fact::across_levels(hop, "share of the database's work that scans take", part)),
            "scans are most of its work",
        )
        .and(
            hop.fact("rows found by an index / request", "", |r| Ok(r.sum(&PG_TABLE_INDEX_ROWS)? / r.throughput()?)),
            "beside rows found by an index",
        )
        .and(hop.fact("cpu us / request", "us", |r| r.cpu_us_per_request()), "what a request costs the database")
        .mend(format!("an index on the column by which `{table}` is searched"), None)
        .gaining(predicted_gain(hop, share))
        .rising(hop.fact("rows read by scans of large tables", "/s", |r| Ok(scanned_rows(r)?.1)))
        .tested_by(Dose::Cpu);
    if let Some((statement, time)) = dearest(&at) {
        let mean = Fact { unit: "ms", ..Fact::across_levels(hop, "mean time of the dearest statement", time) };
        finding = finding.and(Ok(mean), &format!("the statement that takes the most time: {statement}"));
    }
    finding.fires()
}

/// The table of which scans read the most rows, and rows per second over all tables that are large.
fn scanned_rows(r: &Reader<'_>) -> Result<(String, f64), Gap> {
    let tables = r.hop.items(&PG_TABLE_SCANNED_ROWS);
    let mut most = (String::new(), 0.0);
    let (mut sum, mut read) = (0.0, false);
    for table in tables {
        let (Ok(rows), Ok(scans)) = (r.one(&PG_TABLE_SCANNED_ROWS, table), r.one(&PG_TABLE_SCANS, table)) else {
            continue;
        };
        read = true;
        if scans > 0.0 && rows / scans >= ROWS_PER_SCAN {
            sum += rows;
            if rows > most.1 {
                most = (table.to_string(), rows);
            }
        }
    }
    if read { Ok((most.0, sum)) } else { Err(r.gap(&PG_TABLE_SCANNED_ROWS)) }
}

/// The statement that took the most time, cut, with its mean time in milliseconds.
fn dearest<'a>(r: &Reader<'a>) -> Option<(&'a str, f64)> {
    let time = |item: &&str| r.one(&PG_STATEMENT_TIME, item).unwrap_or(0.0);
    let items = r.hop.items(&PG_STATEMENT_TIME);
    let most = items.into_iter().max_by(|a, b| time(a).total_cmp(&time(b)))?;
    let calls = r.one(&PG_STATEMENT_CALLS, most).ok().filter(|calls| *calls > 0.0)?;
    Some((most, time(&most) / calls * 1e3))
}

/// The command of Redis that takes the most of its time, where one of it takes long.
fn slow_command(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let at = hop.at(Level::At)?;
    let time = |command: &&str| at.one(&REDIS_COMMAND_TIME, command).unwrap_or(0.0);
    let most = hop.items(&REDIS_COMMAND_TIME).into_iter().max_by(|a, b| time(a).total_cmp(&time(b)));
    let Some(command) = most else { return Err(at.gap(&REDIS_COMMAND_TIME)) };
    let mean = hop.fact(format!("mean time of `{command}`"), "us", |r| {
        Ok(r.one(&REDIS_COMMAND_TIME, command)? / r.one(&REDIS_COMMAND_CALLS, command)?.max(f64::MIN_POSITIVE) * 1e6)
    })?;
    if mean.value < COMMAND_US {
        return ruled_out(&mean, COMMAND_US, "guess", "its dearest command is short");
    }
    let part = (time(&command) / at.own_cpu()?.max(f64::MIN_POSITIVE)).min(1.0);
    let share = share_of_limit(hop, part)?;
    if share < SHARE_MIN {
        let share = Fact::across_levels(hop, "share of the limit that its dearest command takes", share);
        return ruled_out(&share, SHARE_MIN, "guess", "its long commands are few");
    }
    let claim =
        format!("`{command}` takes {:.1} ms each at {}, and all other commands wait", mean.value / 1e3, hop.name);
    Finding::new(mean, COMMAND_US, "guess", &claim, share)
        .and(
            Ok(Fact::across_levels(hop, &format!("share of its CPU time that `{command}` takes"), part)),
            "it is most of its work",
        )
        .and(hop.fact("cpu us / request", "us", |r| r.cpu_us_per_request()), "what a request costs it")
        .mend(format!("a command in place of `{command}` that walks over fewer keys or members"), None)
        .gaining(predicted_gain(hop, share))
        .rising(hop.fact(format!("time in `{command}`"), "s/s", |r| r.one(&REDIS_COMMAND_TIME, command)))
        .tested_by(Dose::Cpu)
        .fires()
}

/// Sessions that read from the disk what does not fit in memory.
fn waits_for_data(hop: &Hop<'_>) -> Result<Option<Finding>, Gap> {
    let Ok(waits) = hop.fact("sessions that wait for data from the disk", "", |r| waiting(r, is_data_wait)) else {
        return Ok(None);
    };
    let used = in_use(&hop.at(Level::At)?)?;
    if waits.value < WAITS_MIN * used {
        return Ok(None);
    }
    let share = share_held_up(hop, waits.value)?;
    let claim = format!("{:.0} of {used:.0} sessions in use wait for data from the disk", waits.value);
    let dose = cpu_or(hop, "no knob makes the disk of a database slower")?;
    let spilled = hop.fact("pg.temp_bytes / request", "B", |r| Ok(r.sum(&PG_TEMP_BYTES)? / r.throughput()?));
    let mend = if spilled.as_ref().is_ok_and(|spilled| spilled.value >= 1.0) {
        "a larger `work_mem`, so that sorts and hashes stay in memory; an index, so that less is read; a faster disk"
    } else {
        "an index, so that less is read; more memory for the database; a faster disk"
    };
    Ok((share >= SHARE_MIN).then(|| {
        Finding::new(waits, WAITS_MIN * used, "guess", &claim, share)
            .and(hop.summary(&PG_BLOCKS_READ), "blocks that are not in shared buffers")
            .and(spilled, "bytes that sorts and hashes write to temporary files")
            .mend(mend, None)
            .gaining(predicted_gain(hop, share))
            .tested_by(dose)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use prony_model::Software;
    use proptest::prelude::*;

    /// 414 requests/s that scan a table of so many rows each; the database fills its CPU.
    fn lab(rows: f64) -> Lab {
        let lab = Lab::chain().throughput(414.0).cpu("0", 0.1, 0.05, 0.02).cpu("1", 0.85, 0.1, 0.04).own("app", 0.14);
        lab.own("db", 0.83).statements(1_200.0).sessions([2.0, 18.0, 19.0], "running").scans("sessions", 414.0, rows)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "db", &lab(60_000.0)).unwrap();
        assert!(found.score > 0.75 && found.dose == Dose::Cpu, "{}", found.score);
        assert!(found.remedies[0].advice.contains("`sessions`"));
        assert_eq!(score(CAUSE.id, "db", &Lab::chain()), 0.0);
        assert_eq!(score(CAUSE.id, "app", &lab(60_000.0)), 0.0);
        assert_eq!(score(CAUSE.id, "db", &lab(999.0)), 0.0, "border: small tables are cheap to scan");
        assert!(score(CAUSE.id, "db", &lab(1_001.0)) > 0.0, "border");
    }

    #[test]
    fn rows_that_an_index_finds_are_honest_work() {
        let honest = lab(0.0).per_second("db", &PG_TABLE_INDEX_ROWS, "items", 647.0 * 20_000.0);
        assert_eq!(score(CAUSE.id, "db", &honest), 0.0);
    }

    #[test]
    fn reads_from_the_disk_are_waited_for() {
        let reads = Lab::chain().queueing(300.0).held(20.0).sessions([2.0, 19.0, 19.0], "IO:DataFileRead");
        assert!(score(CAUSE.id, "db", &reads) > 0.9);
        assert_eq!(score(CAUSE.id, "db", &Lab::chain().queueing(300.0).sessions([2.0, 19.0, 19.0], "IO:WALSync")), 0.0);
        let spills = Lab::chain().queueing(300.0).held(20.0).sessions([2.0, 19.0, 19.0], "IO:BufFileWrite");
        let found = finding(CAUSE.id, "db", &spills.per_second("db", &PG_TEMP_BYTES, "", 3e8)).unwrap();
        assert!(found.remedies[0].advice.contains("`work_mem`"), "{:?}", found.remedies[0]);
        assert!(found.evidence.iter().any(|e| e.metric == "pg.temp_bytes / request" && (e.value - 1e6).abs() < 1.0));
    }

    #[test]
    fn a_statement_is_named_where_the_server_tells() {
        let text = "select user_id from sessions where token = $1";
        let told = lab(60_000.0).per_second("db", &PG_STATEMENT_TIME, text, 0.8).per_second(
            "db",
            &PG_STATEMENT_CALLS,
            text,
            400.0,
        );
        let found = finding(CAUSE.id, "db", &told).unwrap();
        assert!(found.evidence.iter().any(|e| e.claim.ends_with(text) && (e.value - 2.0).abs() < 0.01));
    }

    /// 90 requests/s, each with a short command and one that takes so long; Redis fills its CPU.
    fn redis(command_us: f64) -> Lab {
        let (x, name) = (90.0, "keys");
        let mut lab = Lab::chain().throughput(x).cpu("0", 0.1, 0.05, 0.02).cpu("1", 0.85, 0.1, 0.04).own("db", 0.9);
        lab.stack.host.get_mut("db").unwrap().software = Some(Software::Redis);
        lab.per_second("db", &REDIS_COMMAND_CALLS, "get", x)
            .per_second("db", &REDIS_COMMAND_TIME, "get", 2e-6 * x)
            .per_second("db", &REDIS_COMMAND_CALLS, name, x)
            .per_second("db", &REDIS_COMMAND_TIME, name, 1e-6 * command_us * x)
    }

    #[test]
    fn a_long_command_of_redis_is_named() {
        let found = finding(CAUSE.id, "db", &redis(9_000.0)).unwrap();
        assert!(found.score > 0.7 && found.dose == Dose::Cpu, "{}", found.score);
        assert!(found.summary.contains("`keys` takes 9.0 ms each"), "{}", found.summary);
        assert!(score(CAUSE.id, "db", &redis(1_200.0)) > 0.0, "a tenth of the CPU");
        assert_eq!(score(CAUSE.id, "db", &redis(900.0)), 0.0, "border: long, but few");
        let many = |us: f64| {
            let lab = redis(us).per_second("db", &REDIS_COMMAND_CALLS, "keys", 2_000.0);
            lab.per_second("db", &REDIS_COMMAND_TIME, "keys", 2_000.0 * us * 1e-6)
        };
        assert_eq!(score(CAUSE.id, "db", &many(499.0)), 0.0, "border: short");
        assert!(score(CAUSE.id, "db", &many(501.0)) > 0.5, "border");
        let mut run = redis(9_000.0).run();
        run.series = Lab::chain().run().series;
        assert_eq!(check(&Hop { run: &run, name: "db" }).err().unwrap().fact, "redis.command_time", "not told");
    }

    #[test]
    fn without_the_databases_word_it_is_a_gap() {
        let run = lab(60_000.0).mute().run();
        let gap = check(&Hop { run: &run, name: "db" }).err().unwrap();
        assert_eq!(gap.fact, "pg.table_scanned_rows");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..1e6, b in 0.0f64..1e6) {
            prop_assert!(score(CAUSE.id, "db", &lab(a.min(b))) <= score(CAUSE.id, "db", &lab(a.max(b))) + 1e-9);
        }
    }
}
