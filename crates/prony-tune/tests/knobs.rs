//! Every knob on a real host: it takes effect, undo is the identity, and what cannot be done is said.

mod stage;

use prony_model::Nanos;
use prony_model::knob::ChangeState;
use prony_tune::{Journal, TuneError, apply, pending, read, slow, undo};
use stage::{Stage, get, is_root, knob, run};
use std::fs;

#[test]
fn needs_root_apply_then_undo_is_identity_for_every_knob() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("knobs");
    let before = stage.snapshot();
    let journal = Journal::open(&stage.journals()).unwrap();
    for (name, value, was) in [
        ("nginx.upstream_keepalive", "32", "off"),
        ("nginx.upstream_down", "127.0.0.2", "none"),
        ("nginx.access_log", "off", "unbuffered"),
        ("nginx.access_log", "buffer=32k", "unbuffered"),
        ("nginx.worker_processes", "3", "2"),
        ("nginx.worker_processes", "auto", "2"),
        ("nginx.worker_connections", "600", "256"),
        ("nginx.backlog", "77", "127.0.0.1:8080=16 127.0.0.1:8081=511"),
        ("nginx.accept_mutex", "on", "off"),
        ("nginx.client_body_buffer_size", "1m", "16k"),
        ("nginx.gzip", "on", "off"),
        ("nginx.gzip_comp_level", "9", "1"),
        ("nginx.keepalive_requests", "100000", "1000"),
        ("nginx.keepalive_timeout", "5s", "75s"),
        ("nginx.limit_conn_dry_run", "on", "off"),
        ("nginx.limit_rate", "500k", "0, 1k"),
        ("nginx.limit_req_dry_run", "on", "off"),
        ("nginx.proxy_buffers", "16 64k", "8 4k"),
        ("nginx.proxy_max_temp_file_size", "0", "1024m"),
        ("nginx.proxy_next_upstream_tries", "1", "0"),
        ("nginx.ssl_session_cache", "shared:tls:1m", "none"),
        ("nginx.tcp_nopush", "on", "off"),
        ("nginx.worker_rlimit_nofile", "4096", "what the master was started with"),
        ("sysctl.net.core.somaxconn", "128", "4096"),
        ("sysctl.net.ipv4.ip_local_port_range", "20000 20999", "32768 60999"),
        ("sysctl.net.ipv4.tcp_tw_reuse", "1", "2"),
        ("rps_cpus.eth0", "1", "0"),
        ("offloads.eth0", "gso", "gso,tso"),
        ("offloads.eth0", "none", "gso,tso"),
        ("link_rate.eth0", "20mbit", "none"),
        ("cgroup.cpu_quota", "0.8", "max"),
        ("cpu_affinity", "0", &read(&stage.ctx(), &knob("cpu_affinity", "").id).unwrap()),
    ] {
        let knob = knob(name, value);
        let applied = apply(&stage.ctx(), &knob, &journal).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
        assert_eq!(applied.change.before, was, "{name}");
        let shown = read(&stage.ctx(), &knob.id).unwrap();
        if value == "auto" || name != "cpu_affinity" {
            assert_eq!(shown, value, "{name}");
        }
        assert_ne!(stage.snapshot(), before, "{name}={value} changed nothing");
        assert!(!applied.change.diff.is_empty() && !applied.change.permanent.is_empty());
        if name.starts_with("nginx.") {
            assert!(get("/").unwrap().ends_with("hello"));
        }
        let undone = undo(&journal, applied.id).unwrap();
        assert_eq!((undone.state, undone.notes), (ChangeState::Undone, vec![]), "{name}");
        assert_eq!(stage.snapshot(), before, "{name}={value}");
    }
    stage.wait_for_workers(2);
    assert!(run("ss", &["-Hltn"]).contains(" 16 "), "the backlog of the running socket is back too");
}

#[test]
fn needs_root_upstream_connections_are_kept() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("kept");
    let opens = || {
        let text = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
        let line = text.lines().filter(|l| l.starts_with("Tcp:")).nth(1).unwrap();
        line.split(' ').nth(5).unwrap().parse::<u64>().unwrap()
    };
    let cost = || {
        let before = opens();
        (0..20).for_each(|_| assert!(get("/").unwrap().ends_with("hello")));
        opens() - before
    };
    assert_eq!(cost(), 40, "20 to the proxy and 20 to the upstream");
    let journal = Journal::open(&stage.journals()).unwrap();
    let applied = apply(&stage.ctx(), &knob("nginx.upstream_keepalive", "8"), &journal).unwrap();
    assert!(cost() <= 20 + 2, "each of two workers opens one");
    undo(&journal, applied.id).unwrap();
    assert_eq!(cost(), 40);
}

