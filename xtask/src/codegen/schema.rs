//! The JSON schemas of what commands print with `--json`, read from the declarations of the types and their doc comments.
//!
//! It understands the subset of Rust and serde that those declarations use, laid out by rustfmt, and fails on the rest.
//! Tests hold the schemas against real values as serde writes them.

use crate::declarations::{Body, Declaration, Field, Variant, declarations};
use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Something that is printed, and the types that it is made of.
pub(super) struct Document {
    /// What stands in its field `schema`: `prony.NAME/VERSION`.
    id: &'static str,
    /// The types it can be.
    roots: &'static [&'static str],
    /// Files in which its types stand, below `crates`.
    sources: &'static [&'static str],
    /// Sentences that the command adds to the type: name and meaning.
    sentences: &'static [(&'static str, &'static str)],
}

/// All of them.
pub(super) const DOCUMENTS: &[Document] = &[
    Document {
        id: prony_model::diagnosis::SCHEMA,
        roots: &["Diagnosis"],
        sources: &[
            "prony-model/src/diagnosis.rs",
            "prony-model/src/limit.rs",
            "prony-model/src/comparison.rs",
            "prony-model/src/gap.rs",
            "prony-model/src/knob.rs",
            "prony-model/src/run.rs",
        ],
        sentences: &[],
    },
    Document {
        id: "prony.load/1",
        roots: &["LoadOutput"],
        sources: &[
            "prony-report/src/load_output.rs",
            "prony-model/src/load.rs",
            "prony-model/src/script.rs",
            "prony-model/src/threshold.rs",
        ],
        sentences: &[],
    },
    Document {
        id: "prony.limit/1",
        roots: &["LimitReport"],
        sources: &["prony-model/src/limit.rs"],
        sentences: &[("summary", "The answer as a sentence.")],
    },
    Document {
        id: prony_model::comparison::SCHEMA,
        roots: &["Comparison", "History"],
        sources: &["prony-model/src/comparison.rs", "prony-model/src/proof.rs"],
        sentences: &[],
    },
    Document {
        id: prony_model::network::SCHEMA,
        roots: &["NetworkReport"],
        sources: &["prony-model/src/network.rs", "prony-model/src/gap.rs"],
        sentences: &[],
    },
];

/// Types that are written as text, by an own `Serialize`.
const TEXTS: &[&str] = &["Nanos", "Threshold", "ChangeGate"];
/// Types of what was asked for, which the pages of the command describe.
const LEFT_OPEN: &[&str] = &["LoadPlan"];

impl Document {
    /// Where its schema stands.
    pub(super) fn path(&self) -> String {
        format!("docs/schema/{}.json", self.id.trim_start_matches("prony.").replace('/', "-"))
    }

    /// The text of its schema.
    pub(super) fn text(&self, root: &Path) -> anyhow::Result<String> {
        let mut types = BTreeMap::new();
        for source in self.sources {
            let path = root.join("crates").join(source);
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            types.extend(declarations(&text));
        }
        let mut definitions = BTreeMap::new();
        for name in self.roots {
            define(name, &types, &mut definitions)
                .with_context(|| format!("looked for the types of {} in {:?}", self.id, self.sources))?;
            self.sign(definitions.get_mut(*name).context("the root was not defined")?);
        }
        let mut schema = match self.roots {
            [only] => definitions.remove(*only).context("the root was not defined")?,
            several => json!({ "oneOf": several.iter().map(|name| reference(name)).collect::<Vec<_>>() }),
        };
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["$comment"] = json!(format!("{} from the types in crates. Fields are only ever added.", super::MARK));
        schema["title"] = json!(self.id);
        schema["$defs"] = json!(definitions);
        Ok(serde_json::to_string_pretty(&schema).context("a schema is JSON")? + "\n")
    }

