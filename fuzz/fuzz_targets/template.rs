//! See `prony_fuzz::targets::template`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| prony_fuzz::targets::template(input));
