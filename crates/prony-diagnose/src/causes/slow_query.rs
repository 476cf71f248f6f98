//! # Slow query
//!
//! Statements read far more rows than they need, most often because an index is missing.
//!
//! ## What it sees
//! Rows that sequential scans read per request, table by table, beside rows that an index found and the number of
//! statements; sessions that wait for data from the disk; where the server tells them, the statements that take the
//! most time.
//!
//! ## Why it limits
//! Each row that is read costs CPU, or a read from the disk. More requests at once only share the same CPU.
//!
//! ## Evidence
//! The share of the database's work that goes into rows read by sequential scans, at prices per row and per statement,
//! of the part of the limit that the database makes. Or the share of its sessions that wait for data.
//!
//! ## What it is not
//! A database that computes what was asked: many rows found by an index are the statement's own work, an honest full
//! CPU. Small tables, which are cheaper to scan. Waits for locks or for the log.
//!
//! ## Fix
//! An index on what the statement asks for, named with the table; a statement that reads less.
//!
//! ## References
//! PostgreSQL, "Using EXPLAIN" and `pg_stat_user_tables`.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, does_not_apply, predicted_gain, ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::sessions::{
    in_use, is_data_wait, price_us, runs_queries, share_held_up, share_of_limit, statements, waiting,
};
use prony_model::metric::{
    PG_BLOCKS_READ, PG_STATEMENT_CALLS, PG_STATEMENT_TIME, PG_TABLE_INDEX_ROWS, PG_TABLE_SCANNED_ROWS, PG_TABLE_SCANS,
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
/// Share of the sessions in use that wait for data from the disk, from which this is the matter. A guess.
const WAITS_MIN: f64 = 0.3;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    if !runs_queries(hop) {
        return does_not_apply(hop, "answers no statements");
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
    let dose =
        if cpu_is_full(hop)? { Dose::Cpu } else { Dose::Untestable("no knob makes the disk of a database slower") };
    Ok((share >= SHARE_MIN).then(|| {
        Finding::new(waits, WAITS_MIN * used, "guess", &claim, share)
            .and(hop.summary(&PG_BLOCKS_READ), "blocks that are not in shared buffers")
            .mend("an index, so that less is read; more memory for the database; a faster disk", None)
            .gaining(predicted_gain(hop, share))
            .tested_by(dose)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
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
