//! `POST /v1/embeddings`: vectors of texts.
use crate::base64;
use crate::fields::Fate::Inert;
use crate::fields::{COUNT, FLAG, Fates, Fields, Spec, TEXT, expected, field, needed};
use crate::models::{Brought, Held};
use crate::refusal::Refusal;
use crate::request::{EVERY, Wanted};
use rinfer_engine::batch::TokenId;
use rinfer_engine::embed::{Embed, Embedding, Input, Prompt};
use rinfer_engine::request::Cancel;
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
pub fn read(
    held: &Held,
    mut fields: Fields,
    ignored: &mut Vec<String>,
    cancel: &Cancel,
) -> Result<Wanted, Refusal> {
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
    let all = embedder.embed_until(&views, &how, cancel)?;
    let tokens: usize = all.iter().map(|one| one.tokens).sum();
    let data: Vec<Value> =
        all.iter().enumerate().map(|(i, one)| object(i, one, base64, truncate)).collect();
    Ok(Wanted::Value(json!({
        "object": "list", "data": data, "model": held.name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    })))
}

/// A vector; where texts may be cut, how much of its text was.
fn object(i: usize, one: &Embedding, in_base64: bool, truncate: bool) -> Value {
    let vector: Value = match in_base64 {
        true => {
            let bytes: Vec<u8> = one.vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            base64::encode(&bytes).into()
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

/// A list of token ids.
fn ids(at: &str, list: &[Value]) -> Result<Vec<TokenId>, Refusal> {
    let id = |(i, v): (usize, &Value)| {
        let id = v.as_u64().and_then(|id| u32::try_from(id).ok()).map(TokenId);
        id.ok_or_else(|| expected(&format!("{at}[{i}]"), "a token id", v))
    };
    list.iter().enumerate().map(id).collect()
}

/// `input`.
fn inputs(value: &Value) -> Result<Vec<Owned>, Refusal> {
    let wrong = |found: &Value| expected("input", KINDS, found);
    let all = match value {
        Value::String(text) => return Ok(vec![Owned::Text(text.clone())]),
        Value::Array(all) if !all.is_empty() => all,
        Value::Array(_) => return Err(Refusal::field("input", "is an empty list")),
        other => return Err(wrong(other)),
    };
    if all[0].is_number() {
        return Ok(vec![Owned::Tokens(ids("input", all)?)]);
    }
    if all.len() > MOST {
        let problem = format_args!("has {} elements: at most {MOST} are read at once", all.len());
        return Err(Refusal::field("input", problem));
    }
    let one = |(i, v): (usize, &Value)| match v {
        Value::String(text) => Ok(Owned::Text(text.clone())),
        Value::Array(list) => ids(&format!("input[{i}]"), list).map(Owned::Tokens),
        other => Err(expected(&format!("input[{i}]"), "a string, or a list of token ids", other)),
    };
    all.iter().enumerate().map(one).collect()
}
