//! `[TOOL_CALLS]` before a list of objects, or before each name, `[ARGS]` and its arguments.
use super::{Name, Op, Opening, Syntax, plain, tables::OBJECTS};

/// Up to version 7 of Mistral's tokenizers.
pub const LIST: Syntax = Syntax {
    name: "mistral",
    models: "Mistral 7B v0.3, Nemo, Large, Small 3.1",
    calls: &[(
        Opening::Tag("[TOOL_CALLS]"),
        &[Op::Text("[TOOL_CALLS]"), Op::Space(""), Op::List(OBJECTS)],
    )],
    marks: &["[TOOL_CALLS]", "\"arguments\""],
    tokens: &["[TOOL_CALLS]"],
};

/// From version 11 on; version 11 has the call's id between.
pub const NAMED: Syntax = Syntax {
    name: "mistral_v11",
    models: "Mistral Small 3.2, Magistral, Devstral, Ministral 3",
    calls: &[(
        Opening::Tag("[TOOL_CALLS]"),
        &[
            Op::Text("[TOOL_CALLS]"),
            Op::Name(Name { until: "[ARGS]", before: &[], read, around: ("", "[ARGS]") }),
            Op::Json,
            Op::End,
        ],
    )],
    marks: &["[TOOL_CALLS]", "[ARGS]"],
    tokens: &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
};

fn read(text: &str) -> Option<&str> {
    plain(text.split("[CALL_ID]").next()?)
}
