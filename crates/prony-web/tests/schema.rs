//! Every answer of the API, asked of a real server over real runs, is what the document says.

#![allow(clippy::unwrap_used, reason = "a test may stop at what cannot be")]

mod serving;

use prony_model::{LoadPlan, LoadResult, Purpose, Run, RunEnd, Stack, Trial, Window};
use serde_json::{Value, json};
use serving::{Serving, recorded, settings};
use std::collections::BTreeSet;
use std::path::Path;

const SLOW: &str = "upstream-keepalive-off.lb.prony";
const FAST: &str = "access-log-unbuffered.lb.prony";
const OTHER: &str = "slow-upstream.s2.prony";

/// What of `value` breaks `schema`, with the place of each.
fn breaks(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return breaks(document, document.pointer(reference.trim_start_matches('#')).unwrap(), value, at);
    }
    if let Some(list) = schema["anyOf"].as_array() {
        let each: Vec<_> = list.iter().map(|one| breaks(document, one, value, at)).collect();
        return if each.iter().any(Vec::is_empty) { Vec::new() } else { each.concat() };
    }
    let wrong = |is: bool| if is { Vec::new() } else { vec![format!("{at}: {value} is not {}", schema["type"])] };
    match schema["type"].as_str() {
        Some("object") => object_breaks(document, schema, value, at),
        Some("array") => {
            let Some(items) = value.as_array() else { return wrong(false) };
            let each = items.iter().enumerate();
            each.flat_map(|(i, item)| breaks(document, &schema["items"], item, &format!("{at}[{i}]"))).collect()
        }
        Some("string") => match schema["enum"].as_array() {
            Some(words) => wrong(words.contains(value)),
            None => wrong(value.is_string()),
        },
        Some("boolean") => wrong(value.is_boolean()),
        Some("number") => wrong(value.is_number()),
        Some("integer") => wrong(value.is_u64() || (schema["minimum"].is_null() && value.is_i64())),
        Some("null") => wrong(value.is_null()),
        other => panic!("{at}: the schema has a type {other:?}"),
    }
}

/// Of an object: no field may be missing, and none may be there that the schema does not know.
fn object_breaks(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let Some(fields) = value.as_object() else { return vec![format!("{at}: {value} is no object")] };
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let missing = required.filter(|name| !fields.contains_key(*name)).map(|name| format!("{at}/{name}: missing"));
    let inner = fields.iter().flat_map(|(name, inner)| match schema["properties"].get(name) {
        Some(property) => breaks(document, property, inner, &format!("{at}/{name}")),
        None => vec![format!("{at}/{name}: not in the schema")],
    });
    missing.chain(inner).collect()
}

/// Writes a run with a few trials of one load.
fn write_run(folder: &Path, number: u64, good_per_s: f64) {
    let trial = |id: u32| {
        let good_per_s = good_per_s * (1.0 + f64::from(id) / 1e3);
        let result = LoadResult { good_per_s, completed: 1_000, ..LoadResult::default() };
        let plan = LoadPlan::to("http://10.0.0.2/");
        Trial { id, purpose: Purpose::Load, plan, window: Window::default(), result }
    };
    let run = Run {
        id: format!("run-{number}"),
        started_unix_ms: number * 60_000,
        stack: Stack { name: "shop".into(), entry: "http://10.0.0.2/".into(), ..Stack::default() },
        trials: (0..3).map(trial).collect(),
        end: RunEnd::Done,
        ..Run::default()
    };
    prony_record::Writer::create(&folder.join(format!("run-{number}.prony")), &run).unwrap();
}

/// Asks every operation, and gives the ids of those that were asked.
struct Asked<'a> {
    document: Value,
    serving: &'a Serving,
    operations: BTreeSet<String>,
}

impl Asked<'_> {
    /// Asks `path` as an operation of the route `of`, and holds the answer against its schema.
    fn ask(&mut self, method: &str, of: &str, path: &str, body: Option<Value>) -> Value {
        let answer = match body {
            Some(body) => self.serving.send(&method.to_uppercase(), path, &body),
            None if method == "get" => self.serving.get(path),
            None => self.serving.send_with(&method.to_uppercase(), path, "X-Prony: 1\r\n", ""),
        };
        let operation = &self.document["paths"][of][method];
        self.operations.insert(operation["operationId"].as_str().unwrap().to_string());
        let response = &operation["responses"][answer.code.to_string()];
        assert!(!response.is_null(), "{method} {path}: {} is not in the document: {}", answer.code, answer.body);
        let value = answer.json();
        let found = breaks(&self.document, &response["content"]["application/json"]["schema"], &value, "");
        assert_eq!(found, [""; 0], "{method} {path}");
        if answer.code >= 400 { json!({ "code": answer.code, "error": value["error"] }) } else { value }
    }
}

