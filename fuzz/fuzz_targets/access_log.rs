//! See `prony_fuzz::targets::access_log`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| prony_fuzz::targets::access_log(input));
