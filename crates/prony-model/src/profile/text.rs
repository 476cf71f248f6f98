//! Profiles as text and as CSV: read, write, and say what is wrong.
//!
//! It knows no rates over time, only how they are written; the table is in the parent's header. Invariant: a profile that one of
//! the short forms describes is written in that form, any other point by point.

use super::{Profile, ProfilePoint};
use crate::input::{InputError, nearest};
use crate::units::{Nanos, Rate, UnitError};
use std::fmt;
use std::str::FromStr;

/// Why a text is no profile: what was seen, what is wrong, and what is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError {
    seen: String,
    why: String,
    example: &'static str,
}

/// Most characters of a profile that an error repeats. A guess: a line on a screen.
const SEEN_CHARS_MAX: usize = 60;

impl ProfileError {
    pub(super) fn new(seen: &str, why: String, example: &'static str) -> Self {
        let mut short: String = seen.chars().take(SEEN_CHARS_MAX).collect();
        if short.len() < seen.len() {
            short += "...";
        }
        Self { seen: short, why, example }
    }
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a profile: {}; write it like `{}`", self.seen, self.why, self.example)
    }
}
impl std::error::Error for ProfileError {}

/// One way to write a profile.
struct Form {
    name: &'static str,
    example: &'static str,
    read: fn(&str) -> Result<Profile, String>,
}

const FORMS: &[Form] = &[
    Form { name: "ramp", example: "ramp:100/s..5k/s,30s", read: |text| Ok(ramp(text)?.profile()) },
    Form { name: "steps", example: "steps:1k/s,2k/s,4k/s@10s", read: |text| Ok(steps(text)?.profile()) },
    Form { name: "spike", example: "spike:1k/s..10k/s@20s,5s", read: |text| Ok(spike(text)?.profile()) },
    Form { name: "bursts", example: "bursts:1k/s+8k/s@1s,100ms", read: |text| Ok(bursts(text)?.profile()) },
    Form { name: "points", example: "points:0s=100/s,30s=5k/s", read: |text| points(text).map(Profile::Points) },
    Form { name: "cycle", example: "cycle:0s=1k/s,1s=4k/s@2s", read: cycle },
    Form { name: "times", example: "times:0s,1.5ms,4ms", read: times },
];

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let text = text.trim();
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let Some(form) = FORMS.iter().find(|form| form.name == name) else {
            let names = || FORMS.iter().map(|form| form.name);
            let meant = nearest(name, names()).map(|name| format!(", did you mean `{name}`?")).unwrap_or_default();
            let why = format!("`{name}` is none of {}{meant}", names().collect::<Vec<_>>().join(", "));
            return Err(ProfileError::new(text, why, FORMS[0].example));
        };
        let wrong = |why| ProfileError::new(text, why, form.example);
        let profile = (form.read)(rest).map_err(wrong)?;
        profile.fault().map_or(Ok(profile), |why| Err(wrong(why)))
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(shape) = Shape::of(self) {
            return write!(f, "{shape}");
        }
        let (name, parts, end) = match self {
            Self::Points(points) => ("points", written(points), String::new()),
            Self::Cycle { points, every } => ("cycle", written(points), format!("@{every}")),
            Self::Times(times) => ("times", times.iter().map(|time| moment(*time)).collect(), String::new()),
        };
        write!(f, "{name}:{}{end}", parts.join(","))
    }
}

fn written(points: &[ProfilePoint]) -> Vec<String> {
    points.iter().map(|p| format!("{}={}", moment(p.at), p.rate)).collect()
}

/// As a person writes it: the start is `0s`, not `0ns`.
fn moment(at: Nanos) -> String {
    if at == Nanos(0) { "0s".to_string() } else { at.to_string() }
}

/// What the short forms describe.
#[derive(Debug, PartialEq)]
pub(super) enum Shape {
    Ramp { from: Rate, to: Rate, over: Nanos },
    Steps { rates: Vec<Rate>, each: Nanos },
    Spike { base: Rate, peak: Rate, at: Nanos, length: Nanos },
    Bursts { base: Rate, more: Rate, every: Nanos, length: Nanos },
}

