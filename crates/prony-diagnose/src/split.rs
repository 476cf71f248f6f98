//! Where the time of a request goes, hop by hop: as the deep look timed it at the sockets of each host, else as sockets show
//! where requests in flight are.
//!
//! It judges nothing. Invariant: a hop's own time is what it holds less what it waits for further on, never below 0; what
//! too few requests were timed for is a gap.

use crate::facts::{Fact, Hop, Reader};
use prony_model::metric::{
    SPLIT_BY_LOG, SPLIT_BY_TRACES, SPLIT_CALLS, SPLIT_CALLS_TIMED, SPLIT_QUEUE, SPLIT_REQUESTS, SPLIT_RESIDENCE,
    SPLIT_TIMED, SPLIT_UPSTREAM,
};
use prony_model::{Gap, Level, Metric};

/// With less of its requests timed, the rest may be of another kind. A guess.
const COVERED_MIN: f64 = 0.5;
/// A port or peer with fewer requests than this share of the hop's does not take part: a status page, a health check.
const PART_MIN: f64 = 0.01;

/// What a hop holds of a request of the clients.
#[derive(Clone, Debug)]
pub struct Held {
    /// Milliseconds at the hop itself, not further on.
    pub own_ms: f64,
    /// Share of the time of the whole request.
    pub share: f64,
    /// How it was timed; the gap when the sockets had to show it.
    pub split: Result<Split, Gap>,
}

/// What the deep look timed at one hop.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Requests per second that came to it.
    pub requests_per_s: f64,
    /// From the arrival of a request to its answer, mean.
    pub residence_us: f64,
    /// Of this, until it was read. None where that was not seen: an access log begins when nginx or HAProxy reads.
    pub queue_us: Option<f64>,
    /// Of this, waiting for hosts further on, per request. Calls made at once count one after the other.
    pub downstream_us: f64,
    /// Whom it waited for, the longest first.
    pub peers: Vec<String>,
    /// Share of its requests that were timed, or of its calls to one peer: the least.
    pub covered: f64,
}

/// Requests per second at one port or peer, and the mean of those that were timed.
struct Part<'a> {
    item: &'a str,
    per_s: f64,
    timed: f64,
    mean_us: f64,
}

/// What is read of requests that come, for [`parts`].
const ACCEPTED: [&Metric; 3] = [&SPLIT_REQUESTS, &SPLIT_TIMED, &SPLIT_RESIDENCE];
/// And of calls that go out.
const CALLED: [&Metric; 3] = [&SPLIT_CALLS, &SPLIT_CALLS_TIMED, &SPLIT_UPSTREAM];

