//! `<tool_call><function=…><parameter=…>…</parameter></function></tool_call>`: each value on lines
//! of its own.
use super::{Name, Op, Opening, Params, Syntax, plain};

pub const QWEN3_CODER: Syntax = Syntax {
    name: "qwen3_coder",
    models: "Qwen3-Coder, Qwen 3.5, Nemotron 3",
    calls: &[(
        Opening::Tag("<tool_call>"),
        &[
            Op::Text("<tool_call>"),
            Op::Space("\n"),
            Op::Text("<function="),
            Op::Name(Name { until: ">", before: &[], read: plain, around: ("", ">\n") }),
            Op::Params(&PARAMS),
            Op::Text("</function>"),
            Op::Space("\n"),
            Op::Text("</tool_call>"),
            Op::End,
        ],
    )],
    marks: &["<tool_call>", "<function=", "<parameter="],
    tokens: &["<tool_call>", "</tool_call>"],
};

const PARAMS: Params = Params {
    open: "<parameter=",
    key_end: ">",
    value: "",
    close: "</parameter>",
    pad: "\n",
    attributes: None,
    spaces: ("", "\n"),
    cdata: false,
};
