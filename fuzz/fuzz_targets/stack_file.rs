//! See `prony_fuzz::targets::stack_file`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| prony_fuzz::targets::stack_file(input));
