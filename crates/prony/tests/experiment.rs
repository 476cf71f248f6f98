//! `prony run` through the command line: plans of the ready experiments, mistakes, and a short one on a real lab that is killed
//! and goes on.

mod prony;

use prony::{alone, experiments, prony, prony_at, root, scratch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

const SHORT: &str = r#"
name = "short"
stack = "proxy-keepalive-off"
expectation = "kept connections save a handshake per request"
repeats = 3
duration = "500ms"
settle = "200ms"
[[factor]]
name = "keepalive"
knob = "nginx.upstream_keepalive"
levels = ["as-found", "off", 64]
[[factor]]
name = "size"
workload = "path"
levels = ["/616"]
[[expect]]
factor = "keepalive"
to = 64
change = "more"
"#;

fn written(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("e.toml");
    std::fs::write(&file, text).expect("a scratch folder can be written");
    file
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a scratch folder has a plain name")
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn every_ready_experiment_has_a_plan() {
    let page = include_str!("../../../docs/experiments/README.md");
    for file in experiments() {
        let said = prony(&["run", path(&file), "--plan"]);
        assert_eq!(said.code, 0, "{}: {}", file.display(), said.err);
        assert!(
            said.out.contains("cells x") && said.out.contains("about") && said.out.contains("expected"),
            "{}",
            said.out
        );
        let name = file.file_stem().expect("it has a name").to_string_lossy();
        let file_link = format!("(../../experiments/{name}.toml)");
        assert!(page.contains(&file_link), "docs/experiments/README.md does not link {file_link}");
        let has_page = file.with_file_name(format!("../docs/experiments/{name}.md")).is_file();
        assert_eq!(
            page.contains(&format!("({name}.md)")),
            has_page,
            "docs/experiments/README.md links pages that are there: {name}"
        );
    }
}

#[test]
fn mistakes_are_told_before_anything_runs() {
    let folder = scratch();
    for (old, new, says) in [
        ("[[factor]]", "[[factr]]", "did you mean `factor`?"),
        ("nginx.upstream_keepalive\"", "lp:nginx.upstream_keepalive\"", "did you mean `lb`?"),
        ("workload = \"path\"", "workload = \"conections\"", "did you mean `connections`?"),
        ("proxy-keepalive-off", "proxy-keepaliv-off", "did you mean the lab `proxy-keepalive-off`?"),
        ("to = 64", "to = 65", "it has as-found, off, 64"),
    ] {
        let file = written(folder.path(), &SHORT.replacen(old, new, 1));
        let said = prony(&["run", path(&file)]);
        assert_eq!(said.code, 2, "{new}: {} {}", said.out, said.err);
        assert!(said.err.contains(says), "{new}: {}", said.err);
    }
    assert_eq!(prony(&["run", "no-such.toml"]).code, 2);
}

#[test]
fn the_page_describes_every_key() {
    let page = include_str!("../../../docs/experiments/README.md");
    let folder = scratch();
    // An unknown key is told together with those that there are.
    for (before, after) in
        [("name = \"short\"", "zzz = 1"), ("workload", "zzz = 1\nworkload"), ("to = 64", "zzz = 1\nto = 64")]
    {
        let file = written(folder.path(), &SHORT.replacen(before, after, 1));
        let said = prony(&["run", path(&file)]).err;
        let keys: Vec<&str> = said.split('`').skip(3).step_by(2).collect();
        assert!(keys.len() > 3, "{said}");
        for key in keys {
            let names = [format!("`{key}`"), format!("[[{key}]]"), format!("[{key}]")];
            assert!(
                names.iter().any(|name| page.contains(name)),
                "docs/experiments/README.md does not describe `{key}`"
            );
        }
    }
}

/// A factor of each kind that changes the lab or names a file.
const PLACES: &str = r#"
name = "places"
stack = "STACKS/proxy-domains.toml"
expectation = "only the delay is seen"
design = "one-at-a-time"
repeats = 1
duration = "500ms"
settle = "300ms"
[[factor]]
name = "names"
workload = "feed.domains.file"
levels = ["address.csv", "STACKS/32-domains.csv"]
[[factor]]
name = "overlay"
lab = "overlay"
levels = ["none", "vxlan"]
[[factor]]
name = "delay"
lab = "client:link.delay"
levels = ["as-found", "3ms"]
[[factor]]
name = "rules"
lab = "lb:server.regex_rules"
levels = ["as-found", 100]
"#;

#[test]
fn needs_root_levels_may_be_files_overlays_links_and_rules() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let folder = scratch();
    std::fs::write(folder.path().join("address.csv"), "name\n10.77.0.20\n").expect("a scratch folder can be written");
    let stacks = format!("{}/../../experiments/stacks", env!("CARGO_MANIFEST_DIR"));
    let file = written(folder.path(), &PLACES.replace("STACKS", &stacks));
    let said = prony_at(folder.path(), &["run", path(&file), "--json", "-q"]);
    // 4: on a busy machine the generator may be the limit of most cells; they ran all the same.
    assert!([0, 4].contains(&said.code), "{} {}", said.out, said.err);
    let result = json(&said.out);
    let cells = result["cells"].as_array().expect("a list");
    assert_eq!((cells.len(), &result["done"]), (5, &serde_json::json!([5, 5])), "{result}");
    for cell in cells {
        assert!(cell["value"]["value"].as_f64().is_some_and(|v| v > 10.0) && cell["error_share"] == 0.0, "{cell}");
    }
    let p50_us = |number: usize| cells[number]["p50_us"].as_f64().expect("a number");
    assert!(p50_us(3) >= 6_000.0, "3 ms there and 3 ms back: {}", cells[3]);
}

#[test]
fn needs_root_a_level_that_a_host_refuses_ends_it_before_any_load() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let folder = scratch();
    let file = written(folder.path(), &SHORT.replace("64", "\"many\""));
    let said = prony_at(folder.path(), &["run", path(&file)]);
    assert_eq!(said.code, 2, "{} {}", said.out, said.err);
    assert!(said.err.contains("nothing was run") && said.err.contains("`many` is not a whole number"), "{}", said.err);
    assert!(!said.err.contains("warm-up"), "{}", said.err);
}

