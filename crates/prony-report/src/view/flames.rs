//! What the CPUs of each host ran: call stacks for the flame graph, names once each so that the page stays small.
//!
//! It adds nothing up: the page does, so that stacks and list cannot differ.

use crate::typed::view;
use prony_model::{Run, Stacks};
use std::collections::BTreeMap;

view! {
    /// CPU samples of one host.
    pub struct FlameView {
        /// Host.
        pub host: String,
        /// All samples.
        pub samples: u64,
        /// Samples per second and CPU.
        pub samples_per_s: u32,
        /// Names of functions, those of the kernel with `_[k]` at the end.
        pub frames: Vec<String>,
        /// Call stacks, the most frequent first.
        pub stacks: Vec<FlameStack>,
    }

    /// One call stack.
    pub struct FlameStack {
        /// Numbers of frames, the outermost first.
        pub frames: Vec<u32>,
        /// How often it was seen.
        pub samples: u64,
    }
}

/// Stacks of a host that the page gets, the most frequent ones. A guess: 800 of them are some 100 KB, and what comes after
/// is narrower than a pixel.
const STACKS_MAX: usize = 800;

/// The hop of the verdict first, then the others in order of the path.
pub(super) fn flames(run: &Run) -> Vec<FlameView> {
    let suspect = run.diagnosis.as_ref().map(|diagnosis| diagnosis.verdict.hop.as_str());
    let path = run.stack.path();
    let rank = |seen: &&Stacks| {
        (Some(seen.host.as_str()) != suspect, path.iter().position(|host| *host == seen.host).unwrap_or(path.len()))
    };
    let mut seen: Vec<&Stacks> = run.stacks.iter().filter(|seen| !seen.stacks.is_empty()).collect();
    seen.sort_by_key(rank);
    seen.into_iter().map(flame).collect()
}

fn flame(seen: &Stacks) -> FlameView {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let mut frames = Vec::new();
    let mut number = |frame| {
        *numbers.entry(frame).or_insert_with(|| {
            frames.push(String::from(frame));
            frames.len() as u32 - 1
        })
    };
    let kept = seen.stacks.iter().take(STACKS_MAX);
    let stacks = kept.map(|stack| FlameStack {
        frames: stack.frames.iter().map(|frame| number(frame)).collect(),
        samples: stack.samples,
    });
    let stacks = stacks.collect();
    FlameView { host: seen.host.clone(), samples: seen.samples(), samples_per_s: seen.samples_per_s, frames, stacks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::stacks::FoldedStack;
    use prony_model::{Diagnosis, Stack, Verdict};

    fn seen(host: &str, stacks: &[(&[&str], u64)]) -> Stacks {
        let stack = |(frames, samples): &(&[&str], u64)| FoldedStack {
            frames: frames.iter().map(|frame| (*frame).to_string()).collect(),
            samples: *samples,
        };
        let stacks = stacks.iter().map(stack).collect();
        Stacks { host: host.to_string(), at_ns: 0, samples_per_s: 997, stacks }
    }

    #[test]
    fn names_stand_once_and_the_suspect_first() {
        let mut run = Run { stack: Stack::from_url("http://10.0.0.2/"), ..Run::default() };
        run.stacks = vec![
            seen("s1", &[(&["nginx", "main"], 3)]),
            seen("lb", &[(&["nginx", "main", "write_[k]"], 5), (&["nginx", "main"], 2)]),
            seen("s2", &[]),
        ];
        run.diagnosis = Some(Diagnosis {
            verdict: Verdict { hop: "lb".to_string(), ..Verdict::default() },
            ..Diagnosis::default()
        });
        let flames = flames(&run);
        assert_eq!(flames.iter().map(|f| f.host.as_str()).collect::<Vec<_>>(), ["lb", "s1"], "s2 has nothing to show");
        assert_eq!(flames[0].frames, ["nginx", "main", "write_[k]"]);
        assert_eq!(flames[0].stacks[0].frames, [0, 1, 2]);
        assert_eq!(flames[0].stacks[1].frames, [0, 1]);
        assert_eq!(flames[0].samples, 7);
    }

    #[test]
    fn samples_that_are_not_drawn_are_still_counted() {
        let many: Vec<String> = (0..STACKS_MAX + 5).map(|i| format!("f{i}")).collect();
        let frames: Vec<[&str; 1]> = many.iter().map(|frame| [frame.as_str()]).collect();
        let stacks: Vec<(&[&str], u64)> = frames.iter().map(|frames| (&frames[..], 2)).collect();
        let flame = flame(&seen("lb", &stacks));
        assert_eq!((flame.stacks.len(), flame.samples), (STACKS_MAX, 2 * (STACKS_MAX as u64 + 5)));
    }
}
