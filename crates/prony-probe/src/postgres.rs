//! What PostgreSQL knows of itself: sessions and what they wait for, transactions, the log, tables, statements.
//!
//! One question with several statements, on one kept session, so that prony adds one transaction per second; that one
//! and the session are subtracted. Statements come normalised by the server and cut, never with parameters; the
//! connection string stands in no message. Invariant: a reading ends within [`ANSWER_MAX`], twice that when it connects
//! anew.

use crate::aside::Asker;
use crate::facts::Facts;
use prony_model::metric as m;
use prony_model::{Metric, metric};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage, SimpleQueryRow};

/// A database that does not answer within this time is left alone until the next second. A guess: a new session on a
/// CPU that 60 others share waits some 0.2 s for its turn.
const ANSWER_MAX: Duration = Duration::from_millis(1500);
/// The same for the server, which then stops the statement.
const OPTIONS: &str = "-c statement_timeout=1500";
/// Items kept of one gauge, so that a strange server cannot fill the memory.
const ITEMS_MAX: usize = 64;

/// Reader of one database server.
pub(crate) struct Postgres {
    dsn: String,
    session: Option<Session>,
    /// What prony's sessions added so far.
    own: Own,
    /// Items of gauges that were seen before: they get a 0 when they are gone, for they were looked for.
    seen: BTreeMap<&'static str, BTreeSet<String>>,
}

/// An open session. The runtime drives it only while a question is asked.
struct Session {
    runtime: Runtime,
    client: Client,
    question: String,
    /// Why statements cannot be counted one by one.
    no_statements: Option<String>,
}

#[derive(Debug, Default)]
struct Own {
    sessions: f64,
    transactions: f64,
}

impl Postgres {
    /// Asks the server that `dsn` names, as seen from inside the host.
    pub(crate) fn new(dsn: &str) -> Self {
        Self { dsn: dsn.to_string(), session: None, own: Own::default(), seen: BTreeMap::new() }
    }

    fn rows(&mut self) -> Result<Vec<(&'static Metric, String, f64)>, String> {
        let session = match self.session.take() {
            Some(session) if !session.client.is_closed() => session,
            Some(_) | None => connect(&self.dsn, &mut self.own)?,
        };
        let answer = session.ask(&session.question);
        self.own.transactions += 1.0;
        let rows = answer?.iter().filter_map(fact).collect();
        // Only a session that answered is kept.
        self.session = Some(session);
        Ok(rows)
    }

    fn put(&mut self, facts: &mut Facts, rows: Vec<(&'static Metric, String, f64)>) {
        let mut gone = self.seen.clone();
        for (metric, item, value) in rows {
            if *metric == m::PG_SESSIONS && item == "hidden" && value > 0.0 {
                facts.miss(
                    "pg.waits",
                    "the role of `dsn` may not see the sessions of others: `GRANT pg_monitor TO` that role",
                );
            }
            let own = match metric {
                metric if *metric == m::PG_COMMITS => self.own.transactions,
                metric if *metric == m::PG_SESSIONS_OPENED => self.own.sessions,
                _ => 0.0,
            };
            if metric.kind == metric::MetricKind::Gauge && !item.is_empty() {
                let items = self.seen.entry(metric.name).or_default();
                if items.len() < ITEMS_MAX {
                    items.insert(item.clone());
                }
                gone.get_mut(metric.name).map(|items| items.remove(&item));
            }
            facts.put(metric, &item, (value - own).max(0.0));
        }
        for (name, items) in gone {
            let Some(metric) = metric::find(name) else { continue };
            items.iter().for_each(|item| facts.put(metric, item, 0.0));
        }
    }
}

impl Asker for Postgres {
    fn ask(&mut self, facts: &mut Facts) {
        match self.rows() {
            Ok(rows) => self.put(facts, rows),
            Err(reason) => facts.miss("pg", reason),
        }
        if let Some(reason) = self.session.as_ref().and_then(|s| s.no_statements.as_ref()) {
            facts.miss(m::PG_STATEMENTS.name, reason);
        }
    }
}

/// A row of every statement is (name of the metric, item, value).
fn fact(row: &SimpleQueryRow) -> Option<(&'static Metric, String, f64)> {
    let metric = metric::find(row.get(0)?)?;
    Some((metric, row.get(1).unwrap_or_default().to_string(), row.get(2)?.parse().ok()?))
}

impl Session {
    fn ask(&self, question: &str) -> Result<Vec<SimpleQueryRow>, String> {
        // Inside of the runtime, because a timer needs one from its birth.
        let asked = async { tokio::time::timeout(ANSWER_MAX, self.client.simple_query(question)).await };
        let answer = self.runtime.block_on(asked);
        let messages = answer.map_err(|_| too_late())?.map_err(|e| reason(&e))?;
        let row = |message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None };
        Ok(messages.into_iter().filter_map(row).collect())
    }
}

