//! Types that are declared once and known everywhere: in Rust, as JSON, in TypeScript, and as JSON schemas.
//!
//! It knows only what pages need: structs, string enums, lists and values that may be missing.
//! Invariant: a field cannot exist in Rust and lack in TypeScript or in the schema, because all come from one declaration.

use serde_json::{Map, Value, json};

/// A type that pages and the documents of the API know.
pub trait Typed {
    /// How TypeScript writes it.
    fn typescript() -> String;
    /// How a JSON schema writes it; a type with a name is referred to.
    fn schema() -> Value;
}

macro_rules! plain {
    ($($t:ty => $typescript:literal, $schema:expr);* $(;)?) => {$(
        impl Typed for $t {
            fn typescript() -> String {
                $typescript.to_string()
            }
            fn schema() -> Value {
                $schema
            }
        }
    )*};
}
plain! {
    String => "string", json!({ "type": "string" });
    bool => "boolean", json!({ "type": "boolean" });
    f64 => "number", json!({ "type": "number" });
    u32 => "number", json!({ "type": "integer", "minimum": 0 });
    u64 => "number", json!({ "type": "integer", "minimum": 0 });
    i32 => "number", json!({ "type": "integer" });
}

impl<T: Typed> Typed for Vec<T> {
    fn typescript() -> String {
        let inner = T::typescript();
        if inner.contains('|') { format!("({inner})[]") } else { format!("{inner}[]") }
    }
    fn schema() -> Value {
        json!({ "type": "array", "items": T::schema() })
    }
}
impl<T: Typed> Typed for Option<T> {
    fn typescript() -> String {
        format!("{} | null", T::typescript())
    }
    fn schema() -> Value {
        json!({ "anyOf": [T::schema(), { "type": "null" }] })
    }
}

/// Where the schema of a named type stands in a document of the API.
pub fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// What was declared, as text of TypeScript and as schemas.
#[derive(Debug, Default)]
pub struct Types {
    /// In the order of declaration.
    pub typescript: String,
    /// By name.
    pub schemas: Map<String, Value>,
}

/// A field of a struct as the macro hands it over.
#[derive(Debug)]
pub struct FieldType {
    /// Its name.
    pub name: &'static str,
    /// Lines of its doc comment.
    pub doc: &'static [&'static str],
    /// Its type.
    pub typescript: String,
    /// Likewise.
    pub schema: Value,
}

impl Types {
    /// Takes in a string enum.
    pub fn words(&mut self, name: &str, doc: &[&str], words: &[&str]) {
        self.comment("", doc);
        let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        self.typescript.push_str(&format!("export type {name} = {};\n\n", quoted.join(" | ")));
        let schema = json!({ "type": "string", "enum": words, "description": sentence(doc) });
        self.schemas.insert(name.to_string(), schema);
    }

    /// Takes in a struct; `closed`: no other fields may be sent.
    pub fn fields(&mut self, name: &str, doc: &[&str], fields: Vec<FieldType>, closed: bool) {
        self.comment("", doc);
        self.typescript.push_str(&format!("export interface {name} {{\n"));
        let mut properties = Map::new();
        let required: Vec<&str> = fields.iter().map(|field| field.name).collect();
        let required = json!(required);
        for FieldType { name, doc, typescript, mut schema } in fields {
            self.comment("  ", doc);
            self.typescript.push_str(&format!("  {name}: {typescript};\n"));
            schema["description"] = json!(sentence(doc));
            properties.insert(name.to_string(), schema);
        }
        self.typescript.push_str("}\n\n");
        let mut schema = json!({ "type": "object", "properties": properties, "required": required });
        schema["description"] = json!(sentence(doc));
        if closed {
            schema["additionalProperties"] = json!(false);
        }
        self.schemas.insert(name.to_string(), schema);
    }

    fn comment(&mut self, indent: &str, lines: &[&str]) {
        if !lines.is_empty() {
            self.typescript.push_str(&format!("{indent}/** {} */\n", sentence(lines).replace("*/", "* /")));
        }
    }
}

/// A file of TypeScript; `source` is where its types are declared, `imports` the lines before them.
pub fn file(source: &str, imports: &str, types: &Types) -> String {
    let head = format!("// Generated from {source} by `cargo xtask codegen`. Do not edit.\n\n{imports}");
    format!("{head}{}\n", types.typescript.trim_end())
}

/// The lines that `///` holds as one.
fn sentence(lines: &[&str]) -> String {
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
}

