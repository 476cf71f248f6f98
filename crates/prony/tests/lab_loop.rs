//! The whole loop on a real lab, through the command line.

mod prony;

use prony::{prony_at, root, scratch};
use serde_json::Value;

/// One lab at a time: two would take each other's CPUs.
static MACHINE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    // A test that failed has left nothing behind that matters to the next one.
    MACHINE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn needs_root_the_planted_cause_is_found_mended_proven_and_undone() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let home = scratch();
    let (record, report) = (home.path().join("run.prony"), home.path().join("report.html"));
    let args = ["prove", "proxy-keepalive-off", "--quick", "--json", "--record"];
    let said =
        prony_at(home.path(), &[&args[..], &[record.to_str().unwrap(), "--report", report.to_str().unwrap()]].concat());
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    let run = json(&said.out);
    assert_eq!(run["verdict"]["cause"], "upstream-keepalive-off", "{}", run["verdict"]);
    assert_eq!(run["verdict"]["hop"], "lb");
    assert_eq!(run["proof"]["verdict"], "better", "{}", run["proof"]["summary"]);
    assert!(run["proof"]["effect"]["low"].as_f64().unwrap() > 0.0);
    assert!(run["verdict"]["predicted_gain"].as_f64().unwrap() > 0.0, "the gain is predicted before");
    assert_eq!(run["changes"][0]["state"], "undone");
    assert!(std::fs::read_to_string(&report).unwrap().contains("upstream-keepalive-off"));
    // The same record gives the same verdict, without a lab.
    let again = prony_at(home.path(), &["diagnose", "--from", record.to_str().unwrap(), "--json"]);
    assert_eq!(json(&again.out)["verdict"]["cause"], "upstream-keepalive-off");
    assert!(prony_at(home.path(), &["undo"]).out.contains("nothing is left changed"));
    assert!(!prony_at(home.path(), &["lab", "ls", "--json"]).out.contains("prony prove"));
}

#[test]
fn needs_root_a_healthy_lab_has_no_fault() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let home = scratch();
    let said = prony_at(home.path(), &["diagnose", "proxy", "--quick", "--watch-only", "--json"]);
    let cause = json(&said.out)["verdict"]["cause"].as_str().unwrap_or_default().to_string();
    assert!(["cpu-saturated-kernel", "cpu-saturated-user"].contains(&cause.as_str()), "{}", said.out);
}

#[test]
fn needs_root_an_interrupted_proof_leaves_nothing_changed() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let home = scratch();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_prony"))
        .args(["tune", "proxy-keepalive-off", "--quick", "--json", "--knob", "nginx.upstream_keepalive=64"])
        .env("PRONY_HOME", home.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the binary was built with the tests");
    std::thread::sleep(std::time::Duration::from_secs(8));
    let interrupted = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.is_ok_and(|s| s.success()));
    let code = child.wait().expect("it ends").code();
    assert!(matches!(code, Some(0 | 4)), "{code:?}");
    assert!(prony_at(home.path(), &["undo"]).out.contains("nothing is left changed"));
}