#[test]
fn needs_root_a_killed_experiment_goes_on_and_leaves_nothing_changed() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let folder = scratch();
    let file = written(folder.path(), SHORT);
    let out = folder.path().join("out");
    let cells = out.join("cells.jsonl");
    let words = ["run", path(&file), "--output", path(&out), "--seed", "7", "--json", "-q"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_prony"))
        .args(words)
        .env("PRONY_HOME", folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary was built with the tests");
    // Some cells are kept, others are missing.
    let begun = Instant::now();
    let lines = || std::fs::read_to_string(&cells).map_or(0, |text| text.lines().count());
    while lines() < 3 && begun.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().expect("it still runs");
    child.wait().expect("it was killed");
    let kept = lines() - 1;
    assert!((2..12).contains(&kept), "{kept} cells were kept");
    assert_eq!(prony_at(folder.path(), &["undo"]).code, 0);
    let labs = json(&prony_at(folder.path(), &["lab", "ls", "--json"]).out);
    assert!(labs.to_string().contains("per request"), "the killed lab is found: {labs}");
    down(folder.path(), &labs, child.id());

    let said = prony_at(folder.path(), &words);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    let result = json(&said.out);
    assert_eq!((&result["done"][0], &result["done"][1]), (&12.into(), &12.into()), "3 cells and the placebo, 3 times");
    assert_eq!(lines(), 13, "what was finished did not run again");
    let effects = result["effects"].as_array().expect("a list");
    assert!(effects.len() == 2 && effects.iter().all(|e| e["effect"]["low"].is_f64()), "{effects:?}");
    assert!(
        effects[1]["effect"]["effect"].as_f64().expect("a number") > 0.0,
        "kept connections bring more: {effects:?}"
    );
    assert!(result["placebo"]["effect"]["pairs"] == 3 && result["cells"][3]["placebo"] == true);
    assert_ne!(result["claims"][0]["allowed"], "not-as-expected");
    let page = std::fs::read_to_string(out.join("result.md")).expect("the page is written");
    assert!(page.contains("result.svg") && out.join("result.svg").exists(), "{page}");
    // Drawn again from what is kept, it tells when that was measured.
    let kept = std::fs::File::options().append(true).open(&cells).expect("the cells are kept");
    kept.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).expect("the file is ours");
    assert_eq!(prony_at(folder.path(), &words).code, 0);
    let again = std::fs::read_to_string(out.join("result.md")).expect("the page is written");
    assert!(again.contains("2023-11-14"), "{again}");
    assert!(prony_at(folder.path(), &["undo"]).out.contains("nothing is left changed"));
    // Other cells are never mixed in.
    let other = prony_at(folder.path(), &[&words[..], &["--repeats", "4"]].concat());
    assert!(other.code == 2 && other.err.contains("cells of another plan"), "{}", other.err);
}

/// Takes down the lab that this process left, and no other.
fn down(home: &Path, labs: &Value, owner: u32) {
    let ours = labs["labs"].as_array().into_iter().flatten().filter(|lab| lab["owner_pid"] == owner);
    for id in ours.filter_map(|lab| lab["id"].as_str()) {
        assert_eq!(prony_at(home, &["lab", "down", id]).code, 0);
    }
}
