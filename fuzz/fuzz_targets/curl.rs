//! See `prony_fuzz::targets::curl`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| prony_fuzz::targets::curl(input));
