//! The stack under test: hosts, who calls whom, the entry URL, the workload and the objective.
//!
//! A stack file may build on another with `base = "other.toml"`: tables merge, everything else is replaced.
//! This module parses text and checks meaning; reading the files is the caller's work.

use crate::cpus::CpuList;
use crate::input::{InputError, nearest};
use crate::lab::LabSpec;
use crate::load::{Arrivals, RequestSpec};
use crate::profile::Profile;
use crate::script::{Feed, FeedOrder, Prepare, Script, Step};
use crate::threshold::Threshold;
use crate::tls::TlsSpec;
use crate::units::{Bytes, Nanos, Rate, Share};
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A stack file may build on another, which may build on another; more than this is a loop.
const LAYERS_MAX: usize = 8;

/// The system under test. Made by [`Stack::parse`] from a file, or by [`Stack::from_url`] from a bare URL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stack {
    /// The file this one builds on, relative to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// What a person calls it.
    #[serde(default)]
    pub name: String,
    /// The URL that clients ask for, like `http://10.77.0.2:8080/1k`.
    #[serde(default)]
    pub entry: String,
    /// The target belongs to the user: needed before a load goes to an address that is not private.
    #[serde(default)]
    pub owned: bool,
    /// Hosts by name.
    #[serde(default)]
    pub host: BTreeMap<String, Host>,
    /// What clients send.
    #[serde(default)]
    pub workload: Workload,
    /// The service level objective; none: only the limit is searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
    /// Present when prony itself brings the stack up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabSpec>,
}

/// One machine, or one network namespace that stands for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// What it does for a request.
    #[serde(default)]
    pub role: Role,
    /// Where it is.
    #[serde(default)]
    pub at: Place,
    /// CPUs that its processes may use, like `0,2-3`; none: not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<CpuList>,
    /// Which server software runs there: picks facts and knobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<Software>,
    /// The server's main configuration file, as seen from inside the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// How to find the server's processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessRef>,
    /// The server's status page (nginx `stub_status`, statistics of HAProxy) or stats socket, asked from inside the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Log files of the server.
    #[serde(default, skip_serializing_if = "Logs::is_empty")]
    pub logs: Logs,
    /// Hosts that this one calls to serve a request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// Address of the host on the path, when known: tells to which host a connection leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addr: Option<String>,
    /// Database connection, used from inside the host. Read, but never written anywhere: it may hold a password.
    #[serde(default, skip_serializing)]
    pub dsn: Option<String>,
}

/// What a host does for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends the load.
    Generator,
    /// Passes requests on.
    Proxy,
    /// Answers requests itself.
    #[default]
    Server,
    /// Runs the application's code.
    App,
    /// Keeps the data.
    Database,
    /// Keeps answers.
    Cache,
}

/// Where a host is. Text: `local`, `netns:NAME`, `agent:NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Place {
    /// This machine, in the network namespace of prony itself.
    #[default]
    Local,
    /// A named network namespace of this machine (`/run/netns/NAME`).
    Netns(String),
    /// Another machine that runs `prony agent`.
    Agent(String),
}

impl TryFrom<String> for Place {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "local" => Ok(Self::Local),
            Some(("netns", name)) if !name.is_empty() && !name.contains('/') => Ok(Self::Netns(name.to_string())),
            Some(("agent", name)) if !name.is_empty() => Ok(Self::Agent(name.to_string())),
            _ => Err(format!("`{text}` is not a place: write `local`, `netns:NAME` or `agent:NAME`")),
        }
    }
}
impl From<Place> for String {
    fn from(place: Place) -> Self {
        match place {
            Place::Local => "local".to_string(),
            Place::Netns(name) => format!("netns:{name}"),
            Place::Agent(name) => format!("agent:{name}"),
        }
    }
}

/// Server software that prony knows facts or knobs of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Software {
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
    /// PostgreSQL.
    Postgres,
    /// Redis.
    Redis,
    /// Anything else: kernel facts only.
    Other,
}

/// How to find the processes of a host's server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessRef {
    /// A file that holds the pid of the main process; its descendants belong to it.
    PidFile(String),
    /// Every process with this command name.
    Name(String),
    /// These processes and their descendants.
    Pids(Vec<u32>),
    /// Every process of this control group, like `/faults/lb`, without the mount point.
    Cgroup(String),
}

