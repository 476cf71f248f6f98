//! Holds what a scenario finds in a JSON document against serde_json, which parses the whole of it.
//!
//! They may differ where a document is not valid (a scenario reads only as far as it must), and where a key stands twice (a
//! scenario takes the first, serde_json the last). Such documents are passed over.

use serde_json::Value;

/// Whether what was found is what stands there.
pub fn compare(pointer: &str, document: &[u8], found: Option<&[u8]>) {
    let Ok(whole) = serde_json::from_slice::<Value>(document) else { return };
    if members(&whole) != colons(document) {
        return;
    }
    match (whole.pointer(pointer), found) {
        (None | Some(Value::Null), None) => {}
        (Some(Value::String(text)), Some(found)) => assert_eq!(text.as_bytes(), found, "text at {pointer}"),
        (Some(value), Some(found)) => {
            let found: Value = serde_json::from_slice(found).expect("what is found is a value as it is written");
            assert_eq!(&found, value, "value at {pointer}");
        }
        (value, found) => panic!("at {pointer} there is {value:?}, found was {found:?}"),
    }
}

/// Members of all objects, each key once.
fn members(value: &Value) -> usize {
    match value {
        Value::Array(values) => values.iter().map(members).sum(),
        Value::Object(map) => map.len() + map.values().map(members).sum::<usize>(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Colons outside strings of a valid document: members of all objects, each time that a key stands there.
fn colons(document: &[u8]) -> usize {
    let (mut count, mut inside, mut escaped) = (0, false, false);
    for byte in document {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => inside = !inside,
            b':' if !inside => count += 1,
            _ => {}
        }
    }
    count
}
