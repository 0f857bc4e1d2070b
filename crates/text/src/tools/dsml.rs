//! `<｜DSML｜invoke name="…"><｜DSML｜parameter name="…" string="true">…</｜DSML｜parameter>`: the attribute says
//! whether a value is text or JSON.
use super::{Syntax, tables::invoked};

pub const DSML: Syntax = Syntax {
    name: "dsml",
    models: "DeepSeek V4",
    calls: invoked!(
        "｜DSML｜tool_calls",
        "｜DSML｜",
        Some(("string=\"true\"", "string=\"false\""))
    ),
    marks: &["｜DSML｜"],
    tokens: &["｜DSML｜"],
};
