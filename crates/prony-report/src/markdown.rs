//! The report as Markdown (CommonMark with tables), for issues, wikis and reviews.
//!
//! Texts of a run are escaped: a claim cannot become a link, a tag or a table cell of its own.

use crate::number::{self, NONE};
use crate::text::gap_text;
use crate::view::{CurvePoint, EffectView, HostCpu, LimitAxisPoint, LimitPoint, ReportData};

/// The whole document.
pub(crate) fn document(data: &ReportData) -> String {
    let mut out = format!("# {}\n\n", escape(&data.headline.sentence));
    let mut paragraph = |text: &str| {
        if !text.is_empty() {
            out.push_str(&escape(text));
            out.push_str("\n\n");
        }
    };
    paragraph(data.headline.support.as_deref().unwrap_or_default());
    paragraph(data.run.end_note.as_deref().unwrap_or_default());
    paragraph(data.verdict.as_ref().map_or("", |v| &v.summary));
    let rows: Vec<_> =
        data.headline.figures.iter().map(|f| vec![f.label.clone(), f.value.clone(), f.note.clone()]).collect();
    out.push_str(&table(&["figure", "value", "note"], &rows));
    for part in [limit, diagnosis, proof, load, host_cpu, limits_of_sight, changes, repeat] {
        out.push_str(&part(data));
    }
    out.push_str(&format!("Run `{}`, prony {}, {}.\n", data.run.id, data.run.version, data.run.started));
    out
}

fn limit(data: &ReportData) -> String {
    let Some(found) = &data.limit else { return String::new() };
    let rows: Vec<_> = found.notes.iter().map(|n| vec![n.label.clone(), n.text.clone()]).collect();
    let mut out = section("Limit", &table(&["what", "found"], &rows));
    let micros = |us: Option<f64>| us.map_or(NONE.to_string(), number::micros);
    let rate = |per_s: Option<f64>| per_s.map_or(NONE.to_string(), number::rate);
    let row = |p: &LimitPoint| {
        let times = [p.p50_us, p.p90_us, p.p99_us, p.p999_us].map(micros);
        let begin = vec![p.load.clone(), rate(p.good_per_s)];
        let end = vec![p.trials.to_string(), p.note.clone()];
        [begin, times.to_vec(), vec![number::percent(p.error_share)], p.cpu_us_per_request.clone(), end].concat()
    };
    let cpu = found.cpu_hosts.iter().map(|host| format!("CPU/request of {host}"));
    let head = ["load", "good/s", "p50", "p90", "p99", "p99.9", "failed"].map(str::to_string).into_iter().chain(cpu);
    let head: Vec<String> = head.chain(["trials", "note"].map(str::to_string)).collect();
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    out.push_str(&section("Load curve of the search", &table(&head, &found.curve.iter().map(row).collect::<Vec<_>>())));
    let row = |p: &LimitAxisPoint| {
        vec![number::count(p.value), p.held.clone(), p.measured.clone(), rate(p.good_per_s), p.note.clone()]
    };
    let rows: Vec<_> = found.axis.iter().map(row).collect();
    out.push_str(&section(&escape(&found.axis_title), &table(&["value", "held", "measured", "good/s", "note"], &rows)));
    out
}

