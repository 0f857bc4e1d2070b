//! Any bytes as a program with a bundle, and as one that is given another.
#![no_main]
#[path = "../exercise/formats.rs"]
#[allow(dead_code)]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::executable(bytes));
