//! `<function name="…"><param name="…">…</param></function>`; text with markup in it is `CDATA`.
use super::{Name, Op, Opening, Params, Syntax, plain};

pub const MINICPM: Syntax = Syntax {
    name: "minicpm5",
    models: "MiniCPM 5",
    calls: &[(
        Opening::Tag("<function name=\""),
        &[
            Op::Text("<function name=\""),
            Op::Name(Name { until: "\">", before: &[], read: plain, around: ("", "\">") }),
            Op::Params(&PARAMS),
            Op::Text("</function>"),
            Op::End,
        ],
    )],
    marks: &["<function name=", "<param name="],
    tokens: &[],
};

const PARAMS: Params = Params {
    open: "<param name=\"",
    key_end: "\"",
    value: ">",
    close: "</param>",
    pad: "",
    attributes: None,
    spaces: ("", ""),
    cdata: true,
};
