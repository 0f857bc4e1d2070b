//! Any bytes as a tokenizer.json.
#![no_main]
#[path = "../exercise/text.rs"]
mod exercise;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| exercise::tokenizer_json(bytes));