/// Log files of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Logs {
    /// One line per request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
    /// Complaints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Traces in the JSON form of OTLP, as OpenTelemetry's file exporter writes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<String>,
    /// The `service.name` of this host's spans in them; none: every span is this host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
}

impl Logs {
    /// Whether no log is named.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What clients send. Rates and connections are always global, never per thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// Connections held open at once.
    pub connections: u32,
    /// Open loop: requests per second that arrive whatever the answers do; none: closed loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How arrivals are spaced in open loop.
    pub arrivals: Arrivals,
    /// Headers of every request.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Method of every request that names none.
    pub method: String,
    /// Body of every request that names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// File with the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_file: Option<String>,
    /// A body of that many bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<Bytes>,
    /// Whether a connection serves more than one request.
    pub keepalive: bool,
    /// Close a connection after that many requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_per_connection: Option<u32>,
    /// Which requests, with weights; none: the entry URL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestSpec>,
    /// Many paths from one pattern, asked in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathPattern>,
    /// Give up on a response after this time on the wire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Nanos>,
    /// In open loop: shed a request that could not begin within this time of its intended one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Nanos>,
    /// How the rate goes over time, instead of `rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Speak HTTP/2: by ALPN over TLS, with prior knowledge without.
    pub http2: bool,
    /// Most requests in flight on one connection: streams of HTTP/2 (10 unless said), pipelining of HTTP/1.1 (1 unless said).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Connect there instead of to the entry's host: `HOST[:PORT]` or `unix:PATH`, connections in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub connect_to: Vec<String>,
    /// Use every address that the entry's name has.
    pub all_addresses: bool,
    /// Local addresses that connections come from, in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
    /// Most connections opened per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_rate: Option<Rate>,
    /// How connections of an `https` entry are secured.
    #[serde(skip_serializing_if = "TlsSpec::is_default")]
    pub tls: TlsSpec,
    /// A scenario, instead of `requests`: every connection walks through these steps, again and again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub step: Vec<Step>,
    /// Tables of data by name, for templates.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub feed: BTreeMap<String, FeedSpec>,
    /// What is done once, before the load; its saved values become the feed `prepared`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prepare: Option<Prepare>,
}

/// Where the rows of a feed come from. The file is named relative to the stack file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FeedSpec {
    /// The file.
    pub file: String,
    /// What it is; none: as the end of its name says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<FeedFormat>,
    /// How rows are given out.
    #[serde(default)]
    pub order: FeedOrder,
    /// CSV: names of the columns of a file whose first line is data. JSON lines: the keys to take; none: those of the first line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
}

/// What a file of rows is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedFormat {
    /// Comma separated values (RFC 4180).
    Csv,
    /// A JSON object per line.
    Jsonl,
}

impl Workload {
    /// What it says of steps, feeds and the prepare phase; the feeds without their rows, which are in files.
    pub fn script(&self) -> Script {
        let feed = |spec: &FeedSpec| Feed { columns: spec.columns.clone(), rows: Vec::new(), order: spec.order };
        Script {
            steps: self.step.clone(),
            feeds: self.feed.iter().map(|(name, spec)| (name.clone(), feed(spec))).collect(),
            prepare: self.prepare.clone(),
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.connections == 0 {
            return Err("`workload.connections` is 0: at least one connection is needed".to_string());
        }
        let lists = !self.requests.is_empty() || self.paths.is_some();
        if !self.step.is_empty() && lists {
            return Err("`workload.step` and `workload.requests` or `paths` are both given: keep one".to_string());
        }
        self.script().check()
    }
}

/// `paths = { format = "/f%d", count = 600 }`: /f0 to /f599.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathPattern {
    /// A path with one `%d`.
    pub format: String,
    /// How many; numbers start at 0.
    pub count: u32,
}

impl Default for Workload {
    fn default() -> Self {
        Self {
            connections: 64,
            rate: None,
            arrivals: Arrivals::Poisson,
            headers: BTreeMap::new(),
            method: "GET".to_string(),
            body: None,
            body_file: None,
            body_bytes: None,
            keepalive: true,
            requests_per_connection: None,
            requests: Vec::new(),
            paths: None,
            timeout: None,
            deadline: None,
            profile: None,
            http2: false,
            depth: None,
            connect_to: Vec::new(),
            all_addresses: false,
            sources: Vec::new(),
            connect_rate: None,
            tls: TlsSpec::default(),
            step: Vec::new(),
            feed: BTreeMap::new(),
            prepare: None,
        }
    }
}

