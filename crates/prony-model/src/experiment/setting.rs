//! What a cell means on a stack: the stack with the workload and lab of the cell, and the knobs to turn.
//!
//! It turns nothing and asks no host. Invariant: a cell whose levels are all `as-found` is the stack itself.

use super::{Experiment, Factor, Setting};
use crate::input::nearest;
use crate::{Knob, KnobId, Stack};

/// Keys of a lab that belong to no host.
const OF_THE_LAB: [&str; 2] = ["overlay", "switch"];

/// What a factor varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A knob.
    Knob {
        /// Host; none: the entry of the path.
        host: Option<String>,
        /// Which.
        id: KnobId,
    },
    /// A key of the stack file, from the outside in.
    Key(Vec<String>),
    /// The path of every request.
    Path,
}

/// A cell on a stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// The stack with the workload and the lab of the cell.
    pub stack: Stack,
    /// What is to be turned, in the order of the factors.
    pub knobs: Vec<Knob>,
}

impl Factor {
    /// What it varies.
    ///
    /// # Errors
    /// It names no knob, or no key of a host; the message says what would be right.
    pub fn target(&self) -> Result<Target, String> {
        let keys = |path: &str| path.split('.').map(str::to_string).collect::<Vec<String>>();
        match (&self.knob, &self.workload, &self.lab) {
            (Some(knob), _, _) => {
                let (host, name) = match knob.split_once(':') {
                    Some((host, name)) => (Some(host.to_string()), name),
                    None => (None, knob.as_str()),
                };
                Ok(Target::Knob { host, id: KnobId::try_from(name.to_string())? })
            }
            (None, Some(key), _) if key == "path" => Ok(Target::Path),
            (None, Some(key), _) => Ok(Target::Key([vec!["workload".to_string()], keys(key)].concat())),
            (None, None, Some(key)) if OF_THE_LAB.contains(&key.as_str()) => {
                Ok(Target::Key(vec!["lab".to_string(), key.clone()]))
            }
            (None, None, Some(place)) => {
                let form =
                    || format!("`{place}` names no key of a lab's host: write HOST:KEY, like `lb:server.workers`");
                let (host, key) =
                    place.split_once(':').filter(|(h, k)| !h.is_empty() && !k.is_empty()).ok_or_else(form)?;
                // The CPUs of a host stand in its own table, everything else in that of the lab.
                let table = if key == "cpus" { vec!["host"] } else { vec!["lab", "host"] };
                let table = table.into_iter().chain([host]).map(str::to_string).collect::<Vec<_>>();
                Ok(Target::Key([table, keys(key)].concat()))
            }
            (None, None, None) => Err("write one of `knob`, `workload` or `lab`".to_string()),
        }
    }
}

impl Experiment {
    /// A cell on a stack.
    ///
    /// # Errors
    /// The stack has no such host or key, or the key does not take the level; names factor and level.
    pub fn apply(&self, stack: &Stack, cell: &[usize]) -> Result<Applied, String> {
        let mut applied = Applied { stack: stack.clone(), knobs: Vec::new() };
        for (factor, setting) in self.factors.iter().zip(self.settings(cell)) {
            let wrong = |message: String| format!("factor `{}`, level `{setting}`: {message}", factor.name);
            let target = factor.target().map_err(wrong)?;
            if setting.is_as_found() {
                continue;
            }
            match target {
                Target::Knob { host, id } => {
                    let host = knob_host(stack, host).map_err(wrong)?;
                    applied.knobs.push(Knob { host, id, value: setting.to_string() });
                }
                Target::Key(keys) => applied.stack = with(&applied.stack, &keys, value(&setting)).map_err(wrong)?,
                Target::Path => {
                    let request = toml::Table::from_iter([("path".to_string(), value(&setting))]);
                    let keys = ["workload", "requests"].map(str::to_string);
                    applied.stack = with(&applied.stack, &keys, vec![request].into()).map_err(wrong)?;
                }
            }
        }
        Ok(applied)
    }
}

