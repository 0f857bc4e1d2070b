//! `{"name": …, "parameters": {…}}` as the answer itself, perhaps after `<|python_tag|>`, which also
//! begins calls of the built-in tools: `NAME.call(query="…")`.
use super::shape::{json as json_of, text};
use super::{Call, Declared, Op, Opening, Read, Shape, Syntax, Tools, Whole, lfm2, python};
use serde_json::{Map, Value, json};

pub const LLAMA3: Syntax = Syntax {
    name: "llama3",
    models: "Llama 3.1 to 3.3",
    calls: &[
        (Opening::Bare('{'), &[OBJECT, Op::End]),
        // Several are written one after the other.
        (Opening::Bare(';'), &[Op::Text(";"), Op::Space(" "), OBJECT, Op::End]),
        (
            Opening::Tag("<|python_tag|>"),
            &[
                Op::Text("<|python_tag|>"),
                Op::Whole(Whole { until: "", read, write, around: ("", None, ""), shapes }),
            ],
        ),
    ],
    marks: &["{\"name\": function name, \"parameters\":"],
    tokens: &["<|python_tag|>"],
};

const OBJECT: Op =
    Op::Object { name: &["name"], arguments: &["parameters", "arguments"], known: true };

/// What runs Python, which is written as it is.
const CODE: &str = "code_interpreter";

/// The tools that the template's `builtin_tools` names: what they take, the model was taught.
pub(super) fn built_in(vars: &Map<String, Value>) -> Vec<Declared> {
    let names = vars.get("builtin_tools").and_then(Value::as_array).into_iter().flatten();
    let one = |name: &str| {
        let argument = if name == CODE { "code" } else { "query" };
        let parameters = json!({"type": "object", "properties": {argument: {"type": "string"}},
            "required": [argument], "additionalProperties": false});
        Declared { name: name.to_owned(), parameters, built_in: true }
    };
    names.filter_map(Value::as_str).map(one).collect()
}

fn shapes(tool: &Declared) -> Vec<Shape> {
    if tool.built_in && tool.name == CODE {
        return vec![Shape::Rest];
    }
    if tool.built_in {
        let name = format!("{}.call", tool.name);
        return vec![lfm2::shape(&Declared { name, ..tool.clone() }, &[])];
    }
    let name = Value::from(&*tool.name);
    let begin = text(format!("{{\"name\": {name}, \"parameters\": "));
    vec![Shape::All(vec![begin, json_of(tool), text("}")])]
}

/// A built-in tool's call, or objects, or else code, if there is what runs it.
fn read(text: &str, tools: &Tools) -> Option<Vec<Read>> {
    let code = || {
        let arguments = json!({"code": text}).to_string();
        tools.get(CODE).filter(|tool| tool.built_in).map(|_| vec![(CODE.into(), arguments)])
    };
    known(text).or_else(code)
}

fn known(text: &str) -> Option<Vec<Read>> {
    if let Some(calls) = python::calls(text) {
        let [call] = calls.as_slice() else { return None };
        let name = call.name.strip_suffix(".call")?;
        let arguments = super::schema::object(call.named.clone())?;
        return call.positional.is_empty().then(|| vec![(name.into(), arguments.to_string())]);
    }
    let mut objects = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut all = Vec::new();
    let mut at = 0;
    while !text[at..].trim().is_empty() {
        all.push(object(&objects.next()?.ok()?)?);
        at += objects.byte_offset();
        let rest = text[at..].trim_start();
        at = text.len() - rest.strip_prefix(';').unwrap_or(rest).len();
        objects = serde_json::Deserializer::from_str(&text[at..]).into_iter();
    }
    (!all.is_empty()).then_some(all)
}

fn object(object: &Value) -> Option<Read> {
    let arguments = object.get("parameters").or_else(|| object.get("arguments"))?;
    let name = object.get("name")?.as_str()?;
    arguments.is_object().then(|| (name.to_owned(), arguments.to_string()))
}

fn write(calls: &[Call<'_>]) -> String {
    let one =
        |(name, arguments): &Call<'_>| json!({"name": name, "parameters": arguments}).to_string();
    calls.iter().map(one).collect::<Vec<_>>().join("; ")
}
