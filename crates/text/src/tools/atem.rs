//! `<atem:function_calls><atem:invoke name="…"><atem:parameter name="…">…</atem:parameter>`, in messages
//! to the tool.
use super::{Syntax, tables::invoked};

pub const ATEM: Syntax = Syntax {
    name: "atem",
    models: "Muse Glimmer",
    calls: invoked!("atem:function_calls", "atem:", None),
    marks: &["<atem:function_calls>"],
    tokens: &["<|start|>", "<|message|>", "<|eom|>", "<|eot|>"],
};
