//! `<tool_calls>[{"name": …, "arguments": {…}}, …]</tool_calls>`.
use super::Syntax;
use super::tables::{OBJECTS, listed};

pub const APRIEL: Syntax = Syntax {
    name: "apriel",
    models: "Apriel 1.5 and 1.6, Hunyuan",
    calls: listed!("<tool_calls>", OBJECTS, "</tool_calls>"),
    marks: &["<tool_calls>["],
    tokens: &["<tool_calls>", "</tool_calls>"],
};
