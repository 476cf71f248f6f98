//! Labs that come with prony: one healthy stack, and variants with one planted defect each.
//!
//! The files of `labs/` are part of the binary. What each variant should be diagnosed as stands here, once; tests and
//! the score of the diagnosis read it.

/// What the diagnosis of a lab should say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Causes that are right.
    pub causes: &'static [&'static str],
    /// Hosts that are right.
    pub hops: &'static [&'static str],
}

struct Lab {
    name: &'static str,
    base: Option<&'static str>,
    text: &'static str,
    expected: Expected,
}

macro_rules! labs {
    ($($name:literal on $base:expr => $causes:expr, at $hops:expr;)*) => {
        &[$(Lab {
            name: $name,
            base: $base,
            text: include_str!(concat!("../../../labs/", $name, ".toml")),
            expected: Expected { causes: &$causes, hops: &$hops },
        }),*]
    };
}

const PROXY: Option<&str> = Some("proxy");

const LABS: &[Lab] = labs! {
    "proxy" on None => ["cpu-saturated-user", "cpu-saturated-kernel"], at ["lb"];
};

/// Names of the labs that come with prony, the healthy one first.
pub fn builtin_names() -> Vec<&'static str> {
    LABS.iter().map(|lab| lab.name).collect()
}

/// The layers of a lab for `Stack::parse_layers`: (file name, text), the base first. None when there is no such lab.
/// The name may end in `.toml`.
pub fn builtin(name: &str) -> Option<Vec<(String, String)>> {
    let lab = find(name)?;
    let base = lab.base.and_then(find);
    Some(base.into_iter().chain([lab]).map(|l| (format!("{}.toml", l.name), l.text.to_string())).collect())
}

/// What the diagnosis of a lab that comes with prony should say.
pub fn expected(name: &str) -> Option<Expected> {
    find(name).map(|lab| lab.expected)
}

fn find(name: &str) -> Option<&'static Lab> {
    let name = name.strip_suffix(".toml").unwrap_or(name);
    LABS.iter().find(|lab| lab.name == name)
}