#[test]
fn needs_root_connections_are_opened_anew_for_what_they_keep_for_life() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("renewed");
    let journal = Journal::open(&stage.journals()).unwrap();
    for (name, value, renews) in
        [("sysctl.net.ipv4.tcp_rmem", "4096 65536 1000000", true), ("sysctl.net.core.somaxconn", "128", false)]
    {
        let mut workers = stage.workers();
        let mut are_others = || {
            stage.wait_for_workers(2);
            let before = std::mem::replace(&mut workers, stage.workers());
            workers.iter().all(|pid| !before.contains(pid))
        };
        let applied = apply(&stage.ctx(), &knob(name, value), &journal).unwrap();
        assert_eq!(are_others(), renews, "{name}");
        undo(&journal, applied.id).unwrap();
        assert_eq!(are_others(), renews, "{name} as before");
    }
}

#[test]
fn needs_root_a_reload_loses_no_request_and_ends_what_lingers() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("reload");
    let journal = Journal::open(&stage.journals()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut answers = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(get("/").unwrap().ends_with("hello"));
                answers += 1;
            }
            answers
        });
        let applied = apply(&stage.ctx(), &knob("nginx.worker_processes", "1"), &journal).unwrap();
        assert_eq!(applied.notes, Vec::<String>::new(), "idle workers leave by themselves");
        undo(&journal, applied.id).unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(client.join().unwrap() > 0);
    });
    std::thread::scope(|scope| {
        let client = scope.spawn(|| get("/slow"));
        while !run("ss", &["-Htn"]).contains("127.0.0.1:8080") {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        let applied = apply(&stage.ctx(), &knob("nginx.worker_processes", "1"), &journal).unwrap();
        assert_eq!(applied.notes, ["1 old workers of nginx still served requests after 2 s and were ended"]);
        undo(&journal, applied.id).unwrap();
        // Cut off, whichever way the kernel tells it.
        assert!(client.join().unwrap().map_or(0, |answer| answer.len()) < 200_000);
    });
}

#[test]
fn needs_root_slowing_takes_a_group_of_its_own_when_it_must() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("slow");
    let journal = Journal::open(&stage.journals()).unwrap();
    let before = stage.snapshot();
    let slowed = slow::cpu(&stage.ctx(), 0.25, Nanos::from_millis(10), &journal).unwrap();
    assert_eq!(slowed.cpus, 0.25);
    assert!(slowed.applied.change.diff.contains("cfs_period_us: 100000 -> 10000"), "{}", slowed.applied.change.diff);
    undo(&journal, slowed.applied.id).unwrap();
    assert_eq!(stage.snapshot(), before);

    let limit = apply(&stage.ctx(), &knob("cgroup.cpu_quota", "0.05"), &journal).unwrap();
    let slowed = slow::cpu(&stage.ctx(), 0.04, Nanos::from_millis(10), &journal).unwrap();
    assert_eq!(slowed.cpus, 0.04);
    assert!(!slowed.applied.change.diff.contains("cfs_period_us"), "it stays: {}", slowed.applied.change.diff);
    undo(&journal, slowed.applied.id).unwrap();
    undo(&journal, limit.id).unwrap();
    assert_eq!(stage.snapshot(), before);

    let mut stranger = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let quota = read(&stage.ctx(), &knob("cgroup.cpu_quota", "").id).unwrap();
    assert_eq!(quota, "max");
    let group = fs::read_to_string(format!("/proc/{}/cgroup", stage.master)).unwrap();
    let group = group.lines().find_map(|l| l.split_once(":cpu:")).unwrap().1.to_string();
    fs::write(format!("/sys/fs/cgroup/cpu{group}/cgroup.procs"), stranger.id().to_string()).unwrap();
    let slowed = slow::cpu(&stage.ctx(), 0.0001, Nanos::from_millis(1), &journal).unwrap();
    assert_eq!(slowed.cpus, 0.001, "the smallest that the kernel allows");
    let inside = fs::read_to_string(format!("/proc/{}/cgroup", stage.master)).unwrap();
    assert!(inside.contains("prony-lb-"), "{inside}");
    assert!(!fs::read_to_string(format!("/proc/{}/cgroup", stranger.id())).unwrap().contains("prony-lb-"));
    // Workers that are born while the hop is slow must come back as well.
    let more = apply(&stage.ctx(), &knob("nginx.worker_processes", "3"), &journal).unwrap();
    undo(&journal, slowed.applied.id).unwrap();
    undo(&journal, more.id).unwrap();
    assert_eq!(stage.snapshot(), before);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn needs_root_sysctls_are_those_of_the_threads_namespace() {
    if !is_root() {
        return;
    }
    let outside = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let stage = Stage::new("sysctl");
    let journal = Journal::open(&stage.journals()).unwrap();
    let id = "sysctl.net.ipv4.ip_local_port_range";
    let applied = apply(&stage.ctx(), &knob(id, "20000 20999"), &journal).unwrap();
    let here = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    assert_eq!(here, "20000\t20999\n");
    let other = std::thread::spawn(|| {
        stage::sys::enter_new_network();
        fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap()
    });
    assert_eq!(other.join().unwrap(), outside, "another namespace of the same process is untouched");
    undo(&journal, applied.id).unwrap();

    let error = apply(&stage.ctx(), &knob("sysctl.net.core.netdev_max_backlog", "5000"), &journal).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no sysctl net.core.netdev_max_backlog on lb; it is not of this network namespace: the kernel may have it \
         only once for the machine, so ask a host with `at = \"local\"`, or correct the name"
    );
    let error = apply(&stage.ctx(), &knob("sysctl.vm.swappiness", "7"), &journal).unwrap_err().to_string();
    assert!(error.contains("belongs to the whole machine"), "{error}");
}

