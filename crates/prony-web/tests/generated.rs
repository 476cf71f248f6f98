//! The types that the pages are built from, and the document of the API, are those of the Rust types.

#![allow(clippy::unwrap_used, reason = "a test may stop at what cannot be")]

use std::path::PathBuf;

fn is_fresh(file: &str, fresh: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, fresh).unwrap();
        return;
    }
    assert!(committed == fresh, "{} is stale: run `cargo xtask codegen`", file.display());
}

#[test]
fn the_types_of_the_pages_are_fresh() {
    is_fresh("web/src/generated/api.ts", &prony_web::typescript());
}

#[test]
fn the_document_of_the_api_is_fresh() {
    is_fresh("docs/openapi.json", &prony_web::openapi());
}
