//! What stands around a function in the call stacks of a run, and what two runs' stacks differ in: text for the terminal.
//!
//! It sees runs only. Invariant: shares are of all samples of a host, so those of two hosts or two runs can be compared.

use crate::number::{count, percent};
use prony_model::stacks::KERNEL_MARK;
use prony_model::{Run, Stacks};
use std::collections::{BTreeMap, BTreeSet};

/// A branch with less of the function's samples than this is left out.
const BRANCH_MIN: f64 = 0.02;
/// Levels of branches.
const DEPTH_MAX: usize = 12;
/// Functions that a difference lists for each host.
pub(crate) const FUNCTIONS_MAX: usize = 20;
/// A difference below so many standard errors may be chance.
const ERRORS_MIN: f64 = 3.0;
/// A share that moved less is not worth a line.
const MOVED_MIN: f64 = 0.002;

/// Who calls a function and what it calls, on each host whose samples show it. None when no host's do.
pub fn around(run: &Run, function: &str) -> Option<String> {
    let hosts: Vec<String> = run.stacks.iter().filter_map(|seen| around_on(seen, function)).collect();
    (!hosts.is_empty()).then(|| hosts.join("\n"))
}

/// Functions of a run that are named like this, to help a reader who misspelt one; the most frequent first.
pub fn similar(run: &Run, text: &str) -> Vec<String> {
    let mut found = BTreeMap::<&str, u64>::new();
    for stack in run.stacks.iter().flat_map(|seen| &seen.stacks) {
        for frame in stack.frames.iter().filter(|frame| frame.contains(text)).collect::<BTreeSet<_>>() {
            *found.entry(frame).or_default() += stack.samples;
        }
    }
    let mut found: Vec<(&str, u64)> = found.into_iter().collect();
    found.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    found.into_iter().take(5).map(|(frame, _)| frame.to_string()).collect()
}

fn around_on(seen: &Stacks, function: &str) -> Option<String> {
    let is_it = |frame: &String| frame == function || frame.strip_suffix(KERNEL_MARK) == Some(function);
    let (mut callers, mut callees) = (Branches::default(), Branches::default());
    let (mut total, mut own) = (0, 0);
    for stack in &seen.stacks {
        // The process stands first; of calls to itself the outermost counts.
        let Some(at) = stack.frames.iter().skip(1).position(is_it).map(|at| at + 1) else { continue };
        total += stack.samples;
        own += if stack.frames.last().is_some_and(is_it) { stack.samples } else { 0 };
        callers.add(stack.frames[..at].iter().rev(), stack.samples);
        callees.add(stack.frames[at + 1..].iter(), stack.samples);
    }
    let all = seen.samples();
    let share = |samples: u64| percent(samples as f64 / all as f64);
    let mut text = format!(
        "{}: {function} is in {} of {} samples, itself in {}\n",
        seen.host,
        share(total),
        count(all),
        share(own)
    );
    for (heading, branches, arrow) in [("called by", callers, " < "), ("calls", callees, " > ")] {
        let lines = branches.lines(0, arrow, BRANCH_MIN * total as f64, &share);
        let none = || vec!["  nothing that is seen".to_string()];
        text += &format!("{heading}\n{}\n", if lines.is_empty() { none() } else { lines }.join("\n"));
    }
    (total > 0).then_some(text)
}

/// Samples by the frames on the way, a tree.
#[derive(Debug, Default)]
struct Branches {
    by_frame: BTreeMap<String, (u64, Branches)>,
}

