//! The TypeScript types that the page is built from are those of the Rust view.

use std::path::PathBuf;

#[test]
fn the_types_of_the_page_are_fresh() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../web/src/generated/types.ts");
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    let fresh = prony_report::typescript();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&file, &fresh).unwrap();
        return;
    }
    assert!(committed == fresh, "{} is stale: run `cargo xtask codegen`", file.display());
}
