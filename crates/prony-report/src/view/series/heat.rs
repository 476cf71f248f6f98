//! How the answers of each trial spread over latency, one trial after the other.
//!
//! Classes are even steps of the logarithm, so that a millisecond and a second have as many. Invariant: a column stands only for a
//! trial whose histogram can be read, and its shares add up to 1.

use super::{HeatColumn, HeatView, load, seconds, short};
use prony_model::Run;
use prony_model::run::Trial;
use prony_stats::Histogram;

/// Classes in a decade of latency. A guess: a class is a third wider than the one before, which is what an eye tells apart.
const CLASSES_PER_DECADE: f64 = 8.0;

pub(super) fn of(run: &Run) -> HeatView {
    let read = |trial: &Trial| Histogram::from_hdr_v2(&trial.result.latency.hdr_v2).ok();
    let seen = load::in_order(run).into_iter().filter_map(|trial| Some((trial, read(trial)?)));
    let seen: Vec<(&Trial, Histogram)> = seen.filter(|(_, latency)| latency.count() > 0).collect();
    let ends = |quantile: f64| seen.iter().map(move |(_, latency)| class(latency.quantile_us(quantile)));
    let (Some(first), Some(last)) = (ends(0.0).min(), ends(1.0).max()) else {
        return HeatView { edges_us: Vec::new(), columns: Vec::new() };
    };
    let edges_us: Vec<f64> =
        (first..=last + 1).map(|class| 10f64.powf(f64::from(class) / CLASSES_PER_DECADE)).collect();
    let columns = seen.iter().map(|(trial, latency)| column(trial, latency, &edges_us)).collect();
    HeatView { edges_us, columns }
}

/// The class of a latency. Below a microsecond nothing is told apart.
fn class(us: f64) -> i32 {
    (us.max(1.0).log10() * CLASSES_PER_DECADE).floor() as i32
}

fn column(trial: &Trial, latency: &Histogram, edges_us: &[f64]) -> HeatColumn {
    let mut up_to = latency.counts_up_to_us(&edges_us[1..]);
    // A histogram rounds: the largest value may lie a little above the edge that holds it.
    if let Some(last) = up_to.last_mut() {
        *last = latency.count();
    }
    let before = std::iter::once(0).chain(up_to.iter().copied());
    let share = |(to, from): (&u64, u64)| short((to - from) as f64 / latency.count() as f64).unwrap_or_default();
    HeatColumn {
        trial: trial.id,
        from_s: seconds(trial.window.from_ns),
        to_s: seconds(trial.window.to_ns),
        p50_us: latency.quantile_us(0.5),
        p99_us: latency.quantile_us(0.99),
        shares: up_to.iter().zip(before).map(share).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::{LoadPlan, LoadResult, Purpose, Window};
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn trial(id: u32, values_us: &[u64]) -> Trial {
        let mut latency = Histogram::new();
        values_us.iter().for_each(|us| latency.record_ns(us * 1000));
        let from_ns = u64::from(id) * 1_000_000_000;
        Trial {
            id,
            purpose: Purpose::Load,
            plan: LoadPlan::to("http://10.0.0.2/"),
            window: Window { from_ns, to_ns: from_ns + 500_000_000 },
            result: LoadResult { latency: latency.to_latency(), ..LoadResult::default() },
        }
    }

    fn heat(trials: Vec<Trial>) -> HeatView {
        of(&Run { trials, ..Run::default() })
    }

    #[test]
    fn a_column_stands_where_its_trial_was_and_tells_where_its_answers_lie() {
        let heat = heat(vec![trial(1, &[110, 110, 110, 9_500]), trial(0, &[1_100])]);
        assert_eq!(
            heat.columns.iter().map(|c| (c.trial, c.from_s, c.to_s)).collect::<Vec<_>>(),
            [(0, 0.0, 0.5), (1, 1.0, 1.5)]
        );
        let class_of = |us: f64| heat.edges_us.windows(2).position(|edge| edge[0] <= us && us < edge[1]).unwrap();
        assert_eq!(heat.columns[1].shares[class_of(110.0)], 0.75);
        assert_eq!(heat.columns[1].shares[class_of(9_500.0)], 0.25);
        assert_eq!(heat.columns[0].shares[class_of(1_100.0)], 1.0);
    }

    #[test]
    fn trials_without_an_answer_have_no_column() {
        let mut broken = trial(0, &[10]);
        broken.result.latency.hdr_v2 = "not a histogram".to_string();
        assert!(heat(vec![broken, trial(1, &[])]).columns.is_empty());
    }

    proptest! {
        #[test]
        fn shares_add_up(first in vec(1u64..50_000_000, 1..40), second in vec(1u64..50_000_000, 1..40)) {
            let heat = heat(vec![trial(0, &first), trial(1, &second)]);
            for column in &heat.columns {
                prop_assert_eq!(column.shares.len() + 1, heat.edges_us.len());
                prop_assert!((column.shares.iter().sum::<f64>() - 1.0).abs() < 0.02);
            }
        }
    }
}
