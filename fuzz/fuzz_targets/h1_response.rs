//! See `prony_fuzz::targets::h1_response`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| prony_fuzz::targets::h1_response(input));
