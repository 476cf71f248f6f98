//! A case that plants a fault in one of prony's labs: the lab is the healthy twin, the fault a few keys of its stack file, with
//! magnitudes that are drawn.
//!
//! Invariant: both twins have the same workload and the same hosts, so only the fault is between them.

use super::STEP_MAX;
use super::case::Stand;
use super::program::{last_line, run_limited};
use super::score::Truth;
use anyhow::{Context as _, ensure};
use prony_stats::random::Random;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::{Table, Value};

/// `faults/NAME.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    cause: String,
    #[serde(default)]
    also_ok: Vec<String>,
    hop: String,
    #[serde(default)]
    hops_ok: Vec<String>,
    kind: String,
    /// The lab without the fault, by its name in `labs/`.
    lab: String,
    /// What both twins have beyond the lab.
    #[serde(default)]
    stack: Table,
    /// What is planted, on top.
    #[serde(default)]
    fault: Table,
    /// What of the fault stays when only this cause is mended, as its remedy says; nothing when it is not among them.
    #[serde(default)]
    left: BTreeMap<String, Table>,
    /// Magnitudes by name: `${name}` stands for them in these tables.
    #[serde(default)]
    draw: BTreeMap<String, Draw>,
}

/// How a magnitude is drawn.
#[derive(Deserialize)]
#[serde(untagged)]
enum Draw {
    /// Evenly from the first to the last; whole numbers.
    Whole([i64; 2]),
    /// Evenly between; two decimals.
    Real([f64; 2]),
    /// One of these.
    Of { of: Vec<Value> },
}

/// A case as read.
pub struct LabCase {
    file: File,
    lab: PathBuf,
}

impl LabCase {
    /// # Errors
    /// The file is no case, or its lab is not there.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let file: File = toml::from_str(&std::fs::read_to_string(path)?)?;
        let root = path.parent().and_then(Path::parent).context("a case stands in a folder of the repository")?;
        let lab = root.join(format!("labs/{}.toml", file.lab));
        ensure!(lab.is_file(), "{} is not there", lab.display());
        Ok(Self { file, lab })
    }

    pub fn truth(&self) -> Truth {
        Truth {
            cause: self.file.cause.clone(),
            also_ok: self.file.also_ok.clone(),
            hop: self.file.hop.clone(),
            hops_ok: self.file.hops_ok.clone(),
            kind: self.file.kind.clone(),
        }
    }

    /// Writes both stack files, with magnitudes drawn.
    ///
    /// # Errors
    /// A magnitude that stands in the tables is not drawn, or a file cannot be written.
    pub fn stand(&self, name: &str, prony: &Path, scratch: &Path, random: &mut Random) -> anyhow::Result<Labs> {
        let drawn: BTreeMap<&str, Value> =
            self.file.draw.iter().map(|(name, draw)| (name.as_str(), draw.draw(random))).collect();
        let write = |file: &str, base: &Path, table: &Table| -> anyhow::Result<PathBuf> {
            let mut table = filled_table(table, &drawn)?;
            table.insert("base".to_string(), Value::from(base.display().to_string()));
            let path = scratch.join(file);
            std::fs::write(&path, toml::to_string(&table)?).with_context(|| path.display().to_string())?;
            Ok(path)
        };
        let healthy = write(&format!("{name}-healthy.toml"), &self.lab, &self.file.stack)?;
        let faulty = write(&format!("{name}.toml"), &healthy, &self.file.fault)?;
        let left =
            self.file.left.iter().map(|(cause, left)| {
                Ok((cause.clone(), write(&format!("{name}-without-{cause}.toml"), &healthy, left)?))
            });
        let left = left.collect::<anyhow::Result<_>>()?;
        let words: Vec<String> = drawn.iter().map(|(name, value)| format!("{name} {}", bare(value))).collect();
        let scratch = scratch.to_path_buf();
        Ok(Labs { prony: prony.to_path_buf(), scratch, healthy, faulty, left, words: words.join(", "), up: None })
    }
}

impl Draw {
    fn draw(&self, random: &mut Random) -> Value {
        let share = random.uniform();
        match self {
            Self::Whole([from, to]) => Value::from(from + (share * (to - from + 1) as f64).floor() as i64),
            Self::Real([from, to]) => Value::from(((from + share * (to - from)) * 100.0).round() / 100.0),
            Self::Of { of } => of.get((share * of.len() as f64) as usize).cloned().unwrap_or(Value::from("")),
        }
    }
}

/// The value with its magnitudes; a text that is one magnitude alone becomes that value.
fn filled(value: &Value, drawn: &BTreeMap<&str, Value>) -> anyhow::Result<Value> {
    Ok(match value {
        Value::String(text) => {
            let alone = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
            if let Some(value) = alone.and_then(|name| drawn.get(name)) {
                return Ok(value.clone());
            }
            let put =
                |text: String, (name, value): (&&str, &Value)| text.replace(&format!("${{{name}}}"), &bare(value));
            let text = drawn.iter().fold(text.clone(), put);
            ensure!(!text.contains("${"), "`{text}` names a magnitude that [draw] does not have");
            Value::String(text)
        }
        Value::Table(table) => Value::Table(filled_table(table, drawn)?),
        Value::Array(values) => {
            Value::Array(values.iter().map(|v| filled(v, drawn)).collect::<anyhow::Result<Vec<_>>>()?)
        }
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => value.clone(),
    })
}

