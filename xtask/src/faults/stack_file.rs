//! From what a fault case's `up` printed to a stack file.
//!
//! Says what the stack format cannot express yet, so that such a case is skipped and not judged on half a load.

use anyhow::Context as _;
use serde_json::Value;
use std::path::{Path, PathBuf};
use toml::{Table, Value as Toml};

/// Writes the stack file of a case; the inner error says why the format cannot express it yet.
///
/// # Errors
/// A field that every case has is missing.
pub fn write(case: &str, info: &Value) -> anyhow::Result<Result<String, String>> {
    let url = text(info, "url").context("`url` is missing")?;
    let mut workload = match workload(info) {
        Ok(workload) => workload,
        Err(reason) => return Ok(Err(reason)),
    };
    if url.starts_with("https:") {
        // The cases sign their certificates themselves, and print none of them.
        let tls = Table::from_iter([("insecure".to_string(), Toml::from(true))]);
        workload.insert("tls".to_string(), Toml::Table(tls));
    }
    let mut hosts = Table::new();
    for host in info["hosts"].as_array().context("`hosts` is missing")? {
        let name = text(host, "name").context("a host has no name")?;
        hosts.insert(name.clone(), Toml::Table(host_table(&name, host, info)));
    }
    let stack = Table::from_iter([
        ("name".to_string(), Toml::from(format!("fault case {case}"))),
        ("entry".to_string(), Toml::from(url)),
        ("host".to_string(), Toml::Table(hosts)),
        ("workload".to_string(), Toml::Table(workload)),
    ]);
    Ok(Ok(toml::to_string(&stack)?))
}

/// The stack file with its load in a closed loop: itself where it asks for no rate, else a copy beside it.
///
/// # Errors
/// The file cannot be read, or no file can be written beside it.
pub fn closed_loop(stack: &Path) -> anyhow::Result<PathBuf> {
    let context = || stack.display().to_string();
    let mut table: Table = std::fs::read_to_string(stack).with_context(context)?.parse().with_context(context)?;
    let rate = table.get_mut("workload").and_then(Toml::as_table_mut).and_then(|workload| workload.remove("rate"));
    if rate.is_none() {
        return Ok(stack.to_path_buf());
    }
    let closed = stack.with_extension("closed.toml");
    std::fs::write(&closed, table.to_string()).with_context(|| closed.display().to_string())?;
    Ok(closed)
}

fn host_table(name: &str, host: &Value, info: &Value) -> Table {
    let mut table = Table::new();
    let role = text(host, "role").unwrap_or_default();
    let generator = role == "client";
    put(&mut table, "role", Some(if generator { "generator".to_string() } else { role }));
    put(&mut table, "at", text(host, "netns").map(|netns| format!("netns:{netns}")));
    for key in ["cpus", "addr", "software", "config"] {
        put(&mut table, key, text(host, key));
    }
    if let Some(group) = text(host, "cgroup").filter(|_| !generator) {
        table.insert("process".to_string(), Toml::Table(Table::from_iter([("cgroup".to_string(), Toml::from(group))])));
    }
    put(&mut table, "status", text(&info["status_url"], name));
    let of_host = |log: &&Value| log["host"] == name;
    let logs: Table = info["log_files"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(of_host)
        .filter_map(|log| Some((text(log, "kind")?, Toml::from(text(log, "path")?))))
        .collect();
    if !logs.is_empty() {
        table.insert("logs".to_string(), Toml::Table(logs));
    }
    let calls: Vec<Toml> =
        host["calls"].as_array().into_iter().flatten().filter_map(Value::as_str).map(Toml::from).collect();
    if !calls.is_empty() {
        table.insert("calls".to_string(), Toml::Array(calls));
    }
    if info["db"]["host"] == name {
        put(&mut table, "dsn", text(&info["db"], "dsn"));
    }
    table
}

/// The `[workload]` table; the error names what the format lacks.
fn workload(info: &Value) -> Result<Table, String> {
    let mut table = Table::new();
    table.insert("connections".to_string(), Toml::from(info["connections"].as_i64().unwrap_or(64)));
    for (key, value) in info["load"].as_object().into_iter().flatten() {
        match key.as_str() {
            "journey" => {
                table.insert("step".to_string(), steps(value)?);
            }
            "headers" | "method" | "body" | "body_bytes" | "keepalive" | "connections" => {
                table.insert(key.clone(), to_toml(key, value)?);
            }
            "paths" if value.is_object() => {
                table.insert(key.clone(), to_toml(key, value)?);
            }
            "paths" => {
                let paths = value.as_array().ok_or(format!("`load.paths` is {value}, neither a list nor a pattern"))?;
                let request =
                    |path: &Value| Ok(Toml::Table(Table::from_iter([("path".to_string(), to_toml(key, path)?)])));
                table.insert(
                    "requests".to_string(),
                    Toml::Array(paths.iter().map(request).collect::<Result<_, String>>()?),
                );
            }
            other => return Err(format!("needs `load.{other}`")),
        }
    }
    Ok(table)
}

/// The steps of a journey, in the templates and places of a stack file.
fn steps(journey: &Value) -> Result<Toml, String> {
    let written = journey.as_array().ok_or(format!("`load.journey` is {journey}, not a list of steps"))?;
    let saved = written.iter().filter_map(|step| step["save"].as_object()).flat_map(|save| save.keys());
    let names: Vec<&str> = saved.map(String::as_str).chain(["n"]).collect();
    let step = |step: &Value| {
        let mut table = Table::new();
        for (key, value) in step.as_object().ok_or(format!("`load.journey` has a step that is {step}"))? {
            let value = match key.as_str() {
                "name" | "method" | "repeat" => value.clone(),
                "path" | "headers" | "body" => map_texts(value, &|text| Ok(template(text, &names)))?,
                "save" => map_texts(value, &place)?,
                other => return Err(format!("needs `load.journey.{other}`")),
            };
            table.insert(key.clone(), to_toml("journey", &value)?);
        }
        Ok(Toml::Table(table))
    };
    Ok(Toml::Array(written.iter().map(step).collect::<Result<_, String>>()?))
}

/// A text, or each text of an object, as `write` puts it.
fn map_texts(value: &Value, write: &dyn Fn(&str) -> Result<String, String>) -> Result<Value, String> {
    match value {
        Value::String(text) => Ok(Value::String(write(text)?)),
        Value::Object(texts) => {
            let each = texts.iter().map(|(key, text)| Ok((key.clone(), map_texts(text, write)?)));
            Ok(Value::Object(each.collect::<Result<_, String>>()?))
        }
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) => {
            Err(format!("`load.journey` has {other} where a text is needed"))
        }
    }
}

