//! `<|tools_prefix|>[{"NAME": {…}}, …]<|tools_suffix|>`.
use super::{Op, Syntax, tables::listed};

pub const APERTUS: Syntax = Syntax {
    name: "apertus",
    models: "Apertus",
    calls: listed!("<|tools_prefix|>", &[Op::Keyed, Op::End], "<|tools_suffix|>"),
    marks: &["<|tools_prefix|>"],
    tokens: &["<|tools_prefix|>", "<|tools_suffix|>"],
};
