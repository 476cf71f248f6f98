//! The JSON schema of `prony.diagnosis/1`, read from the declarations in `prony-model` and their doc comments.
//!
//! It understands the subset of Rust and serde that those declarations use, laid out by rustfmt, and fails on the rest.
//! A test holds the schema against a real diagnosis as serde writes it.

use crate::declarations::{Body, Declaration, Field, Variant, declarations};
use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Files in which the types stand that a diagnosis is made of.
const SOURCES: &[&str] = &["diagnosis.rs", "limit.rs", "comparison.rs", "gap.rs", "knob.rs", "run.rs"];

/// The text of `docs/schema/diagnosis-1.json`.
pub(super) fn diagnosis(root: &Path) -> anyhow::Result<String> {
    let mut types = BTreeMap::new();
    for source in SOURCES {
        let path = root.join("crates/prony-model/src").join(source);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        types.extend(declarations(&text));
    }
    let mut definitions = BTreeMap::new();
    define("Diagnosis", &types, &mut definitions)?;
    let mut schema = definitions.remove("Diagnosis").context("Diagnosis was not defined")?;
    schema["properties"]["schema"]["const"] = json!(prony_model::diagnosis::SCHEMA);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["$comment"] = json!(format!("{} from crates/prony-model/src. Fields are only ever added.", super::MARK));
    schema["title"] = json!(prony_model::diagnosis::SCHEMA);
    schema["$defs"] = json!(definitions);
    Ok(serde_json::to_string_pretty(&schema).context("a schema is JSON")? + "\n")
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
    let declaration = types.get(name).with_context(|| format!("`{name}` is declared in none of {SOURCES:?}"))?;
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
        let text = if serde.contains("kebab-case") { kebab(&variant.name) } else { variant.name.to_lowercase() };
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
    let inner = |outer: &str| rust.strip_prefix(outer).and_then(|rest| rest.strip_suffix('>'));
    if let Some(of) = inner("Option<") {
        let mut of = value(of, needed)?;
        if of.get("type").is_none() {
            return Ok(json!({ "anyOf": [of, { "type": "null" }] }));
        }
        of["type"] = json!([of["type"], "null"]);
        return Ok(of);
    }
    if let Some(of) = inner("Vec<") {
        return Ok(json!({ "type": "array", "items": value(of, needed)? }));
    }
    if let Some(of) = inner("BTreeMap<String, ") {
        return Ok(json!({ "type": "object", "additionalProperties": value(of, needed)? }));
    }
    Ok(match rust {
        "String" => json!({ "type": "string" }),
        "bool" => json!({ "type": "boolean" }),
        "f64" => json!({ "type": "number" }),
        "u16" | "u32" | "u64" => json!({ "type": "integer", "minimum": 0 }),
        name if name.chars().all(|c| c.is_ascii_alphanumeric()) => {
            needed.push(name.to_string());
            json!({ "$ref": format!("#/$defs/{name}") })
        }
        other => {
            bail!("the schema generator does not know the type `{other}`: teach it in xtask/src/codegen/schema.rs")
        }
    })
}

fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
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