impl Branches {
    fn add<'a>(&mut self, frames: impl Iterator<Item = &'a String>, samples: u64) {
        let mut branches = self;
        for frame in frames {
            let (sum, next) = branches.by_frame.entry(frame.clone()).or_default();
            *sum += samples;
            branches = next;
        }
    }

    /// A line for each branch; frames without a fork stand on one line.
    fn lines(&self, depth: usize, arrow: &str, least: f64, share: &impl Fn(u64) -> String) -> Vec<String> {
        let mut greatest: Vec<_> = self.by_frame.iter().filter(|(_, (n, _))| *n as f64 >= least).collect();
        greatest.sort_by(|a, b| b.1.0.cmp(&a.1.0).then(a.0.cmp(b.0)));
        let mut lines = Vec::new();
        for (frame, (samples, branches)) in greatest.into_iter().filter(|_| depth < DEPTH_MAX) {
            let (mut way, mut end) = (frame.clone(), branches);
            while let Some((frame, (_, next))) = end.only().filter(|(_, (n, _))| n == samples) {
                way = format!("{way}{arrow}{frame}");
                end = next;
            }
            lines.push(format!("{:indent$}{:>7}  {way}", "", share(*samples), indent = 2 * depth + 2));
            lines.extend(end.lines(depth + 1, arrow, least, share));
        }
        lines
    }

    fn only(&self) -> Option<(&String, &(u64, Branches))> {
        let mut all = self.by_frame.iter();
        all.next().filter(|_| all.next().is_none())
    }
}

/// Functions whose own share of the samples moved by more than chance, host by host. Samples are taken as independent
/// (binomial); none of the hosts has to be in both runs.
pub fn difference(before: &Run, after: &Run) -> String {
    let mut text = String::new();
    for was in &before.stacks {
        let Some(is) = after.stacks.iter().find(|is| is.host == was.host) else { continue };
        text += &format!("{}: {} samples before, {} after\n", was.host, count(was.samples()), count(is.samples()));
        let moved = moved(was, is);
        if moved.is_empty() {
            text += "  no function moved by more than chance\n";
        }
        for (function, from, to) in moved.into_iter().take(FUNCTIONS_MAX) {
            let points = 100.0 * (to - from);
            text += &format!("  {points:+7.1} points  {} to {}  {function}\n", percent(from), percent(to));
        }
    }
    if text.is_empty() { "no host has call stacks in both runs\n".to_string() } else { text }
}

/// Functions with their own shares before and after, the greatest change first.
pub(crate) fn moved<'a>(was: &'a Stacks, is: &'a Stacks) -> Vec<(&'a str, f64, f64)> {
    let (before, after) = (own_shares(was), own_shares(is));
    let samples = (was.samples().max(1) as f64, is.samples().max(1) as f64);
    let functions: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let shares = |function: &'a str| {
        let of = |shares: &BTreeMap<&str, f64>| shares.get(function).copied().unwrap_or(0.0);
        (function, of(&before), of(&after))
    };
    let mut moved: Vec<_> = functions.into_iter().map(shares).collect();
    moved.retain(|(_, from, to)| is_more_than_chance((*from, samples.0), (*to, samples.1)));
    moved.sort_by(|a, b| (b.2 - b.1).abs().total_cmp(&(a.2 - a.1).abs()).then(a.0.cmp(b.0)));
    moved
}

/// Functions that were in the stacks before and are in none now, with the share of the stacks that they were in, the greatest first.
/// One that only called others is here and not in [`moved`].
pub(crate) fn gone<'a>(was: &'a Stacks, is: &'a Stacks) -> Vec<(&'a str, f64)> {
    let (before, now) = (was.samples().max(1) as f64, is.samples().max(1) as f64);
    let seen: BTreeSet<&str> = is.stacks.iter().flat_map(|stack| &stack.frames).map(String::as_str).collect();
    let mut shares = BTreeMap::<&str, f64>::new();
    for stack in &was.stacks {
        for frame in stack.frames.iter().map(String::as_str).collect::<BTreeSet<_>>().difference(&seen) {
            *shares.entry(*frame).or_default() += stack.samples as f64 / before;
        }
    }
    let mut gone: Vec<(&str, f64)> = shares.into_iter().collect();
    gone.retain(|(_, share)| is_more_than_chance((*share, before), (0.0, now)));
    gone.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    gone
}

