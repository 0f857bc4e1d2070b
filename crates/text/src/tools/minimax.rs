//! Objects on lines between `<tool_calls>`; `<minimax:tool_call><invoke name="…"><parameter name="…">`; or
//! elements by the arguments' names, all the way down, each tag after a token.
use super::notation;
use super::schema::{Types, property, resolve, typed};
use super::shape::text;
use super::tables::{OBJECT, invoked};
use super::{Call, Declared, Op, Opening, Read, Shape, Syntax, Tools, Whole, plain};
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
            Op::Until(&[OBJECT, Op::End, Op::Space("\n")], "</tool_calls>"),
        ],
    )],
    marks: &["<tool_calls>\n{\"name\":"],
    tokens: &["<tool_calls>", "</tool_calls>"],
};

/// M2.
pub const M2: Syntax = Syntax {
    name: "minimax_m2",
    models: "MiniMax M2",
    calls: invoked!("minimax:tool_call", "", None),
    marks: &["<minimax:tool_call>"],
    tokens: &["<minimax:tool_call>", "</minimax:tool_call>"],
};

/// M3.
pub const M3: Syntax = Syntax {
    name: "minimax_m3",
    models: "MiniMax M3",
    calls: &[(
        Opening::Tag("]<]minimax[>[<tool_call>"),
        &[
            Op::Text("]<]minimax[>[<tool_call>"),
            Op::Whole(Whole {
                until: "]<]minimax[>[</tool_call>",
                read,
                write,
                around: ("\n", Some(""), ""),
                shapes,
            }),
        ],
    )],
    marks: &["]<]minimax[>["],
    tokens: &["]<]minimax[>["],
};

const MARK: &str = "]<]minimax[>[";

fn shapes(tool: &Declared) -> Vec<Shape> {
    let arguments = Shape::Object(tool.parameters.clone(), notation::elements(MARK, "item"));
    let open = text(format!("{MARK}<invoke name=\"{}\">", tool.name));
    vec![Shape::All(vec![open, arguments, text(format!("{MARK}</invoke>\n"))])]
}

fn read(text: &str, tools: &Tools) -> Option<Vec<Read>> {
    let mut rest = text.trim();
    let mut calls = Vec::new();
    while !rest.is_empty() {
        let inner = rest.strip_prefix(MARK)?.strip_prefix("<invoke name=\"")?;
        let (name, inner) = inner.split_once("\">")?;
        let root = tools.get(name).map_or(&Value::Null, |tool| &tool.parameters);
        let (value, after) = element(inner, root, root, 0)?;
        calls.push((plain(name)?.to_owned(), value.to_string()));
        rest = after.trim_start();
    }
    Some(calls).filter(|calls| !calls.is_empty())
}

/// The value of an element whose opening tag is behind, and what follows it: elements are an object
/// or, if all are items, a list; text has the type that its schema says. Whatever tag closes it, it is
/// the innermost that is closed.
fn element<'a>(
    text: &'a str,
    root: &Value,
    schema: &Value,
    depth: usize,
) -> Option<(Value, &'a str)> {
    if depth > 64 {
        return None;
    }
    let (mut rest, mut inner) = (text, Vec::new());
    loop {
        let at = rest.find(MARK)?;
        let (before, from) = rest.split_at(at);
        let tag = from[MARK.len()..].strip_prefix('<')?;
        let (name, after) = tag.split_once('>')?;
        if name.starts_with('/') {
            let types = Types::of(root, schema);
            let value = if inner.is_empty() && depth > 0 {
                text_of(before, types)?
            } else if !before.trim().is_empty() {
                return None;
            } else if depth > 0 && !types.is_object() && inner.iter().all(|(key, _)| key == "item")
            {
                Value::Array(inner.into_iter().map(|(_, value)| value).collect())
            } else {
                Value::Object(inner.into_iter().collect())
            };
            return Some((value, after));
        }
        if !before.trim().is_empty() {
            return None;
        }
        let schema = schema.get("$ref").and_then(|at| resolve(root, at)).unwrap_or(schema);
        let within = match name {
            "item" if schema.get("items").is_some() => schema.get("items"),
            _ => property(root, schema, name, 0),
        };
        let (value, after) = element(after, root, within.unwrap_or(&Value::Null), depth + 1)?;
        inner.push((name.to_owned(), value));
        rest = after;
    }
}

/// The value of an element without others in it. An empty one is a list or an object if it may be.
fn text_of(text: &str, types: Types) -> Option<Value> {
    match text {
        "" if types.has_array() => Some(Value::Array(Vec::new())),
        "" if types.has_object() => Some(Value::Object(Map::new())),
        _ => serde_json::from_str(&typed(text, types)).ok(),
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