fn connect(dsn: &str, own: &mut Own) -> Result<Session, String> {
    // The error of a string that cannot be read may hold a part of it.
    let written =
        || "`dsn` of this host cannot be read: write it like postgresql://USER@127.0.0.1/DATABASE".to_string();
    let mut config: Config = dsn.parse().map_err(|_| written())?;
    config.application_name("prony").connect_timeout(ANSWER_MAX);
    if config.get_options().is_none() {
        config.options(OPTIONS);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let connecting = async { tokio::time::timeout(ANSWER_MAX, config.connect(NoTls)).await };
    let connected = runtime.block_on(connecting).map_err(|_| too_late())?;
    let (client, connection) = connected.map_err(|e| reason(&e))?;
    // Its end is seen as a closed client.
    runtime.spawn(async move { drop(connection.await) });
    let mut session = Session { runtime, client, question: String::new(), no_statements: None };
    own.sessions += 1.0;
    own.transactions += 1.0;
    let about = session.ask(ABOUT)?;
    let text = |column: usize| about.first().and_then(|row| row.get(column)).unwrap_or_default().to_string();
    let version: u32 = text(0).parse().map_err(|_| "the server does not tell its version".to_string())?;
    if version < 100_000 {
        return Err(format!("the server is PostgreSQL {}: its sessions are read from version 10 on", version / 10_000));
    }
    let view = match (text(1).as_str(), text(2).as_str()) {
        ("", _) => {
            Err("the extension is not there: load it by shared_preload_libraries, then CREATE EXTENSION".to_string())
        }
        (_, library) if !library.contains("pg_stat_statements") => {
            Err("the extension is made but not loaded: add it to shared_preload_libraries and restart".to_string())
        }
        (schema, _) => Ok(format!("{schema}.pg_stat_statements")),
    };
    session.question = question(version, view.as_deref().ok());
    session.no_statements = view.err().map(|why| format!("pg_stat_statements: {why}"));
    Ok(session)
}

fn too_late() -> String {
    format!("the database did not answer within {} ms: it may be full", ANSWER_MAX.as_millis())
}

fn reason(error: &tokio_postgres::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        if !text.contains(&inner.to_string()) {
            text += &format!(": {inner}");
        }
        source = inner.source();
    }
    format!("{text}; `dsn` is used from inside the host: try it there with psql")
}

/// Version, schema of pg_stat_statements, and what the server has loaded.
const ABOUT: &str = "select /* prony */ current_setting('server_version_num'), \
    (select quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace \
     where e.extname = 'pg_stat_statements'), current_setting('shared_preload_libraries', true)";

/// Statements that every server since version 10 knows.
const ALWAYS: &str = "\
select /* prony */ 'pg.sessions', case when query = '<insufficient privilege>' then 'hidden' \
 else coalesce(state, 'starting') end, count(*) from pg_stat_activity \
 where backend_type = 'client backend' and pid <> pg_backend_pid() group by 2;
select /* prony */ 'pg.waits', coalesce(wait_event_type || ':' || wait_event, 'running'), count(*) from pg_stat_activity \
 where backend_type = 'client backend' and pid <> pg_backend_pid() and state = 'active' group by 2;
select /* prony */ 'pg.oldest_transaction', '', \
  coalesce(extract(epoch from max(clock_timestamp() - xact_start)), 0) from pg_stat_activity \
 where backend_type = 'client backend' and pid <> pg_backend_pid();
select /* prony */ 'pg.locks_awaited', locktype, count(*) from pg_locks where not granted group by 2;
select /* prony */ 'pg.connections', '', count(*) from pg_stat_activity \
 where backend_type = 'client backend' and pid <> pg_backend_pid();
select /* prony */ 'pg.connections_max', '', current_setting('max_connections')::int \
 - current_setting('superuser_reserved_connections')::int - coalesce(current_setting('reserved_connections', true)::int, 0);
select /* prony */ v.name, '', v.value from (select sum(xact_commit) a, sum(xact_rollback) b, sum(deadlocks) c, \
  sum(blks_read) d, sum(blks_hit) e, sum(tup_inserted + tup_updated + tup_deleted) f, sum(temp_bytes) g from pg_stat_database) s, \
 lateral (values ('pg.commits', a), ('pg.rollbacks', b), ('pg.deadlocks', c), ('pg.blocks_read', d), ('pg.blocks_hit', e), \
  ('pg.rows_written', f), ('pg.temp_bytes', g)) v(name, value);
select /* prony */ v.name, t.relid::regclass::text, v.value from \
 (select * from pg_stat_user_tables order by seq_tup_read + coalesce(idx_tup_fetch, 0) desc limit 20) t, \
 lateral (values ('pg.table_scans', seq_scan), ('pg.table_scanned_rows', seq_tup_read), \
  ('pg.table_index_rows', coalesce(idx_tup_fetch, 0)), ('pg.table_rows', n_live_tup)) v(name, value);