impl Split {
    /// What the look saw, if it could time enough.
    pub fn of(hop: &Hop<'_>) -> Result<Self, Gap> {
        let mut accepted = parts(hop, ACCEPTED);
        if accepted.is_empty() {
            return Err(not_seen(hop));
        }
        let requests_per_s: f64 = accepted.iter().map(|p| p.per_s).sum();
        let mut called = parts(hop, CALLED);
        for parts in [&mut accepted, &mut called] {
            parts.retain(|p| p.per_s >= PART_MIN * requests_per_s);
        }
        called.sort_by(|a, b| b.in_flight().total_cmp(&a.in_flight()));
        let least = accepted.iter().chain(&called).min_by(|a, b| a.timed.total_cmp(&b.timed));
        let Some(&Part { item, timed: covered, .. }) = least else { return Err(not_seen(hop)) };
        if covered < COVERED_MIN {
            let timed = 100.0 * covered;
            let reason = format!(
                "only {timed:.0} % of the requests at {item} could be timed: several at once on a connection, or in pieces"
            );
            return Err(Gap::new(SPLIT_RESIDENCE.name, hop.name, reason));
        }
        let per_request = |parts: &[Part<'_>]| parts.iter().map(Part::in_flight).sum::<f64>() / requests_per_s * 1e6;
        let by_log = accepted.iter().all(|p| [SPLIT_BY_LOG, SPLIT_BY_TRACES].contains(&p.item));
        // Of traces there may be one for each tenth request: then the rate is that of the hop, and the times are of a sample.
        let sampled = accepted.iter().all(|p| p.item == SPLIT_BY_TRACES);
        let all_per_s = hop.inspect().filter(|_| sampled).and_then(|trial| Reader { hop: *hop, trial }.requests().ok());
        let queue = accepted.iter().filter_map(|p| Some(p.per_s * hop.look(&SPLIT_QUEUE, p.item).ok()?));
        let queue: Vec<f64> = queue.collect();
        let queue_us = queue.iter().sum::<f64>() / requests_per_s;
        Ok(Self {
            requests_per_s: all_per_s.map_or(requests_per_s, |all| all.max(requests_per_s)),
            residence_us: per_request(&accepted),
            queue_us: (!by_log && !queue.is_empty()).then_some(queue_us),
            downstream_us: per_request(&called),
            peers: called.iter().map(|p| p.item.to_string()).collect(),
            covered,
        })
    }

    /// Time of a request at the hop itself.
    pub fn own_us(&self) -> f64 {
        (self.residence_us - self.downstream_us).max(0.0)
    }
}

impl Part<'_> {
    /// Little's law: N = X R.
    fn in_flight(&self) -> f64 {
        self.per_s * self.mean_us / 1e6
    }
}

/// Ports or peers with requests.
fn parts<'a>(hop: &Hop<'a>, [per_s, timed, mean]: [&Metric; 3]) -> Vec<Part<'a>> {
    let part = |item: &'a str| {
        let per_s = hop.look(per_s, item).ok().filter(|n| *n > 0.0)?;
        // A place where none was timed has no mean, and is a gap for that.
        let (timed, mean_us) = (hop.look(timed, item).unwrap_or(0.0), hop.look(mean, item).unwrap_or(0.0));
        Some(Part { item, per_s, timed, mean_us })
    };
    hop.items(per_s).into_iter().filter_map(part).collect()
}

fn not_seen(hop: &Hop<'_>) -> Gap {
    let known = hop.run.gaps.iter().find(|gap| gap.fact == SPLIT_RESIDENCE.name && gap.host == hop.name);
    let none = || Gap::new(SPLIT_RESIDENCE.name, hop.name, "the deep look timed no request there");
    known.cloned().unwrap_or_else(none)
}

