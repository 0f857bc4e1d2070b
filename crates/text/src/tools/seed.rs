//! `<seed:tool_call><function=…><parameter=…>…</parameter></function></seed:tool_call>`.
use super::{Name, Op, Opening, Params, Syntax, plain};

pub const SEED: Syntax = Syntax {
    name: "seed_oss",
    models: "Seed-OSS",
    calls: &[(
        Opening::Tag("<seed:tool_call>"),
        &[
            Op::Text("<seed:tool_call>"),
            Op::Space("\n"),
            Op::Text("<function="),
            Op::Name(Name { until: ">", before: &[], read: plain, around: ("", ">\n") }),
            Op::Params(&PARAMS),
            Op::Text("</function>"),
            Op::Space("\n"),
            Op::Text("</seed:tool_call>"),
            Op::End,
        ],
    )],
    marks: &["<seed:tool_call>"],
    tokens: &["<seed:tool_call>", "</seed:tool_call>"],
};

const PARAMS: Params = Params {
    open: "<parameter=",
    key_end: ">",
    value: "",
    close: "</parameter>",
    pad: "",
    attributes: None,
    spaces: ("", "\n"),
    cdata: false,
};
