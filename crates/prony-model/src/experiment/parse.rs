//! From the text of an experiment file to a checked experiment.
//!
//! Invariant: every mistake names the file, the line where there is one, and what would be right.

use super::{Claim, Design, Experiment, Factor, Find, Plot, Row, Setting};
use crate::input::nearest;
use crate::units::{Nanos, Share};
use crate::vary::{Until, Vary};
use crate::{Axis, InputError, Threshold};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Five repeats give an interval of 2.8 standard errors; three give 4.3. A guess at what a person waits for.
const REPEATS: u32 = 5;
/// Fewer give no interval, so an A/A band costs trials and says nothing (`prony_stats::paired`).
const REPEATS_PLACEBO: u32 = 3;
/// As a trial of a proof and its uncounted start: short, so that neighbours see the same machine.
const DURATION: Nanos = Nanos::from_millis(2000);
const SETTLE: Nanos = Nanos::from_millis(400);
const DURATION_MIN: Nanos = Nanos::from_millis(100);
/// Time for each search. A guess: half of what `prony limit` takes alone, because there are many.
const BUDGET: Nanos = Nanos::from_millis(45_000);
const BUDGET_MIN: Nanos = Nanos::from_millis(5_000);
/// As "the same" of a proof.
const SAME: Share = Share(0.05);
/// More cells than this are a mistake, or a week. A guess.
const CELLS_MAX: usize = 500;
const REPEATS_MAX: u32 = 1000;

/// The file as a person writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default)]
    about: String,
    stack: String,
    expectation: String,
    #[serde(default)]
    unseen: String,
    #[serde(default)]
    find: Find,
    #[serde(default)]
    design: Design,
    repeats: Option<u32>,
    seed: Option<u64>,
    placebo: Option<bool>,
    duration: Option<Nanos>,
    settle: Option<Nanos>,
    #[serde(default)]
    profile: bool,
    budget: Option<Nanos>,
    #[serde(default)]
    slo: Vec<Threshold>,
    vary: Option<Vary>,
    until: Option<Until>,
    same: Option<Share>,
    #[serde(default)]
    factor: Vec<Spanned<Factor>>,
    #[serde(default)]
    row: Vec<Spanned<BTreeMap<String, Setting>>>,
    #[serde(default)]
    expect: Vec<Spanned<Claim>>,
    plot: Option<Spanned<Plot>>,
}

/// A message, and the place in the text that it is about.
type Mistake = (usize, String);

pub(super) fn parse(file: &str, text: &str) -> Result<Experiment, InputError> {
    let written: File = toml::from_str(text).map_err(|e| InputError::from_toml(file, text, &e))?;
    let at = |(start, message): Mistake| {
        let line = text[..start.min(text.len())].matches('\n').count() + 1;
        InputError { file: file.to_string(), line, message }
    };
    let whole = |message: String| InputError::whole(file, message);
    let (factors, rows) = cells(&written).map_err(at)?;
    let experiment = experiment(&written, factors, rows).map_err(whole)?;
    claims(&written, &experiment).map_err(at)?;
    plot(&written, &experiment).map_err(at)?;
    Ok(experiment)
}

