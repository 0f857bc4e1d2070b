//! What a Rust program uses.
#![forbid(unsafe_code)]
