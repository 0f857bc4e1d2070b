//! A list of objects with `tool_name` and `parameters`, between action tokens, or after `Action:` in
//! a fenced block.
use super::{Op, Opening, Syntax, tables::listed};

const CALL: &[Op] =
    &[Op::Object { name: &["tool_name"], arguments: &["parameters"], known: false }, Op::End];

/// Command R7B, Command A and later.
pub const ACTION: Syntax = Syntax {
    name: "command_r7b",
    models: "Command R7B, Command A",
    calls: listed!("<|START_ACTION|>", CALL, "<|END_ACTION|>"),
    marks: &["<|START_ACTION|>"],
    tokens: &["<|START_ACTION|>", "<|END_ACTION|>"],
};

/// Command R and R+.
pub const COMMAND_R: Syntax = Syntax {
    name: "command_r",
    models: "Command R, Command R+",
    calls: &[(
        Opening::Tag("Action:"),
        &[
            Op::Text("Action:"),
            Op::Space("\n"),
            Op::Text("```json"),
            Op::Space("\n"),
            Op::List(CALL),
            Op::Space(""),
            Op::Text("```"),
        ],
    )],
    marks: &["Write 'Action:' followed by a json-formatted list"],
    tokens: &[],
};