impl Hop<'_> {
    /// What stays at the hop: as timed in the look, else as its sockets show it at the level `at`.
    pub fn held(&self) -> Result<Held, Gap> {
        let split = Split::of(self);
        if let (Ok(timed), Some((whole_ms, rate))) = (&split, self.whole()) {
            let visits = self.visits().unwrap_or(timed.requests_per_s / rate);
            let own_ms = timed.own_us() / 1e3 * visits;
            return Ok(Held { own_ms, share: (own_ms / whole_ms).min(1.0), split });
        }
        let at = self.at(Level::At)?;
        let (staying, all, rate) = (at.staying()?, at.in_flight()?, at.throughput()?);
        Ok(Held { own_ms: staying / rate * 1e3, share: (staying / all).min(1.0), split })
    }

    /// Share of the time of a whole request for which it lies at the hop before it is read, as timed in the look. A gap where it was not.
    pub fn lying_unread(&self) -> Result<Fact, Gap> {
        let held = self.held()?;
        let split = held.split?;
        let queue_us = split.queue_us.ok_or_else(|| {
            Gap::new(SPLIT_QUEUE.name, self.name, "nothing told how long requests lie before it reads them")
        })?;
        let share = held.share * queue_us / split.own_us().max(queue_us).max(f64::MIN_POSITIVE);
        Ok(Fact { unit: "share", ..Fact::across_levels(self, "split.queue / time of requests", share) })
    }

    /// Milliseconds of a whole request and requests per second, both during the look: as timed at the entry, so that they
    /// and the times of the hops are of the same moments; else as clients saw them.
    fn whole(&self) -> Option<(f64, f64)> {
        let entry = Hop::path(self.run).into_iter().next()?;
        let of = |split: Split| (split.residence_us / 1e3, split.requests_per_s);
        Split::of(&entry).ok().map(of).or_else(|| {
            let look = Reader { hop: *self, trial: self.inspect()? };
            Some((look.in_flight().ok()? / look.throughput().ok()? * 1e3, look.throughput().ok()?))
        })
    }

    /// How often a request of the clients comes to the hop: by what each host on the way calls per request of its own, for each was looked
    /// at in its own moment. None where one of them was not timed.
    fn visits(&self) -> Option<f64> {
        let path = Hop::path(self.run);
        let place = path.iter().position(|hop| hop.name == self.name)?;
        if place == 0 {
            return Some(1.0);
        }
        let calls = |caller: &&Hop<'_>| caller.host().is_some_and(|h| h.calls.iter().any(|name| name == self.name));
        let callers: Vec<&Hop<'_>> = path[..place].iter().filter(calls).collect();
        let through = |caller: &Hop<'_>| Some(caller.visits()? * caller.calls_per_request(self)?);
        if callers.is_empty() { None } else { callers.into_iter().map(through).sum() }
    }

    fn calls_per_request(&self, callee: &Hop<'_>) -> Option<f64> {
        let accepted: f64 = parts(self, ACCEPTED).iter().map(|part| part.per_s).sum();
        let called = self.calls_to(callee);
        (accepted > 0.0 && !called.is_empty()).then(|| called.iter().map(|part| part.per_s).sum::<f64>() / accepted)
    }

    fn calls_to(&self, callee: &Hop<'_>) -> Vec<Part<'_>> {
        let mut called = parts(self, CALLED);
        called.retain(|part| callee.is_at(part.item));
        called
    }

    /// Own time per request that reaches the hop, in milliseconds.
    pub fn own_wait(&self) -> Result<Fact, Gap> {
        let by_sockets = || self.fact("own wait per request", "ms", |r| Ok(r.staying()? / r.requests()? * 1e3));
        match self.held()?.split {
            Ok(split) => Ok(Fact { value: split.own_us() / 1e3, ..by_sockets().unwrap_or_else(|_| self.bare_wait()) }),
            Err(_) => by_sockets(),
        }
    }

    fn bare_wait(&self) -> Fact {
        Fact { unit: "ms", ..Fact::across_levels(self, "own wait per request", 0.0) }
    }

    /// Calls to a host that are under way at a time, as the look timed them. A gap when too few were timed.
    pub fn calls_in_flight(&self, callee: &Hop<'_>) -> Result<Fact, Gap> {
        let called = self.calls_to(callee);
        if called.is_empty() || called.iter().any(|part| part.timed < COVERED_MIN) {
            return Err(not_seen(self));
        }
        let in_flight = called.iter().map(Part::in_flight).sum();
        Ok(Fact::across_levels(self, "calls under way, as timed", in_flight))
    }

    /// Share of the requests in flight that are on their way to this hop or back, as the look timed them: neither with whoever
    /// asked, nor here. None where either was not timed.
    pub fn on_the_way(&self) -> Option<f64> {
        let all = Reader { hop: *self, trial: self.inspect()? }.in_flight().ok()?;
        let here = Split::of(self).ok()?;
        let asked = match self.is_entry() {
            true => all,
            false => {
                let callers = self.run.stack.callers(self.name).into_iter().map(|caller| self.other(caller));
                callers.map(|caller| Some(caller.calls_in_flight(self).ok()?.value)).sum::<Option<f64>>()?
            }
        };
        Some(((asked - here.requests_per_s * here.residence_us / 1e6) / all).clamp(0.0, 1.0))
    }

    /// From the arrival of a request to its answer, as the look timed it.
    pub fn timed_residence(&self) -> Result<Fact, Gap> {
        let value = Split::of(self)?.residence_us / 1e3;
        Ok(Fact { unit: "ms", ..Fact::across_levels(self, SPLIT_RESIDENCE.name, value) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Lab;

    fn lab() -> Lab {
        Lab::healthy()
            .gauge("lb", &SPLIT_REQUESTS, "80", 15_300.0)
            .gauge("lb", &SPLIT_TIMED, "80", 0.99)
            .gauge("lb", &SPLIT_RESIDENCE, "80", 4_000.0)
            .gauge("lb", &SPLIT_QUEUE, "80", 1_500.0)
            .gauge("lb", &SPLIT_CALLS, "10.77.0.11:80", 7_650.0)
            .gauge("lb", &SPLIT_CALLS_TIMED, "10.77.0.11:80", 1.0)
            .gauge("lb", &SPLIT_UPSTREAM, "10.77.0.11:80", 500.0)
            .gauge("lb", &SPLIT_CALLS, "10.77.0.12:80", 7_650.0)
            .gauge("lb", &SPLIT_CALLS_TIMED, "10.77.0.12:80", 1.0)
            .gauge("lb", &SPLIT_UPSTREAM, "10.77.0.12:80", 1_500.0)
    }

    fn split(lab: &Lab) -> Result<Split, Gap> {
        Split::of(&Hop { run: &lab.run(), name: "lb" })
    }

    #[test]
    fn own_time_is_what_it_holds_less_what_it_waits_for() {
        let split = split(&lab()).unwrap();
        assert!((split.downstream_us - 1_000.0).abs() < 0.1, "half of the requests wait 0.5 ms, half 1.5: {split:?}");
        assert!((split.own_us() - 3_000.0).abs() < 0.1);
        assert!((split.queue_us.unwrap() - 1_500.0).abs() < 0.1 && (split.covered - 0.99).abs() < 1e-9);
        assert_eq!(split.peers, ["10.77.0.12:80", "10.77.0.11:80"]);
        let run = lab().run();
        let held = Hop { run: &run, name: "lb" }.held().unwrap();
        assert!((held.own_ms - 3.0).abs() < 0.01 && (held.share - 0.75).abs() < 0.01, "3 of 4 ms: {held:?}");
        let unread = Hop { run: &run, name: "lb" }.lying_unread().unwrap().value;
        assert!((unread - 0.375).abs() < 0.01, "1.5 of 4 ms: {unread}");
    }

    #[test]
    fn a_log_tells_no_queue() {
        let lab = Lab::healthy().gauge("lb", &SPLIT_REQUESTS, SPLIT_BY_LOG, 15_300.0);
        let lab = lab.gauge("lb", &SPLIT_TIMED, SPLIT_BY_LOG, 1.0).gauge("lb", &SPLIT_RESIDENCE, SPLIT_BY_LOG, 4_000.0);
        let split = split(&lab).unwrap();
        assert_eq!((split.queue_us, split.residence_us), (None, 4_000.0));
    }

    #[test]
    fn traces_may_be_of_a_sample() {
        let traced = |per_s: f64| {
            let lab = Lab::healthy().gauge("lb", &SPLIT_REQUESTS, SPLIT_BY_TRACES, per_s);
            let lab = lab.gauge("lb", &SPLIT_TIMED, SPLIT_BY_TRACES, 1.0);
            let lab = lab.gauge("lb", &SPLIT_RESIDENCE, SPLIT_BY_TRACES, 4_000.0);
            let lab = lab.gauge("lb", &SPLIT_CALLS, "db:5432", per_s).gauge("lb", &SPLIT_CALLS_TIMED, "db:5432", 1.0);
            split(&lab.gauge("lb", &SPLIT_UPSTREAM, "db:5432", 1_000.0)).unwrap()
        };
        for split in [traced(153.0), traced(15_300.0)] {
            assert!(
                (split.requests_per_s - 15_300.0).abs() < 1.0 && (split.own_us() - 3_000.0).abs() < 0.1,
                "{split:?}"
            );
        }
    }

    #[test]
    fn calls_at_once_leave_no_time_below_zero() {
        let split = split(&lab().gauge("lb", &SPLIT_UPSTREAM, "10.77.0.12:80", 9_500.0)).unwrap();
        assert_eq!(split.own_us(), 0.0);
    }

    #[test]
    fn too_few_timed_requests_are_a_gap_and_the_sockets_tell() {
        let at = |timed: f64| lab().gauge("lb", &SPLIT_CALLS_TIMED, "10.77.0.11:80", timed);
        assert_eq!(split(&at(0.5)).unwrap().covered, 0.5, "border");
        let muddled = at(0.45);
        let gap = split(&muddled).unwrap_err();
        assert!(gap.reason.starts_with("only 45 % of the requests at 10.77.0.11:80 could be timed"), "{gap:?}");
        let run = muddled.run();
        let held = Hop { run: &run, name: "lb" }.held().unwrap();
        assert!(held.split.is_err() && (held.own_ms - 3.79).abs() < 0.01, "{held:?}");
        let none = lab().without("lb", &SPLIT_UPSTREAM).without("lb", &SPLIT_CALLS_TIMED);
        assert!(split(&none).unwrap_err().reason.starts_with("only 0 %"), "no call was timed: that is not no time");
        assert!(split(&Lab::healthy()).unwrap_err().reason.contains("timed no request"));
    }

    #[test]
    fn calls_under_way_are_those_to_one_host() {
        let run = lab().run();
        let (lb, s2) = (Hop { run: &run, name: "lb" }, Hop { run: &run, name: "s2" });
        assert!((lb.calls_in_flight(&s2).unwrap().value - 11.475).abs() < 0.01, "7,650 per second for 1.5 ms");
        assert!(s2.calls_in_flight(&lb).is_err(), "it calls nobody");
        let muddled = lab().gauge("lb", &SPLIT_CALLS_TIMED, "10.77.0.12:80", 0.45).run();
        let (lb, s2) = (Hop { run: &muddled, name: "lb" }, Hop { run: &muddled, name: "s2" });
        assert!(lb.calls_in_flight(&s2).is_err());
    }

    #[test]
    fn what_clients_saw_stands_in_for_an_entry_that_was_not_timed() {
        let timed = Lab::healthy()
            .gauge("s1", &SPLIT_REQUESTS, "80", 7_650.0)
            .gauge("s1", &SPLIT_TIMED, "80", 1.0)
            .gauge("s1", &SPLIT_RESIDENCE, "80", 800.0);
        let run = timed.run();
        let held = Hop { run: &run, name: "s1" }.held().unwrap();
        assert!((held.own_ms - 0.4).abs() < 0.01, "every other request comes to s1: {held:?}");
        assert!((held.share - 0.4 / 4.18).abs() < 0.001, "{held:?}");
    }

    #[test]
    fn how_often_a_host_is_visited_its_callers_tell() {
        // Seen at a moment when less came to it than the caller sends on the whole.
        let timed = lab().gauge("s1", &SPLIT_REQUESTS, "80", 2_000.0).gauge("s1", &SPLIT_TIMED, "80", 1.0).gauge(
            "s1",
            &SPLIT_RESIDENCE,
            "80",
            400.0,
        );
        let run = timed.run();
        let held = Hop { run: &run, name: "s1" }.held().unwrap();
        assert!((held.own_ms - 0.2).abs() < 0.01, "every other request comes to s1: {held:?}");
    }

    #[test]
    fn a_health_check_is_no_call_of_requests() {
        let checked = lab().gauge("lb", &SPLIT_CALLS, "10.77.0.9:53", 1.0);
        assert_eq!(split(&checked).unwrap(), split(&lab()).unwrap());
    }
}