fn knob_host(stack: &Stack, named: Option<String>) -> Result<String, String> {
    let host = named.or_else(|| stack.path().first().map(|host| (*host).to_string()));
    match host {
        Some(host) if stack.host.contains_key(&host) => Ok(host),
        Some(host) => {
            let hosts = [stack.path(), stack.beside_path()].concat();
            let hint = nearest(&host, hosts.clone()).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
            Err(format!("the stack has no host `{host}`; it has {}{hint}", hosts.join(", ")))
        }
        None => Err("the stack names no host whose knobs could be turned".to_string()),
    }
}

fn value(setting: &Setting) -> toml::Value {
    match setting {
        Setting::Bool(value) => (*value).into(),
        Setting::Whole(value) => (*value).into(),
        Setting::Number(value) => (*value).into(),
        Setting::Text(value) => value.as_str().into(),
    }
}

/// The stack with another value at one key, checked as a stack file is.
fn with(stack: &Stack, keys: &[String], value: toml::Value) -> Result<Stack, String> {
    if keys.first().is_some_and(|key| key == "lab") {
        let hosts = stack.lab.as_ref().ok_or("the stack has no `[lab]`: only labs are built anew")?;
        let host = keys.get(2).map(String::as_str).filter(|_| keys.get(1).is_some_and(|key| key == "host"));
        if let Some(host) = host.filter(|host| !hosts.host.contains_key(*host)) {
            let names: Vec<&str> = hosts.host.keys().map(String::as_str).collect();
            return Err(format!("the lab has no host `{host}`; it has {}", names.join(", ")));
        }
    }
    let table = toml::Table::try_from(stack).map_err(|e| e.to_string())?;
    let mut root = toml::Value::Table(table);
    let (last, tables) = keys.split_last().ok_or("no key is named")?;
    let mut at = &mut root;
    for key in tables {
        let table = at.as_table_mut().ok_or_else(|| format!("`{key}` stands in no table"))?;
        at = table.entry(key.clone()).or_insert_with(|| toml::Table::new().into());
    }
    at.as_table_mut().ok_or_else(|| format!("`{last}` stands in no table"))?.insert(last.clone(), value);
    let text = toml::to_string(&root).map_err(|e| e.to_string())?;
    // The line is one of a text that nobody sees.
    let mut changed = Stack::parse("", &text).map_err(|e| e.message)?;
    // A database connection is never written, because it may hold a password.
    for (name, host) in &mut changed.host {
        host.dsn = stack.host.get(name).and_then(|host| host.dsn.clone());
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const STACK: &str = r#"
entry = "http://10.77.0.20/10k"
[host.client]
role = "generator"
[host.lb]
calls = ["db"]
[host.db]
dsn = "postgresql://app:secret@127.0.0.1/app"
[lab.host.client]
addr = "10.77.0.10"
[lab.host.lb]
addr = "10.77.0.20"
[lab.host.db]
addr = "10.77.0.30"
"#;

    #[test]
    fn a_neighbour_has_knobs_and_is_among_the_hosts_that_are_named() {
        let told = STACK.replace("\"generator\"", "\"generator\"\ncalls = [\"lb\"]");
        let told = told.replacen("[lab.", "[host.batch]\n[lab.", 1);
        let stack = Stack::parse("stack.toml", &told).unwrap();
        assert_eq!(knob_host(&stack, Some("batch".to_string())).unwrap(), "batch");
        let wrong = knob_host(&stack, Some("bathc".to_string())).unwrap_err();
        assert_eq!(wrong, "the stack has no host `bathc`; it has lb, db, batch; did you mean `batch`?");
    }

    /// The only cell of an experiment with one factor of one level, on the stack.
    fn apply(factor: &str) -> Result<Applied, String> {
        let text = format!("name = \"x\"\nstack = \"s\"\nexpectation = \"x\"\n[[factor]]\nname = \"f\"\n{factor}\n");
        let experiment = Experiment::parse("e.toml", &text).map_err(|e| e.to_string())?;
        experiment.apply(&Stack::parse("s.toml", STACK).unwrap(), &experiment.cells()[0])
    }

    fn fails(factor: &str, want: Expect) {
        want.assert_eq(&apply(factor).unwrap_err());
    }

    #[test]
    fn a_level_changes_what_it_names_and_nothing_else() {
        let stack = Stack::parse("s.toml", STACK).unwrap();
        let found = apply("knob = \"nginx.backlog\"\nlevels = [\"as-found\"]").unwrap();
        assert_eq!((found.stack, found.knobs.len()), (stack.clone(), 0));
        let knob = apply("knob = \"nginx.backlog\"\nlevels = [4096]").unwrap().knobs.remove(0);
        assert_eq!((knob.host.as_str(), knob.value.as_str()), ("lb", "4096"));
        let mut wanted = stack.clone();
        wanted.workload.keepalive = false;
        assert_eq!(apply("workload = \"keepalive\"\nlevels = [false]").unwrap().stack, wanted);
        let path = apply("workload = \"path\"\nlevels = [\"/616\"]").unwrap().stack.workload;
        assert_eq!(path.requests[0].path, "/616");
        let lab = apply("lab = \"lb:server.workers\"\nlevels = [4]").unwrap().stack;
        assert_eq!(lab.lab.unwrap().host["lb"].server.as_ref().unwrap().workers, Some(4));
        assert_eq!(lab.host["db"].dsn, stack.host["db"].dsn, "a password is kept, though it is never written");
        let overlay = apply("lab = \"overlay\"\nlevels = [\"vxlan\"]").unwrap().stack.lab.unwrap().overlay;
        assert_eq!(overlay, Some(crate::lab::Overlay::Vxlan));
        assert_eq!(apply("lab = \"lb:cpus\"\nlevels = [\"0-1\"]").unwrap().stack.host["lb"].cpus, "0-1".parse().ok());
    }

    #[test]
    fn what_the_stack_does_not_have_is_told() {
        fails(
            "knob = \"lp:nginx.backlog\"\nlevels = [1]",
            expect!["factor `f`, level `1`: the stack has no host `lp`; it has lb, db; did you mean `lb`?"],
        );
        fails(
            "workload = \"conections\"\nlevels = [1]",
            expect![
                "factor `f`, level `1`: unknown field `conections`, expected one of `connections`, `rate`, `arrivals`, `headers`, `method`, `body`, `body_file`, `body_bytes`, `keepalive`, `requests_per_connection`, `requests`, `paths`, `timeout`, `deadline`, `profile`, `http2`, `depth`, `connect_to`, `all_addresses`, `sources`, `connect_rate`, `tls`, `step`, `feed`, `prepare`; did you mean `connections`?"
            ],
        );
        fails(
            "workload = \"connections\"\nlevels = [\"many\"]",
            expect![[r#"factor `f`, level `many`: invalid type: string "many", expected u32"#]],
        );
        fails(
            "lab = \"lp:server.workers\"\nlevels = [1]",
            expect!["factor `f`, level `1`: the lab has no host `lp`; it has client, db, lb"],
        );
        fails(
            "lab = \"lb:server.wrkers\"\nlevels = [1]",
            expect![
                "factor `f`, level `1`: unknown field `wrkers`, expected one of `kind`, `workers`, `worker_connections`, `access_log`, `upstream_keepalive`, `backlog`, `sendfile`, `tcp_nopush`, `domains`, `map_lines`, `regex_rules`, `gzip_level`, `pool`, `questions`, `contended_rows`, `index`, `synchronous_commit`, `max_connections`, `error_log`, `worker_cpus`, `buffers_kib`, `requests_per_s_max`, `delay`, `blocking`, `traces`, `threads`, `one_lock`, `kept_mib`; did you mean `workers`?"
            ],
        );
        fails(
            "lab = \"server.workers\"\nlevels = [1]",
            expect![
                "e.toml:4: factor `f`: `server.workers` names no key of a lab's host: write HOST:KEY, like `lb:server.workers`"
            ],
        );
    }
}
