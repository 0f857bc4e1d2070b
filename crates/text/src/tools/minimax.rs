//! Objects on lines between `<tool_calls>`; `<minimax:tool_call><invoke name="…"><parameter name="…">`; or
//! elements by the arguments' names, all the way down, each tag after a token.
use super::schema::{Types, object, property, resolve, typed};
use super::{Call, Name, Op, Opening, Params, Read, Syntax, Tools, Whole, plain};
use serde_json::{Map, Value};

/// Text 01 and M1.
pub const M1: Syntax = Syntax {
    name: "minimax_m1",
    models: "MiniMax Text 01, M1",
    calls: &[(
        Opening::Tag("<tool_calls>"),
        &[
            Op::Text("<tool_calls>"),
            Op::Space("\n"),
            Op::Until(
                &[
                    Op::Object { name: &["name"], arguments: &["arguments"], known: false },
                    Op::End,
                    Op::Space("\n"),
                ],
                "</tool_calls>",
            ),
        ],
    )],
    marks: &["<tool_calls>\n{\"name\":"],
    tokens: &["<tool_calls>", "</tool_calls>"],
};

/// M2.
pub const M2: Syntax = Syntax {
    name: "minimax_m2",
    models: "MiniMax M2",
    calls: &[(
        Opening::Tag("<minimax:tool_call>"),
        &[
            Op::Text("<minimax:tool_call>"),
            Op::Space("\n"),
            Op::Until(
                &[
                    Op::Text("<invoke name=\""),
                    Op::Name(Name {
                        until: "\">",
                        before: &[],
                        read: plain,
                        around: ("", "\">\n"),
                    }),
                    Op::Params(&PARAMS),
                    Op::Text("</invoke>"),
                    Op::End,
                    Op::Space("\n"),
                ],
                "</minimax:tool_call>",
            ),
        ],
    )],
    marks: &["<minimax:tool_call>"],
    tokens: &["<minimax:tool_call>", "</minimax:tool_call>"],
};

const PARAMS: Params = Params {
    open: "<parameter name=\"",
    key_end: "\"",
    value: ">",
    close: "</parameter>",
    pad: "",
    attributes: None,
    spaces: ("", "\n"),
    cdata: false,
};

/// M3.
pub const M3: Syntax = Syntax {
    name: "minimax_m3",
    models: "MiniMax M3",
    calls: &[(
        Opening::Tag("]<]minimax[>[<tool_call>"),
        &[
            Op::Text("]<]minimax[>[<tool_call>"),
            Op::Whole(Whole { until: "]<]minimax[>[</tool_call>", read, write }),
        ],
    )],
    marks: &["]<]minimax[>["],
    tokens: &["]<]minimax[>["],
};

const MARK: &str = "]<]minimax[>[";

fn read(text: &str, tools: &Tools) -> Option<Vec<Read>> {
    let mut rest = text.trim();
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let inner = rest.strip_prefix(MARK)?.strip_prefix("<invoke name=\"")?;
        let (name, inner) = inner.split_once("\">")?;
        let root = tools.get(name).map_or(&Value::Null, |tool| &tool.parameters);
        let (value, after) = element(inner, "invoke", root, root, 0)?;
        calls.push((plain(name)?.to_owned(), value.to_string()));
        rest = after.trim_start();
    }
    Some(calls).filter(|calls| !calls.is_empty())
}

/// The value of an element whose opening tag is behind, and what follows it: elements are an object
/// or, if all are items, a list; text has the type that its schema says.
fn element<'a>(
    text: &'a str,
    tag: &str,
    root: &Value,
    schema: &Value,
    depth: usize,
) -> Option<(Value, &'a str)> {
    if depth > 64 {
        return None;
    }
    let end = format!("{MARK}</{tag}>");
    let (mut rest, mut inner) = (text, Vec::new());
    loop {
        let at = rest.find(MARK)?;
        let (before, from) = rest.split_at(at);
        if let Some(after) = from.strip_prefix(end.as_str()) {
            let types = Types::of(root, schema);
            let empty = inner.is_empty() && depth > 0;
            let value = if empty && (types == Types::STRING || !before.is_empty()) {
                serde_json::from_str(&typed(before, types)).ok()?
            } else if !before.trim().is_empty() {
                return None;
            } else if types.is_array()
                || empty
                || inner.iter().all(|(key, _)| key == "item") && depth > 0
            {
                Value::Array(inner.into_iter().map(|(_, value)| value).collect())
            } else {
                object(inner)?
            };
            return Some((value, after));
        }
        let open = from[MARK.len()..].strip_prefix('<').filter(|_| before.trim().is_empty())?;
        let (key, after) = open.split_once('>')?;
        let schema = schema.get("$ref").and_then(|at| resolve(root, at)).unwrap_or(schema);
        let within = match key {
            "item" if schema.get("items").is_some() => schema.get("items"),
            _ => property(root, schema, key, 0),
        };
        let (value, after) = element(after, key, root, within.unwrap_or(&Value::Null), depth + 1)?;
        inner.push((key.to_owned(), value));
        rest = after;
    }
}

/// Nothing (`null`) is left out: there is no way to write it.
fn write(calls: &[Call<'_>]) -> String {
    let one = |(name, arguments): &Call<'_>| {
        format!("{MARK}<invoke name=\"{name}\">{}{MARK}</invoke>\n", elements(arguments))
    };
    format!("\n{}", calls.iter().map(one).collect::<String>())
}

fn elements(map: &Map<String, Value>) -> String {
    let there = map.iter().filter(|(_, value)| !value.is_null());
    there.map(|(key, value)| format!("{MARK}<{key}>{}{MARK}</{key}>", written(value))).collect()
}

fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            items.iter().map(|v| format!("{MARK}<item>{}{MARK}</item>", written(v))).collect()
        }
        Value::Object(map) => elements(map),
        other => other.to_string(),
    }
}