/// Declares string enums: Rust type, JSON form, TypeScript union and schema at once.
#[macro_export]
macro_rules! words {
    ($($(#[doc = $doc:literal])* pub enum $name:ident { $($(#[doc = $vdoc:literal])* $variant:ident = $text:literal),* $(,)? })*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $name { $($(#[doc = $vdoc])* $variant),* }
            impl $name {
                /// The word that JSON and TypeScript use.
                pub const fn word(self) -> &'static str {
                    match self { $(Self::$variant => $text),* }
                }
            }
            impl serde::Serialize for $name {
                fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                    s.serialize_str(self.word())
                }
            }
            impl $crate::typed::Typed for $name {
                fn typescript() -> String { stringify!($name).to_string() }
                fn schema() -> serde_json::Value { $crate::typed::reference(stringify!($name)) }
            }
        )*
        /// Hands over the string enums.
        pub(crate) fn declare_words(types: &mut $crate::typed::Types) {
            $(types.words(stringify!($name), &[$($doc),*], &[$($text),*]);)*
        }
    };
}

/// Declares structs: Rust type, JSON form, TypeScript interface and schema at once. What clients send is also read:
/// `#[derive(serde::Deserialize)] #[serde(deny_unknown_fields)]`.
#[macro_export]
macro_rules! view {
    ($(
        $(#[doc = $doc:literal])*
        $(#[derive(serde::Deserialize)] #[serde($closed:ident)])?
        pub struct $name:ident { $($(#[doc = $fdoc:literal])* pub $field:ident: $t:ty),* $(,)? }
    )*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Debug, PartialEq, serde::Serialize)]
            $(#[derive(serde::Deserialize)] #[serde($closed)])?
            pub struct $name { $($(#[doc = $fdoc])* pub $field: $t),* }
            impl $crate::typed::Typed for $name {
                fn typescript() -> String { stringify!($name).to_string() }
                fn schema() -> serde_json::Value { $crate::typed::reference(stringify!($name)) }
            }
        )*
        /// Hands over the structs.
        pub(crate) fn declare_structs(types: &mut $crate::typed::Types) {
            $(
                let fields = vec![$($crate::typed::FieldType {
                    name: stringify!($field),
                    doc: &[$($fdoc),*],
                    typescript: <$t as $crate::typed::Typed>::typescript(),
                    schema: <$t as $crate::typed::Typed>::schema(),
                }),*];
                let closed: &[&str] = &[$(stringify!($closed))?];
                types.fields(stringify!($name), &[$($doc),*], fields, !closed.is_empty());
            )*
        }
    };
}

pub use {view, words};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_missing_values() {
        assert_eq!(Vec::<String>::typescript(), "string[]");
        assert_eq!(Option::<f64>::typescript(), "number | null");
        assert_eq!(Vec::<Option<f64>>::typescript(), "(number | null)[]");
        assert_eq!(Vec::<bool>::schema(), json!({ "type": "array", "items": { "type": "boolean" } }));
    }

    mod sample {
        crate::words! {
            /// A word.
            pub enum Word { One = "one", Two = "two" }
        }
        crate::view! {
            /// What is
            /// shown.
            pub struct Shown {
                /// Of it.
                pub word: Option<Word>,
            }
            /// What is sent.
            #[derive(serde::Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct Sent { pub n: u32 }
        }
    }

    #[test]
    fn one_declaration_makes_all_forms() {
        let mut types = Types::default();
        sample::declare_words(&mut types);
        sample::declare_structs(&mut types);
        let want = "/** A word. */\nexport type Word = \"one\" | \"two\";\n\n/** What is shown. */\nexport interface Shown {\n  \
                    /** Of it. */\n  word: Word | null;\n}\n\n/** What is sent. */\nexport interface Sent {\n  n: number;\n}\n\n";
        assert_eq!(types.typescript, want);
        assert_eq!(types.schemas["Word"]["enum"], json!(["one", "two"]));
        let shown = &types.schemas["Shown"];
        assert_eq!((&shown["required"], shown.get("additionalProperties")), (&json!(["word"]), None));
        assert_eq!(shown["properties"]["word"]["anyOf"][0], json!({ "$ref": "#/components/schemas/Word" }));
        assert_eq!(types.schemas["Sent"]["additionalProperties"], json!(false));
        assert_eq!([sample::Word::One.word(), sample::Word::Two.word()], ["one", "two"]);
        assert!(serde_json::from_str::<sample::Sent>("{\"n\":1,\"m\":2}").is_err());
        assert_eq!(
            serde_json::to_value(sample::Shown { word: Some(sample::Word::Two) }).unwrap(),
            json!({ "word": "two" })
        );
    }
}
