//! Holds the schemas against what serde writes, with a validator for the few keywords in use.

use super::*;
use prony_model::diagnosis::{GroundingTest, Remedy, SCHEMA};
use prony_model::run::HostCost;
use prony_model::*;

fn schema_of(id: &str) -> Value {
    let document = DOCUMENTS.iter().find(|document| document.id == id).unwrap();
    serde_json::from_str(&document.text(&crate::root().unwrap()).unwrap()).unwrap()
}

fn schema() -> Value {
    schema_of(SCHEMA)
}

/// What of a value, as it is printed, breaks the schema.
fn check(id: &str, mut value: Value) -> Vec<String> {
    value["schema"] = json!(id);
    let schema = schema_of(id);
    breaks(&schema, &schema, &value, "")
}

/// Every list has an entry and every option is there, so that the schema is held against all of it.
fn full() -> Diagnosis {
    let knob = Knob { host: "lb".into(), id: KnobId::NginxUpstreamKeepalive, value: "64".into() };
    let bounded = || Some(prony_model::limit::Bounded::default());
    let intervention = |what| Intervention {
        further: true,
        elasticity: Some(1.0),
        p99: bounded(),
        p999: bounded(),
        pairs: 6,
        ..Intervention::planned("lb", what, false, 0.2)
    };
    let evidence = Evidence {
        claim: "c".into(),
        metric: "m".into(),
        host: "lb".into(),
        value: 1.0,
        unit: "s".into(),
        baseline: Some(0.5),
        threshold: None,
        origin: "guess".into(),
        verdict: EvidenceVerdict::Refutes,
    };
    let mut full = Diagnosis { schema: SCHEMA.into(), ..Diagnosis::default() };
    full.verdict.grounding.push(GroundingTest { test: "order".into(), holds: true, detail: "d".into() });
    full.candidates.push(Candidate { cause: "c".into(), hop: "lb".into(), score: 0.5 });
    full.evidence.push(evidence);
    full.excluded.push(Excluded { cause: "c".into(), because: "b".into() });
    full.interventions.push(intervention(InterventionKind::Cpu));
    full.interventions.push(intervention(InterventionKind::LinkRate { interface: "e".into(), from_bits_per_s: 1.0 }));
    full.interventions.push(intervention(InterventionKind::Removal { knob: knob.clone(), also: vec![knob.clone()] }));
    full.gaps.push(Gap::new("f", "lb", "r"));
    full.remedies.push(Remedy { advice: "a".into(), knob: Some(knob) });
    full.remedies.push(Remedy { advice: "a".into(), knob: None });
    full.cost.hosts.insert("lb".into(), HostCost::default());
    full
}

/// What of `value` breaks `schema`, with the place of each.
fn breaks(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = breaks_here(root, schema, value, at);
    if resolve(root, schema)["additionalProperties"] == json!(true) {
        return found;
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        let at = format!("{at}/{key}");
        let results: Vec<_> = under(root, schema, key).iter().map(|s| breaks(root, s, inner, &at)).collect();
        if results.is_empty() {
            found.push(format!("{at}: not in the schema"));
        } else if !results.iter().any(Vec::is_empty) {
            found.extend(results.into_iter().next().unwrap());
        }
    }
    for (i, inner) in value.as_array().into_iter().flatten().enumerate() {
        let of_place = &resolve(root, schema)["prefixItems"][i];
        let of_item = if of_place.is_null() { &resolve(root, schema)["items"] } else { of_place };
        found.extend(breaks(root, of_item, inner, &format!("{at}[{i}]")));
    }
    found
}

/// The same without looking inside the value.
fn breaks_here(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    let schema = resolve(root, schema);
    if let Some(list) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
        let fitting = list.iter().filter(|s| breaks_here(root, s, value, at).is_empty()).count();
        if fitting != 1 {
            found.push(format!("{at}: {fitting} alternatives fit {value}"));
        }
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        found.extend(breaks_here(root, part, value, at));
    }
    if schema.get("const").is_some_and(|want| want != value) {
        found.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    let types = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    if !schema["type"].is_null() && !types.iter().any(|t| is(value, t.as_str().unwrap())) {
        found.push(format!("{at}: {value} is none of {types:?}"));
    }
    for key in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(key).is_none() {
            found.push(format!("{at}: `{key}` is missing"));
        }
    }
    // A tag decides between alternatives, so it is looked at here.
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        if value.get(key).is_some_and(|v| property.get("const").is_some_and(|want| want != v)) {
            found.push(format!("{at}/{key}: not {}", property["const"]));
        }
    }
    found
}

fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    schema["$ref"].as_str().map_or(schema, |name| &root["$defs"][name.trim_start_matches("#/$defs/")])
}

/// Schemas that any part of `schema` has for the key.
fn under<'a>(root: &'a Value, schema: &'a Value, key: &str) -> Vec<&'a Value> {
    let schema = resolve(root, schema);
    let own = schema["properties"].get(key).or(schema.get("additionalProperties"));
    let parts = ["oneOf", "anyOf", "allOf"].iter().filter_map(|word| schema[*word].as_array()).flatten();
    own.into_iter().chain(parts.flat_map(|part| under(root, part, key))).collect()
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the schema has a type `{other}`"),
    }
}

#[test]
fn a_full_diagnosis_fits_the_schema() {
    let schema = schema();
    let value = serde_json::to_value(full()).unwrap();
    assert_eq!(breaks(&schema, &schema, &value, ""), [""; 0]);
}

#[test]
fn a_wrong_diagnosis_does_not() {
    let schema = schema();
    let mut value = serde_json::to_value(full()).unwrap();
    value["verdict"]["confidence"] = json!("sure");
    value["evidence"][0]["value"] = json!("1");
    value["interventions"][0]["kind"] = json!("magic");
    value.as_object_mut().unwrap().remove("gaps");
    value["extra"] = json!(1);
    let found = breaks(&schema, &schema, &value, "");
    let places: std::collections::BTreeSet<&str> = found.iter().filter_map(|text| text.split(':').next()).collect();
    let want =
        ["", "/evidence[0]/value", "/extra", "/interventions[0]", "/interventions[0]/kind", "/verdict/confidence"];
    assert_eq!(places.into_iter().collect::<Vec<_>>(), want, "{found:#?}");
}

#[test]
fn a_type_that_it_cannot_read_is_an_error() {
    let types = declarations("pub struct A {\n    pub b: Box<f64>,\n}\n");
    let error = define("A", &types, &mut BTreeMap::new()).unwrap_err();
    assert!(error.to_string().contains("Box<f64>"), "{error}");
}

#[test]
fn a_load_fits_its_schema() {
    use prony_model::load::*;
    let latency = Latency { count: 1, ..Latency::default() };
    let step = script::StepResult { name: "login".into(), ..Default::default() };
    let gate = Gate { name: "cpu".into(), held: true, detail: "d".into(), generator_limited: false };
    let thread = ThreadUse { waited_us: Some(1.0), spun_us: 1.0, ..ThreadUse::default() };
    let result = LoadResult {
        statuses: [(200, 1)].into(),
        pauses: Some(Pauses { latency_without: latency.clone(), ..Pauses::default() }),
        intervals: vec![LoadInterval { latency, ..LoadInterval::default() }],
        threads: vec![thread],
        per_second: vec![1],
        sockets: Some(SocketFacts::default()),
        steps: vec![step],
        gates: vec![gate],
        ..LoadResult::default()
    };
    let threshold = "p(95)<20ms".parse().unwrap();
    let thresholds = [ThresholdResult { threshold, measured: Some(1.0), unit: "us".into(), held: true }];
    let plan = LoadPlan::to("http://127.0.0.1/");
    let output = prony_report::load_output::LoadOutput { plan: &plan, result: &result, thresholds: &thresholds };
    let value: Value = serde_json::from_str(&output.json()).unwrap();
    assert_eq!(check("prony.load/1", value.clone()), [""; 0]);
    let mut wrong = value;
    wrong["result"]["errors"]["timeout"] = json!(-1);
    wrong["result"].as_object_mut().unwrap().remove("latency");
    assert_eq!(check("prony.load/1", wrong).len(), 2);
}

