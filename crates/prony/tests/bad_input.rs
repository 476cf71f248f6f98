//! What a person or a server may do wrong, through the command line: a clear error with the next step, and nothing left behind.

mod prony;

use prony::{Served, hostile, prony, scratch};

#[test]
fn an_unknown_key_names_its_line_and_the_nearest() {
    let dir = scratch();
    let file = dir.path().join("stack.toml");
    std::fs::write(&file, "entry = \"http://127.0.0.1/\"\n[workload]\nconections = 3\n").unwrap();
    let said = prony(&["diagnose", file.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("stack.toml:3: unknown field `conections`"), "{}", said.err);
    assert!(said.err.contains("did you mean `connections`?"), "{}", said.err);
}

#[test]
fn a_wrong_unit_says_which_there_are() {
    let dir = scratch();
    let file = dir.path().join("stack.toml");
    std::fs::write(&file, "entry = \"http://127.0.0.1/\"\n[slo]\np99 = \"10 parsecs\"\n").unwrap();
    let said = prony(&["limit", file.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("stack.toml:3") && said.err.contains("like `10ms`"), "{}", said.err);
    let said = prony(&["load", "-R", "five", "http://127.0.0.1:1/"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("5k/s"), "{}", said.err);
}

#[test]
fn a_stack_that_is_no_file_names_the_labs() {
    let said = prony(&["diagnose", "proxy-keepalive-of"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("did you mean the lab `proxy-keepalive-off`?"), "{}", said.err);
}

#[test]
fn wrong_arguments_are_told_from_failures() {
    let url = "http://127.0.0.1:1/";
    for (args, says) in [
        (vec!["load", "-c", "0", url], "at least one connection"),
        (vec!["load", "-H", "nonsense", url], "Name: value"),
        (vec!["load", "--path", "a", url], "starts with `/`"),
        (vec!["load", "--cpus", "3-1", url], "`3-1` is not a list of CPUs"),
        (vec!["load", "ftp://127.0.0.1/"], "http://"),
        (vec!["tune", url, "--knob", "nginx.bcklog=1"], "nginx.backlog"),
        (vec!["tune"], "STACK"),
    ] {
        let said = prony(&args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(says), "{args:?}: {}", said.err);
    }
    assert_eq!(prony(&["tune", "--knobs"]).code, 0);
}

#[test]
fn a_bad_list_of_cpus_names_its_line() {
    let dir = scratch();
    let file = dir.path().join("stack.toml");
    std::fs::write(&file, "entry = \"http://127.0.0.1/\"\n[host.c]\nrole = \"generator\"\ncpus = \"0-9999\"\n")
        .unwrap();
    let said = prony(&["limit", file.to_str().unwrap()]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("stack.toml:4: `0-9999` is not a list of CPUs"), "{}", said.err);
}

#[test]
fn a_circle_of_bases_ends() {
    let dir = scratch();
    let file = dir.path().join("a.toml");
    std::fs::write(&file, "base = \"a.toml\"\n").unwrap();
    let said = prony(&["diagnose", file.to_str().unwrap()]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("circle"), "{}", said.err);
}

#[test]
fn a_refused_connection_leads_on() {
    let said = prony(&["load", "-d", "1", "http://127.0.0.1:1/"]);
    assert_eq!(said.code, 1, "{} {}", said.out, said.err);
    assert!(said.err.contains("refused") && said.err.contains("127.0.0.1:1"), "{}", said.err);
}

#[test]
fn http2_to_a_server_of_http1_leads_on() {
    let url = format!("http://127.0.0.1:{}/", hostile(Served::Answer));
    let said = prony(&["load", "-d", "1", "--http2", &url]);
    assert_eq!(said.code, 1, "{} {}", said.out, said.err);
    assert!(said.err.contains("answered HTTP/1.1, not HTTP/2: leave out `--http2`"), "{}", said.err);
}

#[test]
fn a_name_that_does_not_resolve_is_named() {
    let said = prony(&["load", "-d", "1", "http://no-such-host.invalid/"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("no-such-host.invalid"), "{}", said.err);
}

#[test]
fn an_address_that_is_not_private_needs_the_users_word() {
    let said = prony(&["load", "-d", "1", "http://192.0.2.1/"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("192.0.2.1 is a public address") && said.err.contains("--owned"), "{}", said.err);
}

#[test]
fn a_server_without_tls_is_refused_with_a_reason() {
    let port = hostile(Served::Garbage);
    let said = prony(&["load", "-d", "1", &format!("https://127.0.0.1:{port}/")]);
    assert_ne!(said.code, 0);
    assert!(said.err.contains("no TLS connection to"), "{}", said.err);
}

/// A hostile server: the load ends in time, the errors are counted by kind, and the result is called what it is.
fn check(served: Served, kind: &str) {
    let port = hostile(served);
    let url = format!("http://127.0.0.1:{port}/");
    let said = prony(&["load", "-c", "2", "-d", "1", "--warmup", "0s", "--timeout", "200ms", "--json", &url]);
    assert_eq!(said.code, 4, "{} {}", said.out, said.err);
    let json: serde_json::Value = serde_json::from_str(&said.out).expect("--json prints JSON");
    assert_eq!(json["result"]["completed"], 0, "{}", json["result"]["statuses"]);
    assert!(json["result"]["errors"][kind].as_u64() > Some(0), "{}", json["result"]["errors"]);
}

#[test]
fn garbage_is_a_protocol_error() {
    check(Served::Garbage, "protocol");
}

#[test]
fn a_reset_is_a_read_error() {
    check(Served::Reset, "read");
}

#[test]
fn silence_is_a_timeout() {
    check(Served::Silence, "timeout");
}

#[test]
fn endless_headers_are_a_protocol_error() {
    check(Served::EndlessHeaders, "protocol");
}

#[test]
fn a_diagnosis_of_a_silent_server_says_what_is_wrong() {
    let url = format!("http://127.0.0.1:{}/", hostile(Served::Reset));
    let said = prony(&["diagnose", "--quick", "-c", "2", &url]);
    assert_eq!(said.code, 1, "{} {}", said.out, said.err);
    assert!(said.err.contains("gave no answer at all") && said.err.contains("curl"), "{}", said.err);
}

#[test]
fn needs_root_a_missing_namespace_is_named() {
    if !prony::root("a host in a namespace") {
        return;
    }
    let dir = scratch();
    let file = dir.path().join("stack.toml");
    std::fs::write(&file, "entry = \"http://10.0.0.1/\"\n[host.c]\nrole = \"generator\"\nat = \"netns:no-such\"\n")
        .unwrap();
    let said = prony(&["diagnose", file.to_str().unwrap()]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("no network namespace `no-such`"), "{}", said.err);
}

#[test]
fn a_dead_pid_file_is_a_gap_and_the_run_goes_on() {
    let dir = scratch();
    let port = hostile(Served::Answer);
    let file = dir.path().join("stack.toml");
    let text = format!(
        "entry = \"http://127.0.0.1:{port}/\"\n[host.c]\nrole = \"generator\"\n[host.s]\nprocess = {{ pid_file = \"/nonexistent.pid\" }}\n[workload]\nconnections = 2\n"
    );
    std::fs::write(&file, text).unwrap();
    let said = prony(&["diagnose", "--quick", "--passive", "--json", file.to_str().unwrap()]);
    let json: serde_json::Value =
        serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {} {}", said.out, said.err));
    let gaps = json["gaps"].to_string();
    assert!(gaps.contains("/nonexistent.pid"), "{gaps}");
}

#[test]
fn a_record_that_is_none_is_an_error() {
    let dir = scratch();
    let file = dir.path().join("x.prony");
    std::fs::write(&file, "hello").unwrap();
    let said = prony(&["report", file.to_str().unwrap()]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("x.prony"), "{}", said.err);
    let said = prony(&["report", "19990101"]);
    assert!(said.err.contains("no run in"), "{}", said.err);
}