/// The service level objective, as a predicate on one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// 99 % of responses within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Nanos>,
    /// Half of the responses within this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<Nanos>,
    /// At most this share of requests may fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<Share>,
}

impl Slo {
    /// The same as thresholds, in their order: `p99<=10ms`, `errors<=0.1%`.
    pub fn thresholds(&self) -> Vec<Threshold> {
        let texts = [
            self.p50.map(|limit| format!("p50<={limit}")),
            self.p99.map(|limit| format!("p99<={limit}")),
            self.errors.map(|limit| format!("errors<={limit}")),
        ];
        let read = |text: String| text.parse().expect("a unit reads what it prints");
        texts.into_iter().flatten().map(read).collect()
    }
}

impl Stack {
    /// Parses a stack file that has no `base`, and checks it.
    ///
    /// # Errors
    /// The file is not TOML, has an unknown key or a wrong unit, or names what is not there; with the line where possible.
    pub fn parse(file: &str, text: &str) -> Result<Self, InputError> {
        Self::parse_layers(&[(file.to_string(), text.to_string())])
    }

    /// The `base` that a stack file names, if any.
    ///
    /// # Errors
    /// Unknown keys and wrong units, with their lines.
    pub fn base_of(file: &str, text: &str) -> Result<Option<String>, InputError> {
        let layer: Self = toml::from_str(text).map_err(|e| InputError::from_toml(file, text, &e))?;
        Ok(layer.base)
    }

    /// A stack file with the files it builds on, the base first. `read` is asked for a base with the name of the file that
    /// names it and the base as it stands there; it gives the name and the text of the base.
    ///
    /// # Errors
    /// A file has unknown keys or wrong units, a base cannot be read, or too many files build on each other.
    pub fn layers<E: From<InputError>>(
        file: String,
        text: String,
        mut read: impl FnMut(&str, &str) -> Result<(String, String), E>,
    ) -> Result<Vec<(String, String)>, E> {
        let mut layers = Vec::new();
        let mut next = Some((file, text));
        while let Some((file, text)) = next {
            if layers.len() == LAYERS_MAX {
                let message = format!("more than {LAYERS_MAX} files build on each other with `base`; is it a circle?");
                return Err(InputError::whole(&file, message).into());
            }
            next = Self::base_of(&file, &text)?.map(|base| read(&file, &base)).transpose()?;
            layers.push((file, text));
        }
        layers.reverse();
        Ok(layers)
    }

    /// Parses files of which each builds on the one before it: the base first. Checks every file alone (so that errors name
    /// its line), then merges, then checks the whole.
    ///
    /// # Errors
    /// As [`Stack::parse`]; what only the whole gets wrong is told of the last file, without a line.
    pub fn parse_layers(layers: &[(String, String)]) -> Result<Self, InputError> {
        let mut merged = toml::Table::new();
        for (file, text) in layers {
            Self::base_of(file, text)?;
            let table = text.parse::<toml::Table>().map_err(|e| InputError::from_toml(file, text, &e))?;
            merge(&mut merged, table);
        }
        merged.remove("base");
        let file = layers.last().map_or("", |(file, _)| file.as_str());
        let stack: Self =
            merged.try_into().map_err(|e: toml::de::Error| InputError::whole(file, e.message().trim().to_string()))?;
        stack.check(file)?;
        Ok(stack)
    }

    /// A stack of which only the URL is known: the generator here, the rest unseen.
    pub fn from_url(url: &str) -> Self {
        let client = Host { role: Role::Generator, ..Host::default() };
        Self {
            name: url.to_string(),
            entry: url.to_string(),
            host: BTreeMap::from([("client".to_string(), client)]),
            ..Self::default()
        }
    }

    /// What a person calls it; its entry when it has no name.
    pub fn title(&self) -> &str {
        if self.name.is_empty() { &self.entry } else { &self.name }
    }

    /// The host that sends the load, if the stack names one.
    pub fn generator(&self) -> Option<(&str, &Host)> {
        self.host.iter().find(|(_, h)| h.role == Role::Generator).map(|(name, h)| (name.as_str(), h))
    }