fn filled_table(table: &Table, drawn: &BTreeMap<&str, Value>) -> anyhow::Result<Table> {
    table.iter().map(|(key, value)| Ok((key.clone(), filled(value, drawn)?))).collect()
}

/// A value without the quotes of a text.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

/// The twins of a case; one is up at a time.
pub struct Labs {
    prony: PathBuf,
    scratch: PathBuf,
    healthy: PathBuf,
    faulty: PathBuf,
    /// Without one of its causes, by that cause.
    left: BTreeMap<String, PathBuf>,
    words: String,
    /// Id of the lab that is up.
    up: Option<String>,
}

impl Labs {
    fn bring_up(&mut self, stack: &Path) -> anyhow::Result<PathBuf> {
        let said = self.prony(&["lab", "up", "--no-measure", &stack.display().to_string()])?;
        let stack = PathBuf::from(said.lines().last().unwrap_or_default());
        let id = stack.parent().and_then(Path::file_name).context("`prony lab up` printed no stack file")?;
        self.up = Some(id.to_string_lossy().into_owned());
        Ok(stack)
    }

    fn prony(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(&self.prony);
        command.args(args);
        let ended = run_limited(command, &self.scratch.join("lab"), STEP_MAX)?;
        ensure!(
            ended.status == Some(Some(0)),
            "prony {}: {:?}: {}",
            args.join(" "),
            ended.status,
            last_line(&ended.stderr)
        );
        Ok(ended.stdout)
    }
}

impl Stand for Labs {
    fn up(&mut self, healthy: bool) -> anyhow::Result<Result<PathBuf, String>> {
        let stack = if healthy { self.healthy.clone() } else { self.faulty.clone() };
        self.bring_up(&stack).map(Ok)
    }

    fn mend(&mut self, cause: &str) -> anyhow::Result<PathBuf> {
        self.down()?;
        self.bring_up(&self.left.get(cause).unwrap_or(&self.healthy).clone())
    }

    fn mends_all(&self, cause: &str) -> bool {
        !self.left.contains_key(cause)
    }

    fn down(&mut self) -> anyhow::Result<()> {
        match self.up.take() {
            Some(id) => self.prony(&["lab", "down", &id]).map(drop),
            None => Ok(()),
        }
    }

    fn magnitudes(&self) -> String {
        self.words.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CASE: &str = r#"
cause = "cpu-quota-throttled"
hop = "lb"
kind = "cpu"
lab = "proxy"

[draw]
quota = [25, 60]
loss = [0.5, 3.0]
level = { of = ["6", "9"] }

[stack]
workload.connections = 32

[fault]
lab.host.lb.cpu_quota = "${quota}%"
lab.host.lb.server.workers = "${quota}"
lab.host.s1.link.loss = "${loss}%"
name = "level ${level}"

[left.too-few-workers]
lab.host.lb.cpu_quota = "${quota}%"
"#;

    #[test]
    fn twins_differ_by_the_fault_and_magnitudes_follow_the_seed() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["faults", "labs", "scratch"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        std::fs::write(root.path().join("labs/proxy.toml"), "").unwrap();
        std::fs::write(root.path().join("faults/quota.toml"), CASE).unwrap();
        let case = LabCase::read(&root.path().join("faults/quota.toml")).unwrap();
        let scratch = root.path().join("scratch");
        let stand = |seed| case.stand("quota", Path::new("prony"), &scratch, &mut Random::new(seed)).unwrap();
        let words = stand(7).magnitudes();
        assert_eq!(words, stand(7).magnitudes());
        assert!((8..20).any(|seed| stand(seed).magnitudes() != words));
        let faulty: Table = std::fs::read_to_string(stand(7).faulty).unwrap().parse().unwrap();
        let lb = &faulty["lab"]["host"]["lb"];
        let workers = lb["server"]["workers"].as_integer().unwrap();
        assert!((25..=60).contains(&workers));
        assert_eq!(lb["cpu_quota"].as_str().unwrap(), format!("{workers}%"));
        assert!(faulty["base"].as_str().unwrap().ends_with("quota-healthy.toml"));
        let healthy = std::fs::read_to_string(stand(7).healthy).unwrap();
        let left = std::fs::read_to_string(&stand(7).left["too-few-workers"]).unwrap();
        assert!(left.contains("quota-healthy.toml") && left.contains(&format!("cpu_quota = \"{workers}%\"")), "{left}");
        assert!(!stand(7).mends_all("too-few-workers") && stand(7).mends_all("packet-loss"));
        assert!(healthy.contains("connections = 32") && healthy.contains("labs/proxy.toml"), "{healthy}");
    }

    #[test]
    fn a_magnitude_that_is_not_drawn_is_an_error() {
        let error = filled(&Value::from("${x}%"), &BTreeMap::new()).unwrap_err();
        assert_eq!(error.to_string(), "`${x}%` names a magnitude that [draw] does not have");
    }
}