impl Shape {
    /// The short form of a profile, if it has one: the first whose profile is the same.
    pub(super) fn of(profile: &Profile) -> Option<Self> {
        let candidates = match profile {
            Profile::Points(points) => match points.as_slice() {
                [a, b] => vec![Self::Ramp { from: a.rate, to: b.rate, over: b.at }],
                [a, b, c, d, _] => {
                    let spike = Self::Spike { base: a.rate, peak: c.rate, at: b.at, length: d.at.since(c.at) };
                    vec![spike, Self::steps_of(points, b.at)]
                }
                [_, b, ..] => vec![Self::steps_of(points, b.at)],
                [] | [_] => Vec::new(),
            },
            Profile::Cycle { points, every } => match points.as_slice() {
                [high, end, low] => {
                    let more = Rate(high.rate.0 - low.rate.0);
                    vec![Self::Bursts { base: low.rate, more, every: *every, length: end.at }]
                }
                _ => Vec::new(),
            },
            Profile::Times(_) => Vec::new(),
        };
        candidates.into_iter().find(|shape| shape.profile() == *profile)
    }

    fn steps_of(points: &[ProfilePoint], each: Nanos) -> Self {
        Self::Steps { rates: points.iter().step_by(2).map(|p| p.rate).collect(), each }
    }

    fn profile(&self) -> Profile {
        let point = |at: Nanos, rate: Rate| ProfilePoint { at, rate };
        let sum = |a: Nanos, b: Nanos| Nanos(a.0.saturating_add(b.0));
        match self {
            Self::Ramp { from, to, over } => Profile::Points(vec![point(Nanos(0), *from), point(*over, *to)]),
            Self::Steps { rates, each } => {
                let mut points = Vec::new();
                for (number, rate) in (0u64..).zip(rates) {
                    let begins = |number: u64| Nanos(each.0.saturating_mul(number));
                    points.extend([point(begins(number), *rate), point(begins(number + 1), *rate)]);
                }
                // The last has no end.
                points.pop();
                Profile::Points(points)
            }
            Self::Spike { base, peak, at, length } => {
                let end = sum(*at, *length);
                let rates = [(Nanos(0), base), (*at, base), (*at, peak), (end, peak), (end, base)];
                Profile::Points(rates.into_iter().map(|(at, rate)| point(at, *rate)).collect())
            }
            Self::Bursts { base, more, every, length } => {
                let high = Rate(base.0 + more.0);
                let points = vec![point(Nanos(0), high), point(*length, high), point(*length, *base)];
                Profile::Cycle { points, every: *every }
            }
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ramp { from, to, over } => write!(f, "ramp:{from}..{to},{over}"),
            Self::Steps { rates, each } => {
                let rates: Vec<String> = rates.iter().map(Rate::to_string).collect();
                write!(f, "steps:{}@{each}", rates.join(","))
            }
            Self::Spike { base, peak, at, length } => write!(f, "spike:{base}..{peak}@{at},{length}"),
            Self::Bursts { base, more, every, length } => write!(f, "bursts:{base}+{more}@{every},{length}"),
        }
    }
}

fn ramp(text: &str) -> Result<Shape, String> {
    let (rates, over) = cut(text, ",", "how long it takes")?;
    let (from, to) = cut(rates, "..", "the rate at the end")?;
    Ok(Shape::Ramp {
        from: read("the rate at the start", from)?,
        to: read("the rate at the end", to)?,
        over: read("how long it takes", over)?,
    })
}

fn steps(text: &str) -> Result<Shape, String> {
    let (rates, each) = cut(text, "@", "how long each step takes")?;
    let rates = rates.split(',').map(|rate| read("a step", rate)).collect::<Result<Vec<Rate>, _>>()?;
    if rates.len() < 2 {
        return Err("one step is a constant rate: name two or more".to_string());
    }
    Ok(Shape::Steps { rates, each: read("how long each step takes", each)? })
}

fn spike(text: &str) -> Result<Shape, String> {
    let (rates, when) = cut(text, "@", "when it comes")?;
    let (base, peak) = cut(rates, "..", "the rate of the spike")?;
    let (at, length) = cut(when, ",", "how long it takes")?;
    Ok(Shape::Spike {
        base: read("the rate around the spike", base)?,
        peak: read("the rate of the spike", peak)?,
        at: read("when it comes", at)?,
        length: read("how long it takes", length)?,
    })
}

fn bursts(text: &str) -> Result<Shape, String> {
    let (rates, when) = cut(text, "@", "how often a burst comes")?;
    let (base, more) = cut(rates, "+", "the rate that a burst adds")?;
    let (every, length) = cut(when, ",", "how long a burst takes")?;
    Ok(Shape::Bursts {
        base: read("the rate between bursts", base)?,
        more: read("the rate that a burst adds", more)?,
        every: read("how often a burst comes", every)?,
        length: read("how long a burst takes", length)?,
    })
}

