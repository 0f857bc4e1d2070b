//! `{"name": …, "arguments": {…}}` after `<|function_call|>`, or before that token was, in a message of
//! its own.
use super::{Op, Opening, Syntax, tables::OBJECT};

const MESSAGE: &str = "<|message_sep|>\n\nfunction call<|role_sep|>\n";

/// Version 3.
pub const GIGACHAT: Syntax = Syntax {
    name: "gigachat3",
    models: "GigaChat 3",
    calls: &[(Opening::Tag(MESSAGE), &[Op::Text(MESSAGE), OBJECT, Op::End])],
    marks: &["function call"],
    tokens: &["<|message_sep|>", "<|role_sep|>"],
};

/// Version 3.1.
pub const GIGACHAT31: Syntax = Syntax {
    name: "gigachat3_1",
    models: "GigaChat 3.1",
    calls: &[(
        Opening::Tag("<|function_call|>"),
        &[Op::Text("<|function_call|>"), OBJECT, Op::End],
    )],
    marks: &["<|function_call|>"],
    tokens: &["<|function_call|>"],
};
