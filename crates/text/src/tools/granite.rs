//! `<|tool_call|>` and a list of objects, which nothing ends.
use super::{Op, Opening, Syntax, tables::OBJECTS};

pub const GRANITE: Syntax = Syntax {
    name: "granite",
    models: "Granite 3, Phi-4-mini",
    calls: &[(
        Opening::Tag("<|tool_call|>"),
        &[Op::Text("<|tool_call|>"), Op::Space(""), Op::List(OBJECTS)],
    )],
    marks: &["<|tool_call|>"],
    tokens: &["<|tool_call|>"],
};
