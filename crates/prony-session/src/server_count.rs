//! Whether the server counted the requests that the load counted: a gate of a trial that the generator alone cannot check.
//!
//! Pure. Invariant: where the entry does not tell its requests, or not over most of the trial, there is no gate.

use prony_model::load::{Gate, LoadResult};
use prony_model::metric::NGINX_REQUESTS;
use prony_model::{Run, SeriesSet, Window};

/// By how much the counts may differ. A guess: the server is asked some times per second, so that its count begins and ends a
/// little within the trial, and throughput is not the same at every moment.
const DEVIATION_MAX: f64 = 0.1;
/// Share of the trial that the server's count must cover. A guess.
const COVERED_MIN: f64 = 0.8;

/// The gate of a trial. The server must have counted as many requests as were answered, and no more than were sent.
pub(crate) fn gate(run: &Run, window: Window, result: &LoadResult) -> Option<Gate> {
    let entry = *run.stack.path().first()?;
    let points = run.series.points(entry, &NGINX_REQUESTS, "");
    let inside: Vec<u64> =
        points.iter().map(|(at, _)| *at).filter(|at| (window.from_ns..=window.to_ns).contains(at)).collect();
    let covered_ns = inside.last()? - inside.first()?;
    if (covered_ns as f64) < COVERED_MIN * window.to_ns.saturating_sub(window.from_ns) as f64 {
        return None;
    }
    let counted_per_s = SeriesSet::rate(points, window)?;
    let sent_per_s = result.sent as f64 / result.duration_s;
    let least = result.completed_per_s * (1.0 - DEVIATION_MAX);
    let most = sent_per_s.max(result.completed_per_s) * (1.0 + DEVIATION_MAX);
    let (enough, few_enough) = (counted_per_s >= least, counted_per_s <= most);
    let next = match (enough, few_enough) {
        (false, _) => "; some answers came from elsewhere: is there a cache or another server on the way?",
        (true, false) => "; others send to this server as well: stop them, or measure when they are silent",
        (true, true) => "",
    };
    let detail = format!(
        "{entry} counted {counted_per_s:.0} requests/s, the load sent {sent_per_s:.0}/s and was answered {:.0}/s, against within 10 %{next}",
        result.completed_per_s
    );
    Some(Gate { name: "server-count".to_string(), held: enough && few_enough, detail, generator_limited: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MadeRun;
    use prony_model::Purpose;

    /// Whether the gate held for an entry that counted so many requests per second; 1000/s were answered, 1200/s sent.
    fn check(counted_per_s: f64) -> Option<(bool, String)> {
        let mut made = MadeRun::of("[host.lb]\nrole = \"proxy\"\n").trial(Purpose::Load, 1000.0);
        if counted_per_s > 0.0 {
            made = made.shows(&NGINX_REQUESTS, "", counted_per_s);
        }
        let trial = made.run.trials[0].clone();
        let result = LoadResult { sent: 1200, duration_s: 1.0, ..trial.result };
        gate(&made.run, trial.window, &result).map(|gate| (gate.held, gate.detail))
    }

    #[test]
    fn the_server_counts_between_answered_and_sent() {
        for (counted, held, said) in
            [(905.0, true, ""), (1310.0, true, ""), (890.0, false, "cache"), (1330.0, false, "others send")]
        {
            let (seen, detail) = check(counted).unwrap();
            assert!(seen == held && detail.contains(said), "{counted}: {detail}");
        }
    }

    #[test]
    fn without_a_count_over_most_of_the_trial_there_is_no_gate() {
        assert_eq!(check(0.0), None);
        let made = MadeRun::of("[host.lb]\nrole = \"proxy\"\n").trial(Purpose::Load, 1000.0);
        let made = made.shows(&NGINX_REQUESTS, "", 1000.0);
        let trial = made.run.trials[0].clone();
        let longer = Window { to_ns: trial.window.to_ns * 2, ..trial.window };
        assert_eq!(gate(&made.run, longer, &trial.result), None);
    }
}
