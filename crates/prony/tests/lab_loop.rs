//! The whole loop on a real lab, through the command line.

mod prony;

use prony::{alone, prony_at, root, scratch, wait_until};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A stack file in `folder` that says more of a lab of ours.
fn stack_over(lab: &str, says: &str, folder: &std::path::Path) -> String {
    let base = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../labs/{lab}.toml"));
    let stack = folder.join("stack.toml");
    std::fs::write(&stack, format!("base = {base:?}\n{says}")).expect("the folder is ours");
    stack.display().to_string()
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
    let said = prony_at(home.path(), &["diagnose", "proxy", "--quick", "--passive", "--json"]);
    let cause = json(&said.out)["verdict"]["cause"].as_str().unwrap_or_default().to_string();
    // Which honest end it is depends on how quiet the machine is; a fault it never is.
    let honest = ["cpu-saturated-kernel", "cpu-saturated-user", "generator-saturated", "none", "inconclusive"];
    assert!(honest.contains(&cause.as_str()), "{}", said.out);
}

#[test]
fn needs_root_at_a_rate_it_is_the_time_of_requests_that_answers() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let home = scratch();
    let late = "[workload]\nrate = \"300/s\"\n[slo]\np50 = \"1ms\"\n";
    let stack = stack_over("proxy-slow-upstream", late, home.path());
    let ask = || json(&prony_at(home.path(), &["diagnose", &stack, "--quick", "--json"]).out);
    // A machine that is paused for a moment carries less than was asked.
    let is_carried = |diagnosis: &Value| diagnosis["verdict"]["at_rate"] == true;
    let diagnosis = Some(ask()).filter(is_carried).unwrap_or_else(ask);
    let verdict = &diagnosis["verdict"];
    assert!(verdict["cause"] == "slow-upstream" && is_carried(&diagnosis), "{verdict}");
    let made = diagnosis["interventions"].as_array().expect("the wait was tested");
    assert!(made.iter().all(|i| i["at_rate"] == true), "{made:?}");
    // Half of the requests wait as long: HAProxy's timer holds each.
    let fewer = made.iter().find(|i| i["kind"] == "lower-rate").expect("fewer requests were asked for");
    assert!(fewer["elasticity"].as_f64().is_some_and(|e| e.abs() < 0.35), "{fewer}");
}

#[test]
fn needs_root_at_a_rate_a_remedy_is_proven_by_the_time_of_requests() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let home = scratch();
    let packed = "entry = \"http://10.77.0.20/100k\"\n[workload]\nrate = \"30/s\"\n\
                  headers = { Accept-Encoding = \"gzip\" }\n[lab.host.lb.server]\ngzip_level = 9\n";
    let stack = stack_over("proxy", packed, home.path());
    let args = ["tune", &stack, "--quick", "--json", "--knob", "nginx.gzip_comp_level=1"];
    let said = prony_at(home.path(), &args);
    let proof = &json(&said.out)["proof"];
    assert_eq!(proof["verdict"], "better", "{proof} {}", said.err);
    // As many requests are answered as before, each sooner.
    assert_eq!(proof["effect"]["metric"], "soonness_per_s", "{proof}");
    assert!(proof["summary"].as_str().is_some_and(|told| told.contains("the speed of answers by +")), "{proof}");
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

/// A lab that is taken down with the test.
struct Lab {
    id: String,
    file: String,
    home: tempfile::TempDir,
}

impl Lab {
    fn up(name: &str) -> Self {
        let home = scratch();
        let said = prony_at(home.path(), &["lab", "up", name, "--json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let up = json(&said.out);
        let text = |key: &str| up[key].as_str().expect("the lab says so").to_string();
        Self { id: text("id"), file: text("file"), home }
    }

    /// The proxy's configuration, byte for byte.
    fn config(&self) -> Vec<u8> {
        let stack = std::fs::read_to_string(&self.file).expect("the lab wrote it");
        let table: toml::Table = stack.parse().expect("it is TOML");
        let path = table["host"]["lb"]["config"].as_str().expect("the proxy has a configuration").to_string();
        std::fs::read(path).expect("it is there")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        prony_at(self.home.path(), &["lab", "down", &self.id]);
    }
}

#[test]
fn needs_root_a_killed_tuning_is_undone_by_prony_undo() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let lab = Lab::up("proxy-keepalive-off");
    let before = lab.config();
    for (once_changed, after_ms) in [(false, 1000), (true, 0), (true, 300), (true, 900)] {
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_prony"))
            .args(["tune", &lab.file, "--quick", "--quiet", "--knob", "nginx.upstream_keepalive=64"])
            .env("PRONY_HOME", lab.home.path())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the binary was built with the tests");
        if once_changed {
            wait_until("the change comes into force", || lab.config() != before);
        }
        std::thread::sleep(std::time::Duration::from_millis(after_ms));
        child.kill().expect("it still runs");
        child.wait().expect("it ends");
        let said = prony_at(lab.home.path(), &["undo"]);
        assert_eq!(said.code, 0, "{} {}", said.out, said.err);
        assert_eq!(String::from_utf8_lossy(&lab.config()), String::from_utf8_lossy(&before));
    }
    // The run that was killed last is still readable.
    let runs = std::fs::read_dir(lab.home.path().join("runs")).expect("runs were recorded").flatten();
    let last = runs.map(|e| e.path()).max().expect("a run was recorded");
    let said = prony_at(lab.home.path(), &["report", last.to_str().unwrap(), "--format", "json"]);
    assert_eq!(said.code, 0, "{}", said.err);
}
