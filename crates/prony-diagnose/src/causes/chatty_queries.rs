//! # Chatty queries
//!
//! The application asks its database many small questions for one request, one after the other.
//!
//! ## What it sees
//! Segments with data that the application sends to the database per request of the clients (each question is one), and
//! statements as the database counts them.
//!
//! ## Why it limits
//! Each question costs a round trip, and the work of sending, parsing and answering on both sides.
//!
//! ## Evidence
//! Questions per request; those beyond a handful are the share of the work that could go, of the part of the limit that
//! the application and the database make.
//!
//! ## What it is not
//! A few questions per request, or one question with a large answer. One slow statement: `slow-query`.
//!
//! ## Fix
//! One statement with a join or a list (`= any($1)`) instead of one per item; batches; a cache.
//!
//! ## References
//! The "N + 1" problem of object-relational mappers.

use crate::cause::{
    Cause, Dose, Finding, Judgement, Kind, Layer, Scope, cpu_is_full, does_not_apply, gain_of_share, ruled_out,
};
use crate::facts::{Hop, Reader};
use crate::sessions::{is_proxy, statements, stores_of};
use prony_model::metric::{CONN_OUT_RTT, CONN_OUT_SENT};
use prony_model::{Gap, Level};

pub(super) const CAUSE: Cause = Cause {
    id: "chatty-queries",
    layer: Layer::Upstream,
    title: "chatty queries",
    kind: Kind::Fault,
    scope: Scope::Serving,
    check,
    source: include_str!("chatty_queries.rs"),
};

/// Questions per request from which they are many. A guess: the chain asks three, one of them to clean a session up.
const MANY: f64 = 10.0;
/// What is left of them when they are asked together. A guess.
const A_HANDFUL: f64 = 4.0;
/// Below this share of the limit it does not matter. A guess.
const SHARE_MIN: f64 = 0.1;

fn check(hop: &Hop<'_>) -> Result<Judgement, Gap> {
    let stores = stores_of(hop);
    if is_proxy(hop) || stores.is_empty() {
        return does_not_apply(hop, "calls no database");
    }
    let mut silent = None;
    for store in stores {
        let questions = hop.fact(format!("questions to {} / request", store.name), "", |r| {
            // The greater of two counts that both miss some: sockets that end, statements within a transaction.
            let sent = r.towards(&CONN_OUT_SENT, &store);
            let counted = statements(&r.of(&store));
            Ok(sent.clone().unwrap_or(0.0).max(counted.or(sent)?) / r.throughput()?)
        })?;
        let good = hop.at(Level::At)?.good_share();
        let share = good * (1.0 - A_HANDFUL / questions.value).max(0.0) * reach(hop, &store, questions.value)?;
        if questions.value < MANY || share < SHARE_MIN {
            silent =
                Some(ruled_out(&questions, MANY, "guess", "it asks few questions per request, or they cost little"));
            continue;
        }
        let claim = format!("{} asks {} {:.0} questions for each request", hop.name, store.name, questions.value);
        let full_here = cpu_is_full(hop)?;
        let dose = if full_here || !cpu_is_full(&store)? { Dose::Cpu } else { Dose::CpuOf(store.name.to_string()) };
        return Finding::new(questions, MANY, "guess", &claim, share)
            .and(hop.fact("cpu us / request", "us", |r| r.cpu_us_per_request()), "what a request costs the application")
            .and(store.fact("cpu us / request", "us", |r| r.cpu_us_per_request()), "what it costs the database")
            .and(hop.fact("round trip", "us", |r| r.towards(&CONN_OUT_RTT, &store)), "and each question a round trip")
            .mend("one statement with a join or a list instead of one per item", None)
            .gaining(Some(gain_of_share(share, None)))
            .rising(
                hop.fact("questions", "/s", |r| {
                    statements(&r.of(&store)).or_else(|_| r.towards(&CONN_OUT_SENT, &store))
                }),
            )
            .tested_by(dose)
            .fires();
    }
    silent.unwrap_or_else(|| does_not_apply(hop, "calls no database"))
}

/// Share of the limit that application and database make: the greater share of full CPUs, else their part of the
/// response time, round trips included.
fn reach(hop: &Hop<'_>, store: &Hop<'_>, questions: f64) -> Result<f64, Gap> {
    let of_cpu = |h: &Hop<'_>| -> Result<Option<f64>, Gap> {
        let at = h.at(Level::At)?;
        Ok(if cpu_is_full(h)? { Some(at.own_cpu()? / at.cpu()?.total()) } else { None })
    };
    if let Some(most) = [of_cpu(hop)?, of_cpu(store)?].into_iter().flatten().reduce(f64::max) {
        return Ok(most.min(1.0));
    }
    let at = hop.at(Level::At)?;
    let response_us = at.in_flight()? / at.throughput()? * 1e6;
    let round_trips_us = questions * at.towards(&CONN_OUT_RTT, store).unwrap_or(0.0);
    let work_us = |r: &Reader<'_>| Ok::<f64, Gap>(r.own_cpu()? * 1e6 / r.throughput()?);
    Ok(((work_us(&at)? + work_us(&at.of(store))? + round_trips_us) / response_us).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lab, finding, score};
    use proptest::prelude::*;

    /// 300 requests/s with so many questions each; the application's CPU is full.
    fn lab(questions: f64) -> Lab {
        Lab::chain().throughput(300.0).statements(300.0 * questions)
    }

    #[test]
    fn fires_silent_border() {
        let found = finding(CAUSE.id, "app", &lab(31.0)).unwrap();
        assert!(found.score > 0.7 && found.dose == Dose::Cpu, "{}", found.score);
        assert!(score(CAUSE.id, "app", &lab(31.0).failing(0.9)) < 0.1, "most of them fail");
        assert_eq!(score(CAUSE.id, "app", &Lab::chain()), 0.0);
        assert_eq!(score(CAUSE.id, "db", &lab(31.0)), 0.0);
        assert_eq!(score(CAUSE.id, "app", &lab(9.9)), 0.0, "border");
        assert!(score(CAUSE.id, "app", &lab(10.1)) > 0.0, "border");
        assert!(score(CAUSE.id, "app", &lab(31.0).mute()) > 0.7, "segments are counted without the database's word");
    }

    #[test]
    fn with_room_everywhere_it_is_the_time_of_the_questions() {
        let few = Lab { n: [4.0, 4.0, 8.0], ..lab(31.0).queueing(300.0).statements(300.0 * 31.0) };
        let few = Lab { r_us: [13_000.0; 3], ..few };
        let share = score(CAUSE.id, "app", &few);
        assert!(share > 0.1 && share < 0.9, "{share}");
    }

    proptest! {
        #![proptest_config(crate::testing::few_cases())]
        #[test]
        fn monotonic(a in 0.0f64..200.0, b in 0.0f64..200.0) {
            prop_assert!(score(CAUSE.id, "app", &lab(a.min(b))) <= score(CAUSE.id, "app", &lab(a.max(b))) + 1e-9);
        }
    }
}
