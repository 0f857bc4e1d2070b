//! `<function=NAME>{…}</function>`; or messages, each to a recipient: `>>>NAME` and, on the next line,
//! the arguments.
use super::shape::text;
use super::{Header, Name, Op, Opening, Syntax, plain};

/// Version 3.1.
pub const FUNCTION: Syntax = Syntax {
    name: "functionary_v3_1",
    models: "Functionary 3.1, Llama 3.1 by its own prompt",
    calls: &[(
        Opening::Tag("<function="),
        &[
            Op::Text("<function="),
            Op::Name(Name { until: ">", before: &[], read: plain, around: ("", ">") }),
            Op::Json,
            Op::Space(""),
            Op::Text("</function>"),
            Op::End,
        ],
    )],
    marks: &["<function=example_function_name>{"],
    tokens: &[],
};

/// Version 3.2.
pub const RECIPIENT: Syntax = Syntax {
    name: "functionary_v3_2",
    models: "Functionary 3.2",
    calls: &[(Opening::Message(&HEADER), &[Op::Json, Op::End])],
    marks: &[">>>${recipient}"],
    tokens: &[],
};

const HEADER: Header =
    Header { open: "", after: || text("\n"), before: || text(""), again: Some(">>>") };