#[test]
fn every_answer_is_as_the_document_says() {
    let folder = tempfile::tempdir().unwrap();
    recorded(folder.path(), &[SLOW, FAST, OTHER]);
    (1..=8).for_each(|i| write_run(folder.path(), i, if i > 4 { 500.0 } else { 1_000.0 } + i as f64));
    std::fs::write(folder.path().join("broken.prony"), "hello").unwrap();
    let files = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let labs = repository.join("labs");
    std::fs::write(files.path().join("a.toml"), "entry = \"http://127.0.0.1/\"\n").unwrap();
    let program = std::path::PathBuf::from("/bin/true");
    let serving = Serving::begin(
        prony_web::Settings {
            experiments: vec![repository.join("experiments"), labs],
            stacks: vec![files.path().to_path_buf()],
            program,
            ..settings(folder.path())
        },
        None,
    );
    let document: Value = serde_json::from_str(&prony_web::openapi()).unwrap();
    let mut asked = Asked { document, serving: &serving, operations: BTreeSet::new() };
    assert_eq!(asked.ask("get", "/api/about", "/api/about", None)["can_start"], true);
    of_runs(&mut asked);
    of_work(&mut asked, files.path());

    let paths = asked.document["paths"].as_object().unwrap().values();
    let all = paths.flat_map(|path| path.as_object().unwrap().values()).filter_map(|o| o["operationId"].as_str());
    let left: BTreeSet<&str> = all.filter(|id| !asked.operations.contains(*id)).collect();
    assert_eq!(
        left,
        ["readDocument", "readMetrics", "watchJob", "watchRun"].into(),
        "these send no plain JSON of a type"
    );
}

fn of_runs(asked: &mut Asked<'_>) {
    let list = asked.ask("get", "/api/runs", "/api/runs?limit=100", None);
    assert_eq!((&list["total"], list["unreadable"].as_array().unwrap().len()), (&json!(11), 1));
    assert_eq!(
        asked.ask("get", "/api/runs", "/api/runs?q=shop&limit=3&from=6", None)["runs"].as_array().unwrap().len(),
        2
    );
    for wrong in ["limit=501", "limit=-1", "from=x", "nothing=1"] {
        assert_eq!(asked.ask("get", "/api/runs", &format!("/api/runs?{wrong}"), None)["code"], 400, "{wrong}");
    }
    let runs = list["runs"].as_array().unwrap();
    let recorded: Vec<&str> =
        runs.iter().filter(|run| run["stack"] != "shop").map(|run| run["id"].as_str().unwrap()).collect();
    for id in &recorded {
        let report = asked.ask("get", "/api/runs/{id}", &format!("/api/runs/{id}"), None);
        assert_eq!((&report["schema"], &report["run"]["id"]), (&json!("prony.report/1"), &json!(id)));
    }
    assert_eq!(asked.ask("get", "/api/runs/{id}", "/api/runs/..%2f..%2fetc%2fpasswd", None)["code"], 404);
    let tags = |id: &str| format!("/api/runs/{id}/tags");
    let tagged = asked.ask("put", "/api/runs/{id}/tags", &tags("run-1"), Some(json!({ "tags": ["nightly", "good"] })));
    assert_eq!(tagged["tags"], json!(["good", "nightly"]));
    let list = asked.ask("get", "/api/runs", "/api/runs?tag=nightly", None);
    assert_eq!((&list["total"], &list["tags"][0]["name"]), (&json!(1), &json!("good")));
    assert_eq!(asked.ask("get", "/api/runs/{id}/tags", &tags("run-1"), None)["tags"], tagged["tags"]);
    let wrong = asked.ask("put", "/api/runs/{id}/tags", &tags("run-1"), Some(json!({ "tags": ["<b>"] })));
    assert_eq!(wrong["code"], 400);

    let of_two = |a: &str, b: &str| format!("/api/compare?runs={a},{b}");
    let compared = asked.ask("get", "/api/compare", &of_two("run-1", "run-8"), None);
    let change = compared["against"][0]["changes"][0]["change"].as_f64().unwrap();
    assert!((change + 0.5).abs() < 0.01, "{change}");
    assert!(compared["against"][0]["worth"].as_str().unwrap().starts_with("weak: "), "{compared}");
    let apart = asked.ask("get", "/api/compare", &of_two("run-1", recorded[0]), None);
    assert!(apart["against"][0]["summary"].as_str().unwrap().contains("no load in common"), "{apart}");
    assert!(apart["runs"][1]["loads"].as_array().unwrap().len() > 2, "{apart}");
    assert_eq!(asked.ask("get", "/api/compare", "/api/compare?runs=run-1", None)["code"], 400);
    assert_eq!(asked.ask("get", "/api/compare", "/api/compare?runs=run-1,nothing", None)["code"], 404);

    let history = asked.ask("get", "/api/history", "/api/history?stack=shop", None);
    let (line, first) = (&history["series"][0], &history["series"][0]["changes"][0]);
    assert_eq!((&history["runs"], &line["metric"], &line["unit"]), (&json!(8), &json!("rps"), &json!("per_s")));
    assert_eq!((&first["run"], &first["worse"]), (&json!("run-5"), &json!(true)), "{history}");
    assert_eq!(asked.ask("get", "/api/history", "/api/history?stack=none", None)["code"], 404);
}

