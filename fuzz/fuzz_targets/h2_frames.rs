//! See `prony_fuzz::targets::h2_frames`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| prony_fuzz::targets::h2_frames(input));
