//! `<|tool_call_start|>[f(a=1, b='x'), g()]<|tool_call_end|>`: calls as Python writes them.
use super::notation;
use super::schema::object;
use super::shape::text;
use super::{Call, Declared, Op, Opening, Read, Shape, Syntax, Tools, Whole, python};

pub const LFM2: Syntax = Syntax {
    name: "lfm2",
    models: "LFM2",
    calls: &[(
        Opening::Tag("<|tool_call_start|>"),
        &[
            Op::Text("<|tool_call_start|>"),
            Op::Whole(Whole {
                until: END,
                read,
                write,
                around: ("[", Some(", "), "]"),
                shapes: |tool| vec![shape(tool, &[END])],
            }),
        ],
    )],
    marks: &["List of tools: <|tool_list_start|>"],
    tokens: &["<|tool_call_start|>", "<|tool_call_end|>"],
};

const END: &str = "<|tool_call_end|>";

/// A call as Python has it.
pub(super) fn shape(tool: &Declared, without: &[&str]) -> Shape {
    let arguments = Shape::Object(tool.parameters.clone(), notation::python(without));
    Shape::All(vec![text([&*tool.name, "("].concat()), arguments, text(")")])
}

/// Arguments by position are the parameters in their declared order.
fn read(text: &str, tools: &Tools) -> Option<Vec<Read>> {
    let calls = python::calls(text)?;
    let call = |call: python::Call| {
        let declared = tools.get(&call.name).and_then(|tool| tool.parameters.get("properties"));
        let keys: Vec<&String> =
            declared.and_then(|v| v.as_object()).into_iter().flat_map(|map| map.keys()).collect();
        if keys.len() < call.positional.len() {
            return None;
        }
        let keys = keys.into_iter().cloned();
        let arguments = object(keys.zip(call.positional).chain(call.named))?;
        Some((call.name, arguments.to_string()))
    };
    calls.into_iter().map(call).collect()
}

fn write(calls: &[Call<'_>]) -> String {
    let one = |(name, arguments): &Call<'_>| {
        let pairs = arguments.iter().map(|(key, value)| format!("{key}={}", python::write(value)));
        format!("{name}({})", pairs.collect::<Vec<_>>().join(", "))
    };
    format!("[{}]", calls.iter().map(one).collect::<Vec<_>>().join(", "))
}