    /// Adds what the command writes besides the type itself.
    fn sign(&self, object: &mut Value) {
        object["properties"]["schema"]["const"] = json!(self.id);
        for (name, doc) in self.sentences {
            object["properties"][name] = json!({ "type": "string", "description": doc });
        }
        let added = std::iter::once("schema").chain(self.sentences.iter().map(|(name, _)| *name));
        let Some(required) = object["required"].as_array_mut() else { return };
        for name in added {
            if !required.iter().any(|known| known == name) {
                required.push(json!(name));
            }
        }
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

/// Adds the schema of a type and of everything it is made of.
fn define(
    name: &str,
    types: &BTreeMap<String, Declaration>,
    definitions: &mut BTreeMap<String, Value>,
) -> anyhow::Result<()> {
    if definitions.contains_key(name) {
        return Ok(());
    }
    definitions.insert(name.to_string(), Value::Null); // a type that holds itself must not be entered again
    let texts = (TEXTS, json!({ "type": "string" }));
    let open = (LEFT_OPEN, json!({ "type": "object", "additionalProperties": true }));
    if let Some((_, schema)) = [texts, open].into_iter().find(|(names, _)| names.contains(&name)) {
        definitions.insert(name.to_string(), schema);
        return Ok(());
    }
    let declaration = types.get(name).with_context(|| format!("`{name}` is not declared there"))?;
    let mut needed = Vec::new();
    let mut schema = match &declaration.body {
        _ if declaration.serde.contains("into = \"String\"") => json!({ "type": "string" }),
        Body::Struct(fields) => object(fields, None, &mut needed)?,
        Body::Enum(variants) => one_of(variants, &declaration.serde, &mut needed)?,
        Body::Alias(rust) => value(rust, &mut needed)?,
        Body::Unread => bail!("`{name}` was not read"),
    };
    schema["description"] = json!(plain(&declaration.doc));
    definitions.insert(name.to_string(), schema);
    needed.iter().try_for_each(|name| define(name, types, definitions))
}

/// An object; `tag` is a field with a fixed value.
fn object(fields: &[Field], tag: Option<(&str, &str)>, needed: &mut Vec<String>) -> anyhow::Result<Value> {
    let (mut properties, mut required, mut flattened) = (Map::new(), Vec::new(), Vec::new());
    if let Some((key, value)) = tag {
        properties.insert(key.to_string(), json!({ "const": value }));
        required.push(key.to_string());
    }
    for field in fields {
        let mut schema = value(&field.rust, needed)?;
        if field.serde == "flatten" {
            flattened.push(schema);
            continue;
        }
        schema["description"] = json!(plain(&field.doc));
        properties.insert(field.name.clone(), schema);
        if !field.serde.contains("skip_serializing_if") {
            required.push(field.name.clone());
        }
    }
    let mut schema = json!({ "type": "object", "properties": properties, "required": required });
    if !flattened.is_empty() {
        schema["allOf"] = json!(flattened);
    }
    Ok(schema)
}

fn one_of(variants: &[Variant], serde: &str, needed: &mut Vec<String>) -> anyhow::Result<Value> {
    let tag = serde.split_once("tag = \"").and_then(|(_, rest)| rest.split_once('"')).map(|(tag, _)| tag);
    let mut choices = Vec::new();
    for variant in variants {
        let text = if serde.contains("kebab-case") {
            apart(&variant.name, '-')
        } else if serde.contains("snake_case") {
            apart(&variant.name, '_')
        } else {
            variant.name.to_lowercase()
        };
        let mut choice = match tag {
            Some(tag) => object(&variant.fields, Some((tag, &text)), needed)?,
            None if variant.fields.is_empty() => json!({ "const": text }),
            None => bail!("variant `{}` has fields but its enum has no `tag`", variant.name),
        };
        choice["description"] = json!(plain(&variant.doc));
        choices.push(choice);
    }
    Ok(json!({ "oneOf": choices }))
}

/// The schema of a Rust type in the position of a field.
fn value(rust: &str, needed: &mut Vec<String>) -> anyhow::Result<Value> {
    let rust = rust.trim_start_matches("&'a ");
    // Where a type of another module is written with its path.
    let rust = if rust.contains('<') { rust } else { rust.rsplit("::").next().unwrap_or(rust) };
    let inner = |outer: &str| rust.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
    if let Some(of) = inner("Option<") {
        let mut of = value(of, needed)?;
        if of.get("type").is_none() {
            return Ok(json!({ "anyOf": [of, { "type": "null" }] }));
        }
        of["type"] = json!([of["type"], "null"]);
        return Ok(of);
    }
    if let Some((first, second)) = rust.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')?.split_once(", ")) {
        let pair = [value(first, needed)?, value(second, needed)?];
        return Ok(json!({ "type": "array", "prefixItems": pair, "minItems": 2, "maxItems": 2 }));
    }
    if let Some(of) = inner("Vec<").or(rust.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'))) {
        return Ok(json!({ "type": "array", "items": value(of, needed)? }));
    }
    if let Some(of) = inner("BTreeMap<String, ").or(inner("BTreeMap<u16, ")) {
        return Ok(json!({ "type": "object", "additionalProperties": value(of, needed)? }));
    }
    Ok(match rust {
        "String" => json!({ "type": "string" }),
        "bool" => json!({ "type": "boolean" }),
        "f64" => json!({ "type": "number" }),
        "u16" | "u32" | "u64" => json!({ "type": "integer", "minimum": 0 }),
        name if name.chars().all(|c| c.is_ascii_alphanumeric()) => {
            needed.push(name.to_string());
            reference(name)
        }
        other => {
            bail!("the schema generator does not know the type `{other}`: teach it in xtask/src/codegen/schema.rs")
        }
    })
}

/// The words of a name in capitals, with `between` them.
fn apart(name: &str, between: char) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push(between);
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// A doc comment without links to Rust items.
fn plain(doc: &str) -> String {
    doc.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests;
