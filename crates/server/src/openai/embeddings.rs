//! `POST /v1/embeddings`: vectors of texts.
use crate::fields::Fate::Inert;
use crate::fields::{COUNT, FLAG, Fates, Fields, Spec, TEXT, expected, field, needed};
use crate::models::{Brought, Held};
use crate::refusal::Refusal;
use crate::request::{EVERY, Wanted};
use rinfer_engine::batch::TokenId;
use rinfer_engine::embed::{Embed, Embedding, Input, Prompt};
use serde_json::{Value, json};

/// What is documented and not read.
pub const FATES: Fates = &[("user", Inert("nobody is watched"))];

/// What the route takes and gives.
pub const SPEC: Spec = Spec {
    about: "Vectors of texts",
    known: &[
        EVERY,
        &[
            needed(
                "input",
                r#"{"type": ["string", "array"], "items": {"type": ["string", "integer", "array"]}, "minItems": 1}"#,
                "A text, a list of token ids, or a list of either",
            ),
            field(
                "encoding_format",
                r#"{"type": "string", "enum": ["float", "base64"]}"#,
                "How vectors are written",
            ),
            field("dimensions", COUNT, "Cuts vectors, at unit length again"),
            field("truncate", FLAG, "An input that is too long is cut, and how much is told"),
            field("prompt_name", TEXT, "One of the model's prompts, put before each text"),
        ],
    ],
    fates: FATES,
    answer: "Embeddings",
    streams: None,
};

/// Inputs of a request, as OpenAI has it.
const MOST: usize = 2048;
/// What inputs are.
const KINDS: &str = "a string, a list of strings, a list of token ids, or a list of such lists";

/// Reads a request, and answers it.
pub fn read(held: &Held, mut fields: Fields, ignored: &mut Vec<String>) -> Result<Wanted, Refusal> {
    let Brought::Embedder(embedder) = &held.model else {
        return Err(held.model.unfit(&held.name));
    };
    let input = fields.value("input");
    let inputs = inputs(&fields.needed("input", input)?)?;
    let base64 = match fields.text("encoding_format")?.as_deref() {
        None | Some("float") => false,
        Some("base64") => true,
        Some(other) => {
            let problem = format_args!("is '{other}': allowed are float and base64");
            return Err(Refusal::field("encoding_format", problem));
        }
    };
    let dimensions = fields.count("dimensions")?;
    let truncate = fields.flag("truncate")?.unwrap_or(false);
    let prompt = fields.text("prompt_name")?.map_or(Prompt::Default, Prompt::Named);
    fields.close(&SPEC, ignored)?;
    let _pass = held.gate.enter(1)?;
    let how = Embed { prompt, dimensions, truncate };
    let views: Vec<Input<'_>> = inputs.iter().map(Owned::view).collect();
    let all = embedder.embed_all(&views, &how)?;
    let tokens: usize = all.iter().map(|one| one.tokens).sum();
    let data: Vec<Value> =
        all.iter().enumerate().map(|(i, one)| object(i, one, base64, truncate)).collect();
    Ok(Wanted::Value(json!({
        "object": "list", "data": data, "model": held.name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })))
}

/// A vector; where texts may be cut, how much of its text was.
fn object(i: usize, one: &Embedding, base64: bool, truncate: bool) -> Value {
    let vector: Value = match base64 {
        true => {
            let bytes: Vec<u8> = one.vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            encode(&bytes).into()
        }
        false => one.vector.iter().map(|x| decimal(*x)).collect(),
    };
    let mut object = json!({"object": "embedding", "index": i, "embedding": vector});
    if truncate {
        object["truncated_tokens"] = one.cut.into();
    }
    object
}

/// As the shortest decimal that gives it back.
pub fn decimal(x: f32) -> Value {
    x.to_string().parse::<f64>().unwrap_or(f64::from(x)).into()
}

/// Base64 with padding. RFC 4648, section 4.
fn encode(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

/// An input.
enum Owned {
    Text(String),
    Tokens(Vec<TokenId>),
}

impl Owned {
    fn view(&self) -> Input<'_> {
        match self {
            Owned::Text(text) => Input::Text(text),
            Owned::Tokens(ids) => Input::Tokens(ids),
        }
    }
}

/// `input`.
fn inputs(value: &Value) -> Result<Vec<Owned>, Refusal> {
    let wrong = |found: &Value| expected("input", KINDS, found);
    let id = |v: &Value| v.as_u64().and_then(|id| u32::try_from(id).ok()).map(TokenId);
    let ids = |list: &[Value]| list.iter().map(id).collect::<Option<Vec<_>>>().map(Owned::Tokens);
    let all = match value {
        Value::String(text) => return Ok(vec![Owned::Text(text.clone())]),
        Value::Array(all) if !all.is_empty() => all,
        Value::Array(_) => return Err(Refusal::field("input", "is an empty list")),
        other => return Err(wrong(other)),
    };
    if all[0].is_number() {
        return Ok(vec![ids(all).ok_or_else(|| wrong(value))?]);
    }
    if all.len() > MOST {
        let problem = format_args!("has {} elements: at most {MOST} are read at once", all.len());
        return Err(Refusal::field("input", problem));
    }
    let one = |(i, v): (usize, &Value)| match v {
        Value::String(text) => Ok(Owned::Text(text.clone())),
        Value::Array(list) => {
            let what = "a string, or a list of token ids";
            ids(list).ok_or_else(|| expected(&format!("input[{i}]"), what, v))
        }
        other => Err(expected(&format!("input[{i}]"), "a string, or a list of token ids", other)),
    };
    all.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648.
    #[test]
    fn base64_of_the_standard() {
        for (text, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(text.as_bytes()), encoded);
        }
        assert_eq!(encode(&1.5f32.to_le_bytes()), "AADAPw==");
    }
}