fn diagnosis(data: &ReportData) -> String {
    let mut out = String::new();
    if let Some(v) = &data.verdict {
        let rows: Vec<_> = v
            .grounding
            .iter()
            .map(|g| vec![g.title.clone(), if g.holds { "yes" } else { "no" }.to_string(), g.detail.clone()])
            .collect();
        let title = if v.grounded { "Grounded" } else { "Not grounded" };
        out.push_str(&section(title, &table(&["test", "holds", "seen"], &rows)));
    }
    let rows: Vec<_> = data
        .evidence
        .iter()
        .map(|e| {
            let border = e.threshold_text.as_ref().map_or(NONE.to_string(), |t| format!("{t} ({})", e.origin));
            let side = if e.supports { "for" } else { "against" };
            let calm = e.baseline_text.clone().unwrap_or(NONE.to_string());
            vec![
                e.claim.clone(),
                e.metric.clone(),
                e.host.clone(),
                e.value_text.clone(),
                calm,
                border,
                side.to_string(),
            ]
        })
        .collect();
    out.push_str(&section(
        "Evidence",
        &table(&["claim", "metric", "host", "value", "calm", "border", "speaks"], &rows),
    ));
    let rows: Vec<_> = data
        .interventions
        .iter()
        .map(|i| {
            let role = if i.control { "control" } else { "suspect" };
            vec![role.to_string(), i.what.clone(), i.text.clone(), i.pairs.to_string(), i.reading.clone()]
        })
        .collect();
    out.push_str(&section("Interventions", &table(&["role", "what", "elasticity or gain", "pairs", "reading"], &rows)));
    let rows: Vec<_> = data.excluded.iter().map(|e| vec![e.title.clone(), e.because.clone()]).collect();
    out.push_str(&section("Ruled out", &table(&["cause", "because"], &rows)));
    if let Some(against) = &data.against {
        let list: String = against.settings.iter().map(|setting| format!("- {}\n", escape(setting))).collect();
        let rows: Vec<_> = against
            .moved
            .iter()
            .map(|m| vec![m.metric.clone(), m.host.clone(), m.good.clone(), m.now.clone(), m.change.clone()])
            .collect();
        let moved = table(&["fact", "host", "then", "now", "change"], &rows);
        let title = format!("What differs from the good run {}", against.run);
        out.push_str(&section(&title, &format!("{}\n\n{list}\n{moved}", escape(&against.throughput))));
    }
    let rows: Vec<_> =
        data.remedies.iter().map(|r| vec![r.advice.clone(), r.knob.clone().unwrap_or_default()]).collect();
    out.push_str(&section("Remedies", &table(&["what to do", "knob"], &rows)));
    out
}

fn proof(data: &ReportData) -> String {
    let Some(proof) = &data.proof else { return String::new() };
    let row = |e: &EffectView, state: &str| {
        vec![
            e.title.clone(),
            e.a_text.clone(),
            e.b_text.clone(),
            e.text.clone(),
            e.pairs.to_string(),
            state.to_string(),
        ]
    };
    let mut rows = vec![row(&proof.effect, &proof.verdict_title)];
    rows.extend(proof.guards.iter().map(|g| row(g, &g.state)));
    let mut body = table(&["metric", "A", "B", "effect (95 % interval)", "pairs", "verdict"], &rows);
    let of = proof.change.as_ref().map(|c| format!("B: {c}.")).unwrap_or_default();
    let [prediction, worth] = [&proof.prediction, &proof.worth].map(|text| text.as_deref().unwrap_or_default());
    let texts = [of.as_str(), proof.summary.as_str(), prediction, worth];
    for text in texts.iter().filter(|t| !t.is_empty()) {
        body.push_str(&format!("{}\n\n", escape(text)));
    }
    section("Before and after", &body)
}

fn load(data: &ReportData) -> String {
    let micros = |us: Option<f64>| us.map_or(NONE.to_string(), number::micros);
    let rows: Vec<_> = data
        .curve
        .iter()
        .map(|p: &CurvePoint| {
            let load = p.rate_per_s.map_or_else(|| "closed".to_string(), |r| format!("{}/s", number::rate(r)));
            let good = p.good_per_s.map_or(NONE.to_string(), number::rate);
            let (p50, p99, cpu) = (micros(p.p50_us), micros(p.p99_us), micros(p.cpu_us_per_request));
            vec![p.label.clone(), p.connections.to_string(), load, good, p50, p99, cpu, p.note.clone()]
        })
        .collect();
    let cpu = data.curve_cpu_host.as_ref().map_or("CPU/request".to_string(), |h| format!("CPU/request of {h}"));
    let head = ["level", "connections", "rate", "good/s", "p50", "p99", &cpu, "note"];
    // A search has a curve of its own, with one row per load instead of one per trial.
    let mut out = if data.limit.is_some() { String::new() } else { section("Load curve", &table(&head, &rows)) };
    let rows: Vec<_> =
        data.latency.iter().map(|l| std::iter::once(l.name.clone()).chain(l.usual.iter().cloned()).collect()).collect();
    out.push_str(&section("Latency", &table(&["", "p50", "p75", "p90", "p99", "p99.9", "p99.99", "max"], &rows)));
    out
}

