//! Call stacks with how often each was seen, and the shares of functions and modules among them.
//!
//! Pure. Invariant: shares are of all samples, so they stay below 1 together when some are not listed; the number of
//! stacks and of functions is bounded.

use super::symbols::{Frame, KERNEL};
use crate::facts::Facts;
use prony_model::metric as m;
use prony_model::stacks::{FoldedStack, KERNEL_MARK};
use std::collections::{BTreeMap, BTreeSet};

/// A function below this share of the samples is not listed as a fact; it stays in the stacks. A guess: 3000 samples tell
/// a share of 0.2 % to about half of itself.
const SHARE_MIN: f64 = 0.002;
/// Functions that are listed at most.
const FUNCTIONS_MAX: usize = 400;
/// Stacks that are kept at most, the most frequent ones; the rest is counted under its root. A guess: a proxy under load
/// showed some 300 (measured by `prony diagnose labs/proxy.toml`).
const STACKS_MAX: usize = 2000;
/// What stands for the stacks that were not kept.
const REST: &str = "[rarely seen]";

/// Samples by stack, the outermost frame first.
#[derive(Debug, Default)]
pub(super) struct Fold {
    stacks: BTreeMap<Vec<Frame>, f64>,
}

impl Fold {
    /// Adds samples of one stack.
    pub(super) fn add(&mut self, frames: Vec<Frame>, samples: f64) {
        if !frames.is_empty() && samples > 0.0 {
            *self.stacks.entry(frames).or_default() += samples;
        }
    }

    /// All samples.
    pub(super) fn samples(&self) -> f64 {
        self.stacks.values().sum()
    }

    /// Puts the shares of functions, alone and with what they call, and of modules.
    pub(super) fn put(&self, facts: &mut Facts) {
        let all = self.samples();
        let (mut own, mut total) = (BTreeMap::<&str, f64>::new(), BTreeMap::<&str, f64>::new());
        let mut modules = BTreeMap::<&str, f64>::new();
        for (frames, samples) in &self.stacks {
            if let Some(leaf) = frames.last() {
                *own.entry(&leaf.function).or_default() += samples;
                *modules.entry(&leaf.module).or_default() += samples;
            }
            // A function that calls itself counts once.
            for function in frames[1..].iter().map(|frame| frame.function.as_str()).collect::<BTreeSet<_>>() {
                *total.entry(function).or_default() += samples;
            }
        }
        for (metric, samples) in [(&m::PROFILE_SELF, own), (&m::PROFILE_TOTAL, total), (&m::PROFILE_MODULE, modules)] {
            for (item, share) in greatest(samples, all) {
                facts.put(metric, item, share);
            }
        }
    }

    /// The stacks as they are recorded, the most frequent ones first.
    pub(super) fn stacks(self) -> Vec<FoldedStack> {
        let mut stacks: Vec<(Vec<Frame>, f64)> = self.stacks.into_iter().collect();
        stacks.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut rest = BTreeMap::<String, f64>::new();
        for (frames, samples) in stacks.split_off(stacks.len().min(STACKS_MAX)) {
            *rest.entry(text_of(&frames[0])).or_default() += samples;
        }
        let kept = stacks.into_iter().map(|(frames, samples)| (frames.iter().map(text_of).collect(), samples));
        let rest = rest.into_iter().map(|(root, samples)| (vec![root, REST.to_string()], samples));
        let whole = |(frames, samples): (Vec<String>, f64)| FoldedStack { frames, samples: samples.round() as u64 };
        kept.chain(rest).map(whole).filter(|stack| stack.samples > 0).collect()
    }
}

/// Shares that are worth a line, the greatest first.
fn greatest(samples: BTreeMap<&str, f64>, all: f64) -> Vec<(&str, f64)> {
    let mut shares: Vec<(&str, f64)> = samples.into_iter().map(|(item, n)| (item, n / all)).collect();
    shares.retain(|(_, share)| *share >= SHARE_MIN);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    shares.truncate(FUNCTIONS_MAX);
    shares
}

/// The frame as text: functions of the kernel are marked.
fn text_of(frame: &Frame) -> String {
    if frame.module == KERNEL { format!("{}{KERNEL_MARK}", frame.function) } else { frame.function.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    fn frame(text: &str) -> Frame {
        let (function, module) = text.split_once('@').unwrap_or((text, KERNEL));
        Frame { function: function.to_string(), module: module.to_string() }
    }

    fn fold(stacks: &[(&str, f64)]) -> Fold {
        let mut fold = Fold::default();
        stacks.iter().for_each(|(stack, samples)| fold.add(stack.split(';').map(frame).collect(), *samples));
        fold
    }

    #[test]
    fn shares_are_of_all_samples() {
        let mut facts = Facts::new("lb", 0);
        let stacks = [
            ("nginx@nginx;main@nginx;deflate@libz.so.1", 600.0),
            ("nginx@nginx;main@nginx;write;down_write;down_write", 399.0),
            ("nginx@nginx;main@nginx;rare", 1.0),
        ];
        fold(&stacks).put(&mut facts);
        expect![[r#"
            profile.self [deflate] 0.6
            profile.self [down_write] 0.399
            profile.total [main] 1
            profile.total [deflate] 0.6
            profile.total [down_write] 0.399
            profile.total [write] 0.399
            profile.module [libz.so.1] 0.6
            profile.module [kernel] 0.4
        "#]]
        .assert_eq(&facts.listing());
    }

    #[test]
    fn stacks_are_bounded_and_none_is_lost() {
        let mut fold = Fold::default();
        for i in 0..STACKS_MAX + 500 {
            fold.add(vec![frame("nginx@nginx"), frame(&format!("f{i}"))], 1.0 + (i % 7) as f64);
        }
        let all = fold.samples();
        let stacks = fold.stacks();
        assert_eq!(stacks.len(), STACKS_MAX + 1);
        assert_eq!(stacks.iter().map(|s| s.samples as f64).sum::<f64>(), all);
        assert_eq!(stacks.last().unwrap().frames, ["nginx", REST]);
        assert_eq!(stacks[0].frames[1], "f1000_[k]", "the most frequent first, functions of the kernel marked");
    }

    proptest! {
        #[test]
        fn modules_add_up_to_at_most_all(counts in proptest::collection::vec((0usize..6, 0.0f64..100.0), 0..40)) {
            let mut fold = Fold::default();
            for (i, samples) in counts {
                fold.add(vec![frame("p@p"), frame(&format!("f@m{i}"))], samples);
            }
            let mut facts = Facts::new("lb", 0);
            fold.put(&mut facts);
            let (sample, _) = facts.finish();
            let sum: f64 = sample.values.iter().filter(|(m, ..)| m == "profile.module").map(|(_, _, v)| v).sum();
            prop_assert!(sum <= 1.0 + 1e-9);
        }
    }
}
