//! How tokens are chosen: the fields that OpenAI's APIs and rinfer's extensions have in common.
use crate::config::Config;
use crate::fields::{COUNT, FLAG, Field, Fields, OBJECT, TEXT, expected, field};
use crate::refusal::Refusal;
use rinfer_engine::batch::TokenId;
use rinfer_engine::sample::{Sampling, Think};
use rinfer_grammar::{Grammar, Spacing};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Texts that may end an answer.
const STOPS: usize = 64;

/// What all answers take.
pub const COMMON: &[Field] = &[
    field(
        "temperature",
        r#"{"type": "number", "minimum": 0}"#,
        "0 always takes the most probable token",
    ),
    field(
        "top_p",
        r#"{"type": "number", "minimum": 0, "maximum": 1}"#,
        "Keeps the most probable tokens up to this probability together",
    ),
    field("top_k", COUNT, "Keeps this many of the most probable tokens; 0 keeps all"),
    field(
        "min_p",
        r#"{"type": "number", "minimum": 0, "maximum": 1}"#,
        "Keeps tokens at least this fraction as probable as the best",
    ),
    field(
        "repeat_penalty",
        r#"{"type": "number", "exclusiveMinimum": 0}"#,
        "Makes tokens of the last repeat_last_n less probable; 1 is off",
    ),
    field("repeat_last_n", COUNT, "How many tokens repeat_penalty is about"),
    field("seed", r#"{"type": "integer"}"#, "The same seed gives the same answer"),
    field("think_budget", COUNT, "Tokens of thoughts before the answer is to begin"),
    field(
        "cache_prompt",
        FLAG,
        "false: nothing that was computed before is used, and nothing is kept",
    ),
    field("regex", TEXT, "The answer is a text that this regular expression matches"),
    field(
        "grammar",
        TEXT,
        "The answer is of this grammar: GBNF if it defines rules with ::=, else Lark",
    ),
    field(
        "choice",
        r#"{"type": "array", "items": {"type": "string"}}"#,
        "The answer is one of these texts",
    ),
];

/// What chat completions and completions take besides.
pub const CHAT: &[Field] = &[
    field("response_format", OBJECT, "Holds the answer to JSON, or to a JSON Schema"),
    field(
        "presence_penalty",
        r#"{"type": "number", "minimum": -2, "maximum": 2}"#,
        "Makes tokens that the answer has less probable",
    ),
    field(
        "frequency_penalty",
        r#"{"type": "number", "minimum": -2, "maximum": 2}"#,
        "The same, once for each occurrence",
    ),
    field(
        "stop",
        r#"{"type": ["string", "array"], "items": {"type": "string"}}"#,
        "Texts that end the answer and are not part of it",
    ),
    field(
        "logit_bias",
        r#"{"type": "object", "additionalProperties": {"type": "number"}}"#,
        "Added to tokens' logits, by token id",
    ),
];

/// What an answer is to be held to, and the field that says so.
pub type Form = (&'static str, Grammar);

/// Reads what chat completions say about sampling; the rest is the model's own.
pub fn read(fields: &mut Fields, own: &Sampling, config: &Config) -> Result<Sampling, Refusal> {
    let format = match fields.object("response_format")? {
        Some(format) => response_format(format)?,
        None => None,
    };
    let mut s = common(fields, own, config, format.map(|format| ("response_format", format)))?;
    s.presence_penalty = fields.number("presence_penalty")?.unwrap_or(s.presence_penalty);
    s.frequency_penalty = fields.number("frequency_penalty")?.unwrap_or(s.frequency_penalty);
    s.stop.extend(stop(fields)?);
    s.logit_bias.extend(bias(fields)?);
    Ok(s)
}

/// Reads what all routes take. `form` is what the answer is held to by the route's own field.
pub fn common(
    fields: &mut Fields,
    own: &Sampling,
    config: &Config,
    form: Option<Form>,
) -> Result<Sampling, Refusal> {
    let mut s = own.clone();
    fn set<T>(to: &mut T, given: Option<T>) {
        if let Some(given) = given {
            *to = given;
        }
    }
    set(&mut s.temperature, fields.number("temperature")?);
    set(&mut s.top_p, fields.number("top_p")?);
    set(&mut s.top_k, fields.count("top_k")?);
    set(&mut s.min_p, fields.number("min_p")?);
    set(&mut s.repeat_penalty, fields.number("repeat_penalty")?);
    set(&mut s.repeat_last_n, fields.count("repeat_last_n")?);
    s.seed = fields.seed("seed")?.unwrap_or_else(config.draw);
    set(&mut s.cache_prompt, fields.flag("cache_prompt")?);
    s.think_budget = fields.count("think_budget")?.or(s.think_budget);
    s.grammar = held(fields, form)?.map(Arc::new).or(s.grammar);
    Ok(s)
}

/// The least of what the fields of these names ask and what the server allows.
pub fn bound(
    s: &mut Sampling,
    fields: &mut Fields,
    names: &[&str],
    config: &Config,
) -> Result<(), Refusal> {
    let mut least = None;
    for name in names {
        let asked = fields.count(name)?;
        if asked == Some(0) {
            return Err(Refusal::field(fields.path(name), "is 0: allowed is 1 or more"));
        }
        least = least.into_iter().chain(asked).min();
    }
    s.max_tokens = least.or(s.max_tokens).into_iter().chain(config.max_tokens).min();
    Ok(())
}

/// `stop`: a text or a list of them.
fn stop(fields: &mut Fields) -> Result<Vec<String>, Refusal> {
    let path = fields.path("stop");
    match fields.value("stop") {
        None => Ok(Vec::new()),
        Some(Value::Array(list)) => stops(&path, list),
        Some(one @ Value::String(_)) => stops(&path, vec![one]),
        Some(other) => Err(expected(&path, "a string or a list of strings", &other)),
    }
}

/// Texts that may end an answer, of the field at `path`.
pub fn stops(path: &str, list: Vec<Value>) -> Result<Vec<String>, Refusal> {
    if list.len() > STOPS {
        let problem = format_args!("has {} texts: at most {STOPS} are allowed", list.len());
        return Err(Refusal::field(path, problem));
    }
    let text = |value| match value {
        Value::String(text) if text.is_empty() => {
            Err(Refusal::field(path, "has an empty text, which would end every answer at once"))
        }
        Value::String(text) => Ok(text),
        other => Err(expected(path, "a list of strings", &other)),
    };
    list.into_iter().map(text).collect()
}

/// `logit_bias`: by token id.
fn bias(fields: &mut Fields) -> Result<Vec<(TokenId, f32)>, Refusal> {
    let path = fields.path("logit_bias");
    let Some(map) = fields.map("logit_bias")? else { return Ok(Vec::new()) };
    let one = |(id, bias): (&String, &Value)| {
        let at = format!("{path}.{id}");
        let token = id.parse().map_err(|_| Refusal::field(&at, "the name is no token id"))?;
        let bias = bias.as_f64().ok_or_else(|| expected(&at, "a number", bias))?;
        Ok((TokenId(token), bias as f32))
    };
    map.iter().map(one).collect()
}

/// The one form that an answer is held to: the route's own, or one of rinfer's `regex`, `grammar`, `choice`.
fn held(fields: &mut Fields, own: Option<Form>) -> Result<Option<Grammar>, Refusal> {
    let regex = fields.text("regex")?.map(|text| ("regex", Grammar::Regex(text)));
    let grammar = fields.text("grammar")?.map(|text| {
        let gbnf = text.contains("::=");
        ("grammar", if gbnf { Grammar::Gbnf(text) } else { Grammar::Lark(text) })
    });
    let choices = choices(fields)?.map(|list| ("choice", Grammar::Choice(list)));
    let mut given = [own, regex, grammar, choices].into_iter().flatten();
    let (first, second) = (given.next(), given.next());
    match (first, second) {
        (Some((first, _)), Some((second, _))) => {
            let problem =
                format!("holds the answer to a form, and so does {first}: give one of them");
            Err(Refusal::field(second, problem))
        }
        (first, _) => Ok(first.map(|(_, grammar)| grammar)),
    }
}

fn choices(fields: &mut Fields) -> Result<Option<Vec<String>>, Refusal> {
    let path = fields.path("choice");
    let Some(list) = fields.list("choice")? else { return Ok(None) };
    let text = |v: &Value| {
        v.as_str().map(str::to_owned).ok_or_else(|| expected(&path, "a list of strings", v))
    };
    list.iter().map(text).collect::<Result<_, _>>().map(Some)
}

/// A form as responses have it: a schema stands in the format itself.
pub fn format(mut format: Fields) -> Result<Option<Grammar>, Refusal> {
    if format.peek("type").is_some_and(|kind| kind == "json_schema") {
        return schema(&mut format).map(Some);
    }
    response_format(format)
}

/// OpenAI's `response_format`.
fn response_format(mut format: Fields) -> Result<Option<Grammar>, Refusal> {
    let kind = format.text("type")?;
    match format.needed("type", kind)?.as_str() {
        "text" => Ok(None),
        "json_object" => Ok(Some(Grammar::Object(Spacing::default()))),
        "json_schema" => {
            let given = format.object("json_schema")?;
            let mut given = format.needed("json_schema", given)?;
            schema(&mut given).map(Some)
        }
        other => {
            let text = format!("'{other}' is none of text, json_object, json_schema");
            Err(Refusal::field(format.path("type"), text))
        }
    }
}

/// A named schema.
pub fn schema(given: &mut Fields) -> Result<Grammar, Refusal> {
    let (path, schema) = (given.path("schema"), given.value("schema"));
    let schema = given.needed("schema", schema)?;
    if !schema.is_object() && !schema.is_boolean() {
        return Err(expected(&path, "a JSON Schema", &schema));
    }
    Ok(Grammar::Schema(schema, Spacing::default()))
}

/// `reasoning_effort`, by whichever name: whether there are thoughts, and for templates that know degrees, how many.
pub fn effort(
    s: &mut Sampling,
    vars: &mut Map<String, Value>,
    fields: &mut Fields,
    name: &str,
) -> Result<(), Refusal> {
    let Some(effort) = fields.text(name)? else { return Ok(()) };
    s.think = match effort.as_str() {
        "none" => Think::Off,
        "minimal" | "low" | "medium" | "high" | "xhigh" => Think::On,
        other => {
            let text = format!("'{other}' is none of none, minimal, low, medium, high, xhigh");
            return Err(Refusal::field(fields.path(name), text));
        }
    };
    vars.entry("reasoning_effort").or_insert_with(|| effort.into());
    Ok(())
}
