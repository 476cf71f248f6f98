//! Several questions at once: p-values corrected so that the chance of *any* false alarm stays at the level.
//!
//! It knows nothing of effects. Invariant: a corrected p is never smaller than the plain one, and their order stays.

/// Corrected p-values, in the order given: the k-th smallest of m is multiplied by m - k + 1 and is at least its predecessor.
///
/// Holm 1979, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6. It holds
/// whatever the questions have to do with each other, as Bonferroni's, and rejects at least as much. A p that is not a
/// number counts as 1.
pub fn adjusted(p: &[f64]) -> Vec<f64> {
    let p: Vec<f64> = p.iter().map(|p| if p.is_nan() { 1.0 } else { p.clamp(0.0, 1.0) }).collect();
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|i, j| p[*i].total_cmp(&p[*j]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 0.0f64;
    for (rank, i) in order.into_iter().enumerate() {
        least = least.max((p[i] * (p.len() - rank) as f64).min(1.0));
        adjusted[i] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn as_in_the_textbook() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm")
        let seen = adjusted(&[0.01, 0.04, 0.03, 0.005]);
        for (seen, want) in seen.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((seen - want).abs() < 1e-12, "{seen} {want}");
        }
        assert_eq!(adjusted(&[0.04]), [0.04]);
        assert_eq!(adjusted(&[f64::NAN, 0.01]), [1.0, 0.02]);
    }

    #[test]
    fn of_five_questions_without_a_difference_one_in_twenty_families_raises_an_alarm() {
        let mut random = Random::new(1);
        let mut families = |correct: bool| {
            (0..4000)
                .filter(|_| {
                    let p: Vec<f64> = (0..5).map(|_| random.uniform()).collect();
                    let p = if correct { adjusted(&p) } else { p };
                    p.iter().any(|p| *p <= 0.05)
                })
                .count()
        };
        // Binomial, 4000 times 1 - 0.99^5 = 0.049: 196 +- 3.3 * 13.7. Without correction: 1 - 0.95^5 = 0.23.
        assert!((151..=241).contains(&families(true)));
        assert!(families(false) > 800);
    }

    proptest! {
        #[test]
        fn order_stays_and_nothing_gets_smaller(p in vec(0.0f64..1.0, 0..12)) {
            let adjusted = adjusted(&p);
            for (i, one) in p.iter().enumerate() {
                prop_assert!(adjusted[i] >= *one && adjusted[i] <= 1.0);
                for (j, other) in p.iter().enumerate() {
                    prop_assert!(one > other || adjusted[i] <= adjusted[j]);
                }
            }
        }

        /// One more question never makes an answer surer.
        #[test]
        fn more_questions_never_help(p in vec(0.0f64..1.0, 1..8), more in 0.0f64..1.0) {
            let (few, many) = (adjusted(&p), adjusted(&[&p[..], &[more]].concat()));
            prop_assert!(few.iter().zip(&many).all(|(few, many)| *few <= many + 1e-12));
        }
    }
}
