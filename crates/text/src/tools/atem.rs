//! `<atem:function_calls><atem:invoke name="…"><atem:parameter name="…">…</atem:parameter>`, in messages
//! to the tool.
use super::{Name, Op, Opening, Params, Syntax, plain};

pub const ATEM: Syntax = Syntax {
    name: "atem",
    models: "Muse Glimmer",
    calls: &[(
        Opening::Tag("<atem:function_calls>"),
        &[
            Op::Text("<atem:function_calls>"),
            Op::Space("\n"),
            Op::Until(
                &[
                    Op::Text("<atem:invoke name=\""),
                    Op::Name(Name {
                        until: "\">",
                        before: &[],
                        read: plain,
                        around: ("", "\">\n"),
                    }),
                    Op::Params(&PARAMS),
                    Op::Text("</atem:invoke>"),
                    Op::End,
                    Op::Space("\n"),
                ],
                "</atem:function_calls>",
            ),
        ],
    )],
    marks: &["<atem:function_calls>"],
    tokens: &["<|start|>", "<|message|>", "<|eom|>", "<|eot|>"],
};

const PARAMS: Params = Params {
    open: "<atem:parameter name=\"",
    key_end: "\"",
    value: ">",
    close: "</atem:parameter>",
    pad: "",
    attributes: None,
    spaces: ("", "\n"),
    cdata: false,
};
