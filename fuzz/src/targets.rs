//! The targets: what is done with an input, for each kind of text or bytes that strangers write.
//!
//! A target that returns has held: what does not hold panics.

use crate::memory::peak_bytes;
use crate::talk::drive;
use prony_load::h1::Http1;
use prony_model::Stack;

/// One target.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also that of its folder of seeds.
pub const TARGETS: &[(&str, Target)] = &[("h1_response", h1_response), ("stack_file", stack_file)];

/// Most memory that reading a text may take per byte of it. A guess: a value of one byte becomes a node of some 100 bytes, in a
/// table that doubles, in two layers of a parser.
const BYTES_PER_BYTE: usize = 2000;
/// Memory that reading any text may take. A guess: tables that are made once.
const BYTES_ANYWAY: usize = 1 << 20;

/// Answers of HTTP/1.1, one after another, and in a row with pipelining.
pub fn h1_response(input: &[u8]) {
    for depth in [1, 8] {
        drive(&Http1::new(depth, false), input);
    }
}

/// A stack file. One that is taken is taken again as prony itself writes it.
pub fn stack_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let parsed = bounded(input, || Stack::parse("stack.toml", text));
    match parsed {
        Ok(_) => {}
        Err(error) => assert!(error.to_string().contains("stack.toml"), "an error names its file: {error}"),
    }
    // What names the file below must not panic either, whatever else is wrong with the text.
    let _ = Stack::base_of("stack.toml", text);
}

/// Does it, within the memory that an input of that length may take.
fn bounded<T>(input: &[u8], read: impl FnOnce() -> T) -> T {
    let (made, bytes) = peak_bytes(read);
    let allowed = BYTES_ANYWAY + BYTES_PER_BYTE * input.len();
    assert!(bytes <= allowed as isize, "{bytes} bytes of memory for an input of {}", input.len());
    made
}