    /// Hosts that serve requests, in the order of the path: those that the generator calls first, then whom they call, breadth
    /// first. Where no generator says whom it calls, it is those that nobody calls.
    pub fn path(&self) -> Vec<&str> {
        let asked = self.generator().map(|(_, h)| h.calls.as_slice()).unwrap_or_default();
        let called: BTreeSet<&str> = self.serving().flat_map(|(_, h)| h.calls.iter().map(String::as_str)).collect();
        let is_entry =
            |name: &str| if asked.is_empty() { !called.contains(name) } else { asked.iter().any(|a| a == name) };
        let mut order: Vec<&str> = self.serving().map(|(n, _)| n).filter(|n| is_entry(n)).collect();
        let mut next = 0;
        while next < order.len() {
            let calls = self.host.get(order[next]).map(|h| h.calls.as_slice()).unwrap_or_default();
            for callee in calls {
                if !order.contains(&callee.as_str()) {
                    order.push(callee);
                }
            }
            next += 1;
        }
        order
    }

    /// Hosts that serve nobody on the path: neighbours, by name.
    pub fn beside_path(&self) -> Vec<&str> {
        let path = self.path();
        self.serving().map(|(name, _)| name).filter(|name| !path.contains(name)).collect()
    }

    /// Hosts that call `host`, the generator left out.
    pub fn callers(&self, host: &str) -> Vec<&str> {
        self.serving().filter(|(_, h)| h.calls.iter().any(|c| c == host)).map(|(n, _)| n).collect()
    }

    fn serving(&self) -> impl Iterator<Item = (&str, &Host)> {
        self.host.iter().filter(|(_, h)| h.role != Role::Generator).map(|(n, h)| (n.as_str(), h))
    }

    fn check(&self, file: &str) -> Result<(), InputError> {
        let wrong = |message: String| Err(InputError::whole(file, message));
        if self.entry.is_empty() {
            return wrong("`entry` is missing: the URL that clients ask for, like `http://10.77.0.2/`".to_string());
        }
        if let Err(message) = self.workload.check() {
            return wrong(message);
        }
        for (name, host) in &self.host {
            for callee in &host.calls {
                if !self.host.contains_key(callee) {
                    let near = nearest(callee, self.host.keys().map(String::as_str));
                    let hint = near.map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
                    return wrong(format!(
                        "`host.{name}.calls` names `{callee}`, which is no host of this stack{hint}"
                    ));
                }
            }
        }
        if self.host.values().filter(|h| h.role == Role::Generator).count() > 1 {
            return wrong("more than one host has role \"generator\": this version drives one".to_string());
        }
        for name in self.lab.iter().flat_map(|lab| lab.host.keys()) {
            if !self.host.contains_key(name) {
                return wrong(format!("`lab.host.{name}` has no `[host.{name}]` that says its role"));
            }
        }
        Ok(())
    }
}