/// The factors with their levels, and the rows of a design by rows.
fn cells(written: &File) -> Result<(Vec<Factor>, Vec<Row>), Mistake> {
    let mut factors: Vec<Factor> = Vec::new();
    for spanned in &written.factor {
        let factor = spanned.get_ref();
        let wrong = |message: String| Err((spanned.span().start, message));
        let name = &factor.name;
        if name.is_empty() || name == "row" || name == "name" || factors.iter().any(|f| f.name == *name) {
            return wrong(format!("`{name}` is no name for a factor: it is empty, reserved, or there already"));
        }
        let kinds = [&factor.knob, &factor.workload, &factor.lab].into_iter().flatten().count();
        if kinds != 1 {
            return wrong(format!(
                "factor `{name}` names {kinds} things to vary: write one of `knob`, `workload` or `lab`"
            ));
        }
        let same = |f: &&Factor| (&f.knob, &f.workload, &f.lab) == (&factor.knob, &factor.workload, &factor.lab);
        if let Some(other) = factors.iter().find(same) {
            return wrong(format!("factor `{name}` varies what factor `{}` varies: keep one", other.name));
        }
        if let Err(message) = factor.target() {
            return wrong(format!("factor `{name}`: {message}"));
        }
        match (written.design, factor.levels.is_empty()) {
            (Design::Rows, false) => {
                return wrong(format!(
                    "factor `{name}` has `levels`, but the design is `rows`: its levels stand in the rows"
                ));
            }
            (Design::Full | Design::OneAtATime, true) => {
                return wrong(format!(
                    "factor `{name}` has no `levels`: write the reference first, like `levels = [\"off\", 20]`"
                ));
            }
            (Design::Rows, true) | (Design::Full | Design::OneAtATime, false) => {}
        }
        if let Some(twice) = factor.levels.iter().enumerate().find(|(at, level)| factor.levels[..*at].contains(level)) {
            return wrong(format!("factor `{name}` has the level `{}` twice", twice.1));
        }
        factors.push(factor.clone());
    }
    let rows = rows(written, &mut factors)?;
    Ok((factors, rows))
}

