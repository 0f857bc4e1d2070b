//! Any bytes as a bundle, and as one whose checksums are right.
#![no_main]
#[path = "../exercise/formats.rs"]
#[allow(dead_code)]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::bundle(bytes));
