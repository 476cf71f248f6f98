//! See `prony_fuzz::targets::json_pointer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| prony_fuzz::targets::json_pointer(input));