/// Whether two shares, each of so many samples, differ by more than samples do that are drawn twice.
fn is_more_than_chance(was: (f64, f64), is: (f64, f64)) -> bool {
    let both = (was.0 * was.1 + is.0 * is.1) / (was.1 + is.1);
    let error = (both * (1.0 - both) * (1.0 / was.1 + 1.0 / is.1)).sqrt();
    (is.0 - was.0).abs() >= MOVED_MIN.max(ERRORS_MIN * error)
}

fn own_shares(seen: &Stacks) -> BTreeMap<&str, f64> {
    let all = seen.samples().max(1) as f64;
    let mut shares = BTreeMap::new();
    for stack in &seen.stacks {
        if let Some(leaf) = stack.frames.last() {
            *shares.entry(leaf.as_str()).or_insert(0.0) += stack.samples as f64 / all;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn run(stacks: &str) -> Run {
        let stacks = Stacks { host: "lb".into(), stacks: Stacks::parse(stacks), ..Stacks::default() };
        Run { stacks: vec![stacks], ..Run::default() }
    }

    const LOGS: &str = "nginx;main;ngx_log;write;vfs_write_[k];down_write_[k] 300
nginx;main;ngx_log;write;vfs_write_[k];copy_[k] 150
nginx;main;open;vfs_write_[k] 50
nginx;main;deflate 500
";

    #[test]
    fn a_function_stands_between_its_callers_and_what_it_calls() {
        expect![[r#"
            lb: vfs_write is in 50 % of 1,000 samples, itself in 5 %
            called by
                 45 %  write < ngx_log < main < nginx
                  5 %  open < main < nginx
            calls
                 30 %  down_write_[k]
                 15 %  copy_[k]
        "#]]
        .assert_eq(&around(&run(LOGS), "vfs_write").unwrap());
        assert_eq!(around(&run(LOGS), "vfs"), None);
        assert_eq!(similar(&run(LOGS), "write"), ["vfs_write_[k]", "write", "down_write_[k]"]);
    }

    #[test]
    fn a_function_that_calls_itself_counts_once() {
        expect![[r#"
            lb: f is in 25 % of 40 samples, itself in 25 %
            called by
                 25 %  p
            calls
                 25 %  g > f
        "#]]
        .assert_eq(&around(&run("p;f;g;f 10\np;h 30\n"), "f").unwrap());
    }

    #[test]
    fn functions_that_are_no_longer_seen_are_told_with_what_they_called() {
        let (was, is) = (run(LOGS), run("nginx;main;open;vfs_write_[k] 600\nnginx;main;deflate 500\n"));
        let gone = gone(&was.stacks[0], &is.stacks[0]);
        let told: Vec<String> = gone.iter().map(|(function, share)| format!("{function} {share:.2}")).collect();
        assert_eq!(told, ["ngx_log 0.45", "write 0.45", "down_write_[k] 0.30", "copy_[k] 0.15"]);
    }

    #[test]
    fn only_what_moved_by_more_than_chance_is_listed() {
        let after = LOGS.replace(" 300", " 30").replace(" 150", " 160");
        expect![[r#"
            lb: 1,000 samples before, 740 after
                -25.9 points  30 % to 4.1 %  down_write_[k]
                +17.6 points  50 % to 67.6 %  deflate
                 +6.6 points  15 % to 21.6 %  copy_[k]
        "#]]
        .assert_eq(&difference(&run(LOGS), &run(&after)));
        expect![[r#"
            lb: 1,000 samples before, 1,005 after
              no function moved by more than chance
        "#]]
        .assert_eq(&difference(&run(LOGS), &run(&LOGS.replace(" 150", " 155"))));
        expect![[r#"
            no host has call stacks in both runs
        "#]]
        .assert_eq(&difference(&run(LOGS), &Run::default()));
    }
}
