//! Any bytes as a quantised folder.
#![no_main]
#[path = "../exercise/formats.rs"]
#[allow(dead_code)]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::quantised(bytes));