#[test]
fn a_limit_fits_its_schema() {
    use prony_model::limit::*;
    let axis = AxisAnswer { tried: vec![AxisPoint::default()], holds_at: Some(1), ..AxisAnswer::default() };
    let extrapolated = vec![(32.0, Bounded { value: Some(1.0), ..Bounded::default() })];
    let answer = LimitAnswer { tested: Some(TestedLoad::default()), ..LimitAnswer::default() };
    let point = LoadPoint { cpu_us_per_request: [("lb".to_string(), 1.0)].into(), ..LoadPoint::default() };
    let report = LimitReport {
        saturation: Some(answer.clone()),
        within_slo: Some(answer),
        slo: vec!["p99<10ms".parse().unwrap()],
        curve: vec![point],
        knee: Some(KneePoint::default()),
        usl: Some(UslFit { extrapolated, ..UslFit::default() }),
        stable: Some(axis.clone()),
        axis: Some(axis),
        overload: Some(Overload { after_per_s: vec![1.0], ..Overload::default() }),
        steps: vec![LimitStep::default()],
        left_out: vec![LeftOut::default()],
        ..LimitReport::default()
    };
    let mut value = serde_json::to_value(report).unwrap();
    assert_eq!(check("prony.limit/1", value.clone()), [": `summary` is missing"]);
    value["summary"] = json!("The limit is 1000/s.");
    assert_eq!(check("prony.limit/1", value), [""; 0]);
}

#[test]
fn both_kinds_of_comparison_fit_their_schema() {
    use prony_model::comparison::*;
    let interval = ChangeInterval { low: -0.1, high: 0.1, detectable: 0.1, p: 0.5, p_holm: 1.0 };
    let change = MetricChange {
        metric: ComparedMetric::Rps,
        a: 1.0,
        b: 1.0,
        change: 0.0,
        by_speed: Some(0.75),
        interval: Some(interval),
        trials_a: 5,
        trials_b: 5,
        verdict: ProofVerdict::NoDifference,
    };
    let gate = GateResult { gate: "rps>=-2%".parse().unwrap(), state: GateState::NotProven, detail: "d".into() };
    let load = MatchedLoad { label: "l".into(), trials_a: 5, trials_b: 5, rps_a: 1.0, rps_b: 1.0, used: true };
    let answer = Answer {
        question: "q".into(),
        verdict: ProofVerdict::NoDifference,
        summary: "s".into(),
        primary: ComparedMetric::Rps,
        design: "d".into(),
        metrics: vec![change],
        gates: vec![gate],
        loads: vec![load],
        generator_limited: false,
        doubtful: (0, 0),
    };
    let comparison = Comparison {
        schema: String::new(),
        mode: CompareMode::Live,
        a: "a".into(),
        b: "b".into(),
        answers: vec![answer],
        strength: Strength::Strong,
        strength_reason: "r".into(),
        aa: Some(AaCheck::default()),
        differences: vec![Difference { what: "w".into(), hosts: vec!["lb".into()], a: None, b: Some("b".into()) }],
        notes: vec!["n".into()],
        runs: vec!["r".into()],
        valid: true,
    };
    assert_eq!(check("prony.compare/1", serde_json::to_value(comparison).unwrap()), [""; 0]);
    let change = HistoryChange {
        run: "r".into(),
        index: 1,
        started_unix_ms: 1,
        from: 1.0,
        to: 2.0,
        change: 1.0,
        p: 0.001,
        worse: false,
    };
    let series = HistorySeries {
        label: "l".into(),
        metric: ComparedMetric::P99,
        runs: vec!["r".into()],
        values: vec![1.0],
        changes: vec![change],
    };
    let mode = "history".to_string();
    let history = History { schema: String::new(), mode, runs: 1, series: vec![series], notes: vec![] };
    assert_eq!(check("prony.compare/1", serde_json::to_value(history).unwrap()), [""; 0]);
}

#[test]
fn a_network_fits_its_schema() {
    use prony_model::network::{CpuCost, Leg, NetworkReport, PacketsSeen, RoundTrip, StreamSeen};
    let cost =
        CpuCost { softirq_ms_per_gbit: Some(1.5), softirq_share: [("0".into(), 0.5)].into(), ..CpuCost::default() };
    let stream = StreamSeen { retransmits_per_s: Some(1.0), cost: cost.clone(), ..StreamSeen::default() };
    let leg = Leg {
        stream_there: Some(stream),
        packets: vec![PacketsSeen { cost, ..PacketsSeen::default() }],
        round_trip: Some(RoundTrip { p50_us: Some(1.0), ..RoundTrip::default() }),
        ..Leg::default()
    };
    let report = NetworkReport {
        cpus: [("lb".to_string(), "0".to_string())].into(),
        legs: vec![leg],
        gaps: vec![Gap::new("f", "lb", "r")],
        ..NetworkReport::default()
    };
    let mut value = serde_json::to_value(report).unwrap();
    assert_eq!(check("prony.network/1", value.clone()), [""; 0]);
    value["legs"][0]["from"] = json!(1);
    assert_eq!(check("prony.network/1", value).len(), 1);
}
