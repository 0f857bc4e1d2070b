//! `<tool_call><function=…><parameter=…>…</parameter></function></tool_call>`: each value on lines
//! of its own.
use super::{Syntax, tables::equated};

pub const QWEN3_CODER: Syntax = Syntax {
    name: "qwen3_coder",
    models: "Qwen3-Coder, Qwen 3.5, Nemotron 3",
    calls: equated!("tool_call", "\n"),
    marks: &["<tool_call>", "<function=", "<parameter="],
    tokens: &["<tool_call>", "</tool_call>"],
};