/// Lays `over` on top of `base`: tables merge key by key, everything else is replaced.
fn merge(base: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        if let toml::Value::Table(new) = value {
            match base.get_mut(&key) {
                Some(toml::Value::Table(old)) => merge(old, new),
                _ => drop(base.insert(key, toml::Value::Table(new))),
            }
        } else {
            base.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const PROXY: &str = r#"
entry = "http://10.77.0.2/"
[host.client]
role = "generator"
at = "netns:client"
[host.lb]
role = "proxy"
calls = ["s1", "s2"]
process = { pid_file = "/run/nginx.pid" }
[host.s1]
[host.s2]
[workload]
connections = 128
[slo]
p99 = "10ms"
errors = "0.1%"
"#;

    fn check(text: &str, want: Expect) {
        want.assert_eq(&Stack::parse("stack.toml", text).unwrap_err().to_string());
    }

    #[test]
    fn an_objective_is_a_list_of_thresholds() {
        let slo = Slo {
            p99: Some(Nanos::from_millis(10)),
            p50: Some(Nanos(1_500_000)),
            errors: Some("0.3%".parse().unwrap()),
        };
        let texts: Vec<String> = slo.thresholds().iter().map(ToString::to_string).collect();
        assert_eq!(texts[..2], ["p50<=1.5ms", "p99<=10ms"]);
        assert!((slo.thresholds()[2].limit - 0.003).abs() < 1e-12);
        assert!(Slo::default().thresholds().is_empty());
    }

    #[test]
    fn reads_a_stack() {
        let stack = Stack::parse("stack.toml", PROXY).unwrap();
        assert_eq!(stack.path(), ["lb", "s1", "s2"]);
        assert_eq!(stack.callers("s1"), ["lb"]);
        assert_eq!(stack.generator().unwrap().0, "client");
        assert_eq!(stack.slo.unwrap().p99, Some(Nanos::from_millis(10)));
        assert_eq!(stack.host["lb"].process, Some(ProcessRef::PidFile("/run/nginx.pid".into())));
    }

    #[test]
    fn who_serves_nobody_on_the_path_is_beside_it() {
        let neighbour = format!("{PROXY}\n[host.batch]\ncalls = [\"disk\"]\n[host.disk]\n");
        let stack = Stack::parse("stack.toml", &neighbour).unwrap();
        assert_eq!(
            (stack.path(), stack.beside_path()),
            (vec!["batch", "lb", "disk", "s1", "s2"], vec![]),
            "nobody tells"
        );
        let told = neighbour.replace("role = \"generator\"", "role = \"generator\"\ncalls = [\"lb\"]");
        let stack = Stack::parse("stack.toml", &told).unwrap();
        assert_eq!((stack.path(), stack.beside_path()), (vec!["lb", "s1", "s2"], vec!["batch", "disk"]));
    }

    #[test]
    fn survives_being_written() {
        let stack = Stack::parse("stack.toml", PROXY).unwrap();
        let (toml, json) = (toml::to_string(&stack).unwrap(), serde_json::to_string(&stack).unwrap());
        assert_eq!(Stack::parse("again.toml", &toml).unwrap(), stack);
        assert_eq!(serde_json::from_str::<Stack>(&json).unwrap(), stack);
    }

    #[test]
    fn a_password_is_never_written() {
        let text = "entry = \"http://a/\"\n[host.db]\ndsn = \"postgresql://app:secret@127.0.0.1/app\"\n";
        let stack = Stack::parse("stack.toml", text).unwrap();
        assert!(stack.host["db"].dsn.as_ref().unwrap().contains("secret"));
        let (toml, json) = (toml::to_string(&stack).unwrap(), serde_json::to_string(&stack).unwrap());
        assert!(!toml.contains("secret") && !json.contains("secret"), "{toml} {json}");
    }

    #[test]
    fn mistakes_name_the_line_and_the_nearest_key() {
        check(
            "entry = \"http://a/\"\n[workload]\nconections = 3\n",
            expect![[
                r#"stack.toml:3: unknown field `conections`, expected one of `connections`, `rate`, `arrivals`, `headers`, `method`, `body`, `body_file`, `body_bytes`, `keepalive`, `requests_per_connection`, `requests`, `paths`, `timeout`, `deadline`, `profile`, `http2`, `depth`, `connect_to`, `all_addresses`, `sources`, `connect_rate`, `tls`, `step`, `feed`, `prepare`; did you mean `connections`?"#
            ]],
        );
        check(
            "entry = \"http://a/\"\n[slo]\np99 = \"10\"\n",
            expect!["stack.toml:3: `10` is not a duration: write it with ns, us, ms, s, m or h, like `10ms`"],
        );
        check(
            "entry = \"http://a/\"\n[host.lb]\ncpus = \"3-1\"\n",
            expect!["stack.toml:3: `3-1` is not a list of CPUs: write numbers from 0 to 1023, like `0,2-3`"],
        );
        check(
            "name = \"x\"",
            expect!["stack.toml: `entry` is missing: the URL that clients ask for, like `http://10.77.0.2/`"],
        );
        check(
            "entry = \"http://a/\"\n[host.lb]\ncalls = [\"s2\"]\n[host.s1]\n",
            expect!["stack.toml: `host.lb.calls` names `s2`, which is no host of this stack; did you mean `s1`?"],
        );
        check(
            "entry = \"http://a/\"\n[host.lb]\nat = \"nets:lb\"\n",
            expect!["stack.toml:3: `nets:lb` is not a place: write `local`, `netns:NAME` or `agent:NAME`"],
        );
    }

    const SCENARIO: &str = r#"
entry = "http://a/"
[workload.feed.users]
file = "users.csv"
order = "unique"
[[workload.step]]
name = "login"
method = "POST"
path = "/login"
headers = { Content-Type = "application/json" }
body = '{"user": "${users.name}"}'
save = { token = "json:/token" }
[[workload.step]]
path = "/query?id=${n}"
headers = { Authorization = "Bearer ${token}" }
repeat = 49
think = "10ms"
check = { status = 200, contains = "id" }
[workload.prepare]
count = 10
[[workload.prepare.step]]
path = "/new"
save = { key = "regex:key=([0-9]+)" }
"#;

    #[test]
    fn reads_a_scenario_and_writes_it() {
        let stack = Stack::parse("stack.toml", SCENARIO).unwrap();
        let workload = &stack.workload;
        assert_eq!(workload.step.iter().map(Step::label).collect::<Vec<_>>(), ["login", "/query?id=${n}"]);
        assert_eq!((workload.step[0].repeat, workload.step[1].repeat), (1, 49));
        assert_eq!(workload.feed["users"].order, FeedOrder::Unique);
        assert_eq!(workload.prepare.as_ref().unwrap().columns(), ["key"]);
        let (toml, json) = (toml::to_string(&stack).unwrap(), serde_json::to_string(&stack).unwrap());
        assert_eq!(Stack::parse("again.toml", &toml).unwrap(), stack);
        assert_eq!(serde_json::from_str::<Stack>(&json).unwrap(), stack);
    }

    #[test]
    fn mistakes_in_a_scenario_name_their_line() {
        let with = |old: &str, new: &str, want: Expect| check(&SCENARIO.replace(old, new), want);
        with(
            "?id=${n}",
            "?id=${n",
            expect![[
                r#"stack.toml:14: "${n" is a `${` without its `}`: write `${NAME}`, or `$${` for one that stands as it is"#
            ]],
        );
        with(
            "json:/token",
            "jsn:/token",
            expect![
                "stack.toml:12: `jsn:/token` is not a place in an answer: write `json:/POINTER`, `header:NAME`, `cookie:NAME` or `regex:PATTERN`"
            ],
        );
        with(
            "repeat = 49",
            "repeat = 0",
            expect!["stack.toml:16: 0 would never do the step: write 1 or more, or leave it out"],
        );
        with(
            "think =",
            "thinks =",
            expect![
                "stack.toml:17: unknown field `thinks`, expected one of `name`, `method`, `path`, `headers`, `body`, `save`, `repeat`, `think`, `check`; did you mean `think`?"
            ],
        );
        with(
            "\"unique\"",
            "\"uniq\"",
            expect![
                "stack.toml:5: unknown variant `uniq`, expected one of `sequential`, `random`, `unique`; did you mean `unique`?"
            ],
        );
        with(
            "count = 10",
            "count = 0",
            expect!["stack.toml: `workload.prepare`: `count` and `connections` must be 1 or more"],
        );
        with(
            "{ token =",
            "{ n =",
            expect![
                "stack.toml: `workload.step` login, `save.n`: a name is made of letters, digits, `_` and `-`, and is not `n`"
            ],
        );
        with(
            "[workload.feed.users]",
            "[workload]\nrequests = [{ path = \"/a\" }]\n[workload.feed.users]",
            expect!["stack.toml: `workload.step` and `workload.requests` or `paths` are both given: keep one"],
        );
    }

    #[test]
    fn layers_come_base_first_and_a_circle_ends() {
        let read = |file: &str, base: &str| -> Result<(String, String), InputError> {
            assert_eq!((file, base), ("over.toml", "proxy.toml"));
            Ok((base.to_string(), PROXY.to_string()))
        };
        let over = "base = \"proxy.toml\"\n".to_string();
        let layers = Stack::layers("over.toml".to_string(), over.clone(), read).unwrap();
        assert_eq!(layers.iter().map(|(file, _)| file.as_str()).collect::<Vec<_>>(), ["proxy.toml", "over.toml"]);
        let circle = |_: &str, _: &str| -> Result<_, InputError> { Ok(("over.toml".to_string(), over.clone())) };
        let error = Stack::layers("over.toml".to_string(), over.clone(), circle).unwrap_err();
        assert!(error.message.contains("is it a circle?"), "{error}");
    }

    #[test]
    fn a_layer_changes_only_what_it_names() {
        let over = "base = \"proxy.toml\"\n[host.lb]\ncpus = \"0\"\n[workload]\nconnections = 2\n";
        let layers = [("proxy.toml".to_string(), PROXY.to_string()), ("over.toml".to_string(), over.to_string())];
        let stack = Stack::parse_layers(&layers).unwrap();
        assert_eq!(stack.workload.connections, 2);
        assert_eq!(stack.host["lb"].role, Role::Proxy);
        assert_eq!(stack.host["lb"].cpus, "0".parse().ok());
    }
}
