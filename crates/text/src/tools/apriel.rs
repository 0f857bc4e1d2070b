//! `<tool_calls>[{"name": …, "arguments": {…}}, …]</tool_calls>`.
use super::{Op, Opening, Syntax};

pub const APRIEL: Syntax = Syntax {
    name: "apriel",
    models: "Apriel 1.5 and 1.6, Hunyuan",
    calls: &[(
        Opening::Tag("<tool_calls>"),
        &[
            Op::Text("<tool_calls>"),
            Op::Space(""),
            Op::List(&[
                Op::Object { name: &["name"], arguments: &["arguments"], known: false },
                Op::End,
            ]),
            Op::Space(""),
            Op::Text("</tool_calls>"),
        ],
    )],
    marks: &["<tool_calls>["],
    tokens: &["<tool_calls>", "</tool_calls>"],
};
