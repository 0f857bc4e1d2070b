//! `<seed:tool_call><function=…><parameter=…>…</parameter></function></seed:tool_call>`.
use super::{Syntax, tables::equated};

pub const SEED: Syntax = Syntax {
    name: "seed_oss",
    models: "Seed-OSS",
    calls: equated!("seed:tool_call", ""),
    marks: &["<seed:tool_call>"],
    tokens: &["<seed:tool_call>", "</seed:tool_call>"],
};