fn of_work(asked: &mut Asked<'_>, stacks: &Path) {
    let experiments = asked.ask("get", "/api/experiments", "/api/experiments", None);
    let all = experiments["experiments"].as_array().unwrap();
    let (right, wrong): (Vec<&Value>, Vec<&Value>) = all.iter().partition(|one| one["wrong"].is_null());
    assert!(right.len() >= 5 && !wrong.is_empty(), "labs are no experiments");
    let job = |file: &Value| Some(json!({ "file": file, "quick": true }));
    assert_eq!(asked.ask("post", "/api/jobs", "/api/jobs", job(&json!("/etc/passwd")))["code"], 404);
    assert_eq!(asked.ask("post", "/api/jobs", "/api/jobs", job(&wrong[0]["file"]))["code"], 409);
    assert_eq!(asked.ask("post", "/api/jobs", "/api/jobs", Some(json!({ "file": 1, "quick": true })))["code"], 400);
    let id = asked.ask("post", "/api/jobs", "/api/jobs", job(&right[0]["file"]))["id"].as_str().unwrap().to_string();
    let path = format!("/api/jobs/{id}");
    while asked.ask("get", "/api/jobs/{id}", &path, None)["job"]["state"] == "running" {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(asked.ask("get", "/api/jobs/{id}", &path, None)["job"]["exit_code"], 0);
    assert_eq!(asked.ask("get", "/api/jobs", "/api/jobs", None)["jobs"][0]["id"], json!(id));
    assert_eq!(asked.ask("post", "/api/jobs/{id}/stop", &format!("{path}/stop"), None)["code"], 409);
    assert_eq!(asked.ask("post", "/api/jobs/{id}/stop", "/api/jobs/nothing/stop", None)["code"], 404);

    let files = asked.ask("get", "/api/stacks", "/api/stacks", None);
    let file = files["files"][0]["file"].as_str().unwrap().to_string();
    let of_file = format!("/api/stack?file={file}");
    let text = asked.ask("get", "/api/stack", &of_file, None);
    let wanted = |text: &str, version: &Value| Some(json!({ "text": text, "version": version }));
    let stored = asked.ask("put", "/api/stack", &of_file, wanted("entry = 1\n", &text["version"]));
    assert_eq!((&stored["right"], &stored["messages"][0]["line"]), (&json!(false), &json!(1)));
    assert_eq!(asked.ask("put", "/api/stack", &of_file, wanted("", &text["version"]))["code"], 409);
    assert_eq!(asked.ask("get", "/api/stack", "/api/stack?file=/etc/passwd", None)["code"], 404);
    let new = format!("/api/stack?file={}/new.toml", stacks.display());
    assert_eq!(asked.ask("put", "/api/stack", &new, wanted("entry = \"http://a/\"\n", &json!("")))["right"], true);
    let check = json!({ "file": "draft.toml", "text": "entry = \"http://a/\"\n[slo]\np99 = \"10\"\n" });
    assert_eq!(asked.ask("post", "/api/check", "/api/check", Some(check))["messages"][0]["line"], 3);
}
