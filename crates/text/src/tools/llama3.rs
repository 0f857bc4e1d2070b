//! `{"name": …, "parameters": {…}}` as the answer itself, perhaps after `<|python_tag|>`, which also
//! begins calls of the built-in tools: `NAME.call(query="…")`.
use super::{Call, Op, Opening, Read, Syntax, Tools, Whole, python};
use serde_json::{Value, json};

pub const LLAMA3: Syntax = Syntax {
    name: "llama3",
    models: "Llama 3.1 to 3.3",
    calls: &[
        (Opening::Bare('{'), &[OBJECT, Op::End]),
        // Several are written one after the other.
        (Opening::Bare(';'), &[Op::Text(";"), Op::Space(" "), OBJECT, Op::End]),
        (
            Opening::Tag("<|python_tag|>"),
            &[Op::Text("<|python_tag|>"), Op::Whole(Whole { until: "", read, write })],
        ),
    ],
    marks: &["{\"name\": function name, \"parameters\":"],
    tokens: &["<|python_tag|>"],
};

const OBJECT: Op =
    Op::Object { name: &["name"], arguments: &["parameters", "arguments"], known: true };

/// A built-in tool's call, or objects.
fn read(text: &str, _: &Tools) -> Option<Vec<Read>> {
    if let Some(calls) = python::calls(text) {
        let [call] = calls.as_slice() else { return None };
        let name = call.name.strip_suffix(".call")?;
        let arguments = super::schema::object(call.named.clone())?;
        return call.positional.is_empty().then(|| vec![(name.into(), arguments.to_string())]);
    }
    let objects = text.split(';').map(str::trim).filter(|part| !part.is_empty());
    objects.map(object).collect()
}

fn object(text: &str) -> Option<Read> {
    let object: Value = serde_json::from_str(text).ok()?;
    let arguments = object.get("parameters").or_else(|| object.get("arguments"))?;
    let name = object.get("name")?.as_str()?;
    arguments.is_object().then(|| (name.to_owned(), arguments.to_string()))
}

fn write(calls: &[Call<'_>]) -> String {
    let one =
        |(name, arguments): &Call<'_>| json!({"name": name, "parameters": arguments}).to_string();
    calls.iter().map(one).collect::<Vec<_>>().join("; ")
}
