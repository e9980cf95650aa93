#![no_main]

#[path = "../invariants.rs"]
#[allow(dead_code)]
mod invariants;

libfuzzer_sys::fuzz_target!(|data: &[u8]| invariants::frames(data));
