//! Synthetic runs of a chain: client, gateway, application, database. Figures as in a chain of nginx, Python and
//! PostgreSQL on two CPUs.

use super::{Lab, QUIET};
use prony_model::Stack;
use prony_model::metric::*;

const STACK: &str = r#"
name = "chain"
entry = "http://10.77.0.20/"
[host.client]
role = "generator"
cpus = "1"
[host.gw]
role = "proxy"
cpus = "1"
software = "nginx"
addr = "10.77.0.20"
calls = ["app"]
[host.app]
role = "app"
cpus = "0"
addr = "10.77.0.40"
calls = ["db"]
[host.db]
role = "database"
cpus = "1"
software = "postgres"
addr = "10.77.0.30"
"#;
const DB: &str = "10.77.0.30:5432";

impl Lab {
    /// 64 clients, 2,000 requests/s, twenty connections to the database, two statements each; the application's CPU is
    /// full.
    pub fn chain() -> Self {
        let lab = Self { stack: Stack::parse("chain.toml", STACK).unwrap(), n: [64.0, 64.0, 128.0], ..Self::healthy() };
        let mut lab = Self { values: Default::default(), ..lab }.throughput(2_000.0);
        lab.r_us[0] = 4_000.0;
        lab = lab.cpu("0", 0.75, 0.15, 0.06).cpu("1", 0.3, 0.2, 0.1);
        for (host, cpus) in [("gw", 0.1), ("app", 0.9), ("db", 0.3)] {
            lab = lab.own(host, cpus).per_second(host, &TCP_PASSIVE_OPENS, "", 0.0).per_second(
                host,
                &TCP_IN_SEGMENTS,
                "",
                9e3,
            );
            for quiet in QUIET {
                lab = lab.per_second(host, quiet, if quiet.item.is_empty() { "" } else { "eth0 noqueue" }, 0.0);
            }
        }
        lab.gauge("app", &CONN_IN, "80", 64.0)
            .gauge("app", &CONN_IN_BUSY, "80", 30.0)
            .gauge("app", &CONN_IN_UNREAD, "80", 1.0)
            .gauge("app", &LISTEN_QUEUE, "0.0.0.0:80", 0.0)
            .gauge("app", &PROC_THREADS, "101", 1.0)
            .per_second("app", &TCP_ACTIVE_OPENS, "", 0.0)
            .per_second("app", &CONN_IN_ANSWERED, "80", 2_000.0)
            .held(20.0)
            .gauge("app", &CONN_OUT_WAITING, DB, 4.0)
            .gauge("app", &CONN_OUT_RTT, DB, 100.0)
            .statements(4_000.0)
            .gauge("db", &PG_CONNECTIONS_MAX, "", 97.0)
            .sessions([2.0, 3.0, 3.0], "running")
            .per_second("db", &PG_WAL_SYNCS, "", 5.0)
            .scans("items", 0.0, 1_000.0)
    }

    /// Connections of the application to the database, the same at every level.
    pub fn held(self, connections: f64) -> Self {
        self.gauge("app", &CONN_OUT, DB, connections).gauge("db", &PG_CONNECTIONS, "", connections)
    }

    /// Statements per second.
    pub fn statements(self, rate: f64) -> Self {
        self.per_second("app", &CONN_OUT_SENT, DB, rate).per_second("db", &PG_COMMITS, "", rate)
    }

    /// Sessions in a statement, all of them in this wait.
    pub fn sessions(mut self, active: super::Levels, wait: &str) -> Self {
        self = self.without("db", &PG_WAITS).without("db", &PG_SESSIONS);
        self.levels("db", &PG_SESSIONS, "active", active)
            .gauge("db", &PG_SESSIONS, "idle", 5.0)
            .levels("db", &PG_WAITS, wait, active)
    }

    /// Sequential scans of a table per second, and the rows that each reads.
    pub fn scans(self, table: &str, scans: f64, rows: f64) -> Self {
        self.per_second("db", &PG_TABLE_SCANS, table, scans)
            .per_second("db", &PG_TABLE_SCANNED_ROWS, table, scans * rows)
            .per_second("db", &PG_TABLE_INDEX_ROWS, table, 20_000.0)
            .gauge("db", &PG_TABLE_ROWS, table, rows)
    }

    /// Nobody asks the database: what remains is what its host shows.
    pub fn mute(mut self) -> Self {
        let is_told = |metric: &str| metric.starts_with("pg.");
        self.values.retain(|(_, metric, _), _| !is_told(metric));
        self
    }

    /// Requests queue in the application while every CPU has room: so many requests per second, however many clients.
    pub fn queueing(self, x: f64) -> Self {
        let lab = self.throughput(x).cpu("0", 0.15, 0.05, 0.02).cpu("1", 0.1, 0.08, 0.04);
        let mut lab = lab.own("gw", 0.02).own("app", 0.15).own("db", 0.06);
        lab.r_us[0] = 6_000.0;
        lab
    }
}
