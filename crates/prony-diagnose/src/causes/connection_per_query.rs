//! # Connection per query
//!
//! The application opens a connection to its database for each request.
//!
//! ## What it sees
//! Connections that the database accepts (`tcp.passive_opens`, `pg.sessions_opened`) per request of the clients.
//!
//! ## Why it limits
//! A database pays for each connection: PostgreSQL with a process, its memory and the check of who it is, some hundred
//! times the work of a small statement.
//!
//! ## Evidence
//! Connections per request; their share of the database's work, at prices per connection and per statement, of the part
//! of the limit that the database makes.
//!
//! ## What it is not
//! A pool that is filled once, or a connection that is opened anew now and then. Connections that the database refuses:
//! the requests that ask for them fail, and `connection-limit` is why. A proxy that opens connections to servers:
//! `upstream-keepalive-off`.
//!
//! ## Fix
//! A pool of connections in the application, or one between (pgbouncer).
//!
//! ## References
//! PostgreSQL, "How Connections Are Established".

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, does_not_apply, predicted_gain, ruled_out,
};
use crate::facts::{Fact, Hop, Reader};
use crate::sessions::{is_proxy, price_us, share_of_limit, statements, stores_of};
use prony_model::metric::{PG_SESSIONS_OPENED, REDIS_CONNECTIONS, TCP_PASSIVE_OPENS};
use prony_model::stack::Software;
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "connection-per-query",
    layer: Layer::Connections,
    title: "a connection to the database per request",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("connection_per_query.rs"),
};

/// Connections per request below which they are kept. A guess: a pool that lets a connection go after a hundred uses
/// stays far below.
const OPENS_PER_REQUEST: f64 = 0.2;
/// Below this share of the limit it does not matter. Cited: catalogue row 2 lets 2 % of the time pass.
const SHARE_MIN: f64 = 0.02;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let stores = stores_of(hop);
    if is_proxy(hop) || stores.is_empty() {
        return does_not_apply(hop, "calls no database");
    }
    let mut silent = None;
    for store in stores {
        let opens = store.fact("connections opened / request", "", |r| Ok(opens(r)? / r.throughput()?))?;
        if opens.value < OPENS_PER_REQUEST {
            silent = Some(ruled_out(&opens, OPENS_PER_REQUEST, "guess", "its connections to the database are kept"));
            continue;
        }
        let at = store.at(Level::At)?;
        // Whoever gets no connection asks for one again, and fails.
        let failed = at.trial.result.error_share();
        let due = opens.value - failed;
        if due < OPENS_PER_REQUEST {
            let claim = "its connections to the database are kept, except for requests that fail";
            silent = Some(ruled_out(&opens, OPENS_PER_REQUEST + failed, "guess", claim));
            continue;
        }
        let connecting = due * price_of(&store);
        let asking = statements(&at).unwrap_or(0.0) / at.throughput()? * price_us::STATEMENT;
        let part = connecting / (connecting + asking);
        let share = at.good_share() * share_of_limit(&store, part)?.max(share_of_limit(hop, due.min(1.0) * part)?);
        if share < SHARE_MIN {
            silent = Some(ruled_out(&opens, OPENS_PER_REQUEST, "guess", "its connections to the database cost little"));
            continue;
        }
        return finding(hop, &store, opens, part, share);
    }
    silent.unwrap_or_else(|| does_not_apply(hop, "calls no database"))
}

fn finding(hop: &Hop<'_>, store: &Hop<'_>, opened: Fact, part: f64, share: f64) -> Result<Judgement, Gap> {
    let claim = format!("{} opens {:.2} connections to {} per request", hop.name, opened.value, store.name);
    let rising = store.fact("connections opened", "/s", opens);
    let dose = if cpu_is_full(hop)? { Dose::Cpu } else { Dose::CpuOf(store.name.to_string()) };
    Finding::new(opened, OPENS_PER_REQUEST, "guess", &claim, share)
        .and(
            Ok(Fact::across_levels(store, "share of the database's work that connecting takes", part)),
            "connecting is most of its work",
        )
        .and(store.fact("cpu us / request", "us", |r| r.cpu_us_per_request()), "what a request costs the database")
        .mend("a pool of connections in the application, or a pooler before the database", None)
        .gaining(predicted_gain(store, share))
        .rising(rising)
        .tested_by(dose)
        .fires()
}

/// Connections per second: what the kernel accepted, which needs nobody's word; else what the server counted.
fn opens(r: &Reader<'_>) -> Result<f64, Gap> {
    r.sum(&TCP_PASSIVE_OPENS).or_else(|_| r.sum(&PG_SESSIONS_OPENED)).or_else(|_| r.sum(&REDIS_CONNECTIONS))
}

/// CPU microseconds of a connection. Redis serves it in its one thread: two round trips of it. A guess.
fn price_of(store: &Hop<'_>) -> f64 {
    match store.host().and_then(|h| h.software) {
        Some(Software::Redis) => 2.0 * price_us::STATEMENT,
        Some(Software::Postgres | Software::Nginx | Software::Haproxy | Software::Other) | None => price_us::CONNECTION,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    /// 150 requests/s, so many connections each; the database fills CPU 1.
    fn lab(per_request: f64) -> Lab {
        let lab = Lab::chain().throughput(150.0).cpu("0", 0.2, 0.1, 0.02).cpu("1", 0.4, 0.5, 0.05).own("app", 0.25);
        lab.own("db", 0.85).statements(300.0).per_second("db", &TCP_PASSIVE_OPENS, "", 150.0 * per_request)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "app", &lab(1.0)).unwrap();
        assert!(found.score > 0.8, "{}", found.score);
        assert_eq!(score(CAUSE.id, "app", &Lab::chain()), 0.0);
        assert_eq!(score(CAUSE.id, "gw", &lab(1.0)), 0.0);
        assert_eq!(score(CAUSE.id, "app", &lab(0.19)), 0.0, "border");
        assert!(score(CAUSE.id, "app", &lab(0.21)) > 0.0, "border");
        assert!(score(CAUSE.id, "app", &lab(1.0).mute()) > 0.8, "the kernel counts connections too");
        assert_eq!(score(CAUSE.id, "app", &lab(0.22).failing(0.21)), 0.0, "refused: a request fails for each");
        assert!(score(CAUSE.id, "app", &lab(1.0).failing(0.21)) > 0.5, "those that do not fail open theirs too");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..3.0, b in 0.0f64..3.0) {
            prop_assert!(score(CAUSE.id, "app", &lab(a.min(b))) <= score(CAUSE.id, "app", &lab(a.max(b))) + 1e-9);
        }
    }
}
