//! The screens in tmux, a real terminal: on 80x24, resized while they run, without colour, and gone when they are stopped.

mod prony;

use prony::{Served, hostile, scratch, wait_until};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A tmux of our own with one window of 80x24. It ends with the test.
struct Tmux {
    home: TempDir,
}

impl Tmux {
    /// Runs a line of a shell there; the window stays when it has ended.
    fn run(line: &str) -> Self {
        let tmux = Self { home: scratch() };
        let home = tmux.home.path().display();
        let kept = format!("export PRONY_HOME='{home}'; echo before; {line}; echo \"ended with $?\"; exec sleep 600");
        tmux.tell(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &kept]);
        tmux
    }

    fn socket(&self) -> PathBuf {
        self.home.path().join("tmux")
    }

    fn tell(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        let out = tmux.arg("-S").arg(self.socket()).args(arguments).output();
        let out = out.expect("tmux is here: scripts/setup.sh test");
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// What the window shows, a line each.
    fn shown(&self) -> Vec<String> {
        self.tell(&["capture-pane", "-p"]).lines().map(str::to_string).collect()
    }

    fn resize(&self, columns: &str, rows: &str) {
        self.tell(&["resize-window", "-x", columns, "-y", rows]);
    }

    /// Waits until a whole screen has this title in its first line, and this in its last, and its longest line as many columns as
    /// one that was drawn for the window.
    fn fits(&self, title: &str, last: &str, columns: RangeInclusive<usize>) -> Vec<String> {
        let mut lines = Vec::new();
        wait_until(
            &format!("a screen of {columns:?} columns that begins with {title:?} and ends with {last:?}"),
            || {
                lines = self.shown();
                let written = || lines.iter().filter(|line| !line.is_empty());
                let widest = written().map(|line| line.chars().count()).max().unwrap_or(0);
                let begins = lines.first().is_some_and(|line| line.trim_start().starts_with(title));
                let ends = written().next_back().is_some_and(|line| line.contains(last));
                // What an earlier size left would stand beside it or show the title twice.
                begins
                    && ends
                    && written().filter(|line| line.contains(title)).count() == 1
                    && columns.contains(&widest)
            },
        );
        lines
    }

    /// Stops what runs by its key, pressed once, and gives what then stands in the window.
    fn stopped(&self) -> String {
        let mut shown = String::new();
        self.tell(&["send-keys", "q"]);
        wait_until("q ends it", || {
            shown = self.shown().join("\n");
            shown.contains("ended with ")
        });
        assert!(shown.starts_with("before\n"), "the window is given back as it was: {shown}");
        shown
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        Command::new("tmux").arg("-S").arg(self.socket()).arg("kill-server").output().ok();
    }
}

const PRONY: &str = env!("CARGO_BIN_EXE_prony");

#[test]
fn a_load_fits_its_window_whatever_becomes_of_it() {
    let port = hostile(Served::Answer);
    let tmux = Tmux::run(&format!("'{PRONY}' load -c 2 -d 60s --rate 50 http://127.0.0.1:{port}/"));
    let stop = "q or Ctrl-C";
    // Its charts use most of a window.
    let small = tmux.fits("prony load", stop, 56..=80);
    let says = |lines: &[String], word: &str| lines.iter().any(|line| line.contains(word));
    for word in ["open loop, 50.0/s", "left", "asked", "p99", "generator"] {
        assert!(says(&small, word), "no {word} in {small:#?}");
    }
    tmux.resize("120", "40");
    tmux.fits("prony load", stop, 84..=120);
    tmux.resize("44", "10");
    let smallest = tmux.fits("prony load", "in flight", 31..=44);
    assert!(says(&smallest, "p99"), "the tail is the last to go: {smallest:#?}");
    tmux.resize("80", "24");
    tmux.fits("prony load", stop, 56..=80);
    let result = tmux.stopped();
    for word in ["Requests/sec", "Interrupted", "ended with 4"] {
        assert!(result.contains(word), "no {word} in {result}");
    }
}

#[test]
fn hosts_are_watched_without_colour() {
    let tmux = Tmux::run(&format!("NO_COLOR=1 '{PRONY}' watch --interval 200ms --for 60s"));
    let screen = tmux.fits("prony watch", "Ctrl-C", 45..=80);
    assert!(screen.iter().any(|line| line.contains("here")), "{screen:#?}");
    let escapes = tmux.tell(&["capture-pane", "-p", "-e"]);
    // Foreground and background colours begin with 3, 4, 9 or 10 and end with a digit and an m; bold and dim have one digit.
    let colours = escapes.split('\u{1b}').filter(|part| part.find('m').is_some_and(|end| is_colour(&part[..end])));
    assert_eq!(colours.count(), 0, "{escapes:?}");
    // Its rows are as long as what they say, which is more than a narrow window has.
    tmux.resize("44", "24");
    tmux.fits("prony watch", "Ctrl-C", 1..=44);
    tmux.resize("120", "40");
    tmux.fits("prony watch", "Ctrl-C", 45..=120);
    tmux.stopped();
}

/// Whether the parameters of an escape choose a colour other than the terminal's own (39 and 49).
fn is_colour(escape: &str) -> bool {
    let numbers = escape.trim_start_matches('[').split(';').filter_map(|number| number.parse::<u32>().ok());
    numbers.into_iter().any(|number| matches!(number, 30..=38 | 40..=48 | 90..=107))
}
