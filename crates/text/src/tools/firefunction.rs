//! `functools[{"name": …, "arguments": {…}}, …]`.
use super::{Op, Opening, Syntax, tables::OBJECTS};

pub const FIREFUNCTION: Syntax = Syntax {
    name: "firefunction_v2",
    models: "FireFunction 2",
    calls: &[(Opening::Tag("functools["), &[Op::Text("functools"), Op::List(OBJECTS)])],
    marks: &["functools[{\"name\":"],
    tokens: &[],
};