fn points(text: &str) -> Result<Vec<ProfilePoint>, String> {
    let point = |part: &str| {
        let (at, rate) = cut(part, "=", "a rate")?;
        Ok(ProfilePoint { at: read("the time of a point", at)?, rate: read("the rate of a point", rate)? })
    };
    text.split(',').map(point).collect()
}

fn cycle(text: &str) -> Result<Profile, String> {
    let (list, every) = cut(text, "@", "how long a turn takes")?;
    Ok(Profile::Cycle { points: points(list)?, every: read("how long a turn takes", every)? })
}

fn times(text: &str) -> Result<Profile, String> {
    text.split(',').map(|time| read("a time", time)).collect::<Result<_, _>>().map(Profile::Times)
}

/// The texts before and behind the first `mark`; `missing` says what should stand behind it.
fn cut<'a>(text: &'a str, mark: &str, missing: &str) -> Result<(&'a str, &'a str), String> {
    let place = || if text.is_empty() { "in it".to_string() } else { format!("behind `{text}`") };
    text.split_once(mark).ok_or_else(|| format!("{} there is no `{mark}` with {missing}", place()))
}

fn read<T: FromStr<Err = UnitError>>(what: &str, text: &str) -> Result<T, String> {
    text.parse::<T>().map_err(|error| format!("{what}: {error}"))
}

impl Profile {
    /// From a file's text, with one point per line (`seconds,rate`) or one request per line (`seconds`). Empty lines, lines
    /// that begin with `#`, and a first line of names are left out. `file` is only for errors.
    ///
    /// # Errors
    /// The file, the line, what was seen and what would be right.
    pub fn from_csv(file: &str, text: &str) -> Result<Self, InputError> {
        let lines = || (1..).zip(text.lines().map(str::trim)).filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
        let is_head = |line: &str| line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '"');
        let head = lines().next().is_some_and(|(_, line)| is_head(line));
        let rows = || lines().skip(usize::from(head));
        let has_rates = rows().next().is_some_and(|(_, line)| line.contains(','));
        let (mut points, mut times) = (Vec::new(), Vec::new());
        let mut before = Nanos(0);
        for (line, row) in rows() {
            let wrong = |message: String| InputError { file: file.to_string(), line, message };
            let (at, rate) = row_of(row, has_rates).map_err(wrong)?;
            if at < before {
                return Err(wrong(format!("{at} stands behind {before}: sort the lines by time")));
            }
            before = at;
            match rate {
                Some(rate) => points.push(ProfilePoint { at, rate }),
                None => times.push(at),
            }
        }
        let profile = if has_rates { Self::Points(points) } else { Self::Times(times) };
        match profile.fault() {
            None => Ok(profile),
            Some(why) => {
                Err(InputError::whole(file, format!("{why}; write lines like `10,500` (seconds,rate) or `10.25`")))
            }
        }
    }

    /// How a profile of this kind is written.
    pub(super) fn example(&self) -> &'static str {
        let name = match self {
            Self::Points(_) => "points",
            Self::Cycle { .. } => "cycle",
            Self::Times(_) => "times",
        };
        FORMS.iter().find(|form| form.name == name).map_or(FORMS[0].example, |form| form.example)
    }
}

/// One line of a CSV file.
fn row_of(row: &str, has_rates: bool) -> Result<(Nanos, Option<Rate>), String> {
    let (seconds, rate) = row.split_once(',').map_or((row, None), |(seconds, rate)| (seconds, Some(rate)));
    let number = seconds.trim().parse::<f64>().ok().filter(|s| s.is_finite() && *s >= 0.0);
    let at = number.ok_or_else(|| format!("`{}` is no number of seconds from 0 on, like `10.25`", seconds.trim()))?;
    let at = Nanos((at * 1e9).round() as u64);
    match (has_rates, rate) {
        (true, Some(rate)) => Ok((at, Some(rate.trim().parse::<Rate>().map_err(|e| e.to_string())?))),
        (true, None) => Err(format!("`{row}` has no rate, unlike the lines before: write it like `10,500`")),
        (false, None) => Ok((at, None)),
        (false, Some(_)) => Err(format!("`{row}` has a rate, unlike the lines before: write it like `10.25`")),
    }
}