fn rows(written: &File, factors: &mut [Factor]) -> Result<Vec<Row>, Mistake> {
    if let (Design::Full | Design::OneAtATime, Some(row)) = (written.design, written.row.first()) {
        return Err((
            row.span().start,
            "rows are given, but the design is another: write `design = \"rows\"`".to_string(),
        ));
    }
    let mut rows: Vec<Row> = Vec::new();
    for spanned in &written.row {
        let mut row = spanned.get_ref().clone();
        let start = spanned.span().start;
        let name = row.remove("name").map_or_else(|| format!("row {}", rows.len() + 1), |name| name.to_string());
        if let Some(key) = row.keys().find(|key| factors.iter().all(|f| f.name != **key)) {
            let hint = near(key, factors.iter().map(|f| f.name.as_str()));
            return Err((start, format!("row `{name}` sets `{key}`, which is no factor{hint}")));
        }
        let mut number = |factor: &mut Factor| {
            let setting = row.get(&factor.name).cloned().unwrap_or_else(Setting::as_found);
            let known = factor.levels.iter().position(|level| *level == setting);
            known.unwrap_or_else(|| {
                factor.levels.push(setting);
                factor.levels.len() - 1
            })
        };
        let row = Row { name, levels: factors.iter_mut().map(&mut number).collect() };
        if let Some(other) = rows.iter().find(|other| other.name == row.name || other.levels == row.levels) {
            return Err((start, format!("row `{}` has the name or the settings of row `{}`", row.name, other.name)));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn experiment(written: &File, factors: Vec<Factor>, rows: Vec<Row>) -> Result<Experiment, String> {
    let repeats = written.repeats.unwrap_or(REPEATS);
    let experiment = Experiment {
        name: written.name.clone(),
        about: written.about.trim().to_string(),
        stack: written.stack.clone(),
        expectation: written.expectation.trim().to_string(),
        unseen: written.unseen.trim().to_string(),
        find: written.find,
        design: written.design,
        repeats,
        seed: written.seed,
        placebo: written.placebo.unwrap_or(repeats >= REPEATS_PLACEBO),
        duration: written.duration.unwrap_or(DURATION),
        settle: written.settle.unwrap_or(SETTLE),
        profile: written.profile,
        budget: written.budget.unwrap_or(BUDGET),
        slo: written.slo.clone(),
        vary: written.vary,
        until: written.until.clone(),
        same: written.same.unwrap_or(SAME),
        factors,
        rows,
        claims: written.expect.iter().map(|claim| claim.get_ref().clone()).collect(),
        plot: written.plot.as_ref().map(|plot| plot.get_ref().clone()),
    };
    check(&experiment).map(|()| experiment)
}

fn check(experiment: &Experiment) -> Result<(), String> {
    // Counted before they are made: twenty factors of ten levels would not fit into memory.
    let cells = match experiment.design {
        Design::Full => experiment.factors.iter().fold(1, |all: usize, f| all.saturating_mul(f.levels.len())),
        Design::OneAtATime | Design::Rows => experiment.cells().len(),
    };
    if experiment.expectation.is_empty() {
        return Err("`expectation` is empty: write down what should happen, and why, before it is measured".to_string());
    }
    if !(1..=REPEATS_MAX).contains(&experiment.repeats) {
        return Err(format!("`repeats` is {}: write 1 to {REPEATS_MAX}", experiment.repeats));
    }
    if cells == 0 || cells > CELLS_MAX {
        return Err(format!(
            "there are {cells} cells: 1 to {CELLS_MAX} can be run; `design = \"one-at-a-time\"` has fewer"
        ));
    }
    if experiment.duration < DURATION_MIN || experiment.budget < BUDGET_MIN {
        return Err(format!(
            "a `duration` of at least {DURATION_MIN} and a `budget` of at least {BUDGET_MIN} are needed"
        ));
    }
    if experiment.same.0 <= 0.0 || experiment.same.0 >= 1.0 {
        return Err(format!("`same` is {}: write a share between 0% and 100%", experiment.same));
    }
    searches_fit(experiment)
}

/// Whether `vary`, `until` and `slo` belong to what is asked of each cell.
fn searches_fit(experiment: &Experiment) -> Result<(), String> {
    let wrong = |message: &str| Err(message.to_string());
    match (experiment.find, &experiment.vary, &experiment.until) {
        (Find::Search, None, _) => return wrong("`find = \"search\"` needs an axis: `vary = \"path-size=1..10000\"`"),
        (Find::Search, Some(_), None) => {
            return wrong("`find = \"search\"` needs a condition: `until = \"bandwidth>=95%\"`");
        }
        (Find::StableConcurrency, Some(vary), None) if vary.axis != Axis::Connections => {
            return wrong(
                "`find = \"stable-concurrency\"` searches over connections: `vary = \"connections=1..1024\"`",
            );
        }
        (Find::StableConcurrency, _, Some(_)) => return wrong("`until` belongs to `find = \"search\"`"),
        (Find::Measure | Find::Limit | Find::LimitWithinSlo, None, None)
        | (Find::Search, Some(_), Some(_))
        | (Find::StableConcurrency, _, None) => {}
        (Find::Measure | Find::Limit | Find::LimitWithinSlo, _, _) => {
            return wrong("`vary` and `until` belong to `find = \"search\"`");
        }
    }
    if experiment.profile && experiment.find != Find::Measure {
        return wrong("`profile` belongs to `find = \"measure\"`: a search has no load at which to look");
    }
    if !experiment.slo.is_empty() && experiment.find != Find::LimitWithinSlo {
        return wrong("`slo` belongs to `find = \"limit-within-slo\"`");
    }
    Ok(())
}

fn claims(written: &File, experiment: &Experiment) -> Result<(), Mistake> {
    for spanned in &written.expect {
        let claim = spanned.get_ref();
        let names = experiment.names_of(&claim.factor).map_err(|message| (spanned.span().start, message))?;
        for level in claim.from.iter().chain([&claim.to]).map(ToString::to_string) {
            if !names.contains(&level) {
                let hint = near(&level, names.iter().map(String::as_str));
                let message = format!("`{}` has no level `{level}`; it has {}{hint}", claim.factor, names.join(", "));
                return Err((spanned.span().start, message));
            }
        }
        let from = claim.from.as_ref().map_or_else(|| names.first().cloned(), |from| Some(from.to_string()));
        if from == Some(claim.to.to_string()) {
            return Err((spanned.span().start, format!("the claim compares `{}` with itself", claim.to)));
        }
    }
    Ok(())
}

fn plot(written: &File, experiment: &Experiment) -> Result<(), Mistake> {
    let Some(spanned) = &written.plot else { return Ok(()) };
    let plot = spanned.get_ref();
    for name in std::iter::once(&plot.x).chain(&plot.by) {
        experiment.names_of(name).map_err(|message| (spanned.span().start, message))?;
    }
    Ok(())
}

impl Experiment {
    /// Names of the levels of a factor, or of the rows for `row`.
    ///
    /// # Errors
    /// There is no such factor; the message names the nearest one.
    pub fn names_of(&self, factor: &str) -> Result<Vec<String>, String> {
        if factor == "row" && self.design == Design::Rows {
            return Ok(self.rows.iter().map(|row| row.name.clone()).collect());
        }
        let found = self.factors.iter().find(|f| f.name == factor);
        let levels = |f: &Factor| f.levels.iter().map(ToString::to_string).collect();
        found.map(levels).ok_or_else(|| {
            let hint = near(factor, self.factors.iter().map(|f| f.name.as_str()));
            format!("`{factor}` is no factor of this experiment{hint}")
        })
    }
}

fn near<'a>(seen: &str, valid: impl IntoIterator<Item = &'a str>) -> String {
    nearest(seen, valid).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    const FILE: &str = r#"
name = "keepalive and log"
stack = "proxy"
expectation = "keepalive matters, the log does not"

[[factor]]
name = "keepalive"
knob = "lb:nginx.upstream_keepalive"
levels = ["off", 20, 800]

[[factor]]
name = "log"
knob = "nginx.access_log"
levels = ["off", "buffer=64k"]

[[expect]]
factor = "keepalive"
to = 20
change = ">=20%"
"#;

    const ROWS: &str = r#"
name = "ladder"
stack = "proxy"
expectation = "nothing helps"
design = "rows"
[[factor]]
name = "backlog"
knob = "nginx.backlog"
[[factor]]
name = "somaxconn"
knob = "sysctl.net.core.somaxconn"
[[row]]
name = "as it is"
[[row]]
name = "both"
backlog = 4096
somaxconn = 8192
"#;

    fn check(text: &str, want: Expect) {
        match Experiment::parse("e.toml", text) {
            Ok(experiment) => {
                let cells = experiment.cells();
                let lines = cells.iter().map(|cell| format!("{}\n", experiment.label(cell)));
                want.assert_eq(&lines.collect::<String>());
            }
            Err(e) => want.assert_eq(&format!("{e}\n")),
        }
    }

    #[test]
    fn the_reference_comes_first_and_every_cell_once() {
        check(
            FILE,
            expect![[r#"
                keepalive off, log off
                keepalive off, log buffer=64k
                keepalive 20, log off
                keepalive 20, log buffer=64k
                keepalive 800, log off
                keepalive 800, log buffer=64k
            "#]],
        );
        check(
            &FILE.replace("stack", "design = \"one-at-a-time\"\nstack"),
            expect![[r#"
                keepalive off, log off
                keepalive 20, log off
                keepalive 800, log off
                keepalive off, log buffer=64k
            "#]],
        );
        check(
            ROWS,
            expect![[r#"
                as it is
                both
            "#]],
        );
        let ladder = Experiment::parse("e.toml", ROWS).unwrap();
        assert_eq!(ladder.settings(&ladder.cells()[0]), [Setting::as_found(), Setting::as_found()]);
    }

    #[test]
    fn more_cells_than_fit_into_memory_are_counted_and_refused() {
        let levels: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let factor =
            |n: u32| format!("[[factor]]\nname = \"f{n}\"\nworkload = \"k{n}\"\nlevels = [{}]\n", levels.join(", "));
        let factors: String = (0..12).map(factor).collect();
        let text = format!("name = \"x\"\nstack = \"s\"\nexpectation = \"x\"\n{factors}");
        let error = Experiment::parse("e.toml", &text).unwrap_err().to_string();
        assert!(error.contains("1 to 500 can be run"), "{error}");
    }

    #[test]
    fn an_experiment_survives_json() {
        for text in [FILE, ROWS] {
            let experiment = Experiment::parse("e.toml", text).unwrap();
            let json = serde_json::to_string(&experiment).unwrap();
            assert_eq!(serde_json::from_str::<Experiment>(&json).unwrap(), experiment);
        }
    }

    /// The mistake of each file in which one text stands for another.
    fn mistakes(file: &str, cases: &[(&str, &str)], want: Expect) {
        let line = |(old, new): &(&str, &str)| match Experiment::parse("e.toml", &file.replacen(old, new, 1)) {
            Ok(_) => format!("`{new}` passes\n"),
            Err(e) => format!("{e}\n"),
        };
        want.assert_eq(&cases.iter().map(line).collect::<String>());
    }

    #[test]
    fn mistakes_name_the_line_and_the_nearest_word() {
        mistakes(
            FILE,
            &[
                ("expectation", "expectaton"),
                ("levels = [\"off\", 20, 800]", "level = [1]"),
                ("\"nginx.access_log\"", "\"nginx.acces_log\""),
                ("knob = \"nginx.access_log\"\n", ""),
                ("[\"off\", 20, 800]", "[\"off\", 20, 20]"),
                ("[\"off\", 20, 800]", "[\"off\", [20]]"),
                ("factor = \"keepalive\"", "factor = \"keepalife\""),
                ("\"nginx.access_log\"", "\"lb:nginx.upstream_keepalive\""),
                ("to = 20", "to = 21"),
                ("\">=20%\"", "\"much more\""),
                ("expectation", "find = \"search\"\nexpectation"),
                ("expectation", "vary = \"workrs=1..2\"\nexpectation"),
                ("keepalive matters, the log does not", " "),
                ("expectation", "repeats = 0\nexpectation"),
            ],
            expect![[r#"
                e.toml:4: unknown field `expectaton`, expected one of `name`, `about`, `stack`, `expectation`, `unseen`, `find`, `design`, `repeats`, `seed`, `placebo`, `duration`, `settle`, `profile`, `budget`, `slo`, `vary`, `until`, `same`, `factor`, `row`, `expect`, `plot`; did you mean `expectation`?
                e.toml:9: unknown field `level`, expected one of `name`, `knob`, `workload`, `lab`, `levels`; did you mean `levels`?
                e.toml:11: factor `log`: `nginx.acces_log` is no knob; there are nginx.upstream_keepalive, nginx.upstream_down, nginx.access_log, nginx.worker_processes, nginx.worker_connections, nginx.backlog, cgroup.cpu_quota, cpu_affinity, nginx.accept_mutex, nginx.client_body_buffer_size, nginx.gzip, nginx.gzip_comp_level, nginx.keepalive_requests, nginx.keepalive_timeout, nginx.limit_conn_dry_run, nginx.limit_rate, nginx.limit_req_dry_run, nginx.proxy_buffers, nginx.proxy_max_temp_file_size, nginx.proxy_next_upstream_tries, nginx.ssl_session_cache, nginx.tcp_nopush, nginx.worker_rlimit_nofile, sysctl.NAME, rps_cpus.INTERFACE, offloads.INTERFACE, link_rate.INTERFACE; did you mean `nginx.access_log`?
                e.toml:11: factor `log` names 0 things to vary: write one of `knob`, `workload` or `lab`
                e.toml:6: factor `keepalive` has the level `20` twice
                e.toml:9: a level is a text, a number, or true or false
                e.toml:16: `keepalife` is no factor of this experiment; did you mean `keepalive`?
                e.toml:11: factor `log` varies what factor `keepalive` varies: keep one
                e.toml:16: `keepalive` has no level `21`; it has off, 20, 800; did you mean `20`?
                e.toml:19: `much more` is no expectation: write `more`, `less`, `same`, `>=20%` or `<=-20%`
                e.toml: `find = "search"` needs an axis: `vary = "path-size=1..10000"`
                e.toml:4: `workrs=1..2` is nothing to vary: `workrs` is not one of path-size, connections, workers; did you mean `workers`?
                e.toml: `expectation` is empty: write down what should happen, and why, before it is measured
                e.toml: `repeats` is 0: write 1 to 1000
            "#]],
        );
        mistakes(
            ROWS,
            &[("backlog = 4096", "backlg = 4096"), ("design = \"rows\"\n", "")],
            expect![[r#"
                e.toml:14: row `both` sets `backlg`, which is no factor; did you mean `backlog`?
                e.toml:5: factor `backlog` has no `levels`: write the reference first, like `levels = ["off", 20]`
            "#]],
        );
    }
}