";

/// Since version 14.
const SESSION_TIMES: &str = "\
select /* prony */ v.name, '', v.value from (select sum(sessions) a, sum(active_time) / 1000 b, \
  sum(idle_in_transaction_time) / 1000 c from pg_stat_database) s, \
 lateral (values ('pg.sessions_opened', a), ('pg.active_time', b), ('pg.in_transaction_time', c)) v(name, value);
select /* prony */ 'pg.wal_bytes', '', wal_bytes from pg_stat_wal;
";
const WAL_14: &str = "select /* prony */ 'pg.wal_writes', '', wal_write from pg_stat_wal;
select /* prony */ 'pg.wal_syncs', '', wal_sync from pg_stat_wal;
";
/// pg_stat_wal lost these columns in version 18.
const WAL_18: &str = "select /* prony */ 'pg.wal_writes', '', sum(writes) from pg_stat_io where object = 'wal';
select /* prony */ 'pg.wal_syncs', '', sum(fsyncs) from pg_stat_io where object = 'wal';
";

/// Statements of which the server does not normalise the text may hold secrets, so they are told by number.
fn statements(view: &str, version: u32) -> String {
    let time = if version >= 130_000 { "total_exec_time" } else { "total_time" };
    format!(
        "select /* prony */ 'pg.statements', '', sum(calls) from {view} where query not like '%/* prony */%';\n\
         select /* prony */ v.name, s.item, v.value from (select case when query ~* \
         '^\\s*(/\\*.*\\*/)?\\s*(select|insert|update|delete|with|merge|values)' then \
         left(regexp_replace(query, '\\s+', ' ', 'g'), 120) else 'statement ' || coalesce(queryid, 0) end as item, \
         sum(calls) c, sum({time}) / 1000 t, sum(rows) r from {view} where query not like '%/* prony */%' \
         group by 1 order by 3 desc limit 20) s, lateral (values ('pg.statement_calls', c), \
         ('pg.statement_time', t), ('pg.statement_rows', r)) v(name, value);\n"
    )
}

/// Everything that a server of that version can tell.
fn question(version: u32, statements_view: Option<&str>) -> String {
    let mut text = ALWAYS.to_string();
    if version >= 140_000 {
        text += SESSION_TIMES;
        text += if version >= 180_000 { WAL_18 } else { WAL_14 };
    }
    text + &statements_view.map_or(String::new(), |view| statements(view, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_the_question_is_a_metric() {
        let text = question(150_000, Some("public.pg_stat_statements"));
        let names: BTreeSet<&str> = text.split('\'').filter(|word| word.starts_with("pg.")).collect();
        assert!(names.len() >= 24, "{names:?}");
        for name in names {
            assert!(metric::find(name).is_some(), "{name}");
        }
        assert!(text.lines().filter(|line| line.starts_with("select")).all(|line| line.contains("/* prony */")));
        assert!(!question(130_000, None).contains("pg_stat_wal"));
        assert!(!question(180_000, None).contains("wal_sync from pg_stat_wal"));
        assert!(statements("s.v", 120_000).contains("sum(total_time)"));
    }

    #[test]
    fn own_work_is_subtracted_and_what_is_gone_is_zero() {
        let mut postgres = Postgres::new("");
        postgres.own = Own { sessions: 1.0, transactions: 2.0 };
        let mut facts = Facts::new("db", 0);
        let rows = |wait: &str| {
            vec![
                (&m::PG_COMMITS, String::new(), 10.0),
                (&m::PG_SESSIONS_OPENED, String::new(), 1.0),
                (&m::PG_WAITS, wait.to_string(), 3.0),
            ]
        };
        postgres.put(&mut facts, rows("IO:WALSync"));
        facts.begin(1);
        postgres.put(&mut facts, rows("Lock:tuple"));
        assert_eq!(
            facts.listing(),
            "pg.commits [] 8\npg.sessions_opened [] 0\npg.waits [Lock:tuple] 3\npg.waits [IO:WALSync] 0\n"
        );
    }

    #[test]
    fn sessions_that_may_not_be_seen_are_a_gap() {
        let mut facts = Facts::new("db", 0);
        Postgres::new("").put(&mut facts, vec![(&m::PG_SESSIONS, "hidden".to_string(), 9.0)]);
        assert!(facts.listing().contains("gap pg.waits: the role of `dsn` may not see"), "{}", facts.listing());
    }

    #[test]
    fn no_message_holds_the_connection_string() {
        for dsn in
            ["postgresql://app:secret@[/x", "host=127.0.0.1 port=secret", "postgresql://app:secret@127.0.0.1:1/app"]
        {
            let mut facts = Facts::new("db", 0);
            Postgres::new(dsn).ask(&mut facts);
            let told = facts.listing();
            assert!(told.starts_with("gap pg: ") && !told.contains("secret"), "{told}");
        }
    }
}
