//! `prony inventory` on real labs and on records, through the command line.

mod prony;

use prony::{prony, root};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn recorded(name: &str) -> String {
    format!("{}/../../testdata/runs/{name}.prony", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn needs_root_two_labs_differ_in_what_was_planted() {
    if !root("a lab") {
        return;
    }
    let said = prony(&["inventory", "proxy", "--diff", "proxy-keepalive-off", "--json"]);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    let found = json(&said.out);
    let differences = found["differences"].as_array().expect("a list");
    let keepalive =
        differences.iter().find(|d| d["what"] == "nginx.config.keepalive").unwrap_or_else(|| panic!("{found}"));
    assert_eq!((&keepalive["hosts"], keepalive["b"].is_null()), (&serde_json::json!(["lb"]), true), "{keepalive}");
    assert_eq!(keepalive["causes"][0], "upstream-keepalive-off");
    // What labs make anew each time, and what nobody planted, is no difference.
    assert!(differences.iter().all(|d| d["what"].as_str().is_some_and(|w| w.starts_with("nginx.config."))), "{found}");
    let shown = prony(&["inventory", "proxy", "--host", "lb"]);
    for want in ["\nlb", "if.", ".qdisc", "nginx.config.listen", "sysctl.net.core.somaxconn", "server.workers"] {
        assert!(format!("\n{}", shown.out).contains(want), "no {want} in {}", shown.out);
    }
    assert!(!shown.out.contains("\ns1"), "only one host was asked for");
}

#[test]
fn recorded_runs_are_compared_without_their_hosts() {
    let (a, b) = (recorded("slow-upstream.s2"), recorded("bandwidth-bound.lb"));
    let said = prony(&["inventory", &a]);
    assert!(said.code == 0 && said.out.contains("sysctl.net.core.somaxconn"), "{} {}", said.out, said.err);
    let said = prony(&["inventory", &a, "--diff", "s1,s2"]);
    assert!(said.code == 0 && said.out.starts_with("s1"), "{} {}", said.out, said.err);
    let said = prony(&["inventory", &a, "--diff", &b, "--json"]);
    assert_eq!(json(&said.out)["schema"], "prony.inventory/1");
}

#[test]
fn what_is_not_there_is_a_clear_error() {
    let said = prony(&["inventory", &recorded("slow-upstream.s2"), "--host", "s3"]);
    assert!(said.code == 2 && said.err.contains("has no host `s3`"), "{} {}", said.code, said.err);
    let said = prony(&["inventory", "nothing.toml"]);
    assert!(said.code == 2 && said.err.contains("is no file, no URL and no lab"), "{} {}", said.code, said.err);
}
