//! kill -9 at random moments of a tuning: what the journal says puts every value and file back, each time.
//!
//! The test starts itself again as the victim. `PRONY_KILLS` says how often (20 here; 200 in `cargo xtask bench undo`).

mod stage;

use prony_model::Nanos;
use prony_model::knob::ChangeState;
use prony_tune::{Journal, apply, pending, slow, undo};
use stage::{Stage, get, is_root, knob};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The victim's turn: what it changes, over and over.
const CHANGES: &[(&str, &str)] = &[
    ("nginx.upstream_keepalive", "32"),
    ("sysctl.net.ipv4.ip_local_port_range", "20000 20999"),
    ("cgroup.cpu_quota", "0.8"),
    ("nginx.worker_processes", "3"),
    ("cpu_affinity", "0"),
    ("rps_cpus.eth0", "1"),
    ("link_rate.eth0", "20mbit"),
    ("offloads.eth0", "none"),
    ("nginx.access_log", "buffer=32k"),
    ("sysctl.net.core.somaxconn", "128"),
];

/// The longest life of a victim: about the time of one round of changes.
const LIFE_MS_MAX: u64 = 1500;

#[test]
fn needs_root_kill_9_at_any_moment_is_undone() {
    if !is_root() {
        return;
    }
    let kills: u32 = std::env::var("PRONY_KILLS").ok().map_or(20, |n| n.parse().expect("PRONY_KILLS is a number"));
    let stage = Stage::new("kill");
    let before = stage.snapshot();
    let mut interrupted = 0;
    // xorshift; a fixed seed gives the same moments, the machine's own noise does the rest.
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "victim", "--nocapture"])
            .env("PRONY_VICTIM", stage.dir.path())
            .env("PRONY_VICTIM_MASTER", stage.master.to_string())
            .env("PRONY_VICTIM_FIRST", (random % CHANGES.len() as u64).to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !stage.dir.path().join("journal/lock").exists() {
            assert!(begun.elapsed() < Duration::from_secs(30), "the victim never began");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(
            Duration::from_millis(random >> 20 & 0xffff_ffff).min(Duration::from_millis(random % LIFE_MS_MAX)),
        );
        assert!(victim.try_wait().unwrap().is_none(), "the victim ended by itself in round {round}");
        victim.kill().unwrap();
        victim.wait().unwrap();
        for entry in pending(&stage.journals()).unwrap() {
            interrupted += 1;
            let undone = entry.undo(&stage.roots).unwrap_or_else(|e| panic!("round {round}, {:?}: {e}", entry.knob));
            assert_eq!(undone.state, ChangeState::Undone, "round {round}, {:?}: {:?}", entry.knob, undone.notes);
        }
        assert!(pending(&stage.journals()).unwrap().is_empty());
        stage.wait_for_workers(2);
        let after = stage.snapshot();
        for (name, value) in &before {
            assert_eq!(String::from_utf8_lossy(&after[name]), String::from_utf8_lossy(value), "round {round}: {name}");
        }
        assert!(get("/").unwrap().ends_with("hello"));
    }
    eprintln!("{kills} kills, {interrupted} changes found and undone");
    assert!(interrupted > 0, "no kill met a change: the test shows nothing");
}

/// Not a test of its own: the process that is killed.
#[test]
fn victim() {
    let (Ok(dir), Ok(master)) = (std::env::var("PRONY_VICTIM"), std::env::var("PRONY_VICTIM_MASTER")) else { return };
    let first: usize = std::env::var("PRONY_VICTIM_FIRST").unwrap().parse().unwrap();
    let host = prony_model::Host { config: Some(format!("{dir}/nginx.conf")), ..Default::default() };
    let roots = prony_tune::Roots { sys: format!("{dir}/sys").into(), ..Default::default() };
    let place = prony_model::Place::Netns("none".into());
    let ctx = prony_tune::Context { name: "lb", host: &host, roots, pids: vec![master.parse().unwrap()], place };
    let journal = Journal::open(&std::path::Path::new(&dir).join("journal")).unwrap();
    for turn in first.. {
        let (name, value) = CHANGES[turn % CHANGES.len()];
        let outer = apply(&ctx, &knob(name, value), &journal).unwrap_or_else(|e| panic!("{name}: {e}"));
        if turn % 2 == 0 && name != "cgroup.cpu_quota" {
            let slowed = slow::cpu(&ctx, 0.5, Nanos::from_millis(10), &journal).unwrap();
            undo(&journal, slowed.applied.id).unwrap();
        }
        undo(&journal, outer.id).unwrap();
    }
}
