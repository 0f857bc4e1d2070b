//! `<|tools_prefix|>[{"NAME": {…}}, …]<|tools_suffix|>`.
use super::{Op, Opening, Syntax};

pub const APERTUS: Syntax = Syntax {
    name: "apertus",
    models: "Apertus",
    calls: &[(
        Opening::Tag("<|tools_prefix|>"),
        &[
            Op::Text("<|tools_prefix|>"),
            Op::Space(""),
            Op::List(&[Op::Keyed, Op::End]),
            Op::Space(""),
            Op::Text("<|tools_suffix|>"),
        ],
    )],
    marks: &["<|tools_prefix|>"],
    tokens: &["<|tools_prefix|>", "<|tools_suffix|>"],
};
