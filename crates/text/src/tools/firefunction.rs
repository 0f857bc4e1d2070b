//! `functools[{"name": …, "arguments": {…}}, …]`.
use super::{Op, Opening, Syntax};

pub const FIREFUNCTION: Syntax = Syntax {
    name: "firefunction_v2",
    models: "FireFunction 2",
    calls: &[(
        Opening::Tag("functools["),
        &[
            Op::Text("functools"),
            Op::List(&[
                Op::Object { name: &["name"], arguments: &["arguments"], known: false },
                Op::End,
            ]),
        ],
    )],
    marks: &["functools[{\"name\":"],
    tokens: &[],
};
