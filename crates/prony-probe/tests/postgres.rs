//! The reader of PostgreSQL against a real server, which this test makes for itself. Needs root and PostgreSQL; says so and
//! returns otherwise.
//!
//! It leaves nothing behind, however it ends.

#![allow(clippy::unwrap_used, reason = "clippy knows tests by #[test]; these are their parts")]

use prony_model::{Host, Role, Sample, Software};
use prony_probe::{Roots, Watch};
use std::time::Duration;

mod cluster;
use cluster::Cluster;

fn run(cluster: &Cluster, statement: &str) {
    assert!(cluster.sql(statement).status().unwrap().success(), "{statement}");
}

/// Samples until one holds what PostgreSQL said.
fn asked(watch: &mut Watch, at_s: u64) -> Sample {
    for _ in 0..300 {
        let sample = watch.sample(at_s * 1_000_000_000);
        if sample.values.iter().any(|(metric, _, _)| metric == "pg.connections") {
            return sample;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it said nothing: {:?}", watch.gaps());
}

fn value(sample: &Sample, metric: &str, item: &str) -> Option<f64> {
    sample.values.iter().find(|(m, i, _)| m == metric && i == item).map(|(_, _, v)| *v)
}

#[test]
fn needs_root_a_real_database_tells_of_locks_and_scans_and_not_of_prony() {
    let Some(bin) = cluster::programs() else {
        return eprintln!("skipped: needs root, the user postgres and PostgreSQL below /usr/lib/postgresql");
    };
    let cluster = Cluster::up(&bin, &["listen_addresses="]);
    run(&cluster, "create table t(id int, n int); insert into t select g, 0 from generate_series(1, 5000) g");
    let dsn = Some(format!("host={} user=app dbname=postgres", cluster.dir()));
    let host = Host { role: Role::Database, software: Some(Software::Postgres), dsn, ..Host::default() };
    let mut watch = Watch::new("db", &host, Roots::here());
    let quiet = asked(&mut watch, 0);
    assert_eq!(value(&quiet, "pg.connections", ""), Some(0.0), "its own session is no client");
    assert_eq!(value(&quiet, "pg.connections_max", ""), Some(97.0));

    let holder = cluster.sql("begin; update t set n = 1 where id = 1; select pg_sleep(3)").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let waiter = cluster.sql("update t set n = 2 where id = 1").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let locked = asked(&mut watch, 10);
    assert_eq!(value(&locked, "pg.sessions", "active"), Some(2.0));
    assert_eq!(value(&locked, "pg.waits", "Lock:transactionid"), Some(1.0));
    assert_eq!(value(&locked, "pg.waits", "Timeout:PgSleep"), Some(1.0));
    assert_eq!(value(&locked, "pg.locks_awaited", "transactionid"), Some(1.0));
    assert!(value(&locked, "pg.oldest_transaction", "").unwrap() > 0.3);
    for mut session in [holder, waiter] {
        assert!(session.wait().unwrap().success());
    }

    // A session tells its counters when it ends.
    let before = asked(&mut watch, 20);
    run(&cluster, "select count(*) from t where n = 7");
    std::thread::sleep(Duration::from_millis(200));
    let after = asked(&mut watch, 30);
    let grown = |metric, item| value(&after, metric, item).unwrap() - value(&before, metric, item).unwrap();
    assert_eq!(grown("pg.table_scans", "t"), 1.0);
    assert_eq!(grown("pg.table_scanned_rows", "t"), 5000.0);
    assert_eq!(value(&after, "pg.sessions", "active"), Some(0.0), "what was seen and is gone is 0");
    let gaps = watch.gaps();
    assert!(gaps.iter().any(|gap| gap.fact == "pg.statements"), "the extension is not there: {gaps:?}");
}
