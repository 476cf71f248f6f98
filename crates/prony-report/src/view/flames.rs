//! What the CPUs of each host ran: call stacks for the flame graph, names once each so that the page stays small.
//!
//! It adds nothing up: the page does, so that stacks and list cannot differ.

use crate::calls::{self, FUNCTIONS_MAX};
use crate::typed::view;
use prony_model::{Run, Stacks};
use std::collections::{BTreeMap, BTreeSet};

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
        /// What it is held against; none when no other run was named, or that run holds no samples of this host.
        pub before: Option<FlameBefore>,
    }

    /// The CPU samples of the same host in an earlier run.
    pub struct FlameBefore {
        /// Id of that run.
        pub run: String,
        /// All samples.
        pub samples: u64,
        /// Call stacks, with the same numbers of frames.
        pub stacks: Vec<FlameStack>,
        /// Functions whose own share moved by more than chance, the greatest change first.
        pub moved: Vec<FunctionShift>,
        /// Functions that are no longer seen, with the shares of the stacks that they were in.
        pub gone: Vec<FunctionShift>,
    }

    /// The share of a function before and now.
    pub struct FunctionShift {
        /// Its name, with `_[k]` at the end if it is of the kernel.
        pub function: String,
        /// Share of the samples before.
        pub before: f64,
        /// Share now.
        pub now: f64,
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

/// The hop of the verdict first, then the others in order of the path; each held against the same host of `before`.
pub(super) fn flames(run: &Run, before: Option<&Run>) -> Vec<FlameView> {
    let suspect = run.diagnosis.as_ref().map(|diagnosis| diagnosis.verdict.hop.as_str());
    let path = run.stack.path();
    let rank = |seen: &&Stacks| {
        (Some(seen.host.as_str()) != suspect, path.iter().position(|host| *host == seen.host).unwrap_or(path.len()))
    };
    let mut seen: Vec<&Stacks> = run.stacks.iter().filter(|seen| !seen.stacks.is_empty()).collect();
    seen.sort_by_key(rank);
    let held_against = |seen: &Stacks| {
        let before = before?;
        let was = before.stacks.iter().find(|was| was.host == seen.host && !was.stacks.is_empty())?;
        Some((before.id.as_str(), was))
    };
    seen.into_iter().map(|seen| flame(seen, held_against(seen))).collect()
}

fn flame(seen: &Stacks, before: Option<(&str, &Stacks)>) -> FlameView {
    // What is frequent in one of two profiles is drawn of both: else it would seem to have come or gone.
    let profiles = std::iter::once(seen).chain(before.map(|(_, was)| was));
    let frequent = profiles.flat_map(|of| of.stacks.iter().take(STACKS_MAX).map(|stack| &stack.frames));
    let frequent: BTreeSet<&Vec<String>> = frequent.collect();
    let mut names = Names::default();
    let stacks = names.stacks(seen, &frequent);
    let before = before.map(|(run, was)| FlameBefore {
        run: run.to_string(),
        samples: was.samples(),
        stacks: names.stacks(was, &frequent),
        moved: shifts(calls::moved(was, seen)),
        gone: shifts(calls::gone(was, seen).into_iter().map(|(function, share)| (function, share, 0.0))),
    });
    let (host, samples, frames) = (seen.host.clone(), seen.samples(), names.frames);
    FlameView { host, samples, samples_per_s: seen.samples_per_s, frames, stacks, before }
}

/// Names of functions, each with one number.
#[derive(Default)]
struct Names<'a> {
    numbers: BTreeMap<&'a str, u32>,
    frames: Vec<String>,
}

impl<'a> Names<'a> {
    fn stacks(&mut self, of: &'a Stacks, kept: &BTreeSet<&Vec<String>>) -> Vec<FlameStack> {
        let kept = of.stacks.iter().filter(|stack| kept.contains(&stack.frames));
        let numbered = kept.map(|stack| FlameStack {
            frames: stack.frames.iter().map(|frame| self.number(frame)).collect(),
            samples: stack.samples,
        });
        numbered.collect()
    }

    fn number(&mut self, frame: &'a str) -> u32 {
        *self.numbers.entry(frame).or_insert_with(|| {
            self.frames.push(frame.to_string());
            self.frames.len() as u32 - 1
        })
    }
}

fn shifts<'a>(functions: impl IntoIterator<Item = (&'a str, f64, f64)>) -> Vec<FunctionShift> {
    let shift =
        |(function, before, now): (&str, f64, f64)| FunctionShift { function: function.to_string(), before, now };
    functions.into_iter().take(FUNCTIONS_MAX).map(shift).collect()
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
        let flames = flames(&run, None);
        assert_eq!(flames.iter().map(|f| f.host.as_str()).collect::<Vec<_>>(), ["lb", "s1"], "s2 has nothing to show");
        assert_eq!(flames[0].frames, ["nginx", "main", "write_[k]"]);
        assert_eq!(flames[0].stacks[0].frames, [0, 1, 2]);
        assert_eq!(flames[0].stacks[1].frames, [0, 1]);
        assert_eq!(flames[0].samples, 7);
    }

    #[test]
    fn a_profile_is_held_against_that_of_the_same_host() {
        let run = |id: &str, stacks: Vec<Stacks>| Run { id: id.to_string(), stacks, ..Run::default() };
        let before = run("old", vec![seen("lb", &[(&["nginx", "main", "log"], 600), (&["nginx", "main"], 400)])]);
        let now = run("new", vec![seen("lb", &[(&["nginx", "main"], 500)]), seen("s1", &[(&["nginx"], 9)])]);
        let flames = flames(&now, Some(&before));
        assert_eq!(flames[1].before, None, "s1 was not looked at before");
        let was = flames[0].before.as_ref().unwrap();
        assert_eq!((was.run.as_str(), was.samples, was.stacks[0].frames.as_slice()), ("old", 1000, &[0, 1, 2][..]));
        assert_eq!(flames[0].frames, ["nginx", "main", "log"], "numbers are the same in both");
        let shift = |function: &str, before, now| FunctionShift { function: function.to_string(), before, now };
        assert_eq!(was.moved, [shift("log", 0.6, 0.0), shift("main", 0.4, 1.0)]);
        assert_eq!(was.gone, [shift("log", 0.6, 0.0)]);
    }

    #[test]
    fn what_is_frequent_in_one_profile_is_drawn_of_both() {
        let many: Vec<String> = (0..STACKS_MAX).map(|i| format!("f{i:04}")).collect();
        let frames: Vec<[&str; 1]> = many.iter().map(|frame| [frame.as_str()]).collect();
        let mut stacks: Vec<(&[&str], u64)> = frames.iter().map(|frames| (&frames[..], 2)).collect();
        stacks.push((&["rare"], 1));
        let flame = flame(&seen("lb", &[(&["rare"], 7)]), Some(("old", &seen("lb", &stacks))));
        assert_eq!(flame.before.unwrap().stacks.len(), STACKS_MAX + 1);
    }

    #[test]
    fn samples_that_are_not_drawn_are_still_counted() {
        let many: Vec<String> = (0..STACKS_MAX + 5).map(|i| format!("f{i}")).collect();
        let frames: Vec<[&str; 1]> = many.iter().map(|frame| [frame.as_str()]).collect();
        let stacks: Vec<(&[&str], u64)> = frames.iter().map(|frames| (&frames[..], 2)).collect();
        let flame = flame(&seen("lb", &stacks), None);
        assert_eq!((flame.stacks.len(), flame.samples), (STACKS_MAX, 2 * (STACKS_MAX as u64 + 5)));
    }
}
