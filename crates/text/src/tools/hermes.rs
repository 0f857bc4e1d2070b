//! `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, once for each call.
use super::{Op, Opening, Syntax};

pub const HERMES: Syntax = Syntax {
    name: "hermes",
    models: "Hermes 2 and 3, Qwen 2.5 and 3, QwQ, Granite 4, MiMo, Bielik, Reka",
    calls: &[(
        Opening::Tag("<tool_call>"),
        &[
            Op::Text("<tool_call>"),
            Op::Space("\n"),
            Op::Object { name: &["name"], arguments: &["arguments", "parameters"], known: false },
            Op::Space("\n"),
            Op::Text("</tool_call>"),
            Op::End,
        ],
    )],
    marks: &["<tool_call>", "{\"name\":"],
    tokens: &["<tool_call>", "</tool_call>"],
};
