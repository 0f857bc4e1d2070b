//! `<TOOLCALL>[{"name": …, "arguments": {…}}, …]</TOOLCALL>`.
use super::{Op, Opening, Syntax};

pub const NEMOTRON: Syntax = Syntax {
    name: "nemotron",
    models: "Nemotron Nano 2, Llama-Nemotron",
    calls: &[(
        Opening::Tag("<TOOLCALL>"),
        &[
            Op::Text("<TOOLCALL>"),
            Op::Space(""),
            Op::List(&[
                Op::Object { name: &["name"], arguments: &["arguments"], known: false },
                Op::End,
            ]),
            Op::Space(""),
            Op::Text("</TOOLCALL>"),
        ],
    )],
    marks: &["<TOOLCALL>["],
    tokens: &["<TOOLCALL>", "</TOOLCALL>"],
};
