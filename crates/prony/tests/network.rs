//! `prony network` and the links of labs on the real kernel, through the command line.

mod prony;

use prony::{prony, root, scratch};
use serde_json::Value;
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_else(|| panic!("{value} is no list"))
}

/// A lab on the proxy with these links.
fn written(folder: &Path, links: &str) -> String {
    let base = format!("{}/../../labs/proxy.toml", env!("CARGO_MANIFEST_DIR"));
    let file = folder.join("lab.toml");
    std::fs::write(&file, format!("base = \"{base}\"\nname = \"links\"\n{links}"))
        .expect("a scratch folder can be written");
    file.display().to_string()
}

#[test]
fn needs_root_every_way_of_a_lab_is_measured() {
    if !root("a lab") {
        return;
    }
    let said = prony(&["network", "proxy-link-rate", "--each", "500ms", "--sizes", "64", "--sender", "own", "--json"]);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    let report = json(&said.out);
    assert_eq!((&report["schema"], &report["gaps"]), (&"prony.network/1".into(), &serde_json::json!([])), "{report}");
    let legs = list(&report["legs"]);
    let ways: Vec<String> = legs.iter().map(|leg| format!("{} {} {}", leg["layer"], leg["from"], leg["to"])).collect();
    assert_eq!(ways.join("\n").replace('"', ""), "loopback client client\npath client lb\npath lb s1\npath lb s2");
    // lb sends 20 Mbit/s at most; a stream carries a little less than what its packets are.
    let (back, there) = (&legs[1]["stream_back"]["bits_per_s"], &legs[2]["stream_there"]["bits_per_s"]);
    for rated in [back, there] {
        assert!((15e6..20e6).contains(&number(rated)), "{rated}");
    }
    assert!(number(&legs[1]["stream_there"]["bits_per_s"]) > 100e6, "{}", legs[1]);
    let (packets, probes) = (&legs[1]["packets"][0], &legs[1]["round_trip"]);
    assert!(number(&packets["received_per_s"]) > 1000.0 && packets["payload_bytes"] == 64, "{packets}");
    assert!(number(&packets["cost"]["softirq_us_per_packet"]) >= 0.0, "{packets}");
    assert!(number(&probes["p50_us"]) > 1.0 && probes["lost_there"] == 0.0 && probes["lost_back"] == 0.0, "{probes}");
}

#[test]
fn needs_root_a_link_does_what_was_set_and_leaves_nothing_behind() {
    if !root("a lab") {
        return;
    }
    let folder = scratch();
    let lab = written(
        folder.path(),
        "[lab.host.client.link]\ndelay = \"20ms\"\njitter = \"5ms\"\nreceive = { delay = \"5ms\", jitter = \"0ms\" }\n\
         [lab.host.s1.link]\ndelay = \"5ms\"\nreorder = \"5%\"\nloss = \"10%\"\nmtu = 1400\n\
         [lab.host.s2.link]\nreceive = { rate = \"20mbit\" }\nqueues = 2\n",
    );
    let said = prony(&["lab", "up", &lab, "--json"]);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    let up = json(&said.out);
    let id = up["id"].as_str().expect("an id");
    let wires = || {
        let processes = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let command =
            |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        processes.map(command).filter(|command| command.contains(&format!("/labs/{id}/wire-"))).count()
    };
    let wires_up = wires();
    let listed = prony(&["lab", "ls"]);
    let down = prony(&["lab", "down", id]);
    assert_eq!((down.code, wires()), (0, 0), "{} {}", down.out, down.err);
    assert!(listed.out.lines().any(|line| line.starts_with(id) && line.contains(" up ")), "{}", listed.out);
    assert!([0, 2].contains(&wires_up), "netem, or a wire for each of two links; here are {wires_up}");
    assert_eq!(up["gaps"], serde_json::json!([]), "{up}");

    let links = list(&up["links"]);
    let link = |from: &str, to: &str| {
        links
            .iter()
            .find(|leg| leg["from"] == from && leg["to"] == to)
            .unwrap_or_else(|| panic!("{from} {to}: {links:?}"))
    };
    let client = &link("client", "lb")["round_trip"];
    // Timers are late on a busy machine, never early.
    assert!((19e3..40e3).contains(&number(&client["there_p50_us"])), "{client}");
    assert!((4.9e3..20e3).contains(&number(&client["back_p50_us"])), "{client}");
    assert!(number(&client["there_spread_us"]) > 4e3, "{client}");
    assert_eq!((&client["lost_there"], &client["overtaken_there"]), (&0.0.into(), &0.0.into()), "{client}");
    let s1 = &link("lb", "s1")["round_trip"];
    // 1000 probes with 10 % loss: six standard deviations are 5.7 %.
    for lost in [&s1["lost_there"], &s1["lost_back"]] {
        assert!((0.04..0.16).contains(&number(lost)), "{s1}");
    }
    assert!(number(&s1["overtaken_there"]) > 0.01, "{s1}");
    let s2 = link("lb", "s2");
    assert!((15e6..20e6).contains(&number(&s2["stream_there"]["bits_per_s"])), "{s2}");
    assert!(number(&s2["stream_back"]["bits_per_s"]) > 100e6, "{s2}");
}

#[test]
fn needs_root_layers_are_labs_without_servers() {
    if !root("a lab") {
        return;
    }
    let said = prony(&["network", "--layers", "--each", "300ms", "--sizes", "64", "--sender", "own", "--json"]);
    assert_eq!(said.code, 0, "{} {}", said.out, said.err);
    let report = json(&said.out);
    let layers: Vec<&str> = list(&report["legs"]).iter().filter_map(|leg| leg["layer"].as_str()).collect();
    let all = ["loopback", "namespaces", "namespaces, offloads off", "bridge", "bridge, offloads off", "vxlan"];
    assert_eq!((&layers[..6], layers.len()), (&all[..], 7), "{report}");
}

#[test]
fn mistakes_are_told() {
    for (words, says) in [
        (&["network"][..], "<STACK>"),
        (&["network", "http://127.0.0.1/"], "fewer than two hosts"),
        (&["network", "proxy", "--each", "1ms"], "--each is 1ms"),
        (&["network", "proxy", "--sizes", "8"], "--sizes has 8"),
    ] {
        let said = prony(words);
        assert!(said.code == 2 && said.err.contains(says), "{words:?}: {} {}", said.code, said.err);
    }
}
