//! `prony report` on recorded runs: the CPU profile of one held against that of another, in every form.

mod prony;

use prony::{prony, scratch};
use serde_json::Value;
use std::path::Path;

/// A copy of a recorded run, because reading may recover what a killed writer left.
fn recorded(folder: &Path, name: &str) -> String {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/runs").join(name);
    let to = folder.join(name);
    std::fs::copy(from, &to).expect("the record can be copied");
    to.display().to_string()
}

#[test]
fn a_profile_is_held_against_another_as_text_page_and_data() {
    let home = scratch();
    let now = recorded(home.path(), "overlay-encapsulation.lb.prony");
    let before = recorded(home.path(), "offloads-off.lb.prony");
    let against = |more: &[&str]| prony(&[&["report", &now, "--profile-from", &before], more].concat());
    let text = against(&[]);
    assert!(
        text.code == 0 && text.out.starts_with("lb: ") && text.out.contains(" points  "),
        "{}{}",
        text.out,
        text.err
    );
    assert_eq!(against(&["--format", "text"]).out, text.out);
    let data: Value = serde_json::from_str(&against(&["--format", "json"]).out).expect("it is JSON");
    for flame in data["flames"].as_array().expect("a list") {
        let was = &flame["before"];
        assert!(
            was["samples"].as_u64() > Some(100) && !was["stacks"].as_array().unwrap().is_empty(),
            "{}",
            flame["host"]
        );
    }
    let page = home.path().join("page.html");
    let said = against(&["--format", "html", "--output", page.to_str().expect("a plain path")]);
    assert!(said.code == 0 && said.out.starts_with("report in "), "{}{}", said.out, said.err);
    assert!(std::fs::read_to_string(&page).expect("the page was written").contains("\"before\":{\"run\":\""));
    let page = against(&["--format", "html", "--output", "-"]);
    assert!(page.code == 0 && page.out.starts_with("<!doctype html>"), "`-` is stdout: {}", page.err);
    assert!(page.out.trim_end().ends_with("</html>"), "and nothing else is");
    let refused = against(&["--format", "csv"]);
    assert!(refused.code == 1 && refused.err.contains("text, html or json"), "{}", refused.err);
}

#[test]
fn a_run_without_samples_of_the_same_host_is_said_to_have_none() {
    let home = scratch();
    let now = recorded(home.path(), "overlay-encapsulation.lb.prony");
    let before = recorded(home.path(), "access-log-unbuffered.lb.prony");
    let said = prony(&["report", &now, "--profile-from", &before, "--format", "json"]);
    assert!(said.code == 0 && said.err.contains("no host has call stacks in both runs"), "{}", said.err);
    let data: Value = serde_json::from_str(&said.out).expect("it is JSON");
    assert!(data["flames"].as_array().expect("a list").iter().all(|flame| flame["before"].is_null()));
}