#[test]
fn needs_root_a_link_gets_its_former_bucket_back() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("link");
    let journal = Journal::open(&stage.journals()).unwrap();
    let tbf = [
        "qdisc", "replace", "dev", "eth0", "root", "handle", "9:", "tbf", "rate", "3mbit", "burst", "20kb", "latency",
        "33ms",
    ];
    run("tc", &tbf);
    let before = stage.snapshot();
    let applied = apply(&stage.ctx(), &knob("link_rate.eth0", "1mbit"), &journal).unwrap();
    assert_eq!(read(&stage.ctx(), &knob("link_rate.eth0", "").id).unwrap(), "1mbit");
    undo(&journal, applied.id).unwrap();
    assert_eq!(stage.snapshot(), before);

    // The same rate, with room for more: 20 KB and 33 ms become 64 KiB and 50 ms.
    let applied = apply(&stage.ctx(), &knob("link_rate.eth0", "3mbit"), &journal).unwrap();
    assert_ne!(stage.snapshot(), before);
    let error = apply(&stage.ctx(), &knob("link_rate.eth0", "3mbit"), &journal).unwrap_err().to_string();
    assert!(error.contains("3mbit"), "{error}");
    undo(&journal, applied.id).unwrap();
    assert_eq!(stage.snapshot(), before);

    let applied = apply(&stage.ctx(), &knob("link_rate.eth0", "1mbit"), &journal).unwrap();
    run("tc", &["qdisc", "del", "dev", "eth0", "root"]);
    assert_eq!(undo(&journal, applied.id).unwrap().state, ChangeState::Conflict);
    run("tc", &["qdisc", "replace", "dev", "eth0", "root", "handle", "9:", "htb"]);
    let error = apply(&stage.ctx(), &knob("link_rate.eth0", "1mbit"), &journal).unwrap_err().to_string();
    assert!(error.contains("`htb` that prony could not restore exactly"), "{error}");
    let error = apply(&stage.ctx(), &knob("link_rate.eth9", "1mbit"), &journal).unwrap_err().to_string();
    assert!(error.contains("Cannot find device"), "{error}");

    for value in ["gso,none", "lro", ""] {
        let error = apply(&stage.ctx(), &knob("offloads.eth0", value), &journal).unwrap_err().to_string();
        assert!(error.contains("or `none`"), "{error}");
    }
    let error = apply(&stage.ctx(), &knob("offloads.eth9", "gso"), &journal).unwrap_err().to_string();
    assert!(error.contains("no interface `eth9`"), "{error}");
}

