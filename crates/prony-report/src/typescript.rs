//! TypeScript types of the view, made from the Rust types by the macro that declares them.
//!
//! It knows only what the view needs: structs, string enums, lists and values that may be missing.
//! Invariant: a field cannot exist in Rust and lack in TypeScript, because both come from one declaration.

/// A type that has a name in TypeScript.
pub(crate) trait TypeScript {
    /// How TypeScript writes it.
    fn name() -> String;
}

impl TypeScript for String {
    fn name() -> String {
        "string".to_string()
    }
}
impl TypeScript for bool {
    fn name() -> String {
        "boolean".to_string()
    }
}
macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl TypeScript for $t {
            fn name() -> String {
                "number".to_string()
            }
        }
    )*};
}
numbers!(f64, u32, u64);

impl<T: TypeScript> TypeScript for Vec<T> {
    fn name() -> String {
        let inner = T::name();
        if inner.contains('|') { format!("({inner})[]") } else { format!("{inner}[]") }
    }
}
impl<T: TypeScript> TypeScript for Option<T> {
    fn name() -> String {
        format!("{} | null", T::name())
    }
}

/// Writes one doc comment, given the lines that `///` holds.
pub(crate) fn comment(indent: &str, lines: &[&str], out: &mut String) {
    let text: Vec<&str> = lines.iter().map(|l| l.trim()).collect();
    if !text.is_empty() {
        out.push_str(&format!("{indent}/** {} */\n", text.join(" ").replace("*/", "* /")));
    }
}

/// Declares string enums: Rust type, JSON form and TypeScript union at once.
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
            impl $crate::typescript::TypeScript for $name {
                fn name() -> String { stringify!($name).to_string() }
            }
        )*
        /// TypeScript of the string enums.
        pub(crate) fn words_typescript(out: &mut String) {
            $(
                $crate::typescript::comment("", &[$($doc),*], out);
                out.push_str(&format!("export type {} = {};\n\n", stringify!($name), [$(concat!("\"", $text, "\"")),*].join(" | ")));
            )*
        }
    };
}

/// Declares the structs of the view: Rust type, JSON form and TypeScript interface at once.
macro_rules! view {
    ($($(#[doc = $doc:literal])* pub struct $name:ident { $($(#[doc = $fdoc:literal])* pub $field:ident: $t:ty),* $(,)? })*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Debug, PartialEq, serde::Serialize)]
            pub struct $name { $($(#[doc = $fdoc])* pub $field: $t),* }
            impl $crate::typescript::TypeScript for $name {
                fn name() -> String { stringify!($name).to_string() }
            }
        )*
        /// TypeScript of the structs.
        pub(crate) fn structs_typescript(out: &mut String) {
            use $crate::typescript::TypeScript;
            $(
                $crate::typescript::comment("", &[$($doc),*], out);
                out.push_str(&format!("export interface {} {{\n", stringify!($name)));
                $(
                    $crate::typescript::comment("  ", &[$($fdoc),*], out);
                    out.push_str(&format!("  {}: {};\n", stringify!($field), <$t>::name()));
                )*
                out.push_str("}\n\n");
            )*
        }
    };
}

pub(crate) use {view, words};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_missing_values() {
        assert_eq!(Vec::<String>::name(), "string[]");
        assert_eq!(Option::<f64>::name(), "number | null");
        assert_eq!(Vec::<Option<f64>>::name(), "(number | null)[]");
    }
}
