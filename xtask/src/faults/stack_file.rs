//! From what a fault case's `up` printed to a stack file.
//!
//! Says what the stack format cannot express yet, so that such a case is skipped and not judged on half a load.

use anyhow::Context as _;
use serde_json::Value;
use toml::{Table, Value as Toml};

/// Writes the stack file of a case; the inner error says why the format cannot express it yet.
///
/// # Errors
/// A field that every case has is missing.
pub fn write(case: &str, info: &Value) -> anyhow::Result<Result<String, String>> {
    let url = text(info, "url").context("`url` is missing")?;
    if url.starts_with("https:") {
        return Ok(Err("needs TLS".to_string()));
    }
    let workload = match workload(info) {
        Ok(workload) => workload,
        Err(reason) => return Ok(Err(reason)),
    };
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
            "journey" => return Err("needs scenarios".to_string()),
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
    fn says_what_the_format_lacks() {
        assert_eq!(with_load(json!({"journey": []})), Err("needs scenarios".to_string()));
        assert_eq!(with_load(json!({"websocket": true})), Err("needs `load.websocket`".to_string()));
        let mut info = sample();
        info["url"] = json!("https://10.77.0.20/");
        assert_eq!(write("x", &info).unwrap(), Err("needs TLS".to_string()));
        info["url"] = Value::Null;
        assert!(write("x", &info).is_err());
    }
}
