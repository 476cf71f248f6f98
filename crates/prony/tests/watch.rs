//! `prony watch` on this machine, on a lab, and on a terminal, through the command line.

mod prony;

use prony::{Spinners, prony, root, scratch};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

fn objects(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn this_machine_is_watched_in_lines() {
    let said = prony(&["watch", "--interval", "300ms", "--for", "2s"]);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines.len() >= 2 && lines.iter().all(|l| l.contains("here") && l.contains("cpu ")), "{}", said.out);
    assert!(!said.out.contains('\u{1b}'), "a pipe is no terminal");
}

#[test]
fn programs_get_an_object_a_line() {
    let busy = Spinners::on(0);
    let said = prony(&["watch", "--json", "--interval", "300ms", "--for", "4s"]);
    drop(busy);
    let seen = objects(&said.out);
    assert!(said.code == 0 && !seen.is_empty(), "{} {}", said.out, said.err);
    let names = |one: &Value| {
        one["processes"].as_array().is_some_and(|all| all.iter().any(|p| p["cpus"].as_f64() > Some(0.05)))
    };
    assert!(seen.iter().any(names), "none of the busy ones: {}", said.out);
    for one in &seen {
        assert_eq!((&one["schema"], &one["host"]), (&"prony.watch/1".into(), &"here".into()));
        let busy = one["facts"]["cpu.busy"].as_f64().unwrap_or_else(|| panic!("{one}"));
        assert!((0.0..=1.0).contains(&busy), "{one}");
    }
}

#[test]
fn looks_that_would_disturb_are_refused() {
    let said = prony(&["watch", "--interval", "1ms"]);
    assert!(said.code == 2 && said.err.contains("the least is 100ms"), "{} {}", said.code, said.err);
    let said = prony(&["watch", "nothing.toml"]);
    assert!(said.code == 2 && said.err.contains("is no file, no URL and no lab"), "{} {}", said.code, said.err);
}

#[test]
fn a_terminal_gets_a_screen_and_is_given_back() {
    let home = scratch();
    let line = format!("stty rows 24 cols 80; exec '{}' watch --for 2s --interval 500ms", env!("CARGO_BIN_EXE_prony"));
    // `script` (util-linux) gives it a terminal of its own.
    let mut script = Command::new("script");
    script.args(["-qfec", &line, "/dev/null"]).env("PRONY_HOME", home.path()).env("TERM", "xterm");
    let said = script.stdin(std::process::Stdio::null()).output().expect("util-linux has `script`");
    let shown = String::from_utf8_lossy(&said.stdout);
    let (taken, given_back) = (shown.find("\u{1b}[?1049h"), shown.rfind("\u{1b}[?1049l"));
    assert!(taken.zip(given_back).is_some_and(|(taken, back)| taken < back), "{shown:?}");
    for want in ["prony watch", "here", "Ctrl-C"] {
        assert!(shown.contains(want), "no {want} in {shown:?}");
    }
    assert!(said.status.success());
}

#[test]
fn needs_root_every_host_of_a_lab_is_watched() {
    if !root("a lab") {
        return;
    }
    let said = prony(&["watch", "proxy", "--json", "--interval", "300ms", "--for", "3s"]);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    let seen = objects(&said.out);
    let hosts: BTreeSet<&str> = seen.iter().filter_map(|one| one["host"].as_str()).collect();
    assert_eq!(hosts, ["client", "lb", "s1", "s2"].into());
    let of_lb = |fact: &str| seen.iter().any(|one| one["host"] == "lb" && one["facts"][fact].is_f64());
    for fact in ["cpu.busy", "nginx.requests", "if.rx_packets", "listen.backlog"] {
        assert!(of_lb(fact), "no {fact} in {}", said.out);
    }
    assert!(!prony(&["lab", "ls", "--json"]).out.contains("prony watch"), "the lab is down");
}
