//! Checks and chores that are not tests of behaviour.
#![forbid(unsafe_code)]

fn main() {}
