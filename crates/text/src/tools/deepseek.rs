//! `<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`, all between tokens of their own; before
//! version 3.1 with the kind of tool first and the arguments in a fenced block.
use super::{Name, Op, Opening, Syntax, plain};

const TOKENS: &[&str] = &[
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
];

/// Versions 2.5 to 3 and R1.
pub const FENCED: Syntax = Syntax {
    name: "deepseek_v3",
    models: "DeepSeek V2.5, V3, R1 and its distillations",
    calls: &[(
        Opening::Tag("<｜tool▁calls▁begin｜>"),
        &[
            Op::Text("<｜tool▁calls▁begin｜>"),
            Op::Until(
                &[
                    Op::Text("<｜tool▁call▁begin｜>"),
                    Op::Text("function<｜tool▁sep｜>"),
                    Op::Name(Name { until: "\n", before: &[], read: plain, around: ("", "\n") }),
                    Op::Text("```json"),
                    Op::Space("\n"),
                    Op::Json,
                    Op::Space("\n"),
                    Op::Text("```"),
                    Op::Space(""),
                    Op::Text("<｜tool▁call▁end｜>"),
                    Op::End,
                ],
                "<｜tool▁calls▁end｜>",
            ),
        ],
    )],
    marks: &["<｜tool▁sep｜>", "```json"],
    tokens: TOKENS,
};

/// From version 3.1 on.
pub const PLAIN: Syntax = Syntax {
    name: "deepseek_v3_1",
    models: "DeepSeek V3.1",
    calls: &[(
        Opening::Tag("<｜tool▁calls▁begin｜>"),
        &[
            Op::Text("<｜tool▁calls▁begin｜>"),
            Op::Until(
                &[
                    Op::Text("<｜tool▁call▁begin｜>"),
                    Op::Name(Name {
                        until: "<｜tool▁sep｜>",
                        before: &[],
                        read: plain,
                        around: ("", "<｜tool▁sep｜>"),
                    }),
                    Op::Json,
                    Op::Space(""),
                    Op::Text("<｜tool▁call▁end｜>"),
                    Op::End,
                ],
                "<｜tool▁calls▁end｜>",
            ),
        ],
    )],
    marks: &["<｜tool▁sep｜>"],
    tokens: TOKENS,
};
