//! Call stacks of a host: what its CPUs ran during a deep look, in the folded form that flame graphs are drawn from.
//!
//! Invariant: text and value say the same; a frame holds neither a semicolon nor an end of line.

use serde::{Deserialize, Serialize};

/// Behind the name of a function of the kernel, as in the folded stacks of `perf`.
pub const KERNEL_MARK: &str = "_[k]";

/// Call stacks of one host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stacks {
    /// Host name in the stack.
    pub host: String,
    /// When the look began, in nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Samples per second and CPU.
    pub samples_per_s: u32,
    /// Each stack once, the most frequent first.
    pub stacks: Vec<FoldedStack>,
}

/// One call stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedStack {
    /// The process, then calls from the outermost to the innermost.
    pub frames: Vec<String>,
    /// How often it was seen.
    pub samples: u64,
}

impl Stacks {
    /// All samples.
    pub fn samples(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.samples).sum()
    }

    /// One line for each stack, `process;outer;inner COUNT`: what flamegraph.pl and inferno read.
    pub fn text(&self) -> String {
        let plain = |frame: &String| frame.replace(';', ":").replace('\n', " ");
        let line = |stack: &FoldedStack| {
            let frames: Vec<String> = stack.frames.iter().map(plain).collect();
            format!("{} {}\n", frames.join(";"), stack.samples)
        };
        self.stacks.iter().map(line).collect()
    }

    /// The inverse of [`Self::text`] for the stacks; lines that are none are left out.
    pub fn parse(text: &str) -> Vec<FoldedStack> {
        let stack = |line: &str| {
            let (frames, samples) = line.rsplit_once(' ')?;
            let frames = frames.split(';').map(str::to_string).collect();
            Some(FoldedStack { frames, samples: samples.parse().ok()? })
        };
        text.lines().filter_map(stack).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stacks(frames: &[&[&str]]) -> Stacks {
        let stack = |(i, frames): (usize, &&[&str])| FoldedStack {
            frames: frames.iter().map(|f| (*f).to_string()).collect(),
            samples: i as u64 + 1,
        };
        Stacks { stacks: frames.iter().enumerate().map(stack).collect(), ..Stacks::default() }
    }

    #[test]
    fn text_and_value_say_the_same() {
        let seen = stacks(&[&["nginx", "main", "write_[k]"], &["my app", "operator()(int, char)"]]);
        assert_eq!(seen.text(), "nginx;main;write_[k] 1\nmy app;operator()(int, char) 2\n");
        assert_eq!(Stacks::parse(&seen.text()), seen.stacks);
        assert_eq!(stacks(&[&["a;b", "c\nd"]]).text(), "a:b;c d 1\n", "a separator in a name does not cut it");
        assert_eq!(seen.samples(), 3);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z;0-9 \n]{0,60}") {
            let parsed = Stacks { stacks: Stacks::parse(&text), ..Stacks::default() };
            prop_assert_eq!(Stacks::parse(&parsed.text()), parsed.stacks);
        }
    }
}