/// `{name}` is `${name}` in a stack file; braces around anything else stand for themselves.
fn template(text: &str, names: &[&str]) -> String {
    let write = |text: String, name: &&str| text.replace(&format!("{{{name}}}"), &format!("${{{name}}}"));
    names.iter().fold(text.to_string(), write)
}

/// `$.a.b` is `json:/a/b` in a stack file.
fn place(path: &str) -> Result<String, String> {
    match path.strip_prefix("$.").filter(|rest| !rest.contains('[')) {
        Some(keys) => Ok(format!("json:/{}", keys.replace('.', "/"))),
        None => Err(format!("needs `load.journey.save` from `{path}`")),
    }
}

fn to_toml(key: &str, value: &Value) -> Result<Toml, String> {
    Toml::try_from(value).map_err(|e| format!("`load.{key}` cannot be written: {e}"))
}

fn text(value: &Value, key: &str) -> Option<String> {
    value[key].as_str().map(str::to_string)
}

fn put(table: &mut Table, key: &str, value: Option<String>) {
    if let Some(value) = value {
        table.insert(key.to_string(), Toml::from(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rate_that_is_not_carried_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let stack = folder.path().join("stack.toml");
        std::fs::write(&stack, "entry = \"http://10.77.0.20/\"\n\n[workload]\nconnections = 64\nrate = \"177/s\"\n")
            .unwrap();
        let closed = closed_loop(&stack).unwrap();
        let left = "entry = \"http://10.77.0.20/\"\n\n[workload]\nconnections = 64\n";
        assert_eq!((closed.parent(), std::fs::read_to_string(&closed).unwrap().as_str()), (stack.parent(), left));
        assert_eq!(closed_loop(&closed).unwrap(), closed, "it is one");
    }

    /// As a real case prints it, shortened.
    fn sample() -> Value {
        json!({
            "hosts": [
                {"name": "c", "cgroup": "/faults/c", "pids": [], "netns": "flt-c", "role": "client", "cpus": "1", "addr": "10.77.0.10", "calls": ["lb"]},
                {"name": "lb", "cgroup": "/faults/lb", "pids": [7, 8], "netns": "flt-lb", "role": "proxy", "cpus": "0", "addr": "10.77.0.20",
                 "calls": ["db"], "software": "nginx", "config": "/run/lb/nginx.conf"},
                {"name": "db", "cgroup": "/faults/db", "pids": [9], "netns": "flt-db", "role": "database", "cpus": "1", "addr": "10.77.0.30", "calls": []}
            ],
            "connections": 64,
            "log_files": [{"host": "lb", "kind": "access", "path": "/run/lb/access.log"}, {"host": "lb", "kind": "error", "path": "/run/lb/error.log"}],
            "load": {"headers": {"Accept-Encoding": "gzip"}},
            "url": "http://10.77.0.20/",
            "status_url": {"lb": "http://127.0.0.1:8081/"},
            "db": {"host": "db", "dsn": "postgresql://app@127.0.0.1/app"}
        })
    }

    const WRITTEN: &str = r#"name = "fault case x"
entry = "http://10.77.0.20/"

[host.c]
role = "generator"
at = "netns:flt-c"
cpus = "1"
addr = "10.77.0.10"
calls = ["lb"]

[host.lb]
role = "proxy"
at = "netns:flt-lb"
cpus = "0"
addr = "10.77.0.20"
software = "nginx"
config = "/run/lb/nginx.conf"
status = "http://127.0.0.1:8081/"
calls = ["db"]
process = { cgroup = "/faults/lb" }
logs = { access = "/run/lb/access.log", error = "/run/lb/error.log" }

[host.db]
role = "database"
at = "netns:flt-db"
cpus = "1"
addr = "10.77.0.30"
dsn = "postgresql://app@127.0.0.1/app"
process = { cgroup = "/faults/db" }

[workload]
connections = 64
headers = { Accept-Encoding = "gzip" }
"#;

    #[test]
    fn writes_every_field_of_a_case() {
        let written: Table = write("x", &sample()).unwrap().unwrap().parse().unwrap();
        assert_eq!(written, WRITTEN.parse::<Table>().unwrap());
    }

    fn with_load(load: Value) -> Result<Table, String> {
        let mut info = sample();
        info["load"] = load;
        write("x", &info).unwrap().map(|text| text.parse::<Table>().unwrap()["workload"].as_table().unwrap().clone())
    }

    #[test]
    fn writes_every_kind_of_load() {
        let load = with_load(
            json!({"method": "POST", "body_bytes": 100, "keepalive": false, "paths": {"format": "/f%d", "count": 600}}),
        );
        let want = "connections = 64\nmethod = \"POST\"\nbody_bytes = 100\nkeepalive = false\npaths = { format = \"/f%d\", count = 600 }";
        assert_eq!(load.unwrap(), want.parse::<Table>().unwrap());
        let load = with_load(json!({"paths": ["/a", "/b"]}));
        let want = "connections = 64\nrequests = [{ path = \"/a\" }, { path = \"/b\" }]";
        assert_eq!(load.unwrap(), want.parse::<Table>().unwrap());
    }

    #[test]
    fn writes_a_journey_as_steps() {
        let load = with_load(json!({"journey": [
            {"name": "login", "method": "POST", "path": "/login", "headers": {"Content-Type": "application/json"},
             "body": "{\"user\": \"u1\", \"password\": {}}", "save": {"token": "$.session.token"}},
            {"name": "query", "method": "GET", "path": "/query?id={n}", "headers": {"Authorization": "Bearer {token}"}, "repeat": 49},
        ]}));
        let want = r#"
connections = 64

[[step]]
name = "login"
method = "POST"
path = "/login"
headers = { Content-Type = "application/json" }
body = '{"user": "u1", "password": {}}'
save = { token = "json:/session/token" }

[[step]]
name = "query"
method = "GET"
path = "/query?id=${n}"
headers = { Authorization = "Bearer ${token}" }
repeat = 49
"#;
        assert_eq!(load.unwrap(), want.parse::<Table>().unwrap());
    }

    #[test]
    fn certificates_of_cases_are_not_verified() {
        let mut info = sample();
        info["url"] = json!("https://10.77.0.20/");
        let written: Table = write("x", &info).unwrap().unwrap().parse().unwrap();
        assert_eq!(written["workload"]["tls"], Toml::Table("insecure = true".parse().unwrap()));
        let plain: Table = write("x", &sample()).unwrap().unwrap().parse().unwrap();
        assert!(plain["workload"].get("tls").is_none());
    }

    #[test]
    fn says_what_the_format_lacks() {
        assert_eq!(with_load(json!({"websocket": true})), Err("needs `load.websocket`".to_string()));
        let lacks = |step: Value, what: &str| assert_eq!(with_load(json!({"journey": [step]})), Err(what.to_string()));
        lacks(json!({"path": "/", "cookies": true}), "needs `load.journey.cookies`");
        lacks(json!({"path": "/", "save": {"id": "$.items[0]"}}), "needs `load.journey.save` from `$.items[0]`");
        lacks(json!({"path": 7}), "`load.journey` has 7 where a text is needed");
        let mut info = sample();
        info["url"] = Value::Null;
        assert!(write("x", &info).is_err());
    }
}