#[test]
fn needs_root_bad_input_is_said_and_leaves_nothing() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("bad");
    let journal = Journal::open(&stage.journals()).unwrap();
    let before = stage.snapshot();
    let fails = |name: &str, value: &str| apply(&stage.ctx(), &knob(name, value), &journal).unwrap_err();

    let error = fails("nginx.backlog", "5000").to_string();
    assert!(error.contains("at most net.core.somaxconn, which is 4096"), "{error}");
    let error = fails("nginx.gzip", "on; user root").to_string();
    assert!(error.contains("`on` or `off`"), "{error}");
    // nginx itself refuses these, after the file was written.
    for (name, value) in
        [("nginx.access_log", "buffer=999999m"), ("nginx.gzip_comp_level", "12"), ("nginx.gzip", "perhaps")]
    {
        let error = fails(name, value);
        assert!(matches!(error, TuneError::Rejected { .. }), "{error}");
    }
    assert_eq!(stage.snapshot(), before);
    assert!(journal.unsettled().is_empty());

    let good = fs::read(stage.config("conf.d/proxy.conf")).unwrap();
    fs::write(stage.config("conf.d/proxy.conf"), "server {\n listen 80;\n nonsense on;\n}\n").unwrap();
    let error = fails("nginx.worker_processes", "3").to_string();
    assert!(error.contains("unknown directive \"nonsense\"") && error.contains("proxy.conf:3"), "{error}");
    assert!(error.contains("repeat with: ") && error.contains(" -t "), "{error}");
    fs::write(stage.config("conf.d/proxy.conf"), good).unwrap();

    run(
        "mount",
        &["--bind", stage.config("nginx.conf").to_str().unwrap(), stage.config("nginx.conf").to_str().unwrap()],
    );
    run("mount", &["-o", "remount,bind,ro", stage.config("nginx.conf").to_str().unwrap()]);
    let error = fails("nginx.worker_processes", "3").to_string();
    assert!(error.contains("cannot replace") && error.contains("nginx.conf"), "{error}");
    run("umount", &[stage.config("nginx.conf").to_str().unwrap()]);
    assert_eq!(stage.snapshot(), before);

    let mut ctx = stage.ctx();
    ctx.pids = vec![u32::MAX];
    let error = apply(&ctx, &knob("nginx.worker_processes", "3"), &journal).unwrap_err().to_string();
    assert!(error.starts_with("no master process of nginx runs on lb"), "{error}");
    let error = apply(&ctx, &knob("cpu_affinity", "0"), &journal).unwrap_err().to_string();
    assert!(error.contains("start its server"), "{error}");
}

#[test]
fn needs_root_a_full_disk_changes_nothing() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("full");
    let journals = stage.journals();
    let at = journals.to_str().unwrap();
    fs::create_dir(&journals).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=16k", "none", at]);
    let journal = Journal::open(&journals).unwrap();
    // An undo record holds the file before and after, so it does not fit.
    let mut text = fs::read_to_string(stage.config("nginx.conf")).unwrap();
    text += &"# a comment that makes the file long\n".repeat(300);
    fs::write(stage.config("nginx.conf"), text).unwrap();
    let before = stage.snapshot();
    let knob = knob("nginx.worker_processes", "3");
    let error = apply(&stage.ctx(), &knob, &journal).unwrap_err().to_string();
    assert!(error.contains("cannot write journal") && error.contains("free some space"), "{error}");
    assert_eq!(stage.snapshot(), before);
    run("mount", &["-o", "remount,size=1m", at]);
    let applied = apply(&stage.ctx(), &knob, &journal).unwrap();
    undo(&journal, applied.id).unwrap();
    assert_eq!(stage.snapshot(), before);
    drop(journal);
    assert!(pending(&stage.journals()).unwrap().is_empty());
    run("umount", &[stage.journals().to_str().unwrap()]);
}

#[test]
fn needs_root_an_edit_meanwhile_is_a_conflict() {
    if !is_root() {
        return;
    }
    let stage = Stage::new("edit");
    let journal = Journal::open(&stage.journals()).unwrap();
    // This one changes two files: the upstream is in one, the location in the other.
    let applied = apply(&stage.ctx(), &knob("nginx.upstream_keepalive", "8"), &journal).unwrap();
    let file = stage.config("nginx.conf");
    let mut text = fs::read(&file).unwrap();
    text.extend(b"# mine\n");
    fs::write(&file, &text).unwrap();
    let other = fs::read(stage.config("conf.d/proxy.conf")).unwrap();
    let undone = undo(&journal, applied.id).unwrap();
    assert_eq!(undone.state, ChangeState::Conflict);
    assert!(undone.notes[0].contains("nginx.conf was edited meanwhile"), "{:?}", undone.notes);
    assert_eq!(fs::read(&file).unwrap(), text);
    assert_eq!(fs::read(stage.config("conf.d/proxy.conf")).unwrap(), other, "half a configuration would be worse");
}
