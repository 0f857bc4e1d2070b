//! `<TOOLCALL>[{"name": …, "arguments": {…}}, …]</TOOLCALL>`.
use super::Syntax;
use super::tables::{OBJECTS, listed};

pub const NEMOTRON: Syntax = Syntax {
    name: "nemotron",
    models: "Nemotron Nano 2, Llama-Nemotron",
    calls: listed!("<TOOLCALL>", OBJECTS, "</TOOLCALL>"),
    marks: &["<TOOLCALL>["],
    tokens: &["<TOOLCALL>", "</TOOLCALL>"],
};
