//! `<|tool_call_start|>[f(a=1, b='x'), g()]<|tool_call_end|>`: calls as Python writes them.
use super::schema::object;
use super::{Call, Op, Opening, Read, Syntax, Tools, Whole, python};

pub const LFM2: Syntax = Syntax {
    name: "lfm2",
    models: "LFM2",
    calls: &[(
        Opening::Tag("<|tool_call_start|>"),
        &[
            Op::Text("<|tool_call_start|>"),
            Op::Whole(Whole { until: "<|tool_call_end|>", read, write }),
        ],
    )],
    marks: &["List of tools: <|tool_list_start|>"],
    tokens: &["<|tool_call_start|>", "<|tool_call_end|>"],
};

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
