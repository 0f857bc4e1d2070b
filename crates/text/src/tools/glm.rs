//! `<tool_call>NAME<arg_key>…</arg_key><arg_value>…</arg_value></tool_call>`, with or without lines.
use super::{Name, Op, Opening, Params, Syntax, plain};

pub const GLM: Syntax = Syntax {
    name: "glm",
    models: "GLM 4.5 to 4.7, Ling 3, Spark 2.5, Laguna",
    calls: &[(
        Opening::Tag("<tool_call>"),
        &[
            Op::Text("<tool_call>"),
            Op::Name(Name {
                until: "",
                before: &["<arg_key>", "</tool_call>"],
                read: plain,
                around: ("", "\n"),
            }),
            Op::Params(&PARAMS),
            Op::Text("</tool_call>"),
            Op::End,
        ],
    )],
    marks: &["<tool_call>", "<arg_key>"],
    tokens: &[
        "<tool_call>",
        "</tool_call>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
    ],
};

const PARAMS: Params = Params {
    open: "<arg_key>",
    key_end: "</arg_key>",
    value: "<arg_value>",
    close: "</arg_value>",
    pad: "",
    attributes: None,
    spaces: ("\n", "\n"),
    cdata: false,
};
