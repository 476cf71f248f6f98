//! `prony run --rehearse` on real labs: every ready experiment works, and one bad level keeps no other from being tried.

mod prony;

use prony::{alone, experiments, prony_under, root, scratch};
use serde_json::Value;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

/// Rehearsals at once. A guess: a machine of two CPUs still brings each lab up in a few seconds.
const AT_ONCE: usize = 3;

/// The cells of a rehearsal: what each is called, how it went and why; and the exit code. The whole ends after two minutes.
fn rehearsed(file: &Path) -> (Vec<[String; 3]>, i32) {
    let file = file.to_str().expect("a plain name");
    let said = prony_under(&["timeout", "-k", "20", "120"], &["run", file, "--rehearse", "--json", "-q"]);
    let result: Value =
        serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{file}: {e}: {} {}", said.out, said.err));
    assert_eq!(result["schema"], "prony.rehearsal/1");
    let text = |cell: &Value, key: &str| cell[key].as_str().unwrap_or_default().to_string();
    let cells = result["cells"].as_array().expect("a list");
    (cells.iter().map(|cell| ["cell", "state", "reason"].map(|key| text(cell, key))).collect(), said.code)
}

/// Whether a cell is as it should be: it works, or this machine cannot have what it needs.
fn is_fine([cell, state, reason]: &[String; 3]) -> bool {
    // The kernel of this machine, and files that come neither with prony nor by apt.
    let lacks = state == "gap" || state == "fails" && reason.contains("scripts/jetty.sh");
    if lacks {
        eprintln!("left out: {cell}: {reason}");
    }
    lacks || state == "works"
}

#[test]
fn needs_root_every_ready_experiment_works() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    // All are tried before any is complained of; some at once, because they mostly wait for servers that start and stop.
    let (files, wrong) = (Mutex::new(experiments()), Mutex::new(Vec::new()));
    let next = || files.lock().expect("no panic while held").pop();
    let rehearse = || {
        while let Some(file) = next() {
            let name = file.file_stem().expect("it has a name").to_string_lossy().into_owned();
            let (cells, _) = rehearsed(&file);
            assert!(cells.len() > 1, "{name} compares nothing: {cells:?}");
            let bad = cells.iter().filter(|cell| !is_fine(cell)).map(|cell| format!("{name}: {}", cell.join(": ")));
            wrong.lock().expect("no panic while held").extend(bad);
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(rehearse);
        }
    });
    let wrong = wrong.into_inner().expect("no panic while held");
    let help = "what is not installed, `scripts/setup.sh test` installs";
    assert!(wrong.is_empty(), "these do not work here ({help}):\n{}", wrong.join("\n"));
}

const MIXED: &str = r#"
name = "good and bad levels"
stack = "proxy-keepalive-off"
expectation = "the bad ones are named"
[[factor]]
name = "keepalive"
knob = "nginx.upstream_keepalive"
levels = ["as-found", "many", 64]
[[factor]]
name = "room"
lab = "lb:server.worker_connections"
levels = ["as-found", 1, 512]
[[factor]]
name = "size"
workload = "path"
levels = ["/616", "/nothing"]
"#;

#[test]
fn needs_root_one_bad_level_keeps_no_other_from_being_tried() {
    if !root("a lab") {
        return;
    }
    let _alone = alone();
    let folder = scratch();
    let file = folder.path().join("e.toml");
    std::fs::write(&file, MIXED).expect("a scratch folder can be written");
    let (cells, code) = rehearsed(&file);
    let states: Vec<(&str, &str)> = cells.iter().map(|[cell, state, _]| (cell.as_str(), state.as_str())).collect();
    let want = [
        ("keepalive as-found, room as-found, size /616", "works"),
        ("keepalive many, room as-found, size /616", "fails"),
        ("keepalive 64, room as-found, size /616", "works"),
        ("keepalive as-found, room 1, size /616", "fails"),
        ("keepalive as-found, room 512, size /616", "works"),
        ("keepalive as-found, room as-found, size /nothing", "fails"),
    ];
    assert_eq!((states.as_slice(), code), (&want[..], 4));
    for (cell, says) in
        [(1, "`many` is not a whole number"), (3, "worker_connections are not enough"), (5, "no request succeeded")]
    {
        assert!(cells[cell][2].contains(says), "{cells:?}");
    }
}
