//! Public types as they stand in the source: structs, enums and aliases with their fields, docs and serde attributes.
//!
//! It reads the layout that rustfmt gives and knows nothing of what the types mean.

use std::collections::BTreeMap;

/// A struct, an enum or an alias as it stands in the source.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declaration {
    pub(crate) doc: String,
    /// What stands in `#[serde(...)]`.
    pub(crate) serde: String,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Body {
    Struct(Vec<Field>),
    Enum(Vec<Variant>),
    Alias(String),
    #[default]
    Unread,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) rust: String,
    pub(crate) doc: String,
    pub(crate) serde: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) fields: Vec<Field>,
}

/// Doc comment and serde attribute that stand before an item.
#[derive(Default)]
struct Before {
    doc: Vec<String>,
    pub(crate) serde: String,
}

impl Before {
    /// Takes a line that belongs to the item below it; false when it is the item itself.
    fn takes(&mut self, line: &str) -> bool {
        if let Some(doc) = line.strip_prefix("///") {
            self.doc.push(doc.trim().to_string());
        } else if let Some(serde) = line.strip_prefix("#[serde(") {
            self.serde = serde.trim_end_matches(")]").to_string();
        } else if !line.starts_with("#[") {
            return false;
        }
        true
    }
}

/// Every public type of a file by name.
pub(crate) fn declarations(text: &str) -> BTreeMap<String, Declaration> {
    let mut types = BTreeMap::new();
    let mut lines = text.lines();
    let mut before = Before::default();
    while let Some(line) = lines.next() {
        if before.takes(line) {
            continue;
        }
        let taken = std::mem::take(&mut before);
        let Some((keyword, rest)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(' ')) else { continue };
        let name: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
        let body = match keyword {
            "struct" if rest.ends_with('{') => Body::Struct(fields(&mut lines, "}")),
            "enum" => Body::Enum(variants(&mut lines)),
            "type" => Body::Alias(rest.split_once("= ").map_or("", |(_, t)| t.trim_end_matches(';')).to_string()),
            _ => continue,
        };
        types.insert(name, Declaration { doc: taken.doc.join(" "), serde: taken.serde, body });
    }
    types
}

/// Fields up to the line `end`.
fn fields(lines: &mut std::str::Lines<'_>, end: &str) -> Vec<Field> {
    let mut found = Vec::new();
    let mut before = Before::default();
    for line in lines.take_while(|line| *line != end) {
        let line = line.trim();
        if before.takes(line) {
            continue;
        }
        let taken = std::mem::take(&mut before);
        if let Some((name, rust)) = line.trim_start_matches("pub ").trim_end_matches(',').split_once(": ") {
            let (name, rust) = (name.to_string(), rust.to_string());
            found.push(Field { name, rust, doc: taken.doc.join(" "), serde: taken.serde });
        }
    }
    found
}

fn variants(lines: &mut std::str::Lines<'_>) -> Vec<Variant> {
    let mut found = Vec::new();
    let mut before = Before::default();
    while let Some(line) = lines.next().filter(|line| *line != "}") {
        let line = line.trim();
        if before.takes(line) {
            continue;
        }
        let doc = std::mem::take(&mut before).doc.join(" ");
        let name: String = line.chars().take_while(char::is_ascii_alphanumeric).collect();
        let fields = if line.ends_with('{') { fields(lines, "    },") } else { Vec::new() };
        found.push(Variant { name, doc, fields });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_docs_and_attributes() {
        let text = "/// A thing.\n#[derive(Clone)]\npub struct A {\n    /// How\n    /// many.\n    #[serde(default)]\n    pub n: u32,\n}\n";
        let types = declarations(text);
        let Body::Struct(fields) = &types["A"].body else { panic!("A is a struct") };
        let of = &fields[0];
        assert_eq!((types["A"].doc.as_str(), of.name.as_str(), of.rust.as_str()), ("A thing.", "n", "u32"));
        assert_eq!((of.doc.as_str(), of.serde.as_str()), ("How many.", "default"));
    }

    #[test]
    fn variants_may_have_fields() {
        let text =
            "pub enum E {\n    One,\n    /// Two.\n    Two {\n        a: f64,\n    },\n}\npub type T = String;\n";
        let types = declarations(text);
        let Body::Enum(variants) = &types["E"].body else { panic!("E is an enum") };
        assert_eq!(
            variants.iter().map(|v| (v.name.as_str(), v.fields.len())).collect::<Vec<_>>(),
            [("One", 0), ("Two", 1)]
        );
        assert!(matches!(&types["T"].body, Body::Alias(of) if of == "String"));
    }
}