fn host_cpu(data: &ReportData) -> String {
    let of_host = |h: &HostCpu| -> Vec<Vec<String>> {
        let row = |l: &crate::view::CpuLevel| {
            let shares = [l.user, l.nice, l.system, l.softirq, l.irq, l.steal, l.iowait, l.idle].map(number::percent);
            let own = l.hop_cpus.map_or(NONE.to_string(), number::plain);
            [vec![h.host.clone(), l.label.clone()], shares.to_vec(), vec![own]].concat()
        };
        h.levels.iter().map(row).collect()
    };
    let rows: Vec<_> = data.cpu.iter().flat_map(of_host).collect();
    let head = ["host", "level", "user", "nice", "system", "softirq", "irq", "steal", "iowait", "idle", "own CPUs"];
    section("CPU", &table(&head, &rows))
}

fn limits_of_sight(data: &ReportData) -> String {
    let gaps: String =
        data.gaps.iter().map(|g| format!("- {}\n", escape(&gap_text(&g.host, &g.facts, &g.reason)))).collect();
    let mut out = section("Not seen", &gaps);
    let micros = |us: Option<f64>| us.map_or(NONE.to_string(), number::micros);
    let mut rows: Vec<_> = data
        .cost
        .hosts
        .iter()
        .map(|h| {
            vec![
                h.host.clone(),
                h.observe_cpu_share.map_or(NONE.to_string(), number::percent),
                micros(h.cpu_us_per_request),
            ]
        })
        .collect();
    if let Some(us) = data.cost.generator_cpu_us_per_request {
        rows.push(vec!["generator".to_string(), NONE.to_string(), number::micros(us)]);
    }
    out.push_str(&section("Cost", &table(&["host", "observing, of one CPU", "CPU per request"], &rows)));
    out
}

fn changes(data: &ReportData) -> String {
    let mut body = String::new();
    for c in &data.changes {
        body.push_str(&format!(
            "{} at {} (before: {}): {}\n\n",
            escape(&c.knob),
            escape(&c.host),
            escape(&c.before),
            c.state
        ));
        body.push_str(&fenced("diff", &c.diff));
        if !c.permanent.is_empty() {
            body.push_str(&format!("To make it permanent: {}\n\n", escape(&c.permanent)));
        }
    }
    section("Changes", &body)
}

fn repeat(data: &ReportData) -> String {
    let body: String =
        data.commands.iter().map(|c| format!("{}:\n\n{}", escape(&c.what), fenced("sh", &c.command))).collect();
    section("Repeat it", &body)
}

pub(crate) fn section(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!("## {title}\n\n{}\n\n", body.trim_end()) }
}

/// A table; nothing without rows. Columns that are empty in every row are left out.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let used: Vec<usize> = (0..head.len())
        .filter(|i| rows.iter().any(|r| r.get(*i).is_some_and(|c| !c.is_empty() && c != NONE)))
        .collect();
    if used.is_empty() {
        return String::new();
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(used.iter().map(|i| escape(head[*i])).collect());
    out.push_str(&line(used.iter().map(|_| "---".to_string()).collect()));
    for row in rows {
        out.push_str(&line(used.iter().map(|i| escape(row.get(*i).map_or("", String::as_str))).collect()));
    }
    out.push('\n');
    out
}

/// A code block whose fence is longer than any run of backticks inside.
fn fenced(language: &str, text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n\n", text.trim_end())
}

/// Escapes what Markdown or HTML would read as markup; a line break becomes a blank.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}
