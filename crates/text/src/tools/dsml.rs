//! `<｜DSML｜invoke name="…"><｜DSML｜parameter name="…" string="true">…</｜DSML｜parameter>`: the attribute says
//! whether a value is text or JSON.
use super::{Name, Op, Opening, Params, Syntax, plain};

pub const DSML: Syntax = Syntax {
    name: "dsml",
    models: "DeepSeek V4",
    calls: &[(
        Opening::Tag("<｜DSML｜tool_calls>"),
        &[
            Op::Text("<｜DSML｜tool_calls>"),
            Op::Space("\n"),
            Op::Until(
                &[
                    Op::Text("<｜DSML｜invoke name=\""),
                    Op::Name(Name {
                        until: "\">",
                        before: &[],
                        read: plain,
                        around: ("", "\">\n"),
                    }),
                    Op::Params(&PARAMS),
                    Op::Text("</｜DSML｜invoke>"),
                    Op::End,
                    Op::Space("\n"),
                ],
                "</｜DSML｜tool_calls>",
            ),
        ],
    )],
    marks: &["｜DSML｜"],
    tokens: &["｜DSML｜"],
};

const PARAMS: Params = Params {
    open: "<｜DSML｜parameter name=\"",
    key_end: "\"",
    value: ">",
    close: "</｜DSML｜parameter>",
    pad: "",
    attributes: Some(("string=\"true\"", "string=\"false\"")),
    spaces: ("", "\n"),
    cdata: false,
};
